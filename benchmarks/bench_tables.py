"""Reading tables: what the Gram matrix and the leverages cost beside the bare work, in one run.

The Parquet part writes a file of 1.9 GB to a temporary directory and deletes it afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

WRITE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
n_rows, n_columns, group = 5_000_000, 50, 131_072
rng = np.random.default_rng(0)
schema = pa.schema([(f"c{j}", pa.float64()) for j in range(n_columns)])
with pq.ParquetWriter(sys.argv[1], schema, use_dictionary=False) as writer:
    for start in range(0, n_rows, group):
        block = rng.standard_normal((n_columns, min(group, n_rows - start)))
        writer.write_table(pa.table(list(block), schema=schema), row_group_size=group)
"""
MEASURE = """
import json, sys, time
from timing import peak_memory
{imports}
started, used = time.perf_counter(), time.process_time()
{work}
seconds, processor = time.perf_counter() - started, time.process_time() - used
print(json.dumps({{"seconds": seconds, "processor": processor, "megabytes": peak_memory()}}))
"""
BARE = MEASURE.format(
    imports="import numpy, pyarrow.parquet as pq",
    # Its default, buffering ahead, takes longer and keeps the whole file in memory.
    work="for batch in pq.ParquetFile(sys.argv[1], pre_buffer=False).iter_batches(): pass",
)
OURS = {
    name: MEASURE.format(
        imports="import pyarrow.parquet; from ndis.tables import Columns, Rows, Table",
        work="table = Table.open(sys.argv[1])\n"
        f"table.with_rows(Rows(Columns(table.columns, {bound}))).moments",
    )
    for name, bound in (
        ("moments, data_norm", "norm=7.0"),
        ("moments, limits", "limits=dict.fromkeys(table.columns, (-5, 5))"),
    )
}


def run(program: str, file: Path) -> str:
    command = [sys.executable, "-c", program, str(file)]
    here = Path(__file__).parent
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=here).stdout


def best(work: Callable[[], object], repetitions: int = 5) -> float:
    """Processor time, the least of some."""
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def least(results: Sequence[dict[str, float]], what: str) -> float:
    return min(result[what] for result in results)


def parquet() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        run(WRITE, file)
        programs = {"iter_batches alone": BARE, **OURS}
        rounds = [{name: json.loads(run(p, file)) for name, p in programs.items()} for _ in "12345"]
    bare = least([results["iter_batches alone"] for results in rounds], "processor")
    print("5,000,000 x 50 Parquet, groups of 131,072 rows: time, processor time, peak memory")
    for name in programs:
        results = [each[name] for each in rounds]
        seconds, processor = least(results, "seconds"), least(results, "processor")
        peak = max(result["megabytes"] for result in results)
        print(
            f"  {name:20}{seconds:6.2f} s {processor:6.2f} s {peak:6.0f} MB (limit 500), "
            f"{processor / bare:.2f} times the processor time of the first (limit 2)"
        )


def memory() -> None:
    from ndis.tables import Columns, Rows, Table, leverages

    values = np.random.default_rng(0).standard_normal((515_345, 91))
    names = [f"x{j}" for j in range(91)]

    def table() -> Table:
        return Table.open(values).with_rows(Rows(Columns(names, norm=9.0)))

    bare = best(lambda: values.T @ values)
    ours = best(lambda: table().moments)
    both = best(lambda: leverages(table()))
    print("515,345 x 91 in memory, rows scaled to the bound; processor time")
    print(f"  X.T @ X                {bare:6.3f} s")
    print(f"  exact moments          {ours:6.3f} s, {ours / bare:5.2f} times")
    print(f"  with all leverages     {both:6.3f} s, {both / bare:5.2f} times (limit 10)")


def shapes() -> None:
    from ndis.tables import Columns, Rows, Table

    print("exact moments of arrays, times the processor time of X.T @ X: limits, data_norm")
    for n_rows, d in ((10**6, 10), (10**6, 50), (300_000, 100), (80_000, 512), (20_000, 1024)):
        values = np.random.default_rng(0).standard_normal((n_rows, d))
        names = [f"x{j}" for j in range(d)]
        bounds = ({"limits": dict.fromkeys(names, (-3, 3))}, {"norm": d**0.5})
        recipes = [Rows(Columns(names, **bound)) for bound in bounds]
        bare = best(lambda values=values: values.T @ values)
        ours = [
            best(lambda values=values, rows=rows: Table.open(values).with_rows(rows).moments, 3)
            for rows in recipes
        ]
        print(f"  {n_rows} x {d}: {ours[0] / bare:.1f} {ours[1] / bare:.1f}", flush=True)


def growth() -> None:
    from ndis.tables import Columns, Rows, Table

    part, names = np.random.default_rng(0).standard_normal((100_000, 50)), list(map(str, range(50)))
    rows = Rows(Columns(names, norm=7.0))
    print("exact moments of n x 50 in batches: processor time of a row, in nanoseconds")
    for n_rows, repetitions in ((10**5, 30), (10**6, 3), (10**7, 1)):
        batches = [part] * (n_rows // len(part))
        started = time.process_time()
        for _ in range(repetitions):
            _ = Table.open(batches, names).with_rows(rows).moments
        each = (time.process_time() - started) / repetitions / n_rows
        print(f"  {n_rows}: {each * 1e9:.0f}", flush=True)


if __name__ == "__main__":
    parquet()
    memory()
    shapes()
    growth()
