"""Estimators of tables whose rows have labels that are numbers: which columns, within limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndis.mechanisms.run import Plan
from ndis.mechanisms.tabular import TableEstimator
from ndis.release import Release
from ndis.tables import PRIVATE, Columns, Rows, Table, known_levels, on_host

if TYPE_CHECKING:
    from ndis.tables.formulas import Design


@dataclass(kw_only=True, eq=False, repr=False)
class LabelledEstimator(TableEstimator):
    """An estimator that explains one or several columns by others.

    Parameters
    ----------
    label_limits : (low, high), or sequence of pairs, optional
        Public limits of the label, or of each label; or its entry in `limits`, by its name.
    """

    label_limits: Any = None
    labelled, _certified = True, frozenset({"label"})
    formula: ClassVar[str | None] = None  # a parameter of those that take one

    def plan(self, n_features: Any = None, label: Any = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        n_features : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        label : str or sequence of str, optional
            The names of the labels, where `limits` or `columns` name them; the last if not given.
        """
        rows = self._rows_declared(n_features, label)
        return self._how(rows)._plan(rows)

    @property
    def _design(self) -> Design | None:
        """The design matrix of the formula, from public limits and levels."""
        if self.formula is None:
            return None
        limits = self.limits
        if not isinstance(limits, Mapping) or PRIVATE in limits.values():
            raise ValueError(
                f"Expected public limits by name for a formula, got limits={limits!r}; name the "
                "least and largest value of every numeric column."
            )
        from ndis.tables.formulas import Design

        design = Design.of(
            self.formula,
            Columns(list(limits), limits=limits).limits or {},
            known_levels(self.levels),
        )
        if design.intercept != bool(self.fit_intercept):
            choice = "fit_intercept" in self.get_params()
            raise ValueError(
                f"Expected fit_intercept={design.intercept} for {self.formula!r}, got "
                f"fit_intercept={self.fit_intercept}; "
                f"{'say the same in both' if choice else 'a constant is always fitted here'}."
            )
        return design

    def _design_columns(self, design: Design) -> Columns:
        """The recipe for the design matrix; no row of it is longer than the root of its terms."""
        norm = math.sqrt(design.n_terms)
        norm = norm if self.data_norm is None else min(norm, self.data_norm)
        return Columns(design.names, {}, design.limits, norm, *self._placed())

    def _open(self, X: Any, y: Any = None) -> tuple[Table, tuple[str, ...]]:
        design = self._design
        if design is None:
            return super()._open(X, y)
        if y is None:
            y = design.label
        if isinstance(y, str) and design.label not in (None, y):
            raise ValueError(
                f"Expected the label {design.label!r} of the formula, got {y!r}; correct one."
            )
        table, labels = super()._open(X, y)
        return table.mapped(design), labels

    def _features(self, table: Table, labels: Sequence[str] = ()) -> Columns:
        design = self._design
        return super()._features(table, labels) if design is None else self._design_columns(design)

    def _new_rows(self, X: Any, features: Columns) -> Table:
        design = self._design
        if design is None:
            return super()._new_rows(X, features)
        table = super()._new_rows(X, Columns(design.columns, norm=1.0))
        return table.mapped(design).with_rows(Rows(features), drop_missing=False)

    def _adopt(self, release: Release, data: Any, found: Any = None) -> None:
        super()._adopt(release, data, found)
        if (design := self._design) is not None:
            self._features_read = design.columns
            if not hasattr(self, "feature_names_in_"):
                self.n_features_in_ = len(design.columns)

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        return self._both(self._features(table, self._aside(labels)), labels)

    def _aside(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The columns that are no features."""
        return tuple(labels)

    def _rows_declared(self, n_features: int | None, label: Any = None) -> Rows:
        labels = [label] if isinstance(label, str) else list(label or [])
        if (design := self._design) is not None:
            return self._both(self._design_columns(design), labels or [design.label or "y"])
        names: Sequence[str] | None = self._listed()
        if names is None and isinstance(self.limits, Mapping):
            names = [*self.limits, *(self.levels or {})]
        if names is None:
            features = self._declared(n_features)
            return self._both(features, labels or ["y"])
        known = (*(self.levels or {}), *self._aside(()))
        labels = labels or [name for name in names if name not in known][-1:]
        return self._both_named(names, labels)

    def _both_named(self, names: Sequence[str], labels: Sequence[str]) -> Rows:
        """Features and labels among columns of these names."""
        aside = self._aside(labels)
        left = [name for name in names if name not in aside]
        return self._both(self._recipe(left, self._limits_of(left, aside)), labels)

    def _both(self, features: Columns, labels: Sequence[str]) -> Rows:
        """Features and labels together."""
        raise NotImplementedError

    def _rows_certified(self) -> Rows:
        known = self.release_.parameters
        labels = [known["label"]] if isinstance(known["label"], str) else list(known["label"])
        if (design := self._design) is not None:
            return self._both(self._design_columns(design), labels)
        return self._both_named(known["columns"], labels)

    def _finish(self, rows: Rows) -> None:
        arrays = self.release_.arrays
        self.coef_ = np.asarray(arrays["coef"], dtype=np.float64)
        intercept = np.asarray(arrays["intercept"], dtype=np.float64)
        self.intercept_ = float(intercept) if intercept.ndim == 0 else intercept
        self.feature_names_ = rows.features.names[int(rows.features.intercept) :]
        self._recipe_ = rows

    def _public(self, data: Table) -> dict[str, Any]:
        labels, design = list(data.rows.labels.columns), self._design
        raw = {} if design is None else {"columns": [*design.columns, *labels]}
        return {**super()._public(data), **raw, "label": labels}

    def _plan_certified(self, parameters: Mapping[str, Any]) -> Plan:
        return self.plan(label=parameters.get("label"))

    def _raw(self, X: Any) -> Any:
        """The features of new rows as numbers, for predictions.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or a table with the features' columns
        """
        blocks = self._new_rows(X, self._recipe_.features).blocks(raw=True)
        return np.hstack([on_host(block.features) for block in blocks]).T
