"""Where kinds of losses live: those of this library by name, those of others by entry point.

Another distribution that defines a loss names it in its ``pyproject.toml``, so that a stored one
can be read wherever both are installed:

    [project.entry-points."ndis.losses"]
    radial = "ndis_papers.radial:RadialLoss"
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ndis.loss.contract import PrivacyLoss

GROUP = "ndis.losses"

_OURS = {
    "quadratic": "ndis.loss.quadratic:QuadraticLoss",
    "tabulated": "ndis.loss.tabulated:TabulatedLoss",
    "profile": "ndis.loss.profile:Profile",
    "least-squares": "ndis.loss.least_squares:LeastSquaresLoss",
    "sketch-and-solve": "ndis.loss.student:SketchAndSolveLoss",
    "spherical": "ndis.loss.spherical:SphericalLoss",
    "subsampled": "ndis.loss.subsampled:SubsampledLoss",
    "discrete-laplace": "ndis.loss.discrete_laplace:DiscreteLaplaceLoss",
    "cumulant-bound": "ndis.loss.cumulant_bound:CumulantBound",
}
# Distributions that are known to define a kind of loss.
_ELSEWHERE = {"radial": "ndis-papers"}


def from_dict(stored: Mapping[str, Any]) -> PrivacyLoss:
    """Rebuild a loss from its `to_dict`.

    Examples
    --------
    >>> from ndis.loss import QuadraticLoss, from_dict
    >>> loss = QuadraticLoss.from_shift(0.5)
    >>> from_dict(loss.to_dict()) == loss
    True
    """
    kind = stored.get("kind")
    loss: PrivacyLoss = _class(kind).from_dict(stored)
    return loss


def encoded(value: Any) -> Any:
    """A parameter of a loss as JSON: doubles, exactly, as hexadecimal text."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.ndarray | tuple):
        return [encoded(each) for each in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def decoded(stored: Any) -> Any:
    """Read what `encoded` wrote."""
    if isinstance(stored, str):
        return float.fromhex(stored)
    if isinstance(stored, list):
        return [decoded(each) for each in stored]
    return from_dict(stored) if isinstance(stored, dict) else stored


def _class(kind: Any) -> Any:
    if kind in _OURS:
        return EntryPoint(kind, _OURS[kind], GROUP).load()
    for found in entry_points(group=GROUP, name=str(kind)):
        return found.load()
    advice = (
        f"install {_ELSEWHERE[kind]}, which defines it"
        if kind in _ELSEWHERE
        else "install the package that defines it, or a newer version of ndis"
    )
    raise ValueError(f"Expected a loss of a known kind, got {kind!r}; {advice}.")
