"""The contract of a privacy loss, and everything that follows from it.

Three things are asked of a kind of loss: `log_delta_bounds`, `dominating` and `exactness`. Delta,
epsilon, trade-off, Renyi divergences, composition, export and storage are written here, against
these three; a kind that knows a closed form or a quicker way may override them. `quick` says that
thousands of deltas take less than a second, so that curves may be followed point by point.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import curves
from ndis.loss.stored import decoded, encoded

if TYPE_CHECKING:
    from ndis.loss.tabulated import TabulatedLoss

Exactness = Literal["exact", "upper bound"]

# The fast path's relative accuracy is about 1e-13. Whatever must err on the safe side moves delta
# by this much; whatever ends in a certificate is also checked in ball arithmetic.
SAFETY = 1e-11
# Bounds on ln delta that are closer than this, relatively, are a value.
_DIGITS = 1e-9


def exp_bounds(low: ArrayLike, high: ArrayLike) -> tuple[Any, Any]:
    """Bounds on delta from bounds on its logarithm, rounded outward."""
    # exp is good to an ulp; two more on each side make the rounding directed.
    with np.errstate(under="ignore"):
        lower, upper = np.exp(low), np.exp(high)
    for _ in range(2):
        lower = np.where((lower > 0) & (np.asarray(low) < 0), np.nextafter(lower, 0.0), lower)
        upper = np.where(np.asarray(high) == -np.inf, 0.0, np.nextafter(upper, np.inf))
    return lower[()], np.minimum(upper, 1.0)[()]  # delta <= 1 is a theorem, not a clip


def least_log_delta(epsilon: ArrayLike) -> FloatArray:
    """Ln(1 - e^epsilon)_+, which no pair of laws is below: it is that of two equal laws."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(np.minimum(epsilon, 0.0))))


class PrivacyLoss(ABC):
    """A privacy profile epsilon -> delta(epsilon) that can be read in every dialect of privacy.

    Attributes
    ----------
    exactness : {"exact", "upper bound"}
        Whether the bounds enclose the delta of one pair of laws as closely as asked for, or
        whether their upper end is all that is promised.
    quick : bool
        Whether thousands of deltas take less than a second.
    """

    quick: bool = False
    # The name under which a kind is stored, and the constructor's parameters that tell two apart;
    # without them a loss is equal to itself alone, and its table is stored.
    kind: ClassVar[str] = ""
    stored: ClassVar[tuple[str, ...]] = ()

    def _repr_html_(self) -> str:
        """A few points of the curve, where they are quick to find."""
        head = f"<pre>{escape(repr(self))}</pre>"
        grid = [0.25, 0.5, 1.0, 2.0, 4.0] if self.quick else []
        points = [(epsilon, self.delta(epsilon)) for epsilon in grid]
        if not points or np.ndim(points[0][1]):  # slow, or a batch of losses
            return head
        rows = "".join(f"<tr><td>{at:g}</td><td>{delta:.4g}</td></tr>" for at, delta in points)
        return f"{head}<table><tr><th>epsilon</th><th>delta</th></tr>{rows}</table>"

    # -- what a kind of loss must say ----------------------------------------------------------

    @property
    @abstractmethod
    def exactness(self) -> Exactness:
        """How much `delta` says: the value, or an upper bound."""

    @abstractmethod
    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on ln delta(epsilon), vectorised over epsilon.

        The upper one is -inf only where delta is 0. The lower one is about a delta that some pair
        of neighbours attains: -inf where none is known to.
        """

    @abstractmethod
    def dominating(self) -> TabulatedLoss:
        """A pair that dominates this one at every epsilon: a Gaussian part beside a table.

        It composes, is exported and is stored in place of a loss that has no better way. A kind
        that asks for its own `epsilon` on the way says how to find it: see `rough_log_delta`.
        """

    # -- what some kinds know better -----------------------------------------------------------

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """An upper bound on ln delta(epsilon), the quickest that is safe.

        Where it is below `matters` it may be loose.
        """
        return np.asarray(self.log_delta_bounds(epsilon)[1])

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """About ln delta(epsilon), quickly: it says where to look, and no answer rests on it."""
        one = self if self.quick else self.dominating().without_gaussian()
        return one.upper_log_delta(epsilon)

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon): the value of an exact loss, else the upper bound.

        It is -inf only where delta is 0.
        """
        low, high = (np.asarray(bound) for bound in self.log_delta_bounds(epsilon))
        if self.exactness == "upper bound":
            return high[()]
        with np.errstate(invalid="ignore"):
            known = high - low <= _DIGITS * np.maximum(1.0, np.abs(high))
        return np.where(known, 0.5 * (low + high), high)[()]

    def supremum(self) -> Any:
        """An epsilon at and beyond which delta is 0; +inf if there is none."""
        return self.dominating().supremum()

    def finite_cumulant(self, s: ArrayLike) -> Any:
        """A bound on ln E_P[e^{sL}; L finite] for s > 0; +inf where there is none."""
        return self.dominating().finite_cumulant(s)

    @property
    def infinite_mass(self) -> float:
        """A bound on the probability, under P, of what Q cannot produce."""
        return self.dominating().infinite

    @property
    def squared_shift(self) -> float:
        """Squared distance of the means of laws that differ in nothing else; +inf for others."""
        return math.inf

    def reversed(self) -> PrivacyLoss:
        """The loss of the reversed pair."""
        turned: PrivacyLoss = self.dominating().reversed(back=self)
        return turned

    def directions(self) -> tuple[PrivacyLoss, ...]:
        """The losses for the two orders of a pair of neighbours: this one, and its reverse."""
        return self, self.reversed()

    def alternatives(self) -> tuple[PrivacyLoss, ...]:
        """The losses of which this one is the pointwise largest: itself."""
        return (self,)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of a batch of losses; () for a single one."""
        return ()

    def single(self) -> Self:
        """Itself; a batch of losses is refused."""
        if self.batch_shape:
            raise ValueError(
                f"Expected a single loss, got a batch of shape {self.batch_shape}; index it first."
            )
        return self

    # -- the same loss, and storage --------------------------------------------------------------

    def _key(self) -> tuple[Any, ...]:
        values = [getattr(self, name) for name in self.stored]
        arrays = ((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)
        return (type(self), *arrays) if values else (id(self),)

    def __eq__(self, other: object) -> bool:
        """Equal stored parameters."""
        return isinstance(other, PrivacyLoss) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash of the stored parameters."""
        return hash(self._key())

    def __repr__(self) -> str:
        """Name the stored parameters."""
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.stored)
        return f"{type(self).__name__}({given})"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description from which `ndis.loss.from_dict` rebuilds the loss exactly."""
        if not self.kind:
            return self.dominating().to_dict()
        given = {name: encoded(getattr(self, name)) for name in self.stored}
        return {"kind": self.kind, **given}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**{name: decoded(stored[name]) for name in cls.stored if name in stored})

    # -- composition ---------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        """Independent composition."""
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        for one, two in ((self, other), (other, self)):
            total = one._plus(two)
            if total is not None:
                return total
        return self.dominating() + other.dominating()

    def __mul__(self, times: object) -> Any:
        """The same release made `times` times, independently."""
        if not isinstance(times, int | np.integer) or isinstance(times, bool):
            return NotImplemented
        k = _validate.count("times", times)
        return self if k == 1 else self._times(k)

    def __rmul__(self, times: object) -> Any:
        """The same release made `times` times, independently."""
        return self.__mul__(times)

    def _plus(self, other: PrivacyLoss) -> PrivacyLoss | None:
        """The composition with another loss, where this kind has a closer one than a table's."""
        return None

    def _times(self, times: int) -> PrivacyLoss:
        return self.dominating()._times(times)

    def subsampled(self, rate: float, replaced: PrivacyLoss | None = None) -> PrivacyLoss:
        """The loss where every record is used with probability `rate`, independently and secretly.

        Parameters
        ----------
        rate : float
            0 < rate <= 1.
        replaced : PrivacyLoss, optional
            The loss for replacing a record. This loss must be for adding or removing one, record
            present first; with `replaced` the result is a bound for replacing one.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> whole = QuadraticLoss.from_shift(1.0)
        >>> f"{whole.subsampled(0.1).epsilon(1e-6):.4f} {whole.epsilon(1e-6):.4f}"
        '2.1817 4.8866'
        >>> replacing = whole.subsampled(0.1, replaced=QuadraticLoss.from_shift(2.0))
        >>> f"{replacing.epsilon(1e-6):.4f}"
        '2.2871'
        """
        from ndis.loss.subsampled import SubsampledLoss, replacing

        q = _validate.floats_within("rate", rate, 0.0, 1.0)
        if replaced is not None:
            return replacing(self, replaced, float(q)) if q < 1.0 else replaced
        return SubsampledLoss(self, float(q)) if q < 1.0 else self

    # -- readings ------------------------------------------------------------------------------

    def delta(self, epsilon: ArrayLike) -> Any:
        """The hockey-stick divergence sup_S P(S) - e^epsilon Q(S), as the nearest double.

        The value of an exact loss, an upper bound for others. Vectorised over epsilon and,
        broadcasting, over a batch of losses. A value below the smallest double comes back as 0.0;
        `log_delta` keeps it.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> [f"{d:.5e}" for d in QuadraticLoss.from_shift(1.0).delta([0.0, 1.0, 30.0])]
        ['3.82925e-01', '1.26937e-01', '4.70933e-193']
        """
        with np.errstate(under="ignore"):
            return np.exp(self.log_delta(epsilon))

    def delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on delta(epsilon).

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> low, high = QuadraticLoss.from_shift(1.0).delta_bounds(1.0)
        >>> bool(low < 0.12693673750664397 < high), bool(high / low - 1 < 1e-12)
        (True, True)
        """
        return exp_bounds(*self.log_delta_bounds(epsilon))

    def epsilon(self, delta: ArrayLike) -> Any:
        """The least epsilon >= 0 at which delta(epsilon) is at most delta, rounded up.

        It is read from an upper bound, so that it is safe for every kind of loss. Infinite where no
        epsilon will do (delta = 0 for a loss without a largest value).

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).epsilon(1e-6):.6f}"
        '4.886554'
        """
        wanted = _validate.deltas(delta)
        values, place = np.unique(np.log(wanted[wanted > 0]), return_inverse=True)
        start = None
        if not self.quick:  # search where it costs little, then look at the bound itself
            start = curves.least_epsilons(lambda eps, _: self.rough_log_delta(eps), values)
        found = curves.least_epsilons(lambda eps, _: self.upper_log_delta(eps), values, start)
        result = np.zeros(wanted.shape)
        result[wanted > 0] = found[place]
        if not wanted.all():
            result[wanted == 0] = max(float(self.supremum()), 0.0)
        return result[()]

    def tradeoff(self, alpha: ArrayLike) -> Any:
        """Least type II error of a test of Q against P at level alpha: the f-DP curve.

        Every epsilon gives the lower bound 1 - delta(epsilon) - e^epsilon alpha; the curve is
        their supremum. With deltas that are rounded up, a value returned is never above the true
        curve; where the loss is exact and quick it is below it by about 1e-11 at most.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).tradeoff(0.05):.6f}"
        '0.740489'
        """
        level = _validate.floats_within("alpha", alpha, 0.0, 1.0)
        one = self.single() if self.quick else self.dominating().without_gaussian()
        curve, reverse = one.upper_log_delta, one.reversed().upper_log_delta
        return curves.tradeoff_of(curve, reverse, level.reshape(-1)).reshape(level.shape)[()]

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha > 1, or a bound on it; +inf where it does not exist."""
        order = _validate.floats_within("alpha", alpha, 1.0, math.inf, closed=False)
        if self.infinite_mass > 0:
            return np.full(order.shape, np.inf)[()]
        return self.finite_cumulant(order - 1.0) / (order - 1.0)
