"""Private principal components by the exponential mechanism: draws from Bingham distributions.

A set V of k orthonormal directions is drawn with density proportional to exp(eps/2 tr(V^T S V)),
where S = X^T X and rows of X have norm at most 1. One row changes what V captures by at most 1, so
that this has pure epsilon, also where one row is replaced (Chaudhuri, Sarwate and Sinha: PPCA).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# Draws are proposed in blocks of so many.
_BLOCK = 64


def draw_direction(matrix: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A unit vector x with density proportional to exp(x^T M x), drawn exactly.

    By rejection from an angular central Gaussian law (Kent, Ganeiber and Mardia): with
    u = x^T (m I - M) x for the largest eigenvalue m, and any b > 0, the function
    e^-u (1 + 2u/b)^(d/2) is largest at u = (d - b)/2.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.bingham import draw_direction
    >>> rng, steep = np.random.default_rng(0), np.diag([0.0, 0.0, 1e6])
    >>> bool(abs(draw_direction(steep, rng)[2]) > 0.999)
    True
    """
    values, vectors = np.linalg.eigh(matrix)
    d, away = len(values), values[-1] - values
    b = float(brentq(lambda b: np.sum(1.0 / (b + 2.0 * away)) - 1.0, 1e-6, d + 1.0))
    deviations = 1.0 / np.sqrt(1.0 + 2.0 * away / b)
    most = 0.5 * d * math.log(d / b) - 0.5 * (d - b)
    while True:
        x = deviations * rng.standard_normal((_BLOCK, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        u = x**2 @ away
        kept = np.log(rng.random(_BLOCK)) < 0.5 * d * np.log1p(2.0 * u / b) - u - most
        if kept.any():
            return np.asarray(vectors @ x[int(np.argmax(kept))])


def components(
    scatter: FloatArray,
    epsilon: float,
    k: int,
    rng: np.random.Generator,
    *,
    sweeps: int = 0,
) -> FloatArray:
    """Draw k orthonormal columns, privately.

    Parameters
    ----------
    scatter : ndarray of shape (d, d)
        X^T X, for rows of norm at most 1.
    epsilon : float
    k : int
        Fewer than d.
    rng : Generator
    sweeps : int
        0: one direction after the other, each among those orthogonal to the ones before it and
        with epsilon/k, drawn exactly: epsilon is proven. Else as published, all at once by so many
        Gibbs sweeps from a random start: epsilon holds in the limit of many sweeps only.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.bingham import components
    >>> rows = np.random.default_rng(0).standard_normal((9000, 4)) * [0.3, 0.2, 0.01, 0.01]
    >>> found = components(rows.T @ rows, 10.0, 2, np.random.default_rng(1))
    >>> bool(np.sum(found[:2] ** 2) > 1.9)
    True
    """
    d, half = len(scatter), 0.5 * _validate.positive("epsilon", epsilon)
    if sweeps == 0:
        drawn = np.empty((d, 0))
        for _ in range(k):
            drawn = np.column_stack([drawn, _beside(drawn, half / k * scatter, rng)])
        return drawn
    drawn = np.linalg.qr(rng.standard_normal((d, k)))[0]
    for _ in range(sweeps):
        for column in range(k):
            others = np.delete(drawn, column, axis=1)
            drawn[:, column] = _beside(others, half * scatter, rng)
        # Only the space counts: any rotation of the columns is as likely.
        drawn = drawn @ np.linalg.qr(rng.standard_normal((k, k)))[0]
    return drawn


def _beside(others: FloatArray, matrix: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A Bingham direction that is orthogonal to the given columns."""
    free = np.linalg.qr(others, mode="complete")[0][:, others.shape[1] :]
    return np.asarray(free @ draw_direction(free.T @ matrix @ free, rng))
