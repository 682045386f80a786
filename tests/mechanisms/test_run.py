"""A run is a value: prepared once, studied once, drawn as often as one likes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from estimators import Case, all_cases, parameters
from ndis import BudgetExceeded, Ledger, PrivateCovariance, QuadraticLoss, Release
from ndis.mechanisms import Plan, Run
from ndis.release import NewFile
from ndis.tables import Table

TABLE = np.random.default_rng(0).uniform(-1, 1, (500, 3))


def covariance(**more: Any) -> PrivateCovariance:
    return PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 3, **more)


@pytest.fixture(params=parameters(all_cases()))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def make(case: Case) -> Any:
    return case.make(epsilon=1.0, delta=1e-6, random_state=7)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every pass over the rows of a table."""
    found: list[int] = []
    requested = Table._request

    def counted(self: Table, *args: Any) -> Any:
        found.append(1)
        return requested(self, *args)

    monkeypatch.setattr(Table, "_request", counted)
    return found


def test_preparing_reads_no_row_and_studying_reads_once(passes: list[int]) -> None:
    run = covariance().prepare(TABLE)
    assert passes == []
    first = run.study()
    assert run.study() is first
    assert len(passes) == 1
    rng = np.random.default_rng(0)
    one, other = run.draw(rng), run.draw(rng)
    assert len(passes) == 1
    assert not np.array_equal(one["matrix"], other["matrix"])


def test_fitting_is_preparing_releasing_and_finishing(case: Case) -> None:
    fitted, model = make(case).fit(*case.data()), make(case)
    run = model.prepare(*case.data())
    assert isinstance(run, Run)
    assert not hasattr(model, "release_")
    release = run.release()
    assert not hasattr(model, "release_")
    assert model.finish(run, release) is model
    assert release.digest == fitted.release_.digest == model.release_.digest
    drawn = run.draw(np.random.default_rng(0))
    assert {name: np.shape(array) for name, array in drawn.items()} == dict(run.plan.shapes)


def test_noise_and_composition_are_those_of_the_parts(case: Case) -> None:
    plan = make(case).plan(case.size)
    noise = plan.noise_scale
    if isinstance(noise, Mapping):
        assert noise == {part.name: part.noise for part in plan.parts}
    else:
        assert [(part.name, part.noise) for part in plan.parts] == [(None, noise)]
    shifts = [part for part in plan.parts if part.sensitivity is not None]
    loss = plan.loss.directions()[0]
    if len(shifts) < len(plan.parts) or not isinstance(loss, QuadraticLoss):
        return  # not one mean shift under normal noise
    assert sum(part.share for part in shifts) == pytest.approx(1.0)
    square = sum((part.sensitivity / part.noise) ** 2 for part in shifts)
    for part in shifts:
        assert (part.sensitivity / part.noise) ** 2 == pytest.approx(part.share * square)
    assert float(loss.shift.sum()) == pytest.approx(square)


def test_a_plan_that_was_made_before_is_taken(case: Case) -> None:
    first = make(case).prepare(*case.data())
    again = make(case).prepare(*case.neighbour(), plan=first.plan)
    assert again.plan == first.plan


def test_a_quieter_plan_promises_nothing_else() -> None:
    plan = covariance().plan()
    quiet = plan.with_noise(0.5)
    assert quiet.noise_scale == {name: 0.5 * noise for name, noise in plan.noise_scale.items()}
    assert isinstance(quiet, Plan)


def test_the_file_and_the_ledger_are_arguments(tmp_path: Any) -> None:
    run = covariance().prepare(TABLE)
    with Ledger.create(tmp_path / "budget", 1.0, 1e-6, "add-remove") as ledger:
        with NewFile(tmp_path / "r.npz") as file:
            release = run.release(file=file, ledger=ledger)
        assert [entry.digest for entry in ledger.history()] == [release.digest]
    assert Release.load(tmp_path / "r.npz").digest == release.digest


def test_a_refused_release_loses_nothing(tmp_path: Any) -> None:
    """Sums are freed when they are drawn from, which is after the payment."""
    run = covariance().prepare(TABLE)
    with Ledger.create(tmp_path / "budget", 0.1, 1e-6, "add-remove") as ledger:
        with pytest.raises(BudgetExceeded):
            run.release(ledger=ledger)
        assert not ledger.history()
    assert np.isfinite(run.release().arrays["matrix"]).all()
