"""Generators of random words, secret or reproducible, and what is drawn from them directly."""

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
from ndis.randomness.listening import audible

RandomState = int | np.random.SeedSequence | np.random.Generator | None


class _Secret:
    """A cipher in counter mode under a key that nobody chose and nobody else has."""

    key_bytes: int

    def __init__(self, key: int | None = None) -> None:
        super().__init__(key=self._fresh_key() if key is None else key)  # type: ignore[call-arg]
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
        os.write(2, b"ndis: could not re-key after fork; aborting.\n")
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


def keyed_generator(key: bytes) -> np.random.Generator:
    """A secret generator whose stream follows from a key of 32 bytes.

    For what must come out the same if it is drawn again: whoever has the key can subtract the
    noise, so it comes from the operating system, is kept as safely as the data, and serves once.
    """
    if len(key) != _SecretChaCha.key_bytes:
        raise ValueError(f"Expected a key of {_SecretChaCha.key_bytes} bytes, got {len(key)}.")
    return np.random.Generator(_SecretChaCha(int.from_bytes(key, "little")))


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


@audible
def draw_bits(
    shares: ArrayLike, unit: int, lie: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return independent bits, each the truth with probability 1 - lie.

    Parameters
    ----------
    shares : array_like of integers
        The truth, in units of 1/unit: a bit is 1 with this probability before anybody lies.
    unit : int
    lie : float
        The probability of a lie, between 0 and 1/2.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, zeros and ones

    Examples
    --------
    >>> from ndis.randomness import draw_bits, generator
    >>> draw_bits([0, 1, 1], 1, 0.0, generator()).tolist()
    [0.0, 1.0, 1.0]
    """
    truth = np.asarray(shares)
    bits = np.zeros(truth.size, dtype=np.bool_)
    place = np.flatnonzero(truth)  # how many there are only decides how much is drawn
    bits[place] = rng.integers(0, unit, place.size) < truth[place]
    return (bits ^ subsample_mask(bits.size, lie, rng)).astype(np.float64)
