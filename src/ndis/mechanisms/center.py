"""About where rows are: a noisy sum of them with their number, from which every method may start.

Limits are rarely centred on the rows. About their own centre rows are shorter, and a bound on their
length needs the less noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.randomness import add_noise
from ndis.tables import GRID_NORM, ExactSum

# The constant beside the rows whose sum gives the centre, and how far both move together.
_ONE = 0.5
_MOVED = math.hypot(1.0, _ONE) * ROUND_UP


def draw_center(
    studied: Mapping[str, ExactSum], noise: float, rng: np.random.Generator
) -> FloatArray:
    """The noisy sum of rows of norm at most one, then their noisy number.

    Parameters
    ----------
    studied : mapping
        With the "sums" and the "count" of `ndis.tables.sums.totals`.
    noise : float
        For sums that a row moves by one.
    rng : numpy.random.Generator
    """
    scale = noise * _MOVED
    sums = add_noise(studied["sums"], scale * GRID_NORM, rng) / GRID_NORM
    return np.append(sums, add_noise(studied["count"], scale / _ONE, rng))


def count_noise(noise: float) -> float:
    """The noise of the number of rows."""
    return noise * _MOVED / _ONE


def count_of(noisy: FloatArray, noise: float) -> float:
    """About how many rows there are, from what `draw_center` drew; at least the noise of that."""
    return max(float(noisy[-1]), count_noise(noise))


def shrunk(sums: FloatArray, scale: float) -> FloatArray:
    """Noisy sums drawn towards zero, by James and Stein: all the way if they may be noise alone."""
    return sums * max(1.0 - len(sums) * scale**2 / max(float(sums @ sums), 1e-300), 0.0)


def center_of(noisy: FloatArray, noise: float) -> FloatArray:
    """About where rows are, from what `draw_center` drew; whole numbers of grid units."""
    mean = shrunk(noisy[:-1], noise * _MOVED) / count_of(noisy, noise)
    return np.asarray(np.trunc(mean / max(1.0, float(np.linalg.norm(mean))) * GRID_NORM))
