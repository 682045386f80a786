"""A noisy Hessian: what is known along its eigenvectors, steps, and its metric on the grid."""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray
from ndis.mechanisms.center import shrunk
from ndis.mechanisms.spectrum import eigenvectors
from ndis.tables import GRID_NORM, few_threads
from ndis.tables.exact import halved
from ndis.tables.sums import (
    VECTOR_NORM,
    Pull,
)

# So many directions have a scale of their own in the metric; a row's length there is cheap then.
_METRIC_RANK = 8
# And so many in the metric of second moments; these may hide so many deviations of their noise.
_SHARP_RANK, _SHARP = 20, 1.0
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
# How strong the signal may be, in units of "the columns explain everything".
_SIGNAL = np.geomspace(1e-4, 1e4, 41)
# Strengths less likely than this change nothing; and so many numbers stay in a processor's cache.
_UNLIKELY, _CACHED = 1e-15, 2**16
# So many numbers of a matrix between eigenvectors are made at once.
_AT_ONCE = 2**20
_LOG_PRIOR = np.minimum(np.log(_SIGNAL), 0) - 0.5 * np.maximum(np.log(_SIGNAL), 0)


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
        whole = np.zeros((d + 1, d + 1))
        M = whole[:d, :d]
        np.matmul(vectors * (metric[:-1][self.own] - base), vectors.T, out=M)
        np.einsum("ii->i", M)[:] += base
        whole[:d, d], whole[d, d] = -(M @ self.mean), metric[-1]
        M /= GRID_NORM
        return whole
