"""Tables that change between two readings, for every estimator: does a release mix them?

    python benchmarks/check_changed.py --n 1000

See tests/helpers/attacks/changes.py. A table is changed after each of its readings in turn.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

from attacks import changes

TELL_EVERY = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="tables")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    wanted = parser.parse_args()
    started, outcomes, refused, cases = time.monotonic(), Counter(), Counter(), set()
    for seed in range(wanted.first, wanted.first + wanted.n):
        drawn = changes.check(seed)
        outcomes.update(drawn.outcomes)
        refused[drawn.error] += bool(drawn.error)
        if drawn.outcomes:
            cases.add((drawn.case, drawn.people))
        if changes.MIXED in drawn.outcomes:
            print(f"table {seed}: {drawn}", flush=True)
        if (seed + 1) % TELL_EVERY == 0:
            print(f"{seed + 1}: {dict(outcomes)}", flush=True)
    print(f"{wanted.n:,} tables, of which {sum(refused.values())} were refused by parameters")
    print(f"{len(cases)} pairs of estimator and whom it protects that read a table twice or more")
    print(", ".join(f"{outcome} {n}" for outcome, n in sorted(outcomes.items())))
    print(f"{time.monotonic() - started:.0f} s")
    if outcomes[changes.MIXED]:
        raise SystemExit(f"{outcomes[changes.MIXED]} releases of two tables")


if __name__ == "__main__":
    main()
