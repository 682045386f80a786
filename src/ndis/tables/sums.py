"""The sums that mechanisms ask for, each written once against the products of a block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.blocks import Block
from ndis.tables.exact import GRID_NORM, ExactSum
from ndis.tables.functions import exp_minus, softmax

if TYPE_CHECKING:
    from ndis.tables.table import Table


def moments(block: Block) -> Mapping[str, Any]:
    """First and second moments: of features, of features with labels, of labels; the count."""
    xp = block.xp
    centred = getattr(block, "shift", None) is None
    terms = {"gram" if centred else "raw_gram": block.gram()}
    terms["sums"] = block.combine(block.beside(np.ones((1, block.n_rows))))[:, 0]
    terms["count"] = np.array(float(block.n_rows))
    if block.labels is not None:
        terms["cross"] = block.combine(block.labels)
        terms["squares"] = xp.sum(block.labels * block.labels)
    return terms


def read_moments(table: Table) -> dict[str, ExactSum]:
    """The moments of a table in one pass; sparse ones are centred here, in integers."""
    sums = table.sum(moments)
    if "raw_gram" in sums:
        assert table.rows is not None
        features = table.rows.features
        shift = np.round(features.middle * features.scale).astype(np.int64)
        # With r = x + shift: sum x x^T = sum r r^T - s shift^T - shift s^T - n shift shift^T,
        # s the sums of x.
        s = sums["sums"].times(shift)
        n = sums["count"].times(shift).times(shift)
        sums["gram"] = sums.pop("raw_gram") - s - s.T - n
    return sums


# Counted are norms between 2^20 2^(-k/2) and the next, k = 0, ..., 23; the last bin has the rest.
NORM_BINS = 24


def count_norms(block: Block) -> Mapping[str, Any]:
    """How many rows have which norm: one row adds one to one bin."""
    xp, squares = block.xp, block.squares()
    ends = [2.0**40 * 2.0**-k for k in range(1, NORM_BINS)]
    above = [xp.sum(xp.astype(squares > end, xp.float64)) for end in ends]
    counts = [above[0], *(b - a for a, b in pairwise(above))]
    return {"norms": xp.stack([*counts, block.n_rows - above[-1]])}


@dataclass(frozen=True)
class Below:
    """How many rows have a number below each of some public edges; only comparisons are made.

    Parameters
    ----------
    edges : ndarray of shape (n_edges,)
    places : tuple of (group, place)
        Which numbers of a raw row: of the features (group 0) or of the labels (1).
    """

    edges: FloatArray
    places: tuple[tuple[int, int], ...]

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Counts of shape (n_places, n_edges)."""
        xp, edges = block.xp, block.beside(self.edges)
        groups = (block.features, block.labels)
        numbers = [xp.sort(groups[group][place, :]) for group, place in self.places]
        counts = xp.stack([xp.searchsorted(values, edges) for values in numbers])
        return {"below": xp.astype(counts, xp.float64)}


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


@dataclass(frozen=True)
class Scores:
    """Sum of x (e_y - p)^T, p the class probabilities: the gradient of a logistic regression.

    Residuals add up to zero over the classes, and are given in the basis of `contrasts`. A block's
    labels have one row for each class, positive where it is the class of the row.

    Parameters
    ----------
    theta : ndarray of shape (n_features, n_classes)
        Coefficients as integers; no column is longer than 2^32.
    scale : float
        A logit is ``scale * theta x + intercept``.
    intercept : ndarray of shape (n_classes,)
    bound : float
        Residuals longer than this are scaled down to it.
    weighted : bool
        Whether residuals are weighted by the row, so that none is longer than sqrt(1 - 1/K).
    fine : bool
        Whether what rounding to the grid leaves of the residuals is summed too, 2^20 times as fine.
    """

    theta: FloatArray
    scale: float
    intercept: FloatArray
    bound: float
    weighted: bool = False
    fine: bool = False

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The sums over a block, in units of bound / 2^20."""
        xp = block.xp
        logits = block.times(block.beside(self.theta)) * self.scale
        p = softmax(xp, logits + block.beside(self.intercept[:, None]))
        left = contrasts(xp, xp.astype(block.labels > 0, xp.float64) - p)
        if self.weighted:
            # The longest residual that any label could have: |e_y - p|^2 = 1 - 2 p_y + |p|^2.
            longest = 1.0 - 2.0 * xp.min(p, axis=0) + _ordered_squares(xp, p)
            left = left * xp.sqrt((1.0 - 1.0 / p.shape[0]) / longest)
        left = left * (GRID_NORM / self.bound)
        whole = bounded(xp, left)
        terms = {"gradient": block.combine(whole), "residuals": xp.sum(whole, axis=1)}
        if self.fine:
            rest = bounded(xp, (left - whole) * float(GRID_NORM))
            terms |= {"fine_gradient": block.combine(rest), "fine_residuals": xp.sum(rest, axis=1)}
        return terms


def unclassified(block: Block) -> Mapping[str, Any]:
    """How many rows of a raw block belong to none of the classes."""
    xp = block.xp
    classes = xp.sum(xp.astype(block.labels > 0, xp.float64), axis=0)
    return {"unclassified": xp.sum(xp.astype(classes != 1.0, xp.float64))}


def contrasts(xp: Any, vectors: Any) -> Any:
    """Coordinates of columns that add up to zero, in Helmert's orthonormal basis.

    The j-th is (v_1 + ... + v_j - j v_{j+1}) / sqrt(j (j + 1)), added up in this order.
    """
    rows, total = [], vectors[0, :]
    for j in range(1, vectors.shape[0]):
        rows.append((total - float(j) * vectors[j, :]) * (1.0 / math.sqrt(j * (j + 1))))
        total = total + vectors[j, :]
    return xp.stack(rows, axis=0)


@dataclass(frozen=True, eq=False)
class KernelMoments:
    """Second moments of public features of the rows, W^T k(x, U), with the labels.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_columns)
        U, integers of the rows' grid.
    weights : ndarray of shape (n_points, n_features)
        W in units of 2^-bits: integers, at most 2^32 in sum down a column.
    bits : int
    factors : ndarray of shape (n_columns,)
        What a grid unit of each column is in length scales of the kernel.
    nu : float
        The kernel's smoothness, see `kernel_of_squares`.
    """

    points: FloatArray
    weights: FloatArray
    bits: int
    factors: FloatArray
    nu: float

    def features(self, block: Block) -> Any:
        """The features as integers of norm at most 2^20, shape (n_features, n_rows)."""
        xp, rows = block.xp, block.dense
        squares = 0.0
        for index, factor in enumerate(self.factors):
            point = block.beside(self.points[:, index : index + 1])
            away = (rows[index : index + 1, :] - point) * float(factor)
            squares = squares + away * away
        values = xp.round(kernel_of_squares(xp, squares, self.nu) * float(GRID_NORM))
        product = block.beside(self.weights).T @ values
        return bounded(xp, xp.round(product * 2.0**-self.bits))

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Their moments over a block."""
        return moments(Block(self.features(block), block.labels))


def kernel_of_squares(xp: Any, squares: Any, nu: float) -> Any:
    """The Matern kernel of squared distances in length scales; nu = 1/2, 3/2, 5/2 or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables.sums import kernel_of_squares
    >>> kernel_of_squares(np, np.array([0.0, 1.0]), np.inf).round(4).tolist()
    [1.0, 0.6065]
    """
    if np.isinf(nu):
        return exp_minus(xp, squares * 0.5)
    # Beyond 40 the kernel is zero for whoever rounds to 2^-20.
    root = xp.clip(xp.sqrt(squares * (2.0 * nu)), 0.0, 40.0)
    power = exp_minus(xp, root)
    if nu == 0.5:
        return power
    return (1.0 + root if nu == 1.5 else 1.0 + root + root * root / 3.0) * power


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
