"""Published calibrations of added noise, and the moments of what such noise costs.

Nothing here releases anything: a calibration is a number, its truth a privacy loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from ndis import GaussianMechanism
from ndis.calibration import meets
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

Shape = tuple[int, ...]


def analytic_noise(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least noise, for comparison: the library's own calibration."""
    return float(
        GaussianMechanism(epsilon=epsilon, delta=delta, sensitivity=sensitivity).calibrate()
    )


def classic_noise(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The classic calibration, Delta sqrt(2 ln(1.25/delta))/epsilon; its theorem has epsilon < 1.

    Examples
    --------
    >>> from ndis_papers.additive import analytic_noise, classic_noise
    >>> f"{classic_noise(0.5, 1e-5) / analytic_noise(0.5, 1e-5):.3f}"
    '1.378'
    """
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def matrix_precision_bound(
    epsilon: float,
    delta: float,
    sensitivity: float,
    shape: tuple[int, int],
    norm_bound: float | None = None,
) -> float:
    """What the matrix-variate condition allows ||sigma(Sigma^-1)||_2 ||sigma(Psi^-1)||_2 to be.

    Parameters
    ----------
    epsilon, delta, sensitivity : float
    shape : (int, int)
    norm_bound : float, optional
        A bound on the Frobenius norm of the answer, which the published condition needs. Without
        it: the same condition as completed by us from the sketch in appendix C of the rank-one
        paper, which does without that norm.
    """
    m, n = shape
    ranks = np.arange(1, min(m, n) + 1, dtype=np.float64)
    harmonic, half_harmonic = float(np.sum(1.0 / ranks)), float(np.sum(ranks**-0.5))
    log = -math.log(_validate.probability("delta", delta))
    if norm_bound is None:
        alpha = harmonic * sensitivity**2
    elif norm_bound < sensitivity / 2:
        raise ValueError(
            f"Expected norm_bound >= sensitivity/2, got norm_bound={norm_bound}; two answers "
            "of smaller norm are never so far apart."
        )
    else:
        alpha = (harmonic + half_harmonic) * norm_bound**2
        alpha += 2.0 * harmonic * norm_bound * sensitivity
    tail = 2.0 * math.sqrt(m * n * log) + 2.0 * log + m * n
    beta = 2.0 * math.pow(m * n, 0.25) * harmonic * sensitivity * tail
    # ((-beta + sqrt(beta^2 + 8 alpha eps))/(2 alpha))^2, without the cancellation.
    root = 4.0 * epsilon / (beta + math.sqrt(beta**2 + 8.0 * alpha * epsilon))
    return root**2


def matrix_noise(
    epsilon: float,
    delta: float,
    sensitivity: float,
    shape: tuple[int, int],
    norm_bound: float | None = None,
    *,
    rows: ArrayLike | None = None,
    columns: ArrayLike | None = None,
) -> float:
    """The published noise of the matrix-variate mechanism in its quietest direction.

    Parameters
    ----------
    epsilon, delta, sensitivity, shape, norm_bound
        As in `matrix_precision_bound`.
    rows, columns : array_like, optional
        Shapes of the two covariances up to a factor; the identity if not given.

    Examples
    --------
    >>> from ndis_papers.additive import analytic_noise, matrix_noise
    >>> f"{matrix_noise(1.0, 1e-5, 1.0, (10, 10), 0.5) / analytic_noise(1.0, 1e-5):.0f}"
    '1499'
    """
    bound = matrix_precision_bound(epsilon, delta, sensitivity, shape, norm_bound)
    variance = 1.0 / bound
    for covariance, size in zip((rows, columns), shape, strict=True):
        values = (
            np.ones(size)
            if covariance is None
            else np.linalg.eigvalsh(np.asarray(covariance, dtype=np.float64))
        )
        variance *= float(np.linalg.norm(1.0 / values) * values.min())
    return math.sqrt(variance)


def analytic_constant(epsilon: float, delta: float, size: int) -> float:
    """The published C_A = (Phi^-1(delta)^2 + epsilon) M/epsilon^2, which is no lower bound.

    Examples
    --------
    >>> from ndis_papers.additive import analytic_constant, analytic_noise
    >>> f"{analytic_constant(1.0, 1e-5, 1):.1f} > {analytic_noise(1.0, 1e-5) ** 2:.1f}"
    '19.2 > 13.9'
    """
    return (float(norm.ppf(delta)) ** 2 + epsilon) / epsilon**2 * size


def matrix_constant(epsilon: float, shape: tuple[int, int]) -> float:
    """The published C_M = (5/4 H_r + 1/4 H_{r,1/2}) MN/(2 epsilon), r the smaller side.

    Examples
    --------
    >>> from ndis_papers.additive import matrix_constant
    >>> matrix_constant(0.5, (1, 1))
    1.5
    """
    ranks = np.arange(1, min(shape) + 1, dtype=np.float64)
    harmonic, half = float(np.sum(1.0 / ranks)), float(np.sum(ranks**-0.5))
    return (1.25 * harmonic + 0.25 * half) / (2.0 * epsilon) * math.prod(shape)


def leading_directions(components: ArrayLike, share: float) -> FloatArray:
    """A covariance shape that gives the leading directions a share of the precision budget.

    The squared precisions of all directions add up to 1: `share` of it goes to the given
    components in equal parts, the rest to the directions orthogonal to them. The published
    condition of the matrix-variate mechanism bounds this sum. (The exact one bounds the largest
    precision alone, so that no shape helps it.)

    Parameters
    ----------
    components : array_like of shape (dimension, k)
        Orthonormal columns, chosen without looking at the private data.
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.additive import leading_directions
    >>> np.round(leading_directions(np.eye(3)[:, :1], 0.5), 4).diagonal().tolist()
    [1.4142, 2.0, 2.0]
    """
    basis = _validate.floats("components", components)
    dimension, k = basis.shape
    share = _validate.probability("share", share)
    if not 0 < k < dimension or not np.allclose(basis.T @ basis, np.eye(k), atol=1e-8):
        raise ValueError(
            f"Expected fewer than {dimension} orthonormal columns, got shape {basis.shape}; "
            "orthonormalise them with numpy.linalg.qr."
        )
    leading, rest = math.sqrt(k / share), math.sqrt((dimension - k) / (1.0 - share))
    return rest * np.eye(dimension) + (leading - rest) * (basis @ basis.T)


@dataclass(frozen=True)
class AccuracyLoss:
    """Moments of the squared length of Gaussian noise, from the traces of its covariance's powers.

    Parameters
    ----------
    scale : float
        Tr C, which is also the mean.
    traces : tuple of float
        Tr(C^k)/(Tr C)^k for k = 2, 3, 4.

    Examples
    --------
    >>> from ndis_papers.additive import AccuracyLoss
    >>> loss = AccuracyLoss.of_equal_variances(10, 2.0)
    >>> loss.mean, round(loss.kurtosis, 6), round(loss.raw_kurtosis, 6)
    (20.0, 4.2, 1.866667)
    """

    scale: float
    traces: tuple[float, float, float]

    @classmethod
    def of_equal_variances(cls, dimension: int, variance: float) -> AccuracyLoss:
        """Independent coordinates with one variance."""
        n = float(dimension)
        return cls(n * variance, (1 / n, n**-2, n**-3))

    @classmethod
    def of_variances(cls, *factors: FloatArray) -> AccuracyLoss:
        """A covariance that is the Kronecker product of matrices with these eigenvalues."""
        totals = [float(np.sum(f)) for f in factors]
        shares = [f / total for f, total in zip(factors, totals, strict=True)]
        t2, t3, t4 = (math.prod(float(np.sum(s**k)) for s in shares) for k in (2, 3, 4))
        return cls(math.prod(totals), (t2, t3, t4))

    @property
    def mean(self) -> float:
        """E[L] = Tr C (theorems 4 and 7)."""
        return self.scale

    @property
    def variance(self) -> float:
        """Variance of L, 2 Tr C^2."""
        return 2.0 * self.traces[0] * self.scale**2

    @property
    def skewness(self) -> float:
        """The standard, central skewness."""
        t2, t3, _ = self.traces
        return 8.0 * t3 / math.pow(2.0 * t2, 1.5)

    @property
    def kurtosis(self) -> float:
        """The standard, central kurtosis (3 for a normal law)."""
        t2, _, t4 = self.traces
        return 3.0 + 48.0 * t4 / (2.0 * t2) ** 2

    @property
    def raw_skewness(self) -> float:
        """E[L^3]/E[L^2]^(3/2), which theorem 9 of the rank-one paper calls skewness."""
        t2, t3, _ = self.traces
        return (8.0 * t3 + 6.0 * t2 + 1.0) / math.pow(2.0 * t2 + 1.0, 1.5)

    @property
    def raw_kurtosis(self) -> float:
        """E[L^4]/E[L^2]^2, which theorem 8 of the rank-one paper calls kurtosis."""
        t2, t3, t4 = self.traces
        fourth = 48.0 * t4 + 32.0 * t3 + 12.0 * t2**2 + 12.0 * t2 + 1.0
        return fourth / (2.0 * t2 + 1.0) ** 2


class Noise(Protocol):
    """Noise with a claim: what the tables and case studies compare."""

    @property
    def epsilon(self) -> float:
        """What is claimed."""

    @property
    def delta(self) -> float:
        """What is claimed."""

    def loss(self, shape: Shape) -> PrivacyLoss:
        """What is true of an answer of this shape."""

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw."""

    def accuracy_loss(self, shape: Shape) -> AccuracyLoss:
        """Moments of its squared length, in closed form."""


@dataclass(frozen=True)
class NormalNoise:
    """Independent normal noise of one scale on every entry, by whatever calibration."""

    epsilon: float
    delta: float
    sensitivity: float
    scale: float

    def loss(self, shape: Shape = ()) -> Profile:
        """What is true, the same for every shape."""
        return Profile.both(QuadraticLoss.from_shift(self.sensitivity / self.scale))

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw."""
        return np.asarray(self.scale * rng.standard_normal(shape))

    def accuracy_loss(self, shape: Shape = ()) -> AccuracyLoss:
        """Moments of scale^2 times a chi-square."""
        return AccuracyLoss.of_equal_variances(math.prod(shape), self.scale**2)


def analytic(epsilon: float, delta: float, sensitivity: float) -> NormalNoise:
    """The least normal noise."""
    return NormalNoise(epsilon, delta, sensitivity, analytic_noise(epsilon, delta, sensitivity))


def classic(epsilon: float, delta: float, sensitivity: float) -> NormalNoise:
    """The classic calibration."""
    return NormalNoise(epsilon, delta, sensitivity, classic_noise(epsilon, delta, sensitivity))


def matrix_variate(
    epsilon: float,
    delta: float,
    sensitivity: float,
    shape: tuple[int, int],
    norm_bound: float | None = None,
) -> NormalNoise:
    """The published matrix-variate calibration with equal directions."""
    scale = matrix_noise(epsilon, delta, sensitivity, shape, norm_bound)
    return NormalNoise(epsilon, delta, sensitivity, scale)


def matrix_gaussian(epsilon: float, delta: float, sensitivity: float) -> NormalNoise:
    """MGM (Yang, Xiang and others) in the exact form of its authors, at its best.

    Noise U Z V^T with standard normal Z is (epsilon, delta)-private if and only if the product of
    the least singular values of U and V is at least the analytic mechanism's noise. More in any
    direction helps nobody, so that the best is equal noise: the analytic mechanism itself.
    """
    return analytic(epsilon, delta, sensitivity)


def keeps(noise: Noise, shape: Shape) -> str:
    """Whether the claim is "proven" or "refuted" by our own computation."""
    held = meets(noise.loss(shape), noise.epsilon, noise.delta)
    return "proven" if held else "refuted"


def simulate(noise: Noise, shape: Shape, n_draws: int, seed: int) -> FloatArray:
    """Draw the accuracy loss, the squared length of the noise, `n_draws` times."""
    rng = np.random.default_rng(seed)
    return np.array([float(np.sum(noise.noise(shape, rng) ** 2)) for _ in range(n_draws)])
