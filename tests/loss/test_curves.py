"""Curves read backwards: epsilons and trade-offs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis import LeastSquaresLoss, QuadraticLoss, TabulatedLoss
from ndis.loss.least_squares import TriangleLoss
from pairs import losses


@pytest.mark.slow
@given(losses(), st.floats(1e-12, 0.9))
def test_epsilon_is_on_the_safe_side_and_tight(loss: QuadraticLoss, delta: float) -> None:
    eps = float(loss.epsilon(delta))
    assert loss.log_delta(eps) <= math.log(delta)
    if eps > 0:
        assert loss.log_delta(eps * (1 - 1e-9) - 1e-12) >= math.log(delta) - 1e-9


@pytest.mark.slow
@settings(max_examples=20)
@given(losses(), st.sampled_from([0.01, 0.2, 0.5, 0.9]))
def test_tradeoff_is_below_every_line_of_the_profile(loss: QuadraticLoss, alpha: float) -> None:
    beta = float(loss.tradeoff(alpha))
    assert 0.0 <= beta <= 1.0 - alpha + 1e-12
    for eps in (-2.0, 0.0, 1.0, 5.0):
        assert beta >= -math.expm1(loss.log_delta(eps)) - math.exp(eps) * alpha - 1e-9


def test_slow_bounds_are_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search over branch and bound, or over a table beside a Gaussian, took 20 and more."""
    family = LeastSquaresLoss(0.05, 3, 100)
    table = TabulatedLoss(2.0**-8, -500, np.full(1001, 1 / 1001))
    beside = table + QuadraticLoss.from_shift(0.5)
    for kind, loss in ((TriangleLoss, family), (TabulatedLoss, beside)):
        asked: list[int] = []
        upper = kind.upper_log_delta

        def counted(
            self: Any, epsilon: Any, *rest: Any, asked: Any = asked, upper: Any = upper
        ) -> Any:
            asked.append(np.size(epsilon))
            return upper(self, epsilon, *rest)

        monkeypatch.setattr(kind, "upper_log_delta", counted)
        epsilon = float(loss.epsilon(1e-5))
        assert len(asked) <= 8
        assert float(upper(loss, np.array(epsilon))) <= math.log(1e-5)
        assert float(loss.log_delta_bounds(0.99 * epsilon)[1]) > math.log(1e-5)
