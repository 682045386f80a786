"""Gaussian laws in any form, their privacy losses, simulated and proven from matrices."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_pairs import outcome, terms_as_given, true_log_delta
from ndis import Gaussian, QuadraticLoss, audit_pair, monte_carlo_delta, privacy_loss, profile
from ndis.gaussian import log_delta_bounds
from ndis.loss import from_dict


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
    low, high = log_delta_bounds(P, Q, 0.3)
    assert low <= one.log_delta(0.3) <= high
    assert high - low < 1e-12


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
    lower, upper = loss.delta_bounds(0.5)
    assert 0 <= lower < upper <= 1


# -- directions that doubles do not resolve ----------------------------------------------------


def correlated(t: float, d: int) -> Gaussian:
    """Unit variances, correlations 1 - t: a sum of variance d, and d - 1 thin directions."""
    cov = np.full((d, d), 1.0 - t)
    np.fill_diagonal(cov, 1.0)
    return Gaussian(np.zeros(d), cov)


def smooth(nugget: float) -> Gaussian:
    x = np.linspace(0.0, 1.0, 60)
    gram = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.3**2)
    return Gaussian(np.zeros(60), gram + nugget * np.eye(60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("P", "Q", "delta"),
    [
        (correlated(2.0**-48, 2), correlated(2.0**-50, 2), 0.19671088169144),
        (correlated(2.0**-46, 2), correlated(2.0**-48, 2), 0.19671088169144),
        (correlated(4e-10, 21), correlated(1e-10, 21), 0.95470019662003),
        (smooth(4e-13), smooth(1e-13), 0.998106),
    ],
    ids=["2^-48", "2^-46", "twenty", "kernel"],
)
def test_thin_directions_are_seen(P: Gaussian, Q: Gaussian, delta: float) -> None:
    loss = privacy_loss(P, Q)
    low, high = loss.delta_bounds(1.0)
    assert low <= loss.delta(1.0) <= high
    assert loss.delta(1.0) == pytest.approx(delta, rel=1e-5)
    assert high - low < 1e-9
    assert abs(monte_carlo_delta(P, Q, 1.0, 0.02, 1e-6, random_state=0) - delta) < 0.02
    assert audit_pair(P, Q, (1.0, 0.999 * delta)).refuted
    assert audit_pair(P, Q, (1.0, 1.001 * delta)).outcome == "consistent"


@pytest.mark.slow
def test_five_hundred_thin_directions_are_seen() -> None:
    loss = privacy_loss(correlated(4e-10, 500), correlated(1e-10, 500))
    low, high = loss.delta_bounds(1.0)
    assert 0.999999 < low <= high == 1.0


def test_a_mean_just_beside_the_support_is_seen() -> None:
    line = np.array([[1.0, 1.0], [1.0, 1.0]])
    here, beside = Gaussian([0.0, 0.0], line), Gaussian([1.0, 1.0 + 1e-13], line)
    assert privacy_loss(here, beside).delta_bounds(5.0) == (1.0, 1.0)
    assert monte_carlo_delta(here, beside, 1.0, 0.1, 0.1) == 1.0


def test_low_rank_is_exact_for_factors_and_refused_for_rounded_products() -> None:
    A = np.random.default_rng(3).standard_normal((4, 2))
    P, Q = (Gaussian.from_cholesky(np.zeros(4), scale * A) for scale in (2.0, 1.0))
    plane = QuadraticLoss([3.0], 0.0, 2.0)
    low, high = privacy_loss(P, Q).log_delta_bounds(1.0)
    assert low <= plane.log_delta(1.0) <= high
    assert np.abs(np.cross(*P.sample(2, np.random.default_rng(0)) @ np.eye(4, 3))).any()
    rounded = [Gaussian(law.mean, law.cov) for law in (P, Q)]
    for ask in (privacy_loss, lambda P, Q: monte_carlo_delta(P, Q, 1.0, 0.1, 0.1)):
        with pytest.raises(ValueError, match="add a ridge") as caught:
            ask(*rounded)
        assert str(caught.value).startswith("Expected")


def test_a_precision_is_not_rounded_to_a_covariance() -> None:
    P, Q = correlated(1e-9, 4), correlated(4e-9, 4)
    given = [Gaussian.from_precision(law.mean, law.cov) for law in (P, Q)]
    low, high = privacy_loss(*given).log_delta_bounds(1.0)
    truth = true_log_delta(terms_as_given(Q, P), 1.0)  # of precisions: the inverse ratios
    assert low <= truth <= high
    assert high - low < 1e-11


@pytest.mark.slow
def test_errors_go_where_a_loss_goes() -> None:
    P, Q = random_pair(8, 4)
    loss = privacy_loss(P, Q)
    terms = terms_as_given(P, Q)
    assert isinstance(terms, list)
    ways = [
        (3 * loss, [term.repeated(3) for term in terms]),
        (loss + loss, [term.repeated(2) for term in terms]),
        (loss.reversed(), [term.reversed() for term in terms]),
        (from_dict(loss.to_dict()), terms),
        (loss + QuadraticLoss.from_shift(0.0), terms),
    ]
    for way, meant in ways:
        for eps in (0.3, 5.0):
            low, high = way.log_delta_bounds(eps)
            assert low <= true_log_delta(meant, eps) <= high
            assert 0 < high - low < 1e-9


@pytest.mark.slow
def test_delta_of_random_dense_pairs_is_that_of_the_matrices_as_given() -> None:
    """A share of benchmarks/check_dense.py, which tries a thousand."""
    found = [outcome(number) for number in range(30)]
    assert not [result for result in found if result[1] not in ("inside", "refused, rightly")]
    assert sum(word == "inside" for _, word in found) > 24


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


@pytest.mark.parametrize("condition", [5e5, 5e7])
def test_delta_of_an_ill_conditioned_pair_has_its_digits(condition: float) -> None:
    """It said "exact" and had 8 to 11 digits: doubles are left where they cost any."""
    rng = np.random.default_rng(4)
    for _ in range(3):
        basis, _ = np.linalg.qr(rng.standard_normal((6, 6)))
        values = np.geomspace(1.0, 1.0 / condition, 6)
        first, second = values, values * np.exp(rng.uniform(-0.3, 0.3, 6))
        P, Q = ((basis * v) @ basis.T for v in (first, second))
        mean = basis @ (0.1 * np.sqrt(values))
        pair = Gaussian(mean, 0.5 * (P + P.T)), Gaussian(np.zeros(6), 0.5 * (Q + Q.T))
        low, high = log_delta_bounds(*pair, 0.5)
        assert low - 1e-12 <= float(privacy_loss(*pair).log_delta(0.5)) <= high + 1e-12
