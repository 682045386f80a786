"""The hockey-stick divergence by the classical route, to any number of digits.

``delta(eps) = Pr_P[L > eps] - e^eps Pr_Q[L > eps]`` with ``L = ln p(x)/q(x)``: two generalized
chi-square tails are computed apart and subtracted, with as many extra digits as that costs.

The convention: in each whitened direction P has variance ``v1`` and Q has ``v2``; a term has the
ratio ``lam = v1 / v2``, the squared difference of the means in units of ``v1``, and the count of
such directions (the shift is that of each). All inputs are exact doubles. A ratio such as
``exp(l)`` or ``1 / (1 - p)`` has no last digit, so a term holds functions that are evaluated
at the working precision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import flint
import numpy as np
from mpmath import mp, mpf

from .chi_square import GUARD_DIGITS, ChiSquareLaw, Tails, chi_square_tails, to_arb


class Delta(NamedTuple):
    """``delta(eps)`` and ``1 - delta(eps)``, each to the asked relative accuracy."""

    value: mpf
    complement: mpf

    def log(self) -> mpf:
        """``ln delta``, by way of the complement where delta is close to 1."""
        if self.value == 0:
            return -mp.inf
        return mp.log1p(-self.complement) if self.complement < 0.5 else mp.log(self.value)


@dataclass(frozen=True)
class Term:
    """``count`` directions of one variance ratio; see the module for the convention."""

    ratio: Callable[[], mpf]
    squared_shift: Callable[[], mpf]
    count: int = 1

    @classmethod
    def from_ratio(cls, ratio: float, shift: float = 0.0, count: int = 1) -> "Term":
        """``lam`` itself is the exact number; the shift is in units of ``sqrt(v1)``."""
        return cls(lambda: mpf(ratio), lambda: mpf(shift) ** 2, count)

    @classmethod
    def from_log_ratio(cls, log_ratio: float, shift: float = 0.0, count: int = 1) -> "Term":
        """``ln lam`` is the exact number; the shift is in deviations of the narrower law."""

        def squared_shift() -> mpf:
            return mpf(shift) ** 2 * min(1, mp.exp(-mpf(log_ratio)))

        return cls(lambda: mp.exp(mpf(log_ratio)), squared_shift, count)

    @classmethod
    def from_excess(cls, excess: float, total_shift: float = 0.0, count: int = 1) -> "Term":
        """``x`` with ``v1/v2 = 1 + x`` or, for x < 0, ``v2/v1 = 1 - x``, as the engine stores it.

        ``total_shift`` is the sum over the directions of the squared mean difference over the
        smaller variance.
        """

        def ratio() -> mpf:
            return 1 + mpf(excess) if excess >= 0 else 1 / (1 - mpf(excess))

        return cls(ratio, lambda: mpf(total_shift) / count / max(1, ratio()), count)

    @classmethod
    def from_leverage(cls, leverage: float, count: int = 1) -> "Term":
        """``lam = 1 / (1 - p)``: the record is present under P (the hard direction)."""
        return cls(lambda: 1 / (1 - mpf(leverage)), lambda: mpf(0), count)

    def repeated(self, fold: int) -> "Term":
        """The term of the ``fold``-fold composition."""
        return Term(self.ratio, self.squared_shift, self.count * fold)

    def reversed(self) -> "Term":
        """P and Q exchanged: the inverse ratio, and the shift in units of ``sqrt(v2)``."""
        return Term(
            lambda: 1 / self.ratio(), lambda: self.squared_shift() * self.ratio(), self.count
        )


def loss_laws(terms: Sequence[Term]) -> tuple[ChiSquareLaw, ChiSquareLaw]:
    """The law of the loss under P and under Q, by completing the square in every direction.

    With z standard normal under P, ``L = (lam - 1)/2 (z + lam m/(lam - 1))^2 + edge`` where
    ``edge = -lam m^2 / (2 (lam - 1)) - 1/2 ln lam``; under Q the square has weight
    ``(1 - 1/lam)/2`` and offset ``sqrt(lam) m/(lam - 1)``. At ``lam = 1`` the loss is
    ``m z + m^2/2`` under P and ``m z - m^2/2`` under Q.
    """
    under_p: list[tuple[mpf, mpf, mpf]] = []
    under_q: list[tuple[mpf, mpf, mpf]] = []
    edge = variance = mpf(0)
    for term in terms:
        lam, m2, n = term.ratio(), term.squared_shift(), mpf(term.count)
        if lam == 1:
            variance += n * m2
            continue
        edge -= n * (lam * m2 / (lam - 1) + mp.log(lam)) / 2
        under_p.append(((lam - 1) / 2, n, n * m2 * (lam / (lam - 1)) ** 2))
        under_q.append(((1 - 1 / lam) / 2, n, n * m2 * lam / (lam - 1) ** 2))

    def law(rows: list[tuple[mpf, mpf, mpf]], drift: mpf) -> ChiSquareLaw:
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        return ChiSquareLaw.of(*columns, sigma=mp.sqrt(variance), shift=edge + drift)

    return law(under_p, variance / 2), law(under_q, -variance / 2)


def delta_reference(
    terms: Sequence[Term],
    eps: float,
    digits: int = 50,
    tails: Callable[[ChiSquareLaw, mpf, int], Tails] = chi_square_tails,
) -> Delta:
    """``delta(eps)`` to ``digits`` digits after the subtraction, by any route for the tails."""

    def both(extra: int) -> tuple[Tails, Tails]:
        # 1 +- 1e-9 with a mean costs some 20 digits in the shift of the law; 60 are spare.
        with mp.workdps(digits + extra + 60):
            law_p, law_q = loss_laws(terms)
        return (
            tails(law_p, mpf(eps), digits + extra),
            tails(law_q, mpf(eps), digits + extra),
        )

    return _subtract(both, eps, digits)


def equal_covariance_delta(distance: float, eps: float, digits: int = 50, fold: int = 1) -> Delta:
    """The closed form for a mean shift, ``fold`` times composed: ``D = distance sqrt(fold)``."""

    def both(extra: int) -> tuple[Tails, Tails]:
        with mp.workdps(digits + extra + GUARD_DIGITS):
            shift = mpf(distance) * mp.sqrt(fold)
            return tuple(
                Tails(mp.erfc(-x / mp.sqrt(2)) / 2, mp.erfc(x / mp.sqrt(2)) / 2)
                for x in (mpf(eps) / shift - shift / 2, mpf(eps) / shift + shift / 2)
            )

    return _subtract(both, eps, digits)


def projection_delta(
    leverage: float, components: int, eps: float, reverse: bool = False, digits: int = 50
) -> Delta:
    """The closed form for one row of a random projection; ``reverse``: the row is added."""

    def both(extra: int) -> tuple[Tails, Tails]:
        with mp.workdps(digits + extra + 3 * GUARD_DIGITS):
            p = mpf(leverage)
            if reverse:
                y = (-2 * mpf(eps) - components * mp.log1p(-p)) / p
                near, far = (
                    _gamma_tails(mpf(components) / 2, x / 2, digits + extra)
                    for x in (y, (1 - p) * y)
                )
                return Tails(near.above, near.below), Tails(far.above, far.below)
            x = (2 * mpf(eps) - components * mp.log1p(-p)) / p
            return tuple(
                _gamma_tails(mpf(components) / 2, z / 2, digits + extra) for z in ((1 - p) * x, x)
            )

    return _subtract(both, eps, digits)


def _subtract(both: Callable[[int], tuple[Tails, Tails]], eps: float, digits: int) -> Delta:
    """``above_P - e^eps above_Q`` and its complement, with precision raised until it is enough."""
    extra = GUARD_DIGITS
    while True:
        under_p, under_q = both(extra)
        with mp.workdps(digits + extra + GUARD_DIGITS):
            amplified = mp.exp(mpf(eps)) * under_q.above
            value = under_p.above - amplified
            if under_p.above == 0:
                return Delta(mpf(0), mpf(1))
            lost = mp.log10(under_p.above / value) if value > 0 else mpf(extra)
            if lost < extra - 3:
                return Delta(value, under_p.below + amplified)
        extra = 2 * extra if lost >= extra else int(lost) + GUARD_DIGITS


def _gamma_tails(a: mpf, x: mpf, digits: int) -> Tails:
    """Regularised incomplete gamma functions: the rarer side is computed, the other is the rest."""
    if x <= 0:
        return Tails(mpf(0), mpf(1))
    if x < a:
        below = _lower_gamma(a, x)
        return Tails(below, 1 - below)
    above = _upper_gamma(a, x, digits + GUARD_DIGITS)
    return Tails(1 - above, above)


def _lower_gamma(a: mpf, x: mpf) -> mpf:
    """``P(a, x) = x^a e^-x / Gamma(a + 1) * sum_k x^k / ((a + 1) ... (a + k))``, all positive."""
    with mp.workdps(mp.dps + int(mp.log10(a + x + 10)) + 5):
        term = total = mpf(1)
        k = 0
        while term * (a + k) > mp.eps * total * (a + k - x):
            k += 1
            term *= x / (a + k)
            total += term
        return total * mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))


def _upper_gamma(a: mpf, x: mpf, digits: int) -> mpf:
    """``Q(a, x)`` from arb, whose ball says how many digits it has."""
    bits = int(3.33 * digits) + 64
    while bits < 100_000:
        with flint.ctx.workprec(bits):
            ball = to_arb(x).gamma_upper(to_arb(a), 1)
            if ball.rel_accuracy_bits() > 3.33 * digits:
                mantissa, exponent = ball.mid().man_exp()
                return mp.ldexp(mpf(int(mantissa)), int(exponent))
        bits *= 2
    raise ArithmeticError(f"Q({a}, {x}) did not reach {digits} digits.")


def monte_carlo(
    terms: Sequence[Term], eps: float, samples: int = 1_000_000, seed: int = 0
) -> tuple[float, float]:
    """Mean and standard error of ``(1 - e^{eps - L})_+`` over draws from P: a sanity route."""
    rng = np.random.default_rng(seed)
    loss = np.zeros(samples)
    for term in terms:
        lam, m = float(term.ratio()), float(mp.sqrt(term.squared_shift()))
        for _ in range(term.count):
            z = rng.standard_normal(samples)
            loss += 0.5 * (lam * (z + m) ** 2 - z**2 - np.log(lam))
    gains = -np.expm1(np.minimum(eps - loss, 0.0))
    return float(gains.mean()), float(gains.std() / np.sqrt(samples))
