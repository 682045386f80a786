"""The worst case of private least squares: a family of Gaussian pairs, searched and certified.

Draw x ~ N(x_opt, ||e||^2 (B^T B)^{-1} / r) from the limit law of sketch-and-solve on a table
[B, b] with d features. A row with leverage p in B and q in [B, b] (q = p + e_i^2/||e||^2) enters
only through (q, p): measured in standard deviations of the law with the row, removing it turns

    d-1 directions   into variance v = (1-q)/(1-p), same mean,
    one direction    into variance w = (1-q)/(1-p)^2, its mean moved by m, m^2 = r p (q-p)/(1-p)^2.

A ridge makes every q at most s, so the worst case is a supremum over the triangle 0 <= p <= q <= s.
delta is monotone neither in p nor in q, so the whole triangle is searched by branch and bound. For
a cell of it (docs/proofs/least-squares.md):

    A. delta grows with |m| (Anderson's theorem), so m may be the largest in the cell;
    B. a variance further from 1, without a shift, dominates, so v may be the least in the cell;
    C. changing w to w0 costs a step of epsilon and the delta of a pair that differs in this
       one variance only (the triangle inequality of delta).

A and B hold at every epsilon, hence in both directions and beside each other. The pointwise
supremum of the family is itself a privacy profile, and composes as a table.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss.base import SAFETY, PrivacyLoss
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.tabulated import TabulatedLoss

# Cells of the first grid along each side, and the most cells examined before giving up on the
# tolerance (what was proven by then is reported, and is only less tight).
_FIRST, _MOST = 24, 30_000
# Where a table for composition has its knots, where it ends, and what it may be off by in ln delta.
_KNOTS, _TABLE_END, _TABLE_TOLERANCE = 48, 1e-14, 0.03
# Changing one variance may cost e^-SHARE of delta.
SHARE = 7.0


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
        raise ValueError("Expected p <= q, got a larger p; q counts the label besides.")
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = q - p
        # The special direction has w < 1 iff this is positive; it is 1 - w times (1-p)^2.
        narrower = gap - p * (1.0 - p)
        smaller = np.where(narrower >= 0, 1.0 - q, (1.0 - p) ** 2)
        special = narrower / smaller
        shift = n_components * p * gap / smaller
        others = gap / (1.0 - q) if d > 1 else np.zeros(gap.shape)
    singular = q >= 1.0
    excess = np.where(singular[..., None], np.inf, np.stack([special, others], axis=-1))
    shifts = np.stack([np.where(singular, 0.0, shift), np.zeros(p.shape)], axis=-1)
    counts = np.broadcast_to(np.array([1.0, d - 1.0]), excess.shape)
    return QuadraticLoss(excess, shifts, counts)


class TriangleLoss(PrivacyLoss):
    """The worst case over all rows with leverages 0 <= p <= q <= s, of some release.

    Parameters
    ----------
    excess : float
        s/(1-s): for a ridge sigma^2 and rows of norm at most l it is l^2/sigma^2.
    n_features, n_components : int
        d and r.
    backwards : bool
        False: the row is present in the first law. True: absent.
    """

    __slots__ = ("backwards", "excess", "n_components", "n_features")

    kind: ClassVar[str]
    # The certified supremum is at most this much (in ln delta) above a delta that is attained.
    tolerance: ClassVar[float]
    # ln of a delta below which no tolerance is kept.
    floor: ClassVar[float] = -math.inf

    def __init__(
        self, excess: float, n_features: int, n_components: int, backwards: bool = False
    ) -> None:
        self.excess = _validate.positive("excess", excess)
        self.n_features = _validate.count("n_features", n_features)
        self.n_components = _validate.count("n_components", n_components)
        self.backwards = bool(backwards)

    @abstractmethod
    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: float) -> FloatArray:
        """Ln delta(epsilon) of members of the family, in this loss's direction."""

    def attained_at(self, q: ArrayLike, p: ArrayLike, epsilon: float) -> FloatArray:
        """The same, rounded down."""
        return self.log_delta_at(q, p, epsilon) - math.log1p(SAFETY)

    @abstractmethod
    def cell_bounds(self, cells: FloatArray, epsilon: float, log_scale: float) -> FloatArray:
        """For each cell a bound on ln delta(epsilon) of all pairs (q, p) in it.

        Parameters
        ----------
        cells : ndarray of shape (4, n)
            Least and largest p, least and largest q of each cell; only p <= q counts.
        epsilon : float
        log_scale : float
            ln of a delta of the order that matters; any number is right, a good one is tight.
        """

    @property
    def leverage(self) -> float:
        """The largest leverage s."""
        return self.excess / (1.0 + self.excess)

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln of the largest delta found on the edge q = s, all of which is attained.

        On every example known the supremum lies on that edge; `log_delta_bounds` proves it each
        time, up to its tolerance.
        """
        eps = _validate.epsilons(epsilon)
        values = [self._worst_on_edge(float(e))[0] for e in eps.reshape(-1)]
        return np.array(values).reshape(eps.shape)[()]

    def worst_pair(self, epsilon: float) -> tuple[float, float]:
        """The (q, p) at which `log_delta` is attained."""
        return self.leverage, self._worst_on_edge(_validate.real("epsilon", epsilon))[1]

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Bounds on ln of the supremum: attained below, by branch and bound above."""
        eps = _validate.epsilons(epsilon)
        flat = [self.bounds_within(float(e), self.tolerance) for e in eps.reshape(-1)]
        bounds = np.array(flat).reshape(*eps.shape, 2)
        return bounds[..., 0][()], bounds[..., 1][()]

    def supremum(self) -> float:
        """A bound on the loss over the family: infinite, as some means are shifted."""
        return math.inf

    def reversed(self) -> Self:
        """The other direction."""
        return type(self)(self.excess, self.n_features, self.n_components, not self.backwards)

    # -- the search --------------------------------------------------------------------------

    def _worst_on_edge(self, eps: float) -> tuple[float, float]:
        """The largest ln delta on the edge q = s, and its p: a grid, refined around its best."""
        s = self.leverage
        low, high, best, place = 0.0, s, -math.inf, 0.0
        for n_points in (41, 11, 11, 11):
            p = np.linspace(low, high, n_points)
            values = self.log_delta_at(s, p, eps)
            top = int(np.argmax(values))
            if values[top] > best:
                best, place = float(values[top]), float(p[top])
            low, high = float(p[max(top - 1, 0)]), float(p[min(top + 1, n_points - 1)])
        return best, place

    def bounds_within(
        self, eps: float, tolerance: float, enough: float = -math.inf
    ) -> tuple[float, float]:
        """Bounds on ln of the supremum at one epsilon, `tolerance` apart if that can be had.

        An upper bound of at most `enough` is not improved.
        """
        if eps < 0:  # delta(eps) = 1 - e^eps + e^eps delta_reversed(-eps), member by member
            return tuple(  # type: ignore[return-value]
                math.log(-math.expm1(eps) + math.exp(eps + bound)) + sign * 1e-14
                for bound, sign in zip(
                    self.reversed().bounds_within(-eps, tolerance), (-1.0, 1.0), strict=True
                )
            )
        margin = math.log1p(SAFETY)
        place = self._worst_on_edge(eps)[1]
        attained = float(self.attained_at(self.leverage, place, eps))
        scale, closed = max(attained, self.floor), max(attained + tolerance, self.floor, enough)
        edges = self.leverage * np.linspace(0.0, 1.0, _FIRST + 1)
        p_index, q_index = (a.ravel() for a in np.meshgrid(*2 * [np.arange(_FIRST)]))
        inside = p_index <= q_index
        p_index, q_index = p_index[inside], q_index[inside]
        cells = np.array([edges[p_index], edges[p_index + 1], edges[q_index], edges[q_index + 1]])
        settled, examined = -math.inf, 0
        while cells.size:
            upper = self.cell_bounds(cells, eps, scale)
            examined += upper.size
            open_ = upper > closed
            settled = max(settled, float(np.max(upper[~open_], initial=-math.inf)))
            if examined > _MOST:
                settled = max(settled, float(np.max(upper[open_], initial=-math.inf)))
                break
            cells = _quarters(cells[:, open_])
        return attained, min(max(settled, attained) + 2.0 * margin, 0.0)  # delta <= 1: a theorem

    # -- composition -------------------------------------------------------------------------

    def tabulated(self, step: float, high: float) -> TabulatedLoss:
        """A table that composes: the certified supremum at some dozen epsilons, chords between.

        The pointwise largest of privacy profiles is a privacy profile, convex in e^epsilon, so a
        chord between two of its points lies above it.
        """
        knots = np.linspace(0.0, high + step, _KNOTS)
        after, before = (
            np.exp([loss.bounds_within(float(e), _TABLE_TOLERANCE)[1] for e in knots])
            for loss in (self, self.reversed())
        )

        def chord(values: FloatArray) -> Callable[[FloatArray], FloatArray]:
            def delta(eps: FloatArray) -> FloatArray:
                j = np.clip(np.searchsorted(knots, eps, side="right") - 1, 0, knots.size - 2)
                share = np.expm1(eps - knots[j]) / np.expm1(knots[j + 1] - knots[j])
                return np.asarray(values[j] + share * (values[j + 1] - values[j]))

            return delta

        return TabulatedLoss.from_profile(chord(after), chord(before), step=step, high=high)

    def _default_table(self) -> TabulatedLoss:
        high = float(self.epsilon(_TABLE_END))
        return self.tabulated(high / 1024.0, high)

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha > 1, from the table: an upper bound."""
        return self._default_table().renyi(alpha)

    def __add__(self, other: object) -> TabulatedLoss:
        """Independent composition, through a table."""
        if isinstance(other, TriangleLoss):
            other = other._default_table()
        if not isinstance(other, QuadraticLoss | TabulatedLoss):
            return NotImplemented
        return self._default_table() + other

    __radd__ = __add__

    def __mul__(self, times: object) -> Any:
        """The same release made `times` times, through a table."""
        if not isinstance(times, int | np.integer) or isinstance(times, bool):
            return NotImplemented
        k = _validate.count("times", times)
        return self if k == 1 else self._default_table() * k

    def __eq__(self, other: object) -> bool:
        """Equal parameters."""
        return isinstance(other, TriangleLoss) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash of the parameters."""
        return hash((self.kind, self.excess, self.n_features, self.n_components, self.backwards))

    def __repr__(self) -> str:
        """Name the parameters."""
        return (
            f"{type(self).__name__}(excess={self.excess:g}, n_features={self.n_features}, "
            f"n_components={self.n_components}, backwards={self.backwards})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The parameters, exactly."""
        return {
            "kind": self.kind,
            "excess": self.excess.hex(),
            "n_features": self.n_features,
            "n_components": self.n_components,
            "backwards": self.backwards,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            float.fromhex(stored["excess"]),
            stored["n_features"],
            stored["n_components"],
            stored["backwards"],
        )


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

    __slots__ = ()
    kind = "least-squares"
    tolerance = 5e-3

    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: float) -> FloatArray:
        """Ln delta(epsilon) of `removal_loss` in this loss's direction."""
        loss = removal_loss(q, p, self.n_features, self.n_components)
        return _log_delta(loss.reversed() if self.backwards else loss, epsilon, 0)

    def cell_bounds(self, cells: FloatArray, epsilon: float, log_scale: float) -> FloatArray:
        """The largest shift, the most extreme v, and a step from any w in the cell to one."""
        p_low, q_high = cells[0], cells[3]
        w_low, w_high, square = special_extremes(cells, self.n_components)
        others = (q_high - p_low) / (1.0 - q_high) if self.n_features > 1 else 0.0 * p_low
        w = np.sqrt(w_low * w_high)
        smaller = np.minimum(w, 1.0)
        reference = QuadraticLoss(
            np.stack([(1.0 - w) / smaller, others], axis=-1),
            np.stack([square / smaller, np.zeros(w.shape)], axis=-1),
            np.array([1.0, self.n_features - 1.0]),
        )
        excess = np.sqrt(w_high / w_low) * (1.0 + 1e-15) - 1.0
        step = excess * (1.0 + epsilon - log_scale + SHARE)
        log_step = _log_delta(QuadraticLoss(excess[..., None], 0.0, 1.0), step, 1)
        pair = reference.reversed() if self.backwards else reference
        main = chernoff(pair, epsilon - step)
        matters = main > log_scale - SHARE
        if matters.any():
            main[matters] = _log_delta(pair[matters], (epsilon - step)[matters], 1)
        return chained(main, epsilon, [(step, log_step)], self.backwards)


def chernoff(loss: QuadraticLoss, epsilon: FloatArray) -> FloatArray:
    """A bound on ln delta for a flat batch, min over s of Lambda(s) - s eps + ln(s^s/(1+s)^(1+s)).

    Few orders s are tried: any is right. (The formula of Lambda is that of `quadratic`.)
    """
    z = np.abs(loss.excess)[..., None]
    high = loss.strip()[1][:, None]
    orders = np.geomspace(0.1, 1e5, 32)
    s = orders / (1.0 + orders / high)
    u = np.where(loss.excess[..., None] > 0, -s[:, None, :], 1.0 + s[:, None, :])
    with np.errstate(all="ignore"):
        scale = 1.0 + u * z
        terms = 0.5 * loss.count[..., None] * (u * np.log1p(z) - np.log(scale))
        terms += 0.5 * loss.shift[..., None] * u * (u - 1.0) / scale
        value = terms.sum(axis=1) - s * epsilon[:, None] + s * np.log(s) - (1.0 + s) * np.log1p(s)
    value = np.where(np.all(scale > 0, axis=1) & ~np.isnan(value), value, 0.0)
    # What rounding can do to sums of this size.
    slack = 1e-9 * (1.0 + np.abs(value).max(axis=1))
    return np.asarray(np.minimum(value.min(axis=1) + slack, 0.0))


def _log_delta(loss: QuadraticLoss, epsilon: ArrayLike, side: int) -> FloatArray:
    """Ln delta of a batch; where only bounds can be had, the lower (0) or the upper (1) one."""
    try:
        return np.asarray(loss.log_delta(epsilon))
    except ArithmeticError:
        eps = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), loss.batch_shape)
        flat = [_one_log_delta(loss[i], float(eps[i]), side) for i in np.ndindex(eps.shape)]
        return np.array(flat).reshape(eps.shape)


def _one_log_delta(loss: QuadraticLoss, epsilon: float, side: int) -> float:
    try:
        return float(loss.log_delta(epsilon))
    except ArithmeticError:
        return float(loss.log_delta_bounds(epsilon)[side])


def special_extremes(
    cells: FloatArray, n_components: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Least and largest variance w of the special direction in a cell, and a bound on m^2."""
    p_low, p_high, q_low, q_high = cells
    p_high = np.minimum(p_high, q_high)
    p = np.clip(0.5 * q_high, p_low, p_high)  # p (q - p) grows with q, and with p up to q/2
    square = n_components * p * (q_high - p) / (1.0 - p_high) ** 2
    return (1.0 - q_high) / (1.0 - p_low) ** 2, (1.0 - q_low) / (1.0 - p_high) ** 2, square


def chained(
    main: FloatArray, epsilon: float, steps: list[tuple[FloatArray, FloatArray]], backwards: bool
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


def _quarters(cells: FloatArray) -> FloatArray:
    """Every cell cut into four; of those, the ones that meet the triangle p <= q."""
    p0, p1, q0, q1 = cells
    p, q = 0.5 * (p0 + p1), 0.5 * (q0 + q1)
    parts = [
        np.stack([p_low, p_high, q_low, q_high])
        for p_low, p_high in ((p0, p), (p, p1))
        for q_low, q_high in ((q0, q), (q, q1))
    ]
    every = np.concatenate(parts, axis=1)
    return np.asarray(every[:, every[0] <= every[3]])
