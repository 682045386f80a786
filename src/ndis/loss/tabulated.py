"""Losses that are not one Gaussian pair: a pessimistic table beside an exact Gaussian part.

The worst case of some mechanisms is a family of pairs, an amplified or a mixed mechanism. Its
privacy profile D(e^eps) = delta(eps) is still convex in x = e^eps with D(0) = 1, so the polygon
through the points of a grid lies on or above it, and that polygon is the profile of a
discrete pair of laws: at the grid point l_j the kink of the polygon is the mass under Q, and
p_j = e^{l_j} q_j the mass under P; what is left of D beyond the grid is mass at +infinity. This
pair dominates the original one at every epsilon, hence under composition too.

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
# Up to this many products a convolution is done directly, with relative accuracy everywhere.
_DIRECT = 5e8


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
        Probability under P of an infinite loss.
    exact : QuadraticLoss, optional
        An independent Gaussian part.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import QuadraticLoss, TabulatedLoss
    >>> gauss = QuadraticLoss.from_shift(1.0)
    >>> table = TabulatedLoss.from_profile(gauss.delta, step=0.01, low=-10.0, high=12.0)
    >>> ratio = (table + gauss).delta(2.0) / (2 * gauss).delta(2.0)
    >>> bool(1.0 <= ratio < 1.0001)
    True
    """

    __slots__ = ("exact", "infinite", "mass", "start", "step")

    def __init__(
        self,
        step: float,
        start: int,
        mass: ArrayLike,
        infinite: float = 0.0,
        exact: QuadraticLoss | None = None,
    ) -> None:
        self.step = _validate.positive("step", step)
        self.start = int(start)
        self.mass = np.atleast_1d(_validate.floats_within("mass", mass, 0.0, math.inf))
        self.infinite = _validate.non_negative("infinite", infinite)
        self.exact = exact
        if exact is not None and exact.batch_shape:
            raise ValueError(
                f"Expected a single exact loss, got a batch of shape {exact.batch_shape}; index it."
            )

    @classmethod
    def from_profile(
        cls,
        delta: Callable[[FloatArray], ArrayLike],
        *,
        step: float,
        low: float,
        high: float,
        exact: QuadraticLoss | None = None,
    ) -> TabulatedLoss:
        """Tabulate a privacy profile on a grid between two epsilons, rounded up.

        Parameters
        ----------
        delta : callable
            Maps an array of epsilons (negative ones included) to deltas with a relative error
            below 1e-11; for a family of pairs, the largest delta.
        step, low, high : float
            The grid. Below `low` the profile is bounded by a chord, above `high` by its value
            there, so a table that ends early is only less tight.
        """
        h = _validate.positive("step", step)
        first, last = (
            math.floor(_validate.real("low", low) / h),
            math.ceil(_validate.real("high", high) / h),
        )
        if last <= first:
            raise ValueError(f"Expected low < high, got low={low} and high={high}; widen the grid.")
        grid = h * np.arange(first, last + 1)
        values = _validate.floats_within("delta", np.asarray(delta(grid)), 0.0, 1.0 + SAFETY)
        if values.shape != grid.shape:
            raise ValueError(
                f"Expected delta to return {grid.shape} values, got {values.shape}; vectorise it."
            )
        # delta <= 1 and delta >= 1 - e^eps are theorems; rounding up must respect the first.
        values = np.minimum(values * (1.0 + SAFETY), 1.0)
        # p = x q does not depend on the unit of x = e^eps: take one in which nothing overflows.
        mass = _kinks(np.exp(grid - grid[-1]), values)
        return cls(h, first, mass, float(values[-1]), exact)

    # -- algebra -----------------------------------------------------------------------------

    @property
    def grid(self) -> FloatArray:
        """The finite losses."""
        return self.step * (self.start + np.arange(self.mass.size))

    def reversed(self) -> TabulatedLoss:
        """The loss of the reversed pair."""
        under_q = self.mass * np.exp(-self.grid)
        missing = 1.0 - math.fsum(under_q)
        return TabulatedLoss(
            self.step,
            -(self.start + self.mass.size - 1),
            under_q[::-1],
            # What Q has where P has nothing; rounding must not make it negative.
            max(missing, 0.0) + SAFETY * math.fsum(under_q),
            None if self.exact is None else self.exact.reversed(),
        )

    def __add__(self, other: object) -> TabulatedLoss:
        """Independent composition with another table or with a Gaussian loss."""
        if isinstance(other, QuadraticLoss):
            exact = other if self.exact is None else self.exact + other
            return TabulatedLoss(self.step, self.start, self.mass, self.infinite, exact)
        if not isinstance(other, TabulatedLoss):
            return NotImplemented
        a, b = self, other
        if a.step != b.step:
            a, b = (a, b._regrid(a.step)) if a.step > b.step else (a._regrid(b.step), b)
        parts = [part for part in (a.exact, b.exact) if part is not None]
        exact = parts[0] + parts[1] if len(parts) == 2 else (parts[0] if parts else None)
        mass, shift, cut = _trimmed(_convolution(a, b))
        infinite = a.infinite + b.infinite - a.infinite * b.infinite + cut
        return TabulatedLoss(a.step, a.start + b.start + shift, mass, infinite, exact)

    __radd__ = __add__

    def __mul__(self, times: object) -> TabulatedLoss:
        """The same release made `times` times, independently."""
        if not isinstance(times, int | np.integer) or isinstance(times, bool):
            return NotImplemented
        k = _validate.count("times", times)
        result: TabulatedLoss | None = None
        power = TabulatedLoss(self.step, self.start, self.mass, self.infinite)
        while k:
            if k & 1:
                result = power if result is None else result + power
            k >>= 1
            power = power + power if k else power
        assert result is not None
        return result if self.exact is None else result + int(times) * self.exact

    __rmul__ = __mul__

    def _regrid(self, step: float) -> TabulatedLoss:
        """The same table on a coarser grid, rounded up."""
        bare = TabulatedLoss(self.step, self.start, self.mass, self.infinite)
        low, high = self.grid[0] - step, self.grid[-1] + step
        return TabulatedLoss.from_profile(
            bare.delta, step=step, low=low, high=high, exact=self.exact
        )

    def __repr__(self) -> str:
        """Name the size of the table and the exact part."""
        return (
            f"TabulatedLoss({self.mass.size} grid points, step={self.step:g}, exact={self.exact!r})"
        )

    def __eq__(self, other: object) -> bool:
        """Equal stored numbers."""
        if not isinstance(other, TabulatedLoss):
            return NotImplemented
        return (self.step, self.start, self.infinite, self.exact) == (
            other.step,
            other.start,
            other.infinite,
            other.exact,
        ) and np.array_equal(self.mass, other.mass)

    def __hash__(self) -> int:
        """Hash of the stored numbers."""
        return hash((self.step, self.start, self.infinite, self.mass.tobytes(), self.exact))

    # -- readings ----------------------------------------------------------------------------

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """ln delta(epsilon) of the stored table, which is an upper bound on what it stands for."""
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
        """ln E_P[e^{sL}; L finite]: the cumulant of the loss short of its infinite part."""
        order = _validate.floats("s", s)
        with np.errstate(divide="ignore"):
            log_mass = np.log(self.mass)
        flat = [_log_sum(log_mass + v * self.grid) for v in order.reshape(-1)]
        table = np.array(flat).reshape(order.shape)
        return (table if self.exact is None else table + self.exact.cumulant(order))[()]

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha > 1 of the stored table; +inf if it has infinite losses."""
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
            None if stored["exact"] is None else QuadraticLoss.from_dict(stored["exact"]),
        )


def _kinks(x: FloatArray, delta: FloatArray) -> FloatArray:
    """Masses under P of the polygon from (0, 1) through (x_j, delta_j), flat after the last.

    Rounding up may have broken convexity in the last digits: the lower convex hull of points
    on or above a convex function is still on or above it.
    """
    xs, ds = np.concatenate([[0.0], x]), np.concatenate([[1.0], delta])
    hull = [0]
    for j in range(1, xs.size):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (ds[b] - ds[a]) * (xs[j] - xs[b]) >= (ds[j] - ds[b]) * (xs[b] - xs[a]):
                hull.pop()
            else:
                break
        hull.append(j)
    keep = np.array(hull)
    slopes = np.append(np.diff(ds[keep]) / np.diff(xs[keep]), 0.0)
    mass = np.zeros(x.size)
    mass[keep[1:] - 1] = xs[keep[1:]] * np.diff(slopes)
    return mass


def _log_sum(logs: FloatArray) -> float:
    top = float(np.max(logs, initial=-math.inf))
    if math.isinf(top):
        return top
    return top + math.log(float(np.exp(logs - top).sum()))


def _convolution(a: TabulatedLoss, b: TabulatedLoss) -> FloatArray:
    """The law of the sum of two tables, never below it anywhere."""
    if float(a.mass.size) * b.mass.size <= _DIRECT:
        return np.convolve(a.mass, b.mass) * (1.0 + 1e-15 * min(a.mass.size, b.mass.size))
    from scipy.fft import irfft, next_fast_len, rfft

    # The FFT's error is relative to the largest entry. Tilting by e^{s l} first puts that
    # entry into the tail that matters, and the error itself is added, so that the result is an
    # upper bound everywhere.
    s = _tilt(a, b)
    size = next_fast_len(a.mass.size + b.mass.size - 1)
    tilted, log_norm = [], 0.0
    for part in (a, b):
        with np.errstate(divide="ignore"):
            logs = np.log(part.mass) + s * part.step * np.arange(part.mass.size)
        norm = _log_sum(logs)
        log_norm += norm
        tilted.append(np.exp(logs - norm))
    total = irfft(rfft(tilted[0], size) * rfft(tilted[1], size), size)
    total = total[: a.mass.size + b.mass.size - 1]
    error = (
        8.0
        * np.finfo(np.float64).eps
        * math.log2(size)
        * math.sqrt(float((tilted[0] ** 2).sum() * (tilted[1] ** 2).sum()))
    )
    back = np.exp(log_norm - s * a.step * np.arange(total.size))
    return (np.maximum(total, 0.0) + error) * back


def _tilt(a: TabulatedLoss, b: TabulatedLoss) -> float:
    """An order s at which e^{Lambda(s) - s Lambda'(s)} is about 1e-10."""
    best, gap = 0.0, math.inf
    for s in np.geomspace(1e-3, 1e3, 61):
        bare = [TabulatedLoss(t.step, t.start, t.mass) for t in (a, b)]
        here = sum(float(t.finite_cumulant(s)) for t in bare)
        ahead = sum(float(t.finite_cumulant(s * 1.001)) for t in bare)
        exponent = here - s * (ahead - here) / (0.001 * s)
        if abs(exponent + 23.0) < gap:
            best, gap = float(s), abs(exponent + 23.0)
    return best


def _trimmed(mass: FloatArray) -> tuple[FloatArray, int, float]:
    """Cut a table's ends: the top goes to infinity, the bottom up onto the first point kept."""
    above = np.cumsum(mass[::-1])[::-1]
    last = int(np.searchsorted(-above, -_CUT, side="right"))
    last = max(1, min(last, mass.size))
    cut = float(above[last]) if last < mass.size else 0.0
    below = np.cumsum(mass[:last])
    first = min(int(np.searchsorted(below, _CUT, side="left")), last - 1)
    kept = mass[first:last].copy()
    if first:
        kept[0] += below[first - 1]
    return kept, first, cut
