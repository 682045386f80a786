"""Noise on answers that are given."""

from functools import partial

import numpy as np

from estimators import Case
from ndis import GaussianMechanism, MatrixGaussianMechanism, NoiseMechanism

ANSWER = np.arange(6.0).reshape(2, 3)
NEIGHBOUR = ANSWER + 1.0 / np.sqrt(6.0)  # at distance 1


def case(name, make) -> Case:  # type: ignore[no-untyped-def]
    return Case(
        name, partial(make, sensitivity=1.0), lambda: (ANSWER,), lambda: (NEIGHBOUR,), (2, 3)
    )


CASES = [
    case("gaussian", GaussianMechanism),
    case("noise", NoiseMechanism),
    case("noise, laplace", partial(NoiseMechanism, sum_sensitivity=6.0**0.5, law="laplace")),
    case("matrix", MatrixGaussianMechanism),
    case("matrix, sides", partial(MatrixGaussianMechanism, rows=[[2.0, 1.0], [1.0, 2.0]])),
]
