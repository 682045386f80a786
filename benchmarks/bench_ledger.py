"""What the ledger costs: budget left unused by the filter, and time to spend.

    python benchmarks/bench_ledger.py           # all tables, minutes
    python benchmarks/bench_ledger.py --long    # the last one only, seconds

The first table repeats one release for as long as each mode admits it. "used" is epsilon of the
exact total of what was admitted, at the budget's delta, as a share of the budget's epsilon. The
second table is wall-clock time on a ledger of 10,000 rows; most of it is the disk's forced writes,
of which one is therefore measured beside it, as are a ledger on a file system in memory and one on
a PostgreSQL server on the same machine. The third compares SQLite's journals. The last is processor
time: of a ledger of 100,000 rows in memory, and of 10,000 different losses that are added up.
"""

import math
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from functools import reduce
from importlib.util import find_spec
from operator import add
from pathlib import Path

import numpy as np

from ndis import Guarantee, Ledger, Profile, QuadraticLoss
from ndis.calibration import meets
from ndis.ledger.composition import compose
from ndis.ledger.filter import Filter

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))
from ledger_workers import fill
from postgresql_server import Server

BUDGETS = [(1.0, 1e-6), (0.3, 1e-8), (4.0, 1e-5)]


def proven(loss: QuadraticLoss) -> Guarantee:
    return Guarantee(1.0, 0.1, "add-remove", "proven", Profile.both(loss))


def workloads(epsilon: float) -> dict[str, list[Guarantee]]:
    """Sequences to be repeated; sizes scale with the budget, so that some 50 to 500 fit."""
    small, large = 0.02 * epsilon, 0.01 * epsilon
    shift = proven(QuadraticLoss.from_shift(small))
    wide = proven(QuadraticLoss.from_leverage(large / math.sqrt(50.0), 100))
    narrow = proven(QuadraticLoss.from_leverage(large, 2))
    return {
        "mean shifts": [shift],
        "sketches, 100 columns": [wide],
        "sketches, 2 columns": [narrow],
        "shifts and sketches": [shift, wide],
        "(epsilon, 0) without a loss": [Guarantee(small, 0.0, "add-remove", "proven")],
    }


def most(fits, top: int = 1 << 20) -> int:
    """The largest number of repetitions that fits."""
    low, high = 0, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def unused() -> None:
    print(
        "| budget | releases | plan | adaptive | used by adaptive | one order, known beforehand |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for epsilon, delta in BUDGETS:
        for name, unit in workloads(epsilon).items():
            print(f"| ({epsilon:g}, {delta:g}) | {name} | {compare(epsilon, delta, unit)} |")


def compare(epsilon: float, delta: float, unit: list[Guarantee]) -> str:
    """How often a unit can be repeated in each mode, and what adaptive modes use of epsilon."""
    limits = Filter.design(epsilon, delta)
    cost = sum(limits.cost(given) for given in unit)

    def total(times: int) -> Profile:
        return compose([(given, times) for given in unit], epsilon / 1024)

    def used(times: int) -> str:
        return f"{float(total(times).epsilon(delta)) / epsilon:.0%}"

    adaptive = most(lambda k: limits.admits(k * cost))
    planned = most(lambda k: meets(total(k), epsilon, delta), 16 * adaptive)
    single = most(lambda k: best_order(limits, k * cost, epsilon) <= math.log(delta))
    counts = f"{planned * len(unit)} | {adaptive * len(unit)}"
    return f"{counts} | {used(adaptive)} | {used(single)}"


def best_order(limits: Filter, totals: np.ndarray, epsilon: float) -> float:
    """Ln delta of the classical Renyi filter, had its one order been guessed right."""
    s = np.asarray(limits.orders)
    exponent = totals[:, :-2].max(axis=0) - s * epsilon + s * np.log(s) - (1 + s) * np.log1p(s)
    return float(exponent.min())


def milliseconds(action, times: int = 200) -> np.ndarray:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - start))
    return np.array(taken)


def speed(place: str, address: Path | str, folder: str, rows: int = 10_000) -> None:
    release = proven(QuadraticLoss.from_leverage(1e-5, 10))
    spent = []
    with Ledger.create(address, 1.0, 1e-6, "add-remove") as ledger:
        fill(ledger, release, rows)
        taken = {"spend": milliseconds(lambda: spent.append(ledger.spend(release, "x")))}
        taken["complete"] = milliseconds(lambda: ledger.complete(spent.pop(), "0" * 64))
        taken["would_allow"] = milliseconds(lambda: ledger.would_allow(release))
        taken["remaining"] = milliseconds(ledger.remaining, 5)
    taken["open"] = milliseconds(lambda: Ledger(address).close(), 5)
    with Ledger(address) as ledger:
        taken["verify"] = milliseconds(ledger.verify, 2)
    with open(Path(folder) / "raw", "wb", buffering=0) as raw:
        taken["a forced write of 4 kB alone"] = milliseconds(
            lambda: (raw.write(bytes(4096)), os.fsync(raw.fileno()))
        )
    for name, values in taken.items():
        print(f"| {name} | {place} | {np.median(values):.2f} | {np.quantile(values, 0.95):.2f} |")


def journals(folder: str) -> None:
    """A payment's two statements under each way of SQLite to make them durable."""
    settings = {
        "write-ahead log": ("WAL", "FULL", 1000),
        "write-ahead log, copied at once": ("WAL", "FULL", 1),
        "rollback journal, removed (ours)": ("DELETE", "EXTRA", 0),
        "rollback journal, emptied": ("TRUNCATE", "FULL", 0),
    }
    for name, (mode, forced, checkpoint) in settings.items():
        db = sqlite3.connect(Path(folder) / name, isolation_level=None)
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute(f"PRAGMA synchronous = {forced}")
        db.execute(f"PRAGMA wal_autocheckpoint = {checkpoint}")
        db.execute("CREATE TABLE events (body TEXT)")
        db.execute("CREATE TABLE state (number INTEGER PRIMARY KEY, body TEXT)")

        def pay(db: sqlite3.Connection = db) -> None:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO events VALUES (?)", ("x" * 1000,))
            db.execute("REPLACE INTO state VALUES (1, ?)", ("x" * 1500,))
            db.execute("COMMIT")

        taken = milliseconds(pay, 400)
        print(f"| {name} | {np.median(taken):.2f} | {np.quantile(taken, 0.95):.2f} |")
        db.close()


def long(rows: int = 100_000, losses: int = 10_000) -> None:
    """Processor time of long ledgers, and of long sums, the least of three."""
    release = proven(QuadraticLoss.from_leverage(1e-6, 10))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as at:
        address = Path(at) / "ledger"
        with Ledger.create(address, 1.0, 1e-6, "add-remove") as ledger:
            fill(ledger, release, rows)
        taken = {f"open {rows:,} rows": 1e3 * processor(lambda: Ledger(address).close())}
        with Ledger(address) as ledger:
            taken["verify a row"] = 1e3 * processor(ledger.verify) / rows
    rng = np.random.default_rng(0)
    shares, counts = rng.uniform(1e-4, 2e-4, losses), rng.integers(1, 50, losses)
    kinds = {
        "sketches": list(map(QuadraticLoss.from_leverage, shares, counts.tolist())),
        "mean shifts": list(map(QuadraticLoss.from_shift, shares)),
    }
    kinds["guarantees both ways"] = list(map(Profile.both, kinds["sketches"]))
    for name, each in kinds.items():
        taken[f"{losses:,} {name} added up by +"] = 1e3 * processor(lambda s=each: reduce(add, s))
    for name, value in taken.items():
        print(f"| {name} | {value:.3g} |", flush=True)


def processor(action) -> float:
    """The least processor time of three, in seconds."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return min(taken)


def every() -> None:
    """The tables that take minutes."""
    unused()
    print("\n| milliseconds, 10,000 rows | place | median | 95% |\n| --- | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        speed("on disk", Path(folder) / "ledger", folder)
    if Path("/dev/shm").exists():
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            speed("in memory", Path(folder) / "ledger", folder)
    if shutil.which("initdb") and find_spec("psycopg"):
        server = Server()
        speed("on a PostgreSQL server", server.url, tempfile.gettempdir())
        server.close()
    print("\n| milliseconds a commit | median | 95% |\n| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        journals(folder)


if __name__ == "__main__":
    if "--long" not in sys.argv:
        every()
    print("\n| milliseconds of processor time | |\n| --- | ---: |")
    long()
