"""Draws from an algorithm with a Gaussian output, by each way to say what one record can do."""

import math
from typing import Any

import numpy as np

from estimators import Case
from ndis import Gaussian, GaussianOutput
from ndis.loss.posteriors import RankOneUpdate

UPDATE = RankOneUpdate(1.0, 1.0, 1.0, 1.0, 100)


def posterior(data: Any) -> Gaussian:
    """Of the mean of numbers in [-1, 1], prior N(0, 1), unit variance."""
    precision = 1.0 + len(data)
    return Gaussian([np.sum(data) / precision], [[1.0 / precision]])


def shift(variance: float) -> float:
    return 1.0 / math.sqrt(variance)


def ratio(variance: float) -> float:
    return math.log1p(0.5 / (0.5 + variance))


def case(name: str, **bounds: Any) -> Case:
    def make(**parameters: Any) -> GaussianOutput:
        return GaussianOutput(
            posterior, **{"dimension": 1, "max_spread": 1.0, **bounds, **parameters}
        )

    data = np.linspace(-0.5, 1.0, 60)
    # The bound by moments has a coarser delta than a pair of laws.
    waste = 0.05 if "eta" in bounds else 1e-3
    said = {"verify": "Functions cannot be written into a certificate."}
    return Case(name, make, lambda: (data,), lambda: (data[1:],), None, said, waste)


CASES = [
    case("output, envelope of rank one", mean_shift=shift, kappa=ratio, rank=1),
    case("output, envelope of eta", mean_shift=shift, kappa=ratio, eta=ratio),
    case("output, worst case", worst_case=UPDATE.loss),
]
