"""The bound on the integers: no row is longer, whatever it was and wherever it was rounded."""

import math
import re
import warnings
from typing import Any

import array_api_strict as xp
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from ndis.tables import (
    GRID_NORM,
    Columns,
    Rows,
    Table,
    bounded,
)
from ndis.tables.grid import shortened
from reading import opened

LARGEST = float(np.finfo(np.float64).max)


SMALLEST = float(np.nextafter(0.0, 1.0))


FARTHEST = [0.0, SMALLEST, 1e-308, 1e-60, 1.0, 2.0**53, 1e16, 1e60, 1e76, 1e292, 1e308, LARGEST]


def limits_from(mantissa: float, exponent: int, closeness: int, up: bool) -> tuple[float, float]:
    """Limits of any size that are as close together as they may be, and closer."""
    low = mantissa * 2.0**exponent
    high = low + 2.0 ** (exponent + closeness)
    return (low, high) if up else (-high, -low)


def hostile_limits() -> st.SearchStrategy[tuple[float, float]]:
    """Far from zero and close together; a few that are subnormal, equal, too far, or anything."""
    close = st.builds(
        limits_from, st.floats(1, 2), st.integers(-140, 190), st.integers(-53, 3), st.booleans()
    )
    far = st.sampled_from([sign * end for end in FARTHEST for sign in (1.0, -1.0)])
    return st.one_of(close, close, close, close, st.tuples(far, far))


def values_about(low: float, high: float) -> list[float]:
    """The ends, their neighbours, what is between them, and what is far from both."""
    near = [np.nextafter(end, towards) for end in (low, high) for towards in (-np.inf, np.inf)]
    middle = 0.5 * low + 0.5 * high
    found = [low, high, middle, 0.0, -0.0, LARGEST, -LARGEST, SMALLEST, *map(float, near)]
    return [value for value in found if np.isfinite(value)]


def norms_of(rows: Rows, X: Any, Y: Any) -> tuple[list[int], list[int]]:
    """Squared norms of features and labels, in Python's integers."""
    table = Table.open(X, list(rows.columns), labels=Y).with_rows(rows)
    norms: tuple[list[int], list[int]] = ([], [])
    for block in table.blocks():
        for found, part in zip(norms, (block.dense, block.labels), strict=True):
            found += [sum(int(v) ** 2 for v in row) for row in np.asarray(part).T.tolist()]
    return norms


@pytest.mark.parametrize("resolved", [True, False])
@given(
    st.lists(hostile_limits(), min_size=1, max_size=2),
    hostile_limits(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1e-3, 1.0, 10.0]),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(1e16, 1e16 + 2)], (1e16, 1e16 + 2), True, False, None)
@example([(1e16, 1e16 + 2)] * 3, (-1e16 - 2, -1e16), True, True, 1.5)
@example([(-1.0, 1.0)], (0.0, SMALLEST), False, False, None)
def test_no_row_is_longer_than_its_bound_whatever_the_limits(
    monkeypatch: pytest.MonkeyPatch,
    resolved: bool,
    limits: list[tuple[float, float]],
    label: tuple[float, float],
    centered: bool,
    intercept: bool,
    norm: float | None,
) -> None:
    """Even of limits that are refused, if they were not: on numpy, sparse and the array API."""
    monkeypatch.setattr("ndis.tables.columns._RESOLVED", 2.0**-32 if resolved else 0.0)
    names = [f"x{index}" for index in range(len(limits))]
    listed = dict(zip(names, limits, strict=True))
    refused, rows = None, None
    try:
        features = Columns(names, {}, listed, norm, intercept, centered)
        rows = Rows(features, Columns(["y"], limits={"y": label}, centered=centered))
    except ValueError as error:
        refused = str(error)
    if rows is None:
        assert re.fullmatch(r"Expected limits of [^\n]*\.", refused)
        return
    columns = [values_about(*pair) for pair in (*limits, label)]
    n_rows = max(map(len, columns))
    whole = np.array([np.resize(column, n_rows) for column in columns]).T
    whole = np.vstack([whole, np.roll(whole, 1, axis=0) * [1, *[-1] * len(limits)]])
    X, Y = whole[:, :-1], whole[:, -1]
    for source in (X, np.asfortranarray(X), sparse.csr_array(X), xp.asarray(X)):
        labels = xp.asarray(Y) if source.__class__.__module__.startswith("array_api") else Y
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours, own = norms_of(rows, source, labels)
        assert max(ours) <= GRID_NORM**2
        assert max(own) <= GRID_NORM**2


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.just(7)), elements=st.floats(-1e308, 1e308))
)
@settings(max_examples=100)
def test_vectors_of_any_length_become_integers_within_the_bound(vectors: np.ndarray) -> None:
    for found in (bounded(np, vectors), np.asarray(bounded(xp, xp.asarray(vectors)))):
        assert max(sum(int(v) ** 2 for v in row) for row in found.T.tolist()) <= GRID_NORM**2


@pytest.mark.parametrize("giant", [1e150, 1e305, 1.7e308])
@pytest.mark.parametrize("norm", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("stored", ["dense", "sparse", "elsewhere"])
def test_a_giant_row_counts_for_no_more_than_its_bound(
    giant: float, norm: float, stored: str
) -> None:
    """Its entries in grid units would overflow, and the sums of all rows become nonsense."""
    quiet = norm * np.array([[0.25, -0.5], [0.5, 0.125]])
    loud = np.vstack([quiet, [giant, -giant]])

    def gram(values: np.ndarray) -> np.ndarray:
        rows = Rows(Columns(["x0", "x1"], norm=norm))
        source = sparse.csr_array(values) if stored == "sparse" else values
        if stored == "elsewhere":  # without a warning of what overflows
            source = pytest.importorskip("array_api_strict").asarray(values)
        return Table.open(source).with_rows(rows).moments["gram"].value

    moved = gram(loud) - gram(quiet)
    assert 0.99 * 2**40 < np.trace(moved) <= 2**40
    assert np.all(np.sign(moved) == [[1, -1], [-1, 1]])


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
