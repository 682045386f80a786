"""The sums that mechanisms ask for, each written once against the products of a block."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.arrays import add_whole, at_least, at_most, beside, fused, namespace
from ndis.tables.blocks import Block, squared
from ndis.tables.exact import GRID_NORM, ExactSum, strips
from ndis.tables.exponentials import exp_minus, softmax
from ndis.tables.grid import factors_of, into, shortened

if TYPE_CHECKING:
    from ndis.tables.table import Table


def moments(block: Block) -> Mapping[str, Any]:
    """First and second moments: of features, of features with labels, of labels; the count."""
    centered = getattr(block, "shift", None) is None
    terms = {"gram" if centered else "raw_gram": block.gram()}
    terms |= totals(block)
    if block.labels is not None:
        terms["cross"] = block.combine(block.labels)
        terms["squares"] = block.xp.sum(block.total(block.labels * block.labels))
    return terms


def totals(block: Block) -> Mapping[str, Any]:
    """The sum of the rows, and how many there are."""
    return {"sums": block.sums(), "count": np.array(float(block.n_rows))}


def read_moments(table: Table) -> dict[str, ExactSum]:
    """The moments of a table in one pass; sparse ones are centred here, in integers."""
    sums = table.sum(moments)
    if "raw_gram" in sums:
        shift = table.rows.features.shift.astype(np.int64)
        if not shift.any():
            return {"gram" if name == "raw_gram" else name: total for name, total in sums.items()}
        # With r = x + shift: sum x x^T = sum r r^T - s shift^T - shift s^T - n shift shift^T,
        # s the sums of x.
        s = sums["sums"].times(shift)
        n = sums["count"].times(shift).times(shift)
        sums["gram"] = sums.pop("raw_gram") - s - s.T - n
    return sums


# Counted are norms between 2^20 2^(-k/2) and the next, k = 0, ..., 23; the last bin has the rest.
NORM_BINS = 24
# A histogram has so many bins, each half an octave wide, below a public bound.
BINS = 64
# A double above 2^(k-1) and at most 2^k, as an integer, and this add up to k + 1023 times 2^52.
_ONE_AT, _JUST_BELOW = 1023, 2**52 - 1
# So many numbers are copied at once.
_CHUNK = 2**15
# Products of a row with vectors of integers this long are exact: 2^20 times 2^32 is 2^52.
VECTOR_NORM = 2.0**32
# What is computed of a row in a few steps is lowered by this, more than their roundings.
_BELOW = 1.0 - 2.0**-40
# The square of the grid's norm, as a factor.
_PER_SQUARE = float(GRID_NORM) ** -2
# What a row is multiplied by, with room for rounding: the square root of two, and 2^20.
_ROOT, _LONGEST = math.sqrt(2.0) * (1.0 - 2.0**-50), GRID_NORM * (1.0 - 2.0**-50)


def count_norms(block: Block) -> Mapping[str, Any]:
    """How many rows have which norm: one row adds one to one bin."""
    return {"norms": tally(block.xp, block.squares() * _PER_SQUARE, NORM_BINS)}


def tally(xp: Any, shares: Any, n_bins: int = BINS) -> Any:
    """Counts of shares of some whole, which are not negative, in octaves downwards from one.

    Bin k is above 2^-(k+1) and at most 2^-k; the first takes all that is more, the last the rest.

    Examples
    --------
    >>> import numpy as np
    >>> tally(np, np.array([1.0, 0.75, 0.5, 0.0]))[[0, 1, -1]].tolist()
    [2.0, 1.0, 1.0]
    """
    if xp is np:  # the exponents of doubles say it: a search takes many times as long
        places = np.bincount((shares.view(np.int64) + _JUST_BELOW) >> 52, minlength=_ONE_AT + 1)
        top = _ONE_AT - n_bins + 2
        low, counts = places[:top].sum(), places[top:_ONE_AT][::-1]
        return np.concatenate([[places[_ONE_AT:].sum()], counts, [low]]) * 1.0
    edges = beside(2.0 ** -np.arange(n_bins - 1.0, 0.0, -1.0), shares)
    below = xp.astype(xp.searchsorted(xp.sort(shares), edges, side="right"), xp.float64)
    ends = beside(np.array([float(shares.shape[0])]), shares)
    return xp.flip(xp.concat([below, ends]) - xp.concat([0.0 * ends, below]))


def tally_roots(xp: Any, values: Any, top: float) -> Any:
    """Counts of numbers in half octaves downwards from `top`: their squares in octaves."""
    shares = values * (1.0 / top)
    return tally(xp, shares * shares)


@dataclass(frozen=True)
class Together:
    """Several sums in one pass."""

    functions: tuple[Callable[[Block], Mapping[str, Any]], ...]

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The terms of all functions."""
        return {name: term for function in self.functions for name, term in function(block).items()}


@dataclass(frozen=True)
class Below:
    """How many rows have a number below each of some public edges; only comparisons are made.

    Parameters
    ----------
    edges : ndarray of shape (n_edges,)
    places : tuple of (group, place)
        Which numbers of a raw row: of the features (group 0) or of the labels (1).
    """

    edges: FloatArray
    places: tuple[tuple[int, int], ...]

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Counts of shape (n_places, n_edges)."""
        xp, edges = block.xp, block.beside(self.edges)
        groups = (block.features, block.labels)
        numbers = (xp.sort(groups[group][place, :]) for group, place in self.places)
        counts = [xp.astype(xp.searchsorted(values, edges), xp.float64) for values in numbers]
        return {"below": xp.stack(counts)}


@dataclass(frozen=True)
class CutMoments:
    """Norms of rows, and moments of rows cut to each of a ladder of norms, half an octave apart.

    A row k counts as u = 2^(j/2) k for the j-th norm if |k| <= 2^20 2^(-j/2), and as k scaled to
    2^20 if it is longer. Matrices u u^T are then integers, and u itself is rounded towards zero:
    both have norm 2^20 at most. Bin i of the norms counts those between
    2^20 2^(-(i+1)/2) and 2^20 2^(-i/2): squared norms are integers, and so are the edges. With a
    centre, of whole numbers, a row is what it is less that, scaled to 2^20 if it is longer.
    """

    n_cuts: int
    center: FloatArray | None = None

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "norms", "count", "sums" of u for each cut, "grams" of u u^T."""
        if self.center is not None:
            away = block.dense - block.beside(self.center[:, None])
            block = block.like(shortened(block.xp, away)[0])
        xp, rows, n, squares = block.xp, block.dense, self.n_cuts, block.squares()
        order = xp.argsort(squares)
        squares = xp.take(squares, order, axis=0)
        edges = float(GRID_NORM) ** 2 * 2.0 ** -np.arange(n - 1.0, 0.0, -1.0)
        inner = xp.searchsorted(squares, block.beside(edges), side="right")
        ends = [0, *(int(end) for end in inner), block.n_rows]
        # Moments of the rows in each bin, short ones first: as they are, times sqrt(2), at 2^20.
        whole, cut, twice = [(0, 0)] * n, [(0, 0)] * n, [0] * n
        # Copies stay in the processor's cache; a card takes all rows at once.
        step = max(_CHUNK // rows.shape[0], 64) if xp is np else block.n_rows
        for index, (first, last) in enumerate(itertools.pairwise(ends)):
            for start in range(first, last, step):
                chosen = slice(start, min(start + step, last))
                part = xp.take(rows, order[chosen], axis=1)
                whole[index] = _moments(block, part, whole[index])
                root = xp.trunc(part * _ROOT)
                twice[index] = twice[index] + block.total(root)
                part *= _LONGEST / xp.sqrt(xp.clip(squares[chosen], 1.0, None))
                cut[index] = _moments(block, xp.trunc(part), cut[index])
        # From the shortest cut on, bin by bin: rows that are not cut, and those that still are.
        sums, grams, short, root, gram = [], [], 0, 0, 0
        long, long_gram = sum(part[0] for part in cut), sum(part[1] for part in cut)
        for index, j in enumerate(reversed(range(n))):
            short, root = short + whole[index][0], root + twice[index]
            gram, long_gram = gram + whole[index][1], long_gram - cut[index][1]
            long = long - cut[index][0]
            sums.append((root if j % 2 else short) * 2 ** (j // 2) + long)
            grams.append(gram * 2**j + long_gram)
        return {
            "norms": tally(xp, squares * _PER_SQUARE),
            "count": np.array(float(block.n_rows)),
            "sums": xp.stack(sums[::-1]),
            "grams": xp.stack(grams[::-1]),
        }


def _moments(block: Block, rows: Any, before: tuple[Any, Any]) -> tuple[Any, Any]:
    return before[0] + block.total(rows), before[1] + block.like(rows).gram()


@dataclass(frozen=True)
class CutNorms:
    """The norms of `CutMoments` alone."""

    center: FloatArray | None = None

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "norms"."""
        return {"norms": tally(block.xp, block.distances(self.center) * _PER_SQUARE)}


@dataclass(frozen=True)
class CutGram:
    """The moments of `CutMoments` for one norm: of all rows, less those that are cut, and of these.

    Rows that are not cut are not copied: with sums s the moments of k - c are those of k, less
    s c^T and c s^T, and n c c^T.
    """

    rung: int
    center: FloatArray | None = None

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "count", "sums" of u, "gram" of u u^T."""
        xp, j = block.xp, self.rung
        origin = np.zeros(block.features.shape[0]) if self.center is None else self.center
        center = block.beside(origin[:, None])
        long = xp.nonzero(block.distances(self.center) > float(GRID_NORM) ** 2 * 2.0**-j)[0]
        part = block.taken(long)
        cut = block.like(shortened(xp, part.dense - center)[0])
        if j:
            factor = _LONGEST / xp.sqrt(xp.clip(cut.squares(), 1.0, None))
            cut = block.like(into(xp.trunc, into(xp.multiply, cut.features, factor)))
        n_short, whole = block.n_rows - part.n_rows, block.beside(origin.astype(np.int64))
        # On the way to what 64 bits hold these may pass beyond, and come back.
        short = xp.astype(block.sums() - part.sums(), xp.int64)
        gram = _integers(block.whole_gram())
        if part.n_rows:
            _add_gram(part, gram, -1.0)
        if self.center is not None:
            for rows in strips(whole.shape[0]):
                gram[rows, :] -= short[rows, None] * whole
                gram[rows, :] -= whole[rows, None] * (short - n_short * whole)
        if j % 2:
            short = block.added(_rooted, center) - part.added(_rooted, center)
        else:
            short = short - n_short * whole
        gram *= 2**j
        if part.n_rows:
            _add_gram(cut, gram, 1.0)
        return {
            "count": np.array(float(block.n_rows)),
            "sums": short * 2 ** (j // 2) + xp.astype(block.total(cut.features), xp.int64),
            "gram": gram,
        }


def _integers(matrix: Any) -> Any:
    """Doubles of a matrix that hold integers as these, in their memory where it is numpy's."""
    if not isinstance(matrix, np.ndarray) or matrix.dtype == np.int64:
        return namespace(matrix).astype(matrix, namespace(matrix).int64)
    integers = matrix.view(np.int64)
    for rows in strips(len(matrix)):
        integers[rows] = matrix[rows]
    return integers


def _add_gram(block: Block, gram: Any, sign: float) -> None:
    """Add sum of x x^T, or subtract it, in strips: whole it would be a further matrix."""
    own = block.dense
    for rows in strips(own.shape[0]):
        product = block.product(own[rows, :] * sign, own[: rows.stop, :])
        add_whole(gram[rows, : rows.stop], product)
        add_whole(gram[: rows.start, rows], product[:, : rows.start].T)


def _rooted(xp: Any, rows: Any, center: Any) -> Any:
    """Sums of rows less a centre, times sqrt(2), rounded towards zero."""
    away = rows - center
    away *= _ROOT
    # Sums of 2^22 numbers of at most 2^22 are exact.
    away = np.trunc(away, out=away) if xp is np else xp.trunc(away)
    return xp.astype(xp.sum(away, axis=-1), xp.int64)


@dataclass(frozen=True)
class LogLink:
    """Labels whose expectation m is the exponential of a prediction: counts, or positive amounts.

    Labels and m are in units of the largest label, and m is at most one, so that residuals are
    between -1 and 1 whatever is predicted. Everything is elementwise (see `exp_minus`).

    Parameters
    ----------
    least : float
        0 for counts: residuals are y - m, and a row counts by m in the Hessian. Else the least
        label: residuals are (y/m - 1)/most, and all rows count by 1/most.
    most : float
        Ratios y/m - 1 are cut to this.
    exposure : float
        0, or what the second label of a row is multiplied with; m is that times e^prediction.
    """

    least: float = 0.0
    most: float = 1.0
    exposure: float = 0.0

    def residuals(self, xp: Any, labels: Any, predicted: Any) -> tuple[Any, Any]:
        """Residuals of rows, of shape (1, n_rows), and the roots of their weights."""
        own = labels[:1, :] * (1.0 / GRID_NORM)
        mean = exp_minus(xp, -predicted)
        if self.exposure:
            mean = xp.clip(mean * (labels[1:2, :] * self.exposure), 0.0, 1.0)
        if not self.least:
            return own - mean, xp.sqrt(mean)
        ratio = own / xp.clip(mean, self.least, 1.0) - 1.0
        left = xp.clip(ratio, -1.0, self.most) * (1.0 / self.most)
        return left, xp.full_like(left, self.most**-0.5)


@dataclass(frozen=True)
class Pull:
    """How much a row pulls at the coefficients: its residuals, and its length in a metric.

    A row x (in units of 2^20) has the length |z|, |z|^2 = w^2 (|x - m|^2 - sum (u (x - m))^2) +
    c^2: w is the largest weight of the metric, and each u, of norm below one, takes from it in its
    own direction. That is w^2 (|x|^2 - sum (u x)^2 - 2 v x + s) + c^2 with v = m - sum u (u m) and
    s = v m. Vectors are integers, so that their products with rows are exact; what follows is
    elementwise and in a fixed order, so that it depends on the row alone.

    Parameters
    ----------
    vectors : ndarray of shape (n_features, n_directions + 1 + n_labels)
        Integers, of norm at most 2^32: the directions u, v, the coefficients.
    direction : float
        A product with a direction times this is u x.
    factors, shifts : ndarray of shape (1 + n_labels,)
        Another product times its factor less its shift is 2 v x - s, or a prediction.
    weight, constant : float
        w^2, and c^2 with what covers all that is rounded.
    more : float
        Added to the length: covers what the owner of the metric rounds.
    link : LogLink, optional
        What expected labels are, where they are not the predictions themselves.
    """

    vectors: FloatArray
    direction: float
    factors: FloatArray
    shifts: FloatArray
    weight: float
    constant: float
    more: float
    link: LogLink | None = None

    def measure(self, block: Block) -> tuple[Any, Any, Any]:
        """Residuals in units of 2^20, their lengths, and an upper bound on |z|."""
        left, _ = block.noted("residuals", self._fitted, self._predicting)
        return left, _lengths(block.xp, left), block.noted("lengths", self._long, self._metric)

    def roots(self, block: Block) -> Any:
        """The roots of how much rows count in the Hessian, of shape (1, n_rows), at most one."""
        if self.link is None:
            return block.ones()
        return block.noted("residuals", self._fitted, self._predicting)[1]

    @property
    def _split(self) -> int:
        """Before this one the vectors belong to the metric, from it on they are coefficients."""
        return int(self.vectors.shape[1]) - len(self.factors) + 1

    @property
    def _metric(self) -> tuple[Any, ...]:
        """All that lengths depend on."""
        scalars = (self.factors[0], self.shifts[0], self.direction, self.weight, self.constant)
        return self.vectors[:, : self._split].tobytes(), *scalars, self.more

    @property
    def _predicting(self) -> tuple[Any, ...]:
        """All that residuals depend on."""
        slopes, scalars = self.vectors[:, self._split :], (self.factors[1:], self.shifts[1:])
        return slopes.tobytes(), *(part.tobytes() for part in scalars), self.link

    def _long(self, block: Block) -> Any:
        # What is added to squares of products is brought to their units, and they to those of x.
        square = self.direction**2
        scalars = [self.factors[0] / square, square, self.shifts[0], self.weight, self.constant]
        products = block.times(block.beside(self.vectors[:, : self._split]))
        constants = block.beside(np.array([*scalars, self.more])[:, None])
        return fused(_long, block.features)(block.xp, products, block.squares(), constants)

    def _fitted(self, block: Block) -> Any:
        products = block.times(block.beside(self.vectors[:, self._split :]))
        constants = block.beside(np.array([self.factors[1:], self.shifts[1:]])[..., None])
        function = fused(_left, block.features)
        return function(block.xp, products, block.labels, constants, self.link)


def _long(xp: Any, products: Any, squares: Any, constants: Any) -> Any:
    """Lengths in the metric, see `Pull`."""
    n = products.shape[0] - 1
    taken = products[n, :] * constants[0, :]
    for index in range(n):
        taken += products[index, :] * products[index, :]
    taken *= constants[1, :]
    rest = squares * 2.0**-40
    rest -= taken
    rest += constants[2, :]
    z = at_least(xp, rest, 0.0)
    z *= constants[3, :]
    z += constants[4, :]
    z = xp.sqrt(z)
    z *= 1.0 / _BELOW
    z += constants[5, :]
    return z


def _left(xp: Any, products: Any, labels: Any, constants: Any, link: LogLink | None) -> Any:
    """Residuals, and the roots of how much rows count where there is a link."""
    factors, shifts = constants[0, :, :], constants[1, :, :]
    if link is not None:
        return link.residuals(xp, labels, products * factors - shifts)
    left = labels * (1.0 / GRID_NORM)
    left -= products * factors
    left += shifts
    return left, None


@dataclass(frozen=True)
class PullCounts:
    """How many rows pull how much: |z| |r| in half octaves below a public bound."""

    pull: Pull
    top: float

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "products"."""
        _, size, length = self.pull.measure(block)
        return {"products": tally_roots(block.xp, size * length, self.top)}


@dataclass(frozen=True)
class PullSum:
    """Sums of (x, 1) w^T, w the residuals scaled down to |z| |w| <= clip: clipped gradients.

    One for each of a ladder of clips, side by side. Weights are integers, 1/unit of the label's
    bound each; rounding has room below the clip. With `top`, how many rows pull how much is counted
    too: |z| |r| in half octaves below it.
    """

    pull: Pull
    clips: tuple[float, ...]
    unit: float
    top: float | None = None

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The sums over a block; the last row of each belongs to the constant."""
        xp = block.xp
        left, size, length = self.pull.measure(block)
        terms = {}
        if self.top is not None:
            terms["products"] = tally_roots(xp, size * length, self.top)
        public = block.beside(np.array(self.clips)[:, None]), block.beside(np.array([self.unit]))
        weights = fused(_clipped, block.features)(xp, left, size, length, *public)
        total = block.total(weights)
        terms["gradient"] = xp.concat([block.combine(weights), total[None, :]], axis=0)
        return terms


def _clipped(xp: Any, left: Any, size: Any, length: Any, clips: Any, unit: Any) -> Any:
    """The weights of `PullSum`, for one clip after the other."""
    room = at_most(xp, unit * _BELOW / length * clips, GRID_NORM * _BELOW)
    # Rounding takes half a unit of every entry.
    room -= 0.5 * math.sqrt(left.shape[0])
    room *= 1.0 / (size + 1e-300)
    room = xp.minimum(at_least(xp, room, 0.0), unit)
    weights = left * room[:, None, :]
    weights = np.rint(weights, out=weights) if xp is np else xp.round(weights)
    return xp.reshape(weights, (-1, left.shape[1]))


@dataclass(frozen=True)
class PullGrams:
    """Second moments of rows that are scaled down: by their length, and by residual and pull.

    A row k on the grid counts as (k, 2^20) times a number of at most one, rounded. For the first
    matrix that is the root of its weight, or less, so that times its length it is `cut` at most;
    for a label it is r/most, all labels' together at most one, and at most pull/most over the
    length. The metric in which lengths are taken is applied to the sums.

    Parameters
    ----------
    pull : Pull
        For residuals r and lengths.
    cut, cut_pull : float
        What lengths, and lengths times residuals, are cut to.
    most : float
        Residuals are cut to this; at zero there are matrices of rows only.
    """

    pull: Pull
    cut: float
    cut_pull: float = 0.0
    most: float = 0.0

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "spread", a matrix of rows and one for each label."""
        xp = block.xp
        left, size, length = self.pull.measure(block)
        roots = at_most(xp, self.cut * _BELOW / length, self.pull.roots(block)[0, :])
        factors, first, total = roots[None, :], 0, []
        if self.most > 0.0:
            most = at_most(xp, self.cut_pull / length, self.most) / (size + 1e-300)
            pulls = left * (at_most(xp, most, 1.0) * (_BELOW / self.most))
            factors = xp.concat([factors, pulls], axis=0)
        for piece in block.pieces():
            own = factors[:, first : (first := first + piece.n_rows)]
            total.append(xp.stack([self._gram(piece, own[k, :]) for k in range(own.shape[0])]))
        return {"spread": functools.reduce(operator.add, total)}

    def _gram(self, block: Block, factor: Any) -> Any:
        """The matrix of (k, 2^20) times a factor."""
        xp, dense = block.xp, block.dense
        rows = block.like(fused(_rounded, dense)(xp, dense, factor))
        ends = xp.round(factor * float(GRID_NORM))[None, :]
        side, corner = rows.combine(ends), block.product(ends, ends)
        above = xp.concat([rows.gram(), side], axis=1)
        return xp.concat([above, xp.concat([side.T, corner], axis=1)], axis=0)


def _rounded(xp: Any, rows: Any, factor: Any) -> Any:
    """Rows times a factor each, as whole numbers."""
    scaled = rows * factor
    return np.rint(scaled, out=scaled) if xp is np else xp.round(scaled)


@dataclass(frozen=True)
class Rooted:
    """Rows times the root of their label, and a constant.

    A row is (x - m, c), x - m of norm 2^20 at most, times the root of the label in units of its
    bound, or times one; as a whole it is scaled to 2^20 if it is longer.

    Parameters
    ----------
    center : ndarray of shape (n_features,)
        m, whole numbers.
    constant : float
        c, a whole number of at most 2^20.
    weighted : bool
        Whether rows are weighted by labels, which are not negative.
    """

    center: FloatArray
    constant: float
    weighted: bool

    def rows(self, block: Block) -> Block:
        """A block of them."""
        xp = block.xp
        away, _ = shortened(xp, block.dense - block.beside(self.center[:, None]))
        rows = xp.concat([away, block.ones() * self.constant], axis=0)
        if self.weighted:
            labels = xp.clip(block.labels[:1, :], 0.0, None)
            rows = xp.trunc(rows * xp.sqrt(labels * (1.0 / GRID_NORM)))
        return block.like(shortened(xp, rows)[0])


@dataclass(frozen=True)
class HessianNorms(Rooted):
    """The norms of `CutHessians` alone."""

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "norms"."""
        return CutNorms()(self.rows(block))


@dataclass(frozen=True)
class CutHessian(Rooted):
    """The matrix of `CutHessians` for one norm, 2^20 2^(-rung/2)."""

    rung: int

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "gram"."""
        return {"gram": CutGram(self.rung)(self.rows(block))["gram"]}


@dataclass(frozen=True)
class CutHessians(Rooted):
    """Norms and matrices as `CutMoments` has them; their last column belongs to the constant."""

    n_cuts: int

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "norms" and "grams", a matrix for each cut."""
        cut = CutMoments(self.n_cuts)(self.rows(block))
        return {"norms": cut["norms"], "grams": cut["grams"]}


def tally_labels(block: Block) -> Mapping[str, Any]:
    """How many rows have which label, in half octaves below its bound; zeros in the last bin."""
    own = block.xp.clip(block.labels[0, :], 0.0, None)
    return {"labels": tally_roots(block.xp, own, float(GRID_NORM))}


def total_exposure(block: Block) -> Mapping[str, Any]:
    """The sum of the second labels."""
    return {"exposure": block.total(block.labels[1, :])}


@dataclass(frozen=True)
class JointGram:
    """Sum of (x, c, y)(x, c, y)^T for features x, a whole number c of at most 2^20 and labels y."""

    constant: float

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The sum over a block."""
        xp = block.xp
        more = xp.concat([block.ones() * self.constant, block.labels], axis=0)
        side = block.combine(more)
        below = xp.concat([side.T, block.product(more, more)], axis=1)
        return {"gram": xp.concat([xp.concat([block.whole_gram(), side], axis=1), below], axis=0)}


@dataclass(frozen=True)
class Distances:
    """Sum of |x - m| for a centre m of whole numbers, at most 2^20 for each row."""

    center: FloatArray

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "distances", whole numbers."""
        far = block.xp.sqrt(block.distances(self.center))
        return {"distances": block.total(block.xp.trunc(block.xp.clip(far, None, GRID_NORM)))}


@dataclass(frozen=True)
class Weights:
    """How much a row counts: L / max(L, |y|, |y|^2), y = x - m in units of 2^20.

    Then w |y| and w |y|^2 are at most L.

    Parameters
    ----------
    center : ndarray of shape (n_features,)
        m, whole numbers.
    radius : float
        L.
    """

    center: FloatArray
    radius: float

    def of(self, block: Block) -> Any:
        """The weight of each row, a little below w."""
        return block.noted("weights", self._of, (self.center.tobytes(), self.radius))

    def _of(self, block: Block) -> Any:
        xp = block.xp
        far = xp.sqrt(block.distances(self.center)) * (1.0 / GRID_NORM)
        return self.radius * _BELOW / at_least(xp, xp.maximum(far, far * far), self.radius)


@dataclass(frozen=True)
class WeightedMoments:
    """Moments of weighted rows: of u = sqrt(w/L) y and v = sqrt(w), both at most 2^20.

    They are rounded towards zero, so that a row moves the sum of u u^T by 2^40, that of u v by
    sqrt(L) 2^40 and that of v^2 by 2^40 at most.
    """

    weights: Weights

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Terms: "gram" of u, "sums" of u v, "count" of v^2."""
        xp, weights, first = block.xp, self.weights, 0
        root = xp.sqrt(weights.of(block))
        ones, factors = xp.trunc(root * GRID_NORM)[None, :], root * weights.radius**-0.5
        center, grams, sums = block.beside(weights.center[:, None]), [], []
        for piece in block.pieces():
            part = slice(first, first := first + piece.n_rows)
            away = fused(_weighted, piece.features)(xp, piece.dense, center, factors[part])
            rows = piece.like(away)
            grams.append(rows.gram())
            sums.append(rows.combine(ones[:, part])[:, 0])
        gram, total = (functools.reduce(operator.add, parts) for parts in (grams, sums))
        return {"gram": gram, "sums": total, "count": block.total(ones * ones)[0]}


def _weighted(xp: Any, rows: Any, center: Any, factors: Any) -> Any:
    """Rows less a centre, times a factor each, rounded towards zero."""
    away = rows - center
    away *= factors
    return np.trunc(away, out=away) if xp is np else xp.trunc(away)


# The unit of the second part of fine coefficients, in units of the first.
FINER = 2.0**-31


@dataclass(frozen=True)
class Scores:
    """Sum of x (e_y - p)^T, p the class probabilities: the gradient of a logistic regression.

    Residuals add up to zero over the classes, and are given in the basis of `contrasts`. A block's
    labels have one row for each class, positive where it is the class of the row.

    Parameters
    ----------
    theta : ndarray of shape (n_features, n_classes)
        Coefficients as integers; no column is longer than 2^32.
    scale : float
        A logit is ``scale * theta x + intercept``.
    intercept : ndarray of shape (n_classes,)
    bound : float
        Residuals longer than this are scaled down to it.
    weighted : bool
        Whether residuals are weighted by the row, so that none is longer than sqrt(1 - 1/K).
    fine : bool
        Whether coefficients have a second part, of as many columns more, that is 2^-31 times as
        large, and what rounding leaves of the residuals is summed too, 2^20 times as fine.
    weights : Weights, optional
        How much each row counts besides. Residuals are rounded towards zero then, so that times
        |x - m| they are at most L 2^40 on the grid.
    """

    theta: FloatArray
    scale: float
    intercept: FloatArray
    bound: float
    weighted: bool = False
    fine: bool = False
    weights: Weights | None = None

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """The sums over a block, in units of bound / 2^20."""
        theta, intercept = self.theta, self.intercept
        if len(intercept) == 2:  # how far the first is ahead: twice its own, they are opposite
            theta, intercept = theta[:, ::2] - theta[:, 1::2], intercept[:1] - intercept[1:]
        logits = block.times(block.beside(theta))
        affine = block.beside(np.array([self.scale])), block.beside(intercept[:, None])
        parts = fused(_residuals, block.features)(
            block.xp, logits, block.labels, affine, self.bound, self.weighted, self.fine
        )
        if self.weights is not None:
            parts = [block.xp.trunc(part * self.weights.of(block)) for part in parts]
        terms = {}
        for name, part in zip(("", "fine_"), parts, strict=False):
            terms[f"{name}gradient"] = block.combine(part)
            terms[f"{name}residuals"] = block.total(part)
        return terms


def _residuals(
    xp: Any, logits: Any, labels: Any, affine: Any, bound: float, weighted: bool, fine: bool
) -> list[Any]:
    """What `Scores` multiplies rows with: whole numbers, and what rounding leaves of them."""
    scale, intercept = affine
    if fine:
        k = intercept.shape[0]
        logits = logits[:k, :] + logits[k:, :] * FINER
    logits = logits * scale + intercept
    left = (_of_two if logits.shape[0] == 1 else _of_many)(xp, logits, labels, weighted)
    left = left * (GRID_NORM / bound)
    whole = bounded(xp, left)
    if not fine:
        return [whole]
    return [whole, bounded(xp, (left - whole) * float(GRID_NORM))]


def _of_many(xp: Any, logits: Any, labels: Any, weighted: bool) -> Any:
    """Residuals, weighted or not, in the basis of `contrasts`."""
    p = softmax(xp, logits)
    left = contrasts(xp, xp.astype(labels > 0, xp.float64) - p)
    if not weighted:
        return left
    # The longest residual that any label could have: |e_y - p|^2 = 1 - 2 p_y + |p|^2.
    near = xp.round(p * 2.0**26)  # whole numbers, whose squares add up exactly
    longest = 1.0 - 2.0 * xp.min(p, axis=0) + xp.sum(near * near, axis=0) * 2.0**-52
    return left * xp.sqrt((1.0 - 1.0 / p.shape[0]) / longest)


def _of_two(xp: Any, ahead: Any, labels: Any, weighted: bool) -> Any:
    """The same for two classes, in fewer steps, by how far the first one's logit is ahead.

    With e = exp(-|difference of the logits|) probabilities are 1/(1 + e) and e/(1 + e), the longest
    residual is sqrt(2)/(1 + e), and the coordinate of the first class is positive. Nothing is
    chosen row by row, which a processor cannot foresee.
    """
    sign = xp.astype(labels[:1, :] > 0, xp.float64) * 2.0 - 1.0
    ahead = ahead * sign  # of the row's own class
    if weighted:
        return exp_minus(xp, ahead) * sign * math.sqrt(0.5)
    power = exp_minus(xp, xp.abs(ahead))
    left = xp.maximum(power, xp.astype(ahead < 0, xp.float64))
    return left / (1.0 + power) * sign * math.sqrt(2.0)


def unclassified(block: Block) -> Mapping[str, Any]:
    """How many rows belong to none of the classes, or to several: each row is looked at."""
    xp = block.xp
    classes = xp.sum(xp.astype(block.labels > 0, xp.float64), axis=0)
    return {"unclassified": xp.sum(xp.astype(classes != 1.0, xp.float64))}


def contrasts(xp: Any, vectors: Any) -> Any:
    """Coordinates of columns that add up to zero, in an orthonormal basis.

    A reflection takes (1, ..., 1)/sqrt(K) to the first axis; of the reflected columns the others
    are left: v_j + v_1/(sqrt(K) - 1).
    """
    return vectors[1:, :] + vectors[:1, :] * (1.0 / (math.sqrt(vectors.shape[0]) - 1.0))


@dataclass(frozen=True, eq=False)
class KernelMoments:
    """Second moments of public features of the rows, W^T k(x, U), with the labels.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_columns)
        U, integers of the rows' grid.
    weights : ndarray of shape (n_points, n_features)
        W in units of 2^-bits: integers, at most 2^32 in sum down a column.
    bits : int
    factors : ndarray of shape (n_columns,)
        What a grid unit of each column is in length scales of the kernel.
    nu : float
        The kernel's smoothness, see `kernel_of_squares`.
    """

    points: FloatArray
    weights: FloatArray
    bits: int
    factors: FloatArray
    nu: float

    def features(self, block: Block) -> Any:
        """The features as integers of norm at most 2^20, shape (n_features, n_rows)."""
        xp, rows = block.xp, block.dense
        squares = 0.0
        for index, factor in enumerate(self.factors):
            point = block.beside(self.points[:, index : index + 1])
            away = (rows[index : index + 1, :] - point) * float(factor)
            squares = squares + away * away
        values = xp.round(kernel_of_squares(xp, squares, self.nu) * float(GRID_NORM))
        product = block.beside(self.weights).T @ values
        return bounded(xp, xp.round(product * 2.0**-self.bits))

    def __call__(self, block: Block) -> Mapping[str, Any]:
        """Their moments over a block."""
        made = block.like(self.features(block))
        made.labels = block.labels
        return moments(made)


def kernel_of_squares(xp: Any, squares: Any, nu: float) -> Any:
    """The Matern kernel of squared distances in length scales; nu = 1/2, 3/2, 5/2 or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables.sums import kernel_of_squares
    >>> kernel_of_squares(np, np.array([0.0, 1.0]), np.inf).round(4).tolist()
    [1.0, 0.6065]
    """
    if np.isinf(nu):
        return exp_minus(xp, squares * 0.5)
    # Beyond 40 the kernel is zero after rounding to 2^-20.
    root = xp.clip(xp.sqrt(squares * (2.0 * nu)), 0.0, 40.0)
    power = exp_minus(xp, root)
    if nu == 0.5:
        return power
    return (1.0 + root if nu == 1.5 else 1.0 + root + root * root / 3.0) * power


def bounded(xp: Any, vectors: Any) -> Any:
    """Columns as integers of norm at most 2^20: longer ones are scaled down, entries rounded."""
    if vectors.shape[0] == 1:
        return xp.round(xp.clip(vectors, -float(GRID_NORM), float(GRID_NORM)))
    # With no entry above 2^20 squares are exact: without a look at them, for a card.
    largest = xp.max(xp.abs(vectors), axis=0)
    whole = xp.round(vectors * (GRID_NORM / xp.clip(largest, float(GRID_NORM), None)))
    return xp.round(whole * factors_of(xp, squared(xp, whole), whole.shape[0]))


def _lengths(xp: Any, vectors: Any) -> Any:
    """Norms of the columns; squares are added row by row, the same bits everywhere."""
    if vectors.shape[0] == 1:
        return xp.abs(vectors[0, :])
    total = 0.0
    for index in range(vectors.shape[0]):
        total = total + vectors[index, :] * vectors[index, :]
    return xp.sqrt(total)
