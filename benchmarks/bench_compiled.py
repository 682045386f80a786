"""What compiled code would gain: the gradient of private least squares by numba and by numpy.

    python -m venv /tmp/compiled && /tmp/compiled/bin/pip install numba
    /tmp/compiled/bin/python benchmarks/bench_compiled.py

Rows are 1,000,000 x 10 as they are kept, in blocks of 4088; both sides give the same integers.
Processor time, one thread, the two take turns, the least of seven. ndis does not need numba.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from timing import best_times

BLOCKS, ROWS, COLUMNS = 245, 4088, 10
BELOW, GRID, CLIP, UNIT, FACTOR = 1.0 - 2.0**-40, 2.0**20, 0.1, 2.0**18, 2.0**-52


@njit
def compiled(rows, labels, lengths, slopes):
    d, n = rows.shape
    predicted, weights = np.zeros(n), np.empty(n, np.int64)
    for i in range(d):
        for j in range(n):
            predicted[j] += slopes[i] * rows[i, j]
    for j in range(n):
        left = labels[j] * 2.0**-20 - predicted[j] * FACTOR
        room = min(UNIT * BELOW / lengths[j] * CLIP, GRID * BELOW) - 0.5
        room = min(max(room * (1.0 / (abs(left) + 1e-300)), 0.0), UNIT)
        weights[j] = np.int64(np.rint(left * room))
    total = np.zeros(d + 1, np.int64)
    for i in range(d):
        for j in range(n):
            total[i] += rows[i, j] * weights[j]
    total[d] = weights.sum()
    return total


doubles = np.empty((COLUMNS, ROWS))


def by_numpy(rows, labels, lengths, slopes):
    np.copyto(doubles, rows)
    left = labels * 2.0**-20
    left -= (slopes @ doubles) * FACTOR
    room = np.minimum(UNIT * BELOW / lengths * CLIP, GRID * BELOW)
    room -= 0.5
    room *= 1.0 / (np.abs(left) + 1e-300)
    weights = np.rint(left * np.minimum(np.maximum(room, 0.0), UNIT))
    return np.append(doubles @ weights, weights.sum())


def main() -> None:
    rng = np.random.default_rng(0)
    blocks = [
        (
            rng.integers(-300_000, 300_000, (COLUMNS, ROWS)).astype(np.int32),
            rng.integers(-1_000_000, 1_000_000, ROWS).astype(np.int32),
            rng.uniform(0.1, 1.1, ROWS),
        )
        for _ in range(BLOCKS)
    ]
    slopes = np.rint(rng.standard_normal(COLUMNS) * 2.0**30)
    began = time.process_time()
    compiled(*blocks[0], slopes)
    print(f"compiling: {time.process_time() - began:.1f} s")
    assert all(np.array_equal(compiled(*b, slopes), by_numpy(*b, slopes)) for b in blocks)
    rivals = {
        "numba": lambda: [compiled(*block, slopes) for block in blocks],
        "numpy": lambda: [by_numpy(*block, slopes) for block in blocks],
    }
    for name, seconds in best_times(rivals, 7).items():
        print(f"{name}: {seconds * 1e3:.1f} ms for a gradient")


if __name__ == "__main__":
    main()
