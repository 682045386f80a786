"""Two histograms of every column: exact counts, their sensitivity, and how rarely they mislead."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ndis import PrivateLimits
from ndis.mechanisms import octaves
from ndis.tables import PRIVATE, Columns, Rows, Table
from ndis.tables.sums import Below


def columns_of_every_kind(n_rows: int = 400) -> np.ndarray:
    rng = np.random.default_rng(1)
    exponents = rng.integers(-1074, 1024, n_rows).astype(float)
    signs = rng.choice([-1.0, 0.0, 1.0], n_rows)
    return np.column_stack(
        [
            rng.standard_normal(n_rows),
            rng.standard_cauchy(n_rows) ** 7,
            signs * np.exp2(exponents),
            np.full(n_rows, -0.0),
            np.finfo(float).max * signs,
            rng.choice(octaves.BOUNDS, n_rows),
            np.nextafter(rng.choice(octaves.BOUNDS, n_rows), 0.0),
        ]
    )


def test_one_row_moves_both_histograms_of_all_columns_by_at_most_the_stated_sensitivity():
    """The exact counts of neighbours, for any first histogram that may have been released."""
    table = columns_of_every_kind()
    n_columns = table.shape[1]
    rng = np.random.default_rng(2)

    def counted(rows: np.ndarray) -> Any:
        names = [f"x{i}" for i in range(n_columns)]
        recipe = Rows(Columns(names, limits=dict.fromkeys(names, PRIVATE)))
        return octaves.read(Table.open(rows).with_rows(recipe))[0]

    everyone = counted(table)
    inner = np.broadcast_to(octaves.BOUNDS[1:-1], (n_columns, octaves.N_OCTAVES - 1))
    bound = octaves.sensitivity(n_columns)
    attained = 0.0
    for left_out in range(0, len(table), 4):
        others = counted(np.delete(table, left_out, axis=0))
        released = rng.normal(0, 1, (n_columns, octaves.N_OCTAVES)) ** 9 * 100
        edges = octaves._bins(released, 1.0)[:, 1:-1]
        moved = [everyone.between(at).value - others.between(at).value for at in (inner, edges)]
        for part in moved:
            assert np.all(part.sum(axis=1) == 1)
            assert np.all((part == 0) | (part == 1))
        attained = max(attained, math.sqrt(sum((part**2).sum() for part in moved)))
    assert attained == pytest.approx(bound, rel=1e-12)
    assert octaves.sensitivity(n_columns, "replace") == pytest.approx(bound * math.sqrt(2))


def test_the_counts_are_those_of_a_histogram():
    table = columns_of_every_kind(5000)
    names = [f"x{i}" for i in range(table.shape[1])]
    recipe = Rows(Columns(names, limits=dict.fromkeys(names, PRIVATE)))
    found, _ = octaves.read(Table.open(table).with_rows(recipe))
    inner = np.broadcast_to(octaves.BOUNDS[1:-1], (len(names), octaves.N_OCTAVES - 1))
    counts = found.between(inner).value
    bounds = [-np.inf, *octaves.BOUNDS[1:-1], np.inf]
    for column, found in zip(table.T, counts, strict=True):
        # numpy's last bin is closed, and nothing is infinite here
        np.testing.assert_array_equal(found, np.histogram(column, bounds)[0])


def test_every_second_histogram_has_edges_that_were_counted():
    known = set(octaves.EDGES)
    for first in range(0, octaves.N_OCTAVES, 3):
        for last in range(first, octaves.N_OCTAVES):
            edges = octaves._bins_between(first, last)
            assert known.issuperset(edges[1:-1])
            if (first, last) != (octaves._ZERO, octaves._ZERO):
                low = 0 if first == octaves._ZERO else octaves.BOUNDS[first]
                high = 0 if last == octaves._ZERO else octaves.BOUNDS[last + 1]
                assert edges[0] <= low
                assert edges[-1] >= high
                assert (high - low) / (edges[1] - edges[0]) > 31


def test_mistakes_are_as_rare_as_stated():
    """Nothing but noise: a bin is taken in at most 1 of 100 releases (0.1% are allowed)."""
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(100):
        counts = rng.standard_normal((4, octaves.N_OCTAVES))
        seen = octaves.threshold(4, octaves.N_OCTAVES)
        taken += any(octaves._outermost(row, seen) is not None for row in counts)
    assert taken <= 1


@pytest.mark.parametrize(
    "library", [pytest.param("torch", marks=pytest.mark.slow), "array_api_strict"]
)
def test_blocks_of_any_array_library(library):
    xp = pytest.importorskip(library)
    table = columns_of_every_kind(300)
    names = [f"x{i}" for i in range(table.shape[1])]
    recipe = Rows(Columns(names, limits=dict.fromkeys(names, PRIVATE)))
    here, _ = octaves.read(Table.open(table).with_rows(recipe))
    there, _ = octaves.read(Table.open(xp.asarray(table)).with_rows(recipe))
    edges = np.broadcast_to(octaves.EDGES[1:-1], (len(names), octaves.EDGES.size - 2))
    assert here.between(edges) == there.between(edges)


def test_few_rows_that_are_thinly_spread_keep_all_bins() -> None:
    """100 grades, a third below 64: only the first bin was seen, which those below are in too."""
    counts, bins = np.zeros((1, octaves.N_OCTAVES)), np.ones((1, octaves.N_BINS))
    counts[0, np.searchsorted(octaves.BOUNDS, [32.0, 64.0])] = 30.0, 66.0
    bins[0, 0] = 37.0
    assert octaves.limits(counts, bins, 6.9) == [(64.0, 128.0)]
    nothing = np.zeros((1, octaves.N_OCTAVES))
    assert octaves.limits(nothing, np.eye(64)[-1:] * 100.0, 6.9) == [(-1.0, 1.0)]


@pytest.mark.parametrize("place", ["_HERE", "_THERE"])
def test_few_columns_are_counted_at_a_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are the same, pass by pass."""
    numbers = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 10.0, 100.0]
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    facts = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    known = PrivateLimits(**facts).fit(frame).limits_
    if place == "_THERE":
        frame = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    monkeypatch.setattr(octaves, place, 2)
    passes = list[int]()
    whole = Below.__call__
    monkeypatch.setattr(
        Below, "__call__", lambda own, block: passes.append(len(own.places)) or whole(own, block)
    )
    found = PrivateLimits(**facts).fit(frame).limits_
    assert found == known
    assert set(passes) == {1, 2}


def test_the_limits_of_many_columns_take_little_memory() -> None:
    """All counts of 300 columns would take 80 MB."""
    table = np.random.default_rng(0).normal(size=(50, 300))
    tracemalloc.start()
    PrivateLimits(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert most < 60.0
