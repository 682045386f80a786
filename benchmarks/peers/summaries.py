"""``python summaries.py NAME means|deciles FOLDER``: what another tool tells, as JSON lines.

Runs in the environment of that tool, with nothing of ours. FOLDER holds a file for each table, with
its groups, numbers, their public limits and levels; benchmarks/bench_summary.py writes them and
reads the answers. Rows are handed over once for each run, and the run is one more public column to
group by: every run has the noise that it would have alone, and a query is made once, not once
for each. Each tool is told the same: one row of a person, public levels and limits, private counts
(but diffprivlib, whose counts are public).
"""

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
ROWS = 250_000  # of all runs of a table together, or four runs
DECILES = tuple(k / 10 for k in range(1, 10))
Answer = tuple[str, float, str, Any]


def rho(epsilon: float) -> float:
    """The most zero-concentrated privacy that implies (epsilon, DELTA): Canonne and others."""

    def delta(rho: float) -> float:
        a = 1.0 + np.exp(np.linspace(-7.0, 9.0, 40_001))
        logs = (a - 1.0) * (a * rho - epsilon) - np.log(a - 1.0) + a * np.log1p(-1.0 / a)
        return float(np.exp(logs.min()))

    low, high = 0.0, epsilon
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta(middle) <= DELTA else (low, middle)
    return low


def repeated(table: Any, runs: int) -> dict[str, Any]:
    """The rows, once for each run."""
    n = len(table["x"])
    run = np.repeat([f"{k:03d}" for k in range(runs)], n)
    return {"run": run, "g": np.tile(table["g"], runs), "x": np.tile(table["x"], runs)}


def by_run(found: dict[tuple[str, str], float], levels: Any, runs: int) -> Any:
    """Numbers of each run and level, from those by their names."""
    return np.array([[found[f"{k:03d}", g] for g in levels] for k in range(runs)])


def both(count: Any, deviations: Any, middle: float, low: float, high: float) -> Any:
    """Means and counts from noisy counts and sums of distances from a public point."""
    return [
        np.clip(middle + deviations / np.maximum(count, 1.0), low, high).tolist(),
        count.tolist(),
    ]


# -- OpenDP ---------------------------------------------------------------------------------------


def opendp_means(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """The context API: len and sum of a group, of values and of distances from the middle."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    low, high = map(float, table["limits"])
    rows, groups = repeated(table, runs), runs * len(table["levels"])
    margin = dp.polars.Margin(
        by=["run", "g"], max_length=100_000, max_groups=groups, invariant="keys"
    )
    for epsilon in EPSILONS:
        for law, loss in (("laplace", {"epsilon": epsilon}), ("gaussian", {"rho": rho(epsilon)})):
            for about, middle in (("values", 0.0), ("distances", 0.5 * (low + high))):
                frame = pl.LazyFrame(rows | {"x": rows["x"] - middle})
                context = dp.Context.compositor(
                    data=frame,
                    privacy_unit=dp.unit_of(contributions=1),
                    privacy_loss=dp.loss_of(**loss),
                    split_evenly_over=1,
                    margins=[margin],
                )
                bounds = (low - middle, high - middle)
                asked = dp.len(), pl.col.x.dp.sum(bounds).alias("s")
                told = context.query().group_by("run", "g").agg(*asked).release().collect()
                keys = list(zip(told["run"], told["g"], strict=True))
                count, total = (
                    by_run(dict(zip(keys, map(float, told[c]), strict=True)), table["levels"], runs)
                    for c in ("len", "s")
                )
                yield name, epsilon, f"{law}, {about}", both(count, total, middle, low, high)


def opendp_deciles(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """The context API's quantile, asked nine times with equal shares, and evenly spaced values."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    low, high = map(float, table["limits"])
    margin = dp.polars.Margin(by=["run"], max_length=100_000, max_groups=runs, invariant="keys")
    frame = pl.LazyFrame(repeated(table, runs))
    candidates = np.linspace(low, high, 1001).tolist()
    for epsilon in EPSILONS:
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=epsilon),
            split_evenly_over=1,
            margins=[margin],
        )
        asked = [pl.col.x.dp.quantile(q, candidates).alias(f"q{q}") for q in DECILES]
        told = context.query().group_by("run").agg(*asked).release().collect()
        found = told.sort("run").select([f"q{q}" for q in DECILES]).to_numpy()
        yield name, epsilon, "1,001 candidates", found.tolist()


# -- Tumult Analytics -----------------------------------------------------------------------------


def tumult_means(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """Half for groupby.count and half for groupby.sum of distances from the middle.

    groupby.average does the same with a count of its own, which would be paid twice.
    """
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt import analytics as tmlt

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    low, high = map(float, table["limits"])
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    rows = repeated(table, runs)
    frame = spark.createDataFrame(pd.DataFrame(rows | {"d": rows["x"] - middle})).cache()
    levels = {"run": [f"{k:03d}" for k in range(runs)], "g": [str(g) for g in table["levels"]]}
    keys = tmlt.KeySet.from_dict(levels)
    for law in ("laplace", "gaussian"):
        kind = tmlt.PureDPBudget if law == "laplace" else tmlt.RhoZCDPBudget
        session = tmlt.Session.from_dataframe(
            privacy_budget=kind(math.inf),
            source_id="t",
            dataframe=frame,
            protected_change=tmlt.AddOneRow(),
        )

        def ask(query: Any, budget: Any, session: Any = session) -> Any:
            told = session.evaluate(query, budget).toPandas()
            found = dict(
                zip(zip(told["run"], told["g"], strict=True), told.iloc[:, 2], strict=True)
            )
            return by_run(found, levels["g"], runs).astype(float)

        for epsilon in EPSILONS:
            budget = kind((epsilon if law == "laplace" else rho(epsilon)) / 2.0)
            groups = tmlt.QueryBuilder("t").groupby(keys)
            count = ask(groups.count(), budget)
            total = ask(groups.sum("d", -half, half), budget)
            yield name, epsilon, f"{law}, count and sum", both(count, total, middle, low, high)


# -- PipelineDP -----------------------------------------------------------------------------------


def pipelinedp_means(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """COUNT and MEAN of public partitions, one contribution of each."""
    import pipeline_dp as pdp

    low, high = map(float, table["limits"])
    levels = [str(g) for g in table["levels"]]
    for epsilon in EPSILONS:
        for law in ("LAPLACE", "GAUSSIAN"):
            params = pdp.AggregateParams(
                noise_kind=pdp.NoiseKind[law],
                metrics=[pdp.Metrics.COUNT, pdp.Metrics.MEAN],
                max_partitions_contributed=1,
                max_contributions_per_partition=1,
                min_value=low,
                max_value=high,
            )
            found = _pipelinedp(table, runs, levels, params, epsilon)
            mean = np.clip(by_run({k: v.mean for k, v in found.items()}, levels, runs), low, high)
            count = by_run({k: v.count for k, v in found.items()}, levels, runs)
            yield name, epsilon, law.lower(), [mean.tolist(), count.tolist()]


def _pipelinedp(table: Any, runs: int, levels: Any, params: Any, epsilon: float) -> Any:
    import pipeline_dp as pdp

    groups = table["g"].tolist()
    numbers = table["x"].tolist()
    rows = (
        (k * len(numbers) + place, (f"{k:03d}", g), x)
        for k in range(runs)
        for place, (g, x) in enumerate(zip(groups, numbers, strict=True))
    )
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    public = [(f"{k:03d}", g) for k in range(runs) for g in levels]
    told = engine.aggregate(rows, params, extractors, public_partitions=public)
    accountant.compute_budgets()
    return dict(told)


# -- diffprivlib ----------------------------------------------------------------------------------


def diffprivlib_means(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """tools.mean of every group; counts are public, and all of epsilon goes to the mean."""
    from diffprivlib import tools

    bounds = tuple(map(float, table["limits"]))
    groups = [table["x"][table["g"] == g] for g in table["levels"]]
    count = [float(len(x)) for x in groups]
    for epsilon in EPSILONS:
        told = [
            [float(tools.mean(x, epsilon=epsilon, bounds=bounds)) for x in groups]
            for _ in range(runs)
        ]
        yield name, epsilon, "pure, public counts", [told, [count] * runs]


def diffprivlib_deciles(name: str, table: Any, runs: int) -> Iterator[Answer]:
    """tools.quantile of nine shares, which splits epsilon evenly."""
    from diffprivlib import tools

    bounds = tuple(map(float, table["limits"]))
    for epsilon in EPSILONS:
        told = [
            np.asarray(tools.quantile(table["x"], list(DECILES), epsilon=epsilon, bounds=bounds))
            for _ in range(runs)
        ]
        yield name, epsilon, "one by one", np.array(told).tolist()


def main() -> None:
    """Answer for all tables of the folder."""
    peer, what, folder = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as stored:
            table = dict(stored)
        runs = min(max(ROWS // len(table["x"]), 4), 400)
        for answer in globals()[f"{peer}_{what}"](path.stem, table, runs):
            print("answer " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
