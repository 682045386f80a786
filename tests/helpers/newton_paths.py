"""What private least squares by rounds computes of a table along the path of a given release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ndis.mechanisms.center import center_of
from ndis.mechanisms.regression_methods import newton
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.mechanisms.regression_methods.descent import Descent, Scales, Setting
from ndis.tables import GRID_NORM, ExactSum, Table


def _moments(exact: ExactSum, bend: Curvature, most: float) -> np.ndarray:
    """Second moments in a metric, in units of what a row may change them by."""
    spreader, unit = bend.spreader
    return (exact.sandwiched(spreader, 3).value * 2.0**39 / (most * unit) ** 2).ravel()


def statistics(
    table: Table,
    released: Mapping[str, Any],
    setting: Setting,
    noise: Scales,
) -> list[np.ndarray]:
    """Every exact sum, in units of its noise; clips and coefficients are those of the release."""
    studied, parts, center = newton.study(table, setting.intercept), [], 0.0
    K = setting.n_labels
    if setting.intercept:
        half = studied["count"].value * 2.0**19
        row = np.append(studied["sums"].value, half) / (math.sqrt(1.25) * 2.0**20)
        parts = [row / noise.center]
        center = center_of(released["center"], noise.center)
        studied = newton.read_norms(table, center)
    path = Descent(setting, noise, released["norms"], center)
    parts.append(studied["norms"].value / noise.norms)
    last = math.floor(path.constant * GRID_NORM / path.cut)
    cut = newton.moments_of(table, studied, path.rung, None)
    gram = newton.augmented(cut, last).value / (2.0**40 + last**2)
    parts.append(gram.ravel() / noise.hessian)  # twice half the variance off the diagonal
    path.bend(released["hessian"])
    while not path.done:
        t, rung = len(path.points), 0
        looking = t in path.looks
        pulls = newton.gradients_of(path, looking)
        sums, cuts = table.sum(pulls), None
        if path.spreads and path.last:
            rows, pulled = noise.spread()
            exact = table.sum(newton.rows_of(path))["spread"]
            own = path.cuts(path.curvature).moved[0]
            parts.append(_moments(exact[0], path.curvature, own) / rows)
            path.read_moments(released["metric"])
            cuts = path.cuts(path.sharp)
            exact = table.sum(newton.spread_of(path, cuts))["spread"]
            for k in range(1 + K):
                most = cuts.moved[1] / cuts.most if k else cuts.moved[0]
                parts.append(_moments(exact[k], path.sharp, most) / (pulled if k else rows))
        if looking:
            parts.append(sums["products"].value / noise.look())
            ladder = path.clips(looking=True)
            rung = path.look(released["products"][path.looks.index(t)])
            if t in path.counts:
                parts.append(path.rows_beyond(sums["products"]).value / noise.beyond())
                rung = path.look_beyond(float(released["beyond"][path.counts.index(t)]), ladder)
        whitener, unit_z = path.curvature.whitener
        total = sums["gradient"][:, rung * K : (rung + 1) * K]
        white = total.multiplied(whitener, 2).value * 2.0**26
        parts.append(white.ravel() / (path.clip * pulls.unit * unit_z) / path.scale)
        if cuts is not None:
            path.read_spread(released["spread"], cuts)
        path.learn(released["gradients"][t])
    return parts
