"""Tables of TukeyEM's protocol: epsilon = ln 3, delta = 1e-5, R^2 on the rows themselves.

    python benchmarks/bench_tukey.py FILE [--label median_house_value] [--repetitions 8]

FILE is a CSV file; its numeric columns are used, incomplete rows are dropped. Printed are R^2 of
ordinary least squares, with the columns' own ranges as limits, and with limits="private".
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--label", default="median_house_value")
    parser.add_argument("--repetitions", type=int, default=8)
    options = parser.parse_args()
    frame = pd.read_csv(options.file).select_dtypes("number").dropna()
    y = frame.pop(options.label).to_numpy(float)
    X = frame.to_numpy(float)
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    left = y - X @ best[1:] - best[0]
    print(f"{len(y):,} rows, {X.shape[1]} columns: OLS {1 - np.mean(left**2) / np.var(y):.3f}")
    own: dict[str, Any] = {
        "limits": list(zip(X.min(axis=0), X.max(axis=0), strict=True)),
        "label_limits": (y.min(), y.max()),
    }
    for name, limits in (("own limits", own), ('limits="private"', {"limits": "private"})):
        model = PrivateLeastSquares(epsilon=math.log(3), delta=1e-5, **limits)
        seeds = range(options.repetitions)
        found = [model.set_params(random_state=seed).fit(X, y).score(X, y) for seed in seeds]
        error = np.std(found) / math.sqrt(len(found))
        print(f"{name}: {np.mean(found):.3f} +- {error:.3f} ({len(found)} runs)")


if __name__ == "__main__":
    main()
