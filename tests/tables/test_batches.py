"""Records as sources hand them over: which columns become numbers, and which are refused."""

import array_api_strict as xp
import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from ndis.tables import (
    Columns,
    Rows,
)
from ndis.tables.batches import Batch, rows_between, stored_once


def raw(column: pa.Array, **recipe: object) -> np.ndarray:
    rows = Rows(Columns(["x"], norm=100.0, **recipe))  # type: ignore[arg-type]
    (block,) = rows.raw_blocks(pa.record_batch({"x": column}))
    return np.asarray(block.features)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", [1, -2]),
        ("uint64", [1, 2]),
        ("float16", [0.5, 2.0]),
        ("bool", [True, False]),
        ("decimal128(9, 2)", ["1.25", "2.50"]),
        ("decimal256(50, 2)", ["1.25", "2.50"]),
    ],
)
def test_kinds_of_numbers(kind: str, values: list[object]) -> None:
    from decimal import Decimal

    if kind.startswith("decimal"):
        arrow_type = pa.decimal128(9, 2) if "128" in kind else pa.decimal256(50, 2)
        values = [Decimal(str(value)) for value in values]
    else:
        arrow_type = pa.type_for_alias(kind)
        values = [np.float16(value) if kind == "float16" else value for value in values]
    assert raw(pa.array(values, arrow_type)).ravel().tolist() == [float(v) for v in values]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_kinds_of_text(kind: pa.DataType) -> None:
    if kind == pa.string_view() and int(pa.__version__.partition(".")[0]) < 20:
        pytest.skip("this pyarrow cannot yet compare text in string views")
    positions = raw(pa.array(["a", "b", "c"], kind), levels={"x": ["c", "a"]})
    assert positions.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 1], pa.time32("s")),
        pa.array(["1", "2"]),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_that_are_not_numbers(column: pa.Array) -> None:
    with pytest.raises(ValueError, match=r"Column 'x' holds .*, not numbers"):
        raw(column)


def test_two_entries_of_one_place_are_one_number() -> None:
    """Clipped one by one they could add up to more than their limit."""
    twice = sparse.csr_array((np.array([3.0, 4.0]), ([0, 0], [1, 1])), shape=(1, 2))
    assert stored_once(twice).data.tolist() == [7.0]


def test_a_batch_is_cut_into_parts_that_are_all_of_it() -> None:
    values = np.arange(14.0).reshape(7, 2)
    batch = Batch(values, values[:, 0])
    parts = [batch.part(start, start + 3) for start in range(0, batch.n_rows, 3)]
    assert [len(features) for features, _ in parts] == [3, 3, 1]
    assert np.array_equal(np.concatenate([labels for _, labels in parts]), values[:, 0])
    assert rows_between(xp.asarray(values), 6, 9).shape == (1, 2)
