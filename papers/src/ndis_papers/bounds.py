"""Published closed-form bounds on delta, for those who want a formula rather than a number.

Each is named after its result in "The Normal Distributions Indistinguishability Spectrum" (2026)
and proven, with the corrections it needed, in docs/proofs/bounds.md. All are upper bounds on the
exact delta, which `QuadraticLoss` computes; a tighter answer than the exact one does not exist.

Covariances are described by log-ratios l_i, the logarithms of the generalised eigenvalues of the
wider covariance over the narrower one: all l_i >= 0 (Loewner order). The *hard* direction has the
wider law first, the *easy* one the narrower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis.loss import PrivacyLoss, QuadraticLoss
from ndis.loss.renyi import least_log_delta_bound
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# A formula evaluated in doubles is off by a few units in the last place; its value is moved up.
_UP = 1.0 + 1e-11


def mean_shift_bound(distance: float, epsilon: float) -> float:
    """Proposition 1: equal covariances, means `distance` apart (Mahalanobis). It is exact.

    Examples
    --------
    >>> from ndis_papers.bounds import mean_shift_bound
    >>> f"{mean_shift_bound(1.0, 1.0):.6f}"
    '0.126937'
    """
    return _upper(QuadraticLoss.from_shift(_validate.non_negative("distance", distance)), epsilon)


def lambda_bound(loss: PrivacyLoss, epsilon: float) -> float:
    """The generic bound min_s exp(Lambda(s) - s eps) s^s / (1+s)^(1+s), true of any loss.

    It is the Renyi conversion at its best order.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis_papers.bounds import lambda_bound
    >>> loss = QuadraticLoss.from_log_ratios([0.3, 0.3, 0.15])
    >>> f"{loss.delta(0.5):.4f} <= {lambda_bound(loss, 0.5):.4f}"
    '0.0289 <= 0.1042'
    """
    eps = _validate.real("epsilon", epsilon)
    if loss.infinite_mass > 0:
        return 1.0
    return min(1.0, math.exp(least_log_delta_bound(loss.finite_cumulant, eps)) * _UP)


def covariance_shift_bound(log_ratios: ArrayLike, epsilon: float, *, wider_first: bool) -> float:
    """Lemma 2, corrected: equal means, covariances in Loewner order.

    In the easy direction (`wider_first=False`) the loss never exceeds half the sum of the
    log-ratios, and beyond this zero-leakage threshold delta is 0; below it Lemma 2's pair of
    Markov bounds holds. In the hard direction there is no threshold, and delta is positive for
    every epsilon: there the generic bound `lambda_bound` is used.

    Examples
    --------
    >>> from ndis_papers.bounds import covariance_shift_bound
    >>> ratios = [0.3, 0.3, 0.15]
    >>> covariance_shift_bound(ratios, 0.5, wider_first=False)
    0.0
    >>> f"{covariance_shift_bound(ratios, 0.5, wider_first=True):.4f}"
    '0.1042'
    """
    logs = _log_ratios(log_ratios)
    eps = _validate.real("epsilon", epsilon)
    if wider_first:
        return lambda_bound(QuadraticLoss.from_log_ratios(logs), eps)
    if eps >= 0.5 * math.fsum(logs) * _UP:
        return 0.0
    if not logs.any():
        return -math.expm1(eps) * _UP
    return min(
        _two_markov_bounds(logs, eps), lambda_bound(QuadraticLoss.from_log_ratios(-logs), eps)
    )


def _two_markov_bounds(logs: FloatArray, eps: float) -> float:
    """Lemma 2: Pr[W1 <= t] <= E e^{b(t - W1)}, and Pr[W2 <= t] >= 1 - E e^{c(W2 - t)}.

    L = (sum l - W)/2 with W = sum a_i z_i^2, a_i = 1 - e^{-l_i} under P and e^{l_i} - 1 under Q,
    so that {L > eps} = {W < t} with t = sum l - 2 eps > 0.
    """
    t = math.fsum(logs) - 2.0 * eps
    under_p, under_q = -np.expm1(-logs), np.expm1(logs)
    end = 0.5 / float(under_q.max())

    def first(log_b: FloatArray) -> FloatArray:
        b = np.exp(log_b)
        logs_p: FloatArray = np.log1p(2.0 * b[:, None] * under_p).sum(axis=-1)
        return b * t - 0.5 * logs_p

    def second(place: FloatArray) -> FloatArray:
        c = end / (1.0 + np.exp(-place))
        with np.errstate(all="ignore"):
            logs_q: FloatArray = np.log1p(-2.0 * c[:, None] * under_q).sum(axis=-1)
        return np.where(np.isfinite(logs_q), -c * t - 0.5 * logs_q, np.inf)

    above = min(1.0, math.exp(_least(first, -40.0, 40.0)))
    below = max(0.0, 1.0 - math.exp(min(0.0, _least(second, -40.0, 30.0))) * _UP)
    return min(1.0, max(0.0, above * _UP - math.exp(eps) * below))


def mean_and_covariance_bound(
    distance: float, log_ratios: ArrayLike, epsilon: float, *, wider_first: bool
) -> float:
    """Theorem 4.2: means and covariances differ; two steps and the best split of epsilon.

    Parameters
    ----------
    distance : float
        Mahalanobis distance of the means in the narrower covariance.
    log_ratios : array_like
        Log-ratios of the wider over the narrower covariance, at least 0.
    epsilon : float
    wider_first : bool
        Whether the first law of the pair has the wider covariance.

    Examples
    --------
    >>> from ndis_papers.bounds import mean_and_covariance_bound
    >>> f"{mean_and_covariance_bound(0.5, [0.1, 0.05], 1.0, wider_first=True):.4f}"
    '0.0363'
    """
    logs = _log_ratios(log_ratios)

    def covariance_step(part: float) -> float:
        return covariance_shift_bound(logs, part, wider_first=wider_first)

    return _mean_and(covariance_step, distance, epsilon)


def _mean_and(covariance_step: Callable[[float], float], distance: float, epsilon: float) -> float:
    """The better of the two orders in which mean and covariance can change."""
    eps = _validate.real("epsilon", epsilon)

    def mean_step(part: float) -> float:
        return mean_shift_bound(distance, part)

    return min(
        _best_split(mean_step, covariance_step, eps), _best_split(covariance_step, mean_step, eps)
    )


def triangle_bound(first: PrivacyLoss, second: PrivacyLoss, epsilon: float) -> float:
    """Proposition 3: delta_XZ(e1 + e2) <= delta_XY(e1) + e^{e1} delta_YZ(e2), at the best split.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis_papers.bounds import triangle_bound
    >>> step, whole = QuadraticLoss.from_shift(0.5), QuadraticLoss.from_shift(1.0)
    >>> f"{whole.delta(1.0):.6f} <= {triangle_bound(step, step, 1.0):.6f}"
    '0.126937 <= 0.126937'
    """
    eps = _validate.real("epsilon", epsilon)
    return _best_split(lambda e: _upper(first, e), lambda e: _upper(second, e), eps)


def envelope(kappa: float, eta: float, dimension: int) -> FloatArray:
    """The extreme log-ratios among all with 0 <= l_i <= kappa and sum l_i <= eta.

    Lambda is a sum of one convex function of the l_i in either direction, so its maximum over
    the envelope is at this point: as many entries at kappa as fit, and one remainder. The
    bound `envelope_bound` is therefore proven. That delta itself is largest there is only
    observed.

    Examples
    --------
    >>> from ndis_papers.bounds import envelope
    >>> [round(float(l), 12) for l in envelope(0.3, 0.75, 5)]
    [0.3, 0.3, 0.15, 0.0, 0.0]
    """
    most, total = _validate.non_negative("kappa", kappa), _validate.non_negative("eta", eta)
    d = _validate.count("dimension", dimension)
    full = d if most * d <= total else int(total // most) if most else 0
    result = np.zeros(d)
    result[:full] = most
    if full < d:
        result[full] = min(max(total - full * most, 0.0), most)
    return result


def envelope_bound(
    distance: float, kappa: float, eta: float, dimension: int, epsilon: float
) -> float:
    """Definition 6: a bound over every pair inside the envelope, in both directions.

    Means at most `distance` apart in the narrower covariance, log-ratios between 0 and kappa
    that add up to at most eta.

    Examples
    --------
    >>> from ndis_papers.bounds import envelope_bound
    >>> f"{envelope_bound(0.3, 0.05, 0.1, dimension=10, epsilon=1.0):.2e}"
    '2.08e-03'
    """
    logs = envelope(kappa, eta, dimension)
    hard = QuadraticLoss.from_log_ratios(logs)

    def hard_step(part: float) -> float:
        return lambda_bound(hard, part)

    def easy_step(part: float) -> float:
        beyond = part >= 0.5 * math.fsum(logs) * _UP
        return 0.0 if beyond else lambda_bound(hard.reversed(), part)

    return max(_mean_and(step, distance, epsilon) for step in (hard_step, easy_step))


def _best_split(
    first: Callable[[float], float], second: Callable[[float], float], eps: float
) -> float:
    """The least of first(e1) + e^{e1} second(eps - e1) over e1; any e1 gives a bound."""

    def total(parts: FloatArray) -> FloatArray:
        values = []
        for e1 in parts:
            try:
                values.append(first(float(e1)) + math.exp(e1) * second(eps - float(e1)))
            except OverflowError:
                values.append(math.inf)
        return np.array(values)

    reach = max(1.0, abs(eps))
    return min(1.0, _least(total, -reach, eps + reach, points=13, zooms=6) * _UP)


def _least(
    function: Callable[[FloatArray], FloatArray],
    low: float,
    high: float,
    points: int = 25,
    zooms: int = 8,
) -> float:
    """The least value seen on a grid that zooms in on its best point."""
    best = math.inf
    for _ in range(zooms):
        grid = np.linspace(low, high, points)
        values = function(grid)
        place = int(np.argmin(values))
        best = min(best, float(values[place]))
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, grid.size - 1)])
    return best


def _upper(loss: PrivacyLoss, epsilon: float) -> float:
    delta: Any = loss.delta(_validate.real("epsilon", epsilon))
    return min(1.0, float(delta) * _UP)


def _log_ratios(log_ratios: ArrayLike) -> FloatArray:
    return np.atleast_1d(_validate.floats("log_ratios", log_ratios, 0.0))
