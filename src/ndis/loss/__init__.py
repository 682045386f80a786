"""The privacy loss: what it is, what it adds up to, and what it means in epsilon and delta."""

from typing import Any

from ndis.loss.base import PrivacyLoss
from ndis.loss.profile import Profile
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.tabulated import TabulatedLoss

__all__ = ["PrivacyLoss", "Profile", "QuadraticLoss", "TabulatedLoss", "from_dict"]


def from_dict(stored: dict[str, Any]) -> PrivacyLoss:
    """Rebuild a loss from its `to_dict`.

    Examples
    --------
    >>> from ndis.loss import QuadraticLoss, from_dict
    >>> loss = QuadraticLoss.from_shift(0.5)
    >>> from_dict(loss.to_dict()) == loss
    True
    """
    kind = stored.get("kind")
    if kind == "quadratic":
        return QuadraticLoss.from_dict(stored)
    if kind == "radial":
        from ndis.loss.radial import RadialLoss  # brings ball arithmetic with it

        return RadialLoss.from_dict(stored)
    if kind == "least-squares":
        from ndis.loss.least_squares import LeastSquaresLoss

        return LeastSquaresLoss.from_dict(stored)
    if kind == "sketch-and-solve":
        from ndis.loss.student import SketchAndSolveLoss

        return SketchAndSolveLoss.from_dict(stored)
    if kind == "cumulant-bound":
        from ndis.loss.cumulant_bound import CumulantBound

        return CumulantBound.from_dict(stored)
    if kind == "tabulated":
        return TabulatedLoss.from_dict(stored)
    if kind == "profile":
        return Profile([from_dict(loss) for loss in stored["losses"]])
    raise ValueError(
        f"Expected a loss of a known kind, got {kind!r}; was it written by a newer version of ndis?"
    )
