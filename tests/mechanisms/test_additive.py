"""The Gaussian and matrix-variate mechanisms: noise, guarantees, laws and what they cost."""

import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import ndis
from laws import output_law
from ndis import GaussianMechanism, Ledger, MatrixGaussianMechanism, Release
from ndis.auditing.certificates import verify
from ndis.calibration import meets, noise_multiplier
from ndis.mechanisms.recompute import implied
from ndis.randomness import grid_spacing
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
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=2.0, relation="replace")
    value = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    release = mechanism.release(value)
    assert isinstance(release, Release)
    assert release.value.shape == shape
    assert release.guarantee.basis == "declared"
    assert release.guarantee.private
    assert release.guarantee.relation == "replace"
    assert release.guarantee.loss is not None
    assert release.guarantee.loss.delta(1.0) <= 1e-5
    spacing = grid_spacing(mechanism.calibrate())
    assert np.all(np.mod(release.value, spacing) == 0)


def test_noise_has_the_calibrated_law_and_not_one_near_it() -> None:
    mechanism = GaussianMechanism(
        epsilon=0.5, delta=1e-6, sensitivity=3.0, random_state=np.random.default_rng(5)
    )
    noise = mechanism.release(np.zeros((200, 100))).value
    scale = mechanism.calibrate()
    assert accepts_scale(noise, scale, LEVEL)
    assert accepts_law(noise, stats.norm(scale=scale).cdf, LEVEL)
    assert not accepts_scale(noise, 1.1 * scale, LEVEL)
    assert not accepts_law(noise, stats.norm(scale=1.1 * scale).cdf, LEVEL)


@pytest.mark.parametrize("mechanism", [GaussianMechanism, MatrixGaussianMechanism])
def test_the_verifier_and_a_ledger_of_that_size_accept_a_release(
    mechanism: type[GaussianMechanism], tmp_path: Path
) -> None:
    with Ledger.create(tmp_path / "budget", 2.0, 1e-5, "add-remove", accept=["declared"]) as ledger:
        made = mechanism(epsilon=2.0, delta=1e-5, sensitivity=1.3, ledger=ledger).release(
            [[1.0, 2.0]]
        )
    assert verify(made).outcome == "checked"


@pytest.mark.slow
def test_the_noise_that_a_certificate_states_implies_what_is_promised() -> None:
    """It is a product, rounded: it must not imply a bit less."""
    rng = np.random.default_rng(16)
    for epsilon, delta, sensitivity in 10 ** rng.uniform(-3, [1, -1, 3], (20, 3)):
        noise = GaussianMechanism(epsilon=epsilon, delta=delta, sensitivity=sensitivity).calibrate()
        stated = implied(
            "GaussianMechanism", {"sensitivity": sensitivity, "noise_scale": noise}, delta
        )
        assert stated is not None
        assert meets(stated.loss, epsilon, delta), (epsilon, delta, sensitivity)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-150), (1e-140, 1e-150), (1e-3, 1e-300)])
def test_noise_for_a_tiny_delta_at_hardly_any_epsilon(epsilon: float, delta: float) -> None:
    promise = GaussianMechanism(epsilon=epsilon, delta=delta, sensitivity=1.0).guarantee()
    assert promise.loss is not None
    assert promise.loss.delta(epsilon) == pytest.approx(delta, rel=1e-9)


def test_what_would_leave_the_doubles_is_refused_before_it_is_paid(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "budget", 1.0, 1e-5, "add-remove", accept=["declared"]) as ledger:
        for sensitivity, value in ((1.0, 1e307), (1e307, 1.0), (1e-307, 1.0)):
            mechanism = GaussianMechanism(
                epsilon=1.0, delta=1e-5, sensitivity=sensitivity, ledger=ledger
            )
            with pytest.raises(ValueError, match=r"Expected .*(units|constant)"):
                mechanism.release(value)
        assert not ledger.history()


def test_output_law_is_what_the_auditor_sees() -> None:
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    P, Q = output_law(mechanism, [0.0, 0.0]), output_law(mechanism, [0.6, 0.8])
    assert ndis.profile(P, Q).delta(1.0) == pytest.approx(1e-5, rel=1e-9)


NAMES = ("epsilon", "delta", "sensitivity")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((-1.0, 1e-5, 1.0), "epsilon >= 0"), ((1.0, 0.0, 1.0), "delta"), ((1.0, 0.1, 0.0), "sensit")],
)
def test_wrong_parameters_are_named(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianMechanism(**dict(zip(NAMES, arguments, strict=True))).plan()


# -- matrices ------------------------------------------------------------------------------------


def test_exact_matrix_noise_is_the_analytic_noise() -> None:
    matrix = MatrixGaussianMechanism(epsilon=0.5, delta=1e-7, sensitivity=math.sqrt(2.0))
    assert (
        matrix.calibrate()
        == GaussianMechanism(epsilon=0.5, delta=1e-7, sensitivity=math.sqrt(2.0)).calibrate()
    )
    assert matrix.guarantee().basis == "declared"


def random_covariance(dimension: int, rng: np.random.Generator) -> np.ndarray:
    factor = rng.standard_normal((dimension, dimension))
    return factor @ factor.T + 0.1 * np.eye(dimension)


def test_directional_noise_meets_its_guarantee_against_the_worst_difference() -> None:
    rng = np.random.default_rng(4)
    rows, columns = random_covariance(3, rng), random_covariance(4, rng)
    mechanism = MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-5, sensitivity=2.0, rows=rows, columns=columns
    )
    _, left = np.linalg.eigh(rows)
    _, right = np.linalg.eigh(columns)
    worst = 2.0 * np.outer(left[:, 0], right[:, 0])
    laws = output_law(mechanism, np.zeros((3, 4))), output_law(mechanism, worst)
    assert ndis.profile(*laws).delta(1.0) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.slow
def test_matrix_noise_has_the_covariance_of_its_sides() -> None:
    rng = np.random.default_rng(12)
    rows, columns = random_covariance(2, rng), random_covariance(3, rng)
    mechanism = MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-5, sensitivity=1.0, rows=rows, columns=columns
    )
    run = mechanism.prepare(np.zeros((2, 3)))
    draws = np.array([run.draw(rng)["value"].reshape(-1) for _ in range(4000)])
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
    mechanism = MatrixGaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0, **parameters)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        mechanism.release(np.zeros(shape))


def test_a_forecast_of_directional_noise_spans_its_entries() -> None:
    mechanism = MatrixGaussianMechanism(
        epsilon=1.0, delta=1e-5, sensitivity=1.0, rows=np.diag([1.0, 4.0])
    )
    errors = mechanism.forecast((2, 3)).errors
    scale = mechanism.calibrate()
    assert errors["standard error of a number"] == pytest.approx((scale, 2 * scale))
    assert errors["root of the summed squared errors"][0] == pytest.approx(scale * math.sqrt(15))
