"""Private projections as the papers calibrate them, on arrays: ridges and numbers, no releases.

The sketch of a table D has independent columns N(0, D^T D + ridge I), and a row of norm at most l
enters it through its leverage alone. Noise is counted in units of l: `ratio` is sqrt(ridge)/l.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from ndis.calibration import least_noise, meets, noise_multiplier
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis_papers import _validate
from ndis_papers._validate import FloatArray


def sketch_loss(ratio: float, n_components: int) -> QuadraticLoss:
    """The worst pair of a sketch with a ridge of (ratio l)^2, row present first."""
    return QuadraticLoss(ratio**-2, 0.0, n_components)


@functools.lru_cache(maxsize=1024)
def least_ratio(epsilon: float, delta: float, n_components: int) -> float:
    """The exact calibration, for comparison: what `ndis.PrivateProjection` adds over its data_norm.

    Examples
    --------
    >>> from ndis_papers.sketches import least_ratio
    >>> f"{least_ratio(1.0, 1 / 327_346, 1269):.4f}"
    '10.2658'
    """

    def family(ratio: float) -> PrivacyLoss:
        return Profile.both(sketch_loss(ratio, n_components))

    # A third of the earlier calibration is close, wherever epsilon is not tiny.
    start = lsv_ratio(max(epsilon, 1e-2), delta, n_components) / 3.0
    return least_noise(family, epsilon, delta, start=start)


def lsv_ratio(epsilon: float, delta: float, n_components: int) -> float:
    """The earlier calibration, by the least singular value (Sheffet 2019).

    Examples
    --------
    >>> from ndis_papers.sketches import lsv_ratio
    >>> f"{lsv_ratio(1.0, 1 / 327_346, 1269):.3f}"
    '28.507'
    """
    log = math.log(4.0 / _validate.probability("delta", delta))
    size = math.sqrt(2.0 * n_components * log) + log
    return math.sqrt(4.0 * size / _validate.positive("epsilon", epsilon))


def mutual_information_variance(epsilon: float, delta: float, n_components: int) -> float:
    """The variance that the mutual-information baseline (Showkatbakhsh et al.) asks for.

    That is r/(2^(2 e) - 1) with e = distance^2 log2(e)/2. It does not grow as delta falls, and
    ignores that columns may depend on each other: to a row of leverage 1 it may add nothing.
    """
    if not 0 <= epsilon <= 300:
        raise ValueError(f"Expected 0 <= epsilon <= 300, got epsilon={epsilon}; pass one.")
    distance = 2.0 * (1.0 - delta) / (math.exp(epsilon) + 1.0)
    return n_components / math.expm1(distance**2)


def mutual_information_ridge(
    rows: FloatArray, epsilon: float, delta: float, n_components: int
) -> float:
    """The ridge of that baseline: what every column has without its largest entry is noise."""
    inherent = float(np.min(np.sum(rows**2, axis=0) - np.max(np.abs(rows), axis=0) ** 2))
    return max(mutual_information_variance(epsilon, delta, n_components) - inherent, 0.0)


def leverages(rows: FloatArray) -> FloatArray:
    """The leverage of every row of a table of full rank."""
    return np.asarray(np.sum(np.linalg.qr(rows)[0] ** 2, axis=1))


def relative_ridge(
    rows: FloatArray, data_norm: float, epsilon: float, delta: float, n_components: int
) -> tuple[float, float]:
    """The ridge of the published relative mechanism on this table, and delta without any.

    It adds nothing where the table's own leverages are small enough. Whether it adds anything is
    then seen by everybody, so that it protects nobody: issue 16 has a pair of tables that it
    tells apart for certain. The number is here to repeat published ones.
    """
    inherent = Profile.both(QuadraticLoss.from_leverage(float(leverages(rows).max()), n_components))
    left = float(inherent.delta(epsilon))
    if meets(inherent, epsilon, delta):
        return 0.0, left
    needed = (1.0 + least_ratio(epsilon, delta, n_components) ** 2) * data_norm**2
    least = float(np.linalg.eigvalsh(rows.T @ rows)[0])
    return max(0.0, needed - max(least, data_norm**2)), left


def draw_sketch(
    gram: FloatArray, ridge: float, n_components: int, rng: np.random.Generator
) -> FloatArray:
    """Draw n_components independent columns N(0, gram + ridge I).

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.sketches import draw_sketch
    >>> draw_sketch(np.ones((2, 2)), 0.0, 3, np.random.default_rng(0)).shape
    (2, 3)
    """
    values, vectors = np.linalg.eigh(gram + ridge * np.eye(len(gram)))
    # A Gram matrix has no negative eigenvalues; those found are rounding errors of zeros.
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(factor @ rng.standard_normal((len(gram), n_components)))


def divided_noise(
    epsilon: float, delta: float, n_components: int, share: float = 0.5
) -> dict[str, float]:
    """The noise of propose-test-release (ndis-2026, figure 4) for rows of norm at most 1.

    The test gets this share of epsilon and a third of delta, the sketch the rest and another third;
    the last third is for a test that fails. ``PrivateProjection(method="ptr", noise_scale=...)``
    takes it in place of the best division.

    Examples
    --------
    >>> from ndis_papers.sketches import divided_noise
    >>> {name: f"{noise:.2f}" for name, noise in divided_noise(1.0, 1e-5, 50, 0.25).items()}
    {'sketch': '5.69', 'test': '14.33'}
    """
    part = _validate.probability("share", share) * epsilon
    return {
        "sketch": least_ratio(epsilon - part, delta / 3.0, n_components),
        "test": noise_multiplier(part, delta / 3.0),
    }


def spectral_error(norm: float, n_features: int, n_components: int, failure: float) -> float:
    """What ||M M^T/r - ridge I - G||_2 exceeds with probability at most `failure`.

    Theorem 5.2 of ndis-2026 with constants: ``norm`` is the largest eigenvalue of G + ridge I, and
    the singular values of a d x r normal matrix lie within sqrt(r) +- (sqrt(d) + t) but for
    probability 2 e^(-t^2/2) (Davidson and Szarek).

    Examples
    --------
    >>> from ndis_papers.sketches import spectral_error
    >>> f"{spectral_error(1.0, 10, 10_000, 1e-3):.4f}"
    '0.1462'
    """
    t = math.sqrt(2.0 * math.log(2.0 / _validate.probability("failure", failure)))
    a = (math.sqrt(n_features) + t) / math.sqrt(n_components)
    return norm * (2.0 * a + a * a)


def inner_epsilon(epsilon: ArrayLike, rate: float) -> FloatArray:
    """The epsilon at which a release of a Poisson subsample must be private for `epsilon` overall.

    That is ln(1 + (e^epsilon - 1)/rate), in a form that neither cancels nor overflows.

    Examples
    --------
    >>> from ndis_papers.sketches import inner_epsilon
    >>> f"{inner_epsilon(1.0, 0.1):.6f}"
    '2.900477'
    """
    eps = np.asarray(epsilon, dtype=np.float64)
    small = np.log1p(np.expm1(np.minimum(eps, 1.0)) / rate)
    large = eps - math.log(rate) + np.log1p(-(1.0 - rate) * np.exp(-np.maximum(eps, 1.0)))
    return np.asarray(np.where(eps < 1.0, small, large))
