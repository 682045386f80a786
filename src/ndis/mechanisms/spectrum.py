"""What a symmetric matrix is like, seen through symmetric noise.

A matrix A of second moments is released with noise E, of variance s^2 on the diagonal and
v = s^2/2 off it. Along an eigenvector u_i of A + E, with eigenvalue l_i, the noise is not zero on
average: the eigenvector leans towards it. By Stein's identity

    E[u_i^T E u_i] = 2 v E[sum over j != i of 1/(l_i - l_j)],

so that l_i less this sum estimates what A itself is along u_i (the rotationally invariant estimator
of Bun, Bouchaud and Potters, for Gaussian noise). Everything here is computed from the released
matrix: it is post-processing, and free.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from ndis._validate import FloatArray

# A spread of eigenvalues, in units of their mean squared, that is believed without evidence.
_PLAUSIBLE = 0.5
# So many numbers of a matrix are made at once.
_AT_ONCE = 2**20
# Rows and columns of a block of a matrix.
_STRIP = 256


class Spectrum:
    """Eigenvectors of a noisy second-moment matrix, and what the true matrix is along them.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric, with noise as `ndis.randomness.add_symmetric_noise` adds it.
    noise_scale : float
        The standard deviation s of the noise on its diagonal.
    known : (float, float), optional
        The mean of the true eigenvalues and its standard error, where they are known otherwise too.
    overwrite : bool, default False
        Whether the matrix may be overwritten.

    Attributes
    ----------
    vectors : ndarray of shape (d, d)
        Eigenvectors u_i of the noisy matrix, one per column.
    noisy_values : ndarray of shape (d,)
        Its eigenvalues, increasing.
    values : ndarray of shape (d,)
        Estimates of u_i^T A u_i, increasing and never negative.
    variance : float
        v = s^2/2, the variance of the noise off the diagonal.

    Notes
    -----
    Denominators are regularised at the width sqrt(v) at which two eigenvalues can no longer be told
    apart. The estimates are made increasing, and their spread about their mean is reduced to what
    the energy of the matrix allows: |A|^2 is |A + E|^2 less s^2 d (d+1)/2 on average. Noise alone
    gives values near zero; an eigenvalue far above the noise is kept; a matrix that drowns in noise
    becomes a multiple of the identity. Where the mean is known, a spread that noise may have made
    is not believed beyond a plausible one.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.spectrum import Spectrum
    >>> Spectrum(np.diag([0.0, 1.0, 100.0]), noise_scale=0.1).values.round(1)
    array([  0.,   1., 100.])
    """

    def __init__(
        self,
        matrix: FloatArray,
        noise_scale: float,
        known: tuple[float, float] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.noisy_values, self.vectors = eigenvectors(matrix if overwrite else matrix.copy())
        self.variance = 0.5 * noise_scale**2
        noisy, d = self.noisy_values, len(matrix)
        values = debiased(noisy, self.variance)
        mean, error = float(np.mean(noisy)), noise_scale / math.sqrt(d)
        if known is not None:
            mean += (known[0] - mean) * error**2 / (error**2 + known[1] ** 2)
        mean = max(mean, error if known is None else 0.0)
        energy = float(np.mean(noisy**2)) - self.variance * (d + 1)
        spread = energy - mean**2
        if known is not None:
            # The standard deviation of |E|^2/d: 2 v/d times a chi-square of d (d+1)/2 degrees.
            doubt = 2.0 * self.variance * math.sqrt(1.0 + 1.0 / d)
            spread = min(spread, max(_PLAUSIBLE * mean**2, spread - 2.0 * doubt))
        seen = float(np.mean((values - mean) ** 2))
        kept = min(1.0, max(0.0, spread / seen)) if seen > 0 else 1.0
        self.values = np.maximum(_ascending(mean + kept * (values - mean)), 0.0)

    @property
    def matrix(self) -> FloatArray:
        """The estimate of A: positive semi-definite, with little error in the Frobenius norm."""
        return (self.vectors * self.values) @ self.vectors.T

    @property
    def mixing(self) -> FloatArray:
        """What is left of A off the diagonal in this basis, squared, of shape (d, d).

        Between eigenvalues that are far apart it is all of the noise; between equal ones nothing,
        since there any basis is as good.
        """
        away = (self.values[:, None] - self.values) ** 2
        return np.asarray(self.variance * away / (away + len(away) * self.variance))


def eigenvectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What `numpy.linalg.eigh` says, to the last bit, in the memory of the matrix, which is lost.

    numpy holds two copies more beside what LAPACK takes. The matrix is stored row by row.
    """
    from scipy.linalg.lapack import dsyevd

    if matrix.size > _AT_ONCE:
        _return_memory()  # LAPACK takes two matrices, which fit into none of the gaps of one
    _transpose(matrix)  # LAPACK stores columns; of both triangles numpy reads the lower one
    values, columns, failed = dsyevd(matrix.T, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    vectors = columns.T
    _transpose(vectors)
    return values, vectors


def _return_memory() -> None:
    """Let the C library give the system what was freed: it keeps up to twice 32 MB, and gaps."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _transpose(matrix: FloatArray) -> None:
    """Mirror a square matrix where it is, block by block: numpy would make another on the way."""
    strips = [slice(first, first + _STRIP) for first in range(0, len(matrix), _STRIP)]
    for index, rows in enumerate(strips):
        for columns in strips[: index + 1]:
            below = matrix[rows, columns].copy()
            matrix[rows, columns] = matrix[columns, rows].T
            matrix[columns, rows] = below.T


def _ascending(values: FloatArray) -> FloatArray:
    """The nearest numbers in ascending order: mostly these themselves, which saves an import."""
    if np.all(values[1:] >= values[:-1]):
        return values
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values).x)


def debiased(noisy: FloatArray, variance: float) -> FloatArray:
    """Estimates of u_i^T A u_i from the eigenvalues of A + E, before anything is enforced."""
    leaning, step = np.empty(len(noisy)), max(1, _AT_ONCE // len(noisy))
    for start in range(0, len(noisy), step):
        gaps = noisy[start : start + step, None] - noisy
        leaning[start : start + step] = np.sum(gaps / (gaps**2 + variance), axis=1)
    return np.asarray(noisy - 2.0 * variance * leaning)
