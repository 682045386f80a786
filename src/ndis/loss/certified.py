"""The contour integral of `contour`, proven: ball arithmetic, tail included.

The path is the same hyperbola up to a parameter U, integrated by python-flint with a rigorous
error bound, and from there a vertical ray to infinity, on which the integrand is bounded by
hand. On a vertical ray every factor of |exp(K(s) - s eps)| is largest at the ray's foot s_U,
but for a mean-shift factor whose 1 + q Re(w) is negative, which then grows by
exp(g/(2 q^2) |Re 1/(1 + q w_U)|) at the most; and 1/|s (s + 1)| <= 1/(Im s)^2, so that

    |ray| <= |exp(K(s_U) - s_U eps)| * growth / Im s_U.

The derivation stands in docs/proofs/certified-bounds.md. What is enclosed is the delta of the
stored numbers of a loss, taken as exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import flint
import numpy as np
from flint import acb, arb
from numpy.typing import NDArray

from ndis.loss import contour

FloatArray = NDArray[np.float64]

_WIDTH = 1e-13
_BITS = (90, 140, 240, 480, 1200)
_SUPPORT_BITS = 4096


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


@dataclass(frozen=True)
class _Terms:
    """Exact stored numbers of a loss: excess sign, z = |excess|, shift and count."""

    sign: list[int]
    z: list[arb]
    h: list[arb]
    n: list[arb]

    def cumulant(self, s: arb) -> arb:
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -s if sign > 0 else 1 + s
            total += (
                n * (u * (1 + z).log() - (1 + u * z).log()) + h * u * (u - 1) / (1 + u * z)
            ) / 2
        return total

    def slope(self, s: arb) -> arb:
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -s if sign > 0 else 1 + s
            scale = 1 + u * z
            part = n * ((1 + z).log() - z / scale) + h * (2 * u - 1 + u * u * z) / scale**2
            total += -part / 2 if sign > 0 else part / 2
        return total

    def expansion(self, c: arb) -> list[tuple[arb, arb, arb]]:
        """The triples (n, q, g) of `contour.Local`."""
        triples = []
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            u = -c if sign > 0 else 1 + c
            scale = 1 + u * z
            if not scale > 0:
                raise ArithmeticError("The contour left the strip of convergence.")
            q = -z / scale if sign > 0 else z / scale
            triples.append((n, q, h * (1 + z) / scale**3))
        return triples

    def supremum(self) -> arb | None:
        """The largest value of the loss, None if it has none."""
        total = arb(0)
        for sign, z, h, n in zip(self.sign, self.z, self.h, self.n, strict=True):
            if sign > 0 or sign == 0:
                return None
            total += (n * (1 + z).log() + h / z) / 2
        return total


def log_delta_bounds(
    excess: FloatArray, shift: FloatArray, count: FloatArray, eps: float
) -> tuple[float, float]:
    """Proven bounds on ln delta(eps) of the loss with these stored numbers."""
    if np.isinf(excess).any():
        return 0.0, 0.0
    keep = ((excess != 0) & (count > 0)) | (shift > 0)
    x, h, n = excess[keep], shift[keep], count[keep]
    n = np.where(x == 0, 0.0, n)
    if x.size == 0:
        return _trivial(eps)
    with _precision(_BITS[0]):
        terms = _Terms(
            [int(np.sign(v)) for v in x],
            [arb(abs(float(v))) for v in x],
            [arb(float(v)) for v in h],
            [arb(float(v)) for v in n],
        )
    support = _beyond_support(terms, eps)
    if support is not None:
        return support
    low, high = _enclose(terms, x, h, n, eps, complement=False)
    if high > -0.7:
        rest_low, rest_high = _enclose(terms, x, h, n, eps, complement=True)
        with _precision(_BITS[1]):
            low = max(low, _down((-(arb(rest_high).exp())).log1p()))
            high = min(high, _up((-(arb(rest_low).exp())).log1p()))
    return low, min(high, 0.0)  # delta <= 1 is a theorem


def _trivial(eps: float) -> tuple[float, float]:
    """Identical laws: delta = max(0, 1 - e^eps)."""
    if eps >= 0:
        return -math.inf, -math.inf
    with _precision(_BITS[0]):
        value = (-(arb(eps).expm1())).log()
        return _down(value), _up(value)


def _beyond_support(terms: _Terms, eps: float) -> tuple[float, float] | None:
    """Bounds where the loss cannot exceed eps; None where it can."""
    for bits in (_BITS[0], 600, _SUPPORT_BITS):
        with _precision(bits):
            top = terms.supremum()
            if top is None or top > eps:
                return None
            if top <= eps:
                return -math.inf, -math.inf
    # Undecided at 4096 bits: the generic bound delta <= exp(Lambda(s) - s eps), any s > 0, holds.
    with _precision(_SUPPORT_BITS):
        s = arb(2) ** 200
        return -math.inf, _up(terms.cumulant(s) - s * eps)


def _enclose(
    terms: _Terms, x: FloatArray, h: FloatArray, n: FloatArray, eps: float, *, complement: bool
) -> tuple[float, float]:
    """Bounds on ln of the integral: delta, or 1 - delta on the strip (-1, 0)."""
    path = _path(terms, x, h, n, eps, complement)
    best = (-math.inf, math.inf)
    for bits in _BITS:
        with _precision(bits):
            value = _log_integral(terms, path, eps, bits)
            if value is None:
                continue
            low, high = _down(value), _up(value)
            best = max(best[0], low), min(best[1], high)
            scale = max(1.0, abs(best[1]))
            if best[1] - best[0] < max(_WIDTH, 4e-16 * scale):
                break
    if math.isinf(best[1]) and not complement:
        # Beyond ln delta of some -1e28 a double cannot name the saddle point: the generic bound
        # delta <= exp(Lambda(s) - s eps), true for every s > 0 in the strip, still holds.
        with _precision(_BITS[-1]):
            return -math.inf, _up(terms.cumulant(arb(path.c)) - arb(path.c) * eps)
    return best


@dataclass(frozen=True)
class _Path:
    """Where the hyperbola crosses the real axis, its two scales, and where the ray begins."""

    c: float
    bend: float
    scale: float
    end: float


def _path(
    terms: _Terms, x: FloatArray, h: FloatArray, n: FloatArray, eps: float, complement: bool
) -> _Path:
    """A good path; whether it is good decides the time and the width, never the truth."""
    from ndis.loss.quadratic import QuadraticLoss

    loss, at = QuadraticLoss(x[None], h[None], n[None]), np.array([eps])
    with np.errstate(all="ignore"):
        c, scale, natural, growth = loss.descent(at, complement=complement)
        slopes = [float(bend[0]) for bend in contour.bends(natural, growth)]
        path = _first_path(terms, loss, eps, float(c[0]), float(scale[0]), slopes)
        if path is None and not complement:
            # Pressed against the end of the support, doubles cannot tell the slope from 0.
            far = _distant_saddle(terms, eps)
            width = far / math.sqrt(2.0 + 0.5 * float(n.sum()))
            path = _first_path(terms, loss, eps, far, width, [-0.45, 0.45, -0.85, 0.85])
    if path is not None:
        return path
    raise ArithmeticError(
        f"Found no path for the contour at epsilon={eps}; please report this loss (to_dict)."
    )


def _first_path(
    terms: _Terms, loss: Any, eps: float, c: float, scale: float, bends: list[float]
) -> _Path | None:
    """The first of several bends along which the integrand dies out."""
    if not (math.isfinite(c) and math.isfinite(scale)):
        return None
    with _precision(4 * _BITS[0]):
        slope = float(terms.slope(arb(c)) - eps)
    local = replace(loss.expand(np.array([c]), np.array([eps])), slope=np.array([slope]))
    for bend in bends:
        end = _end(local, scale, bend * scale)
        if end is not None:
            return _Path(c, bend * scale, scale, end)
    return None


def _distant_saddle(terms: _Terms, eps: float) -> float:
    """The saddle point on the right, by bisection of its logarithm in ball arithmetic."""
    with _precision(4 * _BITS[0]):
        low, high = -700.0, 700.0
        for sign, z in zip(terms.sign, terms.z, strict=True):
            if sign > 0:
                high = min(high, float((1 / z).log()))
        for _ in range(60):
            middle = 0.5 * (low + high)
            s = arb(middle).exp()
            rising = terms.slope(s) - eps - 1 / s - 1 / (1 + s) > 0
            low, high = (low, middle) if rising else (middle, high)
        return math.exp(low)


def _end(local: contour.Local, scale: float, bend: float) -> float | None:
    """A parameter U at which the ray's bound is some 1e-32 of the whole, if the path has one.

    The choice decides the width of the enclosure, not its truth.
    """
    u = np.arange(0.25, 60.0, 0.25)
    w = (bend * (np.cosh(u) - 1.0) + 1j * scale * np.sinh(u))[None, :]
    with np.errstate(all="ignore"):
        exponent = (local.slope[:, None] * w + contour.quadratic(local, w)).real[0]
        small = np.flatnonzero(exponent - np.log(np.abs(w[0]) / scale) < -75.0)
    return float(u[small[0]]) if small.size else None


def _log_integral(terms: _Terms, path: _Path, eps: float, bits: int) -> arb | None:
    c, A, B = arb(path.c), arb(path.bend), arb(path.scale)
    triples = terms.expansion(c)
    slope = terms.slope(c) - eps
    linear = slope + sum((n * q for n, q, _ in triples), arb(0)) / 2
    logs = [(n / 2, q) for n, q, _ in triples if n != 0]
    pulls = [(g / 2, q) for _, q, g in triples if g != 0]

    def exponent(w: acb, analytic: bool) -> acb:
        total = linear * w
        for half_n, q in logs:
            total -= half_n * (1 + q * w).log(analytic=analytic)
        if pulls:
            inverse = acb(0)
            for half_g, q in pulls:
                inverse += half_g / (1 + q * w)
            total += w * w * inverse
        return total

    def integrand(u: acb, analytic: bool) -> acb:
        sinh, cosh = u.sinh(), u.cosh()
        w = acb(0, 1) * B * sinh + A * (cosh - 1)
        velocity = acb(0, 1) * B * cosh + A * sinh
        return exponent(w, analytic).exp() * velocity / ((1 + w / c) * (1 + w / (1 + c)))

    tolerance = arb(2) ** (-min(bits - 25, 75))
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
    w_end = acb(A * (end.cosh() - 1), B * end.sinh())
    log_foot = exponent(w_end, False).real
    for half_g, q in pulls:
        scale = 1 + q * w_end
        if not scale.real > 0 and q != 0:
            log_foot += half_g / q**2 * (1 / scale).real.abs_upper()
    ray = (log_foot.exp() * abs(c * (1 + c)) / w_end.imag).abs_upper()
    whole = (body + arb(0, ray)) / arb.pi()
    if not whole > 0:
        return None
    return terms.cumulant(c) - c * eps - abs(c * (1 + c)).log() + whole.log()


def _down(value: Any) -> float:
    return math.nextafter(float(value.lower()), -math.inf)


def _up(value: Any) -> float:
    return math.nextafter(float(value.upper()), math.inf)
