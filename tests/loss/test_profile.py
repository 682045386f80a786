"""The worst of several losses."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings

from ndis import Profile, QuadraticLoss
from pairs import epsilons, losses


def test_epsilon_of_a_profile_is_the_largest_of_its_directions() -> None:
    sketch = QuadraticLoss.from_leverage(0.1, 10)
    both = Profile.both(sketch)
    deltas = np.array([0.3, 1e-2, 1e-9])
    ways = [sketch.epsilon(deltas), sketch.reversed().epsilon(deltas)]
    assert both.epsilon(deltas).tolist() == np.max(ways, axis=0).tolist()


@pytest.mark.slow
@settings(max_examples=40)
@given(losses(), losses(), epsilons)
def test_profiles_compose_direction_by_direction(
    one: QuadraticLoss, two: QuadraticLoss, eps: float
) -> None:
    total = Profile.both(one) + Profile.both(two)
    forwards, backwards = one + two, one.reversed() + two.reversed()
    expected = max(forwards.log_delta(eps), backwards.log_delta(eps))
    assert total.log_delta(eps) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assume(math.isfinite(expected))
    low, high = total.log_delta_bounds(eps)
    assert low - 1e-10 * max(1, abs(low)) <= expected <= high + 1e-10 * max(1, abs(high))
