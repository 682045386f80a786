"""Estimates from a released sketch, and their standard errors, against simulation."""

from dataclasses import replace

import numpy as np
import pytest

from ndis import Guarantee, PrivateProjection, Release, Sketch
from ndis.mechanisms.projection import draw_sketch
from ndis.randomness import subsample_mask

N, R, RIDGE = 400, 300, 9.0
COLUMNS = ("x0", "x1", "x2")


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (N, 3)) * [1.0, 0.6, 0.3]
    rows[:, 2] += 0.8 * rows[:, 0] - 0.4 * rows[:, 1]
    return rows


TABLE = table()
GRAM = TABLE.T @ TABLE
NORM = 2.0


def releases(n_releases: int, rate: float = 1.0, seed: int = 1) -> list[Sketch]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_releases):
        kept = TABLE[subsample_mask(N, rate, rng)]
        matrix = draw_sketch(kept.T @ kept, RIDGE, R, rng)
        made.append(Sketch(matrix, COLUMNS, NORM, RIDGE, rate))
    return made


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


@pytest.mark.parametrize("name", TRUTHS)
def test_unbiased_with_right_standard_error(name):
    estimate, truth = TRUTHS[name]
    mean, error, spread, claimed = simulate(estimate, releases(2000))
    off = truth != 0 if name == "distances" else np.ones(truth.shape, dtype=bool)
    assert np.all(np.abs(mean - truth)[off] < 4 * error[off])
    np.testing.assert_allclose(claimed[off], spread[off], rtol=0.1)


@pytest.mark.parametrize("name", TRUTHS)
def test_forgotten_ridge_is_detected(name):
    estimate, truth = TRUTHS[name]
    sketches = [replace(sketch, ridge=0.7 * RIDGE) for sketch in releases(2000)]
    mean, error, _, _ = simulate(estimate, sketches)
    assert np.any(np.abs(mean - truth)[truth != 0] > 4 * error[truth != 0])


@pytest.mark.parametrize("name", TRUTHS)
def test_subsample_is_unbiased_and_its_error_is_a_bound(name):
    estimate, truth = TRUTHS[name]
    mean, error, spread, claimed = simulate(estimate, releases(2000, rate=0.5))
    off = truth != 0
    assert np.all(np.abs(mean - truth)[off] < 4 * error[off])
    assert np.all(claimed[off] > 0.97 * spread[off])
    assert np.all(claimed[off] < 3 * spread[off])


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_least_squares(rate):
    truth = np.linalg.lstsq(TABLE[:, :2], TABLE[:, 2], rcond=None)[0]
    sketches = releases(1500, rate)
    mean, _, spread, claimed = simulate(lambda s: s.least_squares("x2"), sketches)
    # Consistent, not unbiased: the bias is small beside the spread.
    assert np.all(np.abs(mean - truth) < 0.2 * spread)
    if rate == 1:
        np.testing.assert_allclose(claimed, spread, rtol=0.15)
    else:
        assert np.all(claimed > 0.95 * spread)


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


def test_principal_components():
    values, vectors = np.linalg.eigh(GRAM)
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), range(3)])
    sketches = releases(1500)
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
    assert mechanism.sketch_.ridge == pytest.approx(mechanism.noise_scale_**2)
    assert mechanism.sketch_.ridge < mechanism.calibrate() ** 2


def test_bad_requests_are_one_sentence():
    sketch = releases(1)[0]
    one = Sketch(sketch.matrix[:1], ("x0",), NORM, RIDGE)
    narrow = replace(sketch, matrix=sketch.matrix[:, :2])
    noisy = replace(sketch, ridge=1e6)
    for call, words in (
        (lambda: sketch.least_squares("y"), "target"),
        (lambda: one.least_squares("x0"), "two columns"),
        (lambda: narrow.least_squares("x0"), "more components"),
        (lambda: noisy.least_squares("x0"), "debias=False"),
        (lambda: sketch.principal_components(4), "k <= 3"),
        (lambda: sketch.inner_products([[1.0]]), "3 columns"),
        (lambda: replace(sketch, matrix=sketch.matrix.T), "each of 3 columns"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert one.gram().value.shape == (1, 1)
    assert one.principal_components(1).moments.value.shape == (1,)
