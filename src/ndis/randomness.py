"""Where every random number comes from.

Three kinds of randomness, kept apart:

* **Secret.** `generator()` keys a cipher with bytes of the operating system. A release drawn
  from it is private. Every call makes a new key, the child of a fork makes new ones for the
  generators that it inherits, and a secret generator can be neither copied nor pickled: two
  draws never come from one stream by accident.
* **Reproducible.** `generator(random_state)` repeats itself, so it hides nothing: whoever knows
  the seed can subtract the noise. `is_secure` tells the two apart.
* **Public.** `signs` is a function of a seed that all parties share, for matrices which nobody
  needs to hide and everybody needs to agree on.

Released numbers go through `round_to_grid`, because the low-order bits of a double can tell
what was added to the noise (Mironov, "On significance of the least significant bits for
differential privacy", 2012). docs/threat-model.md says what this does and does not defend.
"""

from __future__ import annotations

import functools
import math
import os
import weakref
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from randomgen import AESCounter, ChaCha

from ndis import _validate
from ndis._validate import FloatArray

RandomState = int | np.random.SeedSequence | np.random.Generator | None

GRID_BITS = 12
"""The grid of released numbers is 2**GRID_BITS times finer than the noise.

Rounding adds at most 2**-24/12 = 5e-9 of the noise variance. In return a cell of the grid holds
at least 1.4e11 of the values that a normal draw can take in the bulk of its law, so that the
cell's probability hardly depends on where those values lie.
"""


class _Secret:
    """A cipher in counter mode under a key that nobody chose and nobody else has."""

    key_bytes: int

    def __init__(self) -> None:
        super().__init__(key=self._fresh_key())  # type: ignore[call-arg]
        _ALIVE.add(self)

    def _fresh_key(self) -> int:
        # Passed as `key`, the bytes are the cipher's key; as `seed` they would be hashed first.
        return int.from_bytes(os.urandom(self.key_bytes), "little")

    def rekey(self) -> None:
        """Forget the stream and start another."""
        self.seed(key=self._fresh_key())  # type: ignore[attr-defined]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Expected each place that draws to make its own generator, got a request to copy or "
            "pickle a secret one, which would repeat its stream; call ndis.randomness.generator() "
            "there."
        )


class _SecretAES(_Secret, AESCounter):  # type: ignore[misc]
    """AES-128 with its ten rounds: the fastest, where the processor has an instruction for it."""

    key_bytes = 16


class _SecretChaCha(_Secret, ChaCha):  # type: ignore[misc]
    """ChaCha with its twenty rounds: on every machine its time is the same for every key."""

    key_bytes = 32


_ALIVE: weakref.WeakSet[_Secret] = weakref.WeakSet()


def _rekey_all() -> None:
    try:
        for bits in list(_ALIVE):
            bits.rekey()
    except BaseException:
        # Python would report the error and go on, with the parent's streams.
        os.write(2, b"ndis: no new key for the child of a fork; it ends here.\n")
        os._exit(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_all)


@functools.cache
def _cipher() -> type[Any]:
    # Without the instruction AES means table look-ups: slow, and cache timing tells the key.
    return _SecretAES if AESCounter(key=0).use_aesni else _SecretChaCha


def generator(random_state: RandomState = None) -> np.random.Generator:
    """Return the generator that `random_state` asks for.

    Call it once for a release and hand the result on: two calls with one integer repeat each
    other.

    Parameters
    ----------
    random_state : int, SeedSequence, Generator or None
        None gives a new secret generator, keyed by the operating system. An integer or a
        `numpy.random.SeedSequence` gives draws that repeat (with the same version of numpy); a
        `numpy.random.Generator` is used as it is. These three are for tests and experiments:
        what they draw is not private.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> from ndis.randomness import generator
    >>> generator().standard_normal(3).shape
    (3,)
    >>> bool(generator(7).standard_normal() == generator(7).standard_normal())
    True
    """
    if random_state is None:
        return np.random.Generator(_cipher()())
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.Generator(np.random.PCG64(random_state))
    return np.random.Generator(np.random.PCG64(_validate.count("random_state", random_state, 0)))


def is_secure(random_state: RandomState) -> bool:
    """Tell whether `generator(random_state)` is secret, so that what it draws may be private.

    Only None is: a generator that the caller made may have been seeded, copied or logged.

    Examples
    --------
    >>> from ndis.randomness import is_secure
    >>> is_secure(None), is_secure(7)
    (True, False)
    """
    return random_state is None


def grid_spacing(scale: float) -> float:
    """Return the distance between released numbers under noise of standard deviation `scale`.

    It is the largest power of two not above `scale`, divided by 2**GRID_BITS.

    Parameters
    ----------
    scale : float
        The noise scale. It must be public: the spacing can be read off a release. Where the
        noise scale depends on the data, pass a public bound on the data instead.

    Returns
    -------
    float

    Examples
    --------
    >>> from ndis.randomness import grid_spacing
    >>> grid_spacing(1.5) == 2**-12
    True
    """
    scale = _validate.positive("scale", scale)
    _, exponent = math.frexp(scale)  # scale = m 2**exponent with 1/2 <= m < 1
    spacing = math.ldexp(1.0, exponent - 1 - GRID_BITS)
    if spacing < np.finfo(np.float64).smallest_normal:
        raise ValueError(
            f"Expected scale large enough for a grid of normal doubles, got scale={scale}; "
            "multiply the data and their bounds by a constant."
        )
    return spacing


def round_to_grid(values: ArrayLike, scale: float) -> FloatArray:
    """Round numbers about to be released to multiples of `grid_spacing(scale)`.

    The grid depends on the noise, never on the data, so this is post-processing: it cannot
    weaken a guarantee. It is idempotent, and leaves alone what is so large (2**41 times the
    scale or more) that its neighbours among the doubles are already further apart than the grid.

    Parameters
    ----------
    values : array_like
        Numbers that already carry their noise.
    scale : float
        The public noise scale; see `grid_spacing`.

    Returns
    -------
    ndarray of float64, of the shape of `values`

    Examples
    --------
    >>> from ndis.randomness import round_to_grid
    >>> float(round_to_grid(1 / 3, scale=1.0)) * 2**12
    1365.0
    """
    values = _validate.floats("values", values)
    spacing = grid_spacing(scale)
    with np.errstate(over="ignore"):
        steps = values / spacing  # exact: a power of two only moves the exponent
        # Adding 0.0 turns -0.0 into 0.0: a zero carries no sign.
        rounded = np.where(np.isinf(steps), values, np.rint(steps) * spacing) + 0.0
    if not np.all(np.isfinite(rounded)):
        raise ValueError(
            "Expected values that stay finite on the release grid, got one at the edge of the "
            "doubles; divide the data and their bounds by a constant."
        )
    return rounded


def add_noise(values: ArrayLike, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return `values` plus independent N(0, scale**2) noise, on the release grid.

    Parameters
    ----------
    values : array_like
        What to hide.
    scale : float
        The public standard deviation of the noise.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of the shape of `values`

    Examples
    --------
    >>> from ndis.randomness import add_noise, generator
    >>> add_noise([10.0, 20.0], scale=0.5, rng=generator()).shape
    (2,)
    """
    values = _validate.floats("values", values)
    scale = _validate.positive("scale", scale)
    return round_to_grid(values + scale * rng.standard_normal(values.shape), scale)


def directions(n_directions: int, dimension: int, rng: np.random.Generator) -> FloatArray:
    """Return independent points, uniform on the unit sphere of R^dimension.

    Parameters
    ----------
    n_directions, dimension : int
        The shape of the result.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of shape (n_directions, dimension)

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import directions, generator
    >>> bool(np.allclose(np.linalg.norm(directions(5, 3, generator()), axis=1), 1))
    True
    """
    n_directions = _validate.count("n_directions", n_directions)
    dimension = _validate.count("dimension", dimension)
    points = rng.standard_normal((n_directions, dimension))
    while not np.all(nonzero := points.any(axis=1)):
        points[~nonzero] = rng.standard_normal((np.count_nonzero(~nonzero), dimension))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def subsample_mask(n_rows: int, rate: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a Poisson subsample: each row is in with probability exactly `rate`, independently.

    A uniform double compared with the rate would be off by up to 2**-53. Here 64 random bits
    are compared with the first 64 bits of the rate, and a tie looks at the next 64.

    Parameters
    ----------
    n_rows : int
        How many rows to decide on.
    rate : float
        Between 0 and 1.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of bool, of length n_rows

    Examples
    --------
    >>> from ndis.randomness import generator, subsample_mask
    >>> subsample_mask(4, 1.0, generator()).tolist()
    [True, True, True, True]
    """
    n_rows = _validate.count("n_rows", n_rows, 0)
    rate = float(_validate.floats_within("rate", _validate.real("rate", rate), 0.0, 1.0))
    if rate == 1:
        return np.ones(n_rows, dtype=np.bool_)
    rest, whole = math.modf(math.ldexp(rate, 64))
    words = rng.integers(0, 2**64, size=n_rows, dtype=np.uint64)
    mask = words < np.uint64(whole)
    if rest > 0:
        ties = np.flatnonzero(words == np.uint64(whole))
        if ties.size:
            mask[ties] = subsample_mask(ties.size, rest, rng)
    return mask


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
    data = _validate.floats("data", data, ndim=2)
    n_components = _validate.count("n_components", n_components)
    # A block of this many doubles stays in cache, and is still wide enough for BLAS.
    block = max(64, 2**18 // n_components)
    product = np.zeros((data.shape[1], n_components))
    for start in range(0, data.shape[0], block):
        rows = data[start : start + block]
        first = row_start + start
        product += rows.T @ signs(seed, first, first + len(rows), n_components).astype(np.float64)
    return np.ascontiguousarray(product.T)
