"""The promise of a private projection, tried on databases that could break it."""

import math
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import linalg, stats

from laws import output_law
from ndis import PrivateProjection, QuadraticLoss, Sketch, audit
from ndis.calibration import meets
from ndis.ledger import BudgetExceeded, Ledger
from ndis.mechanisms import projection_methods as methods
from ndis.randomness import draw_sketch, generator
from ndis.tables import GRID_NORM, ExactSum
from ndis_papers.methods import projection as ptr
from samplers import LEVEL, accepts_gaussian, accepts_rate

GRID = float(GRID_NORM**2)


def projection(**changes):
    given = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0, "n_components": 20, "random_state": 0}
    return PrivateProjection(**(given | changes))


def small_database(seed: int, n_rows: int = 6, n_columns: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_columns)) * 10.0 ** rng.uniform(-3, 1, (n_rows, 1))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, 2.0 / norms)


def exact_delta(rows: np.ndarray, others: np.ndarray, ridge: float, r: int, epsilon: float):
    """Both directions, by explicit matrices and scipy's chi-square: nothing of the library."""
    d = rows.shape[1]
    present, absent = (D.T @ D + ridge * np.eye(d) for D in (rows, others))
    ratios = linalg.eigh(absent, present, eigvals_only=True)  # 1 - p, and ones
    np.testing.assert_allclose(ratios[1:], 1.0, rtol=1e-6)
    p = max(1.0 - ratios[0], 1e-12)
    x = (2 * epsilon - r * math.log1p(-p)) / p
    hard = stats.chi2.sf((1 - p) * x, r) - math.exp(epsilon) * stats.chi2.sf(x, r)
    y = max(0.0, -2 * epsilon - r * math.log1p(-p)) / p
    easy = stats.chi2.cdf(y, r) - math.exp(epsilon) * stats.chi2.cdf((1 - p) * y, r)
    return max(hard, easy)


def worst_over_neighbours(scale: float, epsilon: float, r: int) -> float:
    """Every removal of every row of random databases, and the one-row database."""
    databases = [small_database(seed) for seed in range(12)]
    databases += [np.array([[2.0]]), np.array([[0.0, 2.0, 0.0]])]
    return max(
        exact_delta(rows, np.delete(rows, i, axis=0), scale**2, r, epsilon)
        for rows in databases
        for i in range(len(rows))
    )


# -- the promise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta", "r"), [(1.0, 1e-5, 20), (0.1, 1e-3, 1), (4, 1e-9, 3)])
def test_no_neighbour_exceeds_the_promise_and_one_attains_it(epsilon, delta, r):
    scale = projection(epsilon=epsilon, delta=delta, n_components=r).calibrate(3)
    worst = worst_over_neighbours(scale, epsilon, r)
    assert worst <= delta * (1 + 1e-9)
    assert worst >= delta * (1 - 1e-9)


def test_half_the_noise_is_detected():
    scale = projection().calibrate(3)
    assert worst_over_neighbours(scale / 2, 1.0, 20) > 100 * 1e-5


def test_a_twentieth_less_noise_is_detected():
    scale = projection().calibrate(3)
    assert worst_over_neighbours(0.95 * scale, 1.0, 20) > 1.5e-5


def test_released_laws_keep_the_promise():
    """Through output_law, so through reading, scaling and calibration; a row added or removed."""
    mechanism = projection(n_components=5)
    for seed in range(4):
        rows = small_database(seed, n_rows=40)
        law = output_law(mechanism, rows)
        ridge = mechanism.calibrate(3) ** 2
        np.testing.assert_allclose(law.cov, rows.T @ rows + ridge * np.eye(3), atol=1e-4)
        for i in range(len(rows)):
            others = np.delete(rows, i, axis=0)
            assert exact_delta(rows, others, ridge, 5, 1.0) <= 1e-5 * (1 + 1e-6)
            repeated = np.vstack([rows, rows[i]])
            assert exact_delta(repeated, rows, ridge, 5, 1.0) <= 1e-5 * (1 + 1e-6)


def test_smaller_leverages_are_dominated_in_both_directions():
    epsilons = np.linspace(-2, 3, 41)
    worst = QuadraticLoss.from_leverage(0.3, 7)
    for leverage in (0.001, 0.1, 0.299):
        milder = QuadraticLoss.from_leverage(leverage, 7)
        for strong, weak in ((worst, milder), (worst.reversed(), milder.reversed())):
            assert np.all(weak.delta(epsilons) <= strong.delta(epsilons) * (1 + 1e-12) + 1e-300)


def test_scale_invariance():
    unit = projection(data_norm=1.0).calibrate(3)
    for norm in (1e-50, 3.0, 1e50):
        assert projection(data_norm=norm).calibrate(3) == pytest.approx(unit * norm, rel=1e-14)
    table = small_database(0, 50)
    small = projection(data_norm=2.0).fit(table).sketch_.matrix
    large = projection(data_norm=2.0 * 2**40).fit(table * 2**40).sketch_.matrix
    np.testing.assert_array_equal(small * 2**40, large)


def test_rows_beyond_the_bound_are_scaled_down():
    wild = np.array([[1e9, 0.0], [0.0, 1.0]])
    law = output_law(projection(), wild)
    np.testing.assert_allclose(law.cov[0, 0], 4.0 + projection().calibrate(3) ** 2, rtol=1e-6)


# -- one law by two routes -------------------------------------------------------------------------


def by_definition(rows: np.ndarray, ridge: float, r: int, rng: np.random.Generator) -> np.ndarray:
    noise = math.sqrt(ridge) * rng.standard_normal((rows.shape[1], r))
    return rows.T @ rng.standard_normal((len(rows), r)) + noise


def by_gram(rows: np.ndarray, ridge: float, r: int, rng: np.random.Generator) -> np.ndarray:
    return draw_sketch(rows.T @ rows, ridge, r, rng)


@pytest.mark.parametrize("route", [by_definition, by_gram])
def test_both_routes_have_one_law(route):
    rows = small_database(3, 30)
    cov = rows.T @ rows + 0.7 * np.eye(3)
    columns = route(rows, 0.7, 20_000, np.random.default_rng(1)).T
    assert accepts_gaussian(columns, np.zeros(3), cov, LEVEL)
    assert not accepts_gaussian(columns, np.zeros(3), 1.1 * cov, LEVEL)
    wrong = cov.copy()
    wrong[0, 1] = wrong[1, 0] = wrong[0, 1] + 0.05 * math.sqrt(cov[0, 0] * cov[1, 1])
    assert not accepts_gaussian(columns, np.zeros(3), wrong, LEVEL)


def test_released_sketch_has_its_law():
    table = small_database(5, 200)
    mechanism = projection(n_components=20_000, random_state=11).fit(table)
    law = output_law(mechanism, table)
    assert accepts_gaussian(mechanism.sketch_.matrix.T, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(mechanism.sketch_.matrix.T, law.mean, 1.1 * law.cov, LEVEL)


# -- a declared set of tables ----------------------------------------------------------------------


def tables_of_a_set(seed: int) -> tuple[np.ndarray, float]:
    """A random table, and the largest leverage in it and in all its one-row removals."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    rows = rng.standard_normal((int(rng.integers(d + 4, 60)), d)) * 10.0 ** rng.uniform(-2, 0, d)
    rows *= 2.0 / np.linalg.norm(rows, axis=1).max()

    def largest(table: np.ndarray) -> float:
        return float(np.max(np.sum((table @ np.linalg.pinv(table.T @ table)) * table, axis=1)))

    return rows, max(largest(np.delete(rows, i, axis=0)) for i in range(len(rows)))


@pytest.mark.parametrize("seed", range(12))  # benchmarks/check_sketches.py: 1,000
def test_tables_of_a_declared_set_get_the_same_noise_and_keep_the_promise(seed):
    rows, leverage = tables_of_a_set(seed)
    if leverage > 0.9:
        return
    mechanism = projection(leverage=min(1.01 * leverage, 0.95), n_components=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = [mechanism.fit(D).noise_scale_ for D in (rows, rows[1:], rows[:-1])]
        assert set(fitted) == {mechanism.calibrate(rows.shape[1])}
        for i in range(len(rows)):
            others = np.delete(rows, i, axis=0)
            assert exact_delta(rows, others, fitted[0] ** 2, 5, 1.0) <= 1e-5 * (1 + 1e-6)
        assert audit(mechanism, rows).outcome == "consistent"


def test_a_declared_leverage_saves_noise_and_is_named():
    plain, relative = (projection(leverage=s).plan(3) for s in (None, 0.1))
    ratio = 2.0 * math.sqrt((plain.noise_scale / 2.0) ** 2 - 9.0)
    assert relative.noise_scale == pytest.approx(ratio, rel=1e-9)
    assert plain.guarantee.basis == "proven"
    assert relative.guarantee.basis == "relative"
    assert "no row has a leverage above 0.1" in str(relative.guarantee)
    assert relative.loss.delta(1.0) == pytest.approx(plain.loss.delta(1.0), rel=1e-9)


def test_a_declared_leverage_never_removes_all_noise():
    plan = projection(leverage=1e-4).plan(3)
    floor = methods.least_grid_ridge(2**40, 3)
    assert methods.grid_ridge(plan.noise_scale / 2.0) == pytest.approx(floor, rel=1e-9)
    assert projection(leverage=1e-4, max_rows=1000).calibrate(3) < plan.noise_scale
    assert plan.loss.delta(1.0) < 1e-5  # and what noise is left is counted


def test_the_attack_on_noise_by_ones_own_leverage_fails():
    """49 rows of 0.1 and 48 of them: once 0 and 6.9 of noise, now one noise or a refusal."""
    mechanism = PrivateProjection(
        epsilon=1.0, delta=1e-5, data_norm=1.0, n_components=200, leverage=0.026
    )
    noise = [mechanism.fit(np.full((n, 1), 0.1)).noise_scale_ for n in (39, 40)]
    assert noise[0] == noise[1] > 0
    for n in (38, 20):
        with pytest.raises(ValueError, match="declared leverage"):
            mechanism.fit(np.full((n, 1), 0.1))


def test_a_table_outside_the_set_is_refused_before_payment(tmp_path):
    relation = "add-remove"
    with Ledger.create(tmp_path / "b", 5.0, 1e-3, relation, accept=["relative"]) as ledger:
        mechanism = projection(leverage=0.1, ledger=ledger, random_state=None)
        with pytest.raises(ValueError, match="declared leverage") as error:
            mechanism.fit(np.vstack([np.eye(3), 2 * np.eye(3)[[0]]]))
        assert "0." not in str(error.value)
        assert not ledger.history()
        mechanism.fit(np.repeat(np.eye(3), 30, axis=0))
        assert len(ledger.history()) == 1


def test_dependent_columns_are_outside_every_set():
    column = np.linspace(0.1, 1, 50)[:, None]
    with pytest.raises(ValueError, match="depend"):
        projection(leverage=0.5).fit(column @ [[1.0, 1.0]])


# -- public numbers --------------------------------------------------------------------------------


def test_more_rows_than_the_cap_are_refused():
    with pytest.raises(ValueError, match="max_rows=10"):
        projection(max_rows=10).fit(np.ones((11, 2)))
    assert projection(max_rows=11).fit(np.ones((11, 2)))


def test_noise_below_the_floor_is_refused_by_public_numbers():
    given = {"epsilon": None, "noise_scale": 0.1}
    with pytest.raises(ValueError, match="max_rows"):
        projection(**given).plan(3)
    assert projection(**given, max_rows=100).plan(3).noise_scale == 0.1


def adversarial(seed: int) -> np.ndarray:
    """Scales from 1e-150 to 1e150, duplicates, constant columns, one giant row."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 300)), int(rng.integers(1, 6))
    rows = rng.standard_normal(shape) * 10.0 ** rng.uniform(-150, 150, shape[1])
    kind = seed % 5
    if kind == 1:
        rows[:, -1] = rows[:, 0]
    elif kind == 2:
        rows[:, 0] = 10.0 ** rng.uniform(-150, 150)
    elif kind == 3:
        rows[0] = 1e150
    elif kind == 4:
        rows = np.repeat(rows[:1], len(rows), axis=0)
    return rows


@pytest.mark.parametrize("seed", range(20))  # benchmarks/check_sketches.py: 1,000
def test_noise_is_as_stated_whatever_the_table(seed):
    rows = adversarial(seed)
    norm = 10.0 ** np.random.default_rng(seed).uniform(-50, 50)
    mechanism = projection(data_norm=norm, n_components=4000).fit(rows)
    # In directions that the table does not have, only noise is left.
    law = output_law(mechanism, rows)
    values, vectors = np.linalg.eigh(law.cov / norm**2)
    found = np.mean((vectors.T @ (mechanism.release_.arrays["sketch"] / norm)) ** 2, axis=1)
    np.testing.assert_allclose(found, values, rtol=0.12)
    assert values.min() >= 0.99 * (mechanism.noise_scale_ / norm) ** 2


# -- propose, test, release ------------------------------------------------------------------------


def tried(r: int = 5, delta: float = 1e-3, norm: float = 1.0, d: int = 3, max_rows: int = 2**40):
    """The plan of "ptr", and its test."""
    mechanism = projection(
        method="ptr", delta=delta, data_norm=norm, n_components=r, max_rows=max_rows
    )
    plan = mechanism.plan(d)
    return plan, ptr.Testing(mechanism).test(plan, mechanism._rows_declared(d))


def test_ptr_counts_the_failure_of_the_test():
    plan, _ = tried(20, 1e-5)
    without = plan.loss.delta(1.0) - ptr.failure(1e-5)
    assert meets(plan.loss, 1.0, 1e-5)
    assert ptr.failure(1e-5) > 0.1 * 1e-5
    assert without > 0.7e-5  # the rest of delta is used, not left lying


@pytest.mark.slow
def test_ptr_leverage_is_bounded_whenever_the_test_is_right():
    _, test = tried()
    rng = np.random.default_rng(0)
    allowed = GRID / test.needed
    for seed in range(20):
        rows = GRID_NORM / 2 * np.vstack([small_database(seed), 30 * rng.uniform() * np.eye(3)])
        gram = rows.T @ rows
        least = float(np.linalg.eigvalsh(gram)[0])
        for bound in (0.0, 0.5 * least, least):  # the test is right: bound <= least eigenvalue
            ridged = gram + test.ridge_above(bound) * np.eye(3)
            for v in rows[:6]:
                assert v @ np.linalg.solve(ridged, v) <= allowed * (1 + 1e-9)


@pytest.mark.slow
def test_ptr_test_fails_as_rarely_as_promised():
    """The bound exceeds the least eigenvalue with probability `failure`, here a large one."""
    _, test = tried(50, 0.3, d=2, max_rows=100)
    right = test.ridge_above(2.25 * GRID)
    assert right > test.floor
    rng = generator(3)
    failures = sum(test.draw(2.25 * GRID, rng) < right for _ in range(8_000))
    assert accepts_rate(failures, 8_000, ptr.failure(0.3), LEVEL)
    assert not accepts_rate(failures, 8_000, 1.3 * ptr.failure(0.3), LEVEL)


@pytest.mark.parametrize("seed", range(12))
def test_ptr_knows_the_least_eigenvalue_within_its_public_error(seed):
    flint = pytest.importorskip("flint")
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    rows = np.rint(rng.standard_normal((40, d)) * 10.0 ** rng.uniform(0, 5, d))
    rows[:, -1] = rows[:, 0] + rng.integers(-1, 2, 40)  # nearly dependent
    gram = ExactSum.of(rows.T @ rows)
    _, test = tried(d=d, max_rows=40)
    found = test.least_eigenvalue(gram)
    with flint.ctx.workprec(400):
        exact = flint.arb_mat([[flint.arb(int(x)) for x in row] for row in rows.T @ rows])
        values = flint.acb_mat(exact).eig(multiple=True)
        least = min(float(value.real) for value in values)
    assert abs(found - least) <= test.floor


def ptr_delta(plan, test, largest, epsilon, r, *, raised=0.0):
    """The true delta of both releases for one column and a row of norm 1, by quadrature.

    Given the test's output t the sketch is one Gaussian pair, at epsilon less the loss of t.
    `raised` plants an error: a test that claims more than it saw.
    """
    scale = plan.noise_scale["test"]
    t = np.linspace(largest - 13 * scale, largest + 13 * scale, 4001)
    bounds = (t + raised) * GRID - test.slack
    ridge = np.array([test.ridge_above(x) for x in bounds]) / GRID
    sketch = QuadraticLoss(
        (1.0 / (largest - 1.0 + ridge))[:, None], np.zeros((t.size, 1)), np.full((t.size, 1), r)
    )
    loss_of_t = ((t - largest + 1) ** 2 - (t - largest) ** 2) / (2 * scale**2)
    present = stats.norm.pdf(t, largest, scale) * sketch.delta(epsilon - loss_of_t)
    absent = stats.norm.pdf(t, largest - 1, scale) * sketch.reversed().delta(epsilon + loss_of_t)
    return max(np.trapezoid(present, t), np.trapezoid(absent, t))


LARGEST = (1.01, 2.0, 4.0, 8.0, 15.0, 25.0, 40.0, 60.0)


@pytest.mark.slow
def test_ptr_keeps_its_promise_by_quadrature():
    deltas = [ptr_delta(*tried(d=1), largest, 1.0, 5) for largest in LARGEST]
    assert max(deltas) <= 1e-3
    assert max(deltas) > 0.7e-3  # and wastes little


def test_ptr_that_believes_too_much_is_detected():
    plan, test = tried(d=1)
    slack = test.slack / GRID  # forgets to lower the noisy eigenvalue
    assert max(ptr_delta(plan, test, largest, 1.0, 5, raised=slack) for largest in LARGEST) > 2e-3


def test_ptr_needs_less_noise_beyond_the_derived_threshold():
    """docs/projection.md: strictly less once the bound passes needed - ratio^2 (in l^2)."""
    _, test = tried(1269, 1 / 327_346, d=2)
    ridge = projection(delta=1 / 327_346, data_norm=1.0, n_components=1269).calibrate(2) ** 2
    threshold = test.needed / GRID - ridge
    at = lambda bound: test.ridge_above(bound * GRID) / GRID  # noqa: E731
    assert at(threshold + 1e-6) < ridge
    assert at(threshold - 1e-6) > ridge
    assert at(1e5) == test.floor / GRID


# -- release and estimator manners -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_release_roundtrip(method, tmp_path):
    mechanism = projection(method=method).fit(small_database(0, 300))
    path = mechanism.release_.save(tmp_path / "sketch.npz")
    loaded = Sketch.load(path)
    np.testing.assert_array_equal(loaded.matrix, mechanism.sketch_.matrix)
    np.testing.assert_array_equal(loaded.ridge, mechanism.sketch_.ridge)
    assert not mechanism.guarantee_.private
    assert "one row" in str(mechanism.guarantee_)


@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_no_release_tells_the_number_of_rows(method):
    """But for the noisy arrays, the releases of a short and of a long table are one."""
    certificates = [
        projection(method=method).fit(np.ones((n_rows, 2))).release_.certificate()
        for n_rows in (10, 4321)
    ]
    for certificate in certificates:
        for array in certificate["arrays"].values():
            del array["sha256"]
    assert certificates[0] == certificates[1]


def test_declared_number_of_rows_is_released_and_checked():
    table = np.ones((30, 2))
    assert projection(n_rows=30).fit(table).sketch_.n_rows == 30
    with pytest.raises(ValueError, match="declared public") as error:
        projection(n_rows=31).fit(table)
    assert "30 " not in str(error.value)


def test_a_release_without_seed_is_private_and_new():
    first, second = (projection(random_state=None).fit(np.ones((9, 2))) for _ in range(2))
    assert first.guarantee_.private
    assert not np.array_equal(first.sketch_.matrix, second.sketch_.matrix)


@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_a_budget_of_exactly_its_price_buys_one_release(method, tmp_path):
    ledger = Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-5, relation="add-remove")
    mechanism = projection(method=method, random_state=None, ledger=ledger)
    ledger.preview(mechanism.guarantee(2))
    mechanism.fit(np.ones((5, 2)))
    with pytest.raises(BudgetExceeded):
        mechanism.fit(np.ones((5, 2)))


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (2, 7), (40, 1)])
@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_extreme_shapes(method, shape):
    sketch = projection(method=method, n_components=1).fit(np.ones(shape)).sketch_
    assert sketch.matrix.shape == (shape[1], 1)
    assert np.isfinite(sketch.matrix).all()


@pytest.mark.parametrize("method", ["ridge", "ptr"])
@pytest.mark.parametrize("norm", [1e-55, 1e55])
def test_extreme_norms(method, norm):
    mechanism = projection(method=method, data_norm=norm).fit(np.full((5, 2), 0.3 * norm))
    unit = projection(method=method, data_norm=1.0).fit(np.full((5, 2), 0.3))
    np.testing.assert_allclose(
        mechanism.sketch_.matrix / norm, unit.sketch_.matrix, rtol=1e-9, atol=2.0**-4
    )
    assert np.isfinite(mechanism.sketch_.gram().standard_error).all()


@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_extreme_delta(method):
    mechanism = projection(method=method, delta=1e-300).fit(np.ones((5, 2)))
    assert meets(mechanism.guarantee_.loss, 1.0, 1e-300)


def test_epsilon_zero():
    assert meets(projection(epsilon=0.0).fit(np.ones((2, 2))).guarantee_.loss, 0.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ridge", "ptr"])
def test_forecast_is_right(method):
    """Against the spread of many releases, of rows that point everywhere alike."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 3))
    rows *= 1.2 / np.linalg.norm(rows, axis=1, keepdims=True)
    mechanism = projection(n_components=100, method=method)
    gram = rows.T @ rows
    low, high = mechanism.forecast(3, n_rows=3000).errors["relative error of the Gram matrix"]
    errors = [
        np.linalg.norm(mechanism.set_params(random_state=k).fit(rows).sketch_.gram()[0] - gram)
        for k in range(20)
    ]
    found = np.sqrt(np.mean(np.square(errors))) / np.linalg.norm(gram)
    assert 0.85 * low < found < 1.15 * high
    assert high < 2 * low


def test_spectral_error_is_kept_in_19_of_20_releases():
    """Theorem 5.2 of ndis-2026, against many releases; without noise the bound is of use."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 3))
    rows *= 1.2 / np.linalg.norm(rows, axis=1, keepdims=True)
    gram = rows.T @ rows
    expected = projection(n_components=100).forecast(3, n_rows=3000)
    low, high = expected.errors["relative spectral error, 19 of 20 releases"]
    errors = [
        np.linalg.norm(
            projection(n_components=100, random_state=k).fit(rows).sketch_.gram()[0] - gram, 2
        )
        / np.linalg.norm(gram, 2)
        for k in range(40)
    ]
    assert low < high
    assert np.mean(np.array(errors) > high) <= 0.05
    assert np.quantile(errors, 0.95) > 0.4 * low


def test_sources_agree(tmp_path):
    table = small_database(2, 100)
    frame = pa.table({f"x{j}": table[:, j] for j in range(3)})
    file = tmp_path / "table.parquet"
    pq.write_table(frame, file)
    released = [projection().fit(source).sketch_.matrix for source in (table, frame, str(file))]
    np.testing.assert_array_equal(released[0], released[1])
    np.testing.assert_array_equal(released[0], released[2])


def test_levels_and_intercept_reach_the_sketch():
    frame = pa.table({"speed": [1.0, 2.0], "carrier": ["AA", "ZZ"]})
    sketch = projection(levels={"carrier": ["AA", "DL"]}, fit_intercept=True).fit(frame).sketch_
    assert sketch.columns == ("intercept", "speed", "carrier=AA", "carrier=DL")


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"data_norm": None}, ValueError, "limits"),
        ({"leverage": 0.0}, ValueError, "leverage"),
        ({"leverage": 0.1, "method": "ptr"}, ValueError, "leverage"),
        ({"max_rows": 0}, ValueError, "max_rows"),
        ({"data_norm": 0.0}, ValueError, "data_norm > 0"),
        ({"data_norm": -1.0}, ValueError, "data_norm > 0"),
        ({"data_norm": "two"}, TypeError, "data_norm"),
        ({"n_components": 0}, ValueError, "n_components >= 1"),
        ({"n_components": 2.5}, TypeError, "n_components"),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"epsilon": -1.0}, ValueError, "epsilon >= 0"),
        ({"epsilon": float("nan")}, ValueError, "epsilon"),
        ({"method": "magic"}, ValueError, "method"),
    ],
)
def test_bad_parameters_are_one_sentence(changes, error, words):
    with pytest.raises(error, match=words) as caught:
        projection(**changes).fit(np.ones((3, 2)))
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.ones(3), "rows and columns"),
        (np.array([["a", "b"]]), "numbers"),
        (pa.table({"x": [1.0], "name": ["Ada"]}), "'name'"),
        (pa.table({"x": [1.0, None]}), "'x'"),
    ],
)
def test_bad_tables_are_one_sentence(table, words):
    with pytest.raises((ValueError, TypeError), match=words):
        projection().fit(table)


def test_a_file_that_vanishes_half_way(tmp_path):
    frame = pa.table({"x": np.ones(10), "y": np.ones(10)})
    files = [tmp_path / f"{k}.parquet" for k in range(3)]
    for file in files:
        pq.write_table(frame, file)
    files[2].unlink()
    with pytest.raises(FileNotFoundError, match="is not there"):
        projection().fit([str(file) for file in files])


def test_a_tested_sketch_has_no_single_law():
    with pytest.raises(ValueError, match="one Gaussian"):
        output_law(projection(method="ptr"), np.ones((3, 2)))


# -- a secret sample -------------------------------------------------------------------------------


def _sampled(rate: float, **more: Any) -> PrivateProjection:
    given = {"epsilon": 1.0, "delta": 1e-4, "data_norm": 1.0, "n_components": 3, **more}
    return PrivateProjection(sampling_rate=rate, **given)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_a_sampled_sketch_meets_its_claim_and_wastes_nothing(rate: float) -> None:
    """A second route: the mixture of one row of norm 1 beside none, by its radius."""
    model = _sampled(rate)
    ridge, r = model.calibrate(2) ** 2, model.n_components
    radii = np.linspace(0.0, 90.0 * (ridge + 1.0), 400_001)  # of |u^T sketch|^2
    absent = stats.chi2.pdf(radii / ridge, r) / ridge
    present = (1 - rate) * absent + rate * stats.chi2.pdf(radii / (ridge + 1.0), r) / (ridge + 1.0)
    deltas = [
        np.trapezoid(np.maximum(one - np.e * other, 0.0), radii)
        for one, other in ((present, absent), (absent, present))
    ]
    assert max(deltas) == pytest.approx(1e-4, rel=1e-5)


@pytest.mark.slow
def test_rows_are_sampled_and_estimates_are_of_all_rows() -> None:
    rng = np.random.default_rng(5)
    table = rng.uniform(-1, 1, (4000, 2)) / 2
    truth, model = table.T @ table, _sampled(0.2, n_components=400, noise_scale=1.0, epsilon=None)
    errors = []
    for seed in range(25):
        sketch = model.set_params(random_state=seed).fit(table).sketch_
        value, error = sketch.gram()
        errors.append((value - truth) / error)
    z = np.array(errors)
    assert np.all(np.abs(z.mean(axis=0)) < 4 / np.sqrt(25))
    assert np.all(z.std(axis=0) < 1.3)  # what the sample misses is bounded, not estimated
    assert np.all(z.std(axis=0) > 0.3)


def test_the_sample_follows_the_generator_and_the_rate() -> None:
    table = np.repeat(np.eye(2), [3000, 1000], axis=0)
    run = _sampled(0.25, n_components=2000, noise_scale=1.0, epsilon=None).prepare(table)
    sketch = run.draw(np.random.default_rng(1))["sketch"]
    assert np.mean(sketch**2, axis=1) == pytest.approx([750.0, 250.0], rel=0.2)
    again, other = (run.draw(np.random.default_rng(seed))["sketch"] for seed in (1, 2))
    assert np.array_equal(sketch, again)
    assert not np.array_equal(sketch, other)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"leverage": 0.1}, "without leverage"),
        ({"limits": "private", "data_norm": None}, "public limits"),
        ({"method": "ptr"}, "sampling_rate"),
        ({"person": "id", "columns": ["id", "x"]}, "person"),
        ({"sampling_rate": 1e-5}, "above delta"),
        ({"sampling_rate": 1.5}, "sampling_rate < 1"),
    ],
)
def test_a_sample_is_refused_where_its_loss_is_not_known(more: dict[str, Any], said: str) -> None:
    model = _sampled(0.5).set_params(**more)
    with pytest.raises(ValueError, match=said):
        model.plan(None if "columns" in more else 2)


@pytest.mark.slow
def test_an_audit_of_a_sample_finds_the_worst_row_and_no_worse() -> None:
    table = np.random.default_rng(0).uniform(-1, 1, (40, 3)) / 2
    model = _sampled(0.3)
    assert audit(model, table).outcome == "consistent"
    assert audit(model, table, claim=(0.9, 1e-4)).outcome == "refuted"
    # Noise that is enough for a sample is not enough for all rows.
    every = PrivateProjection(
        delta=1e-4, data_norm=1.0, n_components=3, noise_scale=model.calibrate(3)
    )
    assert audit(every, table, claim=(1.0, 1e-4)).outcome == "refuted"
