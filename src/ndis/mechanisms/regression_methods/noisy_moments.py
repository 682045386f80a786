"""Second moments of features, a constant and labels, released once with symmetric noise."""

from __future__ import annotations

import math

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.randomness import add_symmetric_noise
from ndis.tables import GRID_NORM, ExactSum, Table
from ndis.tables.sums import JointGram

# Rounds in which the error of the Hessian is counted at the coefficients found so far.
_REPEATS = 4


def constant_of(n_features: int) -> float:
    """The constant beside the features, about as long as a column; a whole number of grid units."""
    return float(math.floor(GRID_NORM / math.sqrt(n_features)) / GRID_NORM)


def sensitivity_of(n_features: int) -> float:
    """|(x, c, y)|^2 at most: features and labels have norms of at most one."""
    return 2.0 + float(constant_of(n_features)) ** 2


def study(table: Table) -> ExactSum:
    """The exact moments, in one pass."""
    constant = constant_of(len(table.rows.features.names)) * GRID_NORM
    return table.sum(JointGram(constant), what="Reading second moments")["gram"]


def draw(exact: ExactSum, noise: float, rng: np.random.Generator) -> FloatArray:
    """The moments with noise."""
    noisy = add_symmetric_noise(exact, noise * GRID_NORM**2, rng)
    noisy /= GRID_NORM**2
    return noisy


class Solution:
    """Coefficients from noisy moments: the posterior mean along eigenvectors, as in "newton".

    Parameters
    ----------
    moments : ndarray
        Of features, the constant and labels.
    noise : float
    n_features : int
    intercept : bool
    constant : float, optional
        Where the moments are a part of others: the constant beside all of their features.
    """

    def __init__(
        self,
        moments: FloatArray,
        noise: float,
        n_features: int,
        intercept: bool,
        constant: float | None = None,
    ) -> None:
        d, constant = n_features, constant or constant_of(n_features)
        self._moments, self._noise, self._constant = moments, noise, constant
        n_labels = len(moments) - d - 1
        rows = max(float(moments[d, d]) / constant**2, noise)
        total = max(float(np.trace(moments[:d, :d])), noise * math.sqrt(d))
        self.curvature = bend = Curvature(
            moments[: d + 1, : d + 1],
            noise,
            constant,
            rows,
            noise / constant**2,
            total / rows,
            1.0,
            intercept,
        )
        sums = moments[d, d + 1 :] / constant
        along = bend.vectors.T @ (moments[:d, d + 1 :] - np.outer(bend.mean, sums))
        self.gradient = np.vstack([along, sums[None, :]])
        squares = float(np.trace(moments[d + 1 :, d + 1 :]))
        self.label_square = min(max(squares, noise) / rows, 1.0)
        own = np.full((d + 1, 1), noise**2 / 2)
        own[-1] /= constant**2
        self.theta = np.zeros((d + 1, n_labels))
        self.points, self.growth, self.clipped = self.theta[None], 0.0, 1.0  # nothing was cut
        unit = self.label_square / (total / rows) / n_labels
        for _ in range(_REPEATS):
            away = np.sum(self.theta[:-1] ** 2, axis=0)
            self.variance = own + bend.errors[:, None] * away
            self.theta = bend.step(
                np.zeros_like(self.theta),
                self.gradient,
                self.variance,
                self.residual_variance / n_labels,
                unit,
                self.label_square / n_labels,
            )

    @property
    def residual_variance(self) -> float:
        """About the mean square of a residual vector."""
        bend = self.curvature
        explained = 2 * self.theta * self.gradient - bend.values[:, None] * self.theta**2
        left = self.label_square - float(np.sum(explained)) / bend.rows
        return min(max(left, 0.05 * self.label_square), self.label_square)

    @property
    def counted(self) -> tuple[float, float]:
        """About how many rows there are, and the noise of that."""
        return self.curvature.rows, self._noise / self._constant**2

    def left_square(self, theta: FloatArray) -> tuple[float, float]:
        """The mean square of the residuals at some coefficients of one label, and its noise.

        With v = (-slopes, -constant, 1) it is v^T M v, whose noise has the deviation s |v|^2.
        """
        slopes, constants = self.curvature.slopes(theta)
        v = np.concatenate([-slopes[:, 0], -constants[:1] / self._constant, [1.0]])
        rows = self.curvature.rows
        return float(v @ self._moments @ v) / rows, self._noise * float(v @ v) / rows

    @property
    def dispersion(self) -> float:
        """The same: every row counts as one in the Hessian."""
        return self.residual_variance

    def known(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradient at some coefficients as far as it is known, and its variance."""
        bend = self.curvature
        return self.gradient - bend.values[:, None] * theta, self.variance
