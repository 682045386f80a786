"""The least noise is never less private than asked, and next to none is wasted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis import Profile, QuadraticLoss
from ndis.calibration import least_noise, meets
from pairs import random_loss


@pytest.mark.slow
@settings(max_examples=25)
@given(st.floats(0.01, 10), st.floats(1e-15, 0.3))
def test_shift(eps: float, delta: float) -> None:
    sigma = least_noise(lambda s: QuadraticLoss.from_shift(1.0 / s), eps, delta)
    _, high = QuadraticLoss.from_shift(1.0 / sigma).log_delta_bounds(eps)
    assert high <= math.log(delta)
    assert QuadraticLoss.from_shift(1.0 / (sigma * (1 - 1e-10))).log_delta(eps) > math.log(delta)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.floats(0.1, 5), st.floats(1e-12, 0.1), st.integers(1, 2000))
def test_ridge_in_both_directions(eps: float, delta: float, r: int) -> None:
    def family(noise: float) -> Profile:
        return Profile.both(QuadraticLoss(1.0 / noise**2, 0.0, r))

    noise = least_noise(family, eps, delta)
    assert family(noise).log_delta_bounds(eps)[1] <= math.log(delta)
    assert family(noise * (1 - 1e-9)).log_delta(eps) > math.log(delta)


@pytest.mark.slow
def test_no_calibration_of_a_random_family_is_unsafe() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        base = random_loss(rng)

        def family(noise: float, base: QuadraticLoss = base) -> QuadraticLoss:
            return QuadraticLoss(base.excess / noise**2, base.shift / noise**2, base.count)

        eps, delta = float(rng.uniform(0.1, 5)), float(10 ** rng.uniform(-12, -1))
        noise = least_noise(family, eps, delta)
        assert family(noise).log_delta_bounds(eps)[1] <= math.log(delta)


def test_start_does_not_matter() -> None:
    answers = {
        least_noise(lambda s: QuadraticLoss.from_shift(1.0 / s), 1.0, 1e-5, start=start)
        for start in (1e-9, 1.0, 3.730632, 1e9)
    }
    assert max(answers) / min(answers) - 1 < 1e-13


def test_meets() -> None:
    loss = QuadraticLoss.from_shift(1.0)
    assert meets(loss, 1.0, 0.12694)
    assert not meets(loss, 1.0, 0.12693)


def test_a_family_that_cannot() -> None:
    with pytest.raises(ValueError, match="cannot give that guarantee"):
        least_noise(lambda s: QuadraticLoss.from_shift(1.0), 1.0, 1e-5)


@pytest.mark.parametrize(
    ("eps", "delta", "words"),
    [(-1.0, 0.1, "epsilon=-1.0"), (1.0, 0.0, "delta=0.0"), (1.0, 1.0, "delta=1.0"),
     (math.nan, 0.1, "finite"), ("1", 0.1, "real number")],
)  # fmt: skip
def test_bad_input(eps: object, delta: float, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match="Expected") as caught:
        least_noise(lambda s: QuadraticLoss.from_shift(1.0 / s), eps, delta)
    assert words in str(caught.value)
