"""Spherical Laplace noise: other routes, the ends, composition, speed."""

import itertools
import math
import time

import mpmath
import numpy as np
import pytest
from scipy import stats

import polar
from ndis import QuadraticLoss, SphericalLoss
from ndis.loss.spherical_paths import law_of

# The same at a height of 30 and on the real axis, in both parities.
DIMENSIONS = [1, 2, 3, 4, 5, 10, 24]


@pytest.mark.slow
def test_a_thousand_releases_are_what_polar_quadrature_finds() -> None:
    for m, t, epsilon in polar.random_settings(1000, 2):
        truth = math.log(polar.in_doubles((m, t, epsilon)))
        low, high = SphericalLoss(t, m).log_delta_bounds(epsilon)
        assert low - 1e-11 <= truth <= high + 1e-11, (m, t, epsilon)  # of the quadrature
        assert high - low < 1e-12 * max(1.0, -high), (m, t, epsilon)


@pytest.mark.slow
def test_polar_quadrature_in_mpmath_lies_within_the_bounds() -> None:
    """The first of the thousand in benchmarks/check_noise.py."""
    for m, t, epsilon in polar.random_settings(15, 2):
        low, high = SphericalLoss(t, m).log_delta_bounds(epsilon)
        assert low <= mpmath.log(polar.in_mpmath((m, t, epsilon))) <= high
        assert high - low < 1e-12


def test_moments_are_those_of_drawn_losses() -> None:
    rng = np.random.default_rng(5)
    for m, t in ((1, 0.7), (2, 1.5), (5, 2.0)):
        noise = rng.standard_normal((200_000, m))
        noise *= (rng.gamma(m, size=200_000) / np.linalg.norm(noise, axis=1))[:, None]
        moved = noise - t * np.eye(1, m)
        loss = np.linalg.norm(moved, axis=1) - np.linalg.norm(noise, axis=1)
        for s in (0.5, 2.0):
            drawn = np.exp(s * loss)
            error = drawn.std() / math.sqrt(drawn.size)
            exact = math.exp(float(SphericalLoss(t, m).finite_cumulant(s)))
            assert abs(drawn.mean() - exact) < 5.0 * error


@pytest.mark.parametrize("t", [1e-6, 0.3, 4.0, 300.0])
def test_one_number_is_laplace_noise(t: float) -> None:
    epsilon = t * np.array([-2.0, -0.5, 0.0, 0.3, 0.999, 1.0, 1.5])
    with np.errstate(divide="ignore"):
        inside = np.log(-np.expm1((np.minimum(epsilon, t) - t) / 2.0))
        truth = np.where(epsilon <= -t, np.log(-np.expm1(np.minimum(epsilon, 0.0))), inside)
    np.testing.assert_allclose(SphericalLoss(t).log_delta(epsilon), truth, rtol=1e-12)
    assert SphericalLoss(t).epsilon(0.0) == t


def test_many_laplace_releases_are_an_integral_over_a_binomial_and_erlang_laws() -> None:
    """Draw the loss of each: at either end, or between them with an exponential place."""
    k, t, epsilon = 3, 0.5, 0.7
    grid = np.linspace(-t, t, 4001)
    # P has mass 1/2 at t, e^-t/2 at -t, and density e^{-(t-x)/2}/4 between.
    inner = np.exp(-(t - grid) / 2) / 4 * (grid[1] - grid[0])
    inner[[0, -1]] /= 2
    inner[0] += math.exp(-t) / 2
    inner[-1] += 0.5
    law = inner
    for _ in range(k - 1):
        law = np.convolve(law, inner)
    x = np.linspace(-k * t, k * t, law.size)
    truth = float(law @ np.maximum(0.0, -np.expm1(epsilon - x)))
    assert float((k * SphericalLoss(t)).delta(epsilon)) == pytest.approx(truth, rel=1e-5)


def test_two_releases_are_one_inside_the_other() -> None:
    """Delta of a sum is the mean of delta at epsilon less the first loss."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for m, t in ((2, 0.8), (4, 1.2), (9, 2.0)):
        one = SphericalLoss(t, m)
        theta = 0.5 * math.pi * (nodes + 1.0)
        law = law_of(m, t)
        h, share = 0.5 * t, float(law.h * law.k0 / law.k1) / (m - 1)
        density = np.sin(theta) ** (m - 2) * (1 + share * np.sin(theta) ** 2)
        density *= np.exp(h * np.cos(theta)) * weights
        density /= density.sum()
        for epsilon in (0.1, 0.7 * t):
            truth = float(density @ one.delta(epsilon - t * np.cos(theta)))
            # The inner delta has kinks of low order at its ends.
            assert float((2 * one).delta(epsilon)) == pytest.approx(truth, rel=1e-4)


def test_epsilon_is_safe_up_to_the_end_of_the_support() -> None:
    for m, k in ((1, 3), (2, 1), (3, 2), (10, 4)):
        loss = k * SphericalLoss(0.5, m)
        for delta in (1e-3, 1e-15, 1e-25):
            epsilon = float(loss.epsilon(delta))
            assert loss.log_delta_bounds(epsilon)[1] <= math.log(delta) * (1 - 1e-13)
            assert loss.log_delta(epsilon * (1 - 1e-6)) > math.log(delta) or epsilon == 0.0


def test_beside_a_gaussian_it_is_an_integral_over_the_normal_loss() -> None:
    sphere, shift = SphericalLoss(0.6, 3), QuadraticLoss.from_shift(0.4)
    total = sphere + shift
    assert isinstance(total, SphericalLoss)
    z = np.linspace(-8.0, 8.0, 20_001)
    weights = stats.norm.pdf(z) * (z[1] - z[0])
    losses = 0.4 * z + 0.08
    for epsilon in (0.2, 0.9, 2.0):
        truth = float(weights @ sphere.delta(epsilon - losses))
        assert float(total.delta(epsilon)) == pytest.approx(truth, rel=1e-6)
        low, high = total.log_delta_bounds(epsilon)
        assert high - low < 1e-11
    table = sphere.dominating() + shift
    assert float(total.delta(1.0)) <= float(table.delta(1.0)) <= float(total.delta(1.0)) * 1.001


def test_many_releases_come_near_a_gaussian() -> None:
    m, k = 50, 200
    loss = k * SphericalLoss(0.2, m)
    # KL is k t^2 / (2 (M+1)) to first order, times (M+1)/M.
    distance = math.sqrt(k * 0.2**2 / m)
    assert float(loss.delta(0.5)) == pytest.approx(
        float(QuadraticLoss.from_shift(distance).delta(0.5)), rel=0.05
    )


def test_a_larger_distance_is_worse() -> None:
    epsilons = np.linspace(-1.0, 2.0, 13)
    for m in DIMENSIONS:
        deltas = [np.asarray(SphericalLoss(t, m).delta(epsilons)) for t in (0.5, 0.8, 1.7, 2.5)]
        for less, more in itertools.pairwise(deltas):
            assert np.all(less <= more * (1 + 1e-12))


def test_large_dimensions_and_small_scales_do_not_overflow() -> None:
    for m, t in ((1000, 9.0), (100_000, 90.0), (3, 1e-8), (3, 1e4), (40, 1e-6)):
        loss = SphericalLoss(t, m)
        low, high = loss.log_delta_bounds(0.1 * t if t < 1e3 else 9e3)
        assert -math.inf < low <= high <= 0.0
        assert high - low < 1e-11 * max(1.0, -high)


def test_two_releases_of_very_many_numbers_are_proven() -> None:
    """Arb's series of a large order is asymptotic too early: bounds used to be Chernoff's."""
    low, high = (2 * SphericalLoss(34.57, 1000)).log_delta_bounds(10.0)
    assert -21.0 < low <= high < -20.0
    assert high - low < 1e-11


def test_one_number_agrees_with_scipy() -> None:
    """P(S) - e^eps Q(S) on the half-line where the loss is above eps."""
    t, epsilon = 1.4, 0.6
    edge = (t - epsilon) / 2
    truth = stats.laplace.cdf(edge) - math.exp(epsilon) * stats.laplace.cdf(edge - t)
    assert float(SphericalLoss(t).delta(epsilon)) == pytest.approx(truth, rel=1e-12)


def test_what_falls_too_slowly_is_tabulated() -> None:
    few = SphericalLoss(0.3, 2) + SphericalLoss(0.2, 3)
    assert few.exactness == "upper bound"
    assert few.epsilon(0.0) >= 0.5
    with pytest.raises(ValueError, match="add their losses up"):
        SphericalLoss([0.3, 0.2], [2, 3])
    many = 20 * SphericalLoss(0.3, 2) + 5 * SphericalLoss(0.2, 3)
    assert many.exactness == "exact"


def test_speed() -> None:
    SphericalLoss(1.0, 3).delta(0.5)
    for m, k in ((3, 1), (30, 1), (3, 5), (10, 10), (5, 100)):
        loss = k * SphericalLoss(1.0 / k**0.5, m)
        start = time.process_time()
        loss.delta(0.7)
        assert time.process_time() - start < 0.1  # benchmarks/bench_noise.py has the figure


def test_a_distance_that_a_stranger_may_ask_for_is_refused_at_once() -> None:
    """A certificate with noise of 1e-300 took ten seconds to be judged."""
    with pytest.raises(ValueError, match=r"distance <= 1e\+40, got distance=1e\+300"):
        SphericalLoss(1e300, 6)
