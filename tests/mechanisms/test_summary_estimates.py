"""What the noisy blocks of a summary say."""

from __future__ import annotations

import numpy as np
import pytest

from ndis.mechanisms import tree
from ndis.mechanisms.summary_blocks import COORDINATES, UNITS
from ndis.mechanisms.summary_estimates import own_arrays, put_together, seen_in


def sums_of(t: np.ndarray, law: str) -> np.ndarray:
    """One cell, one column: the exact sums of a law's coordinates."""
    powers = np.array([np.ones_like(t), t, t * t]).sum(axis=1)
    return (COORDINATES[law] / UNITS[law] @ powers)[None, None]


@pytest.mark.parametrize("law", ["laplace", "gaussian", "discrete laplace"])
def test_moments_come_back_from_the_coordinates_of_any_law(law: str) -> None:
    t = np.random.default_rng(0).uniform(-1, 1, 1000)
    arrays = {"means": sums_of(t, law)}
    found = put_together(arrays, {"means": 1.0}, law, {}, {}, tree.LEAVES)
    assert found.count == pytest.approx([1000.0])
    assert found.moments[0, 0] == pytest.approx([1000.0, t.sum(), (t * t).sum()])


def test_a_count_is_put_together_from_all_blocks_by_their_noise() -> None:
    """Three coordinates of a mean with noise 1 and a count with noise 1: weights 1/4 and 3/4."""
    arrays = {"means": np.array([[[30.0, 40.0, 30.0]]]), "count": np.array([104.0])}
    noise = {"means": 1.0, "count": 1.0}
    found = put_together(arrays, noise, "gaussian", {}, {}, tree.LEAVES)
    assert found.count == pytest.approx([0.25 * 100 + 0.75 * 104])
    assert found.count_variance == pytest.approx(0.75)


def test_bins_that_noise_alone_would_fill_hold_no_rows() -> None:
    rng = np.random.default_rng(0)
    counts = rng.normal(0.0, 5.0, (200, 1, 64))
    assert np.count_nonzero(seen_in({"places": counts}, {"places": 5.0}, "gaussian", 64).count) <= 6
    counts[0, 0, 40] += 1000.0
    seen = seen_in({"places": counts}, {"places": 5.0}, "gaussian", 64)
    assert seen.count[0, 0] == pytest.approx(1000.0, abs=50)
    assert seen.mean[0, 0] == pytest.approx(40.5 / 32 - 1, abs=0.05)
    assert seen_in({"means": counts}, {"means": 5.0}, "gaussian", 64) is None


def test_a_grouping_among_several_is_told_by_the_end_of_its_names() -> None:
    arrays = {"means_b": 1, "quantiles_b_16": 2, "means_c": 3}
    assert own_arrays(arrays, "") == arrays
    assert own_arrays({"meansX": 1, "quantilesX_16": 2, "meansY": 3}, "X") == {
        "means": 1,
        "quantiles_16": 2,
    }
