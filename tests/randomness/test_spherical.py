"""Spherical and discrete Laplace noise: size and power, exact sums, no low bits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ndis.randomness import (
    add_discrete_laplace_noise,
    add_spherical_noise,
    generator,
    grid_spacing,
)
from samplers import LEVEL, accepts_law, accepts_sphere

M = 3


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    rng = generator(20261118)
    return np.array([add_spherical_noise(np.zeros(M), 1.0, rng) for _ in range(20_000)])


@pytest.mark.slow
def test_radius_and_direction_have_their_law_and_not_one_near_it(drawn: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    radius = np.linalg.norm(drawn + rng.uniform(-0.5, 0.5, drawn.shape) * 2.0**-8, axis=1)
    assert accepts_law(radius, stats.gamma(M).cdf, LEVEL)
    assert not accepts_law(radius, stats.gamma(M, scale=1.03).cdf, LEVEL)
    assert not accepts_law(radius, stats.gamma(M, scale=0.97).cdf, LEVEL)
    directions = drawn / np.linalg.norm(drawn, axis=1)[:, None]
    axes = np.vstack([np.eye(M), np.ones(M) / math.sqrt(M)])
    assert accepts_sphere(directions, axes, LEVEL)
    bent = drawn * [1.0, 1.0, 1.1]
    assert not accepts_sphere(bent / np.linalg.norm(bent, axis=1)[:, None], axes, LEVEL)


@pytest.mark.slow
def test_no_value_is_impossible_under_a_neighbour(drawn: np.ndarray) -> None:
    """Answers whose last bits differ are released on one grid."""
    rng, spacing = generator(7), grid_spacing(1.0)
    for answer in ([0.1, 0.2, 0.3], [1 / 3, 1e-9, -2.7], [2.0**40 + 0.1, 0.0, 1.0]):
        values = np.array([add_spherical_noise(answer, 1.0, rng) for _ in range(500)])
        assert np.all(np.mod(values, spacing) == 0)
    assert np.all(np.mod(drawn, spacing) == 0)
    # Neighbouring cells are hit alike: the last bit of a step is a fair coin.
    odd = np.mod(drawn / spacing, 2).sum()
    assert stats.binomtest(int(odd), drawn.size).pvalue > LEVEL


def test_what_is_released_is_the_exact_sum_rounded_once() -> None:
    """One seed, other answers: the noise is the same real vector."""
    spacing = Fraction(grid_spacing(2.0))
    base = add_spherical_noise(np.zeros(4), 2.0, generator(5))
    fine = add_spherical_noise(np.full(4, float(spacing) * 12), 2.0, generator(5))
    np.testing.assert_array_equal(fine - base, float(12 * spacing))
    half = add_spherical_noise(np.full(4, float(spacing) / 4), 2.0, generator(5))
    steps = (half - base) / float(spacing)
    assert set(steps.tolist()) <= {0.0, 1.0}
    large = add_spherical_noise([2**60 + 3, 0, 0, 0], 2.0, generator(5))
    assert large[0] == float(Fraction(base[0]) + 2**60 + 3)


def test_shapes_are_kept_and_one_number_is_laplace() -> None:
    assert add_spherical_noise(np.zeros((2, 3)), 1.0, generator(1)).shape == (2, 3)
    rng = generator(3)
    values = np.array([float(add_spherical_noise(0.0, 1.0, rng)) for _ in range(4000)])
    values += np.random.default_rng(2).uniform(-0.5, 0.5, values.size) * 2.0**-8
    assert accepts_law(values, stats.laplace.cdf, LEVEL)
    assert not accepts_law(values, stats.laplace(scale=1.2).cdf, LEVEL)


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_discrete_laplace_has_its_law_and_not_one_near_it(scale: float) -> None:
    n = 40_000
    values = add_discrete_laplace_noise(np.zeros(n, dtype=int), scale, generator(11))
    assert np.all(np.mod(values, 1) == 0)

    def accepts(s: float) -> bool:
        q = math.exp(-1.0 / s)
        edge = max(1, int(3 * s))
        points = np.arange(-edge, edge + 1)
        rates = (1 - q) / (1 + q) * q ** np.abs(points)
        seen = [int(np.sum(values == point)) for point in points]
        rates, seen = np.append(rates, 1 - rates.sum()), np.append(seen, n - sum(seen))
        return bool(stats.chisquare(seen, n * rates).pvalue > LEVEL)

    assert accepts(scale)
    assert not accepts(1.1 * scale)


def test_discrete_laplace_keeps_integers_exact_and_refuses_others() -> None:
    value = 2**60 + 1
    noise = add_discrete_laplace_noise([0], 3.0, generator(2))
    assert add_discrete_laplace_noise([value], 3.0, generator(2))[0] == float(value + int(noise[0]))
    with pytest.raises(ValueError, match="use add_laplace_noise"):
        add_discrete_laplace_noise([0.5], 1.0, generator(1))
