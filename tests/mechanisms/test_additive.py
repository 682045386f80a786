"""The Gaussian and matrix-variate mechanisms: noise, guarantees, laws and what they cost."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import ndis
from ndis import GaussianMechanism, Guarantee, MatrixGaussianMechanism, Release
from ndis.ledger import Entry
from ndis.mechanisms.additive import (
    AccuracyLoss,
    leading_directions,
    noise_multiplier,
    shift_profile,
)
from ndis.randomness import generator, grid_spacing
from oracles.noise import reference_multiplier
from samplers import LEVEL, accepts_gaussian, accepts_law, accepts_scale

EPSILONS = [1e-3, 0.1, 1.0, 7.0, 50.0]
DELTAS = [0.1, 1e-5, 1e-10, 1e-50, 1e-300]


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_analytic_noise_is_least_and_never_below(epsilon: float, delta: float) -> None:
    least = reference_multiplier(epsilon, delta)
    excess = mp.mpf(noise_multiplier(epsilon, delta)) / least - 1
    assert 0 <= excess < 1e-12


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 4)])
def test_releases_every_shape_with_its_guarantee(shape: tuple[int, ...]) -> None:
    mechanism = GaussianMechanism(1.0, 1e-5, 2.0, relation="replace")
    value = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    release = mechanism.release(value)
    assert isinstance(release, Release)
    assert release.value.shape == shape
    assert release.guarantee.basis == "proven"
    assert release.guarantee.private
    assert release.guarantee.relation == "replace"
    assert release.guarantee.loss is not None
    assert release.guarantee.loss.delta(1.0) <= 1e-5
    spacing = grid_spacing(mechanism.calibrate())
    assert np.all(np.mod(release.value, spacing) == 0)


def test_noise_has_the_calibrated_law_and_not_one_near_it() -> None:
    mechanism = GaussianMechanism(0.5, 1e-6, 3.0, random_state=np.random.default_rng(5))
    noise = mechanism.release(np.zeros((200, 100))).value
    scale = mechanism.calibrate()
    assert accepts_scale(noise, scale, LEVEL)
    assert accepts_law(noise, stats.norm(scale=scale).cdf, LEVEL)
    assert not accepts_scale(noise, 1.1 * scale, LEVEL)
    assert not accepts_law(noise, stats.norm(scale=1.1 * scale).cdf, LEVEL)


def test_a_known_seed_is_said_to_be_not_private() -> None:
    release = GaussianMechanism(1.0, 1e-5, 1.0, random_state=3).release(0.0)
    assert not release.guarantee.private
    assert "NOT PRIVATE" in str(release.guarantee)


def test_every_release_passes_through_the_ledger_first() -> None:
    events: list[str] = []

    class Budget:
        def spend(self, guarantee: Guarantee, mechanism: str) -> Entry:
            events.append(f"spend {guarantee.epsilon} {mechanism}")
            return Entry(1, "now", mechanism, guarantee)

        def complete(self, entry: Entry, digest: str) -> None:
            events.append(f"complete {entry.number} {len(digest)}")

    GaussianMechanism(1.0, 1e-5, 1.0, ledger=Budget()).release([1.0])  # type: ignore[arg-type]
    assert events == ["spend 1.0 GaussianMechanism", "complete 1 64"]


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 0.0])
def test_classic_refuses_what_its_theorem_does_not_cover(epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"0 < epsilon < 1 .* use calibration='analytic'"):
        GaussianMechanism(epsilon, 1e-5, 1.0, calibration="classic")


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_classic_holds_with_too_much_noise_and_says_so(epsilon: float, delta: float) -> None:
    classic = GaussianMechanism(epsilon, delta, 1.0, calibration="classic")
    analytic = GaussianMechanism(epsilon, delta, 1.0)
    guarantee = classic.guarantee()
    assert guarantee.basis == "proven"
    assert guarantee.loss is not None
    assert guarantee.loss.delta(epsilon) < delta / 100
    assert "true delta" in str(guarantee)
    assert 1.2 < classic.calibrate() / analytic.calibrate() < 1.6


def test_a_condition_that_fails_would_be_found_out() -> None:
    classic = GaussianMechanism(0.9, 1e-5, 1.0, calibration="classic")
    with pytest.raises(ValueError, match="does not; use calibration='analytic'"):
        classic._proven(shift_profile(2.0))


def test_relative_scales_with_the_neighbours_and_hides_by_how_much() -> None:
    value, neighbours = np.zeros(4000), [np.full(4000, 0.5 / math.sqrt(4000)), np.zeros(4000)]
    mechanism = GaussianMechanism(1.0, 1e-5, 10.0, calibration="relative", random_state=8)
    release = mechanism.release(value, neighbours=neighbours)
    assert release.guarantee.basis == "relative"
    assert accepts_scale(release.value, 0.5 * noise_multiplier(1.0, 1e-5), LEVEL)
    assert "0.5" not in str(release.parameters)


def test_relative_needs_neighbours_within_the_public_bound() -> None:
    mechanism = GaussianMechanism(1.0, 1e-5, 1.0, calibration="relative")
    with pytest.raises(ValueError, match="pass both or neither"):
        mechanism.release([0.0])
    with pytest.raises(ValueError, match="public bound") as error:
        mechanism.release([0.0], neighbours=[[7.25]])
    assert "7.25" not in str(error.value)
    with pytest.raises(ValueError, match="same question"):
        mechanism.release([0.0], neighbours=[[1.0, 2.0]])


def test_output_law_is_what_the_auditor_sees() -> None:
    mechanism = GaussianMechanism(1.0, 1e-5, 1.0)
    P, Q = mechanism.output_law([0.0, 0.0]), mechanism.output_law([0.6, 0.8])
    assert ndis.profile(P, Q).delta(1.0) == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1.0, 1e-5, 1.0), "epsilon >= 0"), ((1.0, 0.0, 1.0), "delta"), ((1.0, 0.1, 0.0), "sensit")],
)
def test_wrong_parameters_are_named(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianMechanism(*arguments)


# -- matrices ------------------------------------------------------------------------------------


def test_exact_matrix_noise_is_the_analytic_noise() -> None:
    matrix = MatrixGaussianMechanism(0.5, 1e-7, math.sqrt(2.0))
    assert matrix.calibrate((89, 89)) == GaussianMechanism(0.5, 1e-7, math.sqrt(2.0)).calibrate()
    assert matrix.guarantee((89, 89)).basis == "proven"


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
    exact = MatrixGaussianMechanism(epsilon, delta, sensitivity)
    published = MatrixGaussianMechanism(
        epsilon, delta, sensitivity, calibration="published", norm_bound=norm_bound
    )
    sketched = MatrixGaussianMechanism(epsilon, delta, sensitivity, calibration="appendix-c")
    found = published.calibrate(shape) / exact.calibrate(shape)
    assert found == pytest.approx(ratio, rel=0.02)
    assert published.guarantee(shape).basis == sketched.guarantee(shape).basis == "proven"
    assert 0.3 * found < sketched.calibrate(shape) / exact.calibrate(shape) <= found


def random_covariance(dimension: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((dimension, dimension))
    return factor @ factor.T + 0.1 * np.eye(dimension)


@pytest.mark.parametrize("calibration", ["exact", "published", "appendix-c"])
def test_directional_noise_meets_its_guarantee_against_the_worst_difference(
    calibration: str,
) -> None:
    rng = np.random.default_rng(4)
    rows, columns = random_covariance(3, rng), random_covariance(4, rng)
    mechanism = MatrixGaussianMechanism(
        1.0,
        1e-5,
        2.0,
        calibration=calibration,
        rows=rows,
        columns=columns,
        norm_bound=5.0 if calibration == "published" else None,
    )
    _, left = np.linalg.eigh(rows)
    _, right = np.linalg.eigh(columns)
    worst = 2.0 * np.outer(left[:, 0], right[:, 0])
    laws = mechanism.output_law(np.zeros((3, 4))), mechanism.output_law(worst)
    loss = mechanism.guarantee((3, 4)).loss
    assert loss is not None
    assert ndis.profile(*laws).log_delta(1.0) == pytest.approx(loss.log_delta(1.0), rel=1e-6)
    if calibration == "exact":
        assert ndis.profile(*laws).delta(1.0) == pytest.approx(1e-5, rel=1e-6)


def test_matrix_noise_has_the_covariance_of_its_sides() -> None:
    rng = np.random.default_rng(12)
    rows, columns = random_covariance(2, rng), random_covariance(3, rng)
    mechanism = MatrixGaussianMechanism(1.0, 1e-5, 1.0, rows=rows, columns=columns)
    draws = np.array([mechanism.noise((2, 3), rng).reshape(-1) for _ in range(4000)])
    least = np.linalg.eigvalsh(rows)[0] * np.linalg.eigvalsh(columns)[0]
    cov = mechanism.calibrate((2, 3)) ** 2 / least * np.kron(rows, columns)
    assert accepts_gaussian(draws, np.zeros(6), cov, LEVEL)
    assert not accepts_gaussian(draws, np.zeros(6), 1.2 * cov, LEVEL)


def test_leading_directions_spend_the_published_budget() -> None:
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))
    shape = leading_directions(basis, 0.8)
    precisions = 1.0 / np.linalg.eigvalsh(shape)
    assert np.sum(precisions**2) == pytest.approx(1.0)
    assert np.linalg.norm(basis.T @ np.linalg.inv(shape) @ basis) ** 2 == pytest.approx(0.8)
    mechanism = MatrixGaussianMechanism(1.0, 1e-5, 1.0, calibration="appendix-c", rows=shape)
    along = [float(b @ shape @ b) for b in (basis[:, 0], np.linalg.svd(basis.T)[2][-1])]
    assert along[0] < along[1]
    assert mechanism.guarantee((6, 5)).basis == "proven"
    with pytest.raises(ValueError, match="orthonormal"):
        leading_directions(np.ones((3, 1)), 0.5)


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({}, (5,), "Expected a matrix"),
        ({"rows": np.eye(3)}, (4, 4), r"rows of shape \(4, 4\)"),
        ({"rows": np.diag([1.0, 0.0])}, (2, 2), "positive definite"),
        ({"columns": [[1.0, 0.9], [0.0, 1.0]]}, (2, 2), "symmetric"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(
    parameters: dict[str, object], shape: tuple[int, ...], message: str
) -> None:
    mechanism = MatrixGaussianMechanism(1.0, 1e-5, 1.0, **parameters)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        mechanism.release(np.zeros(shape))


def test_norm_bound_belongs_to_the_published_condition() -> None:
    with pytest.raises(TypeError, match="norm_bound"):
        MatrixGaussianMechanism(1.0, 1e-5, 1.0, calibration="published")
    with pytest.raises(ValueError, match="sensitivity/2"):
        MatrixGaussianMechanism(1.0, 1e-5, 1.0, calibration="published", norm_bound=0.4)
    with pytest.raises(ValueError, match="leave it out"):
        MatrixGaussianMechanism(1.0, 1e-5, 1.0, norm_bound=1.0)


# -- the accuracy loss ---------------------------------------------------------------------------


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
    mechanism = MatrixGaussianMechanism(
        1.0, 1e-5, 1.0, rows=random_covariance(3, rng), columns=random_covariance(2, rng)
    )
    expected = mechanism.accuracy_loss((3, 2))
    losses = mechanism.simulate((3, 2), 40_000, random_state=2)
    assert losses.mean() == pytest.approx(expected.mean, rel=0.03)
    assert losses.var() == pytest.approx(expected.variance, rel=0.1)
    raw = [float(np.mean(losses**k)) for k in (2, 3, 4)]
    assert raw[1] / raw[0] ** 1.5 == pytest.approx(expected.raw_skewness, rel=0.1)
    assert raw[2] / raw[0] ** 2 == pytest.approx(expected.raw_kurtosis, rel=0.25)


def test_the_published_lower_bound_on_the_analytic_loss_is_false() -> None:
    # Theorem 4 of the rank-one paper: E[L] >= (Phi^-1(delta)^2 + eps) M/eps^2.
    eps, delta, dimension = 0.5, 1e-7, 100
    claimed = (stats.norm.ppf(delta) ** 2 + eps) * dimension / eps**2
    assert GaussianMechanism(eps, delta, 1.0).accuracy_loss((dimension,)).mean < 0.75 * claimed


def test_draws_repeat_with_a_seed() -> None:
    mechanism = GaussianMechanism(1.0, 1e-5, 1.0)
    assert np.array_equal(mechanism.noise((3,), generator(1)), mechanism.noise((3,), generator(1)))
