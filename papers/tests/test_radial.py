"""The rank-one mechanism's profile against an independent quadrature, a simulation and its laws."""

import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from ndis import Profile, QuadraticLoss
from ndis.loss import from_dict
from ndis.testing import LOSS_CHECKS
from ndis_papers import radial
from ndis_papers.radial import RadialLoss


def quadrature(dimension: int, spread: float, eps: float) -> float:
    """P(S) - e^eps Q(S), each averaged over its radius, the boundary found by Newton's method."""
    m, w = dimension - 1, mp.mpf(spread)

    def level(r: mp.mpf) -> mp.mpf:
        return m * mp.log(r) + r * r / (2 * w)

    def radius(height: mp.mpf, guess: mp.mpf) -> mp.mpf:
        x = mp.log(guess)
        for _ in range(60):
            step = (m * x + mp.exp(2 * x) / (2 * w) - height) / (m + mp.exp(2 * x) / w)
            x -= step
            if abs(step) < 1e-15:
                break
        return mp.exp(x)

    def below(cosine: mp.mpf) -> mp.mpf:
        t = min(max((1 + cosine) / 2, mp.mpf(0)), mp.mpf(1))
        return mp.betainc(mp.mpf(m) / 2, mp.mpf(m) / 2, 0, t, regularized=True)

    def density(r: mp.mpf) -> mp.mpf:
        return mp.sqrt(2 / (mp.pi * w)) * mp.exp(-r * r / (2 * w))

    def near(r: mp.mpf) -> mp.mpf:
        far = radius(level(r) + eps, r)
        return density(r) * below((r * r + 1 - far * far) / (2 * r))

    def far(r: mp.mpf) -> mp.mpf:
        close = radius(level(r) - eps, r)
        return density(r) * below((close * close - r * r - 1) / (2 * r))

    multiples = [0, 1e-4, 1e-3, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.4, 0.7, 1, 1.5, 2, 3, 4, 6, 9]
    points = [mp.sqrt(w) * mp.mpf(x) for x in multiples]
    return float(mp.quad(near, points) - mp.exp(eps) * mp.quad(far, points))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "spread", "eps", "tolerance"),
    [
        (5, 3.0, 2.0, 1e-8),
        (10, 983.661, 0.05, 1e-13),
        (100, 2663.258, 1e-3, 1e-13),
        (101, 4000.0, 0.0, 1e-12),
        (40, 1e4, 0.3, 1e-10),
    ],
)
def test_agrees_with_a_quadrature_over_the_radius(
    dimension: int, spread: float, eps: float, tolerance: float
) -> None:
    expected = quadrature(dimension, spread, eps)
    low, high = RadialLoss(dimension, spread).delta_bounds(eps)
    assert low == pytest.approx(expected, rel=tolerance)
    assert 0 <= high / low - 1 < 1e-11


@pytest.mark.parametrize(
    ("dimension", "spread", "eps"),
    [(3, 50.0, 0.3), (4, 1e3, 0.2475), (12, 0.5, 4.0), (7850, 1e6, 0.5), (10**7, 2e8, 1e-8)],
)
def test_agrees_with_a_simulation(dimension: int, spread: float, eps: float) -> None:
    rng, n = np.random.default_rng(7), 400_000
    r = math.sqrt(spread) * np.abs(rng.standard_normal(n))
    g = rng.standard_normal(n)
    t = g / np.sqrt(g * g + rng.chisquare(dimension - 1, n))
    d = 1 - 2 * r * t
    loss = 0.5 * (dimension - 1) * np.log1p(d / r**2) + d / (2 * spread)
    sample = -np.expm1(np.minimum(eps - loss, 0.0))
    error = 4.5 * sample.std() / math.sqrt(n)
    assert abs(sample.mean() - RadialLoss(dimension, spread).delta(eps)) < error


def test_few_dimensions_and_large_epsilons_leave_the_boundary_in_pieces() -> None:
    # With this much noise the set {L > eps} misses a stretch of the axis behind the centre.
    low, high = RadialLoss(3, 1.5e11).delta_bounds(0.33)
    assert 1.85e-6 < low <= high < 1.87e-6
    assert high / low - 1 < 1e-11


def test_falls_with_noise_and_with_epsilon() -> None:
    spreads = [RadialLoss(20, s).delta(0.1) for s in (1.0, 10.0, 100.0, 1e4, 1e6)]
    epsilons = RadialLoss(20, 100.0).delta([-2.0, -0.5, 0.0, 0.5, 2.0, 8.0])
    assert np.all(np.diff(spreads) < 0)
    assert np.all(np.diff(epsilons) < 0)


def test_negative_epsilons_follow_from_the_mirror_image() -> None:
    loss = RadialLoss(30, 300.0)
    both = loss.delta([0.7, -0.7])
    assert both[1] == pytest.approx(1 - math.exp(-0.7) * (1 - both[0]), rel=1e-14)


@pytest.mark.slow
def test_many_dimensions_are_a_gaussian_mechanism_with_a_random_scale() -> None:
    # Noise v sqrt(M c) z is nearly N(0, c z^2) along the shift, and its length betrays |z|.
    c, eps = 40.0, 0.5
    z = np.linspace(1e-6, 9.0, 200_001)
    deltas = QuadraticLoss.from_shift(1.0 / (math.sqrt(c) * z)).delta(eps)
    limit = np.trapezoid(2 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * deltas, z)
    assert RadialLoss(10**7, c * 10**7).delta(eps) == pytest.approx(limit, rel=1e-4)


@pytest.mark.slow
def test_renyi_ends_where_the_density_stops_being_integrable() -> None:
    loss = RadialLoss(5, 50.0)
    assert loss.renyi(1.25) == math.inf
    rng, n = np.random.default_rng(3), 1_000_000
    r, g = math.sqrt(50.0) * np.abs(rng.standard_normal(n)), rng.standard_normal(n)
    d = 1 - 2 * r * g / np.sqrt(g * g + rng.chisquare(4, n))
    sample = 2.0 * np.log1p(d / r**2) + d / 100.0
    affinity = np.exp(-0.5 * sample)
    error = 4.5 * affinity.std() / math.sqrt(n) / affinity.mean() / 0.5
    assert abs(loss.renyi(0.5) + 2.0 * math.log(affinity.mean())) < error
    assert abs(loss.renyi(1.0) - sample.mean()) < 4.5 * sample.std() / math.sqrt(n)


@pytest.mark.slow
def test_composes_through_a_table_that_is_never_optimistic() -> None:
    loss = RadialLoss(50, 5e4)
    table = loss.dominating()
    eps = np.array([0.0, 0.1, 0.5, 2.0])
    assert np.all(table.delta(eps) >= loss.delta(eps))
    assert np.all(table.delta(eps) < 1.02 * loss.delta(eps) + 1e-6)
    both = loss + QuadraticLoss.from_shift(0.1)
    assert loss.delta(0.5) < both.delta(0.5) < loss.delta(0.5) + 0.01
    assert (2 * loss).delta(0.5) > table.delta(0.5)


def test_survives_a_round_trip() -> None:
    profile = Profile.both(RadialLoss(12, 0.1))
    assert from_dict(profile.to_dict()) == profile


@pytest.mark.parametrize("epsilon", [500.0, 3000.0, 1e6])
def test_delta_is_never_said_to_be_zero(epsilon: float) -> None:
    """Near the centre L = m ln(1/r), so that ln delta = -eps/m and a constant."""
    loss = RadialLoss(3, 50.0)
    low, high = loss.log_delta_bounds(epsilon)
    tail = float(loss.log_delta(40.0)) - (epsilon - 40.0) / 2
    assert low <= high == pytest.approx(tail, abs=1e-8)


@pytest.mark.parametrize(("dimension", "spread", "epsilon"), [(12, 8.0, 120.0), (4, 1e3, 50.0)])
def test_closed_form_and_integral_agree(dimension: int, spread: float, epsilon: float) -> None:
    """Where both apply the integral lies within the bounds of the tail."""
    tail = radial._tail(dimension, arb(spread), arb(epsilon))
    assert tail is not None
    low, high = RadialLoss(dimension, spread).delta_bounds(epsilon)
    assert float(tail[0]) <= high
    assert low <= float(tail[1])
    assert float(tail[1]) / float(tail[0]) < 1.001


@pytest.mark.slow
@pytest.mark.parametrize("check", LOSS_CHECKS)
def test_contract(check: str, tmp_path: Path) -> None:
    LOSS_CHECKS[check](RadialLoss(12, 8.0), tmp_path)
