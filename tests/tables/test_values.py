"""What becomes of a record depends on that record alone, in every source, beside any neighbours.

A share of the records; `benchmarks/check_reading.py` reads 10,000 of each source.
"""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hostile_records import (
    EACH,
    MATRICES,
    UNTYPED,
    WHOLE,
    check_arrays,
    check_batches,
    check_dask,
    check_tables,
    check_untyped,
)
from ndis.tables.values import level_positions, numbers
from reading import opened

N = 2_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNTYPED)
def test_values_without_types(kind: str, tmp_path: Path) -> None:
    check_untyped(kind, N, tmp_path)


def column_of(values: Sequence[Any], **bounds: Any) -> list[list[float]]:
    """What becomes of a column of a data frame that has no type."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": pandas.Series(values, dtype=object)})
    table = opened(frame, ["x"], norm=None, **bounds)
    return table.measure(lambda block: block.features, len(table.rows.features.names)).T.tolist()


ONE = {
    "a date among moments": (dt.datetime(2020, 6, 1, 18), dt.date(2020, 1, 1)),
    "a time zone": (dt.datetime(2020, 6, 1, 18), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    "a long decimal": (Decimal("1000.1"), Decimal("0." + "7" * 36)),
    "a number among truths": (True, 5),
    "a fraction among long integers": (2**53 + 3, 0.5),
    "an integer that is too long": (2**40, 2**70),
    "a moment among days": (18_000.5, dt.datetime(2020, 6, 1)),
}


@pytest.mark.parametrize("case", ONE)
def test_one_record_leaves_the_numbers_of_others(case: str) -> None:
    common, other = ONE[case]
    limits = {"limits": {"x": (0.0, 2.0**54)}} if isinstance(common, int) else {}
    limits = limits or {"limits": {"x": ("1970-01-01", "2024-10-04")}}
    alone = column_of([common], **limits)
    for values in ([other, common, common], [common, common, other]):
        assert alone[0] in column_of(values, **limits)
        assert column_of(values, **limits)[1] == alone[0]


@pytest.mark.parametrize("other", [0.5, 0.1, Decimal("0.1"), 7, True, 10**30])
def test_one_record_leaves_the_levels_of_others(other: Any) -> None:
    levels = {"levels": {"x": [0.1, 0.2]}}
    found = column_of([other, *map(np.float32, [0.1, 0.2, 0.3])], **levels)
    assert found[1:] == column_of([*map(np.float32, [0.1, 0.2, 0.3])], **levels)
    assert [sum(row) > 0 for row in found[1:]] == [True, True, False]


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(9, 3), pa.decimal128(38, 20), pa.decimal128(38, 30), pa.decimal256(70, 9)],
)
def test_decimals_are_the_nearest_doubles_whatever_their_column(kind: pa.DataType) -> None:
    rng = np.random.default_rng(3)
    made = [Decimal(int(k)).scaleb(-3) for k in rng.integers(-(10**8), 10**8, 999)]
    assert numbers("x", pa.array(made, kind)[5:]).tolist() == [float(value) for value in made[5:]]


@pytest.mark.parametrize("value", ["b", b"b", dt.time(1), 1j, [1.0]])
def test_what_is_not_of_the_kind_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="Column 'x' mixes values of several types; make them"):
        column_of([1.0, value], limits={"x": (0, 1)})
    with pytest.raises(ValueError, match="Expected levels of column 'x' to be of its type"):
        column_of([1.0, value], levels={"x": [1.0, 2.0]})


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int8(), pa.decimal128(2, 0), pa.int64()])
def test_levels_that_a_column_is_too_narrow_for_are_those_of_no_record(kind: pa.DataType) -> None:
    column = pa.array([1, 2, 3], kind)
    assert level_positions("x", column, [2, -(2**62), 3, 300]).tolist() == [-1, 0, 2]


def test_missing_objects() -> None:
    pandas = pytest.importorskip("pandas")
    for missing in (None, np.nan, pandas.NA, pandas.NaT, Decimal("nan")):
        frame = pandas.DataFrame({"x": [1, missing], "y": ["a", "b"]}, dtype=object)
        bounds = {"norm": None, "limits": {"x": (0, 2)}, "levels": {"y": ["a"]}}
        with pytest.raises(ValueError, match="Column 'x' has missing"):
            opened(frame, **bounds).sum(lambda block: {})
        assert opened(frame, drop_missing=True, **bounds).moments["count"].value == 1
        frame = pandas.DataFrame({"x": [1, 2], "y": ["a", missing]}, dtype=object)
        with pytest.raises(ValueError, match="Column 'y' has missing"):
            opened(frame, **bounds).sum(lambda block: {})


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE)
def test_batches_of_many_types(kind: str, tmp_path: Path) -> None:
    check_batches(kind, N, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH)
def test_tables_of_many_types(kind: str) -> None:
    check_tables(kind, N)


@pytest.mark.parametrize("kind", MATRICES)
def test_arrays_of_many_types(kind: str) -> None:
    check_arrays(kind, N)


@pytest.mark.slow
def test_partitions_of_dask_without_types(tmp_path: Path) -> None:
    check_dask(N, tmp_path)
