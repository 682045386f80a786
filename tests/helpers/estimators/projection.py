"""Private projections."""

from functools import partial
from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateProjection


def rows() -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (400, 3)) * [10.0, 1.0, 0.1]


def data() -> tuple[np.ndarray]:
    return (rows(),)


def neighbour() -> tuple[np.ndarray]:
    return (rows()[:-1],)


FAILS = {"target": "A failure probability is a share of delta, which a risk does not have."}


def case(name: str, size: int | None = None, **own: Any) -> Case:
    make = partial(PrivateProjection, **{"n_components": 30, "data_norm": 5.0, **own})
    exceptions = FAILS if own.get("method") == "ptr" else {}
    return Case(f"projection {name}", make, data, neighbour, size, exceptions)


LIMITS = [(-10.0, 10.0), (-1.0, 1.0), (-0.1, 0.1)]
CASES = [
    case("auto", 3),
    case("ridge in limits", method="ridge", data_norm=None, limits=LIMITS, fit_intercept=True),
    case("ptr", 3, method="ptr"),
    case("leverage", 3, leverage=0.2),
    case("sampled", 3, sampling_rate=0.3),
    case("private limits", 3, data_norm=None, limits="private"),
]
