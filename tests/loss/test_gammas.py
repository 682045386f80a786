"""The closed form of leverages against many digits, and against the contour."""

import numpy as np
import pytest
from mpmath import mp, mpf

from ndis import QuadraticLoss
from ndis.loss import gammas
from oracles import projection_delta

HALVES = [0.5, 1.0, 1.5, 5.0, 50.0, 99.5, 650.0, 2000.0]


def points(a: float, wide: bool, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Excesses, and epsilons: half of these around the mean of the loss, half anywhere."""
    rng = np.random.default_rng([int(2 * a), wide])
    z = np.exp(rng.uniform(*np.log([1e-10, 1e5]), size))
    z = np.where(rng.random(size) < 0.6, np.exp(rng.uniform(-7, 1, size)), z)
    narrow = 1.0 if wide else 1.0 + z
    mean = a * np.abs(z / narrow - np.log1p(z))
    near = mean + rng.uniform(-6, 12, size) * z / narrow * np.sqrt(a / 2)
    anywhere = np.exp(rng.uniform(-12, 4, size)) * rng.choice([1, 1, 1, -1], size)
    return z, np.where(np.arange(size) % 2, near, anywhere)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("a", HALVES)
def test_deltas_and_their_complements_have_twelve_digits(a: float, wide: bool) -> None:
    z, t = points(a, wide, 60)
    with np.errstate(all="ignore"):
        found = gammas.log_delta(a, z, t, wide)
    known = np.flatnonzero(np.isfinite(found) & (found < -1e-290))
    assert known.size > 15
    for i in known:
        with mp.workdps(60):
            leverage = mpf(z[i]) / (1 + mpf(z[i]))
            truth = projection_delta(leverage, int(2 * a), t[i], reverse=not wide, digits=30).log()
            allowed = 7e-13 if -700 < truth < -0.5 else -1e-12 * truth
            assert abs(mpf(found[i]) - truth) < allowed, (z[i], t[i])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("components", [1, 2, 10, 101, 1300])
def test_batches_agree_with_the_contour(components: int, turned: bool) -> None:
    leverages = np.random.default_rng(1).uniform(0.001, 0.3, 3000)
    batch = QuadraticLoss.from_leverage(leverages, components)
    batch = batch.reversed() if turned else batch
    eps = np.full(leverages.size, 0.001 * np.sqrt(components))
    with np.errstate(all="ignore"):
        closed, contour = batch._closed_log_delta(eps), batch._contour_log_delta(eps)
    answered = np.isfinite(closed) & np.isfinite(contour)
    assert answered.mean() > 0.9
    np.testing.assert_allclose(closed[answered], contour[answered], rtol=2e-12, atol=2e-12)
    given = batch.log_delta(eps)
    assert np.array_equal(given[answered], closed[answered])
    assert not np.isnan(given).any()


def test_next_to_the_end_of_a_bounded_loss_nothing_is_made_up() -> None:
    batch = QuadraticLoss(np.full((8, 1), -1.0), 0.0, 10.0)
    eps = 5 * np.log(2) - np.array([0.0, 4e-16, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1.0])
    with np.errstate(all="ignore"):
        closed = batch._closed_log_delta(eps)
    assert np.isnan(closed[:4]).all()
    assert np.isfinite(closed[-1])
    low, high = batch.log_delta_bounds(eps)
    found = batch.log_delta(eps)
    assert np.all(found[1:] > -np.inf)
    assert np.all((found >= low - 1e-9) & (found <= high + 1e-9))


def test_a_batch_of_unlike_losses_has_no_closed_form() -> None:
    leverages, eps = np.full(6, 0.1), np.ones(6)
    different = QuadraticLoss.from_leverage(leverages, [2, 2, 2, 2, 2, 3])
    both_ways = QuadraticLoss(np.array([[0.1], [0.1], [-0.1], [0.1], [0.1], [0.1]]), 0.0, 2.0)
    shifted = QuadraticLoss(np.full((6, 1), 0.1), 0.1, 2.0)
    broken = QuadraticLoss(np.full((6, 1), 0.1), 0.0, 2.5)
    many = QuadraticLoss.from_leverage(leverages, 1000)
    for loss in (different, both_ways, shifted, broken, many):
        assert np.isnan(loss._closed_log_delta(eps)).all()
    assert np.isfinite(QuadraticLoss.from_leverage(leverages, 2)._closed_log_delta(eps)).all()
