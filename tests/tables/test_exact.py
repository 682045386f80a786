"""Exact sums: what no order, cut or hardware can change."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ndis.tables import Block, Columns, ExactSum, Residuals, Rows, Table, bounded
from ndis.tables.exact import BLOCK_ROWS, GRID_NORM, Accumulator
from reading import opened


def integers(total: ExactSum) -> list[int]:
    pairs = zip(total.high.ravel().tolist(), total.low.ravel().tolist(), strict=True)
    return [(high << 26) + low for high, low in pairs]


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=50), st.randoms())
@settings(max_examples=200, deadline=None)
def test_any_order_of_adding_and_merging_gives_the_integer_sum(values: list[int], random) -> None:
    parts = [Accumulator() for _ in range(3)]
    for value in values:
        random.choice(parts).add({"s": np.array([float(value), 1.0])})
    whole = Accumulator()
    for part in parts:
        whole.merge(Accumulator.from_state(part.state()))
    assert integers(whole.sums()["s"]) == [sum(values), len(values)]


def test_sums_beyond_the_doubles() -> None:
    total = ExactSum.of(np.array([2.0**53])) + ExactSum.of(np.array([1.0]))
    assert integers(total) == [2**53 + 1]
    assert integers(total - ExactSum.of(np.array([2.0**53]))) == [1]
    assert integers(total.times(np.array([-3, 2**20]))) == [-3 * (2**53 + 1), 2**20 * (2**53 + 1)]


def random_table(seed: int, n_rows: int = 10_000, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.standard_t(2, (n_rows, 6)) * scale
    table[:, 3] = table[:, 2]  # columns may be equal, or constant
    table[:, 4] = 7.0 * scale
    table[0] = 1e9 * scale  # and one row may be a giant
    return table


@pytest.mark.parametrize("giant", [1e150, 1e305, 1.7e308])
@pytest.mark.parametrize("norm", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_a_giant_row_counts_for_no_more_than_its_bound(
    giant: float, norm: float, stored: str
) -> None:
    """Its entries in grid units would overflow, and the sums of all rows become nonsense."""
    quiet = norm * np.array([[0.25, -0.5], [0.5, 0.125]])
    loud = np.vstack([quiet, [giant, -giant]])

    def gram(values: np.ndarray) -> np.ndarray:
        rows = Rows(Columns(["x0", "x1"], norm=norm))
        source = sparse.csr_array(values) if stored == "sparse" else values
        return Table.open(source).with_rows(rows).moments["gram"].value

    moved = gram(loud) - gram(quiet)
    assert 0.99 * 2**40 < np.trace(moved) <= 2**40
    assert np.all(np.sign(moved) == [[1, -1], [-1, 1]])


@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("recipe", ["norm", "limits", "both"])
def test_a_neighbour_changes_the_sums_by_exactly_one_row(scale: float, recipe: str) -> None:
    """Wherever it stands: the other rows move to other blocks and other lanes of the processor."""
    table = random_table(1, scale=scale)
    names = [f"x{i}" for i in range(6)]
    limits = None if recipe == "norm" else dict.fromkeys(names, (-2 * scale, 3 * scale))
    norm = {"norm": 3.0 * scale, "limits": None, "both": 1.5}[recipe]

    def sums(rows: np.ndarray) -> dict[str, ExactSum]:
        one = opened(rows, names, norm=norm, limits=limits, intercept=True)
        gradient = one.sum(lambda block: {"g": block.combine(bounded(np, block.features[:2] / 3))})
        return {"gram": one.moments["gram"], **gradient}

    whole = sums(table)
    for removed in (0, 1, 4095, 4096, 9_999):
        rest = sums(np.delete(table, removed, axis=0))
        alone = sums(table[[removed]])
        assert all(whole[name] - rest[name] == alone[name] for name in whole)


def test_exact_products_are_those_of_rational_arithmetic() -> None:
    table = opened(random_table(2, 5000), norm=3.0)
    rows = np.hstack([block.features for block in table.blocks()]).astype(np.int64)
    exact = [[sum(map(int, a.astype(object) * b)) for b in rows] for a in rows]
    assert integers(table.moments["gram"]) == [x for row in exact for x in row]


def test_residuals_are_exact_and_bounded() -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.uniform(-1, 1, (9000, 4)), rng.uniform(-1, 1, (9000, 3))
    rows = Rows(
        Columns([f"x{i}" for i in range(4)], norm=2.0, intercept=True),
        Columns(["y0", "y1", "y2"], norm=1.5),
    )
    table = Table.open(X, labels=Y).with_rows(rows)
    theta = np.round(rng.normal(size=(5, 3)) * 2**28)
    gradient = Residuals(theta, 2.0**-29, 0.3 * GRID_NORM)
    weights = []

    def check(block: Block) -> None:
        left = (block.labels - block.times(theta) * 2.0**-29) / (0.3 * GRID_NORM) * GRID_NORM
        weights.append(bounded(np, left))
        expected = left * np.minimum(1.0, GRID_NORM / np.linalg.norm(left, axis=0))
        np.testing.assert_allclose(weights[-1], expected, atol=2.0)

    whole = np.zeros((5, 3), dtype=object)
    for block in table.blocks():
        check(block)
        whole += block.features.astype(np.int64).astype(object) @ weights[-1].T.astype(np.int64)
    assert integers(table.sum(gradient)["gradient"]) == [int(x) for x in whole.ravel()]
    lengths = [sum(int(w) ** 2 for w in column) for column in np.hstack(weights).T]
    assert max(lengths) <= GRID_NORM**2
    assert max(lengths) > GRID_NORM**2 * (1 - 1e-4)


def test_sparse_rows_give_the_sums_of_dense_ones() -> None:
    rng = np.random.default_rng(4)
    dense = rng.integers(-8, 9, (9000, 7)) * (rng.random((9000, 7)) < 0.2) / 8.0
    names = [f"x{i}" for i in range(7)]
    labels = rng.integers(-8, 9, 9000) / 8.0
    for recipe in (
        Columns(names, norm=0.5, intercept=True),
        Columns(names, limits=dict.fromkeys(names, (-1, 1)), intercept=True),
        Columns(names, limits=dict.fromkeys(names, (-1, 3)), intercept=True),
        Columns(names, limits=dict.fromkeys(names, (0.25, 1)), intercept=True),
        Columns(names, limits=dict.fromkeys(names, (0, 1)), norm=1.2),
    ):
        rows = Rows(recipe, Columns(["y"], limits={"y": (-1, 1)}))
        ours = Table.open(sparse.csr_array(dense), labels=labels).with_rows(rows)
        expected = Table.open(dense, labels=labels).with_rows(rows)
        for name, total in expected.moments.items():
            # Centred values lie on a grid that is moved by less than half a step.
            tolerance = 0.0 if not recipe.middle.any() else 9000 * 2.0 * GRID_NORM
            np.testing.assert_allclose(ours.moments[name].value, total.value, atol=tolerance)
        theta = rng.integers(-1000, 1000, (len(recipe.names), 1)).astype(np.float64)
        gradient = Residuals(theta, 1e-3, GRID_NORM / 4)
        left, right = (t.sum(gradient)["gradient"].value for t in (ours, expected))
        np.testing.assert_allclose(left, right, atol=9000 * 2.0 * GRID_NORM)


def test_the_same_bits_from_every_source() -> None:
    table = random_table(5)
    names = [f"x{i}" for i in range(6)]
    strict = pytest.importorskip("array_api_strict")
    sources = [
        np.asfortranarray(table),
        pa.table(dict(zip(names, table.T, strict=True))),
        [table[:13], table[13:5000], table[5000:]],
        strict.asarray(table),
    ]
    expected = opened(table, names, norm=2.5, intercept=True).moments["gram"]
    for source in sources:
        assert opened(source, names, norm=2.5, intercept=True).moments["gram"] == expected


def test_rows_keep_their_direction_on_the_grid() -> None:
    rng = np.random.default_rng(6)
    table = rng.normal(size=(4000, 5)) * np.exp(rng.uniform(-20, 20, (4000, 1)))
    one = opened(table, norm=1.0)
    grid = np.hstack([block.features for block in one.blocks()]).T
    squares = [sum(int(v) ** 2 for v in row) for row in grid]
    assert max(squares) <= GRID_NORM**2
    length = np.linalg.norm(table, axis=1)
    wanted = table / np.maximum(length, 1.0)[:, None] * GRID_NORM
    assert np.abs(grid - wanted).max() < 3.0


def test_limits_fill_the_box_and_not_more() -> None:
    names = list("abc")
    limits = {"a": (0, 1), "b": (-5, 5), "c": (1e6, 1e6 + 1)}
    corners = np.array(np.meshgrid(*limits.values())).reshape(3, -1).T
    beyond = np.vstack([corners, corners * 3 - 7])
    one = opened(beyond, names, norm=None, limits=limits, intercept=True)
    assert one.rows.features.boxed
    squares = [sum(int(v) ** 2 for v in row) for b in one.blocks() for row in b.features.T]
    assert max(squares) <= GRID_NORM**2
    assert min(squares) > GRID_NORM**2 * (1 - 1e-5)


def test_units_of_a_label_do_not_matter() -> None:
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, (3000, 2)), rng.uniform(0, 70, 3000)
    features = Columns(["x0", "x1"], limits={"x0": (-1, 1), "x1": (-1, 1)})

    def cross(factor: float) -> ExactSum:
        labels = Columns(["y"], limits={"y": (0.0, 70.0 * factor)})
        return Table.open(X, labels=y * factor).with_rows(Rows(features, labels)).moments["cross"]

    assert cross(1.0) == cross(2.0**-40)
    np.testing.assert_allclose(cross(100.0).value, cross(1.0).value, atol=3000 * GRID_NORM)


def test_blocks_stay_within_the_doubles() -> None:
    """The bound that exactness rests on: a block of the longest rows, all alike."""
    assert BLOCK_ROWS * GRID_NORM**2 <= 2**53
    rows = np.tile([1.0, 0.0], (BLOCK_ROWS, 1))
    total = opened(rows, norm=1.0).moments["gram"]
    assert Fraction(integers(total)[0]) == BLOCK_ROWS * GRID_NORM**2
