"""Functions of real normals, correctly rounded.

Few numbers that depend on noise in any way: coefficients of a regression, for instance. They are
computed in ball arithmetic, with more digits of the normals until their rounding is decided, so
that the ideal output is post-processed only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction

import flint
import numpy as np
from flint import arb

from ndis import _validate
from ndis._validate import FloatArray
from ndis.randomness.listening import audible
from ndis.randomness.noise import Exact, exact_rest, grid_spacing, joined, parts_of, split
from ndis.randomness.reals import NORMAL, Reals, ball

Balls = list[list[arb]]


class Normals:
    """Real normals as balls, by so many digits."""

    def __init__(self, reals: Reals, bits: int) -> None:
        self._reals, self._bits = reals, bits

    def __getitem__(self, index: int) -> arb:
        """One of them."""
        return ball(self._reals.floor(index, self._bits), self._bits)

    def energy(self, start: int, stop: int) -> arb:
        """The sum of the squares of some of them, in integers."""
        odd = [2 * self._reals.floor(i, self._bits) + 1 for i in range(start, stop)]
        error = 2 * sum(map(abs, odd)) + len(odd)
        return arb(sum(m * m for m in odd), error) * arb(2) ** (-2 * self._bits - 2)


def draw_exactly(
    compute: Callable[[Normals], Sequence[arb]],
    n_normals: int,
    scale: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Compute a function of real normals, correctly rounded to the grid of `scale`.

    Parameters
    ----------
    compute : callable
        Takes the normals, whose items are balls of python-flint, and returns balls that hold the
        outputs, the smaller the higher `flint.ctx.prec` is. It is called again with more precision
        as long as a rounding is open.
    n_normals : int
        How many normals.
    scale : float
        The grid is that of noise of this public scale.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of one dimension

    Examples
    --------
    >>> from ndis.randomness import draw_exactly, generator
    >>> draw_exactly(lambda z: [z[0] / (1 + z[1] ** 2)], 2, 1.0, generator()).shape
    (1,)
    """
    spacing = grid_spacing(scale)
    steps = _steps(lambda z: [y / spacing for y in compute(z)], n_normals, rng)
    return joined([np.zeros(steps.size)], steps, spacing)


def _steps(
    compute: Callable[[Normals], Sequence[arb]], n_normals: int, rng: np.random.Generator
) -> FloatArray:
    """The integers nearest to a function of real normals."""
    reals = NORMAL.draw(n_normals, rng)
    for bits in (NORMAL.bits, *(2**k for k in range(7, 15))):
        with flint.ctx.workprec(2 * bits):
            steps = [(y + arb(0.5)).floor().unique_fmpz() for y in compute(Normals(reals, bits))]
        known = [float(int(step)) for step in steps if step is not None]
        if len(known) == len(steps):
            return np.array(known)
    raise ArithmeticError("Expected balls that shrink as the precision grows, got others.")


@audible
def add_spherical_noise(values: Exact, scale: float, rng: np.random.Generator) -> FloatArray:
    """Return `values` plus noise of density e^{-|n|/scale} over all of them, correctly rounded.

    A direction is a vector of normals over its length, and |n|/scale of M numbers has the gamma law
    of order M: half the sum of 2M squared normals.

    Parameters
    ----------
    values : array_like, or pairs of integers
        As in `add_noise`; the norm is over all entries.
    scale : float
        Public. Each number's noise has the standard deviation scale sqrt(M + 1).
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of the shape of `values`
        Multiples of `grid_spacing(scale)`, or the doubles nearest to them.

    Examples
    --------
    >>> from ndis.randomness import add_spherical_noise, generator
    >>> add_spherical_noise([10.0, 20.0], scale=0.5, rng=generator()).shape
    (2,)
    """
    parts, spacing = parts_of(values), grid_spacing(scale)
    flat = [part.reshape(-1) for part in parts]
    bases, _ = split(flat, spacing)
    rests = [exact_rest(flat, bases, i, spacing) for i in range(flat[0].size)]
    m = len(rests)

    def compute(z: Normals) -> list[arb]:
        length = z.energy(m, 3 * m) * (arb(scale) / (2 * spacing)) / z.energy(0, m).sqrt()
        return [_exactly(rest) + length * z[i] for i, rest in enumerate(rests)]

    steps = _steps(compute, 3 * m, rng)
    return joined(bases, steps, spacing).reshape(parts[0].shape)


def _exactly(rest: Fraction) -> arb:
    """A fraction as a ball; dyadic, hence exact but for a last bit that the ball holds."""
    return arb(rest.numerator) / rest.denominator


@audible
def draw_limit(
    moments: Exact, ridge: float, n_components: int, scale: float, rng: np.random.Generator
) -> FloatArray:
    """Draw coefficients from the limit law of sketch-and-solve, correctly rounded.

    That is N(x, |e|^2 (B^T B)^-1/n_components), where x and e are the solution and the residuals of
    least squares on the table [B, b] whose Gram matrix is moments + ridge I, the label last.

    Parameters
    ----------
    moments : array_like of shape (d + 1, d + 1), or pairs of integers
        The Gram matrix without its ridge, exact (see `add_noise`). Its lower triangle is read.
    ridge : float
        Public.
    n_components : int
        The rows of the sketch.
    scale : float
        The grid is that of noise of this public scale.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of shape (d,)

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import draw_limit, generator
    >>> draw_limit(np.eye(3), 1.0, 100, 0.01, generator()).shape
    (2,)
    """
    count = _validate.count("n_components", n_components)
    parts = parts_of(moments)
    d = len(parts[0]) - 1

    def compute(z: Normals) -> list[arb]:
        factor = _cholesky(parts, ridge)
        size = factor[d][d] / arb(count).sqrt()
        return _solve_transposed(factor, [factor[d][k] + size * z[k] for k in range(d)])

    return draw_exactly(compute, d, scale, rng)


@audible
def draw_solution(
    moments: Exact, ridge: float, n_components: int, scale: float, rng: np.random.Generator
) -> FloatArray:
    """Draw the least-squares solution of a sketch, correctly rounded; the sketch is never made.

    A sketch of n_components Gaussian combinations of the rows of [B, b], whose Gram matrix is
    A = moments + ridge I = L L^T, has the second moments L T T^T L^T with Bartlett's T: lower
    triangular, T_ij normal, T_ii^2 chi-square with n_components - i degrees of freedom. Its
    solution is x + |e| L_B^-T T_B^-T t, where t is the last row of T.

    Parameters and result are those of `draw_limit`; n_components is at least the number of
    coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import draw_solution, generator
    >>> draw_solution(np.eye(3), 1.0, 100, 0.01, generator()).shape
    (2,)
    """
    parts = parts_of(moments)
    d = len(parts[0]) - 1
    count = _validate.count("n_components", n_components, d)
    below = d * (d - 1) // 2

    def compute(z: Normals) -> list[arb]:
        bartlett = [[z[d + i * (i - 1) // 2 + j] for j in range(i)] for i in range(d)]
        start = d + below
        for i in range(d):
            bartlett[i].append(z.energy(start, start + count - i).sqrt())
            start += count - i
        factor = _cholesky(parts, ridge)
        noise = _solve_transposed(bartlett, [z[k] for k in range(d)])
        return _solve_transposed(factor, [factor[d][k] + factor[d][d] * noise[k] for k in range(d)])

    return draw_exactly(compute, d + below + d * count - below, scale, rng)


def _cholesky(parts: list[FloatArray], ridge: float) -> Balls:
    """The lower triangular factor of the sum of the parts and a ridge."""
    rows, factor = [part.tolist() for part in parts], list[list[arb]]()
    for i in range(len(parts[0])):
        line = list[arb]()
        factor.append(line)
        for j in range(i + 1):
            left = sum((arb(row[i][j]) for row in rows), arb(ridge if i == j else 0.0))
            left -= sum(map(operator.mul, line, factor[j]), arb(0))
            line.append(left.sqrt() if i == j else left / factor[j][j])
    return factor


def _solve_transposed(factor: Balls, right: list[arb]) -> list[arb]:
    """Solve L^T x = right for the leading part of L that fits."""
    found = list(right)
    for k in reversed(range(len(found))):
        found[k] = found[k] / factor[k][k]
        for j in range(k):
            found[j] -= factor[k][j] * found[k]
    return found
