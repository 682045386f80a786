"""Least squares with limits that are known and limits that nobody knows, by TukeyEM's protocol.

    python benchmarks/bench_limits.py CALIFORNIA_CSV [DIAMONDS_CSV [RUNS]]

epsilon = ln 3, delta = 1e-5, R^2 on the table itself, nothing else declared. California housing
(median_house_value, complete rows, without ocean_proximity) and diamonds (price; cut, colour and
clarity as numbers 1, 2, ... from worst to best).
"""

import math
import sys
import time

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares

GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def read(path: str) -> tuple[str, np.ndarray, np.ndarray]:
    frame = pd.read_csv(path)
    if "price" in frame:
        frame = frame.replace({k: {v: i + 1 for i, v in enumerate(g)} for k, g in GRADES.items()})
        name, label = "Diamonds", "price"
    else:
        frame = frame.drop(columns="ocean_proximity").dropna()
        name, label = "California", "median_house_value"
    y = frame.pop(label).to_numpy(float)
    return name, frame.to_numpy(float), y


def score(X: np.ndarray, y: np.ndarray, seed: int, **limits) -> float:
    model = PrivateLeastSquares(
        epsilon=math.log(3.0), delta=1e-5, fit_intercept=True, random_state=seed, **limits
    )
    model.fit(X, y)
    fitted = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
    return 1.0 - float(((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def main() -> None:
    paths = [path for path in sys.argv[1:] if not path.isdigit()]
    runs = int(next((word for word in sys.argv[1:] if word.isdigit()), "10"))
    print("table       rows   OLS    own limits  private (least)  seconds a fit")
    for path in paths:
        name, X, y = read(path)
        full = np.column_stack([np.ones(len(X)), X])
        left = y - full @ np.linalg.lstsq(full, y, rcond=None)[0]
        ols = 1.0 - left.var() / y.var()
        box = {
            "limits": list(zip(X.min(axis=0), X.max(axis=0), strict=True)),
            "label_limits": (y.min(), y.max()),
        }
        own = [score(X, y, seed, **box) for seed in range(runs)]
        started = time.perf_counter()
        private = [score(X, y, seed, limits="private") for seed in range(runs)]
        seconds = (time.perf_counter() - started) / runs
        print(
            f"{name:10s} {len(X):6d}  {ols:.3f}  {np.mean(own):10.3f}  {np.mean(private):7.3f} "
            f"({min(private):.3f})  {seconds:13.1f}"
        )


if __name__ == "__main__":
    main()
