"""From Renyi divergences to delta: the one place where this conversion is written.

For every s > 0 and every value of the loss, (1 - e^{eps-L})_+ <= e^{s(L-eps)} s^s/(1+s)^(1+s). So
with Lambda(s) = ln E_P[e^{sL}], which is s times the Renyi divergence of order 1 + s,

    delta(eps) <= exp(Lambda(s) - s eps) s^s/(1+s)^(1+s),

for every pair of laws; a bound on Lambda will do, and any s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import FloatArray

__all__ = ["epsilon_bound", "few_orders", "least_log_delta_bound", "log_delta_bound"]

# More than rounding can take away from the logarithm of a bound, relative to its terms.
_MARGIN = 1e-10
# The search over s: its reach in ln s, points per round, rounds.
_REACH, _POINTS, _ROUNDS = 40.0, 64, 5


def log_delta_bound(cumulant: ArrayLike, s: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Ln of the bound on delta(epsilon) that a (bound on the) cumulant Lambda(s) gives.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.loss.renyi import log_delta_bound
    >>> shift = QuadraticLoss.from_shift(1.0)
    >>> bool(shift.log_delta(1.0) <= log_delta_bound(shift.cumulant(1.5), 1.5, 1.0))
    True
    """
    value, order, eps = (np.asarray(a, dtype=np.float64) for a in (cumulant, s, epsilon))
    return np.asarray(value - order * eps + log_conversion(order))


def epsilon_bound(cumulant: ArrayLike, s: ArrayLike, delta: ArrayLike) -> FloatArray:
    """The epsilon at which `log_delta_bound` is ln delta."""
    value, order = (np.asarray(a, dtype=np.float64) for a in (cumulant, s))
    return np.asarray((value + log_conversion(order) - np.log(delta)) / order)


def log_conversion(s: FloatArray) -> FloatArray:
    """Ln of s^s/(1+s)^(1+s), without the cancellation of two large terms."""
    return np.asarray(-s * np.log1p(1.0 / s) - np.log1p(s))


def few_orders(end: ArrayLike = np.inf) -> FloatArray:
    """Some orders s between 0 and `end`, for a bound that needs not be the best; last axis."""
    orders = np.geomspace(0.1, 1e5, 32)
    return np.asarray(orders / (1.0 + orders / np.asarray(end, dtype=np.float64)[..., None]))


def least_log_delta_bound(
    cumulant: Callable[[FloatArray], Any], epsilon: ArrayLike, end: float = np.inf
) -> FloatArray:
    """The least bound on ln delta found over 0 < s < end, rounded up, at each of some epsilons.

    `cumulant` maps an array of s to Lambda(s) or bounds on it; what is not finite counts for
    nothing.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    low, high = (np.full((*eps.shape, 1), end) for end in (-_REACH, _REACH))
    best = np.zeros(eps.shape)  # delta <= 1 is a theorem
    for _ in range(_ROUNDS):
        place = low + (high - low) * np.linspace(0.0, 1.0, _POINTS)
        s = np.exp(place) if np.isinf(end) else end / (1.0 + np.exp(-place))
        with np.errstate(all="ignore"):
            value = np.asarray(cumulant(s), dtype=np.float64)
            bound = log_delta_bound(value, s, eps[..., None])
            bound += _MARGIN * (1.0 + np.abs(value) + np.abs(s * eps[..., None]))
        bound = np.where(np.isfinite(bound), bound, np.inf)
        least = np.argmin(bound, axis=-1, keepdims=True)
        best = np.minimum(best, np.take_along_axis(bound, least, -1)[..., 0])
        low = np.take_along_axis(place, np.maximum(least - 1, 0), -1)
        high = np.take_along_axis(place, np.minimum(least + 1, _POINTS - 1), -1)
    return best
