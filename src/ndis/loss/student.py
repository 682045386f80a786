"""Sketch-and-solve at a finite number of components: two multivariate t laws.

Solving least squares on r Gaussian combinations of the rows of [B, b] gives x_opt plus an error
that, given the combinations of B, is normal with the inverse of a Wishart matrix as covariance.
Its law is multivariate t with r-d+1 degrees of freedom, location x_opt and scale
||e||^2 (B^T B)^{-1} / (r-d+1). In units of ||e||^2 (B^T B)^{-1}, with y the special coordinate, u
the squared norm of the d-1 others, v, w as in `least_squares`, and mu^2 = m^2/r, densities are

    with the row      (1 + y^2 + u)^{-(r+1)/2}                                 times a constant,
    without it        (1 + (y-mu)^2/w + u/v)^{-(r+1)/2} / sqrt(w v^{d-1})      times the same one.

In the first law the angle phi = atan y and the odds o = u/(1+y^2) are independent, phi with
density cos^{r-d} and o beta prime, and the loss is an increasing function of X = (T + o/v)/(1+o),
T = cos^2 phi + (sin phi - mu cos phi)^2/w. With x the value of X at which the loss is epsilon,

    delta(epsilon) = E (1 - (x/X)^{(r+1)/2})_+ .

Given phi this is two incomplete beta functions. Over phi it is summed in cells, in each of which
the function, concave in T where it is positive, is bounded from above by Jensen's inequality and
from below by a chord: the bounds are proven, and differ by the square of the cells' width. What
rounding can do is a margin on every term. The derivation stands in docs/proofs/least-squares.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, stdtrit

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import renyi
from ndis.loss.contract import SAFETY
from ndis.loss.least_squares import (
    STEP_COST,
    TABLE_FLOOR,
    TriangleLoss,
    _largest,
    chained,
    special_extremes,
    table_tolerance,
)
from ndis.loss.quadratic import QuadraticLoss, _raw

# Cells of the angle on either side of zero, the same for all pairs, and those put where a pair
# also has its delta; the logarithm of the tail at which the first ones end.
_COARSE, _FINE, _FURTHEST = 24, 48, 92.0
# Bounds on the relative error of an incomplete beta function (or of a power), given its arguments,
# and of one whose second parameter is 1/2: several times the largest found against ball arithmetic.
# Rounding of the arguments is multiplied by the number of components.
_ERROR, _TAIL_ERROR, _ROUNDING = 2e-11, 1e-12, 4e-16
# More than the rounding of v, w and mu themselves can change ln delta.
_ACCURACY = 1e-9
# Pairs evaluated at a time: a few megabytes of cells.
_CHUNK = 256


class SketchAndSolveLoss(TriangleLoss):
    """The worst case of sketch-and-solve with r components over rows of leverage at most s.

    Examples
    --------
    >>> from ndis.loss.student import SketchAndSolveLoss
    >>> f"{SketchAndSolveLoss(9.0**-2, n_features=2, n_components=1269).delta(1.0):.2e}"
    '1.58e-07'
    """

    kind = "sketch-and-solve"
    tolerance = 0.03
    floor = math.log(1e-30)

    @property
    def least_components(self) -> int:
        """Fewer leave the problem without a unique solution."""
        return self.n_features

    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """An upper bound, tight to about 1e-3, on ln delta(epsilon) of the two t laws."""
        return self._bounds_at(q, p, epsilon)[1]

    def attained_at(self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
        """A lower bound on ln delta(epsilon) of the two t laws."""
        return self._bounds_at(q, p, epsilon, lower=True)[0]

    def _bounds_at(
        self, q: ArrayLike, p: ArrayLike, epsilon: ArrayLike, lower: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        q, p = np.broadcast_arrays(
            _validate.floats_within("q", q, 0.0, 1.0), _validate.floats_within("p", p, 0.0, 1.0)
        )
        v, w = (1.0 - q) / (1.0 - p), (1.0 - q) / (1.0 - p) ** 2
        low, high = self._pair(v, w, p * (q - p) / (1.0 - p) ** 2, epsilon, lower=lower)
        return low - _ACCURACY, np.minimum(high + _ACCURACY, 0.0)

    def cell_bounds(
        self, cells: FloatArray, epsilon: ArrayLike, log_scale: ArrayLike
    ) -> FloatArray:
        """The largest shift, and steps from any v and w in the cell to one of each.

        A cell that a Renyi bound shows not to matter is left at that.
        """
        epsilon, log_scale = np.broadcast_arrays(epsilon, log_scale, cells[0])[:2]
        s, cumulants = _few_cumulants(self)
        with np.errstate(invalid="ignore"):
            whole = renyi.log_delta_bound(cumulants, s, epsilon[:, None])
            best = np.argmin(np.where(np.isfinite(whole), whole, np.inf), axis=1)
            orders = [s[np.clip(best + k, 0, s.size - 1)] for k in (-1, 0, 1)]
            bounds = [
                renyi.log_delta_bound(self.cell_cumulants(cells, order), order, epsilon)
                for order in orders
            ]
        result: FloatArray = np.minimum(
            np.min(bounds, axis=0) + 1e-9 * (1.0 + np.abs(epsilon)), 0.0
        )
        some = result > log_scale
        result[some] = self._cell_bounds(cells[:, some], epsilon[some], log_scale[some])
        return result

    def _cell_bounds(
        self, cells: FloatArray, epsilon: FloatArray, log_scale: FloatArray
    ) -> FloatArray:
        d, r = self.n_features, self.n_components
        p_low, p_high, q_low, q_high = cells
        p_high = np.minimum(p_high, q_high)
        w_low, w_high, square = special_extremes(cells)
        v_low = (1.0 - q_high) / (1.0 - p_low)
        v_high = np.minimum((1.0 - q_low) / (1.0 - p_high), 1.0)  # p <= q
        room = 1.0 + epsilon - log_scale + STEP_COST
        steps = [_step(w_low, w_high, 1, r, room)]
        if d > 1:
            steps.append(_step(v_low, v_high, d - 1, r - d + 2, room))
        v, w = np.sqrt(v_low * v_high), np.sqrt(w_low * w_high)
        # The laws are compared at an epsilon of its own in every cell.
        inner = epsilon - sum(step for step, _ in steps)
        main = self._pair(v, w, square, inner, matters=log_scale)[1]
        return chained(main + _ACCURACY, epsilon, steps, self.backwards)

    # A multivariate t is normal given a chi-square variable of r-d+1 degrees of freedom, and its
    # pair is a post-processing of the pair that publishes this variable, a mixture of Gaussian
    # pairs whose squared shifts are mu^2 times it. Composition uses the mixture.

    @property
    def _degrees(self) -> int:
        return self.n_components - self.n_features + 1

    def shift_cumulant(self, strength: FloatArray) -> FloatArray:
        """The mean over the chi-square variable."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(strength < 1, -0.5 * self._degrees * np.log1p(-strength), np.inf)

    def reference(self, w: FloatArray, square: FloatArray, others: FloatArray) -> QuadraticLoss:
        """The mixture, as far as its cumulants go.

        w(1+s) - s - mu^2 s(1+s), which replaces w(1+s) - s in the mean over the variable, has one
        root on either side of the strip: the cumulant is that of a Gaussian pair with two more
        directions, of count r-d+1 each, and one of count -(r-d), which no pair of laws has alone.
        """
        b, n = w - 1.0 - square, float(self._degrees)
        root = np.sqrt(b * b + 4.0 * square * w)
        big = root + np.abs(b)
        with np.errstate(divide="ignore", invalid="ignore"):
            right = np.where(b < 0, 0.5 * big / w, 2.0 * square / big)
            left = np.where(b < 0, 2.0 * square / (big - 2.0 * square), big / (2.0 * w - big))
        special = np.where(w < 1, (1.0 - w) / w, 1.0 - w)
        sign = -1.0 if self.backwards else 1.0
        excess = sign * np.stack([special, right, -left, others], axis=-1)
        count = np.broadcast_to([1.0 - n, n, n, self.n_features - 1.0], excess.shape)
        none = np.zeros(excess.shape)
        return _raw([excess, none, count, none, none, none])

    def _log_deltas(self, pairs: QuadraticLoss, epsilon: FloatArray) -> FloatArray:
        """By the contour integral of the cumulant; where that is not accurate, no bound."""
        with np.errstate(all="ignore"):
            value = pairs._contour_log_delta(epsilon)
        return np.where(np.isnan(value), 0.0, np.minimum(value + _ACCURACY, 0.0))

    def table_log_deltas(self, eps: FloatArray) -> FloatArray:
        """The mixture's, or those of the sketch whose solution it is, whichever is less."""
        sketch = self._sketch().upper_log_delta(eps)

        def mixture(q: ArrayLike, p: ArrayLike, epsilon: ArrayLike) -> FloatArray:
            q, p, e = np.broadcast_arrays(
                *(np.asarray(a, dtype=np.float64) for a in (q, p, epsilon))
            )
            pairs = self.reference(*_member(q.ravel(), p.ravel()))
            values = self._log_deltas(pairs, e.ravel()).reshape(e.shape)
            return np.where(values < 0, values, -np.inf)  # what could not be computed is no scale

        scale, _ = self._worst_on_border(eps, mixture)
        found = _largest(
            self._cells(border=True),
            lambda cells, which: self.gaussian_cell_bounds(cells, eps[which], scale[which]),
            np.maximum(scale + table_tolerance(eps), TABLE_FLOOR),
        )
        return np.minimum(found + _ACCURACY, sketch)

    def _sketch(self) -> QuadraticLoss:
        """The pair of the sketch."""
        sketch = QuadraticLoss(self.excess * (1.0 + SAFETY), 0.0, float(self.n_components))
        return sketch.reversed() if self.backwards else sketch

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """The lesser of two bounds: of the mixture, and of the sketch, whose solution it is."""
        return np.minimum(super().finite_cumulant(s), self._sketch().cumulant(s))

    def _pair(
        self,
        v: FloatArray,
        w: FloatArray,
        square: FloatArray,
        epsilon: ArrayLike,
        lower: bool = False,
        matters: ArrayLike = -math.inf,
    ) -> tuple[FloatArray, FloatArray]:
        if self.backwards:  # in units of the other law
            v, w, square = 1.0 / v, 1.0 / w, square / w
        v, w, square, eps, least = np.broadcast_arrays(
            v, w, square, np.asarray(epsilon, dtype=np.float64), matters
        )
        flat_v, flat_w, flat_mu, flat_eps = (a.reshape(-1) for a in (v, w, np.sqrt(square), eps))
        every = Pairs(flat_v, flat_w, flat_mu, flat_eps, self.n_features, self.n_components)
        low, high, least = np.full(v.size, -math.inf), np.empty(v.size), least.reshape(-1)
        for i in range(0, v.size, _CHUNK):
            part = slice(i, i + _CHUNK)
            low[part], high[part] = every[part].log_bounds(lower, least[part])
        return low.reshape(v.shape), high.reshape(v.shape)


def _member(q: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """w, m^2/r and the excess of the other directions of members of the family."""
    return (1.0 - q) / (1.0 - p) ** 2, p * (q - p) / (1.0 - p) ** 2, (q - p) / (1.0 - q)


@functools.lru_cache(maxsize=64)
def _few_cumulants(loss: SketchAndSolveLoss) -> tuple[FloatArray, FloatArray]:
    """A few orders, and the largest cumulant at each."""
    s = renyi.few_orders(1.0 / loss.excess)
    return s, np.asarray(loss.finite_cumulant(s))


@dataclass(frozen=True)
class Pairs:
    """Pairs of t laws as in the module's docstring, standard law first, each at its own epsilon.

    Attributes
    ----------
    v, w, mu, epsilon : ndarray of shape (n,)
    n_features, n_components : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.loss.student import Pairs
    >>> one = np.ones(1)
    >>> low, high = Pairs(0.9 * one, 0.8 * one, 0.2 * one, 0.5 * one, 3, 30).log_bounds(lower=True)
    >>> bool(low[0] < high[0] < low[0] + 0.01)
    True
    """

    v: FloatArray
    w: FloatArray
    mu: FloatArray
    epsilon: FloatArray
    n_features: int
    n_components: int

    def log_bounds(
        self, lower: bool = False, matters: FloatArray | float = -math.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Proven bounds on ln delta; the lower one is -inf unless it is asked for.

        Below `matters` the upper bound may be loose.
        """
        coarse = _coarse_angles(self.n_components - self.n_features + 1)
        cells = self.cells(coarse[None])
        with np.errstate(divide="ignore"):
            high = np.log(self._upper_sums(cells))
            low = np.log(self._lower_sums(cells)) if lower else np.full(high.shape, -math.inf)
            some = np.flatnonzero(high > matters)
            if some.size:
                chosen = self[some]
                cells = chosen.cells(chosen._angles(coarse, cells, some))
                high[some] = np.log(chosen._upper_sums(cells))
                if lower:
                    low[some] = np.log(chosen._lower_sums(cells))
        return low, np.minimum(high, 0.0)  # delta <= 1 is a theorem

    def __getitem__(self, some: NDArray[np.intp] | slice) -> Pairs:
        """Some of the pairs."""
        v, w, mu, epsilon = (a[some] for a in (self.v, self.w, self.mu, self.epsilon))
        return Pairs(v, w, mu, epsilon, self.n_features, self.n_components)

    # -- given the angle ---------------------------------------------------------------------

    @functools.cached_property
    def _limit(self) -> FloatArray:
        """X where the loss is epsilon."""
        d, r = self.n_features, self.n_components
        log_ratio = 2.0 * self.epsilon - (d - 1) * np.log(self.v) - np.log(self.w)
        return np.asarray(np.exp(log_ratio / (r + 1)))[:, None]

    @property
    def _margin(self) -> float:
        return _ERROR + _ROUNDING * self.n_components

    def _inside(self, T: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
        """Probability that o, times `scale`, is among the odds for which X > x at this T."""
        d, r = self.n_features, self.n_components
        if d == 1:
            return np.asarray(self._limit < T, dtype=np.float64)
        slope = 1.0 / self.v[:, None] - self._limit
        # With no slope X does not depend on o: all odds or none, as for d = 1.
        bound = (self._limit - T) / np.where(slope == 0, 1.0, slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            some = _half_line(np.maximum(bound, 0.0) / scale, slope > 0, d - 1, r - d + 2)
        return np.where(slope == 0, self._limit < T, some)

    def _other(self, limit: FloatArray, T: FloatArray) -> FloatArray:
        """E (x/X)^{(r+1)/2} at T, over the odds for which X > x at the T of `limit`."""
        power = 0.5 * (self.n_components - self.n_features + 2)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.exp(self.epsilon - 0.5 * np.log(self.w))[:, None]
            return scale * np.exp(-power * np.log(T)) * self._inside(limit, self.v[:, None] * T)

    # -- sums over the angle -----------------------------------------------------------------

    def _upper_sums(self, cells: _Cells) -> FloatArray:
        """Jensen's inequality where X > x all over the cell, the largest T where it is in part."""
        more, less = 1.0 + self._margin, 1.0 - self._margin
        # What overflows is left out of what is subtracted.
        whole, any_, part = (
            np.nan_to_num(self._other(limit, T), nan=0.0, posinf=0.0)
            for limit, T in (
                (cells.low, cells.mean_high),
                (cells.high, cells.high),
                (cells.low, cells.high),
            )
        )
        partly = np.maximum(less * any_ - more * part, 0.0)
        value = more * self._inside(cells.high) - less * whole - partly
        return np.asarray(np.sum(cells.mass_high * np.maximum(value, 0.0), axis=1))

    def _lower_sums(self, cells: _Cells) -> FloatArray:
        """The set that is best at the mean of T, and a chord of the convex second term."""
        width = cells.high - cells.low
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(width > 0, (cells.high - cells.mean_low) / width, 1.0)
            second = share * self._other(cells.mean_low, cells.low)
            second += (1.0 - share) * self._other(cells.mean_low, cells.high)
        second = np.nan_to_num(second, nan=np.inf, posinf=np.inf)
        value = (1.0 - self._margin) * self._inside(cells.mean_low) - (1.0 + self._margin) * second
        return np.asarray(np.sum(cells.mass_low * np.maximum(value, 0.0), axis=1))

    def _angles(self, coarse: FloatArray, cells: _Cells, some: NDArray[np.intp]) -> FloatArray:
        """Angles between cells: the coarse ones, and more where the mass of the set is."""
        high, mass = cells.high[some], np.broadcast_to(cells.mass_high, cells.high.shape)[some]
        weight = np.cbrt(mass * self._inside(high))
        total = np.cumsum(weight, axis=1)
        level = (np.arange(_FINE) + 0.5) / _FINE
        more = [np.interp(level * row[-1], np.concatenate([[0.0], row]), coarse) for row in total]
        every = np.concatenate([np.broadcast_to(coarse, (len(some), coarse.size)), more], axis=1)
        return np.sort(every, axis=1)

    def cells(self, angle: FloatArray) -> _Cells:
        """Bounds on T and its law in cells between these angles, zero among them."""
        dof = self.n_components - self.n_features + 1
        ends = np.abs(angle) >= 0.5 * math.pi
        cos, sin = np.where(ends, 0.0, np.cos(angle)), np.sin(angle)
        c = cos * cos
        # Beyond each angle, away from zero: mass, and the integrals of cos^2 and |sin cos|.
        tail = 0.5 * np.asarray(betainc(0.5 * dof, 0.5, c))
        with np.errstate(divide="ignore"):
            power = np.exp(0.5 * dof * np.log(c) - _log_beta(dof))
        squares = dof / (dof + 1.0) * (tail - power * np.abs(sin) / dof)
        products = power * cos / (dof + 1.0)
        mass, squares, products = (np.abs(np.diff(f, axis=1)) for f in (tail, squares, products))
        spare = _TAIL_ERROR * np.maximum(tail[:, :-1], tail[:, 1:])
        mu, inverse = self.mu[:, None], 1.0 / self.w[:, None]
        T = c + (sin - mu * cos) ** 2 * inverse
        # T = inverse + first cos^2 - second sin cos; its largest and least values multiply to
        # `inverse`.
        first, second = 1.0 + (mu * mu - 1.0) * inverse, 2.0 * mu * inverse
        top = 0.5 * np.arctan2(-second, first)
        largest = inverse + 0.5 * (first + np.hypot(first, second))
        bottom = np.where(top > 0, top - 0.5 * math.pi, top + 0.5 * math.pi)
        left, right = angle[:, :-1], angle[:, 1:]
        high = np.maximum(T[:, :-1], T[:, 1:])
        high = np.where((left <= top) & (top <= right), largest, high) * (1.0 + 2e-15)
        low = np.minimum(T[:, :-1], T[:, 1:])
        low = np.where((left <= bottom) & (bottom <= right), inverse / largest, low) * (1.0 - 2e-15)
        side = np.where(left + right > 0, 1.0, -1.0)
        reach = inverse + np.abs(first) + second
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = inverse + (first * squares - side * second * products) / mass
            error = (1e-15 + 4.0 * spare / mass) * reach
        mean, error = np.where(mass > 0, mean, high), np.where(mass > 0, error, np.inf)
        # A mean lies between the extremes: that is a theorem, not a clip.
        return _Cells(
            np.maximum(mass - spare, 0.0),
            mass + spare,
            low,
            high,
            np.clip(mean - error, low, high),
            np.clip(mean + error, low, high),
        )


@dataclass(frozen=True)
class _Cells:
    """For each cell of the angle bounds on its mass, and on T and its mean there."""

    mass_low: FloatArray
    mass_high: FloatArray
    low: FloatArray
    high: FloatArray
    mean_low: FloatArray
    mean_high: FloatArray


@functools.cache
def _coarse_angles(dof: int) -> FloatArray:
    """Angles from -pi/2 to pi/2, close in the middle and far out in the tails of the law."""
    level = 0.5 * np.exp(-_FURTHEST * np.linspace(0.0, 1.0, _COARSE + 1)[1:] ** 2)
    angle = np.arctan(-stdtrit(dof, level) / math.sqrt(dof))
    half = np.append(np.minimum(angle, 0.5 * math.pi), 0.5 * math.pi)
    return np.concatenate([-half[::-1], [0.0], half])


@functools.cache
def _log_beta(dof: int) -> float:
    """Ln B(dof/2, 1/2), without the cancellation of doubles."""
    x, half = arb(dof) / 2, arb(1) / 2
    return float((x.lgamma() + half.lgamma() - (x + half).lgamma()).mid())


def _step(
    low: FloatArray, high: FloatArray, n: int, dof: int, room: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """An epsilon and the ln delta at it for changing the scale of n coordinates within a cell.

    Given the other coordinates these n are multivariate t with `dof` degrees of freedom, up to a
    factor that both laws share; so it is a scale family of a single beta prime variable, whose
    logarithm has a log-concave density, and the largest ratio is the worst.
    """
    log_ratio = 0.5 * np.log(high / low) + 1e-15
    # Beyond the largest value of the loss, which is finite for t laws, nothing is left.
    largest = 0.5 * max(n, dof) * log_ratio * (1.0 + 1e-12)
    # Any step will do. Over log_ratio the loss has the tail of half a centred chi-square variable
    # of as many degrees of freedom as n or `dof`, whichever is less.
    tail = room + np.sqrt(min(n, dof) * room)
    step = np.minimum(np.expm1(log_ratio) * tail, largest)
    # B = |.|^2 has the density B^(n/2-1) (1+B)^-(n+dof)/2; the loss of B against ratio B exceeds
    # the step where 1 + B/ratio > (1 + c) (1 + B): on a half-line, to the right if c > 0.
    deltas = []
    for log_scale in (log_ratio, -log_ratio):
        c = np.expm1((2.0 * step - n * log_scale) / (n + dof))
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = c / (np.expm1(-log_scale) - c)
            some = bound > 0
            bound = np.where(some, bound, 0.0)
            mass = _half_line(bound, c > 0.0, n, dof)
            other = _half_line(bound * np.exp(-log_scale), c > 0.0, n, dof)
        # The last term is more than rounding can take from the difference.
        spare = 4.0 * (_ERROR + _ROUNDING * (n + dof)) * mass
        deltas.append(np.where(some, mass - np.exp(step) * other + spare, 0.0))
    with np.errstate(divide="ignore"):
        return step, np.asarray(np.log(np.maximum(np.maximum(*deltas), 1e-300)))


def _half_line(bound: FloatArray, right: NDArray[np.bool_], n: int, dof: int) -> FloatArray:
    """Pr[B > bound] where `right`, else Pr[B < bound], B beta prime with n/2 and dof/2."""
    a, b, x = 0.5 * n, 0.5 * dof, 1.0 / (1.0 + bound)
    with np.errstate(invalid="ignore"):  # an infinite bound is not below anything
        below = np.where(np.isinf(bound), 1.0, bound * x)
    return np.asarray(
        betainc(np.where(right, b, a), np.where(right, a, b), np.where(right, x, below))
    )
