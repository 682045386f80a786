"""Blocks of rows: what they remember, and what they are moved by."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from ndis.tables import blocks
from ndis.tables.blocks import Block, SparseBlock, Stack
from ndis.tables.exact import BLOCK_ROWS
from ndis.tables.sums import CutGram, CutMoments, JointGram


def test_moments_about_a_centre_are_those_of_shifted_rows() -> None:
    rng = np.random.default_rng(8)
    rows, center = rng.uniform(-1, 1, (3, 500)), np.array([2.0**19, -(2.0**18), 5.0])
    rows = np.rint(rows * 2.0**20 / np.sqrt(3))
    shifted = rows - center[:, None]
    length = np.linalg.norm(shifted, axis=0)
    inside, outside = shifted[:, length <= 2**20], shifted[:, length > 2**20]
    assert 0 < outside.shape[1] < 500
    found, expected = (
        CutMoments(8, center)(Block(rows[:, length <= 2**20])),
        CutMoments(8)(Block(inside)),
    )
    for name, term in expected.items():
        assert np.array_equal(found[name], term)
    for row in outside.T:
        terms = CutMoments(8, center)(Block((row + center)[:, None]))
        assert np.all(np.trace(terms["grams"], axis1=1, axis2=2) <= 2**40)
        expected = row * 2**20 / np.linalg.norm(row)
        np.testing.assert_allclose(terms["sums"][0], expected, rtol=0, atol=2.0)


def test_a_block_on_a_card_remembers_for_one_centre_only() -> None:
    rng = np.random.default_rng(8)
    rows = rng.integers(-(2**18), 2**18, (3, 50)).astype(np.float64)
    stack, block = Stack(rows), Block(rows)
    near, far = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0**17])
    for center in (None, near, far, far, None, near):
        assert np.array_equal(stack.distances(center), block.distances(center))
    for _ in range(2):
        assert np.array_equal(stack.sums(), rows.sum(axis=1))


def test_a_block_on_a_card_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of all its rows at once did not fit beside them."""
    monkeypatch.setattr(blocks, "PIECE_ENTRIES", 3 * 2 * BLOCK_ROWS)
    rng = np.random.default_rng(8)
    n = 5 * BLOCK_ROWS + 7
    rows = rng.integers(-(2**18), 2**18, (3, n)).astype(np.float64)
    labels = rng.integers(-(2**18), 2**18, (1, n)).astype(np.float64)
    pieces = [*Stack(rows, labels).pieces()]
    assert [piece.n_rows for piece in pieces] == [2 * BLOCK_ROWS, 2 * BLOCK_ROWS, BLOCK_ROWS + 7]
    assert np.array_equal(np.hstack([piece.features for piece in pieces]), rows)
    assert np.array_equal(np.hstack([piece.labels for piece in pieces]), labels)
    assert np.array_equal(sum(piece.gram() for piece in pieces), Stack(rows).gram())


@pytest.mark.parametrize("n_features", [1, 2, 3, 5])
@pytest.mark.parametrize("stored", [False, True])
def test_sums_that_work_in_place_leave_a_block_as_it_is(n_features: int, stored: bool) -> None:
    rng = np.random.default_rng(2)
    rows = np.round(rng.normal(size=(300, n_features)) * 2.0**18)
    block: Block = Block(rows.T.copy())
    if stored:
        block = SparseBlock(sparse.csr_array(rows), np.zeros(n_features))
    cut = CutGram(3, 100.0 * np.arange(n_features))
    first, dense = cut(block), block.dense.copy()
    again = cut(block)
    assert np.array_equal(block.dense, dense)
    assert np.array_equal(block.whole_gram(), rows.T @ rows)
    for name, term in first.items():
        assert np.array_equal(term, again[name])


@pytest.mark.parametrize("shift", [np.zeros(5), np.array([0.0, 3.0, -700.0, 2.0**10, 0.0])])
@pytest.mark.parametrize(
    "function",
    [
        JointGram(1000.0),
        *(CutGram(j, center) for j in (0, 1, 6, 7) for center in (None, 100.0 * np.arange(5.0))),
    ],
    ids=repr,
)
def test_sums_of_sparse_rows_are_those_of_dense_ones(
    function: Any, shift: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no dense copy of all rows is made on the way."""
    rng = np.random.default_rng(4)
    r = np.round(rng.normal(size=(1000, 5)) * 2.0**16) * (rng.random((1000, 5)) < 0.3)
    labels = np.round(rng.normal(size=(2, 1000)) * 2.0**15)
    stored = SparseBlock(sparse.csr_array(r), shift, labels)
    expected = function(Block(r.T - shift[:, None], labels))
    whole = SparseBlock.dense.fget
    assert whole is not None

    def dense(block: SparseBlock) -> Any:
        assert block.n_rows < 1000
        return whole(block)

    monkeypatch.setattr(SparseBlock, "dense", property(dense))
    found = function(stored)
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_array_equal(np.asarray(found[name], np.int64), expected[name])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_vectors", [1, 2, 3, 4])
def test_products_with_few_vectors_are_those_of_whole_numbers(order: Any, n_vectors: int) -> None:
    rng = np.random.default_rng(8)
    rows = rng.integers(-(2**18), 2**18, (5, 700))
    weights = rng.integers(-(2**20), 2**20, (n_vectors, 700))
    theta = rng.integers(-(2**30), 2**30, (5, n_vectors))
    block = Block(np.asarray(rows, np.float64, order=order))
    assert np.array_equal(block.combine(weights.astype(np.float64)), rows @ weights.T)
    assert np.array_equal(block.times(theta.astype(np.float64)), theta.T @ rows)
