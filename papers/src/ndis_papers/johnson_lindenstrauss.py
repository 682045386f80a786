"""Graph cuts and directional variances as Blocki et al. (2012) calibrate them.

A sketch of r components estimates a quadratic form a > 0 by a chi2_r/r, exactly; the weight w of
what is mixed in decides about privacy.
"""

from __future__ import annotations

import math

from scipy.stats import chi2

from ndis import Profile, QuadraticLoss
from ndis.calibration import least_noise
from ndis_papers import _validate


def published_components(eta: float, nu: float) -> int:
    """The paper's number of components, 8 ln(2/nu) / eta^2, rounded up.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import published_components
    >>> published_components(0.2, 0.05)
    738
    """
    eta, nu = _validate.probability("eta", eta), _validate.probability("nu", nu)
    return math.ceil(8.0 * math.log(2.0 / nu) / eta**2)


def least_components(eta: float, nu: float) -> int:
    """The least number of components whose relative error exceeds eta with probability <= nu.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import least_components
    >>> least_components(0.2, 0.05)
    191
    """
    low, high = 0, 1
    while failure(eta, high) > _validate.probability("nu", nu):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failure(eta, middle) > nu else (low, middle)
    return high


def failure(eta: float, n_components: int) -> float:
    """The probability that a sketch misses a quadratic form by more than a share eta of it.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import failure
    >>> f"{failure(0.2, 738):.1e}"
    '1.6e-04'
    """
    law, share = chi2(n_components), _validate.probability("eta", eta)
    return float(law.cdf(n_components * (1.0 - share)) + law.sf(n_components * (1.0 + share)))


def graph_weight(epsilon: float, delta: float, n_components: int) -> float:
    """The paper's w for graphs, sqrt(32 r ln(2/delta)) ln(4r/delta) / epsilon (Algorithm 1).

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import graph_weight
    >>> f"{graph_weight(1.0, 1e-6, 738):.0f}"
    '12764'
    """
    eps, r = _validate.positive("epsilon", epsilon), _validate.count("n_components", n_components)
    log = math.log(2.0 / _validate.probability("delta", delta))
    return math.sqrt(32.0 * r * log) * math.log(4.0 * r / delta) / eps


def graph_loss(weight: float, n_nodes: int, n_components: int) -> Profile:
    """What a weight w is worth: an edge of weight 1 in the empty graph, t = (1 - w/n) 2/w.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import graph_loss, graph_weight
    >>> round(float(graph_loss(graph_weight(1.0, 1e-6, 738), 10**9, 738).log_delta(1.0)))
    -5325
    """
    if weight >= n_nodes:
        raise ValueError(
            f"Expected more than w = {weight:.6g} nodes, got {n_nodes}; the paper assumes "
            f"{math.floor(2.0 * weight) + 1}."
        )
    excess = (1.0 - weight / n_nodes) * 2.0 / weight
    return Profile.both(QuadraticLoss(excess, 0.0, n_components))


def exact_graph_weight(epsilon: float, delta: float, n_components: int, n_nodes: int) -> float:
    """The least weight of the complete graph that keeps the promise.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import exact_graph_weight
    >>> f"{exact_graph_weight(1.0, 1e-6, 738, 1000):.1f}"
    '147.8'
    """
    return least_noise(lambda w: graph_loss(w, n_nodes, n_components), epsilon, delta, start=10.0)


def covariance_weight(epsilon: float, delta: float, n_components: int) -> float:
    """The paper's w for covariances, 16 sqrt(r ln(2/delta)) ln(16 r/delta) / epsilon (Algorithm 3).

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import covariance_weight
    >>> f"{covariance_weight(1.0, 1e-6, 738):.0f}"
    '38397'
    """
    eps, r = _validate.positive("epsilon", epsilon), _validate.count("n_components", n_components)
    log = math.log(2.0 / _validate.probability("delta", delta))
    return 16.0 * math.sqrt(r * log) * math.log(16.0 * r / delta) / eps


def covariance_loss(weight: float, n_components: int) -> Profile:
    """What a weight w is worth if a row moves by a vector of norm at most 1, wherever it was.

    The relative variances of the worst pair are lam and 1/lam, lam + 1/lam = 2 + 1/w^2.

    Examples
    --------
    >>> from ndis_papers.johnson_lindenstrauss import covariance_loss, covariance_weight
    >>> round(float(covariance_loss(covariance_weight(1.0, 1e-6, 738), 738).log_delta(1.0)))
    -36587
    """
    b = 1.0 / weight
    excess = b * (0.5 * b + math.sqrt(1.0 + 0.25 * b * b))
    return Profile.both(QuadraticLoss([excess, -excess], 0.0, n_components))


def exact_covariance_weight(epsilon: float, delta: float, n_components: int) -> float:
    """The least weight of the identity that keeps the promise."""
    return least_noise(lambda w: covariance_loss(w, n_components), epsilon, delta, start=10.0)


def mean_noise(epsilon: float, delta: float) -> float:
    """The paper's noise of the sum of the rows, 2 sqrt(ln(1/delta))/epsilon."""
    return 2.0 * math.sqrt(math.log(1.0 / delta)) / _validate.positive("epsilon", epsilon)
