"""Tail integrals of quadratic cumulants, by steepest descent.

Every number this library reports about a Gaussian pair is one integral

    I = 1/(2 pi i) * integral over Re s = c of  exp(K(s) - s t) / prod_j (s - pole_j)  ds

with K the cumulant function of a quadratic form in normals and at most two simple poles:
the hockey-stick divergence has poles 0 and -1, a survival function has the pole 0, a
density has none. There is no difference of two distribution functions, hence no cancellation.

Around any real point c of the strip of convergence the exponent has the exact expansion

    K(c + w) - K(c) = K'(c) w + sum_i [ -1/2 n_i log1pmx(q_i w) + 1/2 g_i w^2 / (1 + q_i w) ]

with log1pmx(x) = ln(1 + x) - x: nothing but the triples (n_i, q_i, g_i) and two real numbers
K(c), K'(c) is needed, and no large quantities are subtracted. With c near the saddle point of
the whole exponent, the path

    w(u) = A (cosh u - 1) + i B sinh u

follows the steepest descent (B from the second derivative, A from the third), and the
trapezoidal rule in u converges exponentially. Three rules, each with half the step of the one
before, tell how fast, and hence how good the last one is; the size of what was added up tells
what rounding may have done. Where that is not good enough the caller is told so and turns to
`certified`; nothing is clipped.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.intp]

# What a value may be off by, what the rule may contribute to that, and the rule's first step in
# u with the number of halvings.
ACCURATE = 7e-13
_GOOD = 2e-13
_FIRST_STEP = 0.105
_HALVINGS = 5
# Fewer rows than these are few.
_FEW = 8
# Nodes are taken outward in blocks until a block ends with less than this, relatively; farther
# out than this the squares of what is added up are no doubles.
_NEGLIGIBLE = 1e-16
_FARTHEST = 340.0
# An integrand that grows to this many times what it was at the saddle point is on a wrong path.
_SWOLLEN = 1e3
# Phase steps above this are under-sampled.
_FASTEST = 3.5
# Below this |q s| a logarithm is taken less its linear part.
_SMALL = 0.25
# Above this sum of |n q| B the small-argument series of log1pmx is needed.
_MANY = 300.0
# Complex numbers held at once: a chunk that stays in cache.
CHUNK = 1 << 15


@dataclass(frozen=True)
class Local:
    """The exponent around a real point c: K(c) - c t, K'(c) - t and the triples (n, q, g).

    `noise` says how far rounding may have moved the exponent. `growth` is its coefficient of w at
    infinity where that is known without adding up, else NaN.
    """

    value: FloatArray
    slope: FloatArray
    noise: FloatArray
    n: FloatArray
    q: FloatArray
    g: FloatArray
    growth: FloatArray

    @property
    def second(self) -> FloatArray:
        """K''(c)."""
        result: FloatArray = (0.5 * self.n * self.q * self.q + self.g).sum(axis=-1)
        return result

    @property
    def third(self) -> FloatArray:
        """K'''(c)."""
        result: FloatArray = -(self.q * (self.n * self.q * self.q + 3.0 * self.g)).sum(axis=-1)
        return result

    def afar(self, w: FloatArray) -> BoolArray:
        """Where the linear parts of the triples, which cancel, are better left out."""
        size = np.abs(self.q)
        least = np.where(self.g > 0, size, np.inf).min(axis=-1)
        far: BoolArray = (w * size.max(axis=-1) > 50.0) & (w * least > 1.0)
        return far & np.isfinite(self.growth)

    def take(self, rows: IntArray) -> Local:
        """The chosen members of the batch."""
        parts = (self.value, self.slope, self.noise, self.n, self.q, self.g, self.growth)
        return Local(*(part[rows] for part in parts))


@dataclass(frozen=True)
class _Path:
    """The exponent around c, and the path w(u) = A (cosh u - 1) + i B sinh u from there."""

    local: Local
    c: FloatArray
    scale: FloatArray
    bend: FloatArray
    poles: tuple[float, ...]

    def take(self, rows: IntArray) -> _Path:
        """The chosen members of the batch."""
        c, scale, bend = self.c[rows], self.scale[rows], self.bend[rows]
        return _Path(self.local.take(rows), c, scale, bend, self.poles)


@dataclass(frozen=True)
class Cumulant:
    """A quadratic cumulant function K, whose terms are on the last axis; 0 is inside its strip.

    A term is a logarithm and a pull, and has two forms. Near 0, where what is linear comes first,
    and far from it, where the logarithm is all there is, neither loses digits:

        near s - n/2 log1pmx(q s) + g/2 s^2/(1 + q s)
        far s - n/2 ln(1 + q s) + s (pull + bent s)/(1 + q s)
    """

    n: FloatArray
    q: FloatArray
    g: FloatArray
    near: FloatArray
    far: FloatArray
    pull: FloatArray
    bent: FloatArray

    def strip(self) -> tuple[FloatArray, FloatArray]:
        """The open interval on which K is finite."""
        with np.errstate(divide="ignore", over="ignore"):  # the least doubles end it nowhere
            ends = -1.0 / self.q
        low = np.where(self.q > 0, ends, -np.inf).max(axis=-1, initial=-np.inf)
        return low, np.where(self.q < 0, ends, np.inf).min(axis=-1, initial=np.inf)

    def parts(self, s: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray, FloatArray]:
        """Where terms are near 0; and their linear parts, over s, their logarithms and pulls."""
        s = s[..., None]
        x = self.q * s
        near = np.abs(x) < _SMALL
        logs = -0.5 * self.n * np.where(near, log1pmx(x), np.log1p(x))
        pulls = s * np.where(near, 0.5 * self.g * s, self.pull + self.bent * s) / (1.0 + x)
        return near, np.where(near, self.near, self.far), logs, pulls

    def value(self, s: FloatArray) -> FloatArray:
        """K(s), +inf outside the strip."""
        low, high = self.strip()
        with np.errstate(all="ignore"):
            _, linear, logs, pulls = self.parts(s)
            value = linear.sum(axis=-1) * s + (logs + pulls).sum(axis=-1)
        return np.where((s > low) & (s < high), value, np.inf)

    def expand(self, c: FloatArray, t: FloatArray | float) -> Local:
        """The exponent K(s) - s t around s = c."""
        near, linear, logs, pulls = self.parts(c)
        s = c[..., None]
        inverse = 1.0 / (1.0 + self.q * s)
        drift = linear.sum(axis=-1) - t
        near_slopes = 0.5 * s * inverse * (self.n * self.q**2 + self.g * (1.0 + inverse))
        slopes = np.where(near, near_slopes, self.far_slopes(s, inverse))
        size = np.abs(linear).sum(axis=-1) + np.abs(t)
        # Far to the left of 0 a term is a sum of numbers that may nearly cancel, each rounded.
        parts = 0.5 * np.abs(self.n) * np.maximum(self.q, 0.0) + np.abs(self.pull) + self.bent
        lost = np.where(near, 0.0, np.maximum(-s, 0.0) * inverse * parts)
        noise = size * np.abs(c) + (np.abs(logs) + np.abs(pulls) + lost).sum(axis=-1)
        n, q, g = np.broadcast_arrays(self.n, self.q * inverse, self.g * inverse**3)
        only_logs = not (self.far.any() or self.bent.any())
        return Local(
            drift * c + (logs + pulls).sum(axis=-1),
            drift + slopes.sum(axis=-1),
            2.0**-52 * noise,
            n,
            q,
            g,
            np.where(only_logs, -t, np.nan),
        )

    def far_slopes(self, s: FloatArray, inverse: FloatArray) -> FloatArray:
        """The terms' derivatives, less `far`; `inverse` is 1/(1 + q s)."""
        turned = self.pull + self.bent * s * (2.0 + self.q * s)
        return inverse * (turned * inverse - 0.5 * self.n * self.q)

    def problem(self, t: FloatArray, poles: tuple[float, ...]) -> tuple[Problem, FloatArray]:
        """The integral to the right of its poles, and a guess at its saddle point."""
        low, high = self.strip()
        zero = np.zeros(t.size)
        problem = Problem(self, t, poles, zero if poles else zero + low, zero + high)
        drift, spread = problem.derivatives(zero)
        root = np.sqrt(drift * drift + 4.0 * len(poles) * spread)
        with np.errstate(all="ignore"):  # the side that is not taken may divide by zero
            start = np.where(
                drift > 0, 2.0 * len(poles) / (drift + root), (root - drift) / (2.0 * spread)
            )
        return problem, start / (1.0 + start / high)


@dataclass(frozen=True)
class Problem:
    """A batch of integrals of exp(K(s) - s t) over the poles.

    The contour crosses the real axis between `low` and `high`, whose ends are branch points, poles
    or infinity.
    """

    terms: Cumulant
    t: FloatArray
    poles: tuple[float, ...]
    low: FloatArray
    high: FloatArray

    @functools.cached_property
    def _rest(self) -> FloatArray:
        return np.asarray(self.terms.far.sum(axis=-1) - self.t)

    def derivatives(self, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """K'(c) - t and K''(c)."""
        s, terms = c[:, None], self.terms
        inverse = 1.0 / (1.0 + terms.q * s)
        curvature = 0.5 * terms.n * terms.q**2 + terms.g * inverse
        slope = self._rest + terms.far_slopes(s, inverse).sum(axis=-1)
        return slope, (curvature * inverse**2).sum(axis=-1)

    @property
    def growth(self) -> FloatArray:
        """The exponent's coefficient of s at infinity, NaN where a Gaussian part decides there."""
        q, bent = self.terms.q, self.terms.bent
        with np.errstate(all="ignore"):
            pulls = np.where(bent > 0, bent / q, 0.0).sum(axis=-1)
        return np.where(((q == 0) & (bent > 0)).any(axis=-1), np.nan, self._rest + pulls)


def log_integral(
    problem: Problem, start: FloatArray, accurate: float = ACCURATE
) -> tuple[FloatArray, BoolArray]:
    """Ln |I| and whether it is accurate: to so much, relatively, in I, and in ln I below e^-700.

    The sign of I is the sign of 1 / prod(c - pole_j) on the strip, known to the caller. What is
    not accurate may be anything, NaN included.
    """
    with np.errstate(all="ignore"):  # what overflows is not accurate, and is reported so
        value, error = _log_integral(problem, start)
        return value, error <= np.where(value > -700.0, accurate, -1.5 * accurate * value)


def _log_integral(problem: Problem, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    c, local, scale, bends = descent(problem, start)
    log_poles = np.zeros_like(c)
    for pole in problem.poles:
        log_poles -= np.log(np.abs(c - pole))
    log_sum = np.full(c.size, np.nan)
    error = np.full(c.size, np.inf)
    rows: IntArray = np.arange(c.size)
    for bend in bends:
        path = _Path(local, c, scale, bend * scale, problem.poles)
        found, off, sure = _trapezoid(path if rows.size == c.size else path.take(rows))
        sure |= np.abs(found - log_sum[rows]) < _GOOD  # two paths that agree
        log_sum[rows], error[rows] = found, np.where(sure, off, np.inf)
        rows = np.flatnonzero(~(error <= _GOOD))
        if rows.size == 0:
            break
    value = local.value + log_poles + log_sum
    return value, error + local.noise


def descent(
    problem: Problem, start: FloatArray
) -> tuple[FloatArray, Local, FloatArray, list[FloatArray]]:
    """The saddle point, the exponent there, the scale B, and slopes A/B of paths to try."""
    c = saddle_points(problem, start)
    local = problem.terms.expand(c, problem.t)
    second, third = local.second, local.third
    for pole in problem.poles:
        inverse = 1.0 / (c - pole)
        second = second + inverse * inverse
        third = third - 2.0 * inverse**3
    scale = 1.0 / np.sqrt(second)
    return c, local, scale, _bends(problem, local, scale, third * scale**3 / 3.0)


def _bends(
    problem: Problem, local: Local, scale: FloatArray, natural: FloatArray
) -> list[FloatArray]:
    """Slopes A/B of paths: the local steepest descent, then ones that suit infinity.

    Far out the exponent is `growth * w`, so the path must end up bending against its sign. Where
    the decay is algebraic (growth of order one) it had better do so from the start; where it is
    Gaussian the integrand is gone before that matters, and the path keeps within 45 degrees
    of the vertical. Any path gives the same integral: what is bounded here is how far it
    leans, never a result.
    """
    growth = problem.growth
    gaussian = np.isnan(growth)
    with np.errstate(all="ignore"):
        far = local.n * local.q + np.where(local.q == 0, 0.0, local.g / local.q)
    summed = local.slope + 0.5 * far.sum(axis=-1)  # short of the Gaussian part
    growth = scale * np.where(gaussian, summed, growth)
    steepest = np.where(gaussian, 0.85, 1.3)
    against = np.where(growth > 0, -1.0, 1.0)
    wanted = against * np.minimum(np.abs(natural) + 0.4 / (1.0 + 0.1 * growth * growth), steepest)
    opposed = natural * against < -0.05
    first = np.where(opposed, np.clip(natural, -0.9, 0.9), wanted)
    return [first, 0.45 * against, 0.85 * against, 0.15 * against]


def saddle_points(problem: Problem, start: FloatArray) -> FloatArray:
    """Where the exponent (poles included) is stationary on the real strip, roughly.

    The exponent is convex there and tends to +infinity at both ends, so its derivative has one
    root: Newton's method, kept inside a shrinking bracket. A few hundredths of the path's own
    scale are near enough; NaN where no root shows (the caller knows what that means).
    """
    low, high = problem.low, problem.high
    c = start
    for _ in range(120):
        slope, second = problem.derivatives(c)
        for pole in problem.poles:
            inverse = 1.0 / (c - pole)
            slope = slope - inverse
            second = second + inverse * inverse
        settled = slope * slope < 1e-2 * second
        if settled.all():
            return c
        # Newton's step in the variable 1/(high - c), in which the slope is nearly linear near a
        # branch point; in c itself where there is none.
        step = -slope / second
        proposal = c + step / (1.0 + step / (problem.high - c))
        rising = slope > 0
        low, high = np.where(rising, low, c), np.where(rising, c, high)
        inside = (proposal > low) & (proposal < high)
        if not inside.all():
            proposal = np.where(inside, proposal, _between(low, high, c, problem))
        c = np.where(settled, c, proposal)
    return np.where(settled, c, np.nan)


def _between(low: FloatArray, high: FloatArray, c: FloatArray, problem: Problem) -> FloatArray:
    """A point inside the bracket, geometrically nearer to an end that no iterate has reached."""
    middle = 0.5 * (low + high)
    middle = np.where(low == problem.low, low + 0.1 * (c - low), middle)
    middle = np.where(high == problem.high, high - 0.1 * (high - c), middle)
    outward = 4.0 * np.maximum(np.abs(c), 1e-3)
    middle = np.where(high == np.inf, c + outward, middle)
    return np.where(low == -np.inf, c - outward, middle)


def _trapezoid(path: _Path) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Ln of (1/pi) * integral of Im[exp(psi(u)) w'(u)] over u > 0, its relative error, if sure."""
    log_sum = np.full(path.c.size, np.nan)
    error = np.full(path.c.size, np.inf)
    sure = np.zeros(path.c.size, dtype=bool)
    rows: IntArray = np.arange(path.c.size)
    # Of few rows numpy's overhead counts and not the nodes: they begin where many would end.
    step = _FIRST_STEP if rows.size >= _FEW else 0.5 * _FIRST_STEP
    sums, gross, blurred = _sums(path, step, 1.0)
    # Of the nodes 1, 2, 3, ... every fourth and every second are rules of their own.
    coarsest = 0.5 * path.scale + sums[:, 3]
    coarse = coarsest + sums[:, 1]
    total = coarse + sums[:, 0] + sums[:, 2]
    earlier = np.abs(2.0 * coarsest / coarse - 1.0)
    for halving in range(_HALVINGS):
        if halving:
            sums, more_gross, blurred = _sums(path, step, 0.5)
            coarse, total, gross = total, total + sums.sum(axis=-1), gross + more_gross
            step *= 0.5
        later = np.abs(2.0 * coarse / total - 1.0)
        # The error falls like exp(-C / step): halving the step squares it, unless a small
        # part of the integrand converges more slowly, which the measured order betrays.
        order = np.minimum(np.maximum(np.log(later) / np.log(earlier) - 0.5, 1.0), 1.35)
        estimate = np.where(later < 1e-13, later, later**order) + blurred / total
        settled = (total > 0) & (estimate < _GOOD)
        if settled.any():
            kept, size = rows[settled], (path.scale + gross)[settled]
            log_sum[kept] = np.log(total[settled] * (step / np.pi))
            error[kept] = estimate[settled] + 1e-15 * size / total[settled]
            # An integral far from `scale`, what it is around a saddle point, may be an illusion of
            # a path that leaves the valley and of nodes too few to see it oscillate.
            sure[kept] = size < 50.0 * np.minimum(total, path.scale / step)[settled]
        go = np.flatnonzero(~settled & np.isfinite(total))
        if go.size == 0:
            break
        path, rows = path.take(go), rows[go]
        gross, total, earlier = gross[go], total[go], later[go]
    return log_sum, error, sure


def _sums(path: _Path, step: float, first: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of Im[exp(psi) w'] over the nodes u = step * (first + j), apart for each j mod 4.

    Also the sum of absolute values, and the part of it that oscillates too fast for these nodes
    (or, with first = 1/2, for these nodes and those between them). Nodes are taken outward in
    blocks, until a block ends with next to nothing; NaN where none does.
    """
    size, local = path.c.size, path.local
    block = 8 if size >= _FEW else 96
    total, gross = np.zeros((size, block)), np.zeros((size, block))
    blurred = np.zeros(size)
    fastest = _FASTEST / first
    rows: IntArray = np.arange(size)
    u: FloatArray = step * (first + np.arange(block, dtype=np.float64))
    many = bool(((local.n * np.abs(local.q)).sum(axis=-1) * path.scale > _MANY).any())
    curved = bool(local.g.any())
    while True:
        scale = path.scale
        value, angle = _integrand(path, u, many, curved)
        afar = np.flatnonzero(path.local.afar(scale * math.sinh(u[0])))
        if afar.size:
            value[afar], angle[afar] = _integrand(path.take(afar), u, many, curved, True)
        part = np.abs(value.imag)
        fast = np.abs(angle[:, 1:] - angle[:, :-1]) > fastest
        whole = rows.size == total.shape[0]
        total[... if whole else rows] += value.imag
        gross[... if whole else rows] += part
        if fast.any():
            blurred[rows] += (part[:, 1:] * fast).sum(axis=-1)
        live = np.abs(value[:, -2:]).max(axis=-1) > _NEGLIGIBLE * scale  # False where NaN
        if not live.any():
            break
        u = u + block * step
        far = u[-1] + np.log(np.maximum(scale, 1.0)) > _FARTHEST
        far |= np.abs(value[:, -1]) > _SWOLLEN * scale
        far &= live
        if far.any():
            total[rows[far]] = np.nan
            live &= ~far
            if not live.any():
                break
        if not live.all():
            keep = np.flatnonzero(live)
            rows, path = rows[keep], path.take(keep)
    return total.reshape((-1, block // 4, 4)).sum(axis=1), gross.sum(axis=-1), blurred


def _integrand(
    path: _Path, u: FloatArray, many: bool, curved: bool, afar: bool = False
) -> tuple[ComplexArray, FloatArray]:
    """exp(psi) w' over the poles at the nodes u, relative to its value at u = 0; and Im psi."""
    A, B, local = path.bend[:, None], path.scale[:, None], path.local
    slope = (local.growth if afar else local.slope)[:, None]
    sinh, cosh = np.sinh(u), np.cosh(u)
    x, y = A * (sinh * (sinh / (1.0 + cosh))), B * sinh  # cosh - 1 without cancellation
    w = np.empty(x.shape, dtype=np.complex128)
    w.real, w.imag = x, y
    psi = _without_linear(local, w) if afar else quadratic(local, w, many, curved)
    # e^psi by the tangent of half its angle: numpy has a fast tangent, and no fast sine.
    angle = psi.imag + slope * y
    tangent = np.tan(0.5 * angle)
    square = tangent * tangent
    size = np.exp(psi.real + slope * x) / (1.0 + square)
    value = psi  # in its place
    value.real, value.imag = size * (1.0 - square), 2.0 * size * tangent
    w.real, w.imag = A * sinh, B * cosh  # w is the velocity now
    value *= w
    if path.poles:
        below = np.ones_like(w)
        for pole in path.poles:
            inverse = (1.0 / (path.c - pole))[:, None]
            w.real, w.imag = 1.0 + inverse * x, inverse * y  # and now a factor below
            below *= w
        value /= below
    return value, angle


def quadratic(
    local: Local, w: ComplexArray, many: bool = True, curved: bool = True
) -> ComplexArray:
    """Sum of -1/2 n log1pmx(q w) + 1/2 g w^2 / (1 + q w) over the terms.

    With many rows one term is taken at a time; with few, as many as stay in cache.
    """
    terms = local.q.shape[-1]
    together = 1 if w.shape[0] >= _FEW else max(1, CHUNK // w.size)
    total = np.zeros_like(w)
    for first in range(0, terms, together):
        if together == 1:
            n, q, g = (part[:, first, None] for part in (local.n, local.q, local.g))
            total += _quadratic_terms(n, q, g, w, many, curved)
        else:
            part = slice(first, first + together)
            n, q, g = (array[:, None, part] for array in (local.n, local.q, local.g))
            total += _quadratic_terms(n, q, g, w[:, :, None], many, curved).sum(axis=-1)
    return total


def _quadratic_terms(
    n: FloatArray, q: FloatArray, g: FloatArray, w: ComplexArray, many: bool, curved: bool
) -> ComplexArray:
    """-1/2 n log1pmx(q w) + 1/2 g w^2 / (1 + q w), term by term."""
    qw = q * w
    result = complex_log1pmx(qw) if many else complex_log1p(qw) - qw
    result *= -0.5 * n
    if curved:
        result += (0.5 * g) * (w * w / (1.0 + qw))
    return result


def _without_linear(local: Local, w: ComplexArray) -> ComplexArray:
    """The same sum less its linear parts, (n q + g/q) w/2."""
    total = np.zeros_like(w)
    for n, q, g in zip(local.n.T, local.q.T, local.g.T, strict=True):
        qw = q[:, None] * w
        total -= (0.5 * n[:, None]) * complex_log1p(qw)
        if g.any():
            pull = np.where(g > 0, 0.5 * g / np.where(q == 0, 1.0, q), 0.0)
            total -= pull[:, None] * (w / (1.0 + qw))
    return total


def log1pmx(x: FloatArray) -> FloatArray:
    """ln(1 + x) - x for real x > -1, without cancellation near 0."""
    result: FloatArray = np.asarray(np.log1p(x) - x)
    small = np.abs(x) < 0.25
    if small.any():
        result = np.where(small, _log1pmx_series(np.where(small, x, 0.0)), result)
    return result


def complex_log1p(x: ComplexArray) -> ComplexArray:
    """ln(1 + x) for complex x off the cut, accurate in both parts near x = 0."""
    a, b = x.real, x.imag
    result = np.empty_like(x)
    result.real = 0.5 * np.log1p(a * (2.0 + a) + b * b)
    result.imag = np.arctan2(b, 1.0 + a)
    return result


def complex_log1pmx(x: ComplexArray) -> ComplexArray:
    """ln(1 + x) - x for complex x off the cut, without cancellation near 0."""
    result = complex_log1p(x) - x
    small = (np.abs(x.real) + np.abs(x.imag)) < 0.25
    if small.any():
        result[small] = _log1pmx_series(x[small])
    return result


def _log1pmx_series(x: NDArray) -> NDArray:  # type: ignore[type-arg]
    """ln(1+x) - x = 2 atanh(y) - x with y = x/(2+x), hence 2 (y^3/3 + y^5/5 + ...) - x y."""
    y = x / (2.0 + x)
    y2 = y * y
    tail = np.full_like(y, 1.0 / 25.0)
    for k in range(23, 1, -2):
        tail = tail * y2 + 1.0 / k
    return 2.0 * y * y2 * tail - x * y
