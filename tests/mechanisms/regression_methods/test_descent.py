"""What is learned from releases; `tests/mechanisms/test_regression.py` adds up what they spend."""

import math

import numpy as np
import pytest

from ndis import PrivateLeastSquares
from ndis.mechanisms.regression_methods.descent import SURELY, Descent, Scales, Setting
from ndis.tables import ExactSum
from ndis.tables.sums import BINS


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
                ladder = descent.clips(looking=True)
                descent.look(products)
                spent += 1 / descent.noise.look() ** 2
                if len(descent.points) in descent.counts:
                    descent.look_beyond(rows / 100, ladder)
                    spent += 1 / descent.noise.beyond() ** 2
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


@pytest.mark.parametrize("beyond", [0.0, 15.0, 60.0])
def test_a_clip_rises_where_rows_beyond_it_are_many(beyond: float) -> None:
    """And stays there, whatever later looks say; earlier gradients then count less."""
    noise, rows, bulk = Scales(1.0, 1.0, 4.5), 1e5, np.zeros(BINS)
    norms = np.zeros(BINS)
    norms[1] = bulk[12] = rows
    descent = Descent(Setting(3, 1, True), noise, norms, np.zeros(3))
    descent.bend(np.eye(4) * rows / 4)
    while len(descent.points) != descent.counts[0]:
        if len(descent.points) in descent.looks:
            descent.look(bulk)
        descent.learn(np.zeros((4, 1)))
        descent._settled = False
    ladder = descent.clips(looking=True)
    descent.look(bulk)
    before, clip = descent.variances.copy(), descent.clip
    far = ExactSum.of(np.where(np.arange(BINS) < 4, 1.0, bulk))
    assert descent.rows_beyond(far).value == 4.0
    rung = descent.look_beyond(beyond + SURELY * noise.beyond(), ladder)
    assert descent.clip == ladder[rung]
    grown = math.sqrt(beyond / (2 * descent.gradient_scale))
    assert max(grown, 1.0) / 2**0.5 < descent.clip / clip <= max(2**0.5 * grown, 1.0)
    assert (descent.variances[-1] > before[-1]) == (descent.clip > clip)
    raised = descent.clip
    descent.learn(np.zeros((4, 1)))
    descent.look(bulk)
    assert descent.clip >= raised / 2**0.5
    # Nor does it fall where hardly any row is beyond it then.
    ladder = descent.clips(looking=True)
    descent.look_beyond(SURELY * noise.beyond() + 0.1, ladder)
    descent.look(bulk)
    assert descent.clip >= raised / 2**0.5


@pytest.mark.slow
def test_errors_fall_where_few_rows_far_out_all_pull_one_way() -> None:
    """A long column, whose effect bends: its far rows are few and decide the slope."""
    rng, errors, wrong = np.random.default_rng(0), [], []
    for seed in range(6):
        X = rng.standard_normal((50_000, 4))
        X[:, 0] = np.minimum(np.exp(1.3 * X[:, 0]), 300)
        y = np.log1p(X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(len(X))
        fitted = PrivateLeastSquares(
            epsilon=2.0, delta=1e-6, limits=[(0, 300)] + [(-5, 5)] * 3, label_limits=(-6, 10),
            random_state=seed,
        ).fit(X, y)  # fmt: skip
        best = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0][1]
        errors.append(fitted.coef_[0] / best - 1.0)
        found = fitted.intervals(of="table")
        wrong.append((found.estimate[1] - best) / found.standard_error[1])
    # With a clip that lets no noise in, .32 and 140.
    assert np.sqrt(np.mean(np.square(errors))) < 0.25
    assert np.max(np.abs(wrong)) < 40
