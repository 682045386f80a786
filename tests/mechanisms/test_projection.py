"""The promise of a private projection, tried on databases that could break it."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import linalg, stats
from sklearn.base import clone

from ndis import PrivateProjection, Profile, QuadraticLoss, Sketch
from ndis.calibration import meets
from ndis.ledger import BudgetExceeded, Ledger
from ndis.loss.derived import inner_epsilon, subsampled, with_failure
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.projection_methods import (
    METHODS,
    ProposeTestRelease,
    Ridge,
    Task,
    sketch_loss,
)
from ndis.randomness import grid_spacing
from ndis.tables import read_gram
from samplers import LEVEL, accepts_gaussian, accepts_rate


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
    scale = projection(epsilon=epsilon, delta=delta, n_components=r).calibrate()
    worst = worst_over_neighbours(scale, epsilon, r)
    assert worst <= delta * (1 + 1e-9)
    assert worst >= delta * (1 - 1e-9)


def test_half_the_noise_is_detected():
    scale = projection().calibrate()
    assert worst_over_neighbours(scale / 2, 1.0, 20) > 100 * 1e-5


def test_a_twentieth_less_noise_is_detected():
    scale = projection().calibrate()
    assert worst_over_neighbours(0.95 * scale, 1.0, 20) > 1.5e-5


def test_released_laws_keep_the_promise():
    """Through output_law, so through reading, scaling and calibration; a row added or removed."""
    mechanism = projection(n_components=5)
    for seed in range(4):
        rows = small_database(seed, n_rows=40)
        law = mechanism.output_law(rows)
        ridge = float(law.cov[0, 0] - rows[:, 0] @ rows[:, 0])
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
    unit = projection(data_norm=1.0).calibrate()
    for norm in (1e-100, 3.0, 1e100):
        assert projection(data_norm=norm).calibrate() == pytest.approx(unit * norm, rel=1e-14)
    table = small_database(0, 50)
    small = projection(data_norm=2.0).fit(table).sketch_.matrix
    large = projection(data_norm=2.0 * 2**40).fit(table * 2**40).sketch_.matrix
    np.testing.assert_array_equal(small * 2**40, large)


def test_rows_beyond_the_bound_are_scaled_down():
    wild = np.array([[1e9, 0.0], [0.0, 1.0]])
    law = projection().output_law(wild)
    assert law.cov[0, 0] <= 4.0 + projection().calibrate() ** 2
    np.testing.assert_allclose(law.cov[0, 0], 4.0 + projection().calibrate() ** 2)


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
    law = mechanism.output_law(table)
    assert accepts_gaussian(mechanism.sketch_.matrix.T, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(mechanism.sketch_.matrix.T, law.mean, 1.1 * law.cov, LEVEL)


# -- subsample -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_amplified_profile_is_that_of_the_mixture(rate):
    """Against the mixture (1-q) Q + q P itself, by quadrature, both directions, one component."""
    inner = sketch_loss(0.8, 1)
    table = subsampled(inner, rate, epsilon=0.3, delta=1e-3)
    x = np.linspace(-60, 60, 2_000_001)
    absent = stats.norm.pdf(x, scale=0.8)
    present = (1 - rate) * absent + rate * stats.norm.pdf(x, scale=math.hypot(0.8, 1.0))
    distance = 0.5 * np.trapezoid(np.abs(present - absent), x)
    for epsilon in (0.0, 0.1, 0.3, 1.0):
        slack = 1e-6 if epsilon in (0.0, 0.3) else 0.02  # on the grid, between its points
        for direction, (p, q) in enumerate([(present, absent), (absent, present)]):
            truth = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), x)
            found = table.losses[direction].delta(epsilon)
            assert truth - 1e-9 <= found <= truth + slack * distance


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.99])
def test_subsample_meets_the_promise_and_wastes_nothing(rate):
    mechanism = METHODS["subsample"](Task(1.0, 1e-5, 1.0, 20, rate))
    assert meets(mechanism.loss, 1.0, 1e-5)
    assert mechanism.loss.delta(1.0) > 1e-5 * (1 - 1e-8)


def test_forgetting_the_amplification_formula_is_detected():
    """Half the noise breaks the promise by the same check."""
    scale = METHODS["subsample"](Task(1.0, 1e-5, 1.0, 20, 0.1)).noise_scale
    assert not meets(subsampled(sketch_loss(scale / 2, 20), 0.1, 1.0, 1e-5), 1.0, 1e-5)


def test_inner_epsilon_inverts_the_amplification():
    for rate, epsilon in itertools.product((1e-6, 0.2, 0.999), (0.0, 1e-9, 0.5, 1.0, 30.0, 800.0)):
        inner = float(inner_epsilon(epsilon, rate))
        if inner < 700:
            assert math.log1p(rate * math.expm1(inner)) == pytest.approx(epsilon, rel=1e-9)
        else:
            assert inner == pytest.approx(epsilon - math.log(rate), rel=1e-12)


@pytest.mark.parametrize("kind", ["array", "arrow"])
def test_subsample_draws_each_row_at_its_rate(kind):
    """Rows along different axes, so that the diagonal of the Gram matrix shows which were in."""
    table = np.repeat(np.eye(4), 2000, axis=0)
    source = table if kind == "array" else pa.table({f"x{j}": table[:, j] for j in range(4)})
    mechanism = projection(method="subsample", rate=0.3)
    rows = mechanism._rows(source)
    gram = mechanism._sample(source, rows, 0.3, np.random.default_rng(2))
    for kept in np.diag(gram):
        assert accepts_rate(int(kept), 2000, 0.3, LEVEL)
        assert not accepts_rate(int(kept), 2000, 0.36, LEVEL)


def test_an_empty_sample_is_a_sample():
    mechanism = projection(method="subsample", rate=1e-3, delta=1e-6)
    assert mechanism.fit(np.ones((1, 2))).sketch_.matrix.shape == (2, 20)


# -- propose, test, release ------------------------------------------------------------------------


def test_ptr_counts_the_failure_of_the_test():
    method = ProposeTestRelease(Task(1.0, 1e-5, 1.0, 20, 0.1))
    without = method.loss.delta(1.0) - method.failure
    assert meets(method.loss, 1.0, 1e-5)
    assert method.failure > 0.1 * 1e-5
    assert without > 0.7e-5  # the rest of delta is used, not left lying


def test_ptr_leverage_is_bounded_whenever_the_test_is_right():
    method = ProposeTestRelease(Task(1.0, 1e-3, 2.0, 5, 0.1))
    rng = np.random.default_rng(0)
    allowed = 1 / method.needed
    for seed in range(20):
        rows = np.vstack([small_database(seed), 30 * rng.uniform() * np.eye(3)])
        gram = rows.T @ rows
        least = float(np.linalg.eigvalsh(gram)[0])
        for bound in (0.0, 0.5 * least, least):  # the test is right: bound <= least eigenvalue
            ridged = gram + method._ridge_above(bound) * np.eye(3)
            for v in rows[:6]:
                assert v @ np.linalg.solve(ridged, v) <= allowed * (1 + 1e-9)


def test_ptr_test_fails_as_rarely_as_promised():
    """The bound exceeds the least eigenvalue with probability `failure`, here a large one."""
    method = ProposeTestRelease(Task(1.0, 0.3, 1.0, 50, 0.1))
    table = 1.5 * np.eye(2)
    right = method._ridge_above(2.25)
    assert right > 0
    draw, rng = method.study(read_gram(table)), np.random.default_rng(3)
    failures = sum(draw(rng) < right for _ in range(20_000))
    assert accepts_rate(failures, 20_000, method.failure, LEVEL)
    assert not accepts_rate(failures, 20_000, 1.2 * method.failure, LEVEL)


def ptr_delta(method, largest, epsilon, r, *, raised=0.0):
    """The true delta of both releases for one column and a row of norm 1, by quadrature.

    Given the test's output t the sketch is one Gaussian pair, at epsilon less the loss of t.
    `raised` plants an error: a test that claims more than it saw.
    """
    scale = method.test_ratio
    t = np.linspace(largest - 13 * scale, largest + 13 * scale, 4001)
    slack = scale * method.quantile + 0.5 * grid_spacing(scale)
    ridge = np.array([method._ridge_above(x - slack + raised) for x in t])
    sketch = QuadraticLoss(
        (1.0 / (largest - 1.0 + ridge))[:, None], np.zeros((t.size, 1)), np.full((t.size, 1), r)
    )
    loss_of_t = ((t - largest + 1) ** 2 - (t - largest) ** 2) / (2 * scale**2)
    present = stats.norm.pdf(t, largest, scale) * sketch.delta(epsilon - loss_of_t)
    absent = stats.norm.pdf(t, largest - 1, scale) * sketch.reversed().delta(epsilon + loss_of_t)
    return max(np.trapezoid(present, t), np.trapezoid(absent, t))


LARGEST = (1.01, 2.0, 4.0, 8.0, 15.0, 25.0, 40.0, 60.0)


def test_ptr_keeps_its_promise_by_quadrature():
    method = ProposeTestRelease(Task(1.0, 1e-3, 1.0, 5, 0.1))
    deltas = [ptr_delta(method, largest, 1.0, 5) for largest in LARGEST]
    assert max(deltas) <= 1e-3
    assert max(deltas) > 0.7e-3  # and wastes little


def test_ptr_that_believes_too_much_is_detected():
    method = ProposeTestRelease(Task(1.0, 1e-3, 1.0, 5, 0.1))
    slack = method.test_ratio * method.quantile  # forgets to lower the noisy eigenvalue
    assert max(ptr_delta(method, largest, 1.0, 5, raised=slack) for largest in LARGEST) > 2e-3


def test_ptr_needs_less_noise_beyond_the_derived_threshold():
    """docs/projection.md: strictly less once the bound passes needed - ratio^2 (in l^2)."""
    task = Task(1.0, 1 / 327_346, 1.0, 1269, 0.1)
    ptr, ridge = ProposeTestRelease(task), Ridge(task)
    threshold = ptr.needed - ridge.noise_scale**2
    quantile = ptr.test_ratio * ptr.quantile
    at = lambda least: ptr.expected_ridge(np.diag([least, 1e6]))  # noqa: E731
    assert at(threshold + quantile + 1e-6) < ridge.noise_scale**2
    assert at(threshold + quantile - 1e-6) > ridge.noise_scale**2
    assert at(1e5) == 0.0


def test_failure_is_added_in_both_directions():
    loss = with_failure(sketch_loss(3.0, 10), 1e-4, 1.0, 1e-3)
    pair = Profile.both(sketch_loss(3.0, 10))
    for epsilon in (0.0, 0.5, 1.0):
        for tabulated, exact in zip(loss.losses, pair.losses, strict=True):
            excess = tabulated.delta(epsilon) - exact.delta(epsilon) - 1e-4
            assert 0 <= excess < 1e-5


# -- release and estimator manners -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["ridge", "subsample", "ptr"])
def test_release_roundtrip(method, tmp_path):
    mechanism = projection(method=method).fit(small_database(0, 300))
    path = mechanism.release_.save(tmp_path / "sketch.npz")
    loaded = Sketch.load(path)
    np.testing.assert_array_equal(loaded.matrix, mechanism.sketch_.matrix)
    assert loaded.ridge == mechanism.sketch_.ridge
    assert not mechanism.guarantee_.private
    assert "one row" in str(mechanism.guarantee_)


@pytest.mark.parametrize("method", ["ridge", "subsample", "ptr"])
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
    for method in ("ridge", "subsample"):
        with pytest.raises(ValueError, match="declared public") as error:
            projection(n_rows=31, method=method).fit(table)
        assert "30 " not in str(error.value)


def test_a_release_without_seed_is_private_and_new():
    first, second = (projection(random_state=None).fit(np.ones((9, 2))) for _ in range(2))
    assert first.guarantee_.private
    assert not np.array_equal(first.sketch_.matrix, second.sketch_.matrix)


def test_released_numbers_lie_on_the_grid():
    mechanism = projection(random_state=None).fit(small_database(1, 50))
    spacing = 2.0 ** (math.floor(math.log2(mechanism.noise_scale_)) - 12)
    np.testing.assert_array_equal(mechanism.sketch_.matrix % spacing, 0.0)


@pytest.mark.parametrize("method", ["ridge", "subsample", "ptr"])
def test_a_budget_of_exactly_its_price_buys_one_release(method, tmp_path):
    ledger = Ledger.create(tmp_path / "budget", epsilon=1.0, delta=1e-5, relation="add-remove")
    mechanism = projection(method=method, random_state=None, ledger=ledger)
    ledger.preview(mechanism.guarantee())
    mechanism.fit(np.ones((5, 2)))
    with pytest.raises(BudgetExceeded):
        mechanism.fit(np.ones((5, 2)))


def test_scikit_learn_manners():
    mechanism = projection(method="ptr")
    copy = clone(mechanism)
    assert copy.get_params() == mechanism.get_params()
    assert not hasattr(copy, "release_")
    assert copy.set_params(method="ridge").fit(np.ones((5, 2))) is copy
    assert "differentially private" in copy._repr_html_()
    assert "differentially private" not in mechanism._repr_html_()


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (2, 7), (40, 1)])
@pytest.mark.parametrize("method", ["ridge", "subsample", "ptr"])
def test_extreme_shapes(method, shape):
    sketch = projection(method=method, n_components=1).fit(np.ones(shape)).sketch_
    assert sketch.matrix.shape == (shape[1], 1)
    assert np.isfinite(sketch.matrix).all()


@pytest.mark.parametrize("method", ["ridge", "ptr"])
@pytest.mark.parametrize("norm", [1e-130, 1e130])
def test_extreme_norms(method, norm):
    mechanism = projection(method=method, data_norm=norm).fit(np.full((5, 2), 0.3 * norm))
    unit = projection(method=method, data_norm=1.0).fit(np.full((5, 2), 0.3))
    np.testing.assert_allclose(
        mechanism.sketch_.matrix / norm, unit.sketch_.matrix, rtol=1e-9, atol=2.0**-6
    )
    assert np.isfinite(mechanism.sketch_.gram().standard_error).all()


@pytest.mark.parametrize("method", ["ridge", "subsample", "ptr"])
def test_extreme_delta(method):
    mechanism = projection(method=method, delta=1e-300).fit(np.ones((5, 2)))
    assert meets(mechanism.guarantee_.loss, 1.0, 1e-300)


def test_epsilon_zero():
    assert meets(projection(epsilon=0.0).fit(np.ones((2, 2))).guarantee_.loss, 0.0, 1e-5)


def test_forecast_needs_no_data_and_is_right():
    """Against the spread of many releases."""
    table = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    gram = table.T @ table
    mechanism = projection(n_components=200)
    forecast = mechanism.forecast(gram)
    sketch, rng = mechanism.fit(table).sketch_, np.random.default_rng(1)
    draws = (draw_sketch(gram, sketch.ridge, 200, rng) for _ in range(400))
    estimates = np.array([replace(sketch, matrix=draw).gram().value for draw in draws])
    errors = np.sqrt(np.mean((estimates - gram) ** 2, axis=0))
    np.testing.assert_allclose(errors, forecast.standard_error, rtol=0.12)
    assert forecast.noise_scale == mechanism.calibrate()
    isotropic = mechanism.forecast(n_rows=5000, n_columns=3)
    assert isotropic.relative_error == pytest.approx(
        mechanism.forecast(5000 * 4 / 3 * np.eye(3)).relative_error
    )


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
    sketch = projection(levels={"carrier": ["AA", "DL"]}, intercept=True).fit(frame).sketch_
    assert sketch.columns == ("intercept", "speed", "carrier=AA", "carrier=DL")


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"data_norm": None}, ValueError, "data_norm"),
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
        ({"method": "subsample", "rate": 0.0}, ValueError, "rate"),
        ({"method": "subsample", "rate": 1e-6}, ValueError, "rate > delta"),
    ],
)
def test_bad_parameters_are_one_sentence(changes, error, words):
    with pytest.raises(error, match=words) as caught:
        projection(**changes).fit(np.ones((3, 2)))
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("method", ["ridge", "subsample"])
@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.empty((0, 2)), "no rows"),
        (np.ones(3), "rows and columns"),
        (np.array([["a", "b"]]), "numbers"),
        (pa.table({"x": [1.0], "name": ["Ada"]}), "'name'"),
        (pa.table({"x": [1.0, None]}), "'x'"),
    ],
)
def test_bad_tables_are_one_sentence(method, table, words):
    with pytest.raises((ValueError, TypeError), match=words):
        projection(method=method, rate=0.999).fit(table)


def test_a_file_that_vanishes_half_way(tmp_path):
    frame = pa.table({"x": np.ones(10), "y": np.ones(10)})
    files = [tmp_path / f"{k}.parquet" for k in range(3)]
    for file in files:
        pq.write_table(frame, file)
    files[2].unlink()
    with pytest.raises(FileNotFoundError, match="is not there"):
        projection().fit([str(file) for file in files])


def test_mixture_methods_have_no_single_law():
    for method in ("subsample", "ptr"):
        with pytest.raises(ValueError, match="one Gaussian"):
            projection(method=method).output_law(np.ones((3, 2)))
