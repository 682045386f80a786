"""The recipe that turns some columns of a table into integers.

It is fixed by public parameters alone: categories become indicators through a public list of
levels, numbers are centred and scaled by their public limits and clipped to them, and an intercept
is put in front. `ndis.tables.grid` then rounds and shortens, and the bound on a row holds for the
integers, whatever was rounded on the way to them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from ndis._validate import FloatArray, positive, wrong
from ndis.tables.arrays import beside, namespace
from ndis.tables.exact import GRID_NORM
from ndis.tables.grid import GIANT, Grid, shortened, whole
from ndis.tables.values import EITHER, NUMBER, Kind, days

INTERCEPT = "intercept"
# Between these, products of four bounds neither overflow nor lose digits to underflow.
BOUND_RANGE = (1e-60, 1e60)
# Half the width of limits, at the least, as a share of their distance from zero: doubles are then
# as fine as the grid between them, and so is their middle.
_RESOLVED = 2.0**-32
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
        [-1, 1]; without `centered` zero stays zero. ``"private"`` instead of a pair: they are still
        to be found (see `bought` and `found`), and until then no row is made.
    norm : float, optional
        Public bound on the Euclidean norm of a row: of the scaled row, intercept included, where
        there are limits. Longer rows are scaled down to it. Limits alone bound a row too.
    intercept : bool, default False
        Whether a column of ones, named ``intercept``, comes first.
    centered : bool, default True
        Whether limits are moved to be symmetric about zero.
    widths : mapping of str to int, optional
        Columns that hold a list of numbers in each record, such as embeddings, and its length.
    kinds : mapping of str to kind, optional
        What each column holds, as its levels or limits say: no dates where limits are numbers.
        Kept when other limits are found.

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
    centered: bool = True
    widths: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
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
    # Grid units of one scaled unit, and what every block needs of all this.
    units: float = field(init=False, repr=False, compare=False)
    _grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "columns", tuple(self.columns))
        set_(self, "levels", known_levels(self.levels))
        _check_levels(self.levels, self.columns)
        given = self.limits or {}
        if self.limits is not None:
            set_(self, "limits", self._checked_limits(self.limits))
        kinds = {name: self.levels.get(name) or _kind(given.get(name)) for name in self.columns}
        set_(self, "kinds", {**kinds, **self.kinds})
        first = (INTERCEPT,) if self.intercept else ()
        listed = (name for column in self.columns for name in self.names_of(column))
        set_(self, "names", (*first, *listed))
        box = self._box_norm()
        if self.norm is None:
            if box is None:
                raise wrong("limits", "data_norm")(
                    "Expected a public bound on the rows, got none; pass limits, the least and "
                    "largest value of every column, or data_norm, the largest length of a row."
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
        set_(self, "units", self._units())
        for name, value in self._derived().items():
            set_(self, name, value)
        low, high = (alike(end[:, None]) for end in self._ends())
        middle = alike(self.middle[:, None]) if self.middle.any() else None
        set_(self, "_grid", Grid(middle, alike(self.scale[:, None]), (low, high), self.boxed))

    # -- public facts ------------------------------------------------------------------------

    def _places(self) -> Iterator[tuple[str, range]]:
        """Columns with the places of their numbers in a row, from left to right."""
        place = int(self.intercept)
        for column in self.columns:
            yield column, range(place, place := place + len(self.names_of(column)))

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
        if self.centered:
            middle[bounded] = 0.5 * (low[bounded] + high[bounded])
            half[bounded] = 0.5 * (high[bounded] - low[bounded])
        else:
            half[bounded] = np.maximum(np.abs(low[bounded]), np.abs(high[bounded]))
        return {"low": low, "high": high, "middle": middle, "scale": self.units / half}

    @property
    def narrow(self) -> Any:
        """The narrowest type that holds all integers on the grid."""
        # Rounding may add one to what limits become, and rows are never longer than the grid.
        most = min(self.units + 1.0, GRID_NORM) if self.boxed else GRID_NORM
        return np.int16 if most < 2**15 else np.int32

    def _units(self) -> float:
        if not self.boxed:
            return float(GRID_NORM / (self.norm or 1.0))
        # The grid entries of a row in the box: whole numbers whose squares add up to 2^40 at most,
        # with room for two roundings to the grid.
        return float(math.isqrt(GRID_NORM**2 // self._box_columns) - 1)

    def only(self, columns: Sequence[str]) -> Columns:
        """The recipe for some of the columns; where a norm was declared, it stays."""

        def chosen(part: Mapping[str, Any]) -> dict[str, Any]:
            return {name: part[name] for name in columns if name in part}

        return replace(
            self,
            columns=tuple(columns),
            levels=chosen(self.levels),
            limits=None if self.limits is None else chosen(self.limits),
            widths=chosen(self.widths),
            norm=None if self.boxed else self.norm,
        )

    def names_of(self, column: str) -> tuple[str, ...]:
        """The names of a column's numbers: one, one for each level, or one for each in a list."""
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
            raise wrong("limits", "levels")(
                f"Expected limits of every column, got none for {_listed(missing)}; "
                "give numbers their least and largest values in limits, list the levels of text in "
                "levels, or leave these columns out."
            )
        for name in limits:
            if name not in wanted:
                raise wrong("limits")(
                    f"Expected limits of numeric columns that are read, got {name!r}; columns "
                    "with levels need none."
                )
        return {
            name: PRIVATE if _is_private(limits[name]) else _pair(name, limits[name], self.centered)
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
            Whether numbers are multiplied by their `scale` on the way.
        """
        place = int(self.intercept and len(target) == len(self.names))
        factors = (self.scale if scaled else np.ones(len(self.names)))[-len(target) :, None]
        target[:place] = factors[:place]
        if not isinstance(values, Mapping):
            np.multiply(values.T, alike(factors[place:]), out=target[place:])
            return
        for column in self.columns:
            numbers = values[column]
            if column in self.levels:
                # Every record is compared with every level: the work does not depend on them.
                numbers = numbers[:, None] == np.arange(len(self.levels[column]))
            elif numbers.ndim == 1:  # what is called for every column of a block is kept short
                np.multiply(numbers, factors[place], out=target[place])
                place += 1
                continue
            part = slice(place, place := place + numbers.shape[1])
            np.multiply(numbers.T, factors[part], out=target[part])

    def to_grid(self, values: Any, shrink: Any = None, *, scaled: bool = False) -> tuple[Any, Any]:
        """Raw numbers (one row for each number, one column for each record) as grid integers.

        Parameters
        ----------
        values : array of shape (len(names), n)
            Overwritten where it is a numpy array.
        shrink : array of shape (n,), optional
            Factors by which other columns of the same records have been scaled down.
        scaled : bool
            Whether `fill` has scaled them, as it may where the middle of all limits is zero.

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
            grid = self.grid(values)
            values = whole(xp, values, shrink, grid._replace(scale=None) if scaled else grid)
        return (values, None) if self.boxed else shortened(xp, values)

    def grid(self, array: Any) -> Grid:
        """The numbers that `whole` needs, where an array is."""
        middle, scale, (low, high), boxed = self._grid
        middle = None if middle is None else beside(middle, array)
        return Grid(middle, beside(scale, array), (beside(low, array), beside(high, array)), boxed)

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """What limits become on the grid: within the bound, however they were rounded."""
        most = self.units if self.boxed else GIANT
        ends = ((end - self.middle) * self.scale for end in (self.low, self.high))
        low, high = (np.clip(end, -most, most) for end in ends)
        return low, high

    def stored_ends(self) -> tuple[FloatArray, FloatArray]:
        """The same for entries that are centred later, when a whole number is subtracted."""
        shift = self.shift
        # Two roundings are one more than one, for which `units` has room.
        most = self.units + 1.0 if self.boxed else GIANT
        low = np.maximum(np.round(self.low * self.scale), shift - most)
        high = np.minimum(np.round(self.high * self.scale), shift + most)
        return low, high

    @property
    def shift(self) -> FloatArray:
        """The middle of the limits on the grid: whole numbers."""
        return np.asarray(np.round(self.middle * self.scale))


def alike(factors: FloatArray) -> FloatArray:
    """One for all columns where they have the same, which is public: it takes half the time."""
    return factors[:1] if np.all(factors == factors[:1]) else factors


def default_names(n_columns: int) -> tuple[str, ...]:
    """Return the names ``x0, x1, ...`` of columns that have none."""
    return tuple(f"x{index}" for index in range(n_columns))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _is_private(limits: Any) -> bool:
    return isinstance(limits, str) and limits == PRIVATE


def _pair(name: str, limits: Any, centered: bool) -> tuple[float, float]:
    try:
        low, high = map(_as_number, limits)
    except (TypeError, ValueError):
        raise wrong("limits")(
            f"Expected limits of {name!r} to be a pair (low, high), got {limits!r}; "
            "pass the least and the largest value it can have."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise wrong("limits")(
            f"Expected limits of {name!r} to be finite with low < high, got ({low:g}, {high:g}); "
            "pass the least and the largest value it can have."
        )
    half, far = 0.5 * (high - low), max(abs(low), abs(high))
    _usable(f"limits of {name!r}", half if centered else far)
    if centered and half < _RESOLVED * far:
        raise ValueError(
            f"Expected limits of {name!r} between which doubles are fine enough, got "
            f"({low!r}, {high!r}); subtract a public number from the column."
        )
    return low, high


def _kind(limits: Any) -> Kind:
    """What a column with these limits holds."""
    return EITHER if limits is None or isinstance(limits, str) or are_dates(limits) else NUMBER


def are_dates(limits: Any) -> bool:
    """Whether the limits of a column are dates; those that are to be found tell nothing."""
    ends = () if limits is None or isinstance(limits, str) else limits
    return any(isinstance(end, str | date | np.datetime64) for end in ends)


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
        raise wrong("levels", kind=TypeError)(
            f"Expected levels to be a dict of columns and their levels, got {levels!r}; pass "
            '{"column": ["a", "b"]}.'
        )
    for name, known in levels.items():
        if isinstance(known, str) and known == PRIVATE:
            raise wrong("levels", kind=TypeError)(
                f"Expected levels of column {name!r} to be a list, got {known!r}; only a summary "
                "finds levels itself: find them by PrivateLevels (ndis release levels) first, and "
                "pass its levels_."
            )
        if isinstance(known, str | bytes | Mapping | Set) or not isinstance(known, Iterable):
            raise wrong("levels", kind=TypeError)(
                f"Expected levels of column {name!r} to be a list, got {known!r}; list the levels "
                "that are public."
            )
    return {name: tuple(known) for name, known in levels.items()}


def _check_levels(levels: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> None:
    for name, known in levels.items():
        if name not in columns:
            raise wrong("levels", "columns")(
                f"Expected levels of what is read, got levels of {name!r}; name it in columns too."
            )
        if not known or len(set(known)) < len(known):
            raise wrong("levels")(
                f"Expected distinct levels of column {name!r}, got {list(known)!r}; "
                "list each level once."
            )
