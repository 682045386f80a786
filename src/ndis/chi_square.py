"""The generalized chi-square law, with relative accuracy in both tails.

    W = sum_i weights_i chi2(dofs_i, noncentralities_i) + sigma Z + shift

Its weights may have any signs. Tails and density are one contour integral each (`loss.contour`),
with the cumulant function

    K(s) = sigma^2 s^2/2 + sum_i [-(n_i/2) ln(1 - 2 s w_i) + nc_i s w_i/(1 - 2 s w_i)]

of W - shift, a pole at 0 for the tails and none for the density. Nothing is subtracted from 1
unless it is small, so a tail of 1e-300 has as many right digits as one of 0.1. What the fast rule
cannot give is enclosed in ball arithmetic (`loss.certified`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import certified, contour

BoolArray = NDArray[np.bool_]

# An enclosure that is wider than this (relatively, or in ln below e^-700) is no answer.
_ENOUGH = 1e-10
# So near the end of its support, beside the scale on which it changes, a one-sided law is a power.
_NEAR = 1e-17
# A normal part is narrow if it is this much less, beside that scale.
_HAIR = 1e-30
# Above ln 1/2 by what two tails may be off: a tail this common is not subtracted from one.
_HALF = -0.68


class GeneralizedChiSquare:
    """Weighted sum of independent noncentral chi-squares and a normal.

    Parameters
    ----------
    weights : array_like, shape (k,)
        Any real numbers; zeros are dropped.
    dofs : array_like
        Degrees of freedom, positive, not necessarily whole; one for each weight, or one for all.
    noncentralities : array_like
        Noncentralities (sums of squared means), at least 0.
    sigma : float
        Standard deviation of the normal part.
    shift : float
        A constant.

    Notes
    -----
    A distribution in the manner of `scipy.stats`, frozen. Every method takes arrays, and infinite
    points too. What cannot be enclosed to ten digits is NaN: 97 of 36,342 extreme points tried.

    Examples
    --------
    >>> from ndis import GeneralizedChiSquare
    >>> law = GeneralizedChiSquare([1.0, -0.5], dofs=[3, 2], noncentralities=[0.0, 1.0])
    >>> f"{law.cdf(1.0):.12f}", f"{law.sf(200.0):.6e}", f"{law.logcdf(-2000.0):.6f}"
    ('0.479522250587', '2.385839e-43', '-1941.861256')
    """

    __slots__ = ("dofs", "noncentralities", "shift", "sigma", "weights")

    def __init__(
        self,
        weights: ArrayLike,
        dofs: ArrayLike = 1.0,
        noncentralities: ArrayLike = 0.0,
        sigma: float = 0.0,
        shift: float = 0.0,
    ) -> None:
        w = np.atleast_1d(_validate.floats("weights", weights))
        n = _validate.floats_within("dofs", dofs, 0.0, math.inf, closed=False)
        nc = _validate.floats_within("noncentralities", noncentralities, 0.0, math.inf)
        try:
            w, n, nc = np.broadcast_arrays(w, n, nc)
        except ValueError:
            raise ValueError(
                f"Expected one degree of freedom and one noncentrality per weight, got shapes "
                f"{w.shape}, {n.shape} and {nc.shape}; make them match."
            ) from None
        if w.ndim != 1:
            raise ValueError(
                f"Expected weights to be a vector, got shape {w.shape}; a law has one list of them."
            )
        live = w != 0
        self.weights, self.dofs, self.noncentralities = w[live], n[live], nc[live]
        self.sigma = _validate.non_negative("sigma", sigma)
        self.shift = _validate.real("shift", shift)
        if self.weights.size == 0 and self.sigma == 0:
            raise ValueError(
                "Expected a weight other than 0 or sigma > 0, got neither; "
                "a constant has no density."
            )

    # -- the verbs of scipy.stats ------------------------------------------------------------

    def logsf(self, x: ArrayLike) -> Any:
        """Ln Pr[W > x].

        Examples
        --------
        >>> from ndis import GeneralizedChiSquare
        >>> f"{GeneralizedChiSquare([2.0, 1.0]).logsf(1e4):.6f}"
        '-2504.137914'
        """
        return self._each(x, lambda law, t: law.log_tail(t))

    def logcdf(self, x: ArrayLike) -> Any:
        """Ln Pr[W <= x]."""
        return self._each(x, lambda law, t: law.mirrored().log_tail(-t))

    def sf(self, x: ArrayLike) -> Any:
        """Pr[W > x]."""
        return self._each(x, lambda law, t: law.tail(t))

    def cdf(self, x: ArrayLike) -> Any:
        """Pr[W <= x]."""
        return self._each(x, lambda law, t: law.mirrored().tail(-t))

    def logpdf(self, x: ArrayLike) -> Any:
        """Ln of the density; +inf at a point where it has a pole."""
        return self._each(x, lambda law, t: law.log_density(t) - self._exponent * math.log(2.0))

    def pdf(self, x: ArrayLike) -> Any:
        """Density."""
        with np.errstate(over="ignore"):
            return np.exp(self.logpdf(x))

    def isf(self, q: ArrayLike) -> Any:
        """The x with Pr[W > x] = q.

        Examples
        --------
        >>> from ndis import GeneralizedChiSquare
        >>> law = GeneralizedChiSquare([1.0, -1.0], sigma=0.5)
        >>> f"{law.isf(1e-200):.6f}", f"{law.ppf(0.9):.6f}"
        ('913.132333', '2.158666')
        """
        return self.shift + self._quantiles(q, self._standard())

    def ppf(self, q: ArrayLike) -> Any:
        """The x with Pr[W <= x] = q."""
        return self.shift - self._quantiles(q, self._standard().mirrored())

    def rvs(
        self, size: int | tuple[int, ...] = 1, random_state: int | np.random.Generator | None = None
    ) -> FloatArray:
        """Random draws: for simulations, not for releases (those come from `ndis.randomness`)."""
        rng = np.random.default_rng(random_state)
        total = self.shift + self.sigma * rng.standard_normal(size)
        for w, n, nc in zip(self.weights, self.dofs, self.noncentralities, strict=True):
            draw = rng.noncentral_chisquare(n, nc, size) if nc > 0 else rng.chisquare(n, size)
            total = total + w * draw
        return np.asarray(total)

    def mean(self) -> float:
        """Expectation."""
        return self.shift + math.fsum(self.weights * (self.dofs + self.noncentralities))

    def var(self) -> float:
        """Variance."""
        return self.std() ** 2

    def std(self) -> float:
        """Standard deviation."""
        return math.ldexp(self._standard().std, self._exponent)

    def support(self) -> tuple[float, float]:
        """The ends of the support."""
        law, c = self._standard(), self.shift
        return c if law.positive else -math.inf, c if law.negative else math.inf

    def __repr__(self) -> str:
        return (
            f"GeneralizedChiSquare({self.weights.tolist()}, {self.dofs.tolist()}, "
            f"{self.noncentralities.tolist()}, sigma={self.sigma:g}, shift={self.shift:g})"
        )

    # -- underneath --------------------------------------------------------------------------

    @property
    def _exponent(self) -> int:
        """Of the power of two that is about the largest of the deviations that add up to W."""
        spread = np.abs(self.weights) * np.sqrt(2.0 * self.dofs + 4.0 * self.noncentralities)
        return int(np.frexp(max(self.sigma, float(spread.max(initial=0.0))))[1])

    def _standard(self) -> _Standard:
        """The law of W - shift in units of that power, in which no square over- or underflows."""
        weights = np.ldexp(self.weights, -self._exponent)
        tiny = np.copysign(np.finfo(np.float64).tiny, weights)
        weights = np.where(np.abs(weights) < np.abs(tiny), tiny, weights)
        sigma = math.ldexp(self.sigma, -self._exponent)
        return _Standard(weights, self.dofs, self.noncentralities, sigma)

    def _quantiles(self, q: ArrayLike, law: _Standard) -> Any:
        """The points of a law (this one or its mirror image) with upper tails q."""
        levels = _validate.floats_within("q", q, 0.0, 1.0)
        flat = levels.reshape(-1)
        result, rare = np.empty(flat.size), flat <= 0.5
        result[rare] = law.quantiles(flat[rare], self._exponent)
        result[~rare] = -law.mirrored().quantiles(1.0 - flat[~rare], self._exponent)
        return result.reshape(levels.shape)[()] + 0.0  # no -0.0

    def _each(self, x: ArrayLike, log_value: Callable[[_Standard, FloatArray], FloatArray]) -> Any:
        """Apply to standardised points, in chunks."""
        points = _points(x)
        with np.errstate(over="ignore"):
            flat = np.ldexp(points.reshape(-1) - self.shift, -self._exponent)
        law = self._standard()
        size = max(1, contour.CHUNK // (32 * max(1, self.weights.size)))
        pieces = [log_value(law, flat[i : i + size]) for i in range(0, flat.size, size)]
        joined = np.concatenate(pieces) if pieces else np.zeros(0)
        return joined.reshape(points.shape)[()]


def _log_power_of_normal(y: float, power: float) -> float:
    """Ln E[(y + Z)_+^power], power > -1, by confluent hypergeometric functions."""
    if y > 1e9 * max(1.0, power):
        return power * math.log(y)
    if y < -1e8:
        return -0.5 * y * y - (power + 1.0) * math.log(-y)
    with certified.precision(192):
        p, z, half = arb(power), arb(y) ** 2 / 2, arb(0.5)
        front = (p + 1).gamma() / (2 * arb.pi()).sqrt() * (-z).exp() / arb(2) ** ((p + 1) / 2)
        if y < 0:
            return float((front * z.hypgeom_u((p + 1) / 2, half)).log().mid())
        even = z.hypgeom_1f1((p + 1) / 2, half) / (p / 2 + 1).gamma()
        odd = arb(2).sqrt() * y * z.hypgeom_1f1(p / 2 + 1, arb(1.5)) / ((p + 1) / 2).gamma()
        return float((front * arb.pi().sqrt() * (even + odd)).log().mid())


def _points(x: ArrayLike) -> FloatArray:
    """Points as an array of floats, infinite ones allowed."""
    try:
        points = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        return _validate.floats("x", x)  # says what is wrong
    _validate.floats("x", np.where(np.isinf(points), 0.0, points))
    return points


@dataclass(frozen=True)
class _Standard:
    """The part of a law that is not its constant, in units of about its largest deviation."""

    weights: FloatArray
    dofs: FloatArray
    noncentralities: FloatArray
    sigma: float

    def mirrored(self) -> _Standard:
        """The law of -W."""
        return _Standard(-self.weights, self.dofs, self.noncentralities, self.sigma)

    @property
    def mean(self) -> float:
        return math.fsum(self.weights * (self.dofs + self.noncentralities))

    @property
    def std(self) -> float:
        parts = 2.0 * self.weights**2 * (self.dofs + 2.0 * self.noncentralities)
        return math.sqrt(self.sigma**2 + math.fsum(parts))

    @property
    def negative(self) -> bool:
        """Whether W is never positive."""
        return self.sigma == 0 and bool(np.all(self.weights < 0))

    @property
    def positive(self) -> bool:
        """Whether W is never negative."""
        return self.sigma == 0 and bool(np.all(self.weights > 0))

    @property
    def _hairline(self) -> _Standard | None:
        """A one-sided law whose normal part is too narrow for doubles, without that part."""
        bare = replace(self, sigma=0.0)
        narrow = 0.0 < self.sigma * bare._curvature < _HAIR and (bare.negative or bare.positive)
        return bare if narrow and self.weights.size else None

    def _hair(self, t: FloatArray, power: float) -> FloatArray:
        """Ln E[(sigma Z - t)_+^power], which a narrow normal part makes of a power at the end."""
        with np.errstate(over="ignore"):
            points = -t / self.sigma
        logs = np.array([_log_power_of_normal(y, power) for y in points.tolist()])
        return logs.reshape(t.shape) + power * math.log(self.sigma)

    def _near(self, distance: FloatArray) -> BoolArray:
        """Whether so near the end of a one-sided law's support that the law is a power."""
        with np.errstate(over="ignore"):
            return np.asarray(distance * self._curvature < _NEAR)

    def _negligible(self, t: FloatArray) -> BoolArray:
        """Whether Pr[W > t] is proven to be below e^-800: Chernoff's bound inside the strip."""
        top = float(self.weights.max(initial=0.0))
        c = min(1.0, 0.25 / top) if top > 0 else 1.0
        x = c * self.weights
        with np.errstate(over="ignore"):
            parts = 0.5 * self.dofs * -np.log1p(-2.0 * x) + self.noncentralities * x / (1.0 - 2 * x)
            bound = 0.5 * (c * self.sigma) ** 2 + float(np.abs(parts).sum())
        # The bound counts all parts as positive, so that rounding is far below the margin.
        return np.asarray(c * t * (1.0 - 1e-9) > bound * (1.0 + 1e-9) + 800.0)

    def tail(self, t: FloatArray) -> FloatArray:
        """Pr[W > t], 0 where it is far below the least double."""
        result = np.zeros(t.size)
        seen = ~self._negligible(t)
        result[seen] = np.exp(self.log_tail(t[seen]))
        return result

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Ln Pr[W > t]."""
        bare = self._hairline
        if bare is not None:
            side = -1.0 if bare.negative else 1.0
            near = self._near(side * t) & np.isfinite(t)
            result = bare.log_tail(t)
            power = 0.5 * float(self.dofs.sum())
            rare = self._log_constant() - math.log(power) + self._hair(-side * t[near], power)
            result[near] = rare if side < 0 else np.log1p(-np.exp(rare))
            return result
        beyond = t == np.inf if not self.negative else t >= 0
        within = t == -np.inf if not self.positive else t <= 0
        result = np.where(beyond, -np.inf, np.where(within, 0.0, np.nan))
        result[self.mirrored()._negligible(-t)] = 0.0  # as near one as doubles can tell
        inside = np.flatnonzero(np.isnan(result))
        result[inside] = self._either_tail(t[inside])
        return result

    def _either_tail(self, t: FloatArray) -> FloatArray:
        """Ln Pr[W > t] inside the support: where it is common, from the tail that is rare."""
        above_mean = t >= self.mean
        value = np.full(t.size, np.nan)
        value[above_mean] = self._upper(t[above_mean])
        common = np.flatnonzero(~(value < -0.7))
        rest = self.mirrored()._upper(-t[common])
        # Of a complement that is nearly one no digit is left: what has no value keeps none.
        value[common] = np.log1p(-np.exp(np.where(rest < _HALF, rest, np.nan)))
        rare = common[~(rest < -0.7) & ~above_mean[common]]
        value[rare] = self._upper(t[rare])
        return value

    def _upper(self, t: FloatArray) -> FloatArray:
        """Ln Pr[W > t] as an integral to the right of 0."""
        total = float(self.dofs.sum())
        return self._near_end(t, (0.0,), 0.5 * total, math.log(2.0 / total) if total else 0.0)

    def log_density(self, t: FloatArray) -> FloatArray:
        """Ln of the density."""
        bare = self._hairline
        if bare is not None:
            side = -1.0 if bare.negative else 1.0
            near = self._near(side * t) & np.isfinite(t)
            result = bare.log_density(t)
            power = 0.5 * float(self.dofs.sum()) - 1.0
            result[near] = self._log_constant() + self._hair(-side * t[near], power)
            return result
        result = np.empty(t.size)
        right = t >= self.mean  # the saddle point is then never on the left
        result[right] = self._log_density(t[right])
        result[~right] = self.mirrored()._log_density(-t[~right])
        return result

    def _log_density(self, t: FloatArray) -> FloatArray:
        """Ln of the density at points not below the mean."""
        result = np.where(t == np.inf, -np.inf, np.nan)
        total = float(self.dofs.sum())
        if self.negative:
            result[t > 0] = -np.inf
            edge = self._log_constant() if total == 2 else math.copysign(math.inf, 2 - total)
            result[t == 0] = edge
        elif self.sigma == 0 and total <= 2:
            result[t == 0] = np.inf
        inside = np.flatnonzero(np.isnan(result))
        result[inside] = self._near_end(t[inside], (), 0.5 * total - 1.0, 0.0)
        return result

    def _log_constant(self) -> float:
        """Ln C of the density C |t|^(N/2 - 1) next to the end of a one-sided law's support."""
        w, n, nc = np.abs(self.weights), self.dofs, self.noncentralities
        total = float(n.sum())
        return -math.fsum(0.5 * n * np.log(2.0 * w) + 0.5 * nc) - math.lgamma(0.5 * total)

    def _near_end(
        self, t: FloatArray, poles: tuple[float, ...], power: float, constant: float
    ) -> FloatArray:
        """An integral or, so near the end of the support that nothing else is left, a power."""
        if not self.negative:
            return self._log_integral(t, poles)
        near = self._near(-t)
        result = np.empty(t.size)
        result[near] = self._log_constant() + constant + power * np.log(-t[near])
        result[~near] = self._log_integral(t[~near], poles)
        return result

    def _log_integral(self, t: FloatArray, poles: tuple[float, ...]) -> FloatArray:
        if t.size == 0:
            return np.zeros(0)
        with np.errstate(all="ignore"):
            value, accurate = contour.log_integral(*self.cumulant.problem(t, poles))
        for row in np.flatnonzero(~accurate):
            value[row] = self._certified(float(t[row]), poles)
        return value

    def _certified(self, t: float, poles: tuple[float, ...]) -> float:
        with np.errstate(all="ignore"):
            problem, start = self.cumulant.problem(np.array([t]), poles)
            low, high = certified.log_integral_bounds(_ChiSquareCumulant(self), problem, start, t)
        enough = _ENOUGH * max(1.0, abs(high) if high < -700.0 else 1.0)
        return 0.5 * (low + high) if high - low <= enough else math.nan

    def quantiles(self, q: FloatArray, exponent: int) -> FloatArray:
        """The points with Pr[W > t] = q, q at most one half, times 2^exponent.

        Newton's first step from the saddle point's own approximation, then secants inside a
        bracket; towards a finite end of the support in the logarithm of the distance to it.
        """
        if self._hairline is not None:
            return self._hairline_quantiles(q, exponent)
        with np.errstate(divide="ignore"):
            target = np.log(q)
        y, slope, known = self._guess(np.maximum(target, -800.0))
        # Markov's and Chebyshev's inequalities: more than one half lies above these.
        least = -math.log(-4.0 * self.mean) if self.negative else self.mean - 2.0 * self.std
        y, low, high = np.maximum(y, least), np.full(q.size, least), np.full(q.size, np.inf)
        gap, last, last_gap = np.zeros(q.size), y, np.zeros(q.size)
        searched = (q > 0) & ~known
        for step in range(120):
            rows = np.flatnonzero(searched)
            if rows.size == 0:
                break
            gap[rows] = self.log_tail(self._point(y[rows])) - target[rows]
            low, high = np.where(gap > 0, y, low), np.where(gap > 0, high, y)
            with np.errstate(all="ignore"):
                if step:
                    slope = np.where(gap != last_gap, (gap - last_gap) / (y - last), slope)
                proposal = y - gap / slope
                middle = np.where(np.isinf(high), y + 2.0**step, 0.5 * (low + high))
            sound = (proposal > low) & (proposal < high) & (step % 8 < 7)
            proposal = np.where(sound, proposal, middle)
            size = 1.0 if self.negative else np.abs(y)
            searched &= np.abs(proposal - y) > 4e-15 * size
            searched &= np.abs(gap) > 2e-15 * np.maximum(1.0, -target)
            last, last_gap = np.where(searched, y, last), np.where(searched, gap, last_gap)
            y = np.where(searched, proposal, y)
        end = 0.0 if self.negative else np.inf
        return np.where(q > 0, self._point(y, exponent), end)

    def _hairline_quantiles(self, q: FloatArray, exponent: int) -> FloatArray:
        """Those of the law without its normal part or, where that is seen, by bisection."""
        bare = self._hairline
        assert bare is not None
        result = bare.quantiles(q, exponent)
        if bare.positive:  # q <= 1/2 of it lies above, where nothing is seen
            return result
        result[q == 0] = np.inf
        rows = np.flatnonzero((-result < math.ldexp(_NEAR / self._curvature, exponent)) & (q > 0))
        if rows.size:
            result[rows] = np.ldexp(self._end_quantiles(np.log(q[rows])), exponent)
        return result

    def _end_quantiles(self, log_q: FloatArray) -> FloatArray:
        """By bisection: in t within 40 sigma of the end, in its logarithm farther inside."""
        wide = np.full(log_q.size, 40.0 * self.sigma)
        inside = self.log_tail(-wide) <= log_q
        low = np.where(inside, -_NEAR / self._curvature, -wide)
        high = np.where(inside, -wide, wide)
        for _ in range(80):
            with np.errstate(invalid="ignore"):
                geometric = -np.sqrt(-low) * np.sqrt(-high)
            middle = np.where(inside, geometric, 0.5 * (low + high))
            above = self.log_tail(middle) > log_q
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high

    def _point(self, y: FloatArray, exponent: int = 0) -> FloatArray:
        """The point t (times 2^exponent) of a coordinate y in which quantiles are searched."""
        with np.errstate(over="ignore"):  # beyond the largest double
            if self.negative:
                return -np.exp(exponent * math.log(2.0) - y)
            return np.asarray(np.ldexp(y, exponent))

    def _guess(self, log_q: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """A first coordinate y, the slope of the logarithm of the tail in it, and if y is exact."""
        top = float(self.weights.max(initial=0.0))
        right = 0.5 / top if top > 0 else math.inf
        # From where c is small beside the deviations of a law, however far away its strip ends.
        least = -30.0 - (max(math.log(right), 0.0) if top > 0 else 0.0)
        low, high = np.full(log_q.size, least), np.full(log_q.size, 30.0 if top > 0 else 300.0)
        zero = np.zeros(log_q.size)
        for _ in range(18):
            middle = 0.5 * (low + high)
            with np.errstate(over="ignore"):  # of a guess that is too far out
                c = right / (1.0 + np.exp(-middle)) if top > 0 else np.exp(middle)
                local = self.cumulant.expand(c, zero)
                spread = np.sqrt(2 * np.pi * local.second)
                tail = local.value - c * local.slope - np.log1p(c * spread)
            low, high = np.where(tail > log_q, middle, low), np.where(tail > log_q, high, middle)
        t = local.slope
        if not self.negative:
            return t, -c, np.zeros(t.size, dtype=bool)
        # Near the end of the support the tail is a power.
        power = 0.5 * float(self.dofs.sum())
        log_t = (log_q - self._log_constant() + math.log(power)) / power
        near, exact = (log_t < math.log(share / self._curvature) for share in (0.1, _NEAR))
        return np.where(near, -log_t, -np.log(-t)), np.where(near, -power, c * t), exact

    @property
    def _curvature(self) -> float:
        """How fast a one-sided law leaves the power that it is next to the end of its support."""
        with np.errstate(over="ignore"):
            return float(np.sum((self.dofs + self.noncentralities) / np.abs(self.weights)))

    @functools.cached_property
    def cumulant(self) -> contour.Cumulant:
        """K(s), the normal part last."""
        w, n, nc = (np.append(a, 0.0) for a in (self.weights, self.dofs, self.noncentralities))
        normal = np.append(np.zeros(w.size - 1), self.sigma**2)
        return contour.Cumulant(
            n, -2.0 * w, 4.0 * nc * w**2 + normal, w * (n + nc), 0.0 * w, nc * w, 0.5 * normal
        )


@dataclass(frozen=True)
class _ChiSquareCumulant(certified.BallCumulant):
    """K(s) in ball arithmetic."""

    law: _Standard

    def at_zero(self) -> tuple[arb, list[tuple[arb, arb, arb]]]:
        """The mean, and the triples of the normal part and of the others."""
        variance, slope = arb(self.law.sigma) ** 2, arb(0)
        triples = [] if variance == 0 else [(arb(0), arb(0), variance)]
        parts = (self.law.weights, self.law.dofs, self.law.noncentralities)
        for w, n, nc in zip(*(map(arb, part.tolist()) for part in parts), strict=True):
            slope += w * (n + nc)
            triples.append((n, -2 * w, 4 * nc * w**2))
        return slope, triples

    def growth(self, t: float) -> arb:
        """Without a normal part K itself grows like a logarithm, exactly."""
        return -arb(t) if self.law.sigma == 0 else arb("nan")
