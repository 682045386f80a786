"""Many equal tables at once: never below the exact sum, and close to it, in both directions."""

import numpy as np
import pytest

from ndis import QuadraticLoss, TabulatedLoss
from ndis.loss import powers


@pytest.mark.parametrize(("mu", "times"), [(0.3, 8), (0.3, 64), (0.05, 1000)])
def test_sums_of_shifts(mu: float, times: int) -> None:
    loss = QuadraticLoss.from_shift(mu)
    step = 2.0**-9 if times < 100 else 2.0**-12
    table = TabulatedLoss.from_profile(
        loss.delta, loss.delta, step=step, high=float(loss.epsilon(1e-30))
    )
    total, exact = times * table, times * loss
    epsilons = np.asarray(exact.epsilon([1e-3, 1e-6, 1e-12]))
    for way in (total, total.reversed()):
        ratio = np.asarray(way.delta(epsilons)) / np.asarray(exact.delta(epsilons))
        assert np.all(ratio >= 1.0)
        assert np.all(ratio <= 1.001)


def test_few_atoms_are_a_binomial_law() -> None:
    """A truth told with odds e, thirty times: every entry, from above."""
    from scipy import stats

    lie = 1.0 / (1.0 + np.e)
    points = np.array([-1.0, 1.0])
    found = powers.power(points, points, np.log([lie, 1.0 - lie]), 1.0, 30)
    assert found is not None
    start, mass, above, below = found
    truth = stats.binom(30, 1.0 - lie).pmf(np.arange(31))
    places = 2 * np.arange(31) - 30 - start
    inside = (places >= 0) & (places < mass.size)
    assert np.all(mass[places[inside]] >= truth[inside])
    assert np.all(mass[places[inside]] <= truth[inside] * (1 + 1e-6))
    assert truth[~inside].sum() <= above + mass[0]
    assert (above, below) == (0.0, 0.0)


def test_a_window_that_is_too_long_is_left_to_others() -> None:
    points = np.array([-1.0, 1.0])
    assert powers.power(points, points * 1e9, np.log([0.3, 0.7]), 1e-9, 10) is None


def test_what_is_left_out_of_the_spectrum_is_counted() -> None:
    """A lattice of period 2 keeps all of the spectrum, a wide law next to none: both from above."""
    from scipy import stats

    places = np.arange(-60, 61)
    logs = np.log(stats.binom(120, 0.5).pmf(places + 60))
    found = powers.power(0.01 * places, places.astype(float), logs, 0.01, 500)
    assert found is not None
    start, mass, *_ = found
    truth = stats.binom(60_000, 0.5).pmf(np.arange(start, start + mass.size) + 30_000)
    assert np.all(mass >= truth)
    near = truth > 1e-12
    assert np.all(mass[near] <= truth[near] * (1 + 1e-4))
