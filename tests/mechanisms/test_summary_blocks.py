"""What a record adds to the blocks of a summary."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ndis.mechanisms import laws
from ndis.mechanisms.summary_blocks import COORDINATES, UNITS, WHOLE, covariance_of, deviation_of


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_coordinates_of_a_record_are_bounded_in_whole_numbers(law: str) -> None:
    """With t = q/F, in units of 1/(u F^2): exact for every whole q, here for a coarse F."""
    F = 64
    points = [[int(v) for v in COORDINATES[law] @ [F * F, F * q, q * q]] for q in range(-F, F + 1)]
    whole = UNITS[law] * F * F
    for point in points:
        assert sum(point) == whole  # each block counts the rows
        if law == "laplace":
            assert min(point) >= 0
        assert sum(v * v for v in point) <= whole**2
    farthest = max(
        sum((v - w) ** 2 for v, w in zip(a, b, strict=True))
        for a, b in itertools.combinations(points, 2)
    )
    assert math.sqrt(farthest) <= laws.apart(3) * whole
    if law == "gaussian":
        assert math.sqrt(farthest) > 0.999 * laws.apart(3) * whole


def test_noise_that_keeps_counts_whole_is_told_as_it_is() -> None:
    """Its deviation is below that of Laplace noise; of other questions it is what was planned."""
    noise = laws.deviation_of("laplace", 1.0, 1)
    assert deviation_of("levels", WHOLE, noise) == noise
    assert deviation_of("means", "gaussian", noise) == noise
    rng = np.random.default_rng(0)
    share = math.exp(-1.0)
    drawn = rng.geometric(1 - share, 400_000) - rng.geometric(1 - share, 400_000)
    assert deviation_of("count", WHOLE, noise) == pytest.approx(drawn.std(), rel=0.01)
    own = covariance_of(WHOLE, noise)
    assert deviation_of("means", WHOLE, noise) == pytest.approx(math.sqrt(own[0, 0]))
