"""Replays with frozen noise: a change too large for the noise is a proof, other noise is none."""

import numpy as np
import pytest

from ndis import GaussianMechanism, QuadraticLoss
from ndis.auditing import audit_replay

SCALE = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).calibrate()
D, NEIGHBOUR = np.array([0.5, 1.0, 0.2, 30.0]), np.array([0.5, 1.0, 0.2])


def honest(data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(data, 0.0, 1.0).sum() + rng.normal(scale=SCALE, size=1)


def unclipped(data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return data.sum() + rng.normal(scale=SCALE, size=1)


def peeking(data: np.ndarray, rng: np.random.Generator) -> float:
    value = np.clip(data, 0.0, 1.0).sum()
    return value + (rng.normal(scale=SCALE) if value > 2 else rng.laplace(scale=SCALE))


def counting(data: np.ndarray, rng: np.random.Generator) -> float:
    return np.clip(data, 0.0, 1.0).sum() + sum(rng.normal(scale=SCALE) for _ in data)


def growing(data: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.ones(len(data)) * rng.normal(scale=SCALE)


def test_sound_code_is_consistent_and_shows_its_change() -> None:
    verdict = audit_replay(honest, D, NEIGHBOUR, (1.0, 1e-6), noise_scale=SCALE, sensitivity=1.0)
    assert not verdict.refuted
    assert verdict.delta == pytest.approx(1e-6, rel=1e-6)
    assert any("kept by this pair" in part for part in verdict.searched)


def test_a_change_too_large_is_proven() -> None:
    verdict = audit_replay(unclipped, D, NEIGHBOUR, (1.0, 1e-6), noise_scale=SCALE, sensitivity=1.0)
    assert verdict.refuted
    truth = float(QuadraticLoss.from_shift(30.0 / SCALE).delta(1.0))
    assert verdict.lower_bound <= truth
    assert verdict.lower_bound == pytest.approx(truth, rel=1e-9)
    assert any("broken by this pair" in part for part in verdict.searched)


@pytest.mark.parametrize("code", [peeking, counting, growing])
def test_noise_that_depends_on_the_data_is_refused(code: object) -> None:
    """It may be private or not: other draws on the neighbour are no proof of a delta."""
    with pytest.raises(ValueError, match="audit it by samples"):
        audit_replay(code, D, NEIGHBOUR, (1.0, 1e-6), noise_scale=SCALE)  # type: ignore[arg-type]


def test_noise_from_elsewhere_is_refused() -> None:
    """Else the difference of two draws would pass for a change of the value."""
    own = np.random.default_rng(0)

    def elsewhere(data: np.ndarray, rng: np.random.Generator) -> float:
        rng.random()
        return np.clip(data, 0.0, 1.0).sum() + own.normal(scale=100 * SCALE)

    with pytest.raises(ValueError, match="repeats itself"):
        audit_replay(elsewhere, D, NEIGHBOUR, (1.0, 1e-6), noise_scale=SCALE)


def test_code_that_ignores_the_generator_is_refused() -> None:
    with pytest.raises(ValueError, match="pass rng on"):
        audit_replay(lambda data, rng: data.sum(), D, D, (1.0, 1e-6), noise_scale=1.0)


def test_rounding_refutes_nobody() -> None:
    """A sum far larger than its noise, claimed exactly."""

    def shifted(data: np.ndarray, rng: np.random.Generator) -> float:
        return 1e9 + honest(data, rng)[0]

    for seed in range(50):
        verdict = audit_replay(shifted, D, NEIGHBOUR, (1.0, 1e-6), noise_scale=SCALE, seed=seed)
        assert not verdict.refuted


def test_a_change_that_may_be_rounding_refutes_not_even_delta_zero() -> None:
    def far_out(data, rng):
        return 1e16 + 2.0 * len(data) + rng.normal()

    verdict = audit_replay(far_out, [1.0, 2.0], [1.0], (0.0, 0.0), noise_scale=1.0)
    assert verdict.outcome != "refuted"
