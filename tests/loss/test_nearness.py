"""Two laws that are nearly one."""

import numpy as np

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
