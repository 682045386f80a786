"""The loss of a release of a Poisson subsample, which composes as a table, rounded up.

A table has the epsilon that was asked for among its grid points, where it is as tight as the
formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis.loss import PrivacyLoss, Profile
from ndis.loss.derived import tabulated
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# The share of delta at which a table ends.
_TAIL = 1e-12


def inner_epsilon(epsilon: ArrayLike, rate: float) -> FloatArray:
    """The epsilon at which a release of a Poisson subsample must be private for `epsilon` overall.

    That is ln(1 + (e^epsilon - 1)/rate), in a form that neither cancels nor overflows.

    Examples
    --------
    >>> from ndis_papers.subsampling import inner_epsilon
    >>> f"{inner_epsilon(1.0, 0.1):.6f}"
    '2.900477'
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    small = np.log1p(np.expm1(np.minimum(eps, 1.0)) / rate)
    large = eps - math.log(rate) + np.log1p(-(1.0 - rate) * np.exp(-np.maximum(eps, 1.0)))
    return np.asarray(np.where(eps < 1.0, small, large))


def sampled_deltas(
    forwards: Callable[[FloatArray], Any], backwards: Callable[[FloatArray], Any], rate: float
) -> tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]:
    """The deltas of a release of a Poisson sample, from those of a pair, row present and absent.

    `forwards` and `backwards` are epsilon -> delta of the pair and of its reverse; so are the two
    functions that come back.
    """

    def present(eps: FloatArray) -> FloatArray:
        return np.asarray(rate * forwards(inner_epsilon(eps, rate)))

    def absent(eps: FloatArray) -> FloatArray:
        # The weight 1 - (1-q) e^eps may cancel. The profile falls with epsilon, so a little less
        # epsilon, more than what rounding can do to the weight, gives an upper bound.
        lower = eps - 1e-15 * (1.0 + eps)
        weight = -np.expm1(lower + math.log1p(-rate))
        live, result = weight > 0, np.zeros(eps.shape)
        result[live] = weight[live] * backwards(lower[live] + math.log(rate) - np.log(weight[live]))
        return result

    return present, absent


def subsampled(loss: PrivacyLoss, rate: float, epsilon: float, delta: float) -> Profile:
    """The loss of a release of a Poisson subsample, add/remove one row.

    Parameters
    ----------
    loss : PrivacyLoss
        A pair that dominates the release of any sample, row present first.
    rate : float
        The probability with which each row is sampled, 0 < rate < 1.
    epsilon, delta : float
        Where the table should be tight.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis_papers.subsampling import inner_epsilon, subsampled
    >>> sketch = QuadraticLoss.from_leverage(0.05, n_components=20)
    >>> table = subsampled(sketch, 0.1, epsilon=0.5, delta=1e-6)
    >>> ratio = table.delta(0.5) / (0.1 * sketch.delta(inner_epsilon(0.5, 0.1)))
    >>> bool(1 <= ratio < 1 + 1e-10)
    True
    """
    q, back = _validate.probability("rate", rate), loss.reversed()
    present, absent = sampled_deltas(
        lambda eps: np.exp(loss.upper_log_delta(eps)),
        lambda eps: np.exp(back.upper_log_delta(eps)),
        q,
    )
    inner_end = float(loss.epsilon(max(_TAIL * delta / q, 1e-300)))
    # The outer epsilon that belongs to it: ln(1 + q (e^end - 1)).
    end = math.log(q) + inner_end + math.log1p((1.0 - q) / q * math.exp(-inner_end))
    # With the row absent first no loss exceeds -ln(1 - q).
    return Profile.both(tabulated(present, absent, [epsilon, -math.log1p(-q)], end))
