"""Accuracy and cost of the additive mechanisms' calibrations, as tables in Markdown.

    python benchmarks/bench_additive.py

The analytic noise stands beside dp-accounting's and a 60-digit reference; then come the true delta
and the price of the published calibrations, and the time that the rank-one profile takes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from pathlib import Path

import mpmath as mp

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

from dp_accounting import gaussian_mechanism

from ndis.calibration import noise_multiplier
from ndis_papers import RadialLoss
from ndis_papers.rank_one import published_spread
from ndis_papers.reproduce import additive_tables
from oracles.noise import reference_multiplier

EPSILONS = (1e-3, 0.1, 1.0, 10.0, 50.0)
DELTAS = (0.1, 1e-5, 1e-10, 1e-50, 1e-100, 1e-300)


def excess(noise: float, least: mp.mpf) -> str:
    """Return the relative distance to the least noise; one below it is marked."""
    with mp.workdps(60):
        error = mp.mpf(noise) / least - 1
    return f"{float(error):+.0e}" + (" (below)" if error < 0 else "")


def peer(epsilon: float, delta: float) -> float | None:
    try:
        return float(gaussian_mechanism.get_sigma_gaussian(epsilon, delta))
    except (ValueError, ArithmeticError, RuntimeError):
        return None


def print_table(title: str, headings: list[str], rows: list[list[str]]) -> None:
    print(f"\n## {title}\n")
    for line in (headings, ["---"] * len(headings), *rows):
        print("| " + " | ".join(line) + " |")


def analytic() -> None:
    rows = []
    for delta in DELTAS:
        for epsilon in EPSILONS:
            least = reference_multiplier(epsilon, delta)
            began = time.process_time()
            ours = noise_multiplier(epsilon, delta)
            took = time.process_time() - began
            theirs = peer(epsilon, delta)
            rows.append(
                [
                    f"{epsilon:g}",
                    f"{delta:g}",
                    f"{ours:.8g}",
                    f"{excess(ours, least)} · {1e3 * took:.0f} ms",
                    "fails" if theirs is None else excess(theirs, least),
                ]
            )
    print_table(
        "Analytic noise against the 60-digit least noise",
        ["epsilon", "delta", "sigma/Delta", "ndis", "dp-accounting"],
        rows,
    )


def published() -> None:
    print_table(
        "Classic calibration (figure 7 of the paper of 2024)",
        ["epsilon", "delta", "true delta", "noise saved by the least"],
        [
            [
                f"{row['epsilon']:g}",
                f"{row['delta']:g}",
                f"{row['true_delta']:.3g}",
                f"{row['saved']:.1%}",
            ]
            for row in additive_tables.classic()
        ],
    )
    print_table(
        "Matrix-variate noise over the exact noise, epsilon = 1, delta = 1e-5",
        ["shape", "published", "appendix C"],
        [
            [
                " x ".join(map(str, row["shape"])),
                f"{row['published_over_exact']:.4g}",
                f"{row['appendix_c_over_exact']:.4g}",
            ]
            for row in additive_tables.matrix_variate()
        ],
    )


def rank_one() -> None:
    rows = []
    for dimension, epsilon, delta, _ in additive_tables.CLAIMS:
        loss = RadialLoss(dimension, published_spread(dimension, epsilon, delta))
        began = time.process_time()
        low, high = loss.delta_bounds(epsilon)
        took = time.process_time() - began
        rows.append(
            [
                f"{dimension:,}",
                f"({epsilon:g}, {delta:g})",
                f"{low:.10g}",
                f"{high / low - 1:.0e}",
                f"{1e3 * took:.0f} ms",
            ]
        )
    print_table(
        "True delta of the rank-one mechanism's claims, enclosed",
        ["M", "claimed", "true delta", "relative width", "time"],
        rows,
    )


if __name__ == "__main__":
    analytic()
    published()
    rank_one()
