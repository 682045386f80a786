"""The most memory of one fit beside its data, in matrices of d x d numbers and MB.

    python benchmarks/bench_memory.py [D ...]

Each estimator runs in a process of its own, on 2,000 rows (d = 1000 if not given). The goal is
three matrices and 64 MB.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.utils.validation  # noqa: F401  # imported before memory is measured
from scipy import linalg, optimize, special, stats  # noqa: F401
from timing import peak_memory

from ndis import (
    PrivateCovariance,
    PrivateLeastSquares,
    PrivateLimits,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivatePoissonRegression,
    PrivateProjection,
    PrivateSummary,
)

N_ROWS = 2_000
ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def jobs(d: int) -> dict[str, Callable[[], Any]]:
    """Fits by name."""
    rng, box = np.random.default_rng(0), {"limits": [(-1, 1)] * d, **ASKED}
    X = rng.uniform(-1, 1, (N_ROWS, d))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=N_ROWS), -1, 1)
    counts, classes = rng.poisson(1.0, N_ROWS).clip(0, 5) * 1.0, (y > 0).astype(int)

    def squares(method: str) -> Any:
        return PrivateLeastSquares(label_limits=(-1, 1), method=method, **box).fit(X, y)

    return {
        **{f"least squares, {m}": lambda m=m: squares(m) for m in PrivateLeastSquares.methods},
        "logistic": lambda: PrivateLogisticRegression(classes=[0, 1], **box).fit(X, classes),
        "Poisson": lambda: PrivatePoissonRegression(label_limits=(0, 5), **box).fit(X, counts),
        "covariance": lambda: PrivateCovariance(**box).fit(X),
        "components": lambda: PrivatePCA(n_components=5, **box).fit(X),
        "limits": lambda: PrivateLimits(**ASKED).fit(X),
        "summary": lambda: PrivateSummary(**box).fit(X),
        "projection": lambda: PrivateProjection(n_components=8, data_norm=d**0.5, **ASKED).fit(X),
    }


def child(d: int, name: str) -> None:
    """One fit: print how much its peak is above what the process held before."""
    job = jobs(d)[name]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_memory()
    job()
    print(peak_memory() - before)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        return child(int(sys.argv[2]), sys.argv[3])
    print("| fit | d | MB | matrices of d x d beside 64 MB | goal, MB |")
    print("| --- | --- | --- | --- | --- |")
    for d in map(int, sys.argv[1:] or ["1000"]):
        matrix = 8 * d * d / 2**20
        for name in jobs(1):
            command = [sys.executable, __file__, "--child", str(d), name]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            most = float(done.stdout.split()[-1])
            share = max(most - 64.0, 0.0) / matrix
            print(
                f"| {name} | {d} | {most:.0f} | {share:.1f} | {3 * matrix + 64:.0f} |", flush=True
            )


if __name__ == "__main__":
    main()
