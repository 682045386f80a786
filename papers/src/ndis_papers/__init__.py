"""The five papers behind ndis: their claims, tables and figures, recomputed.

What they publish and the library does better, or refutes, lives here: calibrations, baselines and
the rank-one mechanism. Public names are imported on first use.

Examples
--------
>>> from ndis_papers import RadialLoss
>>> f"{RadialLoss(100, 2663.2582).delta(1e-3):.6f}"
'0.211605'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis_papers import reproduce
    from ndis_papers.checks import claims
    from ndis_papers.radial import RadialLoss
    from ndis_papers.rank_one import RankOneGaussianMechanism
    from ndis_papers.relative import RelativeGaussianRegression

__all__ = [
    "RadialLoss",
    "RankOneGaussianMechanism",
    "RelativeGaussianRegression",
    "claims",
    "reproduce",
]

_HOME = {
    "RadialLoss": "ndis_papers.radial",
    "RankOneGaussianMechanism": "ndis_papers.rank_one",
    "RelativeGaussianRegression": "ndis_papers.relative",
    "claims": "ndis_papers.checks",
}


def __getattr__(name: str) -> Any:
    if name == "reproduce":  # a module with a function of that name
        return import_module("ndis_papers.reproduce")
    if name not in _HOME:
        raise AttributeError(f"module 'ndis_papers' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
