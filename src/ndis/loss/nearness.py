"""How far errors in the numbers of a pair of Gaussians can move delta.

Some errors have a known worst end. Delta grows with a mean difference and, in a direction without
one, with the distance of the ratio of the variances from 1; so other numbers, a little further out
or in, bound the pair that is meant from above and below (`worst`, `best`).

For all others the pair meant, (P', Q'), is near the pair (P, Q) of the numbers. By the triangle
inequality of the hockey-stick divergence, for all a and b,

    delta'(eps) <= delta_a(P'|P) + e^a delta(eps - a - b) + e^{eps - b} delta_b(Q|Q'),

and the same with the pairs exchanged. P' and P are so near that delta_a(P'|P) is next to nothing
for a tiny a. Nothing is expanded, so that this holds where delta falls as steeply as it likes, up
to the end of a bounded loss. The proofs stand in docs/proofs/certified-bounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import FloatArray

__all__ = ["Step", "best", "step", "tighter", "worst"]

# More than rounding can take away from a few operations.
_UP = 1.0 + 2.0**-50
# Squares of the smallest errors are no doubles; these are no less.
_LEAST = 1e-300

# The numbers of a loss: excess, shift, count, variance, direction and shift error.
Parts = list[FloatArray]


def worst(parts: Parts) -> Parts:
    """Numbers that dominate the pairs meant, with those errors left that have no worst end."""
    return _moved(parts, 1.0)


def best(parts: Parts) -> Parts:
    """Numbers that the pairs meant dominate, with the same errors left."""
    return _moved(parts, -1.0)


def _moved(parts: Parts, sign: float) -> Parts:
    x, h, n, e, f, g = parts
    if not (e.any() or g.any()):
        return parts
    size = np.abs(x)
    # Of |F1| + |F2| <= e the ratio (1 + z)(1 + F1)/(1 + F2) moves by less than this, relatively.
    ratio = e * (1.0 + 2.0 * e) * _UP
    with np.errstate(invalid="ignore"):  # an infinite excess is looked at by nobody
        move = ratio * (1.0 + size)
    alone = (f == 0) & (e < 0.25)
    free = alone & (h == 0) & (g == 0) & (size > move)
    moved = np.where(free & (e > 0), np.nextafter(size + sign * move, sign * np.inf), size)
    # A direction alone may be measured in the deviations of P, which then has no error; the shift
    # in those of the narrower law has it instead.
    apart = alone & ~free
    root = np.maximum(np.sqrt(h) * (1.0 + sign * np.where(apart, ratio, 0.0)) + sign * g, 0.0)
    shift = root**2 * (_UP if sign > 0 else 1.0 / _UP)
    shift = np.where((g > 0) | (apart & (e > 0)), shift, h)
    left = np.where(free, 0.0, np.where(apart, ratio, e))
    return [np.copysign(moved, x), shift, n, left, f, np.zeros_like(g)]


@dataclass(frozen=True)
class Step:
    """From a pair of numbers to the pair that is meant: a, b, and a bound on the rare rest."""

    epsilon: FloatArray
    a: FloatArray
    b: FloatArray
    log_rest: FloatArray

    @property
    def width(self) -> FloatArray:
        """How far epsilon moves."""
        return np.asarray(_UP * (self.a + self.b))

    def moved(self, side: int) -> FloatArray:
        """The epsilon before (-1) or after (1) this one at which the numbers are asked."""
        moved = np.nextafter(self.epsilon + side * self.width, side * np.inf)
        return np.where(self.width > 0, moved, self.epsilon)

    def raised(self, log_delta: ArrayLike) -> FloatArray:
        """From (upper bounds on) the numbers' ln delta before to upper bounds."""
        total = np.logaddexp(np.asarray(log_delta) + self.a, self.log_rest)
        return np.where(self.width > 0, total + 1e-15 * np.abs(total), log_delta)

    def lowered(self, log_delta: ArrayLike) -> FloatArray:
        """From lower bounds on the numbers' ln delta after to lower bounds."""
        log_delta = np.asarray(log_delta)
        with np.errstate(all="ignore"):
            share = np.exp(self.log_rest + self.a - log_delta)
            total = log_delta - self.a + np.log1p(-share)
            total = np.where(share < 1.0, total - 1e-15 * np.abs(total), -np.inf)
        return np.where(self.width > 0, total, log_delta)


# A step, and the numbers' ln delta before or after it.
Tried = tuple[Step, FloatArray]


def tighter(one: Tried, other: Tried, side: int) -> Tried:
    """Of two steps the one with the tighter bound, epsilon by epsilon: above (-1) or below (1)."""
    ends = [s.raised(value) if side < 0 else -s.lowered(value) for s, value in (one, other)]
    first = ~(ends[1] < ends[0])
    chosen = (np.where(first, *pair) for pair in zip(*map(_numbers, (one, other)), strict=True))
    a, b, log_rest, value = chosen
    return Step(one[0].epsilon, a, b, log_rest), value


def _numbers(tried: Tried) -> tuple[FloatArray, ...]:
    here, value = tried
    return here.a, here.b, here.log_rest, value


def step(epsilon: FloatArray, parts: Parts, log_rare: FloatArray) -> Step:
    """The least a and b known at which both distances are at most e^-log_rare.

    Of what `worst` or `best` left: a direction without a direction error has its error in Q.
    """
    _, _, n, e, f, _ = parts
    return Step(
        epsilon,
        _least(n, np.where(f > 0, e, 0.0), f, log_rare),
        _least(n, e, f, log_rare),
        math.log(2.0) + np.maximum(epsilon, 0.0) - log_rare,
    )


def _least(n: FloatArray, e: FloatArray, f: FloatArray, log_rare: FloatArray) -> FloatArray:
    """The least a known at which two laws with these errors are e^-log_rare apart.

    In the deviations of one law the covariance of the other is I + F, |F| at most `norm` and the
    squares of its entries at most `square` in sum. Then for every s > 0 with (1 + s) norm <= 1/2

        ln E[e^{sL}] <= (1 + s)^2/2 square

    in both orders, and Chernoff's bound is e^{that - s a}. Infinite where the errors are so large
    that there is no such s.
    """
    norm = np.max(e, axis=-1) + np.max(f, axis=-1)
    square = np.maximum(np.sum(np.maximum(n, 1.0) * (e**2 + f**2), axis=-1), _LEAST)
    with np.errstate(all="ignore"):
        s = np.sqrt(1.0 + 2.0 * log_rare / square)  # where the derivative vanishes
        s = np.minimum(s, 0.4999 / norm - 1.0)
        a = (1.0 + 1e-12) * (log_rare + 0.5 * (1.0 + s) ** 2 * square) / s
    return np.where(norm > 0, np.where(s > 0, a, np.inf), 0.0)
