"""Other ways to private logistic regression, two classes, each accounted exactly.

Rows have norm at most one and get a constant of 1/2. Written from their papers; "tuned" settings
are chosen by the caller on the test set, which is not paid for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from ndis.calibration import noise_multiplier

CONSTANT = 0.5
NORM = math.sqrt(1.0 + CONSTANT**2)


def with_constant(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.full(len(X), CONSTANT), X])


def solve(rows: np.ndarray, y: np.ndarray, lam: float, linear: np.ndarray | float = 0.0):
    """The minimum of the log loss + lam/2 |t|^2 + linear.t, by Newton's method with halving."""
    t = np.zeros(rows.shape[1])

    def height(t):
        m = rows @ t
        return np.logaddexp(0, m).sum() - y @ m + lam / 2 * t @ t + np.sum(linear * t)

    for _ in range(60):
        p = expit(rows @ t)
        g = rows.T @ (p - y) + lam * t + linear
        if np.linalg.norm(g) < 1e-7 * max(1.0, lam):
            break
        hessian = (rows * (p * (1 - p))[:, None]).T @ rows + lam * np.eye(len(t))
        step, length, here = np.linalg.solve(hessian, g), 1.0, height(t)
        while height(t - length * step) > here - 1e-4 * length * g @ step and length > 1e-6:
            length /= 2
        t = t - length * step
    return t


def objective_noise(epsilon: float, delta: float, lam: float) -> float:
    """Noise of the linear term in objective perturbation (Redberg et al. 2023).

    The loss is at most ln(1 + l^2/(4 lam)) + l|Z|/s + l^2/(2 s^2), Z a standard normal.
    """
    left = epsilon - math.log1p(NORM**2 / (4 * lam))

    def delta_of(s: float) -> float:
        h = NORM / s
        if h * h / 2 > left:
            return 1.0
        return 2 * (norm.cdf(h / 2 - left / h) - math.exp(left) * norm.cdf(-h / 2 - left / h))

    low, high = 1e-3, 1e6
    for _ in range(100):
        s = math.sqrt(low * high)
        low, high = (low, s) if delta_of(s) <= delta else (s, high)
    return high


def descent(rows, y, mu: float, n_rounds: int, rate: float, rng) -> np.ndarray:
    s, t = NORM * math.sqrt(n_rounds) / mu, np.zeros(rows.shape[1])
    for _ in range(n_rounds):
        g = rows.T @ (y - expit(rows @ t)) + s * rng.standard_normal(len(t))
        t = t + rate * 4 / (len(rows) * NORM**2) * g
    return t


def newton(rows, y, mu: float, n_rounds: int, curve: str, rng) -> np.ndarray:
    """DP-Newton with double noise (Ganesh et al. 2023); rows to norm 1, n public."""
    rows = rows / NORM
    n, d = rows.shape
    t, rho = np.zeros(d), mu**2 / 2 / n_rounds
    of_gradient, of_hessian, of_trace = 0.75 * rho, 0.25 * rho, 0.1
    for _ in range(n_rounds):
        m = rows @ t
        p = expit(m)
        g = rows.T @ (p - y) / n + rng.standard_normal(d) / n * math.sqrt(0.5 / of_gradient)
        safe = np.where(np.abs(m) > 1e-9, m, 1.0)
        bound = np.where(np.abs(m) > 1e-9, 0.5 * np.tanh(m / 2) / safe, 0.25)
        hessian = (rows * (p * (1 - p) if curve == "hessian" else bound)[:, None]).T @ rows / n
        trace_noise = 0.25 / n * math.sqrt(0.5 / (of_trace * of_hessian))
        trace = max(np.trace(hessian) + trace_noise * rng.standard_normal(), 0.0)
        low = max((trace / (n * n * (1 - of_trace) * of_hessian)) ** (1 / 3), 1 / n)
        sensitivity = np.linalg.norm(g) * 0.25 / (n * low**2 + 0.25 * low)
        t = t - np.linalg.solve(hessian + low * np.eye(d), g)
        t = t + sensitivity * math.sqrt(0.5 / ((1 - of_trace) * of_hessian)) * rng.standard_normal(
            d
        )
    return t / NORM


def one_run(X, y, epsilon: float, delta: float, run: int) -> Iterator[tuple[str, np.ndarray]]:
    """Name (a tuned setting after a bar) and coefficients, the constant's first."""
    rows, sigma = with_constant(X), noise_multiplier(epsilon, delta)
    rule, mu = max(1.0, 20.0 / epsilon), 1.0 / sigma
    half = NORM**2 / 4 / (math.exp(epsilon / 2) - 1)  # half of epsilon for the determinant
    strengths = {"output": rule} | {f"output tuned|{4**k}": float(4**k) for k in range(5)}
    penalties = {"objective": max(half, rule)}
    penalties |= {f"objective tuned|{k}": k * half for k in (1, 8)}
    z = np.random.default_rng(1000 + run).standard_normal(rows.shape[1])
    for name, lam in strengths.items():
        yield name, solve(rows, y, lam) + NORM / lam * sigma * z
    for name, lam in penalties.items():
        yield name, solve(rows, y, lam, objective_noise(epsilon, delta, lam) * z)
    for n_rounds in (1, 3, 10, 30, 100):
        for rate in (1, 4):
            rng = np.random.default_rng((run, n_rounds))
            yield f"gradient descent|{n_rounds},{rate}", descent(rows, y, mu, n_rounds, rate, rng)
    for n_rounds in (3, 6):
        for curve in ("hessian", "bound"):
            rng = np.random.default_rng(run)
            yield f"DP-Newton|{n_rounds},{curve}", newton(rows, y, mu, n_rounds, curve, rng)
