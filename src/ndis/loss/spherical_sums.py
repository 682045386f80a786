"""Delta of several releases with spherical noise, beside Gaussian ones: integrals up a line.

The loss of one release has the moment function F of docs/proofs/laws.md, entire and even in
z = (s + 1/2) t; under composition they multiply, and with E(s) their product,

    delta(eps) = 1/(2 pi i) * integral over Re s = c of  E(s) e^{-s eps} / (s (s + 1))  ds,   c > 0.

Both e^{z} and e^{-z} are in F, so that no path bends away from it. Two ways remain:

* `Line`: where |E| falls fast enough up the line, the trapezoidal rule. By Poisson's formula its
  sum is delta(eps) and the deltas at eps + m lambda beside it, which have Chernoff's bound.
* `Legs`: equal releases of few numbers, where |E| falls as a small power. From a height on F is
  split into e^{z} f_+ and e^{-z} f_-; of the k-th power every term whose exponent at eps is
  positive leaves to the left, all others to the right, and each then falls exponentially.

Values are balls; what is cut off is bounded and added. Where a path runs, and how many points it
has, is decided in floating point: that decides the time and the width, never the truth.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import flint
from flint import acb, arb, arb_poly, fmpz, fmpz_poly

from ndis.loss.certified import LossCumulant, precision

BITS = 96
# Everything cut off is to be below e^-this of the size at the saddle point.
GONE = 44.0
# More points than these on a line, or terms of an asymptotic series, are not tried.
_MOST, _ORDER = 3000, 40
# From this |z| on the series of f_+ and f_- is used.
FAR = 30.0
# Up to this |z| digits are added to a series that cancels.
_FURTHEST = 2.0**15
# Nodes of a panel, and the ellipses around it that its error is read from.
NODES, ELLIPSES = 32, (1.3, 1.6, 2.0, 2.5, 3.2)


class SphericalLaw:
    """Spherical noise in M dimensions, moved by t scales: F(z), z = (s + 1/2) t, in balls.

    With h = t/2, mu = M/2 - 1 and modified Bessel functions,

        F(z) = (h/z)^mu (h K_{mu+1}(h) I_mu(z) + (h^2/z) K_mu(h) I_{mu+1}(z)),

    written with 0F1, which has no pole at 0 and no order that overflows.
    """

    def __init__(self, dimension: int, distance: float) -> None:
        self.M, self.t = dimension, arb(distance)
        self.h, self.mu = self.t / 2, arb(dimension) / 2 - 1
        h, mu = self.h, self.mu
        self.k0, self.k1 = (acb(h).bessel_k(order).real for order in (mu, mu + 1))
        self.alpha, self.beta = h ** (mu + 1) * self.k1, h ** (mu + 2) * self.k0
        if dimension > 1:
            self.near = (
                2 * (h / 2) ** (mu + 1) * self.k1 * (mu + 1).rgamma(),
                2 * (h / 2) ** (mu + 2) * self.k0 * (mu + 2).rgamma(),
            )

    def __call__(self, z: acb) -> acb:
        """F(z) where Re z >= 0 and Im z >= 0."""
        if self.M == 1:
            return (-self.h).exp() * (z.cosh() + self.h * z.sinh() / z)
        r = abs(z).abs_lower()
        if r > 2 * FAR and self.rest(r) < self.size(r) * arb(2) ** -80:
            plus, minus = self.halves(z)
            return z.exp() * plus + (-z).exp() * minus
        # Terms of the series are as large as e^|z|, and their sum e^{Re z} at most.
        size = float(abs(z).mid())
        lost = min(int(1.5 * size - 1.4 * float(z.real.mid())), 8 * BITS)
        value = self._near(z, lost)
        if value.rel_accuracy_bits() < flint.ctx.prec // 2 and size < _FURTHEST:
            # Of a large order arb takes the asymptotic series too early; not with more digits.
            value = self._near(z, lost + int(2.0 * size))
        return value

    def _near(self, z: acb, more: int) -> acb:
        with precision(flint.ctx.prec + more):
            x, (a, b) = z * z / 4, self.near
            return a * x.hypgeom_0f1(self.mu + 1) + b * x.hypgeom_0f1(self.mu + 2)

    def log(self, z: arb) -> arb:
        """Ln F at a positive number."""
        return self(acb(z)).real.log()

    def less(self, z: arb) -> arb:
        """Ln F - z at a positive number, with all its digits where z is large."""
        with precision(2 * BITS):
            return self.log(z) - z

    # -- how fast |F| falls ------------------------------------------------------------------------

    def envelope(self, z: acb) -> arb:
        """A bound on |F| at z and above it on the vertical line."""
        x = z.real.abs_upper()
        whole = self(acb(x)).real.abs_upper()
        if self.M <= 8:
            r = abs(z).abs_lower()
            found = self.size(r) * 2 * x.cosh() if r > 1 else whole
        else:
            found = self._by_parts(z)
        return whole.min(found.abs_upper())

    def _by_parts(self, z: acb) -> arb:
        """The weight (1-x^2)^a differentiated n times; Cauchy and Schwarz, Gegenbauer's norms."""
        r, c = abs(z).abs_lower(), z.real.abs_upper()
        most = (self.M - 3) // 2
        guess = float((r * r).mid()) / max(self.M, 2.0 * float(r.mid()))
        best = arb("inf")
        for n in {most, *(max(0, min(most, int(guess * share))) for share in (0.5, 1.0, 2.0))}:
            best = best.min(self._parts(n, r, c))
        return best

    def _parts(self, n: int, r: arb, c: arb) -> arb:
        a, scale = arb(self.M - 3) / 2, self.weight
        first = _derivative(a, n, c) * self.k1
        second = _derivative(a + 1, n, c) * self.h * self.k0 / (self.M - 1)
        return ((first + second) * scale * r ** (-n)).abs_upper()

    @functools.cached_property
    def weight(self) -> arb:
        """What makes (K_{mu+1}(h) + h K_mu(h) (1-x^2)/(M-1)) (1-x^2)^a e^{hx} a density."""
        root = arb.pi().sqrt() * (arb(self.M - 1) / 2).gamma() * arb(2) ** self.mu
        return self.h ** (self.mu + 1) / root

    # -- far out: F = e^z f_+ + e^-z f_- in the upper half-plane -----------------------------------

    @functools.cached_property
    def series(self) -> tuple[list[arb], arb, arb]:
        """Coefficients of Q(x), f_+ = z^-p Q(-1/z), f_- = i^{2p} z^-p Q(1/z), p = (M-1)/2.

        And of the remainder: size and growth, |R| <= size r^-n e^{growth/r}.
        """
        first, second = (_hankel(order, _ORDER) for order in (self.mu, self.mu + 1))
        root = (2 * arb.pi()).sqrt()
        alpha, beta = self.alpha / root, self.beta / root
        terms = [alpha * first[0]]
        terms += [alpha * first[n] - beta * second[n - 1] for n in range(1, _ORDER)]
        chi = arb.pi().sqrt() * (arb(_ORDER) / 2 + 1).gamma() / (arb(_ORDER + 1) / 2).gamma()
        last = abs(alpha * first[_ORDER]) + abs(beta * second[_ORDER - 1])
        growth = abs((self.mu + 1) ** 2 - arb(0.25)).max(abs(self.mu**2 - arb(0.25)))
        return terms, 2 * chi * last, growth * arb.pi() / 2

    def rest(self, r: arb) -> arb:
        """The remainder of Q at |z| >= r."""
        _, size, growth = self.series
        if size == 0:
            return arb(0)
        return (size * r ** (-_ORDER) * (growth / r).exp()).abs_upper()

    def size(self, r: arb) -> arb:
        """A bound on |f_+| and |f_-| where |z| >= r, anywhere in the upper half-plane."""
        terms, _, _ = self.series
        most = sum((abs(q) * r ** (-n) for n, q in enumerate(terms)), self.rest(r))
        return (most * r ** (-arb(self.M - 1) / 2)).abs_upper()

    def halves(self, z: acb) -> tuple[acb, acb]:
        """f_+ and f_- at a point of the upper half-plane, |z| >= `FAR`."""
        terms, _, _ = self.series
        rest = self.rest(abs(z).abs_lower())
        around = acb(arb(0, rest), arb(0, rest))
        plus, minus, x = acb(0), acb(0), 1 / z
        for q in reversed(terms):
            plus, minus = q - plus * x, q + minus * x
        power = z ** (-arb(self.M - 1) / 2)
        turn = (acb(0, 1) * arb.pi() * (self.M - 1) / 2).exp()
        return power * (plus + around), turn * power * (minus + around)


def _derivative(a: arb, n: int, c: arb) -> arb:
    """A bound on the integral over |x| < 1 of e^{cx} |n-th derivative of (1-x^2)^a|, n <= a."""
    lam = a - n + arb(0.5)
    # The integral of e^{2cx} (1-x^2)^{lam-1/2}, and Gegenbauer's norm.
    with precision(4 * BITS):
        moment = acb(c * c).hypgeom_0f1(lam + 1).real
    moment *= arb.pi().sqrt() * (lam + arb(0.5)).gamma() / (lam + 1).gamma()
    factor = arb(2) ** n * (lam + arb(0.5) + n).gamma() / (lam + arb(0.5)).gamma()
    factor *= arb(n + 1).gamma() * (2 * lam).gamma() / (2 * lam + n).gamma()
    norm = arb.pi() * arb(2) ** (1 - 2 * lam) * (2 * lam + n).gamma()
    norm /= arb(n + 1).gamma() * (lam + n) * lam.gamma() ** 2
    return factor * (moment * norm).sqrt()


def _hankel(order: arb, count: int) -> list[arb]:
    """The coefficients of K_nu(z) ~ sqrt(pi/2z) e^-z (a_0 + a_1/z + ...)."""
    found = [arb(1)]
    for n in range(1, count + 1):
        found.append(found[-1] * (4 * order * order - (2 * n - 1) ** 2) / (8 * n))
    return found


def one_bounds(law: SphericalLaw, eps: float, size: float) -> tuple[arb, arb]:
    """Proven bounds on ln delta of one release, |eps| < t; `size` is about ln delta.

    With x = cos(theta) the loss is t x, and its density without singularities is integrated:

        sin^{M-2} (K_{mu+1}(h) + h K_mu(h)/(M-1) sin^2) (e^{h cos} - e^{eps - h cos}).
    """
    if law.M == 1:
        value = (-((arb(eps) - law.t) / 2).expm1()).log()
        return value, value
    lost = max(0, math.frexp(float(law.t))[1] - math.frexp(float(law.t - eps))[1])
    with precision(flint.ctx.prec + 2 * lost):
        return _one_integral(law, eps, size)


def _one_integral(law: SphericalLaw, eps: float, size: float) -> tuple[arb, arb]:
    share, power = law.h * law.k0 / (law.k1 * (law.M - 1)), law.M - 2
    front = law.k1 * law.weight

    def density(theta: acb, analytic: bool) -> acb:
        sine, along = theta.sin(), law.h * theta.cos()
        both: acb = along.exp() - (arb(eps) - along).exp()
        return front * sine**power * (1 + share * sine * sine) * both

    end = 2 * ((law.t - eps) / (2 * law.t)).sqrt().asin()
    tolerance = arb(2) ** -56
    whole = acb.integral(
        density, 0, end, rel_tol=tolerance, abs_tol=tolerance * arb(size).exp()
    ).real
    return whole.lower().log() if whole > 0 else arb("-inf"), whole.upper().log()


def laplace_bounds(law: SphericalLaw, k: int, eps: float) -> tuple[arb, arb]:
    """Proven bounds on ln delta of k releases of one number, 0 <= eps < k t: residues.

    F(s)^k is the sum over j of C(k,j) (s+1)^j s^{k-j} (2s+1)^-k e^{s (2j-k) t - (k-j) t}. A term
    with R = (2j-k) t - eps > 0 has residues at 0 (j = k only) and at -1/2, all others have none.
    Residues cancel; digits are added until what is left has enough.
    """
    total = arb("nan")
    for digits in (2, 4, 8):
        with precision(flint.ctx.prec + digits * k):
            total = _residues(law, k, eps)
        if total.rel_accuracy_bits() > BITS // 2:
            break
    if not total > 0:
        return arb("-inf"), total.upper().log() if total.upper() > 0 else arb("inf")
    return total.lower().log(), total.upper().log()


def _residues(law: SphericalLaw, k: int, eps: float) -> arb:
    total = arb(1)
    for j in range(k, -1, -1):
        rate = (2 * j - k) * law.t - eps
        if not rate > 0:  # at 0 a term is 0 too
            break
        size = math.comb(k, j) * (-(k - j) * law.t - rate / 2).exp()
        total += size * _residue(k, j, flint.ctx.prec)(rate)
    return total


@functools.lru_cache(maxsize=128)
def _residue(k: int, j: int, bits: int) -> arb_poly:
    """Of (u + 1/2)^(j-1) (u - 1/2)^(k-j-1) e^{Ru} (2u)^-k at u = 0: a polynomial in R."""
    poly = fmpz_poly([fmpz(1), fmpz(1)]) ** (j - 1)  # in v = 2u
    if j < k:
        parts = (poly * fmpz_poly([fmpz(-1), fmpz(1)]) ** (k - j - 1)).coeffs()
    else:  # over v - 1
        parts = [-each for each in itertools.accumulate(poly.coeffs())]
    # In u the m-th coefficient is parts[m] 2^(m + 2 - k), and e^{Ru} has R^i/i!, m + i = k - 1.
    parts += [fmpz(0)] * (k - len(parts))
    terms, share = [], arb(2) ** (1 - k)
    for i, part in enumerate(reversed(parts)):
        share /= 2 * i or 1
        terms.append(share * part)
    return arb_poly(terms)


# -- the product of all moment functions ----------------------------------------------------------


class Product:
    """E(s): laws with multiplicities, and a Gaussian part."""

    def __init__(
        self, laws: Iterable[tuple[SphericalLaw, int]], gaussian: LossCumulant | None
    ) -> None:
        self.laws, self.gaussian = list(laws), gaussian

    def __call__(self, s: acb) -> acb:
        """E(s)."""
        value = acb(1)
        for law, k in self.laws:
            with precision(3 * BITS):  # exact: the series does not forgive a rounded z
                z = (s + arb(0.5)) * law.t
            value *= law(z) ** k
        return value * self._gaussian(s) if self.gaussian is not None else value

    def log(self, s: arb) -> arb:
        """Ln E at a positive number."""
        total = sum((k * law.log((s + arb(0.5)) * law.t) for law, k in self.laws), arb(0))
        return total + self._gaussian(acb(s)).real.log() if self.gaussian is not None else total

    def envelope(self, c: arb, y: arb) -> arb:
        """A bound on |E(c + iv)|, v >= y."""
        bound = arb(1)
        for law, k in self.laws:
            bound *= law.envelope((acb(c, y) + arb(0.5)) * law.t) ** k
        if self.gaussian is None:
            return bound
        # The logarithms and pulls of the Gaussian part only fall on the vertical line.
        return bound * abs(self._gaussian(acb(c, y)))

    def supremum(self) -> arb:
        """The largest value of the loss; infinite beside most Gaussian parts."""
        total = sum((k * law.t for law, k in self.laws), arb(0))
        return total if self.gaussian is None else total + self.gaussian.supremum()

    def _gaussian(self, s: acb) -> acb:
        assert self.gaussian is not None
        slope, triples = self.gaussian.at_zero()
        total = slope * s
        for n, q, g in triples:
            total += (n * (q * s - (1 + q * s).log()) + g * s * s / (1 + q * s)) / 2
        return total.exp()


# -- the line -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """Where a line runs: Re s = c, its step, and an s > c for Chernoff's bound (0: none)."""

    c: float
    step: float
    ahead: float


def line_bounds(product: Product, course: Course, eps: float) -> tuple[arb, arb]:
    """Proven bounds on ln delta by the trapezoidal rule.

    Its sum is that of delta(eps + m period) e^{c m period} over all integers m, all positive.
    """
    c, step = arb(course.c), arb(course.step)
    period, log_size = 2 * arb.pi() / step, product.log(c)
    size, scale = log_size.exp(), log_size - c * eps
    body, tail = acb(0), arb("inf")
    for n in range(_MOST):
        s = acb(c, n * step)
        value = product(s) / (s * (s + 1)) * acb(0, -n * step * eps).exp()
        body += value / 2 if n == 0 else value
        if n >= 8 and n & 7 == 0:
            # Beyond lies at most the integral over v > y of the envelope over v^2.
            tail = product.envelope(c, n * step) / (size * arb.pi() * n * step)
            if float(tail.abs_upper()) * course.c < math.exp(-GONE):
                break
    whole, tail = body.real / size * step / arb.pi(), tail.abs_upper()
    q = (-c * period).exp()
    images = q / (1 - q) * (-scale).exp()
    if course.ahead:
        gap = arb(course.ahead) - c
        r = (-gap * period).exp()
        images += (product.log(c + gap) - log_size - gap * eps).exp() * r / (1 - r)
    elif not product.supremum() <= period + eps:
        return arb("-inf"), arb("inf")
    low, high = whole - images.abs_upper() - tail, whole + tail
    return low.log() + scale if low > 0 else arb("-inf"), high.log() + scale


def chernoff(product: Product, eps: float, far: float) -> arb:
    """The least ln E(s) - s eps of a few s, which bounds ln delta."""
    best = arb("inf")
    for power in range(-8, 80):
        s = arb(2) ** power
        if s < far:
            bound = product.log(s) - s * eps
            best = best.min(bound) if bound.is_finite() else best
    return best


# -- the legs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """A straight piece of the path, and on which side of it the powers leave: 0 for all of them."""

    start: complex
    end: complex
    side: int


class Legs:
    """k equal releases: a segment up from c to a height, then a leg to either side.

    delta = t e^{eps/2}/pi times the imaginary part of the integral over z of

        F(z)^k e^{-z e} / (z^2 - h^2),   e = eps/t.

    Everything is relative to its size at c, e^{scale}.
    """

    def __init__(self, law: SphericalLaw, k: int, eps: float, c: float) -> None:
        self.law, self.k, self.c = law, k, arb(c)
        self.gap = k - arb(eps) / law.t  # the exponent of F_+^k at eps
        self.log_first = law.log(self.c)
        self.scale = k * self.log_first - (k - self.gap) * self.c
        self.front = law.t * (arb(eps) / 2).exp() / arb.pi()

    def bounds(self, panels: list[Panel], ends: tuple[complex, complex]) -> tuple[arb, arb]:
        """Proven bounds on ln delta; `ends` are those of the legs."""
        total, error = acb(0), arb(0)
        for panel in panels:
            total += self._sum(panel)
            error += self._error(panel)
        error += sum(
            (self._tail(end, side) for end, side in zip(ends, (-1, 1), strict=True)), arb(0)
        )
        value = (total.imag + arb(0, error.abs_upper())) * self.front
        if not value.abs_upper() < arb("inf"):
            return arb("-inf"), arb("inf")
        low, high = value.lower(), value.upper()
        return low.log() + self.scale if low > 0 else arb("-inf"), high.log() + self.scale

    def powers(self, side: int) -> list[int]:
        """Which powers of F_+ leave to a side, -1 the left; the others of F_-."""
        return [j for j in range(self.k + 1) if side == (-1 if self._rate(j) >= 0 else 1)]

    def _rate(self, j: int) -> arb:
        return self.gap - 2 * (self.k - j)

    def _sum(self, panel: Panel) -> acb:
        start, end = acb(panel.start.real, panel.start.imag), acb(panel.end.real, panel.end.imag)
        middle, half = (start + end) / 2, (end - start) / 2
        total, powers = acb(0), self.powers(panel.side) if panel.side else []
        for node, weight in _gauss():
            with precision(3 * BITS):
                z = middle + half * node
            value = self._split(z, powers) if panel.side else self._whole(z)
            total += value * weight / (z * z - self.law.h**2)
        return total * half

    def _whole(self, z: acb) -> acb:
        return self.law(z) ** self.k * (-self.scale - (self.k - self.gap) * z).exp()

    def _split(self, z: acb, powers: list[int]) -> acb:
        plus, minus = self.law.halves(z)
        total = acb(0)
        for j in powers:
            size = math.comb(self.k, j) * plus**j * minus ** (self.k - j)
            total += size * (self._rate(j) * z - self.scale).exp()
        return total

    def _error(self, panel: Panel) -> arb:
        """Of Gauss' rule: the least over ellipses on which the integrand is bounded."""
        half = arb(abs(panel.end - panel.start)) / 2 * (1 + arb(2) ** -50)
        best = arb("inf")
        for rho in map(arb, ELLIPSES):
            along, across = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
            found = (self._over_disc if panel.side else self._over_strip)(panel, along, across)
            found *= arb(64) / 15 * half * rho ** (-2 * NODES) / (1 - rho**-2)
            best = best.min(found) if found.is_finite() else best
        return best.abs_upper()

    def _over_strip(self, panel: Panel, along: arb, across: arb) -> arb:
        """On the segment: |F(z)| <= F(Re z), whose logarithm is convex."""
        low, high = self.c - across, self.c + across
        middle = arb(panel.start.imag + panel.end.imag) / 2
        above = (middle - along).max(arb(0))
        if not low > 0:
            return arb("inf")
        near = (low - self.law.h).max(arb(0)) ** 2 + above**2
        beside = (low + self.law.h) ** 2 + above**2
        ends = (
            (self.k * self.law.log(x) - (self.k - self.gap) * x - self.scale) for x in (low, high)
        )
        return sum((x.exp() for x in ends), arb(0)) / (near * beside).sqrt()

    def _over_disc(self, panel: Panel, along: arb, across: arb) -> arb:
        """On a leg: f_+ and f_- by their series."""
        middle = acb(panel.start.real, panel.start.imag) + acb(panel.end.real, panel.end.imag)
        middle /= 2
        least = abs(middle) - along
        if not (middle.imag > along and least > 1 and least > 2 * self.law.h):
            return arb("inf")
        return self._bound(panel.side, middle.real - along, middle.real + along, least.abs_lower())

    def _bound(self, side: int, low: arb, high: arb, least: arb) -> arb:
        size, total = self.law.size(least) ** self.k, arb(0)
        for j in self.powers(side):
            rate = self._rate(j)
            worst = rate * (high if side < 0 else low)
            total += math.comb(self.k, j) * (worst - self.scale).exp()
        return total * size / (least**2 - self.law.h**2)

    def _tail(self, end: complex, side: int) -> arb:
        """From `end` on, away: |z|^2 grows by the square of the way, and exponentials fall."""
        least = arb(abs(end)) * (1 - arb(2) ** -50)
        size, total = self.law.size(least) ** self.k, arb(0)
        room = least**2 - self.law.h**2
        for j in self.powers(side):
            rate = abs(self._rate(j)).lower()
            length = (arb.pi() / (2 * room.sqrt())).min(
                arb(2).sqrt() / rate / room if rate > 0 else arb("inf")
            )
            total += math.comb(self.k, j) * (self._rate(j) * end.real - self.scale).exp() * length
        return (total * size).abs_upper()


@functools.cache
def _gauss() -> list[tuple[arb, arb]]:
    """Nodes and weights of Gauss and Legendre, in balls."""
    with precision(3 * BITS):
        return [arb.legendre_p_root(NODES, i, weight=True) for i in range(NODES)]
