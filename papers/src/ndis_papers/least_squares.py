"""Least squares as the papers do it, on the second moments of [features, label].

Calibrations are numbers and draws are coefficients; nothing is released and nothing promised.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import brentq

from ndis import Gaussian
from ndis.calibration import least_noise, meets, noise_multiplier
from ndis.loss import LeastSquaresLoss, PrivacyLoss, Profile, SketchAndSolveLoss, removal_loss
from ndis_papers._validate import FloatArray
from ndis_papers.sketches import draw_sketch, least_ratio, leverages

# Rows that are combined at a time.
_ROWS = 4096
# Records whose leverages differ by less than this share are represented by one of them.
_WIDTH = 0.02

Kind = type[LeastSquaresLoss] | type[SketchAndSolveLoss]


def exact_ratio(epsilon: float, delta: float, n_features: int, n_components: int) -> float:
    """Noise over l of the limit law that is proven to be enough, to a thousandth the least."""
    return _proven_ratio(LeastSquaresLoss, epsilon, delta, n_features, n_components)


def exact_solved_ratio(epsilon: float, delta: float, n_features: int, n_components: int) -> float:
    """The same of sketch-and-solve; the solution of a sketch is at least as private as it is."""
    solved = _proven_ratio(SketchAndSolveLoss, epsilon, delta, n_features, n_components)
    return min(solved, least_ratio(epsilon, delta, n_components))


@functools.lru_cache(maxsize=64)
def _proven_ratio(kind: Kind, epsilon: float, delta: float, d: int, n_components: int) -> float:
    def gap(log_ratio: float) -> float:
        loss = kind(math.exp(-2.0 * log_ratio), d, n_components)
        attained = max(float(way.attained(epsilon)) for way in (loss, loss.reversed()))
        return attained - math.log(delta)

    low = high = math.log(least_ratio(epsilon, delta, n_components))
    while gap(high) > 0:
        high += 0.25
    while gap(low) <= 0:
        low -= 0.25
    ratio = math.exp(brentq(gap, low, high, xtol=1e-5))
    while not meets(Profile.both(kind(ratio**-2, d, n_components)), epsilon, delta):
        ratio *= 1.0005
    return ratio


def published_ratio(epsilon: float, delta: float, n_features: int, n_components: int) -> float:
    """Noise over l of ndis-2024, figure 4: delta of (q, p) = (2, 1) (l/sigma)^2 alone.

    Safe only where the sketch is not small: for d = r = 1 and epsilon = 0.1 it claims 1e-6 where
    7e-5 is true.

    Examples
    --------
    >>> from ndis_papers.least_squares import published_ratio
    >>> f"{published_ratio(1.0, 1 / 327_346, 2, 1269):.2f}"
    '11.97'
    """

    def family(ratio: float) -> PrivacyLoss:
        # sigma > sqrt(2) l, or q is no leverage: noise is counted from there.
        p = 1.0 / (2.0 + ratio**2)
        return Profile.both(removal_loss(2.0 * p, p, n_features, n_components))

    return math.sqrt(2.0 + least_noise(family, epsilon, delta, start=10.0) ** 2)


def solve(moments: FloatArray) -> FloatArray:
    """Coefficients of the last column on the others, from second moments; least norm if many."""
    return np.asarray(np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1], rcond=None)[0])


def ridged_law(moments: FloatArray, ridge: float, n_components: int) -> Gaussian:
    """The limit law N(x, ||e||^2 (B^T B)^{-1} / r) on the ridged table (M_LS of ndis-2024)."""
    ridged = moments + ridge * np.eye(len(moments))
    X, b = ridged[:-1, :-1], ridged[:-1, -1]
    inverse = np.linalg.inv(X)
    # The ridged table has a row (0, sigma) which no coefficient explains.
    residual = max(float(ridged[-1, -1] - b @ inverse @ b), ridge)
    return Gaussian(inverse @ b, residual * inverse / n_components)


def approximate_least_squares(
    X: FloatArray, y: FloatArray, n_components: int, rng: np.random.Generator
) -> FloatArray:
    """Sketch and solve (ndis-2024, figure 1): least squares on n_components random combinations.

    Not private by itself. The combinations are drawn for blocks of rows, so that memory does not
    grow with the table.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.least_squares import approximate_least_squares
    >>> X = np.random.default_rng(0).standard_normal((5000, 2))
    >>> near = approximate_least_squares(X, X @ [1.0, 2.0], 50, np.random.default_rng(1))
    >>> near.round(6).tolist()
    [1.0, 2.0]
    """
    sketch = np.zeros((n_components, X.shape[1] + 1))
    for start in range(0, len(X), _ROWS):
        rows = np.column_stack([X[start : start + _ROWS], y[start : start + _ROWS]])
        sketch += rng.standard_normal((n_components, len(rows))) @ rows
    return solve(sketch.T @ sketch)


def solved_sketches(
    moments: FloatArray, ridge: float, n_components: int, n: int, rng: np.random.Generator
) -> FloatArray:
    """Least squares on n independent sketches of a table with these second moments.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.least_squares import solved_sketches
    >>> solved_sketches(np.eye(3), 0.1, 10, 5, np.random.default_rng(0)).shape
    (5, 2)
    """
    width = len(moments)
    sketches = draw_sketch(moments, ridge, n_components * n, rng).reshape(width, n, n_components)
    second = np.einsum("inr,jnr->nij", sketches, sketches, optimize=True)
    return np.asarray(np.linalg.solve(second[:, :-1, :-1], second[:, :-1, -1:])[..., 0])


# -- the relative mechanisms of ndis-2024 ---------------------------------------------------------


def inherent_delta(rows: FloatArray, epsilon: float, n_components: int, *, solved: bool) -> float:
    """The largest delta that a row of this table has without any noise.

    Neighbours are the table without one of its rows, or with one of them repeated. It is a number
    about this table, and no promise: whether a relative mechanism adds noise depends on it, and
    that is seen by everybody (issue 16).

    Parameters
    ----------
    rows : ndarray of shape (n, d + 1)
        Features and label.
    epsilon : float
    n_components : int
    solved : bool
        For the solution of a sketch, or for its limit law.
    """
    d = rows.shape[1] - 1
    q = leverages(rows)
    p = np.minimum(leverages(rows[:, :-1]), q)
    # One record for each box of similar leverages.
    place = np.floor(np.log(np.maximum(q, 1e-300)) / _WIDTH) * 1e6 + np.floor(p / q / _WIDTH)
    _, chosen = np.unique(place, return_index=True)
    q, p = q[chosen], p[chosen]
    deltas = [
        _log_deltas(a, b, d, n_components, epsilon, solved)
        for a, b in ((q, p), (q / (1.0 + q), p / (1.0 + p)))
    ]
    return math.exp(max(float(np.max(values)) for values in deltas))


def _log_deltas(
    q: FloatArray, p: FloatArray, d: int, r: int, epsilon: float, solved: bool
) -> FloatArray:
    """Ln delta of the worse direction of every record."""
    if not solved:
        return np.asarray(Profile.both(removal_loss(q, p, d, r)).log_delta(epsilon))
    ways = [SketchAndSolveLoss(1.0, d, r, backwards) for backwards in (False, True)]
    return np.asarray(np.max([way.log_delta_at(q, p, epsilon) for way in ways], axis=0))


def relative_gaussian_law(rows: FloatArray, epsilon: float, delta: float) -> Gaussian:
    """The solution plus noise for the largest change that one of the table's own rows makes.

    Not private: its noise depends on the table (issue 16).
    """
    X, y = rows[:, :-1], rows[:, -1]
    theta, *_ = np.linalg.lstsq(X, y, rcond=None)
    moved = X @ np.linalg.inv(X.T @ X)
    change = np.linalg.norm(moved, axis=1) * np.abs(y - X @ theta)
    change /= 1.0 - np.sum(moved * X, axis=1)
    scale = noise_multiplier(epsilon, delta) * float(change.max())
    return Gaussian.isotropic(theta, scale**2)


# -- AdaSSP ---------------------------------------------------------------------------------------


def adassp_noise(epsilon: float, delta: float, accounting: str = "published") -> float:
    """The noise of each of the three parts, for a sensitivity of one.

    Published is a third of epsilon and delta for each; "exact" takes them as one mean shift.
    """
    if accounting == "exact":
        return math.sqrt(3.0) * noise_multiplier(epsilon, delta)
    return noise_multiplier(epsilon / 3.0, delta / 3.0)


def adassp(
    X: FloatArray,
    y: FloatArray,
    epsilon: float,
    delta: float,
    *,
    data_norm: float,
    label_bound: float,
    n_draws: int,
    rng: np.random.Generator,
    accounting: str = "published",
) -> FloatArray:
    """Coefficients of AdaSSP (Wang 2018): noise on moments and on the least eigenvalue.

    Parameters
    ----------
    X, y : ndarray
        Rows [x, y] of norm at most `data_norm`, labels of at most `label_bound`.
    epsilon, delta, data_norm, label_bound : float
    n_draws : int
        How many independent runs.
    rng : Generator
    accounting : {"published", "exact"}
        As in `adassp_noise`.

    Returns
    -------
    ndarray of shape (n_draws, d)
    """
    d = X.shape[1]
    unit = adassp_noise(epsilon, delta, accounting)
    scale, moment_scale = unit * data_norm**2, unit * data_norm * label_bound
    gram, moment = X.T @ X, X.T @ y
    least = float(np.linalg.eigvalsh(gram)[0])
    spread = math.sqrt(d * math.log(20.0 * d**2 / delta))
    draws = []
    for _ in range(n_draws):
        noise = np.triu(scale * rng.standard_normal((d, d)))
        noisy = gram + noise + np.triu(noise, 1).T
        low = least + scale * (rng.standard_normal() - math.sqrt(math.log(6.0 / delta)))
        ridge = max(0.0, spread * scale - max(low, 0.0))
        noisy_moment = moment + moment_scale * rng.standard_normal(d)
        draws.append(np.linalg.lstsq(noisy + ridge * np.eye(d), noisy_moment, rcond=None)[0])
    return np.array(draws)
