"""Gaussian processes: moments of public features, and draws of the process itself."""

from typing import Any

import numpy as np
import pyarrow as pa

from estimators import Case
from ndis import PrivateGaussianProcess


def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 4.0, (80, 1))
    return x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(80)


def removed() -> tuple[np.ndarray, np.ndarray]:
    x, y = records()
    return x[1:], y[1:]


def frame(rows: tuple[np.ndarray, np.ndarray]) -> tuple[pa.Table, str]:
    return pa.table({"place": rows[0][:, 0], "depth": rows[1]}), "depth"


def made(**given: Any) -> Any:
    def make(**parameters: Any) -> PrivateGaussianProcess:
        known = {"limits": [(0.0, 4.0)], "label_limits": (-1.5, 1.5)}
        return PrivateGaussianProcess(**{**known, **given, **parameters})

    return make


CASES = [
    Case("process", made(), records, removed),
    Case(
        "process of a table",
        made(limits={"place": (0.0, 4.0)}, n_inducing=8),
        lambda: frame(records()),
        lambda: frame(removed()),
    ),
    Case("process, limits to be found", made(limits="private"), records, removed, size=1),
    Case("process, posterior", made(method="posterior", max_rows=100), records, removed),
]
