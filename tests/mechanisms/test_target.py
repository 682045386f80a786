"""What noise has to achieve, and what parts share of it."""

import pytest

from ndis.calibration import shift_profile
from ndis.mechanisms import Part, Target, mean_shift, octaves


def test_a_loss_that_is_no_mean_shift_can_add_its_share():
    target = Target(1.0, 1e-6, limits=octaves.sensitivity(3))
    bought = shift_profile(target.limits / target.limits_noise)
    noise, loss = target.least_noise(lambda noise: shift_profile(1.0 / noise) + bought)
    by_shares, _ = mean_shift(target, [Part("sum", 1.0)])
    assert noise == pytest.approx(by_shares[0].noise, rel=1e-6)
    assert loss.delta(1.0) <= 1e-6
