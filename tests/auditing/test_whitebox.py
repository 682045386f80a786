"""Audits from laws: planted bugs are refuted, sound mechanisms never."""

import functools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import planted
from laws import output_law
from ndis import (
    Gaussian,
    GaussianMechanism,
    PrivateCovariance,
    PrivateGraph,
    PrivateLeastSquares,
    PrivateLogisticRegression,
    PrivateProjection,
    Profile,
    QuadraticLoss,
    audit,
    audit_pair,
)
from ndis.auditing import Claim, audit_loss
from ndis.auditing.transcript import Difference
from ndis.auditing.verdict import PROVEN
from ndis.auditing.whitebox import chi_square_delta
from ndis.gaussian import log_delta_bounds, privacy_loss
from ndis.loss.least_squares import LeastSquaresLoss
from planted import CLAIM, COMPONENTS, DELTA, EPSILON, RIDGE, TABLE

BUGS = {
    "half the noise": planted.sketch(RIDGE / 4),
    "one per cent less noise": planted.sketch(0.99**2 * RIDGE),
    "e^-eps for e^eps": planted.sketch(planted.ridge_by(planted.wrong_exponent)),
    "the easy direction only": planted.sketch(planted.ridge_by(planted.easy_direction)),
    "the intercept forgotten in the norm": planted.sketch(RIDGE, intercept=True),
    "r components accounted as one": planted.sketch(planted.ridge_by(planted.one_component)),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_refuted_with_proof(bug: str) -> None:
    verdict = audit(BUGS[bug], TABLE, claim=CLAIM, data_norm=1.0, copies=COMPONENTS)
    assert verdict.refuted
    assert verdict.basis == PROVEN
    assert verdict.lower_bound > DELTA
    assert verdict.log_lower_bound <= verdict.log_delta
    assert "proven" in str(verdict)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_published_least_squares_bound_with_q_equal_p_is_refuted() -> None:
    law = planted.no_residual(n_features=2, n_components=50)
    assert audit(law, TABLE, claim=CLAIM, data_norm=1.0).refuted


def test_upper_bounds_refute_nothing() -> None:
    table = QuadraticLoss.from_shift(1.0)
    from ndis.loss import TabulatedLoss

    above = TabulatedLoss.from_profile(table.delta, table.delta, step=0.1, high=5.0)
    with pytest.raises(ValueError, match="cannot refute"):
        audit_loss(above, (1.0, 1e-6))


# -- sound mechanisms are never refuted --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_sound_estimators_are_not_refuted_on_data(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.uniform(-1, 1, (8, 3))
    epsilon, delta, r = rng.uniform(0.01, 5), 10 ** rng.uniform(-14, -1), int(rng.integers(2, 30))
    shared = {"epsilon": epsilon, "delta": delta, "data_norm": 1.5}
    projection = audit(PrivateProjection(n_components=r, **shared), table)
    assert projection.outcome == "consistent"
    assert projection.delta > 0.5 * delta
    covariance = audit(PrivateCovariance(**shared), table[:5])
    assert covariance.outcome == "consistent"
    assert covariance.delta > 0.5 * delta


def planned(model: PrivateLeastSquares, n_features: int) -> PrivateLeastSquares:
    """The same model with its noise given, so that an audit does not calibrate at every step."""
    return model.set_params(noise_scale=model.calibrate(n_features), epsilon=None)


@pytest.mark.slow
def test_sound_regression_is_not_refuted() -> None:
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-5, data_norm=1.0, label_bound=1.0, method="gaussian-limit",
        n_components=100, fit_intercept=False,
    )  # fmt: skip
    verdict = audit(planned(model, 2), (TABLE[:, :2], TABLE[:, 2]), (1.0, 1e-5))
    assert verdict.outcome == "consistent"
    assert verdict.delta > 0
    assert verdict.searched[0].startswith("all 12 rows of the table, left out")


@pytest.mark.slow
def test_sound_graph_is_not_refuted() -> None:
    graph = PrivateGraph(5, epsilon=1.0, delta=1e-6, method="sketch", n_components=30)
    empty = csr_array(np.zeros((5, 5)))
    verdict = audit(graph, empty, relation="edge")
    assert verdict.outcome == "consistent"
    assert verdict.delta == pytest.approx(1e-6, rel=1e-6)  # the empty graph is the worst case
    sold = audit(graph, empty, claim=(1.0, 1e-7), relation="edge")
    assert sold.refuted
    assert sold.basis == PROVEN


@pytest.mark.slow
def test_sound_additive_noise_is_not_refuted() -> None:
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    law = lambda table: output_law(mechanism, table.sum(axis=0))  # noqa: E731
    verdict = audit(law, np.eye(3), mechanism, data_norm=1.0)
    assert verdict.outcome == "consistent"
    assert verdict.delta > 0.99e-6


# -- data sets that are hard on a search -------------------------------------------------------


HARD = {
    "one row": TABLE[:1],
    "a row of zeros": np.zeros((1, 3)),
    "zeros": np.zeros((4, 3)),
    "duplicates": np.vstack([TABLE, TABLE]),
    "fewer rows than columns": TABLE[:2],
    "a constant column": np.column_stack([TABLE[:, :2], np.full(12, 0.5)]),
    "columns in other units": TABLE * [1.0, 1e-9, 1e-20],
    "each row alone in its direction": np.eye(3),
}


@functools.cache
def regression_of_two() -> PrivateLeastSquares:
    return planned(
        PrivateLeastSquares(
            epsilon=1.0, delta=1e-5, data_norm=1.0, label_bound=1.0, method="gaussian-limit",
            n_components=50, fit_intercept=False,
        ),
        2,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.xdist_group("hard tables")
@pytest.mark.parametrize("table", HARD.values(), ids=HARD)
def test_sound_mechanisms_are_consistent_on_hard_tables(table: np.ndarray) -> None:
    projection = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=20)
    verdict = audit(projection, table)
    assert verdict.outcome == "consistent"
    assert verdict.delta == pytest.approx(1e-6, rel=1e-2)
    labelled = (table[:, :2], table[:, 2])
    assert audit(regression_of_two(), labelled, (1.0, 1e-5)).outcome == "consistent"


@pytest.mark.slow
def test_units_change_nothing() -> None:
    verdicts = [
        audit(planted.sketch(0.0), TABLE * units, CLAIM) for units in ([1, 1, 1], [1e8, 1, 1e-12])
    ]
    assert verdicts[0].log_lower_bound == pytest.approx(verdicts[1].log_lower_bound, rel=1e-9)


def test_rounding_refutes_nobody() -> None:
    """A crowd in one direction hides the row of another but for rounding: the claim is tight."""
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(8):
        axes = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        table = np.vstack([np.tile(axes[0], (3000, 1)), axes[1]])
        mechanism = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=20)
        here, less = (output_law(mechanism, rows) for rows in (table, table[:-1]))
        above += log_delta_bounds(here, less, EPSILON, 20)[0] > math.log(DELTA) + 1e-12
        bound, _, _ = Difference(laws=[(here, less, 20)]).bound(Claim(*CLAIM))
        assert bound <= math.log(DELTA)
    assert not above  # sums are exact: a crowd cannot hide a row


@pytest.mark.slow
def test_neighbours_that_are_refused_are_counted() -> None:
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-6, data_norm=1.0, classes=(0, 1), method="posterior", max_rows=3
    )
    missed = audit(model, (TABLE[:3, :2], np.array([0, 1, 0]))).not_searched
    assert missed[-1] == "2 data sets that the mechanism refuses"

    def at_least_two(rows: np.ndarray) -> Gaussian:
        if len(rows) < 2:
            raise ValueError("too few")
        return planted.sketch(RIDGE)(rows)

    with pytest.raises(ValueError, match=r"refuses all that were tried \(too few\)"):
        audit(at_least_two, TABLE[:2], CLAIM)
    assert audit(at_least_two, TABLE[:2], CLAIM, universe=TABLE[2:3]).not_searched[-1] == (
        "2 data sets that the mechanism refuses"
    )


def test_wrong_calls_are_told() -> None:
    with pytest.raises(ValueError, match="relation to be one of"):
        audit(planted.sketch(1.0), TABLE, CLAIM, relation="item")
    with pytest.raises(ValueError, match="rows with 3 entries"):
        audit(planted.sketch(1.0), TABLE, CLAIM, universe=np.eye(2))
    with pytest.raises(ValueError, match="symmetric"):
        audit(planted.sketch(1.0), np.triu(np.ones((3, 3))), CLAIM, relation="edge")


def test_pairs_at_the_extremes() -> None:
    line = np.ones((2, 2))
    same = audit_pair(Gaussian([0, 0], np.eye(2)), Gaussian([0, 0], np.eye(2)), (1.0, 0.0))
    assert same.outcome == "consistent"
    on = audit_pair(Gaussian([0, 0], line), Gaussian([1, 1], line), (1.0, 0.1))
    assert on.refuted
    assert on.delta == pytest.approx(float(QuadraticLoss.from_shift(1.0).delta(1.0)))
    assert on.basis == PROVEN
    off = audit_pair(Gaussian([0, 0], line), Gaussian([0, 1], line), (50.0, 0.5))
    assert off.lower_bound == 1.0
    assert audit_pair(Gaussian([0], [[1]]), Gaussian([0], [[1e18]]), (1.0, 0.5)).lower_bound < 1
    assert audit_pair(Gaussian([0], [[2]]), Gaussian([0], [[1]]), (0.5 * math.log(2), 0.1)).refuted


# -- parts -------------------------------------------------------------------------------------


def test_removals_by_leverage_are_those_one_by_one() -> None:
    model = PrivateLeastSquares(
        epsilon=1.0,
        delta=1e-5,
        data_norm=1.0,
        label_bound=1.0,
        method="gaussian-limit",
        n_components=100,
    )
    table = np.random.default_rng(3).uniform(-0.5, 0.5, (20, 3))
    X, y = table[:, :-1], table[:, -1]
    fast = np.asarray(model.removal_losses(X, y).log_delta(0.1))
    here = output_law(model, X, y)
    lesser = (output_law(model, np.delete(X, i, 0), np.delete(y, i)) for i in range(20))
    slow = [float(privacy_loss(here, less).log_delta(0.1)) for less in lesser]
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def test_removal_losses_need_the_limit_law() -> None:
    with pytest.raises(ValueError, match="gaussian-limit"):
        PrivateLeastSquares(data_norm=1.0, label_bound=1.0).removal_losses(
            TABLE[:, :2], TABLE[:, 2]
        )


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


def test_a_claim_of_delta_zero_is_refuted_by_any_delta() -> None:
    assert audit_loss(QuadraticLoss.from_shift(0.1), (5.0, 0.0)).refuted
    narrower = QuadraticLoss(-0.1, 0.0, 1.0)
    assert audit_loss(Profile([narrower]), (5.0, 0.0)).outcome == "consistent"


def test_the_worst_case_of_least_squares_is_attained() -> None:
    loss = LeastSquaresLoss(8.0**-2, 2, 1269)
    assert audit_loss(loss, (1.0, 1 / 327_346)).refuted


def test_a_mechanism_has_a_law() -> None:
    with pytest.raises(TypeError, match="mean and covariance"):
        audit(3, TABLE, CLAIM)


def test_a_graph_of_the_auditors_own_is_a_matrix() -> None:
    def law(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(weights, np.ndarray)
        return np.zeros(3), np.diag(weights.sum(0)) + 10 * np.eye(3)

    assert audit(law, np.zeros((3, 3)), (1.0, 0.5), relation="edge").outcome == "consistent"


def test_a_loss_without_a_law_of_ten_digits_is_judged_by_its_bounds() -> None:
    """Of a private posterior: its loss is nearly a constant, and its law came out as NaN."""

    def law(means: list[float], corner: list[float], side: float) -> Gaussian:
        block = [[corner[0], side, 0.0], [side, corner[1], 0.0], [0.0, 0.0, 487857.9535791002]]
        return Gaussian([*means, 0.0], block)

    P = law(
        [1.928389700093425, 1.961027148339755],
        [487858.2850316021, 487858.3069002121],
        0.6486365497037945,
    )
    Q = law(
        [5.562188032321744, 5.656325784556979],
        [487859.48280894564, 487859.54556446295],
        1.8666857999109838,
    )
    epsilon = 0.06888181576523317
    assert math.isnan(chi_square_delta(privacy_loss(P, Q).reversed(), epsilon))
    verdict = audit_pair(P, Q, (epsilon, 1e-12))
    assert not verdict.refuted
    assert verdict.log_delta == pytest.approx(math.log(8.764e-24), abs=1e-3)
