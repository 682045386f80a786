"""Random configurations of covariance, principal components and graphs, audited by their own laws.

A configuration is a claim, the estimator's own parameters and a data set with neighbours, one of
them at the worst case. Beside each family stands the same mechanism sold for more than it is,
calibrated for twice the epsilon and a hundred times the delta: it must be refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from laws import output_law
from ndis import Gaussian, PrivateCovariance, PrivateGraph, PrivatePCA, audit

DATA_SETS = 2  # share a calibration


@dataclass(frozen=True)
class Claimed:
    epsilon: float
    delta: float
    n_components: int

    def weaker(self) -> Claimed:
        return Claimed(2.0 * self.epsilon, min(100.0 * self.delta, 0.5), self.n_components)

    @property
    def promise(self) -> dict[str, float]:
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class Configuration:
    law: Callable[[np.ndarray], Gaussian]
    table: np.ndarray
    copies: int = 1
    relation: str = "add-remove"


Family = Callable[[np.random.Generator, Claimed], Iterator[Configuration]]
FAMILIES: dict[str, Family] = {}


def family(made: Family) -> Family:
    FAMILIES[made.__name__.replace("_", "-")] = made
    return made


def random_claims(seed: int, n: int) -> list[Claimed]:
    rng = np.random.default_rng(seed)
    eps, log_delta = rng.uniform(0.01, 5, n), rng.uniform(-12, -1, n)
    r = np.rint(10 ** rng.uniform(0, 2.5, n)).astype(int)
    return [
        Claimed(float(e), float(10**d), int(k)) for e, d, k in zip(eps, log_delta, r, strict=True)
    ]


def rows_within(rng: np.random.Generator, d: int, norm: float) -> np.ndarray:
    """Few rows, the first as long as the norm allows."""
    rows = rng.standard_normal((int(rng.integers(2, 5)), d)) * 10 ** rng.uniform(-2, 1)
    rows *= norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    rows[0] = norm * np.eye(d)[0]
    return rows


def size_and_norm(rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(1, 5)), float(10 ** rng.uniform(-1, 1))


@family
def covariance(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    d, norm = size_and_norm(rng)
    how: dict[str, Any] = {"data_norm": norm}
    if rng.random() < 0.5:
        how = {"limits": [(-norm, 3.0 * norm)] * d}
    model = PrivateCovariance(**sold.promise, **how, center=bool(rng.random() < 0.7))
    for _ in range(DATA_SETS):
        table = rows_within(rng, d, norm)
        if "limits" in how:
            table[0] = 3.0 * norm  # a corner of the box
        yield Configuration(partial(output_law, model), table)


@family
def covariance_sketch(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    d, norm = size_and_norm(rng)
    r = sold.n_components
    shared = {"data_norm": norm, "method": "sketch", "n_components": r, "center": False}
    models = {
        n: PrivateCovariance(**sold.promise, **shared, n_rows=n) for n in range(1, 6)
    }  # the number of rows is private: of a sketch alone, declaring it changes no noise
    for _ in range(DATA_SETS):
        yield Configuration(
            lambda rows: output_law(models[len(rows)], rows), rows_within(rng, d, norm), r
        )


def close_rows(rng: np.random.Generator, d: int, norm: float) -> np.ndarray:
    """Rows within 1 of each other, near the sphere: any may be put in place of any."""
    base, step = rng.standard_normal((2, d))
    base *= max(norm - rng.choice([0.0, 0.5]), 0.0) / np.linalg.norm(base)
    kind = rng.integers(3)
    if kind == 0:
        step = base + 1e-9  # along the row
    elif kind == 1 and d > 1:
        step -= base * (step @ base) / (base @ base + 1e-300)  # across it
    step /= 2.0 * np.linalg.norm(step)
    return np.array([base + step, base - step])


@family
def row_shift(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    d, norm = int(rng.integers(1, 5)), float(10 ** rng.uniform(-0.5, 1.5))
    sketch, r = bool(rng.random() < 0.5), sold.n_components
    model = PrivateCovariance(
        **sold.promise, data_norm=norm, relation="row-shift", n_components=r,
        method="sketch" if sketch else "matrix", center=not sketch, n_rows=2,
    )  # fmt: skip
    for _ in range(DATA_SETS):
        table = close_rows(rng, d, norm)
        yield Configuration(partial(output_law, model), table, r if sketch else 1, "replace")


@family
def principal_components(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    """All that is released, at a radius that the counts may have led to."""
    d, norm = size_and_norm(rng)
    model = PrivatePCA(1, **sold.promise, data_norm=norm, center=bool(rng.random() < 0.5))
    for _ in range(DATA_SETS):
        radius = norm * 2.0 ** (-int(rng.integers(0, 24)) / 2)
        yield Configuration(
            lambda rows, at=radius: output_law(model, rows, radius=at), rows_within(rng, d, norm)
        )


def graph_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """From an empty graph to a dense one; the pair of the first two nodes has no edge."""
    weights = np.triu(rng.uniform(size=(n, n)) * (rng.random((n, n)) < rng.choice([0.0, 0.3])), 1)
    weights[0, 1] = 0.0
    return weights + weights.T


@family
def graph_sketch(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    n, r = int(rng.integers(3, 5)), sold.n_components
    model = PrivateGraph(n, **sold.promise, method="sketch", n_components=r)
    for _ in range(DATA_SETS):
        yield Configuration(
            lambda weights: output_law(model, sparse.csr_array(weights)),
            graph_weights(rng, n) * rng.choice([0.0, 1.0], p=[0.7, 0.3]),
            r,
            "edge",
        )


@family
def graph_answers(rng: np.random.Generator, sold: Claimed) -> Iterator[Configuration]:
    """Gaussian answers about sets that part the first two nodes."""
    n, k = int(rng.integers(3, 6)), int(rng.integers(80, 200))
    sets = [[0, *(range(2, n) if rng.random() < 0.5 else ())] for _ in range(k)]
    model = PrivateGraph(n, **sold.promise, method="answers", sets=sets)
    if hasattr(model.plan().loss.directions()[0], "mass"):  # Laplace noise has no Gaussian law
        return
    for _ in range(DATA_SETS):
        yield Configuration(
            lambda weights: output_law(model, sparse.csr_array(weights)),
            graph_weights(rng, n),
            relation="edge",
        )


def audited(name: str, n: int, seed: int, weaker: bool = False) -> Iterator[tuple[bool, float]]:
    """Whether each of n configurations is refuted, and ln of the largest delta over the claim."""
    rng = np.random.default_rng(seed)
    done = 0
    for asked in random_claims(seed, n):
        for case in FAMILIES[name](rng, asked.weaker() if weaker else asked):
            claim = (asked.epsilon, asked.delta)
            verdict = audit(case.law, case.table, claim, relation=case.relation, copies=case.copies)
            yield verdict.refuted, verdict.log_delta - math.log(asked.delta)
            done += 1
            if done == n:
                return
