"""What a release tells about the errors of coefficients: noise, sampling, and what nobody knows.

The coefficients that a fit returns are drawn towards zero where little is known. Here they are
moved by a Newton step without shrinkage wherever the curvature stands out from its noise; if it
does not somewhere, nothing is told. Everything follows from the release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.regression_methods.curvature import Curvature, cleaned
from ndis.mechanisms.regression_methods.descent import Descent
from ndis.tables import GRID_NORM, Columns, few_threads

# A direction is known if it stands out by so many deviations from the largest that is noise alone;
# errors then allow for so many deviations of its curvature.
_BEYOND, _ALLOWED = 3.0, 2.5
# Moments are of cut rows, and gradients of whole ones: of these the Hessian alone knows, and what
# moments miss may be as much as this share of its noise, and hardly more than they see.
_MISSED = 0.2
# Newton steps without shrinkage.
_STEPS = 2
# Rows that others stand in for may vary less than equal variances say, but hardly by more than
# this share.
_LEAST = 0.2
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
    complete : bool
        Whether every direction stands out from noise. Along one that does not, columns may stand in
        for each other: their coefficients can be as large as they like, as long as they cancel, and
        nobody can tell which columns have a part in that. No error covers it.
    """

    theta: FloatArray
    noise: FloatArray
    sampling: FloatArray
    complete: bool

    def covariance(self, weights: FloatArray, population: bool) -> FloatArray:
        """Of combinations of the coefficients, weights of shape (n, d + 1): (n_labels, n, n)."""
        covariance = self.noise + self.sampling if population else self.noise
        return np.asarray(weights @ covariance @ weights.T)


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
    constant = np.append(-bend.vectors.T @ zero, 1.0)
    weights += np.outer(bend.stand_in * units.scale, constant)
    return np.vstack([constant * GRID_NORM, weights])


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
    bought = isinstance(found, Descent) and found.spreads
    told, bend = _by_moments(found) if bought else _by_hessian(found), found.curvature
    if not bend.stand_in_errors.any():
        return told
    # Columns that stand in for a constant know its share as badly as their own sums.
    squares = (
        bend.slopes(told.theta)[1][:, None] ** 2
        * np.append(bend.stand_in_errors, [[0], [0]], 1)[:, None]
    )
    noise, sampling = (np.stack([np.diag(each) for each in part]) for part in squares)
    return replace(told, noise=told.noise + noise, sampling=told.sampling + sampling)


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
    known = _resolved(bend.noisy_values, pairs)
    careful = np.append(_careful(bend.noisy_values, pairs, known), 1.0)[:, None] ** 2
    resolved = np.append(known, True)[:, None]
    # Where it is not known, curvature may be half of what is seen.
    values = np.where(resolved[:, 0], bend.values, np.maximum(bend.values, bend.scale) / 2)[:, None]
    theta = found.theta
    for _ in range(_STEPS):
        here, _ = found.known(theta)
        theta = np.where(resolved, theta + here / values, theta)
    here, variance = found.known(theta)
    # The Hessian is of cut rows.
    moved = theta - found.points.mean(axis=0)
    noise = careful * found.clipped * variance / values**2 + (found.growth * moved) ** 2
    sampling = careful * np.broadcast_to(found.dispersion / theta.shape[1] / values, noise.shape)
    asked = np.append(np.ones(len(theta) - 1), float(bend.constant))
    left, most = here**2 + found.clipped * variance, _explained(found)
    hidden = _hidden(left, values, ~resolved, most)
    # Through the Hessian's noise what is hidden leans on all.
    leaning = bend.errors[:, None] * hidden.sum(axis=0)
    hidden = _hidden(left + leaning, values, ~resolved, most)
    noise = np.where(resolved, noise + leaning / values**2, hidden)
    noise, sampling = (
        np.stack([np.diag(asked * each) for each in part.T]) for part in (noise, sampling)
    )
    return Known(theta, noise, sampling, bool(known.all()))


def _by_moments(found: Descent) -> Known:
    """In their own metric: rows z and pulls z r have second moments A and S, and A^-1 S A^-1.

    Gradients are in the metric of the Hessian, where their noise is the same in every direction.
    """
    bend, widths = found.curvature, found.sharp.widths
    d = len(bend.metric) - (not bend.constant)
    turn = np.eye(len(bend.metric))
    turn[:-1, :-1] = found.turn
    turn, widths = turn[:d, :d], widths[:d]
    pull_noise = found.spread_scales[1]
    moments, variances, of_hessian = found.joined()
    with few_threads(d):
        seen, vectors = np.linalg.eigh(moments)
    pairs = (vectors**2).T @ variances @ vectors**2  # of what noise mixes along eigenvectors
    resolved = _resolved(seen, pairs)
    careful = _careful(seen, pairs, resolved)
    values = np.where(resolved, cleaned(seen, pairs), np.maximum(seen, np.sqrt(np.diag(pairs))))
    inverse = np.where(resolved, 1 / values, 0.0)
    root = np.sqrt(inverse)
    by, grown = careful * inverse, careful * root
    unseen = np.sqrt(np.einsum("ji,jk,ki->i", vectors**2, of_hessian, vectors**2)) / values
    missed = values * _MISSED * unseen / (1.0 + _MISSED * unseen)
    doubts, clipped = pairs + np.outer(missed, missed), found.clipped_by(unseen)
    # Between eigenvectors of moments and those of the Hessian.
    there, back = (turn / widths) @ vectors, (turn * widths) @ vectors
    along = back.T / bend.widths[:d]
    shape = along @ along.T  # of the noise of gradients
    theta = np.zeros_like(found.theta)
    noises, samplings = np.zeros((2, theta.shape[1], len(theta), len(theta)))
    for k in range(theta.shape[1]):
        beta = there.T @ found.theta[:d, k]
        points, gradients = found.points[:, :d, k] @ there, found.gradients[:, :d, k] @ back
        for _ in range(_STEPS):
            here, noisy, away = _combined(
                points - beta, gradients, found.variances, seen, shape, doubts, bend
            )
            beta = beta + inverse * here
        blurred = np.sqrt(np.outer(clipped, clipped)) * noisy / found.kept**2
        left, most = here**2 + np.diag(blurred), _explained(found)
        leaning = (1 + 1 / d) / 2 * pairs @ _hidden(left, values, ~resolved, most)
        hidden = _hidden(left + leaning, values, ~resolved, most)
        theta[:d, k] = back @ beta
        moved = np.where(resolved, careful * away, 0.0)
        pulled = blurred + np.diag(leaning + np.sum(doubts * moved**2, axis=1) / 2)
        pulled = pulled + doubts * moved * moved.T / 2
        own = np.outer(by, by) * pulled + np.diag(hidden)
        noises[k, :d, :d] = back @ own @ back.T
        pulls = np.outer(root, root) * (vectors.T @ found.spread[1 + k, :d, :d] @ vectors)
        sampled = _shrunk(pulls, np.diag(1.0 * resolved), np.diag(inverse), pull_noise)
        samplings[k, :d, :d] = back @ (np.outer(grown, grown) * sampled) @ back.T
    return Known(theta, noises, samplings, bool(resolved.all()))


def _resolved(values: FloatArray, pairs: FloatArray) -> Any:
    """Which eigenvalues are more than noise alone.

    Were there no rows along k + 1 directions, the (k + 1)th smallest eigenvalue would be at most
    the largest of the noise between these: with k directions hidden already, about the root of
    twice the sum of its variances, and its own deviation. So one that stands alone must exceed its
    own noise only, however many directions are known.
    """
    own = np.sqrt(np.diag(pairs))
    resolved = np.ones(len(values), dtype=bool)
    for k in np.argsort(values / own):
        if values[k] > math.sqrt(2.0 * float(pairs[k] @ ~resolved)) + _BEYOND * own[k]:
            break
        resolved[k] = False
    return resolved


def _careful(values: FloatArray, pairs: FloatArray, resolved: Any) -> FloatArray:
    """By how much errors grow as curvature is noisy itself: Fieller's interval of a quotient.

    The coefficients for which gradients less curvature times coefficients are within so many
    deviations are an ellipsoid, as if the squares of curvatures were smaller by those of as many
    deviations of their noise.
    """
    known = np.where(resolved, values, 1.0) ** 2
    less = np.where(resolved, known - _ALLOWED**2 * np.diag(pairs), known)
    return np.asarray(np.sqrt(known / less))


def _combined(
    away: FloatArray,
    gradients: FloatArray,
    variances: FloatArray,
    values: FloatArray,
    shape: FloatArray,
    doubts: FloatArray,
    bend: Curvature,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """As `Curvature.combine`, along eigenvectors of any matrix that is known up to `doubts`.

    Returned are the gradient, the covariance of its noise, and a row for each direction: how far
    its gradients are away.
    """
    d, T = len(values), len(variances)
    own = np.diag(shape)[:, None, None] * np.diag(variances)
    wrong = np.zeros((d, T, T))
    if bend.doubt:
        wrong = values[:, None, None] * bend.wrong((away * values) @ away.T)
    errors = doubts * (1.0 + np.eye(d)) / 2
    ties = np.einsum("tj,sj->jts", away, away).reshape(d, T * T)
    matrix = own + wrong + (errors @ ties).reshape(d, T, T)
    weights = np.linalg.solve(matrix, np.ones((d, T, 1)))[..., 0]
    weights = weights / weights.sum(axis=1, keepdims=True)
    gradient = np.einsum("it,ti->i", weights, gradients + away * values)
    noise = (weights * variances) @ weights.T * shape
    noise[np.diag_indices(d)] += np.einsum("it,its,is->i", weights, wrong, weights)
    return gradient, noise, weights @ away


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
