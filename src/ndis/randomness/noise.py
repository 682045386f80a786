"""Noise that is added, correctly rounded.

A release is the point of a public grid that is nearest to value + scale Z, where Z is a draw of
the normal (or Laplace) law itself and the sum is that of real numbers. So a release is a
post-processing of the ideal mechanism, and keeps its promise; docs/proofs/rounding.md has the
proof.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol, cast

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
    size = parts[0].size
    draws = LAPLACE.draw(2 * size, rng)
    wholes = np.array([_whole(draws, i, scale) for i in range(2 * size)], dtype=np.float64)
    steps = (wholes[:size] - wholes[size:]).reshape(parts[0].shape)
    return joined(parts, steps, 1.0)


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
    parts = parts_of(values)
    above = np.triu_indices(len(parts[0]), 1)
    noisy = np.zeros(parts[0].shape)
    off_diagonal = scale * math.sqrt(0.5) * (1.0 + 2.0**-50)
    noisy[above] = _added(NORMAL, [part[above] for part in parts], off_diagonal, rng)
    noisy += noisy.T
    np.fill_diagonal(noisy, _added(NORMAL, [np.diag(part) for part in parts], scale, rng))
    return noisy


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
        bases, rest = split(block, spacing)
        draws = law.draw(rest.size, rng)
        steps = draws.doubles()
        steps *= scale / spacing
        steps += rest
        nearest = np.rint(steps)
        steps -= nearest
        for i in np.flatnonzero(np.abs(steps) > 0.5 - _MARGIN).tolist():
            nearest[i] = _nearest(exact_rest(block, bases, i, spacing), scale / spacing, draws, i)
        result[start : start + BLOCK] = joined(bases, nearest, spacing)
    return result.reshape(parts[0].shape)


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
