"""How the records of a table become rows of integers, the same way everywhere.

A record passes public gates, each fixed by parameters alone: categories become indicators through
a public list of levels, numbers are clipped to their public limits, centred and scaled by them, an
intercept is put in front, a row that is too long is scaled down to the public bound, and the result
is rounded to a grid on which its norm is at most 2^20. Each step is an elementwise operation that
IEEE arithmetic rounds correctly, or an exact sum: what becomes of a record depends on that record
alone, not on its place in the table nor on the hardware. Every record costs the same work, so that
the time taken does not tell how many were too long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import FloatArray, positive
from ndis.tables.arrays import beside, fused, namespace, on_host
from ndis.tables.blocks import Block, SparseBlock, Stack
from ndis.tables.exact import BLOCK_ROWS, GRID_NORM, STACK_ROWS
from ndis.tables.values import level_positions, missing_values, numbers

INTERCEPT = "intercept"
# Between these, products of four bounds neither overflow nor lose digits to underflow.
BOUND_RANGE = (1e-60, 1e60)
# Squares of grid entries of so many columns add up exactly: 2^13 times 2^40.
_EXACT_COLUMNS = 8192

# So many rows are turned into columns at once, if they have so many numbers.
_TURNED, _WIDE = 16, 256

# What stands for limits that are to be found privately.
PRIVATE = "private"

Limits = Mapping[str, Any]  # of pairs (low, high), or PRIVATE


@dataclass(frozen=True)
class Columns:
    """Some columns of a table, and the recipe that turns their values into integers.

    Parameters
    ----------
    columns : sequence of str
        Columns of the table, in the order in which they enter the row.
    levels : mapping of str to sequence, optional
        For each categorical column its public list of levels. The column becomes one indicator for
        each level, named ``column=level``; any other value gives zeros in all of them.
    limits : mapping of str to (low, high), optional
        For every other column its public limits. Values are clipped to them and scaled to
        [-1, 1]; without `centred` zero stays zero. ``"private"`` instead of a pair: they are still
        to be found (see `bought` and `found`), and until then no row is made.
    norm : float, optional
        Public bound on the Euclidean norm of a row: of the scaled row, intercept included, where
        there are limits. Longer rows are scaled down to it. Limits alone bound a row too.
    intercept : bool, default False
        Whether a column of ones, named ``intercept``, comes first.
    centred : bool, default True
        Whether limits are moved to be symmetric about zero.
    widths : mapping of str to int, optional
        Columns that hold a list of numbers in each record, such as embeddings, and its length.

    Examples
    --------
    >>> columns = Columns(["height", "weight"], limits={"height": (0, 2), "weight": (0, 200)})
    >>> columns.names, f"{columns.norm:.4f}"
    (('height', 'weight'), '1.4142')
    """

    columns: Sequence[str]
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    limits: Limits | None = None
    norm: Any = None  # a float as soon as it is made
    intercept: bool = False
    centred: bool = True
    widths: Mapping[str, int] = field(default_factory=dict)
    # All of what follows is derived from it: names of the numbers in a row, in order; grid units of
    # one unit of each number; what is subtracted from it first; its limits.
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    scale: FloatArray = field(init=False, repr=False, compare=False)
    middle: FloatArray = field(init=False, repr=False, compare=False)
    low: FloatArray = field(init=False, repr=False, compare=False)
    high: FloatArray = field(init=False, repr=False, compare=False)
    # Whether limits alone keep rows within `norm`, so that none is ever scaled down; and columns
    # whose limits are still to be found, with the places of their numbers in a row.
    boxed: bool = field(init=False, repr=False, compare=False)
    bought: dict[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "columns", tuple(self.columns))
        set_(self, "levels", {name: tuple(known) for name, known in (self.levels or {}).items()})
        _check_levels(self.levels, self.columns)
        if self.limits is not None:
            set_(self, "limits", self._checked_limits(self.limits))
        first = (INTERCEPT,) if self.intercept else ()
        listed = (name for column in self.columns for name in self._names(column))
        set_(self, "names", (*first, *listed))
        box = self._box_norm()
        if self.norm is None:
            if box is None:
                raise ValueError(
                    "Expected a public bound on the rows, got none; pass limits, the least and "
                    "largest value of every column, or data_norm, a bound on the norm of a row."
                )
            set_(self, "norm", box)
        else:
            bound = _usable("data_norm", self.norm)
            set_(self, "norm", bound if box is None else min(bound, box))
        set_(self, "boxed", box is not None and self.norm == box)
        set_(self, "bought", self._bought())
        if not self.names:
            raise ValueError("Expected at least one column, got none; name the columns to read.")
        if twice := next((name for name, k in Counter(self.names).items() if k > 1), None):
            raise ValueError(
                f"Expected distinct columns, got {twice!r} more than once; rename it or leave it "
                "out."
            )
        for name, value in self._derived().items():
            set_(self, name, value)

    # -- public facts ------------------------------------------------------------------------

    def _bought(self) -> dict[str, tuple[int, ...]]:
        place, places = int(self.intercept), {}
        for column in self.columns:
            first, place = place, place + len(self._names(column))
            if self.limits is not None and self.limits.get(column) == PRIVATE:
                places[column] = tuple(range(first, place))
        return places

    def found(self, limits: Limits) -> Columns:
        """The same recipe with limits that have been found."""
        if self.limits is None:
            return self
        known = {name: limits.get(name, pair) for name, pair in self.limits.items()}
        return replace(self, limits=known)

    def _derived(self) -> dict[str, FloatArray]:
        """Low, high, middle and scale of every number in a row."""
        n = len(self.names)
        # Without limits a number is cut where its square in grid units would overflow: there one
        # giant row would turn the sums of all others into nonsense.
        most = 2.0**500 / self.units
        low, high, bounded = np.full(n, -most), np.full(n, most), np.zeros(n, dtype=bool)
        place = int(self.intercept)
        for column in self.columns:
            part = slice(place, place := place + len(self._names(column)))
            if self.limits is not None and column not in self.levels:
                pair = self.limits[column]
                low[part], high[part] = (-1.0, 1.0) if pair == PRIVATE else pair
                bounded[part] = True
        middle, half = np.zeros(n), np.ones(n)
        if self.centred:
            middle[bounded] = 0.5 * (low[bounded] + high[bounded])
            half[bounded] = 0.5 * (high[bounded] - low[bounded])
        else:
            half[bounded] = np.maximum(np.abs(low[bounded]), np.abs(high[bounded]))
        return {"low": low, "high": high, "middle": middle, "scale": self.units / half}

    @property
    def units(self) -> float:
        """Grid units of one scaled unit."""
        if not self.boxed:
            return float(GRID_NORM / (self.norm or 1.0))
        # The grid entries of a row in the box: whole numbers whose squares add up to 2^40 at most,
        # with room for two roundings to the grid.
        return float(math.isqrt(GRID_NORM**2 // self._box_columns) - 1)

    def _names(self, column: str) -> tuple[str, ...]:
        if column in self.levels:
            return tuple(f"{column}={level}" for level in self.levels[column])
        if column in self.widths:
            return tuple(f"{column}[{index}]" for index in range(self.widths[column]))
        return (column,)

    @property
    def _box_columns(self) -> int:
        """How many entries of a scaled row can be one at once."""
        listed = sum(self.widths.get(name, 1) for name in self.columns)
        return listed + int(self.intercept)

    def _box_norm(self) -> float | None:
        if self.limits is None and set(self.columns) - set(self.levels):
            return None
        return math.sqrt(self._box_columns)

    def _checked_limits(self, limits: Limits) -> dict[str, Any]:
        wanted = {name: None for name in self.columns if name not in self.levels}
        missing = [name for name in wanted if name not in limits]
        if missing:
            raise ValueError(
                f"Expected limits of every column, got none for {_listed(missing)}; "
                "add their least and largest values, or leave these columns out."
            )
        for name in limits:
            if name not in wanted:
                raise ValueError(
                    f"Expected limits of numeric columns that are read, got {name!r}; columns "
                    "with levels need none."
                )
        return {
            name: PRIVATE if _is_private(limits[name]) else _pair(name, limits[name], self.centred)
            for name in wanted
        }

    # -- with the data -----------------------------------------------------------------------

    def fill(self, target: Any, values: Any) -> None:
        """Write the raw numbers of a block of records into `target`, one row for each number.

        Parameters
        ----------
        target : ndarray of shape (len(names), n)
        values : ndarray of shape (n, n_columns), or mapping of str to ndarray
            The records: a matrix with the columns in order, or for each column its numbers, level
            positions or, for lists of numbers, a matrix with one row for each record.

        The intercept is left out where the target has no room for it.
        """
        place = int(self.intercept and len(target) == len(self.names))
        target[:place] = 1.0
        if not isinstance(values, Mapping):
            _turn(target[place:], values)
            return
        for column in self.columns:
            width = len(self._names(column))
            part = target[place : place + width]
            if column in self.levels:
                # Every record is compared with every level: the work does not depend on them.
                part[...] = values[column] == np.arange(width)[:, None]
            else:
                _turn(part, values[column])
            place += width

    def to_grid(self, values: Any, shrink: Any = None) -> tuple[Any, Any]:
        """Raw numbers (one row for each number, one column for each record) as grid integers.

        Parameters
        ----------
        values : array of shape (len(names), n)
            Overwritten where it is a numpy array.
        shrink : array of shape (n,), optional
            Factors by which other columns of the same records have been scaled down.

        Returns
        -------
        integers : array of the same shape
            Doubles that hold integers; the sum of squares of a column is at most 2^40.
        shrink : array of shape (n,) or None
            The factor by which each record has been scaled down; None if none can be.
        """
        if self.bought:
            raise RuntimeError(
                f"Expected limits of {_listed(list(self.bought))} to have been found, got none; "
                "please report this fault of ndis."
            )
        return on_grid(namespace(values), values, shrink, self.grid(values))

    def grid(self, array: Any) -> Grid:
        """The numbers that `on_grid` needs, where an array is."""
        low, high, middle, scale = (
            beside(vector[:, None], array)
            for vector in (self.low, self.high, self.middle, self.scale)
        )
        clipped, moved = self.limits is not None or not self.boxed, self.limits is not None
        limits = (low, high) if clipped else None
        return Grid(limits, middle if moved and self.centred else None, scale, self.boxed)


def _turn(target: FloatArray, values: FloatArray) -> None:
    """Write the transpose; of wide rows a few at a time, which stay in the processor's cache."""
    step = _TURNED if len(target) >= _WIDE else len(values)
    for start in range(0, len(values), step):
        target[:, start : start + step] = values[start : start + step].T


class Grid(NamedTuple):
    """The public numbers by which records are put on the grid; None where there is no such step."""

    limits: tuple[Any, Any] | None
    middle: Any
    scale: Any
    boxed: bool


def on_grid(xp: Any, values: Any, shrink: Any, grid: Grid) -> tuple[Any, Any]:
    """Clip, centre and scale records, and round them to integers; see `Columns.to_grid`."""
    if grid.limits is not None:
        values = _into(xp.clip, values, *grid.limits)
    if grid.middle is not None:
        values = _into(xp.subtract, values, grid.middle)
    values = _into(xp.multiply, values, grid.scale)
    if grid.boxed:
        if shrink is not None:
            values = _into(xp.multiply, values, shrink)
        return _into(xp.round, values), None
    return shortened(xp, values, shrink)


def shortened(xp: Any, values: Any, shrink: Any) -> tuple[Any, Any]:
    """Columns as integers of norm at most 2^20, longer ones scaled down, and the factors of that.

    One whose largest entry alone is too long is first brought down to where that entry is 2^20, so
    that nothing overflows. On the grid its squared norm s is exact where it matters. If s > 2^40,
    the factor (2^20 (1 - 2^-50) - sqrt(p)/2) / sqrt(s) leaves room for the rounding of this
    factor, of the products, and of p entries to the grid.
    """
    largest = xp.max(xp.abs(values), axis=0)
    first = GRID_NORM / xp.clip(largest, float(GRID_NORM), None)
    if shrink is not None:
        first = first * shrink
    values = _into(xp.multiply, values, first)
    values = _into(xp.round, values)
    squares = _exact_squares(xp, values)
    root = xp.sqrt(xp.clip(squares, float(GRID_NORM**2), None))
    room = GRID_NORM * (1.0 - 2.0**-50) - 0.5 * math.sqrt(values.shape[0])
    second = xp.where(squares > GRID_NORM**2, room / root, xp.ones_like(root))
    values = _into(xp.multiply, values, second)
    return _into(xp.round, values), first * second


def _measured(
    xp: Any, part: Any, intercept: bool, shrink: Any, grid: Grid, weights: Any
) -> tuple[Any, ...]:
    """Records on the grid, what scales them down, squared norms and fingerprints, in one pass.

    Last is whether all of a record's values are finite; those that are not count as zeros here.
    """
    values = _doubles(xp, part, intercept)
    entries = xp.isfinite(values)
    values = xp.where(entries, values, xp.zeros_like(values))
    integers, shrink = on_grid(xp, values, shrink, grid)
    squares, marks = _exact_squares(xp, integers), mark(xp, integers, weights)
    return integers, shrink, squares, marks, xp.all(entries, axis=0)


# The prime below 2^20 that takes the fingerprint of a row.
PRIME = 1_048_573.0


def mark(xp: Any, integers: Any, weights: Any) -> Any:
    """A number for each row that changes when the row does: w k modulo a prime."""
    return xp.sum(integers * weights, axis=0) % PRIME


def mark_weights(n_features: int) -> FloatArray:
    """The weights w of fingerprints, a column."""
    return 1.0 + (np.arange(float(n_features))[:, None] * 617.0) % 1021.0


@dataclass(frozen=True)
class Rows:
    """What is read of each record: features and, apart from them, labels.

    Parameters
    ----------
    features : Columns
    labels : Columns, optional
    weighted : bool, default True
        Whether the labels of a record are scaled down with its features, so that a linear
        relation between the two is kept.
    drop_missing : bool, default False
        Whether records with missing or infinite values are left out; otherwise they are an error.
    """

    features: Columns
    labels: Any = None  # Columns, which estimators with labels rely on, or None
    weighted: bool = True
    drop_missing: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table that are read."""
        more = () if self.labels is None else self.labels.columns
        return (*self.features.columns, *more)

    @property
    def levels(self) -> Mapping[str, Sequence[Any]]:
        """Public levels of all categorical columns."""
        return {**self.features.levels, **({} if self.labels is None else self.labels.levels)}

    @property
    def widths(self) -> Mapping[str, int]:
        """Lengths of the lists in columns of lists."""
        return {**self.features.widths, **({} if self.labels is None else self.labels.widths)}

    @property
    def bought(self) -> list[tuple[str, int, int]]:
        """Numbers whose limits are to be found: column, group (features, labels), and place."""
        return [
            (name, index, place)
            for index, group in enumerate(self.groups)
            for name, places in group.bought.items()
            for place in places
        ]

    def found(self, limits: Limits) -> Rows:
        """The same recipe with limits that have been found."""
        labels = None if self.labels is None else self.labels.found(limits)
        return replace(self, features=self.features.found(limits), labels=labels)

    @property
    def groups(self) -> tuple[Columns, ...]:
        """Features and, if there are any, labels."""
        return (self.features,) if self.labels is None else (self.features, self.labels)

    def blocks(self, batch: Any, *, checked: bool = True) -> Iterator[Block]:
        """Yield the records of a batch (see `Batch`) as blocks of grid integers.

        Whoever does not want each `Stack` checked for values that are not finite, which waits for
        the card, looks at `Stack.odd` later.
        """
        records = Batch.of(batch, self)
        make, step = self._dense, BLOCK_ROWS
        if records.elsewhere:
            make, step = self._stack, STACK_ROWS
        elif records.sparse and self._stays_sparse():
            make = self._sparse
        for start in range(0, records.n_rows, step):
            parts = records.part(start, start + step)
            block = make(*parts)
            if checked and isinstance(block, Stack) and block.xp.any(block.odd):
                self._raw(*parts)  # names the column
            yield block

    def raw_blocks(self, batch: Any) -> Iterator[Block]:
        """Yield the numbers of a batch as they are in the table, dense."""
        records = Batch.of(batch, self)
        step = STACK_ROWS if records.elsewhere else BLOCK_ROWS
        for start in range(0, records.n_rows, step):
            yield Block(*self._raw(*records.part(start, start + step)))

    def _raw(self, *parts: Any) -> list[Any]:
        raw = [_raw(*pair) for pair in zip(self.groups, parts, strict=True)]
        return self._complete([beside(part, raw[0]) for part in raw])

    def _dense(self, *parts: Any) -> Block:
        raw = self._raw(*parts)
        integers, shrink = self.features.to_grid(raw[0])
        return Block(integers, self._labels(raw, shrink))

    def _stack(self, *parts: Any) -> Stack:
        """Records on a graphics card; whether all are finite is seen at the end of the pass."""
        records, xp = parts[0], namespace(parts[0])
        intercept = self.features.intercept
        raw = [beside(_raw(self.labels, part), records) for part in parts[1:] if self.labels]
        if self.drop_missing:
            first, *raw = self._complete([_doubles(xp, records, intercept), *raw])
            records, intercept = first.T, False
        measured = fused(_measured, records)

        def measure(group: Columns, values: Any, intercept: bool, shrink: Any) -> Any:
            weights = beside(mark_weights(len(group.names)), records)
            return measured(xp, values, intercept, shrink, group.grid(records), weights)

        integers, shrink, squares, marks, finite = measure(self.features, records, intercept, None)
        labels = None
        if self.labels is not None:
            factor = shrink if self.weighted else None
            labels, *_, too = measure(self.labels, raw[0].T, False, factor)
            finite = finite & too
        return Stack(integers, labels, squares, marks, ~finite)

    def _labels(self, raw: list[Any], shrink: Any) -> Any:
        if self.labels is None:
            return None
        return self.labels.to_grid(raw[-1], shrink if self.weighted else None)[0]

    def _complete(self, parts: list[Any], stored: Any = None) -> list[Any]:
        """Refuse or drop records that are not finite; a sum of squares tells at little cost."""
        if all(_finite(part) for part in parts):
            return parts
        if stored is not None:
            raise ValueError(
                "The sparse matrix or its labels have missing or infinite values; drop those rows."
            )
        xp = namespace(parts[0])
        kept = xp.all(xp.isfinite(xp.concat(parts, axis=0)), axis=0)
        if self.drop_missing:
            return [xp.take(part, xp.nonzero(kept)[0], axis=1) for part in parts]
        for group, part in zip(self.groups, parts, strict=True):
            finite = on_host(xp.all(xp.isfinite(part), axis=1))
            if not finite.all():
                raise missing_values(group.names[int(np.argmin(finite))])
        return parts

    # -- sparse ------------------------------------------------------------------------------

    def _stays_sparse(self) -> bool:
        """Whether zeros stay zeros until the sums are centred."""
        keeps_zero = bool(np.all((self.features.low <= 0) & (self.features.high >= 0)))
        return keeps_zero and (self.features.boxed or self.features.limits is None)

    def _sparse(self, records: Any, *more: Any) -> SparseBlock:
        from scipy import sparse

        group, first = self.features, int(self.features.intercept)
        raw = [_raw(self.labels, part) for part in more] if self.labels is not None else []
        self._complete([records.data[None, :], *raw], stored=records)
        place = records.indices + first
        data = np.clip(records.data, group.low[place], group.high[place]) * group.scale[place]
        ones = np.full(records.shape[0], group.scale[0] if first else 0.0)
        shrink = None
        if not group.boxed:
            data, ones, shrink = _shrunk(group, records, data, ones)
        parts = (np.round(data), records.indices, records.indptr)
        rows = sparse.csr_array(parts, shape=records.shape)
        if first:
            rows = sparse.hstack([np.round(ones)[:, None], rows], format="csr")
        shift = np.round(group.middle * group.scale)
        return SparseBlock(rows, shift, self._labels(raw, shrink))


class Batch:
    """Some records: an Arrow record batch, an array or a sparse matrix, with labels beside them.

    Parameters
    ----------
    data : pyarrow.RecordBatch, array of shape (n_rows, n_columns) or scipy.sparse matrix
        An array has the features' columns in order.
    labels : array of shape (n_rows, n_labels), optional
        Labels, where they are not columns of a record batch.
    ready : bool
        Whether an array has a column for each number of a row, levels included.
    """

    def __init__(self, data: Any, labels: Any = None, *, ready: bool = False) -> None:
        self.data, self.labels, self.ready = data, labels, ready

    @classmethod
    def of(cls, batch: Any, rows: Rows) -> Batch:
        """Records with the columns that are asked for, Arrow columns as numbers."""
        records = batch if isinstance(batch, Batch) else cls(batch)
        data = records.data
        if records.ready:
            return records
        if not hasattr(data, "num_rows"):
            if rows.levels:
                raise ValueError(
                    "An array of numbers has no categorical columns; hand over a data frame to use "
                    "levels."
                )
            return cls(data.tocsr() if hasattr(data, "tocsr") else data, records.labels)
        if rows.drop_missing:
            data = data.drop_null()
        place = {name: index for index, name in enumerate(data.schema.names)}

        def read(name: str) -> Any:
            array = data.column(place[name])
            if name in rows.levels:
                return level_positions(name, array, rows.levels[name])
            return numbers(name, array, rows.widths.get(name))

        content: Any = {name: read(name) for name in rows.columns}
        labelled = rows.labels is not None and records.labels is None
        return cls(content, content if labelled else records.labels)

    @property
    def n_rows(self) -> int:
        """How many records."""
        data = next(iter(self.data.values())) if isinstance(self.data, Mapping) else self.data
        return int(data.shape[0])

    @property
    def elsewhere(self) -> bool:
        """Whether they are an array of another library, perhaps on a graphics card."""
        return not (isinstance(self.data, Mapping | np.ndarray) or self.sparse)

    @property
    def sparse(self) -> bool:
        """Whether most entries are zeros that are not stored."""
        return hasattr(self.data, "tocsr")

    def part(self, start: int, stop: int) -> list[Any]:
        """Features and labels of some of the records."""
        return [_part(x, start, stop) for x in (self.data, self.labels) if x is not None]


def _part(values: Any, start: int, stop: int) -> Any:
    if isinstance(values, Mapping):
        return {name: column[start:stop] for name, column in values.items()}
    return rows_between(values, start, stop)


def rows_between(array: Any, start: int, stop: int) -> Any:
    """Some rows of an array; the array API wants all axes named and no index beyond them."""
    part = slice(start, stop if stop < array.shape[0] else None)
    return array[part] if array.ndim == 1 else array[part, :]


def _raw(group: Columns, part: Any) -> Any:
    """The numbers of some records, one row for each number; on a graphics card if they are."""
    if hasattr(part, "tocsr"):
        part = part.toarray()
    if isinstance(part, Mapping | np.ndarray):
        n_rows = len(next(iter(part.values()))) if isinstance(part, Mapping) else len(part)
        target = np.empty((len(group.names), n_rows))
        group.fill(target, part)
        return target
    return _doubles(namespace(part), part, group.intercept)


def _doubles(xp: Any, part: Any, intercept: bool) -> Any:
    """Records of another array library, one row for each number."""
    if part.ndim == 1:
        part = part[:, None]
    doubles = xp.astype(part, xp.float64, copy=False).T
    if intercept:
        doubles = xp.concat([xp.ones_like(doubles[:1, :]), doubles], axis=0)
    return doubles


def _shrunk(group: Columns, block: Any, data: FloatArray, ones: FloatArray) -> Any:
    """`on_grid` for the entries of a sparse matrix."""
    n_rows = block.shape[0]
    row = np.repeat(np.arange(n_rows), np.diff(block.indptr))
    largest = np.abs(ones)
    np.maximum.at(largest, row, np.abs(data))
    first = GRID_NORM / np.maximum(largest, float(GRID_NORM))
    data, ones = np.round(data * first[row]), np.round(ones * first)
    squares = np.bincount(row, data * data, n_rows) + ones * ones
    room = GRID_NORM * (1.0 - 2.0**-50) - 0.5 * math.sqrt(len(group.names))
    root = np.sqrt(np.maximum(squares, float(GRID_NORM**2)))
    second = np.where(squares > GRID_NORM**2, room / root, 1.0)
    return data * second[row], ones * second, first * second


def _exact_squares(xp: Any, values: Any) -> Any:
    """Sums of squares down the columns: exact unless they are far above 2^40 anyway."""
    total = 0.0
    for start in range(0, values.shape[0], _EXACT_COLUMNS):
        part = rows_between(values, start, start + _EXACT_COLUMNS)
        # Without a copy where that can be.
        squares = np.einsum("ij,ij->j", part, part) if xp is np else xp.sum(part * part, axis=0)
        total = total + squares
    return total


def _into(function: Any, values: Any, *operands: Any) -> Any:
    """Apply an elementwise function, in place where the memory allows it."""
    if isinstance(values, np.ndarray):
        return function(values, *operands, out=values)
    return function(values, *operands)


def _finite(values: Any) -> bool:
    """Whether all are finite."""
    xp = namespace(values)
    if isinstance(values, np.ndarray):
        flat = values.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(np.dot(flat, flat)):
                return True
    return bool(xp.all(xp.isfinite(values)))


def default_names(n_columns: int) -> tuple[str, ...]:
    """Return the names ``x0, x1, ...`` of columns that have none."""
    return tuple(f"x{index}" for index in range(n_columns))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _is_private(limits: Any) -> bool:
    return isinstance(limits, str) and limits == PRIVATE


def _pair(name: str, limits: Any, centred: bool) -> tuple[float, float]:
    try:
        low, high = map(_as_number, limits)
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected limits of {name!r} to be a pair (low, high), got {limits!r}; "
            "pass the least and the largest value it can have."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"Expected limits of {name!r} to be finite with low < high, got ({low:g}, {high:g}); "
            "pass the least and the largest value it can have."
        )
    _usable(f"limits of {name!r}", 0.5 * (high - low) if centred else max(abs(low), abs(high)))
    return low, high


def _as_number(limit: Any) -> float:
    """A limit; a date counts in days."""
    if isinstance(limit, str) or hasattr(limit, "isoformat"):
        return float(np.datetime64(limit, "us").astype(np.int64)) / 86_400e6
    return float(limit)


def _usable(name: str, value: Any) -> float:
    bound, (low, high) = positive(name, value), BOUND_RANGE
    if not low <= bound <= high:
        raise ValueError(
            f"Expected {name} between {low:g} and {high:g}, got {bound:g}; measure in other units."
        )
    return bound


def _check_levels(levels: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> None:
    for name, known in levels.items():
        if name not in columns:
            raise ValueError(
                f"Expected levels for columns of the table, got levels for {name!r}; "
                "name it in columns too."
            )
        if not known or len(set(known)) < len(known):
            raise ValueError(
                f"Expected distinct levels of column {name!r}, got {list(known)!r}; "
                "list each level once."
            )
