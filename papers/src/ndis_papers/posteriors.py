"""The published rules for Gaussian outputs and for logistic regression (ndis-2026, section 6).

A bound is a function of the added noise variance: how far one record moves the mean, in the norm
of the narrower noised covariance, and by how much it changes variances, as ln ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ndis import Profile, QuadraticLoss
from ndis_papers import _validate

Bound = Callable[[float], float]

# Ways to divide epsilon between the mean and the covariance.
_DIVISIONS = 100


def published_noise(
    mean_shift: Bound, eta: Bound, epsilon: float, delta: float, *, n_draws: int = 1
) -> float:
    """The noise of theorem 6.1: eta/2 is taken off epsilon, the mean gets the rest.

    Its covariance step (lemma 2) costs nothing once its share of epsilon reaches eta/2. That is
    true of the easy direction only, so that the rule is refuted: see `witness`.

    Parameters
    ----------
    mean_shift, eta : callable
        The shift of the mean, and the sum of the ln ratios of variances.
    epsilon, delta : float
    n_draws : int, default 1
        Independent draws that are released.

    Examples
    --------
    >>> from ndis_papers.posteriors import published_noise
    >>> f"{published_noise(lambda v: v**-0.5, lambda v: 0.1 / v, 1.0, 1e-5):.3f}"
    '3.743'
    """
    target = math.log(_validate.probability("delta", delta))
    asked = _validate.non_negative("epsilon", epsilon)

    def enough(noise: float) -> bool:
        left = asked - 0.5 * n_draws * eta(noise**2)
        shift = QuadraticLoss.from_shift(math.sqrt(n_draws) * mean_shift(noise**2))
        return left >= 0 and float(shift.log_delta(left)) <= target

    if not enough(math.exp(100.0)):
        raise ValueError(
            f"Found no noise that meets epsilon={epsilon} and delta={delta} by the published rule; "
            "use ndis.GaussianOutput."
        )
    return _least(enough, -100.0, 100.0)


def witness(mean_shift: float, kappa: float, eta: float, *, n_draws: int = 1) -> Profile:
    """A pair of laws inside the bounds, mean across the variances that change, both directions.

    Its delta is a lower bound on that of anything calibrated by these bounds.

    Examples
    --------
    >>> from ndis_papers.posteriors import witness
    >>> f"{witness(0.0, 0.3, 0.75).delta(0.5):.4f}"
    '0.0289'
    """
    whole = math.floor(eta / kappa) if kappa > 0 else 0
    rest = max(eta - whole * kappa, 0.0)
    inside = QuadraticLoss(
        [-math.expm1(kappa), -math.expm1(rest), 0.0],
        [0.0, 0.0, mean_shift**2],
        [float(whole), 1.0, 0.0],
    )
    return Profile.both(n_draws * inside)


def logistic_noise(
    n_features: int,
    epsilon: float,
    delta: float,
    *,
    row_norm: float = 1.0,
    lam: float = 1.0,
    max_rows: int,
    n_draws: int = 1,
) -> float:
    """The noise of proposition 7: all variances may move between their extremes.

    Epsilon is divided between mean and covariance; the covariance step is taken in the hard
    direction, where it is true.

    Parameters
    ----------
    n_features : int
        Coefficients, an intercept included.
    epsilon, delta : float
    row_norm, lam : float
        The bound on a row and the precision of the prior.
    max_rows : int
        The public bound on the number of records.
    n_draws : int, default 1

    Examples
    --------
    >>> from ndis import PrivateLogisticRegression
    >>> from ndis_papers.posteriors import logistic_noise
    >>> exact = PrivateLogisticRegression(
    ...     classes=[0, 1], epsilon=1.0, delta=1e-5, data_norm=1.0, prior_precision=1.0,
    ...     max_rows=1000, method="posterior",
    ... ).calibrate(20)
    >>> f"{logistic_noise(21, 1.0, 1e-5, row_norm=2**0.5, max_rows=1000) / exact:.2f}"
    '1.27'
    """
    least_variance = 1.0 / (lam + 0.25 * max_rows * row_norm**2)

    def enough(noise: float) -> bool:
        narrow = least_variance + noise**2
        shift = n_draws * QuadraticLoss.from_shift(row_norm / lam / math.sqrt(narrow))
        excess = (1.0 / lam + noise**2) / narrow - 1.0
        return _divided(shift, QuadraticLoss(excess, 0.0, n_draws * n_features), epsilon) <= delta

    return _least(enough, -20.0, 20.0)


def _divided(shift: QuadraticLoss, covariance: QuadraticLoss, epsilon: float) -> float:
    """The triangle inequality at the best division of epsilon, in the worse direction."""
    first = np.linspace(0.0, epsilon, _DIVISIONS)
    rest = epsilon - first

    def least(wide: QuadraticLoss) -> float:
        mean_first = shift.delta(first) + np.exp(first) * wide.delta(rest)
        mean_last = wide.delta(first) + np.exp(first) * shift.delta(rest)
        return float(min(mean_first.min(), mean_last.min()))

    return max(least(covariance), least(covariance.reversed()))


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least noise that is enough, between e^low and e^high, to nine digits."""
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(math.exp(middle)) else (middle, high)
    return math.exp(high)
