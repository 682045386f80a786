"""What private least squares by rounds computes of a table along the path of a given release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ndis.mechanisms.regression_methods import newton
from ndis.tables import GRID_NORM, Table
from ndis.tables.sums import CutGram, PullCounts, PullSum, row_norms


def statistics(
    table: Table,
    released: Mapping[str, Any],
    noise: newton.Noise,
    *,
    intercept: bool,
    n_rounds: int | str,
) -> list[np.ndarray]:
    """Every exact sum, in units of its noise; clips and coefficients are those of the release."""
    assert table.rows is not None
    assert table.rows.labels is not None
    d, K = len(table.rows.features.names), len(table.rows.labels.names)
    path = newton.Descent(released["norms"], noise, d, K, intercept, n_rounds, newton.MAX_ROUNDS)
    parts = [table.sum(row_norms)["norms"].value / noise.norms]
    unit = GRID_NORM / math.hypot(path.cut, path.constant)
    last = float(math.floor(path.constant * unit))
    reach = float(math.isqrt(GRID_NORM**2 - int(last) ** 2))
    gram = table.sum(CutGram(unit / GRID_NORM, reach, last))["gram"].value / 2.0**40
    parts.append(gram.ravel() / noise.hessian)  # twice half the variance off the diagonal
    path.bend(released["hessian"])
    for t in range(path.n_rounds):
        pull = path.curvature.pull(path.theta)
        if t in path.looks:
            counts = table.sum(PullCounts(pull, path.top))["products"].value
            parts.append(counts / noise.look())
            path.look(released["products"][path.looks.index(t)])
        unit = GRID_NORM / path.longest
        whitener, unit_z = path.curvature.whitener()
        total = newton._integers(table.sum(PullSum(pull, path.clip, unit))["gradient"])
        white = (newton._integers(whitener) @ total).astype(np.float64)
        parts.append(white.ravel() / (path.clip * unit * unit_z) / path.scale)
        path.learn(released["gradients"][t])
    return parts
