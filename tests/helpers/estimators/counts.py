"""Counts and amounts with a log link, as arrays and by name, with an exposure."""

from typing import Any

import numpy as np
import pyarrow as pa

from estimators import Case
from ndis import PrivatePoissonRegression


def counted(rows: int = 400, family: str = "poisson") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (400, 2))
    mean = np.exp(0.5 + X @ [0.8, -0.4])
    y = rng.poisson(mean).astype(float) if family == "poisson" else rng.gamma(2.0, mean / 2)
    return X[:rows], y[:rows]


def amounts(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    return counted(rows, "gamma")


def exposed(rows: int = 400) -> tuple[pa.Table, str]:
    X, _ = counted()
    rng = np.random.default_rng(5)
    days = rng.uniform(10, 100, 400)
    y = rng.poisson(days / 30 * np.exp(0.5 * X[:, 0])).astype(float)
    table = pa.table({"age": X[:, 0], "days": days, "falls": y})
    return table.slice(0, rows), "falls"


def poisson(**more: Any) -> PrivatePoissonRegression:
    fixed: dict[str, Any] = {"limits": [(-1, 1)] * 2, "label_limits": (0, 15), **more}
    return PrivatePoissonRegression(**fixed)


def gamma(**more: Any) -> PrivatePoissonRegression:
    return poisson(**{"family": "gamma", "label_limits": (0.01, 15), "n_rounds": 4, **more})


def rates(**more: Any) -> PrivatePoissonRegression:
    limits = {"age": (-1, 1), "days": (10, 100), "falls": (0, 20)}
    fixed: dict[str, Any] = {"limits": limits, "exposure": "days", "n_rounds": 4, **more}
    return PrivatePoissonRegression(**fixed)


CASES = [
    Case("poisson", poisson, counted, lambda: counted(399)),
    Case("poisson, gamma", gamma, amounts, lambda: amounts(399)),
    Case("poisson, exposure", rates, exposed, lambda: exposed(399)),
]
