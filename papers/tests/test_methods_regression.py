"""Sketch methods of least squares: promises on explicit matrices, laws, declared sets."""

import math
import warnings

import numpy as np
import pytest

from ndis import Gaussian, Profile, privacy_loss
from ndis.calibration import meets
from ndis.loss.least_squares import LeastSquaresLoss, removal_loss
from ndis.mechanisms import Target
from ndis.randomness import generator
from ndis.tables import GRID_NORM, Columns, Rows, Table, joint_gram, leverage_error, leverages
from ndis_papers.least_squares import ridged_law
from ndis_papers.methods import regression as sketches
from ndis_papers.methods.regression import (
    ByLimit,
    BySketch,
    BySolution,
    GaussianLimit,
    SketchedMoments,
    least_triangle_ratio,
)
from samplers import LEVEL, accepts_gaussian

TARGET = Target(1.0, 1e-5)
SKETCHES = {method.kind.name: method.kind for method in (ByLimit, BySketch, BySolution)}
METHODS = sorted(SKETCHES)


def opened(X: np.ndarray, y: np.ndarray) -> Table:
    """Features in the unit ball, labels up to 1: as they are, up to the grid."""
    table = Table.open(X, labels=y)
    features, label = table.columns[:-1], table.columns[-1:]
    return table.with_rows(Rows(Columns(features, norm=1.0), Columns(label, norm=1.0)))


def problem(seed: int, n_rows: int = 60, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, d))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    return X, np.clip(X @ rng.uniform(-0.6, 0.6, d) + 0.1 * rng.standard_normal(n_rows), -1, 1)


def law(X: np.ndarray, y: np.ndarray, ridge: float, r: int) -> Gaussian:
    """The limit law by explicit matrices."""
    rows = np.column_stack([X, y])
    return ridged_law(rows.T @ rows, ridge, r)


def both_ways(P: Gaussian, Q: Gaussian) -> float:
    loss = privacy_loss(P, Q)
    return max(float(loss.delta(1.0)), float(loss.reversed().delta(1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_loss_meets_the_target(method):
    made = SKETCHES[method](TARGET, 2, 40)
    assert meets(made.guarantee.loss, 1.0, 1e-5)
    assert made.guarantee.basis == "proven"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gaussian-limit", "sketch"])
def test_a_given_noise_tells_its_epsilon(method):
    made = SKETCHES[method](TARGET, 2, 40)
    assert made.noise_scale > SKETCHES[method](Target(2.0, 1e-5), 2, 40).noise_scale
    given = SKETCHES[method](Target(None, 1e-5), 2, 40, noise_scale=made.noise_scale)
    assert given.guarantee.epsilon == pytest.approx(1.0, rel=5e-3)
    assert given.guarantee.epsilon <= 1.0 + 1e-9


def test_no_removal_breaks_the_limit_law_and_one_comes_close():
    made = GaussianLimit(TARGET, 2, 200)
    ridge, worst = made.noise_scale**2, 0.0
    for seed in range(4):
        X, y = problem(seed, 12)
        for i in range(12):
            P, Q = law(X, y, ridge, 200), law(np.delete(X, i, 0), np.delete(y, i), ridge, 200)
            worst = max(worst, both_ways(P, Q))
    # One row [x, y] alone, x and y as long as they may be: leverages as large as they can be.
    x, empty = np.array([[1.0, 0.0]]), law(np.zeros((1, 2)), np.zeros(1), ridge, 200)
    for length in np.linspace(0.2, 1.0, 17):
        worst = max(worst, both_ways(law(length * x, np.ones(1), ridge, 200), empty))
    assert worst <= 1e-5
    assert worst > 0.5e-5  # the largest q and the worst p are not quite those of one row
    less = 0.85 * ridge
    empty = law(np.zeros((1, 2)), np.zeros(1), less, 200)
    assert both_ways(law(x, np.ones(1), less, 200), empty) > 1e-5


def test_a_bound_on_the_features_alone_saves_noise():
    """A whole row has norm sqrt(2), but only 1 of it can be in the features."""
    region = least_triangle_ratio(LeastSquaresLoss, 1.0, 1 / 327_346, 2, 1269)
    assert region <= math.sqrt(2.0) * 8.438
    assert region > math.sqrt(2.0) * 8.2


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_draws_have_their_law(method):
    X, y = problem(7, 400, 2)
    made = SKETCHES[method](Target(4.0, 1e-3), 2, 60)
    moments, rng = made.study(opened(X, y)), generator(5)
    draws = [made.draw(moments, rng) for _ in range(1500)]
    assert {name: array.shape for name, array in draws[0].items()} == made.shapes
    coefs = np.array([draw["coef"] for draw in draws])
    rows = np.column_stack([X, y])
    center = ridged_law(rows.T @ rows, made.noise_scale**2, 60)
    if method == "gaussian-limit":
        assert accepts_gaussian(coefs, center.mean, center.cov, LEVEL)
        found = ridged_law(moments.value, made.ridge, 60)
        np.testing.assert_allclose(found.mean, center.mean, atol=1e-5)
        np.testing.assert_allclose(found.cov, center.cov, rtol=1e-4, atol=1e-9)
    else:  # multivariate t, of covariance r/(r-d-1) times that of the limit law
        cov = np.cov(coefs.T)
        np.testing.assert_allclose(
            coefs.mean(axis=0), center.mean, atol=4 * math.sqrt(cov.max() / 1500)
        )
        np.testing.assert_allclose(np.diag(cov), np.diag(center.cov) * 60 / 57, rtol=0.15)


@pytest.mark.parametrize("method", ["gaussian-limit", "sketch", "als"])
def test_the_ridge_that_is_drawn_with_is_the_one_that_is_promised(method, monkeypatch):
    asked = []
    for name in ("draw_sketch", "draw_limit", "draw_solution"):
        monkeypatch.setattr(
            sketches, name, lambda moments, ridge, *others: asked.append(ridge) or np.ones((3, 40))
        )
    made = SKETCHES[method](TARGET, 2, 40)
    made.draw(made.study(opened(*problem(3))), generator(1))
    assert asked == [pytest.approx((made.noise_scale * GRID_NORM) ** 2, rel=1e-9)]
    assert asked[0] >= (made.noise_scale * GRID_NORM) ** 2


def test_a_sketch_tells_the_moments():
    X, y = problem(3, 500, 2)
    made = SketchedMoments(TARGET, 2, 4000)
    drawn = made.draw(made.study(opened(X, y)), generator(1))
    rows = np.column_stack([X, y])
    error = np.abs(drawn["moments"] - rows.T @ rows) / (
        np.trace(rows.T @ rows) + made.noise_scale**2
    )
    assert error.max() < 0.1


# -- leverages with a label ------------------------------------------------------------------------


def test_leverages_of_features_and_label():
    X, y = problem(1, 80, 3)
    table = opened(X, y)
    p, q = leverages(table)
    rows = np.column_stack([X, y])
    np.testing.assert_allclose(p, np.sum(X @ np.linalg.inv(X.T @ X) * X, axis=1), rtol=1e-4)
    np.testing.assert_allclose(
        q, np.sum(rows @ np.linalg.inv(rows.T @ rows) * rows, axis=1), rtol=1e-4
    )
    assert leverage_error(table) < 1e-10
    gram = joint_gram(table).value / GRID_NORM**2
    np.testing.assert_allclose(gram, rows.T @ rows, atol=1e-3)


def test_two_labels_have_no_joint_leverage():
    table = Table.open(np.ones((4, 2)), labels=np.ones((4, 2)))
    rows = Rows(Columns(table.columns[:2], norm=2.0), Columns(table.columns[2:], norm=2.0))
    with pytest.raises(ValueError, match="one label"):
        joint_gram(table.with_rows(rows))


def test_removal_losses_agree_with_explicit_matrices():
    X, y = problem(2, 30)
    made = GaussianLimit(TARGET, 2, 50)
    losses = made.removal_losses(opened(X, y))
    ridge = made.noise_scale**2
    for i in (0, 7):
        P, Q = law(X, y, ridge, 50), law(np.delete(X, i, 0), np.delete(y, i), ridge, 50)
        assert losses[i].log_delta(0.1) == pytest.approx(
            privacy_loss(P, Q).log_delta(0.1), rel=1e-3
        )


# -- a declared set of tables ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))  # benchmarks/check_sketches.py: 1,000
def test_tables_of_a_declared_set_keep_the_promise_with_one_noise(seed):
    X, y = problem(seed, 40, 1 + seed % 3)
    tables = [(X, y), *((np.delete(X, i, 0), np.delete(y, i)) for i in range(40))]
    found = [leverages(opened(*table)) for table in tables]
    p, q = (min(1.001 * max(float(pair[k].max()) for pair in found), 0.9) for k in (0, 1))
    made = GaussianLimit(TARGET, X.shape[1], 30, leverage=p, joint_leverage=q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for table in tables[:4]:
            made.study(opened(*table))
    ridge = made.noise_scale**2
    laws = [law(*table, ridge, 30) for table in tables]
    assert max(both_ways(laws[0], other) for other in laws[1:]) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_declared_leverages_save_noise_and_are_named(method):
    plain = SKETCHES[method](TARGET, 2, 40)
    some = SKETCHES[method](TARGET, 2, 40, leverage=0.1, joint_leverage=0.2)
    assert some.noise_scale < plain.noise_scale
    assert meets(some.guarantee.loss, 1.0, 1e-5)
    assert some.guarantee.basis == "relative"
    assert "among the features above 0.1" in str(some.guarantee)
    assert "with the label above 0.2" in str(some.guarantee)


@pytest.mark.parametrize("declared", [{"leverage": 0.01}, {"joint_leverage": 0.01}])
def test_a_table_outside_the_set_is_refused(declared):
    X, y = problem(0, 30)
    made = SketchedMoments(TARGET, 2, 40, **declared)
    with pytest.raises(ValueError, match="declared leverage") as error:
        made.study(opened(X, y))
    assert "0." not in str(error.value)


def test_more_rows_than_the_cap_are_refused():
    with pytest.raises(ValueError, match="max_rows=20"):
        SketchedMoments(TARGET, 2, 40, max_rows=20).study(opened(*problem(0, 30)))


def test_noise_below_the_floor_is_refused():
    with pytest.raises(ValueError, match="max_rows"):
        SketchedMoments(Target(None, 1e-5), 2, 2, noise_scale=0.05)


def test_fewer_components_than_coefficients():
    for method in ("sketch", "als"):
        with pytest.raises(ValueError, match="integer >= 3"):
            SKETCHES[method](TARGET, 3, 2)
    assert GaussianLimit(TARGET, 3, 2).n_components == 2


def test_only_the_limit_knows_its_removals():
    table = opened(*problem(0))
    made = SketchedMoments(TARGET, 2, 40)
    with pytest.raises(ValueError, match="gaussian-limit"):
        made.removal_losses(table)
    limit = Profile.both(removal_loss(0.2, 0.1, 2, 40))
    assert limit.delta(1.0) > 0
