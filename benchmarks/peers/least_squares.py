"""Published private regressions, restated small: what bench_regression.py compares with.

Each takes training rows with |x| <= 1 and |y| <= 1, the shift mu = D of the whole budget (or
epsilon and delta), a generator and a number of draws, and returns coefficients, one row for each
draw; NaN where it aborts. Gaussian parts are accounted exactly, as one mean shift, also where the
authors account with more noise: that is in their favour.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def adassp(X: Array, y: Array, mu: float, delta: float, rng: np.random.Generator, n: int) -> Array:
    """AdaSSP (Wang 2018): X^T X, X^T y and the least eigenvalue, a third of mu^2 each."""
    d, s = X.shape[1], math.sqrt(3.0) / mu
    gram, moment = X.T @ X, X.T @ y
    least, draws = float(np.linalg.eigvalsh(gram)[0]), []
    for _ in range(n):
        Z = rng.standard_normal((d, d))
        low = max(least + s * (rng.standard_normal() - math.sqrt(math.log(6.0 / delta))), 0.0)
        ridge = max(0.0, math.sqrt(d * math.log(20.0 * d**2 / delta)) * s - low)
        noisy = gram + s * (Z + Z.T) / 2 + ridge * np.eye(d)
        draws.append(np.linalg.lstsq(noisy, moment + s * rng.standard_normal(d), rcond=None)[0])
    return np.array(draws)


def boosted_adassp(
    X: Array, y: Array, mu: float, rng: np.random.Generator, n: int, rounds: int
) -> Array:
    """BoostedAdaSSP (Tang et al. 2024): the same ridge, and rounds of clipped gradients."""
    d, s = X.shape[1], math.sqrt(3.0) / mu
    gram = X.T @ X
    least, draws = max(float(np.linalg.eigvalsh(gram)[0]), 0.0), []
    for _ in range(n):
        Z = s * rng.standard_normal((d, d))
        low = max(0.0, least + s * rng.standard_normal() - 1.96 * s)
        ridge = max(0.0, math.sqrt(d) * s * 1.96 - low)
        inverse = np.linalg.inv(gram + (Z + Z.T) / 2 + ridge * np.eye(d))
        theta = np.zeros(d)
        for _ in range(rounds):
            noise = s * math.sqrt(rounds) * rng.standard_normal(d)
            theta = theta + inverse @ (X.T @ np.clip(y - X @ theta, -1, 1) + noise)
        draws.append(theta)
    return np.array(draws)


def descent(X: Array, y: Array, mu: float, rng: np.random.Generator, n: int) -> Array:
    """DP-GD as the HessianMix suite runs it: 3 rounds, rate 1/4, residuals clipped at 1."""
    s, theta = math.sqrt(3.0) / mu, np.zeros((n, X.shape[1]))
    for _ in range(3):
        left = np.clip(y - theta @ X.T, -1, 1)
        theta = theta + 0.25 / len(y) * (left @ X + s * rng.standard_normal(theta.shape))
    return theta


def descent_of_brown(X: Array, y: Array, mu: float, rng: np.random.Generator, n: int) -> Array:
    """DP-GD (Brown et al. 2024): columns of unit variance, 20 rounds, rate 1/5, clip 5 sqrt(d).

    Its clip is in units of the label's standard deviation, which is not private here.
    """
    rows, d = X.shape
    unit = math.sqrt(d * rows / np.sum(X**2))
    X, clip = X * unit, 5.0 * math.sqrt(d) * float(y.std())
    s, norms, draws = clip * math.sqrt(20) / mu, np.linalg.norm(X, axis=1), []
    for _ in range(n):
        theta = np.zeros(d)
        for _ in range(20):
            left = y - X @ theta
            left = left * np.minimum(1.0, clip / np.maximum(np.abs(left) * norms, 1e-300))
            theta = theta + 0.2 / rows * (X.T @ left + s * rng.standard_normal(d))
        draws.append(theta * unit)
    return np.array(draws)


CONTENDERS = {
    "AdaSSP": adassp,
    "BoostedAdaSSP, 10 rounds": lambda X, y, mu, delta, rng, n: boosted_adassp(
        X, y, mu, rng, n, 10
    ),
    "BoostedAdaSSP, 100 rounds": lambda X, y, mu, delta, rng, n: boosted_adassp(
        X, y, mu, rng, n, 100
    ),
    "DP-GD, HessianMix": lambda X, y, mu, delta, rng, n: descent(X, y, mu, rng, n),
    "DP-GD, Brown et al.": lambda X, y, mu, delta, rng, n: descent_of_brown(X, y, mu, rng, n),
}
