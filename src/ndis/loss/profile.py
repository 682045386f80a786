"""The worst of several losses: what a mechanism promises over all its ordered neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import FloatArray
from ndis.loss.contract import Exactness, PrivacyLoss
from ndis.loss.tabulated import TabulatedLoss, largest_table


class Profile(PrivacyLoss):
    """The pointwise largest of several privacy losses.

    A relation such as add/remove has two directions, and composition must keep them apart:
    losses are added direction by direction, and the larger delta is taken at the end.

    Parameters
    ----------
    losses : iterable of PrivacyLoss
        One loss per direction. Profiles that are to be composed list their directions in the
        same order (record present first).

    Examples
    --------
    >>> from ndis import Profile, QuadraticLoss
    >>> sketch = Profile.both(QuadraticLoss.from_leverage(0.1, n_components=10))
    >>> f"{sketch.delta(1.0):.4e}", f"{(2 * sketch).delta(1.0):.4e}"
    ('2.8160e-04', '1.9034e-03')
    """

    kind = "profile"
    stored = ("losses",)

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

    # -- the contract --------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """Exact if all losses are."""
        every = all(loss.exactness == "exact" for loss in self.losses)
        return "exact" if every else "upper bound"

    @property
    def quick(self) -> bool:  # type: ignore[override]
        """Quick if all losses are."""
        return all(loss.quick for loss in self.losses)

    @property
    def _distinct(self) -> tuple[PrivacyLoss, ...]:
        """The losses, equal ones once: those of a mean shift are the same in both directions."""
        return tuple(dict.fromkeys(self.losses))

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven bounds on ln of the largest delta(epsilon)."""
        bounds = [loss.log_delta_bounds(epsilon) for loss in self._distinct]
        return (
            np.max([low for low, _ in bounds], axis=0)[()],
            np.max([high for _, high in bounds], axis=0)[()],
        )

    def dominating(self) -> TabulatedLoss:
        """A table of the largest delta at every epsilon."""
        distinct = tuple(dict.fromkeys(self.alternatives()))
        if len(distinct) == 1:
            return distinct[0].dominating()
        return largest_table(distinct)

    # -- what follows more closely from the losses than from a table -----------------------------

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """The largest of the losses' own bounds."""
        largest = np.broadcast_to(matters, epsilon.shape)
        bounds = []
        for loss in self._distinct:
            bounds.append(loss.upper_log_delta(epsilon, largest))
            largest = np.maximum(largest, bounds[-1])
        return np.asarray(np.max(bounds, axis=0))

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The largest of the losses' own."""
        return np.asarray(
            np.max([loss.rough_log_delta(epsilon) for loss in self._distinct], axis=0)
        )

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln of the largest delta(epsilon)."""
        return np.max([loss.log_delta(epsilon) for loss in self._distinct], axis=0)[()]

    def epsilon(self, delta: ArrayLike) -> Any:
        """The largest of the losses' own epsilons."""
        return np.max([loss.epsilon(delta) for loss in self._distinct], axis=0)[()]

    def supremum(self) -> Any:
        """The largest epsilon at which delta is positive."""
        return np.max([loss.supremum() for loss in self.losses], axis=0)[()]

    def renyi(self, alpha: ArrayLike) -> Any:
        """The largest Renyi divergence of order alpha among the losses."""
        return np.max([loss.renyi(alpha) for loss in self.losses], axis=0)[()]

    def reversed(self) -> Profile:
        """Every loss reversed."""
        return Profile([loss.reversed() for loss in self.losses])

    def directions(self) -> tuple[PrivacyLoss, ...]:
        """The losses, in their order."""
        return self.losses

    def alternatives(self) -> tuple[PrivacyLoss, ...]:
        """The losses, those of profiles among them taken apart."""
        return tuple(part for loss in self.losses for part in loss.alternatives())

    def subsampled(self, rate: float, replaced: PrivacyLoss | None = None) -> PrivacyLoss:
        """Direction by direction: record present first, then record absent first."""
        if replaced is not None or len(self.losses) != 2 or rate == 1.0:
            return super().subsampled(rate, replaced)
        present, absent = self.losses
        turned = _one(absent).reversed().subsampled(rate).reversed()
        return Profile([_one(present).subsampled(rate), turned])

    def _plus(self, other: PrivacyLoss) -> Profile:
        """Compose direction by direction; what is no profile stands for itself and its reverse."""
        mine, theirs = self.directions(), other.directions()
        if len(mine) != len(theirs):
            raise ValueError(
                f"Expected profiles with equally many directions, got {len(mine)} and "
                f"{len(theirs)}; list the same directions in both."
            )
        return Profile([_one(a) + _one(b) for a, b in zip(mine, theirs, strict=True)])

    def _times(self, times: int) -> Profile:
        return Profile([times * _one(loss) for loss in self.losses])


def _one(loss: PrivacyLoss) -> PrivacyLoss:
    """A direction as one pair of laws: where several losses are named for it, a table of them."""
    return loss if len(loss.alternatives()) == 1 else loss.dominating()
