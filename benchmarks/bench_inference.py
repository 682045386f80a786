"""Whether the intervals of private least squares hold for the population, and how long they are.

    python benchmarks/bench_inference.py TABLES [--runs 20] [--rows 1000 10000] [--sets wine]
    python benchmarks/bench_inference.py TABLES --of held-out
    python benchmarks/bench_inference.py TABLES --of hard

"held-out" are populations that no choice was made on: all sets of the lists "third" to "seventh" of
held_out.py, which writes them, with at least 20,000 rows and 4 to 16 columns, none of which is a
combination of others. "hard" are laws made to refute intervals: columns that nearly stand in for
each other, and rows far out that make up what tells them apart.

Populations are real tables (CSV files of the folder TABLES, label last, or arrays of a file .npz;
rows are drawn from them with replacement) and simulated laws: "gauss", "t3" (heavy tails),
"related" (columns with a common factor), "wide" (one column has limits 100 deviations wide),
"unequal" (skewed errors whose spread depends on a column). Printed are, at epsilon 1 and delta
1e-6, for 95% intervals of the slopes:

    known     the share of slopes that have an interval
    missed    slopes without one though the fitted coefficient's error is below its size
    cover     the share of intervals that hold the population's slope
    rms z     of (estimate - truth)/standard error
    length    the median of the standard error over the best possible: that of OLS by the sandwich
              on the same rows, and the gradients' noise through the exact second moments
    error     of the coefficients over that of OLS, in the population's metric
    largest z of all intervals
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndis import PrivateLeastSquares
from ndis.tables import GRID_NORM

SETS = ("airfoil", "bike", "concrete", "energy", "housing", "parkinsons", "protein", "wine")
HELD_OUT = (
    "scorecard",
    "nassCDS",
    "BudgetFood",
    "VietNamI",
    "HI",
    "surveys",
    "DoctorContacts",
    "gss_wages",
    "nesarc_drinkspd",
)
SLOPES = np.array([1.0, -0.5, 0.25, 0.0])
Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
Population = tuple[str, Draw, np.ndarray, np.ndarray, list[Any], tuple[float, float]]
POPULATIONS: dict[str, Population] = {}  # for workers, which are forks


def simulated() -> Iterator[Population]:
    def law(name: str) -> Draw:
        def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
            X = rng.standard_normal((n, 4))
            noise = 0.7 * rng.standard_normal(n)
            if name == "t3":
                noise = 0.7 * rng.standard_t(3, n)
            elif name == "related":
                X = 0.6 * X + 0.8 * rng.standard_normal((n, 1))
            elif name == "wide":
                X[:, 0] *= 0.1
            elif name == "unequal":
                noise = 0.3 * X[:, 0] ** 2 * (rng.exponential(size=n) - 1.0)
            return X, X @ SLOPES + noise

        return draw

    for name in ("gauss", "t3", "related", "wide", "unequal"):
        X, _ = law(name)(400_000, np.random.default_rng(0))
        top = 40 if name in ("t3", "unequal") else 8
        yield name, law(name), SLOPES, np.cov(X.T), [(-5, 5)] * 4, (-top, top)


def hard() -> Iterator[Population]:
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((5, 5)))[0]
    sizes = np.geomspace(1.0, 0.01, 5), np.geomspace(1.0, 0.05, 5)
    # Name, slopes, limits of columns and of the label.
    laws: list[tuple[str, Any, float, float]] = [
        ("short", 100.0 * turn[:, -1], 5, 9),
        ("multiple", [60, -3, 0.5, 0.25], 5, 9),
        ("sum", [10, 10, 10, 10, -10], 10, 9),
        ("far", [10, -10, 0.5, 0.25], 6, 40),
        ("farther", [30, -30, 0.5, 0.25], 6, 60),
        ("tails", [15, -15, 0.5, 0.25], 6, 40),
        ("short t3", 10.0 * turn[:, -1], 10, 60),
        ("long t", [1, -1, 0.5, 0], 50, 110),
        ("lognormal", [0.3, -0.2, 0.1, 0], 60, 40),
        ("skewed", [1, -0.5, 0.25, 0], 5, 60),
    ]

    def law(name: str, slopes: np.ndarray, most: float) -> Draw:
        def columns(n: int, rng: np.random.Generator) -> np.ndarray:
            X = rng.standard_normal((n, len(slopes)))
            apart = 0.03 * X[:, 1] * np.where(rng.uniform(size=n) < 0.003, 20.0, 1.0)
            if name == "short":
                return X * sizes[0] @ turn.T
            if name == "short t3":
                return rng.standard_t(3, X.shape).clip(-40, 40) * sizes[1] @ turn.T
            if name == "long t":
                X[:, :2] = rng.standard_t(2.5, (n, 2))
            elif name == "lognormal":
                return np.exp(1.2 * (X + 0.8 * rng.standard_normal((n, 1))) / 1.28)
            elif name == "multiple":
                X[:, 0] = 0.05 * (X[:, 1] + 0.3 * X[:, 0])
            elif name == "sum":
                X[:, 4] = X[:, :4].sum(axis=1) + 0.1 * X[:, 4]
            elif name == "far":
                X[:, 1] = X[:, 0] + apart
            elif name == "farther":
                apart = 0.01 * X[:, 1] * np.where(rng.uniform(size=n) < 0.0003, 100.0, 1.0)
                X[:, 1] = X[:, 0] + apart
            elif name == "tails":
                X[:, 1] = X[:, 0] + (0.02 * rng.standard_t(2, n)).clip(-2, 2)
            return X

        def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
            X = columns(n, rng).clip(-most, most)
            noise = rng.standard_normal(n)
            if name == "skewed":
                noise = X[:, 0] ** 2 * (rng.exponential(size=n) - 1.0)
            return X, X @ slopes + noise

        return draw

    for name, slopes, most, top in laws:
        drawn = law(name, np.asarray(slopes, dtype=float), most)
        X, _ = drawn(400_000, np.random.default_rng(0))
        low = 0.0 if name == "lognormal" else -most
        limits = [(low, most)] * X.shape[1]
        yield name, drawn, np.asarray(slopes), np.cov(X.T), limits, (-top, top)


def tables(source: Path, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    for name in names:
        if source.suffix == ".npz":
            yield name, np.load(source)[name].astype(float)
        else:
            import pandas as pd

            frame = pd.read_csv(next(source.glob(f"{name}.csv*")))
            yield name, frame.select_dtypes("number").dropna().to_numpy(float)


def real(source: Path, names: list[str]) -> Iterator[Population]:
    for name, table in tables(source, names):
        X, y = table[:, :-1], table[:, -1]
        X = X[:, X.max(axis=0) > X.min(axis=0)]

        def draw(
            n: int, rng: np.random.Generator, X: np.ndarray = X, y: np.ndarray = y
        ) -> tuple[np.ndarray, np.ndarray]:
            chosen = rng.integers(0, len(X), n)
            return X[chosen], y[chosen]

        ones = np.column_stack([np.ones(len(X)), X])
        truth = np.linalg.lstsq(ones, y, rcond=None)[0][1:]
        limits = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
        yield name, draw, truth, np.cov(X.T), limits, (y.min(), y.max())


def best_possible(model: PrivateLeastSquares, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """The slopes of OLS; standard errors of the sandwich and of the gradients' noise alone."""
    ones = np.column_stack([np.ones(len(X)), X])
    best = np.linalg.lstsq(ones, y, rcond=None)[0]
    pulls = ones * (y - ones @ best)[:, None]
    inverse = np.linalg.pinv(ones.T @ ones)
    own = np.diag(inverse @ pulls.T @ pulls @ inverse)[1:]
    found = model._found(model.release_.arrays, model.noise_scale_, model._recipe_)
    bend, recipe = found.curvature, model._recipe_
    away = (X - X.mean(axis=0)) * recipe.features.scale / GRID_NORM @ bend.vectors
    noise = 1.0 / np.sum(1.0 / found.variances)
    through = np.linalg.pinv(away.T @ away) / bend.metric[:-1]
    slopes = bend.vectors @ through * (recipe.features.scale / recipe.labels.scale)[:, None]
    return best[1:], np.sqrt(own + noise * np.sum(slopes**2, axis=1))


class Run(NamedTuple):
    """Of one table: for each slope, and squared errors of all in the population's metric."""

    told: np.ndarray
    missed: np.ndarray
    z: np.ndarray
    length: np.ndarray
    ours: float
    ols: float


def run(name: str, n: int, seed: int, epsilon: float) -> Run:
    _, draw, truth, metric, limits, labels = POPULATIONS[name]
    X, y = draw(n, np.random.default_rng([seed, n]))
    model = PrivateLeastSquares(
        epsilon=epsilon, delta=1e-6, limits=limits, label_limits=labels, random_state=seed
    ).fit(X, y)
    found = model.intervals()
    told = ~np.isnan(found.estimate[1:])
    best, least = best_possible(model, X, y)
    return Run(
        told,
        ~told & (np.abs(model.coef_ - truth) < np.abs(truth)),
        ((found.estimate[1:] - truth) / found.standard_error[1:])[told],
        (found.standard_error[1:] / least)[told],
        (model.coef_ - truth) @ metric @ (model.coef_ - truth),
        (best - truth) @ metric @ (best - truth),
    )


def figures(runs: list[Run]) -> list[float]:
    z = np.concatenate([each.z for each in runs])
    some = len(z) > 0
    return [
        float(np.mean([each.told for each in runs])),
        float(np.mean([each.missed for each in runs])),
        float(np.mean(np.abs(z) < 1.96)) if some else np.nan,
        float(np.sqrt(np.mean(z**2))) if some else np.nan,
        float(np.median(np.concatenate([each.length for each in runs]))) if some else np.nan,
        float(np.sqrt(np.mean([each.ours for each in runs]) / np.mean([r.ols for r in runs]))),
        float(np.abs(z).max()) if some else np.nan,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--of", choices=("usual", "held-out", "hard"), default="usual")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    known: list[Population]
    if options.of == "usual":
        known = [*simulated(), *real(options.tables, options.sets)]
    else:
        known = [*(hard() if options.of == "hard" else real(options.tables, list(HELD_OUT)))]
    POPULATIONS.update({population[0]: population for population in known})
    print("| population | rows | known | missed | cover | rms z | length | error | largest z |")
    print("| --- " * 9 + "|")
    with ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        for n in options.rows:
            jobs = {
                name: [
                    pool.submit(run, name, n, seed, options.epsilon) for seed in range(options.runs)
                ]
                for name in POPULATIONS
            }
            for name, each in jobs.items():
                line = " | ".join(f"{x:.2f}" for x in figures([job.result() for job in each]))
                print(f"| {name} | {n:,} | {line} |", flush=True)


if __name__ == "__main__":
    main()
