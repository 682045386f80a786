"""Private logistic regression and Gaussian processes."""

import math

import numpy as np
import pytest
from ndis.mechanisms.logistic import solve
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from ndis import PrivateGaussianProcess, PrivateLogisticRegression, audit, privacy_loss
from ndis.calibration import meets
from ndis.loss import Profile
from ndis.mechanisms import logistic as logistic_module
from posterior_pairs import logistic_removals, process_removals, worst_log_delta
from samplers import LEVEL, accepts_gaussian

DELTA = 1e-4


def logistic(**changes):
    parameters = {
        "epsilon": 1.0, "delta": DELTA, "data_norm": 1.0, "lam": 1.0, "classes": [0, 1],
        "random_state": 7,
    }  # fmt: skip
    return PrivateLogisticRegression(**(parameters | changes))


def process(**changes):
    parameters = {
        "epsilon": 1.0, "delta": DELTA, "label_bound": 1.0, "max_rows": 60, "kernel": RBF(0.3),
        "query_points": np.linspace(0, 1, 4)[:, None], "noise_variance": 0.5, "random_state": 7,
    }  # fmt: skip
    return PrivateGaussianProcess(**(parameters | changes))


def records(rng, n: int, d: int, steepness: float = 3.0):
    X = rng.standard_normal((n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    direction = steepness * rng.standard_normal(d)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ direction))).astype(int)
    return X, y


def with_constant(X):
    return np.column_stack([np.ones(len(X)), X])


def same_delta(loss, explicit, epsilon: float) -> None:
    for one, other in ((loss, explicit), (loss.reversed(), explicit.reversed())):
        assert one.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=1e-5, abs=1e-300)


# --- logistic regression: soundness ---------------------------------------------------------------


def test_logistic_removals_are_the_laws_themselves() -> None:
    rng = np.random.default_rng(1)
    X, y = records(rng, 10, 2)
    model = logistic(tol=1e-11)
    losses = logistic_removals(with_constant(X), 2.0 * y - 1, 1.0, model.calibrate())
    full = model.output_law(X, y)
    for i in range(10):
        smaller = model.output_law(np.delete(X, i, axis=0), np.delete(y, i))
        same_delta(losses[i], privacy_loss(full, smaller), 0.2)


@pytest.mark.parametrize("seed", range(10))
def test_logistic_keeps_its_promise(seed) -> None:
    rng = np.random.default_rng(seed)
    n, d, lam = int(rng.integers(1, 60)), int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 1)
    model = logistic(lam=lam, epsilon=rng.choice([0.1, 1.0, 5.0]))
    X, y = records(rng, n, d, steepness=rng.choice([0.0, 3.0, 50.0]))
    y[0] = 1 - y[0]
    losses = logistic_removals(with_constant(X), 2.0 * y - 1, lam, model.calibrate())
    assert worst_log_delta(losses, model.epsilon) <= math.log(DELTA)


def test_adversarial_records_keep_the_promise_and_come_near() -> None:
    """A crowd that drives the margin of one record of the other class far down."""
    worst = -math.inf
    model = logistic(lam=1.0, fit_intercept=False)
    for n in (0, 10, 100, 400):
        for share in (0.01, 0.1, 0.5, 1.0):
            crowd = np.column_stack(
                [np.full(n, share), math.sqrt(1 - share**2) * (-1.0) ** np.arange(n)]
            )
            X = np.vstack([[1.0, 0.0], crowd])
            signs = np.append(-1.0, np.ones(n))
            losses = logistic_removals(X, signs, 1.0, model.calibrate())[:1]
            worst = max(worst, worst_log_delta(losses, 1.0))
    assert worst <= math.log(DELTA)
    assert worst > math.log(DELTA) - 5.0


def test_several_draws_keep_the_promise() -> None:
    rng = np.random.default_rng(0)
    X, y = records(rng, 40, 2)
    model = logistic(n_draws=5)
    losses = logistic_removals(with_constant(X), 2.0 * y - 1, 1.0, model.calibrate())
    assert worst_log_delta(losses, 1.0, n_draws=5) <= math.log(DELTA)
    assert model.calibrate() > math.sqrt(4.0) * logistic().calibrate()


# --- logistic regression: calibration and solver --------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"max_rows": 100}, {"n_draws": 3}, {"epsilon": 0.0}])
def test_logistic_noise_is_proven(changes) -> None:
    guarantee = logistic(**changes).guarantee()
    assert guarantee.basis == "proven"
    assert meets(guarantee.loss, guarantee.epsilon, DELTA)


def test_the_public_row_bound_saves_noise() -> None:
    assert logistic(max_rows=10).calibrate() < logistic().calibrate()


def test_tolerance_enters_the_sensitivity() -> None:
    tight, loose = logistic(tol=1e-9), logistic(tol=0.1)
    assert loose.mean_sensitivity() / tight.mean_sensitivity() == pytest.approx(1.2)
    assert loose.calibrate() > 1.1 * tight.calibrate()


def test_a_loose_solve_keeps_the_promise() -> None:
    """The computed means of neighbours differ by no more than was declared."""
    rng = np.random.default_rng(5)
    X, y = records(rng, 30, 2)
    model = logistic(tol=0.3)
    full = model.output_law(X, y)
    for i in range(30):
        smaller = model.output_law(np.delete(X, i, axis=0), np.delete(y, i))
        assert np.linalg.norm(full.mean - smaller.mean) <= model.mean_sensitivity()
        assert Profile.both(privacy_loss(full, smaller)).delta(1.0) <= DELTA


def test_an_unfinished_solve_releases_nothing(monkeypatch) -> None:
    monkeypatch.setattr(logistic_module, "_STEPS", 1)
    X, y = records(np.random.default_rng(0), 50, 2)
    model = logistic(tol=1e-12)
    with pytest.raises(ArithmeticError, match="nothing was released"):
        model.fit(X, y)
    assert not hasattr(model, "release_")


@pytest.mark.parametrize("lam", [1e-3, 1.0, 100.0])
def test_solver_agrees_with_others(lam) -> None:
    rng = np.random.default_rng(2)
    X, y = records(rng, 200, 3, steepness=20.0)
    signs = 2.0 * y - 1
    found = solve(X, signs, lam, 1e-10)
    reference = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert found == pytest.approx(reference.fit(X, y).coef_[0], rel=1e-3, abs=1e-5)

    def height(theta):
        return np.logaddexp(0, -signs * (X @ theta)).sum() + 0.5 * lam * theta @ theta

    assert height(found) <= minimize(height, found + 0.01).fun + 1e-9


# --- logistic regression: the estimator -----------------------------------------------------------


def test_logistic_learns_from_many_records() -> None:
    table = load_breast_cancer()
    X = np.tile((table.data - table.data.mean(0)) / table.data.std(0) / 10, (40, 1))
    y = np.tile(table.target, 40)
    model = logistic(lam=100.0, data_norm=1.0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.coef_.shape == (1, 30)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.release_.parameters["classes"] == [0, 1]


def test_logistic_draws_follow_the_law() -> None:
    X, y = records(np.random.default_rng(0), 100, 2)
    model = logistic(n_draws=3000).fit(X, y)
    law = model.output_law(X, y)
    assert accepts_gaussian(model.draws_, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(model.draws_, law.mean, 1.3 * law.cov, LEVEL)


def test_long_records_are_scaled_without_a_word() -> None:
    X, y = records(np.random.default_rng(0), 30, 2)
    long = X.copy()
    long[0] *= 1e6
    short = X.copy()
    short[0] /= np.linalg.norm(short[0])
    laws = [logistic().output_law(table, y) for table in (long, short)]
    assert laws[0].mean == pytest.approx(laws[1].mean)


def test_declared_classes_do_not_depend_on_the_data() -> None:
    X = np.random.default_rng(0).uniform(size=(5, 2))
    assert logistic().fit(X, np.zeros(5, dtype=int)).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changes", "labels", "message"),
    [
        ({"classes": None}, np.zeros(6), "one class only"),
        ({"classes": None}, np.arange(6), "two classes"),
        ({"classes": [0]}, np.zeros(6), "two labels"),
        ({}, np.arange(6), "declared classes"),
        ({"lam": 0.0}, np.arange(6) % 2, "lam > 0"),
        ({"lam": -1.0}, np.arange(6) % 2, "lam > 0"),
        ({"data_norm": None}, np.arange(6) % 2, "data_norm"),
        ({"tol": 0.0}, np.arange(6) % 2, "tol > 0"),
        ({"max_rows": 5}, np.arange(6) % 2, "at most 5 rows"),
    ],
)
def test_logistic_names_what_is_wrong(changes, labels, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        logistic(**changes).fit(np.random.default_rng(0).uniform(size=(6, 2)), labels)


@pytest.mark.parametrize("model", [logistic(), process(query_points=[[0.5]])])
def test_audit_finds_nothing(model) -> None:
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(-0.5, 0.5, (8, 1)), rng.integers(0, 2, 8)])
    assert audit(model, table).outcome == "consistent"


def test_audit_refutes_a_careless_logistic_regression() -> None:
    model = logistic(fit_intercept=False)
    half = 0.75 * model.calibrate() ** 2

    def careless(table):
        law = model.output_law(table)
        return law.mean, law.cov - half * np.eye(law.dimension)

    crowd = np.column_stack([np.full(200, 0.05), (-1.0) ** np.arange(200), np.ones(200)])
    table = np.vstack([[1.0, 0.0, 0.0], crowd])
    assert audit(careless, table, claim=(1.0, DELTA)).outcome == "refuted"


# --- Gaussian processes ---------------------------------------------------------------------------


def test_process_removals_are_the_laws_themselves() -> None:
    rng = np.random.default_rng(1)
    X, y, model = rng.uniform(size=(9, 1)), rng.uniform(-1, 1, 9), process()
    points = np.asarray(model.query_points)
    losses = process_removals(X, y, points, model.kernel, 0.5, model.calibrate())
    full = model.output_law(X, y)
    for i in range(9):
        smaller = model.output_law(np.delete(X, i, axis=0), np.delete(y, i))
        same_delta(losses[i], privacy_loss(full, smaller), 0.5)


@pytest.mark.parametrize("kernel", [RBF(0.1), 2.0 * Matern(0.5, nu=1.5)], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_process_keeps_its_promise(seed, kernel) -> None:
    rng = np.random.default_rng(seed)
    n, s2 = int(rng.integers(1, 61)), 10 ** rng.uniform(-2, 1.5)
    points = rng.uniform(size=(int(rng.integers(1, 6)), 1))
    model = process(kernel=kernel, noise_variance=s2, query_points=points)
    X = rng.uniform(size=(n, 1))
    # The labels that move the mean at the first record the most, against that record's own.
    weights = np.linalg.solve(kernel(X[1:]) + s2 * np.eye(n - 1), kernel(X[1:], X[:1]))[:, 0]
    y = np.append(-1.0, np.where(weights >= 0, 1.0, -1.0))
    losses = process_removals(X, y, points, kernel, s2, model.calibrate())
    assert worst_log_delta(losses, 1.0) <= math.log(DELTA)


@pytest.mark.parametrize("noise_variance", [0.01, 0.5, 10.0])
def test_process_bounds_hold_for_exhaustive_neighbours(noise_variance) -> None:
    """Every subset of a small grid with every pattern of labels: bounds hold, the excess is met."""
    kernel, point = RBF(0.4), np.array([[0.5]])
    grid = np.array([[0.1], [0.5], [0.6], [0.9]])
    model = process(kernel=kernel, query_points=point, noise_variance=noise_variance, max_rows=4)
    update, noise = model.update(), model.calibrate()
    largest = 0.0
    for chosen in range(1, 16):
        X = grid[[i for i in range(4) if chosen >> i & 1]]
        for pattern in range(2 ** len(X)):
            y = np.array([1.0 if pattern >> i & 1 else -1.0 for i in range(len(X))])
            losses = process_removals(X, y, point, kernel, noise_variance, noise)
            excess, shift = -losses.excess[:, 0], losses.shift.sum(axis=1)
            assert np.all(excess <= update.excess(noise**2) * (1 + 1e-9))
            assert np.all(shift <= update.residual() ** 2 * excess * (1 + 1e-9))
            assert worst_log_delta(losses, 1.0) <= math.log(DELTA)
            largest = max(largest, excess.max())
    assert largest == pytest.approx(update.excess(noise**2))  # the record at the query point, alone


def test_process_is_the_one_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y, model = rng.uniform(size=(40, 1)), rng.uniform(-1, 1, 40), process()
    law = model.output_law(X, y)
    reference = GaussianProcessRegressor(RBF(0.3), alpha=0.5, optimizer=None).fit(X, y)
    mean, cov = reference.predict(np.asarray(model.query_points), return_cov=True)
    assert law.mean == pytest.approx(mean)
    assert law.cov - model.calibrate() ** 2 * np.eye(4) == pytest.approx(cov, abs=1e-9)


def test_process_draws_follow_the_law() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 1)), rng.uniform(-1, 1, 40)
    model = process(n_draws=2000).fit(X, y)
    law = model.output_law(X, y)
    assert accepts_gaussian(model.draws_, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(model.draws_, law.mean, 1.3 * law.cov, LEVEL)


def test_process_predicts_from_its_release() -> None:
    x = np.linspace(0, 1, 2000)[:, None]
    y = np.sin(6 * x[:, 0])
    points = np.linspace(0, 1, 8)[:, None]
    model = process(max_rows=2000, query_points=points, noise_variance=40.0, epsilon=3.0)
    error = model.fit(x, y).predict(x) - y
    assert np.sqrt(np.mean(error**2)) < 0.8 * y.std()


def test_more_query_points_at_one_place_cost_what_their_covariance_says() -> None:
    one, ten = (process(query_points=np.full((m, 1), 0.5)).update() for m in (1, 10))
    assert ten.prior_norm == pytest.approx(10 * one.prior_norm)


def test_process_clips_labels() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(20, 1)), rng.uniform(-1, 1, 20)
    laws = [process().output_law(X, np.where(y > 0, top, y)) for top in (1.0, 50.0)]
    assert np.array_equal(laws[0].mean, laws[1].mean)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_bound": None}, "label_bound"),
        ({"max_rows": None}, "cannot be bounded without it"),
        ({"max_rows": 5}, "at most 5 rows"),
        ({"kernel": DotProduct()}, "kernel_bound"),
        ({"kernel": DotProduct(), "kernel_bound": 1.0}, "one beyond it"),
        ({"kernel": ConstantKernel(4.0) * RBF(), "kernel_bound": 1.0}, "exceeds"),
        ({"query_points": np.zeros((2, 3))}, "column"),
        ({"noise_variance": 0.0}, "noise_variance > 0"),
    ],
)
def test_process_names_what_is_wrong(changes, message) -> None:
    X = np.linspace(0, 1, 6)[:, None]
    with pytest.raises(ValueError, match=message):
        process(**changes).fit(X, X[:, 0])


# --- scikit-learn's own checks --------------------------------------------------------------------


@parametrize_with_checks(
    [
        PrivateLogisticRegression(epsilon=10.0, delta=1e-2, data_norm=3.0),
        PrivateGaussianProcess(epsilon=10.0, delta=1e-2, label_bound=3.0, max_rows=1000),
    ],
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)
