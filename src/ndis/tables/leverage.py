"""How much each row weighs in its own table: leverages from the Gram matrix, in one more pass.

The leverage of row x is ``x^T A^{-1} x`` with ``A = G + ridge I``. With a whitener W, for which
``W^T A W = I``, it is the squared norm of ``W^T x``: one matrix product a block. W is upper
triangular, the inverse of a Cholesky factor of A scaled to unit diagonal.

Error bound
-----------
Let A be the true matrix, g_i = sqrt(A_ii), a = || |W|^T g || and R = W^T A W - I for the W at hand,
however it was computed. Then A^{-1} = W (I + R)^{-1} W^T, so the leverage p of x is at most
||W^T x||^2 / (1 - ||R||). Of R we know the computed residual; the matrix at hand and the two
products carry errors of at most 1e-12 + (2 d + 4) u relative to g_i g_j, which W turns into at
most a^2 times that. Since x x^T <= p A in the Loewner order, |x_i| <= sqrt(p) g_i, so rounding in
the row, in the product W^T x and in its norm changes the norm by at most rho sqrt(p) with
rho = 3 (d + 8) u a. Together p <= computed / (sqrt(1 - ||R||) - rho)^2, which is what
`leverage_error` reports. Nothing is assumed about the condition of A: it shows in a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from ndis._validate import non_negative
from ndis.tables.gram import GRAM_ERROR, Gram
from ndis.tables.progress import track
from ndis.tables.rows import UNIT_ROUNDOFF, FloatArray
from ndis.tables.sources import batches
from ndis.tables.threads import map_in_order

if TYPE_CHECKING:
    from ndis.tables.rows import Batch

# A column of which less than this share is left, once the columns before it are taken out, is a
# combination of them as far as the Gram matrix can tell.
DEPENDENT = 1e-10


def row_leverages(source: Any, gram: Gram, ridge: float = 0.0) -> FloatArray:
    """Return the leverage of every row, in the table's order.

    Parameters
    ----------
    source : table
        The table that the Gram matrix was made of.
    gram : Gram
        Its Gram matrix; rows are made as it says.
    ridge : float, default 0.0
        Added to the diagonal of the Gram matrix.

    Returns
    -------
    leverages : ndarray of shape (n_rows,)
        ``x^T (G + ridge I)^{-1} x`` for each row x, or with the pseudo-inverse where columns are
        linearly dependent. `leverage_error` bounds their relative error.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import read_gram
    >>> table = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> row_leverages(table, read_gram(table)).round(12).tolist()
    [1.0, 0.5, 0.5]
    """
    whitener = _whitener(_ridged(gram, ridge))

    def measure(block: FloatArray) -> FloatArray:
        return _squared_norms(block @ whitener)[np.newaxis]

    leverages: FloatArray = _for_each_row(source, gram, measure, 1)[0]
    return leverages


def leverages_and_residuals(
    source: Any, gram: Gram, label: str, ridge: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return every row's leverage among the features, and among features and label.

    Parameters
    ----------
    source : table
        The table that the Gram matrix was made of.
    gram : Gram
        Gram matrix of features and label.
    label : str
        The label's column.
    ridge : float, default 0.0
        Added to the diagonal of the Gram matrix, the label's entry included.

    Returns
    -------
    p, q : ndarray of shape (n_rows,)
        Leverages in [X] and [X, y]. With least-squares residuals e (of the ridged problem),
        ``q = p + e_i^2 / ||e||^2``; where features explain the label exactly, q = p.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import read_gram
    >>> table = np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 9.0], [1.0, 5.0]])
    >>> p, q = leverages_and_residuals(table, read_gram(table), label="x1")
    >>> p.round(12).tolist(), (q - p).round(12).tolist()
    ([0.25, 0.25, 0.25, 0.25], [0.166666666667, 0.166666666667, 0.666666666667, 0.0])
    """
    if len(gram.columns) == 1:
        raise ValueError(
            f"Expected features besides the label {label!r}, got none; read more columns."
        )
    whitener = _whitener(_ridged(gram, ridge), last=_position(gram, label))

    def measure(block: FloatArray) -> FloatArray:
        white = block @ whitener
        p = _squared_norms(white[:, :-1])
        return np.stack([p, p + white[:, -1] ** 2])

    p, q = _for_each_row(source, gram, measure, 2)
    return p, q


def leverage_error(gram: Gram, ridge: float = 0.0, label: str | None = None) -> float:
    """Return a proven bound on the relative error of leverages computed from a Gram matrix.

    Parameters
    ----------
    gram : Gram
        The Gram matrix.
    ridge : float, default 0.0
        As for the leverages.
    label : str, optional
        The label, for the leverages of `leverages_and_residuals`; the bound holds for both.

    Returns
    -------
    error : float
        The true leverage is at most ``1 + error`` times the computed one. Infinite where columns
        are linearly dependent as far as the Gram matrix can tell.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import read_gram
    >>> leverage_error(read_gram(np.eye(3))) < 1e-10
    True
    """
    matrix = _ridged(gram, ridge)
    whitener = _whitener(matrix, last=None if label is None else _position(gram, label))
    d = len(matrix)
    if not whitener.any(axis=0).all():
        return math.inf
    amplitude = np.linalg.norm(np.abs(whitener).T @ np.sqrt(np.diag(matrix)))
    residual = np.linalg.norm(whitener.T @ matrix @ whitener - np.eye(d))
    mismatch = residual + (GRAM_ERROR + (2 * d + 4) * UNIT_ROUNDOFF) * amplitude**2
    rounding = 3 * (d + 8) * UNIT_ROUNDOFF * amplitude
    if mismatch >= 1 or math.sqrt(1 - mismatch) <= rounding:
        return math.inf
    # The last factor covers the rounding of the bound itself.
    return float(((math.sqrt(1 - mismatch) - rounding) ** -2 - 1) * (1 + 1e-3))


def _position(gram: Gram, label: str) -> int:
    if label not in gram.columns:
        raise ValueError(
            f"Expected label to be one of {', '.join(map(repr, gram.columns))}, got {label!r}."
        )
    return gram.columns.index(label)


def _ridged(gram: Gram, ridge: float) -> FloatArray:
    return gram.matrix + non_negative("ridge", ridge) * np.eye(len(gram.matrix))


def _whitener(matrix: FloatArray, last: int | None = None) -> FloatArray:
    """Return W with ``W^T matrix W = I`` on the matrix's range, triangular in the order eliminated.

    Variables are eliminated in their order, except that `last` comes last, so that the other
    columns of W whiten the other variables by themselves. A variable that depends on those before
    it is left out: its column of W is zero. For rows in the range any generalised inverse gives
    the same leverage, ``W W^T`` among them.
    """
    d = len(matrix)
    order = np.arange(d) if last is None else np.append(np.delete(np.arange(d), last), last)
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    correlation = matrix / np.outer(scale, scale)
    factor, independent = _cholesky(correlation[np.ix_(order, order)])
    kept = np.flatnonzero(independent)
    inverse = solve_triangular(factor[np.ix_(kept, kept)], np.eye(len(kept)), lower=True)
    whitener = np.zeros((d, d))
    whitener[np.ix_(order[kept], kept)] = inverse.T / scale[order[kept], np.newaxis]
    return whitener


def _cholesky(correlation: FloatArray) -> tuple[FloatArray, Any]:
    """Return a lower Cholesky factor, and which columns do not depend on those before them."""
    d = len(correlation)
    try:
        factor: FloatArray = np.linalg.cholesky(correlation).astype(np.float64, copy=False)
        if np.diag(factor).min() ** 2 > DEPENDENT:
            return factor, np.ones(d, dtype=bool)
    except np.linalg.LinAlgError:
        pass
    factor, independent = np.zeros((d, d)), np.zeros(d, dtype=bool)
    for k in range(d):
        column = correlation[k:, k] - factor[k:, :k] @ factor[k, :k]
        if column[0] > DEPENDENT:
            factor[k:, k] = column / np.sqrt(column[0])
            independent[k] = True
    return factor, independent


def _for_each_row(
    source: Any, gram: Gram, measure: Callable[[FloatArray], FloatArray], n_measures: int
) -> FloatArray:
    """Return what `measure` makes of every row, a column a row, in the table's order."""
    table = batches(source, gram.rows.columns, levels=gram.rows.levels)
    measures = np.empty((n_measures, gram.n_rows))

    def measured(batch: Batch) -> FloatArray:
        return np.hstack([measure(block) for block in gram.rows.blocks(batch, reuse=True)])

    seen = 0
    with closing(track(table, "Measuring rows", gram.n_rows, size=len)) as reading:
        for part in map_in_order(measured, reading):
            place = slice(seen, seen := seen + part.shape[1])
            if seen > gram.n_rows:
                break
            measures[:, place] = part
    if seen != gram.n_rows:
        raise ValueError(
            "The source does not have the rows that the Gram matrix was made of; "
            "hand over the same table (a reader can be read only once)."
        )
    return measures


def _squared_norms(block: FloatArray) -> FloatArray:
    norms: FloatArray = np.einsum("ij,ij->i", block, block)
    return norms
