"""The least noise that meets (epsilon, delta), rounded to the safe side.

A mechanism offers a family of losses, one for each noise scale, whose delta falls as the noise
grows. The search runs on the fast path; what it finds is then checked in ball arithmetic and
raised, a few units in the last places at a time, until delta is proven to be at most what was
asked. The answer is never less private than asked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ndis import _validate
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.curves import narrowed

__all__ = ["ROUND_UP", "least_noise", "meets", "noise_multiplier"]

# More than the rounding of a few products, quotients and roots can take away: a noise scale that
# is computed from a calibrated one is raised by it.
ROUND_UP = 1.0 + 2.0**-48

# How far the search may wander from its start, factors of e^600 either way; and how close to such
# an end, or to noise that has no loss in doubles, it gives up.
_REACH, _CLOSE = 600.0, 1e-3
# How much noise may be added, relatively, before a proof is given up.
_STEPS = tuple(2.0**k for k in range(-52, -10))


def meets(loss: PrivacyLoss, epsilon: float, delta: float) -> bool:
    """Whether it is proven that delta(epsilon) <= delta.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.calibration import meets
    >>> meets(QuadraticLoss.from_shift(1.0), 1.0, 0.127)
    True
    """
    _, high = loss.log_delta_bounds(_validate.non_negative("epsilon", epsilon))
    return bool(high <= math.nextafter(math.log(_validate.probability("delta", delta)), -math.inf))


def least_noise(
    family: Callable[[float], PrivacyLoss], epsilon: float, delta: float, *, start: float = 1.0
) -> float:
    """The least noise at which a family of losses meets (epsilon, delta), rounded up.

    Parameters
    ----------
    family : callable
        Maps a noise scale > 0 to the worst-case loss at that noise; more noise, less delta.
    epsilon, delta : float
        What must be met: epsilon >= 0, 0 < delta < 1.
    start : float
        Where to begin; any positive number of the right order saves time.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.calibration import least_noise
    >>> sigma = least_noise(lambda s: QuadraticLoss.from_shift(1.0 / s), 1.0, 1e-5)
    >>> f"{sigma:.6f}"
    '3.730632'
    """
    eps = _validate.non_negative("epsilon", epsilon)
    log_target = math.log(_validate.probability("delta", delta))

    def gap(log_noise: float) -> float:
        try:
            return float(family(math.exp(log_noise)).log_delta(eps)) - log_target
        except (ArithmeticError, ValueError):
            if log_noise == origin:
                raise
            return math.nan  # so little or so much noise has no loss in doubles

    origin = low = high = math.log(_validate.positive("start", start))
    most, stride = origin + _REACH, 0.5
    while not (found := gap(high)) <= 0:
        low, most = (low, high) if math.isnan(found) else (high, most)
        if most - low < _CLOSE:
            raise ValueError(
                f"Found no noise that meets epsilon={eps} and delta={delta}; "
                "this mechanism cannot give that guarantee."
            )
        high, stride = min(low + stride, 0.5 * (low + most)), 2.0 * stride
    least, stride = origin - _REACH, 0.5
    while (low == high or not (found := gap(low)) > 0) and high - least >= _CLOSE:
        high, least = (high, low) if math.isnan(found) else (min(high, low), least)
        low, stride = max(high - stride, 0.5 * (high + least)), 2.0 * stride
    if high - least >= _CLOSE:
        bracket = (np.array([value]) for value in (0.0, low, high, gap(low), gap(high)))
        high = float(narrowed(lambda x, _: np.array([gap(float(x[0]))]), *bracket)[0])
    noise = math.exp(high)
    for step in (0.0, *_STEPS):
        candidate = noise * (1.0 + step)
        if meets(family(candidate), eps, delta):
            return candidate
    raise ArithmeticError(
        f"Found noise {noise} but could not prove that it meets epsilon={eps} and delta={delta}; "
        "please report this."
    )


def shift_profile(distance: float) -> Profile:
    """The worst case of a mean that moves by `distance` noise scales, rounded up."""
    return Profile.both(QuadraticLoss.from_shift(ROUND_UP * distance))


@functools.lru_cache(maxsize=1024)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """The least noise for a sensitivity of 1: the analytic Gaussian mechanism, rounded up.

    Examples
    --------
    >>> from ndis.calibration import noise_multiplier
    >>> f"{noise_multiplier(1.0, 1e-5):.6f}"
    '3.730632'
    """
    # The classic rule; or, where epsilon hardly matters, a total variation of delta.
    start = 0.4 / delta
    if epsilon > 0.0:
        start = min(start, math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon)
    return least_noise(lambda noise: shift_profile(1.0 / noise), epsilon, delta, start=start)
