"""Levels that nobody knows: those whose noisy count passes a threshold are published.

A record adds one to the count of its level; a person's records together add at most one, to at most
k levels, which are chosen from these records alone. Levels that only one person has are published
with probability P(1 + noise > threshold) + (k - 1) P(noise > threshold) at most, which is the
failure probability: it is added to delta. Which levels can be published at all, those of at most 64
bytes, is decided from the level alone. docs/proofs/summary.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ndis._validate import FloatArray
from ndis.loss import PrivacyLoss
from ndis.loss.derived import MARGIN, with_failure
from ndis.mechanisms import laws
from ndis.mechanisms.target import Target
from ndis.randomness import add_laplace_noise, add_noise, grid_spacing
from ndis.randomness.listening import audible
from ndis.tables import ExactSum, Table
from ndis.tables.blocks import Block
from ndis.tables.exact import ONE
from ndis.tables.files import Changed
from ndis.tables.weights import rounded_up

# What stands for levels until they are found.
UNKNOWN = "\0"
# Bytes of a level's name; longer ones are published nowhere.
MOST_BYTES = 64
# The failure probability as a share of delta.
FAILURE = 0.1


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """How often each level occurs, sorted by name. It belongs to the owner of the data.

    Parameters
    ----------
    names : tuple of bytes
    counts : ExactSum or ndarray of int
        Records of each, or the weights of people's.
    whole : bool
        Whether the column holds whole numbers, by its type.
    """

    names: tuple[bytes, ...] = field(repr=False)
    counts: Any = field(repr=False)
    whole: bool = False

    def toarray(self) -> FloatArray:
        """The counts alone."""
        return np.asarray(getattr(self.counts, "value", self.counts), dtype=np.float64)


def read(table: Table, most: int) -> dict[str, LevelCounts]:
    """Count the levels of columns, each in a pass of its own; of a person at most so many.

    Where other columns are read, one more pass sees all of them: whatever can fail, fails there.
    """
    counts = {name: _read(table, name, most) for name in table.rows.sought}
    if len(table.rows.columns) > 1:
        table.sum(_no_terms)
    return counts


def _no_terms(block: Block) -> Mapping[str, Any]:
    """Nothing but what every pass looks at."""
    return {}


def _read(table: Table, name: str, most: int) -> LevelCounts:
    import pyarrow as pa

    person = None if table.weighting is None else table.weighting.person
    try:
        counted = table.count_levels(name).table
    except ValueError as error:
        if table.once or isinstance(error, Changed):
            raise
        raise ValueError(
            f"Expected column {name!r} to hold text or whole numbers without gaps, to find its "
            "levels; write them as text, and leave out or fill what is missing."
        ) from error
    if counted is None:  # no partition has a row
        return LevelCounts((), np.zeros(0, np.int64))
    kind = counted.schema.field("id" if person is None else "level").type
    if not (pa.types.is_integer(kind) or pa.types.is_large_string(kind)):
        raise ValueError(
            f"Expected column {name!r} to hold text or whole numbers, to find its levels, got "
            f"{kind}; write them as text."
        )
    whole, n = pa.types.is_integer(kind), counted["n"].to_numpy()
    if person is None:
        names, place = _names(counted["id"])
        counts = np.zeros(len(names) + 1, np.int64)
        counts[place] = n
        return LevelCounts(names, counts[:-1], whole)
    names, place = _names(counted["level"])
    assert table.weighting is not None
    k = table.weighting.rows_per_person
    chosen, weights = _of_people(*_whose(counted["id"], n), place, n, len(names), k, most)
    return LevelCounts(tuple(names[at] for at in chosen), weights, whole)


def sought(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What stands for the levels of these columns (see `ndis.tables.Rows`)."""
    return dict.fromkeys(names, (UNKNOWN,))


def rest(target: Target) -> Target:
    """What is left of delta beside the failure probability."""
    return replace(target, delta=target.delta * (1.0 - FAILURE) * (1.0 - MARGIN))


def failing(loss: PrivacyLoss, target: Target) -> PrivacyLoss:
    """The loss of a release whose levels may fail to stay hidden, with their share of delta."""
    tight = target.stated if target.epsilon is None else target.epsilon
    if tight is None:
        tight = float(loss.epsilon(rest(target).delta))
    return with_failure(loss, FAILURE * target.delta, tight, target.delta)


def failure_of(delta: float, n_columns: int) -> float:
    """The failure probability of each column: all together fail with their share of delta."""
    return FAILURE * delta * (1.0 - MARGIN) / n_columns


def _names(column: Any) -> tuple[tuple[bytes, ...], Any]:
    """Levels that can be published, sorted; and the place of each value, behind them if none."""
    coded = column.combine_chunks().dictionary_encode()
    known = [str(level).encode() for level in coded.dictionary.to_pylist()]
    names = sorted(each for each in known if 0 < len(each) <= MOST_BYTES and b"\0" not in each)
    at = {name: place for place, name in enumerate(names)}
    places = np.array([at.get(each, len(names)) for each in known], np.int64)
    return tuple(names), places[coded.indices.to_numpy()]


def _whose(column: Any, n: Any) -> tuple[Any, Any]:
    """A number for the person of each count of a level, and how many rows each person has.

    Rows without a person have a number for each of their levels: one row each, of several people.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = column.combine_chunks()
    coded = ids.cast(pa.large_string()) if pa.types.is_null(ids.type) else ids
    coded = coded.dictionary_encode()
    own = pc.fill_null(coded.indices, -1).to_numpy().astype(np.int64)
    alone = own < 0
    own[alone] = len(coded.dictionary) + np.arange(alone.sum())
    rows = np.bincount(own, n).astype(np.int64)  # whatever their level
    rows[own[alone]] = 1
    return own, rows


def _of_people(
    own: Any, rows: Any, place: Any, n: Any, n_levels: int, rows_per_person: int, most: int
) -> tuple[Any, ExactSum]:
    """Which levels count, and the weights of each: of a person those that most of their rows have.

    Of equals the first by name. A person's weights are whole numbers of 2^-26 and add up to at most
    one. A level that counts for nobody is not there: it could be published.
    """
    weight = ONE // rounded_up(np.maximum(rows, rows_per_person))
    order = np.lexsort((place, -n, own, place == n_levels))
    order = order[place[order] < n_levels]
    person = own[order]
    start = np.flatnonzero(np.diff(person, prepend=-1))
    rank = np.arange(len(person)) - np.repeat(start, np.diff(start, append=len(person)))
    kept = order[rank < most]
    chosen, at = np.unique(place[kept], return_inverse=True)
    units = np.zeros(len(chosen), np.int64)
    np.add.at(units, at, n[kept] * weight[own[kept]])
    return chosen, ExactSum(units // ONE**2, units // ONE % ONE, units % ONE)


def threshold(law: str, noise: float, failure: float, most: int = 1) -> float:
    """What the noisy count of a level must exceed, so that one person alone does it this rarely.

    Parameters
    ----------
    law : {"laplace", "gaussian"}
    noise : float
        The standard deviation of the noise.
    failure : float
    most : int
        How many levels a person can have.

    Examples
    --------
    >>> from ndis.mechanisms.levels import exceeds, threshold
    >>> above = threshold("laplace", 5.0, 1e-7)
    >>> f"{above:.1f}, {exceeds('laplace', 1.0, 5.0, above):.1e}"
    '55.5, 1.0e-07'
    """
    scale = laws.scale_of(law, noise, 1)
    # All the weight on one level is the worst: tails are convex beyond one. The search starts where
    # as many levels of weight one would do.
    low, high = (1.0 + scale * _reached(law, failure / count) for count in (1, most))
    while most > 1 and high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        whole, nothing = (exceeds(law, weight, noise, middle) for weight in (1.0, 0.0))
        keeps = whole + (most - 1) * nothing <= failure
        low, high = (low, middle) if keeps else (middle, high)
    # Noise is rounded to a grid.
    return float(1.0 + (high - 1.0) * (1.0 + 1e-12) + grid_spacing(scale))


def _reached(law: str, tail: float) -> float:
    """What noise of scale one exceeds with this probability."""
    if law == "laplace":
        return -math.log(2.0 * tail) if tail < 0.5 else math.log(2.0 - 2.0 * tail)
    return -float(ndtri(tail))


def exceeds(law: str, count: float, noise: float, above: float) -> float:
    """The probability that a count with noise exceeds a threshold."""
    away = (above - count) / laws.scale_of(law, noise, 1)
    if law == "laplace":
        return 0.5 * math.exp(-away) if away > 0 else 1.0 - 0.5 * math.exp(away)
    return float(ndtr(-away))


@audible
def draw_levels(
    values: LevelCounts, law: str, noise: float, above: float, most: int, rng: np.random.Generator
) -> FloatArray:
    """The names of levels whose noisy count exceeds a threshold, sorted, as bytes.

    Of more than `most` those with the largest noisy counts.
    """
    matrix = np.zeros((most, MOST_BYTES))
    if not values.names:
        return matrix
    draw = {"laplace": add_laplace_noise, "gaussian": add_noise}[law]
    noisy = draw.__wrapped__(values.counts, laws.scale_of(law, noise, 1), rng)  # type: ignore[attr-defined]
    order = np.argsort(-noisy, kind="stable")[:most]
    chosen = sorted(values.names[place] for place in order if noisy[place] > above)
    for row, name in enumerate(chosen):
        matrix[row, : len(name)] = list(name)
    return matrix


def decoded(matrix: FloatArray) -> tuple[str, ...]:
    """The names that `draw_levels` has published."""
    names = (bytes(np.asarray(row, dtype=np.uint8)).rstrip(b"\0") for row in matrix)
    return tuple(name.decode(errors="replace") for name in names if name)
