"""Hostile tables in every source, for every estimator that takes `person=`: does anybody show?

    python benchmarks/check_people.py --n 1000 --processes 8

Each table has a person of 1 to 1,000 rows, spread over its files and partitions. The estimator must
ask for the same exact sums wherever the table lies; without the person, given the same answers, it
must release the same numbers, and the two laws must be within the promise
(tests/helpers/attacks/people.py). In some tables nobody else is there, or counts. Sources take
turns: those whose packages are installed, or those that `--sources` names. Every fiftieth table
lies on Spark too.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import numpy as np
import pytest

from attacks import people
from spark_sessions import spark_session

SPARK_EVERY, TELL_EVERY = 50, 10
NEEDS = {"polars": "polars", "polars, lazy": "polars", "DuckDB": "duckdb", "Dask": "dask"}


def installed() -> list[str]:
    """The sources whose packages are."""
    return [name for name in people.SOURCES if name not in NEEDS or find_spec(NEEDS[name])]


def tell(found: list[people.Drawn], started: float) -> None:
    for title, key in (("source", "source"), ("estimator", "case"), ("ids", "ids")):
        counted = Counter(getattr(each, key) for each in found)
        shown = ", ".join(f"{name} {n}" for name, n in sorted(counted.items()))
        print(f"by {title}: {shown}")
    refused = Counter(each.error for each in found if each.error)
    for error, n in refused.items():
        print(f"refused with and without the person, {n}: {error}")
    rows = sorted(each.m for each in found)
    print(f"rows of the person: {rows[0]} to {rows[-1]}, median {rows[len(rows) // 2]}")
    parts = np.array([each.n_parts for each in found if each.m > 1])
    print(f"in several files or batches, of those with several rows: {np.mean(parts > 1):.2f}")
    worst = max(found, key=lambda each: each.delta)
    print(f"largest delta of a pair at the promised epsilon, of 1e-6 promised: {worst.delta:.3g}")
    pairs = len({(each.case, each.source) for each in found})
    print(f"{len(found):,} checks, {pairs} pairs of estimator and source, not against the promise")
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def one(seed: int, sources: list[str], **more: Any) -> people.Drawn | str:
    """One table in one source; what was found against the promise."""
    source = sources[sum(divmod(seed, len(people.TAKING))) % len(sources)]  # each with each
    with tempfile.TemporaryDirectory() as folder:
        try:
            return people.check(seed, source, Path(folder), **more)
        except Exception as error:  # all are told
            return f"{source}, {type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="tables")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--sources", nargs="+", choices=[*people.SOURCES], default=installed())
    parser.add_argument("--spark", action="store_true", help="all of them on Spark")
    wanted = parser.parse_args()
    started, found, against = time.monotonic(), list[people.Drawn](), list[int]()
    seeds = range(wanted.first, wanted.first + wanted.n)
    print(f"{wanted.n:,} tables", flush=True)

    def take(seed: int, drawn: people.Drawn | str) -> None:
        if isinstance(drawn, str):
            print(f"table {seed}: {drawn}", flush=True)
            against.append(seed)
        else:
            found.append(drawn)
        if (len(found) + len(against)) % TELL_EVERY == 0:
            print(f"{len(found)} so far, against the promise {against}", flush=True)

    with tempfile.TemporaryDirectory() as place:
        if not wanted.spark:
            with ProcessPoolExecutor(wanted.processes, get_context("spawn")) as pool:
                check = partial(one, sources=wanted.sources)
                for seed, drawn in zip(seeds, pool.map(check, seeds), strict=True):
                    take(seed, drawn)
        (Path(place) / "executors").mkdir()
        try:
            with spark_session("local[2]", Path(place) / "executors") as session:
                for seed in seeds if wanted.spark else seeds[::SPARK_EVERY]:
                    take(seed, one(seed, ["Spark"], session=session))
        except (pytest.skip.Exception, ModuleNotFoundError) as reason:
            print(f"not on Spark: {reason}")
    tell(found, started)
    if against:
        raise SystemExit(f"{len(against)} tables against the promise: {against}")


if __name__ == "__main__":
    main()
