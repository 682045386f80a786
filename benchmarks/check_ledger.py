"""Kill processes that spend from one ledger: nothing is overspent, lost or counted twice.

    python benchmarks/check_ledger.py --processes 60 --kills 90

Once with a file and, where PostgreSQL and PgBouncer are installed, once with a server behind two
connection pools. What is compared afterwards stands in tests/helpers/ledger_workers.py.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import pytest

import ledger_workers
from ndis import Ledger
from postgresql_server import Server


@contextmanager
def file(folder: Path) -> Iterator[list[Any]]:
    yield [folder / "ledger"]


@contextmanager
def server(folder: Path) -> Iterator[list[Any]]:
    running = Server()
    try:
        yield [running.url, running.pool(), running.pool()]
    finally:
        running.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=60, help="that spend at the same time")
    parser.add_argument("--kills", type=int, default=90, help="in the midst of payments")
    wanted = parser.parse_args()
    print(f"{wanted.processes} processes, {wanted.kills} kills")
    for place in (file, server):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            try:
                with place(folder) as (home, *doors):
                    budget = ledger_workers.EPSILON, ledger_workers.DELTA
                    with Ledger.create(home, *budget, "add-remove") as ledger:
                        ledger_workers.run(
                            folder, wanted.kills, *(doors or [home]), processes=wanted.processes
                        )
                        ledger_workers.check(folder, ledger, wanted.kills, wanted.processes)
                        releases = len(ledger.history())
            except pytest.skip.Exception as reason:
                print(f"{place.__name__}: not run ({reason})")
                continue
        print(
            f"{place.__name__}: {releases} releases, the budget is spent and kept, every note of a "
            f"process is in the ledger once; {time.monotonic() - started:.0f} s"
        )


if __name__ == "__main__":
    main()
