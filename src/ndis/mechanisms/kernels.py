"""Covariance functions of Gaussian processes: which are proven to be ones, and public features.

A kernel is one of scikit-learn's, with fixed public parameters, in the units of the table. Whether
it is positive semi-definite is decided by its form, never by its values: a kernel that is not makes
every bound on a posterior false.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.tables import GRID_NORM, Columns
from ndis.tables.sums import KernelMoments, kernel_of_squares

__all__ = ["default_kernel", "described", "inducing_points", "made", "proven_variance"]

# The kernels of scikit-learn that we know, each by its name there.
_NAMES = (
    "RBF",
    "Matern",
    "RationalQuadratic",
    "WhiteKernel",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Sum",
    "Product",
    "Exponentiation",
)
# The default length scale of a column, in halves of its limits' width, for up to two columns.
_LENGTH = 0.5
# Directions of the features whose prior variance is below this share of the largest are left out.
_CUT = 1e-4
# Points in one dimension, in two, in more.
_POINTS = (16, 49, 64)
# Most inducing points: a release has their number squared.
_MOST_POINTS = 1024


def _named(name: str) -> Any:
    """A class of scikit-learn, which is imported here, where a kernel is at hand."""
    from sklearn.gaussian_process import kernels

    return getattr(kernels, name)


def _kind(kernel: Any) -> str | None:
    """Which of the kernels that we know it is, nothing made from one; None if it is none."""
    name = type(kernel).__name__
    return name if name in _NAMES and type(kernel) is _named(name) else None


def default_kernel(columns: Columns, amplitude: float) -> Any:
    """A smooth process that varies over about half of the limits."""
    widths = 0.5 * (columns.high - columns.low)
    length = _LENGTH * math.sqrt(max(1.0, len(widths) / 2.0)) * widths
    return _named("ConstantKernel")(amplitude**2) * _named("RBF")(length)


def described(kernel: Any) -> Any:
    """A kernel in words and numbers, for a certificate; `made` reads it.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ndis.mechanisms.kernels import described
    >>> described(RBF(0.5))
    {'RBF': {'length_scale': 0.5}}
    """
    kind = _kind(kernel)
    if kind is None:
        return {"declared": repr(kernel)}
    own = kernel.get_params(deep=False)
    parameters = {name: value for name, value in own.items() if not name.endswith("_bounds")}
    return {
        kind: {
            name: described(value)
            if isinstance(value, _named("Kernel"))
            else np.asarray(value).tolist()
            for name, value in parameters.items()
        }
    }


def made(kernel: Any) -> Any:
    """The kernel that was described; a kernel is taken as it is.

    Examples
    --------
    >>> from ndis.mechanisms.kernels import made
    >>> made({"RBF": {"length_scale": 0.5}})
    RBF(length_scale=0.5)
    """
    if not isinstance(kernel, Mapping):
        return kernel
    ((name, parameters),) = kernel.items()
    _validate.one_of("kernel", name, _NAMES)
    return _named(name)(
        **{k: made(v) if isinstance(v, Mapping) else v for k, v in parameters.items()}
    )


def proven_variance(kernel: Any, low: FloatArray, high: FloatArray) -> float | None:
    """A bound on k(x, x) within limits, or None if k is not proven to be a covariance function.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
    >>> from ndis.mechanisms.kernels import proven_variance
    >>> low, high = np.array([0.0]), np.array([2.0])
    >>> f"{proven_variance(3.0 * RBF() + DotProduct(1.0), low, high):.6f}"
    '8.000000'
    >>> proven_variance(RBF() + ConstantKernel(-0.5), low, high) is None
    True
    """
    found = _variance(kernel, low, high)
    return None if found is None or not 0 < found < math.inf else found * ROUND_UP


def _variance(kernel: Any, low: FloatArray, high: FloatArray) -> float | None:
    kind, own = _kind(kernel), kernel.get_params(deep=False)
    if kind is None:
        return None
    parts = [_variance(own[name], low, high) for name in ("k1", "k2", "kernel") if name in own]
    numbers = [np.asarray(own[name], dtype=float) for name in own if not _is_part(name, own)]
    if any(part is None for part in parts) or not all(np.all(np.isfinite(n)) for n in numbers):
        return None
    variances = [part for part in parts if part is not None]
    if kind == "Sum":
        return math.fsum(variances)
    if kind == "Product":
        return math.prod(variances)
    if kind == "Exponentiation":
        power = float(own["exponent"])
        return variances[0] ** power if power.is_integer() and power >= 1 else None
    if kind == "DotProduct":
        far = np.maximum(np.abs(low), np.abs(high))
        return float(own["sigma_0"]) ** 2 + float(far @ far)
    if kind in ("ConstantKernel", "WhiteKernel"):
        level = float(own.get("constant_value", own.get("noise_level")))
        return level if level >= 0 else None
    if kind == "ExpSineSquared" and len(low) > 1:
        return None
    shapes = [own[name] for name in ("length_scale", "periodicity", "alpha", "nu") if name in own]
    return 1.0 if all(np.all(np.asarray(value) > 0) for value in shapes) else None


def _is_part(name: str, own: Mapping[str, Any]) -> bool:
    """Whether a parameter is a kernel, or says nothing about the covariance."""
    infinite = name == "nu" and own[name] == math.inf
    return name in ("k1", "k2", "kernel") or name.endswith("_bounds") or infinite


# -- inducing points -------------------------------------------------------------------------


def inducing_points(n_columns: int, n_points: int | None) -> FloatArray:
    """Public points in [-1, 1]^d: a grid in one or two dimensions, a Sobol set beyond.

    Examples
    --------
    >>> from ndis.mechanisms.kernels import inducing_points
    >>> inducing_points(1, 3).tolist()
    [[-1.0], [0.0], [1.0]]
    >>> inducing_points(2, None).shape
    (49, 2)
    """
    given = _POINTS[min(n_columns, 3) - 1] if n_points is None else n_points
    m = _validate.count("n_inducing", given, least=2)
    if m > _MOST_POINTS:
        raise ValueError(
            f"Expected n_inducing of at most {_MOST_POINTS}, got {m}; a release has as many "
            "numbers as its square."
        )
    if n_columns == 1:
        return np.linspace(-1.0, 1.0, m)[:, None]
    if n_columns == 2:
        side = np.linspace(-1.0, 1.0, max(2, math.isqrt(m)))
        return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    from scipy.stats import qmc

    sobol = qmc.Sobol(n_columns, scramble=False).random_base2((m - 1).bit_length())
    return np.asarray(2.0 * sobol[:m] - 1.0)


def kernel_moments(kernel: Any, columns: Columns, n_points: int | None) -> KernelMoments:
    """The features K^{-1/2} k_U(x) of a kernel at public points U, in integers.

    Their norm is at most sqrt(k(x, x)), whatever x is, so that of a kernel with k(x, x) = 1 at most
    one. Factors of the kernel do not matter: the process' amplitude is estimated.
    """
    while _kind(kernel) == "Product" and "ConstantKernel" in map(_kind, (kernel.k1, kernel.k2)):
        kernel = kernel.k2 if _kind(kernel.k1) == "ConstantKernel" else kernel.k1
    nu = math.inf if _kind(kernel) == "RBF" else getattr(kernel, "nu", None)
    if _kind(kernel) not in ("RBF", "Matern") or nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(
            "Expected RBF or Matern with nu = 0.5, 1.5 or 2.5 for inducing points, got "
            f'{described(kernel)}; take one of them, or method="posterior".'
        )
    d = len(columns.names)
    length = np.broadcast_to(_validate.floats("length_scale", kernel.length_scale), (d,))
    if not np.all(length > 0):
        raise ValueError(
            f"Expected a length_scale > 0, got {described(kernel)}; pass a positive one."
        )
    half = 0.5 * (columns.high - columns.low)
    points = np.round(inducing_points(d, n_points) * (columns.scale * half))
    factors = 1.0 / (columns.scale * length)
    away = ((points[:, None, :] - points[None, :, :]) * factors) ** 2
    values, vectors = np.linalg.eigh(kernel_of_squares(np, away.sum(axis=-1), float(nu)))
    kept = values > _CUT * values[-1]
    weights = vectors[:, kept] / np.sqrt(values[kept])
    # Sums of products with kernel values of at most 2^20 are integers below 2^53.
    bits = math.floor(52.0 - math.log2(GRID_NORM * np.abs(weights).sum(axis=0).max()))
    return KernelMoments(points, np.round(weights * 2.0**bits), bits, factors, float(nu))
