"""Forecasts of least squares are made from tables that are as they are said to be."""

import numpy as np
import pytest

from ndis import PrivateLeastSquares
from ndis.mechanisms.regression_forecast import imagined


@pytest.mark.parametrize("common", [0.0, 0.95])
def test_imagined_tables_are_spread_and_explained_as_told(common: float) -> None:
    X, Y = imagined(3, 1, 20_000, 0.3, 0.2, common, 0.7, np.random.default_rng(0))
    assert np.std(X, axis=0) * np.sqrt(3) == pytest.approx(0.3, rel=0.05)
    assert np.std(Y) == pytest.approx(0.2, rel=0.05)
    best = np.linalg.lstsq(X, Y, rcond=None)[0]
    left = np.sum((Y - X @ best) ** 2) / np.sum(Y**2)
    assert 1.0 - left == pytest.approx(0.7, abs=0.02)


@pytest.mark.slow
def test_more_rows_and_more_budget_lose_less() -> None:
    known = {"delta": 1e-6, "limits": [(-1, 1)] * 2, "label_limits": (-1, 1)}
    most = [
        PrivateLeastSquares(epsilon=epsilon, **known)
        .forecast(2, n_rows=n_rows)
        .errors["explained variance lost"]
        for epsilon, n_rows in ((0.3, 1000), (3.0, 1_000_000))
    ]
    assert most[0][1] > most[1][1]
    assert all(0.0 <= low <= high for low, high in most)
