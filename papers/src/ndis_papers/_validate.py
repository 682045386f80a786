"""The few checks that this package needs, in the voice of the library's own."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def real(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"Expected {name} to be a finite number, got {name}={value!r}; pass one.")
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return `value` as a float > 0."""
    if real(name, value) <= 0:
        raise ValueError(f"Expected {name} > 0, got {name}={value}; pass a positive number.")
    return float(value)


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float >= 0."""
    if real(name, value) < 0:
        raise ValueError(f"Expected {name} >= 0, got {name}={value}; pass a non-negative number.")
    return float(value)


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in the open interval (0, 1)."""
    if not 0 < real(name, value) < 1:
        raise ValueError(
            f"Expected 0 < {name} < 1, got {name}={value}; pass a number strictly between 0 and 1."
        )
    return float(value)


def count(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int >= `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(
            f"Expected {name} to be an integer >= {least}, got {name}={value!r}; pass one."
        )
    return int(value)


def one_of(name: str, value: str, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`."""
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise ValueError(f"Expected {name} to be one of {listed}, got {name}={value!r}.")
    return value


def floats(name: str, value: ArrayLike, least: float = -math.inf) -> FloatArray:
    """Return `value` as a float64 array of finite numbers, none below `least`."""
    try:
        result = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected {name} to hold numbers, got {type(value).__name__}; pass an array of them."
        ) from None
    if not np.all(np.isfinite(result) & (result >= least)):
        raise ValueError(
            f"Expected {name} to be finite{f' and >= {least:g}' if least > -math.inf else ''}, "
            "got another entry; correct it."
        )
    return result
