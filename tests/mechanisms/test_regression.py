"""Private least squares: what it promises, what it releases, what it does with awkward data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from ndis import PrivateLeastSquares, Release
from ndis.calibration import noise_multiplier
from ndis.mechanisms import center
from ndis.mechanisms.recompute import implied
from ndis.mechanisms.regression_methods import newton
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.mechanisms.regression_methods.descent import Descent, Scales, Setting
from ndis.mechanisms.regression_methods.histogram import Histogram
from ndis.tables import Columns, Rows, Table
from newton_paths import statistics

# Sketches have tests of their own.
METHODS = ("newton", "noisy-gram")
BETA = np.array([1.0, -2.0, 0.5])


def data(n: int = 4000, seed: int = 0, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ BETA + 0.3 + noise * rng.standard_normal(n)


def model(method: str = "auto", **changes: Any) -> PrivateLeastSquares:
    parameters: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "limits": [(-1, 1)] * 3,
        "label_limits": (-4, 5),
        "random_state": 0,
    }
    return PrivateLeastSquares(method=method, **(parameters | changes))


# -- all methods -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_method_learns(method: str, fit_intercept: bool) -> None:
    X, y = data()
    if not fit_intercept:
        y = y - 0.3
    fitted = model(method, fit_intercept=fit_intercept).fit(X, y)
    tolerance = 0.05 if method == "newton" else 0.4
    np.testing.assert_allclose(fitted.coef_, BETA, atol=tolerance)
    assert fitted.intercept_ == pytest.approx(0.3 * fit_intercept, abs=tolerance)
    assert fitted.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("n", "related", "tails"), [(1000, 0.0, None), (3000, 2.0, None), (10_000, 0.0, 3.0)]
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_coefficients_are_those_of_least_squares(
    n: int, related: float, tails: float | None, fit_intercept: bool
) -> None:
    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, (n, 4)) + related * rng.uniform(-1, 1, (n, 1))
    noise = rng.standard_normal(n) if tails is None else rng.standard_t(tails, n)
    y = X @ [0.4, -0.6, 0.8, -1.0] + 0.6 * fit_intercept + 0.5 * noise
    fitted = model(
        epsilon=1e6, limits=[(-3, 3)] * 4, label_limits=(-30, 30), fit_intercept=fit_intercept
    ).fit(X, y)
    if fit_intercept:
        X = np.column_stack([X, np.ones(n)])
    theirs = np.linalg.lstsq(X, y, rcond=None)[0]
    ours = np.append(fitted.coef_, fitted.intercept_)[: len(theirs)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_releases_round_trip_and_imply_their_promise(method: str, tmp_path: Path) -> None:
    fitted = model(method).fit(*data())
    fitted.release_.save(tmp_path / "release.npz")
    release = Release.load(tmp_path / "release.npz")
    found = implied(release.mechanism, release.parameters, release.guarantee.delta)
    assert found is not None
    assert found.loss.delta(2.0) <= 1e-5
    assert found.shapes == {name: array.shape for name, array in release.arrays.items()}
    again = PrivateLeastSquares.from_release(release)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    X, _ = data(5)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_allclose(again.intervals().lower, fitted.intervals().lower)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("power", [-20, 3])
def test_the_units_of_a_label_do_not_matter_bit_for_bit(method: str, power: int) -> None:
    X, y = data(500)
    here = model(method).fit(X, y)
    factor = 2.0**power
    there = model(method, label_limits=(-4 * factor, 5 * factor)).fit(X, y * factor)
    np.testing.assert_array_equal(there.coef_, here.coef_ * factor)
    assert there.intercept_ == here.intercept_ * factor
    np.testing.assert_array_equal(
        there.intervals().standard_error, here.intervals().standard_error * factor
    )


def test_nor_do_those_of_a_column_or_of_norms() -> None:
    X, y = data(2000)
    here = model().fit(X, y)
    limits = [(-1e-3 + 7, 1e-3 + 7), (-1e6, 1e6), (-1, 1)]
    there = model(limits=limits).fit(X * [1e-3, 1e6, 1] + [7, 0, 0], y)
    np.testing.assert_allclose(there.coef_ * [1e-3, 1e6, 1], here.coef_, rtol=1e-3)
    shared: dict[str, Any] = {"limits": None, "label_limits": None, "fit_intercept": False}
    for scale in (1e-30, 1e30):
        small = model(**shared, data_norm=2.0, label_bound=4.0).fit(X, y)
        large = model(**shared, data_norm=2.0 * scale, label_bound=4.0 * scale)
        np.testing.assert_allclose(large.fit(scale * X, scale * y).coef_, small.coef_, rtol=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_many_labels_cost_what_one_costs(method: str) -> None:
    X, y = data(20_000)
    Y = np.column_stack([y, X @ [0.0, 1.0, 1.0], X[:, 0]])
    fitted = model(method, label_limits=[(-4, 5), (-2, 2), (-1, 1)]).fit(X, Y)
    assert fitted.coef_.shape == (3, 3)
    assert fitted.intercept_.shape == (3,)
    assert fitted.predict(X).shape == Y.shape
    expected = np.array([BETA, [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(fitted.coef_, expected, atol=0.15)
    assert fitted.guarantee_.loss == model(method).guarantee().loss
    found = fitted.intervals()
    assert found.estimate.shape == (3, 4)
    assert found.to_frame().loc[("y1", "x2")].lower == found.lower[1, 3]
    assert str(found).count("intercept") == 3


# -- newton ------------------------------------------------------------------------------------


def opened(X: np.ndarray, Y: np.ndarray) -> Table:
    names = [f"x{i}" for i in range(X.shape[1])]
    labels = [f"y{i}" for i in range(Y.shape[1])] if Y.shape[1] > 1 else ["y"]
    rows = Rows(Columns(names, norm=1.0), Columns(labels, norm=1.0))
    return Table.open(X, [*names, *labels], labels=Y).with_rows(rows)


def shift_of(setting: Setting, noise: Scales, one: Table, two: Table, released: dict) -> float:
    """The squared distance between two tables along the path of a release, in its noise."""
    here, there = (statistics(table, released, setting, noise) for table in (one, two))
    return sum(float(np.sum((a - b) ** 2)) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("d", [2, 12])
def test_newton_spends_what_it_says_on_every_path(epsilon: float, d: int) -> None:
    """Clips and rounds depend on what was released; the squared shift never exceeds the total."""
    rng = np.random.default_rng(1)
    unit = noise_multiplier(epsilon, 1e-6)
    shares = Setting(d, 2, intercept=True).shares
    noise = Scales(**{name: unit / math.sqrt(share) for name, share in shares.items()})
    X = rng.standard_normal((600, d)) + rng.choice([0.0, 1.0])
    X *= 10.0 ** rng.uniform(-2, 0, (600, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    Y = np.clip(X @ rng.standard_normal((d, 2)) + 0.1 * rng.standard_normal((600, 2)), -0.6, 0.6)
    whole, rounds, most, counted = opened(X, Y), set(), 0.0, False
    for i in range(4):
        x = rng.standard_normal((1, d)) * 10.0 ** rng.uniform(-1, 2)
        y = rng.standard_normal((1, 2)) * 10.0 ** rng.uniform(-1, 2)
        more = opened(np.vstack([X, x]), np.vstack([Y, y]))
        table = more if i % 2 else whole
        n_rounds: Any = "auto" if i < 3 else 5
        setting = Setting(d, 2, True, n_rounds)
        studied = newton.study(table, intercept=True)
        descent, released = newton.draw(table, studied, setting, noise, rng)
        rounds.add(descent.n_rounds)
        counted |= bool(released["beyond"].any())
        spent = shift_of(setting, noise, whole, more, released)
        assert spent <= unit**-2.0 * (1 + 1e-9)
        most = max(most, spent * unit**2)
    assert most > 0.5
    assert counted == (epsilon == 10.0 and d == 2)  # rows beyond a clip, where rows are many


def test_newton_spends_what_it_says_where_columns_are_tried_for_a_constant() -> None:
    rng, unit = np.random.default_rng(0), noise_multiplier(0.5, 1e-6)
    setting = Setting(7, 1, intercept=False)
    noise = Scales(**{name: unit / math.sqrt(s) for name, s in setting.shares.items()})
    X = np.column_stack([rng.standard_normal((1200, 6)), np.ones(1200)])
    X /= np.linalg.norm(X, axis=1).max()
    Y = 0.4 + X[:, :1] + 0.1 * rng.standard_normal((1200, 1))
    whole, constants = opened(X, Y), set()
    for i in range(4):
        x, y = 0.3 * rng.standard_normal((1, 7)), rng.choice([-1.0, 1.0], (1, 1))
        more = opened(np.vstack([X, x]), np.vstack([Y, y]))
        table = more if i % 2 else whole
        studied = newton.study(table, intercept=False)
        descent, released = newton.draw(table, studied, setting, noise, rng)
        constants.add(descent.curvature.constant)
        spent = shift_of(setting, noise, whole, more, released)
        assert 0.2 * unit**-2.0 < spent <= unit**-2.0 * (1 + 1e-9)
    assert False in constants


def test_the_whole_path_is_post_processing_of_the_release() -> None:
    fitted = model().fit(*data())
    arrays = fitted.release_.arrays
    again = fitted._found(arrays, fitted.noise_scale_, fitted._recipe_)
    slopes, _ = again.curvature.slopes(again.theta)
    scale = fitted._recipe_.features.scale / fitted._recipe_.labels.scale
    np.testing.assert_allclose(slopes[:, 0] * scale, fitted.coef_, rtol=1e-12)


def test_rounds_fit_the_data() -> None:
    few = model(epsilon=0.5).fit(*data(100)).release_.arrays["gradients"]
    many = model(epsilon=1.0).fit(*data(5_000)).release_.arrays["gradients"]
    assert few.shape == many.shape  # nothing shows how many rows there are but what was paid for
    taken = [np.count_nonzero(np.any(each != 0, axis=(1, 2))) for each in (few, many)]
    assert taken[0] < taken[1] <= 20
    assert model(n_rounds=4).fit(*data(100)).release_.arrays["gradients"].shape[0] == 4


def test_the_last_of_few_rounds_takes_what_is_left() -> None:
    """With many rows noise is small beside sampling: a short step is the last but one."""
    fitted = model(epsilon=5.0).fit(*data(20_000))
    found = fitted._found(fitted.release_.arrays, fitted.noise_scale_, fitted._recipe_)
    assert len(found.points) < 10 < found.n_rounds
    noise = np.sqrt(found.variances[-2:]) / found.clip
    left = found.n_rounds - len(found.points) + 1
    assert noise[0] / noise[1] == pytest.approx(math.sqrt(left))
    assert not np.any(fitted.release_.arrays["gradients"][len(found.points) :])


class Counting:
    """A source that counts how often it is read."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.batch, self.passes = pa.RecordBatch.from_pandas(frame), 0

    def __call__(self) -> Any:
        self.passes += 1
        yield self.batch


def test_the_table_is_read_once() -> None:
    X, y = data(500)
    names = ["a", "b", "c", "y"]
    for n_rounds in (1, 5):
        source = Counting(pd.DataFrame(np.column_stack([X, y]), columns=names))
        frame = Table.open(source, names)
        opening = source.passes
        limits = dict(zip(names, [(-1, 1)] * 3 + [(-4, 5)], strict=True))
        model(limits=limits, label_limits=None, n_rounds=n_rounds).fit(frame, "y")
        # Passes for the centre, the lengths of rows, the Hessian and each gradient use kept rows.
        assert source.passes - opening == 1
        frame = Table.open(source, names)
        opening = source.passes
        PrivateLeastSquares(
            epsilon=1.0, delta=1e-5, limits="private", columns=names, n_rounds=n_rounds
        ).fit(frame, "y")
        assert source.passes - opening == 1  # the limits, too


def test_the_centre_is_that_of_whole_rows() -> None:
    # All rows are cut to half their length; what is centred must still be centred.
    rows, mean = 1e6, np.array([0.3, -0.2])
    cut = np.append(mean / 2, 0.1)
    norms = Histogram(np.where(np.arange(64) == 2, rows, 0.0), 1.0, 1.0)
    lost = norms.lost(2.0**-2.25)
    assert lost == pytest.approx(2.0)
    hessian = rows * np.outer(cut, cut) + np.diag([0.01 * rows, 0.02 * rows, 0.0])
    bend = Curvature(hessian, 1.0, 0.1, rows, 1.0, 0.1, lost, intercept=True)
    np.testing.assert_allclose(bend.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(bend.values[:2], [0.01 * rows, 0.02 * rows], rtol=1e-3)


def test_no_row_moves_the_centre_further_than_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[float] = []

    class Enough(Exception):
        pass

    def add_noise(sums: Any, scale: float, _: Any) -> np.ndarray:
        if len(moved) == 2:
            raise Enough
        moved.append(float(np.sum((sums.value / scale) ** 2)))
        return np.asarray(sums.value)

    monkeypatch.setattr(center, "add_noise", add_noise)
    monkeypatch.setattr(newton, "add_noise", add_noise)
    model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bound=1.0)
    with pytest.raises(Enough):
        model.fit([[0.6, 0.8]], [1.0])
    assert 1.0 - 1e-5 < sum(moved) * model.calibrate(2)["center"] ** 2 <= 1.0


def test_noise_does_not_stand_in_for_a_constant() -> None:
    # Columns with mean 0: fitted without the constant beside them, coefficients were ten times
    # too long, in one of 24 runs on a table of 1,200 rows.
    rng, d, rows, scale = np.random.default_rng(0), 6, 600.0, 0.6
    truth = np.diag([*np.linspace(0.5, 4.0, d), rows * 0.05**2])
    for _ in range(500):
        noise = np.triu(rng.normal(0.0, scale / math.sqrt(2), (d + 1, d + 1)), 1)
        noisy = truth + noise + noise.T + np.diag(rng.normal(0.0, scale, d + 1))
        bend = Curvature(noisy, scale, 0.05, rows, 1.0, 0.02, 1.0, intercept=False)
        assert bend.constant
    mean = np.append(np.full(d, 0.3), 0.05)
    means = rows * np.outer(mean, mean) + 1e-3 * truth
    assert not Curvature(means, scale, 0.05, rows, 1.0, 0.5, 1.0, intercept=False).constant


def test_rows_far_from_the_middle_of_their_limits() -> None:
    """Curvature that is small beside the rows' distance from the middle is found all the same."""
    rng = np.random.default_rng(0)
    X = 0.8 + 0.05 * rng.standard_normal((20_000, 4))
    y = (X - 0.8) @ [2.0, -1.0, 1.0, 3.0] + 0.02 * rng.standard_normal(20_000)
    fitted = model(limits=[(-1, 1)] * 4, label_limits=(-1, 1)).fit(X, y)
    assert fitted.score(X, y) > 0.95


def test_limits_that_nobody_knows() -> None:
    X, y = data(20_000)
    fitted = PrivateLeastSquares(epsilon=2.0, delta=1e-5, limits="private", random_state=0).fit(
        X, y
    )
    assert set(fitted.noise_scale_) == {"limits", "center", "norms", "hessian", "rounds"}
    assert fitted.score(X, y) > 0.98
    assert np.all(fitted.intervals().standard_error > 0)


def test_labels_at_their_bound_are_no_bias() -> None:
    rng = np.random.default_rng(5)
    X = rng.choice([-1.0, 1.0], (40_000, 3))
    y = np.where(rng.random(40_000) < 0.5 + 0.4 * X[:, 0], 1.0, 0.0)
    fitted = model(label_limits=(0, 1)).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, [0.4, 0.0, 0.0], atol=0.02)
    assert fitted.intercept_ == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_the_error_falls_with_the_number_of_rows() -> None:
    """Beside the sampling error of OLS: it grew to eight times that at 50,000 rows."""
    for n in (5_000, 50_000):
        X, y = data(n, noise=0.7)
        ones = np.column_stack([np.ones(n), X])
        best = np.linalg.lstsq(ones, y, rcond=None)[0]
        sampling = 0.7 * np.sqrt(np.diag(np.linalg.inv(ones.T @ ones)))
        away = [model(random_state=seed).fit(X, y).coef_ - best[1:] for seed in range(3)]
        assert math.sqrt(np.mean((away / sampling[1:]) ** 2)) < 1.0


# -- what is said about errors -----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_intervals_hold_for_the_table_at_hand(method: str, epsilon: float) -> None:
    X, y = data(3000, noise=0.5)
    best = np.linalg.lstsq(np.column_stack([np.ones(3000), X]), y, rcond=None)[0]
    held = []
    for seed in range(25):
        found = model(method, epsilon=epsilon, random_state=seed).fit(X, y).intervals(0.9, "table")
        assert found.names == ("intercept", "x0", "x1", "x2")
        held.append((found.lower <= best) & (best <= found.upper))
    assert np.mean(held) >= 0.84


@pytest.mark.parametrize("n", [4_000, 10_000])
def test_limits_ten_times_the_range_of_a_column_leave_it_an_interval(n: int) -> None:
    z = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-0.5, 0.5, (n, 3))
        y = X @ [1.0, -0.5, 0.25] + 0.3 * rng.standard_normal(n)
        fitted = PrivateLeastSquares(
            epsilon=1.0,
            delta=1e-6,
            limits=[(-5, 5), (-0.5, 0.5), (-0.5, 0.5)],
            label_limits=(-2, 2),
            random_state=seed,
        ).fit(X, y)
        found = fitted.intervals()
        assert np.all(np.isfinite(found.standard_error))
        z.append((found.estimate[1:] - [1.0, -0.5, 0.25]) / found.standard_error[1:])
    assert np.mean(np.abs(z) < 1.96) >= 0.85


def test_limits_fifty_times_a_columns_deviation_do_not_draw_its_coefficient_to_zero() -> None:
    """Noise hides its curvature from the Hessian, not from the second moments in the metric."""
    errors = []
    for seed in (12, 18, 27, 35):
        rng = np.random.default_rng([seed, 10_000])
        X = rng.standard_normal((10_000, 4))
        noise = 0.7 * rng.standard_normal(10_000)
        X[:, 0] *= 0.1
        fitted = PrivateLeastSquares(
            epsilon=1.0,
            delta=1e-6,
            limits=[(-5, 5)] * 4,
            label_limits=(-8, 8),
            random_state=seed,
        ).fit(X, X @ [1.0, -0.5, 0.25, 0.0] + noise)
        errors.append(fitted.coef_[0] - 1.0)
    assert np.sqrt(np.mean(np.square(errors))) < 0.35  # OLS has 0.07


def test_rows_that_stand_out_nowhere_are_counted() -> None:
    """Where steps count less than half of the rows, the constant would swing ever wider."""
    rng = np.random.default_rng(0)
    norms, truth = np.zeros(64), 1900.0
    norms[3:11] = truth / 8  # less than three deviations each
    found = []
    for _ in range(40):
        setting = Setting(4, 1, intercept=False)
        noise = Scales(norms=90.0, hessian=35.0, rounds=18.0)
        descent = Descent(setting, noise, norms + 90.0 * rng.standard_normal(64))
        spread = noise.hessian * (descent.cut**2 + descent.constant**2)
        hessian = np.diag(np.append(np.full(4, truth / 300), truth * descent.constant**2))
        descent.bend(hessian + spread * np.diag(rng.standard_normal(5)))
        found.append((descent.rows, descent.curvature.row_errors[-1] ** 0.5))
    rows, error = np.array(found).T
    assert np.mean(np.abs(rows - truth)) < 0.2 * truth
    assert np.all(rows + 2 * error > truth / 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("away", [0.0, 0.05, 0.2, 1.0])
def test_without_an_intercept_it_is_least_squares_through_zero(method: str, away: float) -> None:
    """Columns stand in for a constant that is not asked for, as well as they can."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3)) / 8 + away / 4 * np.array([1, 0.5, 0])
    Y = 0.4 + X @ [[0.3, 0.1], [0, 0.2], [0, 0]] + 0.05 * rng.standard_normal((5000, 2))
    own = {"data_norm": 2.0, "label_bound": 2.0, "limits": None, "label_limits": None}
    fitted = model(method, **own, epsilon=1e6, fit_intercept=False).fit(X, Y)
    best = np.linalg.lstsq(X, Y, rcond=None)[0].T
    assert np.abs(fitted.coef_ - best).max() < 2e-3 * np.abs(best).max()


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_constant_column_is_an_intercept_where_noise_is_large(epsilon: float) -> None:
    worse = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.standard_normal((1200, 6)), np.ones(1200)])
        X /= np.linalg.norm(X, axis=1).max()
        y = 0.6 + X[:, :3] @ [0.3, -0.3, 0.2] + 0.15 * rng.standard_normal(1200)
        y /= np.abs(y).max()
        fitted = PrivateLeastSquares(
            epsilon=epsilon,
            delta=1e-6,
            data_norm=1.0,
            label_bound=1.0,
            fit_intercept=False,
            random_state=seed,
        ).fit(X, y)
        left = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        worse.append(np.mean((y - fitted.predict(X)) ** 2) / np.mean(left**2))
        again = fitted._found(fitted.release_.arrays, fitted.noise_scale_, fitted._recipe_)
        np.testing.assert_array_equal(again.theta, fitted._solved.theta)
    assert np.sort(worse)[2] < 1.2  # three of four


def test_rare_rows_that_are_cut_are_not_taken_for_a_constant() -> None:
    worse = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = (rng.uniform(size=(3100, 2)) < [0.02, 0.04]).astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        X /= np.linalg.norm(X, axis=1).max()
        y = np.clip(0.6 + 0.15 * rng.standard_normal(3100), -1, 1)
        fitted = PrivateLeastSquares(
            epsilon=0.63,
            delta=1e-7,
            data_norm=1.0,
            label_bound=1.0,
            fit_intercept=False,
            random_state=seed,
        ).fit(X, y)
        worse.append(np.mean((y - fitted.predict(X)) ** 2) / np.mean(y**2))
    assert np.sort(worse)[3] < 1.1  # where noise does not hide all of them


@pytest.mark.slow
@pytest.mark.parametrize("away", [0.0, 0.05, 0.1])
def test_intervals_through_zero_hold_for_the_population(away: float) -> None:
    z, mean = [], away * np.array([1, 0.5, 0])
    second = np.eye(3) / 36 + np.outer(mean, mean)
    truth = np.linalg.solve(second, 0.3 * second[:, 0] + 0.3 * mean)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = np.clip(rng.standard_normal((5000, 3)) / 6 + mean, -1, 1)
        y = 0.3 + 0.3 * X[:, 0] + 0.05 * rng.standard_normal(5000)
        own = {"data_norm": 1.8, "label_bound": 1.0, "limits": None, "label_limits": None}
        fitted = model(**own, fit_intercept=False, random_state=seed).fit(X, y)
        found = fitted.intervals()
        z.extend((found.estimate - truth) / found.standard_error)
    assert np.mean(np.abs(z) < 1.96) > 0.85


def test_what_stands_out_in_one_look_of_many_is_noise() -> None:
    """Four bins far above the residuals, 3.6 deviations together, in the last of alike looks."""
    rng = np.random.default_rng([1, 1000])
    X = rng.standard_normal((1000, 4))
    y = X @ [1.0, -0.5, 0.25, 0.0] + 0.7 * rng.standard_normal(1000)
    fitted = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, limits=[(-5, 5)] * 4, label_limits=(-8, 8), random_state=1
    ).fit(X, y)
    arrays = {name: np.array(each) for name, each in fitted.release_.arrays.items()}
    told = fitted._found(arrays, fitted.noise_scale_, fitted._recipe_)
    arrays["products"][-1, 5:9] = 1.81 * told.noise.look()
    fooled = fitted._found(arrays, fitted.noise_scale_, fitted._recipe_)
    assert fooled.residual_variance < 1.5 * told.residual_variance


def test_labels_of_zero_say_nothing_about_the_size_of_others() -> None:
    """Most labels are zero: these rows pull not at all, and only they stand out."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 3))
    y = np.where(rng.uniform(size=6000) < 0.16 * (X[:, 0] > 0), 0.8, 0.0)
    own = {"data_norm": 2.0, "label_bound": 1.0, "limits": None, "label_limits": None}
    fitted = model(**own, epsilon=0.5, fit_intercept=False).fit(X, y)
    assert np.linalg.norm(fitted.coef_ - [0.096, 0.0, 0.0]) < 0.05


@pytest.mark.parametrize("gap", [1e-3, 1e-2])
def test_no_interval_for_a_pair_that_cancels(gap: float) -> None:
    """Two columns that differ by little, with large effects of opposite signs."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = 0.5 * rng.standard_normal((10_000, 8))
        X[:, 1] = X[:, 0] + gap * rng.standard_normal(10_000)
        beta = np.array([0.3 / gap, -0.3 / gap, *np.linspace(1, -1, 6)])
        y = X @ beta + 0.3 * rng.standard_normal(10_000)
        limits = [(-2, 2)] * 8
        fitted = PrivateLeastSquares(
            epsilon=1.0, delta=1e-6, limits=limits, label_limits=(-8, 8), random_state=seed
        ).fit(X, y)
        assert np.isnan(fitted.intervals().estimate).all()


def _in_the_smallest_direction(n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((5, 5)))[0]
    X = (rng.standard_normal((n, 5)) * np.geomspace(1.0, 0.01, 5)) @ turn.T
    return X, 100.0 * turn[:, -1], 5.0


def _pair_and_a_little_of_a_third(n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    X = rng.standard_normal((n, 4))
    X[:, 1] = X[:, 0] + 0.02 * X[:, 2] + 0.003 * X[:, 1]
    return X, np.array([300.0, -300.0, 6.5, 0.25]), 5.0


def _short_and_nearly_a_multiple(n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    X = rng.standard_normal((n, 4))
    X[:, 0] = 0.05 * (X[:, 1] + 0.3 * X[:, 0])
    return X, np.array([60.0, -3.0, 0.5, 0.25]), 5.0


def _sum_of_others(n: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    X = rng.standard_normal((n, 5))
    X[:, 4] = X[:, :4].sum(axis=1) + 0.1 * X[:, 4]
    return X, np.array([10.0, 10.0, 10.0, 10.0, -10.0]), 10.0


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_000, 10_000])
@pytest.mark.parametrize(
    "design",
    [
        _in_the_smallest_direction,
        _pair_and_a_little_of_a_third,
        _short_and_nearly_a_multiple,
        _sum_of_others,
    ],
)
def test_intervals_hold_or_there_are_none_where_columns_stand_in_for_each_other(
    design: Any, n: int
) -> None:
    wrong = []
    for seed in range(15):
        rng = np.random.default_rng([seed, n])
        X, beta, most = design(n, rng)
        y = X @ beta + rng.standard_normal(n)
        limits = [(-most, most)] * len(beta)
        fitted = PrivateLeastSquares(
            epsilon=1.0, delta=1e-6, limits=limits, label_limits=(-9, 9), random_state=seed
        ).fit(X, y)
        found = fitted.intervals()
        wrong.append(np.abs(found.estimate[1:] - beta) > 1.96 * found.standard_error[1:])
    assert np.mean(wrong) <= 0.08
    assert np.mean(wrong, axis=0).max() <= 0.2


@pytest.mark.slow
def test_intervals_hold_where_few_rows_far_out_have_most_of_the_curvature() -> None:
    """Two columns differ in one row of a thousand: the moments are of cut rows, gradients not."""
    z, n = [], 100_000
    beta = np.array([10.0, -10.0, 0.5, 0.0])
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 4))
        X[:, 1] = X[:, 0] + 0.05 * X[:, 1] * np.where(rng.uniform(size=n) < 0.001, 30.0, 1.0)
        y = X @ beta + rng.standard_normal(n)
        found = (
            PrivateLeastSquares(
                epsilon=1.0,
                delta=1e-6,
                limits=[(-6, 6)] * 4,
                label_limits=(-40, 40),
                random_state=seed,
            )
            .fit(X, y)
            .intervals()
        )
        z.append((found.estimate[1:] - beta) / found.standard_error[1:])
    assert not np.any(np.isnan(z))
    assert math.sqrt(np.mean(np.square(z))) < 1.5  # 2.0 where moments are taken for all of it


@pytest.mark.slow
def test_related_columns_have_intervals_that_are_hardly_longer_than_they_must_be() -> None:
    """Variances from one to a hundredth: the Hessian alone tells none of the columns."""
    known, z, length = [], [], []
    turn = np.linalg.qr(np.random.default_rng(9).standard_normal((8, 8)))[0]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((10_000, 8)) * np.geomspace(2.0, 0.2, 8) @ turn.T
        beta = np.linspace(1, -1, 8)
        y = X @ beta + 0.7 * rng.standard_normal(10_000)
        found = (
            PrivateLeastSquares(
                epsilon=1.0,
                delta=1e-6,
                limits=[(-5, 5)] * 8,
                label_limits=(-8, 8),
                random_state=seed,
            )
            .fit(X, y)
            .intervals()
        )
        told, error = ~np.isnan(found.estimate[1:]), found.standard_error[1:]
        own = 0.7 * np.sqrt(np.diag(np.linalg.inv(X.T @ X)))
        known.append(told)
        z.extend(((found.estimate[1:] - beta) / error)[told])
        length.extend((error / own)[told])
    assert np.mean(known) >= 0.9
    assert np.median(length) < 1.9
    assert 0.7 <= math.sqrt(np.mean(np.square(z))) <= 1.4


def test_what_the_noise_hides_is_said_in_words() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (300, 3))
    X[:, 2] = X[:, 1]  # a direction that nothing is known of
    y = X[:, 0]
    for epsilon in (0.01, 20.0):
        for method in METHODS:
            found = model(method, epsilon=epsilon).fit(X, y).intervals()
            four = np.array([found.estimate, found.standard_error, found.lower, found.upper])
            assert not np.any(np.isinf(four))
            np.testing.assert_array_equal(np.isnan(four).any(axis=0), np.isnan(four).all(axis=0))
            assert not np.any((found.upper - found.lower)[2:] < 1.0)  # long, or none
            assert str(found).count("no information at this budget") == np.isnan(four[0]).sum()


def test_intervals_say_what_they_cover() -> None:
    fitted = model().fit(*data())
    table, population = fitted.intervals(of="table"), fitted.intervals()
    assert np.all(population.standard_error > table.standard_error)
    assert str(population).endswith("The intervals cover sampling and privacy noise.")
    assert str(table).endswith("The intervals cover privacy noise.")
    frame = population.to_frame()
    assert list(frame.index) == ["intercept", "x0", "x1", "x2"]
    np.testing.assert_array_equal(frame["upper"], population.upper)
    with pytest.raises(ValueError, match="of="):
        fitted.intervals(of="sample")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["equal", "unequal", "wide limits"])
def test_intervals_hold_for_the_population(kind: str) -> None:
    """And are hardly longer than those of OLS and the noise of the release together."""
    held, z, length, n = [], [], [], 8_000
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        spread = 0.5 * X[:, 0] ** 2 + 0.02 if kind == "unequal" else 0.3
        y = X @ BETA + 0.3 + spread * rng.standard_normal(n)
        limits = [(-8, 8) if kind == "wide limits" else (-1, 1), (-1, 1), (-1, 1)]
        found = model(limits=limits, random_state=seed).fit(X, y).intervals()
        ones = np.column_stack([np.ones(n), X])
        pulls = ones * (y - ones @ np.array([0.3, *BETA]))[:, None]
        inverse = np.linalg.inv(ones.T @ ones)
        own = np.sqrt(np.diag(inverse @ pulls.T @ pulls @ inverse))
        truth = np.array([0.3, *BETA])
        z.append((found.estimate - truth) / found.standard_error)
        held.append((found.lower <= truth) & (truth <= found.upper))
        length.append(found.standard_error / own)
    assert np.mean(held) >= 0.9
    assert 0.7 <= math.sqrt(np.mean(np.square(z))) <= 1.25
    assert np.median(length) < 1.6


@pytest.mark.slow
def test_forecasts_hold_what_happens() -> None:
    for epsilon, n in ((0.3, 1000), (3.0, 4000)):
        X, y = data(n, noise=0.8)
        lost = []
        for seed in range(5):
            fitted = model(epsilon=epsilon, random_state=seed).fit(X, y)
            best = np.linalg.lstsq(np.column_stack([np.ones(n), X]), y, rcond=None)[0]
            residual = y - X @ best[1:] - best[0]
            lost.append(1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2) - fitted.score(X, y))
        low, high = model(epsilon=epsilon).forecast(n_rows=n).errors["explained variance lost"]
        assert low <= np.mean(lost) + 1e-3
        assert np.mean(lost) <= high


# -- tables ------------------------------------------------------------------------------------


def test_named_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 5000),
            "sex": rng.choice(["f", "m"], 5000),
            "income": rng.uniform(0, 1e5, 5000),
        }
    )
    frame["rent"] = 300 + 2.0 * frame["age"] + 100 * (frame["sex"] == "f") + 0.003 * frame["income"]
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    limits = {"age": (18, 90), "income": (0, 1e5), "rent": (0, 1500)}
    make = model(epsilon=20.0, limits=limits, label_limits=None, levels={"sex": ["f", "m"]})
    plan = make.plan(label="rent")
    coefs = []
    for source in (frame, tmp_path / "people.csv", tmp_path / "people.parquet"):
        fitted = make.fit(source, "rent")
        assert fitted.feature_names_ == ("age", "sex=f", "sex=m", "income")
        assert fitted.guarantee_.loss == plan.loss
        coefs.append(fitted.coef_)
    np.testing.assert_array_equal(coefs[0], coefs[1])
    np.testing.assert_array_equal(coefs[0], coefs[2])
    assert fitted.coef_[1] - fitted.coef_[2] == pytest.approx(100, rel=0.1)
    predicted = fitted.predict(frame)
    assert np.corrcoef(predicted, frame["rent"])[0, 1] > 0.99


def test_sparse_rows() -> None:
    X, y = data(3000)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.3)
    dense, thin = model().fit(X, y), model().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-3)


def test_strict_array_api() -> None:
    strict = pytest.importorskip("array_api_strict")
    X, y = data(3000)
    here = model(n_rounds=4).fit(X, y)
    there = model(n_rounds=4).fit(strict.asarray(X), strict.asarray(y[:, None]))
    np.testing.assert_array_equal(here.coef_, there.coef_)


def awkward(kind: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = data(60)
    if kind == "equal columns":
        X[:, 2] = X[:, 0]
    elif kind == "constant column":
        X[:, 2] = 1.0
    elif kind == "more columns than rows":
        X, y = X[:2], y[:2]
    elif kind == "one row":
        X, y = X[:1], y[:1]
    elif kind == "constant label":
        y = np.ones(60)
    elif kind == "beyond the limits":
        X, y = 1e9 * X, 1e9 * y
    else:
        X, y = np.zeros((60, 3)), np.zeros(60)
    return X, y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.01, 4.0, 1000.0])
@pytest.mark.parametrize(
    "kind",
    [
        "equal columns",
        "constant column",
        "more columns than rows",
        "one row",
        "constant label",
        "beyond the limits",
        "zero",
    ],
)
def test_awkward_data_give_finite_answers(method: str, kind: str, epsilon: float) -> None:
    for fit_intercept in (True, False):
        fitted = model(method, epsilon=epsilon, fit_intercept=fit_intercept).fit(*awkward(kind))
        assert np.all(np.isfinite(fitted.coef_))
        assert math.isfinite(fitted.intercept_)
        assert not np.any(np.isinf(fitted.intervals().standard_error))


def test_sentences() -> None:
    X, y = data(100)
    with pytest.raises(ValueError, match=r"pass limits, .* or data_norm"):
        model(limits=None).fit(X, y)
    with pytest.raises(ValueError, match=r"label_limits, .* or label_bound"):
        model(label_limits=None).fit(X, y)
    with pytest.raises(ValueError, match="got both"):
        model(label_bound=1.0).fit(X, y)
    with pytest.raises(ValueError, match="for each of 2 labels"):
        model(label_limits=[(0, 1)]).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="Expected labels"):
        model().fit(X)
    with pytest.raises(ValueError, match="method"):
        model("olse").fit(X, y)
    with pytest.raises(ValueError, match="as declared public"):
        model(n_rows=99).fit(X, y)
    with pytest.raises(ValueError, match="n_rounds"):
        model(n_rounds="many").plan()
    with pytest.raises(ValueError, match="max_rounds"):
        model(max_rounds=0).plan()
    with pytest.raises(ValueError, match=r"data_norm between .* measure in other units"):
        model(data_norm=1e100, limits=None).plan(3)


def test_a_table_that_can_be_read_once_is_refused_before_anything_is_paid() -> None:
    X, y = data(50)
    batch = pa.record_batch({"a": X[:, 0], "y": y})
    make = model(limits={"a": (-1, 1), "y": (-4, 5)}, label_limits=None)

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    with pytest.raises(ValueError, match="read more than once"):
        make.fit(reader(), "y")
    make.set_params(method="noisy-gram").fit(reader(), "y")


# Bounds and epsilon are such that noise is small beside the checks' data.
@parametrize_with_checks(
    [PrivateLeastSquares(epsilon=1e3, delta=0.1, data_norm=20.0, label_bound=10.0, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_estimators_empty_data_messages": "a table without rows is answered"
    },
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_row_moves_second_moments_by_no_more_than_is_paid_for() -> None:
    """They are those of rows in the metric, cut and rounded, also where a row is absurd."""
    fitted = model(epsilon=5.0).fit(*data(20_000))
    found = fitted._found(fitted.release_.arrays, fitted.noise_scale_, fitted._recipe_)
    assert fitted.release_.arrays["spread"].any()
    spreader, unit = found.sharp.spreader
    for factor in (0.0, 1.0, 30.0):
        found.theta = found.theta * factor
        cuts, most = found.cuts(found.sharp), 0.0
        sums_of = newton.spread_of(found, cuts)
        for scale in (1e-3, 1.0, 1e6):
            X, y = data(20)
            for row in range(20):
                one = opened(scale * X[row : row + 1], scale * y[row : row + 1, None])
                exact = one.sum(sums_of)["spread"]
                for k, moved in enumerate((cuts.moved[0], cuts.moved[1] / cuts.most)):
                    matrix = exact[k].sandwiched(spreader, 2).value * 2.0**26 / unit**2
                    size = float(np.linalg.norm(matrix)) / moved**2
                    assert size <= 1 + 1e-9
                    most = max(most, size)
        assert most > 0.01
    whole = fitted.prepare(*data(20_000)).data
    again = fitted._found(fitted.release_.arrays, fitted.noise_scale_, fitted._recipe_)
    exact = whole.sum(newton.spread_of(again, again.cuts(again.sharp)))["spread"]
    plain = exact[0].sandwiched(spreader, 4).value * 2.0**52 / unit**2
    off = np.linalg.norm(fitted.release_.arrays["spread"][0] - plain) / np.linalg.norm(plain)
    assert off < 0.2
