"""Audits from samples: a true claim is seldom refuted, half the noise is, the band holds."""

import numpy as np
import pytest

from ndis import QuadraticLoss, Verdict, audit_samples
from ndis.auditing import sampled_curve
from ndis.auditing.blackbox import _curve, _scores

EPSILON = 0.5
TRUE = float(QuadraticLoss.from_shift(1.0).delta(EPSILON))


def noisy_sum(scale: float):  # type: ignore[no-untyped-def]
    return lambda data, rng: np.array([sum(data) + scale * rng.standard_normal()])


def run(scale: float, seed: int, confidence: float = 0.9) -> Verdict:
    return audit_samples(
        noisy_sum(scale), [1, 1], [1], (EPSILON, TRUE),
        n_samples=1000, confidence=confidence, low_bits=False, random_state=seed,
    )  # fmt: skip


@pytest.mark.slow
def test_size_a_tight_claim_is_refuted_no_more_often_than_said() -> None:
    """300 audits with 200 samples of a claim that holds with equality; three in ten may fail."""
    rng = np.random.default_rng(0)
    refuted = unshared = 0
    for _ in range(300):
        first, second = 1.0 + rng.standard_normal((200, 1)), rng.standard_normal((200, 1))
        scores = _scores(None, first, second, 100)
        # What `sampled_curve` does, and the same if each of 96 bounds took all of the risk.
        shared, greedy = (_curve(*scores, np.array([EPSILON]), risk) for risk in (0.3, 96 * 0.3))
        refuted += bool(shared.lower[0] > TRUE)
        unshared += bool(greedy.lower[0] > TRUE)
    assert refuted <= 90
    assert unshared > 90  # so that a mistake in the sharing would be seen


@pytest.mark.slow
def test_size_of_whole_audits() -> None:
    assert sum(run(1.0, seed).refuted for seed in range(5)) <= 1


def test_power_grows_with_samples() -> None:
    """A delta of twice the claim: seen never with 200 samples, always with 20,000."""
    half = 0.5 * TRUE
    rng = np.random.default_rng(1)
    seen = {}
    for n in (200, 20_000):
        pairs = [(1.0 + rng.standard_normal(n), rng.standard_normal(n)) for _ in range(10)]
        seen[n] = sum(bool(sampled_curve(*pair, EPSILON).lower[0] > half) for pair in pairs)
    assert seen[200] < seen[20_000] == 10


@pytest.mark.slow
def test_power_half_the_noise_is_refuted() -> None:
    verdicts = [run(0.5, seed, confidence=0.99) for seed in range(10)]
    assert all(verdict.refuted for verdict in verdicts)
    assert all(TRUE < verdict.lower_bound < verdict.delta for verdict in verdicts)


def test_the_band_contains_the_curve_of_one_random_combination() -> None:
    """Figures 5 and 9: estimated against exact, on a small table."""
    table = np.array([[1.0, 0.2], [0.3, -0.8], [0.5, 0.4], [-0.2, 0.9]])
    leverage = table[0] @ np.linalg.solve(table.T @ table, table[0])
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal((4000, len(t))) @ t for t in (table, table[1:]))
    curve = sampled_curve(first, second, np.linspace(0.0, 1.0, 21))
    exact = np.asarray(QuadraticLoss.from_leverage(float(leverage)).delta(curve.epsilons))
    assert np.all(curve.lower <= exact)
    assert np.all(exact <= curve.upper + 0.02)
    assert np.max(np.abs(curve.estimate - exact)) < 0.05


def test_every_interval_pays_its_share() -> None:
    """With more confidence the lower bound falls."""
    rng = np.random.default_rng(3)
    pair = 1.0 + rng.standard_normal(1000), rng.standard_normal(1000)
    sure, bold = (sampled_curve(*pair, [0.0, 0.5, 1.0], confidence=c) for c in (0.999999, 0.5))
    assert np.all(sure.lower <= bold.lower)
    assert np.any(sure.lower < bold.lower)


def test_another_classifier_may_propose_the_sets() -> None:
    from sklearn.linear_model import LogisticRegression

    verdict = audit_samples(
        noisy_sum(0.3), [1, 1], [1], (EPSILON, TRUE), n_samples=600,
        classifier=LogisticRegression(),
    )  # fmt: skip
    assert verdict.refuted
    assert "confidence" in str(verdict)


def test_outputs_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="tells the data sets apart"):
        audit_samples(lambda data, rng: np.zeros(len(data)) + rng.standard_normal(len(data)),
                      [1, 1], [1], claim=(EPSILON, 0.1), n_samples=200)  # fmt: skip


def test_samples_are_as_many_of_either_data_set() -> None:
    with pytest.raises(ValueError, match="200 or more"):
        sampled_curve(np.zeros(100), np.zeros(100), [1.0])
    with pytest.raises(ValueError, match="as many outputs"):
        sampled_curve(np.zeros(200), np.zeros(300), [1.0])


@pytest.mark.parametrize(
    "mechanism",
    [
        lambda data: sum(data) + 0.2 * np.random.default_rng().standard_normal(),
        lambda data, scale=0.2: sum(data) + scale * np.random.default_rng().standard_normal(),
        lambda data, rng=None: sum(data) + 0.2 * rng.standard_normal(),
        lambda *given: sum(given[0]) + 0.2 * given[1].standard_normal(),
    ],
)
def test_a_mechanism_gets_a_generator_only_if_it_takes_one(mechanism) -> None:
    assert audit_samples(mechanism, [1, 1], [1], claim=(1.0, 1e-6), low_bits=False).refuted


def test_outputs_that_are_no_numbers_are_one_sentence() -> None:
    with pytest.raises(TypeError, match="Expected a mechanism that returns numbers"):
        audit_samples(lambda data: "yes", [1], [1, 1], claim=(1.0, 0.0))
    with pytest.raises(ValueError, match="Expected outputs of one size, got sizes 1 to 2"):
        audit_samples(lambda d, rng: np.ones(rng.integers(1, 3)), [1], [1, 1], claim=(1.0, 0.0))


def test_what_decided_is_said() -> None:
    """The low bits of Laplace noise in floating point, or the values of too little noise."""
    laplace = audit_samples(lambda d, rng: sum(d) + rng.laplace(), [1, 1], [1], claim=(1.0, 0.0))
    assert laplace.refuted
    assert "by the low bits of its outputs: their values alone refute nothing" in str(laplace)
    little = audit_samples(lambda d, rng: sum(d) + 0.1 * rng.laplace(), [1, 1], [1], (1.0, 0.0))
    assert "by its values alone" in str(little)
