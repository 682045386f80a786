"""Worst pairs of posteriors: what dominates an envelope, and what one record can do."""

import numpy as np
import pytest

from ndis import Gaussian, QuadraticLoss, privacy_loss
from ndis.loss.posteriors import Envelope, RankOneUpdate

EPSILONS = np.array([-0.5, 0.0, 0.3, 1.0, 4.0])


def member(envelope: Envelope, rng: np.random.Generator, d: int) -> QuadraticLoss:
    """A random pair inside an envelope, narrower law first."""
    ratios = np.zeros(d)
    rank = d if envelope.rank is None else envelope.rank
    ratios[:rank] = envelope.kappa * rng.uniform(0, 1, rank) ** rng.choice([0.1, 1.0])
    ratios *= min(1.0, envelope.eta / max(ratios.sum(), 1e-300))
    mean = rng.standard_normal(d) * rng.choice([0.05, 1.0], d)
    mean *= envelope.mean_shift / np.linalg.norm(mean)
    return privacy_loss(
        Gaussian.from_diagonal(mean, np.ones(d)),
        Gaussian.from_diagonal(np.zeros(d), np.exp(ratios)),
    )


@pytest.mark.parametrize("seed", range(15))
def test_dominating_pair_dominates_the_envelope(seed) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kappa = 10.0 ** rng.uniform(-3, 0)
    envelope = Envelope(rng.uniform(0, 2), kappa, rank * kappa, rank)
    inside = member(envelope, rng, rank + 1)
    for split in rng.uniform(0.01, 0.99, 3):
        pair = envelope.dominating(split)
        for smaller, larger in ((inside, pair), (inside.reversed(), pair.reversed())):
            assert np.all(smaller.log_delta(EPSILONS) <= larger.log_delta(EPSILONS) + 1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_cumulant_bound_holds_in_the_envelope(seed) -> None:
    rng = np.random.default_rng(seed)
    kappa = 10.0 ** rng.uniform(-2, 0)
    envelope = Envelope(rng.uniform(0, 2), kappa, kappa * rng.uniform(0.5, 3.0))
    inside = member(envelope, rng, 6)
    for split in rng.uniform(0.01, 0.99, 3):
        bound = envelope.bound(split)
        for smaller, larger in ((inside, bound), (inside.reversed(), bound.reversed())):
            assert np.all(smaller.log_delta(EPSILONS) <= larger.log_delta(EPSILONS))


def test_extreme_point_has_the_largest_cumulant() -> None:
    rng = np.random.default_rng(0)
    envelope = Envelope(0.0, 0.4, 1.0)
    extreme = envelope.bound(1.0).loss
    s = np.linspace(0.01, 1.9, 50)
    for _ in range(200):
        inside = member(envelope, rng, 5)
        assert np.all(inside.cumulant(s) <= extreme.cumulant(s) + 1e-12)
        assert np.all(inside.reversed().cumulant(s) <= extreme.reversed().cumulant(s) + 1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_rank_one_update_dominates_smaller_ones(seed) -> None:
    rng = np.random.default_rng(seed)
    excess, residual = 10 ** rng.uniform(-3, 1), rng.uniform(0, 3)
    pair = QuadraticLoss(-excess, residual**2 * excess, 1.0)
    a, r = excess * rng.uniform(), residual * rng.uniform()
    inside = QuadraticLoss(-a, r**2 * a, 1.0)
    for smaller, larger in ((inside, pair), (inside.reversed(), pair.reversed())):
        assert np.all(smaller.log_delta(EPSILONS) <= larger.log_delta(EPSILONS) + 1e-9)


@pytest.mark.parametrize("noise_variance", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("others", [0, 1, 5, 100])
def test_residual_bound_is_near_what_can_be_attained(others, noise_variance) -> None:
    """Equal inputs, equal labels against one of the other sign; and the general bound."""
    update = RankOneUpdate(1.0, 1.0, noise_variance, 1.0, others + 1)
    correlations = np.linspace(0, 1, 400)
    total = others / (others + noise_variance)
    attained = (1 + correlations * total) / np.sqrt(1 - correlations**2 * total + noise_variance)
    assert attained.max() <= update.residual()
    # Cells cost a little; two independent groups of records cost what the docs say.
    if others <= 1:
        assert update.residual() <= 1.1 * attained.max()
