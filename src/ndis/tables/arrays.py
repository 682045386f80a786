"""The array library that an array belongs to; any but numpy needs array-api-compat."""

from __future__ import annotations

from typing import Any

import numpy as np


def namespace(array: Any) -> Any:
    """The functions for an array, by the names of the array API standard.

    Examples
    --------
    >>> import numpy as np
    >>> namespace(np.ones(2)) is np
    True
    """
    if isinstance(array, np.ndarray | np.generic):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def beside(values: Any, array: Any) -> Any:
    """Numbers of the processor's memory, where an array is."""
    if isinstance(array, np.ndarray):
        return values
    return namespace(array).asarray(values, device=array.device)


def on_host(array: Any) -> Any:
    """An array in the processor's memory."""
    for fetch in ("cpu", "get"):  # torch, CuPy
        if hasattr(array, fetch):
            array = getattr(array, fetch)()
    return np.asarray(array)
