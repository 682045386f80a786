"""Mechanisms with a planted bug, written anew and not by the library, each with its claim."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

from ndis import Gaussian
from ndis.calibration import noise_multiplier
from ndis.loss import QuadraticLoss
from ndis.loss.least_squares import removal_loss
from ndis.mechanisms.projection_methods import least_ratio
from ndis_papers.least_squares import ridged_law

FloatArray = NDArray[np.float64]
Law = Callable[[FloatArray], Gaussian]

EPSILON, DELTA, COMPONENTS = 1.0, 1e-6, 20
RIDGE = least_ratio(EPSILON, DELTA, COMPONENTS) ** 2
CLAIM = (EPSILON, DELTA)
TABLE = np.random.default_rng(0).uniform(-0.5, 0.5, (12, 3))


def sketch(ridge: float, intercept: bool = False) -> Law:
    """The law of one column of a sketch."""

    def law(table: FloatArray) -> Gaussian:
        rows = np.column_stack([table, np.ones(len(table))]) if intercept else table
        d = rows.shape[1]
        return Gaussian(np.zeros(d), rows.T @ rows + ridge * np.eye(d))

    return law


def ridge_by(delta: Callable[[float], float]) -> float:
    """The ridge for rows of norm 1 at which some formula for delta of a leverage says DELTA."""
    p = brentq(lambda p: math.log(max(delta(p), 1e-300) / DELTA), 1e-6, 0.9, xtol=1e-12)
    return 1.0 / float(p) - 1.0


def wrong_exponent(p: float) -> float:
    """e^(-eps) on the first probability where e^(eps) belongs on the second."""
    x = (2 * EPSILON - COMPONENTS * math.log1p(-p)) / p
    return float(math.exp(-EPSILON) * chi2.sf((1 - p) * x, COMPONENTS) - chi2.sf(x, COMPONENTS))


def easy_direction(p: float) -> float:
    """The record absent first, and only that."""
    return float(QuadraticLoss.from_leverage(p, COMPONENTS).reversed().delta(EPSILON))


def one_component(p: float) -> float:
    """As if one column were released and not twenty."""
    return float(QuadraticLoss.from_leverage(p, 1).delta(EPSILON))


def no_residual(n_features: int, n_components: int) -> Law:
    """The published least-squares bound with q = p: as if the label fitted exactly."""

    def delta(p: float) -> float:
        loss = removal_loss(p, p, n_features, n_components)
        return max(float(loss.delta(EPSILON)), float(loss.reversed().delta(EPSILON)))

    ridge = ridge_by(delta)
    return lambda table: ridged_law(table.T @ table, ridge, n_components)


def noisy_mean(table: FloatArray) -> Gaussian:
    """A sum of rows of norm 1, with noise for a row that comes or goes."""
    return Gaussian.isotropic(table.sum(axis=0), noise_multiplier(EPSILON, DELTA) ** 2)
