"""Processor time of every experiment of `ndis reproduce`, for the times that it announces.

Usage: OMP_NUM_THREADS=1 python benchmarks/bench_reproduce.py [NAME ...]

Each experiment runs in a process of its own, usual and quick (and, with --full, at the paper's
scale), on the data at hand. The record keeps processor minutes, with those of children: a busy
machine does not change them.
"""

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
    "list(reproduce([name], folder, **({how: True} if how else {})))"
)


def processor_minutes(name: str, how: str) -> float:
    """Minutes of one run, in its own process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", PROGRAM, name, folder, how], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60


def main(words: list[str]) -> None:
    """Run what was named, or all; keep the rest of the record."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in [word for word in words if word != "--full"] or list(EXPERIMENTS):
        full = "--full" in words and EXPERIMENTS[name].full_minutes is not None
        for how in ("full",) if full else ("", "quick"):
            record.setdefault(name, {})[how or "usual"] = round(processor_minutes(name, how), 3)
            print(name, record[name], flush=True)
            RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
