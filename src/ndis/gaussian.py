"""Gaussian laws, given in whatever form their covariance is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.loss import Profile, QuadraticLoss
from ndis.loss.base import exp_bounds

FloatArray = NDArray[np.float64]

# Numbers that a simulation draws at once.
_SAMPLES_AT_ONCE = 1 << 20


class Gaussian:
    """The law N(mean, cov), possibly degenerate.

    Parameters
    ----------
    mean : array_like, shape (d,)
    cov : array_like, shape (d, d)
        Symmetric and positive semi-definite. The factories below take a diagonal, a precision
        matrix, a Cholesky (or any) factor, or a multiple of the identity instead.

    Examples
    --------
    >>> from ndis import Gaussian, privacy_loss
    >>> P = Gaussian([0.0, 0.0], [[1.0, 0.2], [0.2, 1.0]])
    >>> Q = Gaussian([0.1, 0.0], [[1.1, 0.2], [0.2, 1.0]])
    >>> f"{privacy_loss(P, Q).delta(0.1):.6f}"
    '0.000000'
    """

    __slots__ = ("_matrix", "_variances", "mean")

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        self.mean = _mean(mean)
        matrix = _square("cov", cov, self.mean.size)
        scale = float(np.abs(matrix).max())
        if np.abs(matrix - matrix.T).max() > 1e-10 * scale:
            raise ValueError(
                "Expected cov to be symmetric, got a matrix that differs from its transpose; "
                "pass (cov + cov.T) / 2 if that is what you mean."
            )
        matrix = 0.5 * (matrix + matrix.T)
        smallest = float(np.linalg.eigvalsh(matrix)[0]) if scale else 0.0
        if smallest < -_tolerance(matrix.shape[0], scale):
            raise ValueError(
                f"Expected cov to be positive semi-definite, got a least eigenvalue of "
                f"{smallest:.3g}; check how it was computed."
            )
        self._matrix: FloatArray | None = matrix
        self._variances: FloatArray | None = None

    @classmethod
    def from_diagonal(cls, mean: ArrayLike, variances: ArrayLike) -> Gaussian:
        """Independent coordinates with these variances.

        Examples
        --------
        >>> from ndis import Gaussian
        >>> Gaussian.from_diagonal([0.0, 1.0], [1.0, 2.0]).dimension
        2
        """
        law = cls.__new__(cls)
        law.mean = _mean(mean)
        law._variances = _validate.floats_within("variances", variances, 0.0, np.inf)
        law._matrix = None
        if law._variances.shape != law.mean.shape:
            raise ValueError(
                f"Expected as many variances as means ({law.mean.size}), got shape "
                f"{law._variances.shape}; pass one variance a coordinate."
            )
        return law

    @classmethod
    def isotropic(cls, mean: ArrayLike, variance: float) -> Gaussian:
        """The law N(mean, variance I)."""
        centre = _mean(mean)
        return cls.from_diagonal(
            centre, np.full(centre.size, _validate.non_negative("variance", variance))
        )

    @classmethod
    def from_precision(cls, mean: ArrayLike, precision: ArrayLike) -> Gaussian:
        """The law whose inverse covariance is `precision`, which must be positive definite."""
        centre = _mean(mean)
        matrix = _square("precision", precision, centre.size)
        try:
            factor = np.linalg.cholesky(0.5 * (matrix + matrix.T))
        except np.linalg.LinAlgError:
            raise ValueError(
                "Expected precision to be positive definite, got a matrix that is not; "
                "a law without a density has no precision matrix."
            ) from None
        inverse = np.linalg.solve(factor, np.eye(centre.size))
        return cls(centre, inverse.T @ inverse)

    @classmethod
    def from_cholesky(cls, mean: ArrayLike, factor: ArrayLike) -> Gaussian:
        """The law of mean + factor @ z, z standard normal; any d x k factor will do."""
        centre = _mean(mean)
        matrix = _validate.floats("factor", factor, ndim=2)
        if matrix.shape[0] != centre.size:
            raise ValueError(
                f"Expected factor to have {centre.size} row(s), got shape {matrix.shape}; "
                "its rows are the coordinates of the law."
            )
        return cls(centre, matrix @ matrix.T)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.mean.size)

    @property
    def variances(self) -> FloatArray | None:
        """The variances of a law known to have independent coordinates, else None."""
        return self._variances

    @property
    def cov(self) -> FloatArray:
        """The covariance matrix."""
        if self._matrix is None:
            return np.diag(np.asarray(self._variances))
        return self._matrix

    def sample(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Draw `size` vectors, shape (size, d)."""
        z = generator.standard_normal((_validate.count("size", size), self.dimension))
        if self._matrix is None:
            diagonal: FloatArray = self.mean + z * np.sqrt(np.asarray(self._variances))
            return diagonal
        values, vectors = np.linalg.eigh(self._matrix)
        # Eigenvalues of a semi-definite matrix that rounding made negative are zeros.
        draws: FloatArray = self.mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return draws

    def __repr__(self) -> str:
        """Name the dimension and the form of the covariance."""
        form = "dense" if self._variances is None else "diagonal"
        return f"Gaussian(dimension={self.dimension}, {form} covariance)"


def privacy_loss(P: Gaussian, Q: Gaussian) -> QuadraticLoss:
    """The privacy loss ln p(X)/q(X), X ~ P, of an ordered pair of Gaussians.

    Laws that do not live on the same affine subspace are mutually singular: delta is 1.

    Examples
    --------
    >>> from ndis import Gaussian, privacy_loss
    >>> loss = privacy_loss(Gaussian([0.0], [[1.0]]), Gaussian([1.0], [[1.0]]))
    >>> f"{loss.delta(1.0):.6f}"
    '0.126937'
    """
    spectrum = _relative_spectrum(P, Q)
    if spectrum is None:
        return QuadraticLoss(np.inf, 0.0, 1.0)
    excess, shift = spectrum
    return QuadraticLoss(excess, shift, np.ones_like(excess))


def profile(P: Gaussian, Q: Gaussian) -> Profile:
    """The worst of both directions of a pair of Gaussians.

    Examples
    --------
    >>> from ndis import Gaussian, profile
    >>> pair = profile(Gaussian([0.0], [[1.0]]), Gaussian([0.0], [[1.2]]))
    >>> f"{pair.delta(0.1):.6f}"
    '0.023244'
    """
    return Profile.both(privacy_loss(P, Q))


def log_delta_bounds(
    P: Gaussian, Q: Gaussian, epsilon: float, copies: int = 1
) -> tuple[float, float]:
    """Proven bounds on ln delta(epsilon) of two Gaussians, their eigenvalue problem included.

    With `copies` > 1 so many independent draws of either law are compared.

    What is enclosed belongs to the doubles in `P.mean`, `P.cov`, `Q.mean`, `Q.cov`, taken as
    exact. (`privacy_loss(P, Q).log_delta_bounds` encloses what belongs to the loss's stored
    numbers, which a floating-point eigenvalue routine has found; it is several times faster.)
    Dense covariances must have full rank; some 100 dimensions take seconds.

    Examples
    --------
    >>> from ndis import Gaussian
    >>> from ndis.gaussian import log_delta_bounds
    >>> P = Gaussian([0.0, 0.1], [[1.0, 0.2], [0.2, 1.0]])
    >>> Q = Gaussian([0.0, 0.0], [[1.1, 0.2], [0.2, 1.0]])
    >>> low, high = log_delta_bounds(P, Q, 0.1)
    >>> f"{low:.12f}", bool(high - low < 1e-12)
    ('-4.361838249094', True)
    """
    from ndis.loss import pencil

    eps, k = _validate.real("epsilon", epsilon), _validate.count("copies", copies)
    difference = _same_space(P, Q)
    if P.variances is not None and Q.variances is not None:
        diagonal = _live_variances(P.variances, Q.variances, difference)
        if diagonal is None:
            return 0.0, 0.0
        if np.array_equal(*diagonal[:2]) and not diagonal[2].any():
            return QuadraticLoss(0.0, 0.0, 0.0).log_delta_bounds(eps)
        return pencil.diagonal_log_delta_bounds(*diagonal, eps, k)
    S1, S2, difference = _balanced(P.cov, Q.cov, difference)
    if np.array_equal(S1, S2) and not difference.any():
        return QuadraticLoss(0.0, 0.0, 0.0).log_delta_bounds(eps)
    shared = _shared_support(S1, S2, difference)
    if shared is None or shared[0].shape != S1.shape:
        raise ValueError(
            f"Expected covariances of full rank {P.dimension}, got a degenerate one; whether two "
            "supports coincide cannot be proven from doubles: use privacy_loss, or from_diagonal."
        )
    factor = np.linalg.cholesky(S2)
    half = np.linalg.solve(factor, S1 - S2)
    _, vectors = np.linalg.eigh(np.linalg.solve(factor, half.T))
    basis = np.linalg.solve(factor.T, vectors)
    return pencil.log_delta_bounds(S1, S2, difference, basis, eps, k)


def delta_bounds(P: Gaussian, Q: Gaussian, epsilon: float) -> tuple[float, float]:
    """Proven bounds on delta(epsilon) of two Gaussians, their eigenvalue problem included.

    See `log_delta_bounds`.

    Examples
    --------
    >>> from ndis import Gaussian
    >>> from ndis.gaussian import delta_bounds
    >>> low, high = delta_bounds(Gaussian([1.0], [[1.0]]), Gaussian([0.0], [[1.0]]), 1.0)
    >>> bool(low < 0.12693673750664397 < high), bool(high / low - 1 < 1e-12)
    (True, True)
    """
    low, high = exp_bounds(*log_delta_bounds(P, Q, epsilon))
    return float(low), float(high)


def monte_carlo_delta(
    P: Gaussian,
    Q: Gaussian,
    epsilon: float,
    alpha: float,
    gamma: float,
    random_state: int | np.random.Generator | None = None,
) -> float:
    """Estimate delta(epsilon) by simulation, with a promise.

    With probability at least 1 - gamma the estimate is within alpha of the truth: it is the mean
    of ln(2/gamma) / (2 alpha^2) independent values of (1 - e^{epsilon - L})_+, which lie between 0
    and 1 (Hoeffding). It knows nothing of the exact route and so can check it.

    Examples
    --------
    >>> from ndis import Gaussian, monte_carlo_delta
    >>> P, Q = Gaussian([1.0], [[1.0]]), Gaussian([0.0], [[1.0]])
    >>> abs(monte_carlo_delta(P, Q, 1.0, alpha=0.005, gamma=1e-3, random_state=0) - 0.1269) < 0.005
    True
    """
    eps = _validate.real("epsilon", epsilon)
    accuracy, risk = _validate.probability("alpha", alpha), _validate.probability("gamma", gamma)
    shared = _shared_support(*_balanced(P.cov, Q.cov, _same_space(P, Q)))
    if shared is None:
        return 1.0
    S1, S2, difference = shared
    first, second = np.linalg.cholesky(S1), np.linalg.cholesky(S2)
    constant = float(np.log(np.diag(second)).sum() - np.log(np.diag(first)).sum())
    generator = np.random.default_rng(random_state)
    wanted = math.ceil(math.log(2.0 / risk) / (2.0 * accuracy**2))
    chunk = max(1, _SAMPLES_AT_ONCE // difference.size)
    total = 0.0
    for done in range(0, wanted, chunk):
        z = generator.standard_normal((difference.size, min(chunk, wanted - done)))
        seen = np.linalg.solve(second, first @ z + difference[:, None])
        loss = constant + 0.5 * ((seen * seen).sum(axis=0) - (z * z).sum(axis=0))
        total += float(-np.expm1(np.minimum(eps - loss, 0.0)).sum())
    return total / wanted


def _same_space(first: Gaussian, second: Gaussian) -> FloatArray:
    """The difference of the means of two laws on one space."""
    if first.dimension != second.dimension:
        raise ValueError(
            f"Expected two laws of one dimension, got {first.dimension} and {second.dimension}; "
            "a privacy loss compares two laws on the same space."
        )
    return first.mean - second.mean


def _live_variances(
    v1: FloatArray, v2: FloatArray, difference: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """The coordinates with positive variances; None if the supports differ."""
    if np.any((v1 == 0) != (v2 == 0)) or np.any(difference[v1 == 0] != 0):
        return None
    live = v1 > 0
    return v1[live], v2[live], difference[live]


def _relative_spectrum(first: Gaussian, second: Gaussian) -> tuple[FloatArray, FloatArray] | None:
    """Excesses and squared shifts of a pair in the directions that diagonalise both.

    The numbers are those of `QuadraticLoss`. None if the laws are mutually singular, that is
    if they do not live on the same affine subspace.
    """
    difference = _same_space(first, second)
    if first.variances is not None and second.variances is not None:
        diagonal = _live_variances(first.variances, second.variances, difference)
        if diagonal is None:
            return None
        v1, v2, difference = diagonal
        excess = np.where(v1 >= v2, (v1 - v2) / v2, (v1 - v2) / v1)
        return excess, difference**2 / np.minimum(v1, v2)
    shared = _shared_support(*_balanced(first.cov, second.cov, difference))
    if shared is None:
        return None
    S1, S2, difference = shared
    factor = np.linalg.cholesky(S2)
    half = np.linalg.solve(factor, S1 - S2)
    whitened = np.linalg.solve(factor, half.T)
    above, vectors = np.linalg.eigh(
        0.5 * (whitened + whitened.T)
    )  # ratio - 1, never by subtraction
    shift = (vectors.T @ np.linalg.solve(factor, difference)) ** 2
    ratio = 1.0 + above
    if np.any(ratio <= 0):
        return None
    return (
        np.where(above >= 0, above, above / ratio),
        np.where(above >= 0, shift, shift / ratio),
    )


def _balanced(
    S1: FloatArray, S2: FloatArray, difference: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A pair with every coordinate in units of about its own standard deviation.

    The units are powers of two, so nothing is rounded; and delta is the same in all units, but
    no column is small beside another any more.
    """
    size = np.sqrt(np.maximum(np.diag(S1), np.diag(S2)))
    unit = -np.frexp(np.where(size > 0, size, 1.0))[1]
    both = unit[:, None] + unit
    return np.ldexp(S1, both), np.ldexp(S2, both), np.ldexp(difference, unit)


def _shared_support(
    S1: FloatArray, S2: FloatArray, difference: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Both covariances in coordinates of their common support; None if it is not common."""
    values1, vectors1 = np.linalg.eigh(S1)
    values2 = np.linalg.eigvalsh(S2)
    d = difference.size
    live1 = values1 > _tolerance(d, float(values1[-1]))
    live2 = values2 > _tolerance(d, float(values2[-1]))
    if live1.all() and live2.all():
        return S1, S2, difference
    if live1.sum() != live2.sum():
        return None
    null = vectors1[:, ~live1]
    outside = float(np.abs(null.T @ S2 @ null).max(initial=0.0))
    if outside > _tolerance(d, float(values2[-1])):
        return None
    if np.abs(null.T @ difference).max(initial=0.0) > 1e-12 * max(
        1.0, float(np.abs(difference).max())
    ):
        return None
    basis = vectors1[:, live1]
    return basis.T @ S1 @ basis, basis.T @ S2 @ basis, basis.T @ difference


def _tolerance(d: int, scale: float) -> float:
    """Below this an eigenvalue of a d x d matrix of that norm is indistinguishable from 0."""
    return 8.0 * d * float(np.finfo(np.float64).eps) * scale


def _mean(mean: ArrayLike) -> FloatArray:
    centre = np.atleast_1d(_validate.floats("mean", mean))
    if centre.ndim != 1 or centre.size == 0:
        raise ValueError(
            f"Expected mean to be a non-empty vector, got shape {centre.shape}; reshape it."
        )
    return centre


def _square(name: str, value: Any, size: int) -> FloatArray:
    matrix = np.atleast_2d(_validate.floats(name, value))
    if matrix.shape != (size, size):
        raise ValueError(
            f"Expected {name} of shape ({size}, {size}), got {matrix.shape}; "
            "it must match the mean."
        )
    return matrix
