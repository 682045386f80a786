"""The protocol of an estimator, a check for each sentence of docs/architecture.md about it.

`check(case, folder)`: a case says how an estimator is made and which data it reads; `folder` is
an empty one.
"""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ndis._validate import FloatArray
from ndis.auditing import audit
from ndis.auditing.certificates import HELD, verify
from ndis.calibration import meets
from ndis.guarantee import Guarantee
from ndis.ledger import BudgetExceeded, Ledger
from ndis.mechanisms import Forecast, Method, Plan
from ndis.mechanisms.plugins import estimator_named
from ndis.risk import Risk

EPSILON, DELTA = 1.3, 1e-6
Check = Callable[["Case", Path], None]
ESTIMATOR_CHECKS: dict[str, Check] = {}


@dataclass(frozen=True)
class Case:
    """One estimator and one method.

    Attributes
    ----------
    name : str
    make : callable
        Makes the estimator; takes any of its parameters by keyword, `epsilon` and `delta` among
        them, on top of those that the case sets.
    data : callable
        Returns the arguments of `fit`, the same each time.
    neighbour : callable
        Returns the arguments of `fit` for a neighbouring data set.
    size : object
        What `plan` asks for without data; None where parameters say it.
    exceptions : dict of str to str
        Which expectation of the protocol does not hold ("noise_scale", "target", "forecast",
        "memory" or "verify"), and why.
    waste : float
        How far below a target the risk at the calibrated noise may be, as a share of it.
    """

    name: str
    make: Callable[..., Any]
    data: Callable[[], tuple[Any, ...]]
    neighbour: Callable[[], tuple[Any, ...]]
    size: Any = None
    exceptions: dict[str, str] = field(default_factory=dict)
    waste: float = 1e-3

    def made(self, **more: Any) -> Any:
        """The estimator, seeded."""
        return self.make(**{"epsilon": EPSILON, "delta": DELTA, "random_state": 7, **more})

    def ledger(self, folder: Path, epsilon: float, delta: float) -> Ledger:
        """A ledger that takes whatever the estimator promises, seeded too."""
        relation = self.made().guarantee(self.size).relation
        kinds = ["relative", "seeded", "declared"]
        return Ledger.create(folder / "budget.ndis", epsilon, delta, relation, accept=kinds)


def protocol(check: Check) -> Check:
    """Make a function a check, named as it reads."""
    ESTIMATOR_CHECKS[check.__name__.replace("_", " ")] = check
    return check


@contextmanager
def raises(*kinds: type[Exception], says: str) -> Iterator[list[str]]:
    """The block raises one of these errors, with these words in one sentence."""
    told: list[str] = []
    try:
        yield told
    except kinds as error:
        told.append(str(error))
        assert says in told[0], f"{told[0]!r} does not mention {says!r}"
    else:
        raise AssertionError(f"nothing was raised that mentions {says!r}")


def scales(noise: Any) -> list[float]:
    """The noise of every part."""
    return list(noise.values()) if isinstance(noise, Mapping) else [noise]


@protocol
def parameters_are_stored_and_nothing_is_done(case: Case, folder: Path) -> None:
    """Nonsense is stored like anything else."""
    model = case.made()
    assert clone(model).get_params().keys() == model.get_params().keys()
    nonsense = case.made(epsilon=-1.0, delta=7.0)
    assert nonsense.epsilon == -1.0
    assert nonsense.delta == 7.0


@protocol
def epsilon_and_delta_are_asked_for(case: Case, folder: Path) -> None:
    """They have no default."""
    for name in ("epsilon", "delta"):
        with raises(ValueError, says=name):
            case.made(**{name: None}).plan(case.size)
    signature = inspect.signature(type(case.made()).__init__).parameters
    for name in ("epsilon", "delta"):
        assert signature[name].default in (inspect.Parameter.empty, None)


@protocol
def the_plan_says_what_will_happen(case: Case, folder: Path) -> None:
    """Method, reason, parts with their noise, and a promise that is proven."""
    model = case.made()
    plan = model.plan(case.size)
    assert isinstance(plan, Plan)
    assert plan.reason.endswith(".")
    assert plan.method
    assert scales(plan.noise_scale) == [part.noise for part in plan.parts]
    assert all(math.isfinite(scale) and scale > 0 for scale in scales(plan.noise_scale))
    promise = plan.guarantee
    assert isinstance(promise, Guarantee)
    assert (promise.epsilon, promise.delta) == (EPSILON, DELTA)
    assert promise.basis in ("proven", "relative", "declared")
    assert meets(plan.loss, EPSILON, DELTA)
    assert model.calibrate(case.size) == plan.noise_scale
    assert model.guarantee(case.size) == promise


@protocol
def less_privacy_needs_less_noise(case: Case, folder: Path) -> None:
    """The first part's noise falls with epsilon."""

    def first(epsilon: float) -> float:
        return scales(case.made(epsilon=epsilon).calibrate(case.size))[0]

    assert first(0.5) > first(2.0)


@protocol
def fit_keeps_the_plan(case: Case, folder: Path) -> None:
    """What is released is what was planned, and parameters stay as they are."""
    model = case.made()
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
    assert {name: array.shape for name, array in release.arrays.items()} == dict(plan.shapes)


@protocol
def the_seed_decides_and_nothing_is_remembered(case: Case, folder: Path) -> None:
    """Two fits with one seed release the same, with another seed something else."""

    def arrays(model: Any) -> dict[str, FloatArray]:
        return dict(model.fit(*case.data()).release_.arrays)

    model = case.made()
    first = arrays(model)
    again = arrays(case.made() if "memory" in case.exceptions else model)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    other = arrays(case.made(random_state=8))
    assert any(not np.array_equal(first[name], other[name]) for name in first)


@protocol
def a_neighbour_changes_released_numbers_only(case: Case, folder: Path) -> None:
    """Certificates of neighbours differ in the hashes of their arrays."""
    here = case.made().fit(*case.data()).release_.certificate()
    there = case.made().fit(*case.neighbour()).release_.certificate()
    for certificate in (here, there):
        for array in certificate["arrays"].values():
            array.pop("sha256")
    assert here == there


@protocol
def a_given_noise_replaces_the_plans(case: Case, folder: Path) -> None:
    """The guarantee then says which epsilon follows."""
    if "noise_scale" in case.exceptions:
        return
    planned = case.made().plan(case.size)
    given = case.made(epsilon=None, noise_scale=planned.noise_scale).plan(case.size)
    assert given.noise_scale == planned.noise_scale
    assert math.isclose(given.guarantee.epsilon, EPSILON, rel_tol=1e-6)
    louder: Any = planned.noise_scale
    louder = {k: 2 * v for k, v in louder.items()} if isinstance(louder, Mapping) else 2 * louder
    quiet = case.made(epsilon=None, noise_scale=louder)
    assert quiet.plan(case.size).guarantee.epsilon < EPSILON
    assert quiet.fit(*case.data()).noise_scale_ == louder
    with raises(ValueError, says="epsilon or noise_scale"):
        case.made(noise_scale=louder).plan(case.size)


def _keeps_to(case: Case, target: Risk) -> None:
    if "target" in case.exceptions:
        return
    promise = case.made(epsilon=None, target=target).guarantee(case.size)
    found = promise.risk(false_positive=target.false_positive)
    # Never above, and within a thousandth below.
    assert target.limit * (1 - case.waste) <= found <= target.limit
    assert promise.delta == DELTA
    assert meets(promise.loss, promise.epsilon, DELTA)


@protocol
def a_risk_in_epsilons_place(case: Case, folder: Path) -> None:
    """An advantage that is not to be exceeded is reached."""
    _keeps_to(case, Risk(advantage=0.1))


@protocol
def a_rate_in_epsilons_place(case: Case, folder: Path) -> None:
    """So is a rate of true positives."""
    _keeps_to(case, Risk(true_positive=0.05, false_positive=0.02))


@protocol
def a_release_under_a_target_keeps_its_plan(case: Case, folder: Path) -> None:
    """Whatever is asked for, it is planned and released alike."""
    if "target" in case.exceptions:
        return
    model = case.made(epsilon=None, target=Risk(advantage=0.2)).fit(*case.data())
    plan = model.plan(case.size)
    assert model.noise_scale_ == plan.noise_scale
    assert model.guarantee_.epsilon == plan.guarantee.epsilon
    wrong: dict[str, Any]
    for wrong in ({"target": Risk(advantage=0.2)}, {"epsilon": None, "target": 0.2}):
        with raises(ValueError, TypeError, says="target"):
            case.made(**wrong).plan(case.size)


@protocol
def copies_are_alike(case: Case, folder: Path) -> None:
    """A pickled model has its release, a clone has none."""
    model = case.made().fit(*case.data())
    again = pickle.loads(pickle.dumps(model))
    assert again.release_.digest == model.release_.digest
    assert not hasattr(clone(model), "release_")


@protocol
def a_release_is_paid_once(case: Case, folder: Path) -> None:
    """The ledger knows its digest."""
    with case.ledger(folder, 2 * EPSILON, 2 * DELTA) as ledger:
        model = case.made(ledger=ledger).fit(*case.data())
        (entry,) = ledger.history()
        assert entry.digest == model.release_.digest
        assert entry.mechanism == type(model).__name__


class _Unread(Method):
    """Whoever studies is too early."""

    def _study(self, data: Any, plan: Plan) -> Any:
        raise AssertionError("the data were read")


@protocol
def a_spent_budget_is_told_before_the_data_are_read(case: Case, folder: Path) -> None:
    """The ledger is asked first."""
    with case.ledger(folder, 0.1, DELTA) as ledger:
        run = replace(case.made().prepare(*case.data()), method=_Unread())
        with raises(BudgetExceeded, says=""):
            run.release(ledger=ledger)
        assert not ledger.history()


@protocol
def a_run_draws_what_is_planned(case: Case, folder: Path) -> None:
    """It is studied once and drawn as often as one likes; nothing is published."""
    run = case.made().prepare(*case.data())
    assert run.study() is run.study()
    rng = np.random.default_rng(0)
    for _ in range(2):
        drawn = run.draw(rng)
        assert {name: np.shape(array) for name, array in drawn.items()} == dict(run.plan.shapes)
    assert not hasattr(run.model, "release_")


@protocol
def forecasts_are_ranges(case: Case, folder: Path) -> None:
    """Every error has two ends, and something is assumed."""
    if "forecast" in case.exceptions:
        return
    forecast = case.made().forecast(case.size, n_rows=10_000)
    assert isinstance(forecast, Forecast)
    assert forecast.errors
    assert all(0 <= low <= high < math.inf for low, high in forecast.errors.values())
    assert forecast.assumptions


@protocol
def errors_are_one_sentence(case: Case, folder: Path) -> None:
    """A wrong parameter is named."""
    for name, value in (("epsilon", -1.0), ("epsilon", "one"), ("delta", 0.0), ("delta", 2.0)):
        with raises(ValueError, TypeError, says=name) as told:
            case.made(**{name: value}).plan(case.size)
        assert told[0].endswith(".")
        assert "\n" not in told[0]


@protocol
def it_is_shown_in_a_notebook(case: Case, folder: Path) -> None:
    """With its promise, once it is fitted."""
    model = case.made()
    assert type(model).__name__ in model._repr_html_()
    assert "differentially private" in model.fit(*case.data())._repr_html_()


@protocol
def a_release_is_verified(case: Case, folder: Path) -> None:
    """Whoever has the file finds the same promise; needs the estimator to be registered."""
    model = case.made()
    if "verify" in case.exceptions:
        return
    if estimator_named(type(model).__name__) is not type(model):
        return
    checks = verify(model.fit(*case.data()).release_).checks
    wrong = [f"{check.what}: {check.why}" for check in checks if check.outcome != HELD]
    assert [each for each in wrong if "secret" not in each] == []  # it is seeded


@protocol
def an_audit_finds_nothing(case: Case, folder: Path) -> None:
    """No neighbour that is tried contradicts the promise."""
    verdict = audit(case.made(), case.data())
    assert verdict.outcome == "consistent", str(verdict)
