"""Rows that one pass has made and later ones use again: in memory, in a scratch file, on a card.

Rows on the grid are whole numbers below a public bound. They are kept in the narrowest type that
holds all of these, which depends on public parameters alone, in up to an eighth of the memory;
records whose limits are still to be found are kept as they are, in up to another. What is more goes
to a scratch file: its folder is named by the environment variable NDIS_SCRATCH, or is that of
temporary files; only the owner may read it, and it has no name, so that it is gone when the program
ends, however it ends. With NDIS_SCRATCH=none, or where the disk is full, the table is read again in
every pass. On a card rows take up to half of the free memory.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndis.tables.arrays import free_memory
from ndis.tables.blocks import Block, SparseBlock, Stack
from ndis.tables.rows import Rows

# Kept are up to one part in so many of the memory.
_SHARE = 8
# Blocks are handed out together up to so many bytes: to hand one to a thread costs as much as to
# add up a thousand rows.
_TOGETHER = 2**22


class _Room(threading.local):
    """Where each thread has the doubles of a block; those of the one before are needed no more."""

    def __reduce__(self) -> tuple[Any, ...]:  # it travels to executors, where others work
        return _Room, ()


_room = _Room()


def leave_room() -> None:
    """Free this thread's doubles, after a pass: others need the memory then."""
    vars(_room).clear()


def memory() -> int:
    """Bytes of memory that this program may use: those of the machine, or of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


class Packed(NamedTuple):
    """A block in little memory: the arrays that it is made of, and how it is made of them."""

    arrays: list[Any]  # or pieces of one, side by side
    make: Callable[[list[Any]], Block]
    ready: bool  # whether its rows are on the grid
    n_noted: int = 0  # bytes that notes of its rows take at most
    notes: dict[str, Any] | None = None  # what passes note of its rows, where there is room
    weight: int | None = None  # of all its rows, where it may lie beside others of the same

    @property
    def n_bytes(self) -> int:
        """How much memory it takes."""
        arrays = [array for each in self.arrays for array in _pieces(each)]
        widths = (getattr(array.dtype, "itemsize", 8) for array in arrays)
        return sum(width * math.prod(x.shape) for x, width in zip(arrays, widths, strict=True))

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return sum(int(array.shape[-1]) for array in _pieces(self.arrays[0]))

    def block(self) -> Block:
        """The block."""
        block = self.make(self.arrays)
        if self.notes is not None:
            block.notes = self.notes
        return block


@dataclass(frozen=True)
class Packing:
    """How blocks of a recipe's rows are kept: as numbers of its narrowest type, or as they are."""

    rows: Rows
    raw: bool = False

    def __call__(self, block: Block) -> Packed:
        """The block to be kept."""
        weight = block.weight
        if isinstance(block, Stack):
            return Packed([block.features], lambda _: block, True)
        if isinstance(block, SparseBlock):
            own, shape, shift = block.rows, block.rows.shape, block.shift
            arrays = [own.data.astype(np.int32), own.indices, own.indptr]

            def make(arrays: list[Any]) -> Block:
                from scipy import sparse

                data, indices, indptr, *labels = arrays
                own = (data.astype(np.float64), indices, indptr)
                rows = sparse.csr_array(own, shape=shape)
                block = SparseBlock(rows, shift, *(_doubles(part, "labels") for part in labels))
                return _weighing(block, weight)
        else:
            arrays = [self._narrow(block.features, 0)]

            def make(arrays: list[Any]) -> Block:
                return _weighing(Block(*map(_doubles, arrays, ("features", "labels"))), weight)

        alike = self.rows.weighting is not None and not isinstance(block, SparseBlock)
        n_labels = 0
        if block.labels is not None:
            n_labels = len(block.labels)
            arrays.append(self._narrow(block.labels, 1))
        # Of a row its length, its weight, and a root; and a residual for each label.
        noted = 8 * block.n_rows * (3 + n_labels)
        return Packed(arrays, make, not self.raw, noted, weight=weight if alike else None)

    def kind(self, group: int) -> Any:
        """The narrowest type that holds the features (group 0), or the labels (1)."""
        return np.float64 if self.raw else self.rows.groups[group].narrow

    def _narrow(self, values: Any, group: int) -> Any:
        return values if self.raw else values.astype(self.kind(group), order="K")


def _doubles(values: Any, name: str) -> Any:
    """The same as doubles, where this thread had those of the block before: in memory that is near.

    Memory that is asked for anew comes empty from the system, which takes longer than a product.
    """
    pieces = _pieces(values)
    first = pieces[0]
    if len(pieces) == 1 and first.dtype == np.float64:
        return first
    shape = (*first.shape[:-1], sum(piece.shape[-1] for piece in pieces))
    known, size = getattr(_room, name, None), math.prod(shape)
    if known is None or known.size < size:
        known = np.empty(size)
        setattr(_room, name, known)
    flat = known[:size]
    by_row = len(shape) == 2 and all(piece.flags.f_contiguous for piece in pieces)
    doubles = flat.reshape(shape[::-1]).T if by_row else flat.reshape(shape)
    start = 0
    for piece in pieces:
        stop = start + piece.shape[-1]
        np.copyto(doubles[..., start:stop], piece)
        start = stop
    return doubles


def _pieces(values: Any) -> tuple[Any, ...]:
    """An array, or what is to be put side by side."""
    return values if isinstance(values, tuple) else (values,)


def _weighing(block: Block, weight: int) -> Block:
    block.weight = weight
    return block


def _joined(parts: list[Packed], n_rows: int) -> Iterator[Packed]:
    """Blocks of so many rows, each of pieces of those that there were."""
    first, n = parts[0], sum(packed.n_rows for packed in parts)
    noted = first.n_noted // max(first.n_rows, 1)
    ahead, left = iter(parts), [array[..., :0] for array in first.arrays]
    for start in range(0, n, n_rows):
        pieces, missing = list[list[Any]](), min(n_rows, n - start)
        n_noted = noted * missing
        while missing:
            if not left[0].shape[-1]:
                left = next(ahead).arrays
            pieces.append([array[..., :missing] for array in left])
            left = [array[..., missing:] for array in left]
            missing -= pieces[-1][0].shape[-1]
        yield first._replace(arrays=[*zip(*pieces, strict=True)], n_noted=n_noted)


class Kept:
    """The blocks of a pass, in its order, if there is room for all of them."""

    def __init__(self) -> None:
        self._blocks: list[Packed] = []
        self._together: list[tuple[Packed, ...]] | None = None
        self._n_bytes, self._most = 0, -1
        self._noted = 0  # bytes that notes of all rows may take
        self._file: Scratch | None = None
        self.whole = True

    def extend(self, blocks: Iterable[Packed]) -> None:
        """Keep more blocks; none at all where there is no room for one of them."""
        for packed in blocks:
            if self.whole:
                self._add(packed)

    def _add(self, packed: Packed) -> None:
        on_card = not isinstance(packed.arrays[0], np.ndarray)
        if self._most < 0:
            first = packed.arrays[0]
            self._most = free_memory(first) // 2 if on_card else memory() // _SHARE
        self._n_bytes += packed.n_bytes
        self._noted += packed.n_noted
        if self._n_bytes > self._most:
            stored = None if on_card else self._stored(packed)
            if stored is None:
                self._blocks, self.whole = [], False
                return
            packed = stored
        self._blocks.append(packed)

    def join(self, n_rows: int) -> None:
        """Take rows of one weight together, in blocks of so many: few large ones are cheaper.

        They stay where they are: a block is put together when it is made.
        """
        alike: dict[int, list[Packed]] = {}
        others = []
        for packed in self._blocks:
            if packed.weight is None or not packed.arrays:  # which are in a file
                others.append(packed)
            else:
                alike.setdefault(packed.weight, []).append(packed)
        self._blocks = others
        for weight in sorted(alike):
            self._blocks += _joined(alike.pop(weight), n_rows)

    def blocks(self) -> Generator[tuple[Packed, ...]]:
        """The blocks, some at a time."""
        if self._together is None:
            self._together = [*self._some()]
        yield from self._together

    def _some(self) -> Iterator[tuple[Packed, ...]]:
        some, n_bytes = list[Packed](), 0
        noting = self._n_bytes + self._noted <= self._most
        for packed in self._blocks:
            some.append(packed._replace(notes={}) if noting else packed)
            n_bytes += packed.n_bytes
            if n_bytes >= _TOGETHER or not packed.arrays:  # these are read from a file
                yield tuple(some)
                some, n_bytes = [], 0
        if some:
            yield tuple(some)

    def _stored(self, packed: Packed) -> Packed | None:
        """The block in a scratch file; None where there is none, or no room in it."""
        folder = os.environ.get("NDIS_SCRATCH") or None
        if folder == "none":
            return None
        try:
            if self._file is None:
                self._file = Scratch(folder)
            places = [self._file.write(array) for array in packed.arrays]
        except OSError:
            return None
        file, make = self._file, packed.make

        def read(_: list[Any]) -> Block:
            return make([file.read(*place) for place in places])

        return Packed([], read, packed.ready)


class Scratch:
    """A file without a name, which only its owner may read; gone as soon as nobody needs it."""

    def __init__(self, folder: str | None) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)

    def write(self, array: Any) -> tuple[int, Any, Any, bool]:
        """Add an array at the end; what `read` needs to find it."""
        by_column = array.ndim == 2 and not array.flags.c_contiguous
        flat: Any = np.ascontiguousarray(array.T if by_column else array)
        place, left = os.lseek(self.descriptor, 0, os.SEEK_END), memoryview(flat).cast("B")
        while len(left):
            left = left[os.write(self.descriptor, left) :]
        return place, flat.dtype, flat.shape, by_column

    def read(self, place: int, dtype: Any, shape: Any, by_column: bool) -> Any:
        """An array, in the order in which it lay in memory; several threads may read at once."""
        flat: Any = np.empty(shape, dtype)
        left = memoryview(flat).cast("B")
        while len(left):
            n = os.preadv(self.descriptor, [left], place)
            if n == 0:
                raise OSError("A scratch file of ndis has become shorter; start again.")
            left, place = left[n:], place + n
        return flat.T if by_column else flat
