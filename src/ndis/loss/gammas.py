"""Delta of equal directions without a shift, in closed form: incomplete gamma functions.

Let P be wider than Q by 1 + z in n = 2a directions, and Y half a chi-square of n degrees. Then
L > t just where Y exceeds y = (t + a ln(1+z))/z under P, and y' = (1+z) y under Q. With

    F_a(y) = integral over s > 0 of e^(-ys) (1+s)^(a-1),      Pr[Y > y] = C F_a(y),
    M_a(y) = integral over 0 < s < 1 of e^(ys) (1-s)^(a-1),   Pr[Y <= y] = C M_a(y),

C = y^a e^-y / Gamma(a), which is e^t times as large at y' as at y,

    delta = C (F_a(y) - F_a(y')),   1 - delta = C (M_a(y) + F_a(y')),

and, for the reversed pair at -t, the same with M_a(y') - M_a(y) and e^-t C. Integrated by parts,

    F_{a+1}(y) = (1 + a F_a(y))/y,   M_a(y) = (1 + y M_{a+1}(y))/a,

and the differences obey recurrences of their own. Every term is positive: nothing cancels.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from ndis._validate import FloatArray
from ndis.loss import certified
from ndis.loss.contour import ACCURATE, log1pmx

# More steps than these cost as much as a contour: for many losses at once, and for one.
MOST, FEW = 2000, 40
# Losses looked at together: what stays in cache.
_CHUNK = 1 << 12
# F_a(y) is a sum of weights over y + nodes for a = 1 and, from a y on that is far enough from the
# poles, for a = 1/2: the integral over v of e^(-v^2)/(y + v^2), over the root of pi.
_STEP = 0.05
_V = _STEP * (np.arange(122) + 0.5)
_SUMS = {
    1.0: [(0.0, 1.0)],
    0.5: list(zip(_V**2, 2.0 * _STEP / math.sqrt(math.pi) * np.exp(-(_V**2)), strict=True)),
}
_LEAST = 0.1


def log_delta(a: float, z: FloatArray, t: FloatArray, wide: bool) -> FloatArray:
    """Ln delta(t) where P is the wider law, or else the narrower; NaN where that is not accurate.

    2a is a whole number up to 2 `MOST`.
    """
    if t.size > _CHUNK:
        pieces = [slice(i, i + _CHUNK) for i in range(0, t.size, _CHUNK)]
        return np.concatenate([log_delta(a, z[p], t[p], wide) for p in pieces])
    logs = a * np.log1p(z)
    y = (logs + t if wide else logs - t) / z
    y = np.where(y > 0.0, y, np.nan)
    with certified.precision(128):
        order = arb(a)
        constant = float(order.lgamma() - order * order.log() + order)
    scale = a * log1pmx((y - a) / a) - (constant if wide else constant - t)
    # What rounding does to y, which may be a small difference, and y to everything else: at most
    # twelve roundings.
    size = np.maximum((logs + np.abs(t)) / z, a)
    noise = 12.0 * 2.0**-53 * (4.0 + (np.abs(y - a) + math.sqrt(a)) * size / y)
    first, second = (_above, _below) if wide else (_below, _above)
    part, difference = first(a, y, z)
    value = scale + np.log(difference)
    common = np.flatnonzero(~(value < -0.5))
    if common.size:  # one less a small number, which has digits
        rest = part[common] + second(a, y[common], z[common])[0]
        rest = np.exp(scale[common] + np.log(rest))
        value[common] = np.log1p(-np.where(rest < 0.5, rest, np.nan))
    # Delta is not 0 anywhere here: minus infinity is what rounding has made of next to nothing.
    known = np.isfinite(value) & (noise <= np.where(value > -700.0, ACCURATE, -1e-12 * value))
    return np.where(known, value, np.nan)


def _above(a: float, y: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F_a(y') and F_a(y) - F_a(y'), upwards from a = 1 or 1/2."""
    order = a - math.ceil(a) + 1.0
    y = y if order == 1.0 else np.where(y > _LEAST, y, np.nan)
    far, share = y * (1.0 + z), z / (1.0 + z)
    part, difference = np.zeros(y.size), np.zeros(y.size)
    for node, weight in _SUMS[order]:
        term = weight / (far + node)
        part += term
        difference += term / (y + node)
    difference *= z * y
    inverse, far_inverse = 1.0 / y, 1.0 / far
    while order < a:
        part *= order
        part += 1.0
        difference *= order
        difference += share * part
        difference *= inverse
        part *= far_inverse
        order += 1.0
    return part, difference


def _below(a: float, y: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """M_a(y) and M_a(y') - M_a(y), downwards from where they no longer count."""
    apart, most = y * z, 2.0 * a + 50.0  # what lies beyond is seldom asked for, and takes long
    y, far = (np.where(x < most, x, np.nan) for x in (y, y + apart))
    orders = a + np.arange(5.0 * a + 200.0)
    largest = np.fmax.reduce(np.fmax(y, far), initial=1.0)
    counts = np.cumsum(np.log(largest / orders)) > -45.0
    part, difference = np.zeros(y.size), np.zeros(y.size)
    for order in orders[counts][::-1]:
        difference *= far
        difference += apart * part
        difference /= order
        part *= y
        part += 1.0
        part /= order
    return part, difference
