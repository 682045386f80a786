"""Estimators of tables whose rows have labels that are numbers: which columns, within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis.mechanisms.run import Plan
from ndis.mechanisms.tabular import TableEstimator
from ndis.tables import Columns, Rows, Table, on_host


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

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        return self._both(self._features(table, self._aside(labels)), labels)

    def _aside(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The columns that are no features."""
        return tuple(labels)

    def _rows_declared(self, n_features: int | None, label: Any = None) -> Rows:
        labels = [label] if isinstance(label, str) else list(label or [])
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
        return self._both_named(known["columns"], labels)

    def _finish(self, rows: Rows) -> None:
        arrays = self.release_.arrays
        self.coef_ = np.asarray(arrays["coef"], dtype=np.float64)
        intercept = np.asarray(arrays["intercept"], dtype=np.float64)
        self.intercept_ = float(intercept) if intercept.ndim == 0 else intercept
        self.feature_names_ = rows.features.names[int(rows.features.intercept) :]
        self._recipe_ = rows

    def _public(self, data: Table) -> dict[str, Any]:
        return {**super()._public(data), "label": list(data.rows.labels.columns)}

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
