"""What a release tells about the errors of coefficients: noise, sampling, and what nobody knows.

The coefficients that a fit returns are drawn towards zero where little is known. Here they are
moved by a Newton step without shrinkage wherever the curvature stands out from its noise; elsewhere
they are kept, and count as unknown. Everything follows from the release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.regression_methods.newton import Curvature, Descent, cleaned
from ndis.tables import GRID_NORM, Columns, few_threads

# A direction is known if it stands out by so many deviations from the largest that is noise alone.
_BEYOND = 1.5
# Newton steps without shrinkage.
_STEPS = 2
# Rows that others stand in for may vary less than equal variances say, but hardly by more than
# this share.
_LEAST = 0.2
# A coefficient is known if more than this share of it lies where features stand out from noise.
# Of a column that noise hides alone, whose limits may be far too wide, errors are so many times
# what such directions usually explain. It is alone if this share of what is hidden is its own: a
# pair that may stand in for each other has a half each.
_MOST, _DOUBT, _ALONE = 0.75, 1.5, 0.99
# A histogram in half octaves tells a mean square to about this share.
_COARSE = 0.02


@dataclass(frozen=True)
class Known:
    """Coefficients without shrinkage and their errors, along the eigenvectors of the Hessian.

    Attributes
    ----------
    theta : ndarray of shape (d + 1, n_labels)
        The constant's last.
    noise, sampling : ndarray of shape (n_labels, d + 1, d + 1)
        Covariances: what privacy adds, and what drawing the rows from a population does.
    hidden : ndarray of shape (d + 1, d + 1)
        The covariance of directions of unknown curvature, if they explain what is usual.
    resolved : ndarray of shape (d + 1, d + 1)
        The projection to what is known, of coefficients in `units`.
    units : ndarray of shape (d + 1,)
        Units in which a row is about equally long in every direction.
    """

    theta: FloatArray
    noise: FloatArray
    sampling: FloatArray
    hidden: FloatArray
    resolved: FloatArray
    units: FloatArray

    def covariance(self, weights: FloatArray, population: bool) -> FloatArray:
        """Of combinations of the coefficients, weights of shape (n, d + 1): (n_labels, n, n)."""
        covariance = self.noise + self.sampling if population else self.noise
        doubtful = self.known_share(weights) < _MOST
        usual = np.einsum("ni,ij,nj->n", weights, self.hidden, weights) * doubtful
        found = weights @ covariance @ weights.T + _DOUBT**2 * usual * np.eye(len(weights))
        return np.asarray(found)

    def told(self, weights: FloatArray) -> FloatArray:
        """Whether anything can be said of such combinations.

        Where noise hides a direction that is not one column's own, or several, columns may stand in
        for each other: their coefficients can be as large as they like, as long as they cancel, and
        no error covers that.
        """
        hidden = np.eye(len(self.units)) - self.resolved
        features = np.trace(hidden) - hidden[-1, -1]  # the constant's own place is the last
        share, along = self.known_share(weights), hidden * np.outer(self.units, self.units)
        alone = np.einsum("ni,ij,nj->n", weights, along, weights)
        alone = alone > _ALONE * np.trace(along) * np.sum(weights**2, axis=1)
        return np.asarray((share > _MOST) | ((share < 1.0 - _MOST) & (features < 1.5) & alone))

    def known_share(self, weights: FloatArray) -> FloatArray:
        """How much of such combinations lies along what is known."""
        along = weights * self.units
        own = np.sum((along @ self.resolved) * along, axis=1)
        return np.asarray(own / np.maximum(np.sum(along**2, axis=1), 1e-300))


class Units(NamedTuple):
    """What the features of a solution are measured in: grid units of one unit, and the middle."""

    scale: FloatArray
    middle: FloatArray


def widths_of(columns: Columns) -> FloatArray:
    """How far each number of a row can change: between limits, levels, or the ends of a ball."""
    indicators = {name for column in columns.levels for name in columns.names_of(column)}
    return np.array(
        [
            1.0 if name in indicators else high - low if np.isfinite(high) else 2.0 / unit
            for name, low, high, unit in zip(
                columns.names, columns.low, columns.high, columns.scale / GRID_NORM, strict=True
            )
        ]
    )


def in_columns(bend: Curvature, units: Units) -> FloatArray:
    """The intercept and the coefficients of columns as combinations of those along eigenvectors.

    Of shape (d + 1, d + 1), in units of 2^-20 of the label.
    """
    d = len(bend.mean)
    weights = np.column_stack([bend.vectors, np.zeros(d)]) * units.scale[:, None]
    # The intercept is where the fitted line meets zero in the table's units.
    zero = bend.mean + units.middle * units.scale / GRID_NORM
    return np.vstack([np.append(-bend.vectors.T @ zero, 1.0) * GRID_NORM, weights])


@dataclass(frozen=True)
class Fit:
    """How well coefficients fit one label, in squared units of the scaled label.

    Attributes
    ----------
    residual, explained : (float, float)
        Mean squares of residuals and of fitted values about their mean, and what privacy noise may
        do to them.
    residual_sampling : float
        What sampling does to the first.
    """

    residual: tuple[float, float]
    explained: tuple[float, float]
    residual_sampling: float

    @property
    def share(self) -> tuple[float, float]:
        """R^2, and what privacy noise may do to it."""
        (left, left_error), (fitted, fitted_error) = self.residual, self.explained
        total = left + fitted
        share = fitted / total
        return share, math.hypot((1.0 - share) * fitted_error, share * left_error) / total


def fit_of(found: Any, told: Known) -> Fit:
    """The fit of one label.

    Noise of coefficients adds to what they seem to explain, and is subtracted. Of a Hessian of cut
    rows it is not known whether its missing part belongs to the fit: half of it does, with an error
    of as much.
    """
    bend, theta = found.curvature, told.theta[:-1, 0]
    values, noise = bend.values[:-1], told.noise[0][:-1, :-1]
    more = 1.0 + 0.5 * found.growth
    fitted = max(float(values @ theta**2) - float(values @ np.diag(noise)), 0.0) / bend.rows
    pulled = values * theta
    errors = (
        2.0 * math.sqrt(float(pulled @ noise @ pulled)) / bend.rows,
        bend.scale * float(theta @ theta) / bend.rows,
        0.5 * found.growth * fitted,
    )
    if isinstance(found, Descent):
        value, error, sampling = found.seen.second_moment()
        lever = bend.lever * more
        error = math.hypot(error, value * (_COARSE + 0.5 * found.growth))
        residual, sampling = (value / lever, error / lever), sampling / lever
    else:
        residual = found.left_square(told.theta)
        sampling = math.sqrt(2.0 / bend.rows) * residual[0]
    return Fit(residual, (fitted * more, math.hypot(*errors)), sampling)


def known(found: Any) -> Known:
    """By second moments in the metric where they were bought, else by the Hessian alone."""
    if isinstance(found, Descent) and found.spreads:
        return _by_moments(found)
    return _by_hessian(found)


def _explained(found: Any) -> float:
    """What a direction that nobody knows may explain, in all rows.

    As much as fitted ones do on average, or as if all of them together explained a tenth.
    """
    bend = found.curvature
    fitted = np.sum(bend.values[:-1, None] * found.theta[:-1] ** 2) / bend.rows
    explained = min(max(float(fitted), 0.1 * found.label_square), found.label_square)
    return float(explained * bend.rows / len(bend.mean))


def _hidden(left: FloatArray, values: FloatArray, unknown: Any, most: float) -> FloatArray:
    """Squared errors along directions of unknown curvature, about `values`.

    What is left of the gradient, squared and with its variance, says how far a coefficient has to
    go; and it explains no more than `most`.
    """
    return np.asarray(np.where(unknown, np.minimum(most, left / values) / values, 0.0))


def _by_hessian(found: Any) -> Known:
    """Along the eigenvectors of the noisy Hessian, and for residuals of equal variances."""
    bend = found.curvature
    pairs = np.full((len(bend.mean),) * 2, bend.scale**2)
    resolved = np.append(bend.noisy_values > _above_noise(pairs), True)[:, None]
    # Where it is not known, curvature may be half of what is seen.
    values = np.where(resolved[:, 0], bend.values, np.maximum(bend.values, bend.scale) / 2)[:, None]
    theta = found.theta
    for _ in range(_STEPS):
        here, _ = found.known(theta)
        theta = np.where(resolved, theta + here / values, theta)
    here, variance = found.known(theta)
    # The Hessian is of cut rows.
    moved = theta - found.points.mean(axis=0)
    noise = found.clipped * variance / values**2 + (found.growth * moved) ** 2
    sampling = np.broadcast_to(found.dispersion / theta.shape[1] / values, noise.shape)
    asked = np.append(np.ones(len(theta) - 1), float(bend.constant))
    left, most = here**2 + found.clipped * variance, _explained(found)
    hidden = _hidden(left, values, ~resolved, most)
    # Through the Hessian's noise what is hidden leans on all.
    leaning = bend.errors[:, None] * hidden.sum(axis=0)
    hidden = _hidden(left + leaning, values, ~resolved, most)
    noise = np.where(resolved, noise + leaning / values**2, hidden)
    usual = np.diag(np.where(resolved, 0.0, most / values)[:, 0])
    noise, sampling = (
        np.stack([np.diag(asked * each) for each in part.T]) for part in (noise, sampling)
    )
    known = np.diag(resolved[:, 0].astype(float))
    return Known(theta, noise, sampling, usual, known, np.ones(len(theta)))


def _by_moments(found: Descent) -> Known:
    """In the metric: rows z and their pulls z r have second moments A and S, and A^-1 S A^-1."""
    bend = found.curvature
    d = len(bend.metric) - (not bend.constant)
    widths, spread = bend.widths[:d], found.spread[:, :d, :d]
    noise, pull_noise = found.spread_scales
    moments, variances = found.joined()
    with few_threads(d):
        values, vectors = np.linalg.eigh(moments)
    pairs = (vectors**2).T @ variances @ vectors**2  # of what noise mixes along eigenvectors
    resolved = values > _above_noise(pairs)
    values = np.where(resolved, cleaned(values, pairs), np.maximum(values, np.sqrt(np.diag(pairs))))
    inverse = (vectors * np.where(resolved, 1 / values, 0.0)) @ vectors.T
    root = (vectors * np.where(resolved, values**-0.5, 0.0)) @ vectors.T
    projection = vectors[:, resolved] @ vectors[:, resolved].T
    errors = noise**2 / 2 * (1 + 1 / d)
    theta = np.zeros_like(found.theta)
    noises, samplings = np.zeros((2, theta.shape[1], len(theta), len(theta)))
    outer = np.outer(widths, widths)
    for k in range(theta.shape[1]):
        beta = found.theta[:d, k] / widths
        points = found.points[:, :d, k] / widths
        gradients = found.gradients[:, :d, k] * widths
        for _ in range(_STEPS):
            here, variance = _combined(
                points - beta, gradients, found.variances, moments, errors, bend
            )
            beta = beta + inverse @ here
        variance = found.clipped * variance / found.kept**2
        left, most = (vectors.T @ here) ** 2 + variance, _explained(found)
        leaning = (1 + 1 / d) / 2 * pairs @ _hidden(left, values, ~resolved, most)
        hidden = _hidden(left + leaning, values, ~resolved, most)
        theta[:d, k] = widths * beta
        own = np.where(resolved, (variance + leaning) / values**2, hidden)
        noises[k, :d, :d] = outer * ((vectors * own) @ vectors.T)
        sampled = _shrunk(root @ spread[1 + k] @ root, projection, inverse, pull_noise)
        samplings[k, :d, :d] = outer * (root @ sampled @ root)
    known, usual = np.zeros((2, len(theta), len(theta)))
    known[:d, :d] = projection
    along = np.where(resolved, 0.0, _explained(found) / values)
    usual[:d, :d] = outer * ((vectors * along) @ vectors.T)
    return Known(theta, noises, samplings, usual, known, bend.widths)


def _above_noise(pairs: FloatArray) -> FloatArray:
    """The eigenvalue that a direction must exceed: the largest of noise alone, and more."""
    return np.asarray(np.sqrt(2.0 * pairs.sum(axis=1)) + _BEYOND * np.sqrt(np.diag(pairs)))


def _combined(
    away: FloatArray,
    gradients: FloatArray,
    variances: FloatArray,
    A: FloatArray,
    errors: float,
    bend: Curvature,
) -> tuple[FloatArray, float]:
    """As `Curvature.combine`, where noise is the same in every direction."""
    matrix = errors * away @ away.T + np.diag(variances)
    if bend.doubt:
        matrix = matrix + bend.wrong(away @ A @ away.T)
    weights = np.linalg.solve(matrix, np.ones(len(matrix)))
    variance = 1 / float(weights.sum())
    return variance * (weights @ (gradients + away @ A)), variance


def _shrunk(
    pulls: FloatArray, projection: FloatArray, inverse: FloatArray, noise: float
) -> FloatArray:
    """Second moments of pulls, drawn towards those of equal variances by what noise adds to them.

    With A^-1/2 S A^-1/2 = s^2 I + E, the squares of E have the expectation
    noise^2 (tr(A^-1)^2 + tr A^-2)/2 if there is nothing but noise in them.
    """
    n = max(round(float(np.trace(projection))), 1)
    level = max(float(np.trace(pulls)) / n, noise / n)
    flat = level * projection
    expected = noise**2 / 2 * (float(np.trace(inverse)) ** 2 + float(np.sum(inverse**2)))
    squares = float(np.sum((pulls - flat) ** 2))
    share = max(0.0, 1.0 - expected / max(squares, 1e-300))
    values, vectors = np.linalg.eigh(flat + share * (pulls - flat) - _LEAST * flat)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T + _LEAST * flat)
