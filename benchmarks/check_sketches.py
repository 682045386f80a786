"""Sketches under attack: ``python benchmarks/check_sketches.py [TABLES]``, seeded.

* declared sets: random tables, the set of a table and all its one-row removals; every table of it
  gets the same noise, and no pair of laws, computed with explicit matrices, breaks the claim;
* rounding: adversarial tables; the law that is drawn from has the noise that is stated, and what
  is drawn has that law, in every direction that the table leaves to the noise;
* low bits: 20,000 releases of two neighbours; all on the public grid, low bits of both uniform.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import linalg, stats

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

from laws import output_law
from ndis import PrivateProjection, QuadraticLoss
from ndis.mechanisms import Target
from ndis.randomness import generator, grid_spacing
from ndis.tables import GRID_NORM, Columns, Rows, Table
from ndis_papers.methods.regression import GaussianLimit

CLAIM = {"epsilon": 1.0, "delta": 1e-5}
DRAWS = 20_000


def largest_leverage(rows: np.ndarray) -> float:
    return float(np.max(np.sum((rows @ np.linalg.pinv(rows.T @ rows)) * rows, axis=1)))


def declared_sets(n_tables: int) -> None:
    worst, sets, tables = 0.0, 0, 0
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        d, r = int(rng.integers(1, 5)), int(rng.integers(1, 50))
        rows = rng.standard_normal((int(rng.integers(d + 4, 40)), d)) * 10.0 ** rng.uniform(
            -2, 0, d
        )
        rows /= np.linalg.norm(rows, axis=1).max()
        smaller = [np.delete(rows, i, axis=0) for i in range(len(rows))]
        leverage = 1.001 * max(map(largest_leverage, smaller))
        if leverage >= 0.95:
            continue
        made = PrivateProjection(
            **CLAIM, data_norm=1.0, n_components=r, leverage=leverage, max_rows=1000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            noises = {made.fit(table).noise_scale_ for table in (rows, *smaller[:2])}
        assert noises == {made.calibrate(d)}
        present = made.noise_scale_**2 * np.eye(d) + rows.T @ rows
        for table in smaller:
            absent = made.noise_scale_**2 * np.eye(d) + table.T @ table
            p = 1.0 - float(linalg.eigh(absent, present, eigvals_only=True)[0])
            loss = QuadraticLoss.from_leverage(min(max(p, 1e-12), 1.0), r)
            worst = max(worst, float(loss.delta(1.0)), float(loss.reversed().delta(1.0)))
        sets, tables = sets + 1, tables + len(smaller)
    assert worst <= CLAIM["delta"] * (1 + 1e-6)
    print(f"declared sets: {sets} sets, {tables} neighbours: one noise in each set; largest delta")
    print(f"  {worst:.6e} for a claim of {CLAIM['delta']:g}")


def adversarial(seed: int, rng: np.random.Generator) -> np.ndarray:
    shape = int(rng.integers(1, 300)), int(rng.integers(1, 6))
    rows = rng.standard_normal(shape) * 10.0 ** rng.uniform(-150, 150, shape[1])
    kind = seed % 5
    if kind == 1:
        rows[:, -1] = rows[:, 0]
    elif kind == 2:
        rows[:, 0] = 10.0 ** rng.uniform(-150, 150)
    elif kind == 3:
        rows[0] = 1e150
    elif kind == 4:
        rows = np.repeat(rows[:1], len(rows), axis=0)
    return np.asarray(rows)


def rounding(n_tables: int) -> None:
    off, sums, degrees = 0.0, 0.0, 0
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        rows, norm = adversarial(seed, rng), 10.0 ** rng.uniform(-50, 50)
        made = PrivateProjection(**CLAIM, data_norm=norm, n_components=500, random_state=seed)
        sketch = made.fit(rows).release_.arrays["sketch"] / norm
        cov, stated = output_law(made, rows).cov / norm**2, (made.noise_scale_ / norm) ** 2
        values, vectors = np.linalg.eigh(cov)
        off = max(off, stated / float(values[0]) - 1.0)
        alone = values < 1.001 * stated  # directions that only noise has
        sums += float(np.sum((vectors.T[alone] @ sketch) ** 2)) / stated
        degrees += 500 * int(alone.sum())
    ratio = sums / degrees
    assert off < 0.01
    assert abs(ratio - 1.0) < 0.01
    print(
        f"rounding: {n_tables} adversarial tables, none refused; least variance of a law below the"
    )
    print(f"  stated one by at most {off:.1e}; drawn noise over stated, in variance {ratio:.4f}")
    print(f"  (standard error {np.sqrt(2 / degrees):.4f}, {degrees} draws where only noise is)")


def uniform(values: np.ndarray) -> float:
    """The p-value of the four low bits being uniform."""
    return float(stats.chisquare(np.bincount(values.astype(np.int64) % 16, minlength=16)).pvalue)


def low_bits() -> None:
    rows = np.array([[0.3, 0.9], [0.123456789, -0.2], [1.0, 0.0]])
    single = PrivateProjection(**CLAIM, data_norm=1.0, n_components=1).calibrate(2)
    for table in (rows, rows[:-1]):
        many = PrivateProjection(
            delta=1e-5, noise_scale=single, data_norm=1.0, n_components=DRAWS, random_state=3
        )
        steps = (
            many.fit(table).release_.arrays["sketch"] * GRID_NORM / grid_spacing(single * GRID_NORM)
        )
        assert np.array_equal(steps, np.rint(steps))
        chance = uniform(steps[0])
        print(f"low bits: {DRAWS} projections, {len(table)} rows: on the grid, p {chance:.2f}")
        assert chance > 1e-4
    made = GaussianLimit(Target(1.0, 1e-5), 1, 50)
    spacing = grid_spacing(2.0**-8 / np.sqrt(50))
    for n in (3, 2):
        opened = Table.open(rows[:n, :1], labels=rows[:n, 1])
        x, y = opened.columns
        table = opened.with_rows(Rows(Columns([x], norm=1.0), Columns([y], norm=1.0)))
        moments, rng = made.study(table), generator(4)
        steps = np.array([made.draw(moments, rng)["coef"][0] for _ in range(DRAWS)]) / spacing
        assert np.array_equal(steps, np.rint(steps))
        print(f"low bits: {DRAWS} coefficients, {n} rows: on the grid, p {uniform(steps):.2f}")
        assert uniform(steps) > 1e-4


if __name__ == "__main__":
    n_tables = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    declared_sets(n_tables)
    rounding(n_tables)
    low_bits()
