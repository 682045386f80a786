"""Levels that are found."""

from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateLevels


def _table() -> Any:
    import pyarrow as pa

    sizes = np.arange(8, 48)  # some are found with one seed and not with another
    town = np.repeat([f"town {size}" for size in sizes], sizes)
    floor = np.arange(len(town)) % 3 + 1
    return pa.table({"town": town, "floor": floor})


def _make(**parameters: Any) -> PrivateLevels:
    return PrivateLevels(**{"columns": ["town", "floor"], "max_levels": 50, **parameters})


CASES = [
    Case(
        f"levels, {law}",
        lambda law=law, **parameters: _make(method=law, **parameters),
        lambda: (_table(),),
        lambda: (_table().slice(1),),
        exceptions={
            "target": "A failure probability is a share of delta, which a risk does not have."
        },
    )
    for law in ("laplace", "gaussian")
]
