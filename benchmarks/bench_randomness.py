"""Speed of the secure generator, of exact noise and of signs, as ratios within one run.

    python benchmarks/bench_randomness.py

Rivals take turns and each keeps its best processor time, on one core. Wall time would measure the
neighbours as well: on a machine with more work than cores, twelve repetitions gave ratios of
normals from 0.70 to 1.25 by the wall clock, and 0.94 every time by the processor's.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


import numpy as np
from timing import best_times

from ndis.randomness import (
    add_laplace_noise,
    add_noise,
    draw_sketch,
    generator,
    sign_product,
    signs,
)


def normals(size: int) -> float:
    """Return the speed of secure normals as a multiple of the speed of PCG64's."""
    block = np.empty(size)
    secure, plain = generator(), np.random.Generator(np.random.PCG64(0))
    best = best_times(
        {
            "secure": lambda: secure.standard_normal(out=block),
            "pcg64": lambda: plain.standard_normal(out=block),
        },
        rounds=9,
    )
    return best["pcg64"] / best["secure"]


def exact_noise(size: int) -> dict[str, float]:
    """Return the time of exact, correctly rounded noise as a multiple of numpy's normals."""
    values, rng = np.arange(size) / 7.0, generator()
    best = best_times(
        {
            "normal": lambda: add_noise(values, 1.3, rng),
            "laplace": lambda: add_laplace_noise(values, 1.3, rng),
            "numpy": lambda: rng.standard_normal(size),
        },
        rounds=5,
    )
    return {name: best[name] / best["numpy"] for name in ("normal", "laplace")}


def exact_sketches(dimension: int, n_components: int) -> dict[str, float]:
    """Return the time of exact sketches as a multiple of: factorise, multiply by normals."""
    rows = np.random.default_rng(0).standard_normal((2 * dimension, dimension))
    gram, rng = np.rint(1e6 * rows.T @ rows), generator()

    def plain() -> None:
        factor = np.linalg.cholesky(gram + 1e7 * np.eye(dimension))
        factor @ rng.standard_normal((dimension, n_components))

    best = best_times(
        {"exact": lambda: draw_sketch(gram, 1e7, n_components, rng), "plain": plain}, rounds=3
    )
    return best


def sign_products(n_rows: int, n_features: int, n_components: int) -> float:
    """Return the time of `sign_product` as a multiple of: make the signs, multiply ready ones."""
    data = np.random.Generator(np.random.PCG64(0)).standard_normal((n_rows, n_features))
    block = 2**18 // n_components
    ready = signs(1, 0, block, n_components).astype(np.float64)

    def make() -> None:
        for start in range(0, n_rows, block):
            signs(1, start, start + block, n_components)

    def multiply() -> None:
        total = np.zeros((n_features, n_components))
        for start in range(0, n_rows - block + 1, block):
            total += data[start : start + block].T @ ready

    best = best_times(
        {
            "make": make,
            "multiply": multiply,
            "product": lambda: sign_product(1, n_components, data),
        },
        rounds=3,
    )
    return best["product"] / (best["make"] + best["multiply"])


def main() -> None:
    """Print one line for each figure."""
    for size in (10**6, 10**7):
        print(f"secure normals, blocks of {size:>8}: {normals(size):.2f} x PCG64 (target >= 0.8)")
    for size in (10**5, 10**7):
        for name, ratio in exact_noise(size).items():
            print(f"exact {name} noise, {size:>8} numbers: {ratio:.1f} x normals (target <= 5)")
    for dimension, n_components in ((50, 1000), (200, 10_000), (1000, 1000)):
        times = exact_sketches(dimension, n_components)
        print(
            f"exact sketch, d = {dimension}, r = {n_components}: {times['exact']:.3f} s, "
            f"{times['exact'] / times['plain']:.1f} x factorise + multiply"
        )
    ratio = sign_products(n_rows=200_000, n_features=10, n_components=1000)
    print(f"sign_product, k = 1000, d = 10: {ratio:.2f} x make + multiply (target <= 1.5)")


if __name__ == "__main__":
    main()
