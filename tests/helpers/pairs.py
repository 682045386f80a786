"""Random ordered pairs of Gaussians in the engine's own numbers, for tests and long checks."""

import numpy as np
from hypothesis import strategies as st

from ndis import QuadraticLoss


def random_loss(rng: np.random.Generator) -> QuadraticLoss:
    """One loss with up to 8 distinct directions: easy, hard, indefinite, with and without means."""
    d = int(rng.integers(1, 9))
    size = 10 ** rng.uniform(-6, 2) * 10 ** rng.uniform(-1, 1, d)
    sign = {0: np.ones(d), 1: -np.ones(d)}.get(int(rng.integers(3)), rng.choice([-1.0, 1.0], d))
    shift = 10 ** rng.uniform(-6, 1, d) * rng.choice([0.0, 1.0], d) * rng.integers(2)
    count = rng.choice([1.0, 1.0, 2.0, 10.0, 1000.0], d)
    excess = np.where(rng.random(d) < 0.1, 0.0, size * sign)
    if not (excess.any() or shift.any()):
        excess[0] = size[0]
    return QuadraticLoss(excess, shift, count)


def random_epsilon(loss: QuadraticLoss, rng: np.random.Generator) -> float:
    """An epsilon from 3 deviations below the mean of the loss to 12 above it, at times to 1000."""
    mean, deviation = float(loss.mean()), float(np.sqrt(loss.variance()))
    far = rng.uniform(-3, 12) if rng.random() < 0.8 else 10 ** rng.uniform(1, 3)
    epsilon = mean + far * deviation
    top = float(loss.supremum())
    return epsilon if epsilon < 0.9999 * top else top * rng.uniform(0, 0.9999)


@st.composite
def losses(draw: st.DrawFn, largest: float = 30.0) -> QuadraticLoss:
    """Losses with up to 4 directions whose deltas are neither 0 nor 1 for ordinary epsilons."""
    sizes = st.one_of(st.floats(-largest, largest, width=32), st.floats(-0.125, 0.125, width=32))
    d = draw(st.integers(1, 4))
    excess = draw(st.lists(sizes, min_size=d, max_size=d))
    shift = draw(st.lists(st.floats(0, 4, width=32), min_size=d, max_size=d))
    count = draw(st.lists(st.integers(1, 20), min_size=d, max_size=d))
    excess = [0.0 if abs(x) < 1e-6 else x for x in excess]
    shift = [0.0 if h < 1e-6 else h for h in shift]
    return QuadraticLoss(excess, shift, count)


epsilons = st.floats(-3, 12, width=32)
