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
from ndis.calibration import ROUND_UP, least_noise, meets
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.mechanisms.recompute import Implied
from ndis.mechanisms.worst_cases import MARGIN, inner_epsilon, subsampled, with_failure
from ndis.randomness import add_noise, grid_spacing
from ndis.tables import Gram, batches, leverage_error, row_leverages, track

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
    split: str


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


def lsv_ratio(epsilon: float, delta: float, n_components: int) -> float:
    """The earlier calibration, by the least singular value (Sheffet 2019).

    Examples
    --------
    >>> from ndis.mechanisms.projection_methods import lsv_ratio
    >>> f"{lsv_ratio(1.0, 1 / 327_346, 1269):.3f}"
    '28.507'
    """
    log = math.log(4.0 / delta)
    return math.sqrt(4.0 * (math.sqrt(2.0 * n_components * log) + log) / epsilon)


def _first_guess(epsilon: float, delta: float, n_components: int) -> float:
    """A third of the earlier calibration is close, wherever epsilon is not tiny."""
    return lsv_ratio(max(epsilon, 1e-2), delta, n_components) / 3.0


def recompute(mechanism: str, parameters: Mapping[str, Any]) -> Implied:
    """What the parameters of a `PrivateProjection` imply, where they fix its ridge."""
    if parameters["method"] not in ("ridge", "lsv") or parameters["rate"] != 1:
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
    grid_scale : float
        A public number of the order of the noise, for the grid of released numbers.
    loss : PrivacyLoss or None
        The worst case; None where it depends on the data.
    ridge : float or None
        The ridge, where it is fixed beforehand.
    announces_ridge : bool
        Whether a ridge that is not fixed beforehand is part of the release.
    rate : float
        The sampling rate of the rows.
    """

    noise_scale: float
    loss: PrivacyLoss | None = None
    basis = "proven"
    note = ""
    ridge: float | None = None
    announces_ridge = False
    rate = 1.0

    @abstractmethod
    def __init__(self, task: Task) -> None: ...

    @property
    def grid_scale(self) -> float:
        """The noise itself, where it is public."""
        return self.noise_scale

    def study(self, source: Any, gram: Gram) -> DrawRidge:
        """Look at the table before any budget is spent; the result draws the ridge."""
        ridge = self.expected_ridge(gram.matrix)
        return lambda rng: ridge

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


class LeastSingularValue(Method):
    """The baseline "lsv": the same mechanism, calibrated as it used to be."""

    def __init__(self, task: Task) -> None:
        epsilon = _validate.positive("epsilon", task.epsilon)
        ratio = lsv_ratio(epsilon, task.delta, task.n_components)
        self.loss = Profile.both(sketch_loss(ratio, task.n_components))
        self.basis = "proven" if meets(self.loss, epsilon, task.delta) else "refuted"
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
        if task.split == "published":
            part = asked / 3.0
            self.failure = part
            self.test_ratio = least_noise(_shift, task.epsilon / 2.0, part)
            ratio = least_ratio(task.epsilon / 2.0, part, task.n_components)
        else:
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

    def study(self, source: Any, gram: Gram) -> DrawRidge:
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


class Relative(Method):
    """As little as this table needs: nothing, if its own leverages are small enough.

    Otherwise the ridge that brings every leverage down to the largest allowed one, given the
    least eigenvalue of this very table.
    """

    basis = "relative"
    note = "Its neighbours are this database without one of its rows, or with one of them repeated."

    def __init__(self, task: Task) -> None:
        self._task = task
        ratio = least_ratio(task.epsilon, task.delta, task.n_components)
        self.noise_scale = ratio * task.data_norm * ROUND_UP
        self._needed = (1.0 + ratio**2) * task.data_norm**2 * ROUND_UP
        self.inherent_delta: float | None = None

    @property
    def grid_scale(self) -> float:
        """The noise depends on the data, so the grid comes from the bound on the rows."""
        return self._task.data_norm

    def study(self, source: Any, gram: Gram) -> DrawRidge:
        """Weigh every row; add nothing if none weighs too much."""
        task = self._task
        largest = float(row_leverages(source, gram).max()) * (1.0 + leverage_error(gram))
        # A leverage is at most 1; where its error has no bound (NaN, infinity) it may be 1.
        largest = largest if largest < 1.0 else 1.0
        inherent = Profile.both(QuadraticLoss.from_leverage(largest, task.n_components))
        self.inherent_delta = float(inherent.delta_bounds(task.epsilon)[1])
        enough = meets(inherent, task.epsilon, task.delta)
        ridge = 0.0 if enough else self.expected_ridge(gram.matrix)
        return lambda rng: ridge

    def expected_ridge(self, gram: FloatArray) -> float:
        """The most that a table with this Gram matrix may need."""
        least = float(np.linalg.eigvalsh(gram)[0])
        return max(0.0, self._needed - max(least, self._task.data_norm**2))


class MutualInformation(Method):
    """The baseline "mutual-information" (Showkatbakhsh et al.), as ndis-2024 compares with it.

    Its noise does not grow as delta falls, and ignores that columns may depend on each other.
    """

    basis = "refuted"
    note = "Where columns depend on each other it may add no noise to a row of leverage 1."

    def __init__(self, task: Task) -> None:
        self._grid_scale = task.data_norm
        _validate.floats_within("epsilon", task.epsilon, 0.0, 300.0)
        distance = 2.0 * (1.0 - task.delta) / (math.exp(task.epsilon) + 1.0)
        # r / (2^(2 e) - 1) with e = distance^2 log2(e) / 2.
        self._variance = task.n_components / math.expm1(distance**2)
        self.noise_scale = math.sqrt(self._variance)

    @property
    def grid_scale(self) -> float:
        """The noise depends on the data, so the grid comes from the bound on the rows."""
        return self._grid_scale

    def study(self, source: Any, gram: Gram) -> DrawRidge:
        """What every column has without its largest entry is counted as noise."""
        largest = np.zeros(len(gram.columns))
        table = batches(source, gram.rows.columns, levels=gram.rows.levels)
        for batch in track(table, "Measuring columns", gram.n_rows, size=len):
            for block in gram.rows.blocks(batch):
                largest = np.maximum(largest, np.abs(block).max(axis=0))
        inherent = float(np.min(np.diag(gram.matrix) - largest**2))
        ridge = max(self._variance - inherent, 0.0)
        return lambda rng: ridge


def _shift(ratio: float) -> QuadraticLoss:
    """A number that one row moves by one, with noise of this standard deviation."""
    return QuadraticLoss.from_shift(1.0 / ratio)


METHODS: dict[str, type[Method]] = {
    "ridge": Ridge,
    "subsample": Subsample,
    "ptr": ProposeTestRelease,
    "relative": Relative,
    "lsv": LeastSingularValue,
    "mutual-information": MutualInformation,
}
