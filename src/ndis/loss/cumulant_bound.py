"""A bound on delta for every pair of laws whose cumulant function is bounded.

If Lambda(s) = ln E_P[e^{sL}] is at most that of one known Gaussian pair, at every s > 0, then

    delta(eps) <= min over s > 0 of  exp(Lambda(s) - s eps) s^s / (1+s)^(1+s),

because (1 - e^{eps-L})_+ <= e^{s(L-eps)} s^s/(1+s)^(1+s) for every value of L. Bounds on cumulants
add up under composition, so these losses compose.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss.base import PrivacyLoss
from ndis.loss.quadratic import QuadraticLoss

# More than rounding can take away from the logarithm of the bound.
_MARGIN = 1e-9
# The search over s: its reach in ln s, points a round, rounds.
_REACH = 40.0
_POINTS = 64
_ROUNDS = 5


class CumulantBound(PrivacyLoss):
    """What is known of all pairs whose cumulant function lies below that of `loss`, s > 0.

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

    __slots__ = ("loss",)

    def __init__(self, loss: QuadraticLoss) -> None:
        if loss.batch_shape:
            raise ValueError(
                f"Expected a single loss, got a batch of shape {loss.batch_shape}; index it first."
            )
        self.loss = loss

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln of the bound at epsilon, rounded up."""
        eps = _validate.epsilons(epsilon)
        bounds = [self._least(value) for value in eps.reshape(-1).tolist()]
        return np.minimum(np.reshape(bounds, eps.shape) + _MARGIN, 0.0)[()]

    def _least(self, epsilon: float) -> float:
        """The least value found over s; any s gives a valid bound."""
        if np.isinf(self.loss.excess).any():
            return 0.0
        low, high = -_REACH, _REACH
        end = float(self.loss.strip()[1])
        best = 0.0
        for _ in range(_ROUNDS):
            t = np.linspace(low, high, _POINTS)
            values = self._exponent(_inside(t, end), epsilon)
            i = int(np.argmin(values))
            best = min(best, float(values[i]))
            low, high = t[max(i - 1, 0)], t[min(i + 1, _POINTS - 1)]
        return best

    def _exponent(self, s: FloatArray, epsilon: float) -> FloatArray:
        value = self.loss.cumulant(s) - s * epsilon - s * np.log1p(1.0 / s) - np.log1p(s)
        return np.asarray(np.where(np.isnan(value), np.inf, value))

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """The bound above; below nothing is known."""
        high = np.asarray(self.log_delta(epsilon))
        return np.full(high.shape, -np.inf)[()], high[()]

    def supremum(self) -> Any:
        """The largest loss that the bounding pair can have."""
        return self.loss.supremum()

    def renyi(self, alpha: ArrayLike) -> Any:
        """A bound on the Renyi divergence of order alpha > 1."""
        return self.loss.renyi(_validate.floats_within("alpha", alpha, 1.0, math.inf))

    def reversed(self) -> CumulantBound:
        """The bound for the reversed pairs."""
        return CumulantBound(self.loss.reversed())

    def __add__(self, other: object) -> CumulantBound:
        """Bounds on cumulants add up."""
        if isinstance(other, CumulantBound):
            return CumulantBound(self.loss + other.loss)
        if isinstance(other, QuadraticLoss):
            return CumulantBound(self.loss + other)
        return NotImplemented

    def __radd__(self, other: object) -> CumulantBound:
        return self.__add__(other)

    def __mul__(self, times: object) -> CumulantBound:
        product = self.loss.__mul__(times)
        return NotImplemented if product is NotImplemented else CumulantBound(product)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CumulantBound) and self.loss == other.loss

    def __hash__(self) -> int:
        return hash(("cumulant-bound", self.loss))

    def __repr__(self) -> str:
        return f"CumulantBound({self.loss!r})"

    def to_dict(self) -> dict[str, Any]:
        """The bounding pair's own description."""
        return {"kind": "cumulant-bound", "loss": self.loss.to_dict()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CumulantBound:
        """Read what `to_dict` wrote."""
        return cls(QuadraticLoss.from_dict(stored["loss"]))


def _inside(t: FloatArray, end: float) -> FloatArray:
    """Points of (0, end) for real t: e^t, or end / (1 + e^-t)."""
    return np.asarray(np.exp(t) if math.isinf(end) else end / (1.0 + np.exp(-t)))
