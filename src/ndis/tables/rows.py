"""What is read of each record, and how records become blocks of integers.

Features and labels each have their recipe (`ndis.tables.columns`). Blocks are made in memory, from
sparse matrices and on graphics cards; a record becomes the same integers in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ndis.tables.arrays import beside, fused, namespace, on_host
from ndis.tables.batches import Batch
from ndis.tables.blocks import Block, SparseBlock, Stack, squared
from ndis.tables.columns import Columns, Limits
from ndis.tables.exact import BLOCK_ROWS, STACK_ROWS
from ndis.tables.grid import GIANT, Grid, shortened, shortening, tentative, whole
from ndis.tables.ids import ids, marks_of
from ndis.tables.values import Kind, missing_values
from ndis.tables.weights import Weighting

# Rows of a block in memory: columns a multiple of 4096 bytes apart get in each other's way. Blocks
# of long rows have fewer, down to the least, so that they stay near the processor.
_STEP, _ENTRIES, _LEAST = BLOCK_ROWS - 8, 2**19, 512
# Rows of fewer numbers are turned into columns, which are then treated one by one.
_NARROW = 24


@dataclass(frozen=True)
class Rows:
    """What is read of each record: features and, apart from them, labels.

    Parameters
    ----------
    features : Columns
    labels : Columns, optional
    weighted : bool, default True
        Whether the labels of a record are scaled down with its features, so that a linear
        relation between the two is kept.
    drop_missing : bool, default False
        Whether records with missing or infinite values are left out; otherwise they are an error.
    weighting : Weighting, optional
        How much each record counts; all count once without it.
    sought : mapping of str to tuple
        Columns whose levels are to be found, and what stands for these until then.
    """

    features: Columns
    labels: Any = None  # Columns, which estimators with labels rely on, or None
    weighted: bool = True
    drop_missing: bool = False
    weighting: Weighting | None = None
    sought: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table that are read."""
        return tuple(name for group in self.groups for name in group.columns)

    @property
    def levels(self) -> Mapping[str, tuple[Any, ...]]:
        """Public levels of all categorical columns."""
        return {name: tuple(known) for group in self.groups for name, known in group.levels.items()}

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """What each column that is read holds, as its limits or levels say."""
        return {name: kind for group in self.groups for name, kind in group.kinds.items()}

    @property
    def widths(self) -> Mapping[str, int]:
        """Lengths of the lists in columns of lists."""
        return {name: width for group in self.groups for name, width in group.widths.items()}

    @property
    def bought(self) -> list[tuple[str, int, int]]:
        """Numbers whose limits are to be found: column, group (features, labels), and place."""
        return [
            (name, index, place)
            for index, group in enumerate(self.groups)
            for name, places in group.bought.items()
            for place in places
        ]

    def found(self, limits: Limits) -> Rows:
        """The same recipe with limits that have been found."""
        labels = None if self.labels is None else self.labels.found(limits)
        return replace(self, features=self.features.found(limits), labels=labels)

    @property
    def groups(self) -> tuple[Columns, ...]:
        """Features and, if there are any, labels."""
        return (self.features,) if self.labels is None else (self.features, self.labels)

    def blocks(self, batch: Any, *, checked: bool = True) -> Iterator[Block]:
        """Yield the records of a batch (see `Batch`) as blocks of grid integers.

        ``checked=False`` defers the check that values are finite to the end of the pass, avoiding
        a wait for the card.
        """
        records = Batch.of(batch, self)
        make, step = self._dense, self.step
        if records.elsewhere:
            make, step = self._stack, STACK_ROWS
        elif records.sparse and self._stays_sparse():
            # Before they are centred rows are up to twice as long.
            make, step = self._sparse, BLOCK_ROWS // (4 if self.features.middle.any() else 1)
        # What counts nothing is not looked at.
        if make == self._dense and records.weights is not None and np.all(records.weights):
            yield from self._ordered(records)
            return
        for weight, alike in records.by_weight():
            for start in range(0, alike.n_rows, step):
                parts = alike.part(start, start + step)
                block = make(*parts)
                if checked and isinstance(block, Stack) and block.xp.any(block.odd):
                    self._raw(*parts)  # names the column
                block.weight = weight
                yield block

    def _ordered(self, records: Batch) -> Iterator[Block]:
        """Blocks of records in memory, weight by weight; of most weights a batch has few.

        They reach the grid in full blocks, and are put in order as small integers.
        """
        n_rows, step = records.n_rows, self.step
        whole = [np.empty((len(group.names), n_rows), group.narrow) for group in self.groups]
        for start in range(0, n_rows, step):
            made = self._dense(*records.part(start, start + step))
            for values, own in zip(whole, (made.features, made.labels), strict=False):
                values[:, start : start + step] = own
        order, runs = records.runs()
        whole = [np.take(values, order, axis=1) for values in whole]
        for weight, first, last in runs:
            for start in range(first, last, step):
                part = slice(start, min(start + step, last))
                block = Block(*(values[:, part].astype(np.float64) for values in whole))
                block.weight = weight
                yield block

    def marks_of_sought(self, data: Any) -> dict[str, Any]:
        """Marks of the values of columns whose levels are to be found."""
        return {name: marks_of(ids(name, data.column(name))) for name in self.sought}

    @property
    def step(self) -> int:
        """Of how many records blocks are made in memory."""
        return min(max(_ENTRIES // len(self.features.names), _LEAST), _STEP)

    def raw_blocks(self, batch: Any) -> Iterator[Block]:
        """Yield the numbers of a batch as they are in the table, dense."""
        records = Batch.of(batch, self)
        step = STACK_ROWS if records.elsewhere else self.step
        for weight, alike in records.by_weight():
            for start in range(0, alike.n_rows, step):
                block = Block(*self._raw(*alike.part(start, start + step)))
                block.weight = weight
                yield block

    def on_grid(self, raw: Block) -> Block:
        """The grid integers of a block of numbers as they are in the table, in memory."""
        values = [part.copy(order="K") for part in (raw.features, raw.labels) if part is not None]
        integers, shrink = self.features.to_grid(values[0])
        block = Block(integers, self._labels(values, shrink))
        block.weight = raw.weight
        return block

    def _raw(self, *parts: Any) -> list[Any]:
        raw = [_raw(*pair) for pair in zip(self.groups, parts, strict=True)]
        return self._complete([beside(part, raw[0]) for part in raw])

    def _dense(self, *parts: Any) -> Block:
        group = self.features
        if not (group.middle.any() or self.drop_missing):
            with np.errstate(over="ignore", invalid="ignore"):
                values = _raw(group, parts[0], scaled=True)
            raw = [_raw(self.labels, part) for part in parts[1:]]
            found = self._scaled(values) if all(map(_finite, raw)) else None
            if found is not None:
                integers, shrink = found
                return Block(integers, self._labels(raw, shrink))
        raw = self._raw(*parts)
        integers, shrink = group.to_grid(raw[0])
        return Block(integers, self._labels(raw, shrink))

    def _scaled(self, values: Any) -> tuple[Any, Any] | None:
        """Grid integers of numbers that have been scaled; None if they are not finite then."""
        group = self.features
        if group.limits is not None or group.boxed:
            return group.to_grid(values, scaled=True) if _finite(values) else None
        with np.errstate(over="ignore", invalid="ignore"):
            squares = squared(np, np.rint(values, out=values))
        # If so, all numbers are finite, and there are none that must be cut.
        return shortened(np, values, squares) if np.max(squares) <= GIANT**2 else None

    def _stack(self, *parts: Any) -> Stack:
        """Records on a graphics card; whether all are finite is seen at the end of the pass."""
        records, xp = parts[0], namespace(parts[0])
        intercept = self.features.intercept
        raw = [beside(_raw(self.labels, part), records) for part in parts[1:] if self.labels]
        if self.drop_missing:
            first, *raw = self._complete([_doubles(xp, records, intercept), *raw])
            records, intercept = first.T, False

        def measure(group: Columns, values: Any, intercept: bool, shrink: Any) -> Any:
            n, more = len(group.names), (values, intercept, shrink, group.grid(records))
            with np.errstate(over="ignore"):  # of libraries that are made of numpy
                *found, doubtful = fused(_measured, records)(xp, None, *more)
                if not group.boxed and bool(xp.any(doubtful)):
                    whole_rows = _checked(xp, *more)[0]
                    squares = squared(xp, whole_rows)
                    factors = shortening(xp, squares, n, lambda index: whole_rows[:, index])
                    *found, _ = fused(_measured, records)(xp, factors, *more)
            return found

        shrink, integers, squares, finite = measure(self.features, records, intercept, None)
        labels = None
        if self.labels is not None:
            factor = shrink if self.weighted else None
            _, labels, *_, too = measure(self.labels, raw[0].T, False, factor)
            finite = finite & too
        return Stack(integers, labels, squares, ~finite)

    def _labels(self, raw: list[Any], shrink: Any) -> Any:
        if self.labels is None:
            return None
        return self.labels.to_grid(raw[-1], shrink if self.weighted else None)[0]

    def _complete(self, parts: list[Any], stored: Any = None) -> list[Any]:
        """Refuse or drop records that are not finite; a sum of squares tells at little cost."""
        if all(_finite(part) for part in parts):
            return parts
        if stored is not None:
            raise ValueError(
                "The sparse matrix or its labels have missing or infinite values; drop those rows."
            )
        xp = namespace(parts[0])
        kept = xp.all(xp.isfinite(xp.concat(parts, axis=0)), axis=0)
        if self.drop_missing:
            return [xp.take(part, xp.nonzero(kept)[0], axis=1) for part in parts]
        for group, part in zip(self.groups, parts, strict=True):
            finite = on_host(xp.all(xp.isfinite(part), axis=1))
            if not finite.all():
                raise missing_values(group.names[int(np.argmin(finite))])
        return parts

    # -- sparse ------------------------------------------------------------------------------

    def _stays_sparse(self) -> bool:
        """Whether zeros stay zeros until the sums are centred."""
        keeps_zero = bool(np.all((self.features.low <= 0) & (self.features.high >= 0)))
        return keeps_zero and (self.features.boxed or self.features.limits is None)

    def _sparse(self, records: Any, *more: Any) -> SparseBlock:
        from scipy import sparse

        group, first = self.features, int(self.features.intercept)
        raw = [_raw(self.labels, part) for part in more] if self.labels is not None else []
        self._complete([records.data[None, :], *raw], stored=records)
        place = records.indices + first
        low, high = group.stored_ends()
        with np.errstate(over="ignore"):
            data = np.clip(np.round(records.data * group.scale[place]), low[place], high[place])
        parts = (data, records.indices, records.indptr)
        rows = sparse.csr_array(parts, shape=records.shape)
        if first:
            ones = np.full((records.shape[0], 1), np.round(group.scale[0]))
            rows = sparse.hstack([ones, rows], format="csr")
        shrink = None
        if not group.boxed:
            n_rows, n = rows.shape
            row = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
            squares = np.bincount(row, rows.data * rows.data, n_rows)
            shrink = shortening(np, squares, n, lambda index: rows.data[row == index])
            rows.data = np.round(rows.data * shrink[row])
        return SparseBlock(rows, group.shift, self._labels(raw, shrink))


def _checked(xp: Any, part: Any, intercept: bool, shrink: Any, grid: Grid) -> tuple[Any, Any]:
    """`whole` of records, and whether all values of each are finite; others count as zeros here."""
    values = _doubles(xp, part, intercept)
    entries = xp.isfinite(values)
    values = xp.where(entries, values, xp.zeros_like(values))
    return whole(xp, values, shrink, grid), xp.all(entries, axis=0)


def _measured(xp: Any, factors: Any, *record: Any) -> tuple[Any, ...]:
    """Factors, records on the grid, squared norms, what is finite: in one pass.

    Last is which factors are in doubt, where none are given.
    """
    integers, finite = _checked(xp, *record)
    doubtful = xp.zeros_like(finite)
    if factors is None and not record[-1].boxed:
        factors, doubtful = tentative(xp, squared(xp, integers), integers.shape[0])
    if factors is not None:
        integers = xp.round(integers * factors)
    return factors, integers, squared(xp, integers), finite, doubtful


def _raw(group: Columns, part: Any, scaled: bool = False) -> Any:
    """The numbers of some records, one row for each number; on a graphics card if they are.

    In memory they stay in the order in which they lie there, unless rows are short.
    """
    if hasattr(part, "tocsr"):
        part = part.toarray()
    columns, n = isinstance(part, Mapping), len(group.names)
    if not (columns or isinstance(part, np.ndarray)):
        return _doubles(namespace(part), part, group.intercept)
    n_rows = len(next(iter(part.values()))) if columns else len(part)
    by_row = not columns and n >= _NARROW and part.strides[0] > part.strides[1]
    target = np.empty((n_rows, n)).T if by_row else np.empty((n, n_rows))
    group.fill(target, part, scaled)
    return target


def _doubles(xp: Any, part: Any, intercept: bool) -> Any:
    """Records of another array library, one row for each number."""
    if part.ndim == 1:
        part = part[:, None]
    doubles = xp.astype(part, xp.float64, copy=False).T
    if intercept:
        doubles = xp.concat([xp.ones_like(doubles[:1, :]), doubles], axis=0)
    return doubles


def _finite(values: Any) -> bool:
    """Whether all are finite."""
    xp = namespace(values)
    if isinstance(values, np.ndarray):
        flat = values.ravel(order="K")  # a view
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(np.dot(flat, flat)):
                return True
    return bool(xp.all(xp.isfinite(values)))
