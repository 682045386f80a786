"""Delta of several releases with spherical noise in doubles, and where its paths run.

The formulas are those of `spherical_sums`, where they are proven. Moment functions are sums over a
Gauss rule for the law of the loss itself, tilted to the point where the path crosses the real axis:

    F(z)/F(c) = sum of w_i e^{(z - c) x_i},   w_i > 0, |x_i| < 1,

without cancellation there. What is off here is off in speed and width of the proven bounds; fast
values are compared with those wherever a promise depends on them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._validate import FloatArray
from ndis.loss.certified import precision
from ndis.loss.spherical_sums import (
    BITS,
    ELLIPSES,
    FAR,
    GONE,
    NODES,
    Course,
    Panel,
    SphericalLaw,
)

ComplexArray = NDArray[np.complexfloating[Any, Any]]

_RULE = np.polynomial.legendre.leggauss(NODES)
_FINE = np.polynomial.legendre.leggauss(160)
# The law of the loss is looked at where its density is above e^-this of its largest.
_DEEP = 42.0
# Below this, relatively, moment functions are rounding errors.
_NOISE = 4e-15
# Beyond this saddle point, beside a Gaussian part, the end of the loss is too near.
_FARTHEST = 1e7
# The trapezoidal rule needs a moment function that falls with at least this power; legs, up to so
# many dimensions.
SLOW, _ORDERS = 13.0, 26


@functools.lru_cache(maxsize=512)
def law_of(dimension: int, distance: float) -> SphericalLaw:
    """The law in balls."""
    with precision(BITS):
        law = SphericalLaw(dimension, distance)
        law.series  # noqa: B018  # at this precision
        return law


def bessel_share(dimension: int, distance: float) -> float:
    """h K_mu(h)/K_{mu+1}(h)."""
    law = law_of(dimension, distance)
    return float(law.h * law.k0 / law.k1)


def fallen(dimension: int, distance: float, z: float) -> float:
    """About 1 - F'(z)/F(z), by Amos' bounds on quotients of Bessel functions."""
    mu, share = 0.5 * dimension - 1.0, bessel_share(dimension, distance)

    def gap(order: float) -> float:
        root = math.hypot(order + 1.5, z)
        return (order + 0.5 + (order + 1.5) ** 2 / (root + z)) / (order + 0.5 + root)

    first, second = gap(mu), gap(mu + 1.0)
    weight = share / z * (1.0 - first)
    return (first + weight * second) / (1.0 + weight)


class Tilted:
    """F(z)/F(c) e^{c - z} at complex z, by the law of v = 1 - x under the tilt c."""

    def __init__(self, dimension: int, distance: float, c: float) -> None:
        self.dimension, self.h, self.c = dimension, 0.5 * distance, c
        if dimension > 1:
            theta, weights = window(dimension, c, math.pi)
            share = bessel_share(dimension, distance) / (dimension - 1)
            sine = np.sin(theta)
            self.v = 2.0 * np.sin(0.5 * theta) ** 2
            logs = (dimension - 2) * np.log(sine) - c * self.v + np.log1p(share * sine**2)
            masses = weights * np.exp(logs - logs.max())
            self.masses = masses / masses.sum()

    def __call__(self, away: ComplexArray) -> ComplexArray:
        """At z = c + away."""
        if self.dimension > 1:
            return np.asarray(np.exp(-away[..., None] * self.v) @ self.masses)
        return self._laplace(self.c + away) / self._laplace(np.asarray(self.c + 0j))

    def _laplace(self, z: ComplexArray) -> ComplexArray:
        back = np.exp(-2.0 * z)
        return np.asarray((1.0 + back + self.h * (1.0 - back) / z) / 2.0)


def window(dimension: int, c: float, end: float | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gauss' rule for angles up to `end` where sin^(M-2) e^{c cos} is not negligible."""
    end = np.asarray(end)
    power = dimension - 2

    def log(theta: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            size = power * np.log(np.sin(theta)) if power else np.zeros(theta.shape)
        return size - 2.0 * c * np.sin(0.5 * theta) ** 2

    # The summit: power cos = c sin^2; its 1 - cos without cancellation.
    versine = power / (c + 0.5 * power + math.hypot(c, 0.5 * power)) if power else 0.0
    top = 2.0 * math.asin(math.sqrt(0.5 * versine))
    summit = np.minimum(top, end)
    deep = log(summit) - _DEEP

    def edge(near: FloatArray, far: FloatArray) -> FloatArray:
        for _ in range(40):
            middle = 0.5 * (near + far)
            above = log(middle) > deep
            near, far = np.where(above, middle, near), np.where(above, far, middle)
        return far

    low = edge(summit, np.zeros(summit.shape)) if power else np.zeros(summit.shape)
    high = np.where(log(end) > deep, end, edge(summit, end))
    nodes, weights = _FINE
    half = 0.5 * (high - low)[..., None]
    return half * nodes + 0.5 * (high + low)[..., None], half * weights


def one_log_delta(dimension: int, distance: float, eps: FloatArray) -> FloatArray:
    """Ln delta of one release at epsilons between -distance and distance."""
    if dimension == 1:
        return np.asarray(np.log(-np.expm1(0.5 * (eps - distance))))
    end = 2.0 * np.arcsin(np.sqrt((distance - eps) / (2.0 * distance)))
    theta, weights = window(dimension, 0.5 * distance, end)
    law = law_of(dimension, distance)
    share = bessel_share(dimension, distance) / (dimension - 1)
    with precision(BITS):
        front = float((law.k1 * law.weight).log() + law.h)
    # eps - t cos(theta), without cancellation.
    over = (
        -2.0
        * distance
        * np.sin(0.5 * (end[..., None] + theta))
        * np.sin(0.5 * (end[..., None] - theta))
    )
    sine = np.sin(theta)
    logs = (dimension - 2) * np.log(sine) - distance * np.sin(0.5 * theta) ** 2
    top = logs.max(axis=-1, keepdims=True)
    masses = weights * np.exp(logs - top) * (1.0 + share * sine**2) * -np.expm1(over)
    return np.asarray(front + top[..., 0] + np.log(masses.sum(axis=-1)))


# -- k releases of one law beside others, and Gaussian ones ---------------------------------------


@dataclass(frozen=True)
class Sum:
    """Terms (distance, dimension, count), and a Gaussian loss or None."""

    terms: tuple[tuple[float, int, int], ...]
    gaussian: Any

    @functools.cached_property
    def exact_reach(self) -> Fraction:
        """The largest value of the spherical part."""
        return sum((k * Fraction(t) for t, _, k in self.terms), Fraction(0))

    @functools.cached_property
    def reach(self) -> float:
        """The same as a double."""
        return float(self.exact_reach)

    def rest(self, eps: float) -> float:
        """How far epsilon is from it, rounded once."""
        return float(self.exact_reach - Fraction(eps))

    def log_delta(self, eps: float) -> float:
        """Ln delta, 0 <= eps below the largest value; NaN where doubles will not do."""
        if self.gaussian is None and self.terms[0][1] == 1:
            return math.nan
        if self.few(eps):
            return self.legs_log_delta(eps)
        return math.nan if self._near_the_end(eps) else self.line_log_delta(eps)

    @functools.cached_property
    def far(self) -> float:
        """The end of the strip on the right."""
        return math.inf if self.gaussian is None else float(self.gaussian.strip()[1])

    def scale(self, s: float, eps: float) -> float:
        """Ln E(s) - s eps, without the cancellation of what is linear."""
        with precision(BITS):
            logs = [k * float(law_of(m, t).less(_place(s, t))) for t, m, k in self.terms]
        parts = [*logs, s * self.rest(eps), 0.5 * self.reach]
        return math.fsum(parts if self.gaussian is None else [*parts, self.gaussian.cumulant(s)])

    def saddle(self, eps: float) -> float:
        """About where E(s) e^{-s eps}/(s (s+1)) is least on s > 0."""
        from scipy.optimize import brentq

        rest = self.rest(eps)

        def slope(log_s: float) -> float:
            s = math.exp(log_s)
            s = s if math.isinf(self.far) else s / (1.0 + s / self.far)
            total = rest - sum(k * t * fallen(m, t, (s + 0.5) * t) for t, m, k in self.terms)
            if self.gaussian is not None:
                little = 1e-5 * min(s, self.far - s)
                if little < 1e-14 * s:
                    return math.inf  # at the end of the strip
                ends = self.gaussian.cumulant(np.array([s + little, s - little]))
                total += float(ends[0] - ends[1]) / (2.0 * little)
            return total - 1.0 / s - 1.0 / (1.0 + s)

        low, high = -5.0, 5.0
        while slope(low) > 0.0 and low > -600.0:
            low -= 5.0
        while slope(high) < 0.0 and high < 600.0:
            high += 5.0
        while math.isinf(slope(high)):
            high = 0.5 * (low + high)
        s = math.exp(brentq(slope, low, high, rtol=1e-4) if slope(high) > 0.0 else high)
        return s if math.isinf(self.far) else s / (1.0 + s / self.far)

    # -- the line ----------------------------------------------------------------------------------

    def course(self, eps: float) -> Course | None:
        """A line with a period after which nothing returns; None too near the end of the loss."""
        c = self.saddle(eps)
        if not c < _FARTHEST:
            return None
        here = self.scale(c, eps)
        behind = (GONE - here + math.log1p(c)) / c
        top = self.reach + (0.0 if self.gaussian is None else float(self.gaussian.supremum()))
        best, ahead = top - eps, 0.0
        for stretch in (1.2, 1.5, 2.0, 3.0, 5.0, 9.0):
            s = min(c * stretch, 0.5 * (c + self.far))
            needed = (self.scale(s, eps) - here + GONE) / (s - c)
            if needed < best:
                best, ahead = needed, s
        return Course(c, 2.0 * math.pi / max(1.01 * behind, 1.01 * best, 1e-3 / c), ahead)

    def line_log_delta(self, eps: float) -> float:
        """Ln delta by the trapezoidal rule."""
        course = self.course(eps)
        if course is None:
            return math.nan
        c, total, size, start = course.c, 0.0, 0.0, 0
        parts = [(Tilted(m, t, (c + 0.5) * t), t, k) for t, m, k in self.terms]
        while start < 1 << 12:
            y = course.step * np.arange(start, start + 64)
            values = np.exp(1j * y * self.rest(eps)) / ((c + 1j * y) * (c + 1.0 + 1j * y))
            for law, t, k in parts:
                values *= law(1j * y * t) ** k
            if self.gaussian is not None:
                values *= _gaussian_ratio(self.gaussian, c, y)
            if start == 0:
                values[0] *= 0.5
            total += float(values.real.sum())
            size += float(np.abs(values).sum())
            if np.abs(values[-8:]).max() * c * (c + 1.0) < _NOISE:
                break
            start += 64
        else:
            return math.nan
        if not total > 1e-2 * size:
            return math.nan  # what is added up cancels
        return self.scale(c, eps) + math.log(total * course.step / math.pi)

    # -- the legs ----------------------------------------------------------------------------------

    def few(self, eps: float) -> bool:
        """Whether legs are taken: one kind with few orders, and |E| falls slowly or hardly ends."""
        ((_, m, k), *others) = self.terms
        if others or self.gaussian is not None or m > _ORDERS:
            return False
        return 0.5 * k * (m - 1) < SLOW or self._near_the_end(eps)

    def _near_the_end(self, eps: float) -> bool:
        return self.gaussian is None and self.rest(eps) < 0.1 * self.reach

    @property
    def decay(self) -> float:
        """The power with which |E| falls; infinite beside a Gaussian that counts."""
        powers = sum(0.5 * k * (m - 1) for _, m, k in self.terms)
        if self.gaussian is None:
            return powers
        spread = math.sqrt(float(self.gaussian.variance()))
        return math.inf if spread * 300.0 > self.reach else powers

    def legs(self, eps: float) -> LegsPath:
        """The path of few equal releases."""
        ((t, m, k),) = self.terms
        return LegsPath(m, t, k, self.rest(eps) / t, (self.saddle(eps) + 0.5) * t)

    def legs_log_delta(self, eps: float) -> float:
        """Ln delta along the legs."""
        t = self.terms[0][0]
        path = self.legs(eps)
        value = math.log(t / math.pi * path.integral()) + 0.5 * eps
        return value + path.k * path.log_first + path.gap * path.c


def _place(s: float, t: float) -> arb:
    return (arb(s) + arb(0.5)) * arb(t)


def _gaussian_ratio(loss: Any, c: float, y: NDArray[Any]) -> ComplexArray:
    """E(c + iy)/E(c) of a Gaussian loss, less what is linear at infinity in the others."""
    local, w = loss._terms.expand(np.asarray(c), 0.0), 1j * y[:, None]
    x = local.q * w
    exponent = -0.5 * local.n * (np.log1p(x) - x) + 0.5 * local.g * w * w / (1.0 + x)
    return np.asarray(np.exp(exponent.sum(axis=-1) + 1j * y * float(local.slope)))


class LegsPath:
    """Panels of the path of `spherical_sums.Legs`, and the integral along them in doubles.

    The integral is over F(z)^k e^{-ze}/(z^2 - h^2), relative to F(c)^k e^{-ce}; `gap` is k - e.
    """

    def __init__(self, dimension: int, distance: float, k: int, gap: float, c: float) -> None:
        self.law, self.h, self.k, self.gap, self.c = (
            law_of(dimension, distance),
            0.5 * distance,
            k,
            gap,
            c,
        )
        self.tilted = Tilted(dimension, distance, c)
        self.power = 0.5 * (dimension - 1)
        terms, rest, growth = self.law.series
        self.coefficients = np.array([float(q) for q in terms])
        self.rest = float(rest), float(growth)
        with precision(BITS):
            # Ln of F(c) e^-c, to which f_+ and f_- are relative.
            self.log_first = float(self.law.less(arb(c)))
        self.tolerance = math.exp(-GONE) / c
        height = max(FAR, c)
        self.panels = self._segment(height)
        ends = [self._leg(complex(c, height), side) for side in (-1, 1)]
        self.ends = ends[0], ends[1]

    def rates(self, side: int) -> tuple[FloatArray, FloatArray]:
        """The powers j that leave to a side, and their exponents."""
        j = np.arange(self.k + 1.0)
        rate = self.gap - 2.0 * (self.k - j)
        chosen = (rate >= 0.0) == (side < 0)
        return j[chosen], rate[chosen]

    def integral(self) -> float:
        """The imaginary part of the integral."""
        nodes, weights = _RULE
        total = 0.0
        for panel in self.panels:
            half = 0.5 * (panel.end - panel.start)
            z = 0.5 * (panel.start + panel.end) + half * nodes
            values = self._split(z, panel.side) if panel.side else self._whole(z)
            total += float(((values / (z * z - self.h**2)) @ weights * half).imag)
        return total

    def _whole(self, z: ComplexArray) -> ComplexArray:
        away = z - self.c
        return np.asarray(self.tilted(away) ** self.k * np.exp(self.gap * away))

    def _split(self, z: ComplexArray, side: int) -> ComplexArray:
        x = 1.0 / z
        plus, minus = (np.polyval(self.coefficients[::-1], way) for way in (-x, x))
        power = -self.power * np.log(z) - self.log_first
        plus, minus = np.log(plus) + power, np.log(minus) + power + 1j * math.pi * self.power
        j, rate = self.rates(side)
        exponents = j * plus[:, None] + (self.k - j) * minus[:, None] + rate * z[:, None]
        return np.asarray(np.exp(exponents + self._binomials(j) - self.gap * self.c).sum(axis=-1))

    def _binomials(self, j: FloatArray) -> FloatArray:
        return np.array([math.log(math.comb(self.k, int(each))) for each in j])

    # -- where the path runs -----------------------------------------------------------------------

    def _segment(self, height: float) -> list[Panel]:
        panels, low = list[Panel](), 0.0
        while low < height:
            length = height - low
            while self._strip_error(low, low + length) > self.tolerance and length > 1e-3:
                length *= 0.7
            panels.append(Panel(complex(self.c, low), complex(self.c, low + length), 0))
            low += length
        return panels

    def _strip_error(self, low: float, high: float) -> float:
        half, best = 0.5 * (high - low), math.inf
        for rho in ELLIPSES:
            along, across = 0.5 * half * (rho + 1.0 / rho), 0.5 * half * (rho - 1.0 / rho)
            left = self.c - across
            if left <= 0.0:
                continue
            above = max(0.0, 0.5 * (low + high) - along)
            near = math.hypot(max(0.0, left - self.h), above) * math.hypot(left + self.h, above)
            if near > 0.0:
                away = np.array([-across, across], dtype=np.complex128)
                size = float(np.abs(self._whole(self.c + away)).sum()) / near
                best = min(best, size * 5.0 * half * rho ** (-2.0 * NODES))
        return best

    def _leg(self, start: complex, side: int) -> complex:
        """Append the panels of a leg; return where it ends."""
        direction, z = complex(side, 1.0) / math.sqrt(2.0), start
        while self._tail(z, side) > self.tolerance and abs(z) < 1e30:
            length = 1.5 * z.imag
            while self._disc_error(z, z + length * direction, side) > self.tolerance:
                length *= 0.7
                if length < 1e-3 * z.imag:
                    return z
            self.panels.append(Panel(z, z + length * direction, side))
            z += length * direction
        return z

    def _bound(self, side: int, low: float, high: float, least: float) -> FloatArray:
        """Of each power that leaves to a side."""
        j, rate = self.rates(side)
        sizes = np.abs(self.coefficients) @ least ** -np.arange(self.coefficients.size)
        rest, growth = self.rest
        sizes += rest * least**-self.coefficients.size * math.exp(growth / least)
        log_size = math.log(sizes) - self.power * math.log(least) - self.log_first
        worst = rate * (high if side < 0 else low) - self.gap * self.c
        return np.asarray(np.exp(np.minimum(self._binomials(j) + self.k * log_size + worst, 700.0)))

    def _disc_error(self, start: complex, end: complex, side: int) -> float:
        middle, half, best = 0.5 * (start + end), 0.5 * abs(end - start), math.inf
        for rho in ELLIPSES:
            along = 0.5 * half * (rho + 1.0 / rho)
            least = abs(middle) - along
            if middle.imag > along and least > max(1.0, 2.0 * self.h):
                bound = self._bound(side, middle.real - along, middle.real + along, least)
                size = float(bound.sum()) / (least**2 - self.h**2)
                best = min(best, size * 5.0 * half * rho ** (-2.0 * NODES))
        return best

    def _tail(self, z: complex, side: int) -> float:
        _, rate = self.rates(side)
        room = abs(z) ** 2 - self.h**2
        if rate.size == 0:
            return 0.0
        with np.errstate(divide="ignore"):
            length = np.minimum(
                math.pi / (2.0 * math.sqrt(room)), math.sqrt(2.0) / np.abs(rate) / room
            )
        return float(self._bound(side, z.real, z.real, abs(z)) @ length)
