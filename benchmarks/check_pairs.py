"""Check the fast path against proven bounds, and calibrations for safety, on random pairs.

    python -m benchmarks.check_pairs --n 100000

Resumes where it stopped: .bench/check_pairs.json holds the count so far (remove it after a change
to the engine). Pair number i depends on i alone, so the figures are the same however
often the run is interrupted.
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

from ndis import QuadraticLoss
from ndis.calibration import least_noise
from pairs import random_epsilon, random_loss

RECORD = Path(__file__).resolve().parent.parent / ".bench" / "check_pairs.json"
SEED = 7
TOLERANCE = 1e-12  # relative, of delta down to e^-700 and of ln delta below
CALIBRATE_EVERY = 20


def outside(loss: QuadraticLoss, eps: float) -> float:
    """How far the fast value is outside the proven bounds, in units of the tolerance."""
    value = float(loss.log_delta(eps))
    low, high = loss.log_delta_bounds(eps)
    unit = TOLERANCE if value > -700 else -TOLERANCE * value
    if high - low > unit * 1.5:
        return math.inf
    return max(low - value, value - high, 0.0) / unit


def unsafe(loss: QuadraticLoss, rng: np.random.Generator) -> bool:
    """Whether the least noise for this shape of pair is not proven to meet what was asked."""

    def family(noise: float) -> QuadraticLoss:
        return QuadraticLoss(loss.excess / noise**2, loss.shift / noise**2, loss.count)

    eps, delta = float(rng.uniform(0.05, 8)), float(10 ** rng.uniform(-15, -1))
    noise = least_noise(family, eps, delta)
    _, high = family(noise).log_delta_bounds(eps)
    return not high <= math.log(delta)


def summary(record: dict[str, Any]) -> str:
    """The figures in a sentence."""
    return (
        f"{record['pairs']:,} pairs, {record['outside']} outside their proven bounds "
        f"(worst {record['worst']:.2g} x {TOLERANCE:g}); "
        f"{record['calibrations']:,} calibrations, {record['unsafe']} unsafe."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000, help="pairs in all")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    wanted = parser.parse_args()
    empty = {"pairs": 0, "outside": 0, "worst": 0.0, "calibrations": 0, "unsafe": 0, "failures": []}
    RECORD.parent.mkdir(exist_ok=True)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else empty
    started = time.monotonic()
    while record["pairs"] < wanted.n and time.monotonic() - started < wanted.seconds:
        i = record["pairs"]
        rng = np.random.default_rng([SEED, i])
        loss = random_loss(rng)
        eps = random_epsilon(loss, rng)
        distance = outside(loss, eps)
        record["worst"] = max(record["worst"], distance)
        if distance > 1:
            record["outside"] += 1
            record["failures"].append({"pair": i, "eps": eps.hex(), "loss": loss.to_dict()})
        if i % CALIBRATE_EVERY == 0:
            record["calibrations"] += 1
            record["unsafe"] += int(unsafe(loss, rng))
        record["pairs"] += 1
        if record["pairs"] % 1000 == 0:
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(summary(record))
    sys.exit(bool(record["outside"] or record["unsafe"]))


if __name__ == "__main__":
    main()
