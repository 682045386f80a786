"""Noisy counts on a grid at several levels, made consistent: all quantiles of a column at once.

The grid has 1,024 cells. Counted are 16 parts of it, 128 and all: a record is in one part of each
level, so that a level is moved by one. A prefix is then the sum of few noisy counts. Least squares
puts the levels, and what else is known of the total, together; the rest is post-processing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ndis._validate import FloatArray

LEVELS = (16, 128, 1024)
LEAVES = LEVELS[-1]


def counted(leaves: Any, level: int) -> Any:
    """Counts of the last axis at a level with fewer parts; of integers of any kind, exactly."""
    parts = leaves.reshape(*leaves.shape[:-1], level, leaves.shape[-1] // level)
    return np.asarray(parts.sum(axis=-1))


def fitted(
    levels: Sequence[FloatArray], variance: float, total: FloatArray, total_variance: float
) -> FloatArray:
    """Leaves that fit the counts of all levels and the total best, by least squares.

    Parameters
    ----------
    levels : sequence of ndarray of shape (..., parts)
        The noisy counts, from few parts to many, each of variance `variance`.
    variance : float
    total : ndarray of shape (...)
        An estimate of the total that is independent of these counts.
    total_variance : float
        Its variance; 0 for a total that is to be kept.
    """
    sizes = [level.shape[-1] for level in levels]
    # Upwards: each part by its own count and by the sum of those below it.
    found, spread = [levels[-1]], [variance]
    for own, below in zip(sizes[-2::-1], sizes[:0:-1], strict=True):
        from_below, branching = counted(found[0], own), below // own
        weight = branching * spread[0] / (branching * spread[0] + variance)
        found.insert(0, weight * levels[len(levels) - len(found) - 1] + (1.0 - weight) * from_below)
        spread.insert(0, weight * variance)
    at_top = sizes[0] * spread[0]
    weight = at_top / (at_top + total_variance)
    known = weight * total + (1.0 - weight) * found[0].sum(axis=-1)
    # Downwards: what is known above is shared out among the parts.
    above = known[..., None]
    for each in found:
        branching = each.shape[-1] // above.shape[-1]
        missing = (above - counted(each, above.shape[-1])) / branching
        above = each + np.repeat(missing, branching, axis=-1)
    return np.asarray(above)


@functools.lru_cache(maxsize=1)
def _prefix_variances() -> FloatArray:
    """Variances of prefix sums for levels of variance 1 and a known total."""
    unit = np.eye(sum(LEVELS))
    starts = np.cumsum([0, *LEVELS])
    parts = [unit[:, a:b] for a, b in pairwise(starts)]
    leaves = fitted(parts, 1.0, np.zeros(len(unit)), 0.0)
    return np.asarray(np.sum(np.cumsum(leaves, axis=1) ** 2, axis=0))


def prefix_variances(variance: float) -> FloatArray:
    """Variances of the sums of the first 1, 2, ... leaves, if the total is known."""
    return variance * _prefix_variances()


def increasing(prefixes: FloatArray, total: FloatArray) -> FloatArray:
    """The nearest prefix sums that do not decrease, between 0 and the total."""
    up = np.maximum.accumulate(prefixes, axis=-1)
    down = np.minimum.accumulate(prefixes[..., ::-1], axis=-1)[..., ::-1]
    return np.clip(0.5 * (up + down), 0.0, np.maximum(total, 0.0)[..., None])


def quantile(prefixes: FloatArray, rank: FloatArray) -> FloatArray:
    """Where prefix sums pass a rank, as a share of the grid; linear within a leaf.

    Parameters
    ----------
    prefixes : ndarray of shape (n, leaves)
        Not decreasing.
    rank : ndarray of shape (n,)
    """
    n, leaves = prefixes.shape
    place = np.minimum((prefixes < rank[:, None]).sum(axis=1), leaves - 1)
    rows = np.arange(n)
    high = prefixes[rows, place]
    low = np.where(place > 0, prefixes[rows, np.maximum(place - 1, 0)], 0.0)
    inside = np.clip((rank - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    return np.asarray((place + inside) / leaves)
