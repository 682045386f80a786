"""What a pass of private least squares costs beside numpy's products on the same blocks.

    python benchmarks/bench_pass.py

Processor time on blocks of 4096 rows that are on the grid already, one thread, the least of five.
Products are those a gradient needs: rows with eight directions, the centre and the coefficients,
squared norms, and residuals with rows. Beside the first pass stands a Gram matrix.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ndis.mechanisms.regression_methods.descent import n_cuts
from ndis.tables.blocks import Block
from ndis.tables.sums import CutMoments, Pull, PullSum


def spent(function: Callable[[Block], Any], blocks: list[Block]) -> float:
    """Microseconds a block."""
    times = []
    for _ in range(5):
        start = time.process_time()
        for block in blocks:
            function(block)
        times.append((time.process_time() - start) / len(blocks) * 1e6)
    return min(times)


def line(d: int) -> Iterable[float]:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (20, d, 4096)) * 2.0**20 / np.sqrt(d)
    labels = np.rint(rng.uniform(-1, 1, (1, 4096)) * 2.0**20)
    blocks = [Block(np.rint(part), labels) for part in rows]
    k = min(d, 8) + 2
    vectors = np.rint(rng.standard_normal((d, k)) * 2.0**30 / np.sqrt(d))
    pull = Pull(vectors, 2.0**-52, np.full(2, 2.0**-52), np.zeros(2), 1.0, 1.0, 1e-9)

    def products(block: Block) -> Any:
        return block.times(vectors), block.squares(), block.combine(labels)

    yield from (spent(products, blocks), spent(PullSum(pull, (0.1,), 2.0**18), blocks))
    first = CutMoments(n_cuts(d))
    yield from (spent(Block.gram, blocks), spent(first, blocks))


def main() -> None:
    print("| columns | products | gradient | ratio | Gram matrix | first pass | ratio |")
    print("| --- " * 7 + "|")
    with threadpool_limits(1):
        for d in (10, 50, 200):
            products, gradient, gram, first = line(d)
            figures = (products, gradient, gradient / products, gram, first, first / gram)
            shown = " | ".join(f"{figure:.3g}" for figure in figures)
            print(f"| {d} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
