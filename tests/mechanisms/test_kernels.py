"""Kernels as exact sums: no row longer than the grid, the same integers everywhere."""

import math

import array_api_strict
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    Matern,
)

from ndis.mechanisms.kernels import kernel_moments
from ndis.tables import GRID_NORM, Columns
from ndis.tables.blocks import Block


def blocks_of(columns: Columns, X):
    return Block(columns.to_grid(np.asarray(X, dtype=float).T.copy())[0])


@pytest.mark.parametrize("kernel", [RBF([0.5, 0.2]), Matern(0.4, nu=0.5), Matern(0.3, nu=2.5)])
def test_features_are_those_of_the_kernel(kernel) -> None:
    columns = Columns(["a", "b"], limits={"a": (0, 2), "b": (-1, 1)})
    moments = kernel_moments(kernel, columns, 25)
    X = np.random.default_rng(0).uniform([0, -1], [2, 1], (200, 2))
    phi = moments.features(blocks_of(columns, X)) / GRID_NORM
    points = columns.middle + moments.points / columns.scale
    expected = (kernel(X, points) @ (moments.weights * 2.0**-moments.bits)).T
    assert np.abs(phi - expected).max() < 1e-4
    # The projection of the kernel on the points: never longer than k(x, x), all of it near them.
    assert np.all(np.sum(phi**2, axis=0) <= 1.0)
    assert np.sum(phi**2, axis=0).max() > 0.8


@pytest.mark.parametrize("limit", [1.0, 1e-9, 1e12])
def test_no_row_is_longer_than_the_grid(limit) -> None:
    columns = Columns(["a"], limits={"a": (-limit, limit)})
    rng = np.random.default_rng(0)
    X = np.concatenate([np.linspace(-2, 2, 500), rng.uniform(-1, 1, 500)]) * limit
    X = np.append(X, [1e300, -1e300])
    for nu in (0.5, 1.5, 2.5, math.inf):
        for length in (1e-3, 0.3, 1e3):
            moments = kernel_moments(Matern(length * limit, nu=nu), columns, 40)
            whole = moments.features(blocks_of(columns, X[:, None]))
            assert np.array_equal(whole, np.round(whole))
            assert np.sum(whole.astype(object) ** 2, axis=0).max() <= GRID_NORM**2


def test_a_row_has_the_same_integers_at_any_place_and_in_any_library() -> None:
    columns = Columns(["a", "b"], limits={"a": (0, 1), "b": (0, 1)})
    moments = kernel_moments(RBF(0.3), columns, 49)
    X = np.random.default_rng(1).uniform(-0.2, 1.2, (257, 2))
    whole = moments.features(blocks_of(columns, X))
    for start in (0, 1, 3, 100, 255):
        part = moments.features(blocks_of(columns, X[start : start + 2]))
        assert np.array_equal(part, whole[:, start : start + 2])
    grid = columns.to_grid(X.T.copy())[0]
    strict = moments.features(Block(array_api_strict.asarray(grid)))
    assert np.array_equal(np.asarray(strict), whole)
