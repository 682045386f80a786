"""Check losses of dense covariances against the matrices as given, on pairs hard for doubles.

    python benchmarks/check_dense.py --n 1000

Thin directions, kernels with nuggets, maps of condition 1e7, low rank, exact and rounded. For each
pair `delta` must lie inside `delta_bounds`, and so must the truth, which mpmath computes from the
exact values of the doubles; or the pair is refused.
"""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))


from dense_pairs import KINDS, outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    n = parser.parse_args().n
    found: Counter[tuple[str, str]] = Counter()
    for number in range(n):
        found[result := outcome(number)] += 1
        if result[1].startswith("wrong"):
            print(number, *result, flush=True)
    print(f"{n} pairs, by kind:")
    for kind in KINDS:
        row = [f"{word} {k}" for (of, word), k in sorted(found.items()) if of == kind]
        print(f"{kind:10s} " + ", ".join(row))
    if any(word.startswith("wrong") for _, word in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
