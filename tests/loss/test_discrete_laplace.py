"""Discrete Laplace noise: all integers added up, its ends, its limits, its worst shift."""

import itertools
import math

import numpy as np
import pytest

from ndis import DiscreteLaplaceLoss, QuadraticLoss, SphericalLoss


def added_up(distance: float, steps: int, count: int, epsilon: float) -> float:
    """Delta over all integers that matter, one release after another."""
    scale = steps / distance
    n = np.arange(-int(45 * scale) - 5, int(45 * scale) + 5 + steps)
    q = math.exp(-1.0 / scale)
    masses = (1.0 - q) / (1.0 + q) * q ** np.abs(n)
    place = (steps - (np.abs(n - steps) - np.abs(n))) // 2
    one = np.bincount(place, masses, steps + 1)
    law = one
    for _ in range(count - 1):
        law = np.convolve(law, one)
    losses = count * distance - 2.0 * distance / steps * np.arange(law.size)
    return float(law @ np.maximum(-np.expm1(epsilon - losses), 0.0))


def test_delta_is_the_sum_over_all_integers() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        distance, steps = float(rng.uniform(0.05, 3.0)), int(rng.integers(1, 8))
        count = int(rng.integers(1, 6))
        epsilon = float(rng.uniform(-1.0, 0.99)) * count * distance
        loss = count * DiscreteLaplaceLoss(distance, steps)
        truth = math.log(added_up(distance, steps, count, epsilon))
        low, high = loss.log_delta_bounds(epsilon)
        assert low - 1e-12 <= truth <= high + 1e-12  # of the sum
        assert high - low < 1e-13 * max(1.0, -high)
        assert low <= loss.log_delta(epsilon) <= high


def test_delta_is_zero_at_the_largest_loss() -> None:
    for distance, steps, count in ((1.0, 1, 1), (0.3, 7, 3), (0.1, 1, 30)):
        loss = count * DiscreteLaplaceLoss(distance, steps)
        top = float(loss.epsilon(0.0))
        assert top == pytest.approx(count * distance, rel=1e-15)
        assert loss.log_delta_bounds(top) == (-math.inf, -math.inf)
        assert loss.log_delta_bounds(top * (1.0 - 1e-12))[0] > -math.inf


def test_many_steps_are_laplace_noise_and_one_is_the_worst() -> None:
    epsilons = np.linspace(-0.9, 0.9, 13)
    smooth = np.asarray(SphericalLoss(1.0).delta(epsilons))
    fine = np.asarray(DiscreteLaplaceLoss(1.0, 1 << 20).delta(epsilons))
    np.testing.assert_allclose(fine, smooth, rtol=1e-9)
    coarse = np.asarray(DiscreteLaplaceLoss(1.0, 3).delta(epsilons))
    worst = np.asarray(DiscreteLaplaceLoss(1.0).delta(epsilons))
    assert np.all(smooth < coarse)
    assert np.all(coarse < worst)


def test_a_longer_shift_is_worse() -> None:
    epsilons = np.linspace(-1.0, 2.0, 13)
    deltas = [
        np.asarray(DiscreteLaplaceLoss(0.4 * steps, steps).delta(epsilons)) for steps in range(1, 8)
    ]
    for less, more in itertools.pairwise(deltas):
        assert np.all(less <= more * (1.0 + 1e-13))


def test_sums_are_exact_on_one_lattice_and_tables_beyond() -> None:
    one = DiscreteLaplaceLoss(0.2, 3)
    assert 2 * one + one == 3 * one
    long = 2000 * one
    assert long.exactness == "upper bound"
    assert 0.0 < long.epsilon(1e-6) < 400.0
    with pytest.raises(ValueError, match="multiply the loss of one"):
        DiscreteLaplaceLoss(0.2, 3, 2000)
    shift = QuadraticLoss.from_shift(0.5)
    grid = 0.2 - 0.4 / 3 * np.arange(4)
    q = math.exp(-0.2 / 3)
    masses = np.array([1.0, q * (1.0 - q), q**2 * (1.0 - q), q**3]) / (1.0 + q)
    truth = float(masses @ np.asarray(shift.delta(1.0 - grid)))
    assert float((one + shift).delta(1.0)) == pytest.approx(truth, rel=1e-10)


def test_different_lattices_add_up_closely() -> None:
    """Of one step each: four outcomes."""
    first, second = DiscreteLaplaceLoss(0.5), DiscreteLaplaceLoss(0.3)
    law = {
        a * 0.5 + b * 0.3: 1 / ((1 + math.exp(-a * 0.5)) * (1 + math.exp(-b * 0.3)))
        for a in (-1, 1)
        for b in (-1, 1)
    }
    for epsilon in (0.0, 0.1, 0.4, 0.75):
        truth = sum(p * max(-math.expm1(epsilon - x), 0.0) for x, p in law.items())
        delta = float((first + second).delta(epsilon))
        assert truth <= delta <= truth + 1e-6
