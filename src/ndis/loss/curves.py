"""Reading falling curves backwards: from delta to epsilon, and from a level to the best test.

Curves are upper bounds on ln delta(epsilon). What is found is always a point at which such a bound
was evaluated, so that a search may be quick without being trusted: a wrong guess costs tightness.
"""

from __future__ import annotations

import math
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
# Points at which a curve is sampled before it is read at many places, and from how many places on.
_KNOTS, _MANY = 257, 16
# Lines compared at a time.
_AT_ONCE = 1 << 20
# No line of a trade-off curve gains anything beyond this delta, nor can one beyond e^700.
_NEGLIGIBLE, _STEEPEST = 1e-17, 700.0


def least_epsilons(curves: Curves, target: FloatArray) -> FloatArray:
    """For each curve the least epsilon >= 0 at which it is at or below its target, from above.

    Infinite where there is none up to 1e9: the laws are as good as disjoint.
    """
    result = np.zeros(target.size)
    rows = np.arange(target.size)
    low, high = np.zeros(target.size), np.ones(target.size)
    f_low = curves(low, rows)
    rows = rows[f_low > target]
    f_high = np.full(target.size, np.inf)
    wrong = rows
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
    result[rows] = _narrowed(
        lambda eps, some: curves(eps, rows[some]),
        *(a[rows] for a in (target, low, high, f_low, f_high)),
    )
    return result


def _narrowed(
    curves: Curves,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    f_low: FloatArray,
    f_high: FloatArray,
) -> FloatArray:
    """Upper ends of brackets f_low > target >= f_high, moved in until they are close."""
    near_enough = _CLOSE * np.maximum(1.0, np.abs(target))
    aim = target - 0.5 * near_enough
    # Chandrupatla's method: through the last three points where they allow it, else half-way.
    new, old, share = high.copy(), low.copy(), np.full(target.shape, 0.5)
    g_new, g_old = _above(f_high, aim), _above(f_low, aim)
    for _ in range(240):
        rows = np.flatnonzero((target - f_high > near_enough) & (high - low > 4e-16 * high))
        if not rows.size:
            break
        x1, x2, g1, g2 = (v[rows] for v in (new, old, g_new, g_old))
        x = x1 + share[rows] * (x2 - x1)
        f = curves(x, rows)
        fits = f <= target[rows]
        high[rows], f_high[rows] = np.where(fits, x, high[rows]), np.where(fits, f, f_high[rows])
        low[rows] = np.where(fits, low[rows], x)
        g = _above(f, aim[rows])
        same = (g > 0) == (g1 > 0)
        x3, g3 = np.where(same, x1, x2), np.where(same, g1, g2)
        x2, g2 = np.where(same, x2, x1), np.where(same, g2, g1)
        new[rows], old[rows], g_new[rows], g_old[rows] = x, x2, g, g2
        with np.errstate(all="ignore"):
            place, height = (x - x2) / (x3 - x2), (g - g2) / (g3 - g2)
            smooth = (height**2 < place) & ((1.0 - height) ** 2 < 1.0 - place)
            guess = g / (g2 - g) * g3 / (g2 - g3)
            guess += (x3 - x) / (x2 - x) * g / (g3 - g) * g2 / (g3 - g2)
        # A step that ends on an end of the bracket would learn nothing.
        share[rows] = np.where(smooth & np.isfinite(guess), np.clip(guess, 1e-9, 1 - 1e-9), 0.5)
    return high


def _above(f: FloatArray, aim: FloatArray) -> FloatArray:
    """How far above, and for the sake of interpolation never endlessly far below."""
    return np.maximum(f - aim, -1e9)


def least_epsilons_of_one(curve: Curve, target: FloatArray, quick: bool) -> FloatArray:
    """The same for one curve and any number of targets.

    For many, the curve is sampled first. A `quick` one is then evaluated again where a smooth curve
    through the samples says; of others the chords between samples are read, which are above them.
    """
    values, place = np.unique(target, return_inverse=True)
    if values.size < _MANY:
        return least_epsilons(lambda eps, _: curve(eps), values)[place]
    result = least_epsilons(lambda eps, _: curve(eps), values[:1]).repeat(values.size)
    if math.isinf(result[0]):  # nothing to sample between: half of the targets are easier
        half = values.size // 2
        result[half:] = least_epsilons_of_one(curve, values[half:], quick)
        result[:half] = least_epsilons_of_one(curve, values[:half], quick)
        return result[place]
    knots, heights = sampled(curve, result[0], _KNOTS if quick else _KNOTS // 4)
    result[values >= heights[0]] = 0.0
    rows = np.flatnonzero(values < heights[0])
    # The first knot at or below each target, and the one before it.
    after = np.searchsorted(-np.minimum.accumulate(heights), -values[rows], side="left")
    after = np.minimum(after, knots.size - 1)
    wanted, low, high, f_low, f_high = (
        values[rows],
        knots[after - 1],
        knots[after],
        heights[after - 1],
        heights[after],
    )
    if quick:
        _improve(curve, wanted, low, high, f_low, f_high, knots, heights)
        result[rows] = _narrowed(lambda eps, _: curve(eps), wanted, low, high, f_low, f_high)
    else:
        result[rows] = _on_chord(wanted, low, high, f_low, f_high)
    return result[place]


def sampled(curve: Curve, top: float, count: int) -> tuple[FloatArray, FloatArray]:
    """A curve at points from 0 to `top`, closer to each other near 0."""
    knots = top * np.linspace(0.0, 1.0, count) ** 2
    return knots, curve(knots)


def _improve(
    curve: Curve,
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    f_low: FloatArray,
    f_high: FloatArray,
    knots: FloatArray,
    heights: FloatArray,
) -> None:
    """Narrow brackets, in place, by two evaluations where a spline through the samples says."""
    aim = target - 0.5 * _CLOSE * np.maximum(1.0, np.abs(target))
    guess, slope = _read_backwards(knots, heights, aim)
    for _ in range(2):
        guess = np.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
        f = curve(guess)
        above = f > target
        low[above], f_low[above] = guess[above], f[above]
        high[~above], f_high[~above] = guess[~above], f[~above]
        with np.errstate(invalid="ignore"):
            guess = guess + slope * (aim - f)


def _read_backwards(
    x: FloatArray, falling: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where a smooth curve through samples of a falling function has given values, and dx/dy."""
    from scipy.interpolate import CubicSpline

    lowest_before = np.minimum.accumulate(np.concatenate([[np.inf], falling[:-1]]))
    usable = np.flatnonzero(np.isfinite(falling) & (falling < lowest_before))
    if usable.size < 4:
        return np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    inverse = CubicSpline(falling[usable][::-1], x[usable][::-1])
    return inverse(values), inverse(values, 1)


def _on_chord(
    target: FloatArray, low: FloatArray, high: FloatArray, f_low: FloatArray, f_high: FloatArray
) -> FloatArray:
    """Where the chord in e^epsilon, which lies above the convex curve, meets the target."""
    width = -np.expm1(low - high)
    # Heights in units of that at the lower end; the share of the chord that is left at the target.
    end, wanted = np.exp(f_high - f_low), np.exp(target - f_low)
    # The target lies between the ends, but for rounding; at either end the chord is on the curve.
    share = np.clip((wanted - end) / (1.0 - end), 0.0, 1.0)
    return np.asarray(np.minimum(high + np.log1p(-share * width) + 1e-15 * (1.0 + high), high))


Line = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def tradeoff_of(curve: Curve, reverse: Curve, level: FloatArray) -> FloatArray:
    """The largest 1 - delta(eps) - e^eps alpha over eps >= 0, and over eps < 0 through the reverse.

    With e = -eps >= 0, delta(eps) = 1 - e^-e + e^-e delta_reversed(e), so that the line is
    e^-e (1 - alpha - delta_reversed(e)), without cancellation. Any epsilon gives a lower bound.
    The best one is where Pr[L > eps] under Q, a tail that the curve's slope tells, is alpha.
    """
    best, at_zero = _best_lines(
        curve,
        lambda eps, f, alpha: -np.expm1(f) - np.exp(eps) * alpha,
        lambda eps, f, slope: f + np.log(-slope) - eps,
        level,
        level,
    )
    other, _ = _best_lines(
        reverse,
        lambda eps, f, alpha: np.exp(-eps) * ((1.0 - alpha) - np.exp(f)),
        lambda eps, f, slope: f + np.log1p(-slope),
        level,
        1.0 - level,
    )
    # Rounding may have raised a line by an ulp or two; and a type II error is at least 0.
    best = np.maximum(np.maximum(best, other) * (1.0 - 2.0**-51), 0.0)
    return np.where(level == 0.0, at_zero, best)


def _best_lines(
    curve: Curve, line: Line, log_tail: Line, alpha: FloatArray, tail: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """For each alpha the largest line, at the epsilon where a tail of the loss has its size.

    `line` is a function of epsilon, ln delta and alpha, `log_tail` of epsilon, ln delta and its
    slope. Also the last line, which is the best one for alpha = 0.
    """
    from scipy.interpolate import CubicSpline

    negligible = np.array([math.log(_NEGLIGIBLE)])
    end = float(least_epsilons(lambda eps, _: curve(eps), negligible)[0])
    knots, heights = sampled(curve, min(end, _STEEPEST), _KNOTS)
    # The last knot has its own line: where delta falls to 0 at once, its height below is left out.
    last, first = (np.asarray(line(knots[[i]], heights[[i]], alpha)) for i in (-1, 0))
    knots, heights = knots[heights > -np.inf], heights[heights > -np.inf]
    if knots.size < 4 or end == 0.0:
        return np.maximum(first, last), last
    # In e^eps a line's height is concave: the best place is beside the best knot.
    size = max(1, _AT_ONCE // knots.size)
    parts = [alpha[i : i + size] for i in range(0, alpha.size, size)]
    best_knot = np.concatenate(
        [np.argmax(line(knots[:, None], heights[:, None], part), axis=0) for part in parts]
    )
    low, high = (
        knots[np.maximum(best_knot - 1, 0)],
        knots[np.minimum(best_knot + 1, knots.size - 1)],
    )
    with np.errstate(all="ignore"):
        tails = log_tail(knots, heights, CubicSpline(knots, heights)(knots, 1))
        place, _ = _read_backwards(knots, tails, np.log(tail))
        place = np.where((place > low) & (place < high), place, knots[best_knot])
    here = line(place, curve(place), alpha)
    best = np.maximum(here, line(knots[best_knot], heights[best_knot], alpha))
    # Where a line close by is better, the curve has a kink or is a polygon: a search finds it.
    near = 1e-3 * (high - low)
    for other in (np.maximum(place - near, 0.0), np.minimum(place + near, knots[-1])):
        best = np.maximum(best, line(other, curve(other), alpha))
    missed = np.flatnonzero(best > here + _CLOSE)
    if missed.size:
        found = _by_golden_section(
            lambda eps: line(eps, curve(eps), alpha[missed]), low[missed], high[missed]
        )
        best[missed] = np.maximum(best[missed], found)
    return np.maximum(best, last), last


def _by_golden_section(height: Curve, low: FloatArray, high: FloatArray) -> FloatArray:
    """The largest height found between low and high, element by element."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    f_left, f_right = height(left), height(right)
    for _ in range(50):
        keep_left = f_left >= f_right
        high, low = np.where(keep_left, right, high), np.where(keep_left, low, left)
        probe = np.where(keep_left, high - ratio * (high - low), low + ratio * (high - low))
        f_probe = height(probe)
        left, right = np.where(keep_left, probe, right), np.where(keep_left, left, probe)
        f_left, f_right = (
            np.where(keep_left, f_probe, f_right),
            np.where(keep_left, f_left, f_probe),
        )
    return np.maximum(f_left, f_right)


Samples = tuple[FloatArray, FloatArray]


def largest_lines(forwards: Samples, backwards: Samples, level: FloatArray) -> FloatArray:
    """The largest of the lines that belong to samples of a curve and of its reverse.

    Samples are epsilons from 0 on and ln delta there, lines as in `tradeoff_of`; in e^epsilon both
    halves are convex.
    """
    (eps, f), (turned, g) = forwards, backwards
    near = eps <= _STEEPEST
    ahead = _conjugate(np.exp(eps[near]), np.expm1(f[near]), -level)
    weight = np.exp(-turned[::-1])
    behind = _conjugate(weight, weight * np.exp(g[::-1]), 1.0 - level)
    best = np.maximum(np.maximum(ahead, behind) * (1.0 - 2.0**-51), 0.0)
    return np.where(level == 0.0, np.maximum(-np.expm1(f[-1]), 0.0), best)


def _conjugate(x: FloatArray, height: FloatArray, slope: FloatArray) -> FloatArray:
    """The largest slope x - height over the corners of a convex polygon."""
    if x.size == 1:
        return slope * x - height
    sides = np.maximum.accumulate(np.diff(height) / np.diff(x))
    corner = np.searchsorted(sides, slope)
    near = [np.clip(corner + k, 0, x.size - 1) for k in (-1, 0, 1)]
    return np.asarray(np.max([slope * x[j] - height[j] for j in near], axis=0))
