"""Relative methods: they protect this database and its neighbours only."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import meets
from ndis.gaussian import Gaussian
from ndis.loss import Profile, QuadraticLoss
from ndis.loss.least_squares import LeastSquaresLoss, TriangleLoss
from ndis.loss.student import SketchAndSolveLoss
from ndis.mechanisms import projection_methods
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.regression_methods.base import (
    FINER,
    Arrays,
    Method,
    Table,
    Task,
    solve,
    unit_noise,
)
from ndis.mechanisms.regression_methods.sketches import (
    GaussianLimit,
    Sketch,
    SketchAndSolve,
    Sketched,
)
from ndis.randomness import round_to_grid
from ndis.release import Shapes

# ln of a delta below which a relative method's own delta is not told apart.
_NEGLIGIBLE = math.log(1e-30)


class Relative(Method):
    """Nothing is added if every row's own pair (q, p) is private enough; else the full ridge.

    Neighbours are the database without one of its rows, or with one of them repeated: leverages
    (q, p), or (q/(1+q), p/(1+p)). delta is monotone in neither, so all records are looked at, each
    with its rounding error, in boxes first.
    """

    basis = "relative"
    note = projection_methods.Relative.note
    absolute: Callable[[Task], Sketched]

    def __init__(self, task: Task) -> None:
        self._task = task
        self._absolute = type(self).absolute(task)
        self.noise_scale = self._absolute.noise_scale
        self.n_components = self._absolute.n_components
        self.inherent_delta: float | None = None

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the coefficients only: whether a ridge was needed is not told."""
        self._study(table)
        return {"coef": self._absolute.draw(table, rng)["coef"]}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        self._study(table)
        return self._absolute.law(table)

    def _family(self) -> TriangleLoss:
        return LeastSquaresLoss(1.0, self._task.n_features, self.n_components)

    def _study(self, table: Table) -> None:
        p, q, error = table.leverages()
        family, eps = self._family(), self._task.epsilon
        worst = max(
            worst_record(loss, *pair, error, eps)
            for loss in (family, family.reversed())
            for pair in ((q, p), (q / (1.0 + q), p / (1.0 + p)))
        )
        self.inherent_delta = math.exp(worst)
        if worst <= math.log(self._task.delta) - 1e-9:
            self._absolute.noise_scale = self._absolute.ridge = 0.0
            self.noise_scale = 0.0


class RelativeLimit(Relative):
    """The limit law, relative."""

    absolute = GaussianLimit


class RelativeSolve(Relative):
    """Sketch-and-solve, relative."""

    absolute = SketchAndSolve

    def _family(self) -> TriangleLoss:
        return SketchAndSolveLoss(1.0, self._task.n_features, self.n_components)


class RelativeSketch(Relative):
    """The sketch, relative: it is private enough if the largest leverage is small enough."""

    absolute = Sketch

    def _study(self, table: Table) -> None:
        _, q, error = table.leverages()
        largest = float(np.max(q)) * (1.0 + error)
        largest = largest if largest < 1.0 else 1.0  # no bound, or none below one: it may be one
        inherent = Profile.both(QuadraticLoss.from_leverage(largest, self.n_components))
        self.inherent_delta = float(inherent.delta_bounds(self._task.epsilon)[1])
        if meets(inherent, self._task.epsilon, self._task.delta):
            self._absolute.noise_scale = self._absolute.ridge = self.noise_scale = 0.0

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {"coef": (n_features,), "sketch": (n_features + 1, self.n_components)}

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the sketch, on a grid that does not tell the noise."""
        self._study(table)
        ridge = self._absolute.ridge
        sketch = draw_sketch(table.moments, ridge, self.n_components, rng)
        sketch = round_to_grid(sketch, self._task.data_norm)
        return {"coef": solve(sketch @ sketch.T), "sketch": sketch}


class RelativeGaussian(Method):
    """The solution itself plus noise for the largest change that one of its own rows makes."""

    basis = "relative"
    note = Relative.note

    def __init__(self, task: Task) -> None:
        self._unit = unit_noise(task.epsilon, task.delta)
        self.noise_scale = math.nan  # depends on the data

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the solution; the grid is that of a standard normal, for want of public units."""
        law = self.law(table)
        noise = self.noise_scale * rng.standard_normal(len(law.mean))
        return {"coef": round_to_grid(law.mean + noise, FINER)}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        moments = table.moments
        theta = solve(moments)
        inverse = np.linalg.pinv(moments[:-1, :-1], hermitian=True)
        largest = 0.0
        for block in table.blocks():
            X, y = block[:, :-1], block[:, -1]
            moved = X @ inverse
            left = 1.0 - np.sum(moved * X, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.linalg.norm(moved, axis=1) * np.abs(y - X @ theta) / left
            largest = max(largest, float(np.max(np.where(left > 1e-9, change, np.inf))))
        if not math.isfinite(largest):
            raise ValueError(
                "Expected a table in which no row decides a coefficient alone, got one with such a "
                "row; use a method that protects every table."
            )
        self.noise_scale = self._unit * largest * (1.0 + 1e-9)
        return Gaussian.isotropic(theta, self.noise_scale**2)


def worst_record(
    loss: TriangleLoss, q: FloatArray, p: FloatArray, error: float, epsilon: float
) -> float:
    """A bound on ln of the largest delta(epsilon) over records with these leverages.

    Records with similar q and p/q are bounded together, in ever smaller boxes, as long as the bound
    is more than a tolerance above what one record attains; at last one by one, each in a box
    as large as its leverages are uncertain.
    """
    if not error < 1e-2:
        return 0.0  # a leverage may be one
    factors = np.array([[1.0 - 2.0 * error], [1.0 + 2.0 * error]] * 2)
    attained, worst = _NEGLIGIBLE, _NEGLIGIBLE
    for width in (0.25, 0.06, 0.015, 0.004, 0.0):
        if not q.size:
            break
        start = np.arange(q.size)
        if width > 0:
            place = np.floor(np.log(np.maximum(q, 1e-300)) / width) * 1e6
            place += np.floor(p / np.maximum(q, 1e-300) / width)
            order = np.argsort(place)
            q, p, place = q[order], p[order], place[order]
            start = np.flatnonzero(np.diff(place, prepend=-np.inf))
        attained = max(attained, float(np.max(loss.log_delta_at(q[start], p[start], epsilon))))
        extremes = [f.reduceat(v, start) for v in (p, q) for f in (np.minimum, np.maximum)]
        cells = np.array(extremes) * factors
        sound = cells[3] < 1.0
        bounds = np.zeros(start.size)
        bounds[sound] = loss.cell_bounds(cells[:, sound], epsilon, attained)
        settled = (bounds <= attained + loss.tolerance) | (width == 0)
        worst = max(worst, float(np.max(bounds[settled], initial=-math.inf)))
        left = np.repeat(~settled, np.diff(np.append(start, q.size)))
        q, p = q[left], p[left]
    return worst
