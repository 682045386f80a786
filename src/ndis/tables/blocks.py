"""A block of a table's rows on the grid, and the products that sums are made of.

Features are doubles that hold integers, stored with one row for each feature, so that they can be
clipped and scaled column by column. Sums are written with these products alone;
the same lines then work on dense and sparse blocks, on the processor and on a graphics card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.arrays import beside, fused, namespace
from ndis.tables.exact import BLOCK_ROWS, ONE

# A Gram matrix on a card is made in so many panels, of at least so many columns.
_PANELS, _PANEL = 4, 256
# Numbers of a piece of a stack.
PIECE_ENTRIES = 2**26
# Numbers of a piece of a block, and its fewest rows: what takes more memory is slow to get.
_CACHED, _LEAST = 2**18, 512
# So few vectors are multiplied one by one, since linear algebra libraries are slow at two or three.
_FEW = 3


def squared(xp: Any, values: Any) -> Any:
    """Sums of squares down the columns, in any order: of integers they are exact up to 2^53."""
    if xp is np:  # without a copy
        return np.einsum("ij,ij->j", values, values)
    return xp.sum(values * values, axis=0)


class Block:
    """At most 8192 rows, dense.

    Parameters
    ----------
    features : array of shape (n_features, n_rows)
    labels : array of shape (n_labels, n_rows), optional

    Attributes
    ----------
    weight : int
        How much each of its rows counts, in units of 2^-26.
    notes : dict
        What one pass has computed of its rows, for later ones (see `noted`).
    """

    weight = ONE

    def __init__(self, features: Any, labels: Any = None) -> None:
        self.features = features
        self.labels = labels
        self.notes: dict[str, Any] = {}

    def noted(self, name: str, function: Callable[[Block], Any], key: Any) -> Any:
        """What a function makes of the block, or made of it before for the same key."""
        known = self.notes.get(name)
        if known is None or known[0] != key:
            self.notes.pop(name, None)
            known = self.notes[name] = key, function(self)
        return known[1]

    @property
    def xp(self) -> Any:
        """The array library that the block belongs to."""
        return namespace(self.features)

    @property
    def dense(self) -> Any:
        """The rows as integers, one column for each, zeros included."""
        return self.features

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.features.shape[1])

    def beside(self, values: Any) -> Any:
        """Constants where the block is."""
        return beside(values, self.features)

    def like(self, features: Any) -> Block:
        """Other integers of the same rows, dense."""
        return Block(features)

    def pieces(self) -> Iterator[Block]:
        """Parts whose copies fit into memory beside the rows; here into the processor's cache."""
        step = max(_CACHED // self.features.shape[0], _LEAST)
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            labels = None if self.labels is None else self.labels[:, rows]
            yield Block(self.features[:, rows], labels)

    def ones(self) -> Any:
        """A one for each row."""
        return np.ones((1, self.n_rows))

    def product(self, left: Any, right: Any) -> Any:
        """Sum over the rows of a b^T, integers whose product is at most 2^40."""
        if isinstance(left, np.ndarray) and 1 < len(right) <= _FEW:
            return np.stack([left @ vector for vector in right], axis=1)
        return left @ right.T

    def total(self, values: Any) -> Any:
        """Sum over the rows, which are the last axis, of integers of at most 2^40."""
        return self.xp.sum(values, axis=-1)

    def gram(self) -> Any:
        """Sum of x x^T."""
        return self.product(self.features, self.features)

    def whole_gram(self) -> Any:
        """Sum of x x^T in full, also of sparse rows."""
        return self.gram()

    def taken(self, index: Any) -> Block:
        """Some of the rows, without labels."""
        return self.like(self.xp.take(self.features, index, axis=1))

    def added(self, function: Callable[..., Any], column: Any) -> Any:
        """What a function (xp, values, column) adds up over the last axis, entry by entry."""
        return fused(function, self.features)(self.xp, self.features, column)

    def times(self, theta: Any) -> Any:
        """X theta, one column for each row of the block: shape (n_theta, n_rows)."""
        own = self.features
        if isinstance(own, np.ndarray) and 1 < theta.shape[1] <= _FEW:
            return np.stack([vector @ own for vector in theta.T])
        return theta.T @ own

    def combine(self, weights: Any) -> Any:
        """Sum of x w^T for weights of shape (n_weights, n_rows): shape (n_features, n_weights)."""
        return self.product(self.features, weights)

    def sums(self) -> Any:
        """Sum of x: shape (n_features,)."""
        return self.combine(self.ones())[:, 0]

    def squares(self) -> Any:
        """Squared norms of the rows: shape (n_rows,)."""
        return squared(self.xp, self.features)

    def distances(self, center: FloatArray | None) -> Any:
        """Their squared distances from a centre; all are whole numbers."""
        if center is None:
            return self.squares()

        def measured(block: Block) -> Any:
            across = block.times(block.beside(center[:, None]))[0, :]
            return block.squares() - 2.0 * across + float(center @ center)

        return self.noted("lengths", measured, center.tobytes())


class Stack(Block):
    """Many blocks at once, for a graphics card: sums over the rows are 64-bit integers.

    Rows are multiplied 8192 at a time, all in one launch, so that each product is exact, and the
    products are added up as integers; 2^22 rows are at most 2^62. Blocks stay on the card from pass
    to pass, and so does what a later pass needs again.

    Parameters
    ----------
    features, labels : array
        As for a block.
    squares, odd : array of shape (n_rows,), optional
        Squared norms of the rows, and whether a value of theirs was not finite.
    """

    def __init__(
        self, features: Any, labels: Any = None, squares: Any = None, odd: Any = None
    ) -> None:
        super().__init__(features, labels)
        self._squares, self.odd = squares, odd
        self._sums: Any = None

    def like(self, features: Any) -> Stack:
        """Other integers of the same rows."""
        return Stack(features)

    def pieces(self) -> Iterator[Block]:
        """So many rows at a time that a copy of them takes half a gigabyte, in whole blocks."""
        step = max(PIECE_ENTRIES // self.features.shape[0] // BLOCK_ROWS, 1) * BLOCK_ROWS
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            labels = None if self.labels is None else self.labels[:, rows]
            squares = None if self._squares is None else self._squares[rows]
            yield Stack(self.features[:, rows], labels, squares)

    def ones(self) -> Any:
        """A one for each row, on the card."""
        return self.xp.ones((1, self.n_rows), dtype=self.xp.float64, device=self.features.device)

    def product(self, left: Any, right: Any) -> Any:
        """Sum over the rows of a b^T, as 64-bit integers."""
        xp, n = self.xp, left.shape[1]
        whole = n - n % BLOCK_ROWS
        total = xp.zeros((left.shape[0], right.shape[0]), dtype=xp.int64, device=left.device)
        for part, size in ((slice(0, whole), BLOCK_ROWS), (slice(whole, n), n - whole)):
            if part.start < part.stop:
                a, b = (xp.reshape(x[:, part].T, (-1, size, x.shape[0])) for x in (left, right))
                products = xp.matrix_transpose(a) @ b
                total = total + xp.sum(xp.astype(products, xp.int64), axis=0)
        return total

    def total(self, values: Any) -> Any:
        """Sum over the rows as 64-bit integers; of many numbers a row without a copy of them."""
        if values.ndim == 2 and values.shape[0] > 1:
            return self.product(values, self.ones()[:, : values.shape[1]])[:, 0]
        return self.xp.sum(self.xp.astype(values, self.xp.int64), axis=-1)

    def gram(self) -> Any:
        """Sum of x x^T: the lower triangle in panels, and its mirror image."""
        xp, d = self.xp, self.features.shape[0]
        panel = max(_PANEL, -(-d // _PANELS))
        total = xp.zeros((d, d), dtype=xp.int64, device=self.features.device)
        for start in range(0, d, panel):
            stop = min(start + panel, d)
            own = self.features[start:stop, :]
            total[start:stop, :stop] = self.product(own, self.features[:stop, :])
        lower = xp.tril(total, k=-1)
        return xp.tril(total) + lower.T

    def sums(self) -> Any:
        """Sum of x, which is kept."""
        if self._sums is None:
            self._sums = super().sums()
        return self._sums

    def squares(self) -> Any:
        """Squared norms of the rows, if they were not given."""
        return super().squares() if self._squares is None else self._squares


class SparseBlock(Block):
    """At most 8192 rows of a sparse matrix: x = r - shift, of which only r is stored.

    Parameters
    ----------
    rows : scipy.sparse.csr_array of shape (n_rows, n_features)
        r, integers.
    shift : ndarray of shape (n_features,)
        Integers.
    labels : ndarray of shape (n_labels, n_rows), optional
    """

    def __init__(self, rows: Any, shift: FloatArray, labels: Any = None) -> None:
        super().__init__(rows.T, labels)
        self.rows, self.shift = rows, shift

    def pieces(self) -> Iterator[Block]:
        """Such rows are few numbers."""
        yield self

    @property
    def xp(self) -> Any:
        """Sparse blocks are in the processor's memory."""
        return np

    @property
    def dense(self) -> Any:
        """x = r - shift in full."""
        return self.rows.toarray().T - self.shift[:, None]

    def beside(self, values: Any) -> Any:
        """Constants are where sparse blocks are."""
        return values

    def gram(self) -> Any:
        """Sum of r r^T, sparse; `centered_gram` subtracts the shift from the sum of all blocks."""
        return self.rows.T @ self.rows

    def whole_gram(self) -> Any:
        """Sum of x x^T in full: with x = r - m, that of r r^T less s m^T, m s^T and n m m^T."""
        shift, whole = self.shift.astype(np.int64), self.gram().toarray().astype(np.int64)
        if not shift.any():
            return whole
        side = np.outer(self.sums().astype(np.int64), shift)
        whole -= side
        whole -= side.T
        whole -= self.n_rows * np.outer(shift, shift)
        return whole

    def taken(self, index: Any) -> Block:
        """Some of the rows, without labels."""
        return SparseBlock(self.rows[index], self.shift)

    def added(self, function: Callable[..., Any], column: Any) -> Any:
        """The same: what is not stored is one number in each column."""
        place = self.rows.indices
        unstored = function(np, -self.shift[:, None], column)
        stored = function(np, (self.rows.data - self.shift[place])[:, None], column[place])
        more = np.bincount(place, stored - unstored[place], len(unstored))
        return self.n_rows * unstored + more.astype(np.int64)

    def times(self, theta: Any) -> Any:
        """X theta, as for dense blocks."""
        return (self.rows @ theta - self.shift @ theta).T

    def combine(self, weights: Any) -> Any:
        """Sum of x w^T, as for dense blocks."""
        return self.rows.T @ weights.T - np.outer(self.shift, weights.sum(axis=1))

    def squares(self) -> Any:
        """Squared norms of the rows, as for dense blocks."""
        own = np.asarray(self.rows.multiply(self.rows).sum(axis=1)).reshape(-1)
        return own - 2.0 * (self.rows @ self.shift) + self.shift @ self.shift
