"""Losses of secret samples: direct integration, both orders, replacing a record, many steps."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ndis import Profile, QuadraticLoss, SphericalLoss
from ndis.loss import from_dict
from ndis.loss.subsampled import SubsampledLoss, replaced_log_delta

NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def integrated(densities: list, edges: list[float], epsilon: float) -> float:
    """The integral of (p - e^eps q)_+, panel by panel; `edges` hold kinks and the crossing."""
    first, second = densities
    total = 0.0
    for a, b in itertools.pairwise(edges):
        x = 0.5 * (a + b) + 0.5 * (b - a) * NODES
        total += (
            0.5
            * (b - a)
            * float(WEIGHTS @ np.maximum(first(x) - math.exp(epsilon) * second(x), 0.0))
        )
    return total


def direct(law: str, mu: float, rate: float, epsilon: float, absent: bool) -> float:
    """Delta of mixture and base on the line, where the loss crosses epsilon found by bisection."""
    density = stats.norm.pdf if law == "normal" else stats.laplace.pdf

    def with_record(x: np.ndarray) -> np.ndarray:
        return (1.0 - rate) * density(x) + rate * density(x - mu)

    pair = [density, with_record] if absent else [with_record, density]
    low, high = -40.0, 40.0
    for _ in range(60):  # the ratio grows with x, record present first
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(pair[0](middle)) - np.log(pair[1](middle))
        beyond = ratio < epsilon if absent else ratio > epsilon
        low, high = (low, middle) if beyond else (middle, high)
    crossing = 0.5 * (low + high)
    ends = sorted({-38.0, *np.linspace(-12.0, 12.0 + mu, 25).tolist(), 0.0, mu, crossing, 38.0})
    return integrated(pair, ends, epsilon)


@pytest.mark.slow
def test_two_hundred_settings_against_direct_integration() -> None:
    rng = np.random.default_rng(36)
    for number in range(200):
        law = ("normal", "laplace")[number % 2]
        mu, rate = float(rng.uniform(0.1, 3.0)), float(10 ** rng.uniform(-3, -0.05))
        absent = bool(rng.integers(2))
        most = -math.log1p(-rate) if absent else 0.7 * mu
        epsilon = float(rng.uniform(0.0, 0.95)) * most
        base = QuadraticLoss.from_shift(mu) if law == "normal" else SphericalLoss(mu)
        loss = base.subsampled(rate)
        loss = loss.reversed() if absent else loss
        truth = direct(law, mu, rate, epsilon, absent)
        low, high = loss.delta_bounds(epsilon)
        assert truth <= high + 1e-13, (law, mu, rate, epsilon, absent)  # of the integral
        assert low - 1e-13 <= truth
        assert high - low <= 1e-6 * high
        assert loss.delta(epsilon) == pytest.approx(truth, rel=1e-6, abs=1e-13)
        if number % 10 == 0:
            table = float(loss.dominating().delta(epsilon))
            assert truth - 1e-13 <= table <= truth * (1.0 + 1e-3) + 1e-13


def test_a_sample_of_everything_is_no_sample() -> None:
    loss = QuadraticLoss.from_shift(0.7)
    assert loss.subsampled(1.0) == loss
    nearly = loss.subsampled(1.0 - 1e-9)
    assert float(nearly.delta(0.5)) == pytest.approx(float(loss.delta(0.5)), rel=1e-7)
    with pytest.raises(ValueError, match="rate"):
        loss.subsampled(0.0)


def test_the_absent_order_is_bounded_by_the_rate() -> None:
    loss = QuadraticLoss.from_shift(2.0).subsampled(0.3).reversed()
    top = -math.log(0.7)
    assert loss.supremum() == pytest.approx(top)
    assert loss.delta(top * (1.0 + 1e-9)) == 0.0
    assert loss.delta(top * (1.0 - 1e-3)) > 0.0


def test_replacing_a_record_is_bounded_closely() -> None:
    """The pair that is thought to be the worst: a record at either side of those without it."""
    one, two = QuadraticLoss.from_shift(1.0), QuadraticLoss.from_shift(2.0)
    x = np.linspace(-14.0, 14.0, 200_001)
    pdf = stats.norm.pdf
    for rate in (0.01, 0.1, 0.6):
        first = (1 - rate) * pdf(x) + rate * pdf(x - 1.0)
        second = (1 - rate) * pdf(x) + rate * pdf(x + 1.0)
        for epsilon in (0.0, 0.05, 0.5, 2.0):
            truth = float(np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), x))
            bound = math.exp(float(replaced_log_delta(one, two, rate, np.array([epsilon]))[0]))
            assert truth * (1.0 - 1e-6) <= bound <= 1.5 * truth
    table = one.subsampled(0.1, replaced=two)
    assert table.exactness == "upper bound"
    assert one.subsampled(0.1).epsilon(1e-6) <= table.epsilon(1e-6) <= 2.5


@pytest.mark.slow
def test_a_thousand_steps_are_those_of_prv_accountant() -> None:
    """Its estimates at eps_error=1e-3, delta_error=1e-10: noise, rate, epsilon at 1e-5."""
    known = {(1.0, 0.01): 1.8282367, (0.8, 0.001): 0.3035540, (2.0, 0.05): 3.6997373}
    for (noise, rate), epsilon in known.items():
        loss = 1000 * Profile.both(QuadraticLoss.from_shift(1.0 / noise)).subsampled(rate)
        assert epsilon - 1e-6 <= loss.epsilon(1e-5) <= epsilon + 1e-4


def test_counts_are_kept_and_stored() -> None:
    step = QuadraticLoss.from_shift(1.0).subsampled(0.05)
    assert 3 * step + step == 4 * step
    assert from_dict((4 * step).to_dict()) == 4 * step
    assert (4 * step).exactness == "upper bound"
    assert (4 * step).reversed().reversed() == 4 * step
    with pytest.raises(ValueError, match="a profile of several"):
        SubsampledLoss(Profile.both(QuadraticLoss.from_leverage(0.1, 3)), 0.1)
