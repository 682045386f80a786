"""What the graph and the covariance sketch share: how many components, and how queries are asked.

A sketch estimates a quadratic form a > 0 by a chi2_r / r, exactly. So r components keep all
relative errors below eta with probability 1 - nu where the chi-square law says so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from scipy.stats import chi2

from ndis import _validate

CALIBRATIONS = ("exact", "published")

_P = ParamSpec("_P")
_T = TypeVar("_T")


def published_components(eta: float, nu: float) -> int:
    """The paper's number of components, 8 ln(2/nu) / eta^2, rounded up.

    Examples
    --------
    >>> from ndis.mechanisms.johnson_lindenstrauss import published_components
    >>> published_components(0.2, 0.05)
    738
    """
    eta, nu = _accuracy(eta, nu)
    return math.ceil(8.0 * math.log(2.0 / nu) / eta**2)


def least_components(eta: float, nu: float) -> int:
    """The least number of components whose relative error exceeds eta with probability <= nu.

    Examples
    --------
    >>> from ndis.mechanisms.johnson_lindenstrauss import least_components
    >>> least_components(0.2, 0.05)
    191
    """
    eta, nu = _accuracy(eta, nu)
    low, high = 0, 1
    while failure(eta, high) > nu:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failure(eta, middle) > nu else (low, middle)
    return high


def failure(eta: float, n_components: int) -> float:
    """The probability that a sketch misses a quadratic form by more than a share eta of it.

    Examples
    --------
    >>> from ndis.mechanisms.johnson_lindenstrauss import failure
    >>> f"{failure(0.2, 738):.1e}"
    '1.6e-04'
    """
    law = chi2(n_components)
    return float(law.cdf(n_components * (1.0 - eta)) + law.sf(n_components * (1.0 + eta)))


def components(n_components: int | None, eta: float | None, nu: float | None) -> int:
    """The number of components, given as such or as the published one for (eta, nu)."""
    if n_components is not None and eta is None and nu is None:
        return _validate.count("n_components", n_components)
    if n_components is None and eta is not None and nu is not None:
        return published_components(eta, nu)
    raise ValueError(
        f"Expected either n_components or both eta and nu, got n_components={n_components}, "
        f"eta={eta} and nu={nu}; pass one or the other."
    )


def asks_sketch(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Let an estimator answer what its fitted `sketch_` answers."""

    @functools.wraps(method)
    def ask(estimator: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not hasattr(estimator, "sketch_"):
            raise ValueError(
                f"Expected a fitted {type(estimator).__name__}, got one that has released nothing; "
                "call fit first."
            )
        return method(estimator.sketch_, *args, **kwargs)

    return ask


def _accuracy(eta: float, nu: float) -> tuple[float, float]:
    return _validate.probability("eta", eta), _validate.probability("nu", nu)
