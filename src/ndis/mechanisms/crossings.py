"""Several groupings of the same rows from one budget: how much each gets, and all made consistent.

Each grouping is a table of counts (or of other sums) by some of the columns; a record is in one
cell of each, so each is bought with a share of the budget. All of them are sums of one unknown
table by all columns. Such a table falls into components, one for each set S of columns: its mean
over all others, centred along each column of S. Noise of one variance in every cell of a grouping
stays uncorrelated between components, so that least squares takes for each component the mean of
what the groupings say of it, weighted by their precision. docs/proofs/summary.md has the proof.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ndis._validate import FloatArray

Columns = tuple[int, ...]
# Shares are whole numbers of one over this.
_STEPS = 64


@dataclass(frozen=True)
class Crossing:
    """Groupings by columns with so many places each.

    Attributes
    ----------
    shape : tuple of int
        Places of each column.
    bought : tuple of tuples of int
        The columns of each grouping.

    Examples
    --------
    >>> from ndis.mechanisms.crossings import Crossing
    >>> both = Crossing((10, 2), ((0,), (1,), (0, 1)))
    >>> {t: round(v, 3) for t, v in both.variances([3.0, 3.0, 3.0]).items()}
    {(0, 1): 1.825, (0,): 1.846, (1,): 2.517, (): 4.615}
    """

    shape: tuple[int, ...]
    bought: tuple[Columns, ...]

    @cached_property
    def told(self) -> tuple[Columns, ...]:
        """All groupings that are bought, and all their margins; the largest first."""
        found = {s for columns in self.bought for s in _parts(columns)}
        return tuple(sorted(found, key=lambda s: (-len(s), s)))

    def variances(self, noise: Sequence[float]) -> dict[Columns, float]:
        """The variance of each cell of every grouping, from those of what is bought."""
        precision = self._precisions(noise)
        found = {}
        for t in self.told:
            inside = (
                math.prod(1.0 - 1.0 / self.shape[i] for i in s) / precision[s] for s in _parts(t)
            )
            found[t] = self._beyond(t) ** 2 * math.fsum(inside)
        return found

    def fitted(
        self, tables: Sequence[FloatArray], noise: Sequence[float]
    ) -> dict[Columns, FloatArray]:
        """Every grouping, as all that is bought together say by least squares.

        Parameters
        ----------
        tables : sequence of ndarray of shape (n_cells, ...)
            What is bought, cells in the order of their columns.
        noise : sequence of float
            The variance of each number of them.
        """
        precision = self._precisions(noise)
        rest = tables[0].shape[1:]
        placed = [
            table.reshape(*(self.shape[i] for i in columns), *rest)
            for columns, table in zip(self.bought, tables, strict=True)
        ]
        parts: dict[Columns, FloatArray] = {}
        for s in self.told:
            known = [
                (self._beyond(s) / v / precision[s]) * _component(table, columns, s)
                for columns, table, v in zip(self.bought, placed, noise, strict=True)
                if {*s} <= {*columns}
            ]
            parts[s] = np.sum(known, axis=0)
        found = {}
        for t in self.told:
            total = np.zeros((*(self.shape[i] for i in t), *rest))
            for s in _parts(t):
                spread = *(self.shape[i] if i in s else 1 for i in t), *rest
                total += parts[s].reshape(spread)
            found[t] = (self._beyond(t) * total).reshape(-1, *rest)
        return found

    def _beyond(self, columns: Columns) -> float:
        """Cells of the whole table that one cell of a grouping is the sum of."""
        return float(math.prod(n for i, n in enumerate(self.shape) if i not in columns))

    def _precisions(self, noise: Sequence[float]) -> dict[Columns, float]:
        """How well each component is known: one over its variance, before it is centred."""
        return {
            s: self._beyond(s)
            * math.fsum(
                self._beyond(columns) / v
                for columns, v in zip(self.bought, noise, strict=True)
                if {*s} <= {*columns}
            )
            for s in self.told
        }


def _parts(columns: Columns) -> list[Columns]:
    sizes = range(len(columns) + 1)
    return [s for size in sizes for s in itertools.combinations(columns, size)]


def _component(table: FloatArray, columns: Columns, s: Columns) -> FloatArray:
    """The mean over all other columns, centred along those of a set."""
    found = table.mean(axis=tuple(at for at, i in enumerate(columns) if i not in s))
    for axis in range(len(s)):
        found = found - found.mean(axis=axis, keepdims=True)
    return np.asarray(found)


@lru_cache(maxsize=64)
def shares(crossing: Crossing, law: str) -> tuple[float, ...]:
    """The share of the budget of each grouping: the least mean variance of what was asked.

    Parameters
    ----------
    crossing : Crossing
    law : {"laplace", "gaussian"}
        With Laplace noise shares of epsilon, with normal noise of its square.

    Examples
    --------
    >>> from ndis.mechanisms.crossings import Crossing, shares
    >>> shares(Crossing((10, 10), ((0,), (1,))), "gaussian")
    (0.5, 0.5)
    """

    def mean_variance(parts: Sequence[int]) -> float:
        noise = [variance(law, part / _STEPS) for part in parts]
        found = crossing.variances(noise)
        return math.fsum(found[columns] for columns in crossing.bought)

    n = len(crossing.bought)
    # One grouping with nearly all may be best, too: with Laplace noise there are several valleys.
    starts = [[_STEPS // n + (k < _STEPS % n) for k in range(n)]]
    starts += [[_STEPS - n + 1 if k == most else 1 for k in range(n)] for most in range(n)]
    found = (_descended(start, mean_variance) for start in starts)
    return tuple(part / _STEPS for part in min(found, key=mean_variance))


def _descended(best: list[int], cost: Callable[[Sequence[int]], float]) -> list[int]:
    """Parts with the least cost near these, moved from one to another in ever smaller steps."""
    least, step = cost(best), _STEPS // 4
    while step:
        moved = []
        for giving, taking in itertools.permutations(range(len(best)), 2):
            if best[giving] > step:
                other = list(best)
                other[giving] -= step
                other[taking] += step
                moved.append((cost(other), other))
        better = min(moved, default=(least, best))
        if better[0] < least * (1.0 - 1e-9):
            least, best = better
        else:
            step //= 2
    return best


def variance(law: str, share: float) -> float:
    """The variance of noise that has a share of the budget, where all of it has one."""
    return 1.0 / (share * share if law == "laplace" else share)
