"""Many equal releases at once: the k-fold sum of a table's losses by one transform.

Losses are tilted by e^{sl} and normalised, so that the transform's values are at most 1 and its
rounding error, times k, bounds that of the k-th power. The window of losses that is kept is shorter
than all sums: what lies beyond is folded into it, which only adds mass, and is counted beside it by
Chernoff's bound. Each tilt gives an upper bound everywhere, and so does the least of several.
docs/proofs/pld.md has the proof.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray

# ln of what lies beyond either end of the window.
_CUT = -60.0
_ORDERS = np.geomspace(1e-4, 1e5, 181)
# More than rounding of logarithms can do, and of Chernoff's bounds.
_MARGIN, _LOOSE = 1e-12, 1e-3
_EPS = float(np.finfo(np.float64).eps)
# ln of the tail that a tilt is to be sharp for.
_RARE = -27.0
# ln of a value of the spectrum that does not count, as a power k - 1.
_UNSEEN = -80.0
# The longest window.
MOST = 1 << 22


def power(
    points: FloatArray, places: FloatArray, logs: FloatArray, step: float, times: int
) -> tuple[int, FloatArray, float, float] | None:
    """The law of the sum of so many losses.

    Parameters
    ----------
    points, places, logs : ndarray of shape (n,)
        Losses, their places on the grid, and ln of their mass.
    step : float
        Of the grid.
    times : int

    Returns
    -------
    start, mass, above, below
        The first place; masses that are nowhere too small; P's mass above and Q's below. None where
        the window would be too long.
    """

    def cumulants(orders: FloatArray) -> FloatArray:
        terms = logs + orders[:, None] * points
        top = terms.max(axis=1)
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))

    s = _ORDERS
    ahead, back, under_q = (times * cumulants(order) for order in (s, -s, -1.0 - s))
    high = min(float(((ahead - _CUT) / s).min()), times * float(points[-1]))
    low = max(float(((_CUT - under_q) / s).max()), times * float(points[0]))
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    if not last - first < MOST:
        return None
    # Orders that look at P's tail, both bodies, and Q's tail.
    orders = np.array([_sharp(s, ahead), 0.0, -1.0, -1.0 - _sharp(s, under_q)])
    widest, longest = float(np.abs(points).max()), step * max(abs(first), abs(last))
    window = np.arange(first, last + 1)
    found = np.full(window.size, np.inf)
    for order, size in zip(orders.tolist(), cumulants(orders).tolist(), strict=True):
        tilted = logs + order * points - size
        sums = _tilted(tilted, places, window, times)
        # Exponents are rounded: k times those of one loss, and those of the sum.
        far = times * (abs(order) * widest + abs(size) + float(np.abs(logs).max()))
        doubt = 8.0 * _EPS * (far + abs(order) * longest)
        sums += times * size + doubt
        if order:
            sums -= (order * step) * window
        np.minimum(found, sums, out=found)
    mass = np.exp(found + _MARGIN)
    above = math.exp(min(float((ahead - s * (step * last)).min()), 0.0) + _LOOSE)
    below = math.exp(min(float((under_q + s * (step * first)).min()), 0.0) + _LOOSE)
    # P's mass below is moved up onto the first point.
    mass[0] += math.exp(min(float((back + s * (step * first)).min()), 0.0) + _LOOSE)
    whole = last >= times * places[-1], first <= times * places[0]
    return first, mass, 0.0 if whole[0] else above, 0.0 if whole[1] else below


def _sharp(orders: FloatArray, values: FloatArray) -> float:
    """The order at which Chernoff's bound is about e^-27: k (Lambda - s Lambda')."""
    slopes = np.gradient(values, orders)
    rare = values - orders * slopes <= _RARE
    return float(orders[int(np.argmax(rare)) if rare.any() else -1])


def _tilted(
    logs: FloatArray, places: FloatArray, window: NDArray[np.int_], times: int
) -> FloatArray:
    """Upper bounds on ln of the masses of the sum, for masses that add up to 1."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(window.size, real=True)
    masses = np.bincount(np.mod(places, size).astype(np.intp), np.exp(logs), size)
    spectrum = rfft(masses)
    unit, norm = 16.0 * _EPS * math.log2(size), math.sqrt(float((masses**2).sum()))
    largest = np.abs(spectrum) + unit * math.sqrt(size) * norm
    # Powers below e^-80 are left out: that is what all of them together add to an entry at most.
    seen = np.flatnonzero(largest > math.exp(_UNSEEN / (times - 1)))
    base, largest = spectrum[seen], largest[seen]
    total, left = None, times
    while left:
        if left & 1:
            total = base if total is None else total * base
        left >>= 1
        if left:
            base = base * base
    spectrum[:] = 0.0
    spectrum[seen] = total
    found = irfft(spectrum, size)
    # Errors of the transform, k times; of the powers, 4k roundings; of the inverse: all relative
    # to `length`, a bound on the Euclidean norm of the (k-1)-fold sum.
    squares = 2.0 * float((largest ** (2.0 * (times - 1))).sum()) / size
    length = math.sqrt(squares + math.exp(2.0 * _UNSEEN)) * (1.0 + 1e-6)
    error = length * (unit * (times * norm + 1.0) + 4.0 * times * _EPS) + math.exp(_UNSEEN)
    found = np.roll(found, -(int(window[0]) % size))[: window.size]
    result: FloatArray = np.log(np.maximum(found, 0.0) + error)
    return result
