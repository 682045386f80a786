"""Levels that nobody knows: those whose noisy count passes a threshold are published.

A record adds one to the count of its level. A level that only one record has is published with
probability P(1 + noise > threshold), which is the failure probability: it is added to delta. Which
levels can be published at all, those of at most 64 bytes, is decided from the record alone.
docs/proofs/summary.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import laplace, norm

from ndis._validate import FloatArray
from ndis.mechanisms import laws
from ndis.randomness import add_laplace_noise, add_noise, grid_spacing
from ndis.randomness.listening import audible
from ndis.tables import Rows, Table, Weighting

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
    counts : ndarray of int
    whole : bool
        Whether the column holds whole numbers, by its type.
    """

    names: tuple[bytes, ...] = field(repr=False)
    counts: Any = field(repr=False)
    whole: bool = False

    def toarray(self) -> FloatArray:
        """The counts alone."""
        return np.asarray(self.counts, dtype=np.float64)


def read(table: Table, name: str, rows: Rows) -> LevelCounts:
    """Count the levels of a column, in a pass of its own."""
    import pyarrow as pa

    try:
        counted = table.weighed(Weighting(name)).with_rows(rows).count_people().table
    except ValueError as error:
        if table.once:
            raise
        raise ValueError(
            f"Expected column {name!r} to hold text or whole numbers without gaps, to find its "
            "levels; write them as text, and leave out or fill what is missing."
        ) from error
    if counted is None:
        raise ValueError("The table has no rows; hand over at least one.")
    kind = counted.schema.field("id").type
    if not (pa.types.is_integer(kind) or pa.types.is_large_string(kind)):
        raise ValueError(
            f"Expected column {name!r} to hold text or whole numbers, to find its levels, got "
            f"{kind}; write them as text."
        )
    each = sorted(
        (str(level).encode(), n)
        for level, n in zip(counted["id"].to_pylist(), counted["n"].to_pylist(), strict=True)
    )
    kept = [(level, n) for level, n in each if 0 < len(level) <= MOST_BYTES and b"\0" not in level]
    names = tuple(level for level, _ in kept)
    return LevelCounts(names, np.array([n for _, n in kept], np.int64), pa.types.is_integer(kind))


def threshold(law: str, noise: float, failure: float) -> float:
    """What the noisy count of a level must exceed, so that one record alone does it this rarely.

    Parameters
    ----------
    law : {"laplace", "gaussian"}
    noise : float
        The standard deviation of the noise.
    failure : float

    Examples
    --------
    >>> from ndis.mechanisms.levels import exceeds, threshold
    >>> above = threshold("laplace", 5.0, 1e-7)
    >>> f"{above:.1f}, {exceeds('laplace', 1.0, 5.0, above):.1e}"
    '55.5, 1.0e-07'
    """
    scale = laws.scale_of(law, noise, 1)
    away = -scale * math.log(2.0 * failure) if law == "laplace" else scale * norm.isf(failure)
    # Noise is rounded to a grid.
    return float(1.0 + away * (1.0 + 1e-12) + grid_spacing(scale))


def exceeds(law: str, count: float, noise: float, above: float) -> float:
    """The probability that a count with noise exceeds a threshold."""
    away = (above - count) / laws.scale_of(law, noise, 1)
    return float(laplace.sf(away) if law == "laplace" else norm.sf(away))


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
