"""Private least squares beside BinAgg (arXiv 2510.16974), by its own package and on its own design.

    git clone https://github.com/shuronglin/binagg && pip install ./binagg
    python benchmarks/bench_binagg.py [--runs 20] [--rows 500 2000 10000]

The design: three columns N(1, 1) between the limits -3 and 5, y = 1.5 x1 - 2 x2 + .5 x3 + N(0, 1)
between -10 and 10, mu = 1, no intercept. Ours has the same mu, by the epsilon that it is at
delta 1e-6. Printed are the root mean square of the coefficients' errors, how many 95% intervals
hold the truth, and their mean width; and the errors of least squares without privacy.
"""

from __future__ import annotations

import argparse

import numpy as np
from binagg import dp_linear_regression
from scipy.optimize import brentq

from ndis import PrivateLeastSquares
from ndis.calibration import noise_multiplier

SLOPES, LIMITS, LABELS, MU, DELTA = (
    np.array([1.5, -2.0, 0.5]),
    (-3.0, 5.0),
    (-10.0, 10.0),
    1.0,
    1e-6,
)


def of_binagg(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    found = dp_linear_regression(X, y, [LIMITS] * 3, LABELS, mu=MU, alpha=0.05, random_state=seed)
    return found.coefficients, found.confidence_intervals


def ours(X: np.ndarray, y: np.ndarray, seed: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    model = PrivateLeastSquares(
        epsilon=epsilon,
        delta=DELTA,
        limits=[LIMITS] * 3,
        label_limits=LABELS,
        fit_intercept=False,
        random_state=seed,
    ).fit(X, y)
    found = model.intervals()
    return model.coef_, np.column_stack([found.lower, found.upper])[-3:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2_000, 10_000])
    options = parser.parse_args()
    epsilon = brentq(lambda e: 1.0 / noise_multiplier(e, DELTA) - MU, 0.5, 20.0)
    print("| rows | method | error | with an interval | cover | width |")
    print("| --- " * 6 + "|")
    for n in options.rows:
        told: dict[str, list[tuple[np.ndarray, ...]]] = {"BinAgg": [], "ours": [], "OLS": []}
        for seed in range(options.runs):
            rng = np.random.default_rng([seed, n])
            X = rng.normal(1.0, 1.0, (n, 3))
            y = X @ SLOPES + rng.standard_normal(n)
            coef, among = np.linalg.lstsq(X, y, rcond=None)[0], np.linalg.inv(X.T @ X)
            around = 1.96 * np.sqrt(np.diag(among))[:, None] * [-1.0, 1.0]
            told["OLS"].append((coef, coef[:, None] + around))
            told["BinAgg"].append(of_binagg(X, y, seed))
            told["ours"].append(ours(X, y, seed, epsilon))
        for name, each in told.items():
            coefs, ends = np.array([one[0] for one in each]), np.array([one[1] for one in each])
            known = np.isfinite(ends).all(axis=2)
            inside = (ends[..., 0] < SLOPES) & (ends[..., 1] > SLOPES)
            figures = (
                f"{np.sqrt(np.mean((coefs - SLOPES) ** 2)):.4f}",
                f"{known.mean():.2f}",
                f"{inside[known].mean():.2f}",
                f"{np.mean((ends[..., 1] - ends[..., 0])[known]):.3f}",
            )
            print(f"| {n:,} | {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
