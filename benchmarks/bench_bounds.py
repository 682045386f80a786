"""Processor time of a delta, of a batch of deltas and of proven bounds, beside scipy's functions.

python benchmarks/bench_bounds.py
"""

import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import gammaincc
from scipy.stats import chi2

from ndis import Gaussian, QuadraticLoss, privacy_loss
from ndis.gaussian import log_delta_bounds

LEVERAGES = 500_000


def seconds(function: Callable[[], object], repeats: int, rounds: int = 5) -> float:
    """The least processor time of a call over a few rounds."""
    function()
    times = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(repeats):
            function()
        times.append((time.process_time() - started) / repeats)
    return min(times)


def pair(d: int) -> tuple[Gaussian, Gaussian]:
    rng = np.random.default_rng(d)
    a, b = rng.standard_normal((2, 2 * d, d))
    c = a + 0.2 * b
    return Gaussian(rng.standard_normal(d) / 2, a.T @ a), Gaussian(np.zeros(d), c.T @ c)


def main() -> None:
    two_tails = seconds(lambda: (chi2.sf(3.0, 5), chi2.sf(4.0, 5)), 200)
    print("One delta against two calls of scipy.stats.chi2.sf (at most 10 times):")
    for d in (1, 5, 20):
        loss = privacy_loss(*pair(d))
        eps = float(loss.epsilon(1e-6))
        ours = seconds(lambda loss=loss, eps=eps: loss.delta(eps), 50)
        print(f"  d = {d:3d}   {1e6 * ours:6.0f} us   {ours / two_tails:5.1f} times")
    print(f"{LEVERAGES} leverages against two calls of gammaincc (at most 20 times):")
    p = np.random.default_rng(0).uniform(1e-4, 0.3, LEVERAGES)
    for r in (10, 100, 1269):
        x = (2.0 - r * np.log1p(-p)) / p
        theirs = seconds(
            lambda r=r, x=x: (gammaincc(r / 2, (1 - p) * x / 2), gammaincc(r / 2, x / 2)), 1, 3
        )
        loss = QuadraticLoss.from_leverage(p, r)
        ours = seconds(lambda loss=loss: loss.log_delta(1.0), 1, 2)
        print(f"  r = {r:4d}   {ours:5.2f} s   {ours / theirs:5.1f} times")
    print("Proven bounds at delta = 1e-6 and 1e-100 (at most 0.1 s at d = 20, 0.5 s at d = 100):")
    for d in (5, 20, 100):
        P, Q = pair(d)
        loss = privacy_loss(P, Q)
        for target in (1e-6, 1e-100):
            eps = float(loss.epsilon(target))
            stored = seconds(lambda loss=loss, eps=eps: loss.log_delta_bounds(eps), 1, 3)
            matrices = seconds(lambda P=P, Q=Q, eps=eps: log_delta_bounds(P, Q, eps), 1, 1)
            print(f"  d = {d:3d}   {target:g}   {stored:6.3f} s   from matrices {matrices:6.3f} s")


if __name__ == "__main__":
    main()
