"""Counts, means, quantiles and shares by group."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateSummary


def _table(start: int = 0) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(3)
    columns = {
        "ward": rng.choice(["A", "B", "C"], 400),
        "sex": rng.choice(["f", "m"], 400),
        "cost": rng.gamma(2.0, 400.0, 400),
        "age": rng.uniform(18, 90, 400),
    }
    return pa.table({name: values[start:] for name, values in columns.items()})


def _make(**parameters: Any) -> PrivateSummary:
    known = {
        "by": ["ward"],
        "levels": {"ward": ["A", "B"]},
        "limits": {"cost": (0, 50_000)},
    }
    return PrivateSummary(**{**known, **parameters})


def _everything(**parameters: Any) -> PrivateSummary:
    known = {
        "levels": {"ward": ["A", "B"], "sex": ["f", "m"]},
        "limits": {"cost": (0, 5000), "age": (18, 90)},
        "quantiles": (0.25, 0.5),
        "unlisted": "other",
    }
    return _make(**{**known, **parameters})


def _with(make: Any = _make, **own: Any) -> Any:
    return lambda **parameters: make(**{**own, **parameters})


def _series(**parameters: Any) -> PrivateSummary:
    """The first of six periods; each has a file of its own for what later periods need."""
    state = Path(tempfile.mkdtemp(prefix="ndis-series-")) / "sums"
    return _make(**{"continual": 6, "state": str(state), **parameters})


CASES = [
    Case(name, make, lambda: (_table(),), lambda: (_table(1),))
    for name, make in {
        "summary": _make,
        "summary, everything": _everything,
        "summary, gaussian": _with(_everything, method="gaussian"),
        "summary, counts": _with(limits=None),
        "summary, refined": _with(refine=True),
        "summary, replace": _with(relation="replace"),
        "summary, groupings": _with(_everything, by=[["ward"], ["sex"], ["ward", "sex"]]),
        "summary, limits": _with(limits={"cost": "private"}),
    }.items()
]
CASES += [
    Case(
        "summary, continual",
        _series,
        lambda: (_table(),),
        lambda: (_table(1),),
        exceptions={"memory": "a period that was drawn is published again, with a warning"},
    ),
    Case(
        "summary, levels",
        _with(levels={"ward": "private"}, max_levels=5),
        lambda: (_table(),),
        lambda: (_table(1),),
        exceptions={
            "target": "A failure probability is a share of delta, which a risk does not have."
        },
    ),
]
