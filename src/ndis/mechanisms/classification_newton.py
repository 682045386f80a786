"""What noisy moments and noisy gradients tell about a logistic regression: post-processing only.

Rows x have norm at most one. Released before the first round are the moments of the rows; then, in
each round, the gradient sum of x (a (e_y - p))^T and the residuals' own sum, at a query point. From
everything released so far the coefficients are estimated, along the eigenvectors of the noisy Gram
matrix, by a Wiener filter whose prior is averaged over a grid by its likelihood: there is nothing
to tune. docs/classification.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import softmax
from scipy.stats import norm, qmc

from ndis._validate import FloatArray
from ndis.mechanisms.spectrum import Spectrum

# The relative error of the model of the curvature: of a gradient that is moved, of one at zero.
_DOUBT, _DOUBT_AT_ZERO = 0.3, 2.0
# Standard deviation of a direction's steepness beside the model's, and of what other directions
# add to the difference of two gradients.
_STEEPNESS, _CROSSING = 0.5, 0.5
# Widths of the coefficients' prior (log2 of them is N(0, 1.5^2)), and how it follows the spectrum.
_WIDTHS, _SPREAD = 2.0 ** np.arange(-1, 6), 1.5
_POWERS = np.array([0.0, 1.0, 2.0])
# Gradients at full price once their noise is below this share of the sampling error.
_SWITCH = 0.5
_CONVERGED = 1e-9

Point = tuple[FloatArray, FloatArray]


def class_basis(n_classes: int) -> FloatArray:
    """An orthonormal basis of vectors that add up to zero, one per column: see `contrasts`.

    Examples
    --------
    >>> from ndis.mechanisms.classification_newton import class_basis
    >>> class_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    root = math.sqrt(n_classes)
    away = np.full(n_classes, 1.0 / root)
    away[0] -= 1.0
    return np.asarray(np.eye(n_classes)[:, 1:] - away[:, None] / (root - 1.0))


def weighted_bound(n_classes: int) -> float:
    """The longest weighted residual (see `ndis.tables.Scores`)."""
    return math.sqrt((n_classes - 1) / n_classes)


@lru_cache(maxsize=64)
def _nodes(dimension: int) -> FloatArray:
    """Points that average like a standard normal vector."""
    if dimension == 1:
        return np.asarray(norm.ppf((np.arange(64) + 0.5) / 64)[:, None])
    cube = qmc.Sobol(dimension, scramble=True, seed=0).random(256)
    return np.asarray(norm.ppf(np.clip(cube, 1e-6, 1.0 - 1e-6)))


class Average:
    """Class probabilities over an imagined normal design: E p, and the curvature E a (P - p p^T).

    Parameters
    ----------
    intercept : ndarray of shape (k,)
        At the mean of the rows, in the basis of the classes.
    cov : ndarray of shape (k, k)
        Of the logits.
    basis : ndarray of shape (k + 1, k)
    plain : bool
        Whether rows have weight one.
    """

    def __init__(
        self, intercept: FloatArray, cov: FloatArray, basis: FloatArray, plain: bool = False
    ) -> None:
        values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
        logits = _nodes(len(cov)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        p = softmax((intercept + logits) @ basis.T, axis=1)
        longest = 1.0 - 2.0 * p.min(axis=1) + np.sum(p * p, axis=1)
        weights = np.ones(len(p)) if plain else np.sqrt((1.0 - 1.0 / len(basis)) / longest)
        self.mean = p.mean(axis=0)
        self.weight = float(weights.mean())
        inner = (weights[:, None] * p).mean(axis=0)
        outer = p @ basis
        self.curvature = basis.T @ (inner[:, None] * basis)
        self.curvature -= (weights[:, None] * outer).T @ outer / len(p)


@dataclass(frozen=True)
class _Round:
    """What one gradient says, in the eigenbasis of the rows."""

    theta: FloatArray
    gradient: FloatArray
    expected: FloatArray
    totals: FloatArray
    variance: float
    mean_error: float


class Newton:
    """The estimate, round by round.

    Parameters
    ----------
    n_classes : int
    gram, sums, count : ndarray
        The released moments of the rows.
    noise : mapping of str to float
        Noise of gram, sums, count, gradients and residuals, for weighted residuals.
    n_rounds : int
    """

    def __init__(
        self,
        n_classes: int,
        gram: FloatArray,
        sums: FloatArray,
        count: FloatArray,
        noise: Mapping[str, float],
        n_rounds: int,
    ) -> None:
        self.noise, self.n_rounds = noise, n_rounds
        self.basis, self.k = class_basis(n_classes), n_classes - 1
        self.n = max(float(count), 2.0 * noise["count"], 1.0)
        mean, error = sums / self.n, (noise["sums"] / self.n) ** 2
        # James and Stein: towards the middle, where unbalanced classes pay nothing for the mean.
        size = float(mean @ mean)
        kept = max(0.0, 1.0 - len(mean) * error / size) if size > 0 else 0.0
        mean = kept * mean
        self.mean = mean / max(1.0, float(np.linalg.norm(mean)))
        self.mean_error = kept * error
        spectrum = Spectrum(gram - self.n * np.outer(self.mean, self.mean), noise["gram"])
        self.vectors, self.mixing = spectrum.vectors, spectrum.mixing
        self.values = np.maximum(spectrum.values, 1e-3)
        # Noise of the intercept in a centred gradient.
        self.ratio = noise["residuals"] / noise["gradients"]
        self.along = (self.vectors.T @ self.mean) ** 2 * self.ratio**2
        self.log: list[_Round] = []
        self.plain = False
        shape = (len(mean), self.k)
        self.guess, self.variances = np.zeros(shape), np.zeros(shape)
        self.error_at_zero = 0.0
        self.point: Point = np.zeros(shape), np.zeros(self.k)

    @property
    def theta(self) -> FloatArray:
        """Coefficients of the normalised rows, in the basis of the classes."""
        return np.asarray(self.vectors @ self.guess)

    @property
    def intercept(self) -> FloatArray:
        """The logits at the middle, in the basis of the classes."""
        return np.asarray(self.centre - self.mean @ self.theta)

    @property
    def noise_scale(self) -> float:
        """Noise of a gradient at the present bound on residuals."""
        scale = self.noise["gradients"]
        return scale * math.sqrt(2.0) / weighted_bound(self.k + 1) if self.plain else scale

    def query(self, index: int) -> Point:
        """Where the next gradient is asked for; sets `plain` where weights are no longer worth it.

        Everything it looks at has been released.
        """
        zero = np.zeros_like(self.guess), np.zeros(self.k)
        if index == 0:
            return zero
        s = self.noise["gradients"]
        if index == self.n_rounds // 2:
            price = 2.0 / weighted_bound(self.k + 1) ** 2
            size = np.average(self.values, weights=self.values) * np.trace(self.last.curvature)
            if price * s**2 / (self.n_rounds / 2) < _SWITCH * size / self.k:
                self.plain, self.log = True, []
        if not self.plain:
            # Far out the curvature is small: is a gradient at zero worth the error of the model?
            there = Average(self.centre, self._logit_cov(), self.basis)
            ratio = np.trace(self.start.curvature) / np.trace(there.curvature)
            if (ratio**2 - 1.0) * s**2 > self.error_at_zero:
                return zero
        return self.theta, self.intercept

    def learn(self, point: Point, gradient: FloatArray, residuals: FloatArray) -> None:
        """Take in what a round has released, and estimate anew."""
        theta, intercept = point
        centred = self.vectors.T @ (gradient - np.outer(self.mean, residuals))
        there = self.vectors.T @ theta
        cov = there.T @ (self.values[:, None] * there) / self.n
        model = Average(intercept + self.mean @ theta, cov, self.basis, self.plain)
        s = self.noise_scale
        if not self.log and not self.plain:  # all p are 1/K: the classes are counted
            self.start_centre = np.log(self._shares(residuals, s * self.ratio)) @ self.basis
            self.last = self.start = Average(self.start_centre, np.zeros_like(cov), self.basis)
        elif there.any():
            self.last = Average(self.centre, self._logit_cov(), self.basis, self.plain)
        else:
            self.last = self.start  # no extrapolation outwards from zero
        self.log.append(
            _Round(
                there,
                centred,
                self.values[:, None] * there @ model.curvature,
                residuals / model.weight + self.n * model.mean @ self.basis,
                s**2,
                float(np.mean(residuals**2)) * self.mean_error,
            )
        )
        self._estimate()

    def _logit_cov(self) -> FloatArray:
        return np.asarray(self.guess.T @ (self.values[:, None] * self.guess) / self.n)

    def _shares(self, away: FloatArray, error: float) -> FloatArray:
        """Shares of the classes, drawn towards equal ones as far as noise explains the difference.

        `away` are noisy counts less n/K, in the basis of the classes.
        """
        kept = max(0.0, 1.0 - len(away) * error**2 / max(float(away @ away), 1e-300))
        counts = self.n / (self.k + 1) + kept * (self.basis @ away)
        counts = np.maximum(counts, max(1.0, error))
        return np.asarray(counts / counts.sum())

    def _steepness(self, curvature: float) -> FloatArray:
        """How much steeper than the model each direction has shown itself, by secants."""
        end, d = self.log[-1], len(self.values)
        top = bottom = np.full(d, _STEEPNESS**-2.0)
        for other in self.log[:-1]:
            expected, moved = end.expected - other.expected, (end.theta - other.theta) ** 2
            crossing = (_CROSSING * curvature) ** 2 * self.values / (self.k * d)
            variance = (other.variance + end.variance) * (1.0 + self.along)
            variance += crossing * np.sum(self.values[:, None] * moved)
            variance += curvature**2 * self.mixing @ moved.mean(axis=1)
            top = top + np.sum(expected * (other.gradient - end.gradient), axis=1) / variance
            bottom = bottom + np.sum(expected**2, axis=1) / variance
        return np.asarray(np.clip(top / bottom, 0.25, 4.0))

    def _estimate(self) -> None:
        """Coefficients, their variances and the intercept, from all rounds."""
        curvatures, self.turn = np.linalg.eigh(self.last.curvature)
        curvatures = np.maximum(curvatures, 1e-4)
        curvature = float(curvatures.mean())
        steepness = self._steepness(curvature)
        values = self.values * steepness
        known = bool(self.guess.any()) or bool(self.variances.any())
        for _ in range(3):
            moment, variance, totals = self._pooled(values, steepness, curvature, known)
            self._filter(moment @ self.turn, variance, values[:, None] * curvatures)
            known = True
        self._set_intercept(*totals)

    def _pooled(
        self, values: FloatArray, steepness: FloatArray, curvature: float, known: bool
    ) -> tuple[FloatArray, FloatArray, tuple[FloatArray, float]]:
        """All rounds brought to one place: moments and class totals, with their variances."""
        d, k = self.guess.shape
        moment, precision = np.zeros((d, k)), np.zeros(d)
        totals, totals_precision = np.zeros(k), 0.0
        shared = np.zeros(d)
        for index, one in enumerate(self.log):
            away = (self.guess - one.theta) ** 2 if known else np.zeros((d, k))
            mixed = self.mixing @ (away + self.variances).mean(axis=1)
            model = values * np.sum(values[:, None] * (away + self.variances)) / (k * d)
            of_model = curvature**2 * (mixed + _DOUBT**2 * model)
            variance = one.variance * (1.0 + self.along) + one.mean_error + of_model
            shared += of_model / variance
            if index == 0:
                error = curvature**2 * (mixed + _DOUBT_AT_ZERO**2 * model)
                self.error_at_zero = float(np.mean(error))
            moment += (one.gradient + steepness[:, None] * one.expected) / variance[:, None]
            precision += 1.0 / variance
            spread = float(np.sum(values[:, None] * away)) / (self.n * k)
            of_totals = one.variance * self.ratio**2 + (_DOUBT * self.n * curvature) ** 2 * spread
            totals += one.totals / of_totals
            totals_precision += 1.0 / of_totals
        self.shared_error = shared / precision
        error = totals_precision**-0.5
        return moment / precision[:, None], 1.0 / precision, (totals / totals_precision, error)

    def _filter(self, moment: FloatArray, variance: FloatArray, slope: FloatArray) -> None:
        """Wiener's filter, averaged over widths of the prior by their likelihood."""
        shape = (self.values / self.values.mean()) ** _POWERS[:, None]
        shape = shape / np.average(shape, axis=1, weights=self.values)[:, None]
        prior = (_WIDTHS[:, None, None] ** 2 * shape).reshape(-1, len(self.values), 1)
        noise = slope + variance[:, None]
        total = prior * slope**2 + noise
        likelihood = -0.5 * np.sum(np.log(total) + moment**2 / total, axis=(1, 2))
        likelihood -= 0.5 * np.repeat(np.log2(_WIDTHS) / _SPREAD, len(_POWERS)) ** 2
        weights = softmax(likelihood)[:, None, None]
        self.guess = (np.sum(weights * prior / total, axis=0) * slope * moment) @ self.turn.T
        self.variances = np.sum(weights * prior * noise / total, axis=0)
        # Errors of the model are no independent draws: they do not average out over the rounds.
        noise = noise + self.shared_error[:, None]
        self.wide_variances = np.sum(weights * prior * noise / (prior * slope**2 + noise), axis=0)

    def _set_intercept(self, totals: FloatArray, error: float) -> None:
        """The intercept that gives the shares of the classes."""
        target, cov = self._shares(totals, error), self._logit_cov()
        centre = self.start_centre
        for _ in range(30):
            model = Average(centre, cov, self.basis)
            off = target - model.mean
            step = np.linalg.solve(model.curvature + 1e-6 * np.eye(self.k), off @ self.basis)
            centre = centre + step
            if np.abs(off).max() < _CONVERGED:
                break
        self.centre = centre

    def of_classes(self, variances: FloatArray) -> FloatArray:
        """Variances of the coefficients in the eigenbasis, for each class's logit: (d, K)."""
        return np.asarray(variances @ ((self.basis @ self.turn) ** 2).T)
