"""A block of a table's rows on the grid, and the products that sums are made of.

Features are doubles that hold integers, stored with one row for each feature, so that they can be
clipped and scaled column by column. Sums are written with these products alone;
the same lines then work on dense and sparse blocks, on the processor and on a graphics card.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.arrays import beside, namespace


class Block:
    """At most 4096 rows, dense.

    Parameters
    ----------
    features : array of shape (n_features, n_rows)
    labels : array of shape (n_labels, n_rows), optional
    """

    def __init__(self, features: Any, labels: Any = None) -> None:
        self.features = features
        self.labels = labels

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

    def gram(self) -> Any:
        """Sum of x x^T."""
        return self.features @ self.features.T

    def times(self, theta: Any) -> Any:
        """X theta, one column for each row of the block: shape (n_theta, n_rows)."""
        return theta.T @ self.features

    def combine(self, weights: Any) -> Any:
        """Sum of x w^T for weights of shape (n_weights, n_rows): shape (n_features, n_weights)."""
        return self.features @ weights.T

    def squares(self) -> Any:
        """Squared norms of the rows: shape (n_rows,)."""
        if isinstance(self.features, np.ndarray):  # without a copy
            return np.einsum("ij,ij->j", self.features, self.features)
        return self.xp.sum(self.features * self.features, axis=0)


class SparseBlock(Block):
    """At most 4096 rows of a sparse matrix: x = r - shift, of which only r is stored.

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
        """Sum of r r^T, sparse; `centred_gram` subtracts the shift from the sum of all blocks."""
        return self.rows.T @ self.rows

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
