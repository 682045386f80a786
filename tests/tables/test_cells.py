"""Rows become cells of bytes and rows again, with what was seen of their records."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import Columns, Rows
from ndis.tables.batches import Batch
from ndis.tables.blocks import Block
from ndis.tables.cells import RowCells, problem_cell, seen_cell
from ndis.tables.exact import Accumulator
from ndis.tables.kept import Packing
from ndis.tables.marks import mark
from ndis.tables.sources import Request
from ndis.tables.sums import moments
from ndis.tables.table import Pass


def recipe(n: int, labelled: bool, **more: Any) -> Rows:
    names = [f"x{index}" for index in range(n)]
    more = more or {"norm": 3.0}
    return Rows(Columns(names, **more), Columns(["y"], limits={"y": (-2, 2)}) if labelled else None)


def far(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What an engine hands on: other buffers, some cells at a time."""
    table = pa.Table.from_batches(batches).combine_chunks()
    return [part.slice(0) for part in table.to_batches(max_chunksize=3)]


@pytest.mark.parametrize("n", [1, 3, 30, 1500])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_rows_come_back(n: int, labelled: bool, raw: bool, large: bool) -> None:
    rng = np.random.default_rng(n)
    rows, n_rows = recipe(n, labelled), 4000 if n < 1000 else 50
    values = rng.normal(size=(n_rows, n)) / np.sqrt(n)
    batch = Batch(values, rng.normal(size=(n_rows, 1)) if labelled else None)
    blocks = list(rows.raw_blocks(batch) if raw else rows.blocks(batch))
    blocks[0].weight = 12345
    cells = RowCells(Packing(rows, raw))
    sent = [cells.of(block) for block in blocks]
    assert max(len(cell) for part in sent for cell in part["content"].to_pylist()) <= max(
        4096, 8 * n + 8
    )
    if large:
        sent = [
            part.set_column(0, "content", part["content"].cast("large_binary")) for part in sent
        ]
    back = [packed for part in far(sent) for packed in cells.read(part, Accumulator())]
    assert {packed.ready for packed in back} == {not raw}
    for name in ("features", "labels") if labelled else ("features",):
        found = np.hstack([getattr(packed.block(), name) for packed in back])
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, np.hstack([getattr(block, name) for block in blocks]))
    weights = np.concatenate([np.full(p.block().n_rows, p.block().weight) for p in back])
    expected = np.concatenate([np.full(block.n_rows, block.weight) for block in blocks])
    np.testing.assert_array_equal(weights, expected)
    assert all(packed.block().n_rows <= 8192 for packed in back)


def test_marks_come_back_to_the_last_bit() -> None:
    cells, total = RowCells(Packing(recipe(2, False))), Accumulator()
    seen = [mark(Batch(np.random.default_rng(seed).normal(size=(999, 2)))) for seed in range(3)]
    rows = cells.of(Block(np.ones((2, 5))))
    parts = []
    for each in seen:
        one = Accumulator()
        one.add({"_mark": each})
        parts += [seen_cell(one), rows]
    found = [packed for part in far(parts) for packed in cells.read(part, total)]
    assert sum(packed.block().n_rows for packed in found) == 15
    expected = Accumulator()
    expected.add({"_mark": sum(seen)})
    assert max(map(int, sum(seen))) > 2**40
    assert total.sums()["_mark"] == expected.sums()["_mark"]


def test_an_error_in_the_data_comes_back() -> None:
    cells = RowCells(Packing(recipe(2, False)))
    parts = far([cells.of(Block(np.ones((2, 5)))), problem_cell(ValueError("Wrong; mend it."))])
    with pytest.raises(ValueError, match=r"^Wrong; mend it\.$"):
        [list(cells.read(part, Accumulator())) for part in parts]
    assert not list(cells.read(parts[0].slice(0, 0), Accumulator()))


def test_public_limits_choose_the_type() -> None:
    many = recipe(3, False, limits={f"x{index}": (0, 1) for index in range(3)}, norm=None)
    wide = RowCells(Packing(many)).of(Block(np.ones((3, 1))))
    assert len(wide["content"][0].as_py()) == 12
    raw = RowCells(Packing(many, True)).of(Block(np.ones((3, 1))))
    assert len(raw["content"][0].as_py()) == 24


@pytest.mark.parametrize("raw", [False, True])
def test_what_makes_cells_travels_by_value(raw: bool) -> None:
    """All that it needs of this library, which executors need not have; no cluster is started."""
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle

    from ndis.tables.spark import _making, _making_again, _summing_cells, pickled_by_value

    rows = recipe(2, True)
    work, cells = Pass(rows, moments, raw), RowCells(Packing(rows, raw))
    request = Request(("x0", "x1", "y"), rows.kinds, 3)
    with pickled_by_value(work):
        tasks = cloudpickle.dumps(
            [
                _making(request, None, work, cells),
                _making_again(work, cells, cells),
                _summing_cells(work, cells),
            ]
        )
    # In a process of its own: here it would give the classes of this one other methods.
    unpack = """import sys
from pyspark import cloudpickle
assert [callable(task) for task in cloudpickle.loads(sys.stdin.buffer.read())] == [True] * 3
"""
    subprocess.run([sys.executable, "-c", unpack], input=tasks, check=True)
