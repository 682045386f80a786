"""The loss of noise whose direction is uniform and whose length is half-normal, proven.

The rank-one Gaussian mechanism adds n = v sqrt(w) z to a vector of R^M: v uniform on the sphere,
z standard normal. Marginally n has the density c |x|^-(M-1) exp(-|x|^2/(2w)), so with m = M - 1 and
a shift of length 1 the privacy loss at a point with distances r and R from the two centres is

    L = m ln(R/r) + (R^2 - r^2)/(2w).

The set {L > eps} has a boundary in closed form. With d = R^2 - r^2, that is 1 - 2 times the
coordinate along the shift, and e^v the odds of d in (0, 2 w eps),

    d = 2 w eps / (1 + e^-v),   x = (2 eps/m) / (1 + e^v),
    r^2 = w m e^v x/(e^x - 1),   R = r e^(x/2),   T = (1 - d)/(2r),   T' = -(1 + d)/(2R),

where T and T' are the cosines of the angles under which the centres see the boundary. Averaging
over the radius by parts leaves one integral of elementary functions (F is the law of the cosine
of a uniform direction, erfc the tail of the radius):

    delta(eps) = 1 + int erfc(r/sqrt(2w)) dF(T) - e^eps int erfc(R/sqrt(2w)) dF(T').

It is computed in ball arithmetic, with bounds on what is cut off at the ends: both the value and
the proof. The derivation stands in docs/proofs/rank-one.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
from flint import acb, arb
from numpy.typing import ArrayLike

from ndis.loss import PrivacyLoss, TabulatedLoss
from ndis_papers import _validate

# Widths of ln delta: what is aimed at, and with what working precision.
_WIDTH = 1e-12
_BITS = (85, 120, 180, 280, 480, 900)
# From this power on it is taken through the logarithm.
_LOGARITHMIC = 40
# Points of the quadrature for Renyi divergences.
_NODES = 96
# The grid on which a loss that must be composed is tabulated, and where delta is computed for it.
_STEP, _HIGH, _KNOTS = 2.0**-6, 16.0, 100


class RadialLoss(PrivacyLoss):
    """Privacy loss of a unit shift under noise of uniform direction and half-normal length.

    The reversed pair is the mirror image of the pair, so that one loss serves both directions.
    For epsilon >= 0 delta falls as the noise grows and rises with the shift.

    Parameters
    ----------
    dimension : int
        M, at least 3.
    spread : float
        Variance of the length over the squared length of the shift, sigma*/Delta^2.

    Examples
    --------
    >>> from ndis_papers import RadialLoss
    >>> f"{RadialLoss(100, 2663.2582).delta(1e-3):.6f}"
    '0.211605'
    """

    __slots__ = ("dimension", "spread")

    exactness = "exact"

    def __init__(self, dimension: int, spread: float) -> None:
        self.dimension = _validate.count("dimension", dimension, 3)
        self.spread = _validate.positive("spread", spread)

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on ln delta(epsilon), by ball arithmetic."""
        eps = _validate.floats("epsilon", epsilon)
        bounds = np.array([self._bounds(float(e)) for e in eps.reshape(-1)]).reshape(*eps.shape, 2)
        return bounds[..., 0][()], bounds[..., 1][()]

    def _bounds(self, eps: float) -> tuple[float, float]:
        low, high = _log_bounds(self.dimension, self.spread, abs(eps))
        if eps >= 0:
            return low, high
        # delta(-e) = 1 - e^-e + e^-e delta(e), the pair being its own reverse.
        with flint.ctx.workprec(_BITS[0]):
            shrink = arb(eps).exp()
            below, above = (1 - shrink + shrink * arb(bound).exp() for bound in (low, high))
            return _down(below.log()), min(_up(above.log()), 0.0)

    def supremum(self) -> float:
        """Infinite: the density has no bound at its centre."""
        return math.inf

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha; infinite from alpha = M/(M - 1) on.

        Below that order E[e^{sL}] - 1, s = alpha - 1, is the integral over epsilon > 0 of
        s (s + 1) (e^{s eps} + e^{-(s + 1) eps}) delta(eps), by quadrature to some 1e-6.
        """
        order = _validate.floats("alpha", alpha, math.nextafter(0.0, 1.0))
        values = [self._renyi(float(a)) for a in order.reshape(-1)]
        return np.array(values).reshape(order.shape)[()]

    def _renyi(self, alpha: float) -> float:
        # Close to the centre L = m ln(1/r), so that delta falls like e^{-eps/m}.
        s, decay = alpha - 1.0, 1.0 / (self.dimension - 1)
        if s >= decay:
            return math.inf

        # In u = ln eps the integrand is smooth, and small at both ends.
        low, high = -16.0, math.log(20.0 / (decay - max(s, -0.5)))
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        u = 0.5 * (high - low) * (nodes + 1.0) + low
        eps = np.exp(u)
        both = np.log1p(np.exp(-(2.0 * s + 1.0) * eps)) + s * eps + self.log_delta(eps)
        total = 0.5 * (high - low) * float(weights @ np.exp(u + both))
        return total if s == 0 else math.log1p(s * (s + 1.0) * total) / s

    def reversed(self) -> RadialLoss:
        """The loss of the reversed pair: itself."""
        return self

    def dominating(self) -> TabulatedLoss:
        """A table of chords between proven upper bounds."""
        return _table(self)

    def upper_profile(self, low: float, high: float) -> Callable[[Any], Any]:
        """A quick upper bound on delta for epsilons from 0 to `high`.

        Delta is computed at zero and at some hundred points from `low` to `high`; between them
        the chord in e^eps, which lies above the convex profile, takes its place.
        """
        knots = np.concatenate([[0.0], np.geomspace(low, high, _KNOTS)])
        _, upper = self.delta_bounds(knots)

        def above(eps: Any) -> Any:
            j = np.clip(np.searchsorted(knots, eps, side="right") - 1, 0, knots.size - 2)
            share = np.expm1(eps - knots[j]) / np.expm1(knots[j + 1] - knots[j])
            return upper[j] + share * (upper[j + 1] - upper[j])

        return above

    def __eq__(self, other: object) -> bool:
        """Equal dimension and spread."""
        return isinstance(other, RadialLoss) and (self.dimension, self.spread) == (
            other.dimension,
            other.spread,
        )

    def __hash__(self) -> int:
        """Hash of dimension and spread."""
        return hash((self.dimension, self.spread))

    def __repr__(self) -> str:
        """Name dimension and spread."""
        return f"RadialLoss(dimension={self.dimension}, spread={self.spread:g})"

    def to_dict(self) -> dict[str, Any]:
        """The stored numbers, exactly."""
        return {"kind": "radial", "dimension": self.dimension, "spread": self.spread.hex()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> RadialLoss:
        """Read what `to_dict` wrote."""
        return cls(stored["dimension"], float.fromhex(stored["spread"]))


@functools.lru_cache(maxsize=64)
def _table(loss: RadialLoss) -> TabulatedLoss:
    above = loss.upper_profile(_STEP, _HIGH + _STEP)
    return TabulatedLoss.from_profile(above, above, step=_STEP, high=_HIGH)


@functools.lru_cache(maxsize=4096)
def _log_bounds(dimension: int, spread: float, eps: float) -> tuple[float, float]:
    """Proven bounds on ln delta(eps), eps >= 0."""
    with flint.ctx.workprec(_BITS[0]):
        best = (-math.inf, _up(_tail_bound(dimension, arb(spread), arb(eps))))
    for bits in _BITS:
        with flint.ctx.workprec(bits):
            delta = _Boundary(dimension, arb(spread), arb(eps), bits).delta()
            if delta.is_finite() and delta.upper() > 0:
                best = best[0], min(best[1], _up(arb(delta.upper()).log()))
            if delta.is_finite() and delta > 0:
                best = max(best[0], _down(delta.log())), best[1]
        if best[1] - best[0] < _WIDTH:
            return best
    return best


def _tail_bound(dimension: int, spread: arb, eps: arb) -> arb:
    """A bound on ln Pr[L > eps], hence on ln delta, where no enclosure has digits left.

    R <= r + 1, so that L > eps needs a small radius, m ln(1 + 1/r) + 3/(2w) > eps with r < 1, or a
    large one, m ln 2 + (1 + 2r)/(2w) > eps.
    """
    m = dimension - 1
    small = ((3 / (2 * spread) - eps) / m).exp()
    large = spread * (eps - m * arb(2).log()) - arb(1) / 2
    if not (small < arb(1) / 2 and large > 1):
        return arb(0)  # delta <= 1 is a theorem
    near = small / (1 - small) * (2 / (arb.pi() * spread)).sqrt()
    return (near + (large / (2 * spread).sqrt()).erfc()).log()


@dataclass(frozen=True)
class _Point:
    """A point of the boundary: d, both radii and cosines, and their derivatives in v."""

    d: Any
    r: Any
    R: Any
    slope_d: Any
    slope_r: Any  # of ln r
    slope_R: Any  # of ln R

    @property
    def cosine(self) -> Any:
        return (1 - self.d) / (2 * self.r)

    @property
    def far_cosine(self) -> Any:
        return -(1 + self.d) / (2 * self.R)


@dataclass(frozen=True)
class _Boundary:
    """The boundary of {L > eps} and the integral along it, at the current precision."""

    dimension: int
    spread: arb
    eps: arb
    bits: int

    def at(self, v: Any, analytic: bool = False) -> _Point:
        """The point with parameter v, real or complex."""
        up, down = 1 / (1 + (-v).exp()), 1 / (1 + v.exp())
        m = self.dimension - 1
        x = 2 * self.eps / m * down
        ratio = x / x.expm1() if self.eps > 0 else 1
        square = self.spread * m * ratio
        root = square.sqrt(analytic=analytic) if isinstance(square, acb) else square.sqrt()
        r = root * (v / 2).exp()
        d = 2 * self.spread * self.eps * up
        slope_r = (down + up * ratio * x.exp()) / 2
        return _Point(d, r, r * (x / 2).exp(), d * down, slope_r, slope_r - x * up / 2)

    def delta(self) -> arb:
        """An enclosure of delta(eps)."""
        edges, lost = self._edges()
        whole = 1 + arb(0, 1) * lost
        for left, right in zip(edges[::2], edges[1::2], strict=True):
            whole += self._integral(left, right)
        return whole

    def _integral(self, left: arb, right: arb) -> arb:
        half = arb(self.dimension) / 2
        constant = (half.lgamma() - (half - arb(1) / 2).lgamma()).exp() / arb.pi().sqrt()
        power, odd = divmod(self.dimension - 3, 2)
        scale, weight = 1 / (2 * self.spread).sqrt(), self.eps.exp()

        def density(cosine: acb, analytic: bool) -> Any:
            sine_squared = 1 - cosine * cosine
            if power > _LOGARITHMIC:  # squaring a box again and again would inflate it
                exponent = (arb(self.dimension) - 3) / 2
                return (exponent * sine_squared.log(analytic=analytic)).exp()
            value = sine_squared**power
            return value * sine_squared.sqrt(analytic=analytic) if odd else value

        def integrand(v: acb, analytic: bool) -> Any:
            p = self.at(v, analytic)
            near, far = p.cosine, p.far_cosine
            slope_near = -p.slope_d / (2 * p.r) - near * p.slope_r
            slope_far = -p.slope_d / (2 * p.R) - far * p.slope_R
            return constant * (
                (p.r * scale).erfc() * density(near, analytic) * slope_near
                - weight * (p.R * scale).erfc() * density(far, analytic) * slope_far
            )

        tolerance = arb(2) ** (30 - self.bits)
        return acb.integral(
            integrand,
            acb(left),
            acb(right),
            rel_tol=tolerance,
            abs_tol=tolerance,
            eval_limit=100 * self.bits,
            depth_limit=20 * self.bits,
        ).real

    def _edges(self) -> tuple[list[arb], arb]:
        """Ends of the pieces to integrate over, and a bound on what is lost outside them.

        Three places are cut off. Where erfc is small: that part of P and of Q is at most erfc.
        Where T > 0 is large: T falls with v as long as it is positive. Where T < 0 is large: an
        interval of v, since L has one minimum along each ray. And |T'| >= |T| on the boundary, so
        that a bound on F serves both parts: F(-t) <= (1 - t^2)^(m/2)/2 for t >= 0.
        """
        m = self.dimension - 1
        # Beyond this cosine the mass of directions is below the working precision.
        cut = (1 - arb(2) ** (-arb(2 * self.bits) / m)).sqrt()
        low, high = arb(-8 * self.bits), arb(8 * self.bits)
        limit = 2 * self.spread * self.bits
        end = self._cross(lambda v: self.at(v).r ** 2 > limit, low, high)[1]
        p = self.at(end)
        weight = 1 + self.eps.exp()
        lost = weight * (p.r / (2 * self.spread).sqrt()).erfc()
        start = self._cross(lambda v: self.at(v).cosine < cut, low, end)[1]
        lost += 3 * weight * self._cap(self.at(start).cosine)
        gap = self._gap(cut, start, end)
        if gap is None:
            return [start, end], lost
        left, right = gap
        lost += 3 * weight * self._cap(-self.at(left).cosine.max(self.at(right).cosine))
        return ([start, left] if right is end else [start, left, right, end]), lost

    def _gap(self, cut: arb, start: arb, end: arb) -> tuple[arb, arb] | None:
        """The ends of the interval on which T < -cut, up to `end`; None if there is none."""

        def falling(v: arb) -> bool:
            p = self.at(v)
            return bool(-p.slope_d / (2 * p.r) - p.cosine * p.slope_r < 0)

        def beyond(v: arb) -> bool:
            return bool(self.at(v).cosine < -cut)

        bottom = self._cross(lambda v: not falling(v), start, end)[0]
        if not beyond(bottom):
            return None
        left = self._cross(beyond, start, bottom)[0]
        if beyond(end):
            return left, end
        return left, self._cross(lambda v: not beyond(v), bottom, end)[1]

    def _cap(self, cosine: arb) -> arb:
        """An upper bound on Pr[t > cosine] for the cosine t of a uniform direction."""
        if not cosine >= 0:
            return arb(1)
        base = arb((1 - cosine) * (1 + cosine)).max(arb(0)).upper()
        return arb(base) ** (arb(self.dimension - 1) / 2) / 2

    def _cross(self, true: Callable[[arb], bool], low: arb, high: arb) -> tuple[arb, arb]:
        """Neighbouring points at which a test that turns true once is false, then true."""
        for _ in range(self.bits + 10):
            middle = ((low + high) / 2).mid()
            low, high = (low, middle) if true(middle) else (middle, high)
        return low, high


def _down(value: arb) -> float:
    return math.nextafter(float(value.lower()), -math.inf)


def _up(value: arb) -> float:
    return math.nextafter(float(value.upper()), math.inf)
