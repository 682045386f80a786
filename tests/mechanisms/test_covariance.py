import math

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from ndis import BudgetExceeded, Gaussian, Ledger, PrivateCovariance, Release, privacy_loss
from ndis.calibration import meets, noise_multiplier
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.covariance import RowShift, read_moments
from ndis.mechanisms.covariance_sketch import CovarianceSketch
from ndis.mechanisms.query_baselines import analyze_gauss
from ndis.tables import Rows
from samplers import LEVEL, accepts_gaussian, accepts_law, accepts_scale

EPSILON, DELTA = 1.0, 1e-6
EPSILONS = np.array([0.0, 0.2, 1.0, 3.0])


def private(**changes):
    parameters = {"epsilon": EPSILON, "delta": DELTA, "n_components": 50, "random_state": 7}
    return PrivateCovariance(**(parameters | changes))


def both_directions(first, second, r: int) -> Profile:
    """The explicit pair of d x d laws, without the rounding errors of equal variances."""
    excess = privacy_loss(first, second).excess
    return Profile.both(QuadraticLoss(excess[np.abs(excess) > 1e-12], 0.0, r))


def rank_one_pair(u, u_moved, r: int) -> Profile:
    """A row u that moves, after whitening by all else."""
    d = len(u)
    laws = [Gaussian(np.zeros(d), np.eye(d) + np.outer(row, row)) for row in (u, u_moved)]
    return both_directions(*laws, r)


# --- calibration ---------------------------------------------------------------------------------


def test_a_weight_and_what_a_bound_on_the_rows_saves() -> None:
    free = private(n_components=738).calibrate()
    assert free == pytest.approx(115.4, abs=0.05)
    bounded = [private(n_components=738, data_norm=norm).calibrate() for norm in (1.0, 30.0, 1e9)]
    assert bounded[0] < 0.3 * free
    assert bounded[0] < bounded[1] <= bounded[2] == free


@pytest.mark.parametrize(("epsilon", "r"), [(0.0, 50), (0.1, 1), (1.0, 50), (10.0, 1)])
@pytest.mark.parametrize(
    "how",
    [
        {"relation": "row-shift"},
        {"relation": "row-shift", "data_norm": 2.0},
        {"relation": "add-remove", "data_norm": 3.0},
        {"relation": "add-remove", "data_norm": 3.0, "mean": True},
    ],
)
def test_noise_is_private_and_the_least(epsilon, r, how) -> None:
    estimator = private(epsilon=epsilon, n_components=r, **how)
    assert meets(estimator.worst_case(), epsilon, DELTA)
    family, weight = estimator._family(), 0.999 * estimator.calibrate()
    sketch = family.loss(weight, r)
    if how.get("mean"):
        sketch = sketch + QuadraticLoss.from_shift(
            math.sqrt(0.1) / noise_multiplier(epsilon, DELTA)
        )
    assert Profile.both(sketch).log_delta(epsilon) > math.log(DELTA)


def test_noise_scales_with_the_rows_under_add_remove() -> None:
    one, five = (private(relation="add-remove", data_norm=norm).calibrate() for norm in (1.0, 5.0))
    assert five == pytest.approx(5 * one, rel=1e-12)


# --- worst case ----------------------------------------------------------------------------------


def test_no_shift_of_any_row_is_worse() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        w, d, r = 10 ** rng.uniform(-0.5, 2), int(rng.integers(1, 8)), int(rng.integers(1, 6))
        u = rng.standard_normal(d) * 10 ** rng.uniform(-2, 2)
        v = rng.standard_normal(d)
        v *= rng.random() ** 0.2 / (w * np.linalg.norm(v))
        pair, worst = rank_one_pair(u, u + v, r), Profile.both(RowShift().loss(w, r))
        assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)


@pytest.mark.parametrize(("w", "r", "epsilon"), [(2.0, 1, 0.5), (3.0, 4, 1.0), (20.0, 8, 0.1)])
def test_an_adversary_comes_near_the_worst_case_and_not_beyond(w, r, epsilon) -> None:
    worst = float(Profile.both(RowShift().loss(w, r)).log_delta(epsilon))

    def advantage(choice):
        length, angle, share = choice
        reach = 1.0 / (1.0 + math.exp(-share)) / w
        v = reach * np.array([math.cos(angle), math.sin(angle)])
        u = np.array([math.exp(length), 0.0])
        return -float(rank_one_pair(u, u + v, r).log_delta(epsilon))

    starts = [(0.0, 0.1, 0.0), (2.0, 1.0, 1.0), (5.0, 1.5, 6.0)]
    found = [
        optimize.minimize(advantage, start, method="Nelder-Mead", options={"maxfev": 90}).fun
        for start in starts
    ]
    assert -min(found) <= worst + 1e-9
    assert -min(found) > worst - 0.05


def test_the_supremum_is_a_long_row_that_turns() -> None:
    w, r = 3.0, 4
    u = np.array([1e4, 0.0])
    pair = rank_one_pair(u, u + np.array([0.0, 1 / w]), r)
    worst = Profile.both(RowShift().loss(w, r))
    assert pair.log_delta(EPSILONS) == pytest.approx(worst.log_delta(EPSILONS), abs=1e-4)


def test_short_rows_are_never_worse_than_the_bound_for_them() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        w, norm, r = 10 ** rng.uniform(-0.5, 2), 10 ** rng.uniform(-1, 1), int(rng.integers(1, 6))
        # Centred rows are as long as 2 norm; after whitening, 2 norm / w.
        u = rng.standard_normal(3)
        u *= 2 * norm / w * rng.random() ** 0.1 / np.linalg.norm(u)
        v = rng.standard_normal(3)
        moved = u + v / (w * np.linalg.norm(v))
        moved *= min(1.0, 2 * norm / w / np.linalg.norm(moved))  # a contraction
        worst = Profile.both(RowShift(norm).loss(w, r))
        pair = rank_one_pair(u, moved, r)
        assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)
        any_row = Profile.both(RowShift().loss(w, r))
        assert np.all(worst.log_delta(EPSILONS) <= any_row.log_delta(EPSILONS) + 1e-9)


def test_tables_whose_rows_move() -> None:
    rng = np.random.default_rng(2)
    estimator = private(n_components=3)
    worst = estimator.worst_case()
    for n_rows in (1, 2, 3, 20):
        table = rng.standard_normal((n_rows, 4)) * 10 ** rng.uniform(-1, 3)
        moved = table.copy()
        v = rng.standard_normal(4)
        moved[0] += v / np.linalg.norm(v)
        pair = both_directions(estimator.output_law(table), estimator.output_law(moved), 3)
        assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)


def test_centring_doubles_the_norm_under_add_remove() -> None:
    estimator = private(n_components=3, relation="add-remove", data_norm=2.0)
    far = np.array([[-2.0, 0.0]] * 1000 + [[2.0, 0.0]])
    laws = [estimator.output_law(table) for table in (far, far[:-1])]
    pair, worst = both_directions(*laws, 3), estimator.worst_case()
    assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS))
    assert pair.log_delta(EPSILON) == pytest.approx(math.log(DELTA), abs=0.05)
    # Noise for the norm alone, as if centring had no effect, is not private.
    half = 0.5 * estimator.calibrate()
    laws = [Gaussian(np.zeros(2), law.cov + (half**2 - 4 * half**2) * np.eye(2)) for law in laws]
    assert both_directions(*laws, 3).log_delta(EPSILON) > math.log(DELTA) + 2.0


def test_tables_that_lose_a_row() -> None:
    rng = np.random.default_rng(3)
    estimator = private(n_components=3, relation="add-remove", data_norm=2.0)
    worst = estimator.worst_case()
    for n_rows in (2, 3, 30):
        table = rng.standard_normal((n_rows, 4)) * 3
        laws = [estimator.output_law(part) for part in (table, table[1:])]
        pair = both_directions(*laws, 3)
        assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)


# --- sampling ------------------------------------------------------------------------------------


def test_moments_survive_a_large_mean() -> None:
    rng = np.random.default_rng(4)
    small = rng.standard_normal((20_000, 3))
    moments = read_moments(small + 1e8, Rows(["a", "b", "c"]))
    # Rounding of the shifted table itself is some 1e-8.
    np.testing.assert_allclose(moments.scatter, np.cov(small.T) * 19_999, rtol=1e-6, atol=1e-2)
    np.testing.assert_allclose(moments.sums, small.sum(axis=0) + 2e12, rtol=1e-12)
    assert moments.n_rows == 20_000


def test_columns_follow_the_stated_law() -> None:
    table = np.random.default_rng(5).standard_normal((40, 3)) @ np.diag([1.0, 20.0, 60.0])
    estimator = private(n_components=4000).fit(table)
    sample = estimator.sketch_.matrix.T
    law = estimator.output_law(table)
    centred = table - table.mean(axis=0)
    np.testing.assert_allclose(
        law.cov, centred.T @ centred + estimator.noise_scale_**2 * np.eye(3), rtol=1e-12
    )
    assert accepts_gaussian(sample, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(sample, law.mean, 1.1 * law.cov, LEVEL)


def test_scatter_is_a_shifted_chi_square() -> None:
    table = np.random.default_rng(6).standard_normal((500, 2)) * 4
    estimator = private(n_components=2000).fit(table)
    whole, x, r = estimator.sketch_.matrix, np.array([0.6, 0.8]), 4
    parts = [
        CovarianceSketch(m, ("a", "b"), estimator.noise_scale_) for m in np.split(whole, 500, 1)
    ]
    truth = 500 * np.var(table @ x)
    drawn = np.array([float(part.scatter(x).value) for part in parts])
    added = estimator.noise_scale_**2
    ratios = (drawn + added) / (truth + added) * r
    assert accepts_law(ratios, stats.chi2(r).cdf, LEVEL)
    assert not accepts_law(1.2 * ratios, stats.chi2(r).cdf, LEVEL)
    assert estimator.forecast(truth) == pytest.approx(np.std(drawn) / math.sqrt(500), rel=0.2)


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {"relation": "row-shift"},
        {"relation": "row-shift", "data_norm": 6.0},
        {"relation": "add-remove", "data_norm": 6.0},
    ],
)
def test_promise_on_a_real_table(how) -> None:
    eta, nu = 0.2, 0.05
    table = load_breast_cancer().data
    table = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    directions = np.random.default_rng(8).standard_normal((1000, 30))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    estimator = private(n_components=738, **how).fit(table)
    value, error = estimator.scatter(directions)
    truth = len(table) * np.var(table @ directions.T, axis=0)
    tau = eta * estimator.noise_scale_**2
    missed = (value < (1 - eta) * truth - tau) | (value > (1 + eta) * truth + tau)
    assert np.mean(missed) <= nu
    assert np.mean(np.abs(value - truth) < 3 * error) > 0.95


@pytest.mark.parametrize("relation", ["row-shift", "add-remove"])
def test_mean_is_released_under_the_same_guarantee(relation) -> None:
    table = np.random.default_rng(9).uniform(0, 1, (20_000, 3))
    estimator = private(relation=relation, data_norm=2.0, mean=True, n_components=400).fit(table)
    assert meets(estimator.guarantee_.loss, EPSILON, DELTA)
    value, error = estimator.sketch_.mean()
    assert np.all(error < 0.01)
    assert np.all(np.abs(value - table.mean(axis=0)) < 4 * error)
    assert np.array_equal(estimator.mean_, value)
    spread, spread_error = estimator.variance(np.eye(3))
    assert np.all(np.abs(spread - table.var(axis=0)) < 4 * spread_error)
    moved = table.copy()
    moved[0] += 1.0 / math.sqrt(3.0)
    neighbour = moved if relation == "row-shift" else table[1:]
    mean_loss = privacy_loss(estimator.mean_law(table), estimator.mean_law(neighbour))
    sketch = privacy_loss(estimator.output_law(table), estimator.output_law(neighbour))
    kept = np.abs(sketch.excess) > 1e-12
    pair = QuadraticLoss(sketch.excess[kept], 0.0, 400) + mean_loss
    assert np.all(
        Profile.both(pair).log_delta(EPSILONS) <= estimator.worst_case().log_delta(EPSILONS) + 1e-9
    )


def test_worst_case_of_the_sums_is_attained() -> None:
    estimator = private(relation="add-remove", data_norm=2.0, mean=True)
    table = np.array([[0.0, 0.0], [0.0, 2.0]])
    laws = [estimator.mean_law(part) for part in (table, table[:1])]
    d = math.sqrt(0.1) / noise_multiplier(EPSILON, DELTA)
    assert privacy_loss(*laws).log_delta(EPSILON) == pytest.approx(
        QuadraticLoss.from_shift(d).log_delta(EPSILON), rel=1e-9
    )


def test_row_count_stays_private_unless_declared() -> None:
    table = np.random.default_rng(10).uniform(-1, 1, (1000, 2))
    secret = private(relation="add-remove", data_norm=2.0).fit(table)
    assert secret.release_.parameters["n_rows"] is None
    assert "1000" not in str(secret.release_.certificate())
    assert secret.scatter([1.0, 0.0]).value.shape == ()
    with pytest.raises(ValueError, match="keeps it private"):
        secret.variance([1.0, 0.0])
    declared = private(relation="add-remove", data_norm=2.0, n_rows=1000).fit(table)
    assert declared.variance([1.0, 0.0]).value == declared.scatter([1.0, 0.0]).value / 1000
    with pytest.raises(ValueError, match="Expected a table of 999 rows"):
        private(n_rows=999).fit(table)
    few = private(relation="add-remove", data_norm=2.0, mean=True).fit(table[:2])
    with pytest.raises(ValueError, match="stands out from its noise"):
        few.sketch_.mean()


def test_scatter_matrix_holds_the_directional_scatters() -> None:
    estimator = private().fit(np.random.default_rng(11).standard_normal((100, 4)))
    matrix, error = estimator.scatter_matrix()
    value, spread = estimator.scatter(np.eye(4))
    np.testing.assert_allclose(np.diag(matrix), value)
    np.testing.assert_allclose(np.diag(error), spread)


def test_principal_components_come_with_the_warning() -> None:
    table = np.random.default_rng(12).standard_normal((50_000, 3)) @ np.diag([1.0, 1.0, 5.0])
    estimator = private(n_components=1000).fit(table)
    with pytest.warns(UserWarning, match="as the paper says"):
        components, moments = estimator.principal_components(1)
    assert abs(components.value[0, 2]) > 0.99
    assert abs(moments.value[0] - 25 * 50_000) < 4 * moments.standard_error[0]


def test_the_public_reads_the_same_from_the_file(tmp_path) -> None:
    table = np.random.default_rng(13).uniform(-1, 1, (1000, 3))
    estimator = private(relation="add-remove", data_norm=2.0, mean=True).fit(table)
    path = estimator.release_.save(tmp_path / "covariance.npz")
    sketch = CovarianceSketch.load(path)
    assert np.array_equal(sketch.mean().value, estimator.mean_)
    assert sketch.variance([1, 0, 0]) == estimator.variance([1, 0, 0])
    assert Release.load(path).guarantee.loss == estimator.worst_case()


def test_fits_like_an_estimator_and_spends_from_a_ledger(tmp_path) -> None:
    table = np.random.default_rng(14).standard_normal((30, 2))
    with Ledger.create(
        tmp_path / "budget.ndis", 1.5, 1e-5, "row-shift", accept=["seeded"]
    ) as ledger:
        private(ledger=ledger).fit(table)
        with pytest.raises(BudgetExceeded):
            private(ledger=ledger, epsilon=1.4).fit(table)
    copy = clone(private())
    assert np.array_equal(copy.fit(table).sketch_.matrix, private().fit(table).sketch_.matrix)
    assert "moving any one row" in copy._repr_html_()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relation": "add-remove"}, "Expected data_norm"),
        ({"relation": "replace"}, "relation to be one of"),
        ({"n_components": 0}, "n_components >= 1"),
        ({"mean": True, "mean_share": 1.0}, "mean_share"),
        ({"delta": 0.0}, "0 < delta < 1"),
    ],
)
def test_bad_parameters(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        private(**changes).calibrate()


def test_bad_questions() -> None:
    estimator = private()
    with pytest.raises(ValueError, match="fitted PrivateCovariance"):
        estimator.scatter([1.0])
    estimator.fit(np.eye(3))
    with pytest.raises(ValueError, match="Expected directions with 3 entries"):
        estimator.scatter([1.0, 2.0])
    with pytest.raises(ValueError, match="release with a mean"):
        estimator.sketch_.mean()
    with pytest.raises(ValueError, match="release with a mean"):
        estimator.mean_law(np.eye(3))
    with pytest.raises(ValueError, match="The table has no rows"):
        private().fit(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="missing or infinite"):
        private().fit(np.array([[1.0, math.nan]]))
    with pytest.raises(ValueError, match="Expected a release of PrivateCovariance"):
        CovarianceSketch.from_release(
            analyze_gauss(np.eye(2), epsilon=1.0, delta=1e-6, data_norm=1.0, random_state=0)
        )


# --- baseline ------------------------------------------------------------------------------------


def test_analyze_gauss() -> None:
    table = np.random.default_rng(15).uniform(-1, 1, (300, 40))
    release = analyze_gauss(table, epsilon=EPSILON, delta=DELTA, data_norm=8.0, random_state=0)
    scale = release.parameters["noise_scale"]
    noise = release.value - 299 * np.cov(table.T)
    above = noise[np.triu_indices(40, 1)]
    assert accepts_scale(above, scale / math.sqrt(2), LEVEL)
    assert not accepts_scale(1.2 * above, scale / math.sqrt(2), LEVEL)
    assert np.array_equal(release.value, release.value.T)
    # The worst row changes the isometric coordinates of the matrix by 4 data_norm^2.
    assert meets(release.guarantee.loss, EPSILON, DELTA)
    assert scale >= 4 * 64 * noise_multiplier(EPSILON, DELTA)
