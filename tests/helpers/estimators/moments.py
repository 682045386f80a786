"""Covariance and principal components."""

from functools import partial

import numpy as np

from estimators import Case
from ndis import PrivateCovariance, PrivatePCA

TABLE = np.random.default_rng(0).uniform(-1, 1, (300, 3))
LIMITS = [(-1.0, 1.0)] * 3


def whole():
    return (TABLE,)


def without_a_row():
    return (TABLE[1:],)


def with_a_moved_row():
    moved = TABLE.copy()
    moved[0] += [0.6, 0.0, -0.8]
    return (moved,)


def case(name, make, neighbour=without_a_row, **parameters):
    return Case(name, partial(make, **{"limits": LIMITS, **parameters}), whole, neighbour)


CASES = [
    case("covariance, matrix", PrivateCovariance),
    case("covariance, limits found", PrivateCovariance, limits="private", columns=list("abc")),
    case("covariance, not centred", PrivateCovariance, center=False, n_rows=None),
    case("covariance, radius bought", PrivateCovariance, radius="private"),
    case("covariance, sketch", PrivateCovariance, method="sketch", n_components=20),
    case(
        "covariance, sketch alone",
        PrivateCovariance,
        method="sketch",
        n_components=20,
        center=False,
    ),
    case("covariance, row-shift", PrivateCovariance, with_a_moved_row, relation="row-shift"),
    case(
        "covariance, row-shift, sketch",
        PrivateCovariance,
        with_a_moved_row,
        relation="row-shift",
        method="sketch",
        n_components=20,
    ),
    case("principal components", PrivatePCA, n_components=2),
    case("principal components, centred", PrivatePCA, center=True, radius="declared"),
]
