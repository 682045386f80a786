"""Laplace noise on numbers that keeps whole what they add up to."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndis.mechanisms.laws import (
    all_beyond,
    counted_covariance,
    counted_variance,
    whole_chances,
    whole_reach,
)
from ndis.randomness import add_counted_laplace_noise, generator, noise
from ndis.tables import ExactSum

STEP = 2**30
LEVEL = 1e-4


def drawn(scale: float, n: int, seed: int = 1) -> Any:
    values = np.zeros((n, 3), dtype=np.int64)
    return add_counted_laplace_noise(values, scale * STEP, STEP, generator(seed)) / STEP


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 5.0])
def test_the_count_has_its_law_and_not_one_near_it(scale: float) -> None:
    n = 60_000
    found = drawn(scale, n).sum(axis=1)
    np.testing.assert_array_equal(found, np.rint(found))

    def accepts(s: float) -> bool:
        chances = whole_chances(s, 3)
        edge = max(2, int(2 * s))
        rates = np.concatenate([chances[edge - 1 : 0 : -1], chances[:edge]])
        seen = [int(np.sum(found == k)) for k in range(1 - edge, edge)]
        rates, seen = np.append(rates, 1 - rates.sum()), np.append(seen, n - sum(seen))
        return bool(stats.chisquare(seen, n * rates).pvalue > LEVEL)

    assert accepts(scale)
    assert not accepts(1.1 * scale)


@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0])
def test_covariance_reach_and_signs_are_those_of_the_draws(scale: float) -> None:
    n = 60_000
    found = drawn(scale, n, 2)
    count, spread = found.sum(axis=1), found[:, 2] - found[:, 0]
    covariance = counted_covariance(scale)
    off = 5.0 * math.sqrt(8.0 / n)  # fourth moments are at most 9 times the squares
    assert np.var(spread) == pytest.approx(2 * (covariance[0, 0] - covariance[0, 1]), rel=off)
    assert np.cov(found.T)[0, 1] == pytest.approx(covariance[0, 1], abs=off * covariance[0, 0])
    assert covariance.sum() == pytest.approx(counted_variance(scale), rel=1e-9, abs=1e-15)
    reach = whole_reach([(whole_chances(scale, 3), 1.0, 1)], 0.95)
    assert (np.abs(count) <= reach).mean() > 0.95 - 0.005
    assert reach == 0 or (np.abs(count) < reach).mean() < 0.95
    chance = all_beyond(scale)
    assert (found > 0).all(axis=1).mean() == pytest.approx(chance, abs=5 * math.sqrt(chance / n))


@pytest.mark.parametrize("power", [39, 41, 60, 64, 80])
def test_no_scale_is_too_large_for_integers(power: int) -> None:
    """Beyond 2^60 tails do not fit into 64 bits, and from 2^63 on hardly anything does."""
    scale = 2.0**power
    found = drawn(scale, 4000, 5) / scale
    for law in (found[:, 0], found[:, 2]):
        assert stats.kstest(law, stats.laplace.cdf).pvalue > LEVEL
        assert stats.kstest(law, stats.laplace(scale=1.3).cdf).pvalue < LEVEL


def test_draws_are_those_of_the_density_on_the_plane() -> None:
    """Given a count of 0, the density is e^{-sum |n|/s} on a plane: by importance."""
    scale = 0.2
    found = drawn(scale, 60_000, 3)
    found = found[found.sum(axis=1) == 0][:, :2] / scale
    # There |n_0 + n_1| stands for the third: the larger of two sides of a hexagon's radius.
    size = np.maximum(np.abs(found).max(axis=1), np.abs(found.sum(axis=1)))
    # sum |n| = 2 size, and areas grow with its square: a gamma law of order 2 with scale 1/2.
    assert stats.kstest(size, stats.gamma(2, scale=0.5).cdf).pvalue > LEVEL
    assert stats.kstest(size, stats.gamma(2, scale=0.52).cdf).pvalue < LEVEL


def test_sums_are_exact_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is the same where values are moved by whole steps, and where digits decide."""
    values = np.array([[1, 2, STEP - 3], [5, 0, 2 * STEP - 5]])
    one = add_counted_laplace_noise(values, 0.3 * STEP, STEP, generator(4))
    np.testing.assert_array_equal(one.sum(axis=1) % STEP, 0.0)
    high = ExactSum(np.array([[2**40, 0, 0]]), np.array([[0, 0, 0]]))  # 2^66
    far = add_counted_laplace_noise(high, 0.3 * STEP, STEP, generator(5))
    near = add_counted_laplace_noise(np.zeros((1, 3), int), 0.3 * STEP, STEP, generator(5))
    moved = [Fraction(a) - Fraction(b) for a, b in zip(far[0], near[0], strict=True)]
    assert moved[1] == 0
    assert abs(moved[0] - 2**66) <= 2**13  # the nearest double
    assert float(far.sum()) == pytest.approx(2.0**66)
    monkeypatch.setattr(noise, "_FLOOR_MARGIN", 1.0)  # all places by digits, none by doubles
    again = add_counted_laplace_noise(values, 0.3 * STEP, STEP, generator(4))
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize(
    ("values", "step", "words"),
    [
        ([[1, 2, 2]], 4, "whole steps"),
        ([[1, 2, 3]], 6, "power of two"),
        ([[1], [2]], 1, "Two or more|two or more"),
        ([[0.5, 0.5]], 1, "integers"),
    ],
)
def test_what_does_not_add_up_is_refused(values: Any, step: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        add_counted_laplace_noise(values, 1.0, step, generator(1))


def test_weighted_sums_of_whole_noise_reach_as_far_as_simulated() -> None:
    rng = np.random.default_rng(0)
    parts = [(whole_chances(0.3, 3), 0.8, 2), (whole_chances(0.6), 0.2, 3)]
    total = np.zeros(60_000)
    for chances, weight, times in parts:
        signed = np.concatenate([chances[:0:-1], chances])
        steps = np.arange(1 - len(chances), len(chances))
        for _ in range(times):
            total += weight * rng.choice(steps, len(total), p=signed / signed.sum())
    for level in (0.5, 0.9, 0.99):
        reach = whole_reach(parts, level)
        assert (np.abs(total) <= reach + 1e-9).mean() > level - 0.01
        assert (np.abs(total) < reach - 0.01).mean() < level + 0.01
