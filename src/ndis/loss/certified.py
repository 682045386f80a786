"""The contour integral of `contour`, proven: ball arithmetic, tail included.

The path is the same hyperbola up to a parameter U, integrated by python-flint with a rigorous
error bound, and from there on to infinity, where the integrand is bounded by hand: on a vertical
ray, on which every factor falls algebraically or as a Gaussian; on the hyperbola's tangent, along
which the exponent falls linearly; or, where nothing but powers is left, in closed form. The
derivation stands in docs/proofs/certified-bounds.md.

What is enclosed is the integral of the function that a `BallCumulant` holds; `nearness` knows what
lies near to it.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import flint
import numpy as np
from flint import acb, acb_poly, arb

from ndis._validate import FloatArray
from ndis.loss import contour

_WIDTH = 1e-13
_BITS = (90, 140, 240, 480, 1200)
# Bits asked of the integral: fewer than a double has, of something of order one, are not used.
_ASKED = 54
_SUPPORT_BITS = 4096
# The path ends where the integrand is below e^-50 of its size at the saddle point, and is not
# taken if it first grows by more than e^12.
_GONE = -50.0
_SWELL = 12.0
# So many triples are better summed as a power series where all |q w| are below a quarter.
_MANY, _NEAR = 16, 0.25
# So many logarithms are taken at once, at a point that is known to so many bits.
_TOGETHER, _SHARP = 5, 60
_STEPS = (*(0.5 * k for k in range(1, 13)), *(8.0 * 1.4**k for k in range(17)))


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits inside the block."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


class BallCumulant(ABC):
    """A quadratic cumulant function in ball arithmetic: a slope and triples (n, q, g), at 0.

    K(s) = slope s + sum of -n/2 log1pmx(q s) + g/2 s^2/(1 + q s), as in `contour`.
    """

    @abstractmethod
    def at_zero(self) -> tuple[arb, list[tuple[arb, arb, arb]]]:
        """The slope and the triples."""

    def cumulant(self, s: arb) -> arb:
        """K(s) inside the strip of convergence."""
        slope, triples = self.at_zero()
        return slope * s + _total(
            (n * (q * s - (1 + q * s).log()) + g * s * s / (1 + q * s)) / 2 for n, q, g in triples
        )

    def slope(self, s: arb) -> arb:
        """K'(s)."""
        slope, triples = self.at_zero()
        return slope + _total(
            s * (n * q * q + g * (2 + q * s) / (1 + q * s)) / (1 + q * s) / 2 for n, q, g in triples
        )

    def expansion(self, c: arb) -> list[tuple[arb, arb, arb]]:
        """The triples around c."""
        triples = self.at_zero()[1]
        scales = _positive([1 + q * c for _, q, _ in triples])
        return [(n, q / D, g / D**3) for (n, q, g), D in zip(triples, scales, strict=True)]

    def growth(self, t: float) -> arb:
        """The coefficient of s in K(s) - s t at infinity; NaN where a Gaussian part decides."""
        slope, triples = self.at_zero()
        return slope - t + _total((n * q + (g / q if g != 0 else g)) / 2 for n, q, g in triples)


@dataclass(frozen=True)
class LossCumulant(BallCumulant):
    """Lambda(s) of a loss: of each direction the sign of its excess, z = |excess|, shift, count."""

    rows: list[tuple[int, arb, arb, arb]]

    def at_zero(self) -> tuple[arb, list[tuple[arb, arb, arb]]]:
        """The mean of the loss, and the triples of the directions."""
        slope, triples = arb(0), []
        for sign, z, h, n in self.rows:
            log, wide = z.log1p(), 1 + z
            if sign > 0:
                slope += (n * (z - log) + h) / 2
                triples.append((n, -z, h * wide))
            else:
                slope += (n * (log - z / wide) + h / wide) / 2
                triples.append((n if z != 0 else z, z / wide, h / wide**2))
        return slope, triples

    def supremum(self) -> arb:
        """The largest value of the loss."""
        if not all(sign < 0 for sign, *_ in self.rows):
            return arb("inf")
        return _total(n * z.log1p() + h / z for _, z, h, n in self.rows) / 2


def loss_cumulant(loss: Any) -> LossCumulant:
    """Lambda of the numbers of a `QuadraticLoss`, or of a batch of one."""
    numbers = (part.reshape(-1).tolist() for part in (loss.excess, loss.shift, loss.count))
    return LossCumulant(
        [
            (int(np.sign(x)), arb(abs(x)), arb(h), arb(n))
            for x, h, n in zip(*numbers, strict=True)
            if (n > 0 and x != 0) or h > 0
        ]
    )


def log_delta_bounds(loss: Any, eps: float) -> tuple[float, float]:
    """Proven bounds on ln delta(eps) of the numbers of a batch of one `QuadraticLoss`."""
    if np.isinf(loss.excess).any():
        return 0.0, 0.0
    terms = loss_cumulant(loss)
    if not terms.rows:
        return _trivial(eps)
    support = _beyond_support(terms, eps)
    return _either_side(terms, loss, eps) if support is None else support


def _either_side(terms: LossCumulant, loss: Any, eps: float) -> tuple[float, float]:
    """Bounds from delta or from 1 - delta, whichever is small and so has digits."""

    def side(complement: bool) -> tuple[float, float]:
        with np.errstate(all="ignore"):
            problem, start, _ = loss.problem(np.array([eps]), np.array([complement]))
        low, high = log_integral_bounds(terms, problem, start, eps)
        if not complement:
            return low, high
        with precision(_BITS[1]):
            return (
                _down((-(arb(min(high, 0.0)).exp())).log1p()),
                _up((-(arb(low).exp())).log1p()),
            )

    with np.errstate(all="ignore"):
        guess = bool(loss.problem(np.array([eps]))[2][0])
    low, high = side(guess)
    wrong = low < -0.7 if guess else high > -0.7
    if wrong:
        other = side(not guess)
        low, high = max(low, other[0]), min(high, other[1])
    return low, min(high, 0.0)  # delta <= 1 is a theorem


def _trivial(eps: float) -> tuple[float, float]:
    """Identical laws: delta = max(0, 1 - e^eps)."""
    if eps >= 0:
        return -math.inf, -math.inf
    with precision(_BITS[0]):
        value = (-(arb(eps).expm1())).log()
        return _down(value), _up(value)


def _beyond_support(terms: LossCumulant, eps: float) -> tuple[float, float] | None:
    """Bounds where the loss cannot exceed eps; None where it can, or might."""
    for bits in (_BITS[0], 600, _SUPPORT_BITS):
        with precision(bits):
            top = terms.supremum()
            if top <= eps:
                return -math.inf, -math.inf
            if top > eps:
                return None
    # Undecided at 4096 bits: the generic bound delta <= exp(Lambda(s) - s eps), any s > 0, holds.
    with precision(_SUPPORT_BITS):
        s = arb(2) ** 200
        return -math.inf, _up(terms.cumulant(s) - s * eps)


def log_integral_bounds(
    terms: BallCumulant, problem: contour.Problem, start: FloatArray, t: float
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
            fine = width < max(_WIDTH, 4e-16 * abs(best[1]))
            if fine or width > 0.5 * before:
                break
    if math.isinf(best[1]) and 0.0 in problem.poles and problem.high[0] > 0:
        return -math.inf, _chernoff(terms, problem, t)
    return best


def _chernoff(terms: BallCumulant, problem: contour.Problem, t: float) -> float:
    """The least K(c) - c t over the saddle point and points nearer to 0."""
    # Beyond ln delta of about -1e28 a double cannot name the saddle point.
    c, best = _distant_saddle(terms, problem, t), math.inf
    with precision(_BITS[-1]):
        for _ in range(30):
            exponent = terms.cumulant(arb(c)) - arb(c) * t
            best = min(best, _up(exponent) if exponent.is_finite() else math.inf)
            c *= 0.1
    return best


@dataclass(frozen=True)
class _BallPath:
    """Where the hyperbola crosses the real axis, its two scales, and where the ray begins."""

    c: float
    bend: float
    scale: float
    end: float

    def at(self, u: Any) -> tuple[Any, Any]:
        """The point w(u), and its velocity."""
        sinh, cosh, i = u.sinh(), u.cosh(), acb(0, 1)
        A, B = arb(self.bend), arb(self.scale)
        return i * B * sinh + A * (cosh - 1), i * B * cosh + A * sinh


def _path(
    terms: BallCumulant, problem: contour.Problem, start: FloatArray, t: float
) -> _BallPath | None:
    """A good path; whether it is good decides the time and the width, never the truth."""
    with np.errstate(all="ignore"), precision(4 * _BITS[0]):
        c, _, scale, bends = contour.descent(problem, start)
        slopes = [float(bend[0]) for bend in bends]
        path = _first_path(terms, problem, t, float(c[0]), float(scale[0]), slopes)
        if path is None and problem.high[0] > 0:
            # Pressed against the end of the support, doubles cannot tell the slope from 0.
            far = _distant_saddle(terms, problem, t)
            if far == _edge(problem):
                return None
            curve = _total(n * q * q / 2 + g for n, q, g in terms.expansion(arb(far)))
            width = float(((len(problem.poles) / arb(far) ** 2 + curve) ** -0.5).mid())
            path = _first_path(terms, problem, t, far, width, [-0.45, 0.45, -0.85, 0.85])
    return path


def _first_path(
    terms: BallCumulant,
    problem: contour.Problem,
    t: float,
    c: float,
    scale: float,
    bends: list[float],
) -> _BallPath | None:
    """The first of several bends along which the integrand dies out without swelling."""
    if not (math.isfinite(c) and math.isfinite(scale)):
        return None
    exponent = _Exponent(terms, arb(c), problem.poles, t)
    for bend in bends:
        path, size = _BallPath(c, bend * scale, scale, 0.0), 0.0
        for u in _STEPS:
            w, velocity = path.at(arb(u))
            path = replace(path, end=u)
            size = float((exponent.log_size(w) + abs(velocity / scale).log()).mid())
            if size + float(exponent.rise(w).mid()) < _GONE or exponent.only_powers(w):
                if exponent.tail(w, velocity).is_finite():
                    return path
                break
            if not size < _SWELL:
                break
    return None


def _distant_saddle(terms: BallCumulant, problem: contour.Problem, t: float) -> float:
    """The saddle point on the right, by bisection of its logarithm in ball arithmetic."""
    low, high = -700.0, math.log(min(float(problem.high[0]), 1e304))
    with precision(4 * _BITS[0]):
        for _ in range(60):
            middle = 0.5 * (low + high)
            s = arb(middle).exp()
            slope = terms.slope(s) - t - _total(1 / (s - pole) for pole in problem.poles)
            low, high = (low, middle) if slope > 0 else (middle, high)
    return min(math.exp(low), _edge(problem))


def _edge(problem: contour.Problem) -> float:
    """The end of the strip, but for what a double needs to name a point inside it."""
    return (1.0 - 2.0**-30) * float(problem.high[0])


def _log_integral(
    terms: BallCumulant, path: _BallPath, poles: tuple[float, ...], t: float, bits: int
) -> arb | None:
    c = arb(path.c)
    exponent = _Exponent(terms, c, poles, t)
    exponent.series = _all_series(exponent.triples)  # worth while where hundreds of points follow

    def integrand(u: acb, analytic: bool) -> acb:
        w, velocity = path.at(u)
        value: acb = exponent(w, analytic).exp() * velocity
        for gap in exponent.gaps:
            value /= 1 + w / gap
        return value

    tolerance = arb(2) ** -min(bits - 25, _ASKED)
    body = acb.integral(
        integrand,
        0,
        path.end,
        rel_tol=tolerance,
        abs_tol=tolerance * arb(path.scale),
        eval_limit=50 * bits,
        depth_limit=20 * bits,
    ).imag
    foot, velocity = path.at(arb(path.end))
    whole = (body + exponent.tail(foot, velocity)) / arb.pi()
    if not whole > 0:
        return None
    log_gaps = _total(abs(gap).log() for gap in exponent.gaps)
    return terms.cumulant(c) - c * t - log_gaps + whole.log()


class _Exponent:
    """K(c + w) - K(c) - t w: a slope, the triples (n/2, g/2, q), and the poles' distances from c.

    A triple is -n/2 log1pmx(q w) + g/2 w^2/(1 + q w) or, the same,

        n/2 (q w - ln(1 + q w)) + g/2 [w/q - 1/q^2 + 1/(q^2 (1 + q w))].

    The former is used up to |q w| = 1/2. Beyond, the latter: the linear parts, which nearly
    cancel, are then added up before they meet a ball, and all of them together are the
    cumulant's own `growth`.
    """

    def __init__(self, terms: BallCumulant, c: arb, poles: tuple[float, ...], t: float) -> None:
        self.gaps = [c - pole for pole in poles]
        self.triples = sorted(
            ((n / 2, g / 2, q) for n, q, g in terms.expansion(c)),
            key=lambda triple: -abs(triple[2]).mid(),
        )
        self.reach = [0.5 / size if size else math.inf for size in map(_size, self.triples)]
        # Entry k: the linear and the constant part with the first k triples seen from afar; and
        # the part of it that belongs to their logarithms.
        self.linears, self.constants, self.drifts = [terms.slope(c) - t], [arb(0)], [arb(0)]
        for half_n, half_g, q in self.triples:
            pull = half_g / q if half_g != 0 else half_g
            self.drifts.append(self.drifts[-1] + half_n * q)
            self.linears.append(self.linears[-1] + half_n * q + pull)
            self.constants.append(self.constants[-1] - (pull / q if half_g != 0 else half_g))
        growth = terms.growth(t)
        if growth.is_finite():
            self.linears[-1] = growth
        # What |w| to the minus this order times dw is integrated far out, where the growth is 0.
        self.order = _total(half_n for half_n, _, _ in self.triples) + len(poles) - 1
        self.algebraic = bool(growth == 0 and self.order > 0)
        self.series: list[_Series] = []

    def __call__(self, w: acb, analytic: bool = False) -> acb:
        k, last = bisect_left(self.reach, float(abs(w).mid())), len(self.triples)
        total = self.linears[k] * w + self.constants[k]
        series = next((series for series in self.series if series.covers(w)), None)
        if series is not None:
            total, last = total + series(w), series.first
        for half_n, half_g, q in self.triples[:k]:
            scale = 1 + q * w
            if half_n != 0:
                total -= half_n * scale.log(analytic=analytic)
            if half_g != 0:
                total += half_g / (q * q * scale)
        if last - k > _TOGETHER and w.rel_accuracy_bits() > _SHARP:
            return total + self._near_point(w, k, last)
        pulls = acb(0)
        for half_n, half_g, q in self.triples[k:last]:
            x = q * w
            if half_n != 0:
                total -= half_n * _log1pmx(x, analytic)
            if half_g != 0:
                pulls += half_g / (1 + x)
        return total + w * w * pulls

    def _near_point(self, w: acb, first: int, last: int) -> acb:
        """The near forms of some triples at what is hardly more than a point.

        With |q w| <= 1/2 the angle of 1 + q w is at most 30 degrees: the logarithm of a product of
        five is the sum of theirs.
        """
        total, pulls = (self.drifts[last] - self.drifts[first]) * w, acb(0)
        product, held, factors = acb(1), arb(0), 0
        for half_n, half_g, q in self.triples[first:last]:
            scale = 1 + q * w
            if factors == _TOGETHER or half_n != held:
                total -= held * product.log()
                product, held, factors = scale, half_n, 1
            else:
                product *= scale
                factors += 1
            if half_g != 0:
                pulls += half_g / scale
        return total - held * product.log() + w * w * pulls

    def log_size(self, w: acb) -> arb:
        """Ln |integrand| at w, beside its value at 0."""
        return self(w).real - _total(abs(1 + w / gap).log() for gap in self.gaps)

    def rise(self, w: acb) -> arb:
        """How far the integrand may rise on the ray straight up from w.

        Pulls rise whose 1 + q Re w is negative.
        """
        return _total(
            half_g / q**2 * (1 / (1 + q * w)).real.abs_upper()
            for _, half_g, q in self.triples
            if half_g != 0 and not (1 + q * w).real > 0
        )

    def only_powers(self, w: acb) -> bool:
        """Whether from w on nothing but powers is left, which are integrated in closed form."""
        return self.algebraic and float(abs(w).mid()) > 1e20 * self.reach[-1]

    def tail(self, foot: acb, velocity: acb) -> arb:
        """The imaginary part of the integral from `foot` to infinity."""
        if self.only_powers(foot):
            return self._powers(foot)
        bounds = self._vertical_ray(foot) + self._tangent_ray(foot, velocity / abs(velocity))
        return arb(0, min((b for b in bounds if b.is_finite()), default=arb("inf")))

    def _powers(self, foot: acb) -> arb:
        """The tail without growth along the ray on which |w| grows: powers of w, and a little."""
        log_size, little = acb(self.constants[-1]), arb(0)
        powers = [(half_n, half_g / q**2, q) for half_n, half_g, q in self.triples]
        powers += [(arb(1), arb(0), 1 / gap) for gap in self.gaps]
        for half_n, pull, q in powers:
            x = abs(1 / (q * foot))
            log_size -= half_n * (q * foot).log()
            little += (half_n + pull) * x / (1 - x)
        value = log_size.exp() * foot / self.order
        return value.imag + arb(0, (abs(value) * little.expm1()).abs_upper())

    def _vertical_ray(self, foot: acb) -> list[arb]:
        """Bounds on the integral over |integrand| from `foot` straight up to infinity.

        Two poles make it converge, and so do a normal part and many logarithms.
        """
        size, height = (self(foot).real + self.rise(foot)).exp(), foot.imag
        bounds = []
        if len(self.gaps) == 2:
            bounds.append((size * abs(self.gaps[0] * self.gaps[1]) / height).abs_upper())
        for gap in self.gaps:
            size /= abs(1 + foot / gap)
        gauss = _total(2 * half_g for _, half_g, q in self.triples if q == 0)
        if gauss > 0:
            bounds.append((size / (gauss * height)).abs_upper())
        # Over y = x height, x >= 1, |1 + q w| grows at least like the power of x that is its
        # imaginary part's share of its square at the foot.
        logs = [(half_n, q) for half_n, _, q in self.triples] + [(arb(1), 1 / g) for g in self.gaps]
        order = _total(half_n * ((q * height) / abs(1 + q * foot)) ** 2 for half_n, q in logs)
        if order > 1:
            bounds.append((size * height / (order - 1)).abs_upper())
        return bounds

    def _tangent_ray(self, foot: acb, direction: acb) -> list[arb]:
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
        return [(log_size.exp() / rate).abs_upper()]


@dataclass(frozen=True)
class _Series:
    """The near forms of all triples from `first` on, in one power series.

    Its coefficients are the sums of n/2 (-q)^k/k + g/2 (-q)^(k-2), k >= 2. Around the centre of a
    ball it is enclosed by its derivative, as `_log1pmx` is.
    """

    first: int
    steepest: arb  # largest |q|
    polynomial: acb_poly
    degree: int
    rest: arb  # a bound on what follows, over |w|^(degree + 1) and 1 - |q w|
    curvature: arb  # sum of n/2 q^2
    pulls: arb  # sum of g/2

    def covers(self, w: acb) -> bool:
        """Whether all |q w| are small: in the middle of the ball, and less so on all of it."""
        return bool(abs(w.mid()) * self.steepest < _NEAR and abs(w) * self.steepest < 0.9)

    def __call__(self, w: acb) -> acb:
        """The sum."""
        middle = w.mid()
        size = abs(middle)
        error = self.rest * size ** (self.degree + 1) / (1 - size * self.steepest)
        clear = 1 - abs(w) * self.steepest
        slope = abs(w) * (self.curvature / clear + 3 * self.pulls / clear**2)
        around = arb(0, (error + slope * abs(w - middle)).abs_upper())
        return self.polynomial(middle) + acb(around, around)


def _all_series(triples: list[tuple[arb, arb, arb]]) -> list[_Series]:
    """Series for the triples from the beginning of each octave of |q| on, the longest first."""
    degree, found = flint.ctx.prec // 2 - 12, []
    moments, pulls = [arb(0)] * (degree + 1), [arb(0)] * (degree + 1)
    rest = arb(0)
    last = len(triples)
    while last >= _MANY:
        steep = 2.0 * _size(triples[last - 1])
        first = next(i for i in range(last) if _size(triples[i]) <= steep)
        part, last = triples[first:last], first
        minus_q = [-q for *_, q in part]
        powers, curved = [arb(1)] * len(part), [half_n * q * q for half_n, _, q in part]
        bent = [half_g for _, half_g, _ in part]
        for k in range(2, degree + 1):
            moments[k] += _total(map(operator.mul, curved, powers))
            pulls[k] += _total(map(operator.mul, bent, powers))
            powers = list(map(operator.mul, powers, minus_q))
        rest += _total(
            map(operator.mul, (c + b for c, b in zip(curved, bent, strict=True)), map(abs, powers))
        )
        if len(triples) - first >= _MANY:
            sums = [
                moment / max(k, 1) + pull
                for k, (moment, pull) in enumerate(zip(moments, pulls, strict=True))
            ]
            found.append(
                _Series(first, abs(part[0][2]), acb_poly(sums), degree, rest, moments[2], pulls[2])
            )
    return found[::-1]


def _size(triple: tuple[arb, arb, arb]) -> float:
    return abs(float(triple[2].mid()))


def _log1pmx(x: acb, analytic: bool) -> acb:
    """ln(1 + x) - x, whose derivative -x/(1 + x) is small: around a ball's centre it is narrow."""
    if not abs(x) < 0.9:
        return (1 + x).log(analytic=analytic) - x
    center = x.mid()
    around = arb(0, (abs(x / (1 + x)) * abs(x - center)).abs_upper())
    return (1 + center).log() - center + acb(around, around)


def _positive(scales: list[arb]) -> list[arb]:
    if not all(D > 0 for D in scales):
        raise ArithmeticError("The contour left the strip of convergence.")
    return scales


def _total(values: Iterable[arb]) -> arb:
    return sum(values, arb(0))


def _largest(values: Iterable[arb]) -> arb:
    return reduce(arb.max, values, arb(0))


def _down(value: arb) -> float:
    result = math.nextafter(float(value.lower()), -math.inf)
    return -math.inf if math.isnan(result) else result


def _up(value: arb) -> float:
    result = math.nextafter(float(value.upper()), math.inf)
    return math.inf if math.isnan(result) else result
