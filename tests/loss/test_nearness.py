"""Two laws that are nearly one."""

import numpy as np
import pytest

from ndis import Gaussian, privacy_loss
from ndis.loss import nearness


def test_two_laws_a_step_apart_are_as_near_as_the_step_says() -> None:
    """The distance that the triangle inequality leaves out, by the engine's own exact delta."""
    rng = np.random.default_rng(8)
    for _ in range(30):
        d, e, f = int(rng.integers(2, 6)), 10 ** rng.uniform(-4, -2), 10 ** rng.uniform(-4, -2)
        off = rng.standard_normal((d, d))
        off = np.tril(off, -1) + np.tril(off, -1).T
        F = np.diag(e * rng.choice([-1.0, 1.0], d)) + f * off / np.linalg.norm(off)
        parts = [np.full((1, d), v) for v in (0.0, 0.0, 1.0, e, f, 0.0)]
        for rare in (5.0, 40.0, 400.0):
            step = nearness.step(np.zeros(1), parts, np.array([rare]))
            apart = privacy_loss(
                Gaussian(np.zeros(d), np.eye(d) + F), Gaussian(np.zeros(d), np.eye(d))
            )
            for way in (apart, apart.reversed()):
                assert float(way.log_delta(float(step.a[0]))) <= -rare


@pytest.mark.slow
def test_beyond_the_end_of_a_loss_that_is_bounded_but_for_its_errors() -> None:
    """Where the numbers' delta is far smaller than any step can tell, the best step counts."""
    wide, narrow = np.diag([0.276, 0.28, 0.28]), np.diag([0.2755, 0.28, 0.28])
    loss = privacy_loss(Gaussian(np.array([0.02, 0.0, 0.0]), narrow), Gaussian(np.zeros(3), wide))
    alone = privacy_loss(Gaussian([0.02], narrow[:1, :1]), Gaussian([0.0], wide[:1, :1]))
    end = float(alone.supremum())
    for epsilon in (1.01 * end, 2.0 * end, 20.0 * end):
        assert alone.log_delta(epsilon) == -np.inf
        assert float(loss.log_delta_bounds(epsilon)[1]) < -700.0
        assert float(loss.upper_log_delta(np.array(epsilon))) < -700.0
    assert float(loss.epsilon(1e-200)) <= 1.01 * end
