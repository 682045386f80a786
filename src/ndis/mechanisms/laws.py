"""Which law of noise, and in which coordinates: the least variance for so many planned releases.

These laws are compared, each calibrated so that all planned releases meet (epsilon, delta):

* the Gaussian, whose squared shifts add up: best for many releases, or many numbers;
* spherical Laplace noise, density e^{-|n|/scale}: best for few releases of few numbers;
* independent Laplace noise, where one record moves the numbers by a bounded sum of absolute values.
  A record may split it over several numbers, and for that only delta = 0 is proven: its loss is the
  worst of all with that largest value;
* discrete Laplace noise, where answers are whole numbers and stay so: less variance than Laplace
  noise, and exact for counts of which one record changes one by one.

`of_group` knows the coordinates for a count, a count and a mean, or these and a standard deviation:
one record adds (1, t) or (1, t, t^2), |t| <= 1, to one group's sums. docs/proofs/laws.md has the
proofs, docs/noise.md the figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, least_noise, noise_multiplier
from ndis.guarantee import NeighbourRelation
from ndis.loss import (
    DiscreteLaplaceLoss,
    PrivacyLoss,
    Profile,
    QuadraticLoss,
    SphericalLoss,
    TabulatedLoss,
)
from ndis.mechanisms.target import Target

LAWS = ("gaussian", "spherical", "laplace", "discrete laplace")
# Above so many numbers spherical noise is hardly better, and takes long to draw.
_MOST_NUMBERS = 10_000
# What rounding of an ellipsoid's axes can do, and more.
_INSIDE = 1.0 - 1e-12
# Of a mixture of normal laws.
_NODES = 1000


@dataclass(frozen=True)
class NoiseLaw:
    """A law and its scale.

    Attributes
    ----------
    law : str
        One of `LAWS`.
    scale : float
        What the drawing function is given.
    deviation : float
        The standard deviation of each number's noise.
    loss : PrivacyLoss
        The worst case of one release.
    """

    law: str
    scale: float
    deviation: float
    loss: PrivacyLoss


def deviation_of(law: str, scale: float, n_numbers: int) -> float:
    """The standard deviation of a number's noise, from the law's scale.

    Examples
    --------
    >>> from ndis.mechanisms.laws import deviation_of
    >>> f"{deviation_of('laplace', 1.0, 1):.4f} {deviation_of('discrete laplace', 1.0, 1):.4f}"
    '1.4142 1.3570'
    """
    if law == "discrete laplace":
        return math.sqrt(0.5) / math.sinh(0.5 / scale)
    return scale * _PER_SCALE[law](n_numbers)


def scale_of(law: str, deviation: float, n_numbers: int) -> float:
    """The law's scale, from the standard deviation of a number's noise."""
    if law == "discrete laplace":
        return 0.5 / math.asinh(math.sqrt(0.5) / deviation)
    return deviation / _PER_SCALE[law](n_numbers)


def reach_of(law: str, level: float, deviation: float, n_numbers: int) -> float:
    """How far a number's noise goes with this probability, in standard deviations of it.

    A number of spherical noise is sqrt(2 G) times a normal one, G of a gamma law of (n+1)/2.

    Examples
    --------
    >>> from ndis.mechanisms.laws import reach_of
    >>> [round(reach_of(law, 0.95, 1.0, 3), 3) for law in ("gaussian", "spherical", "laplace")]
    [1.96, 2.057, 2.118]
    """
    tail = 1.0 - level
    if law == "gaussian":
        return -float(ndtri(0.5 * tail))
    if law == "laplace":
        return -math.log(tail) / math.sqrt(2.0)
    if law == "discrete laplace":
        ratio = math.exp(-1.0 / scale_of(law, deviation, n_numbers))
        steps = math.log(0.5 * tail * (1.0 + ratio)) / math.log(ratio) - 1.0
        return max(math.ceil(steps), 0) / deviation
    from scipy.optimize import brentq

    shape = 0.5 * (n_numbers + 1)
    away = np.linspace(-40.0, 8.0, _NODES) / math.sqrt(shape)  # ln G, about ln of its mean
    weights = np.exp(shape * (away - np.expm1(away)))
    weights /= weights.sum()
    spread = np.exp(0.5 * away)
    return float(
        brentq(lambda t: 2.0 * weights @ ndtr(-t / spread) - tail, 0.0, 1 - math.log(tail))
    )


# Standard deviations in units of the scale.
_PER_SCALE: dict[str, Callable[[int], float]] = {
    "gaussian": lambda n: 1.0,
    "spherical": lambda n: math.sqrt(n + 1.0),
    "laplace": lambda n: math.sqrt(2.0),
}


def pure_loss(epsilon: float) -> TabulatedLoss:
    """The worst of all losses between -epsilon and epsilon: a truth told with odds e^epsilon.

    It is rounded up. The pair is its own reverse but for that rounding.

    Examples
    --------
    >>> from ndis.mechanisms.laws import pure_loss
    >>> f"{pure_loss(1.0).epsilon(0.0):g} {pure_loss(1.0).delta(0.0):.4f}"
    '1 0.4621'
    """
    largest = epsilon * ROUND_UP
    lie = math.exp(-largest) / (1.0 + math.exp(-largest))
    return TabulatedLoss(largest, -1, [lie, 0.0, (1.0 - lie) * ROUND_UP])


def loss_of(law: str, distance: float, n_numbers: int, steps: int = 1) -> PrivacyLoss:
    """The worst case of one release that moves by `distance` scales of its law, rounded up.

    Whole numbers move by so many `steps`.
    """
    away = distance * ROUND_UP
    if law == "gaussian":
        return Profile.both(QuadraticLoss.from_shift(away))
    if law == "spherical" or (law == "laplace" and n_numbers == 1):
        return SphericalLoss(away, n_numbers)
    if law == "discrete laplace" and (n_numbers == 1 or steps == 1):
        return DiscreteLaplaceLoss(away, steps)
    return pure_loss(away)


@functools.lru_cache(maxsize=1024)
def least_scale(
    law: str, n_numbers: int, n_releases: int, steps: int, epsilon: float, delta: float
) -> float:
    """The least scale at which `n_releases` that each move by 1 meet (epsilon, delta).

    Whole numbers move by 1 in so many `steps`.

    Examples
    --------
    >>> from ndis.mechanisms.laws import least_scale
    >>> f"{least_scale('spherical', 3, 1, 1, 1.0, 1e-6):.4f}"
    '0.9984'
    """
    unit = noise_multiplier(epsilon, delta)
    if law == "gaussian":
        return unit * math.sqrt(n_releases) * ROUND_UP
    # Where delta buys nothing the largest losses add up; elsewhere it is like the Gaussian.
    like = "laplace" if law == "discrete laplace" else law
    start = scale_of(like, unit * math.sqrt(n_releases), n_numbers)
    if epsilon > 0:
        start = min(start, n_releases / epsilon)
    family = partial(_together, law, n_numbers, n_releases, steps)
    return least_noise(family, epsilon, delta, start=start)


def candidates(
    target: Target,
    sensitivity: float,
    sum_sensitivity: float | None,
    n_numbers: int,
    n_releases: int = 1,
    laws: Iterable[str] = LAWS,
    integers: bool = False,
) -> dict[str, NoiseLaw]:
    """Each law at its least noise, the least variance first.

    Parameters
    ----------
    target : Target
        What all releases together are to meet.
    sensitivity : float
        How far one record moves the numbers, Euclidean norm.
    sum_sensitivity : float, optional
        How far by the sum of absolute values; Laplace noise is a candidate where it is known.
    n_numbers, n_releases : int
    laws : iterable of str
        Those to compare.
    integers : bool
        Whether the numbers are whole: discrete Laplace noise is a candidate only then.

    Examples
    --------
    >>> from ndis.mechanisms.target import Target
    >>> from ndis.mechanisms.laws import candidates
    >>> found = candidates(Target(1.0, 1e-6), 1.0, None, 5)
    >>> {law: f"{noise.deviation:.2f}" for law, noise in found.items()}
    {'spherical': '2.42', 'gaussian': '4.22'}
    """
    known = tuple(laws)
    if n_numbers == 1 and sum_sensitivity is not None and "laplace" in known:
        known = tuple(law for law in known if law != "spherical")  # the same law
    found = []
    for law in known:
        moved = sum_sensitivity if "laplace" in law else sensitivity
        if moved is None or (law == "spherical" and n_numbers > _MOST_NUMBERS):
            continue
        whole = law == "discrete laplace"
        if whole and not integers:
            continue
        steps = math.floor(moved) if whole else 1
        if not steps:
            continue  # whole numbers that move by less than 1 do not move
        moved = float(steps) if whole else moved
        scale = target.least(
            partial(least_scale, law, n_numbers, n_releases, steps),
            partial(_together, law, n_numbers, n_releases, steps),
        )
        scale *= moved * ROUND_UP
        deviation = deviation_of(law, scale, n_numbers)
        found.append(NoiseLaw(law, scale, deviation, loss_of(law, moved / scale, n_numbers, steps)))
    return {noise.law: noise for noise in sorted(found, key=lambda noise: noise.deviation)}


def _together(law: str, n_numbers: int, n_releases: int, steps: int, scale: float) -> PrivacyLoss:
    """All releases, each moving by 1."""
    total: PrivacyLoss = n_releases * loss_of(law, 1.0 / scale, n_numbers, steps)
    return total


# -- whole numbers --------------------------------------------------------------------------------

# Beyond this scale noise on whole numbers is like noise on real ones, to 1e-15 and better.
_LIKE_REAL = 50.0
# Steps of a grid in a standard deviation; and how many numbers' noise adds up to a normal one.
_FINE, _MANY = 200.0, 64
# Below this one any other number than the right one has a chance of e^-100.
_SURE = 0.01


def whole_chances(scale: float, n_numbers: int = 1) -> FloatArray:
    """How likely it is that a whole number is off by 0, by 1, by -1 too, by 2, ...

    Of discrete Laplace noise, or of three numbers that add up to a whole one and have Laplace noise
    that keeps that (`add_counted_laplace_noise`): P(k) ~ (k^2 + 3 k s + 3 s^2) e^{-k/s}.

    Examples
    --------
    >>> from ndis.mechanisms.laws import whole_chances
    >>> [f"{chance:.4f}" for chance in whole_chances(0.2, 3)[:3]]
    ['0.8353', '0.0807', '0.0017']
    """
    scale = max(scale, _SURE)
    k = np.arange(60.0 * max(scale, 0.1))
    found = np.exp(-k / scale)
    if n_numbers == 3:
        found *= k * (k / scale + 3.0) / (3.0 * scale) + 1.0
    return np.asarray(found / (2.0 * found.sum() - found[0]))


def counted_variance(scale: float) -> float:
    """The variance of what these add up to; it may be as small as e^-100."""
    if scale > _LIKE_REAL:
        return 6.0 * scale**2
    chances = whole_chances(scale, 3)
    return 2.0 * float(chances @ np.arange(float(len(chances))) ** 2)


def counted_covariance(scale: float) -> FloatArray:
    """The covariance of three numbers' Laplace noise that keeps whole what they add up to.

    Examples
    --------
    >>> from ndis.mechanisms.laws import counted_covariance
    >>> found = counted_covariance(0.1)
    >>> f"{found[0, 0]:.5f}, {found[0, 1]:.5f}; of the count {found.sum():.5f}"
    '0.00906, -0.00386; of the count 0.00401'
    """
    if scale > _LIKE_REAL:
        return 2.0 * scale**2 * np.eye(3)
    chances = whole_chances(scale, 3)
    k, h = np.arange(float(len(chances))), 0.5 * scale
    count = counted_variance(scale)
    # The mean of all three squares, by how many numbers have the other sign: none, one, two.
    squares = (
        0.25 * k**4
        + 2.0 * h * (k**3 + 3.0 * h * k**2 + 6.0 * h**2 * k + 6.0 * h**3)
        + 6.0 * h**3 * (k + 3.0 * h)
        + 3.0 * h**2 * (k**2 + 4.0 * h * k + 10.0 * h**2)
    ) / (0.5 * (k**2 + 3.0 * scale * k + 3.0 * scale**2))
    each = (2.0 * float(chances @ squares) - float(chances[0] * squares[0])) / 3.0
    between = (count / 3.0 - each) / 2.0
    return np.asarray(np.full((3, 3), between) + (each - between) * np.eye(3))


def all_beyond(scale: float) -> float:
    """How likely three such numbers' noise is nowhere negative, a lower bound to 1e-12.

    Examples
    --------
    >>> from ndis.mechanisms.laws import all_beyond
    >>> f"{all_beyond(1.0):.4f} {all_beyond(100.0):.4f}"
    '0.1245 0.1250'
    """
    k, s = np.arange(60.0 * max(scale, 0.1)), max(scale, _SURE)
    inside = k**2 / (k**2 + 3.0 * k * s + 3.0 * s**2)
    return float(whole_chances(scale, 3) @ inside) * (1.0 - 1e-12)


def whole_reach(parts: Sequence[tuple[FloatArray, float, int]], level: float) -> float:
    """How far a weighted sum of whole numbers' noise goes with at least this probability.

    Parameters
    ----------
    parts : sequence of (ndarray, float, int)
        The chances of a whole number's noise, what it is multiplied with, and how many independent
        ones there are.
    level : float

    Examples
    --------
    >>> from ndis.mechanisms.laws import whole_chances, whole_reach
    >>> chances = whole_chances(0.2, 3)
    >>> [round(whole_reach([(chances, 1.0, n)], 0.95), 9) for n in (1, 2, 20)]
    [1.0, 1.0, 4.0]
    """
    if math.fsum(times * (1.0 - chances[0]) for chances, _, times in parts) <= 1.0 - level:
        return 0.0  # all of them are likely enough to be right
    squares = [
        times * (weight * np.arange(float(len(chances)))) ** 2 @ (2.0 * chances)
        for chances, weight, times in parts
    ]
    deviation = math.sqrt(math.fsum(squares))
    largest = float(parts[int(np.argmax(squares))][1])
    # On a grid that the largest part lies on; sums of many small ones are as good as normal.
    step = largest / max(math.ceil(_FINE * largest / deviation), 1)
    size = 1 << math.ceil(math.log2(40.0 * deviation / step + 64.0))
    frequencies = np.arange(size // 2 + 1) * (2.0 * math.pi / size)
    total = np.ones(len(frequencies))
    for square, (chances, weight, times) in zip(squares, parts, strict=True):
        if times > _MANY and len(parts) > 1:
            total *= np.exp(-0.5 * square / step**2 * frequencies**2)
            continue
        places = np.rint(weight / step * np.arange(len(chances))).astype(np.int64)
        one = np.bincount(places % size, 2.0 * chances, size)
        one[0] -= chances[0]
        total *= np.fft.rfft(one).real ** times
    law = np.fft.irfft(total, size)
    held = np.cumsum(law[: size // 2]) * 2.0 - law[0]
    off = 0.5 * (len(parts) - 1)  # of other parts, which lie between places of the grid
    return float(step * (np.searchsorted(held, level - 1e-9) + off))


# -- groups ---------------------------------------------------------------------------------------

# One record adds these to its group's sums, |t| <= 1; and an ellipsoid x^T E^-1 x <= 1 around them.
_ASKED = {
    "count": ("1",),
    "count and mean": ("1", "t"),
    "count, mean and deviation": ("1", "t", "t^2"),
}
_ELLIPSOIDS = {
    1: np.eye(1),
    2: 2.0 * np.eye(2),
    3: np.array([[3.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]]),
}
# Coordinates that are never negative and add up to 1: of a segment, and Bernstein's of a parabola.
_CORNERS = {
    1: np.eye(1),
    2: 0.5 * np.array([[1.0, 1.0], [1.0, -1.0]]),
    3: 0.25 * np.array([[1.0, -2.0, 1.0], [2.0, 0.0, -2.0], [1.0, 2.0, 1.0]]),
}


@dataclass(frozen=True)
class GroupNoise:
    """Noise for the sums of one group.

    Attributes
    ----------
    noise : NoiseLaw
        Law and scale of the noise on the coordinates.
    coordinates : ndarray of shape (p, p)
        What is released: this matrix times the sums of (1, t) or (1, t, t^2).
    covariance : ndarray of shape (p, p)
        Of the noise on the sums that are read back.
    others : dict of str to ndarray
        The variances of the sums under the laws that were not chosen.
    """

    noise: NoiseLaw
    coordinates: FloatArray
    covariance: FloatArray
    others: dict[str, FloatArray]


def apart(n_numbers: int) -> float:
    """How far two records of one group are apart at most, in the coordinates of normal noise.

    For t and s in (1, t, t^2), u = s - t and w = s + t, the squared distance is u^2 (1 + 3 w^2)/2,
    where |u| + |w| <= 2; it is largest at w = 2 - u, u = (9 - sqrt(3))/6.

    Examples
    --------
    >>> from ndis.mechanisms.laws import apart
    >>> [f"{apart(n_numbers):.4f}" for n_numbers in (1, 2, 3)]
    ['0.0000', '1.4142', '1.4501']
    """
    far = (9.0 - math.sqrt(3.0)) / 6.0
    squares = {1: 0.0, 2: 2.0, 3: 0.5 * far**2 * (1.0 + 3.0 * (2.0 - far) ** 2)}
    return math.sqrt(squares[n_numbers]) * ROUND_UP


def of_group(
    asked: str,
    epsilon: float,
    delta: float,
    relation: NeighbourRelation | str = "add-remove",
    n_releases: int = 1,
    weights: Any = None,
) -> GroupNoise:
    """Law, coordinates and scale with the least variance for what is asked of each group.

    Under "replace" a record may leave one group and enter another, which is two releases for each,
    or move within one (`apart`); the noise is enough for both.

    Parameters
    ----------
    asked : {"count", "count and mean", "count, mean and deviation"}
    epsilon, delta : float
        What all releases together are to meet.
    relation : {"add-remove", "replace"}
    n_releases : int
        How many such releases are planned from the same people.
    weights : array_like of shape (p,), optional
        How much each sum's variance counts; alike if not given.

    Examples
    --------
    >>> from ndis.mechanisms.laws import of_group
    >>> found = of_group("count and mean", 0.5, 1e-6)
    >>> found.noise.law, found.covariance.diagonal().round(3).tolist()
    ('laplace', [16.0, 16.0])
    >>> {law: f"{variances[1]:.1f}" for law, variances in found.others.items()}
    {'spherical': '24.0', 'gaussian': '129.9'}
    """
    parts = _ASKED[_validate.one_of("asked", asked, _ASKED)]
    p, kind = len(parts), NeighbourRelation(_validate.one_of("relation", relation, _TWICE))
    times = _validate.count("n_releases", n_releases) * _TWICE[kind]
    counts = np.ones(p) if weights is None else _validate.floats("weights", weights, (p,))
    target, moved = Target(epsilon, delta), dict.fromkeys(LAWS, 1.0)
    if kind is NeighbourRelation.REPLACE:
        # Two normal shifts are one. Of two spherical ones the first alone must cover the move.
        moved["gaussian"] = max(1.0, apart(p) / math.sqrt(2.0) * ROUND_UP)
        moved["spherical"] = max(1.0, apart(p))
    known: dict[str, NoiseLaw] = {}
    for law in LAWS:
        if law != "spherical" or p > 1:  # of one number it is Laplace's
            known |= candidates(target, moved[law], 1.0, p, times, [law])
    found = {}
    for law, noise in sorted(known.items(), key=lambda each: each[1].deviation):
        if law == "laplace":
            forward = _CORNERS[p]
        else:
            values, vectors = np.linalg.eigh(_ELLIPSOIDS[p])
            # A little shorter, so that rounding leaves every row inside.
            forward = vectors @ np.diag(values**-0.5) @ vectors.T * _INSIDE
        back = np.linalg.inv(forward)
        found[law] = noise, forward, noise.deviation**2 * back @ back.T
    best = min(found, key=lambda law: float(counts @ found[law][2].diagonal()))
    others = {law: each[2].diagonal() for law, each in found.items() if law != best}
    return GroupNoise(*found[best], others)


_TWICE = {NeighbourRelation.ADD_REMOVE: 1, NeighbourRelation.REPLACE: 2}
