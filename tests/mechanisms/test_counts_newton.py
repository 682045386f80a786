"""What rounds with a log link release: the bound on one row, and what is read off a histogram."""

import math
from dataclasses import replace

import numpy as np
import pytest

from estimators.counts import counted, exposed, poisson, rates
from ndis.mechanisms import counts_newton as log_link
from ndis.mechanisms.regression_methods import newton
from ndis.tables import GRID_NORM, Together
from ndis.tables.sums import BINS, CutHessian, tally_labels, total_exposure

# Coefficients that nobody would fit, beside those that a release has led to.
ABSURD = (0.0, 1.0, -40.0, 1e6)


def one_row(model, X, y):
    """The table of one row of a data set whose limits are the model's."""
    return model.prepare(X, y).data


@pytest.mark.parametrize("factor", ABSURD)
@pytest.mark.parametrize(("make", "data"), [(poisson, counted), (rates, exposed)])
def test_a_row_moves_every_part_by_no_more_than_is_paid_for(make, data, factor) -> None:
    model = make(epsilon=1.0, delta=1e-6, random_state=0).fit(*data())
    path, X, y = model._solution, *data()
    path.theta = path.theta * factor
    setting = model._setting(model._recipe_)
    center = newton.center_of(model.release_.arrays["center"], model.noise_scale_["center"])
    pulls = newton.gradients_of(path, looking=True)
    hessian = CutHessian(24, center, float(setting.last), weighted=True)
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
    assert math.isclose(
        path.taken,
        newton.PRODUCTS * len(path.looks) + (2 * newton.MOMENTS + newton.PULLS) * path.spreads,
    )


def zeros(setting: log_link.LogSetting, count: float) -> dict[str, np.ndarray]:
    released = {name: np.zeros(shape) for name, shape in setting.shapes.items()}
    released["center"][-1] = count
    released["labels"][4], released["norms"][6] = count, count
    return released


def test_moments_of_labels_without_noise_and_in_noise() -> None:
    counts = np.zeros(BINS)
    counts[-1], counts[8], counts[2] = 700.0, 200.0, 100.0
    values = 2.0 ** (-0.25 - np.arange(BINS) / 2)
    mean, spread = log_link.label_moments(counts, 1e-6, 1000.0)
    assert math.isclose(mean, counts @ values / 1000, rel_tol=1e-4)
    assert math.isclose(spread**2, counts @ values**2 / 1000 - mean**2, rel_tol=1e-3)
    # A few rows far up are left out where noise could be them, and noise alone is no mean.
    noisy, _ = log_link.label_moments(counts, 150.0, 1000.0)
    assert 0.0 < noisy < 3 * mean
    alone, _ = log_link.label_moments(np.zeros(BINS), 10.0, 1000.0)
    assert 0.0 < alone < 0.05


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
