"""Thirty broken mechanisms, each beside its sound twin, with the claim that is made for both.

A mechanism is `draw(value, n, rng)`: n independent outputs, one per row, on the data set that
`value` stands for. The two data sets are neighbours. Every odd one (the first, the third, ...) was
open while the auditor was developed; the even ones are held out: nothing was changed after the
auditor had been run on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis import QuadraticLoss
from ndis.calibration import noise_multiplier

FloatArray = NDArray[np.float64]
Draw = Callable[[Any, int, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class Case:
    """A broken mechanism and its sound twin under one claim, on one pair of neighbours."""

    name: str
    epsilon: float
    delta: float
    first: Any
    second: Any
    broken: Draw
    sound: Draw
    low_bits: bool = False

    def draws(self, sound: bool, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """N outputs on either data set, on a grid of 2^-20 unless their low bits are the bug.

        Noise that is drawn and added in doubles leaks there, whatever its scale.
        """
        draw = self.sound if sound else self.broken
        pair = [np.asarray(draw(data, n, rng), np.float64) for data in (self.first, self.second)]
        if sound or not self.low_bits:
            pair = [np.round(part * 2.0**20) / 2.0**20 for part in pair]
        return pair[0].reshape(n, -1), pair[1].reshape(n, -1)


def gaussian(sigma: float) -> Draw:
    """A query with Gaussian noise."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        center = np.atleast_1d(np.asarray(value, np.float64))
        return center + sigma * rng.standard_normal((n, center.size))

    return draw


def laplace(scale: Any) -> Draw:
    """A query with Laplace noise."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        center = np.atleast_1d(np.asarray(value, np.float64))
        return center + rng.laplace(size=(n, center.size)) * scale

    return draw


def reused(independent: bool) -> Draw:
    """Two counts, of everybody and of one group, with one noise or with two."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.laplace(scale=2.0, size=(n, 2))
        return np.asarray(value) + (noise if independent else noise[:, [0, 0]])

    return draw


def histogram(all_cells: bool) -> Draw:
    """Counts with noise, in all cells or only where somebody is."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        counts = np.asarray(value, np.float64)
        noise = rng.laplace(size=(n, counts.size))
        return counts + (noise if all_cells else noise * (counts > 0))

    return draw


def thresholded(threshold: float) -> Draw:
    """The noisy count of a cell that has one person or none, published above a threshold."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        noisy = value + rng.laplace(size=n)
        return np.where((noisy > threshold) & (value > 0), noisy, 0.0)

    return draw


def sparse_vector(
    epsilon: float, threshold_scale: float, query_scale: float, cut: int, numeric: bool = False
) -> Draw:
    """Answers above or below a noisy threshold, cut after some above (Lyu, Su and Li, 2017).

    Scales are those of Laplace noise, in units of 1/epsilon; an answer that was never given is -1.
    """

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        queries = np.asarray(value, np.float64)
        level = rng.laplace(size=(n, 1)) * threshold_scale / epsilon
        noisy = queries + rng.laplace(size=(n, queries.size)) * query_scale / epsilon
        above = noisy >= level
        given = np.cumsum(above, axis=1) - above < cut
        answers = np.where(above, noisy if numeric else 1.0, -100.0 if numeric else 0.0)
        return np.where(given, answers, -200.0 if numeric else -1.0)

    return draw


def noisy_max(scale: float, release: str) -> Draw:
    """The place of the largest noisy count, or its noisy value."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        noisy = np.asarray(value) + rng.laplace(scale=scale, size=(n, len(value)))
        return noisy.max(axis=1) if release == "value" else noisy.argmax(axis=1).astype(float)

    return draw


def exponential(weight: float) -> Draw:
    """A choice with probability proportional to e^(weight * score)."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        weights = np.exp(weight * np.asarray(value, np.float64))
        return rng.choice(len(value), n, p=weights / weights.sum()).astype(float)

    return draw


def median(local: bool) -> Draw:
    """The median of values in [0, 1] with noise for its local or its global sensitivity."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        rows = np.sort(value)
        middle = len(rows) // 2
        near = max(rows[middle + 1] - rows[middle], rows[middle] - rows[middle - 1])
        return rows[middle] + rng.laplace(size=n) * (near if local else 1.0)

    return draw


def clipped_at_largest(public: bool) -> Draw:
    """A sum of values in [0, 10], clipped at a public bound or at the largest value seen."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        return np.sum(value) + rng.laplace(size=n) * (10.0 if public else np.max(value))

    return draw


def step_of_descent(sigma: float, clip_each: bool) -> Draw:
    """A clipped gradient sum of five records; or the clipped sum of gradients, as if one's."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        gradients = np.asarray(value, np.float64)
        if clip_each:
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients = gradients / np.maximum(1.0, norms)
            center = gradients.sum(axis=0)
        else:
            mean = gradients.mean(axis=0)
            center = len(gradients) * mean / max(1.0, float(np.linalg.norm(mean)))
        return center + sigma * rng.standard_normal((n, center.size))

    return draw


def sampled_steps(sigma: float, rate: float) -> Draw:
    """Two noisy sums to which the record belongs with a probability."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        chosen = rng.random((n, 1)) < rate
        return value * chosen + sigma * rng.standard_normal((n, 1))

    return draw


def resampled(scale: float, corrected: bool) -> Draw:
    """Laplace noise drawn again until the answer lies in [0, 2], or the answer moved there."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        if corrected:
            return np.clip(value + rng.laplace(scale=scale, size=n), 0.0, 2.0)
        low, high = (_laplace_cdf((end - value) / scale) for end in (0.0, 2.0))
        return value + scale * _laplace_ppf(rng.uniform(low, high, n))

    return draw


def _laplace_cdf(x: float) -> float:
    return 0.5 * math.exp(x) if x < 0 else 1.0 - 0.5 * math.exp(-x)


def _laplace_ppf(u: FloatArray) -> FloatArray:
    return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))


def tree(scale: float) -> Draw:
    """Counts of eight people in a binary tree of four levels."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        leaves = np.asarray(value, np.float64)
        levels = [leaves.reshape(2**k, -1).sum(axis=1) for k in range(4)]
        counts = np.concatenate(levels)
        return counts + rng.laplace(scale=scale, size=(n, counts.size))

    return draw


def truncated(sigma: float, at: float) -> Draw:
    """A count with Gaussian noise that never exceeds some deviations."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        return value + sigma * np.clip(rng.standard_normal(n), -at, at)

    return draw


def uniform(width: float) -> Draw:
    """A count with uniform noise."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        return value + rng.uniform(-width, width, n)

    return draw


def with_rows(noisy: bool) -> Draw:
    """A noisy sum beside the number of rows."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.laplace(scale=2.0, size=(n, 2))
        return np.array([np.sum(value), len(value)]) + noise * np.array([1.0, float(noisy)])

    return draw


def sketch(ridge: float) -> Draw:
    """Twenty columns of a random projection of a table with two columns."""

    def draw(value: Any, n: int, rng: np.random.Generator) -> FloatArray:
        rows = np.asarray(value, np.float64)
        root = np.linalg.cholesky(rows.T @ rows + ridge * np.eye(rows.shape[1]))
        return (rng.standard_normal((n, 20, rows.shape[1])) @ root.T).reshape(n, -1)

    return draw


def _cases() -> list[Case]:
    small, tiny = 1e-5, 1e-6
    sigma = noise_multiplier(1.0, small)
    ten, zero10 = np.full(10, 1.0), np.zeros(10)
    unit20 = np.full(20, 1.0)
    one_of_8 = np.eye(8)[0]
    gradient = np.vstack([np.full((1, 5), 9.0), np.zeros((4, 5))])
    others = np.vstack([np.zeros((1, 5)), np.zeros((4, 5))])
    amplified = math.log1p(0.2 * math.expm1(1.0))
    ridge = _sketch_ridge(1.0, small)
    queries_up, queries_down = np.r_[np.ones(5), -np.ones(5)], np.zeros(10)
    sound_svt = sparse_vector(1.0, 2.0, 4.0, 1)
    # Several above: the noise of a query grows with the cut.
    sound_cut3 = sparse_vector(1.0, 2.0, 12.0, 3)
    crowd = np.array([0.0, 0.0, 0.4, 0.5, 0.6, 1.0, 1.0])
    spread = np.array([0.0, 0.0, 0.4, 0.5, 1.0, 1.0, 1.0])
    return [
        Case("Gaussian, half the noise", 1.0, small, 1.0, 0.0,
             gaussian(sigma / 2), gaussian(sigma)),
        Case("Gaussian, variance for deviation", 1.0, small, 1.0, 0.0,
             gaussian(math.sqrt(sigma)), gaussian(sigma)),
        Case("Gaussian, sensitivity of one of ten entries", 1.0, small, ten, zero10,
             gaussian(sigma), gaussian(sigma * math.sqrt(10.0))),
        Case("Laplace, scale epsilon for 1/epsilon", 0.5, 0.0, 1.0, 0.0,
             laplace(0.5), laplace(2.0)),
        Case("Laplace, values up to 2 not clipped", 1.0, 0.0, 2.0, 0.0, laplace(1.0), laplace(2.0)),
        Case("Laplace, two queries at the price of one", 1.0, 0.0, [1.0, 1.0], [0.0, 0.0],
             laplace(1.0), laplace(2.0)),
        Case("Laplace, ten queries, budget split by sqrt(10)", 1.0, 0.0, ten, zero10,
             laplace(math.sqrt(10.0)), laplace(10.0)),
        Case("noise reused for two counts", 1.0, 0.0, [5.0, 3.0], [4.0, 3.0],
             reused(False), reused(True)),
        Case("histogram, no noise on empty cells", 1.0, 0.0, [3.0, 2.0, 1.0, 0.0],
             [3.0, 2.0, 0.0, 0.0], histogram(False), histogram(True)),
        Case("histogram, threshold too low", 1.0, 0.01, 1.0, 0.0,
             thresholded(1.0 + 0.5 * math.log(50.0)), thresholded(1.0 + math.log(50.0))),
        Case("sparse vector, noisy values (Lyu et al. 3)", 1.0, 0.0, queries_up, queries_down,
             sparse_vector(1.0, 2.0, 2.0, 1, numeric=True), sound_svt),
        Case("sparse vector, noise without the cut (4)", 1.0, 0.0, queries_up, queries_down,
             sparse_vector(1.0, 4.0, 4.0 / 3.0, 3), sound_cut3),
        Case("sparse vector, no noise on queries (5)", 1.0, 0.0, queries_up, queries_down,
             sparse_vector(1.0, 2.0, 0.0, 10), sound_svt),
        Case("sparse vector, never cut (6)", 1.0, 0.0, queries_up, queries_down,
             sparse_vector(1.0, 2.0, 2.0, 10), sound_svt),
        Case("noisy max, its value", 1.0, 0.0, np.zeros(5), np.ones(5),
             noisy_max(2.0, "value"), noisy_max(2.0, "place")),
        Case("noisy max, half the noise", 1.0, 0.0, [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0],
             noisy_max(1.0, "place"), noisy_max(2.0, "place")),
        Case("median, local sensitivity", 1.0, 0.0, spread, crowd,
             median(True), median(False)),
        Case("sum clipped at the largest value", 1.0, 0.0, [1.0, 1.0, 10.0], [1.0, 1.0, 0.0],
             clipped_at_largest(False), clipped_at_largest(True)),
        Case("descent, mean gradient clipped", 1.0, small, gradient, others,
             step_of_descent(sigma, False), step_of_descent(sigma, True)),
        Case("descent, gradients not clipped", 1.0, small, np.full(5, 3.0 / math.sqrt(5.0)),
             np.zeros(5), gaussian(sigma), gaussian(3.0 * sigma)),
        Case("descent, twenty steps at the price of one", 1.0, tiny, unit20, np.zeros(20),
             gaussian(noise_multiplier(1.0, tiny)),
             gaussian(math.sqrt(20.0) * noise_multiplier(1.0, tiny))),
        Case("descent, sampling claimed and not done", amplified, 0.2 * small, 1.0, 0.0,
             sampled_steps(sigma, 1.0), sampled_steps(sigma, 0.2)),
        Case("Laplace, drawn again until in range", 1.0, 0.0, 0.0, 1.0,
             resampled(1.0, False), resampled(1.0, True)),
        Case("tree of counts, one level paid", 1.0, 0.0, one_of_8, np.zeros(8),
             tree(1.0), tree(4.0)),
        Case("Gaussian, truncated at two deviations", 1.0, small, 1.0, 0.0,
             truncated(sigma, 2.0), truncated(sigma, 40.0)),
        Case("uniform noise", 1.0, 0.1, 1.0, 0.0, uniform(2.0), uniform(5.0)),
        Case("low bits of doubles", 1.0, 0.0, 0.0, 1.0, laplace(1.0), laplace(1.0),
             low_bits=True),
        Case("number of rows published", 1.0, 0.0, [1.0, 0.0, 0.0], [0.0, 0.0],
             with_rows(False), with_rows(True)),
        Case("exponential mechanism, no factor 1/2", 1.0, 0.0, [1.0, 0.0, 0.0, 0.0],
             [0.0, 1.0, 1.0, 1.0], exponential(1.0), exponential(0.5)),
        Case("sketch, ridge for one column of twenty", 1.0, small, np.array([[1.0, 0.0]]),
             np.array([[0.0, 0.0]]), sketch(_sketch_ridge(1.0, small, 1)), sketch(ridge)),
    ]  # fmt: skip


def _sketch_ridge(epsilon: float, delta: float, columns: int = 20) -> float:
    """The least ridge at which a row of norm 1 among none is private, in both directions."""
    low, high = 1e-3, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        loss = QuadraticLoss.from_leverage(1.0 / (1.0 + middle), columns)
        worst = max(float(loss.delta(epsilon)), float(loss.reversed().delta(epsilon)))
        low, high = (middle, high) if worst > delta else (low, middle)
    return high


CASES = _cases()
DEVELOPMENT, HELD_OUT = CASES[0::2], CASES[1::2]
