"""Bounds on cumulants compose and are stored."""

from ndis import QuadraticLoss
from ndis.loss import from_dict
from ndis.loss.cumulant_bound import CumulantBound


def test_cumulant_bounds_compose_and_are_stored() -> None:
    shift = QuadraticLoss.from_shift(0.5)
    bound = CumulantBound(shift)
    assert bound + bound == CumulantBound(2 * shift) == 2 * bound
    assert bound + shift == shift + bound == 2 * bound
    assert from_dict(bound.to_dict()) == bound
    assert bound.log_delta_bounds(1.0)[1] == bound.log_delta(1.0)
