"""Whether what private least squares says about its errors is true, on real tables.

    python benchmarks/bench_inference.py DIRECTORY [--runs 100] [--sets airfoil wine] [--forecasts]

DIRECTORY holds the sets as CSV files, label last; by default airfoil, bike, concrete, energy,
housing, parkinsons, protein and wine. Limits are the columns' own. Printed is, for 95% intervals
about the coefficients of ordinary least squares on the same rows, the share that covers them (an
interval that is the whole line does), the share of finite ones, the root mean square of
(estimate - truth)/error among these, and how long they are: the median of error/|coefficient|. With
--forecasts also whether what R^2 loses on average lies in the range that `forecast` prints.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares

SETS = ("airfoil", "bike", "concrete", "energy", "housing", "parkinsons", "protein", "wine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--forecasts", action="store_true")
    options = parser.parse_args()
    print(f"| 95%, {options.runs} runs | epsilon | answered | cover | finite | rms z | error |")
    print("| --- " * 7 + "|")
    for name in options.sets:
        path = next(options.directory.glob(f"{name}.csv*"))
        table = pd.read_csv(path).select_dtypes("number").dropna().to_numpy(float)
        X, y = table[:, :-1], table[:, -1]
        X = X[:, X.max(axis=0) > X.min(axis=0)]
        ones = np.column_stack([np.ones(len(X)), X])
        truth = np.linalg.lstsq(ones, y, rcond=None)[0]
        best = 1.0 - np.mean((y - ones @ truth) ** 2) / y.var()
        for epsilon in (1.0, 4.0):
            model = PrivateLeastSquares(
                epsilon=epsilon,
                delta=1e-6,
                limits=list(zip(X.min(axis=0), X.max(axis=0), strict=True)),
                label_limits=(y.min(), y.max()),
                random_state=np.random.default_rng(0),
            )
            held, finite, z, size, lost = [], [], [], [], []
            for _ in range(options.runs):
                found = model.fit(X, y).inference()
                held.append((found.lower <= truth) & (truth <= found.upper))
                known = np.isfinite(found.standard_error)
                finite.append(known)
                z.extend(((found.estimate - truth) / found.standard_error)[known])
                size.extend((found.standard_error / np.abs(truth))[known])
                lost.append(best - model.score(X, y))
            figures = (np.mean(held), np.mean(finite), np.sqrt(np.mean(np.square(z or [0.0]))))
            line = " | ".join(f"{figure:.3f}" for figure in figures)
            print(
                f"| {name} | {epsilon:g} | {len(held)} of {options.runs} | {line} | "
                f"{np.median(size or [np.inf]):.2g} |",
                flush=True,
            )
            if options.forecasts:
                low, high = model.forecast(n_rows=len(X)).errors["R^2 lost"]
                inside = low <= np.mean(lost) <= high
                where = "in" if inside else "NOT in"
                print(
                    f"  R^2 lost {np.mean(lost):.3g}, {where} {low:.3g} to {high:.3g}", flush=True
                )


if __name__ == "__main__":
    main()
