"""What a mechanism's public parameters imply, for whoever holds a release and does not trust it.

A mechanism takes part by a function ``recompute(mechanism, parameters)`` in its module, named once
in `HOMES`. Parameters come from a stranger's file: the function may raise whatever they make it
raise, and computes nothing whose size depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss
from ndis.release import Shapes

HOMES = {
    "GaussianMechanism": "ndis.mechanisms.additive",
    "MultiPartyPart": "ndis.mechanisms.multiparty.releasing",
    "MultiPartyRegression": "ndis.mechanisms.multiparty.releasing",
    "PrivateProjection": "ndis.mechanisms.projection_methods",
}


@dataclass(frozen=True)
class Implied:
    """What parameters imply: the worst-case loss, who is protected, the arrays of the release.

    Attributes
    ----------
    loss : PrivacyLoss
    relation : NeighbourRelation or None
        None where the caller chose it, and the parameters do not know it.
    shapes : mapping of str to tuple of int, or None
        None where any shape will do.
    """

    loss: PrivacyLoss
    relation: NeighbourRelation | None = None
    shapes: Shapes | None = None


def implied(mechanism: str, parameters: Mapping[str, Any]) -> Implied | None:
    """What the parameters of a release imply; None for a mechanism that nobody can recompute.

    Examples
    --------
    >>> from ndis.mechanisms.recompute import implied
    >>> public = {"calibration": "analytic", "sensitivity": 1.0, "noise_scale": 5.0}
    >>> found = implied("GaussianMechanism", public)
    >>> f"{found.loss.delta(1.0):.1e}"
    '1.8e-08'
    >>> implied("Nonsense", {}) is None
    True
    """
    if mechanism not in HOMES:
        return None
    found: Implied = import_module(HOMES[mechanism]).recompute(mechanism, parameters)
    return found
