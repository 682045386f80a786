"""A table is one value: the same sums from every source, and the same refusals."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from scipy import sparse

from ndis.tables import (
    Columns,
    Rows,
    Table,
    moments,
)
from ndis.tables.exact import BLOCK_ROWS
from reading import gram_of, integers, opened, random_table


def test_the_same_bits_from_every_source() -> None:
    table = random_table(5)
    names = [f"x{i}" for i in range(6)]
    strict = pytest.importorskip("array_api_strict")
    sources = [
        np.asfortranarray(table),
        pa.table(dict(zip(names, table.T, strict=True))),
        [table[:13], table[13:5000], table[5000:]],
        strict.asarray(table),
    ]
    expected = opened(table, names, norm=2.5, intercept=True).moments["gram"]
    for source in sources:
        assert opened(source, names, norm=2.5, intercept=True).moments["gram"] == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("norm", [1e-60, 1.0, 1e60])
def test_what_is_not_finite_is_refused_whatever_else_is_in_the_table(
    value: float, norm: float
) -> None:
    X = np.random.default_rng(0).normal(size=(5000, 3)) * norm
    X[7] = [1.7e308, -1.7e308, 5e-324]
    rows = Rows(Columns(["a", "b", "c"], norm=norm))
    expected = Table.open(X).with_rows(rows).moments["gram"]
    assert np.all(np.isfinite(expected.value))
    X[4999, 1] = value
    for source in (X, np.asfortranarray(X), pa.table(dict(zip("abc", X.T, strict=True)))):
        with pytest.raises(ValueError, match="'b' has missing or infinite values"):
            Table.open(source, list("abc")).with_rows(rows).sum(moments)
    kept = Table.open(X, drop_missing=True).with_rows(rows).moments["gram"]
    assert kept == Table.open(X[:4999]).with_rows(rows).moments["gram"]


def test_sparse_rows_that_are_not_yet_centred_add_up_exactly() -> None:
    """They are twice as long as others; near the top of their limits, odd, and as many as fit."""
    values = np.full((BLOCK_ROWS, 1), 0.9999997)
    rows = Rows(Columns(["x0"], limits={"x0": (0, 1)}))
    table = Table.open(sparse.csr_array(values)).with_rows(rows)
    raw = [int(x) for block in table.blocks() for x in block.rows.data]
    assert raw[0] % 2 == 1
    assert len(raw) * raw[0] ** 2 > 2**53
    assert integers(table.sum(lambda block: {"g": block.gram()})["g"]) == [sum(x * x for x in raw)]


def test_entries_of_a_sparse_matrix_that_are_stored_twice_count_as_their_sum() -> None:
    twice = sparse.csr_array(([3.0, 3.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    for recipe in (
        Columns(["x0", "x1"], norm=4.0),
        Columns(["x0", "x1"], limits={"x0": (-4, 4), "x1": (-4, 4)}),
    ):
        ours, listed, expected = (
            Table.open(source).with_rows(Rows(recipe)).moments["gram"]
            for source in (twice, [twice], np.array([[6.0, 0.0], [0.0, 1.0]]))
        )
        assert ours == expected
        assert listed == expected
    assert twice.nnz == 3  # the caller's matrix is as it was


def test_integers_as_levels() -> None:
    table = pa.table({"month": [1, 2, 12, 2]})
    gram = gram_of(table, levels={"month": [2, 12]})
    assert gram.columns == ("month=2", "month=12")
    assert gram.matrix.tolist() == [[2.0, 0.0], [0.0, 1.0]]


def test_odd_names(tmp_path: Path) -> None:
    """Names that are keywords, quotes or numbers somewhere."""
    names = ['say "when"', "select", "a.b", "`tick`", "0"]
    table = pa.table({name: [float(i)] for i, name in enumerate(names, start=1)})
    sources = [table, table.to_pandas().rename(columns={"0": 0})]
    sources.append(pytest.importorskip("polars").from_arrow(table).lazy())
    sources.append(pytest.importorskip("duckdb").from_arrow(table))
    for source in sources:
        gram = gram_of(source, columns=names[::-1])
        assert np.diag(gram.matrix).tolist() == [25.0, 16.0, 9.0, 4.0, 1.0]


def test_a_name_that_is_there_twice() -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    with pytest.raises(ValueError, match="one column 'x'"):
        gram_of(table)
