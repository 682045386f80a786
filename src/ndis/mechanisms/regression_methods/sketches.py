"""Sketches: a ridge is added to the table, and Gaussian combinations of its rows are released."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.loss import PrivacyLoss, Profile
from ndis.loss.least_squares import LeastSquaresLoss, TriangleLoss
from ndis.loss.student import SketchAndSolveLoss
from ndis.mechanisms.projection_methods import least_ratio, sketch_loss
from ndis.mechanisms.regression_methods.base import (
    FINER,
    Arrays,
    Method,
    Table,
    Task,
    enough,
    solve,
)
from ndis.randomness import draw_limit, draw_sketch, draw_solution
from ndis.release import Shapes

# The most that a calibration leaves below the delta asked for, in ln delta, to certify it; and the
# least noise over l, below which 1 - s would lose digits.
_MOST_ROOM, _LEAST_RATIO = 1.0, 2.0**-4


def ridged_law(moments: FloatArray, ridge: float, n_components: int) -> Gaussian:
    """The limit law N(x, ||e||^2 (B^T B)^{-1} / r) on the ridged table (M_LS of ndis-2024)."""
    ridged = moments + ridge * np.eye(len(moments))
    X, b = ridged[:-1, :-1], ridged[:-1, -1]
    inverse = np.linalg.inv(X)
    coefficients = inverse @ b
    # The ridged table has a row (0, sigma), which no coefficient explains, so the squared norm of
    # its residuals is at least the ridge: rounding must not take it below.
    residual = max(float(ridged[-1, -1] - b @ coefficients), ridge)
    return Gaussian(coefficients, residual * inverse / n_components)


@functools.lru_cache(maxsize=256)
def least_triangle_ratio(
    kind: type[TriangleLoss], epsilon: float, delta: float, n_features: int, n_components: int
) -> float:
    """The least sqrt(ridge)/l for which the certified worst case meets (epsilon, delta).

    Infinite for a delta that this kind of loss cannot certify.

    Examples
    --------
    >>> from ndis.loss.least_squares import LeastSquaresLoss
    >>> from ndis.mechanisms.regression_methods.sketches import least_triangle_ratio
    >>> f"{least_triangle_ratio(LeastSquaresLoss, 1.0, 1 / 327_346, 2, 1269):.3f}"
    '8.437'
    """

    def losses(ratio: float) -> tuple[TriangleLoss, TriangleLoss]:
        loss = kind(ratio**-2, n_features, n_components)
        return loss, loss.reversed()

    def attained(log_ratio: float) -> float:
        deltas = [float(loss.attained(epsilon)) for loss in losses(math.exp(log_ratio))]
        return max(*deltas, kind.floor)

    target, least = math.log(delta), math.log(_LEAST_RATIO)
    if target < kind.floor + _MOST_ROOM:
        return math.inf
    low = high = max(math.log(least_ratio(epsilon, delta, max(n_components, n_features))), least)
    while attained(high) > target:
        high += 0.5
    while low > least and attained(low) <= target:
        low = max(low - 0.25, least)
    room, ratio = kind.tolerance, _LEAST_RATIO
    if attained(low) > target:
        found = brentq(lambda x: attained(x) - target, low, high, xtol=1e-5)
        # The certificate needs room in delta: as much as a thousandth more noise makes, but not
        # all of a cliff (the loss of sketch-and-solve is bounded, so delta may fall to 0 at once).
        room = min(max(attained(found) - attained(found + 1e-3), kind.tolerance), _MOST_ROOM)
        while attained(high) > target - room:
            high += 0.5
        ratio = math.exp(brentq(lambda x: attained(x) - target + room, found, high, xtol=1e-5))
    more = 2.0**-10
    eps = np.array([epsilon])
    while any(loss.bounds_within(eps, 0.0, target - 1e-9)[1][0] > target for loss in losses(ratio)):
        ratio, more = ratio * (1.0 + more), 2.0 * more
    return ratio


class Sketched(Method):
    """Add (ratio l)^2 to the diagonal, then draw."""

    ratio: float

    def _fix(self, task: Task, ratio: float, loss: PrivacyLoss) -> None:
        self.ratio, self.loss = ratio, loss
        self.noise_scale = ratio * task.data_norm
        self.ridge = self.noise_scale**2

    n_components: int

    def _coefficients(self, draw: Any, table: Table, rng: np.random.Generator) -> FloatArray:
        grid = FINER / math.sqrt(self.n_components)
        return np.asarray(draw(table.moments, self.ridge, self.n_components, grid, rng))


class Sketch(Sketched):
    """Least squares on a private projection of [X, y]: post-processing."""

    def __init__(self, task: Task) -> None:
        self.n_components = enough(task.components(_large_sketch(task)), task.n_features)
        ratio = least_ratio(task.epsilon, task.delta, self.n_components)
        self._fix(task, ratio, Profile.both(sketch_loss(ratio, self.n_components)))

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {
            "coef": (n_features,),
            "sketch": (n_features + 1, self.n_components),
            "moments": (n_features + 1, n_features + 1),
        }

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the sketch and what it says about the coefficients."""
        sketch = draw_sketch(table.moments, self.ridge, self.n_components, rng)
        second = sketch @ sketch.T
        debiased = second / self.n_components - self.ridge * np.eye(len(second))
        return {"coef": solve(second), "sketch": sketch, "moments": debiased}


class GaussianLimit(Sketched):
    """Draw from the limit law of sketch-and-solve on the ridged table (M_LS)."""

    def __init__(self, task: Task) -> None:
        self.n_components = task.components(_large_sketch(task))
        d, r = task.n_features, self.n_components
        ratio = least_triangle_ratio(LeastSquaresLoss, task.epsilon, task.delta, d, r)
        self._fix(task, ratio, Profile.both(LeastSquaresLoss(ratio**-2, d, r)))

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw the coefficients."""
        return {"coef": self._coefficients(draw_limit, table, rng)}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        return ridged_law(table.moments, self.ridge, self.n_components)


class SketchAndSolve(Sketched):
    """Solve the sketched problem and release the solution only (M_ALS), exactly accounted."""

    def __init__(self, task: Task) -> None:
        self.n_components = enough(task.components(_large_sketch(task)), task.n_features)
        d, r = task.n_features, self.n_components
        solved = least_triangle_ratio(SketchAndSolveLoss, task.epsilon, task.delta, d, r)
        sketched = least_ratio(task.epsilon, task.delta, r)
        # The solution is a post-processing of the sketch, so either calibration will do.
        if solved <= sketched:
            self._fix(task, solved, Profile.both(SketchAndSolveLoss(solved**-2, d, r)))
        else:
            self._fix(task, sketched, Profile.both(sketch_loss(sketched, r)))

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw the solution of a sketch that nobody makes."""
        return {"coef": self._coefficients(draw_solution, table, rng)}


def _large_sketch(task: Task) -> float:
    """As many components as make the sketch's own error small beside the noise."""
    return max(300.0, 20.0 * task.n_features)
