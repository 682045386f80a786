"""Reading curves backwards: from delta to epsilon, and from a level to the best test.

Curves are upper bounds on ln delta(epsilon). What is found is always a point at which such a bound
was evaluated, so that a search may be quick without being trusted: a wrong guess costs tightness.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray

# A curve, epsilon -> ln delta; and several at a time: epsilons, and which curves they are for.
Curve = Callable[[FloatArray], FloatArray]
Curves = Callable[[FloatArray, NDArray[np.intp]], FloatArray]

# No privacy is meant by an epsilon beyond this.
_LARGEST_EPSILON = 1e9
# Closer than this to the ln delta asked for, relatively, is close enough.
_CLOSE = 1e-12
# And for curves of which every point costs a search.
_CLOSE_ENOUGH = 1e-6
# Where a valley is looked for: on either side of 0, and up to where e^epsilon is a double.
_HALF = np.concatenate([[0.0], np.geomspace(1e-6, 700.0, 80)])
_EPSILONS = np.concatenate([-_HALF[:0:-1], _HALF])
# Steps into a valley, how far aside of where it should be lowest they go, as a share of its width,
# and the heights, relatively, between which it is flat.
_STEPS, _ASIDE, _FLAT = 120, 1e-2, 1e-13


def least_epsilons(
    curves: Curves, target: FloatArray, start: FloatArray | None = None
) -> FloatArray:
    """For each curve the least epsilon >= 0 at which it is at or below its target, from above.

    Infinite where there is none up to 1e9: the laws are as good as disjoint. From a `start` that is
    about right few points are needed, and the answer is within 1e-6 of ln delta instead of 1e-12.
    """
    result = np.zeros(target.size)
    rows = np.arange(target.size)
    if start is None:
        low, high = np.zeros(target.size), np.ones(target.size)
        f_low, f_high = curves(low, rows), np.full(target.size, np.inf)
    else:
        low, high, f_low, f_high = _around(curves, target, np.where(np.isfinite(start), start, 1.0))
    rows = rows[f_low > target]
    wrong = rows[f_high[rows] > target[rows]]
    while wrong.size:
        f_high[wrong] = curves(high[wrong], wrong)
        wrong = wrong[f_high[wrong] > target[wrong]]
        low[wrong], f_low[wrong] = high[wrong], f_high[wrong]
        high[wrong] *= 4.0
        beyond = high[wrong] > _LARGEST_EPSILON
        high[wrong[beyond]] = np.inf
        wrong = wrong[~beyond]
    result[rows] = high[rows]
    rows = rows[np.isfinite(high[rows])]
    result[rows] = narrowed(
        lambda eps, some: curves(eps, rows[some]),
        *(a[rows] for a in (target, low, high, f_low, f_high)),
        close=_CLOSE if start is None else _CLOSE_ENOUGH,
    )
    return result


def _around(
    curves: Curves, target: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Brackets of epsilons and their heights, as narrow as `start` is good; low ones may be 0."""
    rows = np.arange(target.size)
    low, high = start.copy(), start.copy()
    f_low = curves(start, rows)
    f_high = f_low.copy()
    for share in (1e-3, 1e-2, 0.1, 1.0):
        up = rows[(f_high > target) & (high > 0)]
        down = rows[(f_low <= target) & (low > 0)]
        some = np.concatenate([up, down])
        if not some.size:
            break
        at = np.concatenate([start[up] * (1.0 + share), start[down] * (1.0 - share)])
        f = curves(at, some)
        low[up], f_low[up] = high[up], f_high[up]
        high[up], f_high[up] = at[: up.size], f[: up.size]
        high[down], f_high[down] = low[down], f_low[down]
        low[down], f_low[down] = at[up.size :], f[up.size :]
    zero = start == 0
    high[zero], f_high[zero] = 1.0, np.inf
    return low, high, f_low, f_high


def narrowed(
    curves: Curves,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    f_low: FloatArray,
    f_high: FloatArray,
    *,
    close: float = _CLOSE,
) -> FloatArray:
    """Upper ends of brackets f_low > target >= f_high, moved in until they are close."""
    near_enough = close * np.maximum(1.0, np.abs(target))
    for step in range(300):
        wide = high - low > 4e-16 * np.abs(high)
        rows = np.flatnonzero((target - f_high > near_enough) & wide)
        if not rows.size:
            break
        a, b, g_a, g_b = (v[rows] for v in (low, high, f_low, f_high))
        aim = target[rows] - 0.5 * near_enough[rows]
        middle = 0.5 * (a + b)
        with np.errstate(all="ignore"):
            # Two secants from the nearer end, the second doubled to move the other end; then half.
            g_a, g_b = g_a - aim, g_b - aim
            near_a = np.abs(g_a) < np.abs(g_b)
            slope = (g_b - g_a) / (b - a)
            x = np.where(near_a, a, b) - (1 + step % 3) * np.where(near_a, g_a, g_b) / slope
        x = np.where((x > a) & (x < b) & (step % 3 < 2), x, middle)
        f = curves(x, rows)
        fits = f <= target[rows]
        low[rows], f_low[rows] = np.where(fits, a, x), np.where(fits, f_low[rows], f)
        high[rows], f_high[rows] = np.where(fits, x, b), np.where(fits, f, f_high[rows])
    return high


def tradeoff_of(curve: Curve, reverse: Curve, level: FloatArray) -> FloatArray:
    """The largest 1 - delta(eps) - e^eps alpha over eps >= 0, and over eps < 0 through the reverse.

    With e = -eps >= 0, delta(eps) = 1 - e^-e + e^-e delta_reversed(e), so that the line is
    e^-e (1 - alpha - delta_reversed(e)), without cancellation. Any epsilon gives a lower bound.
    In e^eps a line's height is concave, so that there is one summit.
    """

    def depths(eps: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        alpha, ahead, f = level[rows], eps >= 0, np.empty(eps.shape)
        f[ahead], f[~ahead] = curve(eps[ahead]), reverse(-eps[~ahead])
        lines = -np.expm1(f) - np.exp(eps) * alpha, np.exp(eps) * ((1.0 - alpha) - np.exp(f))
        return -np.where(ahead, *lines)

    best = -lowest(depths, level.size)[0]
    # Rounding may have raised a line by an ulp or two; and a type II error is at least 0.
    return np.maximum(best * (1.0 - 2.0**-51), 0.0)


def lowest(
    heights: Curves, count: int, points: FloatArray = _EPSILONS, steps: int = _STEPS
) -> tuple[FloatArray, FloatArray]:
    """The least heights seen of so many functions with one valley each, and where.

    `heights` is given epsilons, a column of them at first, and which functions they are for.
    """
    seen = heights(points[:, None], np.arange(count))
    best, every = np.argmin(seen, axis=0), np.arange(count)
    # Neighbours of the lowest point; at an end of the list it is its own, and nothing is lost.
    places = [np.clip(best + k, 0, points.size - 1) for k in (-1, 0, 1)]
    # Around the lowest point x, at which the height is f, two that are higher.
    low, x, high = (points[place] for place in places)
    f_low, f, f_high = (seen[place, every] for place in places)
    for step in range(steps):
        rows = np.flatnonzero(np.maximum(f_low, f_high) > f + _FLAT * np.abs(f))
        if not rows.size:
            break
        a, b, c, f_a, f_b, f_c = (v[rows] for v in (low, x, high, f_low, f, f_high))
        wider = np.where(c - b > b - a, c - b, a - b)
        probe = b + 0.381966 * wider  # the golden section
        if step % 4:  # or the lowest point of a parabola, a little aside to bring an end near too
            with np.errstate(all="ignore"):
                left, right = (b - a) * (f_b - f_c), (b - c) * (f_b - f_a)
                move = -0.5 * ((b - a) * left - (b - c) * right) / (left - right)
                move += _ASIDE * wider
            inside = (b + move > a) & (b + move < c) & (move != 0.0)
            probe = np.where(inside, b + move, probe)
        f_probe = heights(probe, rows)
        better, right = f_probe < f_b, probe > b
        for end, f_end, beyond in ((low, f_low, right), (high, f_high, ~right)):
            by_x, by_probe = better & beyond, ~better & ~beyond
            end[rows] = np.where(by_x, b, np.where(by_probe, probe, end[rows]))
            f_end[rows] = np.where(by_x, f_b, np.where(by_probe, f_probe, f_end[rows]))
        x[rows], f[rows] = np.where(better, probe, b), np.where(better, f_probe, f_b)
    return f, x
