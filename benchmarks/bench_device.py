"""Sums of a table that is in a graphics card's memory, beside bare products of the same run.

Needs torch with a CUDA device. Prints, for each size, the time of the second moments as every
estimator asks for them (rows put on the grid, bounded, multiplied and added up exactly), that of
torch's own product of the same doubles, and whether the processor gets the same bits.

    python benchmarks/bench_device.py
"""

import argparse
import sys
import time

import numpy as np

from ndis.tables import Columns, Rows, Table

SIZES = ((2_000_000, 1024), (1_000_000, 4096))
CHECKED = 20_000


def timed(torch, work, repeats: int = 3) -> float:
    """The least of some repetitions, in seconds."""
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def opened(source, d: int, boxed: bool) -> Table:
    table = Table.open(source)
    limits = dict.fromkeys(table.columns, (-4.0, 4.0)) if boxed else None
    norm = None if boxed else 2.0 * d**0.5
    return table.with_rows(Rows(Columns(table.columns, limits=limits, norm=norm)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    small = parser.parse_args().small
    try:
        import torch
    except ImportError:
        sys.exit("Expected torch with a CUDA device, got none; install it first.")
    if not torch.cuda.is_available():
        sys.exit("Expected a CUDA device, got none.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, numpy {np.__version__}")
    for n, d in ((n // 20, d) for n, d in SIZES) if small else SIZES:
        x = torch.randn(n, d, dtype=torch.float64, device="cuda")
        bare = timed(torch, lambda x=x: x.T @ x)
        print(f"{n:,} x {d}, float64: bare product {bare:.3f} s", flush=True)
        for boxed in (True, False):
            what = "limits" if boxed else "norm"
            opened(x[:CHECKED], d, boxed).sum(lambda block: {"gram": block.gram()})  # warm up
            ours = timed(
                torch,
                lambda x=x, b=boxed, d=d: opened(x, d, b).sum(lambda block: {"gram": block.gram()}),
                2,
            )
            here, there = (
                opened(part, d, boxed).sum(lambda block: {"gram": block.gram()})["gram"]
                for part in (x[:CHECKED], x[:CHECKED].cpu().numpy())
            )
            print(
                f"  {what}: exact Gram {ours:.3f} s, {ours / bare:.2f} times the bare product; "
                f"same bits as the processor: {here == there}",
                flush=True,
            )
        del x
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
