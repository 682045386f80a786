"""The sums that mechanisms ask for, each written once against the products of a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.blocks import Block
from ndis.tables.exact import GRID_NORM, ExactSum

if TYPE_CHECKING:
    from ndis.tables.table import Table


def moments(block: Block) -> Mapping[str, Any]:
    """Second moments: features with features, features with labels, squared labels; the count."""
    xp = block.xp
    terms = {"gram": block.gram(), "count": np.array(float(block.n_rows))}
    if block.labels is not None:
        terms["cross"] = block.combine(block.labels)
        terms["squares"] = xp.sum(block.labels * block.labels)
    if getattr(block, "shift", None) is not None:
        terms["sums"] = block.combine(np.ones((1, block.n_rows)))[:, 0]
    return terms


def read_moments(table: Table) -> dict[str, ExactSum]:
    """The moments of a table in one pass; sparse ones are centred here, in integers."""
    sums = table.sum(moments)
    if "sums" in sums:
        assert table.rows is not None
        features = table.rows.features
        shift = np.round(features.middle * features.scale).astype(np.int64)
        # With r = x + shift: sum x x^T = sum r r^T - s shift^T - shift s^T - n shift shift^T,
        # s the sums of x.
        s = sums.pop("sums").times(shift)
        n = sums["count"].times(shift).times(shift)
        sums["gram"] = sums["gram"] - s - s.T - n
    return sums


@dataclass(frozen=True)
class Residuals:
    """Sum of x clip(y - x theta): the gradient of least squares, with clipped residuals.

    Parameters
    ----------
    theta : ndarray of shape (n_features, n_labels)
        Coefficients as integers: a prediction is ``scale * theta x`` in grid units of the label.
    scale : float
    clip : float
        Residual vectors longer than this, in grid units of the label, are scaled down to it.
    """

    theta: FloatArray
    scale: float
    clip: float

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The sum over a block, in units of clip / 2^20."""
        xp = block.xp
        fitted = block.times(block.beside(self.theta)) * self.scale
        left = (block.labels - fitted) * (GRID_NORM / self.clip)
        return {"gradient": block.combine(bounded(xp, left))}


def bounded(xp: Any, vectors: Any) -> Any:
    """Columns as integers of norm at most 2^20: longer ones are scaled down, entries rounded."""
    if vectors.shape[0] == 1:
        return xp.round(xp.clip(vectors, -float(GRID_NORM), float(GRID_NORM)))
    room = GRID_NORM * (1.0 - 2.0**-50) - 0.5 * float(np.sqrt(vectors.shape[0]))
    length = xp.sqrt(_ordered_squares(xp, vectors))
    return xp.round(vectors * (room / xp.clip(length, room, None)))


def _ordered_squares(xp: Any, vectors: Any) -> Any:
    """Sums of squares down the columns, added row by row: the same bits everywhere."""
    total = 0.0
    for index in range(vectors.shape[0]):
        total = total + vectors[index, :] * vectors[index, :]
    return total
