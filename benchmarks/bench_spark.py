"""Passes over a table of a Spark cluster beside bare `mapInArrow` tasks that compute the same sums.

    python benchmarks/bench_spark.py            # 1e6 and 1e7 rows of 50 columns, some 15 minutes
    python benchmarks/bench_spark.py --small    # a quick look
    python benchmarks/bench_spark.py --default 300000   # a default regression beside bare passes

A cluster of two workers with one core each on this machine, and a driver with Spark's default of
1 GB. Times are processor seconds of the driver, the executors and their Python processes together,
which other work on the machine disturbs little; passes and bare tasks take turns, and the least of
some rounds counts. Memory is the most that the driver's two processes, Java's and Python's, have
held while a whole regression was fitted; each size has a driver of its own. Writes Parquet files
to a temporary folder and deletes them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import peak_memory

D = 50
NAMES = [f"c{index}" for index in range(D)]
GROUP = 131_072
DRIVER = "1g"
ROUNDS = 3


def write(folder: Path, n_rows: int, n_files: int) -> None:
    """Rows of normal numbers, and a label that depends on them."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(D) / np.sqrt(D)
    for file in range(n_files):
        size = n_rows * (file + 1) // n_files - n_rows * file // n_files
        x = rng.standard_normal((size, D))
        y = x @ truth + 0.1 * rng.standard_normal(size)
        table = pa.table([*x.T, y], names=[*NAMES, "y"])
        path = folder / f"part-{file:05}.parquet"
        pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False, compression=None)


def session(home: Path, partition_bytes: int) -> Any:
    """A driver with two workers of one core; they write to `home`."""
    import pyspark
    from pyspark.sql import SparkSession

    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    os.environ["SPARK_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,1536]").appName("ndis benchmark")
    settings = {
        "spark.driver.memory": DRIVER,
        "spark.executor.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.files.maxPartitionBytes": partition_bytes,
        "spark.sql.files.openCostInBytes": 1,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    started = builder.getOrCreate()
    started.range(2, numPartitions=2).mapInArrow(consume, "x int").count()  # Python is up
    return started


# --- bare tasks ---------------------------------------------------------------------------------


def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take every row, and yield nothing."""
    for _ in batches:
        pass
    yield from ()


def matrix(batch: pa.RecordBatch) -> tuple[Any, Any]:
    """Features and label as one array each."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.stack(columns[:-1]), columns[-1]


def sent(total: Any) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"sum": [np.ascontiguousarray(total).tobytes()]})


def bare_gram(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Second moments of features and label."""
    total = 0.0
    for batch in batches:
        x, y = matrix(batch)
        joint = np.vstack([x, y, np.ones_like(y)])
        total = total + joint @ joint.T
    return sent(total)


def bare_norms(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A Gram matrix of cut rows, and a histogram of norms."""
    total, edges = 0.0, 2.0 ** np.arange(-32, 32)
    for batch in batches:
        x, _ = matrix(batch)
        squares = np.einsum("ij,ij->j", x, x)
        cut = np.vstack([x * np.minimum(1.0, 7.0 / np.sqrt(squares)), np.ones(len(squares))])
        counts = np.histogram(squares, edges)[0]
        total = total + np.concatenate([(cut @ cut.T).reshape(-1), counts])
    return sent(total)


def bare_gradient(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with eight directions, a centre and coefficients; their clipped residuals with rows."""
    rng = np.random.default_rng(0)
    vectors, total = rng.standard_normal((10, D)), 0.0
    for batch in batches:
        x, y = matrix(batch)
        products = vectors @ x
        length = np.sqrt(np.abs(np.einsum("ij,ij->j", x, x) - (products[:9] ** 2).sum(axis=0)))
        left = y - products[9]
        weight = left * np.minimum(1.0, 5.0 / (np.abs(left) * length + 1e-300))
        total = total + np.append(x @ weight, weight.sum())
    return sent(total)


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to be kept: half as wide as in the table, 4,000 of them in a cell."""
    for batch in batches:
        for start in range(0, batch.num_rows, 4000):
            x, y = matrix(batch.slice(start, 4000))
            rows = np.rint(np.vstack([x, y]) * 1e5).astype(np.int32)
            yield pa.RecordBatch.from_pydict({"rows": [rows.tobytes()]})


def kept(batch: pa.RecordBatch) -> Iterator[Any]:
    """The rows that were packed."""
    for cell in batch.column(0):
        whole = np.frombuffer(cell.as_buffer(), np.int32).reshape(D + 1, -1).astype(np.float64)
        yield whole[:-1], whole[-1]


def kept_gram(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Second moments of kept rows."""
    total = 0.0
    for batch in batches:
        for x, _ in kept(batch):
            total = total + x @ x.T
    return sent(total)


def kept_gradient(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Kept rows with ten vectors, and their residuals with them: no clip, no length."""
    vectors, total = np.random.default_rng(0).standard_normal((10, D)), 0.0
    for batch in batches:
        for x, y in kept(batch):
            products = vectors @ x
            total = total + x @ (y - products[9])
    return sent(total)


# --- measuring ----------------------------------------------------------------------------------


def used() -> float:
    """Processor seconds of this process and all that descend from it, ended ones included."""
    parents, seconds = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(process.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return sum(spent for pid, spent in seconds.items() if ours(pid))


def least(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least processor time of each over rounds in which they take turns."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, job in rivals.items():
            began = used()
            job()
            best[name] = min(best[name], used() - began)
            print(f"  {name}: {used() - began:.1f} s", file=sys.stderr, flush=True)
    return best


def passes(frame: Any, rounds: int, many: bool) -> dict[str, float]:
    """Our passes of a regression and of moments, and bare tasks; of many partitions a few."""
    from ndis.mechanisms.regression_methods.descent import n_cuts
    from ndis.tables import Columns, Rows, Table
    from ndis.tables.sums import CutMoments, Pull, PullSum, moments, totals

    rng = np.random.default_rng(0)
    rows = Rows(Columns(NAMES, norm=10.0), Columns(["y"], limits={"y": (-4, 4)}, centered=False))
    table = Table.open(frame, [*NAMES, "y"]).with_rows(rows)
    vectors = np.rint(rng.standard_normal((D, 10)) * 2.0**30 / np.sqrt(D))
    pull = Pull(vectors, 2.0**-52, np.full(2, 2.0**-52), np.zeros(2), 1.0, 1.0, 1e-9)
    center = np.rint(rng.standard_normal(D) * 2.0**15)
    ladder = tuple(0.1 * 2.0 ** (-np.arange(16) / 4))

    def bare(task: Any) -> Callable[[], object]:
        return lambda: frame.mapInArrow(task, "sum binary").collect()

    if many:
        short = {"nothing": bare(consume), "moments": lambda: table.sum(moments)}
        return least(short, rounds)
    return least(
        {
            "nothing": bare(consume),
            "center": lambda: table.sum(totals),
            "bare moments": bare(bare_gram),
            "moments": lambda: table.sum(moments),
            "bare norms and cut moments": bare(bare_norms),
            "norms and cut moments": lambda: table.sum(CutMoments(n_cuts(D), center)),
            "bare gradient": bare(bare_gradient),
            "gradient": lambda: table.sum(PullSum(pull, (0.1,), 2.0**18)),
            "gradients of a ladder of clips": lambda: table.sum(
                PullSum(pull, ladder, 2.0**18, 10.0)
            ),
        },
        rounds,
    )


def fit(frame: Any) -> dict[str, Any]:
    """The default regression: how long it takes, and what its driver held."""
    from ndis import PrivateLeastSquares

    jvm = frame.sparkSession.sparkContext._jvm
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    began = used()
    facts = {"data_norm": 10.0, "label_bound": 4.0, "n_rounds": ROUNDS}
    model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, **facts)
    model.fit(frame.select(*NAMES, "y"), "y")
    seconds = used() - began
    runtime = jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return {
        "seconds": seconds,
        "python": peak_memory(),
        "java": peak_memory(java),
        "left": (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
    }


def default(frame: Any, folder: str, rounds: int) -> dict[str, Any]:
    """A default regression, how many passes it makes, and as many bare ones over kept rows."""
    import logging

    from ndis import PrivateLeastSquares
    from ndis.tables import Table

    told = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("ndis").addHandler(handler)
    logging.getLogger("ndis").setLevel(logging.INFO)
    facts = {"data_norm": 10.0, "label_bound": 4.0, "random_state": 0}
    model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, **facts)
    chosen, n_passes, n_here = frame.select(*NAMES, "y"), 0, 0

    def ours() -> None:
        nonlocal n_passes
        told.clear()
        model.fit(chosen, "y")
        n_passes = sum(" on Spark: " in line for line in told)

    def bare() -> None:
        rows = chosen.mapInArrow(pack, "rows binary").persist()
        for index in range(n_passes):
            task = kept_gram if index in (1, 2) else kept_gradient
            rows.mapInArrow(task, "sum binary").collect()
        rows.unpersist()

    best = least({"ours": ours, "bare": bare}, rounds)
    passes, here = Table.sum, model

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal n_here
        n_here += 1
        return passes(*args, **named)

    Table.sum = counted
    began = used()
    here.fit(Table.open(folder), "y")
    best["here"] = used() - began
    return best | {"passes": n_passes, "passes here": n_here, "told": told}


def child(folder: str, what: str, rounds: int, partitions: int) -> None:
    """One driver: measure and print as JSON."""
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    with tempfile.TemporaryDirectory() as home:
        started = session(Path(home), -(-size // partitions) if partitions else 128 << 20)
        frame = started.read.parquet(folder)
        if what == "default":
            result = default(frame, folder, rounds)
        else:
            result = fit(frame) if what == "fit" else passes(frame, rounds, partitions > 0)
        print(json.dumps(result | {"partitions": frame.rdd.getNumPartitions()}))
        started.stop()


def run(folder: Path, what: str, rounds: int = 3, partitions: int = 0) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(folder), what, str(rounds), str(partitions)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def beside_bare(n_rows: int) -> None:
    """A default regression beside as many bare passes, and beside a machine without Spark."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, n_rows, 8)
        got = run(folder, "default", 2)
    print(
        f"{n_rows:,} x {D}: a default regression takes {got['ours']:.1f} s in {got['passes']} "
        f"passes, {got['ours'] / got['bare']:.2f} times as many bare ones over kept rows "
        f"({got['bare']:.1f} s); in memory it takes {got['here']:.1f} s in {got['passes here']}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--default", type=int, help="a default regression of so many rows")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, what, rounds, partitions = options.child
        return child(folder, what, int(rounds), int(partitions))
    if options.default:
        return beside_bare(options.default)
    share = 100 if options.small else 1
    with tempfile.TemporaryDirectory() as place:
        for n_rows in (1_000_000 // share, 10_000_000 // share):
            folder = Path(place) / str(n_rows)
            folder.mkdir()
            write(folder, n_rows, 8)
            got = run(folder, "fit")
            print(
                f"{n_rows:,} x {D}: a regression of {ROUNDS} rounds takes "
                f"{got['seconds']:.1f} s; its driver held at most {got['python']:.0f} MB (Python) "
                f"and {got['java']:.0f} MB (Java, of which {got['left']:.0f} MB are in use at the "
                "end)",
                flush=True,
            )
        got = run(folder, "passes")
        print(f"one pass over {n_rows:,} x {D}, {got['partitions']} partitions:")
        for name, seconds in got.items():
            if (bare := got.get(f"bare {name}")) is not None:
                print(f"  {name}: {seconds:.1f} s, {seconds / bare:.2f} times bare ({bare:.1f} s)")
        print(f"  that yields nothing: {got['nothing']:.1f} s", flush=True)
        folder = Path(place) / "many"
        folder.mkdir()
        n_rows, n_files = 200_000 // share, 2000 // share
        write(folder, n_rows, n_files)
        got = run(folder, "passes", 2, n_files)
        print(f"one pass over {n_rows:,} x {D}, {got['partitions']} partitions:")
        ratio = got["moments"] / got["nothing"]
        print(
            f"  moments: {got['moments']:.1f} s, {ratio:.2f} times one that yields nothing",
            flush=True,
        )


if __name__ == "__main__":
    main()
