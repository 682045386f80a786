"""Every estimator and every method of it, with data it can read: what the protocol test runs over.

A module here lists the cases of a family in `CASES`; nothing else has to be registered.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

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
    waste : float
        How far below a target the risk at the calibrated noise may be, as a share of it.
    exceptions : dict of str to str
        Which expectation of the protocol does not hold, and why; at most three in all.
    """

    name: str
    make: Callable[..., Any]
    data: Callable[[], tuple[Any, ...]]
    neighbour: Callable[[], tuple[Any, ...]]
    size: Any = None
    exceptions: dict[str, str] = field(default_factory=dict)
    waste: float = 1e-3


def all_cases() -> list[Case]:
    """Every case there is, in a fixed order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [case for module in modules for case in module.CASES]


def parameters(cases: list[Case]) -> list[Any]:
    """The cases as pytest wants them, each by its name."""
    slow = pytest.mark.slow
    return [pytest.param(case, id=case.name, marks=[slow] * (case.name in SLOW)) for case in cases]
