"""Least squares, each method, with limits and with norms."""

from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateLeastSquares


def table(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 3))
    return X[:rows], (X @ [0.5, -0.3, 0.1] + 0.1 * rng.standard_normal(400))[:rows]


def one(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X, y = table(rows)
    return X[:, :1], y


def many(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X, y = table(rows)
    return X, np.column_stack([y, -y, y**2])


def limits(**more: Any) -> PrivateLeastSquares:
    fixed: dict[str, Any] = {"limits": [(-1, 1)] * 3, "label_limits": (-1, 1), **more}
    return PrivateLeastSquares(**fixed)


def norms(**more: Any) -> PrivateLeastSquares:
    fixed: dict[str, Any] = {"data_norm": 1.5, "label_bound": 1.0, "n_rounds": 4, **more}
    return PrivateLeastSquares(**fixed)


def gram(**more: Any) -> PrivateLeastSquares:
    return limits(**{"method": "noisy-gram", **more})


def labels(**more: Any) -> PrivateLeastSquares:
    return norms(**{"label_bound": 2.0, "fit_intercept": False, **more})


def sketch(**more: Any) -> PrivateLeastSquares:
    return limits(**{"method": "sketch", "n_components": 40, **more})


def als(**more: Any) -> PrivateLeastSquares:
    return norms(**{"method": "als", "n_components": 10, "fit_intercept": False, **more})


def limit(**more: Any) -> PrivateLeastSquares:
    return limits(**{"method": "gaussian-limit", "n_components": 40, "leverage": 0.2, **more})


CERTIFIED = {"noise_scale": "The worst case is certified to a thousandth of the noise."}
CASES = [
    Case("least squares, sketch", sketch, table, lambda: table(399)),
    Case("least squares, als", als, one, lambda: one(399), 1, CERTIFIED, 2e-3),
    Case("least squares, gaussian-limit", limit, table, lambda: table(399), None, CERTIFIED),
    Case("least squares, newton", limits, table, lambda: table(399)),
    Case("least squares, newton with norms", norms, table, lambda: table(399), 3),
    Case("least squares, noisy-gram", gram, table, lambda: table(399)),
]
