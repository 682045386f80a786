"""Check that epsilons of narrow pairs are safe, up to the end of their bounded losses; time some.

    python benchmarks/check_epsilon.py --n 10000

The truth is the oracle of the tests, by mpmath and another route (tests/helpers/narrow_pairs.py).
Pair number i depends on i alone, and the record is resumed where it stopped (remove it after a
change to the engine), so that the figures are the same however often the run is interrupted.
"""

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import numpy as np

from narrow_pairs import excess_of_delta, narrow_pair, share_of_end
from ndis import Gaussian, privacy_loss

RECORD = Path(__file__).resolve().parent / "records" / "check_epsilon.json"
EMPTY = {"pairs": 0, "unsafe": [], "loose": [], "within 1e-9 of the end": 0, "seconds": 0.0}


def one(record: dict[str, Any]) -> None:
    """Check the next pair: its epsilon is safe, and a billionth less is not enough."""
    number = record["pairs"]
    pair = narrow_pair(number)
    started = time.process_time()
    epsilon = float(pair.loss.epsilon(pair.delta))
    record["seconds"] += time.process_time() - started
    if excess_of_delta(pair, epsilon) > 0.0:
        record["unsafe"].append(number)
    if number % 10 == 0 and epsilon > 0.0 and excess_of_delta(pair, epsilon * (1 - 1e-9)) <= 0.0:
        record["loose"].append(number)
    record["within 1e-9 of the end"] += abs(share_of_end(pair, epsilon)) < 1e-9
    record["pairs"] += 1


def dense(d: int) -> tuple[float, float, float]:
    """Processor seconds of making the loss of a dense pair, of a delta and of an epsilon."""
    rng = np.random.default_rng(d)
    a = rng.standard_normal((2 * d, d))
    b = a + 0.02 * rng.standard_normal((2 * d, d))
    mean = 0.01 * rng.standard_normal(d)
    P, Q = Gaussian(np.zeros(d), a.T @ a / d), Gaussian(mean, b.T @ b / d)
    moments = [time.process_time()]
    loss = privacy_loss(P, Q)
    for question in (lambda: loss.delta(1.0), lambda: loss.epsilon(1e-6)):
        moments.append(time.process_time())
        question()
    moments.append(time.process_time())
    made, delta, epsilon = np.diff(moments)
    return made, delta, epsilon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="pairs in all")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    wanted = parser.parse_args()
    dense(20)  # what is loaded and compiled once
    for d in (10, 100, 500):
        made, delta, epsilon = dense(d)
        print(f"d = {d}: loss {made:.3f} s, delta {delta:.4f} s, epsilon {epsilon:.3f} s")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else dict(EMPTY)
    started = time.monotonic()
    while record["pairs"] < wanted.n and time.monotonic() - started < wanted.seconds:
        one(record)
        if record["pairs"] % 100 == 0:
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(
        f"{record['pairs']:,} narrow pairs, {len(record['unsafe'])} unsafe, {len(record['loose'])} "
        f"loose; {record['within 1e-9 of the end']:,} within 1e-9 of the end; "
        f"{1e3 * record['seconds'] / max(record['pairs'], 1):.0f} ms an epsilon"
    )


if __name__ == "__main__":
    main()
