"""The privacy filter, which says when an adaptive sequence of releases must end.

A release costs a vector for each of the two orders of neighbours: its cumulants Lambda(s) at
public orders s_1, ..., s_K, its squared mean shift (infinite if it is not a mean shift), and its
probability of an infinite loss. Vectors add up. With delta split beforehand into three parts, a
total is within the budget (epsilon, delta) if

    the infinite losses add up to at most delta_infinite, and either
    the squared mean shifts add up to at most m, where a shift of sqrt(m) has
        delta(epsilon) <= delta_gaussian, or
    (1 - e^(epsilon - l))_+  <=  delta_renyi * sum_k w_k exp(s_k l - Lambda(s_k))   for every l,

with weights w_k that add up to 1. The right side of the last line is a supermartingale in the
true loss l, whatever the analyst does; the left side is what delta is the mean of. The proof,
also of why all numbers must be fixed before the first release, is in docs/proofs/filter.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray
from ndis.calibration import least_noise, meets
from ndis.guarantee import Guarantee
from ndis.ledger.composition import directions
from ndis.loss import PrivacyLoss, QuadraticLoss, renyi

# Shares of delta. Epsilon depends on ln delta only, so that halving a share costs little.
_GAUSSIAN, _RENYI, _INFINITE = 0.45, 0.45, 0.1
# Orders are the best one for mean shifts, times powers of sqrt(2); each step halves the weight.
_BELOW, _ABOVE = 14, 10
# Sums and cumulants are good to about 1e-13; costs are raised by this much, relatively.
_MARGIN = 1e-11


@dataclass(frozen=True)
class Filter:
    """The public numbers of a filter, fixed before the first release.

    Examples
    --------
    >>> from ndis import Guarantee, Profile, QuadraticLoss
    >>> from ndis.ledger.filter import Filter
    >>> limits = Filter.design(1.0, 1e-6)
    >>> loss = Profile.both(QuadraticLoss.from_shift(0.1))
    >>> cost = limits.cost(Guarantee(0.5, 1e-6, "replace", "proven", loss))
    >>> bool(limits.admits(5 * cost)), bool(limits.admits(6 * cost))
    (True, False)
    """

    epsilon: float
    delta_gaussian: float
    delta_renyi: float
    delta_infinite: float
    squared_shift: float
    orders: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    @lru_cache(maxsize=64)
    def design(cls, epsilon: float, delta: float) -> Filter:
        """The filter for a budget, with orders around the best one for mean shifts."""
        noise = least_noise(
            lambda scale: QuadraticLoss.from_shift(1.0 / scale), epsilon, _GAUSSIAN * delta
        )
        squared_shift = (1.0 - _MARGIN) / (noise * noise)
        s = np.geomspace(1e-3, 1e9, 4000)
        bounds = renyi.log_delta_bound(0.5 * squared_shift * s * (s + 1.0), s, epsilon)
        best = float(s[np.argmin(bounds)])
        steps = np.arange(-_BELOW, _ABOVE + 1)
        weights = 2.0 ** -np.abs(steps).astype(np.float64)
        return cls(
            epsilon,
            _GAUSSIAN * delta,
            _RENYI * delta,
            _INFINITE * delta,
            squared_shift,
            tuple((best * 2.0 ** (0.5 * steps)).tolist()),
            # A little less than 1 in all, so that rounding cannot make it more.
            tuple((weights / (weights.sum() * (1.0 + _MARGIN))).tolist()),
        )

    def keeps(self, epsilon: float, delta: float) -> bool:
        """Whether these numbers are those of some filter for the budget."""
        parts = (self.delta_gaussian, self.delta_renyi, self.delta_infinite)
        largest = QuadraticLoss.from_shift(math.sqrt(self.squared_shift))
        return bool(
            self.epsilon == epsilon
            and min(*parts, *self.orders, *self.weights) > 0.0
            and math.fsum(parts) <= delta * (1.0 + 1e-15)
            and math.fsum(self.weights) < 1.0
            and len(self.orders) == len(self.weights)
            and list(self.orders) == sorted(self.orders)
            and meets(largest, epsilon, self.delta_gaussian)
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Filter:
        """Read what `to_dict` wrote."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.items()
        }
        return cls(**fields)

    # -- what a release costs ----------------------------------------------------------------

    @property
    def width(self) -> int:
        """The length of a cost vector: the orders, the squared shift, the infinite part."""
        return len(self.orders) + 2

    def cost(self, guarantee: Guarantee) -> FloatArray:
        """The cost of a release, which is added to the totals, shape (2, width)."""
        return np.array([self._cost(losses) for losses in directions(guarantee)])

    def _cost(self, losses: tuple[PrivacyLoss, ...]) -> FloatArray:
        orders = np.asarray(self.orders)
        cumulants = np.array([loss.finite_cumulant(orders) for loss in losses])
        infinite = math.fsum(loss.infinite_mass for loss in losses)
        if len(losses) > 1:
            # The largest of several profiles has at most the sum of their E e^{sL} - 1, each
            # with (s + 1) times its infinite part added.
            with np.errstate(over="ignore"):
                excess = np.expm1(cumulants).sum(axis=0) + (orders + 1.0) * infinite
                cumulants = np.log1p(excess)[None]
        shift = losses[0].squared_shift if len(losses) == 1 else math.inf
        # A cumulant below 0 (of a loss that is sometimes infinite) counts as 0: totals never fall.
        raised = np.maximum(cumulants[0], 0.0)
        return np.array([*raised, shift, infinite]) * (1.0 + _MARGIN)

    def shift_cost(self, squared_shift: Any) -> FloatArray:
        """The cost of mean shifts of these squared sizes, shape (..., 2, width)."""
        orders = np.asarray(self.orders)
        unit = np.array([*(0.5 * orders * (orders + 1.0)), 1.0, 0.0])
        size = np.asarray(squared_shift, dtype=np.float64)[..., None, None]
        result: FloatArray = size * np.array([unit, unit]) * (1.0 + _MARGIN)
        return result

    # -- what is within the budget -----------------------------------------------------------

    def admits(self, totals: FloatArray) -> Any:
        """Whether totals of shape (..., 2, width) are within the budget."""
        gaussian: NDArray[np.bool_] = np.asarray(totals[..., -2] <= self.squared_shift)
        within = np.array(gaussian)
        if not gaussian.all():
            needed = self.log_delta(totals[..., :-2][~gaussian])
            within[~gaussian] = needed <= math.log(self.delta_renyi) - _MARGIN
        return np.all(within & (totals[..., -1] <= self.delta_infinite), axis=-1)

    def log_delta(self, cumulants: FloatArray) -> FloatArray:
        """The least ln delta_renyi that the cumulants, shape (n, K), ask for; rounded up.

        It is the maximum over l > epsilon of ln(1 - e^(epsilon - l)) less the logarithm of
        sum_k w_k exp(s_k l - Lambda_k): of a concave function, whose slope changes sign where
        1/(e^(l - epsilon) - 1) is a mean of the orders.
        """
        orders, log_weights = np.asarray(self.orders), np.log(self.weights)
        low = np.full(len(cumulants), math.log1p(1.0 / orders[-1]))
        high = np.full(len(cumulants), math.log1p(1.0 / orders[0]))
        offsets = log_weights + orders * self.epsilon - cumulants
        alive = np.asarray(np.isfinite(offsets).any(axis=-1, keepdims=True))
        offsets = np.where(alive, offsets, 0.0)

        def look(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            terms = offsets + orders * x[:, None]
            top = terms.max(axis=-1)
            parts = np.exp(terms - top[:, None])
            total = parts.sum(axis=-1)
            value = np.log(-np.expm1(-x)) - top - np.log(total)
            return value, 1.0 / np.expm1(x) - (parts @ orders) / total

        for _ in range(30):
            middle = 0.5 * (low + high)
            rising = look(middle)[1] > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        value, slope = look(low)
        # A concave function is below its tangents.
        return np.where(alive[:, 0], value + np.abs(slope) * (high - low) + _MARGIN, np.inf)

    def largest_shift(self, totals: FloatArray) -> FloatArray:
        """The largest squared mean shift that may still be added to totals (n, 2, width)."""
        low, high = np.zeros(len(totals)), np.full(len(totals), 2.0 * self._ceiling())
        for _ in range(45):
            middle = 0.5 * (low + high)
            fits = self.admits(totals + self.shift_cost(middle))
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        return low

    def _ceiling(self) -> float:
        """A squared shift that no total may reach: even the part of delta at one order ends."""
        orders = np.asarray(self.orders)
        bound = (orders * self.epsilon + (1.0 + orders) * np.log1p(orders)) / (
            0.5 * orders * (orders + 1.0)
        )
        return max(self.squared_shift, float(bound.max()))
