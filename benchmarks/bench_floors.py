"""Whether what privacy costs falls as tables grow: each default beside its alternatives.

    python benchmarks/bench_floors.py [--runs 10] [--rows 1000 10000 100000] [--only NAME]

Rows are drawn from laws whose truth is known; errors are those in the population, as root mean
squares, in units of the same estimate's without privacy on the same rows. Where the cost of privacy
falls as fast as noise can, the figure falls to one; where it grows with the rows, the error has a
floor of its own. Epsilon is 1 and delta 1e-6.

    logistic     coefficients in the metric of the likelihood; "heavy": rare large features
    process      a smooth curve on the square; without privacy are moments at epsilon 1e6
    covariance   the matrix; "heavy": columns are t(3), cut at twenty deviations
    components   what the first two leave over of the variance that the best two explain
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ndis import PrivateCovariance, PrivateGaussianProcess, PrivateLogisticRegression, PrivatePCA

Array = np.ndarray
# A law's rows, the estimates to compare (the first without privacy), and the squared error of one.
Case = tuple[
    str,
    Callable[[int, np.random.Generator], Any],
    dict[str, Callable[[Any, int], Any]],
    Callable[[Any], float],
]
OWN = {"epsilon": 1.0, "delta": 1e-6}
SLOPES = np.array([0.3, 1.5, -1.0, 0.5, 0.0])  # the constant first


def features(kind: str, n: int, rng: np.random.Generator) -> Array:
    if kind == "even":
        return rng.uniform(-1, 1, (n, 4))
    return np.clip(rng.standard_t(3, (n, 4)) / 20, -1, 1)


def logistic(kind: str) -> Case:
    slopes = SLOPES if kind == "even" else SLOPES * [1.0, *[8.0] * 4]

    def draw(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = features(kind, n, rng)
        logits = np.column_stack([np.ones(n), X]) @ slopes
        return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-logits))).astype(int)

    X, _ = draw(200_000, np.random.default_rng(7))
    ones = np.column_stack([np.ones(len(X)), X])
    p = 1 / (1 + np.exp(-ones @ slopes))
    metric = (ones * (p * (1 - p))[:, None]).T @ ones / len(X)

    def likeliest(rows: tuple[Array, Array], seed: int) -> Array:
        ones, y = np.column_stack([np.ones(len(rows[0])), rows[0]]), rows[1]
        theta = np.zeros(5)
        for _ in range(12):
            p = 1 / (1 + np.exp(-ones @ theta))
            bend = (ones * (p * (1 - p))[:, None]).T @ ones + 1e-6 * np.eye(5)
            theta = theta + np.linalg.solve(bend, ones.T @ (y - p))
        return theta

    def private(**how: Any) -> Callable[[Any, int], Array]:
        def estimate(rows: tuple[Array, Array], seed: int) -> Array:
            model = PrivateLogisticRegression(
                **OWN, limits=[(-1, 1)] * 4, classes=[0, 1], random_state=seed, **how
            ).fit(*rows)
            return np.append(model.intercept_, np.ravel(model.coef_))

        return estimate

    ways = {"": likeliest, "default": private(), "descent": private(method="descent")}
    return f"logistic, {kind}", draw, ways, lambda t: float((t - slopes) @ metric @ (t - slopes))


def process() -> Case:
    def curve(X: Array) -> Array:
        return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])

    def draw(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.uniform(-1, 1, (n, 2))
        return X, curve(X) + 0.3 * rng.standard_normal(n)

    X = np.random.default_rng(7).uniform(-1, 1, (2000, 2))

    def private(epsilon: float) -> Callable[[Any, int], Array]:
        def estimate(rows: tuple[Array, Array], seed: int) -> Array:
            model = PrivateGaussianProcess(
                epsilon=epsilon,
                delta=1e-6,
                limits=[(-1, 1)] * 2,
                label_limits=(-2.5, 2.5),
                random_state=seed,
            ).fit(*rows)
            return np.asarray(model.predict(X))

        return estimate

    ways = {"": private(1e6), "default": private(1.0)}
    return "process", draw, ways, lambda found: float(np.mean((found - curve(X)) ** 2))


WIDTHS = np.array([1.0, 0.7, 0.4, 0.3, 0.2, 0.1])


def moments(kind: str) -> tuple[Callable[..., Array], Array]:
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 6)))[0]

    def draw(n: int, rng: np.random.Generator) -> Array:
        if kind == "even":
            rows = rng.uniform(-0.4, 0.4, (n, 6))
        else:
            rows = np.clip(rng.standard_t(3, (n, 6)) / 50, -0.4, 0.4)
        return (rows * WIDTHS) @ turn.T

    sample = draw(2_000_000, np.random.default_rng(11)) @ turn
    return draw, (turn * np.mean(sample**2, axis=0)) @ turn.T


def covariance(kind: str) -> Case:
    draw, truth = moments(kind)

    def private(**how: Any) -> Callable[[Any, int], Array]:
        return lambda rows, seed: np.asarray(
            PrivateCovariance(**OWN, data_norm=1.0, random_state=seed, **how).fit(rows).covariance_
        )

    ways = {
        "": lambda rows, seed: np.cov(rows.T, bias=True),
        "default": private(),
        "private radius": private(radius="private"),
    }
    return f"covariance, {kind}", draw, ways, lambda found: float(np.sum((found - truth) ** 2))


def components(kind: str) -> Case:
    draw, truth = moments(kind)
    best = float(np.linalg.eigvalsh(truth)[-2:].sum())

    def private(**how: Any) -> Callable[[Any, int], Array]:
        return lambda rows, seed: np.asarray(
            PrivatePCA(2, **OWN, data_norm=1.0, random_state=seed, **how).fit(rows).components_
        )

    ways = {
        "": lambda rows, seed: np.linalg.eigh(rows.T @ rows)[1][:, -2:].T,
        "default": private(),
        "declared radius": private(radius="declared"),
    }
    return (
        f"components, {kind}",
        draw,
        ways,
        lambda found: best - float(np.trace(found @ truth @ found.T)),
    )


def cases() -> Iterator[Case]:
    yield process()
    for make in (logistic, covariance, components):
        yield from (make("even"), make("heavy"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--only", default="", help="what the name of a case begins with")
    options = parser.parse_args()
    print(f"| what | estimate | {' | '.join(f'{n:,}' for n in options.rows)} |")
    print("| --- " * (2 + len(options.rows)) + "|")
    for name, draw, ways, error in cases():
        if not name.startswith(options.only):
            continue
        squares = {way: np.zeros(len(options.rows)) for way in ways}
        for k, n in enumerate(options.rows):
            for seed in range(options.runs):
                rows = draw(n, np.random.default_rng([seed, n]))
                for way, estimate in ways.items():
                    squares[way][k] += error(estimate(rows, seed))
        for way in list(ways)[1:]:
            ratios = np.sqrt(squares[way] / squares[""])
            print(f"| {name} | {way} | {' | '.join(f'{r:.2f}' for r in ratios)} |", flush=True)


if __name__ == "__main__":
    main()
