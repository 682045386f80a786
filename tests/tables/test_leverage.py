import mpmath
import numpy as np
import pytest

from ndis.tables import leverage_error, leverages
from reading import opened


def on_grid(table: np.ndarray, norm: float = 50.0):
    """A table on its grid, and the rows that it has there, in grid units."""
    one = opened(table, norm=norm)
    return one, np.hstack([block.features for block in one.blocks()]).T


def hat_diagonal(rows: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """Leverages by another route: a singular value decomposition of the (ridged) table."""
    stacked = np.vstack([rows, np.sqrt(ridge) * np.eye(rows.shape[1])])
    left, values, _ = np.linalg.svd(stacked, full_matrices=False)
    left = left[:, values > 1e-9 * values[0]]
    return (left[: len(rows)] ** 2).sum(axis=1)


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(11)
    mixed = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4))
    return mixed * [1.0, 1e-2, 3.0, 1.0]


@pytest.mark.parametrize("ridge", [0.0, 1e6, 1e12])
def test_leverages_with_and_without_the_last_column(table: np.ndarray, ridge: float) -> None:
    one, rows = on_grid(table)
    p, q = leverages(one, ridge)
    np.testing.assert_allclose(q, hat_diagonal(rows, ridge), rtol=1e-7)
    np.testing.assert_allclose(p, hat_diagonal(rows[:, :-1], ridge), rtol=1e-7)


def test_leverages_sum_to_the_rank(table: np.ndarray) -> None:
    assert leverages(on_grid(table)[0])[1].sum() == pytest.approx(4, rel=1e-9)


def test_more_rows_than_one_block_in_order() -> None:
    one, rows = on_grid(np.random.default_rng(1).standard_normal((200_000, 2)))
    np.testing.assert_allclose(leverages(one)[1], hat_diagonal(rows))


DEPENDENT = {
    "column twice": lambda x: np.column_stack([x, x[:, 0]]),
    "sum of columns": lambda x: np.column_stack([x, x.sum(axis=1), np.ones(len(x))]),
    "column of zeros": lambda x: np.column_stack([x, np.zeros(len(x))]),
    "zeros first": lambda x: np.column_stack([np.zeros(len(x)), x]),
    "fewer rows than columns": lambda x: x[:2],
    "one row": lambda x: x[:1],
}


@pytest.mark.parametrize("kind", DEPENDENT)
def test_dependent_columns(kind: str) -> None:
    values = np.random.default_rng(6).integers(-20, 20, (60, 4)) / 8
    one, rows = on_grid(DEPENDENT[kind](values), 2.0**7)
    np.testing.assert_allclose(leverages(one)[1], hat_diagonal(rows), atol=1e-9)
    assert leverage_error(one) == np.inf
    assert leverage_error(one, ridge=1e10) < 1e-9


def test_difference_is_the_share_of_the_squared_residual(table: np.ndarray) -> None:
    one, rows = on_grid(table)
    p, q = leverages(one)
    solution, *_ = np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)
    residuals = rows[:, 3] - rows[:, :3] @ solution
    np.testing.assert_allclose(q - p, residuals**2 / (residuals**2).sum(), atol=1e-10)
    assert (q >= p).all()


def test_label_that_the_features_explain() -> None:
    x = np.random.default_rng(0).integers(-20, 20, (30, 2)) / 8
    one, rows = on_grid(np.column_stack([x, x @ [1.0, 2.0]]), 2.0**7)
    p, q = leverages(one)
    np.testing.assert_array_equal(p, q)
    np.testing.assert_allclose(p, hat_diagonal(rows[:, :2]))


def ill_conditioned(log10: float, seed: int) -> np.ndarray:
    """A table whose columns are dependent up to 10^-log10."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 3))
    x[:, 2] = x[:, 0] + x[:, 1] + 10.0**-log10 * x[:, 2]
    return x


def exact_leverages(rows: np.ndarray, ridge: float) -> list[mpmath.mpf]:
    with mpmath.workdps(60):
        x = mpmath.matrix(rows.tolist())
        inverse = (x.T * x + ridge * mpmath.eye(x.cols)) ** -1
        return [(x[i, :] * inverse * x[i, :].T)[0] for i in range(x.rows)]


@pytest.mark.parametrize("log10", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("ridge", [0.0, 1e-9])
def test_error_bound_holds_in_sixty_digits(log10: float, ridge: float) -> None:
    one, rows = on_grid(ill_conditioned(log10, seed=int(log10)), 8.0)
    bound = leverage_error(one, ridge)
    p, q = leverages(one, ridge)
    for computed, exact in ((q, rows), (p, rows[:, :-1])):
        for ours, truth in zip(computed, exact_leverages(exact, ridge), strict=True):
            assert truth <= ours * (1 + bound)
            assert abs(ours - truth) <= bound * truth
    # It is no empty promise either.
    assert bound < 1e-11 * 10 ** (2 * log10)


def test_negative_ridge(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="ridge >= 0"):
        leverages(on_grid(table)[0], -1.0)


def test_no_leverage_is_above_what_the_ridge_allows(table: np.ndarray) -> None:
    _, q = leverages(on_grid(table, 2.0)[0], ridge=2.0**40)
    assert q.max() <= 0.5
