"""The loss of discrete Laplace noise: integers n of probability proportional to e^{-|n|/scale}.

Exact integers that move by so many steps have a loss on a lattice, and so have k releases: all of
their law is a polynomial to the power k. With one step it is a truth told with odds e^distance, the
worst of all losses between -distance and distance; with many it is Laplace's law. Whoever moves
several numbers by one step in all moves one number by one step: for counts, of which one person
changes one, this is the value and not a bound. docs/proofs/laws.md has the formulas.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_poly
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import certified
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss, least_log_delta
from ndis.loss.tabulated import TabulatedLoss, power_of_two

_BITS = 128
# Longer lattices of several releases, or of a table, are rounded up to shorter ones.
_MOST = 4096
# Cells of such a table on either side of 0, about.
_CELLS = 1024
# How far a fast value may lie outside proven bounds, by its own accuracy.
_FAST = 1e-12


class DiscreteLaplaceLoss(PrivacyLoss):
    """Releases of integers with discrete Laplace noise.

    Parameters
    ----------
    distance : float
        How far one record moves the answer, in noise scales.
    steps : int
        How far it moves the answer, in integers.
    count : int
        How many such releases there are.

    Examples
    --------
    >>> from ndis import DiscreteLaplaceLoss
    >>> loss = DiscreteLaplaceLoss(1.0)
    >>> f"{loss.epsilon(0.0):g} {loss.delta(0.0):.4f}"
    '1 0.4621'
    >>> f"{(20 * loss).epsilon(1e-6):.4f}"
    '19.9995'
    """

    kind = "discrete-laplace"
    stored = ("distance", "steps", "count")
    exactness: Exactness = "exact"
    infinite_mass = 0.0
    quick = True

    def __init__(self, distance: float, steps: int = 1, count: int = 1) -> None:
        self.distance = _validate.positive("distance", distance)
        self.steps = _validate.count("steps", steps)
        self.count = _validate.count("count", count)
        if self.count > 1 and self.count * self.steps > _MOST:
            raise ValueError(
                f"Expected at most {_MOST} steps of several releases, got "
                f"{self.count * self.steps}; multiply the loss of one, which tabulates it."
            )

    @functools.cached_property
    def _reach(self) -> Fraction:
        """The largest loss, exactly."""
        return self.count * Fraction(self.distance)

    @functools.cached_property
    def _step(self) -> Fraction:
        """Between two losses."""
        return 2 * Fraction(self.distance) / self.steps

    # -- the contract --------------------------------------------------------------------------

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven bounds: a finite sum in ball arithmetic."""
        eps = _validate.epsilons(epsilon)
        flat = eps.reshape(-1)
        with certified.precision(_BITS):
            bounds = np.array([_log_bounds(self._ball(Fraction(e))) for e in flat.tolist()])
        low, high = bounds.reshape((-1, 2)).T
        # The bounds also enclose the double that `log_delta` returns.
        value = self._fast(flat)
        with np.errstate(invalid="ignore"):
            near = (value > low - _FAST) & (value < high + _FAST)
        low = np.where(near, np.minimum(low, value), low)
        high = np.minimum(np.where(near, np.maximum(high, value), high), 0.0)  # delta <= 1
        return low.reshape(eps.shape)[()], high.reshape(eps.shape)[()]

    def _ball(self, eps: Fraction) -> arb:
        """Delta; 0 exactly at and beyond the largest loss."""
        if eps < 0:
            back = _arb(eps)
            return self._ball(-eps) * back.exp() - back.expm1()
        if eps >= self._reach:
            return arb(0)
        above = math.ceil((self._reach - eps) / self._step)  # so many losses are above epsilon
        if self.count == 1:
            return self._one(eps, above)
        gaps = (self._reach - eps - m * self._step for m in range(above))
        masses = _lattice(self.distance, self.steps, self.count)
        return sum((-masses[m] * (-_arb(gap)).expm1() for m, gap in enumerate(gaps)), arb(0))

    def _one(self, eps: Fraction, above: int) -> arb:
        """P(n < above) - e^eps Q(n < above): two positive terms."""
        inside = (above - 1) * self._step / 2
        q = (-_arb(self._step / 2)).exp()
        first, second = (-_arb(inside)).expm1(), _arb(eps - self._reach + inside).expm1()
        return -(q * first + second) / (1 + q)

    def dominating(self) -> TabulatedLoss:
        """The lattice itself, or a table of one release, as often as there are."""
        table = _table(self.distance, self.steps)
        return table if self.count == 1 else self.count * table

    # -- what is known better ------------------------------------------------------------------

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon), in doubles."""
        eps = _validate.epsilons(epsilon)
        return self._fast(eps.reshape(-1)).reshape(eps.shape)[()]

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """Ln delta, raised by more than doubles lose."""
        eps = np.asarray(epsilon)
        margin = SAFETY * (1.0 + 1e-3 * self.count * min(self.steps, _MOST))
        return np.minimum(self._fast(eps.reshape(-1)) + margin, 0.0).reshape(eps.shape)

    def _fast(self, eps: FloatArray) -> FloatArray:
        size = np.abs(eps)
        # How far below the largest loss, rounded once.
        rest = np.array([max(float(self._reach - Fraction(e)), 0.0) for e in size.tolist()])
        step = 2.0 * self.distance / self.steps
        if self.count == 1:
            inside = np.maximum(np.ceil(rest / step) - 1.0, 0.0) * 0.5 * step
            q = math.exp(-0.5 * step)
            delta = -(q * np.expm1(-inside) + np.expm1(np.minimum(inside - rest, 0.0))) / (1.0 + q)
        else:
            masses = self._masses
            gaps = np.maximum(rest[:, None] - step * np.arange(masses.size), 0.0)
            delta = -np.expm1(-gaps) @ masses
        back = eps < 0
        delta[back] = np.exp(eps[back]) * delta[back] - np.expm1(eps[back])
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(delta), least_log_delta(eps)))

    @functools.cached_property
    def _masses(self) -> FloatArray:
        with certified.precision(_BITS):
            masses = _lattice(self.distance, self.steps, self.count)
        return np.array([float(mass) for mass in masses])

    def supremum(self) -> Any:
        """The largest loss, rounded up."""
        top = float(self._reach)
        return top if Fraction(top) >= self._reach else math.nextafter(top, math.inf)

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """Ln E_P[e^{sL}], rounded up."""
        order = _validate.floats("s", s)
        with certified.precision(_BITS):
            values = [self._log_moment(arb(each)) for each in order.reshape(-1).tolist()]
        return np.array(values).reshape(order.shape)[()]

    def _log_moment(self, s: arb) -> float:
        """One release: both ends, and a geometric series between them, relative to the upper."""
        t, half = arb(self.distance), _arb(self._step / 2)
        rate = (1 + 2 * s) * half
        between = (self.steps - 1) * (-rate).exp()
        if rate > 0:
            between = (-rate).exp() * ((1 - self.steps) * rate).expm1() / (-rate).expm1()
        total = 1 + (-half).expm1() * -between + (-(1 + 2 * s) * t).exp()
        return certified._up(self.count * (total.log() + s * t - (1 + (-half).exp()).log()))

    def reversed(self) -> DiscreteLaplaceLoss:
        """Itself: the law is symmetric."""
        return self

    def _plus(self, other: PrivacyLoss) -> PrivacyLoss | None:
        """Equal lattices add up."""
        if not isinstance(other, DiscreteLaplaceLoss):
            return None
        if (self.distance, self.steps) != (other.distance, other.steps):
            return None
        total: PrivacyLoss = DiscreteLaplaceLoss(self.distance, self.steps)._times(
            self.count + other.count
        )
        return total

    def _times(self, times: int) -> PrivacyLoss:
        if times * self.count * self.steps <= _MOST:
            return DiscreteLaplaceLoss(self.distance, self.steps, times * self.count)
        return self.dominating()._times(times)


def _log_bounds(delta: arb) -> tuple[float, float]:
    if delta == 0:
        return -math.inf, -math.inf
    return certified._down(delta.log()), certified._up(delta.log())


def _arb(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


@functools.lru_cache(maxsize=64)
def _lattice(distance: float, steps: int, count: int) -> list[arb]:
    """P's masses, from the largest loss down."""
    with certified.precision(_BITS):
        half = _arb(Fraction(distance) / steps)
        q = (-half).exp()
        inner = [(-j * half).exp() * (1 - q) for j in range(1, steps)]
        one = [each / (1 + q) for each in (arb(1), *inner, (-steps * half).exp())]
        power = (arb_poly(one) ** count).coeffs()
        return power + [arb(0)] * (count * steps + 1 - len(power))


@functools.lru_cache(maxsize=64)
def _table(distance: float, steps: int) -> TabulatedLoss:
    """One release, with every loss rounded up."""
    one = DiscreteLaplaceLoss(distance, steps)
    if steps > _MOST:

        def upper(eps: FloatArray) -> FloatArray:
            return np.exp(one.upper_log_delta(eps))

        return TabulatedLoss.from_profile(
            upper, upper, step=power_of_two(distance / _CELLS), high=distance
        )
    step = distance / steps
    while Fraction(step) * steps < Fraction(distance):
        step = math.nextafter(step, math.inf)
    mass = np.zeros(2 * steps + 1)
    mass[::-2] = one._masses * (1.0 + SAFETY)
    return TabulatedLoss(step, -steps, mass)
