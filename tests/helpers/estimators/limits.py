"""Limits that are bought."""

from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateLimits


def _table() -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.column_stack([rng.uniform(18, 90, 3000), rng.normal(0, 1e4, 3000)])


def _make(**parameters: Any) -> PrivateLimits:
    return PrivateLimits(**parameters)


CASES = [
    Case(
        "limits",
        _make,
        lambda: (_table(),),
        lambda: (_table()[1:],),
        size=2,
    ),
    Case(
        "limits, with labels",
        lambda **parameters: _make(**{"columns": ["age", "income", "spent"], **parameters}),
        lambda: (_frame(_table()), "spent"),
        lambda: (_frame(_table()[1:]), "spent"),
    ),
]


def _frame(table: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.table({"age": table[:, 0], "income": table[:, 1], "spent": table[:, 1] / 7})
