"""Audits from laws: planted bugs are refuted, sound mechanisms never."""

import math

import numpy as np
import pytest
from tests.auditing import planted
from tests.auditing.planted import COMPONENTS, DELTA, EPSILON, RIDGE

from ndis import (
    Gaussian,
    GaussianMechanism,
    PrivateCovariance,
    PrivateGraph,
    PrivateLeastSquares,
    PrivateProjection,
    Profile,
    QuadraticLoss,
    RankOneGaussianMechanism,
    audit,
    audit_pair,
)
from ndis.auditing import Claim, audit_loss
from ndis.auditing.verdict import FLOATING, PROVEN
from ndis.auditing.whitebox import _highest, chi_square_delta
from ndis.gaussian import log_delta_bounds, privacy_loss
from ndis.loss.least_squares import LeastSquaresLoss
from ndis.mechanisms.regression_methods import ridged_law

CLAIM = (EPSILON, DELTA)
TABLE = np.random.default_rng(0).uniform(-0.5, 0.5, (12, 3))

BUGS = {
    "half the noise": planted.sketch(RIDGE / 4),
    "one per cent less noise": planted.sketch(0.99**2 * RIDGE),
    "e^-eps for e^eps": planted.sketch(planted.ridge_by(planted.wrong_exponent)),
    "the easy direction only": planted.sketch(planted.ridge_by(planted.easy_direction)),
    "the intercept forgotten in the norm": planted.sketch(RIDGE, intercept=True),
    "r components accounted as one": planted.sketch(planted.ridge_by(planted.one_component)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_refuted_with_proof(bug: str) -> None:
    verdict = audit(BUGS[bug], TABLE, claim=CLAIM, data_norm=1.0, copies=COMPONENTS)
    assert verdict.refuted
    assert verdict.basis == PROVEN
    assert verdict.lower_bound > DELTA
    low, high = log_delta_bounds(*verdict.pair, EPSILON, copies=COMPONENTS)
    assert low == verdict.log_lower_bound <= high
    assert "proven" in str(verdict)


def test_the_same_without_a_bug_is_consistent() -> None:
    verdict = audit(planted.sketch(RIDGE), TABLE, claim=CLAIM, data_norm=1.0, copies=COMPONENTS)
    assert verdict.outcome == "consistent"
    assert verdict.delta == pytest.approx(DELTA, rel=1e-2)  # the search finds the worst case


def test_replace_one_sold_as_add_remove_is_refuted() -> None:
    rows = np.eye(3)
    honest = audit(planted.noisy_mean, rows, CLAIM, data_norm=1.0)
    assert honest.outcome == "consistent"
    sold = audit(planted.noisy_mean, rows, CLAIM, relation="replace", universe=-rows)
    assert sold.refuted
    assert sold.worst[0].row is not None


def test_the_published_least_squares_bound_with_q_equal_p_is_refuted() -> None:
    law = planted.no_residual(n_features=2, n_components=50)
    assert audit(law, TABLE, claim=CLAIM, data_norm=1.0).refuted


def test_published_least_squares_rule_is_refuted_for_a_small_sketch() -> None:
    model = PrivateLeastSquares(
        epsilon=0.1, delta=1e-6, data_norm=1.0, method="gaussian-limit",
        n_components=1, calibration="published", fit_intercept=False,
    )  # fmt: skip
    ridge = model.calibrate(1) ** 2
    verdict = audit(
        lambda t: ridged_law(t.T @ t, ridge, 1), np.zeros((1, 2)), (0.1, 1e-6), data_norm=1.0
    )
    assert verdict.refuted
    assert verdict.lower_bound > 5e-5


@pytest.mark.parametrize(
    ("dimension", "epsilon", "least"), [(7921, 1e-5, 0.21), (5_760_000, 1.6e-7, 0.47)]
)
def test_the_rank_one_mechanism_is_refuted(dimension: int, epsilon: float, least: float) -> None:
    mechanism = RankOneGaussianMechanism(epsilon, 1e-7, math.sqrt(2))
    verdict = audit_loss(mechanism.loss((dimension,)), (epsilon, 1e-7))
    assert verdict.refuted
    assert verdict.lower_bound >= least


def test_upper_bounds_refute_nothing() -> None:
    table = QuadraticLoss.from_shift(1.0)
    from ndis.loss import TabulatedLoss

    above = TabulatedLoss.from_profile(table.delta, table.delta, step=0.1, high=5.0)
    with pytest.raises(TypeError, match="cannot refute"):
        audit_loss(above, (1.0, 1e-6))


# -- sound mechanisms are never refuted --------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_sound_estimators_are_not_refuted_on_data(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.uniform(-1, 1, (8, 3))
    epsilon, delta, r = rng.uniform(0.01, 5), 10 ** rng.uniform(-14, -1), int(rng.integers(2, 30))
    shared = {"epsilon": epsilon, "delta": delta, "data_norm": 1.5}
    projection = audit(PrivateProjection(n_components=r, **shared), table)
    assert projection.outcome == "consistent"
    assert projection.delta > 0.5 * delta
    covariance = PrivateCovariance(n_components=r, relation="add-remove", **shared)
    assert audit(covariance, table[:5]).outcome == "consistent"


def test_sound_regression_is_not_refuted_and_comes_close() -> None:
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-5, data_norm=1.0, method="gaussian-limit",
        n_components=100, fit_intercept=False,
    )  # fmt: skip
    verdict = audit(model, TABLE)
    assert verdict.outcome == "consistent"
    assert verdict.delta > 0.2e-5
    assert "all 12 removals" in verdict.searched


def test_sound_graph_is_not_refuted_and_its_floating_step_is_told() -> None:
    graph = PrivateGraph(epsilon=1.0, delta=1e-6, n_components=30)
    verdict = audit(graph, np.zeros((5, 5)), relation="edge")
    assert verdict.outcome == "consistent"
    assert verdict.delta == pytest.approx(1e-6, rel=1e-6)  # the empty graph is the worst case
    assert verdict.basis == FLOATING
    broken = audit(graph, np.zeros((5, 5)), claim=(1.0, 1e-7), relation="edge")
    assert broken.refuted
    assert "floating point" in str(broken)


def test_sound_additive_noise_is_not_refuted() -> None:
    mechanism = GaussianMechanism(1.0, 1e-6, 1.0)
    law = lambda table: mechanism.output_law(table.sum(axis=0))  # noqa: E731
    verdict = audit(law, np.eye(3), mechanism, data_norm=1.0)
    assert verdict.outcome == "consistent"
    assert verdict.delta > 0.99e-6


# -- parts -------------------------------------------------------------------------------------


def test_removals_by_leverage_are_those_one_by_one() -> None:
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-5, data_norm=1.0, method="gaussian-limit", n_components=100
    )
    table = np.random.default_rng(3).uniform(-0.5, 0.5, (20, 3))
    X, y = table[:, :-1], table[:, -1]
    fast = np.asarray(model.removal_losses(X, y).log_delta(0.1))
    here = model.output_law(X, y)
    slow = [
        float(
            privacy_loss(here, model.output_law(np.delete(X, i, 0), np.delete(y, i))).log_delta(0.1)
        )
        for i in range(20)
    ]
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def test_removal_losses_need_the_limit_law() -> None:
    with pytest.raises(ValueError, match="gaussian-limit"):
        PrivateLeastSquares(data_norm=1.0).removal_losses(TABLE[:, :2], TABLE[:, 2])


def test_bounds_leave_no_row_out() -> None:
    p = np.random.default_rng(4).uniform(0.0, 0.2, 9000)
    losses = QuadraticLoss.from_leverage(p, 50)
    rows, heights = _highest(losses, 1.0)
    assert rows.tolist() == np.argsort(-p)[:10].tolist()
    np.testing.assert_allclose(heights, losses[rows].log_delta(1.0))


def test_copies_are_enclosed_like_one_long_vector() -> None:
    rng = np.random.default_rng(5)
    D, mean = rng.standard_normal((9, 3)), rng.standard_normal(3) / 5
    S1, S2 = D.T @ D, D[1:].T @ D[1:]
    short = log_delta_bounds(Gaussian(mean, S1), Gaussian(0 * mean, S2), 0.5, copies=3)
    long = log_delta_bounds(
        Gaussian(np.tile(mean, 3), np.kron(np.eye(3), S1)),
        Gaussian(np.zeros(9), np.kron(np.eye(3), S2)),
        0.5,
    )
    assert max(short[0], long[0]) <= min(short[1], long[1])
    assert short[1] - short[0] < 1e-12


def test_two_routes_agree_on_random_pairs() -> None:
    rng = np.random.default_rng(6)
    for d in (1, 2, 3):
        P, Q = (Gaussian(rng.normal(size=d), np.eye(d) * rng.uniform(0.5, 2)) for _ in range(2))
        loss = privacy_loss(P, Q)
        assert chi_square_delta(loss, 0.3) == pytest.approx(float(loss.delta(0.3)), abs=1e-9)
        assert audit_pair(P, Q, (0.3, 1.0)).outcome == "consistent"


def test_a_verdict_names_nobody_and_is_not_a_truth_value() -> None:
    verdict = audit(planted.sketch(RIDGE / 4), TABLE, CLAIM, copies=COMPONENTS)
    assert "row" not in verdict.to_dict()["worst_log_deltas"]
    assert len(verdict.worst) == 10
    assert all(
        a.log_delta >= b.log_delta for a, b in zip(verdict.worst, verdict.worst[1:], strict=False)
    )
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(verdict)


def test_a_claim_of_delta_zero_is_refuted_by_any_delta() -> None:
    assert audit_loss(QuadraticLoss.from_shift(0.1), (5.0, 0.0)).refuted
    narrower = QuadraticLoss(-0.1, 0.0, 1.0)
    assert audit_loss(Profile([narrower]), (5.0, 0.0)).outcome == "consistent"


def test_the_worst_case_of_least_squares_is_attained() -> None:
    loss = LeastSquaresLoss(8.0**-2, 2, 1269)
    assert audit_loss(loss, (1.0, 1 / 327_346)).refuted


@pytest.mark.parametrize("claim", [None, 1.0, (1.0,), "strong"])
def test_a_claim_is_two_numbers(claim: object) -> None:
    with pytest.raises(TypeError, match="two numbers"):
        Claim.of(claim)


def test_a_mechanism_has_a_law() -> None:
    with pytest.raises(TypeError, match="mean and covariance"):
        audit(3, TABLE, CLAIM)


def test_a_graph_of_the_auditors_own_is_a_matrix() -> None:
    def law(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(weights, np.ndarray)
        return np.zeros(3), np.diag(weights.sum(0)) + 10 * np.eye(3)

    assert audit(law, np.zeros((3, 3)), (1.0, 0.5), relation="edge").outcome == "consistent"
