"""The loss of a release that may fail."""

from ndis import Profile
from ndis.loss.derived import with_failure
from ndis.mechanisms.projection_methods import sketch_loss


def test_failure_is_added_in_both_directions():
    loss = with_failure(sketch_loss(3.0, 10), 1e-4, 1.0, 1e-3)
    pair = Profile.both(sketch_loss(3.0, 10))
    for epsilon in (0.0, 0.5, 1.0):
        for tabulated, exact in zip(loss.losses, pair.losses, strict=True):
            excess = tabulated.delta(epsilon) - exact.delta(epsilon) - 1e-4
            assert 0 <= excess < 1e-5
