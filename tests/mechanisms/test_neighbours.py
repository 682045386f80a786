"""Every estimator against its neighbours (attacks/replay.py); `make evidence` runs 1,000 tables."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from attacks import replay, tables
from attacks.cases import CASES, OF_TABLES, make, private_limits
from estimators import Case, parameters
from ndis import PrivateLeastSquares
from ndis.mechanisms import PrivateEstimator

N_TABLES = 3


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
                # Levels are counted first, column by column, and rows are sampled after all that
                # can fail has.
                found = 2 * case.name.startswith("levels") + (
                    case.name in ("summary, levels", "projection sampled")
                )
                assert len(done.passes) <= len(set(done.passes)) + checked + found


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


@pytest.mark.slow
def test_a_neighbour_is_not_seen_where_the_spread_is_bought_too() -> None:
    """Least squares buys second moments of residuals only from many rows."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = X @ [0.3, -0.2] + 0.1 * rng.standard_normal(len(X))
    more = np.vstack([X, [1.0, -1.0]]), np.append(y, -1.0)
    limits = {"limits": [(-1, 1)] * 2, "label_limits": (-1, 1)}
    model = partial(PrivateLeastSquares, epsilon=2.0, delta=1e-6, random_state=0, **limits)
    done = replay.compare(model, more, (X, y))
    assert done.arrays["spread"].any()
    assert 0.05e-6 < done.delta <= 1e-6
