"""How much ridge a private projection needs, method by method, each like its algorithm's box.

The sketch of a table D has independent columns N(0, D^T D + ridge I). A row v of norm at most l
enters it through its leverage p = v^T (D^T D + ridge I)^{-1} v alone, and a pair with a smaller
leverage is a post-processing of one with a larger one. So a method has to say which leverage no
row exceeds. Everything is calibrated in units of l: `ratio` is sqrt(ridge)/l, and the largest
leverage of any table is 1/(1 + ratio^2), whose excess p/(1-p) is exactly 1/ratio^2. In tables of
which it is declared that no leverage exceeds s before the ridge, it is 1/(1/s + ratio^2).
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm as normal

from ndis import _validate
from ndis.calibration import ROUND_UP, least_noise
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.derived import MARGIN, with_failure
from ndis.mechanisms.base import Target
from ndis.randomness import add_noise, grid_spacing, least_ridge
from ndis.tables import GRID_NORM, ExactSum, Table, leverage_error, leverages

# The share of delta that the test of "ptr" may fail with.
_FAILURE = 0.2


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
    family = functools.partial(_both_ways, n_components, beside)
    return least_noise(family, epsilon, delta, start=_first_guess(epsilon, delta, n_components))


def _both_ways(n_components: int, beside: QuadraticLoss | None, ratio: float) -> Profile:
    sketch = sketch_loss(ratio, n_components)
    return Profile.both(sketch if beside is None else sketch + beside)


def least_sketch_ratio(
    target: Target, n_components: int, beside: QuadraticLoss | None = None
) -> float:
    """The least sqrt(ridge)/l at which a sketch achieves a target."""
    return target.least(
        lambda epsilon, delta: least_ratio(epsilon, delta, n_components, beside),
        functools.partial(_both_ways, n_components, beside),
    )


def _first_guess(epsilon: float, delta: float, n_components: int) -> float:
    """A third of an earlier calibration (Sheffet 2019) is close, wherever epsilon is not tiny."""
    log = math.log(4.0 / delta)
    root = 4.0 * (math.sqrt(2.0 * n_components * log) + log) / max(epsilon, 1e-2)
    return math.sqrt(root) / 3.0


# -- rows, leverages and public floors -------------------------------------------------------------


def excess(ratio: float, leverage: float | None, size: float = 1.0) -> float:
    """The largest p/(1-p) after a ridge of ratio^2, rounded up, for rows of squared norm `size`.

    `leverage` is what no row exceeds before the ridge, 1 if nothing is declared (Jensen's
    inequality; docs/proofs/projection.md).
    """
    return float(ROUND_UP / (ratio**2 / size + room(leverage)))


def room(leverage: float | None) -> float:
    """1/s - 1: what a declared leverage is worth, in units of the ridge over l^2."""
    return 0.0 if leverage is None else (1.0 - leverage) / leverage


def grid_ridge(ratio: float) -> float:
    """The ridge on the grid, rounded up."""
    return float((ratio * GRID_NORM) ** 2 * ROUND_UP)


def least_grid_ridge(max_rows: int, dimension: int, size: float = 1.0) -> float:
    """The least ridge on the grid beside which every table of so many rows can be drawn."""
    return least_ridge(_validate.count("max_rows", max_rows) * size * GRID_NORM**2, dimension)


def spectral_error(dimension: int, n_components: int, failure: float) -> float:
    """What ||W - I||_2 exceeds with at most this probability: theorem 5.2 of ndis-2026.

    W is the mean of so many z z^T of standard normal z. The singular values of a normal d x r
    matrix lie within sqrt(r) -+ (sqrt(d) + t) but for 2 e^(-t^2/2) (Davidson and Szarek).
    """
    t = math.sqrt(2.0 * math.log(2.0 / failure))
    away = (math.sqrt(dimension) + t) / math.sqrt(n_components)
    return away * (2.0 + away)


def above_floor(ratio: float, floor: float, given: float | None) -> float:
    """A calibrated ratio, raised to a public floor; a given one is refused below it."""
    if grid_ridge(ratio) >= floor:
        return ratio
    if given is not None:
        raise ValueError(
            f"Expected noise that doubles can tell from a table of max_rows rows, got noise_scale="
            f"{given!r}; raise it, or lower max_rows."
        )
    return math.sqrt(floor) / float(GRID_NORM) * ROUND_UP


def check_leverages(table: Table, joint: float | None, first: float | None = None) -> None:
    """Refuse, to its owner, a table outside the declared set; warn of rows at its border.

    Parameters
    ----------
    table : Table
    joint : float, optional
        The declared leverage among all columns.
    first : float, optional
        That among all but the last, which is the label.
    """
    if joint is None and first is None:
        return
    found = leverages(table)
    error = leverage_error(table)
    for declared, values in zip((first, joint), found, strict=True):
        if declared is None:
            continue
        largest = float(np.max(values)) * (1.0 + error)
        if not largest <= declared:
            raise ValueError(
                "Expected a table of the declared set, got one in which a row weighs more than the "
                "declared leverage, or columns depend on each other; declare a larger leverage."
            )
        if largest > declared * (1.0 - largest):
            warnings.warn(
                "Without some row, another row of this table could weigh more than the declared "
                "leverage: such rows are protected only against tables of the declared set.",
                UserWarning,
                stacklevel=2,
            )


# -- the same ridge for every table ----------------------------------------------------------------


def ridge_ratio(
    target: Target,
    n_components: int,
    leverage: float | None,
    beside: QuadraticLoss | None = None,
) -> float:
    """The least ratio for every table, or for every table of a declared set; may be 0 there."""
    ratio = least_sketch_ratio(target, n_components, beside)
    left = ratio**2 * ROUND_UP**2 - room(leverage)
    return math.sqrt(max(left, 0.0)) * ROUND_UP


# -- propose, test, release ------------------------------------------------------------------------


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
    """The loss of test and sketch, and of a test that fails; tight at the epsilon asked for."""
    together = shift(test_ratio) + QuadraticLoss(excess(sketch, None), 0.0, n_components)
    rest = target.delta * (1.0 - MARGIN) - failure(target.delta)
    epsilon = target.epsilon
    if epsilon is None:
        epsilon = float(Profile.both(together).epsilon(rest))
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
    sketch = least_ratio(epsilon, rest, n_components, shift(test_ratio))
    return sketch * ROUND_UP**2, test_ratio


def shift(ratio: float) -> QuadraticLoss:
    """A number that one row moves by one, with noise of this standard deviation."""
    return QuadraticLoss.from_shift(ROUND_UP / ratio)
