"""What every privacy loss offers, written once against ln delta(epsilon)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate

FloatArray = NDArray[np.float64]

# The fast path's relative accuracy is some 1e-13; whatever must err on the safe side moves
# delta by this much, and whatever ends in a certificate is checked in ball arithmetic besides.
SAFETY = 1e-11


# No privacy is meant by an epsilon beyond this.
_LARGEST_EPSILON = 1e9


def exp_bounds(low: ArrayLike, high: ArrayLike) -> tuple[Any, Any]:
    """Bounds on delta from bounds on its logarithm, rounded outward."""
    # exp is good to an ulp; two more on each side make the rounding directed.
    with np.errstate(under="ignore"):
        lower, upper = np.exp(low), np.exp(high)
    for _ in range(2):
        lower = np.where((lower > 0) & (np.asarray(low) < 0), np.nextafter(lower, 0.0), lower)
        upper = np.where(np.asarray(high) == -np.inf, 0.0, np.nextafter(upper, np.inf))
    return lower[()], np.minimum(upper, 1.0)[()]  # delta <= 1 is a theorem, not a clip


class PrivacyLoss(ABC):
    """A privacy profile epsilon -> delta(epsilon) that can be read in every dialect of privacy."""

    @abstractmethod
    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon); -inf only where delta is exactly 0."""

    @abstractmethod
    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on ln delta(epsilon)."""

    @abstractmethod
    def supremum(self) -> Any:
        """The largest epsilon at which delta is positive; +inf if there is none."""

    @abstractmethod
    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha; +inf where it does not exist."""

    @abstractmethod
    def __add__(self, other: Any) -> Any:
        """Independent composition."""

    @abstractmethod
    def __mul__(self, times: Any) -> Any:
        """Compose `times` independent copies."""

    def __rmul__(self, times: Any) -> Any:
        """Compose `times` independent copies."""
        return self.__mul__(times)

    @abstractmethod
    def reversed(self) -> PrivacyLoss:
        """The loss of the reversed pair."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description from which `ndis.loss.from_dict` rebuilds the loss exactly."""

    def delta(self, epsilon: ArrayLike) -> Any:
        """The hockey-stick divergence sup_S P(S) - e^epsilon Q(S), as the nearest double.

        Vectorised over epsilon and, broadcasting, over a batch of losses. A value below the
        smallest double comes back as 0.0; `log_delta` keeps it.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> [f"{d:.5e}" for d in QuadraticLoss.from_shift(1.0).delta([0.0, 1.0, 30.0])]
        ['3.82925e-01', '1.26937e-01', '4.70933e-193']
        """
        return np.exp(self.log_delta(epsilon))

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on delta(epsilon).

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> low, high = QuadraticLoss.from_shift(1.0).delta_bounds(1.0)
        >>> bool(low < 0.12693673750664397 < high), bool(high / low - 1 < 1e-12)
        (True, True)
        """
        return exp_bounds(*self.log_delta_bounds(epsilon))

    def epsilon(self, delta: ArrayLike) -> Any:
        """The least epsilon >= 0 with delta(epsilon) <= delta, rounded up.

        Infinite where no epsilon will do (delta = 0 for a loss without a largest value).

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).epsilon(1e-6):.6f}"
        '4.886554'
        """
        wanted = _validate.deltas(delta)
        top = np.asarray(self.supremum())
        wanted, top = np.broadcast_arrays(wanted, top)
        with np.errstate(divide="ignore"):
            target = np.log(wanted) + math.log1p(-SAFETY)
        result = np.where(wanted > 0, 0.0, np.where(top < np.inf, np.maximum(top, 0.0), np.inf))
        at_zero = np.broadcast_to(self.log_delta(np.zeros(wanted.shape)), wanted.shape)
        search = (wanted > 0) & (at_zero > target)
        if search.any():
            result = np.where(search, self._search(target, search), result)
        return result[()]

    def _search(self, target: FloatArray, search: NDArray[np.bool_]) -> FloatArray:
        """The upper ends of brackets of log_delta(eps) = target, narrowed to rounding error."""

        def value(eps: FloatArray) -> FloatArray:
            return np.where(search, np.asarray(self.log_delta(eps)) - target, -1.0)

        low = np.zeros(target.shape)
        high = np.ones(target.shape)
        f_low, f_high = value(low), value(high)
        while True:
            wrong = f_high > 0
            if not wrong.any():
                break
            if high.max() > _LARGEST_EPSILON:  # laws as good as disjoint: no epsilon is promised
                search = search & ~wrong
                return np.where(wrong, np.inf, self._search(target, search))
            low, f_low = np.where(wrong, high, low), np.where(wrong, f_high, f_low)
            high = np.where(wrong, 4.0 * high, high)
            f_high = value(high)
        # A secant step, a doubled one to move the other end, a bisection, and again: both ends
        # close in, and the upper one is always a point seen to be at or below the target.
        for step in range(240):
            width = high - low
            open_ = search & (width > 4e-16 * high)
            if not open_.any():
                break
            with np.errstate(all="ignore"):
                slope = (f_high - f_low) / width
                near = np.where(np.abs(f_low) < np.abs(f_high), low, high)
                f_near = np.where(near == low, f_low, f_high)
                guess = near - (1.0 + step % 3) * f_near / slope
            middle = 0.5 * (low + high)
            sound = (guess > low) & (guess < high) & np.isfinite(f_high) & (step % 3 < 2)
            guess = np.where(open_, np.where(sound, guess, middle), high)
            f = value(guess)
            above = f > 0
            low, f_low = np.where(above, guess, low), np.where(above, f, f_low)
            high, f_high = np.where(above, high, guess), np.where(above, f_high, f)
        return high

    def tradeoff(self, alpha: ArrayLike) -> Any:
        """Least type II error of a test of Q against P at level alpha: the f-DP curve.

        Every epsilon gives the lower bound 1 - delta(epsilon) - e^epsilon alpha; the curve is
        their supremum, found by a search, so a value returned is never above the true curve
        by more than rounding.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).tradeoff(0.05):.6f}"
        '0.740489'
        """
        level = _validate.floats_within("alpha", alpha, 0.0, 1.0)
        edge = 1e-16
        inside = np.maximum(level, edge)
        low = np.full(level.shape, -min(float(np.max(self.reversed().epsilon(edge))), 1e4) - 1.0)
        high = np.full(level.shape, min(float(np.max(self.epsilon(edge))), 700.0))

        def height(eps: FloatArray) -> FloatArray:
            result: FloatArray = -np.expm1(np.asarray(self.log_delta(eps))) - np.exp(eps) * inside
            return result

        ratio = 0.5 * (math.sqrt(5.0) - 1.0)
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        f_left, f_right = height(left), height(right)
        for _ in range(80):
            keep_left = f_left >= f_right
            high, low = np.where(keep_left, right, high), np.where(keep_left, low, left)
            probe = np.where(keep_left, high - ratio * (high - low), low + ratio * (high - low))
            f_probe = height(probe)
            left, right = np.where(keep_left, probe, right), np.where(keep_left, left, probe)
            f_left, f_right = (
                np.where(keep_left, f_probe, f_right),
                np.where(keep_left, f_left, f_probe),
            )
        best = np.maximum(np.maximum(f_left, f_right), 0.0)  # a type II error is at least 0
        return np.where(level == 0.0, np.where(np.isinf(self.supremum()), 1.0, best), best)[()]

    def gdp_mu(self, delta: float) -> float:
        """The mu of the Gaussian mechanism that has the same epsilon at this delta, rounded up.

        A summary in the language of Gaussian differential privacy at one point of the curve,
        not a dominating bound over all of it.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> round(QuadraticLoss.from_shift(0.75).gdp_mu(1e-6), 6)
        0.75
        """
        from scipy.optimize import brentq

        from ndis.loss.quadratic import QuadraticLoss

        wanted = _validate.probability("delta", delta)
        eps = float(self.epsilon(wanted))
        if math.isinf(eps):
            return math.inf

        def gap(log_mu: float) -> float:
            return float(QuadraticLoss.from_shift(math.exp(log_mu)).log_delta(eps)) - math.log(
                wanted
            )

        low, high = -40.0, 12.0
        if gap(low) > 0:
            return math.exp(low)
        return math.exp(brentq(gap, low, high, xtol=1e-14) + 1e-11)
