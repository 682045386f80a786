"""Newton's method on noisy sums: clipped gradients in the metric of a noisy Hessian.

Rows x have norm at most 1 and labels y too (grid units over 2^20). Everything that reads rows is a
sum with Gaussian noise, and the squared shifts of all of them add up to the total D^2:

    center     sum of (x, c), if there is an intercept            CENTER D^2
    norms      a histogram of |x - m|, m the centre               NORMS D^2
    hessian    sum of (x', c)(x', c)^T, x' = x - m cut to norm L  HESSIAN D^2
    products   histograms of q = |z| |r| at a few rounds          PRODUCTS of the rest each
    metric     a sum of z z^T, if n is large enough               MOMENTS of the rest
    spread     sums of z z^T and r^2 z z^T, z in its metric       MOMENTS, PULLS of the rest
    gradients  sum of z r^T min(1, clip/q), T of them             the rest, in equal parts
               or the last takes what is left, as soon as others would change little

z is the row in the metric of the Hessian, r its residuals. In the metric of their own second
moments, rows are about equally long in directions too that noise hides from the Hessian. Limits are
rarely centred on the rows: about their own centre these are short, and the Hessian needs the less
noise. How many rounds there are, and so how many histograms, is decided by the first histogram
alone. All else is post-processing: `Descent` needs nothing but what was released, and can be run
again from a release.

A cut or a clip is chosen from a histogram. On a cluster it costs no pass of its own: the sums are
made for a whole ladder of them beside the histogram, and only the chosen one is released. Elsewhere
a pass costs less than a ladder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.mechanisms.center import center_of, draw_center, shrunk
from ndis.mechanisms.spectrum import eigenvectors
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.tables import GRID_NORM, ExactSum, Table, few_threads
from ndis.tables.exact import halved
from ndis.tables.sums import (
    BINS,
    VECTOR_NORM,
    CutGram,
    CutMoments,
    CutNorms,
    Pull,
    PullCounts,
    PullGrams,
    PullSum,
    Together,
    totals,
)

# Shares of D^2, and of what is left for rounds.
CENTER, NORMS, HESSIAN, PRODUCTS, MOMENTS, PULLS = 0.03, 0.03, 0.2, 0.025, 0.06, 0.02
MIN_ROUNDS, MAX_ROUNDS = 3, 20

# In unseen bins sums of squares go on falling, by this factor from bin to bin at least.
_STEEPEST = 0.8
# A bin counts if it stands out by so many deviations; or so many bins in a row, in later looks.
SEEN, _WINDOWS, _LATER = 3.0, (2, 4, 8), 3
# So many directions have a scale of their own in the metric; a row's length there is cheap then.
_METRIC_RANK = 8
# And so many in the metric of second moments; these may hide so many deviations of their noise.
_SHARP_RANK, _SHARP = 20, 1.0
# Noise of this share of the sampling variance is not worth a bias: a share of the residuals' own
# variance instead would be an error that does not fall with the number of rows.
_NEGLIGIBLE = 0.1
# Up to this share it may be where noise hides curvature. There rows are short in the metric, and so
# is what sampling does, while few rows far out, which no histogram shows, can pull all that way.
_BEARABLE = 0.5
# Rounds end early only where it is less.
_QUIET = 0.2
# Bins that do not stand out hide about so many deviations of their noise, all together.
_MISSED = 8.0
# A step for the constant counts as many rows as there may be, so many errors more: were there twice
# as many as it counts, steps would swing ever wider.
_MISCOUNTED = 2.0
# Sampling draws coefficients towards zero too, as far as it is at most so many times the noise:
# where there is hardly any noise they are those of least squares.
_SAMPLED = 10.0
# Columns stand in for a constant along directions where their sums stand out by so many deviations.
_STANDS_OUT = 3.0
# Columns are tried in place of a constant if they may explain this share of it, and rows have a
# mean that stands out.
_DOUBTFUL = 0.35
# Without an intercept the Hessian loses at most so many times more rows than is best for its bias:
# it also tells what columns do in place of a constant.
_THROUGH_ZERO = 3.0
# A clip rises if it cuts off so many times the noise that gradients with a larger one have.
_RISES = 2.0
# So many rows are none.
_NOBODY = 0.1
# What clips cut off is added up at so many places; the bias is thought to be so many deviations of
# the noise at least, so many where curvature is hidden, and so many at most.
_POINTS, _CLIPPED = 100, (0.7, 1.5, 10.0)
# Second moments in the metric are of rows cut to this many times their mean square, or to more if
# their noise stays below a share; and they are bought where they tell curvatures of this share.
_SPREADS, _MOST_CUT, _PAYS = ((0.05, 5.0), (0.15, 12.0)), 400.0, 6.0
# With so many times more rows, the next gradient may be the last.
_MANY = 13.0
# Residuals count there up to so many standard deviations, however near to the centre rows are.
_FAR = 64.0
# How strong the signal may be, in units of "the columns explain everything".
_SIGNAL = np.geomspace(1e-4, 1e4, 41)
# Strengths less likely than this change nothing; and so many numbers stay in a processor's cache.
_UNLIKELY, _CACHED = 1e-15, 2**16
# So many numbers of a matrix between eigenvectors are made at once.
_AT_ONCE = 2**20
# The next round is the last after a step this short: squared, a share of the sampling variance.
_SETTLED = 0.25
# Looks are alike if predictions moved by less than this share of residuals between them.
_ALIKE = 0.2
# And so much, as a share of residuals, may predictions have moved since residuals were looked at.
_EXPLAINED = 0.5
_LOG_PRIOR = np.minimum(np.log(_SIGNAL), 0) - 0.5 * np.maximum(np.log(_SIGNAL), 0)

# Ladders, half an octave between rungs; later clips are finer below the last one.
_CUTS, _MOST_SUMS, _MOST_PULLS = 24, 2**23, 2**12
_FIRST_CLIPS = 2.0 ** (6.0 - np.arange(32) / 2)
_LATER_CLIPS = 2.0 ** np.concatenate([4.0 - np.arange(8) / 2, -np.arange(16) / 4])

_EDGES = 2.0 ** (-np.arange(BINS + 1) / 2)
_SQUARES = _EDGES[:-1] ** 2 * 0.5 / math.log(2)  # the mean square in a bin, if log-uniform there


@dataclass(frozen=True)
class Setting:
    """What is public before anything is released."""

    # Before these rounds stands a histogram of products.
    looks: ClassVar[tuple[int, ...]] = (0, 1, 3, 7, 15)

    n_features: int
    n_labels: int
    intercept: bool
    n_rounds: int | str = "auto"
    max_rounds: int = MAX_ROUNDS

    @property
    def shares(self) -> dict[str, float]:
        """What each part takes of D^2."""
        taken = {"center": CENTER} if self.intercept else {}
        taken |= {"norms": NORMS, "hessian": HESSIAN}
        return {**taken, "rounds": 1.0 - sum(taken.values())}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is released."""
        d = self.n_features + 1
        most = self.max_rounds if isinstance(self.n_rounds, str) else self.n_rounds
        return {
            **({"center": (d,)} if self.intercept else {}),
            "norms": (BINS,),
            "hessian": (d, d),
            "products": (len(self.looks), BINS),
            "gradients": (most, d, self.n_labels),
            **({"metric": (d, d), "spread": (1 + self.n_labels, d, d)} if self.spreads else {}),
        }

    @property
    def spreads(self) -> bool:
        """Whether second moments in the metric may be bought: they must not be too many."""
        d, K = self.n_features + 1, self.n_labels
        return (1 + K) * d**2 <= _MOST_SUMS and K * d <= _MOST_PULLS


def n_cuts(n_features: int) -> int:
    """How many cuts the ladder has: fewer where there are very many columns."""
    return int(min(max(_MOST_SUMS // n_features**2, 4), _CUTS))


class Histogram:
    """Noisy counts in half octaves below `top`, and what they say about where values lie."""

    def __init__(
        self,
        noisy: FloatArray,
        top: float,
        scale: float,
        expected: float | None = None,
        thinly: bool = False,
    ) -> None:
        self.top, self.scale = top, scale
        self.sum = float(noisy.sum())  # no bin is missed, and the noise of all of them added
        # Bins far from where values are expected must stand out by more: they would cost more.
        away = np.arange(BINS) - (0.0 if expected is None else 2 * math.log2(top / expected))
        least = np.sqrt(SEEN**2 + np.abs(away)) * scale
        self.counts = np.where(noisy > least, noisy, 0.0)
        for width in _WINDOWS if thinly else ():
            self._count_together(noisy, least, width)
        # What is zero says nothing about where other values lie.
        self.zeros, self.counts[-1] = float(self.counts[-1]), 0.0
        seen = np.nonzero(self.counts)[0]
        self.empty = len(seen) == 0
        if self.empty:
            self.total = SEEN**2 * scale  # about the most that can hide
        else:  # bins beside those seen hold rows too
            near = float(noisy[max(seen[0] - 1, 0) : seen[-1] + 4].sum())
            self.total = max(near, float(self.counts.sum()) + self.zeros)

    def _count_together(self, noisy: FloatArray, least: FloatArray, width: int) -> None:
        """Rows that are spread thinly over bins, none of which stands out, but all together do."""
        sums = np.convolve(noisy, np.ones(width), "valid")
        wanted = np.lib.stride_tricks.sliding_window_view(least, width).max(axis=1)
        for start in np.argsort(-sums / wanted):
            bins = slice(start, start + width)
            if sums[start] <= wanted[start] * math.sqrt(width):
                break
            if not self.counts[bins].any():
                self.counts[bins] = sums[start] / width

    def above(self, rows: float) -> float:
        """The value that so many rows exceed, among what is seen."""
        tail = np.concatenate([[0.0], np.cumsum(self.counts)])
        if rows >= tail[-1]:
            return self.top * float(_EDGES[np.nonzero(self.counts)[0][-1] + 1])
        k = int(np.searchsorted(tail, rows, side="right")) - 1
        share = (rows - tail[k]) / (tail[k + 1] - tail[k])
        return self.top * float(2.0 ** (-(k + share) / 2))

    def quantile(self, rows: float) -> float:
        """The same, beyond what is seen too: there logarithms of values follow normal scores."""
        n = float(self.counts.sum())
        rows, visible = min(rows, n / 2), SEEN * self.scale
        if rows >= visible:
            return self.above(rows)

        def score(tail: float) -> float:
            return -float(ndtri(min(tail / n, 0.5)))

        near = min(visible, n / 4)
        wide = min(max(4 * near, n / 4), n / 2)
        slope = math.log(self.above(near) / self.above(wide)) / (score(near) - score(wide))
        beyond = math.exp(slope * max(score(rows) - score(near), 0.0))
        return min(self.above(near) * beyond, self.top)

    def mean_square(self, cap: float) -> float:
        """The mean square of the values, each cut to `cap`."""
        if self.empty:
            return cap * cap / 4
        squares = np.minimum(_SQUARES * self.top**2, cap * cap)
        return float(squares @ self.counts) / (float(self.counts.sum()) + self.zeros)

    def second_moment(self) -> tuple[float, float, float]:
        """The mean square, what noise and rows unseen may do to it, and what sampling may.

        Within a bin the density of logarithms is taken to be exponential, as steep as between the
        bins beside it: where it falls, a bin's values are near its lower end.
        """
        counts = self.counts
        seen = np.nonzero(counts)[0]
        if self.empty:
            return math.nan, math.nan, math.nan
        near = np.log(np.maximum(counts, self.scale))
        slope = np.zeros(BINS)
        slope[1:-1] = (near[:-2] - near[2:]) / math.log(2.0)  # per unit of the logarithm
        slope = np.clip(slope, -12.0, 12.0)
        squares = _EDGES[:-1] ** 2 * _mean_power(slope, 2.0) * self.top**2
        fourth = _EDGES[:-1] ** 4 * _mean_power(slope, 4.0) * self.top**4
        total = float(counts.sum()) + self.zeros
        value = float(squares @ counts) / total
        # Above the first bin that is seen noise may hide what goes on falling as it did: half of
        # that is an error.
        first = int(seen[0])
        ratio = 2.0 * counts[first] / max(float(counts[min(first + 1, BINS - 1)]), self.scale)
        ratio = min(ratio, _STEEPEST) if first > 0 else 0.0
        hidden = 0.5 * counts[first] * squares[first] / total * ratio / (1.0 - ratio)
        noise = self.scale * float(np.linalg.norm(squares[seen] - value)) / total
        spread = max(float(fourth @ counts) / total - value**2, 0.0)
        return value, math.hypot(noise, hidden), math.sqrt(spread / total)

    def kept(self, cap: float) -> tuple[float, float]:
        """The share of values that are not cut, and the sum of what is cut off from the others."""
        if self.empty:
            return 1.0, 0.0
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        above = np.maximum(values - cap, 0.0)
        total = float(self.counts.sum())
        return 1.0 - float(self.counts[values > cap].sum()) / total, float(above @ self.counts)

    def cut_off(self, cap: float, deviations: float = SEEN) -> float:
        """The most that is cut off from all values by a cap, in bins that noise hides too."""
        above = np.maximum(_EDGES[:-1] * self.top - cap, 0.0)
        hidden = deviations * self.scale * float(np.linalg.norm(above))
        return float(above @ self.counts) + hidden

    def lost_beyond(self, cap: float) -> float:
        """About the sum of what a cap cuts off from all values, see `quantile`."""
        if self.empty:
            return math.inf
        rows = np.geomspace(_NOBODY, max(float(self.counts.sum()) / 2, 1.0), _POINTS)
        above = [max(self.quantile(each) - cap, 0.0) for each in rows]
        return above[0] * _NOBODY + float(np.trapezoid(above, rows))

    def mean(self) -> float:
        """The mean of the values that are seen; `empty` ones have none."""
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        return float(values @ self.counts) / float(self.counts.sum())

    def lost(self, cap: float) -> float:
        """By which factor the mean of the values exceeds that of values cut to `cap`."""
        if self.empty:
            return 1.0
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        return float(values @ self.counts) / float(np.minimum(values, cap) @ self.counts)


def _mean_power(slope: FloatArray, power: float) -> FloatArray:
    """The mean of (value over upper end)^power in a bin with such a density of logarithms."""
    half = 0.5 * math.log(2.0)
    up, down = slope + power, slope
    up, down = (np.where(np.abs(each) < 1e-6, 1e-6, each) for each in (up, down))
    return np.asarray((down / up) * np.expm1(-up * half) / np.expm1(-down * half))


def _shifted(values: FloatArray, places: int) -> FloatArray:
    """Counts in bins whose top was moved up by so many bins; those that fall off are none."""
    moved = np.roll(values, places)
    if places > 0:
        moved[:places] = 0.0
    elif places < 0:
        moved[places:] = 0.0
    return moved


def _in_steps(values: NDArray[Any], step: int) -> list[NDArray[Any]]:
    return [values[start : start + step] for start in range(0, len(values), step)]


def cleaned(values: FloatArray, variances: FloatArray | float) -> FloatArray:
    """What a matrix is along eigenvectors of itself with noise, by Stein's identity.

    `variances` are those of the noise between each two eigenvectors, twice as large as they are.
    """
    d, leaned = len(values), np.empty(len(values))
    for part in _in_steps(np.arange(d), max(_AT_ONCE // d, 1)):
        gap, own = values[part, None] - values, np.broadcast_to(variances, (d, d))[part]
        leaned[part] = np.sum(own * gap / (gap**2 + own), axis=1)
    return np.asarray(np.maximum(values - leaned, 0.0))


class Curvature:
    """A noisy Hessian of rows and a constant: centre, eigenvectors, what is known along them.

    Parameters
    ----------
    noisy : ndarray of shape (d + 1, d + 1)
        Sum of (x, constant)(x, constant)^T with symmetric noise, x the row less `center`.
    scale : float
        The noise on its diagonal.
    constant : float
    rows, rows_error : float
        About how many rows there are, and the error of that.
    square : float
        The mean square of a row.
    lost : float
        By which factor rows are longer than those in the sum, which were cut.
    intercept : bool
        Whether a constant is asked for. Without one it is still fitted beside the columns, unless
        they can stand in for it: residuals without it would be far too long.
    center : ndarray of shape (d,), or 0.0
    cut_off : float
        By how much cutting may have moved the sum of the rows.
    stands_in : bool, optional
        Whether columns stand in for a constant, where that is known; else the Hessian decides.
    through_zero : bool
        Whether features are not centred on the rows' mean, as where columns may stand in.
    """

    # How far the Hessian may be wrong, as a share of itself: everywhere, and for predictions that
    # change by one on the way.
    doubt = bending = 0.0

    def __init__(
        self,
        noisy: FloatArray,
        scale: float,
        constant: float,
        rows: float,
        rows_error: float,
        square: float,
        lost: float,
        intercept: bool,
        center: FloatArray | float = 0.0,
        cut_off: float = 0.0,
        stands_in: bool | None = None,
        through_zero: bool = False,
    ) -> None:
        d = len(noisy) - 1
        self.scale, self.rows = scale, rows
        sums_scale = scale / (math.sqrt(2) * constant)
        mean = shrunk(noisy[:-1, -1] / constant, sums_scale) / rows
        mean = mean / max(1.0, float(np.linalg.norm(mean)))
        hidden = min(scale * math.sqrt(d / 2), max(rows * square, scale))
        self.doubtful = False
        if stands_in is None and not intercept:
            shares = self._explain(noisy[:-1, :-1], rows * mean, sums_scale, hidden)
            stands_in = shares[0] > 0.5
            square_sum = float(np.sum((noisy[:-1, -1] / constant / sums_scale) ** 2))
            clear = square_sum > d + _STANDS_OUT * math.sqrt(2 * d)
            self.doubtful = not stands_in and clear and shares[1] > _DOUBTFUL
        self.drift = rows * float(np.linalg.norm(mean))
        self.constant = not stands_in
        mean = np.zeros(d) if stands_in or through_zero else mean
        centered = np.outer(mean, mean)
        centered *= -rows
        centered += noisy[:-1, :-1]
        # Where many rows are cut their centre is too; coefficients that took it for that of the
        # rows would swing ever wider together with the constant.
        self.mean = center + mean * lost
        self.mean = self.mean / max(1.0, float(np.linalg.norm(self.mean)))
        with few_threads(d):
            self.noisy_values, self.vectors = eigenvectors(centered)
        values = cleaned(self.noisy_values, scale**2)
        # The centre is noisy too: along it curvature may be hidden by what was subtracted.
        leaning = 2.0 * lost * np.abs(self.vectors.T @ mean) * sums_scale
        values = np.maximum(values, leaning / 2)
        self.rho = np.hypot(hidden, leaning)
        self.stand_in, self.stand_in_errors = np.zeros(d), np.zeros((2, d))
        if self.constant and not intercept:
            turned = rows * (self.vectors.T @ mean)
            along = self._for_a_constant(values, turned, sums_scale, cut_off)
            # What columns take on for each unit of a constant that is not asked for.
            self.stand_in = self.vectors @ along / lost
        self._square = square
        self._measure(values, _METRIC_RANK)
        # Errors of the Hessian: A t is known but for this variance times |t|^2.
        self.errors = np.append(np.full(d, scale**2 / 2 * (1 + 1 / d)), sums_scale**2)
        self.row_errors = np.append(np.full(d, sums_scale**2), rows_error**2)

    def _measure(self, values: FloatArray, rank: int) -> None:
        """The metric in which rows are about equally long in every direction."""
        d, rows = len(values), self.rows
        self.own = np.ones(d, dtype=bool)
        if d > rank:
            rest = np.sort(values)[: d - rank]
            self.own = values > rest[-1]
            others = rest.mean() + math.sqrt(float(np.mean(self.rho[~self.own] ** 2)))
            metric = np.where(self.own, np.maximum(values + self.rho, others), others)
        else:
            metric = values + self.rho
        self.metric = np.append(metric**-0.5, rows**-0.5 if self.constant else 0.0)
        self.values = np.append(values, rows)
        # The mean of |z|^2; where all curvature drowns, some small share of what it can be.
        seen = float(np.sum(self.values * self.metric**2)) / rows
        self.lever = max(seen, 1e-6 * self._square * self.most**2)

    def sharpened(self, moments: FloatArray, noise: float) -> Curvature:
        """Along eigenvectors of second moments of rows in this metric, and in their own metric.

        `noise` is that of the diagonal, `moments` are without the constant.
        """
        d, sharp = len(moments), copy(self)
        sharp.__dict__.pop("whitener", None)
        sharp.__dict__.pop("spreader", None)
        scale = 1.0 / self.metric[:d]
        with few_threads(d):
            values, turn = eigenvectors(moments * np.outer(scale, scale))
        sharp.vectors = self.vectors @ turn
        sharp.rho = _SHARP * noise * (turn**2).T @ scale**2
        sharp._measure(np.maximum(values, 0.0), _SHARP_RANK)
        return sharp

    def _explain(
        self, hessian: FloatArray, sums: FloatArray, noise: float, hidden: float
    ) -> tuple[float, float]:
        """Which share of a constant the columns explain: by more than noise would, and about."""
        with few_threads(len(hessian)):
            values, vectors = eigenvectors(hessian.copy())
        most, rows = cleaned(values, self.scale**2) + hidden, self.rows
        along = np.abs(vectors.T @ sums)
        surely = np.maximum(along - 3.0 * noise, 0.0)
        return float(np.sum(surely**2 / most)) / rows, float(np.sum(along**2 / most)) / rows

    def slopes(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the rows as they are, and constants, of those along eigenvectors."""
        slopes = self.vectors @ theta[:-1]
        return slopes, theta[-1] - self.mean @ slopes

    def _for_a_constant(
        self, values: FloatArray, sums: FloatArray, noise: float, cut_off: float
    ) -> FloatArray:
        """What columns along the eigenvectors do best in place of a constant of one; its errors.

        That is (A + n m m^T)^-1 n m, for the sums n m along them as far as these stand out: from
        noise, and from what cutting may have moved them by.
        """
        least = _STANDS_OUT * math.hypot(noise, cut_off)
        share = np.maximum(1.0 - least**2 / np.maximum(sums**2, 1e-300), 0.0)
        most = values + self.rho
        known = share * sums / most
        explained = 1.0 + float(known @ sums) / self.rows
        # Noise, with what was left out, and how far sums are from those of the population.
        missed = np.hypot(noise, (1.0 - share) * sums) + np.abs(known) / explained * self.scale
        self.stand_in_errors = np.stack([missed**2, values]) / (most * explained) ** 2
        return np.asarray(known / explained)

    def coefficients(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `slopes`; where no constant is asked for, columns stand in for it as they can."""
        slopes, constants = self.slopes(theta)
        return slopes + np.outer(self.stand_in, constants), constants

    def step(
        self,
        theta: FloatArray,
        gradient: FloatArray,
        noise: FloatArray,
        sampling: float,
        unit: float,
        y2: float,
    ) -> FloatArray:
        """Newton, damped where noise hides curvature, to the posterior mean over signal strengths.

        Where a direction has curvature m, and rho more may hide in it, a coefficient of prior
        variance t has a gradient of variance m (m + rho) t. How strong the signal is, is read off
        the gradients themselves, R^2 being uniform beforehand. `noise` is the variance of the
        gradient, `sampling` that by sampling in units of the Hessian.
        """
        d = len(theta) - 1
        variance = noise + np.minimum(sampling * self.values[:, None], _SAMPLED * noise)
        m, here = self.values[:d, None], gradient[:d]
        # Where rows have their centre is not known exactly: as the constant goes on moving, so will
        # gradients.
        v = variance[:d] + self.row_errors[:d, None] * (gradient[-1] / self.rows) ** 2
        both = m * (m + self.rho[:, None])
        # Signal strengths that fit into the processor's cache together.
        # What is explained already counts by the curvature that may hide, too: where it is left
        # out, a signal is lost as soon as it is fitted, and found again a round later.
        step, square = max(_CACHED // v.size, 1), (here + np.sqrt(both) * theta[:d]) ** 2
        parts = [(unit * part)[:, None, None] for part in _in_steps(_SIGNAL, step)]
        likes = []
        for prior in parts:
            total = both * prior + v
            likes.append(np.sum(np.log(total) + square / total, axis=1))
        like = _LOG_PRIOR[:, None] - 0.5 * np.concatenate(likes)
        weights = np.exp(like - like.max(axis=0))
        weights /= weights.sum(axis=0)
        gain, loss = np.zeros((2, *v.shape))
        for prior, share in zip(parts, _in_steps(weights[:, None, :], step), strict=True):
            if share.max() > _UNLIKELY:
                per = share / (both * prior + v)
                gain += np.sum(per * prior, axis=0)
                loss += np.sum(per, axis=0)
        move = m * here * gain - v * theta[:d] * loss
        rows, hidden = self.rows, variance[-1] / y2
        most = rows + _MISCOUNTED * math.sqrt(self.row_errors[-1])
        last = (rows * gradient[-1] - hidden * theta[-1]) / (rows * most + hidden)
        moved = np.vstack([theta[:d] + move, theta[-1:] + last])
        if not self.constant:
            moved[-1] = 0.0
        return moved

    def combine(
        self, points: FloatArray, gradients: FloatArray, variances: FloatArray, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The gradient at theta from gradients elsewhere: best linear unbiased, each direction.

        With weights w that sum to one, sum w (g_t + A (theta_t - theta)) has the variance
        sum w^2 v_t + h |theta - sum w theta_t|^2: noise of gradients, and of the Hessian between.
        Where there is doubt about the Hessian itself, that adds to h.
        """
        away = points - theta
        slopes = np.einsum("tik,sik->kts", away[:, :-1], away[:, :-1])
        constants = np.einsum("tk,sk->kts", away[:, -1], away[:, -1])
        matrix = self.errors[None, :, None, None] * slopes[:, None]
        matrix = matrix + self.row_errors[None, :, None, None] * constants[:, None]
        if self.doubt:
            along = np.einsum("tik,i,sik->kts", away, self.values, away)
            matrix = matrix + self.values[None, :, None, None] * self.wrong(along)[:, None]
        own = variances[None, :] / self.widths[:, None] ** 2
        matrix = matrix + np.eye(len(variances)) * own[None, :, None, :]
        weights = np.linalg.solve(matrix, np.ones((*matrix.shape[:3], 1)))[..., 0]
        variance = 1 / weights.sum(axis=2)
        weights = weights * variance[..., None]
        carried = gradients + self.values[None, :, None] * away
        return np.einsum("kit,tik->ik", weights, carried), variance.T

    def wrong(self, along: FloatArray) -> FloatArray:
        """Variances of what the Hessian says of a way, in units of itself, by its own doubt.

        `along` are inner products of ways in the metric of the Hessian.
        """
        return self.doubt**2 * along + (self.bending * along) ** 2 / self.rows

    @property
    def widths(self) -> FloatArray:
        """The weights of directions; one for a constant that is not fitted."""
        return np.where(self.metric > 0, self.metric, 1.0)

    # -- the metric on the grid --------------------------------------------------------------

    @property
    def _base(self) -> float:
        """The weight of directions that have none of their own."""
        rest = self.metric[:-1][~self.own]
        return float(rest[0] if len(rest) else self.metric[:-1].min())

    @property
    def most(self) -> float:
        """The largest weight of a direction."""
        return float(self.metric[:-1].max())

    @property
    def heaviest(self) -> float:
        """The largest weight, the constant's included."""
        return max(self.most, float(self.metric[-1]))

    @property
    def longest(self) -> float:
        """No row is longer than this in the metric."""
        far = 1.0 + float(np.linalg.norm(self.mean))
        return math.hypot(far * self.most, float(self.metric[-1]))

    def pull(self, theta: FloatArray) -> Pull:
        """Residuals and lengths of rows at theta (see `ndis.tables.sums.Pull`).

        A direction takes (1 - w_u^2/w^2) of its square, w the largest weight. Vectors of integers
        are off by sqrt(d)/2 of 2^32, so that each product is off by at most e = sqrt(d) 2^-32 with
        what is rounded after it. Of |z|^2 = w^2 (|x|^2 - sum a_u^2 - 2 v x + s) + c^2, with
        |a_u| <= 1 and at most twenty directions, that is less than w^2 (3 * 20 + 3) e, and so than
        w^2 sqrt(d) 2^-26.
        """
        d, own = len(self.mean), self.own
        slopes, constants = self.slopes(theta)
        taken = np.sqrt(np.maximum(1.0 - (self.metric[:-1][own] / self.most) ** 2, 0.0))
        directions = self.vectors[:, own] * taken
        center = self.mean - directions @ (self.mean @ directions)
        wanted = np.column_stack([directions, center, slopes])
        length = np.linalg.norm(wanted, axis=0)
        length[: len(taken)] = 1.0  # which none exceeds
        unit = (VECTOR_NORM - math.sqrt(d)) / np.where(length > 0, length, 1.0)
        factors = 1.0 / (unit[len(taken) :] * GRID_NORM)
        factors[0] *= 2.0
        return Pull(
            np.rint(wanted * unit),
            1.0 / ((VECTOR_NORM - math.sqrt(d)) * GRID_NORM),
            factors,
            np.append(self.mean @ center, -constants),
            self.most**2,
            float(self.metric[-1]) ** 2 + self.most**2 * math.sqrt(d) * 2.0**-25,
            self.heaviest * (d + 1) * 2.0**-31,
        )

    @cached_property
    def whitener(self) -> tuple[NDArray[np.int32], float]:
        """Integers that turn sums of (k, 1) w^T, k on the grid, into those of z w^T; their unit.

        None exceeds 2^52, `heaviest` in that unit, and they are given in halves. An entry is off by
        less than one, so that for a row the product is off by less than (d + 1) 2^20 units, which
        is heaviest (d + 1) 2^-32: `pull` adds twice as much to its length.
        """
        whole, unit = self._of_grid, 2.0**52 / self.heaviest
        whole *= unit
        return halved(np.rint(whole, out=whole)), unit

    @cached_property
    def spreader(self) -> tuple[NDArray[np.int32], float]:
        """The same for second moments of (k, 2^20): none exceeds 2^32 in its unit."""
        whole, unit = self._of_grid, 2.0**52 / self.heaviest
        whole[:, -1] /= GRID_NORM
        whole *= unit
        return halved(np.rint(whole, out=whole)), unit

    @property
    def rounded(self) -> float:
        """What rounding (k, 2^20) and `spreader` may add to a row's length.

        The metric makes vectors at most 1.62 times `heaviest` as long (the root of the larger
        eigenvalue of [[1, 1], [1, 2]], as the mean has norm one at most), and rounding is by half a
        unit of 2^-20 in each of d + 1 places: .81 of this. The spreader's own rounding adds less
        than (d + 1) 2^-32 `heaviest`: less than the rest up to a million columns.
        """
        return self.heaviest * math.sqrt(len(self.metric)) * 2.0**-20

    @property
    def _of_grid(self) -> FloatArray:
        """What turns (k, 1), k on the grid, into z."""
        d, metric, base = len(self.mean), self.metric, self._base
        vectors = self.vectors[:, self.own]
        M = (vectors * (metric[:-1][self.own] - base)) @ vectors.T
        np.einsum("ii->i", M)[:] += base
        whole = np.zeros((d + 1, d + 1))
        np.divide(M, GRID_NORM, out=whole[:d, :d])
        whole[:d, d], whole[d, d] = -(M @ self.mean), metric[-1]
        return whole


@dataclass(frozen=True)
class Scales:
    """The noise of a plan, for sums that a row moves by one."""

    norms: float
    hessian: float
    rounds: float  # of one gradient, were it alone
    center: float = math.inf

    def look(self) -> float:
        """The noise of a histogram of products."""
        return self.rounds / math.sqrt(PRODUCTS) * ROUND_UP

    def spread(self) -> FloatArray:
        """The noise of second moments in the metric: of rows each time, and of their pulls."""
        return self.rounds / np.sqrt([MOMENTS, PULLS]) * ROUND_UP

    def gradient(self, taken: float) -> float:
        """That of all gradients together, of whose share so much is taken by other things."""
        return self.rounds / math.sqrt(1 - taken) * ROUND_UP


class Cuts(NamedTuple):
    """Bounds of second moments in the metric: of rows, of their pulls, of residuals.

    Rounding may add `rounded` to the length of rows, and as much times the bound of residuals to
    that of pulls.
    """

    rows: float
    pulls: float
    most: float
    rounded: float

    @property
    def moved(self) -> tuple[float, float]:
        """The roots of how far a row moves the moments of rows, and of pulls."""
        return self.rows + self.rounded, self.pulls + self.most * self.rounded


class Descent:
    """From what is released, in order, to coefficients: `cut`, `bend`, then `look` and `learn`.

    Parameters
    ----------
    setting : Setting
    noise : Scales
    norms : ndarray
        The noisy histogram of row norms, about the centre.
    center : ndarray of shape (n_features,), or 0.0
        The centre, see `center_of`.
    rows : float, optional
        About how many rows there are, where it is known better than from the norms.
    """

    curvature: Curvature
    seen: Histogram  # of products, at the last look
    label_square: float  # about the mean square of what predictions may explain
    residual_variance: float  # and of residuals
    # The Hessian may lose so many times more rows than is best for its bias: what it loses only
    # slows.
    more_cut = 10.0
    # How much a row counts in the Hessian, and how long a vector of labels is expected to be.
    weight = expected = bent = 1.0
    least_rounds = MIN_ROUNDS
    # The curvature with a constant, while columns are tried in its place.
    _untried: Curvature | None = None
    # After so many rounds a short step says that the next gradient may be the last.
    settling: float = 4

    def __init__(
        self,
        setting: Setting,
        noise: Scales,
        norms: FloatArray,
        center: FloatArray | float = 0.0,
        rows: float | None = None,
    ) -> None:
        self.noise, self._d, self._K = noise, setting.n_features, setting.n_labels
        self._intercept, self._center = setting.intercept, center
        self._norms = Histogram(norms, 1.0, noise.norms, thinly=True)
        self.rows = rows = self._norms.total if rows is None else rows
        d, n_rounds = self._d, setting.n_rounds
        if isinstance(n_rounds, str):
            mu = math.sqrt(noise.norms**-2.0 + noise.hessian**-2.0 + noise.rounds**-2.0)
            paying = 0.0 if self._norms.empty else rows * mu / math.sqrt(d)
            n_rounds = int(min(max(paying, self.least_rounds), setting.max_rounds))
        self.n_rounds = n_rounds
        self.looks = [t for t in setting.looks if t < n_rounds]
        # In the metric a row's mean square is (d + 1)/n, and a curvature of one must not be hidden.
        self._reach = rows / (float(noise.spread()[0]) * (d + 1))
        reach = 0.0 if self._norms.empty else self._reach / math.sqrt(2 * (d + 1))
        self._many = reach > _MANY
        self.spreads = setting.spreads and n_rounds >= MIN_ROUNDS and reach > _PAYS
        self.taken = PRODUCTS * len(self.looks) + (2 * MOMENTS + PULLS) * self.spreads
        self.gradient_scale = noise.gradient(self.taken)
        # Rows cut to this length: with s sqrt(2 d) rows cut, bias and noise would be equal.
        more = self.more_cut if setting.intercept else min(self.more_cut, _THROUGH_ZERO)
        most = min(more * noise.hessian * math.sqrt(2 * d), rows / 2)
        self._cut_at(0.5 if self._norms.empty else self._norms.above(most))
        self._square = self._norms.mean_square(self.cut)
        self.constant = math.sqrt(self._square / d)  # as long as a column
        self.theta = np.zeros((d + 1, self._K))
        self.points = np.zeros((0, d + 1, self._K))
        self.gradients, self.variances, self._clips = self.points, np.zeros(0), np.zeros(0)
        self.clip, self._looked_at, self._looked_top = math.inf, self.theta, 1.0
        self._looks: list[FloatArray] = []
        self._settled = self._done = False

    def _cut_at(self, wanted: float) -> None:
        self.rung = min(max(round(-2 * math.log2(wanted)), 0), n_cuts(self._d) - 1)
        self.cut = 2.0 ** (-self.rung / 2)

    def bend(self, hessian: FloatArray) -> None:
        """The noisy Hessian of cut rows."""
        scale = self.noise.hessian * (self.cut**2 + self.constant**2)
        self.rows, rows_error = self._rows_with(float(hessian[-1, -1]), scale)
        self._built = partial(
            Curvature,
            hessian,
            scale,
            self.constant,
            self.rows,
            rows_error,
            self._square,
            self._norms.lost(self.cut),
            self._intercept,
            self._center / GRID_NORM,
            self._norms.cut_off(self.cut),
        )
        self.curvature = self._built()
        # Few long rows, of which cutting leaves little, may undo what short ones have in common.
        clear = self.curvature.drift > self._norms.cut_off(self.cut, 1.0)
        if self.curvature.doubtful and clear and self.n_rounds > MIN_ROUNDS:
            self._untried = self.curvature
            self.curvature = self._built(stands_in=False, through_zero=True)

    def _rows_with(self, corner: float, scale: float) -> tuple[float, float]:
        """About how many rows there are, told by the Hessian's corner too; and the error of that.

        Rows in bins that do not stand out are missed by the histogram's total, and steps for a
        constant that counts less than half of the rows would swing ever wider.
        """
        norms = self._norms
        found = np.array([norms.total, norms.sum, corner / self.constant**2])
        errors = np.array([_MISSED, math.sqrt(BINS), scale / self.constant**2 / norms.scale])
        weights = errors**-2.0 / np.sum(errors**-2.0)
        error = norms.scale * float(np.sum(errors**-2.0)) ** -0.5
        return max(float(weights @ found), norms.total), error

    @property
    def top(self) -> float:
        """No row pulls more than this at the present coefficients: in half octaves, like bins."""
        octaves = math.ceil(2 * math.log2(self.longest)) / 2
        return self.curvature.longest * math.exp2(octaves)

    @property
    def longest(self) -> float:
        """No residual is longer than this at the present coefficients."""
        away = np.linalg.norm(self.theta[:-1]) * (1.0 + np.linalg.norm(self.curvature.mean))
        return 1.0 + float(away + np.linalg.norm(self.theta[-1]))

    def clips(self, looking: bool) -> FloatArray:
        """The clips among which the next gradient's is."""
        if not looking:
            return np.array([self.clip])
        if math.isinf(self.clip):
            return np.asarray(_FIRST_CLIPS * self._usual)
        return np.asarray(_LATER_CLIPS * self.clip)

    @property
    def _usual(self) -> float:
        """About how much a row pulls before anything is explained."""
        return math.sqrt(self.curvature.lever) * self.expected

    @property
    def dispersion(self) -> float:
        """The variance of a gradient by sampling, in units of the Hessian."""
        return self.residual_variance / self.weight

    def _explicable(self, square: float) -> float:
        """What predictions may explain of labels of this mean square."""
        return square

    @property
    def clipped(self) -> float:
        """By which factor clipping adds to the variance of the noise of all gradients together."""
        return float(self.clipped_by(np.zeros(1))[0])

    def clipped_by(self, unseen: FloatArray) -> FloatArray:
        """The same along directions where noise hides such a share of the curvature.

        What is cut off is told by the histogram, beyond what is seen too, and pulls in any
        direction. Where curvature is hidden, so are few rows far out that all pull there.
        """
        noise = math.sqrt(self._K * (self._d + 1) / float(np.sum(1.0 / self.variances)))
        least, far, most = _CLIPPED
        bias = np.clip(self.seen.lost_beyond(self.clip) / noise, least, most)
        return np.asarray(1.0 + np.maximum(far * np.minimum(unseen, 1.0), bias) ** 2)

    def _best_clip(self, seen: Histogram) -> float:
        """The clip that costs as much bias as noise, if all clipped rows pull the same way."""
        if seen.empty:
            return 0.5 * self._usual
        return seen.quantile(self.gradient_scale * math.sqrt((self._d + 1) * self._K))

    def _most_clip(self, seen: Histogram, quiet: float) -> float:
        """The largest clip worth its noise, given one whose noise is negligible.

        Beyond all rows, wherever they move, a larger clip has more noise and no less bias.
        """
        return min(quiet, seen.quantile(_NOBODY) * (1.0 + self._moving))

    def _rises(self, seen: Histogram, wanted: float) -> bool:
        """Whether the clip cuts off more than the noise that gradients with a larger one have."""
        left = self.n_rounds - len(self.points)
        noise = self.gradient_scale * math.sqrt(self.n_rounds / left) * wanted
        return seen.kept(self.clip)[1] > _RISES * noise * math.sqrt((self._d + 1) * self._K)

    @property
    def _bearable(self) -> float:
        """The noise of gradients that is not worth a bias, as a share of the sampling variance."""
        if not self._many:  # noise is what errs most
            return _NEGLIGIBLE
        weak = float(np.min((self.curvature.values * self.curvature.metric**2)[: self._d]))
        return min(_NEGLIGIBLE / max(weak**2, 1e-9), _BEARABLE)

    @property
    def _moving(self) -> float:
        """How far predictions may move on, as a share of residuals: as far as in the last step."""
        return self._moved_since(self.points[-1]) if len(self.points) else 1.0

    def _moved_since(self, theta: FloatArray) -> float:
        """How far predictions are from those of other coefficients, as a share of residuals."""
        moved = self.curvature.values[:, None] * (self.theta - theta) ** 2
        return math.sqrt(float(np.sum(moved)) / (self.rows * self.dispersion))

    def pull(self, bend: Curvature | None = None) -> Pull:
        """What measures rows at the present coefficients, in another metric if there is one."""
        if bend is None:
            return self.curvature.pull(self.theta)
        turn = bend.vectors.T @ self.curvature.vectors
        return bend.pull(np.vstack([turn @ self.theta[:-1], self.theta[-1:]]))

    def look(self, products: FloatArray) -> int:
        """A noisy histogram of products: the rung of a clip that costs as much bias as noise.

        That is, if all clipped rows pulled the same way.
        """
        first, ladder = math.isinf(self.clip), self.clips(looking=True)
        products, noise = self._seen_together(products)
        lever, K = self.curvature.lever, self._K
        thinly = len(self.points) >= _LATER  # before, a clip that is too large costs most
        seen = Histogram(products, self.top, noise, self._usual, thinly)
        if first:
            square = 0.25 * self.expected**2
            if not seen.empty:
                square = min(seen.mean_square(self.top) / lever, 1.0)
            self.label_square, self.residual_variance = self._explicable(square), square
            self._unit = (
                self.label_square / self._square / K
            )  # variance if the columns explain everything
        wanted = self._best_clip(seen) if first else self.clip
        if not seen.empty:
            self.residual_variance = seen.mean_square(self.top) / lever
            found = self._best_clip(seen)
            least = math.sqrt(self._bearable * self.dispersion / K)
            wanted = max(found, self._most_clip(seen, least / self.gradient_scale))
            if wanted > self.clip and not self._rises(seen, wanted):
                wanted = self.clip
        rung = max(int(np.count_nonzero(ladder >= wanted)) - 1, 0)
        self.clip = float(ladder[rung])
        self.kept, self.lost = seen.kept(self.clip)
        self.seen = seen
        # Gradients with a smaller clip have a bias that the next ones do not share.
        lost = [max(seen.kept(clip)[1] - self.lost, 0.0) for clip in self._clips]
        self.variances = self.variances + self._spread_out(np.array(lost) / self.bent)
        return rung

    def _spread_out(self, length: FloatArray) -> FloatArray:
        """The square of a length, for each direction and label alike."""
        return length**2 / ((self._d + 1) * self._K)

    def _seen_together(self, products: FloatArray) -> tuple[FloatArray, float]:
        """The mean of this look and those before it, if predictions are still alike; and its noise.

        What is noise in one look is hardly so in the next, and few rows far out stand out in all.
        """
        moved = self._moved_since(self._looked_at) if self._looks else math.inf
        shift = 2.0 * math.log2(self.top / self._looked_top) if self._looks else 0.0
        alike = moved < _ALIKE and abs(shift - round(shift)) < _ALIKE
        before = self._looks if alike else []
        self._looks = [_shifted(each, round(shift)) for each in before] + [products]
        self._looked_at, self._looked_top = self.theta, self.top
        return np.mean(self._looks, axis=0), self.noise.look() / math.sqrt(len(self._looks))

    def cuts(self, bend: Curvature) -> Cuts:
        """Where rows z, and z r, are cut for their second moments in a metric."""
        wide, wider = (min(max(share * self._reach, least), _MOST_CUT) for share, least in _SPREADS)
        square, residual = bend.lever, math.sqrt(self.residual_variance)
        return Cuts(
            math.sqrt(wide * square * self.weight),
            math.sqrt(wider * square) * residual,
            min(self.longest, _FAR * residual),
            bend.rounded * math.sqrt(self._K),
        )

    @property
    def last(self) -> bool:
        """Whether the next gradient is the last: there are no more, or more would change little."""
        return len(self.points) >= self.n_rounds - 1 or self._settled

    @property
    def done(self) -> bool:
        """Whether there was a last one."""
        return self._done

    @property
    def scale(self) -> float:
        """The noise of the next gradient that a row moves by one; the last has all that is left."""
        left = self.n_rounds - len(self.points) if self.last else 1
        return self.gradient_scale * math.sqrt(self.n_rounds / left) * ROUND_UP

    def learn(self, gradient: FloatArray) -> None:
        """A noisy clipped gradient, as a sum of z r^T: all that is known of it here, and a step."""
        self._done = self.last
        bend = self._sharpened() if self._done and self.spreads else self.curvature
        along = np.vstack([bend.vectors.T @ gradient[:-1], gradient[-1:]])
        along = along / bend.widths[:, None] / self.bent
        self.variances = np.append(self.variances, (self.scale * self.clip / self.bent) ** 2)
        self._clips = np.append(self._clips, self.clip)
        self.points = np.concatenate([self.points, self.theta[None]])
        self.gradients = np.concatenate([self.gradients, along[None]])
        if self._untried is not None and len(self.points) == 2:
            self._judge(self._untried)
            bend = self.curvature
        released = self.points, self.gradients, self.variances
        here, variance = bend.combine(*released, self.theta)
        sampling, square = self.dispersion / self._K, self.label_square / self._K
        self.theta = bend.step(self.theta, here, variance, sampling, self._unit, square)
        if self._untried is not None:
            self.theta[-1] = 0.0
        enough = self._many and len(self.points) >= self.settling
        self._settled = enough and self._quiet and self._step_is_short

    def _judge(self, otherwise: Curvature) -> None:
        """Whether columns, which moved alone, took most of what a constant would explain."""
        before, now = (float(np.sum(each[-1] ** 2)) for each in self.gradients)
        stand_in = now < before / 2
        self._untried = None
        self._turn_to(self._built(stands_in=True) if stand_in else otherwise)

    def _turn_to(self, bend: Curvature) -> None:
        """All that is known, about another centre and along the eigenvectors there.

        Noise of gradients there is at most what it is taken for.
        """
        old, self.curvature = self.curvature, bend
        turn, away = bend.vectors.T @ old.vectors, old.mean - bend.mean
        more = away @ bend.vectors

        def turned(theta: FloatArray) -> FloatArray:
            slopes = old.vectors @ theta[:-1]
            return np.vstack([turn @ theta[:-1], theta[-1:] - away @ slopes])

        self.theta = turned(self.theta)
        self.points = np.array([turned(each) for each in self.points])
        self.gradients = np.array(
            [np.vstack([turn @ g[:-1] + np.outer(more, g[-1]), g[-1:]]) for g in self.gradients]
        )
        self.gradients[:, -1] *= bend.constant
        noise = turn**2 @ old.widths[:-1] ** -2 + (more / old.widths[-1]) ** 2 * bend.constant
        grown = float(np.max(noise * bend.widths[:-1] ** 2))
        self.variances = self.variances * max(grown, 1.0)
        self._looks, self._looked_at = [], self.theta

    @property
    def _quiet(self) -> bool:
        """Whether noise of all gradients together is small beside sampling: clips make it so."""
        return (self.gradient_scale * self.clip) ** 2 * self._K < _QUIET * self.dispersion

    @property
    def _step_is_short(self) -> bool:
        """Whether the last step was within what sampling does to the coefficients."""
        moved = (self.theta - self.points[-1]) / self.curvature.widths[:, None]
        short = float(np.sum(moved**2)) < _SETTLED * self.dispersion * len(moved)
        # Where steps since the last look explain residuals, these were no sampling error.
        return short and self._moved_since(self._looked_at) < _EXPLAINED

    def read_moments(self, moments: FloatArray) -> None:
        """Noisy second moments of rows in the metric, which make a better one."""
        bend = self.curvature
        noise = float(self.noise.spread()[0]) * self.cuts(bend).moved[0] ** 2
        along = bend.vectors.T @ moments[:-1, :-1] @ bend.vectors
        self.sharp = bend.sharpened(along, noise)

    def read_spread(self, spread: FloatArray, cuts: Cuts) -> None:
        """The same in the better metric, and those of rows times each residual."""
        turn = np.eye(self._d + 1)
        turn[:-1, :-1] = self.sharp.vectors
        self.spread = turn.T @ spread @ turn
        self.spread_scales = self.noise.spread() * np.square(cuts.moved)

    @property
    def turn(self) -> FloatArray:
        """From eigenvectors of the Hessian to those of the second moments."""
        return np.asarray(self.curvature.vectors.T @ self.sharp.vectors)

    def _sharpened(self) -> Curvature:
        """The Hessian with what second moments in their metric tell of its eigenvalues."""
        bend, d = copy(self.curvature), self._d
        back = self.turn / self.sharp.metric[:d]
        moments, variances, _ = (part[:d, :d] for part in self.joined())
        values = np.einsum("ij,jk,ik->i", back, moments, back)
        bend.values = np.append(np.maximum(values, 0.0), bend.values[d:])
        bend.rho = np.sqrt(np.einsum("ij,jk,ik->i", back**2, variances, back**2))
        return bend

    def joined(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Two noisy looks at the rows in their metric, put together entry by entry.

        With variances of both together, and of the Hessian's alone.

        The Hessian knows its long eigenvectors best, and is wrong by a share of itself where its
        rows were cut or weighted; the moments were bought in the metric.
        """
        bend, noise, turn = self.curvature, self.spread_scales[0], self.turn
        d = len(bend.metric) - (not bend.constant)
        metric, share = self.sharp.metric[:d], math.hypot(bend.doubt, self.growth)
        own, seen = np.zeros((2, d, d))
        scales = np.full((d, d), bend.scale**2)
        n = self._d
        own[:n, :n] = (turn.T * bend.noisy_values) @ turn
        seen[:n, :n] = (turn.T * bend.values[:n]) @ turn
        if bend.constant:
            own[-1, -1] = seen[-1, -1] = bend.values[-1]
            scales[-1], scales[:, -1] = 2 * bend.row_errors, 2 * bend.row_errors
            scales[-1, -1] = bend.row_errors[-1]
        wrong = np.diag(seen) * metric**2
        first = scales * np.outer(metric, metric) ** 2 + share**2 * np.outer(wrong, wrong)
        variances = 1 / (1 / noise**2 + 1 / first)
        own = own * np.outer(metric, metric)
        together = variances * (self.spread[0][:d, :d] / noise**2 + own / first)
        return together, variances, first

    def known(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradient at some coefficients as far as it is known, and its variance."""
        return self.curvature.combine(self.points, self.gradients, self.variances, theta)

    @property
    def counted(self) -> tuple[float, float]:
        """About how many rows there are, and the noise of that: of the bins that are added up."""
        return self._norms.total, self._norms.scale * math.sqrt(BINS)

    @property
    def growth(self) -> float:
        """By which share the Hessian of whole rows is larger than that of cut ones."""
        return max(self._norms.mean_square(1.0) / self._square - 1.0, 0.0)

    @classmethod
    def again(cls, setting: Setting, noise: Scales, released: Mapping[str, FloatArray]) -> Descent:
        """All of it again, from a release."""
        center = center_of(released["center"], noise.center) if setting.intercept else 0.0
        descent = cls(setting, noise, released["norms"], center)
        descent.bend(released["hessian"])
        while not descent.done:
            descent.repeat(released)
        return descent

    def repeat(self, released: Mapping[str, FloatArray]) -> None:
        """A round again, from a release."""
        t, cuts = len(self.points), None
        if self.spreads and self.last:
            self.read_moments(released["metric"])
            cuts = self.cuts(self.sharp)
        if t in self.looks:
            self.look(released["products"][self.looks.index(t)])
        if cuts is not None:
            self.read_spread(released["spread"], cuts)
        self.learn(released["gradients"][t])


def cut_gram(descent: Descent, cut: Mapping[str, ExactSum], rng: np.random.Generator) -> FloatArray:
    """The noisy Hessian of rows cut to the length that was found, and a constant.

    A cut row has norm 2^20 at most, in the matrix and in the sums, so that with a whole number c it
    moves the whole by 2^40 + c^2 at most.
    """
    unit = GRID_NORM / descent.cut
    last = math.floor(descent.constant * unit)
    gram = augmented(cut, last)
    del cut  # matrices, which nobody else holds
    noise = descent.noise.hessian * (float(GRID_NORM) ** 2 + float(last) ** 2) * ROUND_UP
    noisy = add_symmetric_noise(gram, noise, rng)
    noisy /= unit**2
    return noisy


def moments_of(
    table: Table, studied: Mapping[str, ExactSum], rung: int, center: FloatArray | None
) -> Mapping[str, ExactSum]:
    """The moments of rows cut to the length that was found, from the ladder or a further pass."""
    if "grams" not in studied:
        return table.sum(CutGram(rung, center), what="Reading moments")
    sums, gram = studied["sums"][rung], studied["grams"][rung]
    return {"count": studied["count"], "sums": sums, "gram": gram}


def augmented(cut: Mapping[str, ExactSum], last: int) -> ExactSum:
    """The exact sum of (u, c)(u, c)^T."""
    by = np.array([last])
    side, corner = cut["sums"].times(by), cut["count"].times(by).times(by)
    return ExactSum.block([[cut["gram"], side], [side.T, corner]])


def clipped_gradient(
    descent: Descent, total: ExactSum, unit: float, rng: np.random.Generator
) -> FloatArray:
    """A noisy gradient, as a sum of z r^T.

    Sums of (k, 1) w^T are exact integers. Their product with the whitener is too, and moves with a
    row by clip unit_z unit_w at most. It is rounded down to a row's 27 to 40 bits, which adds at
    most one to each entry.
    """
    whitener, unit_z = descent.curvature.whitener
    moved = descent.clip * unit * unit_z * ROUND_UP
    digits = max(-((40 - math.frexp(moved)[1]) // 13), 0)
    product = total.multiplied(whitener, digits)
    most = math.ldexp(moved, -13 * digits) + math.sqrt(product.high.size)
    noisy = add_noise(product, descent.scale * most * ROUND_UP, rng)
    return np.asarray(np.ldexp(noisy, 13 * digits) / (unit * unit_z))


def draw(
    table: Table,
    studied: Mapping[str, ExactSum],
    setting: Setting,
    noise: Scales,
    rng: np.random.Generator,
) -> tuple[Descent, dict[str, FloatArray]]:
    """Everything that is released, in order, and where it leads."""
    released = {name: np.zeros(shape) for name, shape in setting.shapes.items()}
    center = np.zeros(setting.n_features)
    if setting.intercept:
        released["center"] = draw_center(studied, noise.center, rng)
        center = center_of(released["center"], noise.center)
        studied = read_norms(table, center)
    released["norms"] = add_noise(studied["norms"], noise.norms, rng)
    descent = Descent(setting, noise, released["norms"], center)
    released["hessian"] = cut_gram(descent, moments_of(table, studied, descent.rung, center), rng)
    descent.bend(released["hessian"])
    while not descent.done:
        draw_round(table, descent, released, rng)
    return descent, released


def draw_round(
    table: Table,
    descent: Descent,
    released: dict[str, FloatArray],
    rng: np.random.Generator,
) -> None:
    """A round: everything that is released in it, and what is learned from that."""
    t, rung, K = len(descent.points), 0, descent.theta.shape[1]
    looking = t in descent.looks
    products, gradients = released["products"], released["gradients"]
    cuts, spread = None, None
    if descent.spreads and descent.last:
        released["metric"] = draw_moments(table, descent, rng)
        descent.read_moments(released["metric"])
        cuts = descent.cuts(descent.sharp)
        spread = spread_of(descent, cuts)
    index = descent.looks.index(t) if looking else 0
    if looking and table.here:  # a further pass costs less than a ladder of gradients
        counts = table.sum(PullCounts(descent.pull(), descent.top), what="Reading for a clip")
        products[index] = add_noise(counts["products"], descent.noise.look(), rng)
        descent.look(products[index])
    pulls = gradients_of(descent, looking and not table.here)
    both = pulls if spread is None else Together((pulls, spread))
    sums = table.sum(both, what="Reading for a gradient")
    if looking and not table.here:
        products[index] = add_noise(sums["products"], descent.noise.look(), rng)
        rung = descent.look(products[index])
    total = sums["gradient"][:, rung * K : (rung + 1) * K]
    gradients[t] = clipped_gradient(descent, total, pulls.unit, rng)
    if cuts is not None:
        released["spread"] = noisy_spread(descent, sums["spread"], cuts, rng)
        descent.read_spread(released["spread"], cuts)
    descent.learn(gradients[t])


def gradients_of(descent: Descent, looking: bool) -> PullSum:
    """What the next pass sums: a gradient, or a ladder of them and the histogram that chooses."""
    return PullSum(
        descent.pull(),
        tuple(map(float, descent.clips(looking))),
        GRID_NORM / descent.longest,
        descent.top if looking else None,
    )


def rows_of(descent: Descent) -> PullGrams:
    """What sums second moments of rows in the metric of the Hessian."""
    return PullGrams(descent.pull(), descent.cuts(descent.curvature).rows)


def spread_of(descent: Descent, cuts: Cuts) -> PullGrams:
    """What sums them, and those of pulls, in the metric of second moments."""
    return PullGrams(descent.pull(descent.sharp), cuts.rows, cuts.pulls, cuts.most)


def draw_moments(table: Table, descent: Descent, rng: np.random.Generator) -> FloatArray:
    """Noisy second moments of rows in the metric of the Hessian."""
    bend, noise = descent.curvature, float(descent.noise.spread()[0])
    exact = table.sum(rows_of(descent), what="Reading for second moments")["spread"][0]
    return noisy_moments(exact, bend, descent.cuts(bend).moved[0], 1.0, noise, len(exact.high), rng)


def noisy_spread(
    descent: Descent, exact: ExactSum, cuts: Cuts, rng: np.random.Generator
) -> FloatArray:
    """Noisy second moments of rows, and of their pulls, in the metric of second moments."""
    (of_rows, of_pulls), (n, d, _), noise = cuts.moved, exact.high.shape, descent.noise.spread()
    noisy = []
    for k in range(n):
        length, unit = (of_pulls / cuts.most, cuts.most) if k else (of_rows, 1.0)
        own = noise[min(k, 1)], math.sqrt(n) * d
        noisy.append(noisy_moments(exact[k], descent.sharp, length, unit, *own, rng))
    return np.asarray(noisy)


def noisy_moments(
    exact: ExactSum,
    bend: Curvature,
    length: float,
    unit: float,
    noise: float,
    rounding: float,
    rng: np.random.Generator,
) -> FloatArray:
    """A matrix in a metric, noisy, of rows of at most some length; see `Curvature.spreader`.

    Exact sums are rounded down to the last 27 to 40 bits of a row: by one at most each, and by
    `rounding` as a whole.
    """
    spreader, whole = bend.spreader
    moved = (length * whole) ** 2 * ROUND_UP
    digits = max(-((40 - math.frexp(moved)[1]) // 13), 0)
    bound = math.ldexp(moved, -13 * digits) + rounding
    own = add_symmetric_noise(
        exact.sandwiched(spreader, digits), float(noise) * bound * ROUND_UP, rng
    )
    np.ldexp(own, 13 * digits, out=own)
    own *= (unit / whole) ** 2
    return own


def study(table: Table, intercept: bool) -> dict[str, ExactSum]:
    """Exact sums, or moments without an intercept: the pass in which all that can fail fails."""
    if intercept:
        return table.sum(totals, again=True, what="Reading the table")
    return read_norms(table, None)


def read_norms(table: Table, center: FloatArray | None) -> dict[str, ExactSum]:
    """Norms; on a cluster, where a pass costs more than a matrix, with moments for all cuts."""
    ladder = CutMoments(n_cuts(len(table.rows.features.names)), center)
    return table.sum(CutNorms(center) if table.here else ladder, again=True, what="Reading norms")
