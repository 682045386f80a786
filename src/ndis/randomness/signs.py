"""Public random signs: a function of a seed that all parties share.

Nobody needs to hide such a matrix, and everybody needs to agree on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis._validate import FloatArray


def signs(seed: int, row_start: int, row_stop: int, n_columns: int) -> NDArray[np.int8]:
    """Return rows [row_start, row_stop) of the matrix of signs that a public seed defines.

    Any block of rows can be had by itself, on any machine. The layout is a format, pinned by a
    test. Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) under
    the 128-bit key `seed`, low word first, maps counter c = 1, 2, 3, ... (256 bits, low word
    first) to four 64-bit words; these, end to end, are the stream. Row i takes
    m = ceil(n_columns / 64) words: i m, ..., i m + m - 1, counted from 0. The sign in column j is
    -1 if bit j mod 64 (the least significant is bit 0) of the row's word j div 64 is set, and +1
    if it is not. The bits left over in a row's last word are not used.

    Parameters
    ----------
    seed : int
        Public, in [0, 2**128).
    row_start, row_stop : int
        Which rows.
    n_columns : int
        How long each row is. Matrices of different lengths under one seed share bits: give
        each matrix a seed of its own.

    Returns
    -------
    ndarray of int8, of shape (row_stop - row_start, n_columns)

    Examples
    --------
    >>> from ndis.randomness import signs
    >>> signs(2024, 0, 2, 6).tolist()
    [[-1, 1, 1, -1, 1, 1], [1, -1, 1, -1, 1, -1]]
    """
    seed = _validate.count("seed", seed, 0)
    row_start = _validate.count("row_start", row_start, 0)
    row_stop = _validate.count("row_stop", row_stop, row_start)
    n_columns = _validate.count("n_columns", n_columns)
    if seed >= 2**128:
        raise ValueError(f"Expected seed < 2**128, got seed={seed}; pass a smaller integer.")
    n_rows, n_words = row_stop - row_start, -(-n_columns // 64)
    first_block, skipped = divmod(row_start * n_words, 4)
    # numpy's Philox steps its counter before it encrypts: from 0, the first block is counter 1.
    philox = np.random.Philox(key=seed, counter=first_block)
    words = philox.random_raw(skipped + n_rows * n_words)[skipped:].astype("<u8", copy=False)
    packed = words.view(np.uint8).reshape(n_rows, 8 * n_words)
    bits = np.unpackbits(packed, axis=1, count=n_columns, bitorder="little").view(np.int8)
    return np.asarray(1 - 2 * bits)


def sign_product(seed: int, n_components: int, data: ArrayLike, row_start: int = 0) -> FloatArray:
    """Return B @ data, where B is n_components x n and column i of B is row i of `signs`.

    B is never held: its columns are made in blocks as the rows of the data are used. A table
    that arrives in batches is the sum of its batches' products, each with its own `row_start`.

    Parameters
    ----------
    seed : int
        The public seed of `signs`.
    n_components : int
        The number of rows of the result.
    data : array_like of shape (n, d)
        The rows to combine.
    row_start : int
        The place of the first row of `data` in the whole table.

    Returns
    -------
    ndarray of float64, of shape (n_components, d)

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import sign_product, signs
    >>> data = np.arange(12.0).reshape(4, 3)
    >>> bool(np.all(sign_product(7, 5, data) == signs(7, 0, 4, 5).T @ data))
    True
    """
    data = _validate.floats("data", data, (None, None))
    n_components = _validate.count("n_components", n_components)
    # A block of this many doubles stays in cache, and is still wide enough for BLAS.
    block = max(64, 2**18 // n_components)
    product = np.zeros((data.shape[1], n_components))
    for start in range(0, data.shape[0], block):
        rows = data[start : start + block]
        first = row_start + start
        product += rows.T @ signs(seed, first, first + len(rows), n_components).astype(np.float64)
    return np.ascontiguousarray(product.T)
