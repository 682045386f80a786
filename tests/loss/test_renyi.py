"""Renyi divergences, and what follows from them."""

import math

import pytest

from ndis import QuadraticLoss


def test_renyi_mean_and_variance_of_a_shift() -> None:
    loss = QuadraticLoss.from_shift(2.0)
    assert loss.mean() == pytest.approx(2.0)
    assert loss.variance() == pytest.approx(4.0)
    assert loss.renyi([2.0, 10.0]) == pytest.approx([4.0, 20.0])
    sketch = QuadraticLoss.from_leverage(0.5)  # variance ratio 2: order 2 is the first infinite one
    assert math.isinf(sketch.renyi(2.0))
    assert math.isfinite(sketch.renyi(1.99))
