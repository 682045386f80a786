"""The quantities that the claims are about, in the papers' own terms."""

from __future__ import annotations

import math

from scipy.integrate import quad
from scipy.stats import chi2

from ndis.loss import QuadraticLoss
from ndis_papers.sketches import least_ratio


def sketch_delta(epsilon: float, leverage: float, n_components: int = 1) -> float:
    """Delta of a sketch for a row of this leverage, row present first."""
    return float(QuadraticLoss.from_leverage(leverage, n_components).delta(epsilon))


def reversed_sketch_delta(epsilon: float, leverage: float, n_components: int = 1) -> float:
    """The same with the row absent first."""
    return float(QuadraticLoss.from_leverage(leverage, n_components).reversed().delta(epsilon))


def shift_delta(epsilon: float, distance: float) -> float:
    """Delta of a mean that moves by `distance` standard deviations."""
    return float(QuadraticLoss.from_shift(distance).delta(epsilon))


def largest_leverage(epsilon: float, delta: float, n_components: int) -> float:
    """The papers' s: the largest leverage that a sketch may have."""
    return 1.0 / (1.0 + least_ratio(epsilon, delta, n_components) ** 2)


def published_ridge(epsilon: float, delta: float, n_components: int) -> float:
    """The published sigma/l = 1/sqrt(s) of a private projection."""
    return 1.0 / math.sqrt(largest_leverage(epsilon, delta, n_components))


def hinge(weight: float, constant: float, n_components: int, sign: float = -1.0) -> float:
    """E(1 - exp(constant + sign weight^2 chi2_r))_+ by quadrature, independent of the engine."""
    law = chi2(n_components)
    edge = -sign * constant / weight**2
    low, high = (max(edge, 0.0), float(law.isf(1e-18))) if sign < 0 else (0.0, max(edge, 0.0))
    value, _ = quad(
        lambda x: -math.expm1(constant + sign * weight**2 * x) * law.pdf(x),
        low,
        max(low, high),
        epsabs=1e-12,
        limit=200,
    )
    return float(value)
