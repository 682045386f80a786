"""About where rows are: what one row moves, and what is made of noise alone."""

import math

import numpy as np
import pytest

from ndis.mechanisms import center
from ndis.randomness.listening import listening
from ndis.tables import GRID_NORM, Columns, Rows, Table
from ndis.tables.sums import totals


def studied(rows: np.ndarray) -> dict:
    names = [f"x{index}" for index in range(rows.shape[1])]
    return Table.open(rows).with_rows(Rows(Columns(names, norm=1.0))).sum(totals)


def asked(rows: np.ndarray, noise: float) -> np.ndarray:
    """What is asked for, in units of its noise."""
    found: list[np.ndarray] = []

    def listener(draw, values, scale, rng):
        found.append(np.atleast_1d(values.value / scale))
        return values.value

    with listening(listener):
        center.draw_center(studied(rows), noise, np.random.default_rng(0))
    return np.concatenate(found)


def test_no_row_moves_the_sum_and_its_count_further_than_one_unit_of_noise() -> None:
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 3))
    everybody = asked(rows, 2.0)
    for row in ([1.0, 0.0, 0.0], [9.0, -9.0, 9.0], [0.0, 0.0, 0.0]):
        moved = np.linalg.norm(asked(np.vstack([rows, row]), 2.0) - everybody)
        assert moved <= 1.0 / 2.0
    longest = np.vstack([rows, [0.0, 1.0, 0.0]])
    assert np.linalg.norm(asked(longest, 2.0) - everybody) == pytest.approx(0.5, rel=1e-6)


def test_without_noise_it_is_the_mean_and_noise_alone_is_no_centre() -> None:
    rows = np.random.default_rng(1).uniform(0.1, 0.3, (1000, 3))
    drawn = center.draw_center(studied(rows), 1e-6, np.random.default_rng(0))
    found = center.center_of(drawn, 1e-6) / GRID_NORM
    np.testing.assert_allclose(found, rows.mean(axis=0), atol=1e-5)
    assert center.center_of(np.array([1.0, -1.0, 1.0, 50.0]), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_a_count_is_never_below_its_noise_and_a_centre_never_beyond_the_rows() -> None:
    noise = 3.0
    scale = center.count_noise(noise)
    assert scale == pytest.approx(noise * math.hypot(1.0, 0.5) / 0.5)
    assert center.count_of(np.array([0.0, -5.0]), noise) == scale
    far = center.center_of(np.array([1e6, 1e6, 1.0]), noise)
    assert np.linalg.norm(far) <= GRID_NORM
    assert np.array_equal(far, np.trunc(far))
