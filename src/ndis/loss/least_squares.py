"""The worst case of private least squares: a family of Gaussian pairs, searched and certified.

Draw x ~ N(x_opt, ||e||^2 (B^T B)^{-1} / r) from the limit law of sketch-and-solve on a table
[B, b] with d features. A row with leverage p in B and q in [B, b] (q = p + e_i^2/||e||^2) enters
only through (q, p): measured in standard deviations of the law with the row, removing it turns

    d-1 directions   into variance v = (1-q)/(1-p), same mean,
    one direction    into variance w = (1-q)/(1-p)^2, its mean moved by m, m^2 = r p (q-p)/(1-p)^2.

A ridge makes every q at most s, and every p at most t, so the worst case is a supremum over the
region 0 <= p <= min(q, t), q <= s. Every pair in it is dominated by one on its border where q = s
or p = t (docs/proofs/least-squares.md), along which delta has no known order: the border is
searched by branch and bound. For a cell, of the border or, for laws of which this is not known, of
the region:

    A. delta grows with |m| (Anderson's theorem), so m may be the largest in the cell;
    B. a variance further from 1, without a shift, dominates, so v may be the least in the cell;
    C. changing w to w0 costs a step of epsilon and the delta of a pair that differs in this
       one variance only (the triangle inequality of delta).

A and B hold at every epsilon, hence in both directions and beside each other. The pointwise
supremum of the family is itself a privacy profile, and composes as a table.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import renyi
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss
from ndis.loss.quadratic import QuadraticLoss, _rows
from ndis.loss.tabulated import TabulatedLoss, power_of_two

__all__ = ["LeastSquaresLoss", "TriangleLoss", "removal_loss"]

# Cells of the first grid along each side of the triangle, and along the edge; and the most cells
# examined for one number before giving up on the tolerance (what was proven by then is reported,
# and is only less tight).
_FIRST, _FIRST_ON_EDGE, _MOST = 24, 64, 30_000
# Cells bounded at a time.
_AT_ONCE = 1 << 15
# Knots of a table for composition, at least, where it ends, and what it may be off by in ln delta.
_KNOTS, _TABLE_END, _TABLE_TOLERANCE = 40, 1e-14, 0.02
# ln of a delta below which the table needs no tolerance.
TABLE_FLOOR = math.log(1e-20)
# A bound on a cumulant is at most this much above one that is attained, relatively.
_CUMULANT_TOLERANCE = 1e-3
# Squares of less are no doubles.
_LEAST_EXCESS = 1e-100
# Changing one variance within a cell may cost e^-STEP_COST of delta.
STEP_COST = 7.0


def removal_loss(
    q: ArrayLike, p: ArrayLike, n_features: int, n_components: ArrayLike
) -> QuadraticLoss:
    """Loss of the limit law with and without a row of leverages (q, p), the row present first.

    Parameters
    ----------
    q, p : array_like
        Leverages of the row in [B, b] and in B, 0 <= p <= q <= 1; broadcast to a batch.
    n_features : int
        d, the number of coefficients.
    n_components : array_like
        r, the number of components of the sketch whose limit law it is.

    Examples
    --------
    >>> from ndis.loss.least_squares import removal_loss
    >>> loss = removal_loss(0.02, [0.002, 0.01, 0.01998], n_features=5, n_components=1000)
    >>> [f"{value:.2f}" for value in loss.log_delta(1.0) / 2.302585092994046]
    ['-6.34', '-3.90', '-20851.13']
    """
    d = _validate.count("n_features", n_features)
    q, p = np.broadcast_arrays(
        _validate.floats_within("q", q, 0.0, 1.0), _validate.floats_within("p", p, 0.0, 1.0)
    )
    if np.any(p > q):
        raise ValueError("Expected p <= q, got a larger p; q also includes the label.")
    with np.errstate(divide="ignore", invalid="ignore"):
        gap, (special, smaller) = q - p, _special(q, p)
        shift = n_components * p * gap / smaller
        others = gap / (1.0 - q) if d > 1 else np.zeros(gap.shape)
    singular = q >= 1.0
    excess = np.where(singular[..., None], np.inf, np.stack([special, others], axis=-1))
    shifts = np.stack([np.where(singular, 0.0, shift), np.zeros(p.shape)], axis=-1)
    counts = np.broadcast_to(np.array([1.0, d - 1.0]), excess.shape)
    return QuadraticLoss(excess, shifts, counts)


class TriangleLoss(PrivacyLoss):
    """The worst case over all rows with leverages 0 <= p <= min(q, t), q <= s, of some release.

    Parameters
    ----------
    excess : float
        s/(1-s): for a ridge sigma^2 and rows of norm at most l it is l^2/sigma^2.
    n_features, n_components : int
        d and r.
    backwards : bool
        False: the row is present in the first law. True: absent.
    feature_excess : float
        t/(1-t), where less than s is known of a row's leverage among the features alone.
    """

    stored = ("excess", "n_features", "n_components", "backwards", "feature_excess")
    infinite_mass = 0.0
    # The certified supremum is at most this much (in ln delta) above a delta that is attained.
    tolerance: ClassVar[float]
    # ln of a delta below which no tolerance is kept.
    floor: ClassVar[float] = -math.inf
    # Whether every member is known to be dominated by one with q = s or p = t.
    edge_is_worst: ClassVar[bool] = False

    def __init__(
        self,
        excess: float,
        n_features: int,
        n_components: int,
        backwards: bool = False,
        feature_excess: float = math.inf,
    ) -> None:
        self.excess = float(_validate.floats_within("excess", excess, _LEAST_EXCESS, math.inf))
        self.n_features = _validate.count("n_features", n_features)
        self.n_components = _validate.count("n_components", n_components)
        self.backwards = bool(backwards)
        self.feature_excess = math.inf
        if feature_excess != math.inf:
            least = _validate.floats_within(
                "feature_excess", feature_excess, _LEAST_EXCESS, math.inf
            )
            self.feature_excess = float(least)
        if self.n_components < self.least_components:
            raise ValueError(
                f"Expected at least as many components as features, got n_components="
                f"{self.n_components} and {self.n_features} features; take more components."
            )

    @property
    def least_components(self) -> int:
        """The least r for which there is a law."""
        return 1

    # -- one member, and all members with leverages in a cell -----------------------------------

    @abstractmethod
    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """Ln delta(epsilon) of members of the family, in this loss's direction."""

    @abstractmethod
    def attained_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """The same, rounded down."""

    @abstractmethod
    def cell_bounds(
        self, cells: FloatArray, epsilon: ArrayLike, log_scale: ArrayLike
    ) -> FloatArray:
        """For each cell a bound on ln delta(epsilon) of all pairs (q, p) in it.

        Parameters
        ----------
        cells : ndarray of shape (4, n)
            Least and largest p, least and largest q of each cell; only p <= q counts.
        epsilon : float or ndarray of shape (n,)
        log_scale : float or ndarray of shape (n,)
            ln of a delta of the order that matters; any number is right, a good one is tight.
        """

    @abstractmethod
    def shift_cumulant(self, strength: FloatArray) -> FloatArray:
        """The moved mean's part of Lambda(s), `strength` being m^2 s(1+s)/(w(1+s)-s)/r.

        For the reversed pair the denominator is 1+s-ws.
        """

    def cell_cumulants(self, cells: FloatArray, s: FloatArray) -> FloatArray:
        """For each cell a bound on Lambda(s) = ln E[e^{sL}] of all pairs (q, p) in it.

        Lambda is a sum over directions. The term of d-1 of them grows as v falls. That of the
        special one has a part without m, which is convex enough in w to be largest at an end, and
        one with m, which grows with m and falls (in the reversed pair: grows) with w.
        """
        p_low, p_high, q_low, q_high = cells
        p_high = np.minimum(p_high, q_high)
        _, _, square = special_extremes(cells)
        sign = -1.0 if self.backwards else 1.0
        with np.errstate(all="ignore"):
            ends = [
                QuadraticLoss(sign * _special(q, p)[0][..., None], 0.0, 1.0).cumulant(s)
                for q, p in ((q_high, p_low), (q_low, p_high))
            ]
            others = (q_high - p_low) / (1.0 - q_high)
            rest = QuadraticLoss(sign * others[..., None], 0.0, self.n_features - 1.0).cumulant(s)
            # w less 1, exactly enough where both are close.
            if self.backwards:
                denominator = (
                    1.0 - s * (p_high * (1.0 - p_high) - (q_low - p_high)) / (1.0 - p_high) ** 2
                )
            else:
                denominator = (
                    1.0 - (1.0 + s) * (q_high - p_low - p_low * (1.0 - p_low)) / (1.0 - p_low) ** 2
                )
            moved = self.shift_cumulant(square * s * (1.0 + s) / denominator)
            total = np.maximum(*ends) + rest + moved
        return np.where((denominator > 0) & ~np.isnan(total), total, np.inf)

    # -- the contract --------------------------------------------------------------------------

    exactness: Exactness = "upper bound"

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Bounds on ln of the supremum: attained below, by branch and bound above."""
        eps = _validate.epsilons(epsilon)
        low, high = self.bounds_within(eps.reshape(-1), self.tolerance)
        return low.reshape(eps.shape)[()], high.reshape(eps.shape)[()]

    def dominating(self) -> TabulatedLoss:
        """A table that composes: the certified supremum at some dozen epsilons, chords between.

        The pointwise largest of privacy profiles is a privacy profile, convex in e^epsilon, so a
        chord between two of its points lies above it.
        """
        return _table(self)

    @property
    def leverage(self) -> float:
        """The largest leverage s."""
        return self.excess / (1.0 + self.excess)

    @property
    def feature_leverage(self) -> float:
        """The largest leverage among the features, t or s, whichever is less."""
        least = min(self.excess, self.feature_excess)
        return least / (1.0 + least)

    def _border(self, place: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The pairs (q, p) on the border: from (s, 0) to (s, t), and from there to (t, t)."""
        most = self.feature_leverage
        p = np.minimum(place, most)
        return np.maximum(self.leverage - np.maximum(place - most, 0.0), p), p

    def supremum(self) -> float:
        """A bound on the loss over the family: infinite, as some means are shifted."""
        return math.inf

    def reversed(self) -> Self:
        """The other direction."""
        sizes = self.n_features, self.n_components
        return type(self)(self.excess, *sizes, not self.backwards, self.feature_excess)

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """The supremum of the (Gaussian) members' cumulants, by branch and bound on the border.

        It is less than the cumulant of the largest profile, and enough for whatever happens to one
        pair of neighbours, which is one member.
        """
        order = _validate.floats_within("s", s, 0.0, math.inf, closed=False)
        return self._largest_cumulants(order.reshape(-1)).reshape(order.shape)[()]

    # -- the search ----------------------------------------------------------------------------

    def attained(self, epsilon: ArrayLike) -> FloatArray:
        """Ln of the largest delta found where q = s or p = t, all of which is attained.

        For Gaussian laws the supremum lies on that border, and on every example known for others;
        `log_delta_bounds` proves it each time, up to its tolerance.
        """
        eps = _validate.epsilons(epsilon)
        return self._worst_on_border(eps.reshape(-1), self.log_delta_at)[0].reshape(eps.shape)

    def _worst_on_border(
        self, eps: FloatArray, at: Callable[[ArrayLike, ArrayLike, ArrayLike], FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """The largest ln delta on the border, and where: a grid, refined around its best."""
        s, rows = self.leverage, np.arange(eps.size)
        low, high = np.zeros(eps.size), np.full(eps.size, s)
        best, place = np.full(eps.size, -math.inf), np.zeros(eps.size)
        for n_points in (41, 11, 11, 11):
            p = np.minimum(low[:, None] + (high - low)[:, None] * np.linspace(0, 1, n_points), s)
            values = at(*self._border(p), eps[:, None])
            top = np.argmax(values, axis=1)
            place = np.where(values[rows, top] > best, p[rows, top], place)
            best = np.maximum(best, values[rows, top])
            low = p[rows, np.maximum(top - 1, 0)]
            high = p[rows, np.minimum(top + 1, n_points - 1)]
        return best, place

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """The upper bound alone: no delta is proven to be attained."""
        flat = np.asarray(epsilon).reshape(-1)
        return self.bounds_within(flat, self.tolerance, lower=False)[1].reshape(epsilon.shape)

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The largest ln delta that was found, plus the tolerance."""
        found, turned = self.attained(np.abs(epsilon)), epsilon < 0
        if turned.any():  # as in `bounds_within`
            eps = epsilon[turned]
            back = self.reversed().attained(-eps)
            found[turned] = np.log(-np.expm1(eps) + np.exp(eps + back))
        return np.minimum(found + self.tolerance, 0.0)

    def bounds_within(
        self,
        eps: FloatArray,
        tolerance: ArrayLike,
        sufficient: float = -math.inf,
        lower: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds on ln of the supremum at some epsilons, `tolerance` apart if that can be had.

        An upper bound of at most `sufficient` is not improved. Without `lower` the lower bound is
        what the fast path says is attained, which is not proven.
        """
        low, high = np.empty(eps.size), np.empty(eps.size)
        negative, allowed = eps < 0, np.broadcast_to(tolerance, eps.shape)
        if negative.any():  # delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps), member by member
            some = eps[negative]
            turned = self.reversed().bounds_within(-some, allowed[negative], lower=lower)
            for bounds, found, sign in zip((low, high), turned, (-1.0, 1.0), strict=True):
                bounds[negative] = np.log(-np.expm1(some) + np.exp(some + found)) + sign * 1e-14
        some = eps[~negative]
        attained, place = self._worst_on_border(some, self.log_delta_at)
        if lower:
            attained = self.attained_at(*self._border(place), some)
        scale = np.maximum(attained, self.floor)
        closed = np.maximum(np.maximum(attained + allowed[~negative], self.floor), sufficient)
        found = _largest(
            self._cells(self.edge_is_worst),
            lambda cells, which: self.cell_bounds(cells, some[which], scale[which]),
            closed,
        )
        low[~negative] = attained
        # delta <= 1 is a theorem
        high[~negative] = np.minimum(np.maximum(found, attained) + 2.0 * math.log1p(SAFETY), 0.0)
        return low, high

    def _cells(self, border: bool) -> FloatArray:
        """Cells that cover the region, or its border."""
        most = self.feature_leverage
        if border:
            place = self.leverage * np.linspace(0.0, 1.0, _FIRST_ON_EDGE + 1)
            place = np.union1d(place, most)
            q, p = self._border(place)
            return np.array([p[:-1], p[1:], q[1:], q[:-1]])
        edges = self.leverage * np.linspace(0.0, 1.0, _FIRST + 1)
        i, j = (a.ravel() for a in np.meshgrid(*2 * [np.arange(_FIRST)]))
        inside = (i <= j) & ((edges[i] < most) | (i == 0))
        i, j = i[inside], j[inside]
        return np.array([edges[i], np.minimum(edges[i + 1], most), edges[j], edges[j + 1]])

    def _largest_cumulants(self, s: FloatArray) -> FloatArray:
        cells = self._cells(border=True)
        points = np.array([cells[0], cells[0], cells[3], cells[3]])
        attained = np.max(
            [self.cell_cumulants(points[:, [i]], s) for i in range(points.shape[1])], axis=0
        )
        finite = np.flatnonzero(np.isfinite(attained))
        result = np.full(s.size, np.inf)
        result[finite] = _largest(
            cells,
            lambda some, which: self.cell_cumulants(some, s[finite][which]),
            attained[finite] * (1.0 + _CUMULANT_TOLERANCE),
        ) * (1.0 + SAFETY)
        return result

    # -- Gaussian members ----------------------------------------------------------------------

    @abstractmethod
    def reference(self, w: FloatArray, square: FloatArray, others: FloatArray) -> QuadraticLoss:
        """Pairs with variance w and squared shift r `square` in one direction, in our order.

        `others` is the excess of the d-1 other directions.
        """

    def gaussian_cell_bounds(
        self, cells: FloatArray, epsilon: ArrayLike, log_scale: ArrayLike
    ) -> FloatArray:
        """The largest shift, the most extreme v, and a step from any w in the cell to one."""
        p_low, q_high = cells[0], cells[3]
        epsilon, log_scale = np.broadcast_arrays(epsilon, log_scale, p_low)[:2]
        w_low, w_high, square = special_extremes(cells)
        others = (q_high - p_low) / (1.0 - q_high) if self.n_features > 1 else 0.0 * p_low
        excess = np.sqrt(w_high / w_low) * (1.0 + 1e-15) - 1.0
        step = excess * (1.0 + epsilon - log_scale + STEP_COST)
        # delta of one variance that differs by 1 + excess is at most Pr[L > step], of one normal.
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.sqrt((2.0 * step + np.log1p(excess)) / excess)
        log_step = log_ndtr(-np.where(excess > 0, reach, np.inf)) + math.log(2.0) + 1e-9
        pairs = self.reference(np.sqrt(w_low * w_high), square, others)
        main = quick_bounds(pairs, epsilon - step)
        matters = np.flatnonzero(main > log_scale)
        if matters.size:
            inner = (epsilon - step)[matters]
            main[matters] = np.minimum(
                main[matters], self._log_deltas(_rows(pairs, matters), inner)
            )
        return chained(main, epsilon, [(step, log_step)], self.backwards)

    def _log_deltas(self, pairs: QuadraticLoss, epsilon: FloatArray) -> FloatArray:
        """Ln delta of a batch of references, or upper bounds."""
        return np.asarray(pairs.log_delta(epsilon))

    def table_log_deltas(self, eps: FloatArray) -> FloatArray:
        """Upper bounds on ln delta at epsilons >= 0, for the table that composes."""
        return self.bounds_within(eps, table_tolerance(eps), TABLE_FLOOR, lower=False)[1]


class LeastSquaresLoss(TriangleLoss):
    """The worst case of the limit law over all rows whose leverage in [B, b] is at most s.

    Examples
    --------
    >>> from ndis.loss.least_squares import LeastSquaresLoss
    >>> loss = LeastSquaresLoss(8.44**-2, n_features=2, n_components=1269)
    >>> low, high = loss.delta_bounds(1.0)
    >>> bool(low < high < 1 / 327_346), bool(high < 1.01 * low)
    (True, True)
    """

    kind = "least-squares"
    tolerance = 5e-3
    edge_is_worst = True

    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """Ln delta(epsilon) of `removal_loss` in this loss's direction."""
        return np.asarray(self._members(q, p).log_delta(epsilon))

    def attained_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """Proven by ball arithmetic."""
        return np.asarray(self._members(q, p).log_delta_bounds(epsilon)[0])

    def _members(self, q: ArrayLike, p: ArrayLike) -> QuadraticLoss:
        loss = removal_loss(q, p, self.n_features, self.n_components)
        return loss.reversed() if self.backwards else loss

    def cell_bounds(
        self, cells: FloatArray, epsilon: ArrayLike, log_scale: ArrayLike
    ) -> FloatArray:
        """All members are Gaussian."""
        return self.gaussian_cell_bounds(cells, epsilon, log_scale)

    def reference(self, w: FloatArray, square: FloatArray, others: FloatArray) -> QuadraticLoss:
        """The pair itself."""
        smaller, sign = np.minimum(w, 1.0), -1.0 if self.backwards else 1.0
        return QuadraticLoss(
            sign * np.stack([(1.0 - w) / smaller, others], axis=-1),
            np.stack([self.n_components * square / smaller, np.zeros(w.shape)], axis=-1),
            np.array([1.0, self.n_features - 1.0]),
        )

    def shift_cumulant(self, strength: FloatArray) -> FloatArray:
        """Half the squared shift, in units of its variance."""
        return 0.5 * self.n_components * strength


@functools.lru_cache(maxsize=64)
def _table(loss: TriangleLoss) -> TabulatedLoss:
    """The table behind `TriangleLoss.dominating`."""
    ways = loss, loss.reversed()
    # Where the table ends: a Renyi bound on delta is below what matters there.
    s = renyi.few_orders(1.0 / loss.excess)
    ends = [np.min(renyi.epsilon_bound(way.finite_cumulant(s), s, _TABLE_END)) for way in ways]
    high = float(max(ends))
    after, before = (lambda eps, way=way: np.exp(way.table_log_deltas(eps)) for way in ways)
    step = power_of_two(high / _KNOTS)
    return TabulatedLoss.from_profile(after, before, step=step, high=high)


def table_tolerance(eps: FloatArray) -> FloatArray:
    """How far a table may be off in ln delta.

    Little at 0: too high a start would make the table fall too steeply from there.
    """
    return np.where(eps == 0, 0.05, 1.0) * _TABLE_TOLERANCE


def quick_bounds(loss: QuadraticLoss, epsilon: FloatArray) -> FloatArray:
    """Bounds on ln delta of a flat batch, each by the best of few orders s."""
    s = renyi.few_orders(loss.strip()[1])
    with np.errstate(all="ignore"):
        each = np.stack([loss.cumulant(order) for order in s.T], axis=-1)
        value = renyi.log_delta_bound(each, s, epsilon[:, None])
    value = np.where(np.isfinite(value), value, 0.0)
    # A bound on the rounding of sums of this size.
    slack = 1e-9 * (1.0 + np.abs(value).max(axis=1))
    return np.asarray(np.minimum(value.min(axis=1) + slack, 0.0))


def _special(q: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The excess of the special direction, whose variance without the row is w, and min(w, 1).

    The latter times (1-p)^2.
    """
    # It has w < 1 iff this is positive; it is 1 - w times (1-p)^2.
    narrower = (q - p) - p * (1.0 - p)
    smaller = np.where(narrower >= 0, 1.0 - q, (1.0 - p) ** 2)
    return np.asarray(narrower / smaller), smaller


def special_extremes(cells: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least and largest variance w of the special direction in a cell, and a bound on m^2/r."""
    p_low, p_high, q_low, q_high = cells
    p_high = np.minimum(p_high, q_high)
    p = np.clip(0.5 * q_high, p_low, p_high)  # p (q - p) grows with q, and with p up to q/2
    square = p * (q_high - p) / (1.0 - p_high) ** 2
    return (1.0 - q_high) / (1.0 - p_low) ** 2, (1.0 - q_low) / (1.0 - p_high) ** 2, square


def chained(
    main: FloatArray,
    epsilon: FloatArray,
    steps: list[tuple[FloatArray, FloatArray]],
    backwards: bool,
) -> FloatArray:
    """Ln of the triangle inequality of delta, along steps (epsilon, ln delta) from the second law.

    `main` is ln delta of the first step, taken at epsilon less all the others.
    """
    total, spent = main, epsilon - sum(step for step, _ in steps)
    for step, log_delta in steps:
        if backwards:
            total = np.logaddexp(log_delta, step + total)
        else:
            total = np.logaddexp(total, spent + log_delta)
            spent = spent + step
    return np.asarray(np.minimum(total, 0.0))  # delta <= 1 is a theorem


def _largest(
    cells: FloatArray,
    bounds: Callable[[FloatArray, NDArray[np.intp]], FloatArray],
    closed: FloatArray,
) -> FloatArray:
    """Branch and bound over the cells, for several functions at once.

    `bounds(cells, which)` bounds function `which[i]` in cell i; a cell whose bound is at most
    `closed[which]` is settled, others are cut. Returns the largest bound of the settled ones.
    """
    which = np.repeat(np.arange(closed.size), cells.shape[1])
    cells = np.tile(cells, closed.size)
    settled, examined = np.full(closed.size, -math.inf), np.zeros(closed.size)
    while which.size:
        parts = [slice(i, i + _AT_ONCE) for i in range(0, which.size, _AT_ONCE)]
        upper = np.concatenate([bounds(cells[:, part], which[part]) for part in parts])
        examined += np.bincount(which, minlength=closed.size)
        open_ = (upper > closed[which]) & (examined[which] <= _MOST)
        np.maximum.at(settled, which[~open_], upper[~open_])
        cells, which = _cut(cells[:, open_], which[open_])
    return settled


def _cut(cells: FloatArray, which: NDArray[np.intp]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Every cell cut into four, on the border into two; of those, the ones that meet p <= q."""
    p0, p1, q0, q1 = cells
    p, q = 0.5 * (p0 + p1), 0.5 * (q0 + q1)
    upright = p0 == p1
    if bool(np.all(upright | (q0 == q1))):
        parts = [
            np.stack([p0, np.where(upright, p1, p), q0, np.where(upright, q, q1)]),
            np.stack([np.where(upright, p0, p), p1, np.where(upright, q, q0), q1]),
        ]
    else:
        parts = [
            np.stack([p_low, p_high, q_low, q_high])
            for p_low, p_high in ((p0, p), (p, p1))
            for q_low, q_high in ((q0, q), (q, q1))
        ]
    every = np.concatenate(parts, axis=1)
    inside = every[0] <= every[3]
    return np.asarray(every[:, inside]), np.tile(which, len(parts))[inside]
