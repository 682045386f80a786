"""How much each row weighs in its own table: leverages from the Gram matrix, in one more pass.

The leverage of row x is ``x^T A^{-1} x`` with ``A = G + ridge I``. With a whitener W, for which
``W^T A W = I``, it is the squared norm of ``W^T x``: one matrix product for each block. W is upper
triangular, the inverse of a Cholesky factor of A scaled to unit diagonal.

Error bound
-----------
Let A be the true matrix, g_i = sqrt(A_ii), a = || |W|^T g || and R = W^T A W - I for the W at hand,
however it was computed. Then A^{-1} = W (I + R)^{-1} W^T, so the leverage p of x is at most
||W^T x||^2 / (1 - ||R||). Of R we know the computed residual; the matrix at hand, rounded from
exact integers, and the two products carry errors of at most (2 d + 6) u relative to g_i g_j, which
W turns into at most a^2 times that. Since x x^T <= p A in the Loewner order, |x_i| <= sqrt(p) g_i,
so rounding in the product W^T x and in its norm changes the norm by at most rho sqrt(p) with
rho = 3 (d + 8) u a. Together p <= computed / (sqrt(1 - ||R||) - rho)^2, which is what
`leverage_error` reports. Nothing is assumed about the condition of A: it shows in a.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndis._validate import FloatArray, non_negative
from ndis.tables.blocks import Block
from ndis.tables.exact import ExactSum
from ndis.tables.table import Table

UNIT_ROUNDOFF = 2.0**-53
# A column of which less than this share is left, once the columns before it are taken out, is a
# combination of them as far as doubles can tell.
DEPENDENT = 1e-10


def leverages(table: Table, ridge: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Every row's leverage without the last column, and with it, in the table's order.

    Parameters
    ----------
    table : Table
        With a recipe for its rows.
    ridge : float, default 0.0
        Added to the diagonal of the Gram matrix, in grid units.

    Returns
    -------
    p, q : ndarray of shape (n_rows,)
        ``x^T (G + ridge I)^{-1} x`` for each row x, or with the pseudo-inverse where columns are
        linearly dependent: p among all columns but the last, q among all. A label, if the recipe
        names one, is the last column; then ``q = p + e_i^2 / ||e||^2`` with the residuals e of
        (ridged) least squares.
        `leverage_error` bounds their relative error.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import Columns, Rows, Table
    >>> rows = np.array([[1.0, 3.0], [1.0, 3.0], [1.0, 9.0], [1.0, 5.0]])
    >>> table = Table.open(rows).with_rows(Rows(Columns(["x", "y"], norm=10.0)))
    >>> p, q = leverages(table)
    >>> p.round(4).tolist(), (q - p).round(4).tolist()
    ([0.25, 0.25, 0.25, 0.25], [0.1667, 0.1667, 0.6667, 0.0])
    """
    whitener = _whitener(_ridged(table, ridge))

    def measure(block: Block) -> Any:
        d = block.features.shape[0]
        xp, white = block.xp, block.times(block.beside(whitener[:d]))
        if block.labels is not None:
            white = white + block.beside(whitener[d][:, None]) * block.labels
        p = block.like(white[:-1, :]).squares()
        return xp.stack([p, p + white[-1, :] ** 2])

    p, q = table.measure(measure, 2)
    return p, q


def leverage_error(table: Table, ridge: float = 0.0) -> float:
    """A proven bound on the relative error of `leverages`.

    Returns
    -------
    error : float
        The true leverage is at most ``1 + error`` times the computed one. Infinite where columns
        are linearly dependent as far as doubles can tell.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import Columns, Rows, Table
    >>> table = Table.open(np.eye(3)).with_rows(Rows(Columns(["a", "b", "c"], norm=1.0)))
    >>> leverage_error(table) < 1e-10
    True
    """
    matrix = _ridged(table, ridge)
    whitener, d = _whitener(matrix), len(matrix)
    if not whitener.any(axis=0).all():
        return math.inf
    amplitude = np.linalg.norm(np.abs(whitener).T @ np.sqrt(np.diag(matrix)))
    residual = np.linalg.norm(whitener.T @ matrix @ whitener - np.eye(d))
    mismatch = residual + (2 * d + 6) * UNIT_ROUNDOFF * amplitude**2
    rounding = 3 * (d + 8) * UNIT_ROUNDOFF * amplitude
    if mismatch >= 1 or math.sqrt(1 - mismatch) <= rounding:
        return math.inf
    # The last factor covers the rounding of the bound itself.
    return float(((math.sqrt(1 - mismatch) - rounding) ** -2 - 1) * (1 + 1e-3))


def joint_gram(table: Table) -> ExactSum:
    """The Gram matrix of features and, last, the label, if the recipe names one."""
    gram, cross = table.moments["gram"], table.moments.get("cross")
    if cross is None:
        return gram
    if cross.high.shape[1] > 1:
        raise ValueError(
            f"Expected one label, got {cross.high.shape[1]}; ask for one after the other."
        )
    return ExactSum.block([[gram, cross], [cross.T, table.moments["squares"][None, None]]])


def _ridged(table: Table, ridge: float) -> FloatArray:
    matrix = joint_gram(table).value
    return np.asarray(matrix + non_negative("ridge", ridge) * np.eye(len(matrix)))


def _whitener(matrix: FloatArray) -> FloatArray:
    """Return W, upper triangular, with ``W^T matrix W = I`` on the matrix's range.

    Variables are eliminated in their order, so that all columns of W but the last whiten all
    variables but the last by themselves. A variable that depends on those before it is left out:
    its column of W is zero. For rows in the range any generalised inverse gives the same leverage,
    ``W W^T`` among them.
    """
    from scipy.linalg import solve_triangular

    d = len(matrix)
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    correlation = matrix / np.outer(scale, scale)
    factor, independent = _cholesky(correlation)
    kept = np.flatnonzero(independent)
    inverse = solve_triangular(factor[np.ix_(kept, kept)], np.eye(len(kept)), lower=True)
    whitener = np.zeros((d, d))
    whitener[np.ix_(kept, kept)] = inverse.T / scale[kept, np.newaxis]
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
