"""Exact sums: what no order, cut or hardware can change."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ndis.randomness.noise import parts_of
from ndis.tables import (
    Below,
    Columns,
    ExactSum,
    Rows,
    Scores,
    Table,
    bounded,
    moments,
    unclassified,
)
from ndis.tables.exact import BLOCK_ROWS, GRID_NORM, ONE, Accumulator, halved
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
    totals,
)
from ndis.tables.table import Pass
from reading import fractions, integers, opened, random_table


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


def test_whole_numbers_of_64_bits_add_up_whatever_their_size() -> None:
    rng, total, expected = np.random.default_rng(0), Accumulator(), 0
    for most in (2**53, 2**53 + 1, 2**20, 2**62, 2**53, 2**62):
        term = rng.integers(-most, most, (600, 3))
        term[0, 0] = most
        before = term.copy()
        total.add({"sum": term, "count": np.array(1.0)})
        expected = expected + term.astype(object)
        assert np.array_equal(term, before)  # which belongs to others
    sums = total.sums()
    found = (sums["sum"].high.astype(object) << 26) + sums["sum"].low.astype(object)
    assert (found == expected).all()
    assert float(sums["count"].value) == 6.0


def test_sums_beyond_the_doubles() -> None:
    total = ExactSum.of(np.array([2.0**53])) + ExactSum.of(np.array([1.0]))
    assert integers(total) == [2**53 + 1]
    assert integers(total - ExactSum.of(np.array([2.0**53]))) == [1]
    assert integers(total.times(np.array([-3, 2**20]))) == [-3 * (2**53 + 1), 2**20 * (2**53 + 1)]


@given(
    st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, ONE)), min_size=1, max_size=20),
    st.randoms(),
)
@settings(max_examples=200, deadline=None)
def test_weights_multiply_sums_exactly(terms: list[tuple[int, int]], random) -> None:
    """In any order, with sums that have no weights among them, beyond the doubles."""
    parts = [Accumulator() for _ in range(3)]
    for value, weight in terms:
        own = Accumulator()
        own.add({"s": np.array([value, -value])})
        random.choice(parts).merge(own if weight == ONE else own.weighted(weight))
    whole = Accumulator()
    for part in parts:
        whole.merge(Accumulator.from_state(part.state()))
    total = whole.sums()["s"]
    exact = Fraction(sum(value * weight for value, weight in terms), ONE)
    assert fractions(total) == [exact, -exact]
    assert float(total.value[0]) == pytest.approx(float(exact), rel=1e-15, abs=2.0**-26)
    twice, none = total + total, total - total
    assert fractions(twice) == [2 * exact, -2 * exact]
    assert none == ExactSum.of(np.zeros(2))
    assert fractions(total.times(np.array([-3, 7]))) == [
        -3 * exact,
        7 * exact,
        3 * exact,
        -7 * exact,
    ]
    assert [sum(map(Fraction, each)) for each in zip(*parts_of(total), strict=True)] == [
        exact,
        -exact,
    ]
    square = ExactSum.block([[total[None], ExactSum.of(np.ones((1, 1)))]])
    assert fractions(square.T) == [exact, -exact, 1]


def test_all_numbers_of_a_weighted_sum_are_added_up_exactly() -> None:
    parts = np.array([ONE - 1, 1, 5]), np.array([2**26 - 1, 2**26 - 1, 3]), np.array([2**30, -1, 7])
    total = ExactSum(parts[2], parts[1], parts[0]).total()
    whole = sum(int(h) << 52 | int(m) << 26 | int(low) for low, m, h in zip(*parts, strict=True))
    assert (int(total.high[0]) << 52) + (int(total.low[0]) << 26) + int(total.part[0]) == whole
    assert 0 <= total.low[0] < 2**26 > total.part[0] >= 0


def test_products_with_weighted_sums_are_rounded_down_to_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(-(2**52), 2**52, (3, 5)).astype(np.float64)
    own = Accumulator()
    values = rng.integers(-(2**62), 2**62, (5, 2))
    own.add({"s": values})
    total = own.weighted(ONE // 3).sums()["s"]
    found = total.multiplied(halved(matrix.copy()), 2)
    exact = np.vectorize(int)(matrix).astype(object) @ values.astype(object) * (ONE // 3)
    assert found.part is None
    assert integers(found) == [int(x) // (ONE * 2**26) for x in exact.ravel()]


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
    center = mean - direction * (direction @ mean)
    vectors = np.rint(np.column_stack([direction, center, slopes]) * unit)
    shifts = np.append(center @ mean, np.full(n_labels, 0.1))
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
        centered = x - mean[:, None]
        along = pull.vectors[:, 0] / 2.0**30 @ centered
        squared = 4.0 * (np.sum(centered**2, axis=0) - along**2) + 0.01
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
            totals,
            unclassified,
            Distances(np.arange(7.0)),
            WeightedMoments(Weights(1e5 * np.arange(7.0), 0.3)),
            Scores(np.ones((7, 2)), 2.0**-20, np.ones(2), 1.0, weights=Weights(np.ones(7), 0.2)),
        ):
            expected, ours = here.sum(function), there.sum(function)
            assert ours.keys() == expected.keys()
            assert all(ours[name] == expected[name] for name in expected), function
        assert there._past == here._past
        numbers = [block.features for block in there.blocks(raw=True)]
        np.testing.assert_array_equal(np.hstack(list(map(np.asarray, numbers)))[1:], X.T)


@pytest.mark.parametrize("center", [None, np.array([2.0**19, -(2.0**10), 7.0])])
def test_one_cut_is_that_of_the_ladder(center) -> None:
    strict = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 3)) * 2.0 ** rng.uniform(-7, 1, (5000, 1))
    X[1000:] = [-1.0, 0.0, 0.0]  # the longest sums that a block can have
    rows = Rows(Columns(["x0", "x1", "x2"], norm=1.0))
    ladder = Table.open(X).with_rows(rows).sum(CutMoments(24, center))
    for table in (Table.open(source).with_rows(rows) for source in (X, strict.asarray(X))):
        assert table.sum(CutNorms(center))["norms"] == ladder["norms"]
        for rung in range(24):
            one = table.sum(CutGram(rung, center))
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


def test_products_with_a_matrix_are_those_of_python_integers() -> None:
    rng = np.random.default_rng(7)
    high, low = rng.integers(-(2**54), 2**54, (30, 2)), rng.integers(0, 2**26, (30, 2))
    high[:, 0], low[:, 0] = rng.choice([-(2**54), 2**54 - 1], 30), 2**26 - 1
    matrix = np.rint(rng.uniform(-1, 1, (4, 30)) * 2.0 ** rng.integers(0, 53, (4, 30)))
    matrix[0] = rng.choice([-(2.0**52), 2.0**52], 30)
    whole = high.astype(object) * 2**26 + low
    exact = np.array([[int(x) for x in row] for row in matrix]) @ whole
    for digits in (4, 5, 7):
        ours = ExactSum(high, low).multiplied(halved(matrix.copy()), digits)
        assert np.all((ours.low >= 0) & (ours.low < 2**26))
        assert np.array_equal(ours.high.astype(object) * 2**26 + ours.low, exact >> 13 * digits)
    small = ExactSum.of(np.array([[3.0], [-5.0]]))
    assert small.multiplied(halved(np.array([[7.0, 9.0], [0.0, 0.0]])), 0).value.tolist() == [
        [-24.0],
        [0.0],
    ]


@pytest.mark.parametrize("power", [40, 48, 60])
def test_second_moments_that_do_not_fit_are_refused(power: int) -> None:
    """At 2^89 they wrapped around, silently."""
    moments = ExactSum(np.full((2, 2), 2**power), np.zeros((2, 2), np.int64))
    halves = halved(np.eye(2) * 2.0**24)
    if power + 48 < 89:  # times 2^26 of the high part, without two digits of 13 bits
        assert integers(moments.sandwiched(halves, 2)) == [2 ** (power + 48)] * 4
    else:
        with pytest.raises(OverflowError, match="below 2\\^89"):
            moments.sandwiched(halves, 2)


def test_products_of_many_columns_are_exact_too() -> None:
    """The longest sums that there can be, where doubles have no bit to spare."""
    ones = np.ones((4097, 1), dtype=np.int64)
    total = ExactSum((2**54 - 1) * ones, (2**26 - 1) * ones)
    ours = total.multiplied(halved(np.full((1, 4097), 2.0**52 - 1.0)), 5)
    exact = 4097 * (2**52 - 1) * (2**80 - 1) >> 65
    assert int(ours.high[0, 0]) * 2**26 + int(ours.low[0, 0]) == exact


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


@pytest.mark.parametrize("weight", [ONE, ONE // 3])
@pytest.mark.parametrize(("d", "digits"), [(3, 0), (5, 3), (300, 4)])
def test_a_matrix_on_both_sides_is_exact(d: int, digits: int, weight: int) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(-(2**33), 2**33, (d, d)) >> rng.integers(0, 30, (d, d))
    square = rng.integers(-(2**53), 2**53, (d, d)) >> (50 if digits == 0 else 0)
    square = square + square.T
    own = Accumulator()
    own.add({"s": square})
    total = own.weighted(weight).sums()["s"] if weight < ONE else own.sums()["s"]
    found = total.sandwiched(halved(matrix.astype(np.float64)), digits)
    wide = matrix.astype(object)
    exact = wide @ square.astype(object) @ wide.T * weight
    assert integers(found) == [int(x) // (ONE * 2 ** (13 * digits)) for x in exact.ravel()]
