import mpmath
import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import (
    GramAccumulator,
    leverage_error,
    leverages_and_residuals,
    read_gram,
    row_leverages,
)


def hat_diagonal(table: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """Leverages by another route: a singular value decomposition of the (ridged) table."""
    stacked = np.vstack([table, np.sqrt(ridge) * np.eye(table.shape[1])])
    left, values, _ = np.linalg.svd(stacked, full_matrices=False)
    left = left[:, values > 1e-9 * values[0]]
    return (left[: len(table)] ** 2).sum(axis=1)


@pytest.fixture
def table() -> np.ndarray:
    rng = np.random.default_rng(11)
    mixed = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4))
    return mixed * [1.0, 1e-3, 1e4, 1.0]


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 50.0])
def test_leverages(table: np.ndarray, ridge: float) -> None:
    leverages = row_leverages(table, read_gram(table), ridge)
    np.testing.assert_allclose(leverages, hat_diagonal(table, ridge), rtol=1e-7)


def test_leverages_sum_to_the_rank(table: np.ndarray) -> None:
    assert row_leverages(table, read_gram(table)).sum() == pytest.approx(4, rel=1e-9)


def test_more_rows_than_one_block_in_order() -> None:
    table = np.random.default_rng(1).standard_normal((200_000, 2))
    np.testing.assert_allclose(row_leverages(table, read_gram(table)), hat_diagonal(table))


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
    rng = np.random.default_rng(6)
    table = DEPENDENT[kind](rng.standard_normal((60, 4)))
    gram = read_gram(table)
    np.testing.assert_allclose(row_leverages(table, gram), hat_diagonal(table), atol=1e-9)
    assert leverage_error(gram) == np.inf
    assert leverage_error(gram, ridge=1.0) < 1e-9


def test_rows_are_made_as_for_the_gram_matrix() -> None:
    rng = np.random.default_rng(8)
    frame = pa.table({"y": rng.standard_normal(50) * 9, "kind": rng.choice(["a", "b", "c"], 50)})
    gram = read_gram(
        frame,
        1.2,
        columns=["kind", "y"],
        levels={"kind": ["a", "b"]},
        clip={"y": 3},
        intercept=True,
    )
    (rows,) = gram.rows.blocks(frame.select(["y", "kind"]).combine_chunks().to_batches()[0])
    assert rows.shape == (50, 4)
    np.testing.assert_allclose(row_leverages(frame, gram), hat_diagonal(rows), atol=1e-12)


@pytest.mark.parametrize("label", ["x0", "x1", "x3"])
@pytest.mark.parametrize("ridge", [0.0, 7.0])
def test_leverages_with_and_without_the_label(table: np.ndarray, label: str, ridge: float) -> None:
    p, q = leverages_and_residuals(table, read_gram(table), label, ridge)
    features = np.delete(table, int(label[1]), axis=1)
    np.testing.assert_allclose(p, hat_diagonal(features, ridge), rtol=1e-7)
    np.testing.assert_allclose(q, hat_diagonal(table, ridge), rtol=1e-7)


def test_difference_is_the_share_of_the_squared_residual(table: np.ndarray) -> None:
    p, q = leverages_and_residuals(table, read_gram(table), "x3")
    solution, *_ = np.linalg.lstsq(table[:, :3], table[:, 3], rcond=None)
    residuals = table[:, 3] - table[:, :3] @ solution
    np.testing.assert_allclose(q - p, residuals**2 / (residuals**2).sum(), atol=1e-10)
    assert (q >= p).all()


def test_label_that_the_features_explain() -> None:
    x = np.random.default_rng(0).standard_normal((30, 2))
    table = np.column_stack([x, x @ [1.0, 2.0]])
    p, q = leverages_and_residuals(table, read_gram(table), "x2")
    np.testing.assert_array_equal(p, q)
    np.testing.assert_allclose(p, hat_diagonal(x))


def ill_conditioned(log10: float, seed: int) -> np.ndarray:
    """A table whose columns are dependent up to 10^-log10."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 3))
    x[:, 2] = x[:, 0] + x[:, 1] + 10.0**-log10 * x[:, 2]
    return x * [1.0, 1e6, 1e-4]


def exact_leverages(table: np.ndarray, ridge: float) -> list[mpmath.mpf]:
    with mpmath.workdps(60):
        x = mpmath.matrix(table.tolist())
        inverse = (x.T * x + ridge * mpmath.eye(x.cols)) ** -1
        return [(x[i, :] * inverse * x[i, :].T)[0] for i in range(x.rows)]


@pytest.mark.parametrize("log10", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("ridge", [0.0, 1e-9])
def test_error_bound_holds_in_sixty_digits(log10: float, ridge: float) -> None:
    table = ill_conditioned(log10, seed=int(log10))
    gram = read_gram(table)
    bound = leverage_error(gram, ridge)
    for computed, exact in zip(
        row_leverages(table, gram, ridge), exact_leverages(table, ridge), strict=True
    ):
        assert exact <= computed * (1 + bound)
        assert abs(computed - exact) <= bound * exact
    # It is no empty promise either.
    assert bound < 1e-10 * 10 ** (2 * log10)


def test_error_bound_covers_the_label(table: np.ndarray) -> None:
    gram = read_gram(table)
    bound = leverage_error(gram, label="x1")
    assert bound < 1e-6
    p, q = leverages_and_residuals(table, gram, "x1")
    exact_q = exact_leverages(table, 0.0)
    exact_p = exact_leverages(np.delete(table, 1, axis=1), 0.0)
    for computed, exact in ((p, exact_p), (q, exact_q)):
        assert all(e <= c * (1 + bound) for c, e in zip(computed, exact, strict=True))


@pytest.mark.parametrize("n_rows", [499, 501])
def test_another_table(table: np.ndarray, n_rows: int) -> None:
    other = np.vstack([table, table])[:n_rows]
    with pytest.raises(ValueError, match="does not have the rows"):
        row_leverages(other, read_gram(table))


def test_unknown_label(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="'x0', 'x1', 'x2', 'x3', got 'y'"):
        leverages_and_residuals(table, read_gram(table), "y")


def test_label_without_features() -> None:
    table = np.ones((3, 1))
    with pytest.raises(ValueError, match="features besides the label 'x0'"):
        leverages_and_residuals(table, read_gram(table), "x0")


def test_negative_ridge(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match="ridge >= 0"):
        row_leverages(table, read_gram(table), -1.0)


def test_gram_from_an_accumulator(table: np.ndarray) -> None:
    accumulator = GramAccumulator(["a", "b", "c", "d"], row_norm=2.0)
    accumulator.update(table)
    leverages = row_leverages(table, accumulator.finalize(), ridge=1.0)
    assert leverages.max() <= 4 / (4 + 1)
