"""How the records of a table become rows of integers, the same way everywhere.

A record passes public gates, each fixed by parameters alone: categories become indicators through
a public list of levels, numbers are centred and scaled by their public limits and clipped to them,
an intercept is put in front, a row that is too long is scaled down to the public bound, and the
result is rounded to a grid on which its norm is at most 2^20. The bound holds for the integers,
whatever was rounded on the way to them. Each step is an elementwise operation that
IEEE arithmetic rounds correctly, or an exact sum: what becomes of a record depends on that record
alone, not on its place in the table nor on the hardware. Every record costs the same work, so that
the time taken does not tell how many were too long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import FloatArray, positive
from ndis.tables.arrays import beside, fused, namespace, on_host
from ndis.tables.blocks import Block, SparseBlock, Stack, squared
from ndis.tables.exact import BLOCK_ROWS, GRID_NORM, STACK_ROWS
from ndis.tables.values import NUMBER, Kind, days, level_positions, missing_values, numbers

INTERCEPT = "intercept"
# Between these, products of four bounds neither overflow nor lose digits to underflow.
BOUND_RANGE = (1e-60, 1e60)
# Sums of squares of integers are exact up to 2^53; above this they are taken with care.
_EXACT = 2.0**52
# Times this, the nearest number of 24 bits is at least the sum.
_UP = 1.0 + 2.0**-23
# Without limits a number is cut to so many grid units: squares of more would overflow, and one
# giant row would turn the sums of all others into nonsense.
_GIANT = 2.0**400
# Half the width of limits, at the least, as a share of their distance from zero: doubles are then
# as fine as the grid between them, and so is their middle.
_RESOLVED = 2.0**-32
# Rows of a block in memory: columns a multiple of 4096 bytes apart get in each other's way.
_STEP = BLOCK_ROWS - 8
# Rows of fewer numbers are turned into columns, which are then treated one by one.
_NARROW = 24

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
        set_(self, "levels", known_levels(self.levels))
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
        limits = self.limits or {}
        bought = {name: tuple(at) for name, at in self._places() if limits.get(name) == PRIVATE}
        set_(self, "bought", bought)
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

    def _places(self) -> Iterator[tuple[str, range]]:
        """Columns with the places of their numbers in a row, from left to right."""
        place = int(self.intercept)
        for column in self.columns:
            yield column, range(place, place := place + len(self._names(column)))

    def found(self, limits: Limits) -> Columns:
        """The same recipe with limits that have been found."""
        if self.limits is None:
            return self
        known = {name: limits.get(name, pair) for name, pair in self.limits.items()}
        return replace(self, limits=known)

    def _derived(self) -> dict[str, FloatArray]:
        """Low, high, middle and scale of every number in a row."""
        n = len(self.names)
        low, high, bounded = np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n, dtype=bool)
        for column, places in self._places():
            if self.limits is not None and column not in self.levels:
                pair = self.limits[column]
                low[places], high[places] = (-1.0, 1.0) if pair == PRIVATE else pair
                bounded[places] = True
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

    def fill(self, target: Any, values: Any, scaled: bool = False) -> None:
        """Write the numbers of a block of records into `target`, one row for each number.

        The intercept is left out where the target has no room for it.

        Parameters
        ----------
        target : ndarray of shape (len(names), n)
        values : ndarray of shape (n, n_columns), or mapping of str to ndarray
            The records: a matrix with the columns in order, or for each column its numbers, level
            positions or, for lists of numbers, a matrix with one row for each record.
        scaled : bool
            Whether numbers are multiplied by `units` on the way.
        """
        place = int(self.intercept and len(target) == len(self.names))
        factor = np.float64(self.units if scaled else 1.0)
        target[:place] = factor
        if not isinstance(values, Mapping):
            np.multiply(values.T, factor, out=target[place:])
            return
        for column in self.columns:
            numbers = values[column]
            if column in self.levels:
                # Every record is compared with every level: the work does not depend on them.
                numbers = numbers[:, None] == np.arange(len(self.levels[column]))
            elif numbers.ndim == 1:  # what is called for every column of a block is kept short
                np.multiply(numbers, factor, out=target[place])
                place += 1
                continue
            part = slice(place, place := place + numbers.shape[1])
            np.multiply(numbers.T, factor, out=target[part])

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
        xp = namespace(values)
        with np.errstate(over="ignore"):
            values = whole(xp, values, shrink, self.grid(values))
        return (values, None) if self.boxed else shortened(xp, values)

    def grid(self, array: Any) -> Grid:
        """The numbers that `whole` needs, where an array is."""
        centred = self.limits is not None and self.centred
        middle, scale, *ends = (
            beside(vector[:, None], array) for vector in (self.middle, self.scale, *self._ends())
        )
        return Grid(middle if centred else None, scale, (ends[0], ends[1]), self.boxed)

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """What limits become on the grid: within the bound, however they were rounded."""
        most = self.units if self.boxed else _GIANT
        ends = ((end - self.middle) * self.scale for end in (self.low, self.high))
        low, high = (np.clip(end, -most, most) for end in ends)
        return low, high

    def stored_ends(self) -> tuple[FloatArray, FloatArray]:
        """The same for entries that are centred later, when a whole number is subtracted."""
        shift = self.shift
        # Two roundings are one more than one, for which `units` has room.
        most = self.units + 1.0 if self.boxed else _GIANT
        low = np.maximum(np.round(self.low * self.scale), shift - most)
        high = np.minimum(np.round(self.high * self.scale), shift + most)
        return low, high

    @property
    def shift(self) -> FloatArray:
        """The middle of the limits on the grid: whole numbers."""
        return np.asarray(np.round(self.middle * self.scale))


class Grid(NamedTuple):
    """The public numbers by which records are put on the grid; None where nothing is subtracted."""

    middle: Any
    scale: Any
    ends: tuple[Any, Any]
    boxed: bool


def whole(xp: Any, values: Any, shrink: Any, grid: Grid) -> Any:
    """Centre, scale and clip records, and round them to integers.

    Centring and scaling are monotone as doubles round them, so that to clip their results to those
    of the limits is to clip the records to the limits. It comes last, so that no entry is beyond
    the ends, which are public, whatever happened before: rounding keeps within whole numbers.
    """
    if grid.middle is not None:
        values = _into(xp.subtract, values, grid.middle)
    values = _into(xp.multiply, values, grid.scale)
    if xp is np and values.flags.f_contiguous:  # a row after the other
        low, high = grid.ends
        np.minimum(np.maximum(values, low, out=values), high, out=values)
    else:
        values = _into(xp.clip, values, *grid.ends)
    if shrink is not None:
        values = _into(xp.multiply, values, shrink)
    return _into(xp.round, values)


def shortened(xp: Any, values: Any, squares: Any = None) -> tuple[Any, Any]:
    """Columns of integers with norm at most 2^20, longer ones scaled down, and the factors of that.

    Overwritten where it is a numpy array. With `squares`, their squared norms as `squared` adds
    them up.
    """
    if squares is None:
        squares = squared(xp, values)
    factors = shortening(xp, squares, values.shape[0], lambda index: values[:, index])
    return _into(xp.round, _into(xp.multiply, values, factors)), factors


def shortening(xp: Any, squares: Any, n: int, row: Callable[[int], Any]) -> Any:
    """The factors of rows of n integers, by their sums of squares in any order."""
    factors, doubtful = tentative(xp, squares, n)
    if bool(xp.any(doubtful)):
        for index in on_host(xp.nonzero(doubtful)[0]).tolist():
            exact = sum(int(entry) ** 2 for entry in on_host(row(index)).tolist())
            ends = _ends(np.float64(squares[index]), n)
            nearest = ends[2 * exact > sum(map(int, ends))]
            factors[index] = float(factors_of(np, np.asarray(nearest * _UP), n))
    return factors


def tentative(xp: Any, squares: Any, n: int) -> tuple[Any, Any]:
    """The factors of rows of n integers, and which of them are in doubt.

    Up to 2^52 a sum of squares is exact. Beyond, its last bits depend on the order: it is rounded
    to 24 bits, and where it is so close to the middle of two such numbers that the order might
    choose between them, Python's integers must.
    """
    large, (low, high) = squares > _EXACT, _ends(squares, n)
    return factors_of(xp, xp.where(large, high * _UP, squares), n), large & (low != high)


def _ends(squares: Any, n: int) -> tuple[Any, Any]:
    """The least and the largest number of 24 bits that may be nearest to a sum of n squares."""
    doubt = (n + 8) * 2.0**-53
    return _coarse(squares * (1.0 - doubt)), _coarse(squares * (1.0 + doubt))


def factors_of(xp: Any, squares: Any, n: int) -> Any:
    """What brings n integers to norm 2^20 if their sum of squares s is above 2^40, else one.

    The factor (2^20 (1 - 2^-50) - sqrt(n)/2) / sqrt(s) leaves room for the rounding of this factor,
    of the products, and of n entries to the grid.
    """
    room = GRID_NORM * (1.0 - 2.0**-50) - 0.5 * math.sqrt(n)
    roots = xp.where(squares > GRID_NORM**2, xp.sqrt(squares), xp.full_like(squares, room))
    return room / roots


def _coarse(values: Any) -> Any:
    """The nearest numbers of 24 bits."""
    large = values * (2.0**29 + 1.0)
    return large - (large - values)


def _checked(xp: Any, part: Any, intercept: bool, shrink: Any, grid: Grid) -> tuple[Any, Any]:
    """`whole` of records, and whether all values of each are finite; others count as zeros here."""
    values = _doubles(xp, part, intercept)
    entries = xp.isfinite(values)
    values = xp.where(entries, values, xp.zeros_like(values))
    return whole(xp, values, shrink, grid), xp.all(entries, axis=0)


def _measured(xp: Any, factors: Any, weights: Any, *record: Any) -> tuple[Any, ...]:
    """Factors, records on the grid, squared norms, fingerprints, what is finite: in one pass.

    Last is which factors are in doubt, where none are given.
    """
    integers, finite = _checked(xp, *record)
    doubtful = xp.zeros_like(finite)
    if factors is None and not record[-1].boxed:
        factors, doubtful = tentative(xp, squared(xp, integers), integers.shape[0])
    if factors is not None:
        integers = xp.round(integers * factors)
    marks = residue(xp, xp.sum(integers * weights, axis=0))
    return factors, integers, squared(xp, integers), marks, finite, doubtful


# The prime below 2^20 that takes the fingerprint of a row.
PRIME = 1_048_573.0


def residue(xp: Any, products: Any) -> Any:
    """A fingerprint of each row k, which changes when the row does: w k modulo a prime."""
    return products - xp.floor(products * (1.0 / PRIME)) * PRIME


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
        return tuple(name for group in self.groups for name in group.columns)

    @property
    def levels(self) -> Mapping[str, tuple[Any, ...]]:
        """Public levels of all categorical columns."""
        return {name: tuple(known) for group in self.groups for name, known in group.levels.items()}

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """What each column that is read holds: numbers, or some of its public levels."""
        return {name: self.levels.get(name, NUMBER) for name in self.columns}

    @property
    def widths(self) -> Mapping[str, int]:
        """Lengths of the lists in columns of lists."""
        return {name: width for group in self.groups for name, width in group.widths.items()}

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
        make, step = self._dense, _STEP
        if records.elsewhere:
            make, step = self._stack, STACK_ROWS
        elif records.sparse and self._stays_sparse():
            # Before they are centred rows are up to twice as long.
            make, step = self._sparse, BLOCK_ROWS // (4 if self.features.middle.any() else 1)
        for start in range(0, records.n_rows, step):
            parts = records.part(start, start + step)
            block = make(*parts)
            if checked and isinstance(block, Stack) and block.xp.any(block.odd):
                self._raw(*parts)  # names the column
            yield block

    def raw_blocks(self, batch: Any) -> Iterator[Block]:
        """Yield the numbers of a batch as they are in the table, dense."""
        records = Batch.of(batch, self)
        step = STACK_ROWS if records.elsewhere else _STEP
        for start in range(0, records.n_rows, step):
            yield Block(*self._raw(*records.part(start, start + step)))

    def _raw(self, *parts: Any) -> list[Any]:
        raw = [_raw(*pair) for pair in zip(self.groups, parts, strict=True)]
        return self._complete([beside(part, raw[0]) for part in raw])

    def _dense(self, *parts: Any) -> Block:
        if self.features.limits is None and not (self.features.boxed or self.drop_missing):
            with np.errstate(over="ignore", invalid="ignore"):
                values = _raw(self.features, parts[0], scaled=True)
                squares = squared(np, np.rint(values, out=values))
            raw = [_raw(self.labels, part) for part in parts[1:]]
            # If so, all numbers are finite, and there are none that must be cut.
            if np.max(squares) <= _GIANT**2 and all(map(_finite, raw)):
                integers, shrink = shortened(np, values, squares)
                return Block(integers, self._labels(raw, shrink))
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

        def measure(group: Columns, values: Any, intercept: bool, shrink: Any) -> Any:
            n, more = len(group.names), (values, intercept, shrink, group.grid(records))
            weights = beside(mark_weights(n), records)
            with np.errstate(over="ignore"):  # of libraries that are made of numpy
                *found, doubtful = fused(_measured, records)(xp, None, weights, *more)
                if not group.boxed and bool(xp.any(doubtful)):
                    whole_rows = _checked(xp, *more)[0]
                    squares = squared(xp, whole_rows)
                    factors = shortening(xp, squares, n, lambda index: whole_rows[:, index])
                    *found, _ = fused(_measured, records)(xp, factors, weights, *more)
            return found

        shrink, integers, squares, marks, finite = measure(self.features, records, intercept, None)
        labels = None
        if self.labels is not None:
            factor = shrink if self.weighted else None
            _, labels, *_, too = measure(self.labels, raw[0].T, False, factor)
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
        low, high = group.stored_ends()
        with np.errstate(over="ignore"):
            data = np.clip(np.round(records.data * group.scale[place]), low[place], high[place])
        parts = (data, records.indices, records.indptr)
        rows = sparse.csr_array(parts, shape=records.shape)
        if first:
            ones = np.full((records.shape[0], 1), np.round(group.scale[0]))
            rows = sparse.hstack([ones, rows], format="csr")
        shrink = None
        if not group.boxed:
            n_rows, n = rows.shape
            row = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
            squares = np.bincount(row, rows.data * rows.data, n_rows)
            shrink = shortening(np, squares, n, lambda index: rows.data[row == index])
            rows.data = np.round(rows.data * shrink[row])
        return SparseBlock(rows, group.shift, self._labels(raw, shrink))


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
            for array in (data, records.labels):
                require_numbers(array)
            return cls(stored_once(data) if records.sparse else data, records.labels)
        if rows.drop_missing:
            data = data.drop_null()

        def read(name: str) -> Any:
            column = data.column(name)
            if name in rows.levels:
                return level_positions(name, column, rows.levels[name])
            return numbers(name, column, rows.widths.get(name))

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


def require_numbers(array: Any) -> None:
    """Refuse an array of numpy that holds something else than numbers."""
    if isinstance(array, np.ndarray) and array.dtype.kind not in "buif":
        raise ValueError(
            f"Expected an array of numbers, got dtype {array.dtype}; "
            "hand over categories as a data frame and list their levels."
        )


def stored_once(matrix: Any) -> Any:
    """A sparse matrix by row; two entries of one place would pass the gates one by one."""
    by_row = matrix.tocsr()
    if not by_row.has_canonical_format:
        by_row = by_row.copy()
        by_row.sum_duplicates()
    return by_row


def rows_between(array: Any, start: int, stop: int) -> Any:
    """Some rows of an array; the array API wants all axes named and no index beyond them."""
    part = slice(start, stop if stop < array.shape[0] else None)
    return array[part] if array.ndim == 1 else array[part, :]


def _raw(group: Columns, part: Any, scaled: bool = False) -> Any:
    """The numbers of some records, one row for each number; on a graphics card if they are.

    In memory they stay in the order in which they lie there, unless rows are short.
    """
    if hasattr(part, "tocsr"):
        part = part.toarray()
    columns, n = isinstance(part, Mapping), len(group.names)
    if not (columns or isinstance(part, np.ndarray)):
        return _doubles(namespace(part), part, group.intercept)
    n_rows = len(next(iter(part.values()))) if columns else len(part)
    by_row = not columns and n >= _NARROW and part.strides[0] > part.strides[1]
    target = np.empty((n_rows, n)).T if by_row else np.empty((n, n_rows))
    group.fill(target, part, scaled)
    return target


def _doubles(xp: Any, part: Any, intercept: bool) -> Any:
    """Records of another array library, one row for each number."""
    if part.ndim == 1:
        part = part[:, None]
    doubles = xp.astype(part, xp.float64, copy=False).T
    if intercept:
        doubles = xp.concat([xp.ones_like(doubles[:1, :]), doubles], axis=0)
    return doubles


def _into(function: Any, values: Any, *operands: Any) -> Any:
    """Apply an elementwise function, in place where the memory allows it."""
    if isinstance(values, np.ndarray):
        return function(values, *operands, out=values)
    return function(values, *operands)


def _finite(values: Any) -> bool:
    """Whether all are finite."""
    xp = namespace(values)
    if isinstance(values, np.ndarray):
        flat = values.ravel(order="K")  # a view
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
    half, far = 0.5 * (high - low), max(abs(low), abs(high))
    _usable(f"limits of {name!r}", half if centred else far)
    if centred and half < _RESOLVED * far:
        raise ValueError(
            f"Expected limits of {name!r} between which doubles are fine enough, got "
            f"({low!r}, {high!r}); subtract a public number from the column."
        )
    return low, high


def _as_number(limit: Any) -> float:
    """A limit; a date counts in days."""
    if isinstance(limit, str):
        limit = np.datetime64(limit, "us")
    return days(limit) if isinstance(limit, date | np.datetime64) else float(limit)


def _usable(name: str, value: Any) -> float:
    bound, (low, high) = positive(name, value), BOUND_RANGE
    if not low <= bound <= high:
        raise ValueError(
            f"Expected {name} between {low:g} and {high:g}, got {bound:g}; measure in other units."
        )
    return bound


def known_levels(levels: Any) -> dict[str, tuple[Any, ...]]:
    """The public levels of categorical columns, by name."""
    if not levels:
        return {}
    if not isinstance(levels, Mapping):
        raise TypeError(
            f"Expected levels to be a dict of columns and their levels, got {levels!r}; pass "
            '{"column": ["a", "b"]}.'
        )
    for name, known in levels.items():
        if isinstance(known, str) or not isinstance(known, Iterable):
            raise TypeError(
                f"Expected levels of column {name!r} to be a list, got {known!r}; list the levels "
                "that are public."
            )
    return {name: tuple(known) for name, known in levels.items()}


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
