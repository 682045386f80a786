"""Where a mechanism is compared with itself: around a table, and elsewhere.

Around a table these are its own neighbours, and they belong to its owner. Elsewhere they are
families that nobody's data have made: a few records in the middle of public bounds beside one at
their ends, or many copies of one record where a leverage is declared. An estimator is run on some
of them; a law costs less, and is computed on all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ndis._validate import FloatArray
from ndis.guarantee import NeighbourRelation
from ndis.loss import renyi
from ndis.mechanisms import Run
from ndis.mechanisms.additive import GaussianMechanism
from ndis.mechanisms.graph import PrivateGraph
from ndis.mechanisms.levels import UNKNOWN
from ndis.tables import Columns, Rows, Table
from ndis.tables.formulas import Design
from ndis.tables.weights import OWN

# Rows of the table that are left out or changed, pairs of nodes, random corners of the limits.
_ROWS, _PAIRS, _CORNERS = 18, 20, 2
# Replacements that are tried at most; of more, so many at random.
_REPLACEMENTS = 20_000
# Nodes among which pairs are looked for that many sets part.
_NODES = 1000
# Records in the middle, beside which one at the ends of its bounds stands.
_BESIDE = 2
# Where rows have no bound, those of these lengths are moved: beside a long one least is seen of
# where it was. Others in the middle keep the mean nearly where it is, for laws that subtract it.
_LONG, _ZEROS = (10.0, 1e3, 1e5), 999
# Orders at which losses are bounded.
ORDERS = np.geomspace(0.05, 5e4, 100)

Record = dict[str, Any]
Data = tuple[Any, ...]
Neighbours = Iterator[tuple[str, int | None, Data]]


@dataclass(frozen=True)
class Place:
    """A data set and what is tried around it.

    Attributes
    ----------
    data : tuple
        Arguments of `fit`.
    neighbours : iterator of (str, int or None, tuple)
        What each neighbour is, which row of the table it is about, and arguments of `fit`.
    said : str
        What is tried, in words.
    """

    data: Data
    neighbours: Neighbours
    said: str


def places(
    run: Run,
    data: Data,
    relation: NeighbourRelation,
    epsilon: float,
    of_table: bool = True,
) -> list[Place]:
    """Where to look, for an estimator.

    Parameters
    ----------
    run : Run
        The estimator on the data.
    data : tuple
        Arguments of `fit`.
    relation : NeighbourRelation
    epsilon : float
        At which rows are to be easy to see.
    of_table : bool
        Whether neighbours of the data are looked at. Otherwise nothing but the names of columns
        is taken from them.
    """
    estimator = run.model
    if isinstance(estimator, PrivateGraph):
        return _graphs(estimator, run, of_table)
    if isinstance(estimator, GaussianMechanism):
        return [_answers(estimator, np.shape(data[0]))]
    form = _Form.of(run, data, relation.person)
    some, said = _chosen(estimator, form, epsilon) if of_table else ([], "")
    found = (_PLACES.get(relation) or _people)(form, some, said)
    return found + (_copies(estimator, form) if relation is NeighbourRelation.ADD_REMOVE else [])


def places_of_law(
    table: FloatArray, relation: NeighbourRelation, universe: FloatArray | None, norm: float | None
) -> list[Place]:
    """Where to look, for a law of a matrix.

    Parameters
    ----------
    table : ndarray
    relation : NeighbourRelation
    universe : ndarray, optional
        Rows that others may have.
    norm : float, optional
        Bound on the norm of a row.
    """
    if relation is NeighbourRelation.EDGE:
        return [_edges(table)]
    d = table.shape[1]
    names = tuple(f"x{index}" for index in range(d))
    middle, far = dict.fromkeys(names, 0.0), list[Record]()
    if norm is not None:
        middle, far = _corners(Columns(names, norm=norm), np.random.default_rng(0))
    elif relation is NeighbourRelation.ROW_SHIFT:
        far = [middle | {names[0]: length} for length in _LONG]
    if universe is not None:
        far = [dict(zip(names, row, strict=True)) for row in universe.tolist()] + far
    form = _Form(table, None, names, middle, far, every=True)
    return _PLACES[relation](form, list(range(len(table))), f"all {len(table)} rows of the table")


# -- data sets, and the records in them --------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """How a data set is handed on: arrays as arrays, other tables as Arrow tables.

    Beside the columns that are read there are a record in the middle of public bounds, records at
    their ends, whether all of these are tried, the column of ids, whether a row without one is a
    person's, and columns that hold no doubles: ids, and levels to be found.
    """

    given: Any
    labels: Any
    names: tuple[str, ...]
    middle: Record
    far: list[Record]
    drop_missing: bool = False
    bought: bool = False
    every: bool = False
    person: str | None = None
    alone: bool = False
    exact: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run, data: Data, person: str | None = None) -> _Form:
        first, label = data[0], data[1] if len(data) > 1 else None
        if hasattr(first, "toarray"):
            first = first.toarray()
        table = run.data
        if isinstance(first, np.ndarray | list) or not isinstance(table, Table):
            array = np.asarray(first)
            y = None if label is None else np.asarray(label)
            return cls._known(array, y, _recipe(run, array), False)
        more = () if table.weighting is None else table.weighting.columns
        more = tuple(dict.fromkeys((*more, *filter(None, [person]))))
        unknown = [name for name, known in table.rows.levels.items() if set(known) == {UNKNOWN}]
        rows = table.rows
        if (made := table.formula) is not None:  # neighbours differ in records, not in terms
            table, rows = made[0], _records_of(made[1], rows)
        opened = Table.open(table, [*rows.columns, *more])
        batches = list(opened.records(*filter(None, [person]), *unknown))  # as they are compared
        frame = pa.Table.from_batches(batches)
        if not len(frame):
            raise ValueError("The table has no rows; hand over at least one.")
        if rows.labels is not None:  # labels that were handed over beside it are in it now
            label = rows.labels.columns[0]
        form = cls._known(frame, label, rows, run.data.drop_missing)
        for name in unknown:
            form = form._with_levels(name)
        # A record in the middle or at the ends weighs as much as any may.
        weighs = dict.fromkeys(more, getattr(run.model, "max_weight", None))
        return replace(
            form,
            names=(*form.names, *more),
            middle=form.middle | weighs,
            far=[record | weighs for record in form.far],
            person=person,
            alone=getattr(run.model, "missing_person", None) == OWN,
        )

    @classmethod
    def _known(cls, given: Any, labels: Any, rows: Rows | None, drop_missing: bool) -> _Form:
        if rows is None:
            return cls(given, labels, (), {}, [], bought=True)
        middle, far = Record(), list[Record]()
        if not rows.widths:
            rng = np.random.default_rng(0)
            middle, far = _corners(rows.features, rng)
            if rows.labels is not None:
                plain, ends = _corners(rows.labels, rng)
                middle, far = middle | plain, [row | end for row in far for end in ends]
        return cls(given, labels, rows.columns, middle, far, drop_missing, bool(rows.bought))

    def _with_levels(self, name: str) -> _Form:
        """Others have a level of the data set, or one that nobody has."""
        column = self.given[name]
        used = dict.fromkeys(each for each in column.to_pylist() if each is not None)
        if pa.types.is_integer(column.type):
            new: Any = max(used, default=0) + 1
        else:
            new = next(each for n in range(len(used) + 1) if (each := f"level {n}") not in used)
        own = next(iter(used), new)
        return replace(
            self,
            middle=self.middle | {name: own},
            far=[record | {name: level} for record in self.far for level in (own, new)],
            exact=(*self.exact, name),
        )

    @property
    def n_rows(self) -> int:
        return len(self.given)

    @property
    def _is_array(self) -> bool:
        return isinstance(self.given, np.ndarray)

    def without(self, own: Any) -> Data:
        """The data set without some rows, those of one person."""
        kept = np.setdiff1d(np.arange(self.n_rows), own)
        return self._joined([self.given.take(kept).select(list(self.names))])

    def somebody(self, record: Record, m: int, number: int = 0) -> list[Record]:
        """A person with m such rows, and an id that nobody in the data set has."""
        ids = self.given[self.person]
        whole, used = pa.types.is_integer(ids.type), set(ids.to_pylist())
        names = (each if whole else f"p{each}" for each in range(len(ids) + number + 1))
        return [record | {str(self.person): [n for n in names if n not in used][number]}] * m

    def new_people(self, record: Record) -> Iterator[tuple[str, list[Record]]]:
        """People with such rows, in words and as records."""
        for m in _OWN:
            yield f"a person with {m} rows {_FAR}", self.somebody(record, m)
        if self.alone:
            yield f"a row without a person {_FAR}", [record | {str(self.person): None}]

    def people(self) -> tuple[Any, int]:
        """A number for the person of each row, and how many there are; -1 if a row has none."""
        ids = self.given[self.person].combine_chunks()
        coded = (ids.cast(pa.string()) if pa.types.is_null(ids.type) else ids).dictionary_encode()
        who = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        nobody, n = np.flatnonzero(who < 0), len(coded.dictionary)
        if self.alone:
            who[nobody] = n + np.arange(len(nobody))
            n += len(nobody)
        return who, n

    def own(self, place: int | None = None, *records: Record) -> Data:
        """The data set with records in place of a row, or else after all of them."""
        start, stop = (self.n_rows,) * 2 if place is None else (place, place + 1)
        new = [self._of(records)] if records else []
        return self._joined([self._part(0, start), *new, self._part(stop, self.n_rows)])

    def made(self, records: Sequence[Record]) -> Data:
        """A data set of records that nobody has."""
        return self._joined([self._of(records)])

    def moved(self, record: Record, move: Any) -> Record:
        """A record whose numbers are moved."""
        names = [name for name in self.names if not isinstance(record[name], str)]
        return record | {n: record[n] + m for n, m in zip(names, move, strict=True)}

    def row(self, place: int) -> Record:
        """A row of the data set as a record."""
        if self._is_array:
            return dict(zip(self.names, self.given[place].tolist(), strict=True))
        return {name: self.given[name][place].as_py() for name in self.names}

    def _part(self, start: int, stop: int) -> Any:
        if not self._is_array:
            return self.given.slice(start, stop - start).select(list(self.names))
        return self.given[start:stop], None if self.labels is None else self.labels[start:stop]

    def _of(self, records: Sequence[Record]) -> Any:
        """Numbers are doubles: not even the type of a column comes from the data."""
        if not self._is_array:
            columns = {name: [record[name] for record in records] for name in self.names}
            return pa.table(
                {
                    name: values
                    if isinstance(values[0], str) or name in (self.person, *self.exact)
                    else np.array(values, dtype=float)
                    for name, values in columns.items()
                }
            )
        n = self.given.shape[1]
        X = np.array([[record[name] for name in self.names[:n]] for record in records], float)
        if self.labels is None:
            return X, None
        y = np.array([[record[name] for name in self.names[n:]] for record in records])
        return X, y[:, 0] if self.labels.ndim == 1 else y

    def _joined(self, parts: Sequence[Any]) -> Data:
        if self._is_array:
            X, y = (list(each) for each in zip(*parts, strict=True))
            return (np.concatenate(X), *([] if self.labels is None else [np.concatenate(y)]))
        frame = pa.concat_tables(parts, promote_options="permissive")
        table = Table.open(frame, list(self.names), drop_missing=self.drop_missing)
        return (table, *([] if self.labels is None else [self.labels]))


def _records_of(design: Design, rows: Rows) -> Rows:
    """The public bounds on the records of a formula, where those on its terms are known."""
    return Rows(Columns(design.columns, design.levels, design.raw, centered=False), rows.labels)


def _recipe(run: Run, array: Any) -> Rows | None:
    """The public bounds on the rows of an array, as far as there are any."""
    estimator = run.model
    if isinstance(run.data, Table):
        rows = run.data.rows
        classes = getattr(estimator, "classes", None)
        if classes is None:
            return rows
        return Rows(rows.features, Columns(["y"], {"y": list(classes)}))
    limits = getattr(estimator, "limits", None)
    if limits is None or array.ndim != 2:
        return None
    names = [f"x{index}" for index in range(array.shape[1])]
    if isinstance(limits, Mapping):
        names = [name for name in limits if name != "y"]
    known = limits if isinstance(limits, Mapping) else dict.fromkeys([*names, "y"], limits)
    features, label = ({name: known[name] for name in some} for some in (names, ["y"]))
    return Rows(Columns(names, limits=features), Columns(["y"], limits=label))


def _corners(group: Columns, rng: np.random.Generator) -> tuple[Record, list[Record]]:
    """The middle of some columns, and their ends; of limits to be found, any numbers."""
    numbers = [name for name in group.columns if name not in group.levels]
    d = len(numbers)
    if group.limits is None:  # a ball
        random = rng.standard_normal((_CORNERS, d)) if d else np.zeros((0, 0))
        ways = np.vstack([np.eye(d)[:1], np.eye(d)[-1:], np.ones((1, d)), random])
        ways *= float(group.norm or 0.0) / np.maximum(np.linalg.norm(ways, axis=1), 1e-9)[:, None]
        vectors, middle = np.vstack([ways, -ways]), np.zeros(d)
    else:
        pairs = [group.limits[name] for name in numbers]
        known = [(-1.0, 1.0) if isinstance(pair, str) else tuple(pair) for pair in pairs]
        low, high = np.array(known, dtype=float).reshape(-1, 2).T
        ways = np.vstack([np.ones((1, d)), np.zeros((1, d)), rng.integers(0, 2, (_CORNERS, d))])
        vectors, middle = low + ways * (high - low), 0.5 * (low + high)
    words = [
        {name: group.levels[name][place] for name in group.columns if name in group.levels}
        for place in ((0, -1) if group.levels else (0,))
    ]
    rows = [dict(zip(numbers, v, strict=True)) for v in np.unique(vectors, axis=0).tolist()]
    return dict(zip(numbers, middle.tolist(), strict=True)) | words[0], [
        row | word for row in rows for word in words
    ]


# -- tables ------------------------------------------------------------------------------------

_FAR = "at the ends of public bounds"


def _chosen(estimator: Any, form: _Form, epsilon: float) -> tuple[list[int], str]:
    """Rows that are easiest to see, as far as somebody knows, and some by chance."""
    n = form.n_rows
    if n <= _ROWS:
        return list(range(n)), f"all {n} rows of the table"
    size, why = _distances(form), "the furthest from the mean"
    if hasattr(estimator, "removal_losses") and not form.bought:
        try:
            losses = estimator.removal_losses(*form.own())
        except ValueError:  # a method whose losses nobody knows
            pass
        else:
            ways, why = (losses, losses.reversed()), "those of the largest loss of all"
            size = np.max([[_log_delta_bound(way, epsilon)] for way in ways], axis=(0, 1))
    by_chance = np.random.default_rng(0).choice(n, _ROWS // 3, replace=False).tolist()
    order = np.argsort(-size)[: _ROWS - len(by_chance)].tolist()
    some = list(dict.fromkeys([*order, *by_chance]))
    return some, f"{len(some)} of {n} rows of the table, {why} and some by chance"


def _log_delta_bound(losses: Any, epsilon: float) -> FloatArray:
    """An upper bound on ln delta of every loss of a batch."""
    bounds = (renyi.log_delta_bound(losses.cumulant(s), s, epsilon) for s in ORDERS[::12])
    return np.asarray(np.nan_to_num(np.min(list(bounds), axis=0), nan=0.0))


def _distances(form: _Form) -> Any:
    """How far each row is from the mean, in standard deviations."""
    values = np.zeros((form.n_rows, 1))
    if form._is_array:
        values = form.given.reshape(form.n_rows, -1)
    else:
        named = zip(form.given.column_names, form.given.columns, strict=True)
        numbers = [c for n, c in named if n != form.person and pa.types.is_primitive(c.type)]
        if numbers:
            values = np.column_stack([c.cast(pa.float64(), safe=False).to_numpy() for c in numbers])
    with np.errstate(all="ignore"):
        away = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-300)
        return np.nan_to_num(np.sum(away**2, axis=1))


def _add_remove(form: _Form, some: Sequence[int], said: str) -> list[Place]:
    found, far = [], form.far
    if some and (form.every or form.n_rows > 1):
        few = far if form.every else far[:: max(1, len(far) // _CORNERS)]
        try:
            form.own(None, *far[:1])
        except pa.ArrowException:  # a column that is written in another way than numbers
            few = []

        def around() -> Neighbours:
            for place in some:
                yield "one row of the table", place, form.own(place)
            for record in few:
                yield f"a row {_FAR}, added to the table", None, form.own(None, record)

        added = f"; {len(few)} rows {_FAR}, added" if few else ""
        found.append(Place(form.own(), around(), f"{said}, left out{added}"))
    if far:
        beside = [form.middle] * _BESIDE
        family = ((f"a record {_FAR}", None, form.made([*beside, record])) for record in far)
        said = f"{len(far)} records {_FAR}, each beside {_BESIDE} in the middle"
        found.append(Place(form.made(beside), family, said))
    return found


# Rows that a person has who comes or goes.
_OWN = (1, 2, 1000)


def _people(form: _Form, some: Sequence[int], said: str) -> list[Place]:
    """People who come or go with all their rows: those of the table, and others beside them."""
    found, few = [], form.far[:: max(1, len(form.far) // _CORNERS)]
    if some:
        who, n = form.people()
        rows_of = np.bincount(who[who >= 0], minlength=n)
        busiest = np.argsort(-rows_of, kind="stable")[: _ROWS // 3].tolist()
        chosen = list(dict.fromkeys([*busiest, *(int(who[row]) for row in some if who[row] >= 0)]))
        try:
            form.own(None, *(record for far in few[:1] for record in form.somebody(far, 1)))
        except pa.ArrowException:  # a column that is written in another way than numbers
            few = []

        def around() -> Neighbours:
            for each in chosen if n > 1 else []:
                rows = np.flatnonzero(who == each)
                yield "a person with all their rows", int(rows[0]), form.without(rows)
            for record in few:
                for said, new in form.new_people(record):
                    yield f"{said}, added to the table", None, form.own(None, *new)

        added = f"; people with 1 to {_OWN[-1]} rows {_FAR}, added" if few else ""
        said = f"{len(chosen)} of {n} people of the table, left out{added}"
        found.append(Place(form.own(), around(), said))
    if form.far:
        beside = [*form.somebody(form.middle, 1, 1), *form.somebody(form.middle, 3, 2)]

        def family() -> Neighbours:
            for record in form.far:
                for said, new in form.new_people(record):
                    yield said, None, form.made([*beside, *new])

        said = f"people with 1 to {_OWN[-1]} rows {_FAR}, each beside two in the middle"
        found.append(Place(form.made(beside), family(), said))
    return found


def _copies(estimator: Any, form: _Form) -> list[Place]:
    """Many copies of some records, where a leverage is declared."""
    declared = [getattr(estimator, name, None) for name in ("leverage", "joint_leverage")]
    if not form.far or not any(declared):
        return []
    found = []
    least = math.ceil(1.0 / min(value for value in declared if value)) + 1
    basis = _independent(form.far, bool(getattr(estimator, "fit_intercept", False)))
    for copies in (least, least + 1):  # rounding may refuse the first
        table = [record for record in basis for _ in range(copies)]
        fewer: Any = [
            ("one of many copies of a record", None, form.made([*table[:k], *table[k + 1 :]]))
            for k in range(0, len(table), copies)
        ]
        said = f"{copies} copies each of {len(basis)} records {_FAR}, one left out"
        found.append(Place(form.made(table), iter(fewer), said))
    return found


def _independent(records: Sequence[Record], intercept: bool) -> list[Record]:
    """Records none of which is a combination of the others: a copy of one has its own leverage."""
    chosen: list[Record] = []
    rows: list[list[float]] = []
    for record in records:
        numbers = [float(value) for value in record.values() if not isinstance(value, str)]
        more = [*rows, [*numbers, *([1.0] if intercept else [])]]
        if np.linalg.matrix_rank(np.array(more)) == len(more):
            rows, chosen = more, [*chosen, record]
    return chosen


def _replace(form: _Form, some: Sequence[int], said: str) -> list[Place]:
    found, far, whose = [], form.far, f"records {_FAR}"
    if form.every and not far:
        far, whose = [form.row(place) for place in some], "each other"
    if some and far:
        few = far if form.every else far[:2]
        count = len(some) * len(few)
        chosen: Any = range(count)
        if count > _REPLACEMENTS:
            chosen = np.random.default_rng(0).choice(count, _REPLACEMENTS, replace=False).tolist()
            said = f"{_REPLACEMENTS} of {count} replacements, at random: {said}"

        def around() -> Neighbours:
            for place, which in (divmod(each, len(few)) for each in chosen):
                other = form.own(some[place], few[which])
                yield "one row of the table, replaced", some[place], other

        found.append(Place(form.own(), around(), f"{said}, replaced by {whose}"))
    if form.far:
        # As many rows as the table has, where that is public; the family knows no more of it.
        rest = [form.middle] * (_BESIDE - 1)
        family = [(f"a record {_FAR}, replaced", None, form.made([row, *rest])) for row in far[1:]]
        said = f"{len(family)} records {_FAR} in place of another"
        found.append(Place(form.made([far[0], *rest]), iter(family), said))
    return found


def _row_shift(form: _Form, some: Sequence[int], said: str) -> list[Place]:
    d = len(form.names)
    random = np.random.default_rng(0).standard_normal((2, d))
    ways = np.vstack([np.eye(d), random / np.linalg.norm(random, axis=1)[:, None]])

    def changed(record: Record) -> Iterator[Record]:
        numbers = np.array([record[name] for name in form.names], dtype=float)
        own = numbers / max(float(np.linalg.norm(numbers)), 1e-300)
        for way in (*ways, own):
            # Towards the middle, where no bound undoes the move.
            yield form.moved(record, -way if way @ numbers > 0 else way)

    found = []
    if some:

        def around() -> Neighbours:
            for place in some if form.every else some[: _ROWS // 3]:
                for record in changed(form.row(place)):
                    yield "one row of the table, moved by 1", place, form.own(place, record)

        which = "" if form.every else ", the first"
        found.append(Place(form.own(), around(), f"of {said}{which} moved by 1"))
    rest = [form.middle] * _ZEROS
    for start in form.far if form.every else form.far[:_CORNERS]:
        family = [
            ("a long record, moved by 1", None, form.made([record, *rest]))
            for record in changed(start)
        ]
        said = f"moves by 1 of long records, each beside {_ZEROS} in the middle"
        found.append(Place(form.made([start, *rest]), iter(family), said))
    return found


_PLACES: dict[NeighbourRelation, Callable[[_Form, Sequence[int], str], list[Place]]] = {
    NeighbourRelation.ADD_REMOVE: _add_remove,
    NeighbourRelation.REPLACE: _replace,
    NeighbourRelation.PARTY: _replace,
    NeighbourRelation.ROW_SHIFT: _row_shift,
}


def _answers(mechanism: GaussianMechanism, shape: tuple[int, ...]) -> Place:
    """Answers as far apart as the sensitivity allows, in the direction with the least noise."""
    assert mechanism.sensitivity is not None
    apart = mechanism.sensitivity * mechanism.quietest(shape)
    pair = ("two answers as far apart as declared", None, (apart,))
    said = "two answers as far apart as the sensitivity allows, where there is the least noise"
    return Place((np.zeros(shape),), iter([pair]), said)


# -- graphs ------------------------------------------------------------------------------------


def _edges(weights: FloatArray) -> Place:
    """Every edge of a matrix of weights, taken out and put in."""
    if not np.array_equal(weights, weights.T):
        raise ValueError(
            "Expected a symmetric matrix of weights for the relation 'edge', got another one; "
            "put the weight between u and v at both [u, v] and [v, u]."
        )
    pairs = list(combinations(range(len(weights)), 2))

    def around() -> Neighbours:
        for u, v in pairs:
            for weight in {0.0, 1.0} - {float(weights[u, v])}:
                other = weights.copy()
                other[u, v] = other[v, u] = weight
                yield "one edge changed", None, (other,)

    return Place((weights,), around(), f"each of {len(pairs)} edges set to 0 and to 1")


def _graphs(estimator: PrivateGraph, run: Run, of_table: bool) -> list[Place]:
    from scipy import sparse

    edges = run.study()
    n = edges.n_nodes
    pairs = list(combinations(range(min(n, 6)), 2))
    if estimator.sets is not None:  # pairs of nodes that most declared sets part
        inside = estimator.declared_sets()[:, :_NODES].astype(np.float64)
        parted = inside.T @ (1.0 - inside)
        order = np.argsort(-np.triu(parted + parted.T, 1), axis=None, kind="stable")[:_PAIRS]
        pairs = [divmod(int(place), inside.shape[1]) for place in order]
    pairs = pairs[:_PAIRS]
    own = sparse.lil_array((n, n))
    own[edges.first, edges.second] = own[edges.second, edges.first] = edges.weight

    def toggled(weights: Any, u: int, v: int) -> Data:
        other = weights.copy()
        other[u, v] = other[v, u] = 0.0 if weights[u, v] else 1.0
        return (other.tocsr(),)

    def around() -> Neighbours:
        order = np.random.default_rng(0).permutation(edges.first.size)[:_PAIRS]
        for u, v in (*zip(edges.first[order], edges.second[order], strict=True), *pairs):
            yield "an edge of the graph, changed", None, toggled(own, int(u), int(v))

    found = []
    if of_table:
        said = f"up to {_PAIRS} edges of the graph and {len(pairs)} pairs of nodes, set to 0 or 1"
        found.append(Place((own.tocsr(),), around(), said))
    empty = sparse.lil_array((n, n))
    family = (("an edge in an empty graph", None, toggled(empty, u, v)) for u, v in pairs)
    said = f"{len(pairs)} edges in an empty graph"
    found.append(Place((empty.tocsr(),), iter(family), said))
    return found
