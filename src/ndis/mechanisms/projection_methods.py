"""How much ridge a private projection needs, method by method, each like its algorithm's box.

The sketch of a table D has independent columns N(0, D^T D + ridge I). A row v of norm at most l
enters it through its leverage p = v^T (D^T D + ridge I)^{-1} v alone, and a pair with a smaller
leverage is a post-processing of one with a larger one. So a method has to say which leverage no
row exceeds. Everything is calibrated in units of l: `ratio` is sqrt(ridge)/l, and the largest
leverage is 1/(1 + ratio^2), whose excess is exactly 1/ratio^2.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, least_noise
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.derived import MARGIN, inner_epsilon, subsampled, with_failure
from ndis.mechanisms.recompute import Implied
from ndis.randomness import add_noise, grid_spacing
from ndis.tables import Gram

# Draws the ridge, once the table has been studied and the budget spent.
DrawRidge = Callable[[np.random.Generator], float]


@dataclass(frozen=True)
class Task:
    """What is asked of a method: the guarantee, the public bound, the size of the sketch."""

    epsilon: float
    delta: float
    data_norm: float
    n_components: int
    rate: float


def sketch_loss(ratio: float, n_components: int) -> QuadraticLoss:
    """The worst pair of a sketch with a ridge of (ratio l)^2, row present first."""
    return QuadraticLoss(ratio**-2, 0.0, n_components)


@functools.lru_cache(maxsize=1024)
def least_ratio(
    epsilon: float, delta: float, n_components: int, beside: QuadraticLoss | None = None
) -> float:
    """The least sqrt(ridge)/l at which a sketch is (epsilon, delta)-private, rounded up.

    Parameters
    ----------
    epsilon, delta : float
    n_components : int
    beside : QuadraticLoss, optional
        The loss of something else that is released of the same rows.

    Examples
    --------
    >>> from ndis.mechanisms.projection_methods import least_ratio
    >>> f"{least_ratio(1.0, 1 / 327_346, 1269):.4f}"
    '10.2658'
    """

    def family(ratio: float) -> PrivacyLoss:
        sketch = sketch_loss(ratio, n_components)
        return Profile.both(sketch if beside is None else sketch + beside)

    return least_noise(family, epsilon, delta, start=_first_guess(epsilon, delta, n_components))


def _first_guess(epsilon: float, delta: float, n_components: int) -> float:
    """A third of an earlier calibration (Sheffet 2019) is close, wherever epsilon is not tiny."""
    log = math.log(4.0 / delta)
    root = 4.0 * (math.sqrt(2.0 * n_components * log) + log) / max(epsilon, 1e-2)
    return math.sqrt(root) / 3.0


def recompute(mechanism: str, parameters: Mapping[str, Any]) -> Implied:
    """What the parameters of a `PrivateProjection` imply, where they fix its ridge."""
    if parameters["method"] != "ridge" or parameters["rate"] != 1:
        raise ValueError("Expected a method with a fixed ridge, got another; see its loss.")
    r = _validate.count("n_components", parameters["n_components"])
    ridge = _validate.positive("ridge", parameters["ridge"])
    ratio = math.sqrt(ridge) / _validate.positive("data_norm", parameters["data_norm"])
    return Implied(
        Profile.both(sketch_loss(ratio, r)),
        NeighbourRelation.ADD_REMOVE,
        {"sketch": (len(parameters["columns"]), r)},
    )


class Method(ABC):
    """What differs between the methods of a private projection.

    Attributes
    ----------
    noise_scale : float
        The most noise it adds to an entry of the sketch: a standard deviation.
    loss : PrivacyLoss
        The worst case.
    ridge : float or None
        The ridge, where it is fixed beforehand.
    announces_ridge : bool
        Whether a ridge that is not fixed beforehand is part of the release.
    rate : float
        The sampling rate of the rows.
    """

    noise_scale: float
    loss: PrivacyLoss
    ridge: float | None = None
    announces_ridge = False
    rate = 1.0

    @abstractmethod
    def __init__(self, task: Task) -> None: ...

    def study(self, gram: Gram) -> DrawRidge:
        """What draws the ridge of this table, once the budget is spent."""
        return lambda rng: self.noise_scale**2

    def expected_ridge(self, gram: FloatArray) -> float:
        """The ridge to be expected of a table with this Gram matrix."""
        return self.noise_scale**2

    def _fix(self, task: Task, ratio: float) -> None:
        """Add the same ridge to every table."""
        self.noise_scale = ratio * task.data_norm * ROUND_UP
        self.ridge = self.noise_scale**2


class Ridge(Method):
    """The least ridge that protects every row of every table."""

    def __init__(self, task: Task) -> None:
        ratio = least_ratio(task.epsilon, task.delta, task.n_components)
        self.loss = Profile.both(sketch_loss(ratio, task.n_components))
        self._fix(task, ratio)


class Subsample(Method):
    """A ridge for a Poisson subsample of the rows, by amplification."""

    def __init__(self, task: Task) -> None:
        self.rate = _validate.probability("rate", task.rate)
        inner_delta = task.delta * (1.0 - MARGIN) / self.rate
        if inner_delta >= 1:
            raise ValueError(
                f"Expected rate > delta, got rate={self.rate} and delta={task.delta}; "
                "sample more rows."
            )
        epsilon = float(inner_epsilon(task.epsilon, self.rate))
        ratio = least_ratio(epsilon, inner_delta, task.n_components)
        sketch = sketch_loss(ratio, task.n_components)
        self.loss = subsampled(sketch, self.rate, task.epsilon, task.delta)
        self._fix(task, ratio)


class ProposeTestRelease(Method):
    """Release a noisy lower bound on the least eigenvalue first, then only the ridge it leaves.

    On the event that the bound holds for the larger of two neighbours, no leverage exceeds
    l^2 / (max(bound, l^2) + ridge). `needed` is what that denominator must reach, in units of l^2,
    and `test_ratio` the noise of the test in the same units. They share one budget, and the
    division that makes needed + test_ratio * quantile least is best for every table that passes.
    """

    announces_ridge = True

    def __init__(self, task: Task) -> None:
        asked = task.delta * (1.0 - MARGIN)
        self.failure = asked / 5.0
        self.test_ratio, ratio = self._best_division(task, asked - self.failure)
        together = _shift(self.test_ratio) + sketch_loss(ratio, task.n_components)
        self.loss = with_failure(together, self.failure, task.epsilon, task.delta)
        self.quantile = float(norm.isf(self.failure)) * ROUND_UP
        self.needed = (1.0 + ratio**2) * ROUND_UP
        self.noise_scale = ratio * task.data_norm * ROUND_UP
        self._unit = task.data_norm**2

    def _best_division(self, task: Task, delta: float) -> tuple[float, float]:
        """The noise of the test and of the sketch."""
        alone = least_noise(_shift, task.epsilon, delta)
        quantile, target = float(norm.isf(self.failure)), math.log(delta)

        def needed_beside(test: QuadraticLoss) -> float:
            """Roughly; what is found in the end is calibrated with proof."""

            def gap(log_ratio: float) -> float:
                sketch = sketch_loss(math.exp(log_ratio), task.n_components)
                return float(Profile.both(sketch + test).log_delta(task.epsilon)) - target

            return 1.0 + math.exp(2.0 * float(brentq(gap, low, low + 10.0, xtol=1e-4)))

        def cost(log_factor: float) -> float:
            test_ratio = alone * math.exp(log_factor)
            return needed_beside(_shift(test_ratio)) + test_ratio * quantile

        # Beside a test the sketch needs more than alone.
        low = math.log(least_ratio(task.epsilon, delta, task.n_components))
        found = minimize_scalar(cost, bounds=(0.01, 3.0), method="bounded", options={"xatol": 0.01})
        test_ratio = alone * math.exp(float(found.x))
        beside = _shift(test_ratio)
        return test_ratio, least_ratio(task.epsilon, delta, task.n_components, beside)

    def study(self, gram: Gram) -> DrawRidge:
        """Find the least eigenvalue; the test draws its noise."""
        least = float(np.linalg.eigvalsh(gram.matrix)[0])
        scale = self.test_ratio * self._unit

        def test(rng: np.random.Generator) -> float:
            noisy = float(add_noise(least, scale, rng))
            # Half a grid step: rounding may have raised the noisy value.
            return self._ridge_above(noisy - scale * self.quantile - 0.5 * grid_spacing(scale))

        return test

    def expected_ridge(self, gram: FloatArray) -> float:
        """The ridge if the noise of the test is zero."""
        least = float(np.linalg.eigvalsh(gram)[0])
        return self._ridge_above(least - self.test_ratio * self._unit * self.quantile)

    def _ridge_above(self, bound: float) -> float:
        return max(0.0, self.needed * self._unit - max(bound, self._unit))


def _shift(ratio: float) -> QuadraticLoss:
    """A number that one row moves by one, with noise of this standard deviation."""
    return QuadraticLoss.from_shift(1.0 / ratio)


METHODS: dict[str, type[Method]] = {
    "ridge": Ridge,
    "subsample": Subsample,
    "ptr": ProposeTestRelease,
}
