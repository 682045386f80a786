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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.gaussian import Gaussian, privacy_loss, profile
    from ndis.guarantee import Guarantee, NeighbourRelation, Release
    from ndis.loss import Profile, QuadraticLoss, TabulatedLoss

__all__ = [
    "Gaussian",
    "Guarantee",
    "NeighbourRelation",
    "Profile",
    "QuadraticLoss",
    "Release",
    "TabulatedLoss",
    "privacy_loss",
    "profile",
]

_HOME = {
    "Gaussian": "ndis.gaussian",
    "Guarantee": "ndis.guarantee",
    "NeighbourRelation": "ndis.guarantee",
    "Profile": "ndis.loss",
    "QuadraticLoss": "ndis.loss",
    "Release": "ndis.guarantee",
    "TabulatedLoss": "ndis.loss",
    "privacy_loss": "ndis.gaussian",
    "profile": "ndis.gaussian",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("ndis")
    if name not in _HOME:
        raise AttributeError(f"module 'ndis' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
