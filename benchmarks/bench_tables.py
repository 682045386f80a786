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
OURS = MEASURE.format(
    imports="import pyarrow.parquet; from ndis.tables import Columns, Rows, Table",
    work="table = Table.open(sys.argv[1])\n"
    "table.with_rows(Rows(Columns(table.columns, norm=7.0))).moments",
)


def run(program: str, file: Path) -> str:
    command = [sys.executable, "-c", program, str(file)]
    here = Path(__file__).parent
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=here).stdout


def best(work: Callable[[], object], repetitions: int = 5) -> float:
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def least(results: Sequence[dict[str, float]], what: str) -> float:
    return min(result[what] for result in results)


def parquet() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        run(WRITE, file)
        rounds = [(json.loads(run(BARE, file)), json.loads(run(OURS, file))) for _ in range(5)]
    bare, ours = zip(*rounds, strict=True)
    print("5,000,000 x 50 Parquet, groups of 131,072 rows: time, processor time, peak memory")
    for name, results in (("iter_batches alone", bare), ("exact moments", ours)):
        seconds, processor = least(results, "seconds"), least(results, "processor")
        peak = max(result["megabytes"] for result in results)
        print(f"  {name:20}{seconds:6.2f} s {processor:6.2f} s {peak:6.0f} MB (limit 500)")
    ratio = least(ours, "seconds") / least(bare, "seconds")
    processor_ratio = least(ours, "processor") / least(bare, "processor")
    print(f"  times                 {ratio:6.2f}   {processor_ratio:6.2f} (limit 2)")


def memory() -> None:
    from ndis.tables import Columns, Rows, Table, leverages

    values = np.random.default_rng(0).standard_normal((515_345, 91))
    names = [f"x{j}" for j in range(91)]

    def table() -> Table:
        return Table.open(values).with_rows(Rows(Columns(names, norm=9.0)))

    bare = best(lambda: values.T @ values)
    ours = best(lambda: table().moments)
    both = best(lambda: leverages(table()))
    print("515,345 x 91 in memory, rows scaled to the bound")
    print(f"  X.T @ X                {bare:6.3f} s")
    print(f"  exact moments          {ours:6.3f} s, {ours / bare:5.2f} times")
    print(f"  with all leverages     {both:6.3f} s, {both / bare:5.2f} times (limit 10)")


if __name__ == "__main__":
    parquet()
    memory()
