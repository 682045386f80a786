"""Proven integrals of spherical losses: two ways without a step in common."""

import cmath
import math

import numpy as np
import pytest
from flint import acb, arb

from ndis.loss.certified import precision
from ndis.loss.spherical_paths import Sum, law_of
from ndis.loss.spherical_sums import BITS, FAR, Legs, Product, laplace_bounds, line_bounds


@pytest.mark.parametrize(("m", "k"), [(2, 2), (2, 25), (3, 3), (5, 6), (7, 4), (13, 2)])
def test_legs_and_line_agree(m: int, k: int) -> None:
    """Two ways without a step in common, where both can be had."""
    t = 1.3 / k**0.7
    total = Sum(((t, m, k),), None)
    assert total.few(0.5)
    for share in (0.2, 0.6):
        epsilon = share * k * t
        with precision(BITS):
            path = total.legs(epsilon)
            low, high = Legs(law_of(m, t), k, epsilon, path.c).bounds(path.panels, path.ends)
            assert float((high - low).upper()) < 1e-13
            if k * (m - 1) < 24:
                continue
            product = Product([(law_of(m, t), k)], None)
            line_low, line_high = line_bounds(product, total.course(epsilon), epsilon)
        assert float(line_low.lower()) <= float(high.upper())
        assert float(low.lower()) <= float(line_high.upper())
        assert total.legs_log_delta(epsilon) == pytest.approx(float(high), rel=1e-12)


def test_halves_enclose_bessel_functions_in_the_upper_half_plane() -> None:
    """The remainder of the series, against arb's own functions, up to the negative axis."""
    rng = np.random.default_rng(3)
    for m in (2, 3, 4, 6, 9, 16, 26):
        for _ in range(12):
            law = law_of(m, float(np.exp(rng.uniform(-3.0, 2.0))))
            radius = FAR * float(np.exp(rng.exponential(0.3)))
            z = cmath.rect(radius, math.pi * float(rng.uniform(0.001, 0.999)))
            with precision(4 * BITS):
                point = acb(z.real, z.imag)
                plus, minus = law.halves(point)
                turn = (acb(0, 1) * arb.pi() * law.mu).exp() / acb(0, 1) / arb.pi()
                first = point.bessel_k(law.mu) * point ** (-law.mu) * law.alpha
                second = point.bessel_k(law.mu + 1) * point ** (-law.mu - 1) * law.beta
                expected = -turn * (first - second) * point.exp()
                near = law.near[0] * (point * point / 4).hypgeom_0f1(law.mu + 1)
                near += law.near[1] * (point * point / 4).hypgeom_0f1(law.mu + 2)
                assert minus.overlaps(expected)
                assert (plus * point.exp() + minus * (-point).exp()).overlaps(near)
                assert abs(plus) < law.size(abs(point).lower())
                assert abs(minus) < law.size(abs(point).lower())


def test_residues_of_laplace_releases_are_one_delta_inside_the_other() -> None:
    """Two releases: P has mass 1/2 at t, e^-t/2 at -t, and density e^{-(t-x)/2}/4 between."""
    t, epsilon = 0.8, 0.5
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def one(e: np.ndarray) -> np.ndarray:
        inside = -np.expm1((np.minimum(e, t) - t) / 2)
        return np.where(e <= -t, -np.expm1(np.minimum(e, 0.0)), inside)

    ends = one(np.array([epsilon - t, epsilon + t]))
    truth = 0.5 * ends[0] + 0.5 * math.exp(-t) * ends[1]
    # The inner delta has a kink at epsilon - x = t.
    for a, b in ((-t, epsilon - t), (epsilon - t, t)):
        x = (a + b) / 2 + (b - a) / 2 * nodes
        truth += float((b - a) / 2 * weights @ (np.exp(-(t - x) / 2) / 4 * one(epsilon - x)))
    with precision(BITS):
        low, high = laplace_bounds(law_of(1, t), 2, epsilon)
        assert float(high - low) < 1e-15
        assert float(high) == pytest.approx(math.log(truth), rel=1e-12)
        low, high = laplace_bounds(law_of(1, 0.03), 100, 1.0)
        assert float(high - low) < 1e-13
