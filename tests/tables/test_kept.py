"""Rows that are kept for later passes: the source is read once, wherever they lie."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy import sparse

from ndis import PrivateLeastSquares, PrivateLogisticRegression
from ndis.tables import Block, Columns, Rows, Table, Weighting, kept, moments
from ndis.tables.kept import Kept, Packing, memory
from ndis.tables.sums import (
    CutGram,
    CutNorms,
    Pull,
    PullCounts,
    PullSum,
    WeightedMoments,
    Weights,
    totals,
)

N = 10_000


def matrix(d: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, d))


def a_table(source: Any, names: Any = None, **recipe: Any) -> Table:
    table = Table.open(source, names)
    label = Columns(["y"], limits={"y": (-2, 2)})
    names = [name for name in table.columns if name != "y"]
    return table.with_rows(Rows(Columns(names, **{"norm": 2.0, **recipe}), label))


@pytest.fixture(params=["memory", "scratch", "nowhere"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> str:
    if request.param != "memory":
        monkeypatch.setattr(kept, "memory", lambda: 8 * 100_000)
    scratch = {"nowhere": "none", "memory": "/nowhere", "scratch": str(tmp_path)}
    monkeypatch.setenv("NDIS_SCRATCH", scratch[request.param])
    return str(request.param)


def reads_of(frame: pa.Table) -> tuple[Any, list[int]]:
    """A function that yields batches, and how often it was called."""
    calls: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        calls.append(1)
        return iter(frame.to_batches(max_chunksize=3000))

    return batches, calls


@pytest.mark.parametrize("recipe", [{}, {"norm": None, "limits": dict.fromkeys("abcde", (-1, 1))}])
def test_later_passes_have_the_same_bits_and_do_not_read(place: str, recipe: Any) -> None:
    values = matrix(6)
    frame = pa.table(dict(zip("abcdey", values.T, strict=True)))
    batches, calls = reads_of(frame)
    again, plain = a_table(batches, **recipe), a_table(frame, **recipe)
    opened = len(calls)
    again.sum(totals, again=True)
    for function in (moments, CutGram(3), CutGram(2)):
        found, expected = again.sum(function), plain.sum(function)
        assert all(found[name] == expected[name] for name in expected)
    assert len(calls) - opened == (4 if place == "nowhere" else 1)


def test_rows_of_one_weight_are_kept_side_by_side(place: str) -> None:
    """Batches of 3,000 rows hold few of each weight; a full block of them costs hardly more."""
    rng = np.random.default_rng(4)
    names = ["a", "b", "y"]
    columns = dict(zip(names, matrix(3).T, strict=True)) | {"who": rng.integers(0, N // 5, N)}
    source, calls = reads_of(pa.table(columns))
    table = a_table(source, [*names, "who"])
    table = table.weighed(Weighting("who")).with_rows(
        Rows(Columns(names[:2], norm=2.0), Columns(["y"], limits={"y": (-2, 2)}))
    )
    first = table.sum(moments, again=True)
    n_read, later = len(calls), table.sum(moments, again=True)
    assert later == first
    if place == "nowhere":
        return
    assert len(calls) == n_read
    blocks = [each.block() for some in table._kept.blocks() for each in some]
    assert sum(block.n_rows for block in blocks) == N
    if place == "memory":
        step, sizes = table.rows.step, {}
        for block in blocks:
            sizes.setdefault(block.weight, []).append(block.n_rows)
        assert max(map(len, sizes.values())) == 1  # no weight has more rows than a block
        assert max(max(each) for each in sizes.values()) <= step
        assert list(sizes) == sorted(sizes)


def test_blocks_of_many_rows_of_one_weight_are_full() -> None:
    rows = Rows(Columns(["a"], limits={"a": (-1, 1)}), None, weighting=Weighting("who"))
    parts, known = [], Kept()
    for start, n in ((0, 700), (700, 10), (710, 290)):
        parts.append(Block(np.arange(start, start + n, dtype=float)[None]))
        parts[-1].weight = 5
    known.extend(map(Packing(rows), parts))
    known.join(400)
    blocks = [each.block().features.copy() for some in known.blocks() for each in some]
    assert [block.shape[1] for block in blocks] == [400, 400, 200]
    assert np.hstack(blocks).ravel().tolist() == list(range(1000))


def test_sparse_rows_stay_sparse_where_they_are_kept(place: str) -> None:
    rng = np.random.default_rng(1)
    values = sparse.csr_array(rng.uniform(size=(N, 6)) * (rng.uniform(size=(N, 6)) < 0.1))
    labels = np.linspace(-1, 1, N)
    again, plain = (
        Table.open(values, [*"abcdef", "y"], labels=labels).with_rows(
            Rows(Columns("abcdef", norm=1.0), Columns(["y"], limits={"y": (-1, 1)}))
        )
        for _ in range(2)
    )
    again.sum(totals, again=True)
    for name, expected in plain.sum(moments).items():
        assert again.sum(moments)[name] == expected


def test_a_scratch_file_is_its_owners_and_has_no_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(kept, "memory", lambda: 0)
    monkeypatch.setenv("NDIS_SCRATCH", str(tmp_path))
    table = a_table(pa.table(dict(zip("aby", matrix(3).T, strict=True))))
    table.sum(totals, again=True)
    assert table._kept is not None
    file = table._kept._file
    assert file is not None
    status = os.fstat(file.descriptor)
    assert (status.st_mode & 0o777, status.st_nlink) == (0o600, 0)
    assert status.st_dev == tmp_path.stat().st_dev
    assert list(tmp_path.iterdir()) == []
    assert status.st_size == 4 * 3 * N


def test_a_full_disk_costs_time_but_no_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "memory", lambda: 0)
    monkeypatch.setenv("NDIS_SCRATCH", str(tmp_path))
    monkeypatch.setattr(os, "write", full)
    batches, calls = reads_of(pa.table(dict(zip("aby", matrix(3).T, strict=True))))
    table = a_table(batches)
    before = len(calls)
    for _ in range(2):
        table.sum(totals, again=True)
    assert len(calls) - before == 2


@pytest.mark.parametrize(("d", "kind"), [(10, np.int32), (1023, np.int32), (1030, np.int16)])
def test_rows_are_kept_in_the_narrowest_type_of_public_bounds(d: int, kind: Any) -> None:
    names = [f"x{j}" for j in range(d)]
    rows = Rows(Columns(names, limits=dict.fromkeys(names, (-1, 1))))
    # The longest row there is, and the shortest.
    (block,) = rows.blocks(np.vstack([np.ones((1, d)), np.zeros((1, d))]))
    packed = Packing(rows)(block)
    assert packed.arrays[0].dtype == kind
    np.testing.assert_array_equal(packed.block().features, block.features)
    assert packed.block().features.dtype == np.float64


def test_text_is_parsed_once_also_where_limits_are_found(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pa.table(dict(zip("aby", matrix(3).T, strict=True)))
    pa.csv.write_csv(frame, tmp_path / "t.csv")
    opened = []
    read = pa.csv.open_csv
    monkeypatch.setattr(pa.csv, "open_csv", lambda *a, **k: opened.append(1) or read(*a, **k))
    asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "columns": ["a", "b", "y"]}
    model = PrivateLeastSquares(limits="private", **asked)
    model.fit(tmp_path / "t.csv", "y")
    assert len(opened) == 2  # the names, and the records
    expected = PrivateLeastSquares(limits="private", **asked).fit(frame, "y")
    for name, array in expected.release_.arrays.items():
        np.testing.assert_array_equal(model.release_.arrays[name], array)


@pytest.mark.parametrize("found", [False, True])
def test_a_fit_has_the_same_bits_wherever_rows_are_kept(place: str, found: bool) -> None:
    values = matrix(2)
    frame = pa.table({"a": values[:, 0], "b": values[:, 1], "y": (values[:, 0] > 0) * 1.0})
    limits: Any = "private" if found else {"a": (-3, 3), "b": (-3, 3)}
    model = PrivateLogisticRegression(
        limits=limits, classes=[0, 1], epsilon=1.0, delta=1e-6, random_state=0
    )
    assert EXPECTED.setdefault(found, model.fit(frame, "y").coef_.tolist()) == model.coef_.tolist()


EXPECTED: dict[bool, Any] = {}


def test_the_memory_is_that_of_the_machine_at_most() -> None:
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory() <= pages
    assert tempfile.gettempdir()
    empty = Kept()
    assert empty.whole
    assert list(empty.blocks()) == []


def test_notes_of_kept_rows_are_those_of_the_question_asked(place: str) -> None:
    """Lengths and residuals are computed once for each metric, and for each prediction."""
    frame = pa.table(dict(zip("abcdey", matrix(6).T, strict=True)))
    again = a_table(frame)
    again.sum(totals, again=True)
    rng = np.random.default_rng(1)
    for pull in [a_pull(rng), a_pull(rng)] * 2:
        turned = replace(pull, vectors=pull.vectors.copy())
        turned.vectors[:, 0] *= -0.5  # one direction of the metric alone
        scaled = (replace(pull, weight=3.0), replace(pull, factors=2 * pull.factors))
        for metric in (pull, *scaled, turned):
            for asked in (PullCounts(metric, 8.0), PullSum(metric, (0.5,), 2.0**19)):
                known, plain = again.sum(asked, again=True), a_table(frame).sum(asked)
                assert all(known[name] == plain[name] for name in plain)
    centers = [np.rint(rng.uniform(-(2**18), 2**18, 5)) for _ in range(2)]
    for center in [*centers, None, centers[0]]:
        known = again.sum(CutNorms(center), again=True)
        assert known["norms"] == a_table(frame).sum(CutNorms(center))["norms"]
    for radius in (0.25, 0.5):
        for center in centers:
            moments = WeightedMoments(Weights(center, radius))
            assert again.sum(moments, again=True)["gram"] == a_table(frame).sum(moments)["gram"]


def a_pull(rng: np.random.Generator) -> Pull:
    vectors = np.rint(rng.uniform(-(2**30), 2**30, (5, 3)))
    return Pull(vectors, 2.0**-52, np.full(2, 2.0**-52), np.zeros(2), 2.0, 0.01, 1e-6)


def test_notes_take_no_memory_where_rows_fill_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and what is noted of them take an eighth of the memory together, or nothing is noted."""
    frame = pa.table(dict(zip("abcdey", matrix(6).T, strict=True)))
    of_rows, of_notes = N * 6 * 4, N * 4 * 8
    for most, noted in ((of_rows + of_notes, True), (of_rows + of_notes - 1, False)):
        monkeypatch.setattr(kept, "memory", lambda most=most: 8 * most)
        table = a_table(frame)
        table.sum(totals, again=True)
        assert table._kept is not None
        blocks = [packed for some in table._kept.blocks() for packed in some]
        assert {packed.notes is not None for packed in blocks} == {noted}


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_notes_take_no_more_memory_than_is_foreseen(make: Any, labelled: bool) -> None:
    values = matrix(3)
    rows = Rows(Columns(["a", "b", "c"], norm=2.0))
    table = Table.open(make(values), labels=values[:, 0] if labelled else None)
    if labelled:
        rows = replace(rows, labels=Columns(["y"], limits={"y": (-2, 2)}))
    table = table.with_rows(rows)
    weights = Weights(np.zeros(3), 0.5)
    for _ in range(2):
        table.sum(WeightedMoments(weights), again=True)
    packed = [each for some in table._kept.blocks() for each in some]  # type: ignore[union-attr]
    assert sum(each.block().n_rows for each in packed) == N
    for each in packed:
        assert each.notes is not None
        noted = sum(known.nbytes for _, known in each.notes.values())
        assert 0 < noted <= each.n_noted
