"""A bound on delta for every pair of laws whose cumulant function is bounded.

If Lambda(s) = ln E_P[e^{sL}] is at most that of one known Gaussian pair, at every s > 0, then delta
is at most what `renyi` makes of it at the best s. Bounds on cumulants add up under composition, so
these losses compose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import renyi
from ndis.loss.contract import Exactness, PrivacyLoss, least_log_delta
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.tabulated import TabulatedLoss, table_of

# The delta at which the table that composes ends.
_TABLE_END = 1e-20


class CumulantBound(PrivacyLoss):
    """Bounds that hold for every pair whose cumulant function lies below that of `loss`, s > 0.

    Parameters
    ----------
    loss : QuadraticLoss
        Its cumulant function bounds that of every pair in question; that of its reverse bounds
        that of every reversed pair.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.loss.cumulant_bound import CumulantBound
    >>> shift = QuadraticLoss.from_shift(1.0)
    >>> f"{shift.delta(1.0):.4f} <= {CumulantBound(shift).delta(1.0):.4f}"
    '0.1269 <= 0.2468'
    """

    kind = "cumulant-bound"
    stored = ("loss",)

    def __init__(self, loss: QuadraticLoss) -> None:
        self.loss = loss.single()

    exactness: Exactness = "upper bound"
    quick = True
    infinite_mass = 0.0

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """The bound above, rounded up; below nothing is known."""
        eps = _validate.epsilons(epsilon)
        return least_log_delta(eps)[()], self.upper_log_delta(eps)[()]

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """Ln of the least bound found over s; at and beyond the largest loss delta is 0."""
        if np.isinf(self.loss.excess).any():
            return np.zeros(epsilon.shape)
        bound = renyi.least_log_delta_bound(
            self.loss.cumulant, epsilon, float(self.loss.strip()[1])
        )
        return np.where(epsilon >= self.supremum(), -np.inf, bound)

    def dominating(self) -> TabulatedLoss:
        """A table of the bound: points above a convex curve, whose hull is above it too."""
        return table_of(self, _TABLE_END)

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """The bound on the cumulant, which is what is known."""
        return self.loss.finite_cumulant(s)

    def supremum(self) -> Any:
        """The largest loss that the bounding pair can have, rounded up.

        It bounds that of every pair in question: it is the slope of the cumulant at infinity.
        """
        return float(self.loss.supremum()) * (1.0 + 1e-12)

    def reversed(self) -> CumulantBound:
        """The bound for the reversed pairs."""
        return CumulantBound(self.loss.reversed())

    def _plus(self, other: PrivacyLoss) -> CumulantBound | None:
        """Bounds on cumulants add up; those of Gaussian losses are exact."""
        if isinstance(other, CumulantBound):
            return CumulantBound(self.loss + other.loss)
        return CumulantBound(self.loss + other) if isinstance(other, QuadraticLoss) else None

    def _times(self, times: int) -> CumulantBound:
        return CumulantBound(times * self.loss)
