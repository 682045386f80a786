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
kept as it is, never tabulated. This is the form in which every kind of loss composes, is exported
and can be stored (`PrivacyLoss.dominating`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import powers
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss, least_log_delta

if TYPE_CHECKING:
    from ndis.loss.quadratic import QuadraticLoss

# To keep its table short, a composition may move this much mass to +infinity, and so into delta.
_CUT = 1e-45
# No loss below minus this is tabulated: P's mass there, times e^loss at least, has no digits left.
_REACH = 600.0
# And e^this is a double.
_LOWEST = 700.0
# Up to this many products a convolution is done directly, with relative accuracy everywhere.
_DIRECT = 3e7
# Grid points of a table that is made of other losses, about; the delta at which it ends; and the
# most points that a finer grid may cost.
_POINTS, _END, _MOST = 2048, 1e-30, 1 << 20
# From so many equal tables on, all are added up at once.
_MANY = 8
# Blocks of a table that is read roughly.
_BLOCKS = 256
# Numbers held at a time where every grid point meets every epsilon.
_CHUNK = 1 << 20
# Terms smaller than the largest by this much, in logarithms, need no digits.
_NEGLIGIBLE = 45.0
# How far below 1 the masses may add up to, by rounding.
_ROUNDING = 1e-9
# Masses are as small as doubles can be; sums over them are taken in units of 2^-this.
_SCALE = 512


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

    kind = "tabulated"
    stored = ("step", "start", "mass", "infinite", "absent", "exact")
    exactness: Exactness = "upper bound"

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
        self.exact = None if exact is None else exact.single()
        self._reversed: PrivacyLoss | None = None
        total = float(self.mass.sum()) + self.infinite
        if total < 1.0 - _ROUNDING:
            raise ValueError(
                f"Expected mass and infinite to add up to 1, got {total:.6g}; count what is "
                "missing as infinite."
            )

    @classmethod
    def beside(cls, gaussian: QuadraticLoss) -> TabulatedLoss:
        """A Gaussian loss beside a table that says nothing: all its mass is at the loss 0."""
        return cls(1.0, 0, [1.0], exact=gaussian)

    @classmethod
    def from_profile(
        cls,
        delta: Callable[[FloatArray], ArrayLike],
        delta_reversed: Callable[[FloatArray], ArrayLike],
        *,
        step: float,
        high: float,
        places: Sequence[ArrayLike] | None = None,
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
        places : pair of array_like of int, optional
            Where on the grid to look, for the pair and for the reversed pair, from 0 on; everywhere
            if not given. Between them the profile is bounded by chords.
        """
        h = _validate.positive("step", step)
        last = math.ceil(_validate.positive("high", high) / h)
        everywhere = np.arange(last + 1)
        ahead, behind = (np.asarray(p) for p in (places or (everywhere, everywhere)))
        behind = behind[: max(2, int(np.count_nonzero(behind <= _REACH / h)))]
        right, left = h * ahead.astype(np.float64), h * behind.astype(np.float64)
        after, before = _rounded_up(delta, right), _rounded_up(delta_reversed, left)
        # Both bound the total variation distance, so that the lesser does; and curves fall.
        after[0] = before[0] = min(after[0], before[0])
        after, before = np.minimum.accumulate(after), np.minimum.accumulate(before)
        mass_after, slope_after = _kinks(right, after)
        mass_before, slope_before = _kinks(left, before)
        # P's masses add up to 1. What is left for the loss 0 is at least 0 but for rounding, and
        # more mass there changes no delta at epsilon >= 0, in either direction.
        at_zero = max(1.0 - after[0] + slope_after + slope_before, 0.0)
        mass = np.zeros(int(behind[-1] + ahead[-1]) + 1)
        mass[behind[-1] - behind] = mass_before * np.exp(-left)
        mass[behind[-1] + ahead] = mass_after
        mass[behind[-1]] = at_zero
        return cls(h, -int(behind[-1]), mass, float(after[-1]), float(before[-1]))

    # -- the contract --------------------------------------------------------------------------

    def dominating(self) -> TabulatedLoss:
        """Itself."""
        return self

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Ln delta of the stored table, rounded up; below, nothing is known of the truth."""
        eps = _validate.epsilons(epsilon)
        return least_log_delta(eps)[()], self.upper_log_delta(eps)[()]

    @property
    def quick(self) -> bool:  # type: ignore[override]
        """A table alone is quick; beside a Gaussian part every delta is a sum of Gaussian ones."""
        return self.exact is None

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """Ln delta of the stored table, rounded up: all terms of its sum are positive."""
        flat = epsilon.reshape(-1)
        value = self._of_table(flat) if self.exact is None else self._of_sum(flat)
        margin = math.log1p(SAFETY + 1e-15 * self.mass.size)
        # delta <= 1 is a theorem
        return np.asarray(np.minimum(value + margin, 0.0).reshape(epsilon.shape))

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Beside a Gaussian part, a table of a few hundred points: blocks at their middles."""
        if self.exact is None:
            return self.upper_log_delta(epsilon)
        points, weights = self._blocks
        gauss = self.exact.rough_log_delta(np.asarray(epsilon)[..., None] - points)
        with np.errstate(divide="ignore"):
            total = np.logaddexp(np.log(self.infinite), _log_sums(weights + gauss))
        return np.asarray(np.minimum(total, 0.0))

    @functools.cached_property
    def _blocks(self) -> tuple[FloatArray, FloatArray]:
        """A few hundred losses in place of all, each in the middle of its block; ln of its mass."""
        points, weights = self._live
        starts = np.arange(0, points.size, max(1, points.size // _BLOCKS))
        logs = np.logaddexp.reduceat(weights, starts) if points.size else weights
        middles = np.add.reduceat(points, starts) if points.size else points
        return middles / np.diff(np.append(starts, points.size)), logs

    def _of_table(self, eps: FloatArray) -> FloatArray:
        """On the polygon: delta at the next grid point, and how much the chord falls up to it."""
        grid, (heights, falls) = self.grid, self._polygon
        after = np.searchsorted(grid, eps, side="right")
        inside = after < grid.size
        j = np.minimum(after, grid.size - 1)
        with np.errstate(divide="ignore", under="ignore"):
            rest = np.where(inside, -np.expm1(np.minimum(eps - grid[j], 0.0)) * falls[j], 0.0)
            height = np.where(inside, heights[j], math.ldexp(self.infinite, _SCALE))
            return np.asarray(np.log(height + rest) - _SCALE * math.log(2.0))

    @functools.cached_property
    def _polygon(self) -> tuple[FloatArray, FloatArray]:
        """At each grid point delta, and e^loss times the mass of Q from there on; scaled."""
        # falls[j] = mass[j] + e^-step falls[j + 1]: of one term, of two, of four, ...
        falls, n_terms = np.ldexp(self.mass, _SCALE), 1
        while n_terms < falls.size:
            falls[:-n_terms] += math.exp(-self.step * n_terms) * falls[n_terms:]
            n_terms *= 2
        after = np.append(np.cumsum((-math.expm1(-self.step) * falls)[:0:-1])[::-1], 0.0)
        return after + math.ldexp(self.infinite, _SCALE), falls

    def _of_sum(self, eps: FloatArray) -> FloatArray:
        """ln(p_inf + sum_j p_j delta_gauss(eps - l_j))."""
        assert self.exact is not None
        points, weights = self._live
        result = np.empty(eps.size)
        few = slice(None, None, max(1, points.size // 64))
        for i, e in enumerate(eps.tolist()):
            # Terms far below the largest of a few need no digits.
            gauss = self.exact.upper_log_delta(e - points[few])
            negligible = np.max(weights[few] + gauss, initial=-math.inf) - _NEGLIGIBLE
            terms = weights + self.exact.upper_log_delta(e - points, negligible - weights)
            result[i] = _log_sums(terms)
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(self.infinite), result)

    @functools.cached_property
    def _live(self) -> tuple[FloatArray, FloatArray]:
        """The losses that have mass, and its logarithm."""
        live = np.flatnonzero(self.mass)
        return self.grid[live], np.log(self.mass[live])

    # -- algebra -------------------------------------------------------------------------------

    @property
    def grid(self) -> FloatArray:
        """The finite losses."""
        result: FloatArray = self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))
        return result

    def reversed(self, back: PrivacyLoss | None = None) -> Any:
        """The loss of the reversed pair; `back` is what its own reverse is, by default this table.

        Losses beyond 600 become minus infinity, which only raises delta: what the other law has
        there is below any double worth keeping, and is counted as infinite. No mass of the other
        law is above 1, though rounding, or a stranger's table, may say so where losses are low.
        """
        if self._reversed is not None and back is None:
            return self._reversed
        low = self.grid < -_LOWEST
        other = np.where(low, self.mass > 0.0, self.mass * np.exp(-np.where(low, 0.0, self.grid)))
        other = np.minimum(other, 1.0)
        kept = max(1, int(np.count_nonzero(self.grid <= _REACH)))
        turned = TabulatedLoss(
            self.step,
            -(self.start + kept - 1),
            other[:kept][::-1],
            self.absent + float(other[kept:].sum()),
            self.infinite + float(self.mass[kept:].sum()),
            None if self.exact is None else self.exact.reversed(),
        )
        turned._reversed = self if back is None else back
        if back is None:
            self._reversed = turned
        return turned

    def _plus(self, other: PrivacyLoss) -> TabulatedLoss | None:
        """Losses add up: a convolution of the tables, and the sum of the Gaussian parts."""
        if not isinstance(other, TabulatedLoss):
            return None
        gaussians = [part for part in (self.exact, other.exact) if part is not None]
        gaussian = functools.reduce(operator.add, gaussians) if gaussians else None
        for a, b in ((self, other), (other, self)):
            if b._says_nothing:
                return TabulatedLoss(a.step, a.start, a.mass, a.infinite, a.absent, gaussian)
        a, b = _on_one_grid(self, other)
        mass, shift, cut, cut_below = _trimmed(_convolution(a, b), a.step)
        start = a.start + b.start + shift
        return TabulatedLoss(
            a.step,
            start,
            mass,
            a.infinite + b.infinite - a.infinite * b.infinite + cut,
            a.absent + b.absent - a.absent * b.absent + cut_below * math.exp(-a.step * start),
            gaussian,
        )

    def _times(self, times: int) -> TabulatedLoss:
        """By squaring; the Gaussian part apart."""
        if self.exact is not None:
            total: TabulatedLoss = times * self._bare() + TabulatedLoss.beside(times * self.exact)
            return total
        found = self._power(times) if times >= _MANY else None
        if found is not None:
            return found
        half = (times // 2) * self
        double: TabulatedLoss = half + half
        return double + self if times % 2 else double

    def _power(self, times: int) -> TabulatedLoss | None:
        """All at once; None where the sum's table would be too long."""
        points, logs = self._live
        places = (self.start + np.flatnonzero(self.mass)).astype(np.float64)
        found = powers.power(points, places, logs, self.step, times) if points.size > 1 else None
        if found is None:
            return None
        start, mass, above, below = found
        # 1 - (1 - p)^k <= kp
        infinite, absent = (min(times * p, 1.0) for p in (self.infinite, self.absent))
        return TabulatedLoss(self.step, start, mass, infinite + above, absent + below)

    @property
    def _says_nothing(self) -> bool:
        alone = self.mass.size == 1 and self.mass[0] == 1.0 and self.start == 0
        return alone and self.infinite == self.absent == 0.0

    def _bare(self) -> TabulatedLoss:
        """The table without its Gaussian part."""
        return TabulatedLoss(self.step, self.start, self.mass, self.infinite, self.absent)

    def _regrid(self, step: float) -> TabulatedLoss:
        """The same table on another grid: exactly on one that divides its own, else rounded up."""
        ratio = self.step / step
        if ratio == math.floor(ratio) and self.mass.size * ratio <= _MOST:
            finer = np.zeros((self.mass.size - 1) * int(ratio) + 1)
            finer[:: int(ratio)] = self.mass
            start = self.start * int(ratio)
            return TabulatedLoss(step, start, finer, self.infinite, self.absent, self.exact)
        high = float(np.abs(self.grid).max()) + step
        table = _from_curves([self._bare()], step, high)
        table.exact = self.exact
        return table

    def without_gaussian(self) -> TabulatedLoss:
        """A table alone that dominates this loss: its Gaussian part tabulated too.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> gauss = QuadraticLoss.from_shift(1.0)
        >>> table = gauss.dominating().without_gaussian()
        >>> table.exact is None, bool(1.0 <= table.delta(1.0) / gauss.delta(1.0) < 1.001)
        (True, True)
        """
        return self if self.exact is None else _flattened(self)

    def _deltas_on_grid(self, step: float, count: int) -> FloatArray:
        """Ln delta at `count` points 0, h, 2h, ..., rounded up; h divides the step or the reverse.

        All differences of these points and the table's are multiples of the smaller of the two,
        so that the Gaussian part is evaluated once for each.
        """
        assert self.exact is not None
        _, weights = self._live
        unit = min(step, self.step)
        points = round(step / unit) * np.arange(count)
        places = round(self.step / unit) * (self.start + np.flatnonzero(self.mass))
        low, high = int(places.min(initial=0)), int(places.max(initial=0))
        values = self.exact.upper_log_delta(
            unit * np.arange(-high, points[-1] - low + 1, dtype=np.float64)
        )
        result = np.empty(count)
        size = max(1, _CHUNK // max(places.size, 1))
        for i in range(0, count, size):
            part = slice(i, i + size)
            result[part] = _log_sums(weights + values[points[part, None] - places + high])
        with np.errstate(divide="ignore"):
            total = np.logaddexp(np.log(self.infinite), result)
        return np.asarray(np.minimum(total + math.log1p(SAFETY), 0.0))  # delta <= 1 is a theorem

    def end(self) -> float:
        """An epsilon at which nothing is left but what is infinite, or next to nothing."""
        live = np.flatnonzero(self.mass)
        top = max(float(self.grid[live[-1]]), 0.0) if live.size else 0.0
        beyond = 0.0 if self.exact is None else float(self.exact.epsilon(_END))
        return top + (beyond if math.isfinite(beyond) else 0.0)

    def __repr__(self) -> str:
        """Name the size of the table and the exact part."""
        return (
            f"TabulatedLoss({self.mass.size} grid points, step={self.step:g}, exact={self.exact!r})"
        )

    # -- readings ------------------------------------------------------------------------------

    def supremum(self) -> float:
        """The largest value of the loss."""
        if self.infinite > 0:
            return math.inf
        live = np.flatnonzero(self.mass)
        top = float(self.grid[live[-1]]) if live.size else 0.0
        return top + (0.0 if self.exact is None else float(self.exact.supremum()))

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """Ln E_P[e^{sL}; L finite]: the cumulant of the loss short of its infinite part."""
        order = _validate.floats("s", s)
        points, weights = self._live
        flat = order.reshape(-1)
        sums, size = np.empty(flat.size), max(1, _CHUNK // max(points.size, 1))
        for i in range(0, flat.size, size):
            part = slice(i, i + size)
            sums[part] = _log_sums(weights + flat[part, None] * points)
        table = sums.reshape(order.shape)
        return (table if self.exact is None else table + self.exact.finite_cumulant(order))[()]

    @property
    def infinite_mass(self) -> float:
        """The stored probability of an infinite loss."""
        return self.infinite

    @property
    def squared_shift(self) -> float:
        """That of a Gaussian part beside a table that says nothing."""
        alone = self.exact is not None and self._says_nothing
        return self.exact.squared_shift if self.exact is not None and alone else math.inf


@functools.lru_cache(maxsize=256)
def table_of(loss: PrivacyLoss, end: float) -> TabulatedLoss:
    """A table that dominates a quick loss, up to the epsilon at which delta is `end`."""
    ends = [float(way.epsilon(end)) for way in (loss, loss.reversed())]
    high = max(*(1.0 if math.isinf(e) else e for e in ends), 1e-300)
    return _from_curves([loss], power_of_two(high / _POINTS), high)


@functools.lru_cache(maxsize=64)
def largest_table(losses: tuple[PrivacyLoss, ...]) -> TabulatedLoss:
    """A table that dominates the pointwise largest of several losses."""
    tables = [loss.dominating() for loss in losses]
    high = max(way.end() for table in tables for way in (table, table.reversed().dominating()))
    return _from_curves(losses, power_of_two(max(high, 1e-300) / _POINTS), high)


@functools.lru_cache(maxsize=64)
def _flattened(table: TabulatedLoss) -> TabulatedLoss:
    """A table with its Gaussian part tabulated, on a grid that divides its own."""
    ways = table, table.reversed().dominating()
    # Steps that divide each other: a power of two times that of the table. Places on the finer grid
    # are integers of 64 bits, so that a loss next to nothing gets a coarser one.
    high = max(*(way.end() for way in ways), table.step * 2.0**-32)
    step = table.step * power_of_two(high / table.step / _POINTS)
    count = math.ceil(high / step) + 1
    after, before = (np.exp(way._deltas_on_grid(step, count)) for way in ways)
    return TabulatedLoss.from_profile(
        lambda eps: after[: eps.size], lambda eps: before[: eps.size], step=step, high=high
    )


def _from_curves(losses: Sequence[PrivacyLoss], step: float, high: float) -> TabulatedLoss:
    """A table of the largest of some losses' curves, read off tables where those are not quick."""

    def largest(turn: bool) -> Callable[[FloatArray], FloatArray]:
        ways = [loss.reversed() if turn else loss for loss in losses]
        ways = [way if way.quick else way.dominating().without_gaussian() for way in ways]
        return lambda eps: np.exp(np.max([way.upper_log_delta(eps) for way in ways], axis=0))

    return TabulatedLoss.from_profile(largest(False), largest(True), step=step, high=high)


def power_of_two(value: float) -> float:
    """The largest power of two that is at most `value`: grids of such steps contain each other."""
    return math.ldexp(1.0, math.floor(math.log2(value)))


def _on_one_grid(a: TabulatedLoss, b: TabulatedLoss) -> tuple[TabulatedLoss, TabulatedLoss]:
    """Two tables with one step: the finer if it divides the other, else a power of two below it.

    Where that makes a table too long, the coarser.
    """
    if a.step == b.step:
        return a, b
    fine, coarse = min(a.step, b.step), max(a.step, b.step)
    span = max(table.mass.size * table.step for table in (a, b))
    step = fine if (coarse / fine).is_integer() else power_of_two(min(fine, span / _POINTS))
    step = step if span / step <= _MOST else coarse
    ready = [table if table.step == step else table._regrid(step) for table in (a, b)]
    return ready[0], ready[1]


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
        with np.errstate(over="ignore"):
            return float((delta[k] - delta[j]) / np.expm1(epsilons[k] - epsilons[j]))

    hull = [0]
    for k in range(1, epsilons.size):
        while len(hull) > 1 and towards(hull[-1], hull[-2]) >= towards(hull[-1], k):
            hull.pop()
        hull.append(k)
    points = np.array(hull)
    gaps, falls = np.diff(epsilons[points]), np.diff(delta[points])
    with np.errstate(over="ignore"):  # a side that is very long has no slope
        forward = np.append(falls / np.expm1(gaps), 0.0)  # seen from the left end of each side
    backward = falls / -np.expm1(-gaps)  # and from its right end
    mass = np.zeros(epsilons.size)
    # On a hull kinks are positive; a difference that rounding made negative is a zero.
    mass[points[1:]] = np.maximum(forward[1:] - backward, 0.0)
    return mass, float(forward[0])


def _log_sums(logs: FloatArray) -> FloatArray:
    """Ln of the sums of e^logs along the last axis."""
    top = np.max(logs, axis=-1, initial=-math.inf, keepdims=True)
    finite = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(top[..., 0] + np.log(np.exp(logs - finite).sum(axis=-1)) - 0.0)


def _convolution(a: TabulatedLoss, b: TabulatedLoss) -> FloatArray:
    """The law of the sum of two tables, never below it anywhere."""
    if float(a.mass.size) * b.mass.size <= _DIRECT:
        return np.convolve(a.mass, b.mass) * (1.0 + 1e-15 * min(a.mass.size, b.mass.size))
    # The FFT's error is relative to the largest entry. Tilting by e^{s l} first puts that entry
    # into the part of the table that matters: P's tail, P's and Q's bodies, Q's tail. The error
    # is added, so each tilt gives an upper bound everywhere, and so does the least of them.
    bare = a._bare(), b._bare()  # what these were made from, if turned, need be no table
    tail, tail_reversed = _tilt(*bare), _tilt(*(part.reversed() for part in bare))
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
        norm = float(_log_sums(logs))
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
    """An order s at which the Chernoff bound e^{Lambda(s) - s Lambda'(s)} is about 1e-12.

    Any order is right, so that blocks of the tables and a few orders will do.
    """
    orders = np.geomspace(1e-6, 1e6, 97)
    here, ahead = (
        _log_sums(a._blocks[1] + s[:, None] * a._blocks[0])
        + _log_sums(b._blocks[1] + s[:, None] * b._blocks[0])
        for s in (orders, 1.001 * orders)
    )
    rare = here - (ahead - here) / 0.001 <= -27.0
    return float(orders[max(int(np.argmax(rare)) - 1, 0) if rare.any() else -1])


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
