"""What noisy counts in half octaves say."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndis.mechanisms.regression_methods.histogram import Histogram
from ndis.tables.sums import BINS


@pytest.mark.parametrize("shape", [0.5, 2.0, 8.0])
def test_a_histogram_tells_second_moments(shape: float) -> None:
    """Of a gamma law, exponential or bell-shaped, from counts in half octaves."""
    n, top = 1e6, 64.0
    edges = top * 2.0 ** (-np.arange(BINS + 1) / 2)
    counts = n * -np.diff(stats.gamma.cdf(edges, shape))
    value, noise, sampling = Histogram(counts, top, 1e-6).second_moment()
    assert value == pytest.approx(shape * (shape + 1), rel=0.01)
    fourth = shape * (shape + 1) * (shape + 2) * (shape + 3)
    assert sampling == pytest.approx(np.sqrt((fourth - value**2) / n), rel=0.05)
    assert noise < 1e-3 * value
    noisy = counts + 40.0 * np.random.default_rng(0).standard_normal(BINS)
    again, noise, _ = Histogram(noisy, top, 40.0).second_moment()
    assert abs(again - value) < 2.0 * noise < 0.1 * value


@pytest.mark.parametrize(("law", "cap"), [(stats.norm(), 3.0), (stats.t(3), 8.0)])
def test_a_histogram_tells_what_a_cap_cuts_off_beyond_what_it_sees(law: Any, cap: float) -> None:
    """Of 100,000 absolute values, with noise that hides bins of fewer than 45; the worst of ten."""
    n, top, rng = 100_000, 512.0, np.random.default_rng(0)
    edges = top * 2.0 ** (-np.arange(BINS + 1) / 2)
    counts = 2 * n * (law.sf(edges[1:]) - law.sf(edges[:-1]))
    truth = 2 * n * law.expect(lambda x: x - cap, lb=cap)
    told = [
        Histogram(counts + 15.0 * rng.standard_normal(BINS), top, 15.0).lost_beyond(cap) / truth
        for _ in range(10)
    ]
    assert min(told) > 1 / 4
    assert max(told) < 4
    assert Histogram(0.0 * counts, top, 15.0).lost_beyond(cap) == math.inf


def test_rows_that_are_thinly_spread_over_bins_are_counted_together() -> None:
    counts = np.zeros(BINS)
    counts[4:12], counts[20:26] = 12.0, 500.0  # 96 rows far out, twelve in a bin; noise of four
    bulk = np.where(np.arange(BINS) < 14, 0.0, counts)
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        noise = 4.0 * rng.standard_normal(BINS)
        together, alone, mistaken = (
            Histogram(truth + noise, 1.0, 4.0, 2.0**-6, thinly).counts[:14].sum()
            for truth, thinly in ((counts, True), (counts, False), (bulk, True))
        )
        found.append((together > 48, alone > 48, mistaken > 0))
    seen, by_themselves, wrongly = np.mean(found, axis=0)
    assert seen > 0.8
    assert by_themselves < 0.45
    assert wrongly < 0.03
