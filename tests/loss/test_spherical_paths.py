"""Fast values of spherical losses, beside proven ones, at every end."""

import itertools
import math

import pytest

from ndis import SphericalLoss


@pytest.mark.slow
def test_bounds_enclose_the_fast_value_at_every_end() -> None:
    for m, k in itertools.product([1, 2, 3, 6, 30], [1, 2, 9]):
        loss = k * SphericalLoss(0.9, m)
        top = 0.9 * k
        for epsilon in (0.0, 1e-9, 0.3 * top, 0.999 * top, math.nextafter(top, 0.0)):
            low, high = loss.log_delta_bounds(epsilon)
            value = float(loss.log_delta(epsilon))
            assert low <= value <= high, (m, k, epsilon)
            if m < 26 or epsilon < 0.9 * top:  # beyond, a bound from above is enough
                assert high - low <= 1e-9 * max(1.0, -high), (m, k, epsilon)
        assert loss.log_delta_bounds(float(loss.supremum()))[1] == -math.inf
