"""Whole fits: shares and shapes that are fixed beforehand, and where clips end.

`tests/mechanisms/test_regression.py` follows whole paths and adds up what they spend.
"""

import numpy as np
import pandas as pd
import pytest

from attacks import replay
from ndis import PrivateLeastSquares
from ndis.mechanisms.regression_methods.descent import Setting


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


def test_a_cluster_draws_the_same_where_a_clip_rises_for_rows_beyond_it() -> None:
    """There the gradients of a ladder of clips are summed before the clip is known."""
    dask = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((20_000, 3)), columns=["a", "b", "c"])
    frame["a"] = np.minimum(np.exp(1.3 * frame["a"]), 300)
    frame["y"] = np.log1p(frame["a"]) + 0.5 * frame["b"] + 0.5 * rng.standard_normal(20_000)
    limits = {"a": (0, 300), "b": (-5, 5), "c": (-5, 5), "y": (-6, 10)}
    model = PrivateLeastSquares(epsilon=5.0, delta=1e-6, limits=limits, random_state=0)
    here = model.fit(frame, "y").release_.arrays
    found = model._found(here, model.noise_scale_, model._recipe_)
    assert here["beyond"][0] > 5 * found.noise.beyond()
    assert found._least_clip > 0
    there = model.fit(dask.from_pandas(frame, npartitions=3), "y").release_.arrays
    for name, array in here.items():
        np.testing.assert_array_equal(array, there[name], err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_a_neighbour_is_not_seen_where_rows_beyond_a_clip_are_counted(seed: int) -> None:
    """With the same answers everything is the same; what differs costs no more than was paid."""
    rng = np.random.default_rng(seed)
    X, limits = rng.standard_normal((6000, 3)), [(0, 300), (-5, 5), (-5, 5)]
    X[:, 0] = np.minimum(np.exp(1.3 * X[:, 0]), 300)
    y = np.log1p(X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(6000)
    more = np.vstack([X, [[300.0, -5.0, 5.0]]]), np.append(y, rng.choice([-6.0, 10.0]))

    def make() -> PrivateLeastSquares:
        return PrivateLeastSquares(
            epsilon=6.0, delta=1e-6, limits=limits, label_limits=(-6, 10), random_state=seed
        )

    tables = [(X, y), more]
    done = replay.compare(make, *(tables if seed % 2 else tables[::-1]))
    assert np.all(done.arrays["beyond"] != 0)
    assert done.delta <= 1e-6
