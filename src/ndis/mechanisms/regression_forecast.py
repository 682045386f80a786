"""What private least squares will be good for, before any budget is spent.

The method itself runs on imagined tables. They differ in what nobody knows beforehand: how much of
the limits the values use, how correlated the columns are, how much of the label they explain. What
it loses against ordinary least squares is a number for each; the forecast is their range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.run import Forecast, Method, Run
from ndis.tables import Columns, Rows, Table, track

if TYPE_CHECKING:
    from ndis.mechanisms.regression import PrivateLeastSquares

# An imagined table has at most so many rows; more real ones count as less noise.
_ROWS = 3_000
_RUNS = 2
# Easy tables and hard ones: standard deviations of columns and of labels as shares of half their
# limits, and how much of the columns' variance is one common factor. What columns do not have in
# common explains as much as what they have.
_EASY, _HARD = (0.5, 0.4, 0.0), (0.04, 0.1, 0.95)


def forecast(
    model: PrivateLeastSquares,
    method: Method,
    rows: Rows,
    n_rows: int,
    explained: tuple[float, float],
) -> Forecast:
    """The range of what R^2 loses, over imagined tables."""
    plan = method._plan(rows)
    n = min(n_rows, _ROWS)
    share = n / n_rows
    # Noise on sums counts as much less as rows are fewer, the root of a ridge as the root of that.
    quiet = plan.with_noise(share if isinstance(plan.noise_scale, Mapping) else math.sqrt(share))
    first = rows.features.intercept
    d, K = len(rows.features.names) - first, len(rows.labels.names)
    features = [f"x{index}" for index in range(d)]
    labels = ["y"] if K == 1 else [f"y{index}" for index in range(K)]
    norm = math.sqrt(1.0 + first)
    recipe = Rows(Columns(features, norm=norm, intercept=first), Columns(labels, norm=1.0))
    rng, lost = np.random.default_rng(0), []
    cases = list(itertools.product((_EASY, _HARD), explained))
    for kind, told in track(cases, "Imagining tables"):
        X, Y = imagined(d, K, n, *kind, told, rng)
        table = Table.open(X, [*features, *labels], labels=Y, label="y").with_rows(recipe)
        ones = np.column_stack([X, np.ones(n)]) if model.fit_intercept else X
        best = _left(ones, Y, np.linalg.lstsq(ones, Y, rcond=None)[0])
        run, runs = Run(model, table, quiet, method), []
        for _ in range(_RUNS):
            drawn = run.draw(rng)
            coef, constant = np.reshape(drawn["coef"], (K, d)), np.reshape(drawn["intercept"], K)
            runs.append(_left(X, Y, coef.T, constant))
        lost.append(max(float(np.mean(runs)) - best, 0.0))
    return Forecast(
        {"explained variance lost": (min(lost), max(lost))},
        (
            model._assumed_rows(n_rows),
            f"that a column's standard deviation is {_HARD[0]:.0%} to {_EASY[0]:.0%} of half its "
            "range",
            f"labels over {_HARD[1]:.0%} to {_EASY[1]:.0%}",
            "columns from unrelated to strongly related",
            f"R^2 of {explained[0]:g} to {explained[1]:g}",
        ),
    )


def imagined(
    d: int,
    K: int,
    n_rows: int,
    width: float,
    spread: float,
    common: float,
    explained: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Features and labels in units of their bounds."""
    shared, own = rng.standard_normal((n_rows, 1)), rng.standard_normal((n_rows, d))
    X = np.sqrt(common) * shared + np.sqrt(1 - common) * own
    signal = own @ rng.standard_normal((d, K)) / np.sqrt(d) + np.sign(common) * shared
    signal /= np.sqrt(np.mean(signal**2, axis=0))
    Y = np.sqrt(explained) * signal + np.sqrt(1 - explained) * rng.standard_normal((n_rows, K))
    return width / np.sqrt(d) * X, spread / np.sqrt(K) * Y


def _left(X: FloatArray, Y: FloatArray, coef: Any, constant: FloatArray | float = 0) -> float:
    """The share of the labels' squares that is not explained."""
    return float(np.sum((Y - X @ coef - constant) ** 2) / np.sum(Y**2))
