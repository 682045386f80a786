"""Two covariance matrices made diagonal at once, with proven errors."""

import math

import numpy as np
import pytest

from ndis import Gaussian, QuadraticLoss, privacy_loss
from ndis.gaussian import log_delta_bounds


def test_bounds_from_matrices_against_an_exact_rational_pair() -> None:
    # H diag H / n with a Hadamard matrix is an exact double matrix with known eigenvectors.
    H = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=float)
    ratios = np.array([0.5, 1.0, 1.0, 4.0])
    P = Gaussian(H @ [0.25, 0.5, 0.0, 0.0], H @ np.diag(ratios) @ H / 4)
    Q = Gaussian(np.zeros(4), np.eye(4))
    # In the eigenbasis H/2 the mean is (0.5, 1, 0, 0).
    exact = QuadraticLoss([-1.0, 0.0, 0.0, 3.0], [0.5, 1.0, 0.0, 0.0], 1.0)
    for eps in (0.0, 1.0, 8.0):
        low, high = log_delta_bounds(P, Q, eps)
        slack = 1e-14 * max(1.0, abs(high))
        assert low - slack <= exact.log_delta_bounds(eps)[1]
        assert exact.log_delta_bounds(eps)[0] <= high + slack
        assert high - low < 1e-12


def test_bounds_of_nearly_equal_ratios() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 15))
    full = rows.T @ rows
    less = full - 0.5 * np.outer(rows[0], rows[0])
    less = 0.5 * (less + less.T)  # fourteen ratios within rounding of 1
    P, Q = Gaussian(rng.standard_normal(15) * 0.1, full), Gaussian(np.zeros(15), less)
    low, high = log_delta_bounds(P, Q, 1.0)
    assert high - low < 1e-12
    assert low - 1e-9 <= privacy_loss(P, Q).log_delta(1.0) <= high + 1e-9


def test_bounds_from_diagonals_and_of_equal_laws() -> None:
    P = Gaussian.from_diagonal([0.0, 0.3], [1.0, 2.0])
    Q = Gaussian.from_diagonal([0.1, 0.0], [1.5, 1.0])
    low, high = log_delta_bounds(P, Q, 0.2)
    assert low - 1e-13 <= privacy_loss(P, Q).log_delta(0.2) <= high + 1e-13
    assert high - low < 1e-12
    dense = Gaussian(P.mean, P.cov)
    for law in (P, dense):
        assert log_delta_bounds(law, law, 0.0) == (-math.inf, -math.inf)
        assert privacy_loss(law, law).delta_bounds(-1.0)[1] == pytest.approx(1 - math.exp(-1))
    moved = Gaussian(P.mean + 1.0, P.cov)
    distance = math.sqrt(1.0 + 0.5)
    low, high = log_delta_bounds(moved, dense, 1.0)
    assert low - 1e-12 <= QuadraticLoss.from_shift(distance).log_delta(1.0) <= high + 1e-12
