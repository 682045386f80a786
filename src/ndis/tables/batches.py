"""Some records of a table as a source hands them over, with the columns that are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.tables.values import level_positions, numbers

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
    """

    def __init__(self, data: Any, labels: Any = None, *, ready: bool = False) -> None:
        self.data, self.labels, self.ready = data, labels, ready

    @classmethod
    def of(cls, batch: Any, rows: Rows) -> Batch:
        """Records with the columns that are asked for, Arrow columns as numbers."""
        records = batch if isinstance(batch, Batch) else cls(batch)
        data = records.data
        if records.ready:
            return records
        if not hasattr(data, "num_rows"):
            if rows.levels:
                raise ValueError(
                    "An array of numbers has no categorical columns; hand over a data frame to use "
                    "levels."
                )
            for array in (data, records.labels):
                require_numbers(array)
            return cls(stored_once(data) if records.sparse else data, records.labels)
        if rows.drop_missing:
            data = data.drop_null()

        kinds = rows.kinds

        def read(name: str) -> Any:
            column = data.column(name)
            if name in rows.levels:
                return level_positions(name, column, rows.levels[name])
            return numbers(name, column, rows.widths.get(name), kinds[name])

        content: Any = {name: read(name) for name in rows.columns}
        labelled = rows.labels is not None and records.labels is None
        return cls(content, content if labelled else records.labels)

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

    def part(self, start: int, stop: int) -> list[Any]:
        """Features and labels of some of the records."""
        return [_part(x, start, stop) for x in (self.data, self.labels) if x is not None]


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
