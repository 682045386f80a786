"""1,000 configurations of covariance, principal components and graphs, none refuted.

    python benchmarks/check_moments.py [N]

Each twin, sold for twice the epsilon and a hundred times the delta, is counted as refuted or not.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

from moment_audits import FAMILIES, audited


def main(n: int) -> None:
    bad = 0
    for name in FAMILIES:
        sound = list(audited(name, n, seed=1))
        twins = [refuted for refuted, _ in audited(name, max(n // 10, 20), seed=2, weaker=True)]
        refuted = sum(was for was, _ in sound)
        bad += refuted
        above = max(height for _, height in sound)
        print(
            f"{name}: {refuted} of {len(sound)} refuted, the largest delta is "
            f"{np.exp(above):.4f} of its claim; {sum(twins)} of {len(twins)} twins refuted",
            flush=True,
        )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
