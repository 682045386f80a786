"""Losses derived from another: of a release of a Poisson subsample, and of one that may fail.

Both are tabulated, rounded up, so that they compose with everything else. docs/proofs/projection.md
has the proofs. A table has the epsilon that was asked for among its grid points, where it is as
tight as the formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss.base import PrivacyLoss
from ndis.loss.profile import Profile
from ndis.loss.tabulated import TabulatedLoss

__all__ = ["inner_epsilon", "sampled_deltas", "subsampled", "with_failure"]

# What is asked of the parts is less than what is promised by this share: it pays for rounding in
# the formulas and for the tables' own safety margin.
MARGIN = 1e-10
# Grid points on either side of zero, at least and at most, and below an epsilon that matters.
_POINTS = (512, 2048, 25)
# The share of delta at which the table ends.
_TAIL = 1e-12


def inner_epsilon(epsilon: ArrayLike, rate: float) -> FloatArray:
    """The epsilon at which a release of a Poisson subsample must be private for `epsilon` overall.

    That is ln(1 + (e^epsilon - 1)/rate), in a form that neither cancels nor overflows.

    Examples
    --------
    >>> from ndis.loss.derived import inner_epsilon
    >>> f"{inner_epsilon(1.0, 0.1):.6f}"
    '2.900477'
    """
    eps = _validate.epsilons(epsilon)
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
    >>> from ndis.loss.derived import inner_epsilon, subsampled
    >>> sketch = QuadraticLoss.from_leverage(0.05, n_components=20)
    >>> table = subsampled(sketch, 0.1, epsilon=0.5, delta=1e-6)
    >>> ratio = table.delta(0.5) / (0.1 * sketch.delta(inner_epsilon(0.5, 0.1)))
    >>> bool(1 <= ratio < 1 + 1e-10)
    True
    """
    q = _validate.probability("rate", rate)
    present, absent = sampled_deltas(_upper(loss), _upper(loss.reversed()), q)
    inner_end = _end(loss, delta / q)
    # The outer epsilon that belongs to it: ln(1 + q (e^end - 1)).
    end = math.log(q) + inner_end + math.log1p((1.0 - q) / q * math.exp(-inner_end))
    # With the row absent first no loss exceeds -ln(1 - q).
    return Profile.both(_tabulated(present, absent, [epsilon, -math.log1p(-q)], end))


def with_failure(loss: PrivacyLoss, failure: float, epsilon: float, delta: float) -> Profile:
    """The loss of a release that is as good as `loss` but for an event of small probability.

    Parameters
    ----------
    loss : PrivacyLoss
        A pair that dominates the release short of the event, row present first.
    failure : float
        A bound on the probability of the event under either neighbour; it is added to delta.
    epsilon, delta : float
        Where the table should be tight.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.loss.derived import with_failure
    >>> shift = QuadraticLoss.from_shift(0.2)
    >>> excess = with_failure(shift, 1e-7, 1.0, 1e-6).delta(1.0) - shift.delta(1.0)
    >>> bool(1e-7 <= excess < 1.001e-7)
    True
    """

    def worsened(pair: PrivacyLoss) -> Callable[[FloatArray], FloatArray]:
        return lambda eps: np.minimum(_upper(pair)(eps) + failure, 1.0)

    end = _end(loss, delta)
    return Profile.both(_tabulated(worsened(loss), worsened(loss.reversed()), [epsilon], end))


def _upper(loss: PrivacyLoss) -> Callable[[FloatArray], FloatArray]:
    return lambda eps: np.exp(loss.upper_log_delta(eps))


def _end(loss: PrivacyLoss, delta: float) -> float:
    """Where the loss matters no more."""
    return float(loss.epsilon(max(_TAIL * delta, 1e-300)))


def _tabulated(
    present: Callable[[FloatArray], FloatArray],
    absent: Callable[[FloatArray], FloatArray],
    matters: list[float],
    end: float,
) -> TabulatedLoss:
    """A table with the first of the epsilons that matter on its grid."""
    high = max(matters[0], end)
    least, most, below = _POINTS
    step = min([high / least, *(epsilon / below for epsilon in matters if epsilon > 0)])
    step = max(step, high / most)
    if matters[0] > 0:
        step = matters[0] / math.ceil(matters[0] / step)
    return TabulatedLoss.from_profile(present, absent, step=step, high=high)
