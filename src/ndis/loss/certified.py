"""The contour integral of `contour`, proven: ball arithmetic, tail included.

The path is the same hyperbola up to a parameter U, integrated by python-flint with a rigorous
error bound, and from there a straight ray to infinity, on which the integrand is bounded by
hand: a vertical ray, on which every factor falls algebraically or as a Gaussian, or the
hyperbola's tangent, along which the exponent falls linearly. The derivation stands in
docs/proofs/certified-bounds.md.

What is enclosed is the integral of the numbers that a `Cumulant` holds, taken as exact, or of
whatever lies within its `uncertainty` of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import flint
import numpy as np
from flint import acb, arb
from numpy.typing import NDArray

from ndis.loss import contour

FloatArray = NDArray[np.float64]

_WIDTH = 1e-13
_BITS = (90, 140, 240, 480, 1200)
# Bits asked of the integral: fewer than a double has, of something of order one, are not used.
_ASKED = 54
_SUPPORT_BITS = 4096
# A path on which the integrand first grows by more than this, in logarithms, is not taken.
_SWELL = 12.0


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits inside the block."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


class Uncertainty(Protocol):
    """How far a cumulant function in ball arithmetic may be from the one meant."""

    def error(self, s: acb) -> arb:
        """A bound on the distance to the K(s) meant, NaN where it has none."""

    def rise(self, s: acb) -> arb:
        """How far ln|e^K| meant may rise above this one's value at s on the ray straight up."""


class Cumulant(Protocol):
    """A cumulant function in ball arithmetic."""

    def cumulant(self, s: arb) -> arb:
        """K(s) inside the strip of convergence."""

    def slope(self, s: arb) -> arb:
        """K'(s)."""

    def expansion(self, c: arb) -> list[tuple[arb, arb, arb]]:
        """The triples (n, q, g) of `contour.Local` around c."""

    @property
    def uncertainty(self) -> Uncertainty | None:
        """None where this is exactly the function meant."""


@dataclass(frozen=True)
class LossCumulant:
    """Lambda(s) of a loss: the sign of each excess, z = |excess|, shift and count."""

    sign: list[int]
    z: list[arb]
    h: list[arb]
    n: list[arb]

    def cumulant(self, s: arb) -> arb:
        """Lambda(s)."""
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -s if sign > 0 else 1 + s
            total += (n * (u * z.log1p() - (u * z).log1p()) + h * u * (u - 1) / (1 + u * z)) / 2
        return total

    def slope(self, s: arb) -> arb:
        """Lambda'(s)."""
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -s if sign > 0 else 1 + s
            scale = 1 + u * z
            part = n * (z.log1p() - z / scale) + h * (2 * u - 1 + u * u * z) / scale**2
            total += -part / 2 if sign > 0 else part / 2
        return total

    def expansion(self, c: arb) -> list[tuple[arb, arb, arb]]:
        """The triples (n, q, g) around c."""
        triples = []
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -c if sign > 0 else 1 + c
            scale = 1 + u * z
            if not scale > 0:
                raise ArithmeticError("The contour left the strip of convergence.")
            q = -z / scale if sign > 0 else z / scale
            triples.append((n, q, h * (1 + z) / scale**3))
        return triples

    @property
    def uncertainty(self) -> Uncertainty | None:
        """None: the stored numbers are the loss."""
        return None

    def supremum(self) -> arb | None:
        """The largest value of the loss, None if it has none."""
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            if sign > 0 or sign == 0:
                return None
            total += (n * z.log1p() + h / z) / 2
        return total


def log_delta_bounds(
    excess: FloatArray, shift: FloatArray, count: FloatArray, eps: float
) -> tuple[float, float]:
    """Proven bounds on ln delta(eps) of the loss with these stored numbers."""
    from ndis.loss.quadratic import QuadraticLoss

    if np.isinf(excess).any():
        return 0.0, 0.0
    keep = ((excess != 0) & (count > 0)) | (shift > 0)
    x, h, n = excess[keep], shift[keep], count[keep]
    n = np.where(x == 0, 0.0, n)
    if x.size == 0:
        return _trivial(eps)
    terms = LossCumulant(
        [int(np.sign(v)) for v in x],
        [arb(abs(float(v))) for v in x],
        [arb(float(v)) for v in h],
        [arb(float(v)) for v in n],
    )
    support = _beyond_support(terms, eps)
    if support is not None:
        return support
    return delta_of(terms, QuadraticLoss(x[None], h[None], n[None]), eps)


def delta_of(terms: Cumulant, loss: Any, eps: float) -> tuple[float, float]:
    """Proven bounds on ln delta(eps), with the path that suits a nearby `QuadraticLoss`."""
    with np.errstate(all="ignore"):
        _, _, guess = loss.problem(np.array([eps]))

    def side(complement: bool) -> tuple[float, float]:
        with np.errstate(all="ignore"):
            problem, start, _ = loss.problem(np.array([eps]), np.array([complement]))
        return log_integral_bounds(terms, problem, start, eps)

    def from_complement(bounds: tuple[float, float]) -> tuple[float, float]:
        low, high = bounds
        with precision(_BITS[1]):
            return (
                _down((-(arb(min(high, 0.0)).exp())).log1p()),
                _up((-(arb(low).exp())).log1p()),
            )

    # Of delta and 1 - delta the smaller is the one with digits; the guess may be wrong.
    if guess[0]:
        bounds = [from_complement(side(True))]
        if bounds[0][0] < -0.7:
            bounds.append(side(False))
    else:
        bounds = [side(False)]
        if bounds[0][1] > -0.7:
            bounds.append(from_complement(side(True)))
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    return low, min(high, 0.0)  # delta <= 1 is a theorem


def _trivial(eps: float) -> tuple[float, float]:
    """Identical laws: delta = max(0, 1 - e^eps)."""
    if eps >= 0:
        return -math.inf, -math.inf
    with precision(_BITS[0]):
        value = (-(arb(eps).expm1())).log()
        return _down(value), _up(value)


def _beyond_support(terms: LossCumulant, eps: float) -> tuple[float, float] | None:
    """Bounds where the loss cannot exceed eps; None where it can."""
    for bits in (_BITS[0], 600, _SUPPORT_BITS):
        with precision(bits):
            top = terms.supremum()
            if top is None or top > eps:
                return None
            if top <= eps:
                return -math.inf, -math.inf
    # Undecided at 4096 bits: the generic bound delta <= exp(Lambda(s) - s eps), any s > 0, holds.
    with precision(_SUPPORT_BITS):
        s = arb(2) ** 200
        return -math.inf, _up(terms.cumulant(s) - s * eps)


def log_integral_bounds(
    terms: Cumulant, problem: contour.Problem, start: FloatArray, t: float
) -> tuple[float, float]:
    """Proven bounds on ln |I| of one integral with exponent K(s) - s t.

    Where nothing better can be had, the upper bound is exp(K(c) - c t): with a pole at 0 and
    c > 0 the integral is the mean of something between 0 and the indicator of W > t, and
    Chernoff's bound holds. Elsewhere it is then infinite.
    """
    path = _path(terms, problem, start, t)
    best = (-math.inf, math.inf)
    for bits in _BITS:
        if path is None:
            break
        with precision(bits):
            value = _log_integral(terms, path, problem.poles, t, bits)
            if value is None:
                continue
            before = best[1] - best[0]
            best = max(best[0], _down(value)), min(best[1], _up(value))
            width = best[1] - best[0]
            if width < max(_WIDTH, 4e-16 * abs(best[1])) or width > 0.5 * before:
                break
    if math.isinf(best[1]) and 0.0 in problem.poles and problem.high[0] > 0:
        # Beyond ln delta of some -1e28 a double cannot name the saddle point.
        c = arb(path.c if path is not None else _distant_saddle(terms, problem, t))
        with precision(_BITS[-1]):
            exponent = terms.cumulant(c) - c * t
            if terms.uncertainty is not None:
                exponent += terms.uncertainty.error(acb(c)).abs_upper()
            return -math.inf, _up(exponent) if exponent.is_finite() else math.inf
    return best


@dataclass(frozen=True)
class _Path:
    """Where the hyperbola crosses the real axis, its two scales, and where the ray begins."""

    c: float
    bend: float
    scale: float
    end: float


def _path(terms: Cumulant, problem: contour.Problem, start: FloatArray, t: float) -> _Path | None:
    """A good path; whether it is good decides the time and the width, never the truth."""
    with np.errstate(all="ignore"):
        c, _, scale, bends = contour.descent(problem, start)
        slopes = [float(bend[0]) for bend in bends]
        path = _first_path(terms, problem, t, float(c[0]), float(scale[0]), slopes)
        if path is None and problem.high[0] > 0:
            # Pressed against the end of the support, doubles cannot tell the slope from 0.
            far = _distant_saddle(terms, problem, t)
            if far == _edge(problem):
                return None
            with precision(4 * _BITS[0]):
                curve = sum((n * q * q / 2 + g for n, q, g in terms.expansion(arb(far))), arb(0))
                width = float(((len(problem.poles) / arb(far) ** 2 + curve) ** -0.5).mid())
            path = _first_path(terms, problem, t, far, width, [-0.45, 0.45, -0.85, 0.85])
    return path


def _first_path(
    terms: Cumulant, problem: contour.Problem, t: float, c: float, scale: float, bends: list[float]
) -> _Path | None:
    """The first of several bends along which the integrand dies out without swelling."""
    if not (math.isfinite(c) and math.isfinite(scale)):
        return None
    with precision(4 * _BITS[0]):
        slope = float((terms.slope(arb(c)) - t).mid())
    local = replace(problem.expand(np.array([c])), slope=np.array([slope]))
    for bend in bends:
        end = _end(local, problem.poles, c, scale, bend * scale)
        if end is not None:
            return _Path(c, bend * scale, scale, end)
    return None


def _distant_saddle(terms: Cumulant, problem: contour.Problem, t: float) -> float:
    """The saddle point on the right, by bisection of its logarithm in ball arithmetic."""
    low, high = -700.0, math.log(min(float(problem.high[0]), 1e304))
    with precision(4 * _BITS[0]):
        for _ in range(60):
            middle = 0.5 * (low + high)
            s = arb(middle).exp()
            slope = terms.slope(s) - t - sum((1 / (s - pole) for pole in problem.poles), arb(0))
            low, high = (low, middle) if slope > 0 else (middle, high)
    return min(math.exp(low), _edge(problem))


def _edge(problem: contour.Problem) -> float:
    """The end of the strip, but for what a double needs to name a point inside it."""
    return (1.0 - 2.0**-30) * float(problem.high[0])


def _end(
    local: contour.Local, poles: tuple[float, ...], c: float, scale: float, bend: float
) -> float | None:
    """A parameter U at which the ray's bound is some 1e-32 of the whole, if the path has one.

    None too if the integrand swells on the way there. The choice decides the width of the
    enclosure, not its truth.
    """
    u = np.arange(0.25, 60.0, 0.25)
    w = (bend * (np.cosh(u) - 1.0) + 1j * scale * np.sinh(u))[None, :]
    with np.errstate(all="ignore"):
        curved = bool(local.g.any())
        size = (local.slope[:, None] * w + contour.quadratic(local, w, curved=curved)).real[0]
        size += np.log(np.abs(w[0]) / scale)
        for pole in poles:
            size -= np.log(np.abs(1.0 + w[0] / (c - pole)))
        small = np.flatnonzero(size < -75.0)
    if small.size == 0 or size[: small[0]].max(initial=0.0) > _SWELL:
        return None
    return float(u[small[0]])


def _log_integral(
    terms: Cumulant, path: _Path, poles: tuple[float, ...], t: float, bits: int
) -> arb | None:
    c, A, B = arb(path.c), arb(path.bend), arb(path.scale)
    exponent = _Exponent(terms.slope(c) - t, terms.expansion(c), [c - pole for pole in poles])
    doubt = terms.uncertainty

    def integrand(u: acb, analytic: bool) -> acb:
        sinh, cosh = u.sinh(), u.cosh()
        w = acb(0, 1) * B * sinh + A * (cosh - 1)
        value = exponent(w, analytic).exp() * (acb(0, 1) * B * cosh + A * sinh)
        for gap in exponent.gaps:
            value /= 1 + w / gap
        if doubt is not None:
            radius = doubt.error(c + w)
            around = arb(0, radius.abs_upper()) if radius.is_finite() else radius
            value *= acb(around, around).exp()
        return value

    tolerance = arb(2) ** -min(bits - 25, _ASKED)
    body = acb.integral(
        integrand,
        0,
        path.end,
        rel_tol=tolerance,
        abs_tol=tolerance * B,
        eval_limit=50 * bits,
        depth_limit=20 * bits,
    ).imag
    end = arb(path.end)
    foot = acb(A * (end.cosh() - 1), B * end.sinh())
    tangent = acb(A * end.sinh(), B * end.cosh())
    if doubt is None:
        bounds = exponent.tangent_ray(foot, tangent / abs(tangent)) + exponent.vertical_ray(foot)
    else:
        bounds = exponent.vertical_ray(foot, doubt.rise(c + foot))
    whole = (body + arb(0, min(bounds, default=arb("inf")))) / arb.pi()
    if not whole > 0:
        return None
    log_gaps = sum((abs(gap).log() for gap in exponent.gaps), arb(0))
    return terms.cumulant(c) - c * t - log_gaps + whole.log()


class _Exponent:
    """K(c + w) - K(c) - t w: a slope, the triples (n/2, g/2, q), and the poles' distances from c.

    A triple is -n/2 log1pmx(q w) + g/2 w^2/(1 + q w) or, the same,

        n/2 (q w - ln(1 + q w)) + g/2 [w/q - 1/q^2 + 1/(q^2 (1 + q w))].

    The former is used up to |q w| = 1/2. Beyond, the latter: the linear parts, which nearly
    cancel, are then added up before they meet a ball.
    """

    def __init__(self, slope: arb, triples: list[tuple[arb, arb, arb]], gaps: list[arb]) -> None:
        self.slope, self.gaps = slope, gaps
        self.triples = sorted(
            ((n / 2, g / 2, q) for n, q, g in triples), key=lambda triple: -abs(triple[2]).mid()
        )
        self.reach = [0.5 / size if size else math.inf for size in map(_size, self.triples)]
        # Entry k: the linear and the constant part with the first k triples seen from afar.
        self.linears, self.constants = [slope], [arb(0)]
        for half_n, half_g, q in self.triples:
            pull = half_g / q if half_g != 0 else half_g
            self.linears.append(self.linears[-1] + half_n * q + pull)
            self.constants.append(self.constants[-1] - (pull / q if half_g != 0 else half_g))

    def __call__(self, w: acb, analytic: bool = False) -> acb:
        k = bisect_left(self.reach, float(abs(w).mid()))
        total = self.linears[k] * w + self.constants[k]
        for half_n, half_g, q in self.triples[:k]:
            scale = 1 + q * w
            if half_n != 0:
                total -= half_n * scale.log(analytic=analytic)
            if half_g != 0:
                total += half_g / (q * q * scale)
        pulls = acb(0)
        for half_n, half_g, q in self.triples[k:]:
            x = q * w
            if half_n != 0:
                total -= half_n * _log1pmx(x, analytic)
            if half_g != 0:
                pulls += half_g / (1 + x)
        return total + w * w * pulls

    def vertical_ray(self, foot: acb, rise: arb | None = None) -> list[arb]:
        """Bounds on the integral over |integrand| from `foot` straight up to infinity.

        With a given `rise` the exponent is only known not to rise further than that, and the
        poles alone make the integral converge.
        """
        height = foot.imag
        slow, log_slow = arb(len(self.gaps)), arb(0)
        for gap in self.gaps:
            log_slow -= (height / abs(gap)).log()
        log_foot = self(foot).real
        if rise is not None:
            log_foot += rise
            orders = [(slow, log_slow)]
        else:
            log_foot += self._own_rise(foot)
            # Each |1 + q w|^2 is (1 - rho) + rho x^2 times its value at the foot, with
            # x = Im w / height, and that is at least x^(2 rho), and at least rho x^2.
            fast, log_fast = slow, log_slow
            for half_n, _, q in self.triples:
                if half_n == 0:
                    continue
                rho = (q * height) ** 2 / abs(1 + q * foot) ** 2
                slow += half_n * rho
                fast += half_n
                log_fast -= half_n * rho.log() / 2
            orders = [(slow, log_slow), (fast, log_fast)]
        size = log_foot.exp()
        bounds = [
            (size * loss.exp() * height / (order - 1)).abs_upper()
            for order, loss in orders
            if order > 1
        ]
        gauss = sum((2 * half_g for _, half_g, q in self.triples if q == 0), arb(0))
        if gauss > 0:
            for gap in self.gaps:
                size /= abs(1 + foot / gap)
            bounds.append((size / (gauss * height)).abs_upper())
        return [bound for bound in bounds if bound.is_finite()]

    def _own_rise(self, foot: acb) -> arb:
        """How far the pulls rise on the way up: those whose 1 + q Re w is negative."""
        total = arb(0)
        for _, half_g, q in self.triples:
            scale = 1 + q * foot
            if half_g != 0 and not scale.real > 0:
                total += half_g / q**2 * (1 / scale).real.abs_upper()
        return total

    def tangent_ray(self, foot: acb, direction: acb) -> list[arb]:
        """Bounds on the integral over |integrand| from `foot` to infinity in this direction."""
        if any(q == 0 for *_, q in self.triples):
            return []
        growth = self.linears[-1]
        rate = -growth * direction.real
        if not rate > 0:
            return []

        def distance(point: arb) -> arb:
            seen = (point - foot) / direction
            return abs(point - foot) if seen.real < 0 else abs(seen.imag)

        log_size = growth * foot.real
        for half_n, half_g, q in self.triples:
            clear = abs(q) * distance(-1 / q)
            log_size += half_g / q**2 * (1 / clear - 1) - half_n * clear.log()
        for gap in self.gaps:
            log_size -= (distance(-gap) / abs(gap)).log()
        bound = (log_size.exp() / rate).abs_upper()
        return [bound] if bound.is_finite() else []


def _size(triple: tuple[arb, arb, arb]) -> float:
    return abs(float(triple[2].mid()))


def _log1pmx(x: acb, analytic: bool) -> acb:
    """ln(1 + x) - x, whose derivative -x/(1 + x) is small: around a ball's centre it is narrow."""
    if not abs(x) < 0.9:
        return (1 + x).log(analytic=analytic) - x
    centre = x.mid()
    around = arb(0, (abs(x / (1 + x)) * abs(x - centre)).abs_upper())
    return (1 + centre).log() - centre + acb(around, around)


def _down(value: arb) -> float:
    result = math.nextafter(float(value.lower()), -math.inf)
    return -math.inf if math.isnan(result) else result


def _up(value: arb) -> float:
    result = math.nextafter(float(value.upper()), math.inf)
    return math.inf if math.isnan(result) else result
