"""The loss of a release from a secret Poisson sample: every record is in it with the same rate q.

Let (P, Q) dominate the release with and without a record. From a sample it is then dominated by
((1-q) Q + q P, Q), and in the other order by the reverse of that pair. With alpha = e^eps,

    record present first:  q D_a(P, Q),              a = (alpha - 1 + q)/q,
    record absent first:   w D_b(Q, P),              w = 1 - alpha (1 - q),  b = alpha q/w,

and 0 where w <= 0. Only curves of the first loss are asked for, so that every kind of loss has its
subsampled one. Several releases add up as tables whose grids follow the curve.
docs/proofs/subsampled.md has the proofs, and the bound for replacing a record.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss, least_log_delta
from ndis.loss.profile import Profile
from ndis.loss.tabulated import TabulatedLoss, power_of_two

# An epsilon below minus this is as good as minus infinity.
_FAR = 700.0
# A table for replacing is made for so many releases.
_FEW = 1000
# The relative rounding error of an epsilon or a factor, at most.
_ROUNDING = 2.0**-48
# How far a fast value may lie outside proven bounds, by its own accuracy.
_FAST = 1e-11
# A table follows its curve within this share of delta, and so that k of them add at most this to
# the variance of the total; it ends at this delta; and has at most so many places.
_SHARE, _VARIANCE, _END, _PLACES = 2e-5, 6e-5, 1e-20, 1 << 17
# ln of a delta below which that share is not asked for.
_DEEP = math.log(1e-14)
# Where ln delta has fallen by more than this, no finer grid is made.
_BODY = 2.0


class SubsampledLoss(PrivacyLoss):
    """Releases from secret Poisson samples.

    Parameters
    ----------
    loss : PrivacyLoss
        One release from all records, record present first.
    rate : float
        The probability with which each record is in the sample, independently.
    absent : bool
        Whether this is the order with the record absent first.
    count : int
        How many such releases there are, each from a sample of its own.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> step = QuadraticLoss.from_shift(1.0).subsampled(0.01)
    >>> f"{step.delta(0.0):.6f} {(1000 * step).epsilon(1e-5):.3f}"
    '0.003829 1.828'
    """

    kind = "subsampled"
    stored = ("loss", "rate", "absent", "count")

    def __init__(
        self, loss: PrivacyLoss, rate: float, absent: bool = False, count: int = 1
    ) -> None:
        if len(loss.directions()) != 2 or loss.alternatives() != (loss,):
            raise ValueError("Expected one loss, got a profile of several; call its `subsampled`.")
        self.loss = loss.single()
        self.rate = _validate.probability("rate", rate)
        self.absent, self.count = bool(absent), _validate.count("count", count)

    @property
    def exactness(self) -> Exactness:
        """That of the first loss; several releases are tables."""
        return self.loss.exactness if self.count == 1 else "upper bound"

    @property
    def quick(self) -> bool:  # type: ignore[override]
        """Several releases are a table; one is as quick as the first loss."""
        return self.count > 1 or self.loss.quick

    @property
    def _base(self) -> PrivacyLoss:
        return self.loss.reversed() if self.absent else self.loss

    def _inner(self, eps: FloatArray, doubt: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Ln of the factor and the inner epsilon, eps >= 0; with doubt, delta is larger."""
        q = self.rate
        if self.absent:
            room = eps + math.log1p(-q)
            room = room - doubt * (eps - math.log1p(-q)) * 4.0
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.log(-np.expm1(np.minimum(room, 0.0)))
            inner = eps + math.log(q) - factor
        else:
            factor = np.full(eps.shape, math.log(q))
            small = eps < 1.0
            inner = np.empty(eps.shape)
            inner[small] = np.log1p(np.expm1(eps[small]) / q)
            inner[~small] = eps[~small] + np.log1p(-(1.0 - q) * np.exp(-eps[~small])) - math.log(q)
        with np.errstate(invalid="ignore"):
            factor = factor + doubt * (1.0 + np.abs(factor))
            inner = inner - doubt * (1.0 + np.abs(inner) + np.abs(eps))
        return factor, inner

    def _through(
        self, eps: FloatArray, doubt: float, curve: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """The curve of the sample from that of the first loss, eps >= 0."""
        factor, inner = self._inner(eps, doubt)
        result = np.full(eps.shape, -np.inf)
        live = np.isfinite(factor)
        if live.any():
            result[live] = factor[live] + np.asarray(curve(np.maximum(inner[live], 0.0)))
        return result

    def _both(
        self, eps: FloatArray, curve: Callable[[SubsampledLoss, FloatArray], FloatArray]
    ) -> FloatArray:
        """A curve at any epsilon, from those of both orders at epsilons >= 0."""
        result, back = np.empty(eps.shape), eps < 0
        result[~back] = curve(self, eps[~back])
        if back.any():
            behind = curve(self.reversed(), -eps[back])
            result[back] = np.log(-np.expm1(eps[back]) + np.exp(eps[back] + behind))
        return result

    # -- the contract --------------------------------------------------------------------------

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven bounds of the first loss at the inner epsilon, moved by what rounding can do."""
        eps = _validate.epsilons(epsilon)
        flat = eps.reshape(-1)
        if self.count > 1:
            return least_log_delta(eps)[()], self.upper_log_delta(eps)[()]

        def bound(side: int) -> Callable[[SubsampledLoss, FloatArray], FloatArray]:
            return lambda way, e: way._through(
                e,
                side * _ROUNDING,
                lambda x: np.asarray(way._base.log_delta_bounds(x)[int(side > 0)]),
            )

        low, high = self._both(flat, bound(-1)), self._both(flat, bound(1))
        low, high = low - 1e-14, high + 1e-14  # of the logarithms at negative epsilons
        if self.exactness == "exact":  # what `log_delta` returns is enclosed too
            value = self._value(flat)
            with np.errstate(invalid="ignore"):
                near = (value > low - _FAST) & (value < high + _FAST)
            low = np.where(near, np.minimum(low, value), low)
            high = np.where(near, np.maximum(high, value), high)
        low, high = np.maximum(low, least_log_delta(flat)), np.minimum(high, 0.0)  # theorems
        return low.reshape(eps.shape)[()], high.reshape(eps.shape)[()]

    def _value(self, eps: FloatArray) -> FloatArray:
        return self._both(
            eps, lambda way, e: way._through(e, 0.0, lambda x: np.asarray(way._base.log_delta(x)))
        )

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """The value of one exact release, else the upper bound."""
        eps = _validate.epsilons(epsilon)
        if self.exactness == "exact":
            value = self._value(eps.reshape(-1))
        else:
            value = np.asarray(self.log_delta_bounds(eps.reshape(-1))[1])
        return value.reshape(eps.shape)[()]

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """The first loss's own quick bound, or that of the table."""
        eps = np.asarray(epsilon, dtype=np.float64)
        if self.count > 1:
            return self.dominating().upper_log_delta(eps)

        def upper(way: SubsampledLoss, e: FloatArray) -> FloatArray:
            return way._through(e, _ROUNDING, way._base.upper_log_delta)

        value = self._both(eps.reshape(-1), upper) + SAFETY
        return np.minimum(value, 0.0).reshape(eps.shape)

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Its own where it is quick."""
        if self.quick:
            return self.upper_log_delta(epsilon)
        return self.dominating().upper_log_delta(np.asarray(epsilon))

    def dominating(self) -> TabulatedLoss:
        """A table of one release that follows its curve, as often as there are."""
        present = _table(self.loss, self.rate, self.count)
        return present.reversed().dominating() if self.absent else present

    def supremum(self) -> Any:
        """The largest loss, rounded up: bounded by the rate where the record is absent first."""
        top, q = float(self._base.supremum()), self.rate
        if self.absent:
            top = min(-math.log1p(-q), top - math.log1p(-q + q * math.exp(min(top, 700.0))))
        elif math.isfinite(top):
            top = top + math.log(q + (1.0 - q) * math.exp(-top))
        return self.count * max(top, 0.0) * (1.0 + _ROUNDING)

    @property
    def infinite_mass(self) -> float:
        """The infinite mass of the first loss, as often as it is sampled."""
        if self.absent:
            return 0.0 if self.count == 1 else float(self.dominating().infinite)
        return min(self.count * self.rate * self.loss.infinite_mass, 1.0)

    def reversed(self) -> SubsampledLoss:
        """The other order."""
        return SubsampledLoss(self.loss, self.rate, not self.absent, self.count)

    def _plus(self, other: PrivacyLoss) -> PrivacyLoss | None:
        """Equal ones are counted."""
        if not isinstance(other, SubsampledLoss):
            return None
        if (self.loss, self.rate, self.absent) != (other.loss, other.rate, other.absent):
            return None
        return SubsampledLoss(self.loss, self.rate, self.absent, self.count + other.count)

    def _times(self, times: int) -> SubsampledLoss:
        return SubsampledLoss(self.loss, self.rate, self.absent, times * self.count)


def replacing(removed: PrivacyLoss, replaced: PrivacyLoss, rate: float) -> Profile:
    """A bound on the loss where a record is replaced, both orders, from those of one release."""
    ways = [
        functools.partial(replaced_log_delta, _readable(one), _readable(two), rate)
        for one, two in zip((removed.directions()[0],) * 2, replaced.directions(), strict=True)
    ]
    end = max(
        _end(SubsampledLoss(_readable(each.directions()[0]), rate), _FEW)
        for each in (removed, replaced)
    )
    curves = [lambda eps, way=way: np.exp(way(eps)) for way in ways]
    return Profile.both(followed(curves[0], curves[1], [end, end], _FEW))


def _readable(loss: PrivacyLoss) -> PrivacyLoss:
    return loss if loss.quick else _flat(loss)


def replaced_log_delta(
    removed: PrivacyLoss, replaced: PrivacyLoss, rate: float, epsilon: FloatArray
) -> FloatArray:
    """An upper bound on ln delta where a record is replaced, eps >= 0.

    The lesser of two bounds, with a as above and b = alpha/a:

        q ((1-b) D_a(P, Q) + b D_a(P, P')),     q D_c(P, Q),  c = (1-q) (alpha - 1)/q.

    The first is advanced joint convexity, the second leaves P' out of what is subtracted.
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    factor, inner = SubsampledLoss(removed, rate)._inner(eps, _ROUNDING)
    share = np.minimum(np.exp(eps - inner) * (1.0 + _ROUNDING), 1.0)
    first, second = (
        np.exp(np.asarray(loss.upper_log_delta(np.maximum(inner, 0.0))))
        for loss in (removed, replaced)
    )
    with np.errstate(divide="ignore"):
        # Where the second is less the first alone is safe.
        convex = np.log(first + share * np.maximum(second - first, 0.0))
        # ln(alpha - 1), also where alpha is no double.
        above = eps + np.log(-np.expm1(-eps)) + math.log1p(-rate) - math.log(rate)
    above = np.maximum(above, -_FAR)
    above -= _ROUNDING * (1.0 + np.abs(above) + eps)
    return np.asarray(factor + np.minimum(convex, removed.upper_log_delta(above)))


@functools.lru_cache(maxsize=64)
def _table(loss: PrivacyLoss, rate: float, count: int) -> TabulatedLoss:
    """So many releases, record present first."""
    one = SubsampledLoss(loss, rate)
    ways = one, one.reversed()
    readable = [way if way.quick else SubsampledLoss(_flat(loss), rate, way.absent) for way in ways]

    def curve(turn: int) -> Callable[[FloatArray], FloatArray]:
        return lambda eps: np.exp(readable[turn].upper_log_delta(eps))

    table = followed(curve(0), curve(1), [_end(way, count) for way in readable], count)
    return table if count == 1 else count * table


def followed(
    present: Callable[[FloatArray], FloatArray],
    absent: Callable[[FloatArray], FloatArray],
    ends: list[float],
    count: int,
) -> TabulatedLoss:
    """A table of curves that many releases can use: fine where they bend, coarse elsewhere."""
    gaps = [_gaps(curve, end, count) for curve, end in zip((present, absent), ends, strict=True)]
    finest = min(float(gap[seen].min()) for _, gap, seen in gaps)
    step = power_of_two(max(finest, max(ends) / _PLACES))
    places = [
        _places(points, gap, end, step) for (points, gap, _), end in zip(gaps, ends, strict=True)
    ]
    return TabulatedLoss.from_profile(present, absent, step=step, high=max(ends), places=places)


def _flat(loss: PrivacyLoss) -> TabulatedLoss:
    return loss.dominating().without_gaussian()


def _end(way: SubsampledLoss, count: int) -> float:
    end = float(way.epsilon(_END / count))
    return end if math.isfinite(end) and end > 0 else max(way._base.dominating().end(), 1e-6)


def _gaps(
    curve: Callable[[FloatArray], FloatArray], end: float, count: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """At some epsilons, how far the next one may be; and which of them count."""
    points = np.concatenate([[0.0], end * np.geomspace(1e-6, 1.0, 200)])
    with np.errstate(divide="ignore"):
        heights = np.log(np.maximum(curve(points), 1e-300))
    slopes = np.maximum(-np.diff(heights) / np.diff(points), 0.0) + 1.0
    slopes = np.append(slopes, slopes[-1])
    mass = np.minimum(np.exp(heights) * slopes, 1.0)
    close = np.where(heights > _DEEP, math.sqrt(8.0 * _SHARE) / slopes, end)
    gaps = np.minimum(close, np.sqrt(_VARIANCE / (count * np.maximum(mass, 1e-30))))
    return points, gaps, heights >= heights[0] - _BODY


def _places(points: FloatArray, gaps: FloatArray, end: float, step: float) -> Any:
    """Places on the grid: the integral of 1/gap, one for each whole number."""
    last = math.ceil(end / step)
    grid = np.minimum(points, end)
    widths = np.maximum(gaps, step)
    counts = np.concatenate([[0.0], np.cumsum(np.diff(grid) / np.minimum(widths[:-1], widths[1:]))])
    at = np.interp(np.arange(math.ceil(counts[-1]) + 1), counts, grid)
    return np.unique(np.append(np.rint(at / step), [0, last]).astype(np.intp))
