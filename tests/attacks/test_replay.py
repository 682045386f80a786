"""Every estimator against its neighbours (attacks/replay.py); `make evidence` runs 1,000 tables."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from attacks import replay, tables
from estimators import Case, all_cases, parameters
from ndis.mechanisms.base import PrivateEstimator, TableEstimator

N_TABLES = 3
CASES = all_cases()
OF_TABLES = [case for case in CASES if isinstance(case.make(), TableEstimator)]
UNKNOWN = {"limits": "private", "data_norm": None, "label_limits": None, "label_bound": None}


def make(case: Case, **more: Any) -> Any:
    return case.make(**{"epsilon": 1.0, "delta": 1e-6, "random_state": 11, **more})


def private_limits(case: Case) -> dict[str, Any]:
    """Parameters that leave all limits to be found; none where that is refused before the data."""
    model = make(case)
    if not isinstance(model, TableEstimator):
        return {}
    own = model.get_params()
    unknown = {name: value for name, value in UNKNOWN.items() if name in own}
    done = replay.run(make(case, **unknown), case.data())
    if done.error:
        assert re.search("public|private limits", done.error)
        assert not done.passes
        return {}
    return unknown


@pytest.mark.parametrize("case", parameters(CASES))
def test_a_neighbour_is_not_seen(case: Case) -> None:
    if case.name == "graph, responses":
        pytest.skip("Every bit is a lie by a coin of its own: no sum, no noise to be replayed.")
    for more in [{}, private_limits(case)][: 1 + (case in OF_TABLES)]:
        done = replay.compare(partial(make, case, **more), case.data(), case.neighbour())
        assert not done.error
        if case in OF_TABLES:
            # The schema once; one pass, and one more for every round that waits for an answer.
            assert done.opened == 1
            if not case.name.endswith("posterior"):  # which solves for its mean before it draws
                checked = done.promise.basis == "relative"  # the owner's table lies in the set
                assert len(done.passes) <= len(set(done.passes)) + checked


@pytest.mark.parametrize("case", parameters(OF_TABLES))
def test_nor_in_tables_made_to_break_it(case: Case) -> None:
    model, rng = make(case), np.random.default_rng(0)
    promise = model.guarantee(case.size)
    if promise.basis == "relative":
        pytest.skip("Tables outside the declared set are refused to their owner.")
    moved, more = promise.relation.value == "row-shift", private_limits(case)
    for index in range(1 if case.name == "projection ptr" else N_TABLES):  # slow on purpose
        pair = tables.hostile_like(case.data(), rng, moved)
        done = replay.compare(partial(make, case, **(more if index % 2 else {})), *pair)
        assert not done.error


# -- mechanisms that leak, and must be caught ----------------------------------------------------


def leaking(case: Case, name: str, change: Any) -> Any:
    """An estimator one of whose functions was changed for the worse."""
    model = make(case)
    original = getattr(model, name)
    setattr(model, name, lambda *args: change(original, *args))
    return model


def unpaid(draw: Any, studied: Any, *args: Any) -> Any:
    """Release the exact count beside everything else."""
    arrays = draw(studied, *args)
    name = next(iter(arrays))
    arrays[name] = arrays[name] + 0.0 * arrays[name] + float(studied["count"].value) * 1e-9
    return arrays


def louder(draw: Any, studied: Any, *args: Any) -> Any:
    """Count everybody 64 times, with noise for once."""
    for _ in range(6):
        studied = {name: total + total for name, total in studied.items()}
    return draw(studied, *args)


def scared(study: Any, data: Any, *args: Any) -> Any:
    """Refuse some tables and not their neighbours."""
    studied = study(data, *args)
    if data.n_rows % 2:
        raise ValueError("The number of rows is odd.")
    return studied


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [("_draw", unpaid, "differs"), ("_draw", louder, "delta"), ("_study", scared, "refused")],
)
def test_mechanisms_that_leak_are_caught(name: str, change: Any, found: str) -> None:
    (case,) = [case for case in CASES if case.name == "logistic-newton"]
    assert issubclass(type(make(case)), PrivateEstimator)
    with pytest.raises(replay.Leak, match=found):
        replay.compare(lambda: leaking(case, name, change), case.data(), case.neighbour())
