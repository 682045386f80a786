"""A norm bought from the data."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from ndis import PrivateNorm, QuadraticLoss, privacy_loss
from ndis.calibration import meets
from samplers import LEVEL, accepts_scale

THRESHOLDS = np.arange(1.0, 6.0)


def norm(**changes):
    given = {"epsilon": 0.5, "delta": 1e-6, "thresholds": THRESHOLDS, "random_state": 0}
    return PrivateNorm(**(given | changes))


def table(n_rows: int = 20_000) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, 2))


def test_finds_the_quantile():
    rows = table()
    for quantile in (0.3, 0.5, 0.9, 0.98):
        truth = np.quantile(np.linalg.norm(rows, axis=1), quantile)
        expected = THRESHOLDS[np.searchsorted(THRESHOLDS, truth)]
        assert norm(quantile=quantile).fit(rows).norm_ == expected


def test_every_neighbour_keeps_the_promise_and_one_attains_it():
    mechanism, rows = norm(), table(8) * [[0.1], [1], [2], [3], [4], [5], [9], [0]]
    laws = [mechanism.output_law(np.delete(rows, i, axis=0)) for i in range(8)]
    deltas = [privacy_loss(mechanism.output_law(rows), law).delta(0.5) for law in laws]
    assert max(deltas) <= 1e-6 * (1 + 1e-9)
    assert min(deltas) >= 1e-6 * (1 - 1e-9)
    halved = QuadraticLoss.from_shift(2.0 / mechanism.calibrate())
    assert halved.delta(0.5) > 1e-4


def test_released_counts_have_their_law():
    mechanism, rows = norm(thresholds=np.linspace(0.001, 6, 5000)), table(500)
    law = mechanism.output_law(rows)
    noise = mechanism.fit(rows).release_.value - law.mean
    assert accepts_scale(noise, mechanism.noise_scale_, LEVEL)
    assert not accepts_scale(noise, 1.1 * mechanism.noise_scale_, LEVEL)
    assert np.all(law.variances == mechanism.noise_scale_**2)
    assert law.mean.sum() == 500


def test_release_is_proven_and_composes():
    mechanism = norm().fit(table(100))
    assert meets(mechanism.guarantee_.loss, 0.5, 1e-6)
    assert mechanism.release_.parameters["thresholds"] == THRESHOLDS.tolist()
    assert clone(mechanism).get_params().keys() == mechanism.get_params().keys()


def test_no_threshold_is_enough():
    assert norm().fit(np.full((5000, 2), 100.0)).norm_ == 5.0


def test_categories_and_intercept_count():
    frame = pa.table({"x": [3.0] * 4000, "c": ["a"] * 4000})
    mechanism = norm(levels={"c": ["a", "b"]}, intercept=True, thresholds=[3.0, 3.3, 3.4])
    assert mechanism.fit(frame).norm_ == 3.4  # sqrt(9 + 1 + 1) = 3.317


@pytest.mark.parametrize("thresholds", [[], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
def test_bad_thresholds(thresholds):
    with pytest.raises(ValueError, match="thresholds"):
        norm(thresholds=thresholds).fit(table(3))


def test_bad_quantile():
    with pytest.raises(ValueError, match="quantile"):
        norm(quantile=1.0).fit(table(3))
