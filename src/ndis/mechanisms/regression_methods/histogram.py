"""Noisy counts in half octaves, and what they say about where values lie."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from ndis._validate import FloatArray
from ndis.tables.sums import (
    BINS,
)

# In unseen bins sums of squares go on falling, by this factor from bin to bin at least.
_STEEPEST = 0.8
# A bin counts if it stands out by so many deviations; or so many bins in a row, where rows are
# looked for that are spread thinly.
SEEN, _WINDOWS = 3.0, (2, 4, 8)
# So many rows are none.
NOBODY = 0.1
# What clips cut off is added up at so many places.
_POINTS = 100

_EDGES = 2.0 ** (-np.arange(BINS + 1) / 2)
_SQUARES = _EDGES[:-1] ** 2 * 0.5 / math.log(2)  # the mean square in a bin, if log-uniform there


class Histogram:
    """Noisy counts in half octaves below `top`, and what they say about where values lie."""

    def __init__(
        self,
        noisy: FloatArray,
        top: float,
        scale: float,
        expected: float | None = None,
        thinly: bool = False,
    ) -> None:
        self.top, self.scale = top, scale
        self.sum = float(noisy.sum())  # no bin is missed, and the noise of all of them added
        # Bins far from where values are expected must stand out by more: they would cost more.
        away = np.arange(BINS) - (0.0 if expected is None else 2 * math.log2(top / expected))
        least = np.sqrt(SEEN**2 + np.abs(away)) * scale
        self.counts = np.where(noisy > least, noisy, 0.0)
        for width in _WINDOWS if thinly else ():
            self._count_together(noisy, least, width)
        # What is zero says nothing about where other values lie.
        self.zeros, self.counts[-1] = float(self.counts[-1]), 0.0
        seen = np.nonzero(self.counts)[0]
        self.empty = len(seen) == 0
        if self.empty:
            self.total = SEEN**2 * scale  # about the most that can hide
        else:  # bins beside those seen hold rows too
            near = float(noisy[max(seen[0] - 1, 0) : seen[-1] + 4].sum())
            self.total = max(near, float(self.counts.sum()) + self.zeros)

    def _count_together(self, noisy: FloatArray, least: FloatArray, width: int) -> None:
        """Rows that are spread thinly over bins, none of which stands out, but all together do."""
        sums = np.convolve(noisy, np.ones(width), "valid")
        wanted = np.lib.stride_tricks.sliding_window_view(least, width).max(axis=1)
        for start in np.argsort(-sums / wanted):
            bins = slice(start, start + width)
            if sums[start] <= wanted[start] * math.sqrt(width):
                break
            if not self.counts[bins].any():
                self.counts[bins] = sums[start] / width

    def above(self, rows: float) -> float:
        """The value that so many rows exceed, among what is seen."""
        tail = np.concatenate([[0.0], np.cumsum(self.counts)])
        if rows >= tail[-1]:
            return self.top * float(_EDGES[np.nonzero(self.counts)[0][-1] + 1])
        k = int(np.searchsorted(tail, rows, side="right")) - 1
        share = (rows - tail[k]) / (tail[k + 1] - tail[k])
        return self.top * float(2.0 ** (-(k + share) / 2))

    def quantile(self, rows: float) -> float:
        """The same, beyond what is seen too: there logarithms of values follow normal scores."""
        n = float(self.counts.sum())
        rows, visible = min(rows, n / 2), SEEN * self.scale
        if rows >= visible:
            return self.above(rows)

        def score(tail: float) -> float:
            return -float(ndtri(min(tail / n, 0.5)))

        near = min(visible, n / 4)
        wide = min(max(4 * near, n / 4), n / 2)
        slope = math.log(self.above(near) / self.above(wide)) / (score(near) - score(wide))
        beyond = math.exp(slope * max(score(rows) - score(near), 0.0))
        return min(self.above(near) * beyond, self.top)

    def mean_square(self, cap: float) -> float:
        """The mean square of the values, each cut to `cap`."""
        if self.empty:
            return cap * cap / 4
        squares = np.minimum(_SQUARES * self.top**2, cap * cap)
        return float(squares @ self.counts) / (float(self.counts.sum()) + self.zeros)

    def second_moment(self) -> tuple[float, float, float]:
        """The mean square, what noise and rows unseen may do to it, and what sampling may.

        Within a bin the density of logarithms is taken to be exponential, as steep as between the
        bins beside it: where it falls, a bin's values are near its lower end.
        """
        counts = self.counts
        seen = np.nonzero(counts)[0]
        if self.empty:
            return math.nan, math.nan, math.nan
        near = np.log(np.maximum(counts, self.scale))
        slope = np.zeros(BINS)
        slope[1:-1] = (near[:-2] - near[2:]) / math.log(2.0)  # per unit of the logarithm
        slope = np.clip(slope, -12.0, 12.0)
        squares = _EDGES[:-1] ** 2 * _mean_power(slope, 2.0) * self.top**2
        fourth = _EDGES[:-1] ** 4 * _mean_power(slope, 4.0) * self.top**4
        total = float(counts.sum()) + self.zeros
        value = float(squares @ counts) / total
        # Above the first bin that is seen noise may hide what goes on falling as it did: half of
        # that is an error.
        first = int(seen[0])
        ratio = 2.0 * counts[first] / max(float(counts[min(first + 1, BINS - 1)]), self.scale)
        ratio = min(ratio, _STEEPEST) if first > 0 else 0.0
        hidden = 0.5 * counts[first] * squares[first] / total * ratio / (1.0 - ratio)
        noise = self.scale * float(np.linalg.norm(squares[seen] - value)) / total
        spread = max(float(fourth @ counts) / total - value**2, 0.0)
        return value, math.hypot(noise, hidden), math.sqrt(spread / total)

    def kept(self, cap: float) -> tuple[float, float]:
        """The share of values that are not cut, and the sum of what is cut off from the others."""
        if self.empty:
            return 1.0, 0.0
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        above = np.maximum(values - cap, 0.0)
        total = float(self.counts.sum())
        return 1.0 - float(self.counts[values > cap].sum()) / total, float(above @ self.counts)

    def cut_off(self, cap: float, deviations: float = SEEN) -> float:
        """The most that is cut off from all values by a cap, in bins that noise hides too."""
        above = np.maximum(_EDGES[:-1] * self.top - cap, 0.0)
        hidden = deviations * self.scale * float(np.linalg.norm(above))
        return float(above @ self.counts) + hidden

    def lost_beyond(self, cap: float) -> float:
        """About the sum of what a cap cuts off from all values, see `quantile`."""
        if self.empty:
            return math.inf
        rows = np.geomspace(NOBODY, max(float(self.counts.sum()) / 2, 1.0), _POINTS)
        above = [max(self.quantile(each) - cap, 0.0) for each in rows]
        return above[0] * NOBODY + float(np.trapezoid(above, rows))

    def mean(self) -> float:
        """The mean of the values that are seen; `empty` ones have none."""
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        return float(values @ self.counts) / float(self.counts.sum())

    def lost(self, cap: float) -> float:
        """By which factor the mean of the values exceeds that of values cut to `cap`."""
        if self.empty:
            return 1.0
        values = _EDGES[:-1] * 2.0**-0.25 * self.top
        return float(values @ self.counts) / float(np.minimum(values, cap) @ self.counts)


def _mean_power(slope: FloatArray, power: float) -> FloatArray:
    """The mean of (value over upper end)^power in a bin with such a density of logarithms."""
    half = 0.5 * math.log(2.0)
    up, down = slope + power, slope
    up, down = (np.where(np.abs(each) < 1e-6, 1e-6, each) for each in (up, down))
    return np.asarray((down / up) * np.expm1(-up * half) / np.expm1(-down * half))


def shifted(values: FloatArray, places: int) -> FloatArray:
    """Counts in bins whose top was moved up by so many bins; those that fall off are none."""
    moved = np.roll(values, places)
    if places > 0:
        moved[:places] = 0.0
    elif places < 0:
        moved[places:] = 0.0
    return moved
