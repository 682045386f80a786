"""Tails of the generalized chi-square law to any number of digits, by three routes.

``W = sum_i w_i chi2(n_i, nc_i) + sigma Z + shift``. The routes share only this definition:

* :func:`ruben` — a mixture of chi-squares with positive terms and a proven truncation bound
  (Ruben 1962); positive weights, no Gaussian part.
* :func:`inversion` — the characteristic function inverted along a straight ray from the tilted
  saddle point, by a double-exponential rule that is refined until it stops moving; any weights.
* :func:`convolution` — the positive part against the negative one, in the space of values rather
  than of frequencies; slow, kept to check the other two.

Each returns both tails, each with the asked relative accuracy: mpmath numbers have no exponent
limit, so a tail of e^-100000 needs no logarithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import flint
from mpmath import mp, mpc, mpf

GUARD_DIGITS = 15
SCOUTING_DIGITS = 80  # for finding the contour; a saddle may lie e^-100 from a branch point


class Tails(NamedTuple):
    """``below = Pr[W <= t]`` and ``above = Pr[W > t]``, each to the asked relative accuracy."""

    below: mpf
    above: mpf


def exact(x: mpf | float) -> mpf:
    """``x`` with all its digits: ``mpf(x)`` would round to the precision of the moment."""
    return x if isinstance(x, mpf) else mpf(x)


@dataclass(frozen=True)
class ChiSquareLaw:
    """``sum_i weights_i chi2(dofs_i, noncentralities_i) + sigma Z + shift``, weights non-zero."""

    weights: tuple[mpf, ...]
    dofs: tuple[mpf, ...]
    noncentralities: tuple[mpf, ...]
    sigma: mpf
    shift: mpf

    @classmethod
    def of(
        cls,
        weights: Sequence[mpf],
        dofs: Sequence[mpf],
        noncentralities: Sequence[mpf],
        sigma: mpf = 0,
        shift: mpf = 0,
    ) -> "ChiSquareLaw":
        """Take every number as exact, and drop the components of weight zero."""
        rows = [
            tuple(map(exact, row))
            for row in zip(weights, dofs, noncentralities, strict=True)
            if row[0] != 0
        ]
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(*map(tuple, columns), sigma=exact(sigma), shift=exact(shift))

    def components(self) -> list[tuple[mpf, mpf, mpf]]:
        return list(zip(self.weights, self.dofs, self.noncentralities, strict=True))

    def mean(self) -> mpf:
        return self.shift + mp.fsum(w * (n + nc) for w, n, nc in self.components())

    def mirrored(self) -> "ChiSquareLaw":
        """The law of ``-W``."""
        weights = tuple(mp.fneg(w, exact=True) for w in self.weights)
        return replace(self, weights=weights, shift=mp.fneg(self.shift, exact=True))

    def part(self, sign: int) -> "ChiSquareLaw":
        """The components whose weight has this sign, without Gaussian part and shift."""
        return ChiSquareLaw.of(
            *zip(*(row for row in self.components() if row[0] * sign > 0), strict=True)
        )


def chi_square_tails(law: ChiSquareLaw, t: mpf, digits: int = 50) -> Tails:
    """Both tails at ``t``, by Ruben's series where it is quick and by inversion elsewhere."""
    if _ruben_is_quick(law):
        return ruben(law, t, digits)
    if all(w < 0 for w in law.weights) and _ruben_is_quick(law.mirrored()):
        return Tails(*reversed(ruben(law.mirrored(), mp.fneg(t, exact=True), digits)))
    return inversion(law, t, digits)


def chi_square_sf(weights, dofs, noncentralities, sigma, t, shift=0, digits=50) -> mpf:
    """``Pr[W > t]`` to ``digits`` relative digits."""
    law = ChiSquareLaw.of(weights, dofs, noncentralities, sigma, shift)
    return chi_square_tails(law, t, digits).above


def chi_square_cdf(weights, dofs, noncentralities, sigma, t, shift=0, digits=50) -> mpf:
    """``Pr[W <= t]`` to ``digits`` relative digits."""
    law = ChiSquareLaw.of(weights, dofs, noncentralities, sigma, shift)
    return chi_square_tails(law, t, digits).below


# --- Ruben's series --------------------------------------------------------------------------


def _ruben_is_quick(law: ChiSquareLaw) -> bool:
    if law.sigma != 0 or not law.weights or min(law.weights) <= 0:
        return False
    spread = max(law.weights) / min(law.weights)
    return spread <= 8 and sum(law.dofs) + sum(law.noncentralities) <= 300


class _Mixture:
    """``W / beta`` as the mixture ``sum_k p_k chi2(n + 2k)``, ``beta`` the least weight."""

    def __init__(self, law: ChiSquareLaw) -> None:
        self.beta = min(law.weights)
        self.half_dof = mp.fsum(law.dofs) / 2
        self._rows = [(1 - self.beta / w, n, nc, self.beta / w) for w, n, nc in law.components()]
        self._first = mp.exp(-mp.fsum(law.noncentralities) / 2) * mp.fprod(
            ratio ** (n / 2) for _, n, _, ratio in self._rows
        )
        self.probabilities = [self._first]
        # For each component: sum_r alpha^(k-r) p_r and sum_r (k-r) alpha^(k-r-1) p_r, r < k.
        self._sums = [(mpf(0), mpf(0)) for _ in self._rows]

    def extend(self, count: int) -> None:
        """``2 k p_k = sum_{r<k} g_{k-r} p_r``, ``sum g_k z^k = 2 z G'(z)/G(z)``."""
        while len(self.probabilities) < count:
            k, last = len(self.probabilities), self.probabilities[-1]
            self._sums = [
                (alpha * (plain + last), alpha * weighted + plain + last)
                for (alpha, *_), (plain, weighted) in zip(self._rows, self._sums, strict=True)
            ]
            total = mp.fsum(
                n * plain + nc * ratio * weighted
                for (_, n, nc, ratio), (plain, weighted) in zip(self._rows, self._sums, strict=True)
            )
            self.probabilities.append(total / (2 * k))

    def mass_from(self, k: int) -> mpf:
        """Chernoff's bound ``G(z) z^-k`` on ``sum_{j >= k} p_j``, at the best of a few ``z``."""
        pole = max(alpha for alpha, *_ in self._rows)
        reach = min(1 / pole if pole > 0 else mp.inf, mpf(10) ** 6) - 1
        near = [1 + reach * mpf(2) ** (-mpf(j) / 2) for j in range(1, 45)]
        far = [1 + reach * (1 - mpf(2) ** -j) for j in range(2, 12)]
        return min(self._generating(z) / z**k for z in near + far)

    def _generating(self, z: mpf) -> mpf:
        return self._first * mp.exp(
            mp.fsum(
                -n / 2 * mp.log1p(-alpha * z) + nc * ratio * z / (2 * (1 - alpha * z))
                for alpha, n, nc, ratio in self._rows
            )
        )


def ruben(law: ChiSquareLaw, t: mpf, digits: int = 50) -> Tails:
    """Both tails of a law with positive weights; the neglected terms are bounded, not guessed."""
    with mp.workdps(digits + 2 * GUARD_DIGITS):
        if law.sigma != 0 or not law.weights or min(law.weights) <= 0:
            raise ValueError("Ruben's series needs positive weights and no Gaussian part.")
        mixture = _Mixture(law)
        y = (exact(t) - law.shift) / (2 * mixture.beta)
        if y <= 0:
            return Tails(mpf(0), mpf(1))
        return Tails(_ruben_below(mixture, y, digits), _ruben_above(mixture, y, digits))


def _ruben_above(mixture: _Mixture, y: mpf, digits: int) -> mpf:
    count = 64
    while True:
        mixture.extend(count)
        # Q(a + 1, y) = Q(a, y) + y^a e^-y / Gamma(a + 1): positive terms only.
        tail = mp.gammainc(mixture.half_dof, y, regularized=True)
        step = mp.exp(mixture.half_dof * mp.log(y) - y - mp.loggamma(mixture.half_dof + 1))
        total = mpf(0)
        for k, probability in enumerate(mixture.probabilities):
            total += probability * tail
            tail += step
            step *= y / (mixture.half_dof + k + 1)
        if mixture.mass_from(count) <= total * mpf(10) ** -(digits + 2):
            return total
        count *= 2


def _ruben_below(mixture: _Mixture, y: mpf, digits: int) -> mpf:
    count = 64
    while True:
        mixture.extend(count)
        # Downwards, P(a, y) = P(a + 1, y) + y^a e^-y / Gamma(a + 1) adds positive terms too.
        top = mixture.half_dof + count
        last = tail = mp.gammainc(top, 0, y, regularized=True)
        step = mp.exp(top * mp.log(y) - y - mp.loggamma(top + 1))
        total = mpf(0)
        for k in reversed(range(count)):
            step *= (mixture.half_dof + k + 1) / y
            tail += step
            total += mixture.probabilities[k] * tail
        if mixture.mass_from(count) * last <= total * mpf(10) ** -(digits + 2):
            return total
        count *= 2


def _ruben_density(mixture: _Mixture, x: mpf) -> mpf:
    """The density at ``x > 0`` from the terms that the mixture has."""
    y = x / (2 * mixture.beta)
    term = mp.exp((mixture.half_dof - 1) * mp.log(y) - y - mp.loggamma(mixture.half_dof))
    total = mpf(0)
    for k, probability in enumerate(mixture.probabilities):
        total += probability * term
        term *= y / (mixture.half_dof + k)
    return total / (2 * mixture.beta)


# --- Inversion of the characteristic function ------------------------------------------------


class Exponent:
    """``K(s) - s t`` with ``K(s) = ln E e^{sW}``, and its derivatives on the real line."""

    def __init__(self, law: ChiSquareLaw, t: mpf) -> None:
        self.law = law
        self.slope = law.shift - exact(t)
        self.right = min((1 / (2 * w) for w in law.weights if w > 0), default=mp.inf)
        self.left = max((1 / (2 * w) for w in law.weights if w < 0), default=-mp.inf)

    def __call__(self, s: mpc) -> mpc:
        """Principal logarithms: along a ray no factor crosses the negative half-line."""
        total = self.slope * s + self.law.sigma**2 * s * s / 2
        for w, n, nc in self.law.components():
            factor = 1 - 2 * w * s
            total += nc * w * s / factor - n / 2 * mp.log(factor)
        return total

    def bounded_above(self) -> bool:
        """Every tilt s > 0 is allowed and there is no Gaussian part: W is bounded above."""
        return self.law.sigma == 0 and mp.isinf(self.right)

    def bounded_below(self) -> bool:
        return self.law.sigma == 0 and mp.isinf(self.left)

    def first(self, s: mpf) -> mpf:
        return (
            self.slope
            + self.law.sigma**2 * s
            + mp.fsum(
                n * w / (1 - 2 * w * s) + nc * w / (1 - 2 * w * s) ** 2
                for w, n, nc in self.law.components()
            )
        )

    def second(self, s: mpf) -> mpf:
        return self.law.sigma**2 + mp.fsum(
            2 * n * w**2 / (1 - 2 * w * s) ** 2 + 4 * nc * w**2 / (1 - 2 * w * s) ** 3
            for w, n, nc in self.law.components()
        )

    def size(self, s: mpf) -> mpf:
        """Sum of the absolute values of what is added up in the exponent: its cancellation."""
        return (
            1
            + abs(self.slope * s)
            + abs(self.law.shift * s)
            + self.law.sigma**2 * s**2
            + mp.fsum(
                n * abs(mp.log(1 - 2 * w * s)) + abs(nc * w * s / (1 - 2 * w * s))
                for w, n, nc in self.law.components()
            )
        )


class BallExponent(Exponent):
    """The same sum with logarithms from arb, some twenty times faster; its radius is checked."""

    def __init__(self, law: ChiSquareLaw, t: mpf) -> None:
        super().__init__(law, t)
        self._rows = [
            (to_arb(-2 * w), to_arb(-n / 2), to_arb(nc * w)) for w, n, nc in law.components()
        ]
        self._slope, self._half_variance = to_arb(self.slope), to_arb(law.sigma**2 / 2)

    def __call__(self, s: mpc) -> mpc:
        with flint.ctx.workprec(mp.prec + 100):
            point = flint.acb(to_arb(s.real), to_arb(s.imag))
            total = (self._slope + self._half_variance * point) * point
            for minus_2w, minus_half_n, nc_w in self._rows:
                factor = 1 + minus_2w * point
                total += minus_half_n * factor.log()
                if nc_w != 0:
                    total += nc_w * point / factor
            return mpc(from_arb(total.real), from_arb(total.imag))


def to_arb(x: mpf) -> flint.arb:
    """The exact value of ``x``."""
    sign, mantissa, exponent, _ = x._mpf_
    return flint.arb((-int(mantissa) if sign else int(mantissa), exponent))


def from_arb(ball: flint.arb) -> mpf:
    """The midpoint of a ball that is narrow at mpmath's working precision."""
    if ball.rad() > max(1, abs(ball.mid())) * flint.arb(2) ** -(mp.prec - 10):
        raise ArithmeticError(f"A ball is too wide: {ball}.")
    mantissa, exponent = ball.mid().man_exp()
    return mp.ldexp(mpf(int(mantissa)), int(exponent))


def inversion(
    law: ChiSquareLaw,
    t: mpf,
    digits: int = 50,
    bend: float = 1.0,
    exponent_type: type[Exponent] = Exponent,
) -> Tails:
    """Both tails from ``1/(2 pi i) int e^{K(s) - s t} / s ds`` along rays from the saddle point.

    The ray starts at the real saddle of the integrand, on the side of the rarer tail, and leaves
    the vertical, towards where the integrand decays, by ``bend`` times the largest angle along
    which it does not swell. Any two angles give the same number, which is how tests and the
    reference table check it.
    """
    with mp.workdps(SCOUTING_DIGITS):
        exponent = exponent_type(law, t)
        if exponent.slope <= 0 and exponent.bounded_above():
            return Tails(mpf(1), mpf(0))
        if exponent.slope >= 0 and exponent.bounded_below():
            return Tails(mpf(0), mpf(1))
        above_is_rarer = exponent.first(mpf(0)) < 0
        saddle = _saddle(exponent, 1 if above_is_rarer else -1)
        guard = GUARD_DIGITS + int(mp.log10(exponent.size(saddle)))
    with mp.workdps(digits + guard):
        exponent = exponent_type(law, t)
        direction = _ray(exponent, saddle, bend)
        integral = _ray_integral(exponent, saddle, direction, digits)
        rarer = integral if above_is_rarer else -integral
        return Tails(1 - rarer, rarer) if above_is_rarer else Tails(rarer, 1 - rarer)


def _saddle(exponent: Exponent, side: int) -> mpf:
    """The zero of ``K'(s) - t - 1/s`` on this side of 0; that function increases on each side."""
    end = exponent.right if side > 0 else exponent.left
    scale = side / mp.sqrt(exponent.second(mpf(0)))

    def place(x: mpf) -> mpf:
        # x = logit(s / end) resolves both ends of the strip; x = ln(s / scale) a half-line.
        return scale * mp.exp(x) if mp.isinf(end) else end / (1 + mp.exp(-x))

    def too_far(x: mpf) -> bool:
        s = place(x)
        return (exponent.first(s) - 1 / s) * side > 0

    low, high = mpf(-100), mpf(100)
    if too_far(low) or not too_far(high):
        raise ArithmeticError("The saddle point lies too close to an end of the strip.")
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if too_far(middle) else (middle, high)
    return place(low)


def _ray(exponent: Exponent, saddle: mpf, bend: float) -> mpc:
    """Unit direction of the ray: ``bend`` times the largest angle that lets nothing swell."""
    towards = 1 if exponent.slope < 0 else -1
    for degrees in (22, 15, 10, 6, 3, 1.5, 0.7):
        if not _swells(exponent, saddle, mp.expj(mp.pi / 2 - towards * mp.radians(degrees))):
            return mp.expj(mp.pi / 2 - towards * bend * mp.radians(degrees))
    return mpc(0, 1)


def _swells(exponent: Exponent, saddle: mpf, direction: mpc) -> bool:
    """Whether the integrand grows by more than e^3 somewhere along the ray."""
    with mp.workdps(SCOUTING_DIGITS):
        scale = 1 / mp.sqrt(exponent.second(saddle) + 1 / saddle**2)
        top = exponent(mpc(saddle)).real - mp.log(abs(saddle))
        for j in range(-2, 60):
            s = saddle + direction * scale * mpf(2) ** (mpf(j) / 2)
            rise = exponent(s).real - mp.log(abs(s)) - top
            if rise > 3:
                return True
            if rise < -60:
                return False
    return False


def _ray_integral(exponent: Exponent, saddle: mpf, direction: mpc, digits: int) -> mpf:
    """``1/pi Im int_0^oo f(saddle + direction v) direction dv`` with ``v = scale e^{x - e^-x}``.

    The trapezoidal rule in ``x`` converges exponentially; the step is halved until two
    consecutive values agree to the asked digits.
    """
    scale = 1 / mp.sqrt(exponent.second(saddle) + 1 / saddle**2)
    top = exponent(mpc(saddle)).real
    smallest = mpf(10) ** -(digits + GUARD_DIGITS // 2)

    def integrand(x: mpf) -> mpf:
        small = mp.exp(-x)
        v = scale * mp.exp(x - small)
        s = saddle + direction * v
        value = mp.exp(exponent(s) - top) / s * direction
        return value.imag * v * (1 + small), abs(value) * v * (1 + small)

    def half_line(start: mpf, step: mpf) -> mpf:
        total, largest, x = mpf(0), mpf(0), start
        while True:
            value, size = integrand(x)
            total += value
            largest = max(largest, size, abs(total))
            if size < smallest * largest and abs(x) > 1:
                return total
            x += step

    step = mpf(1) / 8
    total = half_line(mpf(0), step) + half_line(-step, -step)
    previous = total * step
    while True:
        total += half_line(step / 2, step) + half_line(-step / 2, -step)
        step /= 2
        current = total * step
        if abs(current - previous) <= abs(current) * mpf(10) ** -(digits + 1):
            return current * mp.exp(top) / mp.pi
        if step < mpf(2) ** -16:
            raise ArithmeticError("The inversion did not settle; bend the ray differently.")
        previous = current


# --- Convolution of the positive with the negative part --------------------------------------


def convolution(law: ChiSquareLaw, t: mpf, digits: int = 12, terms: int = 150) -> mpf:
    """``Pr[W > t]`` for indefinite weights as ``int f_A(x) Pr[B < x - t] dx``, ``W = A - B``."""
    if law.sigma != 0:
        raise ValueError("The convolution route has no Gaussian part.")
    with mp.workdps(digits + GUARD_DIGITS):
        positive, negative = _Mixture(law.part(+1)), _Mixture(law.part(-1).mirrored())
        positive.extend(terms)
        edge = exact(t) - law.shift
        start = max(mpf(0), edge)

        def integrand(x: mpf) -> mpf:
            y = (x - edge) / (2 * negative.beta)
            if x <= 0 or y <= 0:
                return mpf(0)
            return _ruben_density(positive, x) * _ruben_below(negative, y, digits)

        width = 2 * max(law.weights)
        return mp.quad(integrand, [start + width * e for e in (0, 1, 3, 8, 20, 50)])
