"""Exact sums by group, against plain loops."""

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import Cells, Columns, GroupCounts, GroupMoments, Positions, Rows, Table
from ndis.tables.groups import STEPS

LEVELS = {"ward": ["A", "B"], "sex": ["f", "m"]}


def a_table(n: int = 9000) -> tuple[pa.Table, Table]:
    rng = np.random.default_rng(0)
    frame = pa.table(
        {
            "ward": rng.choice(["A", "B", "C"], n),
            "sex": rng.choice(["f", "m", "x"], n),
            "cost": rng.normal(0, 30, n),
        }
    )
    rows = Rows(
        Columns(["cost"], limits={"cost": (-50, 50)}), Positions([*LEVELS], LEVELS), weighted=False
    )
    return frame, Table.open(frame).with_rows(rows)


def grid(frame: pa.Table, table: Table) -> np.ndarray:
    features = table.rows.features
    raw = np.clip(frame["cost"].to_numpy(), -50, 50)
    return np.round(np.clip(raw * features.scale[0], -features.units, features.units))


def test_what_is_not_listed_has_a_place_behind_the_levels() -> None:
    cells = Cells((2, 3))
    assert len(cells) == 12
    positions = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 2.0]])
    assert cells.of(positions, 3).tolist() == [3, 4, 10]
    assert Cells(()).of(np.empty((0, 2)), 2).tolist() == [0, 0]


@pytest.mark.parametrize("n_bins", [64, 40_000])  # dense and sparse
def test_counts_of_bins_and_levels(n_bins: int) -> None:
    frame, table = a_table()
    units = table.rows.features.units
    counts = GroupCounts(Cells((2,)), (0,), units, n_bins, (2,))
    found = {name: each.value for name, each in table.sum(counts).items()}
    cell = np.array([{"A": 0, "B": 1}.get(w, 2) for w in frame["ward"].to_pylist()])
    level = np.array([{"f": 0, "m": 1}.get(s, 2) for s in frame["sex"].to_pylist()])
    k = grid(frame, table).astype(int)
    bins = (k + int(units)) * n_bins // (2 * int(units) + 1)
    expected = np.zeros((3, n_bins))
    np.add.at(expected, (cell, bins), 1.0)
    np.testing.assert_array_equal(found["bins"], expected)
    shares = np.zeros((3, 3))
    np.add.at(shares, (cell, level), 1.0)
    np.testing.assert_array_equal(found["shares"], shares)
    np.testing.assert_array_equal(found["count"], np.bincount(cell, minlength=3))


def test_moments_between_ends_of_their_own() -> None:
    frame, table = a_table()
    low, high = np.array([[-4000.0], [-9.0], [-700_000.0]]), np.array([[9000.0], [8.0], [7.0]])
    found = table.sum(GroupMoments(Cells((2,)), (0,), low, high))
    cell = np.array([{"A": 0, "B": 1}.get(w, 2) for w in frame["ward"].to_pylist()])
    k = grid(frame, table)
    for place in range(3):
        own = np.clip(k[cell == place], low[place], high[place])
        steps = np.rint((2 * own - low[place] - high[place]) * (STEPS / (high - low)[place]))
        assert np.abs(steps).max() == STEPS  # clipped ones are at the ends
        assert int(found["sums"].value[place, 0]) == int(steps.sum())
        exact = sum(int(step) ** 2 for step in steps)
        assert (int(found["squares"].high[place, 0]) << 26) + int(
            found["squares"].low[place, 0]
        ) == exact


def test_parts_of_a_large_block_are_added_as_integers() -> None:
    frame, table = a_table()
    counts = GroupCounts(Cells((2,)), (0,), table.rows.features.units, 64, (2,))
    block = next(table.blocks())
    parts = [block, *list(table.blocks())[1:]]
    whole = type(block)(
        np.hstack([part.features for part in parts]), np.hstack([part.labels for part in parts])
    )
    for name, term in counts(whole).items():
        np.testing.assert_array_equal(term, table.sum(counts)[name].value)
    assert frame.num_rows == whole.n_rows
