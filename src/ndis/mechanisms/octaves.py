"""Limits of columns that nobody knows, from two noisy histograms of each.

The first histogram has public bins: between powers of two, with their signs, and around zero. The
outermost bins that certainly hold rows say where a column lies up to a factor of two. The second
has 64 bins of one width there, and says it more closely. A row is in one bin of each histogram, so
h columns are one shift of sqrt(2 h) counts; what is read off the noisy counts is post-processing.
Both add up the same exact counts, of rows between 16,515 public edges.
docs/proofs/limits.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray, wrong
from ndis.mechanisms.run import Arrays, Method, Plan
from ndis.mechanisms.target import LIMITS
from ndis.randomness import add_noise
from ndis.release import Shapes
from ndis.tables import Below, Block, ExactSum, Rows, Table, Together

if TYPE_CHECKING:
    from ndis.mechanisms.tabular import TableEstimator

# Probability that a bin without rows is taken for an outermost one, in any column.
MISTAKE = 1e-3
N_BINS = 64
# Columns that are counted in one pass, here and on a cluster: 132 kB each, in several copies.
_HERE, _THERE = 64, 256
# Rows that are thinly spread are seen if so many bins in a row hold them together.
_WINDOWS = (1, 2, 4, 8)
# The bins that are seen hold this share of what the octaves hold, or all bins are taken.
_HELD = 0.75

_POWERS = 2.0 ** np.arange(-60, 61)
BOUNDS = np.concatenate([-_POWERS[::-1], _POWERS])
N_OCTAVES = BOUNDS.size - 1
_ZERO = N_OCTAVES // 2
# Every edge of any second histogram: 64 steps from each power of two to the next.
_STEPS = np.outer(2.0 ** np.arange(-66, 63), 1.0 + np.arange(N_BINS) / N_BINS).reshape(-1)
EDGES = np.concatenate([[-np.inf], -_STEPS[::-1], [0.0], _STEPS, [np.inf]])


@dataclass(frozen=True)
class FindingLimits(Method):
    """Limits first, then what a method does to a table with these limits.

    It takes one pass more, which is all that is read before the payment: what could fail later
    fails in that pass, which sees every value that later ones see.

    Attributes
    ----------
    model : TableEstimator
        What may refuse a table.
    then : Method
        What is done with the limits.
    """

    model: TableEstimator
    then: Method

    def _plan(self, rows: Rows) -> Plan:
        plan = self.then._plan(rows)
        if LIMITS not in {part.name for part in plan.parts}:  # or they would cost nothing
            raise RuntimeError(
                f"Expected {type(self.then).__name__} to buy the limits that it asks for, got a "
                "plan without them; please report this fault of the mechanism."
            )
        return replace(plan, shapes={**plan.shapes, **shapes(len(rows.bought))})

    def _study(self, data: Table, plan: Plan) -> BinCounts:
        model = self.model
        if data.once and model._reads_again:
            raise wrong("limits")(
                'Expected a table that can be read twice for limits="private", got one that can '
                "be read only once; write it to a file first, or pass limits."
            )
        counts, sums = read(data, *model._checked, again=model._reads_again)
        model._check_rows(data.n_rows)
        model._check_raw(sums)
        return counts

    def _draw(self, studied: Any, plan: Plan, data: Table, rng: np.random.Generator) -> Arrays:
        arrays = draw(studied, plan.noise_scale[LIMITS], rng)
        view = data.with_rows(found(data.rows, arrays, plan.noise_scale))
        then = self.then._draw(self.then._study(view, plan), plan, view, rng)
        return Arrays({**arrays, **then}, getattr(then, "found", None))


def sensitivity(n_columns: int, relation: str = "add-remove") -> float:
    """How far one row moves both histograms of so many columns."""
    return math.sqrt((2 if relation == "add-remove" else 4) * n_columns)


def shapes(n_columns: int) -> Shapes:
    """The released arrays."""
    return {"limit_octaves": (n_columns, N_OCTAVES), "limit_bins": (n_columns, N_BINS)}


class BinCounts:
    """How many rows of each column lie between one edge and the next: bins that hold some."""

    def __init__(self) -> None:
        self.columns = list[tuple[NDArray[np.int16], ExactSum]]()

    def extend(self, below: ExactSum) -> None:
        """Add columns of which it is known how many rows are below each edge."""
        within = below[:, 1:] - below[:, :-1]
        for column in range(len(within.high)):
            held = np.flatnonzero(np.any([limb[column] for limb in within.limbs], axis=0))
            self.columns.append((held.astype(np.int16), within[column, held]))

    def between(self, edges: FloatArray) -> ExactSum:
        """Rows between edges of each column, which are among EDGES; the outer bins have the rest.

        Parameters
        ----------
        edges : ndarray of shape (n_columns, n_bins - 1)
        """
        rows = list[list[Any]]()
        for own, (held, counts) in zip(np.searchsorted(EDGES, edges), self.columns, strict=True):
            place, n = np.searchsorted(own, held, side="right"), len(own) + 1
            # Sums of at most 2^15 numbers below 2^26 are exact.
            rows.append([np.bincount(place, limb, n).astype(np.int64) for limb in counts.limbs])
        total = ExactSum(*map(np.stack, zip(*rows, strict=True)))
        return total + ExactSum.of(np.zeros(total.high.shape))


def read(
    table: Table, *others: Callable[[Block], Mapping[str, Any]], again: bool = False
) -> tuple[BinCounts, dict[str, ExactSum]]:
    """Rows between edges, from the numbers as they are, and other sums.

    In one pass, or in several over parts of the columns, where all their counts at once would take
    more memory than what becomes of them.
    """
    places = tuple((group, place) for _, group, place in table.rows.bought)
    step = len(places) if table.once else _HERE if table.here else _THERE
    sums, counts = dict[str, ExactSum](), BinCounts()
    for start in range(0, len(places), step):
        more = others if start == 0 else ()
        counting = Together((Below(EDGES, places[start : start + step]), *more))
        kept = again or len(places) > step
        sums |= table.sum(counting, raw=True, again=kept, what="Finding limits")
        counts.extend(sums.pop("below"))
    return counts, sums


def draw(counts: BinCounts, noise: float, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Both histograms, noisy; where the bins of the second are depends on the first alone."""
    inner = np.broadcast_to(BOUNDS[1:-1], (len(counts.columns), N_OCTAVES - 1))
    octaves = add_noise(counts.between(inner), noise, rng)
    bins = add_noise(counts.between(_bins(octaves, noise)[:, 1:-1]), noise, rng)
    return {"limit_octaves": octaves, "limit_bins": bins}


def found(rows: Rows, arrays: Mapping[str, Any], noise: Any) -> Rows:
    """The recipe with the limits that the released histograms tell: post-processing."""
    if not rows.bought:
        return rows
    pairs = limits(arrays["limit_octaves"], arrays["limit_bins"], noise[LIMITS])
    known: dict[str, tuple[float, float]] = {}
    for (name, *_), (low, high) in zip(rows.bought, pairs, strict=True):
        before = known.get(name, (low, high))  # the numbers of a list share their limits
        known[name] = (min(low, before[0]), max(high, before[1]))
    return rows.found(known)


def limits(octaves: FloatArray, bins: FloatArray, noise: float) -> list[tuple[float, float]]:
    """The outermost bins of each column that certainly hold rows.

    All bins where few rows are thinly spread: those that are seen hold much less than the octaves
    do, and rows in the outer bins, which are those beyond, too, would stand for all.
    """
    seen, whole = (threshold(len(octaves), n) * noise for n in (N_BINS, N_OCTAVES))
    pairs = []
    for counts, coarse, edges in zip(bins, octaves, _bins(octaves, noise), strict=True):
        first, last = _outermost(counts, seen) or (0, N_BINS - 1)
        known = _outermost(coarse, whole)
        held = 0.0 if known is None else coarse[known[0] : known[1] + 1].sum()
        if known is None or counts[first : last + 1].sum() < _HELD * held:
            first, last = 0, N_BINS - 1
        pairs.append((float(edges[first]), float(edges[last + 1])))
    return pairs


def threshold(n_columns: int, n_bins: int) -> float:
    """How many deviations a count must be to be no mistake: a union over all that are looked at."""
    from scipy.special import ndtri

    looked_at = n_columns * sum(n_bins - width + 1 for width in _WINDOWS)
    return -float(ndtri(MISTAKE / looked_at))


def _bins(octaves: FloatArray, noise: float) -> FloatArray:
    """The edges of the second histogram of each column: multiples of a power of two."""
    seen = threshold(len(octaves), N_OCTAVES) * noise
    edges = np.empty((len(octaves), N_BINS + 1))
    for column, counts in enumerate(octaves):
        edges[column] = _bins_between(*(_outermost(counts, seen) or (_ZERO, _ZERO)))
    return edges


def _bins_between(first: int, last: int) -> FloatArray:
    """The edges of bins of one width that cover these octaves."""
    if first == last == _ZERO:
        low, high = -1.0, 1.0  # nothing but zeros is seen
    else:
        low = 0.0 if first == _ZERO else BOUNDS[first]
        high = 0.0 if last == _ZERO else BOUNDS[last + 1]
    width = math.ldexp(0.5, math.frexp((high - low) / N_BINS)[1])
    while math.floor(low / width) + N_BINS < high / width:
        width *= 2.0
    return np.asarray(width * (math.floor(low / width) + np.arange(N_BINS + 1)), np.float64)


def _outermost(counts: FloatArray, seen: float) -> tuple[int, int] | None:
    """The first and last bin that hold rows; None if none is seen."""
    first, last = _first(counts, seen), _first(counts[::-1], seen)
    return None if first is None or last is None else (first, len(counts) - 1 - last)


def _first(counts: FloatArray, seen: float) -> int | None:
    """Where the window starts that is the first to end with enough rows; the shortest of those."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    for end in range(1, len(counts) + 1):
        for width in _WINDOWS:
            if width <= end and sums[end] - sums[end - width] > seen * math.sqrt(width):
                return end - width
    return None
