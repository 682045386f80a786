"""Private least squares: what it promises, what it releases, what it does with awkward data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ndis import Gaussian, PrivateLeastSquares, Profile, QuadraticLoss, Release, privacy_loss
from ndis.calibration import noise_multiplier
from ndis.loss.least_squares import LeastSquaresLoss
from ndis.loss.student import SketchAndSolveLoss
from ndis.mechanisms.projection_methods import least_ratio
from ndis.mechanisms.regression_methods import METHODS, Table, Task
from ndis.mechanisms.regression_methods.moments import Moments, Newton
from ndis.mechanisms.regression_methods.sketches import least_triangle_ratio, ridged_law
from ndis.tables import read_gram


def data(n: int = 4000, d: int = 3, seed: int = 0, noise: float = 0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    beta = np.array([1.0, -2.0, 0.5, 0.0, 1.5])[:d]
    return X, X @ beta + 0.3 + noise * rng.standard_normal(n), beta


def model(method: str = "auto", **changes):
    parameters = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "data_norm": 4.5,
        "label_bound": 4.0,
        "n_components": 30 if method == "als" else None,
        "random_state": 0,
    }
    return PrivateLeastSquares(method=method, **(parameters | changes))


def task(**changes) -> Task:
    parameters = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "n_features": 3,
        "data_norm": 1.0,
        "label_bound": 0.5,
        "n_components": None,
        "n_rounds": 3,
    }
    return Task(**(parameters | changes))


# -- all methods -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_keeps_its_promise(method: str) -> None:
    X, y, _ = data()
    fitted = model(method).fit(X, y)
    assert fitted.score(X, y) > (0.1 if method == "als" else 0.4)
    assert fitted.predict(X[:5]).shape == (5,)
    guarantee = fitted.guarantee_
    assert guarantee.basis == "proven"
    assert 0.8e-5 < float(guarantee.loss.delta(2.0)) <= 1e-5  # not much less: no noise is wasted


@pytest.mark.parametrize("method", ["auto", "gaussian-limit", "als", "sketch"])
def test_calibrate_needs_no_data_and_release_round_trips(method: str, tmp_path) -> None:
    X, y, _ = data(500)
    fitted = model(method).fit(X, y)
    assert fitted.calibrate(3) == fitted.noise_scale_
    again = Release.load(fitted.release_.save(tmp_path / "r.npz"))
    assert np.array_equal(again.arrays["coef"], fitted.release_.arrays["coef"])
    assert again.parameters["n_rows"] is None  # not declared, so not told
    assert str(fitted.guarantee_) in fitted._repr_html_().replace("&#x27;", "'")


# -- noise ----------------------------------------------------------------------


def test_noise_of_the_flights_row() -> None:
    shared = {"epsilon": 1.0, "delta": 1 / 327_346, "data_norm": 1.0, "n_components": 1269}
    limit = PrivateLeastSquares(method="gaussian-limit", fit_intercept=False, **shared)
    assert 8.42 < limit.calibrate(2) <= 8.44
    sketch = PrivateLeastSquares(method="sketch", **shared).calibrate(1)
    assert sketch == pytest.approx(10.27, abs=0.005)
    als = PrivateLeastSquares(method="als", fit_intercept=False, **shared).calibrate(2)
    assert als <= limit.calibrate(2)


@pytest.mark.parametrize(
    ("d", "r", "epsilon", "delta"),
    [
        (1, 1, 1.0, 1e-6),
        (2, 2, 1.0, 1e-6),
        (3, 4, 30.0, 0.3),
        (2, 30, 0.1, 1e-6),
        (2, 30, 5.0, 1e-6),
    ],
)
def test_small_sketches_are_calibrated(d: int, r: int, epsilon: float, delta: float) -> None:
    """Fewer components than usual, extreme budgets: proven, and less noise than the projection."""
    ratio = least_triangle_ratio(SketchAndSolveLoss, epsilon, delta, d, r)
    losses = (SketchAndSolveLoss(ratio**-2, d, r, backwards) for backwards in (False, True))
    target = math.log(delta)
    assert (
        max(loss.bounds_within(np.array([epsilon]), 0.0, target - 1e-9)[1][0] for loss in losses)
        <= target
    )
    assert ratio < least_ratio(epsilon, delta, r)


def test_a_delta_that_cannot_be_certified_is_left_to_the_projection() -> None:
    als = model("als", delta=1e-40, n_components=10)
    assert als.calibrate(2) == pytest.approx(4.5 * least_ratio(2.0, 1e-40, 10))


# -- accounting --------------------------------------------------------------------------------


def one_row_pair(method: Moments, row: np.ndarray, base: np.ndarray) -> float:
    """Squared distance of the three statistics with and without a row, in their noise."""
    X, y = row[:-1], row[-1]
    change = np.outer(X, X)
    upper = np.triu_indices(len(X), 1)
    scale = method.noise_scale
    on, off = np.sum(np.diag(change) ** 2), 2 * np.sum(change[upper] ** 2)
    eigen = np.linalg.eigvalsh(base + change)[0] - np.linalg.eigvalsh(base)[0]
    moment = np.sum((X * y) ** 2) / method._moment_scale**2
    return (on + off + eigen**2) / scale**2 + moment


def test_adassp_is_one_mean_shift() -> None:
    """No row within the bounds moves the three statistics further than the loss says."""
    rng = np.random.default_rng(0)
    method = Moments(task())
    promised = 3.0 / method._unit**2
    for _ in range(500):
        row = rng.standard_normal(4)
        row *= rng.uniform(0.9, 1) / np.linalg.norm(row)
        row[-1] = np.clip(row[-1], -0.5, 0.5)
        base = rng.uniform(0, 3) * np.eye(3)
        assert one_row_pair(method, row, base) <= promised
    axis = np.array([1.0, 0, 0, 0])
    moved = one_row_pair(method, axis, np.diag([0.0, 5.0, 5.0]))
    assert moved >= 2.0 / method._unit**2 - 1e-12  # attained, but for the label
    assert method.loss == Profile.both(QuadraticLoss.from_shift(math.sqrt(3) / method._unit))


# -- adaptive clips ----------------------------------------------------------------------------


def as_table(rows: np.ndarray) -> Table:
    names = [*(f"x{i}" for i in range(rows.shape[1] - 1)), "y"]
    return Table(rows, read_gram(rows, columns=names), "y")


def statistics(method: Newton, table: Table, released: dict) -> np.ndarray:
    """What `newton` asks this table at the points and clips of a release, in units of the noise."""
    gram, upper = table.moments[:-1, :-1], np.triu_indices(table.moments.shape[0] - 1)
    gram = gram[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    size = [table.gram.n_rows, table.moments[-1, -1] / method._task.label_bound**2]
    gradients = [
        table.gradient(theta, clip) / (method.gradient_scale * clip)
        for theta, clip in zip(released["points"], released["clips"], strict=True)
    ]
    return np.concatenate(
        [gram / method.noise_scale, np.array(size) / method.size_scale, *gradients]
    )


def observed(method: Newton, released: dict) -> np.ndarray:
    """What was released, in the same units."""
    gram = released["gram"]
    upper = np.triu_indices(len(gram))
    gram = gram[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    gradients = released["gradients"] / (method.gradient_scale * released["clips"][:, np.newaxis])
    return np.concatenate(
        [gram / method.noise_scale, released["size"] / method.size_scale, gradients.ravel()]
    )


def test_a_row_moves_every_query_by_at_most_its_sensitivity() -> None:
    rng = np.random.default_rng(0)
    rows = np.array([[0.9, 0.3, 0.1, 0.3], [0.1, -0.2, 0.9, -0.3]])
    moved = as_table(rows), as_table(rows[:1])
    for _ in range(200):
        theta, clip = 10 ** rng.uniform(-2, 2) * rng.standard_normal(3), 10 ** rng.uniform(-3, 1)
        change = moved[0].gradient(theta, clip) - moved[1].gradient(theta, clip)
        assert np.linalg.norm(change) <= np.linalg.norm(rows[1, :3]) * clip * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_newton_spends_what_it_says_on_every_path(epsilon: float) -> None:
    """The clips depend on what was released, the squared distance never exceeds 1/unit^2."""
    rng = np.random.default_rng(1)
    method = Newton(task(epsilon=epsilon, label_bound=0.05))
    promised = 1.0 / noise_multiplier(epsilon, 1e-6) ** 2
    shifts = [loss.shift for loss in method.loss.losses]
    np.testing.assert_allclose(shifts, promised, rtol=1e-14)
    x = rng.standard_normal((2000, 3))
    x *= 0.9 / np.linalg.norm(x, axis=1, keepdims=True)
    rows = np.column_stack([x, np.clip(x @ [0.04, 0.03, 0.0], -0.05, 0.05)])
    clips, most = set(), 0.0
    for i in range(20):
        worst = np.array([math.sqrt(1 - 0.05**2), 0.0, 0.0, 0.05 * (-1) ** i])
        row = worst if i % 2 else np.append(x[i], 0.05)
        tables = as_table(np.vstack([rows, row])), as_table(rows)
        released = method.draw(tables[i % 2], rng)
        clips.add(released["clips"][-1])
        apart = [statistics(method, table, released) for table in tables]
        distance = float(np.sum((apart[0] - apart[1]) ** 2))
        assert distance <= promised * (1 + 1e-9)
        most = max(most, distance)
    assert len(clips) > 5  # they do adapt
    assert most > 0.7 * promised  # and the budget is not merely left over


def test_the_loss_of_newton_is_the_true_one_by_replaying_its_noise() -> None:
    """The likelihood ratio of whole releases, adaptive as they are, has the profile reported."""
    rng = np.random.default_rng(2)
    method = Newton(task(epsilon=2.0, delta=1e-2, n_features=1, label_bound=0.05))
    rows = np.array([[math.sqrt(1 - 0.05**2), 0.05], [0.5, 0.02]])
    tables = as_table(rows), as_table(rows[1:])
    losses = []
    for _ in range(1500):
        released = method.draw(tables[0], rng)
        seen = observed(method, released)
        with_row, without = (statistics(method, table, released) for table in tables)
        losses.append(0.5 * float(np.sum((seen - without) ** 2) - np.sum((seen - with_row) ** 2)))
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        gains = np.maximum(-np.expm1(epsilon - np.array(losses)), 0.0)
        reported = float(method.loss.delta(epsilon))
        error = 3.0 * float(gains.std()) / math.sqrt(len(gains))
        assert gains.mean() <= reported + error
        assert gains.mean() >= 0.5 * reported - error  # and not merely far below


def test_auto_is_unbiased_where_labels_sit_at_their_bound() -> None:
    """Residuals beyond the bound on labels are common there: clipping at it would be a bias."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, (20_000, 2))
    X -= X.mean(axis=0)
    y = 0.9 + X @ [0.1, -0.05] + 0.05 * rng.uniform(-1, 1, 20_000)
    y[:2000] = -1.0  # a few at the other end
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    asked = {"epsilon": 20.0, "data_norm": 1.3, "label_bound": 1.0, "fit_intercept": False}
    found = np.array([model(random_state=seed, **asked).fit(X, y).coef_ for seed in range(20)])
    spread = found.std(axis=0) / math.sqrt(20)
    assert np.all(np.abs(found.mean(axis=0) - exact) < 4 * spread + 1e-4)
    assert np.all(spread < 1e-3)
    # The gradient at the solution, clipped at the bound on labels, is far from zero.
    residual = y - X @ exact
    bias = np.linalg.solve(X.T @ X, X.T @ np.clip(residual, -1, 1))
    assert np.linalg.norm(bias) > 5e-3


# -- laws --------------------------------------------------------------------------------------


def test_gaussian_limit_law_is_that_of_the_ridged_table() -> None:
    X, y, _ = data(300)
    limit = model("gaussian-limit", fit_intercept=False)
    sigma, r = limit.calibrate(3), 300
    law = limit.output_law(X, y)
    B = np.vstack([X, sigma * np.eye(3), np.zeros((1, 3))])
    b = np.concatenate([y, np.zeros(3), [sigma]])
    x = np.linalg.lstsq(B, b, rcond=None)[0]
    expected = Gaussian(x, np.sum((b - B @ x) ** 2) * np.linalg.inv(B.T @ B) / r)
    assert np.allclose(law.mean, expected.mean)
    assert np.allclose(law.cov, expected.cov)


def test_residuals_of_the_ridged_table_are_at_least_its_own_row() -> None:
    """A label that is explained exactly, by a table beside which a ridge is near rounding."""
    X = np.random.default_rng(0).standard_normal((1000, 2)) * 1e5
    rows = np.column_stack([X, X @ [1.0, -3.0]])
    law = ridged_law(rows.T @ rows, 1e-4, 10)
    least = 1e-4 * np.linalg.inv(X.T @ X + 1e-4 * np.eye(2)) / 10
    assert np.all(np.linalg.eigvalsh(law.cov) >= np.linalg.eigvalsh(least) * (1 - 1e-9))


def test_laws_of_neighbours_keep_the_promise() -> None:
    """Leave out the row that hurts most: the two explicit laws are within (epsilon, delta)."""
    X, y, _ = data(40)
    limit = model("gaussian-limit", n_components=50)
    full = limit.output_law(X, y)
    worst = 0.0
    for i in range(40):
        removed = limit.output_law(np.delete(X, i, 0), np.delete(y, i))
        worst = max(worst, float(Profile.both(privacy_loss(full, removed)).delta(2.0)))
    assert worst <= 1e-5
    # One row of the worst kind, alone in its table, all but attains it.
    lonely = model("gaussian-limit", n_components=50, data_norm=1.0, label_bound=1.0)
    lonely.set_params(fit_intercept=False)
    q, p = LeastSquaresLoss(lonely.calibrate(2) ** -2, 2, 50).worst_pair(2.0)
    gain = (1 - p) / (1 - q)  # of the residual
    x2 = p / (1 - p) * lonely.calibrate(2) ** 2
    row = np.array([[math.sqrt(x2), 0.0]]), np.array([math.sqrt(max(1 - x2, 0.0))])
    law = lonely.output_law(*row)
    nothing = lonely.output_law(np.zeros((1, 2)), np.zeros(1))
    assert gain > 1
    delta = float(Profile.both(privacy_loss(law, nothing)).delta(2.0))
    assert 0.95e-5 < delta <= 1e-5


def test_draws_of_als_follow_the_t_law() -> None:
    from scipy.stats import kstest

    X, y, _ = data(60)
    als = model("als", fit_intercept=False)
    method = als._method(3)
    table = als._table(X, y)
    rng = np.random.default_rng(3)
    draws = np.array([method.draw(table, rng)["coef"] for _ in range(4000)])
    ridged = table.moments + method.ridge * np.eye(4)
    inverse = np.linalg.inv(ridged[:-1, :-1])
    x = inverse @ ridged[:-1, -1]
    residual = ridged[-1, -1] - ridged[:-1, -1] @ x
    dof = 30 - 3 + 1
    scale = np.sqrt(residual * np.diag(inverse) / dof)
    for j in range(3):
        assert kstest((draws[:, j] - x[j]) / scale[j], "t", (dof,)).pvalue > 1e-3
        assert kstest((draws[:, j] - x[j]) / (1.3 * scale[j]), "t", (dof,)).pvalue < 1e-6


# -- forecast ----------------------------------------------------------------------------------


def full_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features of 1 or -1 and labels of half of that, a quarter explained: rows of equal length."""
    X = rng.choice([-1.0, 1.0], (n, 3))
    chosen = X[np.arange(n), rng.integers(0, 3, n)]
    kept = rng.uniform(size=n) < 0.5 * (1 + math.sqrt(0.75))
    return X, 0.5 * np.where(kept, chosen, -chosen)


@pytest.mark.parametrize("method", METHODS)
def test_forecast_is_what_happens(method: str) -> None:
    """Fit tables like the one that is imagined: R^2 falls as much as was said."""
    rng = np.random.default_rng(0)
    X, y = full_rows(3000, rng)
    rows = np.column_stack([np.ones(3000), X])
    best = np.linalg.lstsq(rows, y, rcond=None)[0]
    norm = math.sqrt(3 + 1 + 0.25)
    asked = model(method, data_norm=norm, label_bound=1.0, n_components=40, epsilon=3.0)
    said = asked.forecast(3, 3000, explained=0.25)
    lost, away = [], []
    ready, table = asked._method(4), asked._table(X, y)
    for seed in range(200):
        moved = ready.draw(table, np.random.default_rng(seed))["coef"] - best
        lost.append(np.mean((rows @ moved) ** 2) / np.mean(y**2))
        away.append(np.sum(moved[1:] ** 2) / np.sum(best[1:] ** 2))
    # The forecast is a mean of 100 draws.
    error, far = (np.std(values) * math.sqrt(1 / 200 + 1 / 100) for values in (lost, away))
    assert said.lost == pytest.approx(np.mean(lost), rel=0.05, abs=4 * error)
    assert said.coefficient_error**2 == pytest.approx(np.mean(away), rel=0.5, abs=4 * far)
    assert said.noise_scale == asked.calibrate(3)


def test_forecast_says_what_it_cannot_tell() -> None:
    with pytest.raises(ValueError, match="leave room for features"):
        model(data_norm=1.0).forecast(3, 100)
    with pytest.raises(TypeError, match="n_rows"):
        model().forecast(3)
    declared = model(n_rows=500)
    assert declared.forecast(3) == model().forecast(3, 500)


# -- inference ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "noisy-gram", "sketch"])
def test_coverage(method: str) -> None:
    covered, trials = np.zeros(3), 100
    for seed in range(trials):
        X, y, beta = data(8000, d=2, seed=seed, noise=1.0)
        # Bounds that clip nobody: clipping would be part of the mechanism, and a bias.
        fitted = model(
            method, data_norm=7.0, label_bound=7.0, random_state=seed, n_components=None
        ).fit(X, y)
        interval = fitted.inference(0.9)
        truth = np.array([0.3, *beta])
        assert interval.names[0] == "intercept"
        covered += (interval.lower <= truth) & (truth <= interval.upper)
    assert abs(covered.mean() / trials - 0.9) < 4 * math.sqrt(0.09 / (3 * trials)) + 0.01
    assert np.all(np.abs(covered / trials - 0.9) < 4 * math.sqrt(0.09 / trials))  # intercept, too


def test_inference_says_what_it_needs() -> None:
    X, y, _ = data(4000)
    with pytest.raises(ValueError, match="method='noisy-gram'"):
        model("adassp").fit(X, y).inference()
    one_round = model(n_rounds=1, fit_intercept=False, epsilon=8.0).fit(X, y).inference()
    assert np.all(one_round.standard_error > 0)  # newton releases a noisy number of rows
    with pytest.raises(ValueError, match="n_rows"):
        model("noisy-gram", fit_intercept=False).fit(X, y).inference()
    known = model("noisy-gram", fit_intercept=False, n_rows=4000, epsilon=8.0).fit(X, y)
    assert known.inference().names == ("x0", "x1", "x2")
    with pytest.raises(ValueError, match="stand out"):
        model("noisy-gram", epsilon=0.01).fit(X[:50], y[:50]).inference()


# -- tables ------------------------------------------------------------------------------------


def test_named_tables(tmp_path) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y, _ = data(500)
    frame = pd.DataFrame({"price": y, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    path = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pandas(frame), path)
    by_array = model().fit(X, y)
    for source in (frame, str(path), pa.Table.from_pandas(frame)):
        fitted = model().fit(source, "price")
        assert np.allclose(fitted.coef_, by_array.coef_)
        assert fitted.release_.parameters["columns"] == ["intercept", "a", "b", "c"]
    reader = pa.Table.from_pandas(frame).to_reader()
    with pytest.raises(ValueError, match="read more than once"):
        model().fit(reader, "price")
    reader = pa.Table.from_pandas(frame).to_reader()
    assert model("adassp").fit(reader, "price").coef_.shape == (3,)
    with pytest.raises(ValueError, match="label to be one of"):
        model().fit(frame, "cost")


def test_rows_and_labels_are_bounded() -> None:
    X, y, _ = data(300)
    X[0], y[1] = 1e6, -1e9
    table = model()._table(X, y)
    gram = table.gram.matrix
    assert np.trace(gram) <= 300 * 4.5**2 * (1 + 1e-12)
    same = y.copy()
    same[1] = -4.0
    assert np.allclose(gram, model()._table(X, same).gram.matrix)


# -- awkward data ------------------------------------------------------------------------------


def awkward(kind: str) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = data(60)
    if kind == "equal columns":
        X[:, 2] = X[:, 0]
    elif kind == "collinear columns":
        X[:, 2] = 0.5 * X[:, 0] - 0.25 * X[:, 1]
    elif kind == "constant column":
        X[:, 2] = 1.0
    elif kind == "more columns than rows":
        X, y = X[:2], y[:2]
    elif kind == "one row":
        X, y = X[:1], y[:1]
    elif kind == "constant label":
        y = np.ones(60)
    elif kind == "explained label":
        y = X @ [1.0, -0.5, 0.25]
    else:
        X, y = np.zeros((60, 3)), np.zeros(60)
    return X, y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "kind",
    [
        "equal columns",
        "collinear columns",
        "constant column",
        "more columns than rows",
        "one row",
        "constant label",
        "explained label",
        "zero",
    ],
)
def test_awkward_data_give_finite_answers(method: str, kind: str) -> None:
    fitted = model(method, epsilon=4.0).fit(*awkward(kind))
    assert np.all(np.isfinite(fitted.coef_))
    assert math.isfinite(fitted.intercept_)


@pytest.mark.parametrize("method", ["auto", "noisy-gram", "adassp"])
def test_collinear_columns_predict_as_well_as_one(method: str) -> None:
    X, y, _ = data(20_000, d=1)
    twice = np.column_stack([X, X])
    shared = {"epsilon": 8.0, "data_norm": 5.0, "label_bound": 4.0}
    alone, both = model(method, **shared).fit(X, y), model(method, **shared).fit(twice, y)
    assert both.score(twice, y) == pytest.approx(alone.score(X, y), abs=0.02)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_matter(method: str, scale: float) -> None:
    X, y, _ = data(2000)
    here = model(method, fit_intercept=False).fit(X, y)
    there = model(method, fit_intercept=False, data_norm=4.5 * scale, label_bound=4.0 * scale).fit(
        scale * X, scale * y
    )
    assert np.allclose(here.coef_, there.coef_, atol=2e-2)


@pytest.mark.parametrize("name", ["data_norm", "label_bound"])
@pytest.mark.parametrize("value", [1e-61, 1e100])
def test_units_out_of_range_are_one_sentence(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"Expected {name} between .* measure in other units"):
        model(**{name: value}).calibrate(3)


@pytest.mark.parametrize("method", ["sketch", "als"])
def test_fewer_components_than_coefficients_is_one_sentence(method: str) -> None:
    with pytest.raises(ValueError, match="at least as many components as coefficients"):
        model(method, n_components=3).calibrate(3)  # and an intercept


def test_sentences() -> None:
    X, y, _ = data(100)
    with pytest.raises(ValueError, match="data_norm"):
        PrivateLeastSquares().fit(X, y)
    with pytest.raises(ValueError, match="method"):
        model("olse").fit(X, y)
    with pytest.raises(ValueError, match="components"):
        model("als", n_components=2).fit(X, y)
    with pytest.raises(ValueError, match="as declared public"):
        model(n_rows=99).fit(X, y)
    with pytest.raises(ValueError, match="Gaussian law"):
        model().output_law(X, y)


# -- scikit-learn ------------------------------------------------------------------------------


# No check is skipped. Bounds and epsilon are such that noise is small beside the checks' data.
@parametrize_with_checks(
    [PrivateLeastSquares(epsilon=1e3, delta=0.1, data_norm=20.0, label_bound=10.0, random_state=0)]
)
def test_scikit_learn(estimator, check) -> None:
    check(estimator)


def test_table_is_label_last() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [0.5, 1.0, -1.0]])
    table = Table(rows, read_gram(rows, columns=["a", "y", "b"]), "y")
    assert np.allclose(table.moments, rows[:, [0, 2, 1]].T @ rows[:, [0, 2, 1]])
    gradient = table.gradient(np.array([0.1, 0.2]), 1.0)
    residual = np.clip(rows[:, 1] - rows[:, [0, 2]] @ [0.1, 0.2], -1, 1)
    assert np.allclose(gradient, rows[:, [0, 2]].T @ residual)
