"""Epsilon comes from a proven bound, near the end of a bounded loss too, and is proven once."""

import math
from typing import Any

import numpy as np
import pytest

from narrow_pairs import KINDS, excess_of_delta, narrow_pair, share_of_end
from ndis import Gaussian, QuadraticLoss, privacy_loss
from ndis.loss import certified


@pytest.mark.slow
def test_epsilons_of_narrow_pairs_are_safe_and_tight() -> None:
    """Against an oracle of another route; `benchmarks/check_epsilon.py` runs 10,000."""
    near = 0
    for number in (0, 1, 4, 6, 7, 13, 19):
        pair = narrow_pair(number)
        alone = float(pair.loss.epsilon(pair.delta))
        assert excess_of_delta(pair, alone) <= 0.0
        near += share_of_end(pair, alone) < 1e-9
        if alone > 0.0:  # a billionth less is not enough
            assert excess_of_delta(pair, alone * (1.0 - 1e-9)) > 0.0
    assert near > 1
    assert {narrow_pair(number).kind for number in range(5)} == set(KINDS)


def test_each_epsilon_of_a_batch_is_proven() -> None:
    """They came from the fast path, which knows its own errors by experience alone."""
    pairs = [narrow_pair(number) for number in (1, 6, 26, 41)]
    width = max(pair.loss.excess.size for pair in pairs)
    parts = zip(*([np.resize(p, width) * (np.arange(width) < p.size) for p in pair.loss.parts()]
                  for pair in pairs), strict=True)  # fmt: skip
    batch, deltas = QuadraticLoss(*map(np.array, parts)), [pair.delta for pair in pairs]
    together = batch.epsilon(deltas)
    assert np.all(batch.log_delta_bounds(together)[1] <= np.log(deltas))
    for pair, epsilon in zip(pairs, together.tolist(), strict=True):
        assert epsilon == pair.loss.epsilon(pair.delta)
        assert excess_of_delta(pair, epsilon) <= 0.0
    repeated = QuadraticLoss.from_shift([[0.5], [0.25], [0.5]]).epsilon([0.0, 1e-6, 1.0, 1e-6])
    assert repeated.shape == (3, 4)
    assert repeated[:, 1].tolist() == repeated[:, 3].tolist()
    assert repeated[:, 0].tolist() == [np.inf] * 3
    assert repeated[:, 2].tolist() == [0.0] * 3


def test_epsilon_at_delta_0_is_beyond_the_end() -> None:
    for number in range(0, 30, 5):
        pair = narrow_pair(number)
        assert share_of_end(pair, float(pair.loss.epsilon(0.0))) <= 0.0


def dense_pair(d: int, seed: int = 0) -> QuadraticLoss:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((2 * d, d))
    b = a + 0.02 * rng.standard_normal((2 * d, d))
    mean = 0.01 * rng.standard_normal(d)
    return privacy_loss(Gaussian(np.zeros(d), a.T @ a / d), Gaussian(mean, b.T @ b / d))


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_epsilon_of_a_dense_pair_is_proven_once(
    delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs: list[float] = []
    proven = certified.log_delta_bounds

    def counted(loss: Any, eps: float) -> tuple[float, float]:
        proofs.append(eps)
        return proven(loss, eps)

    monkeypatch.setattr(certified, "log_delta_bounds", counted)
    loss = dense_pair(60)
    epsilon = float(loss.epsilon(delta))
    assert len(proofs) == 1
    assert float(loss.log_delta_bounds(epsilon)[1]) <= math.log(delta)
    assert float(loss.log_delta(epsilon * (1.0 - 1e-6))) > math.log(delta)


# -- errors in the numbers -------------------------------------------------------------------------


def within(rng: np.random.Generator, loss: QuadraticLoss) -> QuadraticLoss:
    """A pair at the ends of what the errors of a loss allow."""
    x, h, _, e, f, g = loss.parts()
    size, d = np.abs(x), x.size
    v1, v2 = np.where(x > 0, 1 + size, 1.0), np.where(x > 0, 1.0, 1 + size)
    root = np.sqrt(h) + g * rng.choice([-1.0, 0.0, 1.0], d)
    laws = []
    share = rng.choice([0.0, 0.5, 1.0])
    for v, part in ((v1, share), (v2, 1.0 - share)):
        off = rng.standard_normal((d, d))
        off = np.tril(off, -1) + np.tril(off, -1).T
        F = np.diag(part * e * rng.choice([-1.0, 1.0], d)) + f.min() * off / np.linalg.norm(off)
        laws.append(np.sqrt(v)[:, None] * (np.eye(d) + F) * np.sqrt(v))
    return privacy_loss(Gaussian(root, laws[0]), Gaussian(np.zeros(d), laws[1]))


@pytest.mark.parametrize("sign", [-1.0, 1.0, 0.0])
@pytest.mark.parametrize("errors", [(1e-4, 0.0, 0.0), (1e-4, 0.0, 1e-4), (1e-5, 1e-4, 1e-4)])
def test_bounds_enclose_whatever_lies_within_the_errors(
    sign: float, errors: tuple[float, float, float]
) -> None:
    rng = np.random.default_rng(5)
    size = np.array([0.5, 0.8, 1.5])
    excess = size * (sign if sign else np.array([-1.0, 1.0, -1.0]))
    for shift in (np.zeros(3), np.array([0.0, 0.04, 0.2])):
        loss = QuadraticLoss(excess, shift, 1.0, *errors)
        points = np.array([0.0, 0.3, 0.7, 0.99]) * min(float(loss.supremum()), 4.0)
        low, high = loss.log_delta_bounds(points)
        upper = loss.upper_log_delta(points)
        assert np.all((high - low)[:2] < 0.5)  # later, errors of 1e-4 hide the end
        for _ in range(20):
            truth = within(rng, loss).log_delta(points)
            assert np.all(low <= truth)
            assert np.all(truth <= high)
            assert np.all(truth <= upper)
