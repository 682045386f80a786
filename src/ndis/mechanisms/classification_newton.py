"""What noisy moments and noisy gradients tell about a logistic regression: post-processing only.

Rows x have norm at most one. Released before the first round are the moments of the rows; then, in
each round, the gradient sum of x (a (e_y - p))^T and the residuals' own sum, at a query point. Each
gradient, with what an imagined normal design says of the way to its query point, is a noisy look at
one thing: the moments that the maximum of the likelihood has. The error of that design is a random
matrix beside the curvature; what the gradients have shown of it is regressed out (kriging), and
the coefficients follow along the eigenvectors of the noisy Gram matrix, with a prior that is
averaged over a grid by its likelihood: there is nothing to tune. docs/classification.md has the
reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp, ndtri, softmax

from ndis._validate import FloatArray
from ndis.mechanisms.spectrum import Spectrum

# Relative error of the imagined curvature: between directions, along one, of class totals.
_DOUBT, _STEEPNESS, _OF_TOTALS = 0.3, 0.5, 0.3
# How this error changes on the way, for logits that spread by one: counted where a query is chosen.
_BENDING = 2.0
# The trace of the rows' second moments, per row by weight: what is usual, and how far it varies.
_TRACE, _OF_TRACE = 1.1, 0.3
# How far weighted gradients miss the likelihood's own: by sampling, and where the model is wrong.
_SAMPLED, _MISSED = 0.03, 0.2
# Widths of the coefficients' prior (log2 of them is N(-1, 1.5^2)), and how wide it is in one
# direction beside others.
_WIDTHS, _LIKELIEST, _SPREAD = 2.0 ** np.arange(-3, 6), -1.0, 1.5
_LOCAL, _SHARES = np.array([0.3, 1.0, 3.0]), np.array([0.25, 0.5, 0.25])
# The estimate is repeated with the curvature that it implies. Its logits spread at most so much
# more than at any query so far, or than _FLOOR.
_REPEATS, _DAMPING, _GROWTH, _FLOOR = 3, 0.7, 2.0, 1.0
_CONVERGED = 1e-9
# The next gradient may be the last after so many, and a step that is short beside sampling.
_LEAST_ROUNDS, _SETTLED = 3, 0.25

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


def moderation(variance: float, n_classes: int) -> float:
    """1/sqrt(1 + pi/8 v), by which MacKay multiplies log-odds of variance v.

    `variance` is that of logits in the basis of the classes; two classes have one such logit, and
    their log-odds are sqrt(2) times it.
    """
    return 1.0 / math.sqrt(1.0 + math.pi / 8.0 * variance * (2.0 if n_classes == 2 else 1.0))


@lru_cache(maxsize=64)
def _nodes(dimension: int) -> FloatArray:
    """Points that average like a standard normal vector."""
    if dimension == 1:
        return np.asarray(ndtri((np.arange(64) + 0.5) / 64)[:, None])
    from scipy.stats import qmc

    cube = qmc.Sobol(dimension, scramble=True, seed=0).random(256)
    return np.asarray(ndtri(np.clip(cube, 1e-6, 1.0 - 1e-6)))


class Average:
    """Class probabilities over an imagined normal design.

    Parameters
    ----------
    center : ndarray of shape (k,)
        The logits at the mean of the rows, in the basis of the classes.
    cov : ndarray of shape (k, k)
        Of the logits.
    basis : ndarray of shape (k + 1, k)
    plain : bool
        Whether rows have weight one.

    Attributes
    ----------
    mean : ndarray of shape (k + 1,)
        Shares of the classes.
    curvature : ndarray of shape (k, k)
        E a (P - p p^T), in the basis.
    weights, traces : ndarray
        The weight a and the trace of P - p p^T at each point of the design.
    """

    def __init__(
        self, center: FloatArray, cov: FloatArray, basis: FloatArray, plain: bool = True
    ) -> None:
        values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
        logits = _nodes(len(cov)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        p = softmax((center + logits) @ basis.T, axis=1)
        squares = np.sum(p * p, axis=1)
        longest = 1.0 - 2.0 * p.min(axis=1) + squares
        bound = weighted_bound(len(basis))
        self.weights = np.ones(len(p)) if plain else bound / np.sqrt(longest)
        self.traces, self.mean = 1.0 - squares, p.mean(axis=0)
        inner, outer = (self.weights[:, None] * p).mean(axis=0), p @ basis
        self.curvature = basis.T @ (inner[:, None] * basis)
        self.curvature -= (self.weights[:, None] * outer).T @ outer / len(p)


@dataclass(frozen=True)
class _Round:
    """A gradient and the residuals' sum, brought to zero by the imagined design.

    `theta` and `moment` have shape (d, k), in the eigenbasis of the rows; `variances` are those of
    the noise along each direction, `of_totals` that of the classes' totals.
    """

    theta: FloatArray
    moment: FloatArray
    totals: FloatArray
    variances: FloatArray
    of_totals: float
    weights: FloatArray


class Newton:
    """The estimate, round by round.

    Parameters
    ----------
    n_classes : int
    gram, sums, count : ndarray
        The released moments of the rows.
    noise : mapping of str to float
        Noise of gram, sums, count, gradients and residuals, for weighted residuals.
    """

    def __init__(
        self,
        n_classes: int,
        gram: FloatArray,
        sums: FloatArray,
        count: FloatArray,
        noise: Mapping[str, float],
    ) -> None:
        self.noise, self.basis, self.k = noise, class_basis(n_classes), n_classes - 1
        self.n = max(float(count), 2.0 * noise["count"], 1.0)
        mean, error = sums / self.n, (noise["sums"] / self.n) ** 2
        # James and Stein: towards the middle, where unbalanced classes pay nothing for the mean.
        size = float(mean @ mean)
        kept = max(0.0, 1.0 - len(mean) * error / size) if size > 0 else 0.0
        mean = kept * mean
        self.mean = mean / max(1.0, float(np.linalg.norm(mean)))
        self.mean_error = kept * error
        # Here a count that is too large would do the harm: not the cautious one above.
        d, n = len(mean), max(float(count), noise["count"])
        known = _TRACE * n / d, math.hypot(_OF_TRACE * n, _TRACE * noise["count"]) / d
        spectrum = Spectrum(gram - self.n * np.outer(self.mean, self.mean), noise["gram"], known)
        self.vectors = spectrum.vectors
        self.values = np.maximum(spectrum.values, 1e-3)
        # Variances of the true curvature's entries about the imagined ones, for curvature one.
        outer = np.outer(self.values, self.values)
        self.doubt = _DOUBT**2 * outer / d + _STEEPNESS**2 * np.diag(self.values**2)
        self.doubt += spectrum.mixing
        # Noise of the intercept in a centred gradient.
        self.ratio = noise["residuals"] / noise["gradients"]
        self.along = (self.vectors.T @ self.mean) ** 2 * self.ratio**2
        self.log: list[_Round] = []
        self.guess, self.center = np.zeros((d, self.k)), np.zeros(self.k)

    @property
    def theta(self) -> FloatArray:
        """Coefficients of the normalised rows, in the basis of the classes."""
        return np.asarray(self.vectors @ self.guess)

    @property
    def intercept(self) -> FloatArray:
        """The logits at the middle, in the basis of the classes."""
        return np.asarray(self.center - self.mean @ self.theta)

    def moderated(self) -> tuple[float, FloatArray]:
        """A factor of the coefficients, and the intercept beside it, for predictions.

        The intercept gives the shares of the classes, whatever the factor.
        """
        variance = float(np.sum(self.values * self.by_noise)) / (self.n * self.k)
        factor = moderation(variance, self.k + 1)
        return factor, self._centered(factor) - factor * (self.mean @ self.theta)

    @property
    def settled(self) -> bool:
        """Whether another round would change little, so that one gradient may be the last."""
        return len(self.log) >= _LEAST_ROUNDS and self._moved < _SETTLED * self.guess.size

    def query(self, parts: int = 1) -> tuple[Point, bool]:
        """Where the next gradient, of so many parts, is asked for, and whether without weights.

        Of three it takes the one after which the least loss is forecast: at the estimate with
        weights or without, and at zero, where the curvature is largest and the model worst.
        Everything it looks at has been released.
        """
        zero = np.zeros_like(self.guess), np.zeros(self.k)
        if not self.log:
            return zero, False
        here, nobody = (self.theta, self.intercept), np.zeros(self.k)
        at_zero = self.n * (self.target - 1.0 / (self.k + 1)) @ self.basis
        asked = [(here, False, nobody), (here, True, nobody), (zero, False, at_zero)]
        best = int(np.argmin([self._left(*one, parts) for one in asked]))
        return asked[best][:2]

    def learn(
        self,
        point: Point,
        plain: bool,
        gradient: FloatArray,
        residuals: FloatArray,
        parts: int = 1,
    ) -> None:
        """Take in what a round has released, with so many parts, and estimate anew."""
        self.log.append(self._round(point, plain, residuals, parts, gradient))
        if len(self.log) == 1:  # all p are 1/K: the classes are counted
            self.target = self._shares(residuals, self.log[0].of_totals)
            self.center = np.log(self.target) @ self.basis
        before = self.guess
        self._estimate()
        moved = (self.guess - before) @ self.turn
        # Squared, in units of what sampling does to a coefficient.
        self._moved = float(np.sum(self.slope * moved.T**2))

    def _round(
        self,
        point: Point,
        plain: bool,
        residuals: FloatArray,
        parts: int,
        gradient: FloatArray | None = None,
    ) -> _Round:
        """What a round says, or would say but for the gradient."""
        theta, s = self.vectors.T @ point[0], self.noise["gradients"] / math.sqrt(parts)
        if plain:
            s *= math.sqrt(2.0) / weighted_bound(self.k + 1)
        model = Average(point[1] + self.mean @ point[0], self._cov(theta), self.basis, plain)
        moment = self.values[:, None] * theta @ model.curvature
        if gradient is not None:
            moment += self.vectors.T @ (gradient - np.outer(self.mean, residuals))
        weight = float(model.weights.mean())
        return _Round(
            theta,
            moment,
            residuals / weight + self.n * model.mean @ self.basis,
            s**2 * (1.0 + self.along) + float(np.mean(residuals**2)) * self.mean_error,
            (s * self.ratio / weight) ** 2,
            model.weights,
        )

    def _cov(self, theta: FloatArray) -> FloatArray:
        """Of the logits, for coefficients in the eigenbasis."""
        return np.asarray(theta.T @ (self.values[:, None] * theta) / self.n)

    def _shares(self, away: FloatArray, variance: float) -> FloatArray:
        """Shares of the classes, drawn towards equal ones as far as noise explains the difference.

        `away` are noisy counts less n/K, in the basis of the classes.
        """
        # James and Stein's positive part: of noisy counts, which are already released.
        kept = max(0.0, 1.0 - len(away) * variance / max(float(away @ away), 1e-300))
        counts = self.n / (self.k + 1) + kept * (self.basis @ away)
        counts = np.maximum(counts, max(1.0, math.sqrt(variance)))
        return np.asarray(counts / counts.sum())

    def _look(self, guess: FloatArray) -> FloatArray:
        """The imagined design at a guess: its curvatures, their directions; traces are returned."""
        model = Average(self.center, self._cov(guess), self.basis)
        curvatures, self.turn = np.linalg.eigh(model.curvature)
        self.curvatures = np.maximum(curvatures, 1e-4)
        self.slope = self.curvatures[:, None] * self.values
        return np.asarray(model.traces)

    def _kriged(
        self, rounds: list[_Round], guess: FloatArray, bending: float = 0.0
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Moments at a guess (k, d), their variances, and how they change with the guess.

        The error of the imagined curvature is a matrix of independent entries whose variances are
        `doubt`: a Gaussian process of the query points, for each direction of the classes' logits.
        With `bending` it changes in proportion to the distance from the guess.
        """
        traces = self._look(guess)
        theta = np.array([one.theta for one in rounds]) @ self.turn
        away = np.moveaxis(theta - theta[-1], 2, 0)
        ahead = (guess @ self.turn - theta[-1]).T
        seen = np.array([np.mean(one.weights * traces) for one in rounds]) / traces.mean()
        noise = np.array([one.variances for one in rounds]).T / seen**2
        cov = self.curvatures[:, None, None] ** 2 * self.doubt
        kernel = np.moveaxis((away[:, :, None] * away[:, None]) @ cov[:, None], 3, 1)
        behind = away - ahead[:, None]
        bent = (bending * (behind * self.values) @ np.moveaxis(behind, 1, 2)) ** 2
        bent *= self.curvatures[:, None, None] ** 2 / (self.n * len(self.values))
        kernel += self.values[:, None, None] * bent[:, None]
        size = np.sum(self.values[:, None] * (guess @ self.turn) ** 2, axis=0) / len(self.values)
        missed = self.slope * (_SAMPLED + _MISSED**2 * self.curvatures * size)[:, None]
        weighted = 2.0 * (1.0 - seen)
        kernel = kernel + missed[:, :, None, None] * np.outer(weighted, weighted)
        inverse = np.linalg.inv(kernel + noise[:, :, None] * np.eye(len(rounds)))
        ones = inverse.sum(axis=3)
        precision = ones.sum(axis=2)
        cross = cov @ np.moveaxis(away * ahead[:, None], 1, 2)
        variance = np.einsum("kij,kj->ki", cov, ahead**2)
        variance -= np.einsum("kit,kits,kis->ki", cross, inverse, cross)
        variance += (1.0 - np.sum(ones * cross, axis=2)) ** 2 / precision
        moments = np.array([one.moment for one in rounds]) @ self.turn / seen[:, None, None]
        moments = np.moveaxis(moments, 0, 2).transpose(1, 0, 2)
        mean = np.sum(ones * moments, axis=2) / precision
        left = np.einsum("kits,kis->kit", inverse, moments - mean[..., None])
        change = cov * (left @ away)
        start = mean - np.einsum("kij,kj->ki", change, theta[-1].T)
        return start, np.maximum(variance, 0.0), change

    def _left(self, point: Point, plain: bool, residuals: FloatArray, parts: int) -> float:
        """The loss that is forecast once a gradient is known there."""
        rounds = [*self.log, self._round(point, plain, residuals, parts)]
        noise = self.slope + self._kriged(rounds, self.guess, _BENDING)[1]
        left = self.width * noise / (self.width * self.slope**2 + noise)
        return float(np.sum(self.curvatures[:, None] * self.values * left))

    def _estimate(self) -> None:
        """Coefficients, their variances and the intercept, from all rounds."""
        visited = max(float(np.trace(self._cov(one.theta))) for one in self.log)
        widest = _GROWTH * math.sqrt(max(visited, _FLOOR**2))
        for repeat in range(_REPEATS):
            start, variance, change = self._kriged(self.log, self.guess)
            turned = (self.guess @ self.turn).T
            moment = start + np.einsum("kij,kj->ki", change, turned)
            noise = self.slope + variance
            self._set_width(moment, noise)
            slope = self.slope[:, :, None] * np.eye(len(self.values)) - change
            total = (slope * self.width[:, None]) @ slope.transpose(0, 2, 1)
            total += noise[:, :, None] * np.eye(len(self.values))
            known = np.linalg.solve(total, start[..., None])
            new = (self.width * (slope.transpose(0, 2, 1) @ known)[..., 0]).T @ self.turn.T
            spread = math.sqrt(max(float(np.trace(self._cov(new))), 1e-300))
            new = new * min(1.0, widest / spread)
            self.guess = new if repeat == 0 else self.guess + _DAMPING * (new - self.guess)
        self._set_intercept()

    def _set_width(self, moment: FloatArray, noise: FloatArray) -> None:
        """The prior's variances (k, d), averaged by likelihood; the posterior's, by class."""
        prior = np.outer(_WIDTHS, _LOCAL)[:, None, :, None] ** 2
        total = prior * self.slope[:, None] ** 2 + noise[:, None]
        each = np.log(_SHARES)[:, None] - 0.5 * (np.log(total) + moment[:, None] ** 2 / total)
        likelihood = logsumexp(each, axis=2).sum(axis=(1, 2))
        likelihood -= 0.5 * ((np.log2(_WIDTHS) - _LIKELIEST) / _SPREAD) ** 2
        weights = softmax(each, axis=2) * softmax(likelihood)[:, None, None, None]
        shrunk = np.sum(weights * prior / total, axis=(0, 2))
        self.width = shrunk * noise / np.maximum(1.0 - shrunk * self.slope**2, 1e-9)
        variances = np.sum(weights * prior * noise[:, None] / total, axis=(0, 2))
        self.by_noise = variances * (1.0 - self.slope / noise)  # not by sampling
        to_classes = ((self.basis @ self.turn) ** 2).T
        self.variances, self.noise_variances = (
            variances.T @ to_classes,
            self.by_noise.T @ to_classes,
        )

    def _set_intercept(self) -> None:
        """The intercept that gives the shares of the classes."""
        away = np.array([one.theta - self.guess for one in self.log])
        inner = np.einsum("tij,i,sij->ts", away, self.values, away) / self.k
        kernel = (_OF_TOTALS * self.curvatures.mean()) ** 2 * self.n * inner
        noise = np.diag([one.of_totals for one in self.log])
        ones = np.linalg.inv(kernel + noise).sum(axis=0)
        totals = ones @ np.array([one.totals for one in self.log]) / ones.sum()
        self.target = self._shares(totals, 1.0 / ones.sum())
        self.center = self._centered(1.0)

    def _centered(self, factor: float) -> FloatArray:
        """The logits at the mean that give the shares of the classes, coefficients multiplied."""
        cov, center = factor**2 * self._cov(self.guess), np.log(self.target) @ self.basis
        for _ in range(30):
            model = Average(center, cov, self.basis)
            off = self.target - model.mean
            step = np.linalg.solve(model.curvature + 1e-6 * np.eye(self.k), off @ self.basis)
            center = center + step
            if np.abs(off).max() < _CONVERGED:
                break
        return np.asarray(center)
