"""Delta of one release with spherical noise by another route: around the centre of P.

Radii, and for each the angles with a loss above epsilon. Below the radius (t - epsilon)/2 all
angles count; above, where they begin moves like the root of what is left, so that roots are the
variable. Every integral is a Gauss rule of the same size, in doubles or in mpmath.
"""

import functools
import itertools
import math
from typing import Any

import mpmath
import numpy as np

Setting = tuple[int, float, float]

PANELS, SIZES, DIGITS = 4, (16, 24, 32, 48, 72, 108, 162), 25


def random_settings(count: int, seed: int) -> list[Setting]:
    """Dimensions, distances in noise scales and epsilons."""
    rng = np.random.default_rng(seed)
    dimensions = rng.choice([2, 3, 4, 5, 7, 10, 20, 30], count)
    distances = np.exp(rng.uniform(-3.0, 2.0, count))
    return [
        (int(m), float(t), float(t * share))
        for m, t, share in zip(dimensions, distances, rng.uniform(0.0, 0.97, count), strict=True)
    ]


def in_doubles(setting: Setting, size: int = 100) -> float:
    """Delta, to about 1e-13 with enough nodes."""
    m, t, epsilon = setting
    nodes, weights = np.polynomial.legendre.leggauss(size)
    first = 0.5 * (t - epsilon)
    half = 0.5 * _last_root(m) / PANELS
    root = (half * nodes + half * (2.0 * np.arange(PANELS)[:, None] + 1.0)).reshape(-1)
    r = np.concatenate([0.5 * first * (nodes + 1.0), first + root**2])
    mass = np.concatenate([0.5 * first * weights, 2.0 * root * np.tile(half * weights, PANELS)])
    edge = (t**2 - epsilon**2 - 2.0 * r * epsilon) / (2.0 * r * t)
    start = np.arccos(np.minimum(edge, 1.0))[:, None]
    wide = 0.5 * (math.pi - start)
    theta = wide * nodes + 0.5 * (math.pi + start)
    far = np.sqrt(r[:, None] ** 2 + t**2 - 2.0 * r[:, None] * t * np.cos(theta))
    inside = np.sin(theta) ** (m - 2) * -np.expm1(epsilon - (far - r[:, None])) * wide
    density = np.exp((m - 1) * np.log(r) - r - math.lgamma(m)) * mass
    circle = math.sqrt(math.pi) * math.exp(math.lgamma(0.5 * (m - 1)) - math.lgamma(0.5 * m))
    return float(density @ (inside @ weights)) / circle


def in_mpmath(setting: Setting) -> Any:
    """Delta with about 20 digits: two sizes beyond that at which doubles have settled."""
    values = [in_doubles(setting, size) for size in SIZES]
    pairs = enumerate(itertools.pairwise(values))
    settled = next((i for i, pair in pairs if _near(*pair)), len(SIZES) - 3)
    with mpmath.workdps(DIGITS):
        return _quadrature(setting, SIZES[min(settled + 2, len(SIZES) - 1)])


def _near(one: float, two: float) -> bool:
    return abs(one / two - 1.0) < 1e-11


def _last_root(m: int) -> float:
    return math.sqrt(4.0 * m + 80.0)


@functools.cache
def _rule(size: int) -> tuple[list[Any], list[Any]]:
    """Gauss and Legendre: Newton's method from the nodes in doubles."""
    nodes, weights = [], []
    with mpmath.workdps(DIGITS + 10):
        for start in np.polynomial.legendre.leggauss(size)[0].tolist():
            x = mpmath.mpf(start)
            for _ in range(3):
                before, here = mpmath.mpf(1), x
                for n in range(2, size + 1):
                    before, here = here, ((2 * n - 1) * x * here - (n - 1) * before) / n
                slope = size * (x * here - before) / (x * x - 1)
                x -= here / slope
            nodes.append(x)
            weights.append(2 / ((1 - x * x) * slope**2))
    return nodes, weights


def _quadrature(setting: Setting, size: int) -> Any:
    m, t, epsilon = setting[0], mpmath.mpf(setting[1]), mpmath.mpf(setting[2])
    nodes, weights = _rule(size)
    first, half = (t - epsilon) / 2, mpmath.mpf(_last_root(m)) / (2 * PANELS)
    points = [(first * (x + 1) / 2, first * w / 2) for x, w in zip(nodes, weights, strict=True)]
    for panel in range(PANELS):
        for x, w in zip(nodes, weights, strict=True):
            root = half * (x + 2 * panel + 1)
            points.append((first + root**2, 2 * root * half * w))
    total = mpmath.mpf(0)
    for r, mass in points:
        edge = (t * t - epsilon**2 - 2 * r * epsilon) / (2 * r * t)
        start = mpmath.acos(min(edge, mpmath.mpf(1)))
        wide, middle = (mpmath.pi - start) / 2, (mpmath.pi + start) / 2
        square, twice, inside = r * r + t * t, 2 * r * t, mpmath.mpf(0)
        for x, w in zip(nodes, weights, strict=True):
            cosine, sine = mpmath.cos_sin(middle + wide * x)
            far = mpmath.sqrt(square - twice * cosine)
            inside += w * sine ** (m - 2) * (1 - mpmath.exp(epsilon + r - far))
        total += mass * wide * inside * r ** (m - 1) * mpmath.exp(-r)
    circle = mpmath.sqrt(mpmath.pi) * mpmath.gamma(mpmath.mpf(m - 1) / 2) / mpmath.gamma(m / 2.0)
    return total / (circle * mpmath.gamma(m))
