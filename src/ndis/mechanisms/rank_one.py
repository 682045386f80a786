"""The rank-one singular Gaussian mechanism (R1SMG), and an honest verdict on it.

It adds v sqrt(sigma*) z: a uniform direction v, one normal number z. The published sigma* does
not give the published (epsilon, delta): `RadialLoss` computes what it gives, with a proof, and
docs/proofs/rank-one.md shows where the published proof breaks. `calibration="true"` finds the
sigma* that does, which grows like M/delta^2.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import least_noise, meets
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import Profile
from ndis.loss.radial import RadialLoss
from ndis.mechanisms.additive import AccuracyLoss, AdditiveMechanism, Shape
from ndis.randomness import RandomState, directions

if TYPE_CHECKING:
    from ndis.ledger import Ledger

# Less than the rounding of the squared sensitivity and a quotient can add.
_ROUND_DOWN = 1.0 - 2.0**-50


def published_spread(dimension: int, epsilon: float, delta: float) -> float:
    """The published sigma*/Delta^2 = 2/(epsilon psi) (theorem 5).

    Examples
    --------
    >>> from ndis.mechanisms.rank_one import published_spread
    >>> f"{published_spread(7921, 1e-5, 1e-7):.6g}"
    '201055'
    """
    m = _validate.count("dimension", dimension, 3)
    ratio = gammaln((m - 1) / 2) - gammaln(m / 2) - 0.5 * math.log(math.pi)
    log_psi = 2.0 / (m - 2) * (math.log(delta) + float(ratio))
    return 2.0 / epsilon * math.exp(-log_psi)


@functools.lru_cache(maxsize=1024)
def true_spread(dimension: int, epsilon: float, delta: float) -> float:
    """The least sigma*/Delta^2 that really gives (epsilon, delta), rounded up and proven.

    Examples
    --------
    >>> from ndis.mechanisms.rank_one import true_spread
    >>> f"{true_spread(10, 1e-3, 0.1):.5g}"
    '1728.3'
    """
    m = _validate.count("dimension", dimension, 3)
    return least_noise(
        lambda spread: RadialLoss(m, _ROUND_DOWN * spread), epsilon, delta, start=m / delta**2
    )


class RankOneGaussianMechanism(AdditiveMechanism):
    """Noise of a uniform direction and a normal length: one normal number for M entries.

    Parameters
    ----------
    epsilon, delta, sensitivity, relation, random_state, ledger
        As for `GaussianMechanism`.
    calibration : {"published", "true"}
        "published" is sigma* = 2 Delta^2/(epsilon psi). Its claim is checked for the shape at hand
        and was false in every dimension from 4 on that we tried: the guarantee then says
        "refuted" and names the true delta, and nothing is released without
        `acknowledge_refuted`. "true" is the sigma* that really gives (epsilon, delta).
    acknowledge_refuted : bool
        Release although the promise is not kept.

    Examples
    --------
    >>> from ndis import RankOneGaussianMechanism
    >>> mechanism = RankOneGaussianMechanism(epsilon=1e-3, delta=1e-5, sensitivity=1.0)
    >>> mechanism.guarantee((100,)).basis
    'refuted'
    >>> f"{mechanism.true_delta((100,)):.6f}"
    '0.211605'
    """

    calibrations = ("published", "true")

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        calibration: str = "published",
        acknowledge_refuted: bool = False,
        relation: NeighbourRelation | str = "add-remove",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            sensitivity,
            calibration=calibration,
            relation=relation,
            random_state=random_state,
            ledger=ledger,
        )
        if calibration == "published":
            _validate.positive("epsilon", epsilon)
        self.acknowledge_refuted = acknowledge_refuted

    def calibrate(self, shape: Shape = ()) -> float:
        """The variance sigma* of the length of the noise, which is also its expected square."""
        return self._spread(shape) * self.sensitivity**2

    def _spread(self, shape: Shape) -> float:
        dimension = math.prod(shape)
        if dimension < 3:
            raise ValueError(
                f"Expected an answer with at least 3 entries, got shape {shape}; "
                "use GaussianMechanism."
            )
        spread = published_spread if self.calibration == "published" else true_spread
        return spread(dimension, self.epsilon, self.delta)

    def loss(self, shape: Shape) -> RadialLoss:
        """The exact privacy loss of the worst pair, the same in both directions."""
        return RadialLoss(math.prod(shape), _ROUND_DOWN * self._spread(shape))

    def true_delta(self, shape: Shape) -> float:
        """The proven lower bound on the delta at the epsilon that was asked for."""
        low, _ = self.loss(shape).delta_bounds(self.epsilon)
        return float(low)

    def guarantee(self, shape: Shape = ()) -> Guarantee:
        """What is promised for an answer of this shape, or refuted."""
        loss = self.loss(shape)
        if meets(loss, self.epsilon, self.delta):
            return self._promise(Profile.both(loss))
        return self._promise(Profile.both(loss), "refuted")

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise, as published: a direction, then a length."""
        direction = directions(1, math.prod(shape), rng)
        length = math.sqrt(self.calibrate(shape)) * rng.standard_normal()
        return np.asarray(length * direction).reshape(shape)

    def accuracy_loss(self, shape: Shape = ()) -> AccuracyLoss:
        """Moments of the squared length of the noise: of sigma* times one squared normal."""
        return AccuracyLoss.of_equal_variances(1, self.calibrate(shape))

    def _grid_scale(self, shape: Shape) -> float:
        return math.sqrt(self.calibrate(shape) / math.prod(shape))

    def _parameters(self) -> dict[str, Any]:
        return {**super()._parameters(), "acknowledge_refuted": self.acknowledge_refuted}
