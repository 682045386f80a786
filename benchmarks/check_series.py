"""Attacks on the owner's file of a series: no period has two noises that nobody paid for.

    python benchmarks/check_series.py [SERIES]

Programs draw the periods of a series and are killed at any moment (SIGKILL), two at a time, from
one file and from copies of it; the file is put back as it was before, lost and begun anew. With a
ledger the tables of a period differ from program to program, as if rows came late; without one they
are the same. Whatever came out of any program is compared: releases with one first period are one
series, so they must agree in every period that both have, to the last bit, and there must not be
more series than the ledger was paid for.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from ndis import Ledger, PrivateSummary

N = 6
FORK = multiprocessing.get_context("fork")


def draw(folder: Path, state: str, period: int, paid: bool, salt: int, out) -> None:
    """What one program does; it tells what it has published."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([period, salt if paid else 0])
    table = pa.table({"ward": rng.choice(["A", "B"], 50), "cost": rng.uniform(0, 100, 50)})
    ledger = Ledger(folder / "book") if paid else None
    try:
        model = PrivateSummary(
            by=["ward"],
            levels={"ward": ["A", "B"]},
            limits={"cost": (0, 100)},
            epsilon=1.0,
            delta=1e-6,
            method="gaussian",
            continual=N,
            period=period,
            state=folder / state,
            ledger=ledger,
        ).fit(table)
        out.send(("out", model.release_.arrays["means"]))
    except Exception as error:
        out.send(("refused", f"{type(error).__name__}: {error}"[:60]))
    os._exit(0)


def together(folder: Path, jobs, paid: bool, rng, kill: bool) -> list[tuple[str, object]]:
    """Some programs at once, killed at any moment if `kill`; what they told."""
    running = []
    for state, period in jobs:
        here, there = FORK.Pipe(False)
        salt = int(rng.integers(2**31))
        worker = FORK.Process(target=draw, args=(folder, state, period, paid, salt, there))
        worker.start()
        there.close()
        running.append((worker, here))
    if kill:
        time.sleep(rng.uniform(0, 0.25))
        os.kill(running[0][0].pid, signal.SIGKILL)
    told = []
    for worker, here in running:
        try:
            told.append(here.recv())
        except EOFError:
            told.append(("killed", ""))
        worker.join()
    return told


def attack(seed: int, paid: bool) -> tuple[Counter, int, list[str]]:
    """One series, attacked twenty times; how often what happened, and what is wrong."""
    rng, seen, published, wrong = np.random.default_rng(seed), Counter(), [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if paid:
            Ledger.create(folder / "book", 100, 1e-3, "add-remove").close()
        period = 1
        for _ in range(20):
            deed = rng.choice(["draw", "killed", "two", "copies", "keep", "back", "lost"])
            if deed == "lost" and rng.random() < 0.7:
                deed = "killed"
            if deed == "keep" and (folder / "state").exists():
                shutil.copy(folder / "state", folder / "kept")
            elif deed == "back" and (folder / "kept").exists():
                shutil.copy(folder / "kept", folder / "state")
                (folder / "state-journal").unlink(missing_ok=True)
                period = max(period - int(rng.integers(0, 3)), 1)
            elif deed == "lost":
                (folder / "state").unlink(missing_ok=True)
                period = 1 if rng.random() < 0.7 else period
            jobs = [("state", period)] * (2 if deed == "two" else 1)
            if deed == "copies" and (folder / "state").exists():
                shutil.copy(folder / "state", folder / "copy")
                jobs = [("state", period), ("copy", period)]
            told = together(folder, jobs, paid, rng, kill=deed in ("killed", "back"))
            for kind, what in told:
                seen[kind] += 1
                if kind == "out":
                    published.append(what)
                    period = min(len(what) + 1, N)
                elif kind == "refused":
                    seen[what.partition(",")[0]] += 1
        series: dict[bytes, list[np.ndarray]] = {}
        for array in published:
            series.setdefault(array[0].tobytes(), []).append(array)
        for known in series.values():
            longest = max(known, key=len)
            if any(not np.array_equal(each, longest[: len(each)]) for each in known):
                wrong.append(f"seed {seed}: a period with two noises")
        if paid:
            with Ledger(folder / "book") as book:
                if len(series) > len(book.history()):
                    wrong.append(f"seed {seed}: more series than were paid for")
                book.verify()
    return seen, len(series), wrong


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for paid in (True, False):
        total, wrong, started = Counter(), [], 0
        for seed in range(n):
            seen, several, found = attack(seed, paid)
            total += seen
            started += several
            wrong += found
        print(f"{'with' if paid else 'without'} a ledger, {n} folders, {started} series: ", end="")
        print(", ".join(f"{k} {total.pop(k)}" for k in ("out", "refused", "killed")), flush=True)
        for kind, times in total.most_common():
            print(f"    {times:5} {kind}")
        print(f"    wrong: {wrong or 'nothing'}", flush=True)


if __name__ == "__main__":
    main()
