"""Private projections: noise, time, utility on flights, allowed leverages, the test of "ptr".

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
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))
from flights import correlation, distance_ratio, flights, published_correlation
from ndis import PrivateProjection
from ndis.calibration import noise_multiplier
from ndis.tables import GRID_NORM
from ndis_papers.methods.projection import Testing
from ndis_papers.sketches import (
    draw_sketch,
    least_ratio,
    leverages,
    lsv_ratio,
    mutual_information_ridge,
    relative_ridge,
)

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
        (timed(lambda: table.T @ table), timed(lambda: mechanism.fit(table))) for _ in range(3)
    ]
    bare, ours = (min(times) for times in zip(*rounds, strict=True))
    blocks = timed(by_blocks)
    print("release of 515,345 x 91 with r = 1315, calibration included")
    print(f"  X.T @ X                {bare:8.3f} s")
    print(f"  PrivateProjection.fit  {ours:8.3f} s, {ours / bare:.2f} times (limit 3)")
    print(f"  drawing G in blocks    {blocks:8.3f} s, {blocks / ours:.0f} times ours (at least 25)")


def flight_tables() -> None:
    table = flights()
    longest = float(np.linalg.norm(table, axis=1).max())
    gram, r, asked = table.T @ table, FLIGHT[2], (1.0, 1 / len(table), FLIGHT[2])
    without, inherent = relative_ridge(table, longest, *asked)
    ridges = {
        "ridge": (least_ratio(*asked) * longest) ** 2,
        "lsv": (lsv_ratio(*asked) * longest) ** 2,
        "relative": without,
        "mutual-information": mutual_information_ridge(table, 1.0, 1 / len(table), 1200),
    }
    print(f"flights: {len(table)} rows, largest row norm {longest:.4f}, 100 sketches each")
    print("  method               sigma     PDR   DPR published   DPR true")
    for name, ridge in ridges.items():
        rng = np.random.default_rng(0)
        sketches = [draw_sketch(gram, ridge, r, rng) for _ in range(100)]
        means = [
            np.mean([measure(sketch, gram) for sketch in sketches])
            for measure in (distance_ratio, published_correlation, correlation)
        ]
        print(
            f"  {name:18} {math.sqrt(ridge):7.3f} {means[0]:7.3f} {means[1]:15.3f} {means[2]:10.3f}"
        )
    largest = float(leverages(table).max())
    print(f"  largest leverage {largest:.5f}, inherent delta {inherent:.2e}")


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
    epsilon, delta, r = FLIGHT
    asked = {"epsilon": epsilon, "delta": delta, "data_norm": 1.0, "n_components": r}
    ridge = PrivateProjection(**asked).calibrate(3) ** 2
    tested = PrivateProjection(**asked, method="ptr")
    test = Testing(tested).test(tested.plan(3), tested._rows_declared(3))
    half, part = epsilon / 2, delta / 3
    published = 1.0 + least_ratio(half, part, r) ** 2
    rows = {
        "ptr": (test.needed / GRID_NORM**2, test.slack / GRID_NORM**2),
        "ptr, published split": (published, noise_multiplier(half, part) * norm.isf(part)),
    }
    print("ptr against ridge, in units of data_norm^2, same epsilon, delta and r")
    print(f"  ridge                  {ridge:8.2f}")
    for name, (needed, slack) in rows.items():
        print(
            f"  {name:22} {needed - 1:8.2f} if the test says nothing; less than ridge once "
            f"lambda_min > {needed - ridge + slack:.1f}, none once > {needed + slack:.1f} (test "
            "noise at 0)"
        )
    print("error of the Gram matrix, ridge over ptr (above 1: ptr is better), d = 10")
    for n_rows in (100, 1_000, 3_000, 10_000, 100_000):
        low, high = (
            method.forecast(10, n_rows=n_rows).errors["relative error of the Gram matrix"]
            for method in (PrivateProjection(**asked), tested)
        )
        ratios = [a / b for a, b in zip(low, high, strict=True)]
        print(f"  {n_rows:7} rows: {min(ratios):.2f} to {max(ratios):.2f}")


def declared() -> None:
    epsilon, delta, r = FLIGHT
    print("sigma / data_norm where no row of any table has a leverage above s")
    for leverage in (None, 0.1, 0.02, 0.01, 0.005):
        made = PrivateProjection(
            epsilon=epsilon, delta=delta, data_norm=1.0, n_components=r, leverage=leverage
        )
        print(f"  s = {leverage or 1.0:<6} {made.calibrate(3):8.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", help="where to draw the leverage thresholds")
    arguments = parser.parse_args()
    noise()
    release()
    flight_tables()
    thresholds(arguments.figure)
    propose_test_release()
    declared()
