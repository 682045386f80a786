"""Two covariance matrices made diagonal at once, with proven errors.

A basis B in which S1 + S2 is nearly the identity and S1 - S2 nearly diagonal comes from a
floating-point routine. How nearly is computed, with all that rounding can have done: first in
doubles and, where these do not resolve the pair, in balls with a better basis. What comes out is a
`QuadraticLoss` whose errors cover the difference between its numbers and the matrices as given, or
`Unresolved`. The inequalities stand in docs/proofs/certified-bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, arb_mat

from ndis._validate import FloatArray
from ndis.loss import certified
from ndis.loss.quadratic import QuadraticLoss

_BITS = 192
_ROUNDING = 2.0**-53
# Relative errors of a loss with which doubles are good enough. Proven ones are some d^2 times what
# is lost, so that these leave 12 digits; where balls are slow, 8, and in more dimensions still 3.
_FINE, _LESS, _COARSE = 1e-12, 1e-6, 1e-3
_QUICK_DIMENSIONS, _MOST_DIMENSIONS = 128, 1000
# Each preconditioning in balls gains as many digits as doubles have.
_PRECONDITIONINGS = 6
# Squares of smaller mean differences, in standard deviations, are no doubles.
_LEAST_SHIFT = 1e-150


class Unresolved(ArithmeticError):
    """Neither doubles nor balls tell a covariance from one that is not positive definite."""


def diagonal_loss(v1: FloatArray, v2: FloatArray, difference: FloatArray) -> QuadraticLoss:
    """The loss of two laws with independent coordinates and positive variances."""
    least = np.minimum(v1, v2)
    excess = (v1 - v2) / least
    size = np.abs(excess)
    return _loss(excess, difference / np.sqrt(least), 8 * _ROUNDING * size / (1.0 + size), 0.0, 0.0)


def matrix_loss(
    S1: FloatArray,
    S2: FloatArray,
    difference: FloatArray,
    errors: tuple[float, float],
    balls: Callable[[], tuple[Any, Any, Any]],
    *,
    finest: bool,
) -> QuadraticLoss:
    """The loss of two laws with dense covariances.

    Parameters
    ----------
    S1, S2 : ndarray
        The covariances in doubles, and `difference` that of the means.
    errors : tuple of float
        How far each may be from the covariance as given, in units of its coordinates' deviations.
    balls : callable
        Both covariances and the difference of the means in ball arithmetic.
    finest : bool
        Go to balls in any case.
    """
    loss, error = None, np.inf
    if not finest or difference.size > _MOST_DIMENSIONS:
        loss, error = _in_doubles(S1, S2, difference, errors)
    d = difference.size
    fine = min(_FINE * d * d, _LESS) if d <= _QUICK_DIMENSIONS else _LESS
    if error > fine and d <= _MOST_DIMENSIONS:
        with certified.precision(_BITS):
            return _in_balls(*balls())
    if loss is None or error > _COARSE:
        raise Unresolved
    return loss


def _loss(
    excess: FloatArray,
    roots: FloatArray,
    variance_error: Any,
    direction_error: Any,
    shift_error: Any,
) -> QuadraticLoss:
    """A loss from the (signed) roots of its shifts."""
    if np.any((roots != 0) & (np.abs(roots) < _LEAST_SHIFT)):
        raise Unresolved
    rounding = 8 * _ROUNDING * np.abs(roots)
    return QuadraticLoss(
        excess, roots**2, 1.0, variance_error, direction_error, shift_error + rounding
    )


def _in_doubles(
    S1: FloatArray, S2: FloatArray, difference: FloatArray, errors: tuple[float, float]
) -> tuple[QuadraticLoss | None, float]:
    """The loss with a relative error, which is infinite where doubles do not see the pair."""
    from scipy.linalg import eigh

    total, gap = S1 + S2, S1 - S2
    try:
        theta, B = eigh(gap, total, driver="gvd", check_finite=False)
    except np.linalg.LinAlgError:
        return None, np.inf
    d = theta.size
    size = np.abs(B)
    gamma = 2.02 * (d + 4) * _ROUNDING
    scale = np.sqrt(np.diag(total))
    width = scale @ size  # |B|^T (scale scale^T) |B| is width width^T
    given = 1.01 * (errors[0] + errors[1]) * np.outer(width, width)
    blur_total = gamma * (size.T @ (np.abs(total) @ size)) + given
    blur_gap = gamma * (size.T @ (np.abs(gap) @ size)) + given
    N = np.abs(B.T @ (total @ B) - np.eye(d)) + blur_total
    E = np.abs(B.T @ (gap @ B) - np.diag(theta)) + blur_gap
    nu = 1.01 * float(np.linalg.norm(N))
    if not nu < 0.05:
        return None, np.inf
    # With S1 + S2 made the identity by (I + N)^(-1/2), S1 - S2 is theta but for E - (N T + T N)/2
    # and what is of second order.
    top = float(np.abs(theta).max())
    second = 2.0 * nu * (nu * top + float(np.linalg.norm(E)))
    on_diagonal = np.diag(E) + np.diag(N) * np.abs(theta) + second
    off = 1.01 * float(np.linalg.norm(E)) + nu * top + second
    v1, v2 = 0.5 * (1.0 + theta), 0.5 * (1.0 - theta)
    least = np.minimum(v1, v2)
    if not least.min() > 4.0 * off:
        return None, np.inf
    excess = theta / least
    variance_error = 0.51 * on_diagonal / (v1 * v2) + 8 * _ROUNDING * np.abs(theta) / (v1 * v2)
    direction_error = 0.51 * off / least.min()
    y = B.T @ difference
    moved = nu * float(np.linalg.norm(y)) + gamma * (size.T @ np.abs(difference))
    root = np.sqrt(least)
    loss = _loss(excess, y / root, variance_error, direction_error, 1.01 * moved / root)
    relative = off / top if top else (np.inf if off else 0.0)
    if y.any():
        relative += float(np.linalg.norm(moved / root) / np.linalg.norm(y / root))
    return loss, relative / float(least.min())


def _in_balls(S1: Any, S2: Any, difference: Any) -> QuadraticLoss:
    """The loss from matrices in ball arithmetic; errors of about the rounding to doubles."""
    d = S1.nrows()
    B, G = whitening(S1 + S2)
    H = B.transpose() * ((S1 - S2) * B)
    from scipy.linalg import eigh

    _, vectors = eigh(_symmetric(H), _symmetric(G), driver="gvd")
    B = (B * arb_mat(vectors.tolist())).mid()
    # One step of Newton's method for the inverse root makes the identity exact to 1e-30.
    G = B.transpose() * ((S1 + S2) * B)
    B = (B * (arb_mat(np.diag(np.full(d, 1.5)).tolist()) - G / 2)).mid()
    G1, G2 = (B.transpose() * (S * B) for S in (S1, S2))
    y = B.transpose() * difference
    rows = [_direction(G1[i, i], G2[i, i], y[i, 0]) for i in range(d)]
    off = max(_off_diagonal(G1), _off_diagonal(G2))
    if not off < 0.1:
        raise Unresolved
    excess, roots, variance_error, shift_error = np.array(rows).T
    return _loss(excess, roots, variance_error, off, shift_error)


def whitening(S: Any) -> tuple[Any, Any]:
    """A basis B in which B^T S B, returned too, is the identity to six digits."""
    B, G = arb_mat(np.eye(S.nrows()).tolist()), S
    for _ in range(_PRECONDITIONINGS):
        seen = _symmetric(G)
        values, vectors = np.linalg.eigh(seen)
        if not values[0] > -1e-8 * values[-1]:
            break
        if np.abs(seen - np.eye(len(seen))).max() < 1e-6:
            return B, G
        # Directions that doubles cannot tell from 0 are made larger, and looked at again.
        stretch = 1.0 / np.sqrt(np.maximum(values, 1e-14 * values[-1]))
        B = (B * arb_mat((vectors * stretch).tolist())).mid()
        G = B.transpose() * (S * B)
    raise Unresolved


def floats(G: Any) -> FloatArray:
    """The middles of a matrix of balls."""
    return np.array([float(v.mid()) for v in G.entries()]).reshape(G.nrows(), -1)


def _symmetric(G: Any) -> FloatArray:
    seen = floats(G)
    return 0.5 * (seen + seen.T)


def _direction(v1: arb, v2: arb, mean: arb) -> tuple[float, float, float, float]:
    """Excess, root of the shift, variance error and shift error of one direction."""
    if not (v1 > 0 and v2 > 0):
        raise Unresolved
    wider = v1.mid() > v2.mid()
    gap, least = (v1 - v2, v2) if wider else (v2 - v1, v1)
    z, root = gap / least, mean / least.sqrt()
    size, shift = abs(float(z.mid())), float(root.mid())
    return (
        size if wider else -size,
        shift,
        2 * float(abs(z - size).upper() / (1 + size)),
        2 * float(abs(root - shift).upper()),
    )


def _off_diagonal(G: Any) -> float:
    """A bound on the Frobenius norm of what G has off its diagonal, relatively."""
    roots = [1 / G[i, i].sqrt() for i in range(G.nrows())]
    sizes = [
        float(abs(G[i, j] * roots[i] * roots[j]).upper())
        for i in range(len(roots))
        for j in range(i)
    ]
    return 1.01 * math.sqrt(2.0) * float(np.linalg.norm(sizes)) if sizes else 0.0
