"""A loss derived from another: that of a release that may fail.

It is tabulated, rounded up, so that it composes with everything else. docs/proofs/projection.md has
the proof. A table has the epsilon that was asked for among its grid points, where it is as tight as
the formula.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ndis._validate import FloatArray
from ndis.loss.contract import PrivacyLoss
from ndis.loss.profile import Profile
from ndis.loss.tabulated import TabulatedLoss

__all__ = ["MARGIN", "tabulated", "with_failure"]

# What is asked of the parts is less than what is promised by this share: it pays for rounding in
# the formulas and for the tables' own safety margin.
MARGIN = 1e-10
# Grid points on either side of zero, at least and at most, and below an epsilon that matters.
_POINTS = (512, 2048, 25)
# The share of delta at which the table ends.
_TAIL = 1e-12


@functools.lru_cache(maxsize=64)
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
        return lambda eps: np.minimum(np.exp(pair.upper_log_delta(eps)) + failure, 1.0)

    end = float(loss.epsilon(max(_TAIL * delta, 1e-300)))
    return Profile.both(tabulated(worsened(loss), worsened(loss.reversed()), [epsilon], end))


def tabulated(
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
