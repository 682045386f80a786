"""The estimators as attacks make them, with known limits and with limits that are to be found."""

import re
from typing import Any

from attacks import replay
from estimators import Case, all_cases
from ndis import PrivatePoissonRegression, PrivateSummary
from ndis.mechanisms import TableEstimator

CASES = all_cases()
OF_TABLES = [case for case in CASES if isinstance(case.make(), TableEstimator)]
UNKNOWN = {"limits": "private", "data_norm": None, "label_limits": None, "label_bound": None}


def make(case: Case, **more: Any) -> Any:
    return case.make(**{"epsilon": 1.0, "delta": 1e-6, "random_state": 11, **more})


def unknown_limits(model: TableEstimator) -> dict[str, Any]:
    """Parameters that say nothing of limits; of columns that are named all are to be found."""
    own = model.get_params()
    unknown = {name: value for name, value in UNKNOWN.items() if name in own}
    if isinstance(model, PrivateSummary):  # which reads no column that is not named
        unknown["limits"] = own["limits"] and dict.fromkeys(own["limits"], "private")
    if isinstance(model, PrivatePoissonRegression):  # which needs those of its label
        unknown.pop("label_limits")
    return unknown


def private_limits(case: Case) -> dict[str, Any]:
    """Parameters that leave all limits to be found; none where that is refused before the data."""
    model = make(case)
    if not isinstance(model, TableEstimator):
        return {}
    unknown = unknown_limits(model)
    done = replay.run(make(case, **unknown), case.data())
    if done.error:
        assert re.search("public|private limits", done.error)
        assert not done.passes
        return {}
    return unknown
