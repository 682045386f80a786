"""Sums that are exact, in any order and on any hardware.

A row of a table is put on a public grid before anything is added up: it becomes a vector of
integers k whose squared norm is at most 2^40 (rows.py). Every sum of the library is a sum of
products of such integers: Gram matrices sum k k^T, gradients sum c k with an integer |c| <= 2^20,
histograms count. A block has at most 8192 rows, so that each entry of its sum, and each partial sum
on the way, is an integer of at most 2^53 (Cauchy-Schwarz): doubles hold it exactly, whatever the
order of summation, with or without fused multiply-adds. Blocks are added up as pairs of 64-bit
integers. Two tables that differ in one row then have sums that differ by exactly that row's term,
and threads, Spark executors and graphics cards agree to the last bit.

Rows that count for less than one are no exception: all rows of a block have one weight, a whole
number of 2^-26 (weights.py), and the sums of the block are multiplied by it. A third integer holds
what is behind the point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray
from ndis.tables.arrays import add_whole, namespace, on_host

IntArray = NDArray[np.int64]

# The norm of a row on the grid.
GRID_BITS = 20
GRID_NORM = 2**GRID_BITS
# Most rows of a block: 2^13 terms of at most 2^40 each.
BLOCK_ROWS = 8192
# Most rows whose sums are 64-bit integers: 2^22 terms of at most 2^40.
STACK_ROWS = 2**22
# A sum is high 2^26 + low, and part 2^-26 where rows have weights. With blocks of at most 2^53 all
# of them fit 64 bits beyond 2^40 rows.
_LOW_BITS = 26
_LOW = 2**_LOW_BITS - 1
# The weight of a row that counts once: weights are whole numbers of 2^-26.
ONE = 2**_LOW_BITS
_DIGIT = 2**13 - 1
# So many rows and columns of a matrix of many digits are made at once.
_STRIP = 256
# So many terms below 2^53 are added up before more bits are needed.
_FEW = 2**9
# No sum is made of more rows than this: the cap on rows that holds where none is declared.
MOST_ROWS = 2**40


@dataclass(frozen=True, eq=False)
class ExactSum:
    """Integers of any size, as an array of pairs: value = high 2^26 + low, 0 <= low < 2^26.

    Sums of weighted rows have a `part` too, 0 <= part < 2^26, to be divided by 2^26 and added. It
    belongs to the owner of the data, and is not shown when printed.

    Examples
    --------
    >>> import numpy as np
    >>> big = ExactSum.of(np.array([2.0**52])) + ExactSum.of(np.array([1.0]))
    >>> (int(big.high[0]) << 26) + int(big.low[0]) == 2**52 + 1
    True
    """

    high: IntArray
    low: IntArray
    part: IntArray | None = None

    @classmethod
    def of(cls, values: Any) -> ExactSum:
        """Doubles that hold integers, taken as they are."""
        doubles = np.asarray(values, dtype=np.float64)
        high = np.asarray(np.floor(doubles * 2.0**-_LOW_BITS))
        low = np.asarray(doubles - high * 2.0**_LOW_BITS)
        return cls(high.astype(np.int64), low.astype(np.int64))

    @classmethod
    def block(cls, rows: Sequence[Sequence[ExactSum]]) -> ExactSum:
        """A matrix of matrices."""
        whole = [[each.limbs for each in row] for row in rows]
        n_limbs = max(len(limbs) for row in whole for limbs in row)
        padded = [[_padded(limbs, n_limbs) for limbs in row] for row in whole]
        blocks = ([[limbs[index] for limbs in row] for row in padded] for index in range(n_limbs))
        return cls(*map(np.block, blocks))

    @property
    def limbs(self) -> list[Any]:
        """High, low, and the part where there is one."""
        return [self.high, self.low] if self.part is None else [self.high, self.low, self.part]

    @property
    def value(self) -> FloatArray:
        """The nearest doubles; of weighted sums, off by two roundings at most."""
        whole = np.ldexp(self.high.astype(np.float64), _LOW_BITS) + self.low
        return np.asarray(whole if self.part is None else whole + np.ldexp(self.part, -_LOW_BITS))

    def __add__(self, other: ExactSum) -> ExactSum:
        """The exact sum."""
        return ExactSum(*_carried(*(a + b for a, b in _paired(self.limbs, other.limbs))))

    def __sub__(self, other: ExactSum) -> ExactSum:
        """The exact difference."""
        return ExactSum(*_carried(*(a - b for a, b in _paired(self.limbs, other.limbs))))

    def __eq__(self, other: object) -> bool:
        """Equal to the last bit."""
        return isinstance(other, ExactSum) and all(
            np.array_equal(a, b) for a, b in _paired(self.limbs, other.limbs)
        )

    __hash__ = None  # type: ignore[assignment]

    def times(self, integers: IntArray) -> ExactSum:
        """The outer product with small integers (at most 2^21 each), over a new last axis."""
        return ExactSum(*_carried(*(limb[..., None] * integers for limb in self.limbs)))

    def total(self) -> ExactSum:
        """All of them added up, of at most 2^30."""
        return ExactSum(*_carried(*(limb.sum(keepdims=True) for limb in self.limbs)))

    def multiplied(self, halves: NDArray[np.int32], digits: int) -> ExactSum:
        """A matrix times this one, without the last digits to the base 2^13: rounded down.

        The matrix has whole numbers below 2^53 in magnitude, see `halved`. These are below 2^80.
        What is left must be below 2^89. Of weighted sums two more digits are behind the point, and
        what is left are whole numbers too.
        """
        own, behind = self._digits()
        return _of_digits(_product(halves, own)[digits + behind :])

    def sandwiched(self, halves: NDArray[np.int32], digits: int) -> ExactSum:
        """A matrix A of whole numbers below 2^38, and this symmetric one S: A S A^T, as above."""
        own, behind = self._digits()
        rows = list[ExactSum]()
        for start in range(0, halves.shape[1], _STRIP):
            side = _product(halves[:, start : start + _STRIP], own)
            across = _product(halves, [digit.T for digit in side])
            rows.append(_of_digits([digit.T for digit in across[digits + behind :]]))
        return ExactSum(*(np.vstack(limbs) for limbs in zip(*(r.limbs for r in rows), strict=True)))

    def _digits(self) -> tuple[list[IntArray], int]:
        """To the base 2^13, the first of at most 15 bits; and how many are behind the point."""
        own = [self.low & _DIGIT, self.low >> 13]
        own += [self.high >> 13 * index & (_DIGIT if index < 3 else -1) for index in range(4)]
        return (own, 0) if self.part is None else ([self.part & _DIGIT, self.part >> 13, *own], 2)

    @property
    def T(self) -> ExactSum:
        """The transpose."""
        return ExactSum(*(limb.T for limb in self.limbs))

    def __getitem__(self, index: Any) -> ExactSum:
        """A part."""
        return ExactSum(*(np.asarray(limb[index]) for limb in self.limbs))

    def __repr__(self) -> str:
        return f"ExactSum(shape={self.high.shape})"


def _product(halves: NDArray[np.int32], own: Sequence[IntArray]) -> list[IntArray]:
    """A matrix times numbers of such digits, the first of at most 15 bits: digits again.

    Doubles add up 2^11 products of 26 bits with 15 exactly.
    """
    width, K = len(own), own[0].shape[1]
    total = [np.zeros((halves.shape[1], K), np.int64) for _ in range(width + 4)]
    several = max(_STRIP // K, 1)  # digits that are multiplied in one go
    for first in range(0, width, several):
        side = np.hstack(own[first : first + several]).astype(np.float64)
        for start in range(0, len(side), 2**11):
            part = slice(start, start + 2**11)
            for half, matrix in enumerate(halves):
                for rows in strips(len(matrix)):
                    doubles = matrix[rows, part].astype(np.float64)
                    products = (doubles @ side[part]).astype(np.int64)
                    for index in range(side.shape[1] // K):
                        digit = products[:, index * K : (index + 1) * K]
                        total[2 * half + first + index][rows] += digit
    for index in range(len(total) - 1):
        total[index + 1] += total[index] >> 13
        total[index] &= _DIGIT
    return total


def strips(n_rows: int) -> list[slice]:
    """Rows of a matrix, so many at a time: a copy of them is no matrix."""
    return [slice(first, min(first + _STRIP, n_rows)) for first in range(0, n_rows, _STRIP)]


def _of_digits(digits: Sequence[IntArray]) -> ExactSum:
    """The number of these digits, the last ones first; it must be below 2^89."""
    low, more, *rest = digits
    high = np.zeros_like(low)
    for digit in reversed(rest):
        if np.any(np.abs(high) >= 2**50):
            raise OverflowError(
                "Expected products of sums below 2^89, got larger ones; sum fewer rows."
            )
        high = (high << 13) + digit
    return ExactSum(*_carried(high, low + (more << 13)))


def halved(matrix: FloatArray) -> NDArray[np.int32]:
    """Whole numbers in doubles, below 2^53, as low + high 2^26: both halves, in their place."""
    halves = matrix.view(np.int32).reshape(*matrix.shape, 2)
    for rows in strips(len(matrix)):
        high = np.trunc(matrix[rows] * 2.0**-_LOW_BITS)
        low = matrix[rows] - high * 2.0**_LOW_BITS
        halves[rows, :, 0], halves[rows, :, 1] = low, high
    return np.moveaxis(halves, -1, 0)


def _carried(high: Any, low: Any, part: Any = None) -> tuple[Any, ...]:
    """The same number with 0 <= low, part < 2^26."""
    if part is None:
        return high + (low >> _LOW_BITS), low & _LOW
    return *_carried(high, low + (part >> _LOW_BITS)), part & _LOW


def _padded(limbs: Sequence[Any], n_limbs: int) -> list[Any]:
    """Integers that have no part, with zeros for it."""
    return [*limbs, *(0 * limbs[0] for _ in range(n_limbs - len(limbs)))]


def _paired(one: Sequence[Any], other: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """The limbs of two numbers side by side."""
    n_limbs = max(len(one), len(other))
    return zip(_padded(one, n_limbs), _padded(other, n_limbs), strict=True)


class Accumulator:
    """The running sums of one pass, by name; those of several workers can be merged.

    Sums stay where the blocks are, on a graphics card for instance, until `sums` fetches them.

    Examples
    --------
    >>> import numpy as np
    >>> total = Accumulator()
    >>> total.add({"count": np.array(3.0)})
    >>> total.add({"count": np.array(4.0)})
    >>> float(total.sums()["count"].value)
    7.0
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {}
        self._short: dict[str, tuple[Any, int]] = {}  # sums of so few terms that 64 bits hold them
        self._sparse: dict[str, list[Any]] = {}  # terms that are still to be added

    def add(self, terms: Mapping[str, Any]) -> None:
        """Add what a block contributes: 64-bit integers, or doubles that hold them below 2^53."""
        for name, term in terms.items():
            if hasattr(term, "tocoo"):
                self._sparse.setdefault(name, []).append(term.tocoo())
                continue
            xp = namespace(term)
            if term.dtype == xp.int64 and not (xp is np and _is_short(term)):
                self._add_long(name, term)
            else:  # an array even of one number: numpy 2.0 turns no scalar into integers
                self._add_short(name, xp.asarray(term))

    def merge(self, other: Accumulator) -> None:
        """Add what another worker has summed."""
        for name, parts in other._parts.items():
            self._merge(name, parts)
        for name, (term, count) in other._short.items():
            known, before = self._short.get(name, (None, 0))
            if known is not None:
                known += term  # without a copy
            self._count(name, term if known is None else known, before + count)
        for name, terms in other._sparse.items():
            self._scatter(name, terms)

    def weighted(self, weight: int) -> Accumulator:
        """The same sums times an integer of at most 2^26, over 2^26; they start anew here."""
        other, parts = Accumulator(), self._lengthened()
        self._parts = {}
        for name, (high, low) in parts.items():
            # Products of 26 bits with 26; sums below 2^80 leave 28 bits for the first.
            high = high + (low >> _LOW_BITS)
            top, middle = (high >> _LOW_BITS) * weight, (high & _LOW) * weight
            other._parts[name] = [*_carried(top, middle, (low & _LOW) * weight)]
        return other

    def sums(self) -> dict[str, ExactSum]:
        """The sums, which take the memory of this accumulator: it starts anew."""
        sums = {}
        for name, parts in self._lengthened().items():
            for index in range(len(parts) - 1, 0, -1):
                parts[index - 1] += parts[index] >> _LOW_BITS
                parts[index] &= _LOW
            sums[name] = ExactSum(*map(on_host, parts))
        self._parts = {}
        return sums

    def state(self) -> dict[str, Any]:
        """What has been summed as plain arrays, for transport."""
        parts = self._lengthened()
        return {name: [on_host(part) for part in limbs] for name, limbs in parts.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Accumulator:
        """The accumulator whose `state` this is."""
        accumulator = cls()
        accumulator._parts = {name: list(parts) for name, parts in state.items()}
        return accumulator

    def _merge(self, name: str, parts: Any) -> None:
        if name not in self._parts:
            self._parts[name] = list(parts)
            return
        known = self._parts[name]
        for index, more in enumerate(parts):
            if index < len(known):
                known[index] += more
            else:
                known.append(more)

    def _add_long(self, name: str, term: Any) -> None:
        """Add 64-bit integers that belong to others, a strip at a time: each copy is a matrix."""
        if name not in self._parts:
            self._parts[name] = [term >> _LOW_BITS, term & _LOW]
            return
        high, low = self._parts[name][:2]
        for rows in strips(term.shape[0]) if term.ndim else [...]:
            place = (rows, ...) if term.ndim > 1 else rows
            high[place] += term[place] >> _LOW_BITS
            low[place] += term[place] & _LOW

    def _add_short(self, name: str, term: Any) -> None:
        """Add while 64 bits are enough: fewer than 2^10 terms of at most 2^53."""
        xp, (known, before) = namespace(term), self._short.get(name, (None, 0))
        known = xp.astype(term, xp.int64) if known is None else add_whole(known, term)
        self._count(name, known, before + 1)

    def _count(self, name: str, known: Any, count: int) -> None:
        self._short[name] = (known, count)
        if count >= _FEW:
            self._merge(name, _split(self._short.pop(name)[0]))

    def _scatter(self, name: str, terms: list[Any]) -> None:
        """Add sparse matrices, each where it has entries: no place stands in one twice."""
        for term in terms:
            known, before = self._short.get(name) or (np.zeros(term.shape, np.int64), 0)
            place = term.row.astype(np.int64) * term.shape[1] + term.col
            known.reshape(-1)[place] += term.data.astype(np.int64)
            self._count(name, known, before + 1)

    def _lengthened(self) -> dict[str, list[Any]]:
        """All sums, where there is room for more."""
        for name in list(self._sparse):
            self._scatter(name, self._sparse.pop(name))
        for name in list(self._short):
            self._merge(name, _split(self._short.pop(name)[0]))
        return self._parts


def _is_short(values: IntArray) -> bool:
    """Whether doubles would hold these 64-bit integers."""
    return not values.size or -(2**53) <= int(values.min()) <= int(values.max()) <= 2**53


def _split(values: Any) -> tuple[Any, Any]:
    """The two parts of 64-bit integers, wherever they are; their own memory holds the first."""
    low = values & _LOW
    values >>= _LOW_BITS
    return values, low
