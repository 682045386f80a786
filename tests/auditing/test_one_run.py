"""One run, many canaries: right guesses are counted, and a true claim survives."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from ndis import QuadraticLoss
from ndis.auditing import audit_one_run
from ndis.auditing.one_run import _by_binomial, _least_total, _lines, _points, chance_of_guesses


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


@pytest.mark.slow
def test_epsilon_8_sold_for_less_is_refuted() -> None:
    shift = 2.0  # of one canary's score, in deviations of the noise
    assert QuadraticLoss.from_shift(shift).epsilon(1e-5) > 8.0
    refuted = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        included = rng.random(1000) < 0.5
        refuted += audit_one_run(training(included, 1 / shift, rng), included, (0.8, 1e-5)).refuted
    assert refuted >= 95


@pytest.mark.slow
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


@pytest.mark.slow
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


def most_likely(m: int, r: int, right: int, points: np.ndarray) -> float:
    """The largest P(W >= right) under the same constraints, by linear programming."""
    w = np.arange(r + 1)
    rows, bounds = [], []
    for epsilon, delta in points:
        for e, d in ((epsilon, delta), (-epsilon, 1 - np.exp(-epsilon) * (1 - delta))):
            for k in range(1, r + 1):
                rows.append(w * (w >= k) - np.exp(e) * (r - w) * (w >= k - 1))
                bounds.append(m * d)
    found = linprog(-(w >= right).astype(float), np.array(rows), bounds, np.ones((1, r + 1)), [1.0])
    return -found.fun


@pytest.mark.parametrize("claim", [(1.0, 0.0), (1.0, 0.01), (0.0, 0.02), 0.5])
@pytest.mark.parametrize(("m", "r", "right"), [(20, 12, 9), (15, 15, 11), (12, 12, 12), (12, 4, 1)])
def test_the_second_bound_is_the_best_of_its_constraints(claim, m: int, r: int, right: int) -> None:
    points = _points(QuadraticLoss.from_shift(claim) if isinstance(claim, float) else claim)
    best = most_likely(m, r, right, points)
    chances = best * np.array([0.999, 1.001])
    below, above = _least_total(m, r, right, chances, _lines(points[:, None]))
    assert below <= 1.0 + 1e-6
    assert above > 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.05), (2.0, 0.001)])
def test_no_law_of_guesses_is_above_the_bound(epsilon: float, delta: float) -> None:
    """Canaries are shown with probability delta, or answered with odds e^epsilon: exact chances."""
    r = 40
    q = delta + (1 - delta) / (1 + np.exp(-epsilon))
    for right in range(r + 1):
        assert binom.sf(right - 1, r, q) <= chance_of_guesses(r, r, right, (epsilon, delta)) + 1e-9


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_gaussian_canaries_obey_their_own_curve(shift: float) -> None:
    """Each canary has a number of its own with noise 1: guesses by sign, exact chances."""
    r, curve = 60, QuadraticLoss.from_shift(shift)
    for right in range(20, r + 1, 4):
        chance = binom.sf(right - 1, r, norm.cdf(shift / 2))
        assert chance <= chance_of_guesses(r, r, right, curve) + 1e-9


def test_the_curve_says_more_than_a_point() -> None:
    """Against Steinke's bound alone at its best epsilon, for a claim of Gaussian noise."""
    curve = QuadraticLoss.from_shift(0.5)
    epsilons = np.linspace(0.1, 4.0, 40)
    points = np.column_stack([epsilons, curve.delta(epsilons)])
    point = min(_by_binomial(1000, 200, 195, *point) for point in points)
    assert chance_of_guesses(1000, 200, 195, curve) < 0.5 * point
    # And with a delta it is better at one point too.
    assert chance_of_guesses(1000, 500, 400, (1.0, 1e-3)) < 0.3 * _by_binomial(
        1000, 500, 400, 1.0, 1e-3
    )


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
