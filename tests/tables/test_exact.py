"""Exact sums: what no order, cut or hardware can change."""

import math
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ndis import PrivateLeastSquares
from ndis.mechanisms.classification_newton import class_basis
from ndis.tables import Below, Columns, ExactSum, Rows, Scores, Table, bounded, contrasts, moments
from ndis.tables.blocks import Block, Stack
from ndis.tables.exact import BLOCK_ROWS, GRID_NORM, Accumulator, halved
from ndis.tables.rows import shortened
from ndis.tables.spark import pickled_by_value
from ndis.tables.sums import (
    CutGram,
    CutMoments,
    CutNorms,
    Distances,
    JointGram,
    Pull,
    PullSum,
    WeightedMoments,
    Weights,
    class_totals,
)
from ndis.tables.table import Pass
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


def a_pull(d: int, n_labels: int) -> tuple[Pull, np.ndarray]:
    """A metric with one direction of its own, and its centre; coefficients that matter."""
    rng = np.random.default_rng(8)
    direction, mean = np.linalg.qr(rng.normal(size=(d, d)))[0][:, 0], rng.normal(size=d) / (4 * d)
    direction = direction * math.sqrt(1.0 - 0.25 / 4.0)  # of weight 1/2 where others have 2
    slopes = rng.normal(size=(d, n_labels)) / d
    unit = 2.0**30
    centre = mean - direction * (direction @ mean)
    vectors = np.rint(np.column_stack([direction, centre, slopes]) * unit)
    shifts = np.append(centre @ mean, np.full(n_labels, 0.1))
    factors = np.append(2.0, np.ones(n_labels)) / unit / GRID_NORM
    return Pull(vectors, 1.0 / unit / GRID_NORM, factors, shifts, 4.0, 0.01, 1e-6), mean


def test_clipped_gradients_are_exact_and_bounded() -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.uniform(-1, 1, (9000, 4)), rng.uniform(-1, 1, (9000, 3))
    names = [f"x{i}" for i in range(4)]
    rows = Rows(Columns(names, norm=2.0), Columns(["y0", "y1", "y2"], norm=1.5))
    table = Table.open(X, labels=Y).with_rows(rows)
    (pull, mean), unit = a_pull(4, 3), GRID_NORM / 2.0
    whole, counts = np.zeros((5, 3), dtype=object), np.zeros(64)
    for block in table.blocks():
        left, size, length = pull.measure(block)
        x = block.features / GRID_NORM
        centred = x - mean[:, None]
        along = pull.vectors[:, 0] / 2.0**30 @ centred
        squared = 4.0 * (np.sum(centred**2, axis=0) - along**2) + 0.01
        np.testing.assert_allclose(length, np.sqrt(squared), rtol=1e-4)
        assert np.all(length >= np.sqrt(squared) * (1 - 1e-9))
        np.testing.assert_allclose(
            left, block.labels / GRID_NORM - pull.vectors[:, 2:].T @ x / 2.0**30 + 0.1, atol=1e-9
        )
        weights = np.round(left * np.minimum(unit, 0.5 * unit / (size * length)))
        ones = np.ones((1, block.n_rows))
        whole += np.vstack([block.features, ones]).astype(np.int64).astype(object) @ weights.T
        counts += np.histogram(size * length, 8 * 2.0 ** (np.arange(-64, 1) / 2))[0][::-1]
        ours = PullSum(pull, (0.5, 0.1), unit)(block)["gradient"][:, :3]
        np.testing.assert_allclose(ours, np.vstack([block.features, ones]) @ weights.T, atol=2e9)
    sums = table.sum(PullSum(pull, (0.5, 0.1), unit, 8.0))
    assert sums["products"].value.tolist() == counts.tolist()
    for clip, own in ((0.5, sums["gradient"][:, :3]), (0.1, sums["gradient"][:, 3:])):
        assert table.sum(PullSum(pull, (clip,), unit))["gradient"] == own


def test_a_row_moves_clipped_gradients_by_at_most_the_clip() -> None:
    rng = np.random.default_rng(4)
    names = [f"x{i}" for i in range(4)]
    rows = Rows(Columns(names, norm=2.0), Columns(["y0", "y1"], norm=1.5))
    (pull, _), unit, longest = a_pull(4, 2), GRID_NORM / 2.0, 0.0
    for clip in (0.01, 0.3):
        X = rng.normal(size=(500, 4)) * 10.0 ** rng.uniform(-3, 2, (500, 1))
        Y = rng.normal(size=(500, 2)) * 10.0 ** rng.uniform(-3, 2, (500, 1))
        for block in Table.open(X, labels=Y).with_rows(rows).blocks():
            length = pull.measure(block)[2]
            for i in range(block.n_rows):
                part = type(block)(block.features[:, i : i + 1], block.labels[:, i : i + 1])
                weights = PullSum(pull, (clip,), unit)(part)["gradient"][-1]
                moved = np.linalg.norm(weights) * length[i] / (clip * unit)
                assert moved <= 1.0
                longest = max(longest, moved)
    assert longest > 0.99


def test_cut_rows_keep_their_bound_and_histograms_count_every_row() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(700, 3)) * 10.0 ** rng.uniform(-7, 1, (700, 1))
    table = Table.open(X).with_rows(Rows(Columns(["x0", "x1", "x2"], norm=1.0)))
    sums = table.sum(CutMoments(24))
    tops, moved = 2.0 ** (20 - np.arange(24)[:, None] / 2), np.zeros((24, 3, 3), dtype=object)
    for block in table.blocks():
        for row in block.features.T:
            terms = CutMoments(24)(type(block)(row[:, None]))
            total, grams = terms["sums"], terms["grams"]
            # The matrix is that of the row, or of the row cut and rounded, which the sum is too.
            own = 2.0 ** np.arange(24)[:, None, None] * np.outer(row, row)
            exact = np.linalg.norm(row) <= tops[:, :, None]
            rounded = total[:, :, None] * total[:, None, :]
            assert np.array_equal(grams, np.where(exact, own, rounded))
            assert np.array_equal(grams[::2], rounded[::2])
            assert np.all(np.trace(grams, axis1=1, axis2=2) <= 2**40)
            assert np.all(np.sum(total**2, axis=1) <= 2**40)
            expected = row * 2**20 / np.maximum(tops, np.linalg.norm(row))
            np.testing.assert_allclose(total, expected, rtol=0, atol=2.0**12)
            moved += grams.astype(np.int64).astype(object)
    assert integers(sums["grams"]) == [int(x) for x in moved.ravel()]
    norms = sums["norms"].value
    assert norms.sum() == 700
    expected = np.floor(-2 * np.log2(np.minimum(np.linalg.norm(X, axis=1), 1.0))).clip(0, 63)
    assert norms[:20].tolist() == np.bincount(expected.astype(int), minlength=64)[:20].tolist()


def test_moments_about_a_centre_are_those_of_shifted_rows() -> None:
    rng = np.random.default_rng(8)
    rows, centre = rng.uniform(-1, 1, (3, 500)), np.array([2.0**19, -(2.0**18), 5.0])
    rows = np.rint(rows * 2.0**20 / np.sqrt(3))
    shifted = rows - centre[:, None]
    length = np.linalg.norm(shifted, axis=0)
    inside, outside = shifted[:, length <= 2**20], shifted[:, length > 2**20]
    assert 0 < outside.shape[1] < 500
    found, expected = (
        CutMoments(8, centre)(Block(rows[:, length <= 2**20])),
        CutMoments(8)(Block(inside)),
    )
    for name, term in expected.items():
        assert np.array_equal(found[name], term)
    for row in outside.T:
        terms = CutMoments(8, centre)(Block((row + centre)[:, None]))
        assert np.all(np.trace(terms["grams"], axis1=1, axis2=2) <= 2**40)
        expected = row * 2**20 / np.linalg.norm(row)
        np.testing.assert_allclose(terms["sums"][0], expected, rtol=0, atol=2.0)


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
        gradient = PullSum(a_pull(len(recipe.names), 1)[0], (0.5,), GRID_NORM / 2.0)
        for sums, name in ((gradient, "gradient"), (CutMoments(1), "grams")):
            left, right = (t.sum(sums)[name].value for t in (ours, expected))
            np.testing.assert_allclose(left, right, atol=9000 * 4.0 * GRID_NORM)


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


def nearest(total: int) -> int:
    """The nearest integer of 24 bits, the lower of two."""
    unit = 1 << max(0, total.bit_length() - 24)
    return -(-(2 * total - unit) // (2 * unit)) * unit


def between(bits: int, away: int, *first: int) -> list[int]:
    """Integers whose squares add up to the middle of two numbers of 24 bits, or a little less."""
    entries = list(first)
    rest = (((1 << 23) + 12_345) << (bits - 24)) + (1 << (bits - 25)) + away
    rest -= sum(entry**2 for entry in entries)
    while rest:
        entries.append(math.isqrt(rest))
        rest -= entries[-1] ** 2
    return entries


@pytest.mark.parametrize("bits", [54, 60, 81, 104])
@pytest.mark.parametrize("away", [-1, 0, 1])
def test_no_order_of_summation_chooses_between_two_factors(bits: int, away: int) -> None:
    """Rows so long that sums of squares are not exact, where rounding could go both ways."""
    entries = np.array(between(bits, away), dtype=np.float64)
    total = sum(int(entry) ** 2 for entry in entries)
    assert 2 * (total - away) == 2 * nearest(total - away) + (1 << (bits - 24))
    room = GRID_NORM * (1 - 2.0**-50) - math.sqrt(len(entries)) / 2
    expected = room / math.sqrt(nearest(total) * (1 + 2.0**-23))
    rng, found = np.random.default_rng(bits), set()
    for _ in range(200):
        row = rng.permutation(entries)
        for layout in (row[:, None].copy(), np.tile(row, (9, 1)).T):
            integers, factors = shortened(np, layout)
            found |= set(factors.tolist())
            assert sum(int(entry) ** 2 for entry in integers[:, 0]) <= GRID_NORM**2
    assert found == {expected}


def test_other_array_libraries_settle_the_same_doubts() -> None:
    """Rows by the hundred whose sums of squares lie between two numbers: the processor's bits."""
    strict = pytest.importorskip("array_api_strict")
    first = np.random.default_rng(2).integers(0, 2**25, (400, 4)).tolist()  # no two rows alike
    cases = [between(54, away, *each) for away in (-1, 0, 1) for each in first]
    X = np.zeros((len(cases), max(map(len, cases))))
    for row, entries in zip(X, cases, strict=True):
        row[: len(entries)] = entries
    rows = Rows(Columns([f"x{i}" for i in range(X.shape[1])], norm=float(GRID_NORM)))
    (here,), (there,) = (list(rows.blocks(source)) for source in (X, strict.asarray(X)))
    assert np.array_equal(np.asarray(there.features).reshape(here.features.shape), here.features)


@given(st.integers(3, 60), st.integers(-40, 60), st.integers(0, 2**32), st.integers(-2, 2))
@settings(max_examples=300, deadline=None)
def test_rows_at_the_bound_by_a_unit_in_the_last_place(
    n: int, power: int, seed: int, steps: int
) -> None:
    rng = np.random.default_rng(seed)
    norm = 2.0**power * rng.uniform(1, 2)
    row = rng.standard_normal(n) * 2.0 ** rng.integers(-30, 1, n)
    row[0], row[-1] = -0.0, 5e-324
    row = row * (norm / np.linalg.norm(row))
    for _ in range(abs(steps)):
        row = np.nextafter(row, np.copysign(np.inf, row) if steps > 0 else 0.0)
    rows = Rows(Columns([f"x{i}" for i in range(n)], norm=norm))
    (block,) = rows.blocks(row[None, :])
    integers = [int(entry) for entry in block.features[:, 0]]
    assert sum(entry**2 for entry in integers) <= GRID_NORM**2
    assert np.abs(integers - row * (GRID_NORM / norm)).max() <= 1.0 + math.sqrt(n) / 2
    for source in (
        np.asfortranarray(row[None, :]),
        pa.record_batch([[x] for x in row], rows.columns),
    ):
        (other,) = rows.blocks(source)
        assert np.array_equal(other.features, block.features)


def test_a_row_of_the_bound_itself_stays_as_it_is() -> None:
    rows = Rows(Columns(["a", "b"], norm=5.0))
    (block,) = rows.blocks(np.array([[5.0, 0.0], [3.0, 4.0], [-0.0, -5.0]]))
    assert block.features[:, 0].tolist() == [GRID_NORM, 0.0]
    assert block.features[:, 2].tolist() == [0.0, -GRID_NORM]
    assert block.squares()[1] <= GRID_NORM**2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("norm", [1e-60, 1.0, 1e60])
def test_what_is_not_finite_is_refused_whatever_else_is_in_the_table(
    value: float, norm: float
) -> None:
    X = np.random.default_rng(0).normal(size=(5000, 3)) * norm
    X[7] = [1.7e308, -1.7e308, 5e-324]
    rows = Rows(Columns(["a", "b", "c"], norm=norm))
    expected = Table.open(X).with_rows(rows).moments["gram"]
    assert np.all(np.isfinite(expected.value))
    X[4999, 1] = value
    for source in (X, np.asfortranarray(X), pa.table(dict(zip("abc", X.T, strict=True)))):
        with pytest.raises(ValueError, match="'b' has missing or infinite values"):
            Table.open(source, list("abc")).with_rows(rows).sum(moments)
    kept = Table.open(X, drop_missing=True).with_rows(rows).moments["gram"]
    assert kept == Table.open(X[:4999]).with_rows(rows).moments["gram"]


def test_sparse_rows_that_are_not_yet_centred_add_up_exactly() -> None:
    """They are twice as long as others; near the top of their limits, odd, and as many as fit."""
    values = np.full((BLOCK_ROWS, 1), 0.9999997)
    rows = Rows(Columns(["x0"], limits={"x0": (0, 1)}))
    table = Table.open(sparse.csr_array(values)).with_rows(rows)
    raw = [int(x) for block in table.blocks() for x in block.rows.data]
    assert raw[0] % 2 == 1
    assert len(raw) * raw[0] ** 2 > 2**53
    assert integers(table.sum(lambda block: {"g": block.gram()})["g"]) == [sum(x * x for x in raw)]


def test_entries_of_a_sparse_matrix_that_are_stored_twice_count_as_their_sum() -> None:
    twice = sparse.csr_array(([3.0, 3.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    for recipe in (
        Columns(["x0", "x1"], norm=4.0),
        Columns(["x0", "x1"], limits={"x0": (-4, 4), "x1": (-4, 4)}),
    ):
        ours, listed, expected = (
            Table.open(source).with_rows(Rows(recipe)).moments["gram"]
            for source in (twice, [twice], np.array([[6.0, 0.0], [0.0, 1.0]]))
        )
        assert ours == expected
        assert listed == expected
    assert twice.nnz == 3  # the caller's matrix is as it was


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


@pytest.mark.parametrize("recipe", ["norm", "limits"])
def test_a_card_gives_the_bits_of_the_processor(recipe: str, monkeypatch) -> None:
    """Batches of several blocks and a rest, in panels, through the array API."""
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr("ndis.tables.sources.DEVICE_ENTRIES", 9000 * 7)
    monkeypatch.setattr("ndis.tables.blocks._PANEL", 2)
    rng = np.random.default_rng(9)
    X, Y = rng.standard_t(3, (21_000, 6)), rng.uniform(-1, 1, (21_000, 2))
    names = [f"x{i}" for i in range(6)]
    limits = dict.fromkeys(names, (-2, 3)) if recipe == "limits" else None
    features = Columns(names, limits=limits, norm=2.0 if limits is None else None, intercept=True)
    rows = Rows(features, Columns(["y0", "y1"], norm=1.0))
    here = Table.open(X, labels=Y).with_rows(rows)
    pull = a_pull(7, 2)[0]
    for labels in (strict.asarray(Y), Y):
        there = Table.open(strict.asarray(X), labels=labels).with_rows(rows)
        for function in (
            moments,
            CutMoments(6),
            CutGram(1),
            CutGram(2, np.arange(7.0)),
            CutNorms(np.arange(7.0)),
            JointGram(1000.0),
            PullSum(pull, (0.5, 0.1), GRID_NORM / 2.0, 8.0),
            Scores(np.round(rng.normal(size=(7, 2)) * 2.0**20), 2.0**-40, np.ones(2), 1.0, True),
            class_totals,
            Distances(np.arange(7.0)),
            WeightedMoments(Weights(1e5 * np.arange(7.0), 0.3)),
            Scores(np.ones((7, 2)), 2.0**-20, np.ones(2), 1.0, weights=Weights(np.ones(7), 0.2)),
        ):
            expected, ours = here.sum(function), there.sum(function)
            assert ours.keys() == expected.keys()
            assert all(ours[name] == expected[name] for name in expected), function
        assert there._seen == here._seen
        numbers = [block.features for block in there.blocks(raw=True)]
        np.testing.assert_array_equal(np.hstack(list(map(np.asarray, numbers)))[1:], X.T)


@pytest.mark.parametrize("kept", [False, True])
def test_a_fit_on_a_card_is_the_one_on_the_processor(kept: bool, monkeypatch) -> None:
    """Whether rows stay on the card for the rounds after the first, or are put there each time."""
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr("ndis.tables.sources.DEVICE_ENTRIES", 2000 * 3)
    monkeypatch.setattr("ndis.tables.table.free_memory", lambda array: 2**30 * kept)
    read, blocks = [], Rows.blocks
    monkeypatch.setattr(Rows, "blocks", lambda *a, **k: read.append(a) or blocks(*a, **k))
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(9000, 3)) * rng.uniform(0, 2, (9000, 1)), rng.uniform(-1, 1, 9000)
    facts = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 4.0, "label_bound": 1.0, "n_rounds": 3}
    model = PrivateLeastSquares(**facts, random_state=1)
    expected = model.fit(X, y).coef_
    read.clear()
    assert np.array_equal(model.fit(strict.asarray(X), strict.asarray(y)).coef_, expected)
    assert len(read) == (3 if kept else 3 * (3 + facts["n_rounds"]))


@pytest.mark.parametrize("centre", [None, np.array([2.0**19, -(2.0**10), 7.0])])
def test_one_cut_is_that_of_the_ladder(centre) -> None:
    strict = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 3)) * 2.0 ** rng.uniform(-7, 1, (5000, 1))
    X[1000:] = [-1.0, 0.0, 0.0]  # the longest sums that a block can have
    rows = Rows(Columns(["x0", "x1", "x2"], norm=1.0))
    ladder = Table.open(X).with_rows(rows).sum(CutMoments(24, centre))
    for table in (Table.open(source).with_rows(rows) for source in (X, strict.asarray(X))):
        assert table.sum(CutNorms(centre))["norms"] == ladder["norms"]
        for rung in range(24):
            one = table.sum(CutGram(rung, centre))
            assert one["gram"] == ladder["grams"][rung]
            assert one["sums"] == ladder["sums"][rung]


def test_sums_of_many_blocks_at_the_bound_do_not_overflow() -> None:
    """Workers with 511 terms each that meet, and sparse terms among dense ones."""
    most = np.array([[2.0**53, -(2.0**53)], [0.0, 1.0]])
    workers, total = [Accumulator() for _ in range(3)], Accumulator()
    for index, worker in enumerate(workers):
        for _ in range(511):
            worker.add({"s": most, "gram": most if index == 1 else sparse.csr_array(most)})
        total.merge(worker)
    total.add({"s": most})
    sums = total.sums()
    assert integers(sums["s"]) == [1534 * int(x) for x in most.flat]
    assert integers(sums["gram"]) == [1533 * int(x) for x in most.flat]
    assert total.sums() == {}


def test_a_block_on_a_card_remembers_for_one_centre_only() -> None:
    rng = np.random.default_rng(8)
    rows = rng.integers(-(2**18), 2**18, (3, 50)).astype(np.float64)
    stack, block = Stack(rows), Block(rows)
    near, far = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0**17])
    for centre in (None, near, far, far, None, near):
        assert np.array_equal(stack.distances(centre), block.distances(centre))
    for _ in range(2):
        assert np.array_equal(stack.sums(), rows.sum(axis=1))


def test_products_with_a_matrix_are_those_of_python_integers() -> None:
    rng = np.random.default_rng(7)
    high, low = rng.integers(-(2**54), 2**54, (30, 2)), rng.integers(0, 2**26, (30, 2))
    high[:, 0], low[:, 0] = rng.choice([-(2**54), 2**54 - 1], 30), 2**26 - 1
    matrix = np.rint(rng.uniform(-1, 1, (4, 30)) * 2.0 ** rng.integers(0, 53, (4, 30)))
    matrix[0] = rng.choice([-(2.0**52), 2.0**52], 30)
    whole = high.astype(object) * 2**26 + low
    exact = np.array([[int(x) for x in row] for row in matrix]) @ whole
    for digits in (4, 5, 7):
        ours = ExactSum(high, low).multiplied(halved(matrix), digits)
        assert np.all((ours.low >= 0) & (ours.low < 2**26))
        assert np.array_equal(ours.high.astype(object) * 2**26 + ours.low, exact >> 13 * digits)
    small = ExactSum.of(np.array([[3.0], [-5.0]]))
    assert small.multiplied(halved(np.array([[7.0, 9.0], [0.0, 0.0]])), 0).value.tolist() == [
        [-24.0],
        [0.0],
    ]


def test_products_of_many_columns_are_exact_too() -> None:
    """The longest sums that there can be, where doubles have no bit to spare."""
    ones = np.ones((4097, 1), dtype=np.int64)
    total = ExactSum((2**54 - 1) * ones, (2**26 - 1) * ones)
    ours = total.multiplied(halved(np.full((1, 4097), 2.0**52 - 1.0)), 5)
    exact = 4097 * (2**52 - 1) * (2**80 - 1) >> 65
    assert int(ours.high[0, 0]) * 2**26 + int(ours.low[0, 0]) == exact


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_table_that_is_read_here_is_summed_on_a_device(tmp_path, kind, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("ndis.tables.sources.DEVICE_ENTRIES", 5000 * 5)
    rng = np.random.default_rng(4)
    frame = pa.table(
        {
            "a": rng.normal(size=30_000).astype(kind),
            "b": rng.normal(size=30_000).astype(kind),
            "c": rng.choice(["x", "y", "z"], 30_000),
            "y": rng.uniform(-1, 1, 30_000).astype(kind),
        }
    )
    pq.write_table(frame, tmp_path / "t.parquet", row_group_size=7000)
    features = Columns(["a", "b", "c"], {"c": ["x", "z"]}, {"a": (-2, 2), "b": (-2, 3)}, None, True)
    rows = Rows(features, Columns(["y"], limits={"y": (-1, 1)}))
    here, there = (
        Table.open(tmp_path / "t.parquet", device=device).with_rows(rows)
        for device in (None, "cpu")
    )
    for function in (moments, CutGram(3)):
        expected, ours = here.sum(function), there.sum(function)
        assert all(ours[name] == expected[name] for name in expected)
    below = Below(np.linspace(-2, 2, 9), ((0, 1), (1, 0)))
    assert here.sum(below, raw=True)["below"] == there.sum(below, raw=True)["below"]
    here, there = (
        Table.open(frame.select(["a", "b"]).to_pandas().to_numpy(), device=device)
        for device in (None, "cpu")
    )
    rows = Rows(Columns(["x0", "x1"], norm=2.0))
    assert here.with_rows(rows).moments["gram"] == there.with_rows(rows).moments["gram"]


def test_what_cannot_be_moved_to_a_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="leave device out"):
        Table.open(strict.ones((3, 2)), device="cuda")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(ImportError, match="pip install torch"):
            Table.open(np.ones((3, 2)), device="cuda")


def test_what_torch_cannot_hold_says_so() -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="one of torch's on this machine, got 'gpu'"):
        Table.open(np.ones((3, 2)), device="gpu")
    rows = Rows(Columns(["x0", "x1"], norm=2.0))
    with pytest.raises(TypeError, match="leave device out"):
        Table.open(sparse.eye_array(2).tocsr(), device="cpu").with_rows(rows).sum(moments)


@pytest.mark.parametrize(
    "function",
    [
        moments,
        CutMoments(6),
        JointGram(1000.0),
        PullSum(a_pull(2, 1), (0.5,), GRID_NORM / 2.0, 8.0),
        Scores(np.ones((2, 2)), 2.0**-40, np.ones(2), 1.0, weights=Weights(np.ones(2), 0.5)),
        WeightedMoments(Weights(np.ones(2), 0.5)),
        Below(np.ones(3), ((0, 1),)),
    ],
)
def test_sums_travel_to_executors_by_value(function) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    work = Pass(Rows(Columns(["x0", "x1"], norm=2.0)), function)
    with pickled_by_value(work):
        assert len(cloudpickle.dumps(work)) > 1000


def test_a_card_refuses_or_drops_what_is_not_finite() -> None:
    strict = pytest.importorskip("array_api_strict")
    table = random_table(10, 500)
    broken = table.copy()
    broken[123, 4] = np.nan
    broken[7, 2] = -np.inf
    names = [f"x{i}" for i in range(6)]
    limits = dict.fromkeys(names, (-2, 3))
    with pytest.raises(ValueError, match="'x2' has missing or infinite values"):
        opened(strict.asarray(broken), names, limits=limits, norm=None).sum(moments)
    with pytest.raises(ValueError, match="'x2' has missing or infinite values"):
        next(opened(strict.asarray(broken), names, norm=1.0).blocks())
    kept = opened(strict.asarray(broken), names, norm=2.0, drop_missing=True)
    assert (
        kept.moments["gram"] == opened(np.delete(table, [7, 123], axis=0), norm=2.0).moments["gram"]
    )


def test_contrasts_are_the_coordinates_of_the_class_basis() -> None:
    for k in (2, 3, 10, 100):
        basis = class_basis(k)
        np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-13)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-13)
        vectors = np.random.default_rng(k).normal(size=(k, 5))
        vectors -= vectors.mean(axis=0)
        np.testing.assert_allclose(contrasts(np, vectors), basis.T @ vectors, atol=1e-12)
