"""What becomes of a record depends on that record alone, in every source, beside any neighbours.

Values are drawn with types and lengths that would re-type a column if one were inferred for it.
What each becomes is computed here by itself, in rational arithmetic, and compared with the integers
of 10,000 records of each source; some are read alone too.
"""

import datetime as dt
import gzip
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

from ndis.tables import Table
from ndis.tables.values import numbers
from reading import opened

N = 10_000
ALONE = 40
DAY = dt.timedelta(days=1)
EPOCH = dt.datetime(1970, 1, 1)
LIMITS = {"number": (-1000.0, 5000.0), "moment": ("2001-01-01", "2031-01-01")}
LEVELS = {"word": ["a", "NA", "1", "caf\u00e9"], "code": [0.1, 2, 7.5]}
COLUMNS = [*LIMITS, *LEVELS]
Cell = Any
Row = dict[str, Cell]


def rational(value: Cell) -> Fraction:
    """A value as a number: dates in days since 1970, in UTC where they have a time zone."""
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return Fraction(
            (value - EPOCH) // dt.timedelta(microseconds=1), DAY // dt.timedelta(0, 0, 1)
        )
    if isinstance(value, dt.date):
        return Fraction(value.toordinal() - EPOCH.toordinal())
    return Fraction(float(value) if isinstance(value, np.floating) else value)


def level_of(value: Cell, known: Sequence[Any]) -> int:
    """The position of the level that a value is; in single precision levels are so, too."""
    if isinstance(value, str):
        return next((k for k, level in enumerate(known) if level == value), -1)
    single = isinstance(value, np.float32)
    levels = [float(np.float32(level)) if single else level for level in known]
    return next((k for k, level in enumerate(levels) if rational(level) == rational(value)), -1)


def expected(rows: Sequence[Row]) -> np.ndarray:
    """The integers of rows, from numbers that were computed one by one."""
    doubles = {name: [float(rational(row[name])) for row in rows] for name in LIMITS}
    levels = {
        name: pa.array([level_of(row[name], known) for row in rows], pa.int64())
        for name, known in LEVELS.items()
    }
    places = {name: list(range(len(known))) for name, known in LEVELS.items()}
    table = pa.table({**{k: pa.array(v, pa.float64()) for k, v in doubles.items()}, **levels})
    return integers(table, levels=places)


def integers(source: Any, levels: Any = LEVELS, **written: Any) -> np.ndarray:
    table = recipe(source, levels, **written)
    return table.measure(lambda block: block.features, len(table.rows.features.names)).T


def recipe(source: Any, levels: Any = LEVELS, **written: Any) -> Table:
    return opened(source, COLUMNS, norm=None, levels=levels, limits=LIMITS, **written)


# --- records ------------------------------------------------------------------------------------


def choose(rng: np.random.Generator, *makers: Callable[[], Any]) -> Any:
    return makers[rng.integers(len(makers))]()


def number(rng: np.random.Generator) -> Cell:
    scaled = float(np.exp(rng.uniform(-5, 12)) * rng.choice([-1, 1]))
    digits = int(rng.integers(1, 34))
    return choose(
        rng,
        lambda: scaled,
        lambda: np.float64(scaled),
        lambda: np.float32(scaled),
        lambda: int(scaled),
        lambda: np.int16(int(scaled) % 30_000),
        lambda: int(rng.integers(2**53, 2**62)) * int(rng.choice([1, -1])),
        lambda: 2**70 + int(scaled),
        lambda: Decimal(f"{int(rng.integers(4000))}.{'7' * digits}"),
        lambda: Decimal(f"{scaled:.3f}"),
        lambda: bool(rng.integers(2)),
        lambda: 1e308,
    )


def moment(rng: np.random.Generator) -> Cell:
    at = EPOCH + dt.timedelta(days=int(rng.integers(10_000, 23_000)))
    late = at + dt.timedelta(microseconds=int(rng.integers(86_400 * 10**6)))
    zone = dt.timezone(dt.timedelta(minutes=int(rng.integers(-700, 800))))
    return choose(
        rng,
        lambda: at.date(),
        lambda: at,
        lambda: late,
        lambda: late.replace(microsecond=0),
        lambda: late.replace(tzinfo=zone),
        lambda: late.replace(tzinfo=dt.UTC),
        lambda: dt.date(1, 1, 1),
        lambda: dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        lambda: int(rng.integers(12_000, 20_000)),
    )


def word(rng: np.random.Generator) -> Cell:
    return str(rng.choice([*LEVELS["word"], "b", "1.0", "2020-01-01", " a", "true"]))


def code(rng: np.random.Generator) -> Cell:
    known = LEVELS["code"][rng.integers(len(LEVELS["code"]))]
    return choose(
        rng,
        lambda: known,
        lambda: np.float32(known),
        lambda: np.float64(known),
        lambda: Decimal(repr(known)),
        lambda: Decimal("0.10000000000000000000001"),
        lambda: bool(rng.integers(2)),
        lambda: 2**80,
    )


def records(n: int = N, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        {"number": number(rng), "moment": moment(rng), "word": word(rng), "code": code(rng)}
        for _ in range(n)
    ]


# --- sources whose columns have no type of their own ----------------------------------------------


def as_objects(rows: Sequence[Row], folder: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({n: pandas.Series([r[n] for r in rows], dtype=object) for n in COLUMNS})


def written(value: Cell) -> Cell:
    """What a spreadsheet can hold: doubles, and moments without a time zone."""
    if isinstance(value, dt.datetime) and value.tzinfo is None and value.year > 1900:
        return value.replace(microsecond=0)
    if isinstance(value, dt.date):
        return dt.date(2003, 5, 6)
    return value if isinstance(value, bool | str) else float(value)


def as_xlsx(rows: Sequence[Row], folder: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(COLUMNS)
    for row in rows:
        sheet.append([row[name] for name in COLUMNS])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def spelled(row: Row) -> Row:
    """A record as text has it: without single precision, and codes as doubles."""
    return {k: float(v) if isinstance(v, np.floating) or k == "code" else v for k, v in row.items()}


def lines(rows: Sequence[Row], separator: str = ",") -> str:
    text = [separator.join(f'"{row[name]}"' for name in COLUMNS) for row in rows]
    return "\n".join([separator.join(COLUMNS), *text])


def as_csv(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.csv").write_text(lines(rows))
    return folder / "t.csv"


def as_gzip(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.tsv.gz").write_bytes(gzip.compress(lines(rows, "\t").encode()))
    return folder / "t.tsv.gz"


UNTYPED: dict[str, tuple[Callable[[Sequence[Row], Path], Any], Callable[[Row], Row], int]] = {
    "pandas objects": (as_objects, dict, N),
    "spreadsheet": (as_xlsx, lambda row: {k: written(v) for k, v in row.items()}, N // 5),
    "CSV": (as_csv, spelled, N),
    "TSV, compressed": (as_gzip, spelled, N // 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNTYPED)
def test_values_without_types(kind: str, tmp_path: Path) -> None:
    make, possible, n = UNTYPED[kind]
    rows = [possible(row) for row in records(n)]
    found = integers(make(rows, tmp_path))
    np.testing.assert_array_equal(found, expected(rows))
    for place in range(0, n, n // ALONE):
        alone = integers(make(rows[place : place + 1], tmp_path))
        np.testing.assert_array_equal(alone[0], found[place])


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
def test_partitions_of_dask_without_types(tmp_path: Path) -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    import dask

    rows = records(N // 5)
    with dask.config.set({"dataframe.convert-string": False}):
        parts = dataframe.from_pandas(as_objects(rows, tmp_path), npartitions=12)
    table = recipe(parts)
    whole = expected(rows)
    assert table.moments["gram"].value.tolist() == (whole.T @ whole).tolist()


# --- sources whose columns have types: in every batch or file another ----------------------------

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.bool_()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.dictionary(pa.int32(), pa.float64())),
    *(pa.decimal128(6, 2), pa.decimal128(38, 2), pa.decimal128(38, 30), pa.decimal256(70, 40)),
]
MOMENTS = [
    *(pa.date32(), pa.date64(), pa.int32()),
    *(
        pa.timestamp(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "Asia/Tokyo")
    ),
]
WORDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
CODES = [pa.float64(), pa.float32(), pa.dictionary(pa.int32(), pa.float64())]
TYPES = dict(zip(COLUMNS, (NUMBERS, MOMENTS, WORDS, CODES), strict=True))


def encoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind, False)


def of_type(rng: np.random.Generator, name: str, kind: pa.DataType, n: int) -> pa.Array:
    """Random values of a type, the largest and smallest that it has among them."""
    if name == "word":
        return encoded(pa.array([word(rng) for _ in range(n)]), kind)
    if name == "code":
        known = pa.array([*LEVELS["code"], 0.3, 1e-300]).take(rng.integers(0, 5, n))
        return encoded(known, kind)
    if pa.types.is_timestamp(kind):
        ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        seconds = rng.integers(6 * 10**8, 2 * 10**9, n) * ticks + rng.integers(0, ticks, n)
        return pa.array(seconds, pa.int64()).cast(kind)
    if pa.types.is_date(kind):
        days = pa.array(rng.integers(10_000, 23_000, n), pa.int32()).cast(pa.date32())
        return days.cast(kind)
    if pa.types.is_decimal(kind):
        digits = kind.precision - kind.scale
        most = 10 ** min(digits, 4) - 1
        wholes = rng.integers(0, most + 1, n)
        parts = ["".join(map(str, rng.integers(0, 10, kind.scale))) for _ in range(n)]
        values = [Decimal(f"{k}.{part}") for k, part in zip(wholes, parts, strict=True)]
        return pa.array([*values[:-1], Decimal(10**digits - 1)], kind)
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(n) < 0.5)
    doubles = rng.uniform(-4000, 6000, n)
    if pa.types.is_integer(kind):
        ends = np.iinfo(kind.to_pandas_dtype())
        whole = np.clip(doubles.astype(np.int64), max(ends.min, -(2**62)), min(ends.max, 2**62))
        return pa.array([*whole.tolist()[:-2], int(ends.min), int(ends.max)], kind)
    largest = {16: 60_000.0, 32: 3e38}.get(getattr(kind, "bit_width", 64), 1e308)
    doubles[-2:] = largest, -largest
    return encoded(pa.array(doubles), kind)


def batches(n_batches: int, n: int, left_out: Sequence[Any] = ()) -> list[pa.RecordBatch]:
    rng, made = np.random.default_rng(1), []
    for index in range(n_batches):
        columns = {}
        for name, kinds in TYPES.items():
            possible = [kind for kind in kinds if kind not in left_out]
            kind = possible[index % len(possible)]
            columns[name] = of_type(rng, name, kind, n)
        made.append(pa.RecordBatch.from_pydict(columns))
    return made


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    rows = batch.to_pylist()
    if batch.schema.field("code").type == pa.float32():
        rows = [{**row, "code": np.float32(row["code"])} for row in rows]
    return rows


def as_files(made: Sequence[pa.RecordBatch], folder: Path, kind: str) -> Path:
    for index, batch in enumerate(made):
        path = folder / f"{index:03}.{kind}"
        if kind == "parquet":
            pa.parquet.write_table(pa.Table.from_batches([batch]), path)
        else:
            with pa.ipc.new_file(path, batch.schema) as file:
                file.write(batch)
    return folder


def as_numpy_frame(batch: pa.RecordBatch) -> Any:
    pytest.importorskip("pandas")
    return batch.to_pandas()


def as_arrow_frame(batch: pa.RecordBatch) -> Any:
    return pa.Table.from_batches([batch]).to_pandas(
        types_mapper=pytest.importorskip("pandas").ArrowDtype
    )


def as_polars(batch: pa.RecordBatch) -> Any:
    return pytest.importorskip("polars").from_arrow(pa.Table.from_batches([batch]))


def as_duckdb(batch: pa.RecordBatch) -> Any:
    return pytest.importorskip("duckdb").from_arrow(pa.Table.from_batches([batch]))


# All batches as one table, and each batch as one; with the types that the source does not have.
WHOLE: dict[str, tuple[Callable[[Any, Path], Any], tuple[Any, ...]]] = {
    "list of batches": (lambda made, folder: made, ()),
    "function of batches": (lambda made, folder: lambda: iter(made), ()),
    "Parquet files": (lambda made, folder: as_files(made, folder, "parquet"), ()),
    "Arrow files": (lambda made, folder: as_files(made, folder, "arrow"), ()),
}
EACH: dict[str, tuple[Callable[[pa.RecordBatch], Any], tuple[Any, ...]]] = {
    "pyarrow": (lambda batch: pa.Table.from_batches([batch]), ()),
    "pandas": (as_numpy_frame, ()),
    "pandas on Arrow": (as_arrow_frame, ()),
    "polars": (as_polars, (pa.decimal256(70, 40), pa.float16())),
    "DuckDB": (as_duckdb, (pa.decimal256(70, 40), pa.float16())),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE)
def test_batches_of_many_types(kind: str, tmp_path: Path) -> None:
    make, left_out = WHOLE[kind]
    made = batches(40, N // 40, left_out)
    found = integers(make(made, tmp_path))
    rows = [row for batch in made for row in rows_of(batch)]
    np.testing.assert_array_equal(found, expected(rows))
    for index, batch in enumerate(made):
        place = index * 7 % len(batch)
        (tmp_path / str(index)).mkdir()
        alone = integers(make([batch.slice(place, 1)], tmp_path / str(index)))
        np.testing.assert_array_equal(alone[0], found[index * len(batch) + place])


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH)
def test_tables_of_many_types(kind: str) -> None:
    make, left_out = EACH[kind]
    for batch in batches(20, N // 20, left_out):
        found = integers(make(batch))
        np.testing.assert_array_equal(found, expected(rows_of(batch)))
        for place in (0, 77, len(batch) - 1):
            np.testing.assert_array_equal(integers(make(batch.slice(place, 1)))[0], found[place])


DTYPES = [np.float64, np.float32, np.float16, np.longdouble, np.int8, np.int64, np.uint64, np.bool_]


def array(rng: np.random.Generator, dtype: Any, n: int) -> np.ndarray:
    values = rng.uniform(-4000, 6000, (n, 3)) if dtype != np.int8 else rng.integers(-9, 9, (n, 3))
    made = (np.abs(values) if dtype == np.uint64 else values).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        made[0] = np.iinfo(dtype).max
    elif dtype != np.bool_:
        made[0] = np.finfo(np.float64 if dtype == np.longdouble else dtype).max
    return made


def as_strict(part: np.ndarray) -> Any:
    strict = pytest.importorskip("array_api_strict")
    return strict.asarray(part if part.dtype.char not in "eg" else part.astype(np.float64))


MATRICES: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda part: part,
    "array API": as_strict,
    "scipy": lambda part: scipy.sparse.csr_array(part.astype(np.float64)),
}


def of_matrix(source: Any) -> np.ndarray:
    limits = {"x0": (-1000.0, 5000.0), "x1": (-3.0, 8.0), "x2": (-1e6, 1e7)}
    table = opened(source, norm=None, limits=limits)
    return table.measure(lambda block: block.dense, 3).T


@pytest.mark.parametrize("kind", MATRICES)
def test_arrays_of_many_types(kind: str) -> None:
    rng, make = np.random.default_rng(2), MATRICES[kind]
    parts = [array(rng, dtype, N // len(DTYPES)) for dtype in DTYPES]
    for part in parts:
        found = of_matrix(make(part))
        doubles = np.array([[float(x) for x in row] for row in part.tolist()])
        if kind != "scipy":  # rounds before it centres
            np.testing.assert_array_equal(found, of_matrix(doubles))
        for place in (0, 1, len(part) - 1):
            np.testing.assert_array_equal(of_matrix(make(part[place : place + 1]))[0], found[place])
    together = of_matrix([make(part) for part in parts])
    np.testing.assert_array_equal(together, np.vstack([of_matrix(make(part)) for part in parts]))
