"""Audits from samples: a true claim is seldom refuted, half the noise is, the band holds."""

import numpy as np
import pytest

from ndis import QuadraticLoss, audit_samples
from ndis.auditing.blackbox import SampledCurve

EPSILON = 0.5
TRUE = float(QuadraticLoss.from_shift(1.0).delta(EPSILON))


def noisy_sum(scale: float):  # type: ignore[no-untyped-def]
    return lambda data, rng: np.array([sum(data) + scale * rng.standard_normal()])


def run(scale: float, seed: int, confidence: float = 0.9) -> tuple[bool, SampledCurve]:
    verdict, curve = audit_samples(
        noisy_sum(scale), [1, 1], [1], EPSILON, claimed_delta=TRUE,
        n_samples=1000, confidence=confidence, random_state=seed,
    )  # fmt: skip
    return verdict.refuted, curve


def test_size_a_true_claim_is_refuted_no_more_often_than_said() -> None:
    refuted = sum(run(1.0, seed)[0] for seed in range(60))
    assert refuted <= 6  # one in ten is allowed; the shares of 96 intervals make it far rarer


def test_power_half_the_noise_is_refuted() -> None:
    assert all(run(0.5, seed, confidence=0.99)[0] for seed in range(10))


def test_the_band_contains_the_curve_of_one_random_combination() -> None:
    """Figures 5 and 9: estimated against exact, on a small table."""
    table = np.array([[1.0, 0.2], [0.3, -0.8], [0.5, 0.4], [-0.2, 0.9]])
    leverage = table[0] @ np.linalg.solve(table.T @ table, table[0])
    _, curve = audit_samples(
        lambda rows, rng: rows.T @ rng.standard_normal(len(rows)),
        table, table[1:], EPSILON, claimed_delta=0.5, n_samples=4000,
    )  # fmt: skip
    exact = np.asarray(QuadraticLoss.from_leverage(float(leverage)).delta(curve.epsilons))
    assert np.all(curve.lower <= exact)
    assert np.all(exact <= curve.upper + 0.02)
    assert np.max(np.abs(curve.estimate - exact)) < 0.05


def test_every_interval_pays_its_share() -> None:
    """With more confidence the lower bound falls."""
    sure, bold = (run(1.0, 3, confidence)[1] for confidence in (0.999999, 0.5))
    assert np.all(sure.lower <= bold.lower)
    assert np.any(sure.lower < bold.lower)


def test_another_classifier_may_propose_the_sets() -> None:
    from sklearn.linear_model import LogisticRegression

    verdict, _ = audit_samples(
        noisy_sum(0.3), [1, 1], [1], EPSILON, claimed_delta=TRUE, n_samples=600,
        classifier=LogisticRegression(),
    )  # fmt: skip
    assert verdict.refuted
    assert "confidence" in str(verdict)


def test_outputs_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="tells the data sets apart"):
        audit_samples(lambda data, rng: np.zeros(len(data)) + rng.standard_normal(len(data)),
                      [1, 1], [1], EPSILON, claimed_delta=0.1, n_samples=200)  # fmt: skip
