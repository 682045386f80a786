"""Noise that is added, correctly rounded.

A release is the point of a public grid that is nearest to value + scale Z, where Z is a draw of
the normal (or Laplace) law itself and the sum is that of real numbers. So a release is a
post-processing of the ideal mechanism, and keeps its promise; docs/proofs/rounding.md has the
proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis._validate import FloatArray
from ndis.randomness.listening import audible
from ndis.randomness.reals import BLOCK, LAPLACE, NORMAL, Law, Reals

GRID_BITS = 8
"""The grid of released numbers is 2**GRID_BITS times finer than the noise.

Rounding adds at most 2**-16/12 = 1.3e-6 of the noise variance.
"""

# A step of the grid at least so far from a tie is decided by doubles; they are off by less than
# 2^-30 steps (scale < 2^9 steps, |Z| < 2^11, and three roundings of relative size 2^-53).
_MARGIN = 2.0**-29
# Doubles of draws are off by 2^-52 + 2^-53 |Z|, and a product, or a sum of a few, by little more.
_FLOOR_MARGIN = 2.0**-48
# Multiples of draws by less than this are far from the end of 64-bit integers.
_FAR = 2.0**40


class Integers(Protocol):
    """Integers beyond 2^53: value = high 2^26 + low + part 2^-26, arrays of int64; no part is 0."""

    @property
    def high(self) -> NDArray[np.int64]:
        """The leading part."""

    @property
    def low(self) -> NDArray[np.int64]:
        """The rest."""

    @property
    def part(self) -> NDArray[np.int64] | None:
        """The digits behind the point."""


Exact = ArrayLike | Integers


def grid_spacing(scale: float) -> float:
    """Return the distance between released numbers under noise of standard deviation `scale`.

    It is the largest power of two not above `scale`, divided by 2**GRID_BITS.

    Parameters
    ----------
    scale : float
        The noise scale. It must be public: the spacing can be read off a release.

    Returns
    -------
    float

    Examples
    --------
    >>> from ndis.randomness import grid_spacing
    >>> grid_spacing(1.5) == 2**-8
    True
    """
    scale = _validate.positive("scale", scale)
    _, exponent = math.frexp(scale)  # scale = m 2**exponent with 1/2 <= m < 1
    spacing = math.ldexp(1.0, exponent - 1 - GRID_BITS)
    if spacing < np.finfo(np.float64).smallest_normal:
        raise ValueError(
            f"Expected scale large enough for a grid of normal doubles, got scale={scale}; "
            "multiply the data and their bounds by a constant."
        )
    return spacing


@audible
def add_noise(
    values: Exact, scale: float, rng: np.random.Generator, *, offset: ArrayLike | None = None
) -> FloatArray:
    """Return `values` plus independent N(0, scale**2) noise, correctly rounded.

    Parameters
    ----------
    values : array_like, or pairs of integers
        What to hide, taken as exact: doubles, integers of any size below 2^89, or an object with
        int64 arrays `high` and `low`, which stand for high 2^26 + low.
    scale : float
        The public standard deviation of the noise.
    rng : numpy.random.Generator
        From `generator`.
    offset : array_like, optional
        Doubles that do not depend on the data, such as further noise, to be added exactly.

    Returns
    -------
    ndarray of float64, of the shape of `values`
        The multiple of `grid_spacing(scale)` nearest to value + scale Z for a real normal Z; if it
        has more than 53 bits, the double nearest to it.

    Examples
    --------
    >>> from ndis.randomness import add_noise, generator
    >>> add_noise([10.0, 20.0], scale=0.5, rng=generator()).shape
    (2,)
    """
    parts = parts_of(values)
    if offset is not None:
        parts.append(np.broadcast_to(_validate.floats("offset", offset), parts[0].shape))
    return _added(NORMAL, parts, scale, rng)


@audible
def add_laplace_noise(values: Exact, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return `values` plus independent Laplace noise of mean magnitude `scale`, correctly rounded.

    Parameters and result are those of `add_noise`, with a real draw of Laplace's law.

    Examples
    --------
    >>> from ndis.randomness import add_laplace_noise, generator
    >>> add_laplace_noise([10.0, 20.0], scale=0.5, rng=generator()).shape
    (2,)
    """
    return _added(LAPLACE, parts_of(values), scale, rng)


@audible
def add_discrete_laplace_noise(values: Exact, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return integers plus independent integers n of probability proportional to e^{-|n|/scale}.

    Each is the difference of two geometric draws, and the integer part of a real exponential draw
    of mean `scale` is one, with ratio e^{-1/scale} exactly.

    Parameters
    ----------
    values : array_like of integers, or pairs of integers
        What to hide, exact.
    scale : float
        The public scale.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of the shape of `values`
        Integers; beyond 2^53 the doubles nearest to them.

    Examples
    --------
    >>> from ndis.randomness import add_discrete_laplace_noise, generator
    >>> noisy = add_discrete_laplace_noise([10, 20], scale=2.0, rng=generator())
    >>> bool((noisy % 1 == 0).all())
    True
    """
    parts, scale = parts_of(values), _validate.positive("scale", scale)
    if any(np.any(part != np.rint(part)) for part in parts):
        raise ValueError("Expected integers, got other numbers; use add_laplace_noise.")
    steps = np.empty(parts[0].size)
    for start in range(0, steps.size, BLOCK):
        size = min(BLOCK, steps.size - start)
        wholes = _wholes(LAPLACE.draw(2 * size, rng), scale)
        steps[start : start + size] = wholes[:size] - wholes[size:]
    return joined(parts, steps.reshape(parts[0].shape), 1.0)


def _wholes(draws: Reals, scale: float) -> FloatArray:
    """The integer parts of scale |x|; doubles decide where no integer is near."""
    near = np.abs(draws.doubles()) * scale
    found = np.floor(near)
    unsure = _FLOOR_MARGIN * (scale + near)
    for i in np.flatnonzero(np.abs(near - np.rint(near)) <= unsure).tolist():
        found[i] = _whole(draws, i, scale)
    return found


@audible
def add_counted_laplace_noise(
    values: Exact, scale: float, step: int, rng: np.random.Generator
) -> FloatArray:
    """Return numbers that add up to a whole number of steps, with Laplace noise that keeps that.

    Along the last axis the exact values add up to a multiple of `step`, such as the number of rows
    where each row adds numbers that add up to one step. The noise has the density of independent
    Laplace noise, given that it adds up to a multiple of `step`: a shift that does so too changes
    it by at most e^{sum |shift| / scale}, as without that condition, and there is less of it.
    docs/proofs/laws.md has the proof.

    Parameters
    ----------
    values : array_like of integers of shape (..., p), p >= 2, or pairs of integers
        What to hide, exact.
    scale : float
        The public scale.
    step : int
        A power of two.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of the shape of `values`
        All but the last of each row is rounded as in `add_laplace_noise`, and the last is what is
        left of the noisy whole number of steps.

    Examples
    --------
    >>> from ndis.randomness import add_counted_laplace_noise, generator
    >>> noisy = add_counted_laplace_noise([[1, 3, 4], [8, 0, 0]], 2.0, 8, generator())
    >>> (noisy.sum(axis=1) % 8).tolist()
    [0.0, 0.0]
    """
    scale, high, low = _validate.positive("scale", scale), *_limbs(values)
    p = high.shape[-1]
    bits = int(step).bit_length() - 1
    if step != 1 << bits or p < 2:
        raise ValueError(f"Expected two or more numbers and a power of two, got step={step}.")
    wholes, rest = _shifted(high.sum(axis=-1).ravel(), low.sum(axis=-1).ravel(), bits)
    if rest.any():
        raise ValueError("Expected values that add up to whole steps, got others.")
    parts = [part.reshape(-1, p) for part in parts_of(values)]
    result, spacing = np.empty((len(wholes), p)), grid_spacing(scale)
    left = np.arange(len(wholes))
    while left.size:
        rows = left[: BLOCK // p + 1]
        draws = LAPLACE.draw(rows.size * p, rng)
        before, after, down = _passed(draws, p, scale, step)
        kept = np.flatnonzero(before != after)
        at = (kept[:, None] * p + np.arange(p - 1)).ravel()
        block = [part[rows[kept], :-1].ravel() for part in parts]
        noisy = _rounded(block, scale, spacing, draws, at).reshape(-1, p - 1)
        count = wholes[rows[kept]] + after[kept] + down[kept]
        result[rows[kept], :-1] = noisy
        result[rows[kept], -1] = count * float(step) - noisy.sum(axis=1)
        left = np.concatenate([np.delete(rows, kept), left[rows.size :]])
    return result.reshape(high.shape)


def _passed(
    draws: Reals, p: int, scale: float, step: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Of p draws each: whole steps below the sum of the first p - 1, and below the sum of all.

    And whether the last is negative.
    """
    each = draws.doubles().reshape(-1, p)
    ratio = scale / step
    sums = np.cumsum(each, axis=1)[:, -2:] * ratio
    floors: Any = np.floor(sums)
    # Of a very large scale they are Python's integers, which have no end.
    floors = floors.astype(np.int64) if ratio < _FAR else _integers(floors)
    size = np.abs(each).sum(axis=1, keepdims=True) * ratio
    unsure = np.abs(sums - np.rint(sums)) <= p * _FLOOR_MARGIN * (ratio + size)
    for row, end in np.argwhere(unsure).tolist():
        first = row * p
        floors[row, end] = _floor_of_sum(draws, first, first + p - 1 + end, Fraction(scale) / step)
    return floors[:, 0], floors[:, 1], draws.floors.reshape(-1, p)[:, -1] < 0


_integers = np.frompyfunc(int, 1, 1)


def _floor_of_sum(draws: Reals, start: int, end: int, ratio: Fraction) -> int:
    """The integer part of ratio times a sum of draws, by as many digits as it takes."""
    bits = draws.bits
    while True:
        low = sum(draws.floor(i, bits) for i in range(start, end))
        ends = (math.floor(ratio * each / (1 << bits)) for each in (low, low + end - start))
        first, last = ends
        if first == last:
            return first
        bits += 64


def _limbs(values: Exact) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Integers as high 2^26 + low."""
    if hasattr(values, "high"):
        pairs = cast(Integers, values)
        if pairs.part is not None:
            raise ValueError("Expected integers, got other numbers; use add_laplace_noise.")
        return pairs.high, pairs.low
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError("Expected integers, got other numbers; use add_laplace_noise.")
    return array >> 26, array & (2**26 - 1)


def _shifted(
    high: NDArray[np.int64], low: NDArray[np.int64], bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How often 2^bits goes into high 2^26 + low, and the rest of it."""
    high, low = high + (low >> 26), low & (2**26 - 1)
    if bits >= 26:
        return high >> bits - 26, (high & ((1 << bits - 26) - 1)) | low
    return (high << 26 - bits) + (low >> bits), low & ((1 << bits) - 1)


def _whole(draws: Reals, index: int, scale: float) -> int:
    """The integer part of scale |x|, by as many digits of x as it takes."""
    bits, ratio = draws.bits, Fraction(scale)
    while True:
        floor = draws.floor(index, bits)
        low, high = (abs(end) * ratio / (1 << bits) for end in (floor, floor + 1))
        if math.floor(low) == math.floor(high):
            return math.floor(low)
        bits += 64


@audible
def add_symmetric_noise(values: Any, scale: float, rng: np.random.Generator) -> FloatArray:
    """Add symmetric noise: standard deviation scale on the diagonal, scale/sqrt(2) off it.

    A row changes a Gram matrix by x x^T, whose squared distance in this noise is
    (sum_i x_i^4 + 2 sum_{i<j} x_i^2 x_j^2)/scale^2 = |x|^4/scale^2: with equal variances on and off
    the diagonal the worst case would be the same and the noise larger. Off the diagonal the
    standard deviation is rounded up.

    Parameters
    ----------
    values : array_like of shape (d, d), or pairs of integers
        As in `add_noise`; only the upper triangle is read.
    scale : float
        The public standard deviation on the diagonal.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of shape (d, d)

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import add_symmetric_noise, generator
    >>> noisy = add_symmetric_noise(np.eye(3), scale=0.5, rng=generator())
    >>> bool(np.all(noisy == noisy.T))
    True
    """
    whole = values if hasattr(values, "high") else np.asarray(values)
    d = (whole.high if hasattr(whole, "high") else whole).shape[0]
    noisy, off_diagonal = np.empty((d, d)), scale * math.sqrt(0.5) * (1.0 + 2.0**-50)
    for rows, columns in _above(d):  # a block at a time: whole parts would be matrices more
        block = _added(NORMAL, parts_of(taken(whole, (rows, columns))), off_diagonal, rng)
        noisy[rows, columns] = noisy[columns, rows] = block
    diagonal = np.arange(d), np.arange(d)
    noisy[diagonal] = _added(NORMAL, parts_of(taken(whole, diagonal)), scale, rng)
    return noisy


def _above(d: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The places above a diagonal, row by row, in blocks of draws: their rows and columns."""
    ends = np.cumsum(np.arange(d - 1, -1, -1))
    for start in range(0, int(ends[-1]), BLOCK):
        places = np.arange(start, min(start + BLOCK, int(ends[-1])))
        rows = np.searchsorted(ends, places, side="right")
        yield rows, places - ends[rows] + d


class _Some(NamedTuple):
    """Integers that were taken from others."""

    high: NDArray[np.int64]
    low: NDArray[np.int64]
    part: NDArray[np.int64] | None


def taken(values: Any, index: Any) -> Exact:
    """Numbers at some places."""
    if not hasattr(values, "high"):
        return cast(ArrayLike, values[index])
    part = None if values.part is None else values.part[index]
    return _Some(values.high[index], values.low[index], part)


def parts_of(values: Exact) -> list[FloatArray]:
    """Up to three arrays of doubles whose exact sum is `values`."""
    if hasattr(values, "high"):
        pairs = cast(Integers, values)
        high, low = pairs.high + (pairs.low >> 26), pairs.low & (2**26 - 1)
        behind = [] if pairs.part is None else [np.ldexp(pairs.part.astype(np.float64), -26)]
        return [np.ldexp(high >> 26, 52), np.ldexp(high & (2**26 - 1), 26) + low, *behind]
    array = np.asarray(values)
    if array.dtype.kind in "iuO" and not np.all(np.abs(array) <= 2**53):
        high, low = array >> 52, array & (2**52 - 1)
        if array.dtype.kind == "O" and not np.all(np.abs(high) < 2**37):
            raise ValueError("Expected integers below 2^89, got larger ones; divide the data.")
        return [np.ldexp(high.astype(np.float64), 52), low.astype(np.float64)]
    return [_validate.floats("values", values)]


def _added(law: Law, parts: list[FloatArray], scale: float, rng: np.random.Generator) -> FloatArray:
    spacing = grid_spacing(scale)
    result = np.empty(parts[0].size)
    flat = [part.reshape(-1) for part in parts]
    for start in range(0, result.size, BLOCK):
        block = [part[start : start + BLOCK] for part in flat]
        draws = law.draw(block[0].size, rng)
        result[start : start + BLOCK] = _rounded(block, scale, spacing, draws)
    return result.reshape(parts[0].shape)


def _rounded(
    block: list[FloatArray],
    scale: float,
    spacing: float,
    draws: Reals,
    at: NDArray[np.int64] | None = None,
) -> FloatArray:
    """Values plus draws, or those at some places, as multiples of the spacing."""
    bases, rest = split(block, spacing)
    steps = draws.doubles()
    if at is not None:
        steps = steps[at]
    steps *= scale / spacing
    steps += rest
    nearest = np.rint(steps)
    steps -= nearest
    for i in np.flatnonzero(np.abs(steps) > 0.5 - _MARGIN).tolist():
        place = i if at is None else int(at[i])
        nearest[i] = _nearest(exact_rest(block, bases, i, spacing), scale / spacing, draws, place)
    return joined(bases, nearest, spacing)


def _nearest(rest: Fraction, ratio: float, draws: Reals, index: int) -> int:
    """The integer nearest to rest + ratio Z, by as many digits of Z as it takes."""
    bits = draws.bits
    while True:
        floor = draws.floor(index, bits)
        ends = [rest + Fraction(ratio) * Fraction(f, 1 << bits) for f in (floor, floor + 1)]
        low, high = (math.floor(end + Fraction(1, 2)) for end in ends)
        if low == high:
            return low
        bits += 64


def split(parts: list[FloatArray], spacing: float) -> tuple[list[FloatArray], FloatArray]:
    """Multiples of the spacing, one for each part, and what is left over, in steps.

    The multiples are exact; of what is left over the doubles are off by 2^-53 at most.
    """
    bases, rest = [], np.zeros(parts[0].shape)
    for part in parts:
        with np.errstate(over="ignore"):
            steps = part / spacing  # exact: a power of two only moves the exponent
        fine = np.abs(steps) < 2.0**52  # all others are multiples already
        steps = np.where(fine, steps, 0.0)
        whole = np.rint(steps)
        bases.append(np.where(fine, whole * spacing, part))
        rest += steps - whole
    return bases, rest


def exact_rest(
    parts: list[FloatArray], bases: list[FloatArray], index: Any, spacing: float
) -> Fraction:
    """The rest of one number after `split`, exactly."""
    left = sum((Fraction(part[index]) for part in parts), Fraction(0))
    return (left - sum(Fraction(base[index]) for base in bases)) / Fraction(spacing)


def joined(bases: list[FloatArray], steps: FloatArray, spacing: float) -> FloatArray:
    """The doubles nearest to the exact sums of bases and steps."""
    with np.errstate(over="ignore"):
        moves = steps * spacing
        total = sum(bases, moves) + 0.0  # a zero carries no sign
    if len(bases) > 1:
        # Below 2^53 steps all sums on the way are exact. One base alone is rounded only once.
        size = sum((np.abs(base) for base in bases), np.abs(moves))
        for i in np.flatnonzero(size >= 2.0**53 * spacing):
            total[i] = float(sum((Fraction(base[i]) for base in bases), Fraction(moves[i])))
    if not np.all(np.isfinite(total)):
        raise ValueError(
            "Expected values that stay finite on the release grid, got one at the edge of the "
            "doubles; divide the data and their bounds by a constant."
        )
    return total
