"""Published bounds lie on or above the exact delta; the unsound one is not repeated."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ndis import QuadraticLoss
from ndis_papers.bounds import (
    covariance_shift_bound,
    envelope,
    envelope_bound,
    lambda_bound,
    mean_and_covariance_bound,
    mean_shift_bound,
    triangle_bound,
)
from pairs import losses

log_ratios = st.lists(st.floats(0, 2, width=32), min_size=1, max_size=5)
distances = st.floats(0, 3, width=32)
epsilons = st.floats(-2, 6, width=32)
some = settings(max_examples=40)


def covariance_loss(logs: list, wider_first: bool) -> QuadraticLoss:
    return QuadraticLoss.from_log_ratios(np.array(logs) * (1 if wider_first else -1))


@given(distances, epsilons)
def test_mean_shift_is_exact(distance: float, eps: float) -> None:
    exact = QuadraticLoss.from_shift(distance).delta(eps)
    assert exact <= mean_shift_bound(distance, eps) <= exact * (1 + 1e-10)


@some
@given(losses(), epsilons)
def test_lambda_bound(loss: QuadraticLoss, eps: float) -> None:
    assert loss.delta_bounds(eps)[0] <= lambda_bound(loss, eps) <= 1.0


@pytest.mark.slow
@some
@example([1.0, 1.0], 1.0, False)
@given(log_ratios, epsilons, st.booleans())
def test_covariance_bound(logs: list, eps: float, wider_first: bool) -> None:
    bound = covariance_shift_bound(logs, eps, wider_first=wider_first)
    # The lower one: a double away from the end of the support `delta` is rounded up a lot.
    assert covariance_loss(logs, wider_first).delta_bounds(eps)[0] <= bound <= 1.0


def test_zero_leakage_holds_in_the_easy_direction_only() -> None:
    ratios, eps = [0.3, 0.3, 0.15], 0.5
    assert eps > 0.5 * sum(ratios)
    assert covariance_shift_bound(ratios, eps, wider_first=False) == 0.0
    assert covariance_loss(ratios, False).delta(eps) == 0.0
    hard = covariance_loss(ratios, True).log_delta(eps)
    assert hard == pytest.approx(-3.54, abs=0.01)
    assert math.log(covariance_shift_bound(ratios, eps, wider_first=True)) > hard


@pytest.mark.slow
@settings(max_examples=10)
@given(distances, st.lists(st.floats(0, 1, width=32), min_size=1, max_size=3), st.booleans(),
       st.floats(0, 4, width=32))  # fmt: skip
def test_mean_and_covariance_bound(
    distance: float, logs: list, wider_first: bool, eps: float
) -> None:
    # The whole mean difference in the first direction, in deviations of the narrower law.
    shifts = [distance] + [0.0] * (len(logs) - 1)
    sign = 1 if wider_first else -1
    loss = QuadraticLoss.from_log_ratios(sign * np.array(logs), shifts)
    bound = mean_and_covariance_bound(distance, logs, eps, wider_first=wider_first)
    assert loss.delta_bounds(eps)[0] <= bound


@pytest.mark.slow
@some
@given(distances, distances, epsilons)
def test_triangle(first: float, second: float, eps: float) -> None:
    steps = QuadraticLoss.from_shift(first), QuadraticLoss.from_shift(second)
    assert QuadraticLoss.from_shift(first + second).delta(eps) <= triangle_bound(*steps, eps)


@some
@given(
    st.floats(0.01, 1.5), st.floats(0.01, 4), st.integers(1, 6), st.randoms(use_true_random=False)
)
def test_the_extreme_point_has_the_largest_cumulant(
    kappa: float, eta: float, d: int, random: object
) -> None:
    extreme = envelope(kappa, eta, d)
    assert extreme.max() <= kappa
    assert extreme.sum() <= eta * (1 + 1e-12)
    inside = np.array([random.uniform(0, kappa) for _ in range(d)])
    inside *= min(1.0, eta / max(inside.sum(), 1e-9))
    hard, other = QuadraticLoss.from_log_ratios(extreme), QuadraticLoss.from_log_ratios(inside)
    for one, two in ((hard, other), (hard.reversed(), other.reversed())):
        for s in (0.1, 0.5, 2.0):
            assert two.cumulant(s) <= one.cumulant(s) + 1e-12


def test_envelope_bound_covers_both_directions() -> None:
    bound = envelope_bound(0.3, 0.2, 0.3, dimension=4, epsilon=0.5)
    rng = np.random.default_rng(3)
    for _ in range(50):
        logs = rng.uniform(0, 0.2, 4)
        logs *= min(1.0, 0.3 / logs.sum())
        shifts = rng.standard_normal(4)
        shifts *= 0.3 / np.linalg.norm(shifts)
        loss = QuadraticLoss.from_log_ratios(logs, shifts)
        assert max(loss.delta(0.5), loss.reversed().delta(0.5)) <= bound


@pytest.mark.parametrize("wrong", [[-0.1], [math.nan], "ratios"])
def test_bad_log_ratios(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="Expected log_ratios"):
        covariance_shift_bound(wrong, 1.0, wider_first=True)
