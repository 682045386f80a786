"""Rows that executors keep, as bytes: a few rows in a cell, many cells in a record batch.

A row is its numbers, features before labels, in the narrowest type that holds all of them, which
depends on public parameters alone (`ndis.tables.kept`). Beside rows there are cells with the marks
of the records that they were made of, and with a sentence where a record could not be read. A cell
is about as long as a record, so that an engine that hands on so many records at a time hands on no
more of these than memory holds.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import naming, parameters_of
from ndis.tables.blocks import Block
from ndis.tables.exact import Accumulator
from ndis.tables.kept import Packed, Packing

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes of a cell, unless a row is longer.
_CELL = 4096
# What the weight of a cell says where it holds no rows; these weigh more.
_SEEN, _PROBLEM = 0, -1
# Rows of fewer numbers are turned into columns, which are then treated one by one.
_NARROW = 24


@dataclass(frozen=True)
class RowCells:
    """How the rows of a recipe become cells, and cells rows.

    A name that no others have keeps apart the frames that are made by it: Spark takes two that are
    made alike of one table for one, and whoever lets go of either lets go of both.
    """

    packing: Packing
    name: str = ""

    @property
    def _shape(self) -> tuple[int, Any]:
        """How many numbers of a row are features; and the type of all."""
        rows = self.packing.rows
        kinds = [self.packing.kind(group) for group in range(len(rows.groups))]
        return len(rows.features.names), np.result_type(*kinds)

    def of(self, block: Block) -> pa.RecordBatch:
        """The rows of a block."""
        parts = [part for part in (block.features, block.labels) if part is not None]
        rows = np.ascontiguousarray(np.concatenate(parts).T.astype(self._shape[1]))
        length = rows.shape[1] * rows.itemsize
        ends = np.arange(0, rows.nbytes, max(1, _CELL // length) * length)
        return _batch(rows, np.append(ends, rows.nbytes), block.weight)

    def read(self, batch: pa.RecordBatch, total: Accumulator) -> Iterator[Packed]:
        """The rows of a record batch, as they are kept elsewhere; marks are added to a total."""
        content, weights = batch.column("content"), batch.column("weight").to_numpy()
        ends, flat = _bytes(content)
        first = np.flatnonzero(np.diff(weights, prepend=-2, append=-2))
        for start, stop in itertools.pairwise(first):
            weight = int(weights[start])
            if weight > 0:
                yield from self._blocks(flat[ends[start] : ends[stop]], weight)
                continue
            for place in range(start, stop):
                cell = bytes(flat[ends[place] : ends[place + 1]])
                if weight == _PROBLEM:
                    raise unpacked(cell.decode())
                state = {name: np.array(sums) for name, sums in json.loads(cell).items()}
                total.merge(Accumulator.from_state(state))

    def _blocks(self, flat: Any, weight: int) -> Iterator[Packed]:
        n_features, kind = self._shape
        rows = self.packing.rows
        n = n_features + (0 if rows.labels is None else len(rows.labels.names))
        values = flat.view(kind).reshape(-1, n)
        order: Any = "C" if n < _NARROW else "K"

        def make(arrays: list[Any]) -> Block:
            numbers = arrays[0].T.astype(np.float64, order=order)
            block = Block(numbers[:n_features], numbers[n_features:] if n > n_features else None)
            block.weight = weight
            return block

        for start in range(0, len(values), rows.step):
            yield Packed([values[start : start + rows.step]], make, not self.packing.raw)


def seen_cell(total: Accumulator) -> pa.RecordBatch:
    """The sums of marks, as a cell."""
    state = total.state().items()
    return _single(json.dumps({name: np.array(sums).tolist() for name, sums in state}), _SEEN)


def problem_cell(error: ValueError) -> pa.RecordBatch:
    """An error in the data, as a cell."""
    return _single(packed(error), _PROBLEM)


def packed(error: ValueError) -> str:
    """An error in the data as text, which is what comes back from a task."""
    return json.dumps([str(error), *parameters_of(error)])


def unpacked(text: str) -> ValueError:
    """The error that was packed."""
    sentence, *parameters = json.loads(text)
    return naming(ValueError(sentence), *parameters)


def _single(text: str, weight: int) -> pa.RecordBatch:
    # Numbers of eight bytes that follow stay in step.
    content = np.frombuffer(text.encode() + b" " * (-len(text.encode()) % 8), np.uint8)
    return _batch(content, np.array([0, content.size]), weight)


def _batch(content: Any, ends: Any, weight: int) -> pa.RecordBatch:
    import pyarrow as pa

    n = len(ends) - 1
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
    cells = pa.Array.from_buffers(pa.binary(), n, buffers)
    weights = pa.array(np.full(n, weight, np.int64))
    return pa.RecordBatch.from_arrays([cells, weights], names=["content", "weight"])


def _bytes(content: Any) -> tuple[Any, Any]:
    """Where cells end, and the bytes of all; without a copy."""
    import pyarrow as pa

    width = np.int64 if pa.types.is_large_binary(content.type) else np.int32
    _, ends, flat = content.buffers()
    n = content.offset
    return np.frombuffer(ends, width)[n : n + len(content) + 1], np.frombuffer(flat, np.uint8)
