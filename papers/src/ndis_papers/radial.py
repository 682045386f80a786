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
from ndis_papers._validate import FloatArray

# Widths of ln delta: of a value, and of a bound that only has to be safe; and working precisions.
_WIDTH, _LOOSE = 1e-12, 1e-6
_BITS = (64, 85, 120, 180, 280, 480)
# What an enclosure that is narrow enough needs of them beyond the digits that delta itself takes.
_SPARE = {_WIDTH: 80, _LOOSE: 60}
# From this power on it is taken through the logarithm.
_LOGARITHMIC = 40
# Points of the quadrature for Renyi divergences.
_NODES = 96
# The grid on which a loss that must be composed is tabulated, and where delta is computed for it.
_STEP, _LEAST, _MOST, _KNOTS = 2.0**-6, 16.0, 256.0, 100
# It ends where delta is this, if that is between the two ends above.
_END = 1e-10
# More than an exponential and a product round away.
_ROUND_UP = 1.0 + 2.0**-50


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

    kind = "radial"
    stored = ("dimension", "spread")
    exactness = "exact"

    def __init__(self, dimension: int, spread: float) -> None:
        self.dimension = _validate.count("dimension", dimension, 3)
        self.spread = _validate.positive("spread", spread)

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on ln delta(epsilon), by ball arithmetic."""
        eps = _validate.floats("epsilon", epsilon)
        bounds = np.array([self._bounds(float(e)) for e in eps.reshape(-1)]).reshape(*eps.shape, 2)
        return bounds[..., 0][()], bounds[..., 1][()]

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """A quicker upper bound on ln delta(epsilon), by up to 1e-6 above it."""
        eps = np.asarray(epsilon, dtype=np.float64)
        values = [self._bounds(float(e), _LOOSE)[1] for e in eps.reshape(-1)]
        return np.array(values).reshape(eps.shape)

    def _bounds(self, eps: float, width: float = _WIDTH) -> tuple[float, float]:
        low, high = _log_bounds(self.dimension, self.spread, abs(eps), width)
        if eps >= 0:
            return low, high
        # delta(-e) = 1 - e^-e + e^-e delta(e), the pair being its own reverse.
        with flint.ctx.workprec(_BITS[1]):
            shrink = arb(eps).exp()
            below, above = (1 - shrink + shrink * arb(bound).exp() for bound in (low, high))
            return _down(below.log()), min(_up(above.log()), 0.0)

    def supremum(self) -> float:
        """Infinite: the density has no bound at its centre."""
        return math.inf

    def renyi(self, alpha: ArrayLike) -> Any:
        """Renyi divergence of order alpha; infinite from alpha = M/(M - 1) on.

        Below that order E[e^{sL}] - 1, s = alpha - 1, is the integral over epsilon > 0 of
        s (s + 1) (e^{s eps} + e^{-(s + 1) eps}) delta(eps), by quadrature to about 1e-6.
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
        both = np.log1p(np.exp(-(2.0 * s + 1.0) * eps)) + s * eps + self.upper_log_delta(eps)
        total = 0.5 * (high - low) * float(weights @ np.exp(u + both))
        return total if s == 0 else math.log1p(s * (s + 1.0) * total) / s

    def reversed(self) -> RadialLoss:
        """The loss of the reversed pair: itself."""
        return self

    def dominating(self) -> TabulatedLoss:
        """A table of chords between proven upper bounds."""
        return _table(self)

    def rough_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """The upper bound itself: the table begins with an epsilon, and cannot help to find it."""
        return self.upper_log_delta(epsilon)

    def upper_profile(self, low: float, high: float) -> Callable[[Any], Any]:
        """A quick upper bound on delta for epsilons from 0 to `high`.

        Delta is computed at zero and at some hundred points from `low` to `high`; between them
        the chord in e^eps, which lies above the convex profile, takes its place.
        """
        knots = np.concatenate([[0.0], np.geomspace(low, high, _KNOTS)])
        upper = np.minimum(np.exp(self.upper_log_delta(knots)) * _ROUND_UP, 1.0)

        def above(eps: Any) -> Any:
            j = np.clip(np.searchsorted(knots, eps, side="right") - 1, 0, knots.size - 2)
            share = np.expm1(eps - knots[j]) / np.expm1(knots[j + 1] - knots[j])
            return upper[j] + share * (upper[j + 1] - upper[j])

        return above


@functools.lru_cache(maxsize=64)
def _table(loss: RadialLoss) -> TabulatedLoss:
    high = min(max(float(loss.epsilon(_END)), _LEAST), _MOST)
    above = loss.upper_profile(_STEP, high + _STEP)
    return TabulatedLoss.from_profile(above, above, step=_STEP, high=high)


@functools.lru_cache(maxsize=4096)
def _log_bounds(dimension: int, spread: float, eps: float, width: float) -> tuple[float, float]:
    """Proven bounds on ln delta(eps), eps >= 0, of this width if the precisions allow it."""
    best = (-math.inf, 0.0)  # delta <= 1 is a theorem
    with flint.ctx.workprec(_BITS[1]):
        tail = _tail(dimension, arb(spread), arb(eps))
        if tail is not None:
            best = _down(tail[0].log()), min(_up(tail[1].log()), 0.0)
    if best[1] - best[0] < width:
        return best
    for bits in _BITS:
        if bits < _SPARE[width] - best[1] / math.log(2):
            continue  # delta is smaller than what this precision can tell from zero
        with flint.ctx.workprec(bits):
            delta = _Boundary(dimension, arb(spread), arb(eps), bits).delta()
            if delta.is_finite() and delta.upper() > 0:
                best = best[0], min(best[1], _up(arb(delta.upper()).log()))
            if delta.is_finite() and delta > 0:
                best = max(best[0], _down(delta.log())), best[1]
        if best[1] - best[0] < width:
            return best
    return best


def _tail(dimension: int, spread: arb, eps: arb) -> tuple[arb, arb] | None:
    """Bounds on delta in closed form, narrow for large eps; None where they do not apply.

    1 - r <= R <= 1 + r puts L between two functions of the radius, so that near the centre
    e^(eps - L) is K r^m up to factors next to 1, K = e^(eps - 1/2w), and delta is the integral of
    1 - K r^m. The upper function is convex, hence below eps all the way from `edge` to `far`.
    """
    m = dimension - 1
    base = ((1 / (2 * spread) - eps) / m).exp()
    edge = 2 * base
    factor = (1 + edge) * (edge / (m * spread)).exp()
    far = spread * (eps - m * arb(2).log()) - arb(1) / 2
    if not (edge < arb(1) / 2 and factor < 2 and far > 1):
        return None
    whole = (2 / (arb.pi() * spread)).sqrt() * base * m / (m + 1)
    inner = (1 - edge) * (-edge / (m * spread) - edge**2 / (2 * spread)).exp()
    return whole * inner, whole * factor + (far / (2 * spread).sqrt()).erfc()


@dataclass(frozen=True)
class _Point:
    """A point of the boundary: radii, cosine at the near centre, derivatives in v."""

    up: Any
    r: Any
    R: Any
    cosine: Any
    slope: Any  # of the cosine
    slope_r: Any  # of ln r
    slope_R: Any  # of ln R


@dataclass(frozen=True)
class _Boundary:
    """The boundary of {L > eps} and the integral along it, at the current precision."""

    dimension: int
    spread: arb
    eps: arb
    bits: int

    def at(self, v: Any, analytic: bool = False) -> _Point:
        """The point with parameter v, real or complex."""

        def root(square: Any) -> Any:
            return square.sqrt(analytic=analytic) if isinstance(square, acb) else square.sqrt()

        odds = v.exp()
        down = 1 / (1 + odds)
        up = odds * down
        m = self.dimension - 1
        x = 2 * self.eps / m * down
        ratio = x / x.expm1() if self.eps > 0 else 1
        d = 2 * self.spread * self.eps * up
        square = self.spread * m * odds * ratio
        r, R = root(square), root(square + d)
        cosine = (1 - d) / (2 * r)
        slope_r = (down + up * (ratio + x)) / 2
        slope_R = (square * slope_r + d * down / 2) / (square + d)
        slope = -d * down / (2 * r) - cosine * slope_r
        return _Point(up, r, R, cosine, slope, slope_r, slope_R)

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
        scale = 1 / (2 * self.spread).sqrt()

        def density(cosine: acb, analytic: bool) -> Any:
            sine_squared = 1 - cosine * cosine
            if power > _LOGARITHMIC:  # squaring a box again and again would inflate it
                exponent = (arb(self.dimension) - 3) / 2
                return (exponent * sine_squared.log(analytic=analytic)).exp()
            value = sine_squared**power
            return value * sine_squared.sqrt(analytic=analytic) if odd else value

        def integrand(v: acb, analytic: bool) -> Any:
            # On the boundary (r/R)^m e^eps = e^(eps up), by the law of sines: no large weight.
            p = self.at(v, analytic)
            far = p.R / p.r * (p.r * p.slope_r - (p.r - p.cosine) * p.slope_R)
            near = (p.r * scale).erfc() * p.slope
            away = (p.R * scale).erfc() * (self.eps * p.up).exp() * far
            return constant * density(p.cosine, analytic) * (near - away)

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

        Three places are cut off: where the radius is large, where T > 0 is large (T falls with v
        as long as it is positive), and where T < 0 is large (an interval of v, since L has one
        minimum along each ray). What each loses is bounded by parts (docs/proofs/rank-one.md): no
        weight e^eps is left, because e^eps F(T') <= e^(d/2w) F(-|T|) and erfc(R/sqrt(2w)) e^(d/2w)
        <= e^(-r^2/2w) on the boundary.
        """
        m = self.dimension - 1
        # Beyond this cosine the mass of directions is below the working precision.
        cut = (1 - arb(2) ** (-arb(2 * self.bits) / m)).sqrt()
        low, high = arb(-8 * self.bits), arb(8 * self.bits)
        limit = 2 * self.spread * self.bits
        end = self._cross(lambda v: self.at(v).r ** 2 > limit, low, high)[1]
        start = self._cross(lambda v: self.at(v).cosine < cut, low, end)[1]
        lost = (-(self.at(end).r ** 2) / (2 * self.spread)).exp() + self._cap(self.at(start).cosine)
        edges = [start, end]
        gap = self._gap(cut, start, end)
        if gap is not None:
            left, right = gap
            lost += self._cap(-self.at(left).cosine.max(self.at(right).cosine))
            edges = [start, left] if right is end else [start, left, right, end]
        return edges, (6 + 2 * self.eps.sqrt()) * lost

    def _gap(self, cut: arb, start: arb, end: arb) -> tuple[arb, arb] | None:
        """The ends of the interval on which T < -cut, up to `end`; None if there is none."""

        def falling(v: arb) -> bool:
            return bool(self.at(v).slope < 0)

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
