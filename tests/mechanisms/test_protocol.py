"""One protocol for every estimator and every method of it (docs/architecture.md)."""

import inspect
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import ndis
from estimators import Case, all_cases, parameters
from ndis import BudgetExceeded, Guarantee, Ledger, Risk
from ndis.calibration import meets
from ndis.mechanisms.base import Forecast, Plan, PrivateEstimator

EPSILON, DELTA = 1.3, 1e-6
CASES = all_cases()


@pytest.fixture(params=parameters(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def make(case: Case, **more: Any) -> Any:
    return case.make(**{"epsilon": EPSILON, "delta": DELTA, "random_state": 7, **more})


def skip_if_excepted(case: Case, expectation: str) -> None:
    if expectation in case.exceptions:
        pytest.skip(case.exceptions[expectation])


def test_every_estimator_of_the_library_is_here() -> None:
    public = {
        name
        for name in ndis.__all__
        if inspect.isclass(getattr(ndis, name))
        and issubclass(getattr(ndis, name), PrivateEstimator)
    }
    listed = {type(make(case)).__name__ for case in CASES}
    assert public <= listed, public - listed


def test_few_exceptions_each_with_its_reason() -> None:
    exceptions = [reason for case in CASES for reason in case.exceptions.values()]
    assert len(set(exceptions)) <= 3
    assert all(len(reason) > 20 for reason in exceptions)


def test_parameters_are_stored_and_nothing_is_done(case: Case) -> None:
    model = make(case)
    assert clone(model).get_params().keys() == model.get_params().keys()
    nonsense = make(case, epsilon=-1.0, delta=7.0)
    assert nonsense.epsilon == -1.0
    assert nonsense.delta == 7.0


def test_epsilon_and_delta_are_asked_for(case: Case) -> None:
    for name in ("epsilon", "delta"):
        with pytest.raises(ValueError, match=name):
            make(case, **{name: None}).plan(case.size)
    signature = inspect.signature(type(make(case)).__init__).parameters
    for name in ("epsilon", "delta"):
        assert signature[name].default in (inspect.Parameter.empty, None)


def test_the_plan_says_what_will_happen(case: Case) -> None:
    model = make(case)
    plan = model.plan(case.size)
    assert isinstance(plan, Plan)
    assert plan.reason.endswith(".")
    assert plan.method
    scales = (
        plan.noise_scale.values() if isinstance(plan.noise_scale, Mapping) else [plan.noise_scale]
    )
    assert all(math.isfinite(scale) and scale > 0 for scale in scales)
    promise = plan.guarantee
    assert isinstance(promise, Guarantee)
    assert (promise.epsilon, promise.delta) == (EPSILON, DELTA)
    assert promise.basis in ("proven", "relative", "declared")
    assert meets(plan.loss, EPSILON, DELTA)
    assert model.calibrate(case.size) == plan.noise_scale
    assert model.guarantee(case.size) == promise


def test_less_privacy_needs_less_noise(case: Case) -> None:
    def first(epsilon: float) -> float:
        noise = make(case, epsilon=epsilon).calibrate(case.size)
        return next(iter(noise.values())) if isinstance(noise, Mapping) else noise

    assert first(0.5) > first(2.0)


def test_fit_keeps_the_plan(case: Case) -> None:
    model = make(case)
    before = model.get_params()
    assert model.fit(*case.data()) is model
    assert model.get_params() == before
    plan = model.plan(case.size)
    release = model.release_
    assert not release.guarantee.private  # seeded
    assert release.guarantee.loss == plan.loss
    assert (release.guarantee.epsilon, release.guarantee.delta) == (EPSILON, DELTA)
    assert model.guarantee_ == release.guarantee
    assert model.noise_scale_ == plan.noise_scale
    assert release.mechanism == type(model).__name__
    assert release.parameters["method"] == plan.method
    assert set(release.arrays) <= set(plan.shapes)
    for name, array in release.arrays.items():
        assert array.ndim == len(plan.shapes[name])
        assert all(a <= b for a, b in zip(array.shape, plan.shapes[name], strict=True))


def test_the_seed_decides_and_nothing_is_remembered(case: Case) -> None:
    def arrays(model: Any) -> dict[str, np.ndarray]:
        return model.fit(*case.data()).release_.arrays

    model = make(case)
    first, again = arrays(model), arrays(model)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    other = arrays(make(case, random_state=8))
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_a_neighbour_changes_released_numbers_only(case: Case) -> None:
    here = make(case).fit(*case.data()).release_.certificate()
    there = make(case).fit(*case.neighbour()).release_.certificate()
    for certificate in (here, there):
        for array in certificate["arrays"].values():
            array.pop("sha256")
    assert here == there


def test_a_given_noise_replaces_the_plans(case: Case) -> None:
    skip_if_excepted(case, "noise_scale")
    planned = make(case).plan(case.size)
    given = make(case, epsilon=None, noise_scale=planned.noise_scale).plan(case.size)
    assert given.noise_scale == planned.noise_scale
    assert given.guarantee.epsilon == pytest.approx(EPSILON, rel=1e-6)
    louder = planned.noise_scale
    louder = {k: 2 * v for k, v in louder.items()} if isinstance(louder, Mapping) else 2 * louder
    quiet = make(case, epsilon=None, noise_scale=louder)
    assert quiet.plan(case.size).guarantee.epsilon < EPSILON
    assert quiet.fit(*case.data()).noise_scale_ == louder
    with pytest.raises(ValueError, match="epsilon or noise_scale"):
        make(case, noise_scale=louder).plan(case.size)


def keeps_to(case: Case, target: Risk) -> None:
    skip_if_excepted(case, "target")
    model = make(case, epsilon=None, target=target)
    promise = model.guarantee(case.size)
    found = promise.risk(false_positive=target.false_positive)
    # Never above, and within a thousandth below.
    assert target.limit * (1 - case.waste) <= found <= target.limit
    assert promise.delta == DELTA
    assert meets(promise.loss, promise.epsilon, DELTA)


def test_a_risk_in_epsilons_place(case: Case) -> None:
    keeps_to(case, Risk(advantage=0.1))


@pytest.mark.slow
def test_a_rate_in_epsilons_place(case: Case) -> None:
    keeps_to(case, Risk(true_positive=0.05, false_positive=0.02))


def test_a_release_under_a_target_keeps_its_plan(case: Case) -> None:
    skip_if_excepted(case, "target")
    model = make(case, epsilon=None, target=Risk(advantage=0.2)).fit(*case.data())
    plan = model.plan(case.size)
    assert model.noise_scale_ == plan.noise_scale
    assert model.guarantee_.epsilon == plan.guarantee.epsilon
    for wrong in ({"target": Risk(advantage=0.2)}, {"epsilon": None, "target": 0.2}):
        with pytest.raises((ValueError, TypeError), match="target"):
            make(case, **wrong).plan(case.size)


def test_copies(case: Case) -> None:
    model = make(case).fit(*case.data())
    again = pickle.loads(pickle.dumps(model))
    assert again.release_.digest == model.release_.digest
    assert not hasattr(clone(model), "release_")


def test_a_release_is_paid_once_before_it_is_drawn(case: Case, tmp_path: Path) -> None:
    relation = make(case).guarantee(case.size).relation
    ledger = Ledger.create(
        tmp_path / "budget.ndis",
        2 * EPSILON,
        2 * DELTA,
        relation,
        accept=["relative", "seeded", "declared"],
    )
    with ledger:
        model = make(case, ledger=ledger).fit(*case.data())
        (entry,) = ledger.history()
        assert entry.digest == model.release_.digest
        assert entry.mechanism == type(model).__name__


def test_a_spent_budget_is_told_before_the_data_are_read(case: Case, tmp_path: Path) -> None:
    relation = make(case).guarantee(case.size).relation
    ledger = Ledger.create(
        tmp_path / "budget.ndis", 0.1, DELTA, relation, accept=["relative", "seeded", "declared"]
    )

    class Studied(Exception):
        """The data were read."""

    with ledger:
        model = make(case, ledger=ledger)
        model._study = lambda *_: (_ for _ in ()).throw(Studied())
        with pytest.raises(BudgetExceeded):
            model.fit(*case.data())
        assert not ledger.history()


def test_forecasts_are_ranges(case: Case) -> None:
    skip_if_excepted(case, "forecast")
    model = make(case)
    forecast = model.forecast(case.size, n_rows=10_000)
    assert isinstance(forecast, Forecast)
    assert forecast.errors
    assert all(0 <= low <= high < math.inf for low, high in forecast.errors.values())
    assert forecast.assumptions


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", -1.0), ("epsilon", "one"), ("delta", 0.0), ("delta", 2.0)]
)
def test_errors_are_one_sentence(case: Case, name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name) as error:
        make(case, **{name: value}).plan(case.size)
    said = str(error.value)
    assert said.endswith(".")
    assert "\n" not in said


def test_shown_in_a_notebook(case: Case) -> None:
    model = make(case)
    assert type(model).__name__ in model._repr_html_()
    assert "differentially private" in model.fit(*case.data())._repr_html_()
