"""The generalized chi-square law, with relative accuracy in both tails.

    W = sum_i weights_i chi2(dofs_i, noncentralities_i) + sigma Z + shift

Its weights may have any signs. Tails and density are one contour integral each (`loss.contour`),
with the cumulant function

    K(s) = shift s + sigma^2 s^2/2 + sum_i [-(n_i/2) ln(1 - 2 s w_i) + nc_i s w_i/(1 - 2 s w_i)],

a pole at 0 for the tails and none for the density. Nothing is subtracted from 1 unless it is
small, so a tail of 1e-300 has as many right digits as one of 0.1. What the fast rule cannot give is
enclosed in ball arithmetic (`loss.certified`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.loss import contour
from ndis.loss.contour import log1pmx

FloatArray = NDArray[np.float64]

_ROUNDING = 2.0**-53
# Below this |2 s w| a logarithm is taken less its linear part, which goes into the mean.
_SMALL = 0.25
# An enclosure that is wider than this (relatively, or in ln below e^-700) is no answer.
_ENOUGH = 1e-10


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
    A distribution in the manner of `scipy.stats`, frozen. Every method takes arrays.

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
                f"Expected one degree of freedom and one noncentrality a weight, got shapes "
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
        points = _points(x)
        return self._each(points, _Upper(self).log_tail)

    def logcdf(self, x: ArrayLike) -> Any:
        """Ln Pr[W <= x]."""
        return self._mirrored().logsf(-_points(x))

    def sf(self, x: ArrayLike) -> Any:
        """Pr[W > x]."""
        return np.exp(self.logsf(x))

    def cdf(self, x: ArrayLike) -> Any:
        """Pr[W <= x]."""
        return np.exp(self.logcdf(x))

    def logpdf(self, x: ArrayLike) -> Any:
        """Ln of the density; +inf at a point where it has a pole."""
        points = _points(x)
        centre = self.mean()
        above, below = _Upper(self), _Upper(self._mirrored())

        def log_density(t: FloatArray) -> FloatArray:
            # The saddle point is then never on the left, where the support may end.
            result = np.empty(t.size)
            right = t >= centre
            result[right] = above.log_density(t[right])
            result[~right] = below.log_density(-t[~right])
            return result

        return self._each(points, log_density)

    def pdf(self, x: ArrayLike) -> Any:
        """Density."""
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
        return self._quantile(q, upper=True)

    def ppf(self, q: ArrayLike) -> Any:
        """The x with Pr[W <= x] = q."""
        return self._quantile(q, upper=False)

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
        return self.sigma**2 + math.fsum(
            2.0 * self.weights**2 * (self.dofs + 2.0 * self.noncentralities)
        )

    def std(self) -> float:
        """Standard deviation."""
        return math.sqrt(self.var())

    def support(self) -> tuple[float, float]:
        """The ends of the support."""
        low, high = -math.inf, math.inf
        if self.sigma == 0 and np.all(self.weights > 0):
            low = self.shift
        if self.sigma == 0 and np.all(self.weights < 0):
            high = self.shift
        return low, high

    def __repr__(self) -> str:
        return (
            f"GeneralizedChiSquare({self.weights.tolist()}, {self.dofs.tolist()}, "
            f"{self.noncentralities.tolist()}, sigma={self.sigma:g}, shift={self.shift:g})"
        )

    # -- underneath --------------------------------------------------------------------------

    def _mirrored(self) -> GeneralizedChiSquare:
        """The law of -W."""
        law = object.__new__(GeneralizedChiSquare)
        law.weights, law.dofs, law.noncentralities = -self.weights, self.dofs, self.noncentralities
        law.sigma, law.shift = self.sigma, -self.shift
        return law

    def _each(self, points: FloatArray, log_value: Callable[[FloatArray], FloatArray]) -> Any:
        """Apply to a flat array of finite points, in chunks."""
        flat = points.reshape(-1)
        size = max(1, contour.CHUNK // (32 * max(1, self.weights.size)))
        pieces = [log_value(flat[i : i + size]) for i in range(0, flat.size, size)]
        joined = np.concatenate(pieces) if pieces else np.zeros(0)
        return joined.reshape(points.shape)[()]

    def _quantile(self, q: ArrayLike, *, upper: bool) -> Any:
        levels = _validate.floats_within("q", q, 0.0, 1.0)
        flat = [self._one_quantile(float(v), upper) for v in levels.reshape(-1)]
        return np.array(flat).reshape(levels.shape)[()]

    def _one_quantile(self, q: float, upper: bool) -> float:
        """A root in log space of the tail that is at most one half, whose digits are all there."""
        low, high = self.support()
        if q in (0.0, 1.0):
            return high if upper == (q == 0.0) else low
        if q > 0.5:
            upper, target = not upper, math.log1p(-q)
        else:
            target = math.log(q)
        tail = self.logsf if upper else self.logcdf

        def gap(x: float) -> float:
            return float(tail(x)) - target

        near, step = self.mean(), self.std()
        too_common = gap(near) > 0
        outward = 1.0 if too_common == upper else -1.0
        end = high if outward > 0 else low
        while True:
            # Towards an end of the support the distance to it is halved instead.
            far = near + outward * step
            far = 0.5 * (near + end) if (far - end) * outward >= 0 else far
            if far == near or (gap(far) > 0) != too_common:
                return _root(gap, *sorted((near, far))) if far != near else far
            near, step = far, 2.0 * step


def _root(gap: Callable[[float], float], low: float, high: float) -> float:
    """Brent's root, to rounding error."""
    from scipy.optimize import brentq

    scale = max(abs(low), abs(high))
    return float(brentq(gap, low, high, xtol=4e-16 * scale + 5e-324, rtol=8.9e-16, maxiter=500))


def _points(x: ArrayLike) -> FloatArray:
    return _validate.floats("x", x)


@dataclass(frozen=True)
class _Upper:
    """Upper tails of a law: everything with its saddle point to the right of 0."""

    law: GeneralizedChiSquare

    def log_tail(self, t: FloatArray) -> FloatArray:
        """Ln Pr[W > t]."""
        low, high = self.law.support()
        result = np.where(t <= low, 0.0, np.where(t >= high, -np.inf, np.nan))
        inside = np.flatnonzero(np.isnan(result))
        result[inside] = self._either_tail(t[inside])
        return result

    def _either_tail(self, t: FloatArray) -> FloatArray:
        """Ln Pr[W > t] inside the support: where it is common, from the tail that is rare."""
        below = _Upper(self.law._mirrored())
        above_mean = t >= self.law.mean()
        value = np.full(t.size, np.nan)
        value[above_mean] = self._log_integral(t[above_mean])
        common = np.flatnonzero(~(value < -0.7))
        rest = below._log_integral(-t[common])
        value[common] = np.log1p(-np.exp(rest))
        rare = common[~(rest < -0.7) & ~above_mean[common]]
        value[rare] = self._log_integral(t[rare])
        return value

    def log_density(self, t: FloatArray) -> FloatArray:
        """Ln of the density at points not below the mean."""
        result = np.full(t.size, np.nan)
        _, high = self.law.support()
        if self.law.sigma == 0:
            total = float(self.law.dofs.sum())
            if high < math.inf:
                result[t > high] = -np.inf
                result[t == high] = self._log_density_at_edge(total)
            elif total <= 2:
                result[t == self.law.shift] = np.inf
        inside = np.flatnonzero(np.isnan(result))
        if inside.size:
            result[inside] = self._log_integral(t[inside], ())
        return result

    def _log_density_at_edge(self, total: float) -> float:
        """Ln of the limit of the density at the end of the support."""
        if total != 2:
            return math.inf if total < 2 else -math.inf
        w, n, nc = np.abs(self.law.weights), self.law.dofs, self.law.noncentralities
        return -math.fsum(0.5 * n * np.log(2.0 * w) + 0.5 * nc)

    def _log_integral(self, t: FloatArray, poles: tuple[float, ...] = (0.0,)) -> FloatArray:
        if t.size == 0:
            return np.zeros(0)
        with np.errstate(all="ignore"):
            value, accurate = contour.log_integral(*self.problem(t, poles))
        for row in np.flatnonzero(~accurate):
            value[row] = self._certified(float(t[row]), poles)
        return value

    def _certified(self, t: float, poles: tuple[float, ...]) -> float:
        from ndis.loss import certified

        with np.errstate(all="ignore"):
            problem, start = self.problem(np.array([t]), poles)
            low, high = certified.log_integral_bounds(_BallCumulant(self.law), problem, start, t)
        if not high - low <= _ENOUGH * max(1.0, abs(high) if high < -700.0 else 1.0):
            raise ArithmeticError(
                f"Found only ln value in [{low}, {high}] at x={t}; please report this law: "
                f"{self.law!r}."
            )
        return 0.5 * (low + high)

    def problem(
        self, t: FloatArray, poles: tuple[float, ...]
    ) -> tuple[contour.Problem, FloatArray]:
        """The integral of exp(K(s) - s t), over s with a pole, and a guess at its saddle point."""
        w, n, nc = self.law.weights, self.law.dofs, self.law.noncentralities
        variance, drift = self.law.sigma**2, self.law.shift - t

        def derivatives(c: FloatArray) -> tuple[FloatArray, FloatArray]:
            inverse = 1.0 / (1.0 - (2.0 * c)[:, None] * w)
            pull = nc * inverse
            slope = drift + variance * c + (w * inverse * (n + pull)).sum(axis=-1)
            second = variance + (2.0 * (w * inverse) ** 2 * (n + 2.0 * pull)).sum(axis=-1)
            return slope, second

        positive, negative = w[w > 0], w[w < 0]
        right = 0.5 / float(positive.max()) if positive.size else math.inf
        left = 0.5 / float(negative.min()) if negative.size else -math.inf
        zero = np.zeros(t.size)
        m, v = self.law.mean() - t, self.law.var()
        if poles:
            root = np.sqrt(m * m + 4.0 * v)
            start = np.where(m > 0, 2.0 / (m + root), (root - m) / (2.0 * v))
        else:
            start = -m / v
        problem = contour.Problem(
            derivatives,
            lambda c: self.expand(c, t),
            zero if poles else zero + left,
            zero + right,
            np.where(variance > 0, np.nan, drift),
            poles,
        )
        return problem, start / (1.0 + start / right)

    def expand(self, c: FloatArray, t: FloatArray) -> contour.Local:
        """The exponent K(s) - s t around s = c."""
        w, n, nc = self.law.weights, self.law.dofs, self.law.noncentralities
        variance = self.law.sigma**2
        x = -(2.0 * c)[:, None] * w
        scale = 1.0 + x
        # Where |x| is small, -(n/2) ln(1+x) is written -(n/2) log1pmx(x) + n w c, and the mean
        # n w + nc w is taken off t before anything is multiplied by c.
        small = np.abs(x) < _SMALL
        drift = self.law.shift - t + np.where(small, w * (n + nc), 0.0).sum(axis=-1)
        logs = 0.5 * n * np.where(small, log1pmx(x), np.log1p(x))
        pulls = nc * (w * c[:, None]) / scale * np.where(small, -x, 1.0)
        inverse = w / scale
        slopes = np.where(
            small, -x * inverse * (n + nc * (1.0 + 1.0 / scale)), inverse * (n + nc / scale)
        )
        value = drift * c + 0.5 * variance * c * c + (pulls - logs).sum(axis=-1)
        slope = drift + variance * c + slopes.sum(axis=-1)
        size = (
            np.abs(self.law.shift)
            + np.abs(t)
            + np.where(small, np.abs(w) * (n + nc), 0.0).sum(axis=-1)
        )
        noise = _ROUNDING * (
            2.0 * size * np.abs(c)
            + 0.5 * variance * c * c
            + (np.abs(logs) + np.abs(pulls)).sum(axis=-1)
        )
        rows = (c.size, 1)
        return contour.Local(
            value,
            slope,
            noise,
            np.hstack([np.broadcast_to(n, x.shape), np.zeros(rows)]),
            np.hstack([-2.0 * inverse, np.zeros(rows)]),
            np.hstack([4.0 * nc * inverse * inverse / scale, np.full(rows, variance)]),
        )


class _BallCumulant:
    """K(s) of the stored numbers in ball arithmetic: a `certified.Cumulant`."""

    def __init__(self, law: GeneralizedChiSquare) -> None:
        from flint import arb

        self.rows = [
            (arb(float(w)), arb(float(n)), arb(float(nc)))
            for w, n, nc in zip(law.weights, law.dofs, law.noncentralities, strict=True)
        ]
        self.sigma, self.shift = arb(law.sigma), arb(law.shift)

    def cumulant(self, s: Any) -> Any:
        total = self.shift * s + self.sigma**2 * s * s / 2
        for w, n, nc in self.rows:
            scale = 1 - 2 * s * w
            total += nc * s * w / scale - n / 2 * scale.log()
        return total

    def slope(self, s: Any) -> Any:
        total = self.shift + self.sigma**2 * s
        for w, n, nc in self.rows:
            scale = 1 - 2 * s * w
            total += w * (n + nc / scale) / scale
        return total

    def expansion(self, c: Any) -> list[tuple[Any, Any, Any]]:
        triples = [] if self.sigma == 0 else [(0 * c, 0 * c, self.sigma**2)]
        for w, n, nc in self.rows:
            scale = 1 - 2 * c * w
            if not scale > 0:
                raise ArithmeticError("The contour left the strip of convergence.")
            triples.append((n, -2 * w / scale, 4 * nc * w**2 / scale**3))
        return triples

    def growth(self, t: float) -> Any:
        return self.shift - t if self.sigma == 0 else self.shift / 0

    def doubt(self, c: Any) -> None:
        return None  # the stored numbers are the law
