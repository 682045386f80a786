"""Noisy counts on a grid at several levels, made consistent: all quantiles of a column at once.

Counted are 16 parts of the range of a column, 128 and 1,024: a record is in one part of each level,
so that a level is moved by one. A prefix is then the sum of few noisy counts. **The grid follows
the rows**: the first parts are equally wide, and each level is cut most finely where the noisy
counts of the level before say that most rows are. So resolution is where quantiles need it and
costs nothing: what a level is cut by was published. Least squares puts the levels, and what else is
known of the total, together; the rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray

LEVELS = (16, 128, 1024)
LEAVES = LEVELS[-1]
# Bins that a column is cut at, and the most of all columns and cells together: what memory allows.
_FINEST, _MOST_BINS = 2**16, 2**21
# So many standard deviations of noise count as rows of a part, so that noise alone does not say
# where to cut.
_UNSURE = 2.0


def n_bins(n_columns: int) -> int:
    """Bins at whose edges so many columns (of all cells) may be cut; a power of two.

    Examples
    --------
    >>> from ndis.mechanisms.tree import n_bins
    >>> n_bins(4), n_bins(200), n_bins(20_000)
    (65536, 8192, 1024)
    """
    bins = _FINEST
    while bins > LEAVES and bins * n_columns > _MOST_BINS:
        bins //= 2
    return bins


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of one column, at one level after another.

    Attributes
    ----------
    bins : int
        Bins of the range, all of one width.
    edges : tuple of ndarray of int
        Of each level the first bins of its parts, and the end.
    children : tuple of ndarray of int
        Into how many parts a level cuts each part of the level before.
    """

    bins: int
    edges: tuple[NDArray[np.int64], ...]
    children: tuple[NDArray[np.int64], ...]

    @classmethod
    def coarse(cls, bins: int) -> Self:
        """The first level alone: parts of one width."""
        whole = np.array([0, bins])
        children = np.array([LEVELS[0]])
        return cls(bins, (_cut(whole, children),), (children,))

    @classmethod
    def even(cls) -> Self:
        """All levels with parts of one width."""
        parts = cls.coarse(LEAVES)
        for level in LEVELS[:-1]:
            parts = parts.finer(np.zeros(level, np.int64))
        return parts

    def finer(self, mass: NDArray[np.int64]) -> Self:
        """One level more, whose parts follow the mass of those of the last level.

        Parameters
        ----------
        mass : ndarray of int
            Not negative; where all is 0, parts are cut alike.
        """
        more = LEVELS[len(self.edges)] - len(mass)
        whole = np.concatenate([[0], np.cumsum(mass if mass.any() else np.ones_like(mass))])
        children = 1 + np.diff(more * whole // whole[-1])
        edges = (*self.edges, _cut(self.edges[-1], children))
        return type(self)(self.bins, edges, (*self.children, children))

    def following(self, counts: FloatArray, noise: float) -> Self:
        """One level more, cut by noisy counts of the last level in all cells.

        In whole numbers, so that everybody finds the same edges from what was published.

        Parameters
        ----------
        counts : ndarray of shape (n_cells, n_parts)
        noise : float
            The standard deviation of each.
        """
        if self.bins == LEAVES:  # there is nothing finer
            return self.finer(np.zeros(counts.shape[1], np.int64))
        # Released counts, as whole numbers that fit; only where parts are cut depends on them.
        rows = np.rint(np.clip(counts, -(2.0**40), 2.0**40)).astype(np.int64).sum(axis=0)
        rows = np.clip(rows, 0, 2**40)
        unsure = max(int(min(_UNSURE * noise * len(counts) ** 0.5, 2.0**40)), 1)
        return self.finer(rows + unsure)

    @property
    def places(self) -> FloatArray:
        """The edges of the finest level as shares of the range."""
        return np.asarray(self.edges[-1] / self.bins)


def _cut(edges: NDArray[np.int64], children: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each part cut into so many, as alike as bins allow."""
    last = np.cumsum(children)
    inside = np.arange(last[-1]) - np.repeat(last - children, children)
    start, wide = np.repeat(edges[:-1], children), np.repeat(np.diff(edges), children)
    cut = start + wide * inside // np.repeat(children, children)
    return np.asarray(np.concatenate([cut, edges[-1:]]))


def partitions(levels: Sequence[FloatArray], noise: float, bins: int) -> list[Parts]:
    """Parts of each column: with all levels that are given, and one more if there is one.

    Parameters
    ----------
    levels : sequence of ndarray of shape (n_cells, n_columns, n_parts)
        The noisy counts of each level so far, at least of the first.
    noise : float
    bins : int
    """
    found = [Parts.coarse(bins) for _ in range(levels[0].shape[1])]
    for level in levels[: len(LEVELS) - 1]:
        found = [each.following(level[:, k], noise) for k, each in enumerate(found)]
    return found


def counted(bins: Any, parts: Parts) -> Any:
    """Counts of the last axis in the parts of the last level; of integers, exactly."""
    before = np.zeros((*bins.shape[:-1], 1), bins.dtype)
    sums = np.concatenate([before, np.cumsum(bins, axis=-1)], axis=-1)[..., parts.edges[-1]]
    return sums[..., 1:] - sums[..., :-1]


def _spreads(parts: Parts, variance: float) -> list[FloatArray]:
    """Variances of the parts of each level, by their own counts and those below them."""
    found = [np.full(len(parts.edges[-1]) - 1, variance)]
    for children in parts.children[:0:-1]:
        below = _added(found[0], children)
        found.insert(0, below * variance / (below + variance))
    return found


def _added(values: FloatArray, children: NDArray[np.int64]) -> FloatArray:
    """Sums of the children of each part."""
    return np.asarray(np.add.reduceat(values, np.cumsum(children) - children, axis=-1))


def fitted(
    levels: Sequence[FloatArray],
    variance: float,
    total: FloatArray,
    total_variance: float,
    parts: Parts,
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
    parts : Parts
    """
    spreads = _spreads(parts, variance)
    # Upwards: each part by its own count and by the sum of those below it.
    found = [levels[-1]]
    for place in range(len(levels) - 2, -1, -1):
        children = parts.children[place + 1]
        below = _added(spreads[place + 1], children)
        own = below / (below + variance)
        found.insert(0, own * levels[place] + (1.0 - own) * _added(found[0], children))
    at_top = float(spreads[0].sum())
    weight = at_top / (at_top + total_variance)
    known = weight * total + (1.0 - weight) * found[0].sum(axis=-1)
    # Downwards: what is known above is shared out among the parts, by their variances.
    above = known[..., None]
    for each, spread, children in zip(found, spreads, parts.children, strict=True):
        missing = (above - _added(each, children)) / _added(spread, children)
        above = each + np.repeat(missing, children, axis=-1) * spread
    return np.asarray(above)


def prefix_variances(parts: Parts, variance: float) -> FloatArray:
    """Variances of the sums of the first 1, 2, ... leaves of `fitted`, if the total is known.

    Given its part, what lies left of a child and in it depends on nothing else: variances of what
    is left of a part, of the part, and their covariance, follow from those of the part above.
    """
    left = both = own = np.zeros(1)
    for spread, children in zip(_spreads(parts, variance), parts.children, strict=True):
        whole = np.repeat(_added(spread, children), children)
        start = np.cumsum(spread) - spread
        first = np.repeat(start[np.cumsum(children) - children], children)
        before = np.maximum(start - first, 0.0)
        share, passed = spread / whole, before / whole
        left, both, own = (np.repeat(each, children) for each in (left, both, own))
        left, both, own = (
            left + 2.0 * passed * both + passed**2 * own + before * (1.0 - passed),
            share * (both + passed * own) - before * share,
            share**2 * own + spread * (1.0 - share),
        )
    return np.asarray(np.maximum(left + 2.0 * both + own, 0.0))


def increasing(prefixes: FloatArray, total: FloatArray) -> FloatArray:
    """The nearest prefix sums that do not decrease, between 0 and the total."""
    up = np.maximum.accumulate(prefixes, axis=-1)
    down = np.minimum.accumulate(prefixes[..., ::-1], axis=-1)[..., ::-1]
    return np.clip(0.5 * (up + down), 0.0, np.maximum(total, 0.0)[..., None])


def quantile(prefixes: FloatArray, rank: FloatArray, places: FloatArray) -> FloatArray:
    """Where prefix sums pass a rank, as a share of the range; linear within a leaf.

    Parameters
    ----------
    prefixes : ndarray of shape (n, leaves)
        Not decreasing.
    rank : ndarray of shape (n,)
    places : ndarray of shape (leaves + 1,)
        The edges of leaves as shares of the range.
    """
    n, leaves = prefixes.shape
    place = np.minimum((prefixes < rank[:, None]).sum(axis=1), leaves - 1)
    rows = np.arange(n)
    high = prefixes[rows, place]
    low = np.where(place > 0, prefixes[rows, np.maximum(place - 1, 0)], 0.0)
    inside = np.clip((rank - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    return np.asarray(places[place] + inside * (places[place + 1] - places[place]))
