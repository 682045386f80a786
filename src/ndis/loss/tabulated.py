"""Losses that are not one Gaussian pair: a pessimistic table beside an exact Gaussian part.

The worst case of some mechanisms is a family of pairs, an amplified or a mixed mechanism. Its
privacy profile D(e^eps) = delta(eps) is still convex in x = e^eps with D(0) = 1, so the polygon
through the points of a grid lies on or above it, and that polygon is the profile of a
discrete pair of laws: at the grid point l_j the kink of the polygon is the mass under Q, and
p_j = e^{l_j} q_j the mass under P; what is left of D beyond the grid is P's mass at +infinity, and
what the slope at 0 lacks of -1 is Q's mass at -infinity. This pair dominates the original one
at every epsilon, hence under composition too. For negative epsilons the profile is taken from
the reversed pair, delta(-eps) = 1 - e^-eps + e^-eps delta_rev(eps): only what exceeds the trivial
(1 - x)_+ is stored, so that both directions keep their digits.

A table composes with a table by adding losses (a convolution, all terms positive) and with a
Gaussian loss exactly: delta(eps) = p_inf + sum_j p_j delta_gauss(eps - l_j). The Gaussian part is
kept as it is, never tabulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.loss.base import SAFETY, PrivacyLoss
from ndis.loss.quadratic import QuadraticLoss

FloatArray = NDArray[np.float64]

# What a composition may move to +infinity (and so add to delta) to keep its table short.
_CUT = 1e-45
# No loss below minus this is tabulated: P's mass there, times e^loss at least, has no digits left.
_REACH = 600.0
# Up to this many products a convolution is done directly, with relative accuracy everywhere.
_DIRECT = 3e7


class TabulatedLoss(PrivacyLoss):
    """A discrete privacy loss on a regular grid, beside an exact Gaussian one.

    Parameters
    ----------
    step : float
        Distance between grid points.
    start : int
        Index of the first grid point; the losses are (start + j) * step.
    mass : array_like
        Probability under P of each loss.
    infinite : float
        Probability under P of the loss +infinity.
    absent : float
        Probability under Q of the loss -infinity (where P has nothing).
    exact : QuadraticLoss, optional
        An independent Gaussian part.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import QuadraticLoss, TabulatedLoss
    >>> gauss = QuadraticLoss.from_shift(1.0)
    >>> table = TabulatedLoss.from_profile(gauss.delta, gauss.delta, step=0.01, high=12.0)
    >>> ratio = (table + gauss).delta(2.0) / (2 * gauss).delta(2.0)
    >>> bool(1.0 <= ratio < 1.0001)
    True
    """

    __slots__ = ("absent", "exact", "infinite", "mass", "start", "step")

    def __init__(
        self,
        step: float,
        start: int,
        mass: ArrayLike,
        infinite: float = 0.0,
        absent: float = 0.0,
        exact: QuadraticLoss | None = None,
    ) -> None:
        self.step = _validate.positive("step", step)
        self.start = int(start)
        self.mass = np.atleast_1d(_validate.floats_within("mass", mass, 0.0, math.inf))
        self.infinite = _validate.non_negative("infinite", infinite)
        self.absent = _validate.non_negative("absent", absent)
        self.exact = exact
        if exact is not None and exact.batch_shape:
            raise ValueError(
                f"Expected a single exact loss, got a batch of shape {exact.batch_shape}; index it."
            )

    @classmethod
    def from_profile(
        cls,
        delta: Callable[[FloatArray], ArrayLike],
        delta_reversed: Callable[[FloatArray], ArrayLike],
        *,
        step: float,
        high: float,
        exact: QuadraticLoss | None = None,
    ) -> TabulatedLoss:
        """Tabulate a privacy profile for epsilons from -high to high, rounded up.

        Parameters
        ----------
        delta, delta_reversed : callable
            Map an array of epsilons >= 0 to the deltas of the pair and of the reversed pair,
            each with a relative error below 1e-11; for a family of pairs, the largest deltas.
        step, high : float
            The grid. Beyond its ends the profile is bounded by a constant and by a chord, so
            that a table which ends early is only less tight.
        """
        h = _validate.positive("step", step)
        last = math.ceil(_validate.positive("high", high) / h)
        right: FloatArray = h * np.arange(last + 1, dtype=np.float64)
        left = right[: max(2, math.floor(_REACH / h) + 1)]
        after, before = _rounded_up(delta, right), _rounded_up(delta_reversed, left)
        after[0] = before[0] = max(after[0], before[0])  # both are the total variation distance
        mass_after, slope_after = _kinks(right, after)
        mass_before, slope_before = _kinks(left, before)
        # P's masses add up to 1. What is left for the loss 0 is at least 0 but for rounding, and
        # more mass there changes no delta at epsilon >= 0, in either direction.
        at_zero = max(1.0 - after[0] + slope_after + slope_before, 0.0)
        mass = np.concatenate([(mass_before * np.exp(-left))[:0:-1], [at_zero], mass_after[1:]])
        return cls(h, 1 - left.size, mass, float(after[-1]), float(before[-1]), exact)

    # -- algebra -----------------------------------------------------------------------------

    @property
    def grid(self) -> FloatArray:
        """The finite losses."""
        result: FloatArray = self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))
        return result

    def reversed(self) -> TabulatedLoss:
        """The loss of the reversed pair.

        Losses beyond 600 become minus infinity, which only raises delta: what the other law has
        there is below any double worth keeping, and is counted as infinite.
        """
        other = self.mass * np.exp(-self.grid)
        kept = max(1, int(np.count_nonzero(self.grid <= _REACH)))
        return TabulatedLoss(
            self.step,
            -(self.start + kept - 1),
            other[:kept][::-1],
            self.absent + float(other[kept:].sum()),
            self.infinite + float(self.mass[kept:].sum()),
            None if self.exact is None else self.exact.reversed(),
        )

    def __add__(self, other: object) -> TabulatedLoss:
        """Independent composition with another table or with a Gaussian loss."""
        if isinstance(other, QuadraticLoss):
            exact = other if self.exact is None else self.exact + other
            return TabulatedLoss(
                self.step, self.start, self.mass, self.infinite, self.absent, exact
            )
        if not isinstance(other, TabulatedLoss):
            return NotImplemented
        a, b = self, other
        if a.step != b.step:
            a, b = (a, b._regrid(a.step)) if a.step > b.step else (a._regrid(b.step), b)
        parts = [part for part in (a.exact, b.exact) if part is not None]
        together = parts[0] + parts[1] if len(parts) == 2 else (parts[0] if parts else None)
        mass, shift, cut, cut_below = _trimmed(_convolution(a, b), a.step)
        start = a.start + b.start + shift
        return TabulatedLoss(
            a.step,
            start,
            mass,
            a.infinite + b.infinite - a.infinite * b.infinite + cut,
            a.absent + b.absent - a.absent * b.absent + cut_below * math.exp(-a.step * start),
            together,
        )

    __radd__ = __add__

    def __mul__(self, times: object) -> TabulatedLoss:
        """The same release made `times` times, independently."""
        if not isinstance(times, int | np.integer) or isinstance(times, bool):
            return NotImplemented
        k = _validate.count("times", times)
        result: TabulatedLoss | None = None
        power = self._bare()
        while k:
            if k & 1:
                result = power if result is None else result + power
            k >>= 1
            power = power + power if k else power
        assert result is not None
        return result if self.exact is None else result + int(times) * self.exact

    def _regrid(self, step: float) -> TabulatedLoss:
        """The same table on a coarser grid, rounded up."""
        bare, high = self._bare(), float(np.abs(self.grid).max()) + step
        return TabulatedLoss.from_profile(
            bare.delta, bare.reversed().delta, step=step, high=high, exact=self.exact
        )

    def _bare(self) -> TabulatedLoss:
        """The table without its Gaussian part."""
        return TabulatedLoss(self.step, self.start, self.mass, self.infinite, self.absent)

    def __repr__(self) -> str:
        """Name the size of the table and the exact part."""
        return (
            f"TabulatedLoss({self.mass.size} grid points, step={self.step:g}, exact={self.exact!r})"
        )

    def __eq__(self, other: object) -> bool:
        """Equal stored numbers."""
        if not isinstance(other, TabulatedLoss):
            return NotImplemented
        return (self.step, self.start, self.infinite, self.absent, self.exact) == (
            other.step,
            other.start,
            other.infinite,
            other.absent,
            other.exact,
        ) and np.array_equal(self.mass, other.mass)

    def __hash__(self) -> int:
        """Hash of the stored numbers."""
        return hash(
            (self.step, self.start, self.mass.tobytes(), self.infinite, self.absent, self.exact)
        )

    # -- readings ----------------------------------------------------------------------------

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon) of the stored table, which is an upper bound on what it stands for."""
        eps = _validate.epsilons(epsilon)
        flat = eps.reshape(-1)
        with np.errstate(divide="ignore"):
            log_mass, log_infinite = (
                np.log(self.mass),
                math.log(self.infinite) if self.infinite else -math.inf,
            )
        live = np.flatnonzero(self.mass)
        points, weights = self.grid[live], log_mass[live]
        loss = self.exact if self.exact is not None else QuadraticLoss(0.0, 0.0, 0.0)
        result = np.array(
            [
                np.logaddexp(log_infinite, _log_sum(weights + loss.log_delta(e - points)))
                for e in flat
            ]
        )
        return np.minimum(result, 0.0).reshape(eps.shape)[()]  # delta <= 1 is a theorem

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Bounds that allow for rounding in the sum over the table (all its terms are positive)."""
        value = np.asarray(self.log_delta(epsilon))
        margin = math.log1p(SAFETY)
        return (value - margin)[()], np.minimum(value + margin, 0.0)[()]

    def supremum(self) -> float:
        """The largest value of the loss."""
        if self.infinite > 0:
            return math.inf
        top = float(self.grid[np.flatnonzero(self.mass)[-1]])
        return top + (0.0 if self.exact is None else float(self.exact.supremum()))

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """Ln E_P[e^{sL}; L finite]: the cumulant of the loss short of its infinite part."""
        order = _validate.floats("s", s)
        with np.errstate(divide="ignore"):
            log_mass = np.log(self.mass)
        flat = [_log_sum(log_mass + v * self.grid) for v in order.reshape(-1)]
        table = np.array(flat).reshape(order.shape)
        return (table if self.exact is None else table + self.exact.cumulant(order))[()]

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha > 1 of the table; +inf if it has infinite losses."""
        order = _validate.floats_within("alpha", alpha, 1.0, math.inf, closed=False)
        if self.infinite > 0:
            return np.full(order.shape, np.inf)[()]
        return self.finite_cumulant(order - 1.0) / (order - 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The stored numbers, exactly."""
        return {
            "kind": "tabulated",
            "step": self.step.hex(),
            "start": self.start,
            "mass": [float(v).hex() for v in self.mass],
            "infinite": self.infinite.hex(),
            "absent": self.absent.hex(),
            "exact": None if self.exact is None else self.exact.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TabulatedLoss:
        """Read what `to_dict` wrote."""
        return cls(
            float.fromhex(stored["step"]),
            stored["start"],
            [float.fromhex(v) for v in stored["mass"]],
            float.fromhex(stored["infinite"]),
            float.fromhex(stored["absent"]),
            None if stored["exact"] is None else QuadraticLoss.from_dict(stored["exact"]),
        )


def _rounded_up(profile: Callable[[FloatArray], ArrayLike], epsilons: FloatArray) -> FloatArray:
    values = _validate.floats_within("delta", profile(epsilons), 0.0, 1.0 + SAFETY)
    if values.shape != epsilons.shape:
        raise ValueError(
            f"Expected delta to return {epsilons.shape} values, got {values.shape}; vectorise it."
        )
    return np.minimum(values * (1.0 + SAFETY), 1.0)  # delta <= 1 is a theorem


def _kinks(epsilons: FloatArray, delta: FloatArray) -> tuple[FloatArray, float]:
    """The polygon through (x_j, delta_j), x = e^eps, flat after the last: x_j times its kinks.

    Also its slope at the first point. Rounding up may have broken convexity in the last
    digits: the lower convex hull of points on or above a convex function is still on or
    above it. Slopes are kept in units of 1/x_j, so that nothing overflows.
    """

    def towards(j: int, k: int) -> float:
        """x_j times the slope between points j and k."""
        return float((delta[k] - delta[j]) / np.expm1(epsilons[k] - epsilons[j]))

    hull = [0]
    for k in range(1, epsilons.size):
        while len(hull) > 1 and towards(hull[-1], hull[-2]) >= towards(hull[-1], k):
            hull.pop()
        hull.append(k)
    points = np.array(hull)
    gaps, falls = np.diff(epsilons[points]), np.diff(delta[points])
    forward = np.append(falls / np.expm1(gaps), 0.0)  # seen from the left end of each side
    backward = falls / -np.expm1(-gaps)  # and from its right end
    mass = np.zeros(epsilons.size)
    # On a hull kinks are positive; a difference that rounding made negative is a zero.
    mass[points[1:]] = np.maximum(forward[1:] - backward, 0.0)
    return mass, float(forward[0])


def _log_sum(logs: FloatArray) -> float:
    top = float(np.max(logs, initial=-math.inf))
    if math.isinf(top):
        return top
    return top + math.log(float(np.exp(logs - top).sum()))


def _convolution(a: TabulatedLoss, b: TabulatedLoss) -> FloatArray:
    """The law of the sum of two tables, never below it anywhere."""
    if float(a.mass.size) * b.mass.size <= _DIRECT:
        return np.convolve(a.mass, b.mass) * (1.0 + 1e-15 * min(a.mass.size, b.mass.size))
    # The FFT's error is relative to the largest entry. Tilting by e^{s l} first puts that entry
    # into the part of the table that matters: P's tail, P's and Q's bodies, Q's tail. The error
    # is added, so each tilt gives an upper bound everywhere, and so does the least of them.
    tail = _tilt(a, b)
    tail_reversed = _tilt(a.reversed(), b.reversed())
    orders = (tail, 0.0, -1.0, -1.0 - tail_reversed)
    result: FloatArray = np.exp(np.min([_tilted_convolution(a, b, s) for s in orders], axis=0))
    return result


def _tilted_convolution(a: TabulatedLoss, b: TabulatedLoss, s: float) -> FloatArray:
    """Upper bounds on ln of the convolution, sharp where e^{s l} times it is large."""
    from scipy.fft import irfft, next_fast_len, rfft

    length = a.mass.size + b.mass.size - 1
    size = next_fast_len(length, real=True)
    tilted, log_norm = [], 0.0
    for part in (a, b):
        with np.errstate(divide="ignore"):
            logs = np.log(part.mass) + s * part.step * np.arange(part.mass.size)
        norm = _log_sum(logs)
        log_norm += norm
        tilted.append(np.exp(logs - norm))
    total = irfft(rfft(tilted[0], size) * rfft(tilted[1], size), size)[:length]
    # The standard bound on the error of two transforms and their inverse, with room to spare.
    squares = float((tilted[0] ** 2).sum() * (tilted[1] ** 2).sum())
    error = 16.0 * float(np.finfo(np.float64).eps) * math.log2(size) * math.sqrt(squares)
    # Negative entries are rounding error; the error just added covers them.
    result: FloatArray = np.log(np.maximum(total, 0.0) + error)
    return result + log_norm - s * a.step * np.arange(length)


def _tilt(a: TabulatedLoss, b: TabulatedLoss) -> float:
    """An order s at which the Chernoff bound e^{Lambda(s) - s Lambda'(s)} is about 1e-12."""
    bare = [part._bare() for part in (a, b)]

    def exponent(s: float) -> float:
        here, ahead = (sum(float(t.finite_cumulant(v)) for t in bare) for v in (s, 1.001 * s))
        return here - (ahead - here) / 0.001

    low, high = 1e-6, 1e6
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if exponent(middle) > -27.0 else (low, middle)
    return low


def _trimmed(mass: FloatArray, step: float) -> tuple[FloatArray, int, float, float]:
    """Cut a table's ends: P's top goes to +infinity, Q's bottom to -infinity.

    Returns the table, the number of points cut below, and what was cut: P's mass above, and
    Q's mass below in units of e^{-loss} at the first point kept. What P has below is moved up
    onto that point. All three only raise delta.
    """
    above = np.cumsum(mass[::-1])[::-1]
    last = max(1, int(np.count_nonzero(above > _CUT)))
    below = np.cumsum(mass[:last])
    first = min(int(np.count_nonzero(below <= _CUT)), last - 1)
    kept = mass[first:last].copy()
    kept[0] += below[first - 1] if first else 0.0
    under_q = float((mass[:first] * np.exp(step * (first - np.arange(first)))).sum())
    return kept, first, float(above[last]) if last < mass.size else 0.0, under_q
