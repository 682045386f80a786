"""Fingerprints of records, by which a pass notices that the table is not the one it was.

A record's mark depends on its values and labels as they are in the table: not on limits, norms or
whatever else a recipe does to them later, nor on how many records a person has, nor on the record's
place. The marks of all records are
added up, so that any order, any partition and any hardware gives the same sum, and a record that
was changed, added or left out gives another one, but for a chance below one in a billion. Nobody
but the owner of the data sees it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.tables.arrays import beside, fused, namespace, on_host
from ndis.tables.batches import Batch, rows_between

# Odd numbers that mix bits well (Steele, Lea and Flood's SplitMix); 64 bits that wrap around.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MIX = _FIRST - 2**64
# So many numbers are taken at once, of so many records at the most: in the processor's cache, or on
# a card.
_FEW, _RECORDS, _MANY = 2**17, 2**14, 2**27


def mark(records: Batch) -> Any:
    """The sum of the records' marks: two whole numbers, of the upper and the lower 32 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables.batches import Batch
    >>> table = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> bool((mark(Batch(table)) == mark(Batch(table[::-1]))).all())
    True
    >>> bool((mark(Batch(table)) == mark(Batch(table[:, ::-1]))).all())
    False
    """
    columns = _columns(records.data, records.sought)
    if records.labels is not records.data:
        columns += _columns(records.labels)
    columns += [*_columns(records.own_weights), *_columns(records.people)]
    columns += records.sought.values()
    widths = [1 if column.ndim == 1 else int(column.shape[1]) for column in columns]
    ends = np.cumsum([0, *widths])
    weights, total = _weights(int(ends[-1])), np.zeros(2, np.int64)
    n_numbers = max(1, sum(map(_n_numbers, columns)) // max(1, records.n_rows))
    near = min(_FEW // n_numbers, _RECORDS)
    step = max(1, _MANY // n_numbers if records.elsewhere else near)
    for start in range(0, records.n_rows, step):
        hashed: Any = 0
        for column, first, last in zip(columns, ends[:-1], ends[1:], strict=True):
            part = _hashed(rows_between(column, start, start + step), weights[first:last])
            hashed = hashed + _near(part, hashed)
        total = summed(hashed) + (total if start else 0)
    return total


def _columns(values: Any, but: Container[str] = ()) -> list[Any]:
    """Columns of records but some, or matrices of several; none of what is not there."""
    if isinstance(values, Mapping):
        return [column for name, column in values.items() if name not in but]
    return [] if values is None else [values]


def _n_numbers(values: Any) -> int:
    """How many numbers lie in memory."""
    return int(values.nnz if hasattr(values, "tocsr") else math.prod(values.shape))


def summed(hashed: Any, times: Any = 1) -> Any:
    """The halves of the marks, each so many times, added up: of fewer than 2^30 records."""
    xp = namespace(hashed)
    mixed = hashed >> 29
    mixed ^= hashed
    mixed *= _MIX
    mixed ^= mixed >> 32
    halves = [mixed >> 32, mixed & 0xFFFFFFFF]
    return xp.stack([xp.sum(half * times) for half in halves])


def _hashed(values: Any, weights: NDArray[np.int64]) -> Any:
    """A number of 64 bits for each record: the sum of w b' over its numbers, of bits b.

    b' = b xor (b >> 32), since bits of doubles that people write down are zeros at the end.
    """
    if hasattr(values, "tocsr"):
        return _hashed_sparse(values, weights)
    if not hasattr(values, "view"):  # an array library that does not show bits
        values = on_host(values)
    if isinstance(values, np.ndarray):
        bits = _bits(np, values)
        if bits.ndim == 1:
            bits *= weights[0]
            return bits
        return np.einsum("ij,j->i", bits, weights)
    return fused(_summed, values)(namespace(values), values, beside(weights, values))


def _bits(xp: Any, values: Any) -> Any:
    """The bits of numbers as doubles, the upper ones laid over the lower ones."""
    bits = xp.astype(values, xp.float64, copy=False).view(xp.int64)
    mixed = bits >> 32
    mixed ^= bits
    return mixed


def _summed(xp: Any, values: Any, weights: Any) -> Any:
    mixed = _bits(xp, values if values.ndim == 2 else values[:, None])
    return xp.sum(mixed * weights, axis=1)


def _hashed_sparse(matrix: Any, weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, since the bits of zeros are zeros."""
    hashed, some = np.zeros(matrix.shape[0], np.int64), np.diff(matrix.indptr) > 0
    if some.any():
        terms = _bits(np, matrix.data) * weights[matrix.indices]
        hashed[some] = np.add.reduceat(terms, matrix.indptr[:-1][some])
    return hashed


def _weights(n: int) -> NDArray[np.int64]:
    """Odd numbers without any pattern, one for each number of a record."""
    with np.errstate(over="ignore"):
        z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_STEP)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return ((z ^ (z >> np.uint64(31))) | np.uint64(1)).view(np.int64)


def _near(hashed: Any, before: Any) -> Any:
    """Marks of labels where those of the features are."""
    if isinstance(before, int) or isinstance(hashed, type(before)):
        return hashed
    return beside(on_host(hashed), before)
