"""The grid: records become integers whose norm is at most 2^20, whatever they were.

Each step is an elementwise operation that IEEE arithmetic rounds correctly, or an exact sum: what
becomes of a record depends on that record alone, not on its place in the table nor on the hardware.
Every record costs the same work, so that the time taken does not tell how many were too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ndis.tables.arrays import on_host
from ndis.tables.blocks import squared
from ndis.tables.exact import GRID_NORM

# Sums of squares of integers are exact up to 2^53; above this they are taken with care.
_EXACT = 2.0**52
# Times this, the nearest number of 24 bits is at least the sum.
_UP = 1.0 + 2.0**-23
# Without limits a number is cut to so many grid units: squares of more would overflow, and one
# giant row would turn the sums of all others into nonsense.
GIANT = 2.0**400


class Grid(NamedTuple):
    """The public numbers by which records are put on the grid; None for what changes nothing."""

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
        values = into(xp.subtract, values, grid.middle)
    if grid.scale is not None:
        values = into(xp.multiply, values, grid.scale)
    low, high = grid.ends
    if xp is np and values.flags.f_contiguous and max(low.size, high.size) > 1:  # row by row
        np.minimum(np.maximum(values, low, out=values), high, out=values)
    else:
        values = into(xp.clip, values, low, high)
    if shrink is not None:
        values = into(xp.multiply, values, shrink)
    return into(xp.round, values)


def shortened(xp: Any, values: Any, squares: Any = None) -> tuple[Any, Any]:
    """Columns of integers with norm at most 2^20, longer ones scaled down, and the factors of that.

    Overwritten where it is a numpy array. With `squares`, their squared norms as `squared` adds
    them up.
    """
    if squares is None:
        squares = squared(xp, values)
    factors = shortening(xp, squares, values.shape[0], lambda index: values[:, index])
    return into(xp.round, into(xp.multiply, values, factors)), factors


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


def into(function: Any, values: Any, *operands: Any) -> Any:
    """Apply an elementwise function, in place where the memory allows it."""
    if isinstance(values, np.ndarray):
        return function(values, *operands, out=values)
    return function(values, *operands)
