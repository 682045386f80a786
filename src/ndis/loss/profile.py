"""The worst of several losses: what a mechanism promises over all its ordered neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis.loss.base import PrivacyLoss


class Profile(PrivacyLoss):
    """The pointwise largest of several privacy losses.

    A relation such as add/remove has two directions, and composition must keep them apart:
    losses are added direction by direction, and the larger delta is taken at the end.

    Parameters
    ----------
    losses : iterable of PrivacyLoss
        One loss a direction. Profiles that are to be composed list their directions in the
        same order (record present first).

    Examples
    --------
    >>> from ndis import Profile, QuadraticLoss
    >>> sketch = Profile.both(QuadraticLoss.from_leverage(0.1, n_components=10))
    >>> f"{sketch.delta(1.0):.4e}", f"{(2 * sketch).delta(1.0):.4e}"
    ('2.8160e-04', '1.9034e-03')
    """

    __slots__ = ("losses",)

    losses: tuple[PrivacyLoss, ...]

    def __init__(self, losses: Iterable[PrivacyLoss]) -> None:
        self.losses = tuple(losses)
        if not self.losses:
            raise ValueError("Expected at least one loss, got none; pass the losses to compare.")
        for loss in self.losses:
            if not isinstance(loss, PrivacyLoss):
                raise TypeError(
                    f"Expected privacy losses, got {type(loss).__name__}; "
                    "make one with privacy_loss or QuadraticLoss."
                )

    @classmethod
    def both(cls, loss: PrivacyLoss) -> Profile:
        """A loss and its reverse: record present first, then record absent first."""
        return cls([loss, loss.reversed()])

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln of the largest delta(epsilon)."""
        return np.max([loss.log_delta(epsilon) for loss in self.losses], axis=0)[()]

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven bounds on ln of the largest delta(epsilon)."""
        bounds = [loss.log_delta_bounds(epsilon) for loss in self.losses]
        return (
            np.max([low for low, _ in bounds], axis=0)[()],
            np.max([high for _, high in bounds], axis=0)[()],
        )

    def supremum(self) -> Any:
        """The largest epsilon at which delta is positive."""
        return np.max([loss.supremum() for loss in self.losses], axis=0)[()]

    def renyi(self, alpha: ArrayLike) -> Any:
        """The largest Renyi divergence of order alpha."""
        return np.max([loss.renyi(alpha) for loss in self.losses], axis=0)[()]

    def reversed(self) -> Profile:
        """Every loss reversed."""
        return Profile([loss.reversed() for loss in self.losses])

    def __add__(self, other: object) -> Profile:
        """Compose direction by direction."""
        if not isinstance(other, Profile):
            return NotImplemented
        if len(self.losses) != len(other.losses):
            raise ValueError(
                f"Expected profiles with equally many directions, got {len(self.losses)} and "
                f"{len(other.losses)}; list the same directions in both."
            )
        return Profile([a + b for a, b in zip(self.losses, other.losses, strict=True)])

    def __mul__(self, times: object) -> Profile:
        """Compose `times` copies."""
        if not isinstance(times, int | np.integer) or isinstance(times, bool):
            return NotImplemented
        k = _validate.count("times", times)
        return Profile([k * loss for loss in self.losses])

    def __eq__(self, other: object) -> bool:
        """Equal losses in the same order."""
        return isinstance(other, Profile) and self.losses == other.losses

    def __hash__(self) -> int:
        """Hash of the losses."""
        return hash(self.losses)

    def __repr__(self) -> str:
        """List the losses."""
        return f"Profile({list(self.losses)!r})"

    def to_dict(self) -> dict[str, Any]:
        """The losses' own descriptions."""
        return {"kind": "profile", "losses": [loss.to_dict() for loss in self.losses]}
