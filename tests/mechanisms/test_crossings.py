"""Several groupings made consistent, against explicit matrices."""

import itertools
import math

import numpy as np
import pytest

from ndis.mechanisms.crossings import Crossing, shares, variance

CROSSINGS = [
    Crossing((4, 3), ((0,), (1,))),
    Crossing((4, 3), ((0,), (0, 1))),
    Crossing((3, 2, 4), ((0, 1), (1, 2), (2,))),
    Crossing((3, 2, 4), ((0, 1, 2),)),
    Crossing((5, 2, 3), ((0,), (1,), (2,), (0, 1, 2))),
]


def summing(shape: tuple[int, ...], columns: tuple[int, ...]) -> np.ndarray:
    """The matrix that makes a grouping of the whole table."""
    each = [np.eye(n) if i in columns else np.ones((1, n)) for i, n in enumerate(shape)]
    found = np.ones((1, 1))
    for matrix in each:
        found = np.kron(found, matrix)
    return found


@pytest.mark.parametrize("crossing", CROSSINGS)
def test_it_is_least_squares_with_its_variances(crossing: Crossing) -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.5, 3.0, len(crossing.bought))
    matrices = [summing(crossing.shape, columns) for columns in crossing.bought]
    tables = [rng.normal(size=(len(matrix), 2)) for matrix in matrices]
    A = np.vstack([m / math.sqrt(v) for m, v in zip(matrices, noise, strict=True)])
    y = np.vstack([t / math.sqrt(v) for t, v in zip(tables, noise, strict=True)])
    inverse = np.linalg.pinv(A.T @ A)
    x = inverse @ A.T @ y
    found, spread = crossing.fitted(tables, noise), crossing.variances(noise)
    assert () in found
    for columns in crossing.told:
        M = summing(crossing.shape, columns)
        np.testing.assert_allclose(found[columns], M @ x, atol=1e-9)
        np.testing.assert_allclose(np.diag(M @ inverse @ M.T), spread[columns], rtol=1e-9)


@pytest.mark.parametrize("crossing", CROSSINGS)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_other_shares_are_better_by_more_than_their_steps(crossing: Crossing, law: str) -> None:
    def asked(parts: tuple[float, ...]) -> float:
        spread = crossing.variances([variance(law, part) for part in parts])
        return sum(spread[columns] for columns in crossing.bought)

    best = shares(crossing, law)
    assert sum(best) == 1.0
    n = len(best)
    steps = itertools.product(range(1, 16), repeat=n)
    grid = [tuple(k / 16 for k in parts) for parts in steps if sum(parts) == 16]
    if grid:
        assert asked(best) <= min(map(asked, grid)) * (1 + 1e-9)
