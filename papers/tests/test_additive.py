"""Published calibrations of added noise: what they truly give, and moments of what they cost."""

import math

import numpy as np
import pytest
from scipy import stats

import ndis
from laws import output_law
from ndis import MatrixGaussianMechanism
from ndis_papers.additive import (
    AccuracyLoss,
    NormalNoise,
    analytic,
    analytic_noise,
    classic,
    keeps,
    leading_directions,
    matrix_noise,
    matrix_precision_bound,
    matrix_variate,
    simulate,
)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_classic_holds_with_too_much_noise(epsilon: float, delta: float) -> None:
    noise = classic(epsilon, delta, 2.0)
    assert keeps(noise, ()) == "proven"
    assert noise.loss().delta(epsilon) < delta / 100
    assert 1.2 < noise.scale / analytic_noise(epsilon, delta, 2.0) < 1.6


def test_classic_fails_where_its_theorem_ends() -> None:
    assert keeps(classic(10.0, 1e-5, 1.0), ()) == "refuted"


@pytest.mark.parametrize(
    ("shape", "sensitivity", "norm_bound", "epsilon", "delta", "ratio"),
    [
        ((1, 1), 1.0, 0.5, 1.0, 1e-5, 8.27),
        ((10, 10), 1.0, 0.5, 1.0, 1e-5, 1499.0),
        ((89, 89), math.sqrt(2), math.sqrt(0.5), 0.5, 1e-7, 8.7e5),
        ((2400, 2400), 0.14132, 2400.0, 1.6, 1e-7, 2.4e10),
    ],
)
def test_published_matrix_condition_holds_and_is_far_too_much(
    shape: tuple[int, int],
    sensitivity: float,
    norm_bound: float,
    epsilon: float,
    delta: float,
    ratio: float,
) -> None:
    exact = analytic_noise(epsilon, delta, sensitivity)
    published, sketched = (
        matrix_variate(epsilon, delta, sensitivity, shape, bound) for bound in (norm_bound, None)
    )
    assert published.scale / exact == pytest.approx(ratio, rel=0.02)
    assert keeps(published, shape) == keeps(sketched, shape) == "proven"
    assert 0.3 * published.scale < sketched.scale <= published.scale


def random_covariance(dimension: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((dimension, dimension))
    return factor @ factor.T + 0.1 * np.eye(dimension)


@pytest.mark.parametrize("norm_bound", [5.0, None])
def test_the_published_noise_is_that_of_the_quietest_direction(norm_bound: float | None) -> None:
    rng = np.random.default_rng(4)
    rows, columns = random_covariance(3, rng), random_covariance(4, rng)
    noise = matrix_noise(1.0, 1e-5, 2.0, (3, 4), norm_bound, rows=rows, columns=columns)
    # The same shapes, scaled such that the condition holds with equality.
    bound = matrix_precision_bound(1.0, 1e-5, 2.0, (3, 4), norm_bound)
    precision = np.linalg.norm(1 / np.linalg.eigvalsh(np.kron(rows, columns)))
    law = ndis.Gaussian(np.zeros(12), precision / bound * np.kron(rows, columns))
    worst = 2.0 * np.linalg.eigh(law.cov)[1][:, 0]
    pair = ndis.profile(law, ndis.Gaussian(worst, law.cov))
    expected = NormalNoise(1.0, 1e-5, 2.0, noise).loss().log_delta(1.0)
    assert pair.log_delta(1.0) == pytest.approx(expected, rel=1e-6)


def test_leading_directions_spend_the_published_budget() -> None:
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))
    shape = leading_directions(basis, 0.8)
    precisions = 1.0 / np.linalg.eigvalsh(shape)
    assert np.sum(precisions**2) == pytest.approx(1.0)
    assert np.linalg.norm(basis.T @ np.linalg.inv(shape) @ basis) ** 2 == pytest.approx(0.8)
    along = [float(b @ shape @ b) for b in (basis[:, 0], np.linalg.svd(basis.T)[2][-1])]
    assert along[0] < along[1]
    with pytest.raises(ValueError, match="orthonormal"):
        leading_directions(np.ones((3, 1)), 0.5)


def test_the_norm_bound_must_fit_the_sensitivity() -> None:
    with pytest.raises(ValueError, match="sensitivity/2"):
        matrix_noise(1.0, 1e-5, 1.0, (2, 2), 0.4)


@pytest.mark.parametrize("dimension", [1, 2, 10, 7921])
def test_moments_of_equal_variances_are_those_of_a_chi_square(dimension: int) -> None:
    loss = AccuracyLoss.of_equal_variances(dimension, 3.0)
    raw = [math.exp(math.lgamma(k + dimension / 2) - math.lgamma(dimension / 2)) for k in range(5)]
    assert loss.mean == pytest.approx(3.0 * dimension)
    assert loss.variance == pytest.approx(18.0 * dimension)
    assert loss.skewness == pytest.approx(math.sqrt(8 / dimension))
    assert loss.kurtosis == pytest.approx(3 + 12 / dimension)
    assert loss.raw_skewness == pytest.approx(raw[3] / raw[2] ** 1.5, rel=1e-8)
    assert loss.raw_kurtosis == pytest.approx(raw[4] / raw[2] ** 2, rel=1e-8)


def test_simulated_loss_has_the_moments_in_closed_form() -> None:
    rng = np.random.default_rng(21)
    rows, columns = random_covariance(3, rng), random_covariance(2, rng)
    mechanism = MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-5, sensitivity=1.0, rows=rows, columns=columns
    )
    law = output_law(mechanism, np.zeros((3, 2)))
    losses = np.sum(rng.multivariate_normal(law.mean, law.cov, 40_000) ** 2, axis=1)
    sides = [np.linalg.eigvalsh(side) for side in (rows, columns)]
    unit = mechanism.calibrate() ** 2 / (sides[0].min() * sides[1].min())
    expected = AccuracyLoss.of_variances(unit * sides[0], sides[1])
    assert losses.mean() == pytest.approx(expected.mean, rel=0.03)
    assert losses.var() == pytest.approx(expected.variance, rel=0.1)
    raw = [float(np.mean(losses**k)) for k in (2, 3, 4)]
    assert raw[1] / raw[0] ** 1.5 == pytest.approx(expected.raw_skewness, rel=0.1)
    assert raw[2] / raw[0] ** 2 == pytest.approx(expected.raw_kurtosis, rel=0.25)


def test_normal_noise_has_its_closed_form_too() -> None:
    noise = analytic(1.0, 1e-5, 3.0)
    losses = simulate(noise, (4, 5), 20_000, 2)
    expected = noise.accuracy_loss((4, 5))
    assert losses.mean() == pytest.approx(expected.mean, rel=0.02)
    assert losses.var() == pytest.approx(expected.variance, rel=0.1)


def test_the_published_lower_bound_on_the_analytic_loss_is_false() -> None:
    # Theorem 4 of the rank-one paper: E[L] >= (Phi^-1(delta)^2 + eps) M/eps^2.
    eps, delta, dimension = 0.5, 1e-7, 100
    claimed = (stats.norm.ppf(delta) ** 2 + eps) * dimension / eps**2
    assert analytic(eps, delta, 1.0).accuracy_loss((dimension,)).mean < 0.75 * claimed
