"""The public side of rounds: shares and shapes that are fixed beforehand.

`tests/mechanisms/test_regression.py` follows whole paths and adds up what they spend.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndis import PrivateLeastSquares
from ndis.mechanisms.regression_methods.newton import Descent, Histogram, Scales, Setting, cleaned
from ndis.tables.sums import BINS


@pytest.mark.parametrize("intercept", [True, False])
def test_shares_are_all_of_the_budget_and_shapes_are_those_released(intercept: bool) -> None:
    setting = Setting(3, 1, intercept)
    assert sum(setting.shares.values()) == pytest.approx(1.0, abs=1e-15)
    assert min(setting.shares.values()) > 0.0
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, method="newton", fit_intercept=intercept,
        limits=[(-1, 1)] * 3, label_limits=(-1, 1),
    )  # fmt: skip
    released = model.fit(X, X[:, 0]).release_.arrays
    for name, shape in setting.shapes.items():
        assert len(released[name].shape) == len(shape), name
        assert all(np.array(released[name].shape) <= shape), name


def test_eigenvalues_of_noise_alone_are_cleaned_away_and_large_ones_stay() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 40))
    values = np.linalg.eigvalsh((noise + noise.T) / 2)
    assert cleaned(values, 1.0).sum() < 0.3 * np.maximum(values, 0.0).sum()
    spread = np.array([10.0, 1e4, 1e6])
    np.testing.assert_allclose(cleaned(spread, 1.0), spread, rtol=0.03)


@pytest.mark.parametrize("shape", [0.5, 2.0, 8.0])
def test_a_histogram_tells_second_moments(shape: float) -> None:
    """Of a gamma law, exponential or bell-shaped, from counts in half octaves."""
    n, top = 1e6, 64.0
    edges = top * 2.0 ** (-np.arange(BINS + 1) / 2)
    counts = n * -np.diff(stats.gamma.cdf(edges, shape))
    value, noise, sampling = Histogram(counts, top, 1e-6).second_moment()
    assert value == pytest.approx(shape * (shape + 1), rel=0.01)
    fourth = shape * (shape + 1) * (shape + 2) * (shape + 3)
    assert sampling == pytest.approx(np.sqrt((fourth - value**2) / n), rel=0.05)
    assert noise < 1e-3 * value
    noisy = counts + 40.0 * np.random.default_rng(0).standard_normal(BINS)
    again, noise, _ = Histogram(noisy, top, 40.0).second_moment()
    assert abs(again - value) < 2.0 * noise < 0.1 * value


@pytest.mark.parametrize(("law", "cap"), [(stats.norm(), 3.0), (stats.t(3), 8.0)])
def test_a_histogram_tells_what_a_cap_cuts_off_beyond_what_it_sees(law: Any, cap: float) -> None:
    """Of 100,000 absolute values, with noise that hides bins of fewer than 45; the worst of ten."""
    n, top, rng = 100_000, 512.0, np.random.default_rng(0)
    edges = top * 2.0 ** (-np.arange(BINS + 1) / 2)
    counts = 2 * n * (law.sf(edges[1:]) - law.sf(edges[:-1]))
    truth = 2 * n * law.expect(lambda x: x - cap, lb=cap)
    told = [
        Histogram(counts + 15.0 * rng.standard_normal(BINS), top, 15.0).lost_beyond(cap) / truth
        for _ in range(10)
    ]
    assert min(told) > 1 / 4
    assert max(told) < 4
    assert Histogram(0.0 * counts, top, 15.0).lost_beyond(cap) == math.inf


def test_rows_that_are_thinly_spread_over_bins_are_counted_together() -> None:
    counts = np.zeros(BINS)
    counts[4:12], counts[20:26] = 12.0, 500.0  # 96 rows far out, twelve in a bin; noise of four
    bulk = np.where(np.arange(BINS) < 14, 0.0, counts)
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        noise = 4.0 * rng.standard_normal(BINS)
        together, alone, mistaken = (
            Histogram(truth + noise, 1.0, 4.0, 2.0**-6, thinly).counts[:14].sum()
            for truth, thinly in ((counts, True), (counts, False), (bulk, True))
        )
        found.append((together > 48, alone > 48, mistaken > 0))
    seen, by_themselves, wrongly = np.mean(found, axis=0)
    assert seen > 0.8
    assert by_themselves < 0.45
    assert wrongly < 0.03


def test_more_is_allowed_for_clipping_where_more_is_cut_or_noise_hides_curvature() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((20_000, 3)), rng.standard_normal(20_000)
    fitted = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, limits=[(-5, 5)] * 3, label_limits=(-8, 8), random_state=0
    ).fit(X, labels)
    found = fitted._found(fitted.release_.arrays, fitted.noise_scale_, fitted._recipe_)
    quiet, some, hidden, more = found.clipped_by(np.array([0.0, 0.7, 1.0, 50.0]))
    assert quiet == found.clipped == 1.49
    assert quiet < some < hidden == more == 3.25
    found.clip /= 2.0
    assert np.all(found.clipped_by(np.array([0.0, 50.0])) > hidden)


@pytest.mark.parametrize("epsilon", [100.0, 1000.0])
def test_no_clip_is_beyond_all_rows(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1000, 4))
    y = X @ [1.0, -0.5, 0.25, 0.0] + 0.7 * rng.standard_normal(1000)
    model = PrivateLeastSquares(
        epsilon=epsilon, delta=1e-6, limits=[(-5, 5)] * 4, label_limits=(-8, 8), random_state=0
    ).fit(X, y)
    ones = np.column_stack([np.ones(1000), X])
    best = np.linalg.lstsq(ones, y, rcond=None)[0][1:]
    sampling = 0.7 / np.sqrt(1000)
    # A clip that is raised until noise is a tenth of the sampling variance has .4 here.
    assert np.sqrt(np.mean((model.coef_ - best) ** 2)) < 0.2 * sampling


@pytest.mark.parametrize("rows", [10.0, 1e5])
@pytest.mark.parametrize("n_rounds", [1, 2, 3, 4, 8, 20])
def test_rounds_share_all_they_have_whenever_a_regression_ends(n_rounds: int, rows: float) -> None:
    noise = Scales(norms=5.0, hessian=2.0, rounds=1.0, center=10.0)
    norms, products = np.zeros((2, BINS))
    norms[1] = products[3] = rows
    rng = np.random.default_rng(0)
    for last in range(1, n_rounds + 1):
        descent = Descent(Setting(3, 1, True, "auto", n_rounds), noise, norms, np.zeros(3))
        descent.bend(np.eye(4) * rows / 4)
        spent = 0.0
        while not descent.done:
            if len(descent.points) in descent.looks:
                descent.look(products)
                spent += 1 / descent.noise.look() ** 2
            if descent.spreads and descent.last:
                spent += float(np.sum([2.0, 1.0] / descent.noise.spread() ** 2))
                descent.read_moments(np.eye(4) * rows / 4)
                moments = np.stack([np.eye(4) * rows / 4] * 2)
                descent.read_spread(moments, descent.cuts(descent.sharp))
            spent += 1 / descent.scale**2
            descent.learn(1e-3 * rng.standard_normal((4, 1)))
            descent._settled = len(descent.points) >= last
        assert len(descent.points) <= last + 1
        assert spent <= 1 / noise.rounds**2


def test_a_clip_rises_where_it_proves_far_too_small() -> None:
    rows = 1e4
    noise = Scales(1.0, 1.0, 1.0)
    norms, near, far = np.zeros((3, BINS))
    norms[1] = rows
    near[9] = rows
    far[9], far[2] = 0.8 * rows, 0.2 * rows
    descent = Descent(Setting(3, 1, True, 20), noise, norms, np.zeros(3))
    descent.bend(np.eye(4) * rows / 4)
    descent.look(near)
    low = descent.clip
    descent.learn(np.zeros((4, 1)))
    before = float(descent.variances[0])
    descent.look(near)
    assert descent.clip <= low
    assert descent.variances[0] == before
    descent._looks = []
    descent.look(far)
    assert descent.clip > 4 * low
    # The gradient of the smaller clip counts less than the next ones.
    descent.learn(np.zeros((4, 1)))
    assert descent.variances[0] > 10 * descent.variances[1] > 10 * before
