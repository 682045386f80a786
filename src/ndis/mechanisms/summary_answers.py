"""What the noisy sums of a summary say: counts, means, deviations, quantiles and shares by group.

Everything here is post-processing. Cells are the finest groups; any coarser group, and the total,
is a sum of cells. Sums of a cell are (N, S1, S2): rows, t and t^2, where a value is
centre + half t and -1 <= t <= 1. Blocks of a release that each count the rows are put together by
least squares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from ndis import _validate
from ndis._validate import FloatArray
from ndis.answer import DATE, DAYS, Answer, headings
from ndis.mechanisms import tree
from ndis.mechanisms.intervals import COVERED
from ndis.mechanisms.laws import reach_of, whole_reach

# A group is told nothing about if its count is below so many standard errors of it.
_SEEN = 4.0
# Counts with less noise than this are whole numbers: of normal and of Laplace noise, and of laws in
# between, the mean square is smaller then.
MOST_OF_WHOLE = 0.25
# A normal's kurtosis.
_KURTOSIS = 3.0
# The column that tells periods of a series apart.
PERIOD = "period"
FIELDS = ("estimate", "standard_error", "lower", "upper")
# The columns of every long table; those of groups come first, and have other names.
WORDS = ("column", "statistic", "level")
FIXED = (*WORDS, *FIELDS)
OTHER = "other"


# What the sum of a few doubles can be off by.
_ROUNDING = 1e-6
Jumps = Sequence[tuple[FloatArray, float, int]]


def _reach_of_cells(jumps: Jumps, n_cells: int, level: float) -> float:
    if not n_cells:
        return 0.0
    return whole_reach([(chances, w, times * n_cells) for chances, w, times in jumps], level)


@dataclass(frozen=True)
class Lines:
    """Answers of one kind for all groups of one grouping.

    Attributes
    ----------
    column, statistic, level : str
    estimate : ndarray
    noise, sampling : ndarray
        Variances.
    ends : (ndarray, ndarray)
        What is possible.
    freedom : ndarray
        Rows behind the sampling variance.
    law : str
        Of the noise.
    told : ndarray, optional
        What is told instead, made consistent; intervals stay those of the estimate, and hold it.
    whole : bool
        Whether all are whole numbers; intervals end with the outermost that they hold.
    jumps : sequence of (ndarray, float, int)
        The noise of each cell where it is that of whole numbers, as `whole_reach` has it; empty
        where it is not, or is so large that it does not matter.
    n_cells : ndarray, optional
        How many cells there are in each group, where there are jumps.
    """

    column: str
    statistic: str
    level: str
    estimate: FloatArray
    noise: FloatArray
    sampling: FloatArray
    ends: tuple[Any, Any]
    freedom: FloatArray
    law: str
    told: FloatArray | None = None
    whole: bool = False
    jumps: Jumps = ()
    n_cells: FloatArray | None = None

    def intervals(self, level: float, of: str) -> dict[str, FloatArray]:
        """Estimates with standard errors and intervals; those of noise that hides all are NaN."""
        sampling = np.where(of == "population", self.sampling, 0.0)
        error = np.sqrt(self.noise + sampling)
        tail = 0.5 * (1.0 - level)
        few = -stdtrit(np.maximum(self.freedom - 1.0, 1.0), tail)
        far = reach_of(self.law, level, 1.0, 1)  # of several numbers' noise it is less
        reach = np.sqrt(self.noise * far**2 + sampling * few**2)
        if self.jumps and self.n_cells is not None:
            sizes, which = np.unique(self.n_cells, return_inverse=True)
            steps = [_reach_of_cells(self.jumps, int(n), level) for n in sizes]
            reach = np.array(steps)[which]
        low, high = (np.clip(self.estimate + side * reach, *self.ends) for side in (-1.0, 1.0))
        told = self.estimate if self.told is None else self.told
        if self.whole:
            low, high = np.ceil(low - _ROUNDING), np.floor(high + _ROUNDING)
        if self.told is not None:
            low, high = np.minimum(low, told), np.maximum(high, told)
        return dict(zip(FIELDS, (told, error, low, high), strict=True))


@dataclass(frozen=True)
class DeviationLines:
    """Standard deviations of one column for all groups of one grouping, by their squares.

    Attributes
    ----------
    column : str
    found, likely : ndarray
        The variance as it came out, and what it is likely to be.
    noise, sampling : ndarray
        Variances of that.
    most : float
        The largest variance there can be.
    law : str
        Of the noise.
    """

    column: str
    found: FloatArray
    likely: FloatArray
    noise: FloatArray
    sampling: FloatArray
    most: float
    law: str

    statistic, level = "sd", ""

    def intervals(self, level: float, of: str) -> dict[str, FloatArray]:
        """Ends of the variance, and their roots."""
        sampling = np.where(of == "population", self.sampling, 0.0)
        error = np.sqrt(self.noise + sampling)
        far, usual = (reach_of(law, level, 1.0, 1) for law in (self.law, "gaussian"))
        reach = np.sqrt(far**2 * self.noise + usual**2 * sampling)
        low, high = (
            np.sqrt(np.clip(self.found + side * reach, 0.0, 2.0 * self.most))
            for side in (-1.0, 1.0)
        )
        hidden = np.where(np.isnan(error), np.nan, 1.0)
        # A deviation near zero is no further off than the root of what the variance is off by.
        spread = 0.5 * error / np.sqrt(np.maximum(self.likely, 0.25 * error))
        parts = (hidden * np.sqrt(self.likely), spread, low, high)
        return dict(zip(FIELDS, parts, strict=True))


@dataclass(frozen=True)
class QuantileLines:
    """Quantiles of one column for all groups of one grouping: intervals by inverted ranks."""

    column: str
    share: float
    prefixes: FloatArray
    variances: FloatArray
    count_variance: float
    n_cells: FloatArray
    places: FloatArray
    limits: tuple[float, float]
    known: NDArray[np.bool_]

    level = ""

    @property
    def statistic(self) -> str:
        """As in the frame: q0.5 for a median."""
        return f"q{self.share:g}"

    def intervals(self, level: float, of: str) -> dict[str, FloatArray]:
        """Ranks that are as far off as sampling and noise may make them, read off the curve."""
        total = np.maximum(self.prefixes[:, -1], 1.0)
        rank = self.share * total
        place = tree.quantile(self.prefixes, rank, self.places)
        around = np.concatenate([[self.variances[0]], self.variances])
        # A total that is too large adds to all leaves alike, and to the rank.
        noise = self.n_cells * (
            np.interp(place, self.places, around) + (place - self.share) ** 2 * self.count_variance
        )
        sampling = self.share * (1.0 - self.share) * total * (of == "population")
        z = -float(ndtri(0.5 * (1.0 - level)))
        reach = z * np.sqrt(noise + sampling)
        low, value, high = (
            tree.quantile(self.prefixes, np.clip(rank + side * reach, 0.0, total), self.places)
            for side in (-1.0, 0.0, 1.0)
        )
        # Where values lie within a leaf of many rows is not known: they may all be at an end of it.
        last = len(self.places) - 1
        first = np.searchsorted(self.places, low, side="right").clip(1, last) - 1
        end = np.searchsorted(self.places, high).clip(1, last)
        leaves = np.diff(self.prefixes, axis=1, prepend=0.0)
        groups = np.arange(len(total))
        ends = (
            np.where(leaves[groups, first] > reach, self.places[first], low),
            np.where(leaves[groups, end - 1] > reach, self.places[end], high),
        )
        start, wide = self.limits[0], self.limits[1] - self.limits[0]
        error = wide * (ends[1] - ends[0]) / (2.0 * z)
        parts = (start + wide * value, error, start + wide * ends[0], start + wide * ends[1])
        return {
            name: np.where(self.known, part, np.nan)
            for name, part in zip(FIELDS, parts, strict=True)
        }


@dataclass(frozen=True)
class Grouping:
    """Cells added up to groups.

    Attributes
    ----------
    labels : list of tuple
        The levels of each group; None for a column over which cells are added up.
    member : ndarray of int
        The group of each cell; as many as there are groups for those of none.
    """

    labels: list[tuple[Any, ...]]
    member: NDArray[np.int64]

    def sum(self, values: FloatArray) -> FloatArray:
        """Sums over the cells of each group; cells are the first axis."""
        n = len(self.labels)
        total = np.zeros((n + 1, *values.shape[1:]))
        np.add.at(total, self.member, values)
        return total[:n]


def groupings(places: Sequence[Sequence[Any]], others: bool) -> Iterator[Grouping]:
    """The finest groups, all margins of them, and the total.

    Parameters
    ----------
    places : sequence of sequences
        Places of each column: its levels, None for places that are known to be empty, and last what
        is not listed.
    others : bool
        Whether what is not listed has groups of its own.
    """
    shape = tuple(len(each) for each in places)
    at = np.unravel_index(np.arange(math.prod(shape)), shape) if shape else ()
    empty = [np.array([name is None for name in each]) for each in places]
    alive = np.ones(math.prod(shape), dtype=bool)
    for column, none in enumerate(empty):
        alive &= ~none[at[column]]
    for size in range(len(shape), -1, -1):
        for kept in itertools.combinations(range(len(shape)), size):
            member, inside, shown = np.zeros(math.prod(shape), dtype=np.int64), alive.copy(), []
            for column in kept:
                told = ~empty[column]
                told[-1] = others
                rank = np.cumsum(told) - 1
                member = member * int(told.sum()) + rank[at[column]]
                inside &= told[at[column]]
                shown.append([n for n, t in zip(places[column], told, strict=True) if t])
            labels = [
                tuple(
                    group[kept.index(column)] if column in kept else None
                    for column in range(len(shape))
                )
                for group in itertools.product(*shown)
            ]
            yield Grouping(labels, np.where(inside, member, len(labels)))


def not_negative(counts: FloatArray) -> FloatArray:
    """The nearest counts that are not negative and have the same sum."""
    total = max(float(counts.sum()), 0.0)
    falling = np.sort(counts)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1.0, counts.size + 1.0)
    last = int(np.flatnonzero(falling > over)[-1]) if (falling > over).any() else 0
    return np.asarray(np.maximum(counts - over[last], 0.0))


def whole_numbers(counts: FloatArray) -> FloatArray:
    """The nearest whole numbers; for each below 0 the least likely of those that are 1 is none.

    So that many groups without rows do not add up to some.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.summary_answers import whole_numbers
    >>> whole_numbers(np.array([7.2, 0.6, 0.9, -0.7])).tolist()
    [7.0, 0.0, 1.0, 0.0]
    """
    near = np.rint(counts)
    found = np.maximum(near, 0.0)
    ones = np.flatnonzero(found == 1.0)
    fewer = int((found - near).sum())
    found[ones[np.argsort(counts[ones], kind="stable")][:fewer]] = 0.0
    return found


def whole_with_sum(counts: FloatArray) -> FloatArray:
    """Whole numbers next to these, with their sum, which is whole.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.summary_answers import whole_with_sum
    >>> whole_with_sum(np.array([6.5, 0.0, 3.25, 9.25])).tolist()
    [7.0, 0.0, 3.0, 9.0]
    """
    found = np.floor(counts + _ROUNDING)
    more = round(float(counts.sum() - found.sum()))
    found[np.argsort(found - counts, kind="stable")[:more]] += 1.0
    return found


def likely_variance(found: FloatArray, noise: FloatArray, most: FloatArray) -> FloatArray:
    """The mean of what a variance between 0 and `most` may be, given a noisy one.

    Where noise is small that is the noisy one; where it hides all, the middle.
    """
    spread = np.sqrt(np.maximum(noise, 1e-300))
    low, high = -found / spread, (most - found) / spread
    mass = ndtr(high) - ndtr(low)
    bend = (np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / math.sqrt(2.0 * math.pi)
    inside = found + spread * bend / np.where(mass > 1e-9, mass, 1.0)
    return np.clip(np.where(mass > 1e-9, inside, found), 0.0, most)


def _tails(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """The kurtosis of values between 0 and 1, by their mean and variance.

    That of a beta law with these: 6 for costs from 0 that are like a gamma law of shape 2, exact
    for zeros and ones. Values that are not spread over the whole range have a normal's at least.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.summary_answers import _tails
    >>> _tails(np.array([0.5, 0.002, 0.2]), np.array([1e-4, 2e-6, 0.16])).round(2).tolist()
    [3.0, 5.97, 3.25]
    """
    # Of released, noisy moments: the law they are fitted to lives between its ends.
    p = np.clip(mean, 1e-9, 1.0 - 1e-9)
    most = p * (1.0 - p)
    spread = np.clip(variance / most, 1e-9, 1.0)
    s = 1.0 / spread - 1.0
    excess = (2.0 * p - 1.0) ** 2 * (s + 1.0) - most * (s + 2.0)
    found = _KURTOSIS + 6.0 * excess / (most * (s + 2.0) * (s + 3.0))
    normal = np.clip(1.0 - 3.0 * spread, 0.0, 1.0) * np.maximum(_KURTOSIS - found, 0.0)
    return np.asarray(found + normal)


@dataclass(frozen=True)
class CellSums:
    """The sums of all cells, put together from all blocks of a release.

    Attributes
    ----------
    count : ndarray of shape (n_cells,)
    count_variance : float
    moments : ndarray of shape (n_cells, n_columns, 3)
        (N, S1, S2).
    covariance : ndarray of shape (3, 3)
        Of the noise in these.
    centre, half : ndarray of shape (n_cells, n_columns)
        A value is centre + half t.
    leaves : ndarray of shape (n_cells, n_columns, leaves) or None
        Counts of parts of the range between the limits, for quantiles.
    prefix_variances, places : ndarray of shape (n_columns, leaves) or (n_columns, leaves + 1)
        Of sums of the first leaves; and the edges of leaves as shares of the range.
    shares : dict of str to ndarray of shape (n_cells, n_levels + 1)
        Rows of each level, and of none that is listed.
    share_variance : dict of str to (float, float)
        Of such a count, and its covariance with the count of the cell.
    kurtosis : ndarray of shape (n_columns,)
    law : str
        Of the noise.
    whole : bool
        Whether counts are whole numbers.
    jumps : sequence of (ndarray, float, int)
        As `Lines` has them.
    """

    count: FloatArray
    count_variance: float
    moments: FloatArray
    covariance: FloatArray
    centre: FloatArray
    half: FloatArray
    leaves: FloatArray | None
    prefix_variances: FloatArray
    places: FloatArray
    shares: Mapping[str, FloatArray]
    share_variance: Mapping[str, tuple[float, float]]
    kurtosis: FloatArray
    law: str
    whole: bool = False
    jumps: Jumps = ()


def lines(
    grouping: Grouping,
    sums: CellSums,
    positive: FloatArray,
    limits: Mapping[str, tuple[float, float]],
    levels: Mapping[str, Sequence[Any]],
    quantiles: Sequence[float],
) -> Iterator[Lines | DeviationLines | QuantileLines]:
    """All answers for the groups of a grouping.

    Parameters
    ----------
    grouping : Grouping
    sums : CellSums
    positive : ndarray of shape (n_cells,)
        Counts of the cells that are told: not negative.
    limits : mapping
        Limits of every numeric column.
    levels : mapping
        Levels of every column of text.
    quantiles : sequence of float
    """
    n_cells = grouping.sum(np.ones(len(sums.count)))
    count, noise = grouping.sum(sums.count), n_cells * sums.count_variance
    rows = np.maximum(count, 1.0)
    seen = count > _SEEN * np.sqrt(noise)
    zero = np.zeros_like(count)
    shown = grouping.sum(positive)
    many = np.full_like(count, np.inf)
    # Being made consistent shifts groups, by more than noise where many are empty.
    near, most = np.maximum(count, 0.0), (0.0, np.inf)
    yield Lines(
        "",
        "count",
        "",
        near,
        noise,
        zero,
        most,
        many,
        sums.law,
        shown,
        sums.whole,
        sums.jumps,
        n_cells,
    )
    for index, (column, ends) in enumerate(limits.items()):
        yield from _moments(grouping, sums, index, column, ends, rows, seen)
        if sums.leaves is not None:
            prefixes = np.cumsum(grouping.sum(sums.leaves[:, index]), axis=-1)
            curve = tree.increasing(prefixes, prefixes[:, -1])
            variances = sums.prefix_variances[index]
            off = np.sqrt(n_cells * variances.max())
            for quantile in quantiles:
                yield QuantileLines(
                    column,
                    quantile,
                    curve,
                    variances,
                    sums.count_variance,
                    n_cells,
                    sums.places[index],
                    ends,
                    seen & (off < 0.25 * rows),
                )
    for column, known in levels.items():
        each = grouping.sum(sums.shares[column])
        own, common = sums.share_variance[column]
        for place, level in enumerate(known):
            share = np.clip(each[:, place] / rows, 0.0, 1.0)
            alone = own + share**2 * sums.count_variance - 2.0 * share * common
            hidden = np.where(seen, 1.0, np.nan)
            # A share of nothing that was seen may still be a share of what was not.
            sampling = np.maximum(share * (1.0 - share), 1.0 / (rows + 4.0)) / rows
            yield Lines(
                column,
                "share",
                str(level),
                hidden * share,
                hidden * n_cells * np.maximum(alone, 0.0) / rows**2,
                sampling,
                (0.0, 1.0),
                many,
                sums.law,
            )


def _moments(
    grouping: Grouping,
    sums: CellSums,
    index: int,
    column: str,
    ends: tuple[float, float],
    rows: FloatArray,
    seen: NDArray[np.bool_],
) -> Iterator[Lines | DeviationLines]:
    """Mean and standard deviation of a column."""
    N, S1, S2 = np.moveaxis(sums.moments[:, index], -1, 0)
    centre, half = sums.centre[:, index], sums.half[:, index]
    low, high = ends
    mean = grouping.sum(centre * N + half * S1) / rows
    about = np.concatenate([mean, [0.0]])[grouping.member]  # each cell's group's
    away = centre - about
    scatter = grouping.sum(away**2 * N + 2.0 * away * half * S1 + half**2 * S2) / rows
    own = np.concatenate([scatter, [0.0]])[grouping.member]

    def noise(*slopes: FloatArray) -> FloatArray:
        slope = np.stack(slopes, axis=-1)
        return grouping.sum(np.einsum("ni,ij,nj->n", slope, sums.covariance, slope)) / rows**2

    of_mean = noise(away, half, np.zeros_like(half))
    of_scatter = noise(away**2 - own, 2.0 * away * half, half**2)
    inside = np.clip(mean, low, high)
    variance = likely_variance(scatter, of_scatter, (inside - low) * (high - inside))
    unbiased = variance * rows / np.maximum(rows - 1.0, 1.0)
    known = seen & (np.sqrt(of_mean) < 0.5 * (high - low))
    hidden = np.where(known, 1.0, np.nan)
    sampling = unbiased / rows
    yield Lines(
        column, "mean", "", hidden * inside, hidden * of_mean, sampling, ends, rows, sums.law
    )
    share = (inside - low) / (high - low)
    tails = np.maximum(sums.kurtosis[index], _tails(share, variance / (high - low) ** 2)) - 1.0
    told = known & (of_scatter < ((high - low) ** 2 / 32.0) ** 2)
    yield DeviationLines(
        column,
        scatter,
        unbiased,
        np.where(told, of_scatter, np.nan),
        tails * variance**2 / rows,
        0.25 * (high - low) ** 2,
        sums.law,
    )


def checked(level: float, of: str) -> tuple[float, str]:
    """What intervals are asked for."""
    return _validate.probability("level", level), _validate.one_of("of", of, list(COVERED))


def group_headings(by: Sequence[str], series: bool) -> dict[str, str]:
    """The columns of a long table that say which group, and what is written before their levels.

    A column of `by` whose name the table needs is told as by_NAME.

    Examples
    --------
    >>> from ndis.mechanisms.summary_answers import group_headings
    >>> group_headings(["ward", "level"], series=True)
    {'period': 'period ', 'ward': 'ward=', 'by_level': 'level='}
    """
    found = {PERIOD: f"{PERIOD} "} if series else {}
    needed = {*found, *FIXED}
    for name in by:
        heading = name
        if name in needed:
            while heading in needed or heading in by:
                heading = f"by_{heading}"
        found[heading] = f"{name}="
    return found


def unlisted_name(known: Sequence[Any]) -> str:
    """What the group of levels that are not listed is called: "other", unless a level is."""
    name = OTHER
    while name in known:
        name += " (not listed)"
    return name


def shown_level(level: Any, known: Sequence[Any]) -> Any:
    """A level as a table has it; that of no letters by a name, since a total has none."""
    name = "(empty)" if level == "" else level
    while level == "" and name in known:
        name = f"({name})"
    return name


def group_name(
    told: Mapping[str, Sequence[Any]], groups: Mapping[str, str], place: int, full: bool = True
) -> str:
    """The group of a line of a long table; `full` with the names of columns."""
    words = [
        f"{before if full or not before.endswith('=') else ''}{told[name][place]}"
        for name, before in groups.items()
        if told[name][place] != ""
    ]
    return ", ".join(words) or "total"


def as_answers(
    told: Mapping[str, Sequence[Any]], groups: Mapping[str, str], dates: Collection[str]
) -> list[Answer]:
    """The columns of a long table as a table for each column and statistic, a row for a group.

    Parameters
    ----------
    told : mapping
        The long table: the columns of `groups`, and `FIXED`.
    groups : mapping of str to str
        Columns that say which group, and what is written before their levels.
    dates : collection of str
        Columns whose numbers are days since 1970.
    """
    words = [*groups, *WORDS]
    found: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(zip(*(told[name] for name in WORDS), strict=True)):
        found.setdefault(key, []).append(place)
    answers = []
    for key, places in found.items():
        column, statistic, level = key
        keys = [[*(str(told[name][place]) for name in groups), *key] for place in places]
        names = [group_name(told, groups, place, full=False) for place in places]
        if len(set(names)) < len(names):  # a level called total, or levels of two columns alike
            names = [group_name(told, groups, place) for place in places]
        numbers = ([told[name][place] for name in FIELDS] for place in places)
        rows = list(zip(names, numbers, strict=True))
        title = " ".join(filter(None, [statistic, column and f"of {column}", level]))
        long = [*words, *FIELDS]
        unit = unit_of(statistic) if column in dates else ""
        units = {name: unit for name, _ in rows if unit}
        answers.append(Answer(title, headings(), rows, keys=keys, long=long, units=units))
    return answers


def unit_of(statistic: str) -> str:
    """What a statistic of a column of dates is; a spread is no place in time."""
    return DAYS if statistic == "sd" else DATE
