"""Every estimator and every method of it, with data it can read: what the protocol test runs over.

A module here lists the cases of a family in `CASES`; nothing else has to be registered.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from ndis.testing import Case

__all__ = ["Case", "all_cases", "parameters"]

# Each test of one takes more than a second: its loss is searched in ball arithmetic, or it has many
# rounds.
SLOW = {
    "least squares, als",
    "least squares, gaussian-limit",
    "logistic-classes",
    "logistic-limits",
    "logistic-posterior",
    "output, envelope of eta",
    "output, envelope of rank one",
}


def all_cases() -> list[Case]:
    """Every case there is, in a fixed order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [case for module in modules for case in module.CASES]


_FITTED: dict[str, Any] = {}


def fitted(case: Case) -> Any:
    """The estimator fitted once in this process, for (1, 1e-6) and without a seed; to look at."""
    if case.name not in _FITTED:
        _FITTED[case.name] = case.make(epsilon=1.0, delta=1e-6).fit(*case.data())
    return _FITTED[case.name]


def parameters(cases: list[Case]) -> list[Any]:
    """The cases as pytest wants them, each by its name."""
    slow = pytest.mark.slow
    return [pytest.param(case, id=case.name, marks=[slow] * (case.name in SLOW)) for case in cases]
