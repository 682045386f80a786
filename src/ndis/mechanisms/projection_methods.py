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

import numpy as np

from ndis import _validate
from ndis.calibration import ROUND_UP, least_noise
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.mechanisms.target import Target
from ndis.randomness import least_ridge
from ndis.tables import GRID_NORM, Table, leverage_error, leverages

__all__ = [
    "above_floor",
    "both_ways",
    "check_leverages",
    "excess",
    "grid_ridge",
    "least_grid_ridge",
    "least_ratio",
    "least_sketch_ratio",
    "room",
    "shift",
    "sketch_loss",
    "spectral_error",
]


def sketch_loss(ratio: float, n_components: int) -> QuadraticLoss:
    """The worst pair of a sketch with a ridge of (ratio l)^2, row present first."""
    return QuadraticLoss(ratio**-2, 0.0, n_components)


@functools.lru_cache(maxsize=1024)
def least_ratio(
    epsilon: float,
    delta: float,
    n_components: int,
    beside: QuadraticLoss | None = None,
    rate: float | None = None,
) -> float:
    """The least sqrt(ridge)/l at which a sketch is (epsilon, delta)-private, rounded up.

    Parameters
    ----------
    epsilon, delta : float
    n_components : int
    beside : QuadraticLoss, optional
        The loss of something else that is released of the same rows.
    rate : float, optional
        The probability with which each row is in the secret sample that is sketched, if one is.

    Examples
    --------
    >>> from ndis.mechanisms.projection_methods import least_ratio
    >>> f"{least_ratio(1.0, 1 / 327_346, 1269):.4f}"
    '10.2658'
    >>> f"{least_ratio(1.0, 1 / 327_346, 1269, rate=0.1):.4f}"
    '5.9413'
    """

    def family(ratio: float) -> PrivacyLoss:
        return both_ways(sketch_loss(ratio, n_components), beside, rate)

    inner = (epsilon, delta)
    if rate is not None:
        if delta >= rate:  # then no noise at all would do
            raise ValueError(
                f"Expected a sampling_rate above delta={delta}, got sampling_rate={rate}; sample "
                "more rows."
            )
        # Nearly this is asked of the sketch: the larger of both orders decides.
        inner = math.log1p(math.expm1(min(epsilon, 500.0)) / rate), delta / rate
    return least_noise(family, epsilon, delta, start=_first_guess(*inner, n_components))


def both_ways(
    sketch: QuadraticLoss, beside: QuadraticLoss | None, rate: float | None
) -> PrivacyLoss:
    """The loss of a sketch of all rows or of a secret sample, and of what is released beside it.

    The worst pair of all tables is the worst pair of all samples, which are tables, too: it
    dominates a sketch whichever rows are in the sample (docs/proofs/projection.md).
    """
    both = Profile.both(sketch if beside is None else sketch + beside)
    return both if rate is None else both.subsampled(rate)


def least_sketch_ratio(
    target: Target,
    n_components: int,
    beside: QuadraticLoss | None = None,
    rate: float | None = None,
) -> float:
    """The least sqrt(ridge)/l at which a sketch achieves a target."""
    return target.least(
        lambda epsilon, delta: least_ratio(epsilon, delta, n_components, beside, rate),
        lambda ratio: both_ways(sketch_loss(ratio, n_components), beside, rate),
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
    """Refuse, to its owner, a table outside the declared set.

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
        largest = float(np.max(values, initial=0.0)) * (1.0 + error)
        if not largest <= declared:
            raise ValueError(
                "Expected a table of the declared set, got one in which a row weighs more than the "
                "declared leverage, or columns depend on each other; declare a larger leverage."
            )


# -- the same ridge for every table ----------------------------------------------------------------


def ridge_ratio(
    target: Target,
    n_components: int,
    leverage: float | None,
    beside: QuadraticLoss | None = None,
    rate: float | None = None,
) -> float:
    """The least ratio for every table, or for every table of a declared set; may be 0 there."""
    ratio = least_sketch_ratio(target, n_components, beside, rate)
    left = ratio**2 * ROUND_UP**2 - room(leverage)
    return math.sqrt(max(left, 0.0)) * ROUND_UP


def shift(ratio: float) -> QuadraticLoss:
    """A number that one row moves by one, with noise of this standard deviation."""
    return QuadraticLoss.from_shift(ROUND_UP / ratio)
