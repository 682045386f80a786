"""Tests of size and power for samplers, with exact critical values.

A sampler's test should fail for two reasons only: the law is wrong, or the event of probability
`level` happened. So every helper here is a test whose null law is known exactly (chi-square,
normal, binomial, Kolmogorov), and answers one question: does the sample pass at this level? A
test of a sampler asks it twice, of the right law (size) and of a law ten per cent off (power).

Use `LEVEL` with a seed, where the answer is the same for ever; use `NEVER` with the secure
generator, where a false alarm must not happen in the life of the project. There the wrong law
must lie twelve standard errors off: six for the level, and six so that it is never accepted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 1e-3
NEVER = 1e-9

FloatArray = NDArray[np.float64]


def accepts_law(sample: FloatArray, cdf: Callable[[FloatArray], FloatArray], level: float) -> bool:
    """Kolmogorov-Smirnov: are the entries independent draws of the continuous law `cdf`?"""
    values = np.sort(np.ravel(sample))
    heights = cdf(values)
    ranks = np.arange(values.size + 1) / values.size
    distance = max(np.max(ranks[1:] - heights), np.max(heights - ranks[:-1]))
    return bool(distance <= stats.kstwo.isf(level, values.size))


def accepts_scale(sample: FloatArray, scale: float, level: float) -> bool:
    """Chi-square, two-sided: are the entries independent N(0, scale^2)?"""
    values = np.ravel(sample) / scale
    energy = float(values @ values)
    low, high = stats.chi2.ppf([level / 2, 1 - level / 2], values.size)
    return bool(low <= energy <= high)


def accepts_rate(successes: int, trials: int, rate: float, level: float) -> bool:
    """Binomial, exact and two-sided: is each trial a success with probability `rate`?"""
    return bool(stats.binomtest(int(successes), int(trials), rate).pvalue >= level)


def accepts_gaussian(sample: FloatArray, mean: FloatArray, cov: FloatArray, level: float) -> bool:
    """Are the rows independent draws of N(mean, cov)?

    The rows are whitened; then the energy of every coordinate is a chi-square, the mean of every
    coordinate a normal, the correlation of every two coordinates a t, and all entries together
    follow the normal law. The level is shared equally among those tests (Bonferroni).
    """
    factor = np.linalg.cholesky(np.atleast_2d(cov))
    white = np.linalg.solve(factor, (np.atleast_2d(sample) - mean).T)
    n_coordinates, n_rows = white.shape
    pairs = [(i, j) for i in range(n_coordinates) for j in range(i)]
    share = level / (2 * n_coordinates + len(pairs) + 1)
    return (
        all(accepts_scale(coordinate, 1.0, share) for coordinate in white)
        and all(accepts_scale(row.sum()[None], np.sqrt(n_rows), share) for row in white)
        and all(_accepts_uncorrelated(white[i], white[j], share) for i, j in pairs)
        and accepts_law(white, stats.norm.cdf, share)
    )


def _accepts_uncorrelated(left: FloatArray, right: FloatArray, level: float) -> bool:
    """Exact for independent normals of known mean zero: r sqrt((n-1)/(1-r^2)) is t with n-1."""
    correlation = (left @ right) / np.sqrt((left @ left) * (right @ right))
    statistic = correlation * np.sqrt((left.size - 1) / (1 - correlation**2))
    return bool(abs(statistic) <= stats.t.isf(level / 2, left.size - 1))


def accepts_sphere(points: FloatArray, axes: FloatArray, level: float) -> bool:
    """Are the rows of `points` uniform on the unit sphere, as seen along each row of `axes`?

    (1 + <u, a>)/2 is Beta((M-1)/2, (M-1)/2) for u uniform on the sphere of R^M, M >= 2, and any
    unit vector a. The level is shared equally among the axes.
    """
    shape = (points.shape[1] - 1) / 2
    law = stats.beta(shape, shape).cdf
    units = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    share = level / len(units)
    return all(accepts_law((1 + points @ axis) / 2, law, share) for axis in units)
