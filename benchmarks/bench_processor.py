"""Whole fits on a processor beside scikit-learn and bare products, in memory and from files.

    python benchmarks/bench_processor.py [SHARE [TURNS]]

Processor time (of all threads) of both sides, which take turns; the least of three, or of TURNS.
SHARE of the rows is used, .1 if not given: times are printed as they are. First stand the figures
of 2026-11-17, ours and beside it, at full size on two cores that did nothing else.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression
from timing import best_times

from ndis import PrivateCovariance, PrivateLeastSquares, PrivateLogisticRegression
from ndis.tables import Table

SHARE, TURNS = 0.1, 3
ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-7, "random_state": 0}


def people(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ rng.normal(size=d) / d + 0.1 * rng.normal(size=n)


def line(before: str, what: str, ours: Callable[[], Any], beside: Callable[[], Any]) -> None:
    best = best_times({"ours": ours, "beside": beside}, TURNS)
    ratio = best["ours"] / best["beside"]
    print(
        f"| {what} | {before} | {best['ours']:.2f} | {best['beside']:.2f} | {ratio:.1f} |",
        flush=True,
    )


def squares(limits: Any, d: int) -> PrivateLeastSquares:
    return PrivateLeastSquares(limits=limits or [(-1, 1)] * d, label_limits=(-2, 2), **ASKED)


def products(X: np.ndarray, d: int, rounds: int, n_grams: int) -> None:
    """Gram matrices, and in each round rows with ten directions, their lengths, rows with labels.

    Blocks stay in the processor's cache, as ours do; two Gram matrices more are for intervals.
    """
    directions = np.ones((d, min(d, 8) + 2))
    for start in range(0, len(X), 4096):
        block = X[start : start + 4096]
        for _ in range(n_grams):
            block.T @ block
        for _ in range(rounds + 2):
            block @ directions
            np.einsum("ij,ij->i", block, block)
            block.T @ block[:, :1]


def growth(share: float) -> None:
    """Beside: a tenth of the rows, in as many rounds, ten times."""
    n = int(10_000_000 * share)
    X, y = people(n, 10)
    model = PrivateLeastSquares(limits=[(-1, 1)] * 10, label_limits=(-2, 2), n_rounds=3, **ASKED)
    line(
        "",
        f"growth: least squares {n} x 10, three rounds; beside ten fits of {n // 10}",
        lambda: model.fit(X, y),
        lambda: [model.fit(X[: n // 10], y[: n // 10]) for _ in range(10)],
    )


def in_memory(share: float) -> None:
    sizes = {(1_000_000, 10): ("4.6 / .62", "3.3 / 1.2", ".29 / .02")}
    sizes |= {(200_000, 50): ("",) * 3, (400_000, 128): ("8.9 / 6.7", "4.6 / .95", ".45 / .38")}
    sizes |= {(100_000, 200): ("",) * 3, (10_000, 1000): ("",) * 3}
    for (full, d), (linear, logistic, moments) in sizes.items():
        n = int(full * share)
        X, y = people(n, d)
        box = [(-1, 1)] * d
        line(
            linear,
            f"least squares {n} x {d}",
            lambda X=X, y=y, d=d: squares(None, d).fit(X, y),
            lambda X=X, y=y: LinearRegression().fit(X, y),
        )
        fitted = squares(None, d).fit(X, y)
        rounds = int(fitted.release_.arrays["gradients"].any(axis=(1, 2)).sum())
        n_grams = 3 if np.any(fitted.release_.arrays.get("spread", 0.0)) else 1
        line(
            "",
            f"least squares {n} x {d}, {rounds} rounds; beside the products of its passes",
            lambda X=X, y=y, d=d: squares(None, d).fit(X, y),
            lambda X=X, d=d, r=rounds, g=n_grams: products(X, d, r, g),
        )
        classes = (y > 0).astype(int)
        private = PrivateLogisticRegression(limits=box, classes=[0, 1], **ASKED)
        line(
            logistic,
            f"logistic {n} x {d}",
            lambda p=private, X=X, c=classes: p.fit(X, c),
            lambda X=X, c=classes: LogisticRegression().fit(X, c),
        )
        covariance = PrivateCovariance(limits=box, **ASKED)
        line(
            moments,
            f"covariance {n} x {d}",
            lambda p=covariance, X=X: p.fit(X),
            lambda X=X: X.T @ X,
        )


def from_files(share: float) -> None:
    """Beside: reading once, and the same fit in memory."""
    n, d = int(1_000_000 * share), 10
    X, y = people(n, d)
    names = [f"x{j}" for j in range(d)]
    frame = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
    box = dict.fromkeys(names, (-1, 1))
    with tempfile.TemporaryDirectory() as folder:
        for ending, write, read, before in (
            ("parquet", pa.parquet.write_table, pa.parquet.read_table, "5.8 / .13 + 4.6"),
            ("csv", pa.csv.write_csv, pa.csv.read_csv, "parsed 22 times"),
        ):
            path = Path(folder) / f"people.{ending}"
            write(frame, path)

            def both(read: Any = read, path: Path = path) -> None:
                read(path)
                squares(None, d).fit(X, y)

            line(
                before,
                f"least squares {n} x {d} from {ending}",
                lambda path=path: squares(box, d).fit(Table.open(path, [*names, "y"]), "y"),
                both,
            )


def of_zeros(share: float) -> None:
    """Beside: as many sparse products as there are passes."""
    n, d = int(20_000 * share), int(2_000 * share**0.5)
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=0.001, rng=rng, format="csr")
    y = np.clip(X @ rng.normal(size=d), -1, 1)
    model = PrivateLeastSquares(data_norm=1.0, label_limits=(-1, 1), n_rounds=1, **ASKED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line(
        "29 / .01",
        f"sparse {n} x {d}, one round",
        lambda: model.fit(X, y),
        lambda: [X.T @ (X @ np.ones(d)) for _ in range(20)] and X.T @ X,
    )
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"| sparse: memory beside the data, MB | 789 | {grown:.0f} | d x d: {8e-6 * d * d:.0f} | |"
    )


def main() -> None:
    global TURNS
    share = float(sys.argv[1]) if len(sys.argv) > 1 else SHARE
    TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    print("| processor seconds | at full size, 2026-11-17 | ours | beside | times |")
    print("| --- | --- | --- | --- | --- |")
    began = time.process_time()
    in_memory(share)
    growth(share)
    from_files(share)
    of_zeros(share)
    print(f"\nAll of it took {time.process_time() - began:.0f} s of processor time.")


if __name__ == "__main__":
    main()
