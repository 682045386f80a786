"""Some records of a table as a source hands them over, with the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.tables.arrays import namespace
from ndis.tables.exact import ONE
from ndis.tables.values import level_positions, numbers, present

if TYPE_CHECKING:
    from ndis.tables.rows import Rows


class Batch:
    """Some records: an Arrow record batch, an array or a sparse matrix, with labels beside them.

    Parameters
    ----------
    data : pyarrow.RecordBatch, array of shape (n_rows, n_columns) or scipy.sparse matrix
        An array has the features' columns in order.
    labels : array of shape (n_rows, n_labels), optional
        Labels, where they are not columns of a record batch.
    ready : bool
        Whether an array has a column for each number of a row, levels included.
    weights : ndarray of int64, of shape (n_rows,), optional
        How much each record counts, in units of 2^-26; none: all count once.
    people : ndarray of int64, of shape (n_rows,), optional
        The mark of the person of each record.
    own_weights : ndarray of int64, of shape (n_rows,), optional
        What each record weighs by itself, whatever its person has besides.
    sought : dict of str to ndarray of int64
        Marks of the values of columns whose levels are to be found.
    """

    def __init__(
        self,
        data: Any,
        labels: Any = None,
        *,
        ready: bool = False,
        weights: Any = None,
        people: Any = None,
        own_weights: Any = None,
        sought: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.data, self.labels, self.ready = data, labels, ready
        self.weights, self.people = weights, people
        self.own_weights, self.sought = own_weights, sought

    @classmethod
    def of(cls, batch: Any, rows: Rows) -> Batch:
        """Records with the columns that are asked for, Arrow columns as numbers."""
        records = batch if isinstance(batch, Batch) else cls(batch)
        data = records.data
        if records.ready or isinstance(data, Mapping):
            return records
        if not hasattr(data, "num_rows"):
            if rows.levels:
                raise ValueError(
                    "An array of numbers has no categorical columns; hand over a data frame to use "
                    "levels."
                )
            if rows.weighting is not None:
                raise ValueError(
                    "An array of numbers has no column that says whose row it is or what it "
                    "weighs; hand over a data frame."
                )
            for array in (data, records.labels):
                require_numbers(array)
            return cls(stored_once(data) if records.sparse else data, records.labels)
        data = complete(data, rows)

        kinds = rows.kinds
        sought = rows.marks_of_sought(data)

        def read(name: str) -> Any:
            column = data.column(name)
            if name in sought and rows.sought[name] == rows.levels[name]:  # not found yet
                return np.full(data.num_rows, -1.0)
            if name in rows.levels:
                return level_positions(name, column, rows.levels[name])
            return numbers(name, column, rows.widths.get(name), kinds[name])

        content: Any = {name: read(name) for name in rows.columns}
        labelled = rows.labels is not None and records.labels is None
        own = content if labelled else records.labels
        if rows.weighting is None:
            return cls(content, own, sought=sought)
        weights, by_itself, people = rows.weighting.read(data)
        return cls(
            content, own, weights=weights, people=people, own_weights=by_itself, sought=sought
        )

    @property
    def n_rows(self) -> int:
        """How many records."""
        data = next(iter(self.data.values())) if isinstance(self.data, Mapping) else self.data
        return int(data.shape[0])

    @property
    def elsewhere(self) -> bool:
        """Whether they are an array of another library, perhaps on a graphics card."""
        return not (isinstance(self.data, Mapping | np.ndarray) or self.sparse)

    @property
    def sparse(self) -> bool:
        """Whether most entries are zeros that are not stored."""
        return hasattr(self.data, "tocsr")

    def by_weight(self) -> Iterator[tuple[int, Batch]]:
        """The records that count alike, weight by weight; those that count nothing are left out."""
        if self.weights is None:
            yield ONE, self
            return
        order, runs = self.runs()
        data, labels = _taken(self.data, order), self.labels
        if labels is not None:  # often the same columns
            labels = data if labels is self.data else _taken(labels, order)
        for weight, start, stop in runs:
            own = (None if x is None else _part(x, start, stop) for x in (data, labels))
            yield weight, Batch(*own, ready=self.ready)

    def runs(self) -> tuple[Any, list[tuple[int, int, int]]]:
        """An order in which weights ascend, and each of them with where it starts and stops in it.

        Those that count nothing are left out.
        """
        order = _order(self.weights)
        weights = self.weights[order]
        first = np.flatnonzero(np.diff(weights, prepend=-1))
        weights, ends = weights[first], [*first.tolist(), len(order)][1:]  # none of no records
        runs = zip(weights.tolist(), first.tolist(), ends, strict=True)
        return order, [run for run in runs if run[0] > 0]

    def part(self, start: int, stop: int) -> list[Any]:
        """Features and labels of some of the records."""
        return [_part(x, start, stop) for x in (self.data, self.labels) if x is not None]


def complete(data: Any, rows: Rows) -> Any:
    """The records without those that are left out for a gap: these count for nobody."""
    if not rows.drop_missing:
        return data
    weighting = rows.weighting
    if weighting is None:
        return data.drop_null()
    data = data.select(list(dict.fromkeys([*rows.columns, *weighting.columns])))
    if weighting.gapless == weighting.columns:
        data = data.drop_null()
    else:
        whole = [present(data.column(name)) for name in (*rows.columns, *weighting.gapless)]
        data = data.take(np.flatnonzero(np.all(whole, axis=0)))
    kept = np.ones(data.num_rows, dtype=bool)
    for name in (*rows.columns, weighting.sample_weight):
        if name is not None and name not in rows.levels:
            kind = {**weighting.kinds, **rows.kinds}[name]
            values = numbers(name, data.column(name), rows.widths.get(name), kind)
            kept &= np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    return data if kept.all() else data.take(np.flatnonzero(kept))


def _order(weights: Any) -> Any:
    """In which order weights ascend: by leading binary digits, of which sixteen sort quickly."""
    leading = (weights.astype(np.float32).view(np.int32) >> 14) - (126 << 9)
    order = np.argsort(np.maximum(leading, 0).astype(np.uint16), kind="stable")
    ascend = np.all(np.diff(weights[order]) >= 0)
    return order if ascend else np.argsort(weights, kind="stable")


def _taken(values: Any, order: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: column[order] for name, column in values.items()}
    if isinstance(values, np.ndarray):
        return values[order]
    xp = namespace(values)
    return xp.take(values, xp.asarray(order, device=values.device), axis=0)


def _part(values: Any, start: int, stop: int) -> Any:
    if isinstance(values, Mapping):
        return {name: column[start:stop] for name, column in values.items()}
    return rows_between(values, start, stop)


def require_numbers(array: Any) -> None:
    """Refuse an array of numpy that holds something else than numbers."""
    if isinstance(array, np.ndarray) and array.dtype.kind not in "buif":
        raise ValueError(
            f"Expected an array of numbers, got dtype {array.dtype}; "
            "hand over categories as a data frame and list their levels."
        )


def stored_once(matrix: Any) -> Any:
    """A sparse matrix by row; two entries of one place would pass the gates one by one."""
    by_row = matrix.tocsr()
    if not by_row.has_canonical_format:
        by_row = by_row.copy()
        by_row.sum_duplicates()
    return by_row


def rows_between(array: Any, start: int, stop: int) -> Any:
    """Some rows of an array; the array API wants all axes named and no index beyond them."""
    part = slice(start, stop if stop < array.shape[0] else None)
    return array[part] if array.ndim == 1 else array[part, :]
