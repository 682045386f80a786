"""Least squares as published: rules that fail, the competitors' accounting, and what they draw."""

import math

import numpy as np
import pytest

from ndis import Gaussian, LeastSquaresLoss, Profile, QuadraticLoss
from ndis.calibration import noise_multiplier
from ndis.loss import SketchAndSolveLoss, removal_loss
from ndis_papers.least_squares import (
    adassp,
    adassp_noise,
    exact_ratio,
    exact_solved_ratio,
    inherent_delta,
    published_ratio,
    relative_gaussian_law,
    solve,
)
from ndis_papers.mixing import HessianMixing, LinearMixing, renyi_epsilon
from ndis_papers.sketches import least_ratio, leverages, sketch_loss


def data(n: int, d: int = 3, seed: int = 0, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Rows [x, y] of norm at most 1, labels of at most 1/2."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(2 * d)
    y = X @ np.array([0.5, -1.0, 0.25, 0.0])[:d] + noise * rng.uniform(-1, 1, n)
    return X, np.clip(y, -0.5, 0.5)


def test_published_rule_is_refuted_for_small_sketches() -> None:
    ratio = published_ratio(0.1, 1e-6, 1, 1)
    true = Profile.both(LeastSquaresLoss(ratio**-2, 1, 1)).delta_bounds(0.1)[0]
    assert true == pytest.approx(6.97e-5, rel=0.01)


@pytest.mark.slow
def test_published_rule_wastes_noise_on_large_ones() -> None:
    asked = (1.0, 1 / 327_346, 2, 1269)
    assert published_ratio(*asked) == pytest.approx(11.97, abs=0.005)
    assert exact_solved_ratio(*asked) <= exact_ratio(*asked) < 8.44


# -- mixing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("n", [10**3, 10**6])
def test_ridge_of_linear_mixing(epsilon: float, n: int) -> None:
    """The published ridge, its test included, over that of the sketch, and of test and sketch.

    ``python benchmarks/bench_linear_mixing.py`` prints the table.
    """
    delta = n**-2.0
    exact, renyi = (
        LinearMixing(epsilon, delta, 10, accounting=how) for how in ("exact", "published")
    )
    alone = least_ratio(epsilon, delta, renyi.n_components)
    assert renyi.noise_scale**2 >= 2.0 * alone**2
    assert renyi.noise_scale**2 >= 1.5 * exact.noise_scale**2
    assert renyi.true_delta <= delta == exact.true_delta
    # The sketch alone in both: conversion from Renyi divergences itself costs little.
    loss = sketch_loss(math.sqrt(1.15) * alone, renyi.n_components)
    assert renyi_epsilon(loss, delta) < epsilon
    loss = sketch_loss(math.sqrt(1.04) * alone, renyi.n_components)
    assert renyi_epsilon(loss, delta) > epsilon


def test_hessian_mixing_adds_sketches_and_shifts() -> None:
    method = HessianMixing(1.0, 1e-6, 3, label_bound=0.5, accounting="exact")
    shift = method.gradient_scale / 0.5
    total = 3 * (
        QuadraticLoss(method.noise_scale**-2, 0.0, method.n_components)
        + QuadraticLoss.from_shift(1 / shift)
    )
    assert method.true_delta == pytest.approx(Profile.both(total).delta(1.0), rel=1e-9)
    assert method.true_delta == pytest.approx(1e-6, rel=1e-6)
    published = HessianMixing(1.0, 1e-6, 3, label_bound=0.5)
    assert published.true_delta < 1e-6
    assert published.noise_scale > method.noise_scale


@pytest.mark.parametrize("accounting", ["published", "exact"])
@pytest.mark.parametrize("kind", [LinearMixing, HessianMixing])
def test_mixing_learns(kind: type, accounting: str) -> None:
    X, y = data(200_000)
    best = solve(np.column_stack([X, y]).T @ np.column_stack([X, y]))
    more = {} if kind is LinearMixing else {"label_bound": 0.5}
    method = kind(2.0, 1e-6, 3, n_components=200, accounting=accounting, **more)
    rng = np.random.default_rng(0)
    errors = [np.linalg.norm(method.draw(X, y, rng) - best) for _ in range(5)]
    assert np.median(errors) < 0.3 * np.linalg.norm(best)


# -- AdaSSP --------------------------------------------------------------------------------------


def test_adassp_with_its_parts_accounted_for_together_needs_less_noise() -> None:
    apart, together = (adassp_noise(1.0, 1e-6, how) for how in ("published", "exact"))
    assert apart > 1.6 * together
    three = 3 * QuadraticLoss.from_shift(1.0 / together)
    assert three.delta(1.0) == pytest.approx(1e-6, rel=1e-6)


def test_adassp_learns_and_its_noise_is_the_published_one() -> None:
    X, y = data(200_000)
    rng = np.random.default_rng(0)
    bounds = {"data_norm": 1.0, "label_bound": 0.5}
    draws = adassp(X, y, 2.0, 1e-6, **bounds, n_draws=200, rng=rng)
    best = solve(np.column_stack([X, y]).T @ np.column_stack([X, y]))
    assert np.linalg.norm(draws - best, axis=1).mean() < 0.1 * np.linalg.norm(best)
    # So many rows need no ridge: the error is A^-1 (noise of b - noise of A times coefficients).
    scale = noise_multiplier(2.0 / 3, 1e-6 / 3)
    inverse = np.linalg.inv(X.T @ X)
    expected = scale * math.sqrt(float(np.trace(inverse @ inverse)) * (0.25 + float(best @ best)))
    spread = math.sqrt(float(np.sum(draws.var(axis=0))))
    assert spread == pytest.approx(expected, rel=0.1)


# -- relative ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solved", [False, True])
def test_inherent_delta_looks_at_every_record(solved: bool) -> None:
    X, y = data(300, noise=0.3)
    rows = np.column_stack([X, y])
    q, p = leverages(rows), leverages(X)

    def deltas(q: np.ndarray, p: np.ndarray) -> np.ndarray:
        if not solved:
            return np.asarray(Profile.both(removal_loss(q, p, 3, 60)).delta(0.5))
        ways = [SketchAndSolveLoss(1.0, 3, 60, backwards) for backwards in (False, True)]
        return np.exp(np.max([way.log_delta_at(q, p, 0.5) for way in ways], axis=0))

    by_hand = max(deltas(q, p).max(), deltas(q / (1 + q), p / (1 + p)).max())
    found = inherent_delta(rows, 0.5, 60, solved=solved)
    assert 0.9 * by_hand <= found <= by_hand  # one record of every box
    rows[0, -1] = 5.0  # a record that stands out
    assert inherent_delta(rows, 0.5, 60, solved=solved) > 2 * found


def test_relative_gaussian_noise_covers_every_removal_and_depends_on_the_table() -> None:
    X, y = data(200)
    rows = np.column_stack([X, y])
    law = relative_gaussian_law(rows, 2.0, 1e-5)
    assert isinstance(law, Gaussian)
    for i in range(0, 200, 20):
        x = np.linalg.lstsq(np.delete(X, i, 0), np.delete(y, i), rcond=None)[0]
        moved = np.linalg.norm(x - law.mean) / math.sqrt(law.cov[0, 0])
        assert QuadraticLoss.from_shift(moved).delta(2.0) <= 1e-5
    worst = int(np.argmax(np.abs(y - X @ law.mean) * np.linalg.norm(X, axis=1)))
    other = relative_gaussian_law(np.delete(rows, worst, 0), 2.0, 1e-5)
    assert other.cov[0, 0] < 0.99 * law.cov[0, 0]
