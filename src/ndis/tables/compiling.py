"""Functions of arrays made into one pass over a graphics card's memory, by torch."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any


@functools.cache
def compiled(function: Any) -> Any:
    """The function, compiled by torch; as it is where torch cannot."""
    # The option keeps a product and a sum apart, each rounded: fused they would have other bits.
    options = {"emulate_precision_casts": True}
    settings = import_module("torch._dynamo.config")
    quick: Any = import_module("torch").compile(function, options=options)

    def run(*arguments: Any) -> Any:
        nonlocal quick
        try:
            with settings.patch(recompile_limit=64):  # tables have many shapes
                return quick(*arguments)
        except Exception:  # without a compiler, or where its release has a fault: step by step
            if quick is function:
                raise
            quick = function
            return function(*arguments)

    return run
