"""Processor time of every experiment of `ndis reproduce`, for the times that it announces.

Usage: OMP_NUM_THREADS=1 python benchmarks/bench_reproduce.py [NAME ...] [--how usual quick full]

Each experiment runs in a process of its own on the data at hand. The record keeps processor
minutes, with those of children: a busy machine changes them little.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from ndis_papers.reproduce import EXPERIMENTS

RECORD = Path(__file__).parent.parent / "papers/tests/times.json"
PROGRAM = (
    "import sys; from ndis_papers.reproduce import reproduce; name, folder, how = sys.argv[1:]; "
    "list(reproduce([name], folder, again=True, **({} if how == 'usual' else {how: True})))"
)


def processor_minutes(name: str, how: str, folder: str) -> float:
    """Minutes of one run, in its own process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", PROGRAM, name, folder, how], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60


def main() -> None:
    """Run what was named, or all; keep the rest of the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--how", nargs="+", default=["usual", "quick"])
    parser.add_argument("--out", help="where tables and figures are kept")
    asked = parser.parse_args()
    for name in asked.names:
        for how in asked.how:
            with tempfile.TemporaryDirectory() as folder:
                minutes = processor_minutes(name, how, asked.out or folder)
            print(f"{name}, {how}: {minutes:.3f} min", flush=True)
            record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
            record.setdefault(name, {})[how] = round(minutes, 3)
            RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
