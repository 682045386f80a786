"""Figures 5 and 9 of the paper of 2024: curves estimated from runs, beside the exact ones.

Figure 5 runs approximate least squares (ALS) with and without the row that stands out most; beside
the estimate stand its exact profile (two t laws) and its limit, which is all that the paper has.
Figure 9 does the same with a random linear combination of the rows (RLC), with and without noise.

The black-box estimate is that of `ndis.auditing.sampled_curve`: a classifier proposes sets of
outputs and unseen runs measure them, which bounds delta from below. The same runs measure the sets
that are the worst according to theory, which bounds delta from both sides if the theory is right.

The Flight table is at hand; where the county cancer table is not given, the diabetes table of
scikit-learn takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.base import BaseEstimator, ClassifierMixin

from ndis import plots
from ndis.auditing import sampled_curve
from ndis.loss import Profile, QuadraticLoss, SketchAndSolveLoss, removal_loss
from ndis.tables import track
from ndis_papers._validate import FloatArray
from ndis_papers.least_squares import solved_sketches
from ndis_papers.reproduce._output import Row, has_card, save, write_rows
from ndis_papers.reproduce.ndis_2024_data import (
    EPSILON,
    cancer_rows,
    components,
    flight_rows,
    longest,
    normalised,
)
from ndis_papers.sketches import draw_sketch, least_ratio, leverages

# The paper took the first 20,000 flights.
FLIGHTS = 20_000
# What a panel calls its data.
_NAMES = {
    "cancer": "Cancer",
    "diabetes": "diabetes, in place of Cancer",
    "flight": f"Flight, the first {FLIGHTS:,} rows",
}
# A combination of many rows has nothing to show; the paper does not say how many it took.
FEW_ROWS, FEW_COLUMNS = 20, 3
RUNS, QUICK_RUNS, FULL_RUNS = 200_000, 4_000, 1_000_000
# The paper's runs for figure 9: so many train its classifier and as many test it.
PAPER_RUNS = 20_000_000
# Where curves are estimated.
EPSILONS = np.linspace(0.0, 1.2, 13)
# With which all points of a panel lie within their bands.
CONFIDENCE = 0.99
# Runs that are held in memory at a time.
_CHUNK = 2_000

Curve = Callable[[FloatArray], FloatArray]
Draw = Callable[[FloatArray, int, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class Panel:
    """One part of a figure: how to run it on second moments, and what the curves must be."""

    figure: str
    data: str
    gram: FloatArray
    removed: FloatArray
    draw: Draw
    log_density: Callable[[FloatArray, FloatArray], FloatArray]  # of outputs, given second moments
    exact: Curve
    limit: Curve | None


def data_sets(files: Mapping[str, str | Path] | None) -> dict[str, FloatArray]:
    """A small table and the first flights; columns of norm one."""
    return small_set(files) | {"flight": normalised(flight_rows()[:FLIGHTS])}


def small_set(files: Mapping[str, str | Path] | None) -> dict[str, FloatArray]:
    """Counties or, for want of them, patients."""
    if files and "cancer" in files:
        return {"cancer": cancer_rows(files["cancer"])}
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    patients = np.column_stack([bunch.data, np.ones(len(bunch.data)), bunch.target])
    return {"diabetes": normalised(patients)}


def least_squares_panel(name: str, rows: FloatArray) -> Panel:
    """Figure 5: ALS without noise, with and without the row of the largest delta at epsilon."""
    r, d = components("cancer" if name == "diabetes" else name, len(rows)), rows.shape[1] - 1
    q, p = leverages(rows), leverages(rows[:, :-1])
    deltas = Profile.both(removal_loss(q, p, d, r)).log_delta(EPSILON)
    row = int(np.argmax(deltas))
    ways = [SketchAndSolveLoss(1.0, d, r, backwards) for backwards in (False, True)]

    def exact(epsilons: FloatArray) -> FloatArray:
        values = [[float(way.attained_at(q[row], p[row], e)) for way in ways] for e in epsilons]
        return np.asarray(np.exp(np.max(values, axis=1)))

    def draw(gram: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return solved_sketches(gram, 0.0, r, n, rng)

    def log_density(outputs: FloatArray, gram: FloatArray) -> FloatArray:
        X, b = gram[:-1, :-1], gram[:-1, -1]
        away = outputs - np.linalg.solve(X, b)
        residual = float(gram[-1, -1] - b @ np.linalg.solve(X, b))
        square = np.einsum("ni,ij,nj->n", away, X, away, optimize=True) / residual
        scale = np.linalg.slogdet(X)[1] - d * math.log(residual)
        return np.asarray(0.5 * scale - 0.5 * (r + 1) * np.log1p(square))

    limit = Profile.both(removal_loss(q[row], p[row], d, r)).delta
    title = f"{_NAMES[name]}; r = {r}"
    return Panel("figure_5", title, *_grams(rows, row), draw, log_density, exact, limit)


def combination_panel(name: str, rows: FloatArray, noisy: bool, n_rows: int = FEW_ROWS) -> Panel:
    """Figure 9: one random combination of a few rows, without noise or with what epsilon needs."""
    rows = normalised(rows[:n_rows, -FEW_COLUMNS:])
    ridge = (least_ratio(EPSILON, 1 / len(rows), 1) * longest(rows)) ** 2 if noisy else 0.0
    gram = rows.T @ rows + ridge * np.eye(rows.shape[1])
    leverage = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(gram), rows)
    row = int(np.argmax(leverage))

    def draw(gram: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return draw_sketch(gram, ridge, n, rng).T

    def log_density(outputs: FloatArray, gram: FloatArray) -> FloatArray:
        covariance = gram + ridge * np.eye(len(gram))
        square = np.sum(outputs * np.linalg.solve(covariance, outputs.T).T, axis=1)
        return np.asarray(-0.5 * square - 0.5 * np.linalg.slogdet(covariance)[1])

    exact = Profile.both(QuadraticLoss.from_leverage(float(leverage[row]), 1)).delta
    title = f"{_NAMES[name]}: {n_rows} rows, {'with' if noisy else 'without'} noise"
    return Panel("figure_9", title, *_grams(rows, row), draw, log_density, exact, None)


def combination_panels(sets: Mapping[str, FloatArray], full: bool) -> list[Panel]:
    """Both panels of figure 9, of the first of the data sets."""
    name, rows = next(iter(sets.items()))
    few = len(rows) if full else FEW_ROWS
    return [combination_panel(name, rows, noisy, few) for noisy in (False, True)]


def _grams(rows: FloatArray, row: int) -> tuple[FloatArray, FloatArray]:
    gram = rows.T @ rows
    return gram, gram - np.outer(rows[row], rows[row])


def measured(panel: Panel, n_runs: int, epsilons: FloatArray, classifier: Any = None) -> list[Row]:
    """Run it, estimate the curve in both ways, and put the exact one beside it."""
    rng = np.random.default_rng(0)

    def runs(gram: FloatArray) -> FloatArray:
        sizes = [min(_CHUNK, n_runs - start) for start in range(0, n_runs, _CHUNK)]
        return np.concatenate([panel.draw(gram, size, rng) for size in sizes])

    both = runs(panel.gram), runs(panel.removed)
    # A neural network wants inputs of about the same size.
    scale = np.concatenate(both).std(axis=0)
    first, second = (outputs / np.where(scale > 0, scale, 1.0) for outputs in both)
    proposed = sampled_curve(first, second, epsilons, confidence=CONFIDENCE, classifier=classifier)
    low, high = worst_sets(panel, *both, epsilons)
    exact = panel.exact(epsilons)
    limit = panel.limit(epsilons) if panel.limit is not None else None
    agrees = (np.maximum(proposed.lower, low) <= exact) & (exact <= high)
    return [
        {
            "figure": panel.figure,
            "data": panel.data,
            "runs": n_runs,
            "epsilon": float(epsilon),
            "black_box": float(proposed.estimate[i]),
            "black_box_lower": float(proposed.lower[i]),
            "worst_sets_lower": float(low[i]),
            "worst_sets_upper": float(high[i]),
            "exact": float(exact[i]),
            "limit": None if limit is None else float(limit[i]),
            "published": "estimate and theory closely match",
            "here": "matches" if agrees[i] else "differs",
        }
        for i, epsilon in enumerate(epsilons)
    ]


def _network() -> Any:
    """Scikit-learn's perceptron, as the paper has it; early stopping keeps it honest and quick."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (32, 32), early_stopping=True, max_iter=20, batch_size=4096, random_state=0
    )


class CardNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The same perceptron by torch on a graphics card, for tens of millions of rows.

    Parameters
    ----------
    device : str
        Of torch.
    epochs, batch : int
    """

    def __init__(self, device: str = "cuda", epochs: int = 5, batch: int = 1 << 15) -> None:
        self.device = device
        self.epochs = epochs
        self.batch = batch

    def fit(self, X: FloatArray, y: FloatArray) -> CardNetwork:
        """Train it by Adam on shuffled batches."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.classes_ = np.array([0, 1])
        layers = [nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(32, 1)).to(self.device)
        rows = torch.as_tensor(X, dtype=torch.float32, device=self.device)
        labels = torch.as_tensor(y, dtype=torch.float32, device=self.device)
        steps, loss = torch.optim.Adam(self.model.parameters()), nn.BCEWithLogitsLoss()
        for _ in range(self.epochs):
            for part in torch.randperm(len(rows), device=self.device).split(self.batch):
                steps.zero_grad()
                loss(self.model(rows[part])[:, 0], labels[part]).backward()
                steps.step()
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """The chances of both classes."""
        import torch

        with torch.no_grad():
            parts = torch.as_tensor(X, dtype=torch.float32, device=self.device).split(1 << 20)
            chance = torch.cat([torch.sigmoid(self.model(part)[:, 0]) for part in parts])
        return np.column_stack([1 - chance.cpu().numpy(), chance.cpu().numpy()])


def worst_sets(
    panel: Panel, first: FloatArray, second: FloatArray, epsilons: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on the larger P(S) - e^epsilon Q(S) of both directions, S the worst set in theory."""
    losses = [
        panel.log_density(outputs, panel.gram) - panel.log_density(outputs, panel.removed)
        for outputs in (first, second)
    ]
    n, miss = len(first), (1.0 - CONFIDENCE) / (8.0 * epsilons.size)
    found = []
    for loss, other in (losses, (-losses[1], -losses[0])):
        hits, false_hits = (np.sum(values[:, None] > epsilons, axis=0) for values in (loss, other))
        low, high = _clopper_pearson(hits, n, miss)
        false_low, false_high = _clopper_pearson(false_hits, n, miss)
        weight = np.exp(epsilons)
        found.append((low - weight * false_high, high - weight * false_low))
    ends = np.array(found).max(axis=0)
    return np.maximum(ends[0], 0.0), ends[1]  # delta >= 0: the empty set


def _clopper_pearson(hits: FloatArray, n: int, miss: float) -> tuple[FloatArray, FloatArray]:
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(miss, hits, n - hits + 1), 0.0)
        high = np.where(hits < n, beta.isf(miss, hits + 1, n - hits), 1.0)
    return low, high


def run(
    folder: str | Path,
    quick: bool = False,
    files: Mapping[str, str | Path] | None = None,
    *,
    full: bool = False,
) -> list[Row]:
    """Write the points of both figures, and the figures, into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        4,000 runs of either data set instead of 200,000.
    full : bool
        The paper's classifier, a perceptron of several layers, a million runs, and for figure 9 all
        rows of the table and, where torch finds a graphics card, the paper's runs: ten million to
        train and as many to test.
    files : mapping of str to path, optional
        ``cancer`` (cancer_reg.csv), instead of the diabetes table.

    Returns
    -------
    list of dict
        Estimates with bands of confidence 0.99 at all epsilons at once, exact delta and limit.
    """
    sets = data_sets(files)
    panels = [least_squares_panel(name, rows) for name, rows in sets.items()]
    panels += combination_panels(sets, full)
    rows: list[Row] = []
    for panel in track(panels, "Running", len(panels)):
        n_runs = QUICK_RUNS if quick else FULL_RUNS if full else RUNS
        classifier = _network() if full else None
        if full and panel.figure == "figure_9" and has_card():
            n_runs, classifier = PAPER_RUNS, CardNetwork()
        rows += measured(panel, n_runs, EPSILONS, classifier)
    for name in ("figure_5", "figure_9"):
        draw([row for row in rows if row["figure"] == name], folder)
    return write_rows(folder, "figures_5_and_9", rows)


def draw(rows: list[Row], folder: str | Path) -> Path:
    """One figure, a panel for each set of data."""
    with plots.style():
        figure, first = plots.figure()
        first.remove()
        figure.set_size_inches(10.0, 4.4)
        titles = list(dict.fromkeys(row["data"] for row in rows))
        for place, title in enumerate(titles):
            axes = figure.add_subplot(1, len(titles), place + 1)
            points = [row for row in rows if row["data"] == title]
            epsilons = [row["epsilon"] for row in points]
            low, high, value = (
                [row[key] for row in points]
                for key in ("worst_sets_lower", "worst_sets_upper", "black_box")
            )
            axes.fill_between(epsilons, low, high, alpha=0.25, label="runs, sets of the theory")
            axes.plot(epsilons, value, "o", markersize=4, label="runs, sets of a classifier")
            axes.plot(epsilons, [row["exact"] for row in points], label="exact")
            if points[0]["limit"] is not None:
                limit = [row["limit"] for row in points]
                axes.plot(epsilons, limit, "--", label="limit (the paper's theory)")
            axes.set_xlabel("epsilon")
            axes.set_ylabel("delta")
            axes.set_title(title)
            axes.legend(fontsize=8)
        name = rows[0]["figure"]
        runs = f"{rows[0]['runs']:,} runs with and without a row"
        return save(figure, folder, name, f"{name.replace('_', ' ').capitalize()}: {runs}")
