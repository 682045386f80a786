"""One run, many canaries: right guesses are counted, and a true claim survives."""

import numpy as np
import pytest
from scipy.stats import binom

from ndis import QuadraticLoss
from ndis.auditing import audit_one_run
from ndis.auditing.one_run import chance_of_guesses


def training(included: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """A loop like private SGD's: canaries have gradients of their own, noise is added each round.

    A score is the inner product of a canary with the sum of what was released.
    """
    rounds = 20
    return (
        sum(
            included + noise * np.sqrt(rounds) * rng.standard_normal(included.size)
            for _ in range(rounds)
        )
        / rounds
    )


def test_epsilon_8_sold_for_less_is_refuted() -> None:
    shift = 2.0  # of one canary's score, in deviations of the noise
    assert QuadraticLoss.from_shift(shift).epsilon(1e-5) > 8.0
    refuted = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        included = rng.random(1000) < 0.5
        refuted += audit_one_run(training(included, 1 / shift, rng), included, (0.8, 1e-5)).refuted
    assert refuted >= 95


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0)])
def test_size_for_randomised_response(epsilon: float, delta: float) -> None:
    """The worst case of an (epsilon, 0) claim: an answer is right with e^eps/(1 + e^eps)."""
    rng = np.random.default_rng(0)
    refuted = 0
    for _ in range(400):
        included = rng.random(200) < 0.5
        right = rng.random(200) < 1.0 / (1.0 + np.exp(-epsilon))
        scores = np.where(right, included, ~included) + 0.01 * rng.random(200)
        refuted += audit_one_run(scores, included, (epsilon, delta), confidence=0.9).refuted
    assert refuted <= binom.ppf(0.999, 400, 0.1)


def test_size_with_delta() -> None:
    """The other worst case: with probability delta a canary is simply shown."""
    epsilon, delta, m = 1.0, 0.05, 100
    rng = np.random.default_rng(1)
    refuted = 0
    for _ in range(400):
        included = rng.random(m) < 0.5
        right = rng.random(m) < 1.0 / (1.0 + np.exp(-epsilon))
        shown = rng.random(m) < delta
        scores = np.where(right | shown, included, ~included) + np.where(shown, 2 * included - 1, 0)
        refuted += audit_one_run(scores, included, (epsilon, delta), confidence=0.9).refuted
    assert refuted <= binom.ppf(0.999, 400, 0.1)


def test_the_chance_of_many_right_guesses() -> None:
    chances = [chance_of_guesses(100, 50, right, (1.0, 1e-6)) for right in range(51)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == 1.0
    exact = binom.sf(44, 50, 1 / (1 + np.exp(-1.0)))
    assert chance_of_guesses(100, 50, 45, (1.0, 0.0)) == pytest.approx(exact)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"included": np.ones(3, bool)}, "each of 10 canaries"),
        ({"included": np.ones(10)}, "each of 10 canaries"),
        ({"n_guesses": 11}, "at most 10 guesses"),
    ],
)
def test_wrong_calls(change: dict, message: str) -> None:
    call = {"scores": np.arange(10.0), "included": np.arange(10) > 4, "claim": (1.0, 1e-5)}
    with pytest.raises(ValueError, match=message):
        audit_one_run(**{**call, **change})
