"""The array library that an array belongs to; any but numpy needs array-api-compat."""

from __future__ import annotations

import math
from importlib import import_module
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
    if _is_on_card(array):  # without waiting for what the card is doing
        return import_module("torch").asarray(values).to(array.device, non_blocking=True)
    return namespace(array).asarray(values, device=array.device)


def add_whole(total: Any, more: Any) -> Any:
    """Add doubles that hold integers to integers, where these are: a copy may be a matrix."""
    if isinstance(total, np.ndarray):
        return np.add(total, more, out=total, dtype=np.int64, casting="unsafe")
    total += namespace(total).astype(more, total.dtype)
    return total


def on_host(array: Any) -> Any:
    """An array in the processor's memory."""
    if _is_on_card(array):  # numpy's own memory comes in large pages, which take less time
        torch, fetched = import_module("torch"), np.empty(array.shape, str(array.dtype)[6:])
        torch.from_numpy(fetched).copy_(array)
        return fetched
    for fetch in ("cpu", "get"):  # torch, CuPy
        if hasattr(array, fetch):
            array = getattr(array, fetch)()
    return np.asarray(array)


def at_least(xp: Any, values: Any, low: Any) -> Any:
    """Values, where they are not below; numpy's own way to clip takes microseconds to find that."""
    return np.maximum(values, low) if xp is np else xp.clip(values, low, None)


def at_most(xp: Any, values: Any, high: Any) -> Any:
    """Values, where they are not above."""
    return np.minimum(values, high) if xp is np else xp.clip(values, None, high)


def fused(function: Any, array: Any) -> Any:
    """The function, made into one pass over the memory where torch can: for much on a card."""
    much = _is_on_card(array) and math.prod(array.shape) >= _WORTH_COMPILING
    # By name: functions travel to Spark's executors, and what torch has compiled does not.
    return import_module("ndis.tables.compiling").compiled(function) if much else function


def _is_on_card(array: Any) -> bool:
    """Whether this is a torch tensor in a graphics card's memory."""
    return getattr(getattr(array, "device", None), "type", None) == "cuda"


def free_memory(array: Any) -> int:
    """Free bytes of a torch array's card, with what torch has put aside; none anywhere else."""
    if not _is_on_card(array):
        return 0
    cuda: Any = import_module("torch").cuda
    free, _ = cuda.mem_get_info(array.device)
    return int(free + cuda.memory_reserved(array.device) - cuda.memory_allocated(array.device))


# Compiling takes seconds.
_WORTH_COMPILING = 1 << 26
