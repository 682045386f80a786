"""Private regression of counts, rates and amounts."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm

from attacks import replay
from estimators.counts import counted, exposed, gamma, poisson, rates
from ndis import PrivatePoissonRegression

# Noise that is next to none.
QUIET = {"epsilon": 1e4, "delta": 1e-6, "random_state": 0}


def simulated(n: int, family: str = "poisson") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, 2))
    mean = np.exp(0.5 + X @ [0.8, -0.4])
    return X, rng.poisson(mean) if family == "poisson" else rng.gamma(2.0, mean / 2) + 0.01


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_without_noise_it_is_the_ordinary_fit(family: str) -> None:
    X, y = simulated(50_000, family)
    low = 0.0 if family == "poisson" else 0.01
    model = PrivatePoissonRegression(
        **QUIET, family=family, limits=[(-1, 1)] * 2, label_limits=(low, 40.0)
    ).fit(X, y)
    link = sm.families.links.Log()
    law = {"poisson": sm.families.Poisson, "gamma": sm.families.Gamma}[family](link)
    usual = sm.GLM(y, sm.add_constant(X), family=law).fit()
    found = model.intervals()
    np.testing.assert_allclose(found.estimate, usual.params, atol=1e-4)
    np.testing.assert_allclose([model.intercept_, *model.coef_], usual.params, atol=1e-4)
    robust = sm.GLM(y, sm.add_constant(X), family=law).fit(cov_type="HC0")
    np.testing.assert_allclose(found.standard_error, robust.bse, rtol=0.2)
    mean = model.predict(X[:5])
    np.testing.assert_allclose(mean, usual.predict(sm.add_constant(X))[:5], rtol=1e-3)


def test_exposure_has_coefficient_one() -> None:
    X, _ = simulated(20_000)
    rng = np.random.default_rng(2)
    days = rng.uniform(10, 100, len(X))
    y = rng.poisson(days / 30 * np.exp(0.5 * X[:, 0]))
    table = pa.table({"age": X[:, 0], "days": days, "falls": y})
    model = rates(**QUIET, n_rounds="auto").fit(table, "falls")
    offset = sm.GLM(
        np.minimum(y, 20), sm.add_constant(X[:, :1]), sm.families.Poisson(), exposure=days
    ).fit()
    np.testing.assert_allclose([model.intercept_, *model.coef_], offset.params, atol=1e-3)
    ahead = model.predict(table.slice(0, 3).drop_columns(["falls"]))
    np.testing.assert_allclose(ahead, offset.fittedvalues[:3], rtol=1e-2)
    again = PrivatePoissonRegression.from_release(model.release_)
    np.testing.assert_array_equal(again.predict(table.slice(0, 3)), ahead)


def test_the_release_says_all_that_the_estimator_knows() -> None:
    for make, data in ((poisson, counted()), (rates, exposed())):
        model = make(epsilon=1.0, delta=1e-6).fit(*data)
        again = PrivatePoissonRegression.from_release(model.release_)
        for name in ("estimate", "standard_error"):
            here, there = (getattr(each.intervals(), name) for each in (model, again))
            np.testing.assert_allclose(here, there, rtol=1e-9)
        assert again.intervals().labels == model.intervals().labels


@pytest.mark.slow
def test_intervals_cover_the_population() -> None:
    truth, hits = np.array([0.5, 0.8, -0.4]), []
    for run in range(30):
        rng = np.random.default_rng(run)
        X = rng.uniform(-1, 1, (8_000, 2))
        mean = np.exp(truth[0] + X @ truth[1:])
        y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))  # variances above means
        model = poisson(epsilon=1.0, delta=1e-6, random_state=run, label_limits=(0, 40))
        found = model.fit(X, y).intervals()
        hits.append((found.lower < truth) & (truth < found.upper))
    assert 0.85 <= np.mean(hits) <= 1.0
    assert found.standard_error.max() < 0.1


@pytest.mark.slow
def far_out(n: int, seed: int, family: str = "gamma") -> tuple[np.ndarray, np.ndarray]:
    """Labels of which those of a tenth of the rows have a far longer tail; slopes .5, -.8."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-1, 1, n), rng.random(n) < 0.1])
    some, logs = X[:, 1] > 0, X @ [0.5, -0.8]
    if family == "poisson":
        shape = np.where(some, 0.2, 3.0)
        return X, rng.poisson(np.exp(0.8 + logs) * rng.gamma(shape, 1 / shape)).clip(0.0, 80.0)
    spread = np.where(some, 1.2, 0.5)
    return X, np.exp(logs + spread * rng.standard_normal(n) - spread**2 / 2).clip(0.01, 80.0)


def of_labels(**more: Any) -> PrivatePoissonRegression:
    return PrivatePoissonRegression(
        **{"epsilon": 2.0, "delta": 1e-6, "family": "gamma", **more},
        limits=[(-1, 1), (0, 1)],
        label_limits=(0.0 if more.get("family") == "poisson" else 0.01, 80.0),
    )


@pytest.mark.parametrize(("family", "n", "epsilon"), [("poisson", 20_000, 1), ("gamma", 20_000, 2)])
def test_intervals_hold_for_a_group_whose_labels_have_a_long_tail(
    family: str, n: int, epsilon: float
) -> None:
    """Clips that followed the law of all labels took 2 to 12 standard errors from its slope."""
    away = []
    for seed in range(6):
        model = of_labels(family=family, epsilon=epsilon, random_state=seed)
        found = model.fit(*far_out(n, seed, family)).intervals()
        away.append((found.estimate[1:] - [0.5, -0.8]) / found.standard_error[1:])
    assert np.abs(away).max() < 3.0
    assert np.sqrt(np.mean(np.square(away))) > 0.3


def test_a_cluster_draws_the_same_where_clips_of_amounts_rise() -> None:
    dask = pytest.importorskip("dask.dataframe")
    X, y = far_out(8000, 0)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    limits = {"a": (-1, 1), "b": (0, 1), "y": (0.01, 80.0)}
    model = PrivatePoissonRegression(
        epsilon=4.0, delta=1e-6, family="gamma", limits=limits, random_state=0
    )
    here = model.fit(frame, "y").release_.arrays
    model.intervals()
    assert np.any(here["beyond"] > 3 * model._solution.noise.beyond())
    assert model._solution._least_clip > 0
    there = model.fit(dask.from_pandas(frame, npartitions=3), "y").release_.arrays
    for name, array in here.items():
        np.testing.assert_array_equal(array, there[name], err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_a_neighbour_is_not_seen_where_amounts_beyond_a_clip_are_counted(seed: int) -> None:
    """With the same answers everything is the same; what differs costs no more than was paid."""
    X, y = far_out(6000, seed)
    more = np.vstack([X, [[1.0, 1.0]]]), np.append(y, [80.0, 0.01][seed // 2])
    tables = [(X, y), more]
    make = partial(of_labels, epsilon=6.0, random_state=seed)
    done = replay.compare(make, *(tables if seed % 2 else tables[::-1]))
    assert np.all(done.arrays["beyond"] != 0)


def test_the_error_falls_with_the_number_of_rows() -> None:
    errors = []
    for n in (1_000, 8_000, 64_000):
        X, y = simulated(n)
        usual = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit().params[1:]
        fits = [poisson(epsilon=1.0, delta=1e-6, random_state=run).fit(X, y) for run in range(4)]
        errors.append(np.sqrt(np.mean([(fit.coef_ - usual) ** 2 for fit in fits])))
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]


def test_score_is_the_share_of_the_deviance() -> None:
    X, y = simulated(2_000)
    model = poisson(epsilon=10.0, delta=1e-6, random_state=0).fit(X, y)
    assert 0.1 < model.score(X, y) < 1.0
    assert model.score(X, np.random.default_rng(0).permutation(y)) < 0.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"label_limits": (-1, 5)}, "at least 0"),
        ({"label_limits": (0, 5), "family": "gamma"}, "above 0"),
        ({"label_limits": None}, "limits of the label"),
        ({"label_limits": "private"}, "public limits of the label"),
        ({"family": "binomial"}, "family"),
        ({"exposure": "days"}, "limits of the exposure"),
        ({"n_rounds": "many"}, "n_rounds"),
        ({"max_rounds": 1}, "max_rounds"),
    ],
)
def test_errors_are_told_before_anything_is_read(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as told:
        poisson(epsilon=1.0, delta=1e-6, **wrong).plan()
    assert str(told.value).endswith(".")


def test_one_label_at_a_time() -> None:
    X, y = counted()
    with pytest.raises(ValueError, match="one label"):
        poisson(epsilon=1.0, delta=1e-6).fit(X, np.column_stack([y, y]))


def test_forecasts_fall_with_rows_and_know_the_family() -> None:
    for make in (poisson, gamma):
        model = make(epsilon=1.0, delta=1e-6)
        few, many = (
            model.forecast(n_rows=n).errors["explained deviance lost"][1] for n in (1_000, 200_000)
        )
        assert many < few


@pytest.mark.parametrize(
    "people", [{"person": "who"}, {"person": "who", "rows_per_person": 3, "sample_weight": None}]
)
def test_people_with_several_rows_can_be_forecast(people: dict) -> None:
    model = PrivatePoissonRegression(
        limits={"age": (0, 9)}, label_limits=(0, 20), epsilon=1.0, delta=1e-6, **people
    )
    assert model.forecast(n_rows=1000, label="visits").errors["explained deviance lost"][1] > 0.0


def test_levels_become_indicators() -> None:
    rng = np.random.default_rng(3)
    sick = rng.choice(["no", "yes"], 4_000)
    y = rng.poisson(np.where(sick == "yes", 3.0, 1.0)).astype(float)
    model = PrivatePoissonRegression(
        epsilon=5.0, delta=1e-6, random_state=0, levels={"sick": ["yes"]}, limits={"y": (0, 15)}
    ).fit(pa.table({"sick": sick, "y": y}), "y")
    assert model.feature_names_ == ("sick=yes",)
    assert abs(model.coef_[0] - np.log(3.0)) < 0.15


@pytest.mark.parametrize("m", [1, 1000])
def test_a_person_with_many_rows_is_not_seen(m: int) -> None:
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(200), 3)
    a = rng.uniform(-1, 1, len(who))
    others = pa.table({"who": who, "a": a, "y": rng.poisson(np.exp(0.5 * a)).astype(float)})
    new = pa.table({"who": np.full(m, -1), "a": np.ones(m), "y": np.full(m, 15.0)})
    done = replay.compare(
        lambda: PrivatePoissonRegression(
            epsilon=1.0,
            delta=1e-6,
            person="who",
            limits={"a": (-1, 1), "y": (0, 15)},
            random_state=0,
        ),
        (pa.concat_tables([others, new]), "y"),
        (others, "y"),
    )
    assert not done.error
    assert 0 < done.delta <= 1e-6
