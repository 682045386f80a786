"""Gaussian laws in any form, their privacy losses, simulated and proven from matrices."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis import Gaussian, QuadraticLoss, monte_carlo_delta, privacy_loss, profile
from ndis.gaussian import delta_bounds, log_delta_bounds


def random_pair(seed: int, d: int, mean: float = 1.0) -> tuple[Gaussian, Gaussian]:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 2 * d, d))
    return (
        Gaussian(mean * rng.standard_normal(d), a.T @ a / d),
        Gaussian(np.zeros(d), (a + 0.3 * b).T @ (a + 0.3 * b) / d),
    )


def test_every_form_of_a_covariance_gives_one_law() -> None:
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((3, 3))
    cov, mean = factor @ factor.T, [1.0, -2.0, 0.5]
    q = Gaussian(np.zeros(3), np.eye(3))
    expected = privacy_loss(Gaussian(mean, cov), q).log_delta(1.0)
    for law in (
        Gaussian.from_cholesky(mean, factor),
        Gaussian.from_precision(mean, np.linalg.inv(cov)),
    ):
        assert privacy_loss(law, q).log_delta(1.0) == pytest.approx(expected, rel=1e-10)
    diagonal = Gaussian.from_diagonal(mean, [1.0, 2.0, 3.0])
    dense = Gaussian(mean, np.diag([1.0, 2.0, 3.0]))
    assert privacy_loss(diagonal, Gaussian.isotropic(np.zeros(3), 1.0)).log_delta(
        2.0
    ) == pytest.approx(privacy_loss(dense, q).log_delta(2.0), rel=1e-12)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(-1, 5, width=32))
def test_delta_is_invariant_under_linear_maps(seed: int, d: int, eps: float) -> None:
    P, Q = random_pair(seed, d)
    A = np.random.default_rng(seed + 1).standard_normal((d, d)) + 3 * np.eye(d)
    moved = [Gaussian(A @ law.mean + 1.0, A @ law.cov @ A.T) for law in (P, Q)]
    expected = privacy_loss(P, Q).log_delta(eps)
    assert privacy_loss(*moved).log_delta(eps) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0, 4, width=32))
def test_loewner_order_and_marginals(seed: int, eps: float) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((6, 3))
    small = a.T @ a
    large = small + np.outer(a[0], a[0])
    wide, narrow = Gaussian(np.zeros(3), large), Gaussian(np.zeros(3), small)
    hard, easy = privacy_loss(wide, narrow), privacy_loss(narrow, wide)
    assert easy.log_delta(eps) <= hard.log_delta(eps) + 1e-11
    assert profile(narrow, wide).log_delta(eps) == pytest.approx(hard.log_delta(eps), rel=1e-9)
    part = privacy_loss(Gaussian(np.zeros(2), large[:2, :2]), Gaussian(np.zeros(2), small[:2, :2]))
    assert part.log_delta(eps) <= hard.log_delta(eps) + 1e-9


def test_a_removed_row_is_its_leverage() -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((30, 4))
    full = rows.T @ rows
    v = rows[0]
    p = float(v @ np.linalg.solve(full, v))
    loss = privacy_loss(Gaussian(np.zeros(4), full), Gaussian(np.zeros(4), full - np.outer(v, v)))
    expected = QuadraticLoss.from_leverage(p, 1)
    for eps in (0.0, 0.1, 1.0, 5.0):
        assert loss.log_delta(eps) == pytest.approx(expected.log_delta(eps), rel=1e-9)


def test_singular_covariances() -> None:
    line = np.array([[1.0, 1.0], [1.0, 1.0]])
    P, Q = Gaussian([0.0, 0.0], line), Gaussian([0.5, 0.5], 2.0 * line)
    one = privacy_loss(Gaussian([0.0], [[1.0]]), Gaussian([0.5], [[2.0]]))
    assert privacy_loss(P, Q).log_delta(0.3) == pytest.approx(one.log_delta(0.3), rel=1e-9)
    off_the_line = Gaussian([0.5, -0.5], line)
    other_line = Gaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]])
    whole_plane = Gaussian([0.0, 0.0], np.eye(2))
    for R in (off_the_line, other_line, whole_plane):
        assert privacy_loss(P, R).delta(100.0) == 1.0
        assert monte_carlo_delta(P, R, 1.0, 0.1, 0.1) == 1.0
    diagonal = Gaussian.from_diagonal([0.0, 1.0], [1.0, 0.0])
    assert privacy_loss(diagonal, Gaussian.from_diagonal([1.0, 1.0], [1.0, 0.0])).delta(
        1.0
    ) == pytest.approx(0.12693673750664397)
    assert log_delta_bounds(diagonal, Gaussian.from_diagonal([0.0, 0.0], [1.0, 0.0]), 5.0) == (0, 0)
    with pytest.raises(ValueError, match="full rank 2"):
        log_delta_bounds(P, Q, 1.0)


@pytest.mark.parametrize("small", [1e-3, 1e-9, 1e-20])
def test_delta_is_the_same_in_all_units(small: float) -> None:
    """A column in small units is not taken for a constant beside one in large units."""
    P, Q = random_pair(4, 3, 1.0)
    eps = 0.2
    units = np.diag([1e6, 1.0, small])
    P_units, Q_units = (Gaussian(units @ law.mean, units @ law.cov @ units) for law in (P, Q))
    expected = privacy_loss(P, Q).log_delta(eps)
    assert privacy_loss(P_units, Q_units).log_delta(eps) == pytest.approx(expected, rel=1e-9)
    low, high = log_delta_bounds(P_units, Q_units, eps)
    assert low == pytest.approx(expected, rel=1e-9)
    assert high == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("d", [1, 2, 6, 12])
def test_bounds_from_matrices_are_narrow_and_hold(d: int, mean: float) -> None:
    P, Q = random_pair(d, d, mean)
    loss = privacy_loss(P, Q)
    for eps in (0.0, 1.0, float(loss.epsilon(1e-10))):
        low, high = log_delta_bounds(P, Q, eps)
        assert high - low <= 1e-12 * max(1.0, abs(high))
        assert low - 1e-9 <= loss.log_delta(eps) <= high + 1e-9
    lower, upper = delta_bounds(P, Q, 0.5)
    assert 0 <= lower < upper <= 1


def test_bounds_from_matrices_against_an_exact_rational_pair() -> None:
    # H diag H / n with a Hadamard matrix is an exact double matrix with known eigenvectors.
    H = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=float)
    ratios = np.array([0.5, 1.0, 1.0, 4.0])
    P = Gaussian(H @ [0.25, 0.5, 0.0, 0.0], H @ np.diag(ratios) @ H / 4)
    Q = Gaussian(np.zeros(4), np.eye(4))
    # In the eigenbasis H/2 the mean is (0.5, 1, 0, 0).
    exact = QuadraticLoss.from_ratios(ratios, [0.5 / math.sqrt(0.5), 1.0, 0.0, 0.0])
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
        assert delta_bounds(law, law, -1.0)[1] == pytest.approx(1 - math.exp(-1))
    moved = Gaussian(P.mean + 1.0, P.cov)
    distance = math.sqrt(1.0 + 0.5)
    low, high = log_delta_bounds(moved, dense, 1.0)
    assert low - 1e-12 <= QuadraticLoss.from_shift(distance).log_delta(1.0) <= high + 1e-12


@pytest.mark.parametrize("eps", [0.0, 1.0])
def test_simulation_keeps_its_promise(eps: float) -> None:
    P, Q = random_pair(3, 3, 0.5)
    exact = privacy_loss(P, Q).delta(eps)
    for seed in range(5):
        estimate = monte_carlo_delta(P, Q, eps, alpha=0.005, gamma=1e-6, random_state=seed)
        assert abs(estimate - exact) <= 0.005
    again = monte_carlo_delta(P, Q, eps, alpha=0.005, gamma=1e-6, random_state=4)
    assert again == estimate


def test_samples_have_the_law() -> None:
    P, _ = random_pair(2, 3)
    draws = P.sample(200_000, np.random.default_rng(0))
    assert draws.mean(axis=0) == pytest.approx(P.mean, abs=0.03)
    assert np.cov(draws.T) == pytest.approx(P.cov, abs=0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
        (lambda: Gaussian([0.0, 0.0], np.eye(3)), "(3, 3)"),
        (lambda: Gaussian([math.nan], [[1.0]]), "mean to be finite"),
        (lambda: Gaussian([0.0], [[math.inf]]), "cov to be finite"),
        (lambda: Gaussian([], np.zeros((0, 0))), "non-empty"),
        (lambda: Gaussian("mean", [[1.0]]), "real numbers"),
        (lambda: Gaussian.from_diagonal([0.0], [-1.0]), "variances=-1.0"),
        (lambda: Gaussian.from_diagonal([0.0], [1.0, 2.0]), "(2,)"),
        (lambda: Gaussian.from_precision([0.0], [[0.0]]), "positive definite"),
        (lambda: Gaussian.from_cholesky([0.0, 0.0], np.ones((3, 2))), "(3, 2)"),
        (lambda: privacy_loss(Gaussian([0.0], [[1.0]]), random_pair(0, 2)[0]), "1 and 2"),
        (lambda: monte_carlo_delta(*random_pair(0, 2), 1.0, 0.0, 0.5), "alpha=0.0"),
        (lambda: monte_carlo_delta(*random_pair(0, 2), 1.0, 0.5, 1.0), "gamma=1.0"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    message = str(caught.value)
    assert words in message
    assert message.startswith("Expected")
    assert message.endswith(".")
