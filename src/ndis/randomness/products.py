"""Noise that is multiplied, correctly rounded.

A sketch of a table has columns N(0, G + ridge I), G its Gram matrix. Computed in doubles as a
factor times normals, the ridge can drown in the rounding errors of G. Here the columns follow
that law exactly, and are rounded once, to a public grid. The idea: any factor F of nearly
G + ridge I will do, because what F F^T lacks is made up for by further noise,

    G + ridge I = F F^T + c^2 (I - X),    c^2 X = F F^T - G - (ridge - c^2) I,
    column      = F Z + c (I - X)^(1/2) Z',

and X, a matrix of rounding errors, can be had exactly. Doubles tell most roundings. Those that they
leave open are decided with integers and, in the last resort, in ball arithmetic.
docs/proofs/rounding.md has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import flint
import numpy as np
from flint import arb, arb_mat, fmpq
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.randomness.generators import subsample_mask
from ndis.randomness.listening import audible
from ndis.randomness.noise import (
    Exact,
    exact_rest,
    grid_spacing,
    joined,
    parts_of,
    split,
    taken,
)
from ndis.randomness.reals import NORMAL, Reals, ball

# Columns are drawn in blocks of about this many normals.
_BLOCK = 2**21
_EPS = 2.0**-53
# Integers of 53 bits are cut into three slices of 18, whose products doubles add up exactly.
_SLICE = 18
# Rows and columns of a block of the matrix X: beside whole matrices it takes little memory.
_ROWS = 64
# The series for (I - X)^(1/2) is cut where the rest is at most 2 to minus this.
_SERIES_BITS = 60
# If more roundings than this share would be left open, doubles take X into account.
_SHARE = 2.0**-16


@audible
def draw_sketch(
    gram: Exact,
    ridge: float,
    n_components: int,
    rng: np.random.Generator,
    *,
    least: float = 0.0,
) -> FloatArray:
    """Draw independent columns N(0, gram + ridge I), correctly rounded.

    Parameters
    ----------
    gram : array_like of shape (d, d), or pairs of integers
        A symmetric matrix, taken as exact (see `add_noise`). Its lower triangle is read.
    ridge : float
        The public variance of the noise.
    n_components : int
        How many columns.
    rng : numpy.random.Generator
        From `generator`.
    least : float
        A public number that no eigenvalue of the matrix is below. With it, the ridge may be 0.

    Returns
    -------
    ndarray of float64, of shape (d, n_components)
        The multiples of `grid_spacing(sqrt(ridge + least))` nearest to a real draw.

    Raises
    ------
    ValueError
        If the matrix is so large beside the ridge that doubles cannot factorise it. With
        ridge + least >= `least_ridge(trace, d)` this never happens.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import draw_sketch, generator
    >>> draw_sketch(np.ones((2, 2)), 4.0, 3, generator()).shape
    (2, 3)
    """
    ridge = _validate.non_negative("ridge", ridge)
    lowest = _validate.positive("ridge + least", ridge + _validate.non_negative("least", least))
    columns = _Root(gram, ridge, lowest)
    return columns.draw(n_components, grid_spacing(math.sqrt(lowest)), rng)


@audible
def draw_sampled_sketch(
    sampled: Callable[[Callable[[int], Any]], Exact],
    rate: float,
    ridge: float,
    n_components: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw a sketch of a secret Poisson sample of rows: see `draw_sketch` and `subsample_mask`.

    Parameters
    ----------
    sampled : callable
        The Gram matrix of some rows; it is given a function that maps a number n to indices of
        those of the next n rows that count.
    rate : float
        The probability with which each row is in the sample.
    ridge, n_components, rng
        As in `draw_sketch`.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import draw_sampled_sketch, generator
    >>> rows = np.ones((9, 2))
    >>> def gram(chosen):
    ...     some = rows[chosen(len(rows))]
    ...     return some.T @ some
    >>> draw_sampled_sketch(gram, 0.5, 4.0, 3, generator()).shape
    (2, 3)
    """
    gram = sampled(lambda n_rows: np.flatnonzero(subsample_mask(n_rows, rate, rng)))
    columns = _Root(gram, _validate.positive("ridge", ridge), ridge)
    return columns.draw(n_components, grid_spacing(math.sqrt(ridge)), rng)


@audible
def draw_gaussian(
    mean: ArrayLike, cov: ArrayLike, noise_scale: float, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Draw independent vectors N(mean, cov + noise_scale^2 I), correctly rounded.

    Parameters
    ----------
    mean : array_like of shape (d,)
        Taken as exact.
    cov : array_like of shape (d, d)
        Taken as exact; see `draw_sketch`, also for what is raised.
    noise_scale : float
        The public standard deviation of the noise, whose square is rounded up.
    n_draws : int
        How many vectors.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of shape (n_draws, d)

    Examples
    --------
    >>> from ndis.randomness import draw_gaussian, generator
    >>> draw_gaussian([1.0, 2.0], [[4.0, 0.0], [0.0, 0.0]], 0.1, 3, generator()).shape
    (3, 2)
    """
    scale = _validate.positive("noise_scale", noise_scale)
    ridge = scale**2 * (1.0 + 2.0**-50)
    columns = _Root(cov, ridge, ridge)
    return columns.draw(n_draws, grid_spacing(scale), rng, _validate.floats("mean", mean)).T


@audible
def draw_combinations(
    factor: Any, noise_scale: float, n_components: int, rng: np.random.Generator
) -> FloatArray:
    """Draw independent columns N(0, factor factor^T + noise_scale^2 I), correctly rounded.

    Parameters
    ----------
    factor : ndarray or scipy.sparse array, of shape (d, k)
        Taken as exact.
    noise_scale : float
        The public standard deviation of the noise.
    n_components : int
        How many columns.
    rng : numpy.random.Generator
        From `generator`.

    Returns
    -------
    ndarray of float64, of shape (d, n_components)

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.randomness import draw_combinations, generator
    >>> draw_combinations(np.ones((2, 5)), 4.0, 3, generator()).shape
    (2, 3)
    """
    scale = _validate.positive("noise_scale", noise_scale)
    return _Columns(factor, scale).draw(n_components, grid_spacing(scale), rng)


def least_ridge(trace: float, dimension: int) -> float:
    """Return a ridge with which every positive semi-definite matrix of this trace can be drawn.

    Parameters
    ----------
    trace : float
        A public bound: the cap on rows times the squared bound on a row's norm.
    dimension : int
        The number of columns of the table.

    Returns
    -------
    float

    Examples
    --------
    >>> from ndis.randomness import least_ridge
    >>> f"{least_ridge(2.0**40, 100):.2f}"
    '0.20'
    """
    d = _validate.count("dimension", dimension)
    share = (d + 4) * 2.0**-49 * (1.0 + 2.0**-10)
    # The ridge itself adds to the trace of what is factorised.
    return _validate.positive("trace", trace) * share / (1.0 - d * share)


class _Columns:
    """Columns factor Z + noise Z', of real normals Z and Z', and how they are rounded.

    Parameters
    ----------
    factor : array of shape (d, k), dense or sparse
    noise : float
    unit : float
        A power of two: what is released is this times the columns.
    """

    def __init__(self, factor: Any, noise: float, unit: float = 1.0) -> None:
        self.factor, self.noise, self.unit = factor, noise, unit
        norms = np.sqrt(_squares(factor))
        # In doubles an entry is off by at most this, for its row, times the size of its column: as
        # many roundings as the row has terms, and a few more.
        by_row = getattr(factor, "format", None) == "csr"
        terms = np.diff(factor.indptr) if by_row else factor.shape[1]
        self.errors = 1.01 * _EPS * (terms + 12) * (norms + noise)

    def draw(
        self,
        n_columns: int,
        spacing: float,
        rng: np.random.Generator,
        center: FloatArray | None = None,
    ) -> FloatArray:
        """Draw columns around a centre, on the grid of this spacing."""
        d, k = self.factor.shape
        centers = [np.zeros((d, 1)) if center is None else center.reshape(d, 1)]
        bases, rest = split(centers, spacing)
        step = spacing / self.unit
        columns = np.empty((d, _validate.count("n_columns", n_columns)))
        width = max(1, _BLOCK // (d + k))
        for start in range(0, n_columns, width):
            part = columns[:, start : start + width]
            reals = NORMAL.draw((k + d) * part.shape[1], rng)
            values, errors = self.approximate(reals.doubles().reshape(k + d, -1))
            values /= step
            values += rest
            nearest = np.rint(values)
            values -= nearest
            for i, j in np.argwhere(np.abs(values) > 0.5 - 2.0**-45 - errors / step).tolist():
                offset = exact_rest(centers, bases, (i, 0), spacing)
                nearest[i, j] = self._nearest(i, _Column(reals, j, part.shape[1]), offset, step)
            part[:] = joined(bases, nearest, spacing)
        return columns

    def approximate(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The columns in doubles, and a bound on how far off they are."""
        k = self.factor.shape[1]
        first, second = z[:k], z[k:]
        sizes = np.linalg.norm(first, axis=0) + np.linalg.norm(second, axis=0) + math.sqrt(k) + 1.0
        return self.factor @ first + self.noise * second, np.outer(self.errors, sizes)

    def enclose(self, i: int, column: _Column, bits: int) -> arb:
        """Hold entry i of a column, by so many digits of its normals."""
        floors, k = column.floors(bits), self.factor.shape[1]
        return _dot(self.factor[[i]], floors[:k], bits) + arb(self.noise) * ball(
            floors[k + i], bits
        )

    def _nearest(self, i: int, column: _Column, offset: Fraction, step: float) -> int:
        """The integer nearest to offset + entry/step, by as many digits as it takes."""
        bits = NORMAL.bits
        while True:
            with flint.ctx.workprec(bits + 256):
                place = self.enclose(i, column, bits) / step
                place += fmpq(offset.numerator, offset.denominator) + arb(0.5)
                whole = place.floor().unique_fmpz()
            if whole is not None:
                return int(whole)
            bits += 64


class _Root(_Columns):
    """Columns N(0, gram + ridge I), by the factorisation at the top of this file.

    No eigenvalue of gram + ridge I is below `lowest`, and c^2 is nearly half of it.
    """

    def __init__(self, gram: Exact, ridge: float, lowest: float) -> None:
        # A unit between c and 2 c, so that c has 26 bits and its square is a double.
        unit = math.ldexp(1.0, math.frexp(math.sqrt(lowest / 2.0))[1])
        noise = math.floor(math.sqrt(lowest / 2.0) / unit * 2.0**26 - 0.5) * 2.0**-26
        self.square = noise**2
        self.ridge = ridge / unit**2
        self.gram: Any = gram if hasattr(gram, "high") else np.asarray(gram)
        self.unit = unit
        super().__init__(self._factor(), noise, unit)
        self._correct()

    def _parts(self, rows: slice, columns: slice) -> list[FloatArray]:
        """A block of the matrix as exact parts, in units; on the diagonal its lower half counts."""
        parts = [part / self.unit**2 for part in parts_of(taken(self.gram, (rows, columns)))]
        if rows != columns:
            return parts
        return [np.tril(part) + np.tril(part, -1).T for part in parts]

    def _factor(self) -> FloatArray:
        """Factorise nearly gram + (ridge - c^2) I in integers of 53 bits times a power of two."""
        from scipy.linalg.lapack import dpotrf

        d = len(self.gram.high if hasattr(self.gram, "high") else self.gram)
        matrix = np.zeros((d, d)).T  # of which the lower half counts
        for rows, columns in _blocks(d):
            matrix[rows, columns] = sum(self._parts(rows, columns))
        np.einsum("ii->i", matrix)[:] += self.ridge - self.square
        # What numpy.linalg.cholesky says, which would hold two more.
        factor, failed = dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            raise _too_large()
        self.exponent = math.frexp(max(float(factor.max()), -float(factor.min())))[1] - 53
        np.rint(np.ldexp(factor, -self.exponent, out=factor), out=factor)
        return np.asarray(np.ldexp(factor, self.exponent, out=factor))

    def _correct(self) -> None:
        """Find the correction I - (I - X)^(1/2), by its power series, and how well it is known."""
        d, X = len(self.factor), self._residual()
        X /= self.square
        size = float(np.linalg.norm(X)) * (1.0 + 2.0**-40)
        largest = float(np.max(_squares(self.factor)))
        missed = 2.0 * _EPS * size + d * 2.0**-98 * largest / self.square
        self.theta = size + missed
        if not self.theta <= 0.5:
            raise _too_large()
        coefficients = _coefficients(self.theta, _SERIES_BITS)
        self.doubt = missed + 2.0**-_SERIES_BITS
        if len(coefficients) > 1:
            self.correction = np.empty((d, d))
            for start in range(0, d, _ROWS):  # powers of X by rows
                power = X[start : start + _ROWS]
                total = 0.5 * power
                for coefficient in coefficients[1:]:
                    power = power @ X
                    total += float(coefficient) * power
                self.correction[start : start + _ROWS] = total
            self.doubt += (d + 4) * _EPS * self.theta**2 + 2.0**-46 * self.theta
        else:
            X *= 0.5
            self.correction = X
        rows = 1.01 * np.sqrt(_squares(self.correction)) + self.doubt
        # A step of the grid is at least c/2^9. Leave the correction out if few roundings need it.
        self.corrects = float(np.max(rows)) * 4.0 * math.sqrt(d) * 2.0**9 > _SHARE
        if self.corrects:
            rows = self.doubt + (d + 12) * _EPS * (1.0 + rows)
        self.errors += self.noise * rows

    def _residual(self) -> FloatArray:
        """F F^T - gram - (ridge - c^2) I, up to 2^-53 of itself and 2^-98 of F F^T."""
        d = len(self.factor)
        residual = np.empty((d, d))
        for rows, columns in _blocks(d):
            high, low = np.zeros((2, rows.stop - rows.start, columns.stop - columns.start))
            for term in self._terms(rows, columns):
                total = high + term
                moved = total - high
                low += (high - (total - moved)) + (term - moved)
                high = total
            high += low
            residual[rows, columns], residual[columns, rows] = high, high.T
        return residual

    def _slices(self, rows: slice, stop: int) -> list[FloatArray]:
        """Some rows of the factor as three integers of 18 bits, the leading one first."""
        slices, rest = [], np.ldexp(self.factor[rows, :stop], -self.exponent)
        for shift in (2 * _SLICE, _SLICE, 0):
            slices.append(np.rint(np.ldexp(rest, -shift)))
            rest = rest - np.ldexp(slices[-1], shift)
        return slices

    def _terms(self, rows: slice, columns: slice) -> Iterator[FloatArray]:
        """Matrices whose sum is a block of the residual; each is exact."""
        stop = columns.stop  # F is lower triangular
        left, right = self._slices(rows, stop), self._slices(columns, stop)
        for weight in range(5):
            products = sum(left[k] @ right[weight - k].T for k in range(3) if 0 <= weight - k < 3)
            yield np.ldexp(products, 2 * self.exponent + _SLICE * (4 - weight))
        for part in self._parts(rows, columns):
            yield -part
        if rows == columns:
            yield -self.ridge * np.eye(rows.stop - rows.start)
            yield self.square * np.eye(rows.stop - rows.start)

    def approximate(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, errors = super().approximate(z)
        if self.corrects:
            values -= self.noise * (self.correction @ z[len(self.factor) :])
        return values, errors

    def enclose(self, i: int, column: _Column, bits: int) -> arb:
        if bits > NORMAL.bits:
            return self._enclose_exactly(i, column, bits)
        second = column.floors(bits)[len(self.factor) :]
        size = float(np.linalg.norm(np.array(second, dtype=np.float64))) * 2.0**-bits + 1.0
        missing = _dot(self.correction[[i]], second, bits) + arb(0, self.doubt * size)
        return super().enclose(i, column, bits) - self.noise * missing

    def _enclose_exactly(self, i: int, column: _Column, bits: int) -> arb:
        """Apply the power series to the normals: X times a vector takes no product of matrices."""
        d, floors = len(self.factor), column.floors(bits)
        coefficients = _coefficients(self.theta, bits)
        # Each product with X loses as many bits as F F^T has more than X.
        lost = 64 + 2 * math.ceil(math.log2(float(np.linalg.norm(self.factor)) + 2.0))
        with flint.ctx.workprec(bits + 64 + lost * len(coefficients)):
            middles = [arb(2 * f + 1) * arb(2) ** (-bits - 1) for f in floors]
            first, total = (arb_mat(d, 1, part) for part in (middles[:d], middles[d:]))
            size = sum((z * z for z in middles[d:]), arb(0)).sqrt()
            power, (factor, matrix) = total, self._balls
            for coefficient in coefficients:
                power = (factor * (factor.transpose() * power) - matrix * power) / self.square
                total -= power * arb(fmpq(coefficient.numerator, coefficient.denominator))
            row = arb_mat(1, d, self.factor[i].tolist())
            unknown = size + float(np.sum(np.abs(self.factor[i]))) + 2.0 * math.sqrt(d)
            known = (row * first)[0, 0] + self.noise * total[i, 0]
            return known + arb(0, 1) * unknown * arb(2) ** -bits

    @functools.cached_property
    def _balls(self) -> tuple[arb_mat, arb_mat]:
        """F, and gram + (ridge - c^2) I, as exact balls."""
        d = len(self.factor)
        gram = self._parts(slice(0, d), slice(0, d))
        terms = (self.factor, *gram, self.ridge * np.eye(d), -self.square * np.eye(d))
        factor, *parts = (arb_mat(d, d, term.reshape(-1).tolist()) for term in terms)
        with flint.ctx.workprec(4096):
            return factor, sum(parts, arb_mat(d, d))


class _Column(NamedTuple):
    """The normals of one column, among those of a block."""

    reals: Reals
    start: int
    width: int

    def floors(self, bits: int) -> list[int]:
        """Bounds on the normals from so many of their digits."""
        if bits == self.reals.bits:
            return list(self.reals.floors[self.start :: self.width].tolist())
        places = range(self.start, self.reals.floors.size, self.width)
        return [self.reals.floor(place, bits) for place in places]


def _blocks(d: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the blocks of the lower half of a matrix."""
    strips = [slice(start, min(start + _ROWS, d)) for start in range(0, d, _ROWS)]
    for index, rows in enumerate(strips):
        for columns in strips[: index + 1]:
            yield rows, columns


def _squares(matrix: Any) -> FloatArray:
    """Sums of squares of the rows of a matrix, dense or sparse."""
    if not isinstance(matrix, np.ndarray):
        return np.asarray((matrix * matrix).sum(axis=1)).reshape(-1)
    strips = (matrix[start : start + _ROWS] for start in range(0, len(matrix), _ROWS))
    return np.concatenate([np.sum(strip * strip, axis=1) for strip in strips])


def _dot(row: Any, floors: list[int], bits: int) -> arb:
    """Hold the product of a row of doubles, dense or sparse, with normals."""
    where = row.nonzero()[-1]
    mantissa, exponent = np.frexp(np.asarray(row[[0] * where.size, where]).reshape(-1))
    least = int(np.min(exponent, initial=0))
    integers = np.ldexp(mantissa, 53).astype(np.int64).tolist()
    weights = [m << e - least for m, e in zip(integers, exponent.tolist(), strict=True)]
    middle = sum(w * (2 * floors[k] + 1) for w, k in zip(weights, where.tolist(), strict=True))
    return arb(middle, sum(map(abs, weights))) * arb(2) ** (least - 53 - bits - 1)


def _coefficients(theta: float, bits: int) -> list[Fraction]:
    """The first coefficients of 1 - (1 - x)^(1/2): the others sum to 2^-bits if |x| <= theta."""
    found = [Fraction(1, 2)]
    # From x^(k+1) on they sum to at most theta^(k+1)/4 for theta <= 1/2.
    while (len(found) + 1) * math.log2(theta) > -bits:
        k = len(found)
        found.append(found[-1] * Fraction(2 * k - 1, 2 * k + 2))
    return found


def _too_large() -> ValueError:
    return ValueError(
        "Expected a matrix that doubles can factorise beside the ridge, got one too large; lower "
        "max_rows or the bounds on the data, or raise the noise to least_ridge."
    )
