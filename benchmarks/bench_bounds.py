"""Processor time of proven bounds, from stored numbers and from matrices.

python benchmarks/bench_bounds.py
"""

import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ndis import Gaussian, privacy_loss
from ndis.gaussian import log_delta_bounds


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
