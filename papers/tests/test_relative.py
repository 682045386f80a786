"""The relative Gaussian mechanism: exact membership of the declared set, and its law."""

import numpy as np
import pytest
from scipy import stats

from ndis import NeighbourRelation
from ndis_papers import RelativeGaussianRegression
from ndis_papers.least_squares import relative_gaussian_law
from ndis_papers.relative import solved_within


def problem(seed: int = 0, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X @ [0.3, -1.0, 2.0] + 0.2 * rng.standard_normal(n)


def largest_move(X: np.ndarray, y: np.ndarray) -> float:
    """By solving again without each row."""
    whole = np.linalg.lstsq(X, y, rcond=None)[0]
    return max(
        float(np.linalg.norm(np.linalg.lstsq(*(np.delete(a, i, 0) for a in (X, y)))[0] - whole))
        for i in range(len(y))
    )


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e9])
def test_the_set_is_exactly_that_of_the_largest_move(scale: float) -> None:
    X, y = problem()
    X = X * scale
    move = largest_move(X, y)
    solution = [float(int(x.p)) / float(int(x.q)) for x in solved_within(X, y, move * (1 + 1e-9))]
    np.testing.assert_allclose(solution, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-9)
    with pytest.raises(ValueError, match="declared set"):
        solved_within(X, y, move * (1 - 1e-9))


def test_its_noise_is_that_of_the_formula_where_the_table_is_at_the_edge() -> None:
    X, y = problem(1)
    law = relative_gaussian_law(np.column_stack([X, y]), 1.0, 1e-5)
    mechanism = RelativeGaussianRegression(1.0, 1e-5, largest_move(X, y))
    assert mechanism.calibrate() ** 2 == pytest.approx(law.cov[0, 0], rel=1e-6)


def test_tables_outside_of_every_set_are_refused() -> None:
    X, y = problem(2)
    twice = np.column_stack([X, X[:, 0]])
    alone = np.vstack([np.column_stack([X, np.zeros(len(X))]), [0.0, 0.0, 0.0, 1.0]])
    for features, label in ((twice, y), (alone, np.append(y, 1.0)), (X[:3], y[:3])):
        with pytest.raises(ValueError, match="declared set"):
            solved_within(features, label, 1e6)


def test_draws_have_their_law_and_say_what_they_rest_on() -> None:
    X, y = problem(3)
    mechanism = RelativeGaussianRegression(1.0, 1e-5, 0.2, random_state=np.random.default_rng(0))
    draws = np.array([mechanism.release(X, y).arrays["coef"] for _ in range(400)])
    whole = np.linalg.lstsq(X, y, rcond=None)[0]
    standard = (draws - whole).ravel() / mechanism.calibrate()
    assert stats.kstest(standard, "norm").pvalue > 1e-6
    promise = mechanism.release(X, y).guarantee
    assert promise.basis == "relative"
    assert promise.relation == NeighbourRelation("add-remove")
    assert "0.2" in promise.note
    assert promise.loss.delta(1.0) <= 1e-5
    with pytest.raises(ValueError, match="one label for each row"):
        mechanism.release(X, y[:-1])
