"""Sketches with other matrices than Gaussian ones: section V of the Johnson-Lindenstrauss paper.

A discrete matrix, of signs or sparse ones, cannot be private: what a row adds is seen in which
outputs are possible at all (`discrete_delta`). Continuous entries can. Uniform ones are certified
here for a column of zeros and ones: with K public rows of length h = sqrt(w/K) beside it, the worst
table is the empty one, so that the pair is

    Q: h (U_1 + ... + U_K)   and   P: the same and U_0,   U_i uniform in [-1, 1],

whose densities q and p are splines. Both are log-concave, so that on a cell [a, b] of x >= 0

    q'/q lies between its values at b and a, and p'/p likewise,

which bounds the loss ln(p/q) on the cell by its values at the ends and a little more. The splines
are evaluated in ball arithmetic. The proofs stand in docs/proofs/other-matrices.md.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from ndis.loss import Profile, QuadraticLoss, TabulatedLoss
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# Cells to a unit of x; bits beside those that the alternating sums of splines cancel, for each row.
_CELLS, _BITS, _BITS_A_ROW = 64, 96, 4
# More than sums of doubles round away.
_ROUND_UP = 1.0 + 1e-12


def discrete_delta(n_components: int, zero: float = 0.0) -> float:
    """What delta is at least, at every epsilon, for a matrix of discrete entries.

    Parameters
    ----------
    n_components : int
        r, rows of the matrix.
    zero : float
        The probability that an entry is 0.

    Examples
    --------
    Signs, and the sparse matrix of Achlioptas, two thirds of which are zeros:

    >>> from ndis_papers.other_matrices import discrete_delta
    >>> discrete_delta(1), f"{discrete_delta(20, 2 / 3):.4f}"
    (1.0, '0.9997')
    """
    never = _validate.non_negative("zero", zero) ** _validate.count("n_components", n_components)
    if never > 1.0:
        raise ValueError(f"Expected zero <= 1, got {zero}; pass a probability.")
    return 1.0 - never


def enumerated_delta(
    rest: Sequence[Fraction], row: Fraction, epsilon: float, entries: Mapping[int, Fraction]
) -> float:
    """Delta of one component of one column with and without a row, by listing all matrices.

    Parameters
    ----------
    rest : sequence of Fraction
        The other rows, public ones among them.
    row : Fraction
    epsilon : float
    entries : mapping of int to Fraction
        The law of an entry of the matrix.

    Examples
    --------
    Four public rows of 2 and signs: the parity of the sum tells whether a row of 1 is there.

    >>> from fractions import Fraction
    >>> from ndis_papers.other_matrices import enumerated_delta
    >>> signs = {-1: Fraction(1, 2), 1: Fraction(1, 2)}
    >>> enumerated_delta([Fraction(2)] * 4, Fraction(1), 10.0, signs)
    1.0
    """
    present, absent = _law([*rest, row], entries), _law(rest, entries)
    weight = math.exp(epsilon)
    return math.fsum(
        max(float(chance) - weight * float(absent.get(value, 0)), 0.0)
        for value, chance in present.items()
    )


def _law(rows: Sequence[Fraction], entries: Mapping[int, Fraction]) -> dict[Fraction, Fraction]:
    """The law of the sum of rows times entries."""
    law = {Fraction(0): Fraction(1)}
    for row in rows:
        longer: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (value, chance), (entry, share) in itertools.product(law.items(), entries.items()):
            longer[value + row * entry] += chance * share
        law = dict(longer)
    return law


def sparse_loss(leverage: float, rate: float) -> Profile:
    """One component of a sparse Gaussian sketch beside dense Gaussian noise, exactly.

    Each entry of the matrix is normal with probability `rate` and else 0; the ridge is added as
    dense noise. The largest leverage of a row beside that noise dominates: it is a Poisson sample
    of the pair of a Gaussian sketch, component by component.

    Examples
    --------
    >>> from ndis_papers.other_matrices import sparse_loss
    >>> whole, tenth = (20 * sparse_loss(0.05, rate) for rate in (0.999, 0.1))
    >>> bool(tenth.delta(0.5) < whole.delta(0.5))
    True
    """
    pair = Profile.both(QuadraticLoss.from_leverage(leverage))
    return Profile(pair.subsampled(_validate.probability("rate", rate)).directions())


def uniform_loss(weight: float, n_ridge: int, step: float = 2.0**-12, high: float = 4.0) -> Profile:
    """One component of a sketch with uniform entries, for a column of zeros and ones, certified.

    Parameters
    ----------
    weight : float
        w, the squared length of all public rows together; a Gaussian sketch has leverage 1/(1+w).
    n_ridge : int
        K, how many public rows there are, at least 4.
    step, high : float
        The grid of the tables; a loss beyond `high` counts as infinite.

    Returns
    -------
    Profile
        An upper bound for each direction; r components are r times it.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis_papers.other_matrices import uniform_loss
    >>> uniform, normal = uniform_loss(30.0, 20), QuadraticLoss.from_leverage(1 / 31)
    >>> bool(0.5 < uniform.delta(0.1) / normal.delta(0.1) < 1.5)
    True
    """
    cells = uniform_cells(weight, n_ridge)
    return Profile(
        [
            _table(cells.p, cells.most, cells.beyond, step, high),
            _table(cells.q, -cells.least, cells.last, step, high),
        ]
    )


def _table(
    mass: FloatArray, loss: FloatArray, infinite: float, step: float, high: float
) -> TabulatedLoss:
    """Masses put on the grid points around their losses so that both laws keep theirs."""
    far = loss > high
    infinite += float(mass[far].sum())
    mass, loss = mass[~far], np.maximum(loss[~far], -high)
    start, last = math.floor(-high / step), math.ceil(high / step)
    below = np.clip(np.floor(loss / step), start, last - 1)
    # What goes up is the share at which e^-loss of the two points average to that of the loss.
    up = np.clip(np.expm1(below * step - loss) / math.expm1(-step), 0.0, 1.0) * _ROUND_UP
    up = np.minimum(up, 1.0)
    index = (below - start).astype(int)
    table = np.bincount(index, mass * (1.0 - up), last - start + 1)
    table += np.bincount(index + 1, mass * up, last - start + 1)
    implied = float(table @ np.exp(-step * np.arange(start, last + 1)))
    return TabulatedLoss(step, start, table, infinite * _ROUND_UP, max(1.0 - implied, 0.0) + 1e-12)


@dataclass(frozen=True)
class Cells:
    """Cells of the output: their masses and bounds on the loss ln(p/q) in each, all rounded up.

    Attributes
    ----------
    p, q : ndarray
        Masses of both laws, of both signs of x together.
    most, least : ndarray
        Bounds on the loss.
    beyond, last : float
        The masses of P and of Q from the cell on in which Q ends.
    """

    p: FloatArray
    q: FloatArray
    most: FloatArray
    least: FloatArray
    beyond: float
    last: float

    def present(self, epsilon: FloatArray) -> FloatArray:
        """An upper bound on delta, the row present first."""
        return _hinges(self.p, self.most, epsilon) + self.beyond

    def absent(self, epsilon: FloatArray) -> FloatArray:
        """The same, the row absent first."""
        return _hinges(self.q, -self.least, epsilon) + self.last


def _hinges(mass: FloatArray, loss: FloatArray, epsilon: FloatArray) -> FloatArray:
    gaps = np.minimum(np.asarray(epsilon)[:, None] - loss, 0.0)
    return np.asarray(_ROUND_UP * (-np.expm1(gaps) @ mass))


def uniform_cells(weight: float, n_ridge: int) -> Cells:
    """The pair of one component, cell by cell.

    Examples
    --------
    >>> from ndis_papers.other_matrices import uniform_cells
    >>> cells = uniform_cells(30.0, 20)
    >>> bool(abs(cells.p.sum() + cells.beyond - 1) < 1e-9 and cells.beyond < 1e-15)
    True
    """
    k = _validate.count("n_ridge", n_ridge, 4)
    h = math.sqrt(_validate.positive("weight", weight) / k)
    before = ctx.prec
    ctx.prec = _BITS + _BITS_A_ROW * k
    try:
        return _cells(arb(h), k)
    finally:
        ctx.prec = before


def _cells(h: arb, k: int) -> Cells:
    """Cells between knots at x = -j/64, from 0 outwards; both laws are symmetric."""
    end = math.ceil(_CELLS * (float(h) * k + 1.0)) + 1
    splines = [_splines((arb(-j) / _CELLS / h + k) / 2, k) for j in range(-_CELLS, end + 1)]
    slopes, densities, tails, areas = (
        [spline[order] * (2 * h) ** (order - 2) for spline in splines] for order in range(4)
    )

    def law_of_p(values: list[arb], j: int) -> arb:
        """Of Q's spline one order higher, at x: its mean over [x - 1, x + 1]."""
        return (values[j] - values[j + 2 * _CELLS]) / 2

    masses_p: list[float] = []
    masses_q: list[float] = []
    most: list[float] = []
    least: list[float] = []
    for j in range(end - _CELLS):
        inner, outer = j + _CELLS, j + 1 + _CELLS
        sums = law_of_p(areas, j), law_of_p(areas, j + 1)
        if not bool(densities[outer] > 0):
            p, q, upper, lower = map(np.array, (masses_p, masses_q, most, least))
            return Cells(p, q, upper, lower, _upper(2 * sums[0]), _upper(2 * tails[inner]))
        (p_in, p_out), (p_rise_in, p_rise_out) = (
            [law_of_p(values, i) for i in (j, j + 1)] for values in (tails, densities)
        )
        (q_in, q_out), (q_rise_in, q_rise_out) = (
            [values[i] for i in (inner, outer)] for values in (densities, slopes)
        )
        losses = (p_in / q_in).log(), (p_out / q_out).log()
        # The slope of the loss in x lies between these; slopes of ln p and ln q fall with x.
        low = _lower(p_rise_in / p_in - q_rise_out / q_out)
        high = _upper(p_rise_out / p_out - q_rise_in / q_in)
        room = min(max(high, 0.0), max(-low, 0.0)) / _CELLS
        masses_p.append(_upper(2 * (sums[0] - sums[1])))
        masses_q.append(_upper(2 * (tails[inner] - tails[outer])))
        most.append(max(map(_upper, losses)) + room)
        least.append(min(map(_lower, losses)) - room)
    raise AssertionError("The last cells lie beyond the support of Q.")


def _splines(y: arb, k: int) -> list[arb]:
    """Sums over i of (-1)^i C(k, i) (y - i)_+^s/s! for s = k - 2, ..., k + 1."""
    totals = [arb(0)] * 4
    binomial = 1
    for i in range(k + 1):
        base = y - i
        if bool(base < 0):
            break
        power = base ** (k - 2) * binomial * (-1) ** i
        for order in range(4):
            totals[order] += power
            power *= base
        binomial = binomial * (k - i) // (i + 1)
    first = arb(math.factorial(k - 2))
    factors = [first, first * (k - 1), first * (k - 1) * k, first * (k - 1) * k * (k + 1)]
    return [total / factor for total, factor in zip(totals, factors, strict=True)]


def _upper(value: arb) -> float:
    return math.nextafter(float(value.upper()), math.inf)


def _lower(value: arb) -> float:
    return math.nextafter(float(value.lower()), -math.inf)
