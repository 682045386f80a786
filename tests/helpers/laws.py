"""The laws of what estimators release, written a second time: what replays are compared with."""

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from ndis import (
    Gaussian,
    GaussianMechanism,
    GaussianOutput,
    MatrixGaussianMechanism,
    MultiPartyRegression,
    PrivateGaussianProcess,
    PrivateGraph,
    PrivateLeastSquares,
    PrivateLogisticRegression,
    PrivateProjection,
)
from ndis.loss import TabulatedLoss
from ndis.mechanisms import Plan
from ndis.mechanisms.moments import SecondMoments
from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.joint_regression import LABEL, Shared
from ndis.mechanisms.multiparty.releasing import mix
from ndis.tables import GRID_NORM, Rows
from ndis.tables.batches import Batch
from ndis.tables.edges import UNIT
from ndis.tables.sums import NORM_BINS, count_norms
from ndis.tables.table import Pass
from ndis_papers.least_squares import ridged_law
from ndis_papers.methods import processes
from ndis_papers.methods.regression import ByLimit, GaussianLimit


@singledispatch
def output_law(model: Any, X: Any, y: Any = None) -> Gaussian:
    """The law of all that is released, or of one of several independent draws."""
    raise TypeError(f"No law of {type(model).__name__} is written down.")


def noised(mean: Any, cov: Any, plan: Plan) -> Gaussian:
    """The law of one draw: with the plan's noise on each coordinate."""
    return Gaussian(mean, cov + plan.noise_scale**2 * np.eye(len(mean)))


@output_law.register
def _(model: GaussianMechanism, value: Any) -> Gaussian:
    """The entries in order."""
    answer = np.asarray(value, dtype=np.float64)
    return Gaussian.isotropic(answer.reshape(-1), model.plan(answer.shape).noise_scale ** 2)


@output_law.register
def _(model: MatrixGaussianMechanism, value: Any) -> Gaussian:
    """Row by row: in units of the quietest direction of either side."""
    answer = np.asarray(value, dtype=np.float64)
    sides = [
        np.eye(size) if side is None else side / np.linalg.eigvalsh(side)[0]
        for side, size in zip((model.rows, model.columns), answer.shape, strict=True)
    ]
    noise = model.plan(answer.shape).noise_scale
    return Gaussian(answer.reshape(-1), noise**2 * np.kron(*sides))


@output_law.register
def _(model: GaussianOutput, data: Any) -> Gaussian:
    """One draw."""
    plan = model.plan()
    return noised(*model.prepare(data).study(), plan)


@output_law.register
def _(model: PrivateProjection, X: Any) -> Gaussian:
    """One column of the sketch; with "ptr" there is no single Gaussian law."""
    run = model.prepare(X)
    table, plan = run.data, run.plan
    if plan.method == "ptr":
        raise ValueError("Expected a method whose output is one Gaussian, got 'ptr'.")
    unit = table.rows.features.norm / GRID_NORM
    gram = unit**2 * table.moments["gram"].value
    noise = plan.noise_scale if isinstance(plan.noise_scale, float) else plan.noise_scale["sketch"]
    return Gaussian(np.zeros(len(gram)), gram + noise**2 * np.eye(len(gram)))


@output_law.register
def _(model: PrivateLeastSquares, X: Any, y: Any) -> Gaussian:
    """Grid coefficients of "gaussian-limit", intercept first."""
    table = model.prepare(X, y).data
    made = ByLimit(model)._made(table.rows)
    assert isinstance(made, GaussianLimit)
    return ridged_law(made.study(table).value, made.ridge, made.n_components)


@output_law.register
def _(model: PrivateLogisticRegression, X: Any, y: Any = None) -> Gaussian:
    """One draw of "posterior".

    Without y the last column of X holds the label, which counts as the nearer of two numeric
    classes, so that a search may vary it.
    """
    if y is None:
        classes = model.declared_classes()
        values, middle = np.asarray(X, dtype=np.float64), classes.astype(np.float64).mean()
        X, y = values[:, :-1], classes[(values[:, -1] > middle).astype(int)]
    run = model.prepare(X, y)
    assert run.plan.method == "posterior"
    return noised(*run.study(), run.plan)


@output_law.register
def _(model: SecondMoments, X: Any, radius: float | None = None) -> Gaussian:
    """The matrix by its upper triangle; where a norm is bought, at a given radius."""
    run = model.prepare(X)
    table, rows = run.data, run.data.rows
    noise = run.plan.noise_scale
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
    plan, batch = model._how(rows)._plan(rows), Batch(inputs, labels[:, None])
    if plan.method == "posterior":
        blocks = [processes.whole(block) for block in rows.blocks(batch)]
        records = np.hstack([np.empty((len(rows.features.names) + 1, 0)), *blocks])
        law = processes.Drawing(model).posterior(rows).law(*processes.records_of(records, rows))
        return noised(*law, plan)
    d, noise, unit = plan.shapes["gram"][0], plan.noise_scale, float(GRID_NORM**2)
    above = np.triu_indices(d)
    variances = [
        noise["gram"] ** 2 * np.where(above[0] == above[1], 1.0, 0.5),
        np.full(d, noise["cross"] ** 2),
        np.full(2, noise["totals"] ** 2),
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
    edges, n, noise = model.prepare(X).study(), model._count(None), plan.noise_scale
    if plan.method == "sketch":
        return Gaussian(np.zeros(n), noise * np.eye(n) + edges.laplacian())
    if plan.method == "responses" or isinstance(plan.loss.directions()[0], TabulatedLoss):
        raise ValueError(f"Expected a release that is Gaussian, got method={plan.method!r}.")
    answers = np.array([edges.units(mask) for mask in model.declared_sets()]) / UNIT
    return Gaussian.from_diagonal(answers, np.full(answers.size, noise**2))


def party_law(agreement: Agreement, party: str, source: Any) -> Gaussian:
    """What one party releases, entry by entry."""
    mixed = mix(agreement, party, source)
    noise = math.sqrt(agreement.n_components) * agreement.noise_scale(party)
    return Gaussian.isotropic((mixed.rows / mixed.units).reshape(-1), noise**2)


@output_law.register
def _(model: MultiPartyRegression, table: Any) -> Gaussian:
    """All that is released about a table of features and label."""
    shared = Shared(model.agreement_, [*model._names(), LABEL], table)
    laws = [
        party_law(model.agreement_, party, shared.held(party)) for party in model.agreement_.parties
    ]
    mean = np.concatenate([law.mean for law in laws])
    return Gaussian.from_diagonal(mean, np.concatenate([law.variances for law in laws]))
