"""Sequential audits: fair bets, few samples, nothing refuted too often."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from ndis import QuadraticLoss
from ndis.auditing import audit_outputs
from ndis.auditing.sequential import SequentialTest, best_terms, bet


def tight_delta(p: np.ndarray, q: np.ndarray, factor: float) -> float:
    """The delta of two laws on a few points, in both directions."""
    return max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())


def test_no_bet_wins_against_a_claim_that_holds() -> None:
    """Random laws with their exact delta, random scores, random terms: never a mean above 1."""
    rng = np.random.default_rng(0)
    closest = 0.0
    for _ in range(1500):
        factor = float(np.exp(rng.choice([0.0, rng.uniform(0.0, 3.0)])))
        p, q = rng.dirichlet(rng.uniform(0.1, 3.0) * np.ones(6), 2)
        delta = tight_delta(p, q, factor)
        most = min(1.0, 0.5 / max(delta, 1e-12)) / factor
        terms = np.array([rng.uniform(-0.9, 0.9), *rng.uniform(0.0, most, 2)])
        share = rng.choice([rng.random(6), p / (p + q + 1e-300)])
        ahead, behind = bet(share, factor, delta, terms)
        assert min(ahead.min(), behind.min()) > 0.0
        for first, second in ((p, q), (q, p)):
            mean = (first @ ahead) * (second @ behind)
            assert mean <= 1.0 + 1e-12
            closest = max(closest, mean)
    assert closest > 0.99  # so that a claim a little smaller would have been seen


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_wealth_grows_as_fast_as_it_can(delta: float) -> None:
    """By a second route: the least divergence from a pair of laws that obeys."""
    p, q, factor = np.array([0.5, 0.2, 0.2, 0.1]), np.array([0.1, 0.2, 0.2, 0.5]), np.exp(0.3)
    terms = np.array([0.0, 0.3, 0.3])[:, None, None]
    counts = np.stack([p, q])[None]
    for _ in range(20):
        terms = best_terms((p / (p + q))[None], counts, factor, np.full((1, 1, 1), delta), terms)
    ahead, behind = bet(p / (p + q), factor, delta, terms[:, 0])
    growth = float((p * np.log(ahead) + q * np.log(behind)).sum())

    def divergence(x: np.ndarray) -> float:
        return float(np.sum(p * np.log(p / x[:4]) + q * np.log(q / x[4:])))

    sums = [{"type": "eq", "fun": lambda x, k=k: x[k : k + 4].sum() - 1.0} for k in (0, 4)]
    # A set and its mirror image decide here: the first point, and the last.
    sets = [{"type": "ineq", "fun": lambda x: factor * x[4] + delta - x[0]},
            {"type": "ineq", "fun": lambda x: factor * x[3] + delta - x[7]}]  # fmt: skip
    nearest = minimize(
        divergence, np.full(8, 0.25), bounds=[(1e-6, 1)] * 8, constraints=sums + sets
    )
    assert growth == pytest.approx(nearest.fun, rel=2e-3)


def rounded(outputs: np.ndarray) -> np.ndarray:
    return np.round(outputs * 2.0**20) / 2.0**20


@pytest.mark.slow
def test_size_under_constant_looking() -> None:
    """A claim that holds with equality, looked at after every sample, at one in ten."""
    delta = float(QuadraticLoss.from_shift(1.0).delta(0.5))
    rng = np.random.default_rng(1)
    refuted = 0
    for _ in range(20):
        test = SequentialTest(0.5, delta, 0.1)
        first, second = rng.standard_normal((2, 80, 1))
        test.run(rounded(first + 1.0), rounded(second))
        refuted += test.refuted
    assert refuted <= binom.ppf(0.999, 20, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 20])
def test_half_the_noise_is_refuted_by_a_few_hundred_samples(columns: int) -> None:
    delta = float(QuadraticLoss.from_shift(1.0).delta(0.5))
    rng = np.random.default_rng(2)
    needed = []
    for _ in range(5):
        first, second = rng.standard_normal((2, 2000, columns))
        first[:, 0] += 2.0
        test = SequentialTest(0.5, delta, 0.01, low_bits=False)
        test.run(first, second)
        assert test.refuted
        assert delta < test.lower_bound < QuadraticLoss.from_shift(2.0).delta(0.5)
        needed.append(test.n_pairs)
    assert np.median(needed) < 300


def test_the_low_bits_of_doubles_are_seen() -> None:
    """The Laplace mechanism at its right scale, in naive floating point (Mironov, 2012)."""
    rng = np.random.default_rng(5)
    first, second = rng.laplace(size=(2, 1000))
    naive = audit_outputs(first, second + 1.0, claim=(1.0, 0.0))
    assert naive.refuted
    assert "low bits" in naive.searched[0]
    ideal = audit_outputs(first[:200], second[:200] + 1.0, (1.0, 0.0), low_bits=False)
    assert not ideal.refuted


def test_the_bound_grows_with_what_is_seen_after_it() -> None:
    """Looking on is for whoever wants more than a refutation; outputs come in one order."""
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((2, 1000, 1))
    whole = SequentialTest(0.0, 0.0, 0.01)
    whole.run(first + 3.0, second)
    pieces = SequentialTest(0.0, 0.0, 0.01)
    for part in range(0, 1000, 100):
        pieces.run(first[part : part + 100] + 3.0, second[part : part + 100])
    assert whole.refuted
    assert pieces.refuted
    assert whole.n_pairs == pieces.n_pairs < 100


def test_a_claim_of_delta_zero_is_refuted_by_what_one_law_never_gives() -> None:
    rng = np.random.default_rng(4)
    first = np.where(rng.random(3000) < 0.2, 7.0, rng.integers(0, 3, 3000))
    second = rng.integers(0, 3, 3000).astype(float)
    verdict = audit_outputs(first, second, claim=(1.0, 0.0))
    assert verdict.refuted
    assert "samples of each" in verdict.searched[0]


def test_outputs_must_be_paired() -> None:
    with pytest.raises(ValueError, match="as many outputs of either"):
        audit_outputs(np.zeros(300), np.zeros(299), claim=(1.0, 0.1))
