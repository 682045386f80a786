"""The rank-one singular Gaussian mechanism (R1SMG), and an honest verdict on it.

It adds v sqrt(sigma*) z: a uniform direction v, one normal number z. The published sigma* does
not give the published (epsilon, delta): `RadialLoss` computes what it gives, with a proof, and
docs/proofs/rank-one.md shows where the published proof breaks. `calibration="true"` finds the
sigma* that does, which grows like M/delta^2.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betainc, gammaln
from scipy.stats import chi

from ndis import Guarantee, Ledger, NeighbourRelation, Profile, Release
from ndis.calibration import least_noise, meets
from ndis.mechanisms.publish import publish
from ndis_papers import _validate
from ndis_papers._validate import FloatArray
from ndis_papers.additive import AccuracyLoss, Shape
from ndis_papers.radial import RadialLoss

# Less than the rounding of the squared sensitivity and a quotient can add.
_ROUND_DOWN = 1.0 - 2.0**-50
# Released numbers lie on a grid this much finer than the noise of an entry.
_FINER = 2.0**-10


def published_spread(dimension: int, epsilon: float, delta: float) -> float:
    """The published sigma*/Delta^2 = 2/(epsilon psi) (theorem 5).

    Examples
    --------
    >>> from ndis_papers.rank_one import published_spread
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
    >>> from ndis_papers.rank_one import true_spread
    >>> f"{true_spread(10, 1e-3, 0.1):.5g}"
    '1728.3'
    """
    m = _validate.count("dimension", dimension, 3)
    return least_noise(
        lambda spread: RadialLoss(m, _ROUND_DOWN * spread), epsilon, delta, start=m / delta**2
    )


def singular_delta(dimension: int, rank: int, spread: float, epsilon: float) -> float:
    """Delta of singular noise of any rank: uniform directions, `rank` equal variances.

    The noise V sqrt(w) z, V uniform on the Stiefel manifold and z normal in R^rank, has a uniform
    direction and a length sqrt(w) chi_rank, so that its density is a multiple of
    |x|^(rank - M) exp(-|x|^2/(2w)): the loss of a unit shift is that of `RadialLoss` with M - rank
    for M - 1. Rank 1 is R1SMG, rank M the Gaussian mechanism. By quadrature over the radius, to
    some 1e-9; `RadialLoss` has proven bounds for rank 1.

    Parameters
    ----------
    dimension, rank : int
    spread : float
        The variance w of each direction, over the squared sensitivity.
    epsilon : float
        At least 0.

    Examples
    --------
    >>> from ndis_papers.rank_one import singular_delta
    >>> f"{singular_delta(100, 1, 2663.2582, 1e-3):.6f}"
    '0.211605'
    >>> f"{singular_delta(100, 100, 1.0, 1.0):.6f}"
    '0.126937'
    """
    m = dimension - _validate.count("rank", rank, 1)
    if m < 0:
        raise ValueError(f"Expected rank <= {dimension}, got {rank}; pass a smaller one.")
    # Radii by quantiles at both ends and evenly in between, for Gauss and Legendre's rule.
    law = chi(rank, scale=math.sqrt(spread))
    ends = [0.0, *law.ppf([1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2]), *law.ppf(np.arange(1, 20) / 20)]
    ends += [*law.isf([1e-2, 1e-4, 1e-8, 1e-16])]
    nodes, weights = np.polynomial.legendre.leggauss(24)
    low, high = np.array(ends[:-1])[:, None], np.array(ends[1:])[:, None]
    r = (0.5 * (high - low) * (nodes + 1.0) + low).reshape(-1)
    mass = (0.5 * (high - low) * weights).reshape(-1) * law.pdf(r)

    def below(cosine: FloatArray) -> FloatArray:
        half = 0.5 * (dimension - 1)
        return np.asarray(betainc(half, half, np.clip(0.5 * (1.0 + cosine), 0.0, 1.0)))

    far, near = (_radius(r, sign * epsilon, m, spread) for sign in (1.0, -1.0))
    inside = mass @ below((r * r + 1.0 - far * far) / (2.0 * r))
    outside = mass @ below((near * near - r * r - 1.0) / (2.0 * r))
    return max(float(inside - math.exp(epsilon) * outside), 0.0)


def _radius(r: FloatArray, rise: float, m: int, spread: float) -> FloatArray:
    """Where m ln R + R^2/(2w) is higher by `rise` than at r, by Newton's method in ln R."""
    x = np.log(r)
    target = m * x + r * r / (2.0 * spread) + rise
    for _ in range(60):
        square = np.exp(2.0 * x) / spread
        x = x - np.clip((m * x + 0.5 * square - target) / (m + square), -1.0, 1.0)
    return np.asarray(np.exp(x))


def singular_spread(dimension: int, rank: int, epsilon: float, delta: float) -> float:
    """The least variance of each direction at which singular noise has this (epsilon, delta).

    Examples
    --------
    >>> from ndis_papers.rank_one import singular_spread
    >>> one, all_of_them = singular_spread(100, 1, 0.1, 1e-2), singular_spread(100, 100, 0.1, 1e-2)
    >>> f"{one / (100 * all_of_them):.1f} times the squared length"
    '116.6 times the squared length'
    """
    top = 4.0 * dimension / delta**2

    def gap(log_spread: float) -> float:
        return singular_delta(dimension, rank, math.exp(log_spread), epsilon) - delta

    return math.exp(float(brentq(gap, -5.0, math.log(top), xtol=1e-9)))


def direction(dimension: int, rng: np.random.Generator) -> FloatArray:
    """A uniform direction."""
    normal = rng.standard_normal(dimension)
    length = float(np.linalg.norm(normal))
    return np.asarray(normal / length) if length > 0 else direction(dimension, rng)


class RankOneGaussianMechanism:
    """Noise of a uniform direction and a normal length: one normal number for M entries.

    Parameters
    ----------
    epsilon, delta, sensitivity, relation, random_state, ledger
        As for `ndis.GaussianMechanism`.
    calibration : {"published", "true"}
        "published" is sigma* = 2 Delta^2/(epsilon psi). Its claim is checked for the shape at hand
        and was false in every dimension from 4 on that we tried: the guarantee then says
        "refuted" and names the true delta, and nothing is released without
        `acknowledge_refuted`. "true" is the sigma* that really gives (epsilon, delta).
    acknowledge_refuted : bool
        Release although the promise is not kept.

    Examples
    --------
    >>> from ndis_papers import RankOneGaussianMechanism
    >>> mechanism = RankOneGaussianMechanism(epsilon=1e-3, delta=1e-5, sensitivity=1.0)
    >>> mechanism.guarantee((100,)).basis
    'refuted'
    >>> f"{mechanism.true_delta((100,)):.6f}"
    '0.211605'
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        calibration: str = "published",
        acknowledge_refuted: bool = False,
        relation: NeighbourRelation | str = "add-remove",
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        check = _validate.positive if calibration == "published" else _validate.non_negative
        self.epsilon = check("epsilon", epsilon)
        self.delta = _validate.probability("delta", delta)
        self.sensitivity = _validate.positive("sensitivity", sensitivity)
        self.calibration = _validate.one_of("calibration", calibration, ("published", "true"))
        self.acknowledge_refuted = acknowledge_refuted
        self.relation = NeighbourRelation(relation)
        self.random_state = random_state
        self.ledger = ledger

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
        basis = "proven" if meets(loss, self.epsilon, self.delta) else "refuted"
        return Guarantee(self.epsilon, self.delta, self.relation, basis, Profile.both(loss))

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise, as published: a direction, then a length."""
        along = direction(math.prod(shape), rng)
        length = math.sqrt(self.calibrate(shape)) * rng.standard_normal()
        return np.asarray(length * along).reshape(shape)

    def accuracy_loss(self, shape: Shape) -> AccuracyLoss:
        """Moments of the squared length of the noise: of sigma* times one squared normal."""
        return AccuracyLoss.of_equal_variances(1, self.calibrate(shape))

    def release(self, value: ArrayLike) -> Release:
        """Add the noise and publish; refused where the promise is not kept.

        Parameters
        ----------
        value : array_like
            The exact answer, of at least three entries, which moves by at most `sensitivity`.
        """
        answer = _validate.floats("value", value)
        guarantee = self.guarantee(answer.shape)
        if guarantee.basis == "refuted" and not self.acknowledge_refuted:
            raise ValueError(
                "Expected a mechanism that keeps its promise, got RankOneGaussianMechanism, whose "
                "published claim our own computation contradicts; use GaussianMechanism, or pass "
                "acknowledge_refuted=True."
            )
        entry = math.sqrt(self.calibrate(answer.shape) / answer.size)
        grid = 2.0 ** math.floor(math.log2(_FINER * entry))

        def draw(rng: np.random.Generator) -> FloatArray:
            return np.asarray(np.rint((answer + self.noise(answer.shape, rng)) / grid) * grid)

        return publish(
            draw,
            guarantee,
            type(self).__name__,
            {
                "calibration": self.calibration,
                "sensitivity": self.sensitivity,
                "acknowledge_refuted": self.acknowledge_refuted,
            },
            {"value": answer.shape},
            random_state=self.random_state,
            ledger=self.ledger,
            even_if_refuted=self.acknowledge_refuted,
        )

    def __repr__(self) -> str:
        """Show the parameters."""
        shown = f"{self.epsilon:g}, {self.delta:g}, {self.sensitivity:g}"
        return f"{type(self).__name__}({shown}, calibration={self.calibration!r})"
