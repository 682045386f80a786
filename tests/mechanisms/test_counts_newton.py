"""What rounds with a log link release: the bound on one row, and what is read off a histogram."""

import math
from dataclasses import replace

import numpy as np
import pytest

from estimators.counts import amounts, counted, exposed, gamma, poisson, rates
from ndis import PrivatePoissonRegression
from ndis.mechanisms import counts_newton as log_link
from ndis.mechanisms.center import center_of
from ndis.mechanisms.regression_methods import newton
from ndis.mechanisms.regression_methods.descent import BEYOND, MOMENTS, PRODUCTS, PULLS
from ndis.tables import GRID_NORM, Together
from ndis.tables.sums import (
    BINS,
    CutHessian,
    CutHessians,
    HessianNorms,
    tally_labels,
    total_exposure,
)

# Coefficients that nobody would fit, beside those that a release has led to.
ABSURD = (0.0, 1.0, -40.0, 1e6)


def one_row(model, X, y):
    """The table of one row of a data set whose limits are the model's."""
    return model.prepare(X, y).data


@pytest.mark.parametrize("factor", ABSURD)
@pytest.mark.parametrize(("make", "data"), [(poisson, counted), (gamma, amounts), (rates, exposed)])
def test_a_row_moves_every_part_by_no_more_than_is_paid_for(make, data, factor) -> None:
    model = make(epsilon=1.0, delta=1e-6, random_state=0).fit(*data())
    path, X, y = model._solution, *data()
    path.theta = path.theta * factor
    setting = model._setting(model._recipe_)
    center = center_of(model.release_.arrays["center"], model.noise_scale_["center"])
    pulls = newton.gradients_of(path, looking=True)
    hessian = CutHessians(center, float(setting.last), not setting.link.least, 24)
    more = (total_exposure,) if setting.link.exposure else ()
    whitener, unit_z = path.curvature.whitener
    for index in range(0, 400, 40):
        one = (
            (X.slice(index, 1), y)
            if make is rates
            else (X[index : index + 1], y[index : index + 1])
        )
        sums = one_row(model, *one).sum(Together((hessian, pulls, tally_labels, *more)))
        for name in ("norms", "products", "labels"):
            assert np.sum(sums[name].value) == np.max(sums[name].value) == 1.0
        grams = sums["grams"].value
        assert np.sqrt(np.sum(grams**2, axis=(1, 2))).max() <= 2.0**40
        white = sums["gradient"].multiplied(whitener, 2).value * 2.0**26 / unit_z / pulls.unit
        lengths = np.linalg.norm(white, axis=0)
        assert np.all(lengths <= np.array(pulls.clips) * (1 + 1e-9))
        if more:
            assert 0 < sums["exposure"].value <= GRID_NORM


def test_the_shares_add_up_to_one() -> None:
    for link in (log_link.LogLink(), log_link.LogLink(exposure=1.0)):
        shares = log_link.LogSetting(3, 1, True, link=link).shares
        assert math.isclose(sum(shares.values()), 1.0)
        assert ("exposure" in shares) == bool(link.exposure)
    setting = log_link.LogSetting(3, 1, True)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 2.0))
    path = log_link.LogDescent(setting, noise, zeros(setting, count=1000.0))
    taken = PRODUCTS * len(path.looks) + (2 * MOMENTS + PULLS) * path.spreads
    assert math.isclose(path.taken, taken + BEYOND * len(path.counts))


@pytest.mark.parametrize("n_rounds", [1, 4, 7, 8, 20])
@pytest.mark.parametrize("least", [0.0, 0.01])
@pytest.mark.parametrize("rows", [100.0, 1e5])
def test_rounds_share_all_they_have_with_and_without_counts(
    rows: float, least: float, n_rounds: int
) -> None:
    link = log_link.LogLink(least, 8.0) if least else log_link.LogLink()
    setting = log_link.LogSetting(3, 1, True, "auto", n_rounds, link=link)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 2.0))
    path = log_link.LogDescent(setting, noise, zeros(setting, count=rows))
    path.bend(np.eye(4) * rows / 8)
    moments, products, spent = np.eye(4) * rows / 8, np.zeros(BINS), 0.0
    products[9] = rows
    assert path.counts == [t for t in (3, 7) if rows > 1000 and t < path.n_rounds]
    while not path.done:
        t, ladder = len(path.points), path.clips(looking=True)
        if t in path.looks:
            path.look(products)
            spent += path.noise.look() ** -2
        if t in path.counts:
            path.look_beyond(rows / 50, ladder)
            spent += path.noise.beyond() ** -2
        if path.spreads and path.last:
            spent += float(np.sum([2.0, 1.0] / path.noise.spread() ** 2))
            path.read_moments(moments)
            path.read_spread(np.stack([moments] * 2), path.cuts(path.sharp))
        spent += path.scale**-2
        path.learn(np.zeros((4, 1)))
    assert 0.99 < spent * noise.rounds**2 <= 1.0


@pytest.mark.parametrize("link", [log_link.LogLink(), log_link.LogLink(0.01, 8.0)])
def test_a_clip_rises_for_rows_that_no_law_expects(link: log_link.LogLink) -> None:
    setting = log_link.LogSetting(3, 1, True, link=link)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 2.0))

    def clip(more: float) -> tuple[float, float]:
        path = log_link.LogDescent(setting, noise, zeros(setting, count=1e5))
        path.bend(np.eye(4) * 1e5 / 8)
        products = np.zeros(BINS)
        products[9] = 1e5
        path.look(products)
        before, lost = path.clip, path.lost
        path._clipped_by = lambda clips: (np.full(len(clips), 0.9), np.zeros(len(clips)))
        # A law that expects 10,000 rows there is believed by half.
        path.look_beyond(5_000.0 + more, path.clips(looking=True))
        return path.clip / before, path.lost - lost

    assert clip(0.0)[0] == 1.0
    assert clip(3000.0)[0] > clip(300.0)[0] > 1.0
    assert clip(3000.0)[1] > clip(0.0)[1]


def zeros(setting: log_link.LogSetting, count: float) -> dict[str, np.ndarray]:
    released = {name: np.zeros(shape) for name, shape in setting.shapes.items()}
    released["center"][-1] = count
    released["labels"][4], released["norms"][6] = count, count
    return released


def test_moments_of_labels_without_noise_and_in_noise() -> None:
    counts = np.zeros(BINS)
    counts[-1], counts[8], counts[2] = 700.0, 200.0, 100.0
    values = 2.0 ** (-0.25 - np.arange(BINS) / 2)
    told = log_link.Labels(counts, 1e-6, 1000.0, 1e-6)
    assert math.isclose(told.moment(1)[0], counts @ values / 1000, rel_tol=1e-4)
    assert math.isclose(told.moment(2)[0], counts @ values**2 / 1000, rel_tol=1e-3)
    alone = log_link.Labels(np.zeros(BINS), 100.0, 100.0, 100.0)
    assert 0.02 < alone.moment(1)[0] < 0.3  # what is usual


def test_a_law_tells_the_mean_where_its_sum_is_noise() -> None:
    rng, n, scale = np.random.default_rng(0), 1_000, 100.0
    labels = rng.gamma(2.0, 0.05, n)  # their mean is 0.1, and the noise of their sum 120
    bins = np.clip(np.floor(-2 * np.log2(labels)), 0, BINS - 1).astype(int)
    counts = np.bincount(bins, minlength=BINS)
    errors = []
    for _ in range(20):
        noisy = counts + scale * rng.standard_normal(BINS)
        errors.append(math.log(log_link.Labels(noisy, scale, n, 300.0).moment(1)[0] / 0.1))
    assert math.sqrt(np.mean(np.square(errors))) < 0.6


def test_what_clips_take_of_skewed_labels() -> None:
    counts = np.zeros(BINS)
    counts[-1], counts[2] = 800.0, 200.0
    told = log_link.Labels(counts, 1e-6, 1000.0, 1e-6)
    kept, leaning = told.clipped(told.moment(1)[0], np.array([1e-3, 0.2, 1.0]))
    assert kept[0] < 0.3 < kept[1]
    assert math.isclose(kept[2], 1.0)
    assert leaning[1] > 0.0 == leaning[2]  # the long ones are above the mean


def test_hidden_curvature_is_an_equal_part_of_the_total() -> None:
    setting = log_link.LogSetting(4, 1, True)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 100.0))
    path = log_link.LogDescent(setting, noise, zeros(setting, count=1000.0))
    path.bend(np.zeros((5, 5)))
    hidden = path.curvature.values[:-1].copy()
    assert np.all(hidden >= path.curvature.rows * path._square / 4 * (1 - 1e-9))
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 1e-6))
    path = log_link.LogDescent(setting, noise, zeros(setting, count=1000.0))
    path.bend(np.diag([40.0, 20.0, 10.0, 5.0, 10.0]))
    np.testing.assert_allclose(np.sort(path.curvature.values[:-1]), [5, 10, 20, 40], rtol=1e-6)


def test_the_constant_is_found_where_noise_hides_the_hessian() -> None:
    setting = log_link.LogSetting(4, 1, True)
    noise = dict.fromkeys(setting.shares, 1e-3) | {"hessian": 1e4}
    path = log_link.LogDescent(setting, log_link.LogScales(**noise), zeros(setting, count=1000.0))
    path.bend(np.zeros((5, 5)))
    path.look(np.zeros(BINS))
    short = 0.2 * path.rows * path.mean  # expected labels are a fifth too large
    path.learn(np.array([0.0, 0.0, 0.0, 0.0, -short * path.curvature.metric[-1]])[:, None])
    assert -0.25 < path.theta[-1, 0] < -0.1


def test_what_clips_take_leans_by_no_more_than_there_is() -> None:
    """Rows counted together in bins far out once moved the constant by twice its own weight."""
    setting = log_link.LogSetting(10, 1, True)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 2.0))
    released = zeros(setting, count=1000.0)
    released["labels"] = np.eye(BINS)[4] * 100.0 + np.eye(BINS)[-1] * 900.0
    path = log_link.LogDescent(setting, noise, released)
    path.bend(np.zeros((11, 11)))
    path.clip = path._usual
    path.look(np.r_[np.zeros(3), np.full(8, 60.0), np.zeros(BINS - 11)])
    assert path.residual_variance > path.expected**2
    assert 0.0 < path._leaning <= 0.5 * path.curvature.rows * (1 + 1e-9)


def test_few_rows_are_told_apart_at_a_small_budget() -> None:
    """Of 2,000 rows at epsilon .3: .044; with clips of twice the usual residual it was .069."""
    errors = []
    for run in range(6):
        rng = np.random.default_rng(run)
        X = rng.uniform(-1, 1, (2_000, 3))
        y = rng.poisson(np.exp(1.0 + X @ [0.8, -0.4, 0.4]))
        model = PrivatePoissonRegression(
            epsilon=0.3, delta=1e-6, limits=[(-1, 1)] * 3, label_limits=(0, 20), random_state=run
        ).fit(X, y)
        errors.append(model.coef_ - [0.8, -0.4, 0.4])
    assert np.sqrt(np.mean(np.square(errors))) < 0.055


def test_steps_that_swing_are_halved_and_others_are_not() -> None:
    setting = log_link.LogSetting(2, 1, True)
    noise = log_link.LogScales(**dict.fromkeys(setting.shares, 1e-3))
    path = log_link.LogDescent(setting, noise, zeros(setting, count=1000.0))
    path.bend(np.diag([40.0, 40.0, 10.0]))
    path.variances = np.array([1e-12])
    steps = [path._unswung(np.array([[s], [1.0], [0.0]])) for s in (1.0, -1.0, 1.0)]
    assert [step[0, 0] for step in steps] == [1.0, -0.5, 0.25]
    assert [step[1, 0] for step in steps] == [1.0, 1.0, 1.0]


def test_the_path_is_found_again_from_what_is_released() -> None:
    model = poisson(epsilon=1.0, delta=1e-6, random_state=3).fit(*counted())
    setting = model._setting(model._recipe_)
    noise = log_link.LogScales(**{name: model.noise_scale_[name] for name in setting.shares})
    again = log_link.LogDescent.again(setting, noise, model.release_.arrays)
    np.testing.assert_allclose(again.theta, model._solution.theta, rtol=1e-9)
    assert again.link == replace(again.link)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_further_pass_gives_the_matrix_that_the_ladder_has(weighted) -> None:
    table = poisson(epsilon=1.0, delta=1e-6).prepare(*counted()).data
    center = np.full(len(table.rows.features.names), 2.0**15)
    rows = center, 2.0**18, weighted
    ladder = table.sum(CutHessians(*rows, 24))
    assert table.sum(HessianNorms(*rows))["norms"] == ladder["norms"]
    for rung in (0, 3, 4, 23):
        assert table.sum(CutHessian(*rows, rung))["gram"] == ladder["grams"][rung]
