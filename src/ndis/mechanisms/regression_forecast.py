"""The error of private least squares before any budget is spent, from public numbers only.

A mechanism is run on the second moments of a table that is imagined: rows of full length whose
features, uncorrelated and of equal size, explain a given share of the label. Nothing else than its
own noise, ridge and choices decides the error; no row of it is clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.regression_methods import Method, Table
from ndis.tables import Gram, Rows
from ndis.tables.rows import default_names

# Runs on the imagined table.
_RUNS = 100


@dataclass(frozen=True)
class RegressionForecast:
    """Errors to be expected of a private regression.

    Attributes
    ----------
    noise_scale : float
        The method's noise, in its own terms.
    coefficient_error : float
        Root mean squared distance from the coefficients of an ordinary regression, over their norm.
    lost : float
        The part of the label's mean square that is no longer explained: what R^2 loses.
    """

    noise_scale: float
    coefficient_error: float
    lost: float


class ImaginedTable(Table):
    """Second moments without rows: residuals are whatever they are, none is clipped."""

    def gradient(self, theta: FloatArray, clip: float) -> FloatArray:
        """X^T (y - X theta)."""
        return np.asarray(self.moments[:-1, -1] - self.moments[:-1, :-1] @ theta)


def imagined_table(
    n_rows: int,
    n_features: int,
    *,
    intercept: bool,
    data_norm: float,
    label_spread: float,
    explained: float,
) -> ImaginedTable:
    """Rows of norm `data_norm` on average; features and label of mean zero.

    Examples
    --------
    >>> from ndis.mechanisms.regression_forecast import imagined_table
    >>> table = imagined_table(
    ...     100, 2, intercept=True, data_norm=2.0, label_spread=1.0, explained=0.5
    ... )
    >>> table.moments.diagonal().tolist()
    [100.0, 100.0, 100.0, 100.0]
    """
    left = data_norm**2 - label_spread**2 - bool(intercept)
    if left <= 0:
        raise ValueError(
            f"Expected data_norm to leave room for features beside the label and the intercept, "
            f"got {data_norm} beside labels of size {label_spread}; raise it, or measure the "
            "label in larger units."
        )
    names = (*default_names(n_features), "label")
    rows = Rows(names, intercept=intercept, row_norm=data_norm)
    first = int(intercept)
    size = np.full(n_features + first + 1, left / n_features)
    size[:first], size[-1] = 1.0, label_spread**2
    moments = np.diag(size)
    moments[first:-1, -1] = moments[-1, first:-1] = (
        label_spread * math.sqrt(explained * left) / n_features
    )
    return ImaginedTable(None, Gram(n_rows * moments, n_rows, rows), "label")


def forecast(method: Method, table: ImaginedTable, first: int) -> RegressionForecast:
    """Run a method on an imagined table, whose first columns are no features, and compare."""
    rng = np.random.default_rng(0)
    X, b = table.moments[:-1, :-1], table.moments[:-1, -1]
    best = np.linalg.solve(X, b)
    draws = np.array([method.draw(table, rng)["coef"] for _ in range(_RUNS)])
    away = draws - best
    lost = np.einsum("ni,ij,nj->n", away, X, away) / table.moments[-1, -1]
    distance = np.mean(np.sum(away[:, first:] ** 2, axis=1))
    error = math.sqrt(float(distance)) / float(np.linalg.norm(best[first:]))
    return RegressionForecast(float(method.noise_scale), error, float(lost.mean()))
