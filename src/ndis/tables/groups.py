"""Exact sums by group: how many rows, where their numbers lie, and their moments.

A record belongs to one cell, by its levels of some columns; a value that is not listed has a place
of its own behind the levels. All terms are whole numbers: counts of bins of a public grid, and the
moments of numbers that were clipped to public ends and rounded to 2^16 steps on either side of
their middle. What becomes of a record depends on that record and on public numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray
from ndis.tables.arrays import beside, on_host
from ndis.tables.blocks import Block
from ndis.tables.columns import Columns
from ndis.tables.exact import BLOCK_ROWS
from ndis.tables.grid import Grid

# Steps between the middle of the ends and either of them: 8192 squares of that are 2^45, and with
# weights and coordinates of twice that there is room for 2^28 rows of a cell.
STEPS = 2**16
# Arrays with more entries than this are handed on by their entries that are not zero.
_DENSE = 2**16


class Positions(Columns):
    """Columns whose values become their positions in public lists of levels; -1 if not listed.

    Examples
    --------
    >>> Positions(["ward"], {"ward": ["A", "B"]}).names
    ('ward',)
    """

    def names_of(self, column: str) -> tuple[str, ...]:
        """One number for each column."""
        return (column,)

    def fill(self, target: Any, values: Any, scaled: bool = False) -> None:
        """Write the positions of a block of records into `target`, one row for each column."""
        for place, column in enumerate(self.columns):
            target[place] = values[column]

    def to_grid(self, values: Any, shrink: Any = None, *, scaled: bool = False) -> tuple[Any, Any]:
        """Positions are whole numbers already."""
        return values, None

    def grid(self, array: Any) -> Grid:
        """On a graphics card too they stay what they are."""
        one, most = (beside(np.full((len(self.names), 1), each), array) for each in (1.0, 2.0**31))
        return Grid(None, one, (-one, most), True)


@dataclass(frozen=True)
class Cells:
    """Which cell a record belongs to, by the positions of its levels.

    Attributes
    ----------
    sizes : tuple of int
        How many levels each column has; what is not listed comes behind them.
    columns : tuple of int, optional
        Where the positions of these columns are; the first ones if not given.
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Places along each column."""
        return tuple(size + 1 for size in self.sizes)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def of(self, positions: FloatArray, n_rows: int) -> NDArray[np.int64]:
        """The cells of some records."""
        found = np.zeros(n_rows, dtype=np.int64)
        columns = range(len(self.sizes)) if self.columns is None else self.columns
        for size, column in zip(self.sizes, columns, strict=True):
            position = positions[column]
            found *= size + 1
            found += np.where(position < 0, size, position).astype(np.int64)
        return found


def _parts(block: Block) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Features and labels, at most 8192 rows at a time, so that doubles hold their sums."""
    features = on_host(block.dense)
    labels = np.empty((0, block.n_rows)) if block.labels is None else on_host(block.labels)
    for start in range(0, block.n_rows, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        yield features[:, part], labels[:, part]


def _added(parts: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Terms of all parts of a block, as 64-bit integers where there are several."""
    first = dict(next(parts))
    for more in parts:
        for name, term in more.items():
            whole = term if hasattr(term, "tocoo") else term.astype(np.int64)
            before = first[name]
            first[name] = whole + (before if hasattr(before, "tocoo") else before.astype(np.int64))
    return first


def _counted(places: NDArray[np.int64], shape: tuple[int, int]) -> Any:
    """How often each place of a matrix occurs; sparse if it has many."""
    size = shape[0] * shape[1]
    if size <= _DENSE:
        return np.bincount(places, minlength=size).astype(np.float64).reshape(shape)
    from scipy import sparse

    known, counts = np.unique(places, return_counts=True)
    return sparse.coo_array((counts.astype(np.float64), divmod(known, shape[1])), shape=shape)


@dataclass(frozen=True)
class GroupCounts:
    """Rows of each cell, of each bin of its numbers, and of each level of other columns.

    Attributes
    ----------
    cells : Cells
        By the first columns of labels.
    numbers : tuple of int
        Which features are counted in bins.
    units : float
        The largest number on the grid, a whole one.
    n_bins : int
        Bins between the ends of the grid.
    others : tuple of int
        How many levels each of the last columns of labels has, whose levels are counted.
    """

    cells: Cells
    numbers: tuple[int, ...]
    units: float
    n_bins: int
    others: tuple[int, ...] = ()

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms "count", "bins" and "shares", with a row for each cell (and number)."""
        return _added(self._terms(*part) for part in _parts(block))

    def _terms(self, features: FloatArray, labels: FloatArray) -> dict[str, Any]:
        n, first = len(self.cells), len(labels) - len(self.others)
        cell = self.cells.of(labels, features.shape[1])
        terms: dict[str, Any] = {"count": np.bincount(cell, minlength=n).astype(np.float64)}
        if self.numbers and self.n_bins:
            rows = [cell * len(self.numbers) + at for at in range(len(self.numbers))]
            places = [
                row * self.n_bins + self._bin(features[number])
                for row, number in zip(rows, self.numbers, strict=True)
            ]
            terms["bins"] = _counted(np.concatenate(places), (n * len(self.numbers), self.n_bins))
        if self.others:
            width, start, places = sum(self.others) + len(self.others), 0, []
            for size, position in zip(self.others, labels[first:], strict=True):
                level = np.where(position < 0, size, position).astype(np.int64)
                places.append(cell * width + start + level)
                start += size + 1
            terms["shares"] = _counted(np.concatenate(places), (n, width))
        return terms

    def _bin(self, numbers: FloatArray) -> NDArray[np.int64]:
        """Quotients of whole numbers below 2^53: their integer parts are exact."""
        step = np.floor((numbers + self.units) * self.n_bins / (2.0 * self.units + 1.0))
        return np.asarray(step).astype(np.int64)


@dataclass(frozen=True)
class GroupMoments:
    """Rows of each cell, and sums and squares of its numbers between ends of their own.

    Attributes
    ----------
    cells : Cells
    numbers : tuple of int
        Which features.
    low, high : ndarray of shape (n_cells, n_numbers)
        Whole numbers of the grid, low < high: numbers are clipped to them.
    """

    cells: Cells
    numbers: tuple[int, ...]
    low: FloatArray
    high: FloatArray

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms "count", "sums" and "squares", of numbers between -2^16 and 2^16."""
        return _added(self._terms(*part) for part in _parts(block))

    def _terms(self, features: FloatArray, labels: FloatArray) -> dict[str, Any]:
        from scipy import sparse

        n, rows = len(self.cells), features.shape[1]
        cell = self.cells.of(labels, rows)
        steps = self._steps(features, cell)
        # Every record adds its numbers, which lie beside each other, to those of its cell.
        ends = np.arange(rows + 1, dtype=np.int32)
        adding = sparse.csc_array((np.ones(rows), cell.astype(np.int32), ends), shape=(n, rows))
        sums = adding @ steps
        squares = adding @ np.square(steps, out=steps)
        count = np.bincount(cell, minlength=n).astype(np.float64)
        return {"count": count, "sums": sums, "squares": squares}

    def _steps(self, features: FloatArray, cell: NDArray[np.int64]) -> FloatArray:
        """Between -2^16 and 2^16, a row for each record, whatever was rounded: clipped last."""
        numbers = slice(None) if self.numbers == tuple(range(len(features))) else [*self.numbers]
        steps = np.ascontiguousarray(features[numbers].T)
        if np.shares_memory(steps, features):
            steps = steps.copy()
        middle, scale = 0.5 * (self.low + self.high), 2.0 * STEPS / (self.high - self.low)
        same = (self.low == self.low[0]).all() and (self.high == self.high[0]).all()
        # The same ends for all cells, as most often, are one number for each column.
        where: Any = 0 if same else cell
        if not same or middle[0].any():
            steps -= middle[where]
        steps *= scale[where]
        np.rint(steps, out=steps)
        return np.clip(steps, -STEPS, STEPS, out=steps)


@dataclass(frozen=True)
class Named:
    """Sums of one grouping of several: the same with a word behind their names.

    Attributes
    ----------
    function : callable
        As `Table.sum` takes it.
    suffix : str
    """

    function: Callable[[Block], Mapping[str, Any]]
    suffix: str

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The terms of the function."""
        return {f"{name}{self.suffix}": term for name, term in self.function(block).items()}
