"""The laws of what estimators release, written a second time: what replays are compared with."""

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from ndis import (
    Gaussian,
    MultiPartyRegression,
    PrivateGaussianProcess,
    PrivateGraph,
)
from ndis.loss import TabulatedLoss
from ndis.mechanisms import multiparty
from ndis.mechanisms.moments import SecondMoments
from ndis.mechanisms.posterior import noised
from ndis.mechanisms.processes import _whole
from ndis.tables import GRID_NORM, Rows
from ndis.tables.edges import UNIT
from ndis.tables.rows import Batch
from ndis.tables.sums import NORM_BINS, count_norms
from ndis.tables.table import Pass


@singledispatch
def output_law(model: Any, X: Any, y: Any = None) -> Gaussian:
    """The law of all that is released, or of one of several independent draws."""
    raise TypeError(f"No law of {type(model).__name__} is written down.")


@output_law.register
def _(model: SecondMoments, X: Any, radius: float | None = None) -> Gaussian:
    """The matrix by its upper triangle; where a norm is bought, at a given radius."""
    table = model._view(X)
    rows = table.rows
    noise = model._plan(rows).noise_scale
    if ("norms" in noise) != (radius is not None):
        raise ValueError("Expected the radius where a norm is bought and none elsewhere.")
    longest = rows.features.norm
    means, scales = [], []
    if radius is not None:
        means.append(table.sum(count_norms)["norms"].value)
        scales.append(np.full(NORM_BINS, noise["norms"]))
        rows = Rows(replace(rows.features, norm=radius))
    cut = rows.features.norm / longest
    sums, unit = table.with_rows(rows).moments, rows.features.norm / GRID_NORM
    if "sketch" in noise:
        if len(noise) > 1:
            raise ValueError("Expected a sketch alone, got one with a mean or a count beside it.")
        gram = unit**2 * sums["gram"].value
        return Gaussian(np.zeros(len(gram)), gram + noise["sketch"] ** 2 * np.eye(len(gram)))
    upper = np.triu_indices(len(rows.features.names))
    means.append(unit**2 * sums["gram"].value[upper])
    scales.append(np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5)) * cut**2 * noise["matrix"])
    if "sums" in noise:
        means.append(unit * sums["sums"].value)
        scales.append(np.full(len(rows.features.names), cut * noise["sums"]))
    if "count" in noise:
        means.append(np.atleast_1d(sums["count"].value))
        scales.append(np.array([noise["count"]]))
    return Gaussian.from_diagonal(np.concatenate(means), np.concatenate(scales) ** 2)


@output_law.register
def _(model: PrivateGaussianProcess, X: Any, y: Any = None) -> Gaussian:
    """All noisy moments, or one of the draws; without y the last column of X holds the label."""
    table = np.asarray(X, dtype=np.float64)
    labels = table[:, -1] if y is None else np.asarray(y, dtype=np.float64)
    inputs = table[:, :-1] if y is None else table
    rows = model._rows_declared(inputs.shape[1])
    plan, batch = model._plan(rows), Batch(inputs, labels[:, None])
    if plan.method == "posterior":
        blocks = [_whole(block) for block in rows.blocks(batch)]
        records = np.hstack([np.empty((len(rows.features.names) + 1, 0)), *blocks])
        return noised(*model._posterior(rows).law(*model._records(records, rows)), plan)
    d, noise, unit = plan.shapes["gram"][0], plan.noise_scale, float(GRID_NORM**2)
    above = np.triu_indices(d)
    variances = [
        noise["gram"] ** 2 * np.where(above[0] == above[1], 1.0, 0.5),
        np.full(d, noise["cross"] ** 2),
        np.full(2, noise["size"] ** 2),
    ]
    means = [np.zeros(above[0].size), np.zeros(d), np.zeros(2)]  # without rows
    if len(table):
        sums = Pass(rows, model._features_of(rows))(batch).sums()
        size = np.array([float(sums["count"].value), float(sums["squares"].value) / unit])
        means = [sums["gram"].value[above] / unit, sums["cross"].value[:, 0] / unit, size]
    return Gaussian.from_diagonal(np.concatenate(means), np.concatenate(variances))


@output_law.register
def _(model: PrivateGraph, X: Any) -> Gaussian:
    """A column of a sketch before its mean is subtracted, or Gaussian answers."""
    plan = model.plan()
    edges, n, noise = model._study(X, plan), model._size(None), plan.noise_scale
    if plan.method == "sketch":
        return Gaussian(np.zeros(n), noise * np.eye(n) + edges.laplacian())
    if plan.method == "responses" or isinstance(plan.loss.directions()[0], TabulatedLoss):
        raise ValueError(f"Expected a release that is Gaussian, got method={plan.method!r}.")
    answers = np.array([edges.units(mask) for mask in model._declared_sets()]) / UNIT
    return Gaussian.from_diagonal(answers, np.full(answers.size, noise**2))


@output_law.register
def _(model: MultiPartyRegression, table: Any) -> Gaussian:
    """All that is released about a table of features and label."""
    laws = [
        multiparty.output_law(model.agreement_, party, model._held(party, table))
        for party in model.agreement_.parties
    ]
    mean = np.concatenate([law.mean for law in laws])
    return Gaussian.from_diagonal(mean, np.concatenate([law.variances for law in laws]))
