"""Private maps of counts made for the purpose: H_b and DAWA, with pure epsilon.

Neighbours are maps in which one record moves from one cell to another, as for the other mechanisms
of the rank-one paper's first case study: two cells change by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndis_papers._validate import FloatArray

# A record that moves changes two cells.
_CHANGED = 2.0
# The share of epsilon for DAWA's partition.
_PARTITION = 0.25


def hierarchy(
    cells: FloatArray, epsilon: float, rng: np.random.Generator, branching: int = 10
) -> FloatArray:
    """H_b (Qardaji, Yang and Li): noisy blocks and noisy cells, made consistent by least squares.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.counts import hierarchy
    >>> noisy = hierarchy(np.full((89, 89), 50.0), 1e6, np.random.default_rng(0))
    >>> noisy.shape, bool(np.abs(noisy - 50).max() < 1e-3)
    ((89, 89), True)
    """
    side = branching * math.ceil(max(cells.shape) / branching)
    padded = np.zeros((side, side))
    padded[: cells.shape[0], : cells.shape[1]] = cells
    blocks = side // branching
    scale = _CHANGED * 2 / epsilon  # two levels
    leaves = padded + rng.laplace(scale=scale, size=padded.shape)
    parted = (blocks, branching, blocks, branching)
    totals = padded.reshape(parted).sum(axis=(1, 3))
    totals = totals + rng.laplace(scale=scale, size=totals.shape)
    sums, m = leaves.reshape(parted).sum(axis=(1, 3)), branching**2
    better = (m * totals + sums) / (m + 1)
    spread = np.repeat(np.repeat((better - sums) / m, branching, axis=0), branching, axis=1)
    return np.asarray((leaves + spread)[: cells.shape[0], : cells.shape[1]])


def data_aware(cells: FloatArray, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """DAWA (Li, Hay, Miklau and Wang) for single cells: buckets of like cells, noisy totals.

    Cells are put in Morton's order and buckets are dyadic intervals of it, that is squares and
    halves of squares. The deviation of every interval from its mean is measured with noise, the
    best partition is found from these, and the total of every bucket is released and spread evenly.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.counts import data_aware
    >>> noisy = data_aware(np.full((89, 89), 50.0), 1e6, np.random.default_rng(0))
    >>> noisy.shape, bool(np.abs(noisy - 50).max() < 1e-3)
    ((89, 89), True)
    """
    order, levels = _morton(cells.shape)
    line = cells.reshape(-1)[order]
    padded = np.full(2**levels, line[-1] if line.size else 0.0)
    padded[: line.size] = line
    first, second = _PARTITION * epsilon, (1.0 - _PARTITION) * epsilon
    # A cell that changes by one changes the deviation of each interval around it by at most two.
    scale = 2.0 * _CHANGED * levels / first
    price = _CHANGED / second
    best = np.full(padded.size, price)  # a cell alone deviates from nothing
    whole = [np.ones(padded.size, dtype=bool)]
    for level in range(1, levels + 1):
        parts = padded.reshape(-1, 2**level)
        deviation = np.abs(parts - parts.mean(axis=1, keepdims=True)).sum(axis=1)
        cost = deviation + rng.laplace(scale=scale, size=deviation.size) + price
        split = best.reshape(-1, 2).sum(axis=1)
        whole.append(cost < split)
        best = np.minimum(cost, split)
    result, open_ = np.empty(padded.size), np.array([True])
    for level in range(levels, -1, -1):
        chosen = open_ & whole[level]
        parts, into = padded.reshape(-1, 2**level), result.reshape(-1, 2**level)
        totals = parts[chosen].sum(axis=1) + rng.laplace(scale=price, size=int(chosen.sum()))
        into[chosen] = (totals / 2**level)[:, None]
        open_ = np.repeat(open_ & ~chosen, 2)
    released = np.empty(line.size)
    released[order] = result[: line.size]
    return released.reshape(cells.shape)


def _morton(shape: tuple[int, ...]) -> tuple[Any, int]:
    """The cells of a map in Morton's order, and how many doublings hold them."""
    rows, columns = np.indices(shape).reshape(2, -1)
    bits = math.ceil(math.log2(max(shape)))
    code = np.zeros(rows.size, dtype=np.int64)
    for bit in range(bits):
        code |= ((columns >> bit) & 1) << (2 * bit)
        code |= ((rows >> bit) & 1) << (2 * bit + 1)
    return np.argsort(code), math.ceil(math.log2(rows.size))
