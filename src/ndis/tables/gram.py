"""The Gram matrix of a table in one pass, from pieces that can be merged in any order.

Error bound
-----------
Let u = 2^-53 and g(k) = k u / (1 - k u). Rows come in blocks of B <= 4096. BLAS computes each
entry of a block's Gram matrix as a sum of B products in some order, with or without fused
multiply-adds, so its error is at most g(B) sum_k |x_ki x_kj| <= g(B) sqrt(G_ii G_jj) of that
block (Cauchy-Schwarz). Summed over the blocks, Cauchy-Schwarz again, the errors are at most
g(B) sqrt(G_ii G_jj) of the whole. The m blocks' matrices are added with compensation (Knuth's
two-sum; the rounding errors are summed beside the sum), which by Ogita, Rump and Oishi (2005)
adds at most u |G_ij| + g(m)^2 sum_b |G_ij^b|, where sum_b |G_ij^b| is again at most
(1 + g(B)) sqrt(G_ii G_jj). Merging two accumulators is one such addition more. Altogether

    |error_ij| <= (g(B) + 2 u + 2 g(m)^2) sqrt(G_ii G_jj),

which is 4.6e-13 sqrt(G_ii G_jj) for B = 4096 and any m up to 1e8, underflow aside: below 1e-12, and
independent of where the batches were cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.tables.progress import track
from ndis.tables.rows import FloatArray, Rows, default_names
from ndis.tables.sources import batches, package_of
from ndis.tables.threads import map_in_order

if TYPE_CHECKING:
    from ndis.tables.rows import Batch
    from ndis.tables.sources import Batches

# The error of entry (i, j) of a Gram matrix is below this times sqrt(G_ii G_jj): see above.
GRAM_ERROR = 1e-12


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram matrix of a table: for every two columns the sum of their products.

    It belongs to the owner of the data: neither it nor its row count is shown when printed.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Sums of products, read-only, each within ``1e-12 sqrt(G_ii G_jj)`` of the truth.
    n_rows : int
        Number of rows summed.
    rows : Rows
        How the rows were made from the table.

    Examples
    --------
    >>> import numpy as np
    >>> accumulator = GramAccumulator(["height", "weight"])
    >>> accumulator.update(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> gram = accumulator.finalize()
    >>> gram.columns, gram.matrix.tolist()
    (('height', 'weight'), [[10.0, 14.0], [14.0, 20.0]])
    """

    matrix: FloatArray = field(repr=False)
    n_rows: int = field(repr=False)
    rows: Rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the matrix's rows and columns."""
        return self.rows.names


class GramAccumulator:
    """One pass over a table, a batch at a time; partial results can be merged.

    Parameters
    ----------
    columns : int, sequence of str, or Rows
        The columns, or their number, or the whole recipe (then leave out the others).
    row_norm, levels, clip, intercept
        As in `Rows`.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.arange(12.0).reshape(6, 2)
    >>> first, second = GramAccumulator(2), GramAccumulator(2)
    >>> first.update(table[:4])
    >>> second.update(table[4:])
    >>> first.merge(second)
    >>> bool(np.all(first.finalize().matrix == table.T @ table))
    True
    """

    def __init__(
        self,
        columns: int | Sequence[str] | Rows,
        *,
        row_norm: float | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        clip: Mapping[str, float] | None = None,
        intercept: bool = False,
    ) -> None:
        if isinstance(columns, Rows):
            if row_norm is not None or levels or clip or intercept:
                raise ValueError("Rows says how rows are made; leave out the other parameters.")
            self.rows = columns
        else:
            names = default_names(columns) if isinstance(columns, int) else columns
            self.rows = Rows(names, levels or {}, clip or {}, intercept, row_norm)
        self.n_rows = 0
        width = len(self.rows.names)
        self._sum = np.zeros((width, width))
        self._compensation = np.zeros((width, width))

    def update(self, batch: Batch) -> None:
        """Add the rows of a record batch, or of an array with the columns in order.

        A batch that raises adds nothing.
        """
        before = self._sum, self._compensation.copy(), self.n_rows
        try:
            for block in self.rows.blocks(batch, reuse=True):
                # Sums that overflow are reported once, by finalize.
                with np.errstate(over="ignore", invalid="ignore"):
                    self._add(block.T @ block)
                self.n_rows += len(block)
        except BaseException:
            self._sum, self._compensation, self.n_rows = before
            raise

    def merge(self, other: GramAccumulator) -> None:
        """Add the rows that another accumulator has seen."""
        if other.rows != self.rows:
            raise ValueError(
                "Expected accumulators of rows made alike, got two recipes; "
                "give both the same columns, levels, clip, intercept and row_norm."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(other._sum)
            self._compensation += other._compensation
        self.n_rows += other.n_rows

    def finalize(self) -> Gram:
        """Return the Gram matrix of all rows seen so far."""
        if not self.n_rows:
            raise ValueError(
                "The table has no rows; hand over at least one (a reader can be read only once)."
            )
        matrix = self._sum + self._compensation
        if not np.isfinite(matrix).all():
            raise ValueError(
                "The sums of products overflow; give row_norm, or measure in larger units."
            )
        matrix.flags.writeable = False
        return Gram(matrix, self.n_rows, self.rows)

    def state(self) -> tuple[int, bytes]:
        """Return what has been summed as plain data, for transport."""
        return self.n_rows, np.stack([self._sum, self._compensation]).tobytes()

    @classmethod
    def from_state(cls, rows: Rows, state: tuple[int, bytes]) -> GramAccumulator:
        """Return the accumulator whose `state` this is."""
        accumulator = cls(rows)
        shape = (2, *accumulator._sum.shape)
        accumulator.n_rows, packed = state
        accumulator._sum, accumulator._compensation = np.frombuffer(packed).reshape(shape).copy()
        return accumulator

    def _add(self, term: FloatArray) -> None:
        """Add a matrix, and what rounding loses to the compensation (Knuth's two-sum)."""
        total = self._sum + term
        added = total - self._sum
        kept = total - added
        self._compensation += (self._sum - kept) + (term - added)
        self._sum = total


def read_gram(
    source: Any,
    row_norm: float | None = None,
    *,
    columns: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    clip: Mapping[str, float] | None = None,
    intercept: bool = False,
) -> Gram:
    """Read any kind of table once and return its Gram matrix.

    A Spark or Dask table is summed where its partitions are; anything else is streamed.

    Parameters
    ----------
    source : table
        Any table that `batches` reads.
    row_norm, columns, levels, clip, intercept
        As in `Rows`; all columns are read if `columns` is not given.

    Returns
    -------
    gram : Gram
        The Gram matrix, the row count, and how rows were made.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"speed": [3.0, 6.0], "carrier": ["AA", "UA"]})
    >>> gram = read_gram(table, levels={"carrier": ["AA", "DL"]})
    >>> gram.columns
    ('speed', 'carrier=AA', 'carrier=DL')
    >>> gram.matrix.tolist()
    [[45.0, 3.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    table = batches(source, columns, levels=levels)
    rows = Rows(table.columns, levels or {}, clip or {}, intercept, row_norm)
    package = package_of(type(source))
    if package == "pyspark":
        from ndis.tables.spark import accumulate

        return accumulate(source, rows).finalize()
    if package in ("dask", "dask_expr"):
        return _accumulate_dask(source, rows).finalize()
    return _accumulate(table, rows).finalize()


def _accumulate(table: Batches, rows: Rows) -> GramAccumulator:
    def partial(batch: Batch) -> GramAccumulator:
        accumulator = GramAccumulator(rows)
        accumulator.update(batch)
        return accumulator

    whole = GramAccumulator(rows)
    with closing(track(table, "Reading", table.n_rows, size=len)) as reading:
        for part in map_in_order(partial, reading):
            whole.merge(part)
    return whole


def _accumulate_dask(frame: Any, rows: Rows) -> GramAccumulator:
    """Sum every partition where it is, and merge eight sums at a time."""
    from dask.delayed import delayed

    def read(partition: Any) -> GramAccumulator:
        accumulator = GramAccumulator(rows)
        for batch in batches(partition, rows.columns, levels=rows.levels):
            accumulator.update(batch)
        return accumulator

    def merge(parts: Sequence[GramAccumulator]) -> GramAccumulator:
        whole = GramAccumulator(rows)
        for part in parts:
            whole.merge(part)
        return whole

    parts = [delayed(read)(partition) for partition in frame.to_delayed()]
    while len(parts) > 1:
        parts = [delayed(merge)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
    result: GramAccumulator = parts[0].compute()
    return result
