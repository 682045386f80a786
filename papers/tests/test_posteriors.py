"""The published rules for Gaussian outputs and logistic regression, and what is true of them."""

import math

import numpy as np
import pytest

from ndis import Gaussian, GaussianOutput, PrivateLogisticRegression
from ndis_papers.posteriors import logistic_noise, published_noise, witness


def library(epsilon: float, delta: float, **bounds) -> float:
    output = GaussianOutput(
        lambda data: Gaussian([0.0], [[1.0]]),
        epsilon=epsilon,
        delta=delta,
        dimension=1,
        max_spread=1e-3,
        **bounds,
    )
    return output.calibrate()


def test_published_rule_is_refuted_in_the_hard_direction() -> None:
    """Log-ratios (0.3, 0.3, 0.15), no mean shift, epsilon 0.5: it adds nothing; 0.0289 is true."""
    assert published_noise(lambda v: 0.0, lambda v: 0.75, 0.5, 1e-3) < 1e-9
    assert witness(0.0, 0.3, 0.75).delta(0.5) == pytest.approx(0.0289, abs=5e-5)


def test_published_rule_is_right_where_only_the_mean_moves() -> None:
    published = published_noise(lambda v: v**-0.5, lambda v: 0.0, 1.0, 1e-5)
    exact = library(1.0, 1e-5, mean_shift=lambda v: v**-0.5, rank=1)
    assert published == pytest.approx(exact, rel=1e-6)


def test_published_rule_adds_too_little_where_variances_move() -> None:
    bounds = {"mean_shift": lambda v: 0.1 * v**-0.5, "kappa": lambda v: 1.0 / v}
    published = published_noise(bounds["mean_shift"], bounds["kappa"], 1.0, 1e-6)
    assert published < 0.5 * library(1.0, 1e-6, rank=1, **bounds)
    at = published**2
    pair = witness(bounds["mean_shift"](at), 1.0 / at, 1.0 / at)
    assert pair.delta(1.0) > 100 * 1e-6


def test_published_rule_may_have_no_answer() -> None:
    with pytest.raises(ValueError, match="published rule"):
        published_noise(lambda v: 0.0, lambda v: 5.0, 1.0, 1e-6)


def test_several_draws_cost_more() -> None:
    one, four = (
        published_noise(lambda v: v**-0.5, lambda v: 0.0, 1.0, 1e-5, n_draws=n) for n in (1, 4)
    )
    assert four == pytest.approx(2 * one, rel=1e-6)


@pytest.mark.slow
def test_logistic_regression_needs_less_noise_than_published() -> None:
    library = PrivateLogisticRegression(
        classes=[0, 1],
        epsilon=1.0,
        delta=1e-5,
        data_norm=1.0,
        prior_precision=1.0,
        max_rows=1000,
        method="posterior",
    )
    # With an intercept a row has one number more, and its norm is sqrt(2).
    sizes = {"row_norm": math.sqrt(2.0), "max_rows": 1000}
    published = np.array([logistic_noise(d + 1, 1.0, 1e-5, **sizes) for d in (1, 5, 100)])
    assert np.all(np.diff(published) > 0)
    assert all(library.calibrate(d) < p for d, p in zip((1, 5, 100), published, strict=True))
