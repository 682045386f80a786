"""What noisy sums say: margins, counts that add up, variances that are possible."""

import numpy as np
import pytest
from scipy.optimize import minimize

from ndis.mechanisms.summary_answers import Lines, groupings, likely_variance, not_negative


def test_margins_are_sums_of_cells() -> None:
    places = [["A", "B", "other"], ["f", "m", "other"]]
    found, cells = list(groupings(places, False)), np.arange(9.0)
    assert [len(each.labels) for each in found] == [4, 2, 2, 1]
    assert found[0].sum(cells).tolist() == [0, 1, 3, 4]
    assert found[1].sum(cells).tolist() == [3, 12]  # what is not listed in the other is counted
    assert found[2].sum(cells).tolist() == [9, 12]
    assert found[3].sum(cells).tolist() == [36]
    assert found[3].labels == [(None, None)]
    others = list(groupings(places, True))
    assert [len(each.labels) for each in others] == [9, 3, 3, 1]
    assert others[0].labels[-1] == ("other", "other")


def test_places_that_are_empty_are_not_counted() -> None:
    found, cells = list(groupings([["A", None, "B", "other"]], False)), np.arange(4.0)
    assert found[0].labels == [("A",), ("B",)]
    assert found[0].sum(cells).tolist() == [0, 2]
    assert found[1].sum(cells).tolist() == [5]


def test_counts_are_projected() -> None:
    noisy = np.array([5.0, -3.0, 1.0, -0.5, 4.0])
    found = not_negative(noisy)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(noisy.sum())
    best = minimize(
        lambda x: float(np.sum((x - noisy) ** 2)),
        np.ones(5),
        bounds=[(0, None)] * 5,
        constraints={"type": "eq", "fun": lambda x: x.sum() - noisy.sum()},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert not_negative(np.array([-3.0, -1.0])).tolist() == [0.0, 0.0]


def test_a_variance_that_is_hidden_is_taken_to_be_any() -> None:
    found = likely_variance(
        np.array([0.2, -5.0, 0.2, -9.0]), np.array([1e-9, 1e6, 1e6, 1e-3]), np.full(4, 1.0)
    )
    np.testing.assert_allclose(found, [0.2, 0.5, 0.5, 0.0], atol=1e-3)


def test_intervals_are_of_the_population_or_of_the_table() -> None:
    line = Lines(
        "x", "mean", "", *np.array([[5.0], [1.0], [3.0]]), (0.0, 7.0), np.array([1e9]), "gaussian"
    )
    table, population = line.intervals(0.95, "table"), line.intervals(0.95, "population")
    assert (table["standard_error"], population["standard_error"]) == (1.0, 2.0)
    assert table["upper"][0] == pytest.approx(6.96, abs=0.01)
    assert population["upper"][0] == 7.0  # and no more is possible
