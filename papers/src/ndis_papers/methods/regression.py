"""Sketches: a ridge is added to the rows [x, y], and Gaussian combinations of them are released.

A row of features has norm at most 1, a label is at most 1, so that a whole row has norm at most
sqrt(2). After a ridge of t no row has a leverage above 1/(1 + t) among the features, nor above
1/(1 + t/2) with the label; in a declared set of tables, above 1/(1/s + t) and 1/(1/s' + t/2).
docs/proofs/least-squares.md has the proofs.
"""

from __future__ import annotations

import copy
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq

from ndis import LeastSquaresLoss, Profile, QuadraticLoss
from ndis.calibration import ROUND_UP, meets
from ndis.loss import PrivacyLoss, SketchAndSolveLoss, removal_loss
from ndis.loss.least_squares import TriangleLoss
from ndis.mechanisms import EstimatorMethod, Part, Plan, Target, require_rows
from ndis.mechanisms.projection_methods import (
    above_floor,
    check_leverages,
    excess,
    grid_ridge,
    least_grid_ridge,
    least_ratio,
    least_sketch_ratio,
    room,
)
from ndis.randomness import draw_limit, draw_sketch, draw_solution
from ndis.tables import GRID_NORM, MOST_ROWS, ExactSum, Rows, Table, joint_gram, leverages
from ndis_papers import _validate
from ndis_papers._validate import FloatArray
from ndis_papers.least_squares import solve

# The squared norm of a whole row, features and label.
SIZE = 2.0
# The most that a calibration leaves below the delta asked for, in ln delta, to certify it; and the
# least noise, below which 1 - s would lose digits.
_MOST_ROOM, _LEAST_RATIO = 1.0, 2.0**-4
# Coefficients are put on a grid this much finer than the standard deviation they have on an empty
# table, 1/sqrt(r): there the spread is largest.
_FINER = 2.0**-8


@functools.lru_cache(maxsize=256)
def least_triangle_ratio(
    kind: type[TriangleLoss],
    epsilon: float,
    delta: float,
    n_features: int,
    n_components: int,
    leverage: float | None = None,
    joint_leverage: float | None = None,
) -> float:
    """The least sqrt(ridge) for which the certified worst case meets (epsilon, delta).

    Infinite for a delta that this kind of loss cannot certify.

    Examples
    --------
    >>> from ndis import LeastSquaresLoss
    >>> from ndis_papers.methods.regression import least_triangle_ratio
    >>> f"{least_triangle_ratio(LeastSquaresLoss, 1.0, 1 / 327_346, 2, 1269):.2f}"
    '11.93'
    """

    def losses(ratio: float) -> tuple[TriangleLoss, TriangleLoss]:
        loss = triangle_loss(kind, ratio, n_features, n_components, leverage, joint_leverage)
        return loss, loss.reversed()

    def attained(log_ratio: float) -> float:
        deltas = [float(loss.attained(epsilon)) for loss in losses(math.exp(log_ratio))]
        return max(*deltas, kind.floor)

    target, least = math.log(delta), math.log(_LEAST_RATIO)
    if target < kind.floor + _MOST_ROOM:
        return math.inf
    start = math.sqrt(SIZE) * least_ratio(epsilon, delta, max(n_components, n_features))
    low = high = max(math.log(start), least)
    while attained(high) > target:
        high += 0.5
    while low > least and attained(low) <= target:
        low = max(low - 0.25, least)
    margin, ratio = kind.tolerance, _LEAST_RATIO
    if attained(low) > target:
        found = brentq(lambda x: attained(x) - target, low, high, xtol=1e-5)
        # The certificate needs room in delta: as much as a thousandth more noise makes, but not
        # all of a cliff (the loss of sketch-and-solve is bounded, so delta may fall to 0 at once).
        margin = min(max(attained(found) - attained(found + 1e-3), kind.tolerance), _MOST_ROOM)
        while attained(high) > target - margin:
            high += 0.5
        ratio = math.exp(brentq(lambda x: attained(x) - target + margin, found, high, xtol=1e-5))
    more = 2.0**-10
    while not all(meets(loss, epsilon, delta) for loss in losses(ratio)):
        ratio, more = ratio * (1.0 + more), 2.0 * more
    return ratio


def triangle_loss(
    kind: type[TriangleLoss],
    ratio: float,
    n_features: int,
    n_components: int,
    leverage: float | None,
    joint_leverage: float | None,
) -> TriangleLoss:
    """The worst case after a ridge of ratio^2, row present first."""
    return kind(
        excess(ratio, joint_leverage, SIZE),
        n_features,
        n_components,
        feature_excess=excess(ratio, leverage),
    )


class Sketched(ABC):
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

    name: ClassVar[str]

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
    ) -> None:
        self.n_features = _validate.count("n_features", n_features)
        self.n_components = self._components(n_components)
        self.max_rows = _validate.count("max_rows", max_rows)
        self.leverage, self.joint_leverage = (
            None if value is None else _validate.probability(name, value)
            for name, value in (("leverage", leverage), ("joint_leverage", joint_leverage))
        )
        floor = least_grid_ridge(self.max_rows, self.n_features + 1, SIZE)
        if noise_scale is None:
            self.noise_scale = above_floor(self._calibrate(target), floor, None)
        else:
            self.noise_scale = _validate.positive("noise_scale", noise_scale)
            above_floor(self.noise_scale, floor, noise_scale)
        loss = Profile.both(self._loss(self.noise_scale, target))
        self.guarantee = target.promise(loss, "add-remove", *self._basis())
        self.shapes: dict[str, tuple[int, ...]] = {"coef": (self.n_features,)}

    def _components(self, asked: int | None) -> int:
        """As many components as make the sketch's own error small beside the noise."""
        if asked is None:
            return max(300, 20 * self.n_features)
        return _validate.count("n_components", asked, self.n_features)

    def _basis(self) -> tuple[str, str]:
        names = "leverage among the features", "leverage with the label"
        declared = [
            f"a {name} above {value:.17g}"
            for name, value in zip(names, (self.leverage, self.joint_leverage), strict=True)
            if value is not None
        ]
        if not declared:
            return "proven", ""
        return "relative", f"The set: tables in which no row has {' or '.join(declared)}."

    @abstractmethod
    def _calibrate(self, target: Target) -> float:
        """The least noise; may be below the floor in a declared set."""

    @abstractmethod
    def _loss(self, ratio: float, target: Target) -> PrivacyLoss:
        """The worst case, row present first."""

    @abstractmethod
    def draw(self, moments: ExactSum, rng: np.random.Generator) -> dict[str, FloatArray]:
        """What is released, from what was studied: "coef" in label units for each feature unit."""

    def _of_kind(self, kind: type[TriangleLoss], ratio: float) -> TriangleLoss:
        sizes = self.n_features, self.n_components
        return triangle_loss(kind, ratio, *sizes, self.leverage, self.joint_leverage)

    def _least_of_kind(self, kind: type[TriangleLoss], target: Target) -> float:
        sizes = self.n_features, self.n_components, self.leverage, self.joint_leverage
        return target.least(
            lambda epsilon, delta: least_triangle_ratio(kind, epsilon, delta, *sizes),
            lambda ratio: Profile.both(self._of_kind(kind, ratio)),
        )

    def _sketch_loss(self, ratio: float) -> QuadraticLoss:
        return QuadraticLoss(excess(ratio, self.joint_leverage, SIZE), 0.0, self.n_components)

    def _least_of_sketch(self, target: Target) -> float:
        ratio = least_sketch_ratio(target, self.n_components)
        left = ratio**2 * ROUND_UP**2 - room(self.joint_leverage)
        return math.sqrt(SIZE * max(left, 0.0)) * ROUND_UP

    def study(self, table: Table) -> ExactSum:
        """The joint Gram matrix; a table outside the declared set is refused to its owner."""
        moments = joint_gram(table)
        require_rows(table.n_rows, self.max_rows)
        check_leverages(table, self.joint_leverage, self.leverage)
        return moments

    def with_noise(self, noise_scale: float) -> Self:
        """The same with other noise, of which nothing is promised: for forecasts."""
        other = copy.copy(self)
        other.noise_scale = noise_scale
        return other

    @property
    def ridge(self) -> float:
        """The ridge on the grid."""
        return grid_ridge(self.noise_scale)

    def removal_losses(self, table: Table) -> QuadraticLoss:
        """Only "gaussian-limit" knows them: elsewhere leverages do not tell all."""
        raise ValueError(
            f"Expected method='gaussian-limit', got method={self.name!r}; audit others by samples."
        )

    def _coefficients(
        self, draw: Any, moments: ExactSum, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        grid = _FINER / math.sqrt(self.n_components)
        return {"coef": np.asarray(draw(moments, self.ridge, self.n_components, grid, rng))}


class SketchedMoments(Sketched):
    """Least squares on a private projection of [X, y]: post-processing."""

    name = "sketch"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        d = self.n_features + 1
        self.shapes = {**self.shapes, "sketch": (d, self.n_components), "moments": (d, d)}

    def _calibrate(self, target: Target) -> float:
        return self._least_of_sketch(target)

    def _loss(self, ratio: float, target: Target) -> PrivacyLoss:
        return self._sketch_loss(ratio)

    def draw(self, moments: ExactSum, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Release the sketch and what it says about the coefficients."""
        sketch = draw_sketch(moments, self.ridge, self.n_components, rng) / GRID_NORM
        second = sketch @ sketch.T
        debiased = second / self.n_components - self.noise_scale**2 * np.eye(len(second))
        return {"coef": solve(second), "sketch": sketch, "moments": debiased}


class GaussianLimit(Sketched):
    """Draw from the limit law of sketch-and-solve on the ridged table (M_LS)."""

    name = "gaussian-limit"

    def _components(self, asked: int | None) -> int:
        """Any number, since no sketch is solved."""
        return (
            super()._components(None) if asked is None else _validate.count("n_components", asked)
        )

    def _calibrate(self, target: Target) -> float:
        return self._least_of_kind(LeastSquaresLoss, target)

    def _loss(self, ratio: float, target: Target) -> PrivacyLoss:
        return self._of_kind(LeastSquaresLoss, ratio)

    def draw(self, moments: ExactSum, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Draw the coefficients."""
        return self._coefficients(draw_limit, moments, rng)

    def removal_losses(self, table: Table) -> QuadraticLoss:
        """The loss for every row, by leverages."""
        p, q = leverages(table, self.ridge)
        q = np.minimum(q, 1.0)
        return removal_loss(q, np.minimum(p, q), self.n_features, self.n_components)


class SketchAndSolve(Sketched):
    """Solve the sketched problem and release the solution (M_ALS), accounted by its own law."""

    name = "als"

    # The solution is a post-processing of the sketch, so either loss will do.

    def _calibrate(self, target: Target) -> float:
        solved = self._least_of_kind(SketchAndSolveLoss, target)
        return min(solved, self._least_of_sketch(target))

    def _loss(self, ratio: float, target: Target) -> PrivacyLoss:
        solved, sketch = self._of_kind(SketchAndSolveLoss, ratio), self._sketch_loss(ratio)
        if target.epsilon is not None:
            least = self._least_of_kind(SketchAndSolveLoss, target)
            return solved if least <= self._least_of_sketch(target) else sketch
        epsilon = float(Profile.both(sketch).epsilon(target.delta))
        found = max(float(way.attained(epsilon)) for way in (solved, solved.reversed()))
        return solved if max(found, solved.floor) < math.log(target.delta) else sketch

    def draw(self, moments: ExactSum, rng: np.random.Generator) -> dict[str, FloatArray]:
        """Draw the solution of a sketch that nobody makes."""
        return self._coefficients(draw_solution, moments, rng)


@functools.lru_cache(maxsize=64)
def sketching(kind: type[Sketched], target: Target, n_features: int, **declared: Any) -> Sketched:
    """A method, calibrated once."""
    return kind(target, n_features, **declared)


# -- methods of PrivateLeastSquares ----------------------------------------------------------------


class Sketching(EstimatorMethod):
    """Least squares by a sketch of whole rows: with an intercept, a constant is one of them."""

    kind: ClassVar[type[Sketched]]
    reason: ClassVar[str]
    whole_rows = True

    def _made(self, rows: Rows) -> Sketched:
        """The method for a table with this recipe for its rows, calibrated."""
        model, name = self.model, self.kind.name
        if rows.bought or (rows.labels is not None and len(rows.labels.names) > 1):
            raise ValueError(
                f"Expected public limits and one label, got others for method={name!r}; "
                "pass the least and largest value of every column, or take another method."
            )
        given = model.noise_scale
        if isinstance(given, Mapping):
            raise ValueError(
                f"Expected noise_scale to be a number for method={name!r}, got {given!r}; "
                "pass the root of the ridge."
            )
        return sketching(
            self.kind,
            self.target(rows),
            len(rows.features.names),
            n_components=model.n_components,
            noise_scale=given,
            leverage=model.leverage,
            joint_leverage=model.joint_leverage,
            max_rows=model.max_rows,
        )

    def _plan(self, rows: Rows) -> Plan:
        made = self._made(rows)
        n_features = made.n_features - bool(self.model.fit_intercept)
        shapes = {**made.shapes, "coef": (n_features,), "intercept": ()}
        part = Part(None, noise=made.noise_scale)
        return Plan(self.kind.name, (part,), made.guarantee, shapes, self.reason)

    def _study(self, data: Table, plan: Plan) -> ExactSum:
        moments = self._made(data.rows).study(data)
        self.check_rows(data.n_rows)
        return moments

    def _draw(
        self, studied: ExactSum, plan: Plan, data: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        made = self._made(data.rows).with_noise(plan.noise_scale)
        drawn = made.draw(studied, rng)
        return {**drawn, **self._in_units(drawn["coef"], data.rows)}

    def _in_units(self, theta: FloatArray, rows: Rows) -> dict[str, FloatArray]:
        """Coefficients and intercept in the table's own units; with one, its column comes first."""
        features, label = rows.features, rows.labels
        coef = theta * features.scale / label.scale[0]
        if not self.model.fit_intercept:
            return {"coef": coef, "intercept": np.array(0.0)}
        middle = features.middle[1:] @ coef[1:]
        return {"coef": coef[1:], "intercept": np.array(label.middle[0] + coef[0] - middle)}

    def removal_losses(self, table: Table) -> QuadraticLoss:
        """The loss of the coefficients for every row, where leverages tell all."""
        return self._made(table.rows).removal_losses(table)


class BySketch(Sketching):
    """Least squares on a private projection of one label and its features."""

    kind = SketchedMoments
    reason = "A sketch serves for any regression among the same columns."


class BySolution(Sketching):
    """The solution of a sketch, and nothing else."""

    kind = SketchAndSolve
    reason = "The solution of a sketch is released, and nothing else."


class ByLimit(Sketching):
    """A draw from the limit law of a sketch's solution."""

    kind = GaussianLimit
    reason = "Coefficients are drawn from the limit law of a sketch's solution."
