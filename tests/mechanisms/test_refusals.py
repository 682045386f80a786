"""A table is refused and nothing is spent, or its release is made: whatever is in the table.

Nor does a warning tell one table from another: the tests run with warnings as errors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from estimators import Case, all_cases
from ndis import Ledger, MultiPartyRegression
from ndis.mechanisms import TableEstimator

EPSILON, DELTA = 1.3, 1e-6
ACCEPTED = ["relative", "seeded", "declared"]


def make(case: Case, **more: Any) -> Any:
    return case.make(**{"epsilon": EPSILON, "delta": DELTA, "random_state": 7, **more})


READERS = (TableEstimator, MultiPartyRegression)
CASES = [case for case in all_cases() if isinstance(make(case), READERS)]
# Cases whose promise leaves the number of rows public, or excludes tables that any row can be in.
NEEDS_ROWS = ("row-shift", "projection leverage", "gaussian-limit", "multi-party")
# Cases that read no column of numbers, whatever is in it.
WITHOUT_NUMBERS = ("summary, counts", "levels, laplace", "levels, gaussian")
PRIVATE = {"limits": "private", "data_norm": None}


def size_of(case: Case) -> Any:
    """What `plan` asks for, where limits do not say it."""
    X, *y = case.data()
    columns = len(X.column_names) - len(y) if isinstance(X, pa.Table) else X.shape[1]
    return columns if case.size is None else case.size


def allowed(case: Case, **more: Any) -> bool:
    """Whether the estimator has these parameters, and a plan with them."""
    model = make(case)
    if not set(more) <= set(model.get_params()):
        return False
    try:
        model.set_params(**more).plan(size_of(case))
    except ValueError:
        return False
    return True


def variants(**more: Any) -> list[Any]:
    """The cases with these parameters and, where they can be, with limits that are to be found."""
    return [
        pytest.param(case, {**more, **limits}, id=f"{case.name}{', found' * bool(limits)}")
        for case in CASES
        for limits in ({}, PRIVATE)
        if allowed(case, **more, **limits)
    ]


def filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda column: np.full_like(column, value)


def sprinkled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """The first of every three is this, the second the opposite."""

    def hostile(column: np.ndarray) -> np.ndarray:
        mixed = column.copy()
        mixed[::3], mixed[1::3] = value, -value
        return mixed

    return hostile


HOSTILE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one row": lambda column: column[:1],
    "equal rows": lambda column: np.repeat(column[:1], len(column), axis=0),
    "zeros": filled(0.0),
    "giants": sprinkled(1.7e308),
    "subnormal": sprinkled(5e-324),
    "missing": sprinkled(np.nan),
    "infinite": sprinkled(np.inf),
    "no rows": lambda column: column[:0],
}


def hostile(case: Case, change: Callable[[np.ndarray], np.ndarray]) -> tuple[Any, ...]:
    """The data of a case with other numbers; classes stay what they are."""
    X, *y = case.data()
    if isinstance(X, pa.Table):
        columns = {name: X[name].to_numpy().copy() for name in X.column_names}
        numbers = {k: change(v) for k, v in columns.items() if v.dtype.kind == "f"}
        n_rows = len(change(np.zeros(X.num_rows)))
        return (pa.table({**{k: v[:n_rows] for k, v in columns.items()}, **numbers}), *y)
    n_rows = len(change(X))
    keeps = [part if np.issubdtype(part.dtype, np.integer) else change(part) for part in y]
    return (change(X), *(part[:n_rows] for part in keeps))


def refused_or_released(model: Any, data: tuple[Any, ...], size: Any, folder: Path) -> bool:
    """Fit with a ledger; whether there is a release."""
    relation = model.guarantee(size).relation
    path = folder / "budget.ndis"
    with Ledger.create(path, 5 * EPSILON, 5 * DELTA, relation, accept=ACCEPTED) as ledger:
        model.ledger, problem = ledger, None
        try:
            model.fit(*data)
        except (ValueError, TypeError) as error:
            problem = str(error)
        if problem is not None:
            assert not ledger.history(), f"refused after the payment: {problem}"
            return False
        (entry,) = ledger.history()
        assert entry.digest == model.release_.digest
        assert all(np.isfinite(array).all() for array in model.release_.arrays.values())
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("case", "more"), variants())
def test_hostile_tables(case: Case, more: dict[str, Any], name: str, tmp_path: Path) -> None:
    data = hostile(case, HOSTILE[name])
    released = refused_or_released(make(case, **more), data, size_of(case), tmp_path)
    if name in ("missing", "infinite") and case.name not in WITHOUT_NUMBERS:
        assert not released
    if name == "no rows":  # from which one row is all that somebody adds
        assert released == (not any(words in case.name for words in NEEDS_ROWS))


@pytest.mark.parametrize(("case", "more"), variants(max_rows=10))
def test_more_rows_than_the_cap(case: Case, more: dict[str, Any], tmp_path: Path) -> None:
    assert not refused_or_released(make(case, **more), case.data(), size_of(case), tmp_path)


@pytest.mark.parametrize(("case", "more"), variants(n_rows=10))
def test_another_number_of_rows(case: Case, more: dict[str, Any], tmp_path: Path) -> None:
    assert not refused_or_released(make(case, **more), case.data(), size_of(case), tmp_path)
