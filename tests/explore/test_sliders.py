"""The numbers of an explorer: safe, close, and none where there is none."""

import math

import numpy as np
import pytest

from ndis import (
    QuadraticLoss,
)
from ndis.calibration import shift_profile
from ndis.explore import sliders
from ndis.loss import Profile


@pytest.mark.parametrize(
    "loss",
    [shift_profile(0.02), shift_profile(3.0), Profile.both(QuadraticLoss.from_leverage(0.2, 30))],
    ids=["small shift", "large shift", "sketch"],
)
def test_what_is_read_from_a_curve_is_what_the_loss_says(loss: Profile) -> None:
    read = sliders._read(loss, sliders.DELTAS)
    exact = {
        "advantage": [float(loss.delta_bounds(0.0)[1])],
        "found": [1.0 - float(loss.tradeoff(rate)) for rate in sliders.RATES],
        "total": [float(each) for each in loss.epsilon(np.array(sliders.DELTAS))],
    }
    for name, values in exact.items():
        for ours, value in zip(np.atleast_1d(read[name]), values, strict=True):
            assert value <= ours <= 1.002 * value + 1e-300, (name, ours, value)


@pytest.mark.parametrize("value", [1.0, 0.123456789, 999999.4, 1e-300, 0.0])
def test_numbers_are_rounded_up(value: float) -> None:
    assert value <= sliders.rounded_up(value) <= value * (1 + 2e-5)


def test_there_is_no_number_where_there_is_none() -> None:
    assert sliders.rounded_up(math.inf) is None
