"""What the low-order bits of releases tell: an attack that any way of drawing must survive.

Doubles near 0 are finer than doubles near 1, noise drawn as doubles has only so many values, and a
product rounds in the middle. So some values, or some patterns of trailing bits, may be possible
under one neighbour only (Mironov 2012). The attack looks through one half of the releases of two
neighbours for values, trailing bits and residues that only the first neighbour showed, and counts
them in the other half. Who knows the two laws can also ask which values doubles can reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

N_RELEASES = 20_000


Look = Callable[[FloatArray], FloatArray]


def seen_delta(
    first: FloatArray, second: FloatArray, epsilon: float, level: float, looks: Sequence[Look] = ()
) -> float:
    """A lower bound on delta(epsilon), wrong with probability `level` at most.

    Parameters
    ----------
    first, second : ndarray of shape (n_releases,) or (n_releases, n_entries)
        Independent releases of two neighbours.
    looks : sequence of callables
        What else to compute from the releases of one entry.
    """
    seen = list(_looks(np.asarray(first, float), np.asarray(second, float), looks))
    return max(_difference(a, b, epsilon, level / len(seen)) for a, b in seen)


def survives(
    draw: Callable[[int, int], FloatArray], epsilon: float, delta: float, looks: Sequence[Look] = ()
) -> bool:
    """Do the releases draw(neighbour, n) of neighbours 0 and 1 keep their promise, as seen?"""
    both = [draw(neighbour, N_RELEASES) for neighbour in (0, 1)]
    return all(
        seen_delta(*pair, epsilon, level=1e-6, looks=looks) <= delta for pair in (both, both[::-1])
    )


def reached(center: float, scale: float) -> Look:
    """Tell which values centre + scale z has among the doubles, for a double z."""

    def look(values: FloatArray) -> FloatArray:
        z = (values - center) / scale
        tries = [z, np.nextafter(z, np.inf), np.nextafter(z, -np.inf)]
        return np.any([center + scale * t == values for t in tries], axis=0).astype(float)

    return look


def _looks(
    first: FloatArray, second: FloatArray, looks: Sequence[Look]
) -> Iterable[tuple[FloatArray, FloatArray]]:
    """Each entry, seen in several ways."""
    for a, b in zip(
        first.reshape(len(first), -1).T, second.reshape(len(second), -1).T, strict=True
    ):
        yield a, b
        yield _last_bit(a), _last_bit(b)
        yield from ((look(a), look(b)) for look in looks)
        # A value's residue modulo some spacing, for those close to 0 and those far away.
        step = 2.0 ** np.floor(np.log2(max(np.std(a), np.std(b))))
        for exponent in (-4, -10, -20, -30, -40):
            grain = math.ldexp(step, exponent)
            yield np.fmod(a, grain), np.fmod(b, grain)


def _last_bit(values: FloatArray) -> FloatArray:
    """The exponent of the last bit that is set, with whether the value is close to 0."""
    mantissa, exponent = np.frexp(values)
    integers = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    last = np.frexp((integers & -integers).astype(np.float64))[1] + exponent - 54
    return np.asarray(last + 0.5 * (np.abs(values) < 0.1 * np.std(values)))


def _difference(first: FloatArray, second: FloatArray, epsilon: float, level: float) -> float:
    half = len(first) // 2
    only = np.setdiff1d(first[:half], second[:half])
    hits = [int(np.isin(values[half:], only).sum()) for values in (first, second)]
    n = [len(first) - half, len(second) - half]
    low = stats.beta.ppf(level / 2, hits[0], n[0] - hits[0] + 1) if hits[0] else 0.0
    high = stats.beta.isf(level / 2, hits[1] + 1, n[1] - hits[1]) if hits[1] < n[1] else 1.0
    return float(low - math.exp(epsilon) * high)
