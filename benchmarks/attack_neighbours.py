"""Every estimator on tables made to break it, and on their neighbours with the same noisy answers.

    python benchmarks/attack_neighbours.py [TABLES [FIRST_SEED [CASES]]]

CASES is part of the names of the cases to run. For each case (an estimator, one of its methods) and
each table: scales from 1e-150 to 1e150, duplicates, constant columns, denormals, one giant row;
every second one with limits that are to be found. attacks/replay.py of the tests says what is
compared: what is asked, released, certified and warned of must be the same for the table without
one row once it has been given the same noisy answers, and the exact sums that were asked for must
be as close as the promise says, rounding included. So nothing but those answers depends
on the row, and they come from functions of ndis.randomness that are exact: no value is possible
under one neighbour only.
"""

import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

import numpy as np

from attacks import replay, tables
from attacks.cases import OF_TABLES, make, private_limits


def attacked(case, n_tables: int, first_seed: int) -> str:
    promise = make(case).guarantee(case.size)
    if promise.basis == "relative":
        return "not run: tables outside the declared set are refused to their owner"
    moved, unknown = promise.relation.value == "row-shift", private_limits(case)
    worst, leaks, refused, started = 0.0, [], 0, time.perf_counter()
    own_law = False
    for seed in range(first_seed, first_seed + n_tables):
        pair = tables.hostile_like(case.data(), np.random.default_rng(seed), moved)
        given = unknown if seed % 2 else {}
        try:
            done = replay.compare(partial(make, case, **given), *pair)
        except replay.Leak as leak:
            leaks.append(f"seed {seed}: {str(leak)[:200]}")
            continue
        refused += bool(done.error)
        worst = max(worst, done.delta / promise.delta)
        own_law |= any(question.function == "draw_solution" for question in done.questions)
    largest = "delta not computed" if own_law else f"largest delta {worst:.3g} of the promised"
    found = f"{len(leaks)} leaks, {refused} refused, {largest}"
    lines = [f"{n_tables} tables, {found}, {time.perf_counter() - started:.0f} s", *leaks[:5]]
    return "\n    ".join(lines)


def main() -> None:
    n_tables = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    for case in OF_TABLES:
        if wanted in case.name:
            print(f"{case.name}: {attacked(case, n_tables, first_seed)}", flush=True)


if __name__ == "__main__":
    main()
