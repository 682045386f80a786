"""Second moments released once: what a row may add, and what is solved from them."""

import numpy as np
import pytest

from ndis.mechanisms.regression_methods import noisy_moments
from ndis.tables import GRID_NORM, Columns, Rows, Table


def table(X: np.ndarray, y: np.ndarray) -> Table:
    names = [f"x{index}" for index in range(X.shape[1])]
    rows = Rows(Columns(names, norm=1.0), Columns(["y"], norm=1.0))
    return Table.open(X, labels=y).with_rows(rows)


@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_no_row_adds_more_than_is_paid_for_and_the_longest_adds_all(n_features: int) -> None:
    long = np.ones((1, n_features)) * 100.0
    for X, y in ((long, [1.0]), (long, [-50.0]), (0.0 * long, [1.0])):
        added = noisy_moments.study(table(X, np.array(y))).value / GRID_NORM**2
        assert np.linalg.norm(added) <= noisy_moments.sensitivity_of(n_features)
    unit = long / np.linalg.norm(long)
    whole = noisy_moments.study(table(unit, np.ones(1))).value / GRID_NORM**2
    assert np.linalg.norm(whole) == pytest.approx(
        noisy_moments.sensitivity_of(n_features), rel=1e-5
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_the_solution_is_least_squares(intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (2000, 3))
    y = X @ [0.4, -0.2, 0.1] + 0.1 * intercept
    exact = noisy_moments.study(table(X, y))
    noisy = noisy_moments.draw(exact, 1e-4, rng)
    np.testing.assert_allclose(noisy, exact.value / GRID_NORM**2, atol=1e-3)
    found = noisy_moments.Solution(noisy, 1e-4, 3, intercept)
    coef = found.curvature.vectors @ found.theta[:-1, 0]
    np.testing.assert_allclose(coef, [0.4, -0.2, 0.1], atol=1e-3)
    assert found.residual_variance <= 0.06 * found.label_square  # hardly anything is left
