"""The speed that the engine promises, as ratios to scipy within one run.

    python benchmarks/bench_speed.py

Rivals take turns and each keeps its best processor time, so neighbours on the machine do not count.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import numpy as np
from mpmath import mp, mpf
from scipy.special import gammaincc
from scipy.stats import chi2
from timing import best_times

from ndis.loss import QuadraticLoss
from oracles import projection_delta

SCALAR_LIMIT = 10.0
BATCH_LIMIT = 20.0
BATCH = 500_000


def repeated(job: Callable[[], object], times: int = 50) -> Callable[[], None]:
    """A job long enough for the processor's clock."""

    def run() -> None:
        for _ in range(times):
            job()

    return run


def two_chi2_calls() -> None:
    chi2.sf(30.0, 10)
    chi2.sf(33.0, 10)


def scalar_ratios() -> dict[str, float]:
    """One delta of losses of d <= 20 directions, against two calls of scipy.stats.chi2.sf."""
    rng = np.random.default_rng(0)
    losses = {
        "mean shift 1": (QuadraticLoss.from_shift(1.0), 4.0),
        "projection p = 0.1, r = 10": (QuadraticLoss.from_leverage(0.1, 10), 2.0),
    }
    for d in (2, 5, 10, 20):
        log_ratios = rng.uniform(0.1, 0.5, d) * np.where(np.arange(d) % 2, -1, 1)
        shifts = rng.uniform(0.0, 0.3, d)
        losses[f"indefinite, d = {d}"] = (QuadraticLoss.from_log_ratios(log_ratios, shifts), 4.0)
    rivals = {"scipy": repeated(two_chi2_calls)} | {
        name: repeated(lambda loss=loss, eps=eps: loss.delta(eps))
        for name, (loss, eps) in losses.items()
    }
    best = best_times(rivals, rounds=12)
    return {name: best[name] / best["scipy"] for name in losses}


def batch_ratio(components: int, eps: float = 1.0) -> tuple[float, float]:
    """500,000 leverages at one epsilon against two gammaincc calls; and the worst relative error.

    The error is that of every 10,000th leverage, against the oracle's closed form.
    """
    leverages = np.random.default_rng(1).uniform(0.001, 0.2, BATCH)
    x = (2 * eps - components * np.log1p(-leverages)) / leverages / 2
    near, half = (1 - leverages) * x, components / 2

    def closed_form() -> tuple[np.ndarray, np.ndarray]:
        return gammaincc(half, near), gammaincc(half, x)

    def ours() -> np.ndarray:
        return QuadraticLoss.from_leverage(leverages, components).delta(eps)

    best = best_times({"scipy": closed_form, "ndis": ours}, rounds=2)
    found = ours()
    errors = []
    with mp.workdps(40):
        for i in range(0, BATCH, 10_000):
            truth = projection_delta(leverages[i], components, eps, digits=25).value
            errors.append(float(abs(mpf(found[i]) / truth - 1)))
    return best["ndis"] / best["scipy"], max(errors)


def main() -> None:
    print(f"one scalar delta / two scipy.stats.chi2.sf calls (at most {SCALAR_LIMIT:g})")
    for name, ratio in scalar_ratios().items():
        print(f"  {name:32s} {ratio:6.2f}{'' if ratio <= SCALAR_LIMIT else '   TOO SLOW'}")
    print(f"{BATCH:,} leverages at one epsilon / two gammaincc calls (at most {BATCH_LIMIT:g})")
    for components in (1, 10, 100, 1300):
        ratio, error = batch_ratio(components)
        print(
            f"  r = {components:<28d} {ratio:6.2f}{'' if ratio <= BATCH_LIMIT else '   TOO SLOW'}"
            f"   worst relative error of delta {error:.1e}"
        )


if __name__ == "__main__":
    main()
