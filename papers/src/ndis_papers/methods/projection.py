"""Propose, test, release: a sketch of a table with less noise where its least eigenvalue is large.

A noisy lower bound on the least eigenvalue is bought first, and only the ridge that it leaves is
added (after algorithm 3 of ndis-2024, with the test's failure accounted for).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm as normal

from ndis import Profile, QuadraticLoss
from ndis.calibration import ROUND_UP, least_noise
from ndis.loss import PrivacyLoss
from ndis.loss.derived import MARGIN, with_failure
from ndis.mechanisms import (
    EstimatorMethod,
    Part,
    Plan,
    Target,
    chosen_noise,
    noise_of,
)
from ndis.mechanisms.projection_methods import (
    excess,
    least_grid_ridge,
    least_ratio,
    shift,
    sketch_loss,
)
from ndis.randomness import add_noise, draw_sketch, grid_spacing
from ndis.tables import GRID_NORM, ExactSum, Rows, Table
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# The share of delta that the test may fail with.
_FAILURE = 0.2


@dataclass(frozen=True)
class LeastEigenvalueTest:
    """Release a noisy lower bound on the least eigenvalue first, then only the ridge it leaves.

    On the event that the bound holds for the larger of two neighbours, no leverage exceeds
    l^2 / (max(bound, l^2) + ridge). All in grid units.

    Attributes
    ----------
    needed : float
        What that denominator must reach.
    scale : float
        The noise of the test.
    quantile : float
        Of the normal law: how many noise scales the bound is below the noisy eigenvalue.
    floor : float
        The least ridge, and a bound on the error of the least eigenvalue in doubles.
    """

    needed: float
    scale: float
    quantile: float
    floor: float

    @classmethod
    def of(
        cls, sketch: float, test: float, delta: float, dimension: int, max_rows: int
    ) -> LeastEigenvalueTest:
        """From the noise of sketch and test, in units of l and l^2."""
        return cls(
            needed=(1.0 + sketch**2) * GRID_NORM**2 * ROUND_UP,
            scale=test * GRID_NORM**2,
            quantile=float(normal.isf(failure(delta))) * ROUND_UP,
            floor=least_grid_ridge(max_rows, dimension),
        )

    def least_eigenvalue(self, gram: ExactSum) -> float:
        """Within `floor` of the least eigenvalue of the exact matrix, with proof.

        A Rayleigh quotient is above it; a Cholesky factorisation that succeeds a little lower
        shows how far at most (docs/proofs/projection.md).
        """
        matrix = gram.value
        vector = np.linalg.eigh(matrix)[1][:, 0]
        found = float(vector @ matrix @ vector / (vector @ vector))
        np.linalg.cholesky(matrix - (found - 0.5 * self.floor) * np.eye(len(matrix)))
        return found

    def draw(self, least: float, rng: np.random.Generator) -> float:
        """The ridge that the test leaves."""
        noisy = float(add_noise(least, self.scale, rng))
        # Half a grid step: rounding may have raised the noisy value.
        return self.ridge_above(noisy - self.slack)

    @property
    def slack(self) -> float:
        """How far the bound is below the noisy eigenvalue."""
        return self.scale * self.quantile + self.floor + 0.5 * grid_spacing(self.scale)

    def ridge_above(self, bound: float) -> float:
        """The ridge beside a table whose least eigenvalue is at least `bound`."""
        return max(self.floor, self.needed - max(bound, float(GRID_NORM**2)))


def failure(delta: float) -> float:
    """The probability with which the test may fail."""
    return _FAILURE * delta * (1.0 - MARGIN)


def eigenvalue_sensitivity(dimension: int, max_rows: int) -> float:
    """How far one row moves the least eigenvalue as doubles find it, in units of l^2."""
    error = least_grid_ridge(max_rows, dimension) / float(GRID_NORM**2)
    return (1.0 + 2.0 * error) * ROUND_UP


def ptr_loss(target: Target, sketch: float, test_ratio: float, n_components: int) -> PrivacyLoss:
    """The loss of test and sketch, and of a test that fails; tight where it keeps delta.

    It follows from the noise alone: whoever has only that finds the same.
    """
    rest = target.delta * (1.0 - MARGIN) - failure(target.delta)
    epsilon = _proven(sketch, test_ratio, n_components, rest)
    together = _together(sketch, test_ratio, n_components)
    return with_failure(together, failure(target.delta), epsilon, target.delta)


@functools.lru_cache(maxsize=256)
def best_division(epsilon: float, delta: float, n_components: int) -> tuple[float, float]:
    """The noise of sketch and test, in units of l and of the test's sensitivity.

    They share one budget, and the division that makes needed + test * quantile least is best for
    every table that passes.
    """
    rest = delta * (1.0 - MARGIN) - failure(delta)
    alone = least_noise(shift, epsilon, rest)
    quantile, target = float(normal.isf(failure(delta))), math.log(rest)

    def needed_beside(test: QuadraticLoss) -> float:
        """Roughly; what is found in the end is calibrated with proof."""

        def gap(log_ratio: float) -> float:
            sketch = sketch_loss(math.exp(log_ratio), n_components)
            return float(Profile.both(sketch + test).log_delta(epsilon)) - target

        return 1.0 + math.exp(2.0 * float(brentq(gap, low, low + 10.0, xtol=1e-4)))

    def cost(log_factor: float) -> float:
        test_ratio = alone * math.exp(log_factor)
        return needed_beside(shift(test_ratio)) + test_ratio * quantile

    # Beside a test the sketch needs more than alone.
    low = math.log(least_ratio(epsilon, rest, n_components))
    found = minimize_scalar(cost, bounds=(0.01, 3.0), method="bounded", options={"xatol": 0.01})
    test_ratio = alone * math.exp(float(found.x))
    sketch = least_ratio(epsilon, rest, n_components, shift(test_ratio)) * ROUND_UP**2
    # The loss is told from the noise alone (`ptr_loss`): the epsilon that it proves must do.
    more = 2.0**-40
    while _proven(sketch, test_ratio, n_components, rest) > epsilon:
        sketch, more = sketch * (1.0 + more), 2.0 * more
    return sketch, test_ratio


def _proven(sketch: float, test_ratio: float, n_components: int, delta: float) -> float:
    """The epsilon of test and sketch together, where the test does not fail."""
    return float(Profile.both(_together(sketch, test_ratio, n_components)).epsilon(delta))


def _together(sketch: float, test_ratio: float, n_components: int) -> QuadraticLoss:
    both: QuadraticLoss = shift(test_ratio) + QuadraticLoss(excess(sketch, None), 0.0, n_components)
    return both


# -- the method of PrivateProjection ---------------------------------------------------------------


class Testing(EstimatorMethod):
    """Less noise where the table's least eigenvalue is large, for the price of a test."""

    # How many of the first answers are not released as they are: the noisy eigenvalue.
    hidden_answers = 1

    def _plan(self, rows: Rows) -> Plan:
        model = self.model
        if model.leverage is not None or model.sampling_rate is not None or rows.bought:
            raise ValueError(
                f"Expected leverage, sampling_rate or private limits with method='ridge', got "
                f"method={model.method!r}; leave one of them out."
            )
        norm, target, d = rows.features.norm, self.target(), len(rows.features.names)
        r = _validate.count("n_components", model.n_components)
        if target.risk is not None:
            raise ValueError(
                "Expected epsilon for method='ptr', whose test may fail with a share of delta, got "
                "a target; use method='ridge'."
            )
        moved = eigenvalue_sensitivity(d, model.max_rows)
        if model.noise_scale is None:
            assert target.epsilon is not None
            sketch, test = best_division(target.epsilon, target.delta, r)
            parts = [
                Part("sketch", noise=sketch * norm * ROUND_UP),
                Part("test", moved * norm**2, noise=test * moved * norm**2 * ROUND_UP),
            ]
        else:
            parts = chosen_noise(model.noise_scale, [Part("sketch"), Part("test", moved * norm**2)])
        noise = noise_of(parts)
        test_ratio = noise["test"] / norm**2 / moved
        loss = ptr_loss(target, noise["sketch"] / norm, test_ratio, r)
        return Plan(
            "ptr",
            tuple(parts),
            target.promise(loss, "add-remove"),
            {"sketch": (d, r), "ridge": ()},
            "It was asked for: less noise where the table's least eigenvalue is large.",
        )

    def test(self, plan: Plan, rows: Rows) -> LeastEigenvalueTest:
        """The test that a plan buys."""
        norm, noise = rows.features.norm, plan.noise_scale
        d, delta = len(rows.features.names), plan.guarantee.delta
        return LeastEigenvalueTest.of(
            noise["sketch"] / norm, noise["test"] / norm**2, delta, d, self.model.max_rows
        )

    def _study(self, data: Table, plan: Plan) -> tuple[ExactSum, float]:
        """The Gram matrix and its least eigenvalue."""
        gram = data.moments["gram"]
        self.check_rows(data.n_rows)
        return gram, self.test(plan, data.rows).least_eigenvalue(gram)

    def _draw(
        self, studied: tuple[ExactSum, float], plan: Plan, data: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        gram, least = studied
        unit = data.rows.features.norm / GRID_NORM
        ridge = self.test(plan, data.rows).draw(least, rng)
        sketch = unit * draw_sketch(gram, ridge, plan.shapes["sketch"][1], rng)
        return {"sketch": sketch, "ridge": np.array(ridge * unit**2)}

    def expected_ridge(self, moment: float, plan: Plan, rows: Rows) -> float:
        """The ridge on the grid beside a table whose moments are alike in all directions."""
        test = self.test(plan, rows)
        return test.ridge_above(moment - test.slack)
