"""Estimates from a released sketch, and their standard errors, against simulation."""

from dataclasses import replace

import numpy as np
import pytest

from ndis import Guarantee, PrivateProjection, Release, Sketch
from ndis.mechanisms.sketch import own_units
from ndis.tables import Columns

N, R, RIDGE = 400, 300, 9.0
COLUMNS = ("x0", "x1", "x2")


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (N, 3)) * [1.0, 0.6, 0.3]
    rows[:, 2] += 0.8 * rows[:, 0] - 0.4 * rows[:, 1]
    return rows


TABLE = table()
GRAM = TABLE.T @ TABLE


def draw(gram: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.cholesky(gram + noise) @ rng.standard_normal((len(gram), R))


# The noise of a table in its own units, and that of one that was sketched as it is.
UNITS = np.array([[2.0, 0.0, 0.0], [0.5, 0.3, 0.0], [1.0, 0.0, 1.5]])
NOISES = {"as it is": RIDGE, "own units": 4.0 * UNITS @ UNITS.T}


def releases(n_releases: int, noise: str = "as it is", seed: int = 1) -> list[Sketch]:
    rng, ridge = np.random.default_rng(seed), NOISES[noise]
    added = ridge * np.eye(3) if np.ndim(ridge) == 0 else ridge
    return [Sketch(draw(GRAM, added, rng), COLUMNS, ridge) for _ in range(n_releases)]


def simulate(estimate, sketches):
    """Mean, its standard error, spread, and the mean claimed standard error."""
    found = [estimate(sketch) for sketch in sketches]
    values = np.array([value for value, _ in found])
    claimed = np.sqrt(np.mean([error**2 for _, error in found], axis=0))
    spread = values.std(axis=0, ddof=1)
    return values.mean(axis=0), spread / np.sqrt(len(sketches)), spread, claimed


WEIGHTS = np.array([[1.0, 1.0, 0.0], [0.5, -1.0, 2.0]])
TRUTHS = {
    "gram": (Sketch.gram, GRAM),
    "inner_products": (lambda s: s.inner_products(WEIGHTS), WEIGHTS @ GRAM @ WEIGHTS.T),
    "distances": (
        Sketch.distances,
        np.sum((TABLE[:, :, None] - TABLE[:, None, :]) ** 2, axis=0),
    ),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", TRUTHS)
def test_unbiased_with_right_standard_error(name, noise):
    estimate, truth = TRUTHS[name]
    mean, error, spread, claimed = simulate(estimate, releases(2000, noise))
    off = truth != 0 if name == "distances" else np.ones(truth.shape, dtype=bool)
    assert np.all(np.abs(mean - truth)[off] < 4 * error[off])
    np.testing.assert_allclose(claimed[off], spread[off], rtol=0.1)


@pytest.mark.parametrize("name", TRUTHS)
def test_forgotten_ridge_is_detected(name):
    estimate, truth = TRUTHS[name]
    sketches = [replace(sketch, ridge=0.7 * RIDGE) for sketch in releases(2000)]
    mean, error, _, _ = simulate(estimate, sketches)
    assert np.any(np.abs(mean - truth)[truth != 0] > 4 * error[truth != 0])


@pytest.mark.parametrize("noise", NOISES)
def test_least_squares(noise):
    truth = np.linalg.lstsq(TABLE[:, :2], TABLE[:, 2], rcond=None)[0]
    mean, _, spread, claimed = simulate(lambda s: s.least_squares("x2"), releases(1500, noise))
    # Consistent, not unbiased: the bias is small beside the spread.
    assert np.all(np.abs(mean - truth) < 0.2 * spread)
    np.testing.assert_allclose(claimed, spread, rtol=0.15)


def test_ridge_regression_is_exact():
    ridged = GRAM + RIDGE * np.eye(3)
    truth = np.linalg.solve(ridged[:2, :2], ridged[:2, 2])
    mean, error, spread, claimed = simulate(
        lambda s: s.least_squares("x2", debias=False), releases(3000)
    )
    assert np.all(np.abs(mean - truth) < 4 * error)
    np.testing.assert_allclose(claimed, spread, rtol=0.05)


def test_target_in_the_middle():
    coefficients = releases(1, seed=7)[0].least_squares("x1").value
    truth = np.linalg.lstsq(TABLE[:, [0, 2]], TABLE[:, 1], rcond=None)[0]
    assert np.all(np.abs(coefficients - truth) < 4 * releases(1, seed=7)[0].least_squares("x1")[1])


@pytest.mark.parametrize("noise", NOISES)
def test_principal_components(noise):
    values, vectors = np.linalg.eigh(GRAM)
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), range(3)])
    sketches = releases(1500, noise)
    mean, _, spread, claimed = simulate(lambda s: s.principal_components(2).moments, sketches)
    assert np.all(np.abs(mean - values[:2]) < 0.25 * spread)  # a bias of order 1/r
    np.testing.assert_allclose(claimed, spread, rtol=0.1)
    mean, _, spread, claimed = simulate(lambda s: s.principal_components(1).components, sketches)
    assert np.all(np.abs(mean - vectors[:, :1].T) < 0.25 * spread)
    np.testing.assert_allclose(claimed, spread, rtol=0.2)


def test_from_release_of_something_else():
    release = Release(np.ones(2), Guarantee(1.0, 1e-6, "replace", "proven"), "Other")
    with pytest.raises(ValueError, match="release of PrivateProjection"):
        Sketch.from_release(release)


def test_ptr_release_carries_its_ridge():
    rows = 100 * np.eye(3)[np.arange(900) % 3]
    mechanism = PrivateProjection(
        epsilon=2.0, delta=1e-4, data_norm=1.0, n_components=50, method="ptr", random_state=0
    ).fit(rows)
    np.testing.assert_array_equal(
        mechanism.sketch_.ridge, float(mechanism.release_.arrays["ridge"]) * np.eye(3)
    )
    assert mechanism.sketch_.ridge[0, 0] < mechanism.calibrate(3)["sketch"] ** 2


def people() -> np.ndarray:
    rng = np.random.default_rng(4)
    age, weight = rng.uniform(20, 80, 30_000), rng.normal(70, 9, 30_000)
    return np.column_stack([age, weight, 1000 + 3 * age + 5 * weight + rng.normal(0, 9, 30_000)])


LIMITS = [(0.0, 100.0), (0.0, 150.0), (0.0, 3000.0)]


@pytest.mark.parametrize("intercept", [False, True])
def test_a_sketch_answers_in_the_units_of_the_table(intercept, tmp_path):
    """With limits the sketch is of the scaled table, centred where there is an intercept."""
    rows = people()
    mechanism = PrivateProjection(
        epsilon=2.0,
        delta=1e-6,
        limits=LIMITS,
        n_components=3000,
        fit_intercept=intercept,
        random_state=1,
    ).fit(rows)
    sketch = mechanism.sketch_
    whole = np.column_stack([np.ones(len(rows)), rows]) if intercept else rows
    assert sketch.columns == (("intercept",) if intercept else ()) + ("x0", "x1", "x2")
    value, error = sketch.gram()
    truth = whole.T @ whole
    assert np.all(np.abs(value - truth) < 4 * error)
    assert np.all(error < 0.1 * np.sqrt(np.outer(np.diag(truth), np.diag(truth))))
    if intercept:
        estimate, spread = sketch.least_squares("x2")
        assert np.all(np.abs(estimate - [1000.0, 3.0, 5.0]) < 4 * spread)
        assert spread[1] < 1.0
    loaded = Sketch.load(mechanism.release_.save(tmp_path / "sketch.npz"))
    assert loaded.columns == sketch.columns
    np.testing.assert_array_equal(loaded.matrix, sketch.matrix)
    np.testing.assert_array_equal(loaded.ridge, sketch.ridge)


def test_units_undo_the_recipe():
    """Integers of a row, in scaled units, times T are the row."""
    recipe = Columns(
        ["x0", "x1", "x2"], limits=dict(zip(COLUMNS, LIMITS, strict=True)), intercept=True
    )
    raw = np.vstack([np.ones(5), people()[:5].T])
    integers, _ = recipe.to_grid(raw.copy())
    own = own_units(recipe) @ (integers * (recipe.norm / 2**20))
    np.testing.assert_allclose(own, raw, rtol=1e-4)


def test_bad_requests_are_one_sentence():
    sketch = releases(1)[0]
    one = Sketch(sketch.matrix[:1], ("x0",), RIDGE)
    narrow = replace(sketch, matrix=sketch.matrix[:, :2])
    noisy = replace(sketch, ridge=1e6)
    for call, words in (
        (lambda: sketch.least_squares("y"), "target"),
        (lambda: one.least_squares("x0"), "two columns"),
        (lambda: narrow.least_squares("x0"), "more components"),
        (lambda: noisy.least_squares("x0"), "debias=False"),
        (lambda: sketch.principal_components(4), "k <= 3"),
        (lambda: sketch.inner_products([[1.0]]), r"combinations of shape \(any, 3\)"),
        (lambda: replace(sketch, matrix=sketch.matrix.T), r"matrix of shape \(3, any\)"),
        (lambda: replace(sketch, ridge=np.ones(3)), "covariance"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert one.gram().value.shape == (1, 1)
    assert one.principal_components(1).moments.value.shape == (1,)
