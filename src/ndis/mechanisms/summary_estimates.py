"""What the noisy blocks of a summary say: where values lie, and counts and moments of each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms import laws, tree
from ndis.mechanisms.run import Plan
from ndis.mechanisms.summary_answers import CellSums
from ndis.mechanisms.summary_blocks import (
    COORDINATES,
    UNITS,
    WHOLE,
    covariance_of,
    deviation_of,
    family,
)

# Bins are looked at alone and together with neighbours, and taken to hold rows if they would not
# without any but with this probability, in any window of a cell.
_MISTAKE, _WINDOWS = 0.01, (1, 2, 4, 8)
# Noise of a larger scale is smooth beside whole numbers.
_JUMPS = 50.0


@dataclass(frozen=True)
class Seen:
    """Rows that are certainly there, by cell and column, and where they lie between -1 and 1."""

    count: FloatArray
    mean: FloatArray
    variance: FloatArray
    kurtosis: FloatArray
    n_bins: int


def counted_in(bins: Any, parts: Sequence[tree.Parts]) -> Any:
    """Counts of bins, a row for each cell and column, in the parts of every column."""
    by_column = bins.reshape(-1, len(parts), bins.shape[-1])
    return np.stack([tree.counted(by_column[:, k], each) for k, each in enumerate(parts)], axis=1)


def seen_in(
    arrays: Mapping[str, Any], noise: Mapping[str, float], law: str, bins: int
) -> Seen | None:
    """What histograms say, where there are any."""
    if "places" in arrays:
        counts, spread = arrays["places"], noise["places"]
        places = np.linspace(0.0, 1.0, counts.shape[-1] + 1)[None, :]
    elif "quantiles_128" in arrays:
        counts, spread = arrays["quantiles_128"], noise["quantiles"]
        parts = tree.partitions(
            [arrays["quantiles_16"]], deviation_of("quantiles", law, spread), bins
        )
        places = np.stack([each.places for each in parts])
    else:
        return None
    n_bins = counts.shape[-1]
    # Far enough out for either law that no empty window of a cell is taken for a full one.
    least = -math.log(2.0 * _MISTAKE / (n_bins * len(_WINDOWS))) / math.sqrt(2.0) * spread
    sums = np.concatenate([np.zeros((*counts.shape[:-1], 1)), np.cumsum(counts, axis=-1)], axis=-1)
    holds = np.zeros(counts.shape, dtype=bool)
    for width in _WINDOWS:
        full = sums[..., width:] - sums[..., :-width] > least * math.sqrt(width)
        for offset in range(width):
            holds[..., offset : offset + full.shape[-1]] |= full
    weights = np.where(holds, np.maximum(counts, 0.0), 0.0)
    middle = places[:, :-1] + places[:, 1:] - 1.0
    inside = np.diff(places) ** 2 / 3.0  # the variance within a bin
    count = weights.sum(axis=-1)
    some = np.maximum(count, 1.0)
    mean = (weights * middle).sum(axis=-1) / some
    away = (middle - mean[..., None]) ** 2
    variance = (weights * (away + inside)).sum(axis=-1) / some
    # Of a uniform law of variance v the fourth moment is 9/5 v^2.
    each = away**2 + 6.0 * away * inside + 1.8 * inside**2
    fourth = (weights * each).sum(axis=-1) / some
    variance = np.where(count > 0, variance, inside.mean(axis=-1))
    return Seen(count, mean, variance, fourth / variance**2, n_bins)


def put_together(
    arrays: Mapping[str, Any],
    noise: Mapping[str, float],
    law: str,
    others: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    bins: int,
) -> CellSums:
    """The count of each cell from all blocks, and every block made to agree with it."""
    spreads = {name: deviation_of(name, law, each) for name, each in noise.items()}
    shares, start = {}, 0
    for name, known in others.items():
        at = [*range(start, start + len(known)), start + sizes[name]]
        shares[name] = arrays["shares"][:, at]
        start += sizes[name] + 1
    told = [(each.sum(axis=-1), "shares", each.shape[-1]) for each in shares.values()]
    if "count" in arrays:
        told.append((arrays["count"], "count", 1))
    for name in arrays:
        if name in ("means", "places") or name.startswith("quantiles_"):
            each, question = arrays[name], name.partition("_")[0]
            sums = each.sum(axis=-1)
            told += [(sums[:, index], question, each.shape[-1]) for index in range(sums.shape[1])]
    variances = [p * spreads[name] ** 2 for _, name, p in told]
    if law == WHOLE and "means" in noise:
        own_count = laws.counted_variance(laws.scale_of("laplace", noise["means"], 1))
        pairs = zip(variances, told, strict=True)
        variances = [own_count if name == "means" else v for v, (_, name, _) in pairs]
    variance = 1.0 / math.fsum(1.0 / v for v in variances)
    weights = [variance / v for v in variances]
    count = np.asarray(sum(w * each for w, (each, _, _) in zip(weights, told, strict=True)))
    jumps: list[tuple[FloatArray, float, int]] = []
    alone = law == WHOLE and len(told) == 1  # noise that is whole
    if law == WHOLE:
        count = np.rint(count) if alone else count
        own = {name: laws.scale_of("laplace", noise[name], 1) for _, name, _ in told}
        if min(own.values()) < _JUMPS:
            jumps = [
                (laws.whole_chances(own[name], 3 if name == "means" else 1), w, times)
                for w, (_, name, p) in zip(weights, told, strict=True)
                for times in [1 if name == "means" else p]
            ]
    moments, covariance = np.zeros((len(count), 0, 3)), np.zeros((3, 3))
    leaves: FloatArray | None = None
    prefixes = places = np.zeros((0, 0))
    kurtosis = np.zeros(0)
    if "means" in arrays:
        own_noise = covariance_of(law, noise["means"])
        moments, covariance = moments_of(arrays["means"], own_noise, law, count, variance)
        kurtosis = np.zeros(moments.shape[1])
        seen = seen_in(arrays, noise, law, bins)
        if seen is not None:
            some = np.maximum(seen.count.sum(axis=0), 1.0)
            kurtosis = (seen.count * seen.kurtosis).sum(axis=0) / some
    if "quantiles_1024" in arrays:
        levels = [arrays[f"quantiles_{level}"] for level in tree.LEVELS]
        parts, v = tree.partitions(levels, spreads["quantiles"], bins), spreads["quantiles"] ** 2
        by_column = [[level[:, k] for level in levels] for k in range(len(parts))]
        fitted = [
            tree.fitted(own, v, count, 0.0, each)
            for own, each in zip(by_column, parts, strict=True)
        ]
        leaves = np.stack(fitted, axis=1)
        prefixes = np.stack([tree.prefix_variances(each, v) for each in parts])
        places = np.stack([each.places for each in parts])
    agreed = {
        name: each + ((count - each.sum(axis=-1)) / each.shape[-1])[:, None]
        for name, each in shares.items()
    }
    spread = {
        name: (spreads["shares"] ** 2 * (1.0 - 1.0 / p) + variance / p**2, variance / p)
        for name, each in shares.items()
        for p in [each.shape[-1]]
    }
    nothing = np.zeros(moments.shape[:2])
    return CellSums(
        count,
        variance,
        moments,
        covariance,
        nothing,
        nothing,
        leaves,
        prefixes,
        places,
        agreed,
        spread,
        kurtosis,
        family(law),
        alone,
        jumps,
    )


def moments_of(
    blocks: FloatArray, noise: FloatArray, law: str, count: FloatArray, variance: float
) -> tuple[FloatArray, FloatArray]:
    """(N, S1, S2) of each cell and column, given its count; and the covariance of their noise."""
    back = np.linalg.inv(COORDINATES[law] / UNITS[law])
    raw, own = blocks @ back.T, back @ noise @ back.T
    alike = back @ back.T
    slope = alike[:, 0] / alike[0, 0]  # also where all keep their sum whole
    moments = raw + (count[:, None] - raw[..., 0])[..., None] * slope
    return moments, own + (variance - own[0, 0]) * np.outer(slope, slope)


def own_arrays(arrays: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """What belongs to one grouping of several, by its names without the word behind them."""
    if not suffix:
        return dict(arrays)
    found = {}
    for name, array in arrays.items():
        base, mark, level = name.partition("_")
        if base.endswith(suffix):
            found[f"{base.removesuffix(suffix)}{mark}{level}"] = array
    return found


class Spread:
    """Standard deviations that a plan implies for a group: of its count, of a sum; of ranks."""

    def __init__(self, noise: Mapping[str, float], plan: Plan, suffix: str) -> None:
        told = {
            name: np.zeros((1, *shape[1:]))
            for name, shape in own_arrays(plan.shapes, suffix).items()
        }
        others: dict[str, tuple[Any, ...]] = {}
        if "shares" in told:
            others = {"": (0,) * (told["shares"].shape[1] - 1)}
        sizes = {name: len(each) for name, each in others.items()}
        known = {name: each for name, each in told.items() if not name.startswith("limit_")}
        sums = put_together(known, noise, plan.method, others, sizes, tree.LEAVES)
        self.count = math.sqrt(sums.count_variance)
        self.sum = math.sqrt(sums.covariance[1, 1])
        self.prefixes = sums.prefix_variances
