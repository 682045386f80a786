"""Gaussian processes and posteriors are never refuted, and refuted where sold for more.

A configuration is a claim, the mechanism's own parameters and a data set with all its removals.
Sold for more means calibrated for twice the epsilon and a hundred times the delta of what it is
audited against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from laws import output_law
from ndis import Gaussian, PrivateGaussianProcess, audit
from posterior_pairs import linear_regression

Configuration = tuple[Callable[[np.ndarray], Gaussian], np.ndarray, int]
N, TABLES = 1000, 2


def moments(rng: np.random.Generator, promise: dict[str, float]) -> Iterator[Configuration]:
    """A hostile row lies at a public point, its label at the limit."""
    d = int(rng.integers(1, 4))
    kernels = [None, RBF(0.3), Matern(rng.uniform(0.1, 3.0), nu=rng.choice([0.5, 1.5, 2.5]))]
    model = PrivateGaussianProcess(
        **promise, limits=(-1.0, 1.0), label_limits=(-1.0, 1.0),
        kernel=kernels[int(rng.integers(3))], n_inducing=int(rng.integers(2, 10)),
    )  # fmt: skip
    for _ in range(TABLES):
        n = int(rng.integers(1, 5))
        table = np.column_stack([rng.uniform(-1.2, 1.2, (n, d)), rng.choice([-1.0, 1.0], n)])
        table[0, :-1] = -1.0  # the first point of every grid and Sobol set
        yield partial(output_law, model), table, 1


def posterior(rng: np.random.Generator, promise: dict[str, float]) -> Iterator[Configuration]:
    n, scale = int(rng.integers(1, 4)), float(rng.choice([0.1, 0.3, 1.0]))
    points = rng.uniform(size=(int(rng.integers(1, 4)), 1))
    model = PrivateGaussianProcess(
        **promise, limits=[(0.0, 1.0)], label_limits=(-1.0, 1.0), method="posterior", max_rows=n,
        kernel=RBF(scale), noise_variance=float(10 ** rng.uniform(-2, 1.5)),
        query_points=points.tolist(), n_draws=int(rng.integers(1, 4)),
    )  # fmt: skip
    for _ in range(TABLES):
        table = np.column_stack([rng.uniform(size=n), rng.choice([-1.0, 1.0], n)])
        table[0, 0] = points[0, 0]
        yield partial(output_law, model), table, model.n_draws


def linear(rng: np.random.Generator, promise: dict[str, float]) -> Iterator[Configuration]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    model = linear_regression(
        **promise, data_norm=1.0, label_bound=1.0, max_rows=n, n_features=d,
        lam=float(10 ** rng.uniform(-2, 1.5)), noise_variance=float(10 ** rng.uniform(-1, 1)),
        n_draws=int(rng.integers(1, 4)),
    )  # fmt: skip
    model.set_params(epsilon=None, noise_scale=model.calibrate())
    for _ in range(TABLES):
        X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 1, (n, 1))
        X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
        X[0] = np.eye(d)[0]
        yield (
            partial(output_law, model),
            np.column_stack([X, rng.choice([-1.0, 1.0], n)]),
            model.n_draws,
        )


# With the share of those sold for more that must be refuted: posteriors are calibrated for data
# sets that no random draw finds.
FAMILIES: dict[str, tuple[Any, float]] = {
    "moments": (moments, 0.9),
    "posterior": (posterior, 0.2),
    "linear posterior": (linear, 0.2),
}


def refuted(name: str, n: int, seed: int, weaker: bool = False) -> list[bool]:
    rng, found = np.random.default_rng(seed), []
    while len(found) < n:
        epsilon, delta = rng.uniform(0.01, 5), 10 ** rng.uniform(-14, -1)
        sold = (2 * epsilon, min(100 * delta, 0.5)) if weaker else (epsilon, delta)
        for law, table, copies in FAMILIES[name][0](rng, {"epsilon": sold[0], "delta": sold[1]}):
            found.append(audit(law, table, (epsilon, delta), copies=copies).refuted)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_sound_configuration_is_refuted(name: str) -> None:
    assert not any(refuted(name, 8, seed=1))


@pytest.mark.evidence
@pytest.mark.parametrize("name", FAMILIES)
def test_no_sound_configuration_of_many_is_refuted(name: str) -> None:
    found = refuted(name, N, seed=3)
    assert len(found) >= N
    assert not any(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_sold_for_more_than_it_is_refuted(name: str) -> None:
    assert np.mean(refuted(name, 20, seed=2, weaker=True)) >= FAMILIES[name][1]
