"""Estimators of tables: which columns they read, within which public bounds.

A new one writes `_plan` (what is bought), `_study` (what is read before anything is paid), `_draw`
(what is released, from what was studied and a generator) and `_finish` (what follows from the
release). Limits that nobody knows are found before all of these (`octaves.FindingLimits`).
docs/how-to-add-a-mechanism.md has an example.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ndis import _validate
from ndis._validate import wrong
from ndis.mechanisms import octaves, people
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.manners import Scored, require_fitted, validated
from ndis.mechanisms.plugins import method_named
from ndis.mechanisms.run import EstimatorMethod, Method, Plan, Run
from ndis.mechanisms.target import Target, require_rows
from ndis.release import Release
from ndis.tables import (
    PRIVATE,
    Block,
    Columns,
    ExactSum,
    Rows,
    Table,
    Weighting,
    known_levels,
    on_host,
    require_names,
)
from ndis.tables.columns import are_dates, default_names

# An estimator cannot see earlier steps of a pipeline.
EARLIER = "Whatever was done to the array before is not covered."


# How scikit-learn checks arrays; what is missing gets our sentence, and no rows are answered.
_NUMBERS = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": 0}


def _names(X: Any) -> list[str] | None:
    """The names of a data frame's columns; None of arrays, and of frames that number them."""
    if isinstance(X, Table):
        return None
    if hasattr(X, "collect_schema"):  # a LazyFrame warns who asks it for columns
        found = X.collect_schema().names()
    else:
        found = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", None)
    if found is None:
        return None
    names = list(found)
    return names if all(isinstance(name, str) for name in names) else None


def _apart(name: str, taken: Collection[str]) -> str:
    """A name that none of these is."""
    while name in taken:
        name += "_"
    return name


def _elsewhere(X: Any) -> bool:
    """Whether these are rows of another array library, perhaps on a graphics card."""
    return hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray)


def _is_stored(X: Any) -> bool:
    """Whether these are files, or a table that has been opened."""
    return isinstance(X, Table | str | os.PathLike)


def _is_private(limits: Any) -> bool:
    return isinstance(limits, str) and limits == PRIVATE


def _is_pair(limits: Any) -> bool:
    """Whether these are the limits of one column, or of all."""
    return len(limits) == 2 and all(np.ndim(end) == 0 and not _is_private(end) for end in limits)


def _by_name(names: Sequence[str], limits: Any, what: str) -> dict[str, Any]:
    """The limits of columns in order; one pair stands for all."""
    pairs = [tuple(limits)] * len(names) if _is_pair(limits) else list(limits)
    if len(pairs) != len(names):
        raise ValueError(
            f"Expected one pair of limits for each of {len(names)} {what}, got {len(pairs)}; "
            "list (low, high) for every column in order."
        )
    return dict(zip(names, pairs, strict=True))


class _Scoring(Scored):
    """What lets `score` take the name of the label's column."""

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As in scikit-learn: R^2 of a regression, the share of right answers of a classifier.

        Parameters
        ----------
        X : table
            With the columns that were fitted.
        y : array_like or str
            Labels, or the name of the label's column in `X`.
        sample_weight : array_like, optional
        """
        if isinstance(y, str):
            X = Table.open(X, [*self._features_read, y])
            y = self._label_values(Table.open(X, [y]))
        return float(super().score(X, y, sample_weight))


class Regressor(_Scoring):
    """A regressor as scikit-learn knows it, for estimators of tables."""

    _type: ClassVar[str | None] = "regressor"

    def _label_values(self, table: Table) -> Any:
        """The numbers in the one column of a table."""
        view = table.with_rows(Rows(Columns(table.columns, norm=1.0)))
        return np.hstack([on_host(block.features)[0] for block in view.blocks(raw=True)])


class Classifier(_Scoring):
    """A classifier as scikit-learn knows it, for estimators of tables."""

    _type: ClassVar[str | None] = "classifier"

    def _label_values(self: Any, table: Table) -> Any:
        """The classes in the one column of a table."""
        recipe = Columns(table.columns, {table.columns[0]: self.classes_.tolist()})
        blocks = table.with_rows(Rows(recipe)).blocks(raw=True)
        indicators = np.hstack([on_host(block.features) for block in blocks])
        if not indicators.any(axis=0).all():
            raise unclassified_labels()
        return self.classes_[indicators.argmax(axis=0)]


def unclassified_labels() -> ValueError:
    """The error for labels that are none of the declared classes."""
    return ValueError(
        "Expected labels from the declared classes, got another one; remove those rows, declare "
        "more classes, or use a regression where labels are continuous."
    )


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(PrivateEstimator):
    """An estimator that reads a table: which columns, within which public bounds.

    Parameters
    ----------
    limits : mapping of str to (low, high), sequence of pairs, one pair, or "private", optional
        The public limits of every numeric column, in the order of the columns for arrays; one pair
        stands for all. Values are clipped to them, and everything is computed on columns scaled by
        them. "private", also instead of a pair: nobody knows them, and a tenth of the squared
        budget finds them.
    data_norm : float, optional
        A public bound on the Euclidean norm of a row; longer rows are scaled down to it. With
        `limits` it bounds the scaled row, intercept included. One of the two is needed.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns; each becomes an indicator column.
    columns : sequence of str, optional
        The columns to read, the label among them; all if not given.
    n_rows : int, optional
        The number of rows, only where it is public: then it becomes part of the release.
    drop_missing : bool, default False
        Whether `fit` leaves out rows with missing or infinite values; otherwise they are an error.
    person : str, optional
        The column that says whose row it is, where people may have several. The promise is then
        for all rows of one person, who together count at most as much as one row.
    rows_per_person : int or "private", default 1
        With `person`: everybody counts once, by the mean of their rows, if it is 1; if it is K,
        rows count alike up to K of a person, and 1/K each. "private": a 200th of the squared
        budget finds a K that keeps four rows in five, as far as the noise allows.
    missing_person : {"refuse", "own"}, default "refuse"
        With `person`: "own" declares that each row that does not say whose it is belongs to a
        person of its own. The promise then rests on that. Otherwise such rows are an error, or left
        out with `drop_missing`.
    sample_weight : str, optional
        A column of weights. Counts and sums are then those of weights over `max_weight`.
    max_weight : float, optional
        The public bound of these weights; larger ones are cut to it.
    """

    limits: Any = None
    data_norm: float | None = None
    levels: Mapping[str, Sequence[Any]] | None = None
    columns: Sequence[str] | None = None
    n_rows: int | None = None
    drop_missing: bool = False
    person: str | None = None
    rows_per_person: int | str = 1
    missing_person: str = "refuse"
    sample_weight: str | None = None
    max_weight: float | None = None
    fit_intercept = False
    needs: ClassVar[tuple[str, ...]] = ("limits|data_norm",)
    # Whether the table is read again once its limits are known; what else is added up of its raw
    # rows in the pass that finds them (see `_check_raw`).
    _reads_again = True
    # Whether all that is released are sums with noise whose law does not depend on the table.
    weighs: ClassVar[bool] = False
    # How clear the signal has to be for rows of a person to count alike (see `people`).
    _clear: ClassVar[float] = people.CLEAR
    _checked: ClassVar[tuple[Callable[[Block], Mapping[str, Any]], ...]] = ()

    def plan(self, n_features: Any = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        n_features : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        """
        rows = self._rows_declared(n_features)
        return self._how(rows)._plan(rows)

    def _weighting(self) -> Weighting | None:
        """How much rows count; None if all count once."""
        given = {
            name: value
            for name in ("person", "sample_weight", "max_weight")
            if (value := getattr(self, name)) is not None
        }
        if not given:
            if self.rows_per_person != 1:
                raise ValueError(
                    f"Expected rows_per_person only together with person, got "
                    f"{self.rows_per_person!r}; name the column that says whose row it is."
                )
            Weighting(missing_person=self.missing_person)
            return None
        if not self._takes_weights():
            method = getattr(self, "method", None)
            how = f" with method={method!r}" if self.methods else ""
            raise ValueError(
                f"Expected no {' or '.join(given)} for {type(self).__name__}{how}, whose noise "
                "depends on the table, so that weights do not protect people; make one row of "
                "each person first (the mean of their rows), or use another method."
            )
        if self.n_rows is not None:
            raise wrong("n_rows")(
                f"Expected no public number of rows where rows have weights, got n_rows="
                f"{self.n_rows}; leave it out, and the total weight is released with noise."
            )
        # One that is to be found is one until then.
        number: Any = 1 if self._buys_rows() else self.rows_per_person
        return Weighting(rows_per_person=number, missing_person=self.missing_person, **given)

    def _takes_weights(self) -> bool:
        other = self._other
        return self.weighs if other is None else other.weighs

    def _how(self, rows: Rows) -> Method:
        """How a table with this recipe for its rows is treated."""
        then: Method = self._other or self
        if self._buys_rows():
            then = people.FindingRowsPerPerson(self, then)
        # Limits come first: they are found best where everybody counts once.
        return octaves.FindingLimits(self, then) if rows.bought else then

    def _buys_rows(self) -> bool:
        """Whether it is bought how many rows of a person count alike."""
        return self.person is not None and _is_private(self.rows_per_person)

    @property
    def _other(self) -> EstimatorMethod | None:
        """The method of another package, where one is asked for."""
        name = getattr(self, "method", "auto")
        if name == "auto" or name in self.methods:
            return None
        made: EstimatorMethod = method_named(type(self), name, ("auto", *self.methods))(self)
        return made

    def _target(self, rows: Rows | None = None, relation: str = "add-remove") -> Target:
        """What is asked for, checked; rows whose limits are to be found must be shown."""
        target = super()._target()
        if rows is None and _is_private(self.limits):
            raise ValueError(
                f'Expected limits of {type(self).__name__} to be public, got "private"; pass the '
                "least and largest value of every column."
            )
        bought, weighting = 0 if rows is None else len(rows.bought), self._weighting()
        person = None if weighting is None else weighting.person
        limits = octaves.sensitivity(bought, relation)
        alone = weighting is not None and weighting.alone
        return replace(target, limits=limits, person=person, counts=self._buys_rows(), alone=alone)

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Open the table, and say what will happen to it; reads no row and spends nothing.

        Parameters
        ----------
        X : table
            Anything that `ndis.tables.Table.open` opens: arrays, data frames, Arrow, Parquet or CSV
            files, DuckDB, Spark or Dask tables, tensors on a graphics card.
        y : array_like or str, optional
            Labels, or the name of the label's column.
        plan : Plan, optional
            One that was made before for such a table, as auditors do.
        """
        table, labels = self._open(X, y)
        rows = self._rows(table, labels)
        method = self._how(rows)
        plan = method._plan(rows) if plan is None else plan
        note = plan.guarantee.note
        if hasattr(X, "shape") and not hasattr(X, "columns") and EARLIER not in note:  # an array
            earlier = replace(plan.guarantee, note=f"{note} {EARLIER}".strip())
            plan = replace(plan, guarantee=earlier)
        return Run(self, table.weighed(self._weighting()).with_rows(rows), plan, method)

    def _adopt(self, release: Release, data: Any, found: Any = None) -> None:
        super()._adopt(release, data, found)
        rows = self._rows_certified() if data is None else data.rows
        self._features_read = names = rows.features.columns
        self._nameless = names == default_names(len(names)) if data is None else data.nameless
        if not hasattr(self, "feature_names_in_"):
            self.n_features_in_ = len(names)
        self._solution = found
        rows = octaves.found(rows, release.arrays, self.noise_scale_)
        if self.person is not None:
            self.rows_per_person_ = self.rows_per_person
            if self._buys_rows():
                known = release.arrays, self.noise_scale_
                self.rows_per_person_ = people.rows_per_person(*known, self._clear)
        self._finish(rows)
        if self._other is not None:
            self._other.finish(rows)

    def _finish(self, rows: Rows) -> None:
        """Set the fitted attributes, from the release and the public recipe."""
        raise NotImplementedError

    def _rows_certified(self) -> Rows:
        """The recipe for rows that a certificate implies."""
        return self._rows_declared(None)

    def _check_raw(self, sums: Mapping[str, ExactSum]) -> None:
        """Refuse a table by what `_checked` adds up, before anything is paid."""

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        """The recipe for a table's rows; estimators with labels say more."""
        return Rows(self._features(table, labels))

    def _rows_declared(self, n_features: int | None) -> Rows:
        """The same, as far as parameters declare it."""
        return Rows(self._declared(n_features))

    def _open(self, X: Any, y: Any = None) -> tuple[Table, tuple[str, ...]]:
        """The table, its schema looked at once; and the names of the labels."""
        typed = [*(self.levels or {}), *(self.limits if isinstance(self.limits, Mapping) else {})]
        dropping = bool(self.drop_missing)
        typed += [name for name in (self.person, self.sample_weight) if name is not None]
        if y is None or isinstance(y, str):
            if hasattr(self, "feature_names_in_"):  # of an earlier fit to rows and labels
                del self.feature_names_in_
            names: tuple[str, ...] = () if y is None else (y,)
            table = Table.open(X, self.columns, typed=[*typed, *names], drop_missing=dropping)
            for name in names:
                if name not in table.columns:
                    where = "columns" if self.columns is not None else "the table"
                    raise wrong("columns")(
                        f"Expected the label among {where}, got {name!r}, which is not there; "
                        f"add it, or name one of {', '.join(map(repr, table.columns))}."
                    )
            return table, names
        if (features := _names(X)) is not None:
            return self._open_frame(X, y, features, typed)
        if self.person is not None or self.sample_weight is not None:
            raise ValueError(
                "Expected a table with named columns where rows have weights, got an array; hand "
                "over a data frame."
            )
        rows, labels = self._arrays(X, y)
        n_labels = 1 if labels.ndim == 1 else labels.shape[1]
        names = ("y",) if n_labels == 1 else tuple(f"y{index}" for index in range(n_labels))
        columns = [*default_names(rows.shape[1]), *names]
        table = Table.open(rows, columns, labels=labels, label="y", drop_missing=dropping)
        return table, names

    def _open_frame(
        self, X: Any, y: Any, features: Sequence[str], typed: Sequence[str]
    ) -> tuple[Table, tuple[str, ...]]:
        """A data frame and labels beside it, which keep their name where they have one."""
        require_names(features, [*typed, *(self.columns or ())], y)
        validated(self, X, skip_check_array=True)  # remembers the names of the columns
        if (own := _names(y)) is None:
            own = [y.name] if isinstance(getattr(y, "name", None), str) else ["y"]
            if np.ndim(y) == 2 and (n_labels := np.shape(y)[1]) > 1:
                own = [f"{own[0]}{index}" for index in range(n_labels)]
        labels = tuple(_apart(name, features) for name in own)
        columns = None
        if self.columns is not None:
            columns = [*(name for name in self.columns if name not in labels), *labels]
        known, dropping = [*features, *labels], bool(self.drop_missing)
        table = Table.open(X, columns, labels=y, label=labels, typed=known, drop_missing=dropping)
        return table, labels

    def _arrays(self, X: Any, y: Any, numeric: bool = True) -> tuple[Any, Any]:
        """Rows and labels as arrays, checked as scikit-learn checks them."""
        if _elsewhere(X):
            self.n_features_in_ = X.shape[1]
            return X, y if hasattr(y, "__dlpack__") else np.asarray(y)
        of_rows: dict[str, Any] = {"accept_sparse": "csr", **_NUMBERS}
        # Labels may be missing, or all rows.
        if self.drop_missing or np.asarray(y).shape[:1] == (0,):
            of_labels = {**_NUMBERS, "ensure_2d": False, "dtype": "numeric" if numeric else None}
            rows, labels = validated(self, X, y, validate_separately=(of_rows, of_labels))
        else:
            how = {"y_numeric": numeric, "multi_output": numeric}
            rows, labels = validated(self, X, y, **how, **of_rows)
        return rows, labels

    def _new_rows(self, X: Any, features: Columns) -> Table:
        """Rows to be answered for, by name or by position, as in `fit`; none is left out."""
        require_fitted(self)
        names, known = _names(X), hasattr(self, "feature_names_in_")
        by_name = names is not None and (not self._nameless or {*features.columns} <= {*names})
        if by_name and known:
            validated(self, X, reset=False, skip_check_array=True)
        elif not (by_name or _elsewhere(X) or _is_stored(X)):
            X = validated(self, X, reset=False, accept_sparse="csr", **_NUMBERS)
            if known and [*self.feature_names_in_] != [*features.columns]:
                X = X[:, [[*self.feature_names_in_].index(name) for name in features.columns]]
        return Table.open(X, features.columns).with_rows(Rows(features), drop_missing=False)

    def _limits_of(self, names: Sequence[str], labels: Sequence[str] = ()) -> Any:
        """The limits of some columns by name; None if only norms are declared."""
        if self.limits is None:
            return None
        if _is_private(self.limits):
            return {name: PRIVATE for name in names if name not in (self.levels or {})}
        if isinstance(self.limits, Mapping):
            wanted = [name for name in names if name not in (self.levels or {})]
            for name in self.limits:
                if name not in (*wanted, *labels):
                    raise ValueError(
                        f"Expected limits of columns that are read, got {name!r}; correct the "
                        "name, or add it to columns."
                    )
            return {name: self.limits[name] for name in wanted if name in self.limits}
        return _by_name(names, self.limits, "features")

    def _dated(self, names: Sequence[str]) -> list[str]:
        """Those of some columns whose public limits are dates."""
        limits = self._limits_of(names)
        return [name for name in names if are_dates((limits or {}).get(name))]

    def _label_limits(self, labels: Sequence[str]) -> dict[str, Any] | None:
        """The limits of the labels by name: `label_limits`, those in `limits`, or to be found."""
        given = getattr(self, "label_limits", None)
        if given is None and isinstance(self.limits, Mapping):
            return {name: self.limits[name] for name in labels if name in self.limits} or None
        if given is None and not _is_private(self.limits):
            return None
        if given is None or _is_private(given):
            return dict.fromkeys(labels, PRIVATE)
        return _by_name(labels, given, "labels")

    def _features(self, table: Table, labels: Sequence[str] = ()) -> Columns:
        """How the features of a table become rows on the grid."""
        if self.labelled and not labels:
            raise ValueError(
                "Expected labels, got none; pass them as y, or name their column in y. "
                "This estimator requires y to be passed, but the target y is None."
            )
        others = (*labels, self.person, self.sample_weight)
        names = [name for name in table.columns if name not in others]
        return self._recipe(names, self._limits_of(names, labels), table.widths)

    def _recipe(
        self, names: Sequence[str], limits: Any, widths: Mapping[str, int] | None = None
    ) -> Columns:
        return Columns(
            names,
            {name: known for name, known in known_levels(self.levels).items() if name in names},
            limits,
            self.data_norm,
            *self._placed(),
            {name: width for name, width in (widths or {}).items() if name in names},
        )

    def _placed(self) -> tuple[bool, bool]:
        """Whether a row begins with a one, and whether limits are moved to be symmetric."""
        return bool(self.fit_intercept), bool(self.fit_intercept)

    def _listed(self) -> list[str] | None:
        """The columns that parameters name, without what only says how much a row counts."""
        others = (self.person, self.sample_weight)
        return None if self.columns is None else [n for n in self.columns if n not in others]

    def _declared(self, n_features: int | None = None) -> Columns:
        """The recipe of the features as far as parameters declare them, or for so many numbers."""
        names, by_name = self._listed(), isinstance(self.limits, Mapping)
        if by_name or (self.limits is None and self.levels and n_features is None):
            known = [*(self.limits or {}), *(self.levels or {})]
            if names is None:
                names = known
            elif self.labelled:  # the label is among them
                names = [name for name in names if name in known]
        if names is None:
            each = isinstance(self.limits, Sequence) and not _is_private(self.limits)
            if n_features is None and each and not _is_pair(self.limits):
                n_features = len(self.limits)
            if n_features is None:
                raise ValueError(
                    "Expected the number of features, got none; pass it, or name the columns in "
                    "limits, levels or columns."
                )
            names = [f"x{index}" for index in range(_validate.count("n_features", n_features))]
        return self._recipe(names, self._limits_of(names))

    def _public(self, data: Table) -> dict[str, Any]:
        """Names are those that were typed or confirmed (see `Table.open`)."""
        named: dict[str, Any] = {"columns": list(data.rows.columns)}
        named["drop_missing"] = data.rows.drop_missing
        other = {} if self._other is None else self._other._public(data.rows)
        own = super()._public(data)
        if self.person is None:
            del own["rows_per_person"], own["missing_person"]
        return {**own, **named, **other}

    def _counts_said(self) -> str:
        """What counts are where rows have weights, once it is fitted; nothing where they have none.

        Of a series, and where K is bought, that is the number that was used.
        """
        said = []
        if self.person is not None:
            number = self.rows_per_person_
            said.append(f"rows of one {self.person} count alike up to {number}, 1/{number} each")
            if number == 1:
                said = [f"every {self.person} counts once, by the mean of their rows"]
        if self.sample_weight is not None:
            said.append(f"rows count by {self.sample_weight} over {self.max_weight:g}")
        return f"Counts are total weights: {'; '.join(said)}." if said else ""

    def _assumed_rows(self, n_rows: int) -> str:
        """So many rows, as a forecast says it; with people, whom each sum counts once."""
        return f"{n_rows:,} {'rows' if self.person is None else 'people who count once each'}"

    def _expected_rows(self, n_rows: int | None) -> int:
        """How many rows a forecast is for; the declared number if none is given."""
        return _validate.count("n_rows", self.n_rows if n_rows is None else n_rows)

    def _check_rows(self, n_rows: int) -> None:
        """Refuse a table whose number of rows is not as declared, before anything is paid."""
        if (most := getattr(self, "max_rows", None)) is not None:
            require_rows(n_rows, most)
        if self.n_rows is not None and n_rows != _validate.count("n_rows", self.n_rows):
            raise wrong("n_rows")(
                f"Expected a table of {self.n_rows} rows, as declared public, got another number; "
                "correct n_rows, or leave it out to keep it private."
            )
