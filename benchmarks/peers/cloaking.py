"""DP cloaking (Smith, Alvarez, Zwiessele and Lawrence 2018), written anew and calibrated exactly.

Labels are private, inputs are public. Predictions C y at the test inputs get Gaussian noise whose
covariance M is the smallest ellipsoid that holds every column of C, so that no label shows. Noise
is that of the analytic Gaussian mechanism, less than in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndis.calibration import noise_multiplier


def smallest_ellipsoid(columns: np.ndarray, rounds: int = 1000) -> np.ndarray:
    """M with c^T M^{-1} c <= 1 for every column, of least volume: Khachiyan's algorithm."""
    d, n = columns.shape
    weight = np.full(n, 1.0 / n)
    for _ in range(rounds):
        matrix = (columns * weight) @ columns.T
        reach = np.einsum("in,in->n", columns, np.linalg.solve(matrix, columns))
        worst = int(np.argmax(reach))
        if reach[worst] <= d * (1.0 + 1e-3):
            break
        step = (reach[worst] / d - 1.0) / (reach[worst] - 1.0)
        weight *= 1.0 - step
        weight[worst] += step
    return matrix * reach.max()


def cloaked(
    kernel: Any, alpha: float, X: np.ndarray, T: np.ndarray, label_width: float
) -> Callable[[float, float, np.random.Generator, np.ndarray], np.ndarray]:
    """Predictions at T; a label may change by `label_width`."""
    weights = np.linalg.solve(kernel(X) + alpha * np.eye(len(X)), kernel(X, T)).T
    left, values, _ = np.linalg.svd(weights, full_matrices=False)
    left = left[:, values > 1e-4 * values[0]]
    root = np.linalg.cholesky(smallest_ellipsoid(left.T @ weights))

    def predict(epsilon: float, delta: float, rng: np.random.Generator, y: np.ndarray) -> Any:
        scale = noise_multiplier(epsilon, delta) * label_width
        noise = left @ (root @ rng.standard_normal(len(root)))
        return left @ (left.T @ (weights @ y)) + scale * noise

    return predict
