"""The loss of spherical Laplace noise: density e^{-|n|/scale} in some dimensions.

For few numbers and few releases this law, the l2 mechanism, has less variance than the Gaussian. An
answer that moves by `distance` noise scales has a loss between -distance and distance, and its
moment function is closed form, so that losses add up like Gaussian ones and beside them. In one
dimension it is Laplace's law. docs/proofs/laws.md has the formulas and the proof that the largest
distance is the worst; `spherical_sums` proves numbers, `spherical_paths` finds them quickly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import certified, nearness
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss, least_log_delta
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.spherical_paths import SLOW, Sum, law_of, one_log_delta
from ndis.loss.spherical_sums import (
    BITS,
    Legs,
    Product,
    chernoff,
    laplace_bounds,
    line_bounds,
    one_bounds,
)
from ndis.loss.tabulated import TabulatedLoss, power_of_two

# A table of one release has this many cells on either side of 0, about.
_CELLS = 1024
# How far a fast value may lie outside proven bounds, by its own accuracy.
_FAST = 1e-12
# Errors of a Gaussian part leave out what is rarer than e^-this.
_RARE = 750.0

# Beyond this balls of Bessel functions take seconds, and a stranger may ask for them.
_MOST_DISTANCE = 1e40


class SphericalLoss(PrivacyLoss):
    """Releases with noise of density e^{-|n|/scale}, beside a Gaussian part.

    Parameters
    ----------
    distance : float or sequence of float
        How far one record moves the answer, in noise scales.
    dimension : int or sequence of int
        How many numbers an answer has; in one dimension this is Laplace noise.
    count : int or sequence of int
        How many such releases there are.
    gaussian : QuadraticLoss, optional
        An independent Gaussian part.

    Examples
    --------
    >>> from ndis import QuadraticLoss, SphericalLoss
    >>> loss = SphericalLoss(1.0, dimension=3)
    >>> f"{loss.delta(0.5):.6f}", f"{loss.epsilon(0.0):g}"
    ('0.075174', '1')
    >>> f"{(5 * loss + QuadraticLoss.from_shift(0.5)).epsilon(1e-6):.4f}"
    '5.6922'
    """

    kind = "spherical"
    stored = ("distance", "dimension", "count", "gaussian")
    exactness: Exactness = "exact"
    infinite_mass = 0.0

    distance: tuple[float, ...]
    dimension: tuple[int, ...]
    count: tuple[int, ...]

    def __init__(
        self,
        distance: float | Sequence[float],
        dimension: int | Sequence[int] = 1,
        count: int | Sequence[int] = 1,
        gaussian: QuadraticLoss | None = None,
    ) -> None:
        given = [np.atleast_1d(np.asarray(part)).tolist() for part in (distance, dimension, count)]
        size = max(map(len, given))
        times: dict[tuple[float, int], int] = {}
        for t, m, k in zip(
            *(part * size if len(part) == 1 else part for part in given), strict=True
        ):
            key = _validate.positive("distance", t), _validate.count("dimension", m)
            if key[0] > _MOST_DISTANCE:
                raise ValueError(
                    f"Expected distance <= {_MOST_DISTANCE:g}, got distance={key[0]:g}; such noise "
                    "hides nothing."
                )
            times[key] = times.get(key, 0) + _validate.count("count", k)
        terms = sorted((t, m, k) for (t, m), k in times.items())
        self.distance, self.dimension, self.count = zip(*terms, strict=True)
        self.gaussian = gaussian
        if not self._solvable:
            raise ValueError(
                "Expected releases whose moment function falls fast, got few of several kinds; "
                "add their losses up, which tabulates them."
            )

    @functools.cached_property
    def _sum(self) -> Sum:
        terms = tuple(zip(self.distance, self.dimension, self.count, strict=True))
        return Sum(terms, self.gaussian)

    @property
    def _solvable(self) -> bool:
        alone = self.gaussian is None and len(self.distance) == 1
        return alone or self._sum.decay >= SLOW

    @property
    def _once(self) -> bool:
        return self.gaussian is None and self.count == (1,)

    @property
    def quick(self) -> bool:  # type: ignore[override]
        """One release is an integral that is vectorised."""
        return self._once

    # -- the contract --------------------------------------------------------------------------

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven bounds in ball arithmetic."""
        eps = _validate.epsilons(epsilon)
        bounds = [self._bounds(float(e)) for e in eps.reshape(-1)]
        low, high = np.array(bounds).reshape((-1, 2)).T
        # The bounds also enclose the double that `log_delta` returns.
        value = self._fast(eps.reshape(-1))
        with np.errstate(invalid="ignore"):
            near = (value > low - _FAST) & (value < high + _FAST)
        low, high = (
            np.where(near, np.minimum(low, value), low),
            np.where(near, np.maximum(high, value), high),
        )
        return low.reshape(eps.shape)[()], high.reshape(eps.shape)[()]

    def _bounds(self, eps: float) -> tuple[float, float]:
        if eps < 0.0:
            return _beyond(self.reversed()._bounds(-eps), eps)
        if self._ends_before(eps):
            return -math.inf, -math.inf
        if self.gaussian is None:
            return self._proven(eps, None)
        return self._meant(eps, 1)[0], min(self._meant(eps, -1)[1], 0.0)

    def _meant(self, eps: float, side: int) -> tuple[float, float]:
        """Bounds for what the Gaussian part means, good below (1) or above (-1): `nearness`."""
        assert self.gaussian is not None
        parts = (nearness.best if side > 0 else nearness.worst)(self.gaussian.parts())
        step = nearness.step(np.array([eps]), parts, np.array([_RARE + max(eps, 0.0)]))
        numbers = QuadraticLoss(*parts[:3])
        low, high = self._proven(float(step.moved(side)[0]), numbers)
        return float(step.lowered([low])[0]), float(step.raised([high])[0])

    def _proven(self, eps: float, gaussian: QuadraticLoss | None) -> tuple[float, float]:
        """Bounds with exactly these numbers for the Gaussian part."""
        with certified.precision(BITS):
            low, high = self._balls(Sum(self._sum.terms, gaussian), eps)
            return certified._down(low), min(certified._up(high), 0.0)  # delta <= 1 is a theorem

    def _balls(self, total: Sum, eps: float) -> tuple[arb, arb]:
        laws = [(law_of(m, t), k) for t, m, k in total.terms]
        if self._once:
            return one_bounds(laws[0][0], eps, float(self._fast(np.array([eps]))[0]))
        if total.gaussian is None and self.dimension == (1,):
            return laplace_bounds(*laws[0], eps)
        if total.few(eps):
            path = total.legs(eps)
            return Legs(*laws[0], eps, path.c).bounds(path.panels, path.ends)
        gaussian = None if total.gaussian is None else certified.loss_cumulant(total.gaussian)
        product, course = Product(laws, gaussian), total.course(eps)
        if course is not None:
            low, high = line_bounds(product, course, eps)
            if high.is_finite():
                return low, high
        return arb("-inf"), chernoff(product, eps, total.far)

    def dominating(self) -> TabulatedLoss:
        """A table of each release, as often as there are, beside the Gaussian part."""
        tables: list[TabulatedLoss] = [k * _table(t, m) for t, m, k in self._sum.terms]
        if self.gaussian is not None:
            tables.append(TabulatedLoss.beside(self.gaussian))
        total = tables[0]
        for table in tables[1:]:
            total = total + table
        return total

    # -- what is known better ------------------------------------------------------------------

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon), in doubles where they are good enough."""
        eps = _validate.epsilons(epsilon)
        flat = eps.reshape(-1)
        result = self._fast(flat)
        for i in np.flatnonzero(np.isnan(result)):
            result[i] = super().log_delta(flat[i])
        return result.reshape(eps.shape)[()]

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """Ln delta, raised by a hundred times what the fast path was ever found to be off."""
        flat = np.asarray(epsilon).reshape(-1)
        value = self._fast(flat) + SAFETY
        for i in np.flatnonzero(np.isnan(value)):
            value[i] = self._bounds(float(flat[i]))[1]
        return np.minimum(value, 0.0).reshape(np.shape(epsilon))

    def _fast(self, eps: FloatArray) -> FloatArray:
        """In doubles; NaN where they are not known to do."""
        result = np.full(eps.shape, np.nan)
        ended = np.array([self._ends_before(float(e)) for e in eps], dtype=bool)
        result[ended] = -np.inf
        if self._once:
            (t,), (m,) = self.distance, self.dimension
            below = eps <= -t
            result[below] = least_log_delta(eps[below])
            inside = ~(ended | below)
            result[inside] = one_log_delta(m, t, eps[inside])
            return result
        for i in np.flatnonzero(~ended & (eps >= 0.0)):
            result[i] = self._sum.log_delta(float(eps[i]))
        behind = eps < 0.0
        if behind.any():
            back = self.reversed()._fast(-eps[behind])
            result[behind] = np.log(-np.expm1(eps[behind]) + np.exp(eps[behind] + back))
        return result

    def _ends_before(self, eps: float) -> bool:
        """Whether no loss is above eps: exactly, but beside a Gaussian part."""
        if self.gaussian is not None:
            return eps >= float(self.supremum())
        return Fraction(eps) >= self._sum.exact_reach

    def supremum(self) -> Any:
        """The largest loss, rounded up."""
        if self.gaussian is not None:
            return (self._sum.reach + float(self.gaussian.supremum())) * (1.0 + 1e-12)
        top = float(self._sum.exact_reach)
        return top if Fraction(top) >= self._sum.exact_reach else math.nextafter(top, math.inf)

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """Ln E_P[e^{sL}], rounded up."""
        order = _validate.floats("s", s)
        with certified.precision(BITS):
            values = [self._log_moment(float(each)) for each in order.reshape(-1)]
        result = np.array(values).reshape(order.shape)
        return (result if self.gaussian is None else result + self.gaussian.finite_cumulant(order))[
            ()
        ]

    def _log_moment(self, s: float) -> float:
        z = abs(arb(s) + arb(0.5))
        return certified._up(
            sum((k * law_of(m, t).log(z * arb(t)) for t, m, k in self._sum.terms), arb(0))
        )

    def reversed(self) -> SphericalLoss:
        """The loss of the reversed pair: the same but for the Gaussian part."""
        if self.gaussian is None:
            return self
        return SphericalLoss(self.distance, self.dimension, self.count, self.gaussian.reversed())

    def _plus(self, other: PrivacyLoss) -> SphericalLoss | None:
        """Moment functions multiply; None where their product falls too slowly."""
        if isinstance(other, QuadraticLoss):
            if other.batch_shape or np.isinf(other.excess).any():
                return None
            parts = self.distance, self.dimension, self.count
            gaussian = other if self.gaussian is None else self.gaussian + other
        elif isinstance(other, SphericalLoss):
            parts = tuple(getattr(self, name) + getattr(other, name) for name in self.stored[:3])
            gaussians = [each for each in (self.gaussian, other.gaussian) if each is not None]
            gaussian = sum(gaussians[1:], gaussians[0]) if gaussians else None
        else:
            return None
        try:
            return SphericalLoss(*parts, gaussian)
        except ValueError:
            return None

    def _times(self, times: int) -> SphericalLoss:
        counts = [times * k for k in self.count]
        gaussian = None if self.gaussian is None else times * self.gaussian
        return SphericalLoss(self.distance, self.dimension, counts, gaussian)


def _beyond(bounds: tuple[float, float], eps: float) -> tuple[float, float]:
    """Bounds at a negative epsilon from those of the reversed pair at its opposite."""
    with certified.precision(BITS):
        low, high = ((arb(eps) + arb(b)).exp() - arb(eps).expm1() for b in bounds)
        return certified._down(low.log()), min(certified._up(high.log()), 0.0)


@functools.lru_cache(maxsize=256)
def _table(distance: float, dimension: int) -> TabulatedLoss:
    """One release, tabulated: both directions are alike, and beyond the distance delta is 0."""
    one = SphericalLoss(distance, dimension)

    def upper(eps: FloatArray) -> FloatArray:
        return np.exp(one.upper_log_delta(eps))

    return TabulatedLoss.from_profile(
        upper, upper, step=power_of_two(distance / _CELLS), high=distance
    )
