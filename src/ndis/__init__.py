"""Privacy of Gaussian-output algorithms, computed from one small object: the privacy loss.

Public names are imported on first use, so ``import ndis`` costs almost nothing.

Examples
--------
>>> import ndis
>>> loss = ndis.QuadraticLoss.from_shift(1.0)
>>> round(float(loss.delta(1.0)), 6)
0.126937
"""

from importlib import import_module
from typing import Any

# The stub is the one list of the public names: "from HOME import NAME as NAME" in each line.
_LINES = __loader__.get_data(f"{__path__[0]}/__init__.pyi").decode().split("\n")
_HOME = {line.split()[3]: line.split()[1] for line in _LINES if line.startswith("from ")}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    value: Any
    if name == "__version__":
        value = import_module("importlib.metadata").version("ndis")
    elif _HOME.get(name) == "ndis":  # a module
        value = import_module(f"ndis.{name}")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'ndis' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
