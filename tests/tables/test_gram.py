from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ndis.tables.gram import GRAM_ERROR

from ndis.tables import Gram, GramAccumulator, Rows, read_gram


def exact_gram(table: np.ndarray) -> np.ndarray:
    """The Gram matrix in rational arithmetic: doubles are integers over a power of two."""
    scale = 2**400
    integers = np.array(
        [[int(Fraction(float(x)) * scale) for x in row] for row in table], dtype=object
    )
    return np.vectorize(lambda entry: Fraction(entry, scale**2), otypes=[object])(
        integers.T @ integers
    )


def relative_errors(gram: Gram, exact: np.ndarray) -> np.ndarray:
    """|error_ij| / sqrt(G_ii G_jj), the quotient itself exact to double precision."""
    d = len(exact)
    errors = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            error = abs(Fraction(float(gram.matrix[i, j])) - exact[i, j])
            errors[i, j] = float(error**2 / (exact[i, i] * exact[j, j])) ** 0.5
    return errors


def accumulated(table: np.ndarray, cuts: list[int]) -> GramAccumulator:
    accumulator = GramAccumulator(table.shape[1])
    for part in np.split(table, sorted(cuts)):
        accumulator.update(part)
    return accumulator


def cancelling(rng: np.random.Generator) -> np.ndarray:
    """Off-diagonal sums that cancel to almost nothing."""
    half = rng.standard_normal((6000, 1)) * [1.0, 1.0, 3.0]
    table = np.empty((12000, 3))
    table[::2], table[1::2] = half, half * [1.0, -1.0, 1.0]
    return table


def wide_range(rng: np.random.Generator) -> np.ndarray:
    """Rows and columns of very different size."""
    signs = rng.choice([-1.0, 1.0], size=(12000, 3))
    sizes = 10.0 ** rng.uniform(-40, 40, size=(12000, 1)) * 10.0 ** np.array([-20.0, 0.0, 15.0])
    return signs * sizes * rng.uniform(1, 2, size=(12000, 3))


def one_sided(rng: np.random.Generator) -> np.ndarray:
    """All positive with rounding errors in one direction."""
    return np.full((12000, 3), 1.0 / 3.0) + rng.random((12000, 1)) * 1e-3


@pytest.mark.parametrize("make", [cancelling, wide_range, one_sided])
def test_error_is_within_the_proven_bound(make: object) -> None:
    table = make(np.random.default_rng(2))  # type: ignore[operator]
    exact = exact_gram(table)
    for cuts in ([], [1, 2, 5000], list(range(0, 12000, 100))):
        assert relative_errors(accumulated(table, cuts).finalize(), exact).max() < 4.6e-13


def test_hundred_million_rows() -> None:
    """A table of 10,000 rows, ten thousand times over."""
    table = np.random.default_rng(4).standard_normal((10_000, 3)) * [1e8, 1.0, 1e-8]
    part, whole = GramAccumulator(3), GramAccumulator(3)
    part.update(table)
    for _ in range(10_000):
        whole.merge(part)
    gram = whole.finalize()
    assert gram.n_rows == 10**8
    assert relative_errors(gram, exact_gram(table) * 10_000).max() < GRAM_ERROR


def test_small_terms_are_not_lost_beside_a_large_sum() -> None:
    """Each term is below half a unit in the last place: a plain sum would lose all of them."""
    large, small, plain = GramAccumulator(1), GramAccumulator(1), np.float64(1.0)
    large.update(np.array([[1.0]]))
    small.update(np.array([[0.9e-8]]))
    term = small.finalize().matrix[0, 0]
    for _ in range(100_000):
        large.merge(small)
        plain = plain + term
    exact = Fraction(1) + 100_000 * Fraction(0.9e-8) ** 2
    assert relative_errors(large.finalize(), np.array([[exact]], dtype=object)).max() < 1e-15
    assert abs(float(Fraction(float(plain)) - exact)) > GRAM_ERROR


@given(
    cuts=st.lists(st.integers(0, 5000), max_size=8),
    order=st.permutations(range(4)),
    seed=st.integers(0, 10),
)
def test_cuts_and_order_of_merging_do_not_matter(
    cuts: list[int], order: list[int], seed: int
) -> None:
    table = np.random.default_rng(seed).standard_normal((5000, 2)) * [1e6, 1e-3]
    whole = accumulated(table, []).finalize().matrix
    parts = [accumulated(part, []) for part in np.split(table, [500, 501, 3000])]
    merged = GramAccumulator(2)
    for index in order:
        merged.merge(parts[index])
    sizes = np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    for other in (merged.finalize().matrix, accumulated(table, cuts).finalize().matrix):
        assert (np.abs(other - whole) <= GRAM_ERROR * sizes).all()


def test_merging_is_associative() -> None:
    rng = np.random.default_rng(9)

    def part(index: int) -> GramAccumulator:
        accumulator = GramAccumulator(2)
        accumulator.update(rng.standard_normal((100, 2)) * 10.0**index)
        return accumulator

    states = [part(index).state() for index in range(3)]
    rows = GramAccumulator(2).rows

    def load(index: int) -> GramAccumulator:
        return GramAccumulator.from_state(rows, states[index])

    left, right, tail = load(0), load(0), load(1)
    left.merge(load(1))
    left.merge(load(2))
    tail.merge(load(2))
    right.merge(tail)
    np.testing.assert_allclose(left.finalize().matrix, right.finalize().matrix, rtol=1e-15)


def test_state_brings_everything_back() -> None:
    rows = Rows(["x", "y"], row_norm=2.0, intercept=True)
    accumulator = GramAccumulator(rows)
    accumulator.update(np.random.default_rng(0).standard_normal((9000, 2)))
    back = GramAccumulator.from_state(rows, accumulator.state())
    assert back.state() == accumulator.state()
    back.update(np.ones((1, 2)))
    assert back.n_rows == 9001


def test_a_batch_that_fails_adds_nothing() -> None:
    accumulator = GramAccumulator(1)
    accumulator.update(np.array([[2.0]]))
    bad = np.ones((10_000, 1))
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="Column 'x0'"):
        accumulator.update(bad)
    gram = accumulator.finalize()
    assert (gram.n_rows, gram.matrix.tolist()) == (1, [[4.0]])


def test_accumulator_takes_the_parameters_of_rows() -> None:
    accumulator = GramAccumulator(
        ["kind", "y"], levels={"kind": ["a"]}, clip={"y": 1.0}, intercept=True, row_norm=9.0
    )
    accumulator.update(pa.record_batch({"y": [3.0, -0.5], "kind": ["a", "b"]}))
    gram = accumulator.finalize()
    assert gram.columns == ("intercept", "kind=a", "y")
    assert gram.matrix.tolist() == [[2.0, 1.0, 0.5], [1.0, 1.0, 1.0], [0.5, 1.0, 1.25]]


def test_gram_is_read_only_and_keeps_the_data_to_itself() -> None:
    gram = read_gram(np.full((1234, 1), 7.0))
    with pytest.raises(ValueError, match="read-only"):
        gram.matrix[0, 0] = 0.0
    assert "1234" not in repr(gram)
    assert "60466" not in repr(gram)


def test_no_rows() -> None:
    with pytest.raises(ValueError, match="The table has no rows"):
        GramAccumulator(2).finalize()


def test_overflow() -> None:
    accumulator = GramAccumulator(1)
    accumulator.update(np.array([[1e200]]))
    accumulator.update(np.array([[1.0]]))
    with pytest.raises(ValueError, match="overflow"):
        accumulator.finalize()


def test_merging_rows_made_in_two_ways() -> None:
    with pytest.raises(ValueError, match="two recipes"):
        GramAccumulator(2, row_norm=1.0).merge(GramAccumulator(2, row_norm=2.0))


def test_recipe_given_twice() -> None:
    with pytest.raises(ValueError, match="leave out the other parameters"):
        GramAccumulator(Rows(["x"]), row_norm=1.0)


@pytest.mark.parametrize("n_columns", [0, -1])
def test_number_of_columns(n_columns: int) -> None:
    with pytest.raises(ValueError, match="n_columns >= 1"):
        GramAccumulator(n_columns)
