"""What is asked of a sketch method of least squares."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee
from ndis.loss import QuadraticLoss
from ndis.mechanisms.base import Arrays, Target
from ndis.release import Shapes
from ndis.tables import MOST_ROWS, ExactSum, Table


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
    def study(self, table: Table) -> ExactSum:
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
    def removal_losses(self, table: Table) -> QuadraticLoss:
        """For auditors: the loss for every row of the table, row present first."""


def solve(second_moments: FloatArray) -> FloatArray:
    """Coefficients of the last column on the others, from second moments; least norm if many."""
    X = second_moments[:-1, :-1]
    return np.asarray(np.linalg.lstsq(X, second_moments[:-1, -1], rcond=None)[0])
