"""Sequential audits: fair bets, few samples, nothing refuted too often."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from ndis import QuadraticLoss
from ndis.auditing import audit_outputs
from ndis.auditing.sequential import SequentialTest, fastest_bet


def test_no_bet_wins_against_a_claim_that_holds() -> None:
    """The mean of a factor over all pairs (p, q) that obey is at most 1, whatever was seen."""
    rng = np.random.default_rng(0)
    factor = np.exp(rng.uniform(0.0, 4.0, 3000))
    delta = np.where(rng.random(3000) < 0.3, 0.0, 10.0 ** rng.uniform(-8, -0.5, 3000))
    seen = rng.random((2, 3000)) ** rng.uniform(0.2, 5.0, 3000)
    q = rng.random((50, 3000)) * (1.0 - delta) / factor
    p = (factor * q + delta) * np.where(rng.random((50, 3000)) < 0.5, 1.0, rng.random((50, 3000)))
    for number in range(1000):
        e, d = float(factor[number]), float(delta[number])
        q0, stake = fastest_bet(*seen[:, number], e, d)
        p0 = e * q0 + d
        win, lose = 1.0 + stake * (1.0 - p0), 1.0 - stake * p0
        hit, miss = 1.0 - e * stake * (1.0 - q0), 1.0 + e * stake * q0
        assert min(win, lose, hit, miss) > 0.0
        ps, qs = p[:, number], q[:, number]
        mean = (ps * win + (1 - ps) * lose) * (qs * hit + (1 - qs) * miss)
        assert np.all(mean <= 1.0 + 1e-12)


def test_bets_grow_if_the_claim_is_false() -> None:
    p, q, e, d = 0.5, 0.1, math.exp(0.3), 0.05
    q0, stake = fastest_bet(p, q, e, d)
    p0 = e * q0 + d
    growth = p * math.log1p(stake * (1 - p0)) + (1 - p) * math.log1p(-stake * p0)
    growth += q * math.log1p(-e * stake * (1 - q0)) + (1 - q) * math.log1p(e * stake * q0)
    # By a second route: the least divergence from a pair that obeys, over a fine grid.
    grid = np.linspace(1e-6, (1 - d) / e - 1e-6, 200_000)
    near = e * grid + d
    divergence = p * np.log(p / near) + (1 - p) * np.log((1 - p) / (1 - near))
    divergence += q * np.log(q / grid) + (1 - q) * np.log((1 - q) / (1 - grid))
    assert growth == pytest.approx(divergence.min(), rel=1e-6)


def test_size_under_constant_looking() -> None:
    """A claim that holds with equality, looked at after every sample, at one in ten."""
    delta = float(QuadraticLoss.from_shift(1.0).delta(0.5))
    rng = np.random.default_rng(1)
    refuted = 0
    for _ in range(30):
        test = SequentialTest(0.5, delta, 0.1)
        test.run(1.0 + rng.standard_normal((150, 1)), rng.standard_normal((150, 1)))
        refuted += test.refuted
    assert refuted <= binom.ppf(0.999, 30, 0.1)


@pytest.mark.parametrize("columns", [1, 5])
def test_half_the_noise_is_refuted_by_a_few_hundred_samples(columns: int) -> None:
    delta = float(QuadraticLoss.from_shift(1.0).delta(0.5))
    rng = np.random.default_rng(2)
    needed = []
    for _ in range(9):
        first, second = rng.standard_normal((2, 2000, columns))
        first[:, 0] += 2.0
        test = SequentialTest(0.5, delta, 0.01)
        test.run(first, second)
        assert test.refuted
        assert delta < test.lower_bound < QuadraticLoss.from_shift(2.0).delta(0.5)
        needed.append(test.n_pairs)
    assert np.median(needed) < 400


def test_the_bound_grows_with_what_is_seen_after_it() -> None:
    """Looking on is for whoever wants more than a refutation; outputs come in one order."""
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((2, 3000, 1))
    whole = SequentialTest(0.0, 0.0, 0.01)
    whole.run(first + 3.0, second)
    pieces = SequentialTest(0.0, 0.0, 0.01)
    for part in range(0, 3000, 100):
        pieces.run(first[part : part + 100] + 3.0, second[part : part + 100])
    assert whole.refuted
    assert pieces.refuted
    assert pieces.n_pairs < 400


def test_a_claim_of_delta_zero_is_refuted_by_what_one_law_never_gives() -> None:
    rng = np.random.default_rng(4)
    first = np.where(rng.random(3000) < 0.2, 7.0, rng.integers(0, 3, 3000))
    second = rng.integers(0, 3, 3000).astype(float)
    verdict = audit_outputs(first, second, 1.0, claimed_delta=0.0)
    assert verdict.refuted
    assert "samples of each" in verdict.looked_at[0]


def test_outputs_must_be_paired() -> None:
    with pytest.raises(ValueError, match="as many outputs of either"):
        audit_outputs(np.zeros(300), np.zeros(299), 1.0, claimed_delta=0.1)
