"""Whole fits: shares and shapes that are fixed beforehand, and where clips end.

`tests/mechanisms/test_regression.py` follows whole paths and adds up what they spend.
"""

import numpy as np
import pytest

from ndis import PrivateLeastSquares
from ndis.mechanisms.regression_methods.descent import Setting


@pytest.mark.parametrize("intercept", [True, False])
def test_shares_are_all_of_the_budget_and_shapes_are_those_released(intercept: bool) -> None:
    setting = Setting(3, 1, intercept)
    assert sum(setting.shares.values()) == pytest.approx(1.0, abs=1e-15)
    assert min(setting.shares.values()) > 0.0
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, method="newton", fit_intercept=intercept,
        limits=[(-1, 1)] * 3, label_limits=(-1, 1),
    )  # fmt: skip
    released = model.fit(X, X[:, 0]).release_.arrays
    for name, shape in setting.shapes.items():
        assert len(released[name].shape) == len(shape), name
        assert all(np.array(released[name].shape) <= shape), name


@pytest.mark.parametrize("epsilon", [100.0, 1000.0])
def test_no_clip_is_beyond_all_rows(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1000, 4))
    y = X @ [1.0, -0.5, 0.25, 0.0] + 0.7 * rng.standard_normal(1000)
    model = PrivateLeastSquares(
        epsilon=epsilon, delta=1e-6, limits=[(-5, 5)] * 4, label_limits=(-8, 8), random_state=0
    ).fit(X, y)
    ones = np.column_stack([np.ones(1000), X])
    best = np.linalg.lstsq(ones, y, rcond=None)[0][1:]
    sampling = 0.7 / np.sqrt(1000)
    # A clip that is raised until noise is a tenth of the sampling variance has .4 here.
    assert np.sqrt(np.mean((model.coef_ - best) ** 2)) < 0.2 * sampling
