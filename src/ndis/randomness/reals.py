"""Random real numbers, to as many binary digits as anybody asks for.

A double cannot be a draw of a continuous law: it has too few values, and which of them occur after
an addition tells what was added (Mironov 2012). A number of `Reals` is a draw of the law itself.
Its first digits are known; those that nobody has looked at are independent fair coins, so the next
one can be tossed whenever a decision hangs on it, and never changes afterwards.

That is possible because the law is reached by rejection (Karney, "Sampling exactly from the
normal distribution", 2016). A staircase lies above the density: a random point x below a random
step, at a random height, is kept if that height is below the density at x. Both are compared by
their first digits only, and by further ones while these leave it open. Whatever the digits of x
beyond those are, the answer is the same, so being kept says nothing about them.
docs/proofs/rounding.md has the proof; a test checks the staircase in ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flint
import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._validate import FloatArray

IntArray = NDArray[np.int64]

# Larger blocks leave the cache, smaller ones pay for calls.
BLOCK = 2**16

# Steps have width 1/64 up to 4 and width 1 beyond. A step is chosen by 14 bits.
_STEP_BITS, _CUT, _SLOT_BITS = 6, 4, 14
_N_STEPS, _N_SLOTS = _CUT << _STEP_BITS, 1 << _SLOT_BITS
# The height of a point is known to this many bits, which together with the slot fill a word.
_HEIGHT_BITS = 64 - _SLOT_BITS
# Far above what doubles do to the chance of being kept (2^-41), and above the last digits of
# place and height (2^-50).
_MARGIN = 2.0**-36


class Reals:
    """Independent real numbers; each lies in [floor, floor + 1] 2^-bits.

    Parameters
    ----------
    floors : ndarray of int64, of one dimension
        What is known of each number.
    bits : int
        The binary digits after the point that are known of all of them.
    rng : numpy.random.Generator
        Where further digits come from.
    """

    def __init__(self, floors: IntArray, bits: int, rng: np.random.Generator) -> None:
        self.floors = floors
        self.bits = bits
        self.rng = rng
        self.further: dict[int, tuple[int, int]] = {}

    def doubles(self) -> FloatArray:
        """Doubles that are off by less than 2^-bits + 2^-53 |number|."""
        return np.asarray(self.floors * 2.0**-self.bits)

    def floor(self, index: int, bits: int) -> int:
        """The integer part of 2^bits times one of the numbers, bits >= self.bits."""
        known, have = self.further.get(index, (int(self.floors[index]), self.bits))
        while have < bits:
            known, have = known << 64 | int(_words(1, self.rng)[0]), have + 64
        self.further[index] = known, have
        return known >> have - bits

    def first(self, size: int, rejected: IntArray) -> Reals | None:
        """Keep the first numbers; later ones take the places of those rejected."""
        n_holes = int(np.searchsorted(rejected, size))
        if n_holes:
            good = np.ones(self.floors.size - size, dtype=np.bool_)
            good[rejected[n_holes:] - size] = False
            holes, spare = rejected[:n_holes], size + np.flatnonzero(good)
            if n_holes > spare.size:
                return None
            self._move(spare[:n_holes], holes)
        self.floors = self.floors[:size]
        return self

    def _move(self, sources: IntArray, targets: IntArray) -> None:
        self.floors[targets] = self.floors[sources]
        if self.further:
            for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
                self.further.pop(target, None)
                if source in self.further:
                    self.further[target] = self.further.pop(source)


class Law:
    """A symmetric law whose density is proportional to exp(-potential(|x|)).

    Parameters
    ----------
    potential : callable
        Takes arrays, and balls of python-flint. It grows by at least 1 from x to x + 1, for
        x >= 4.
    height : int
        The height of the density at 0 in units of one slot of a step.
    bits : int
        The binary digits that are drawn at once. Numbers of at least 2^(63 - bits) are redrawn.
    """

    def __init__(self, potential: Callable[[Any], Any], height: int, bits: int) -> None:
        self.potential, self.height, self.bits = potential, height, bits
        density = height * np.exp(-potential(np.arange(_N_STEPS + 1) / 2.0**_STEP_BITS))
        # A slot is an area: over a step of width 1/64 its height is 1. The last step stands for
        # all beyond 4: there the step [4 + k, 5 + k) has the share 2^-(k+1) of its slots.
        density[-1] *= 2.0 ** (_STEP_BITS + 1)
        self.slots = np.floor(density * (1.0 + 2.0**-40)).astype(np.int64) + 1
        self.slots[0] += _N_SLOTS - self.slots.sum()
        # A point lower than this is below the density everywhere on its step.
        sure = (
            np.append(density[1:-1], height * math.exp(-potential(float(_CUT)))) / self.slots[:-1]
        )
        self.sure = np.append(np.floor((sure - _MARGIN) * 2.0**_HEIGHT_BITS), 0.0).astype(np.int64)
        self._step_of_slot = np.repeat(np.arange(_N_STEPS + 1), self.slots)
        self._start_of_slot = self._step_of_slot << bits - _STEP_BITS
        self._sure_of_slot = self.sure[self._step_of_slot]
        # The chance of being kept at x is odds exp(-potential(x)).
        self._odds = np.append(np.ones(_N_STEPS, np.int64), 2 << _STEP_BITS) * height
        self._log_odds = np.log(self._odds / self.slots)

    def draw(self, size: int, rng: np.random.Generator) -> Reals:
        """Independent draws of the law, of which `bits` digits are known.

        Parameters
        ----------
        size : int
            How many.
        rng : numpy.random.Generator
            From `generator`.
        """
        reals = Reals(np.empty(size, dtype=np.int64), self.bits, rng)
        for start in range(0, size, BLOCK):
            block = self._draw_block(min(BLOCK, size - start), rng)
            reals.floors[start : start + BLOCK] = block.floors
            reals.further.update({start + i: more for i, more in block.further.items()})
        return reals

    def _draw_block(self, size: int, rng: np.random.Generator) -> Reals:
        # One point in 67 (normal) or 30 (Laplace) is not kept; those drawn in excess replace it.
        total = size + size // 16 + 16
        first, second = _words(total, rng), _words(total, rng)
        slot = (first & np.uint64(_N_SLOTS - 1)).view(np.int64)
        first >>= np.uint64(_SLOT_BITS)
        height = first.view(np.int64)
        signs = -(second & np.uint64(1)).view(np.int64)  # 0 or -1
        floors = self._start_of_slot.take(slot)
        floors += (second >> np.uint64(64 + _STEP_BITS - self.bits)).view(np.int64)
        reals = Reals(floors, self.bits, rng)
        rejected = open_ = (height >= self._sure_of_slot.take(slot)).nonzero()[0]
        if open_.size:
            steps = self._step_of_slot[slot[open_]]
            rejected = open_[~self._settle(reals, open_, steps, height[open_], second)]
        floors ^= signs  # -x lies in [~floor, ~floor + 1] 2^-bits
        for index, (known, bits) in reals.further.items():
            reals.further[index] = known ^ int(signs[index]), bits
        return reals.first(size, rejected) or self._draw_block(size, rng)

    def _settle(
        self,
        reals: Reals,
        open_: IntArray,
        step: IntArray,
        height: IntArray,
        second: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Which of the open points are kept; those beyond 4 get their places first."""
        unit = np.zeros(open_.size, dtype=np.int64)
        most = (1 << 63 - self.bits) - _CUT
        if (tail := np.flatnonzero(step == _N_STEPS)).size:
            unit[tail] = _leading_heads(tail.size, reals.rng)
            start = _CUT + np.minimum(unit[tail], most - 1) << self.bits
            place = (second[open_[tail]] >> np.uint64(64 - self.bits)).view(np.int64)
            reals.floors[open_[tail]] = start + place
        x = reals.floors[open_] * 2.0**-self.bits
        chance = np.exp(self._log_odds[step] + unit * math.log(2.0) - self.potential(x))
        gap = chance - height * 2.0**-_HEIGHT_BITS
        gap[unit >= most] = -1.0
        for i in np.flatnonzero(np.abs(gap) <= _MARGIN):
            odds = int(self._odds[step[i]]) << int(unit[i]), int(self.slots[step[i]])
            gap[i] = 1.0 if self._keeps(reals, int(open_[i]), int(height[i]), odds) else -1.0
        return np.asarray(gap > 0.0)

    def _keeps(self, reals: Reals, index: int, height: int, odds: tuple[int, int]) -> bool:
        """Compare a height with the density, by as many digits as it takes."""
        more = 0
        while True:
            bits, height_bits = self.bits + more, _HEIGHT_BITS + more
            with flint.ctx.workprec(bits + height_bits + 64):
                x = ball(reals.floor(index, bits), bits)
                chance = arb(odds[0]) / odds[1] * (-self.potential(x)).exp()
                point = ball(height, height_bits)
                if point < chance or point > chance:
                    return bool(point < chance)
            height = height << 64 | int(_words(1, reals.rng)[0])
            more += 64


def _words(size: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    return rng.integers(0, 2**64, size, dtype=np.uint64)


def _leading_heads(size: int, rng: np.random.Generator) -> IntArray:
    """How often a coin shows heads before it shows tails."""
    words = _words(size, rng)
    first_zero = ~words & (words + np.uint64(1))  # a power of two, or 0 if there is none
    heads = np.frexp(first_zero.astype(np.float64))[1].astype(np.int64) - 1
    if (none := np.flatnonzero(first_zero == 0)).size:
        heads[none] = 64 + _leading_heads(none.size, rng)
    return heads


def ball(floor: int, bits: int) -> arb:
    """Hold the numbers in [floor, floor + 1] 2^-bits."""
    return arb(2 * floor + 1, 1) * arb(2) ** (-bits - 1)


# 2^14 slots leave these heights; a draw lies beyond 64 with probability 1e-892, or beyond 2048
# with 1e-890.
NORMAL = Law(lambda x: x * x / 2, height=201, bits=57)
LAPLACE = Law(lambda x: x, height=247, bits=52)
