"""What is asked of a method of least squares, the data as it sees them, and what it must say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee
from ndis.loss import PrivacyLoss, QuadraticLoss
from ndis.mechanisms.base import Target
from ndis.release import Shapes
from ndis.tables.exact import MOST_ROWS, ExactSum

if TYPE_CHECKING:
    from ndis.tables import Gram, batches  # type: ignore[attr-defined]  # leaves with `Table`

# Coefficients drawn from a law that depends on the data are put on a grid this much finer than
# the standard deviation they have on an empty table, 1/sqrt(r): there the spread is largest.
FINER = 2.0**-8

Arrays = dict[str, FloatArray]


@dataclass(frozen=True)
class Task:
    """What is asked of a method, all of it public."""

    epsilon: float
    delta: float
    n_features: int  # intercept included
    data_norm: float
    label_bound: float
    n_components: int | None
    n_rounds: int

    def components(self, default: float) -> int:
        """The number of components asked for, or a method's own."""
        if self.n_components is not None:
            return self.n_components
        return math.ceil(default)


@dataclass(frozen=True)
class Table:
    """The data as a method sees them: Gram matrix of [features, label], and ways to read again."""

    source: Any
    gram: Gram
    label: str

    @property
    def order(self) -> list[int]:
        """Positions of the features, then of the label."""
        last = self.gram.columns.index(self.label)
        return [i for i in range(len(self.gram.columns)) if i != last] + [last]

    @property
    def moments(self) -> FloatArray:
        """The Gram matrix with the label last."""
        return np.asarray(self.gram.matrix[np.ix_(self.order, self.order)])

    def blocks(self) -> Any:
        """Rows [features, label] in blocks, in one more pass."""
        order, seen = self.order, 0
        rows = self.gram.rows
        for batch in batches(self.source, rows.columns, levels=rows.levels):
            for block in rows.blocks(batch):
                seen += len(block)
                yield block[:, order]
        if seen != self.gram.n_rows:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; "
                "hand over the table itself, or take method='adassp', which reads it once."
            )

    def gradient(self, theta: FloatArray, clip: float) -> FloatArray:
        """X^T clip(y - X theta, -clip, clip)."""
        total = np.zeros(len(theta))
        for block in self.blocks():
            total += block[:, :-1].T @ np.clip(block[:, -1] - block[:, :-1] @ theta, -clip, clip)
        return total


class Method(ABC):
    """What differs between the methods.

    Attributes
    ----------
    noise_scale : float
        The noise, in the method's own terms (see `PrivateLeastSquares`).
    loss : PrivacyLoss
        The worst case.
    passes : int
        How often it reads the table.
    """

    noise_scale: float
    loss: PrivacyLoss
    passes = 1

    @abstractmethod
    def __init__(self, task: Task) -> None: ...

    @abstractmethod
    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw what is released: "coef" (intercept first, if any) and what it was computed from."""

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {"coef": (n_features,)}

    def law(self, table: Table) -> Gaussian:
        """The law of "coef", where that is Gaussian."""
        raise ValueError(
            "Expected a method whose coefficients have a Gaussian law, got one for which they do "
            "not; audit it by samples."
        )


class SketchMethod(ABC):
    """A method that adds a ridge to rows [x, y] and releases a sketch of them, or its solution.

    Everything is in grid units over 2^20: features of norm at most 1, intercept included, and one
    label of at most 1 in absolute value, so that a whole row has norm at most sqrt(2).

    Parameters
    ----------
    target : Target
    n_features : int
        Intercept included.
    n_components : int, optional
        Columns of the sketch; the method's own number if not given.
    noise_scale : float, optional
        The noise, where the caller has chosen it.
    leverage, joint_leverage : float, optional
        What no row exceeds in any table of a declared set: its leverage among the features, and
        with the label. The noise follows from them, never from the table at hand.
    max_rows : int
        A public cap on the number of rows.

    Attributes
    ----------
    n_components : int
    noise_scale : float
        The root of the ridge.
    guarantee : Guarantee
        With the worst-case loss; relative to the set, if one was declared.
    shapes : dict of str to tuple of int
        Of what `draw` returns.
    """

    name: str
    n_components: int
    noise_scale: float
    guarantee: Guarantee
    shapes: Shapes

    @abstractmethod
    def __init__(
        self,
        target: Target,
        n_features: int,
        n_components: int | None = None,
        *,
        noise_scale: float | None = None,
        leverage: float | None = None,
        joint_leverage: float | None = None,
        max_rows: int = MOST_ROWS,
    ) -> None: ...

    @abstractmethod
    def study(self, table: Any) -> ExactSum:
        """The joint Gram matrix, label last; refuses to its owner a table outside the set."""

    @abstractmethod
    def draw(self, moments: ExactSum, rng: np.random.Generator) -> Arrays:
        """What is released, from what was studied: "coef" in label units for each feature unit.

        "sketch" also releases its matrix and the second moments that it estimates.
        """

    @abstractmethod
    def law(self, moments: ExactSum) -> Gaussian:
        """The law of "coef", where that is Gaussian."""

    @abstractmethod
    def removal_losses(self, table: Any) -> QuadraticLoss:
        """For auditors: the loss for every row of the table, row present first."""


def solve(second_moments: FloatArray) -> FloatArray:
    """Coefficients of the last column on the others, from second moments; least norm if many."""
    X = second_moments[:-1, :-1]
    return np.asarray(np.linalg.lstsq(X, second_moments[:-1, -1], rcond=None)[0])


def enough(n_components: int, n_features: int) -> int:
    """The number of components, if a sketch of that many can be solved."""
    if n_components < n_features:
        raise ValueError(
            f"Expected at least as many components as coefficients, got n_components="
            f"{n_components} and {n_features} coefficients; take more components."
        )
    return n_components
