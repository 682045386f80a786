"""Private projections: the figures that issue 5 asks for, each computed in one run.

``--figure FILE`` draws the leverage thresholds as well.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from flights import correlation, distance_ratio, flights, published_correlation
from ndis import PrivateProjection
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.projection_methods import (
    METHODS,
    ProposeTestRelease,
    Ridge,
    Task,
    least_ratio,
    lsv_ratio,
)
from ndis.tables import read_gram, row_leverages

FLIGHT = (1.0, 1 / 327_346, 1269)


def noise() -> None:
    exact = least_ratio(*FLIGHT)
    print("sigma / data_norm at epsilon=1, delta=1/327346, r=1269")
    print(f"  exact                  {exact:8.4f}")
    print(f"  published rule         {math.hypot(1.0, exact):8.4f}")
    print(f"  least singular value   {lsv_ratio(*FLIGHT):8.4f}")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def release() -> None:
    r = 1315
    table = np.random.default_rng(0).standard_normal((515_345, 91))
    mechanism = PrivateProjection(epsilon=1.0, delta=1 / 515_345, data_norm=9.0, n_components=r)

    def by_blocks() -> object:
        rng, total = np.random.default_rng(0), np.zeros((91, r))
        for start in range(0, len(table), 4096):
            block = table[start : start + 4096]
            total += block.T @ rng.standard_normal((len(block), r))
        return total

    mechanism.fit(table[:1000])  # imports and pages
    rounds = [
        (timed(lambda: table.T @ table), timed(lambda: mechanism.fit(table))) for _ in range(7)
    ]
    bare, ours = (min(times) for times in zip(*rounds, strict=True))
    blocks = timed(by_blocks)
    print("release of 515,345 x 91 with r = 1315, calibration included")
    print(f"  X.T @ X                {bare:8.3f} s")
    print(f"  PrivateProjection.fit  {ours:8.3f} s, {ours / bare:.2f} times (limit 3)")
    print(f"  drawing G in blocks    {blocks:8.3f} s, {blocks / ours:.0f} times ours (at least 25)")


def flight_tables() -> None:
    table = flights()
    norm = float(np.linalg.norm(table, axis=1).max())
    gram, r = read_gram(table, norm).matrix, FLIGHT[2]
    print(f"flights: {len(table)} rows, largest row norm {norm:.4f}, 100 sketches each")
    print("  method               sigma     PDR   DPR published   DPR true")
    for name, r_noise in (("ridge", r), ("lsv", r), ("relative", r), ("mutual-information", 1200)):
        task = Task(1.0, 1 / len(table), norm, r_noise, 1.0, "best")
        rng = np.random.default_rng(0)
        ridge = METHODS[name](task).study(table, read_gram(table, norm))(rng)
        sketches = [draw_sketch(gram, ridge, r, rng) for _ in range(100)]
        means = [
            np.mean([measure(sketch, gram) for sketch in sketches])
            for measure in (distance_ratio, published_correlation, correlation)
        ]
        print(
            f"  {name:18} {math.sqrt(ridge):7.3f} {means[0]:7.3f} {means[1]:15.3f} {means[2]:10.3f}"
        )
    leverage = float(row_leverages(table, read_gram(table, norm)).max())
    relative = PrivateProjection(
        epsilon=1.0, delta=1 / len(table), data_norm=norm, n_components=r, method="relative"
    ).fit(table)
    print(f"  largest leverage {leverage:.5f}, inherent delta {relative.inherent_delta_:.2e}")


def thresholds(figure: str | None) -> None:
    epsilons = np.geomspace(0.05, 30.0, 25)
    curves = {
        r: [
            lsv_ratio(eps, 1e-6, r) ** 2 / (1.0 + least_ratio(eps, 1e-6, r) ** 2)
            for eps in epsilons.tolist()
        ]
        for r in (1, 10, 100, 1000, 10_000)
    }
    print("largest allowed leverage over that of LSV (delta = 1e-6, epsilon 0.05 to 30)")
    for r, ratios in curves.items():
        print(f"  r = {r:6}: {min(ratios):6.2f} to {max(ratios):6.2f} (must exceed 1)")
    if figure is not None:
        from ndis import plots

        with plots.style():
            picture, axes = plots.figure()
            for r, ratios in curves.items():
                axes.semilogx(epsilons, ratios, label=f"r = {r}")
            axes.set_xlabel("epsilon")
            axes.set_ylabel("allowed leverage, exact over LSV")
            axes.set_ylim(0)
            axes.axhline(1.0, color="black", linewidth=1.0)
            picture.legend(loc="outside upper left", ncols=5)
            picture.savefig(figure)


def propose_test_release() -> None:
    task = Task(*FLIGHT[:2], 1.0, FLIGHT[2], 1.0, "best")
    best, ridge = ProposeTestRelease(task), Ridge(task)
    published = ProposeTestRelease(Task(*FLIGHT[:2], 1.0, FLIGHT[2], 1.0, "published"))
    print("ptr against ridge, in units of data_norm^2, same epsilon, delta and r")
    print(f"  ridge                  {ridge.noise_scale**2:8.2f}")
    for name, method in (("ptr", best), ("ptr, published split", published)):
        slack = method.test_ratio * method.quantile
        print(
            f"  {name:22} {method.needed - 1:8.2f} if the test says nothing; less than ridge once "
            f"lambda_min > {method.needed - ridge.noise_scale**2 + slack:.1f}, "
            f"none once > {method.needed + slack:.1f} (test noise at 0)"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", help="where to draw the leverage thresholds")
    arguments = parser.parse_args()
    noise()
    release()
    flight_tables()
    thresholds(arguments.figure)
    propose_test_release()
