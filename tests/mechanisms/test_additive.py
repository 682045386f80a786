"""The Gaussian and matrix-variate mechanisms: noise, guarantees, laws and what they cost."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import ndis
from ndis import GaussianMechanism, Guarantee, MatrixGaussianMechanism, Release
from ndis.calibration import noise_multiplier
from ndis.ledger import Entry
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
    assert matrix.calibrate() == GaussianMechanism(0.5, 1e-7, math.sqrt(2.0)).calibrate()
    assert matrix.guarantee().basis == "proven"


def random_covariance(dimension: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((dimension, dimension))
    return factor @ factor.T + 0.1 * np.eye(dimension)


def test_directional_noise_meets_its_guarantee_against_the_worst_difference() -> None:
    rng = np.random.default_rng(4)
    rows, columns = random_covariance(3, rng), random_covariance(4, rng)
    mechanism = MatrixGaussianMechanism(1.0, 1e-5, 2.0, rows=rows, columns=columns)
    _, left = np.linalg.eigh(rows)
    _, right = np.linalg.eigh(columns)
    worst = 2.0 * np.outer(left[:, 0], right[:, 0])
    laws = mechanism.output_law(np.zeros((3, 4))), mechanism.output_law(worst)
    assert ndis.profile(*laws).delta(1.0) == pytest.approx(1e-5, rel=1e-6)


def test_matrix_noise_has_the_covariance_of_its_sides() -> None:
    rng = np.random.default_rng(12)
    rows, columns = random_covariance(2, rng), random_covariance(3, rng)
    mechanism = MatrixGaussianMechanism(1.0, 1e-5, 1.0, rows=rows, columns=columns)
    draws = np.array([mechanism.noise((2, 3), rng).reshape(-1) for _ in range(4000)])
    least = np.linalg.eigvalsh(rows)[0] * np.linalg.eigvalsh(columns)[0]
    cov = mechanism.calibrate() ** 2 / least * np.kron(rows, columns)
    assert accepts_gaussian(draws, np.zeros(6), cov, LEVEL)
    assert not accepts_gaussian(draws, np.zeros(6), 1.2 * cov, LEVEL)


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


def test_draws_repeat_with_a_seed() -> None:
    mechanism = GaussianMechanism(1.0, 1e-5, 1.0)
    assert np.array_equal(mechanism.noise((3,), generator(1)), mechanism.noise((3,), generator(1)))
