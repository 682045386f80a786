"""Records with values of any type, in every source, and what becomes of each beside the others.

Values are drawn with types and lengths that would re-type a column if one were inferred for it.
What each becomes is computed here by itself, in rational arithmetic.
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

from ndis.tables.spark import open_text
from reading import opened

# How many records are read alone, too, where that takes a file each.
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


PLACES = {name: list(range(len(known))) for name, known in LEVELS.items()}


def doubles_of(rows: Sequence[Row]) -> dict[str, pa.Array]:
    """Columns of numbers and of places of levels, each computed by itself."""
    return {
        name: pa.array([float(rational(row[name])) for row in rows], pa.float64())
        for name in LIMITS
    } | {
        name: pa.array([level_of(row[name], known) for row in rows], pa.int64())
        for name, known in LEVELS.items()
    }


def expected(rows: Sequence[Row]) -> np.ndarray:
    """The integers of rows, from numbers that were computed one by one."""
    return integers(pa.table(doubles_of(rows)), PLACES)


def integers(source: Any, levels: Any = LEVELS) -> np.ndarray:
    table = opened(source, COLUMNS, norm=None, levels=levels, limits=LIMITS)
    return table.measure(lambda block: block.features, len(table.rows.features.names)).T


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


def records(n: int, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        {"number": number(rng), "moment": moment(rng), "word": word(rng), "code": code(rng)}
        for _ in range(n)
    ]


# --- sources whose columns have no type of their own ----------------------------------------------


def as_objects(rows: Sequence[Row], folder: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({n: pandas.Series([r[n] for r in rows], dtype=object) for n in rows[0]})


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
    text = [separator.join(f'"{value}"' for value in row.values()) for row in rows]
    return "\n".join([separator.join(rows[0]), *text])


def as_csv(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.csv").write_text(lines(rows))
    return folder / "t.csv"


def as_gzip(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.tsv.gz").write_bytes(gzip.compress(lines(rows, "\t").encode()))
    return folder / "t.tsv.gz"


UNTYPED: dict[str, tuple[Callable[[Sequence[Row], Path], Any], Callable[[Row], Row]]] = {
    "pandas objects": (as_objects, dict),
    "spreadsheet": (as_xlsx, lambda row: {k: written(v) for k, v in row.items()}),
    "CSV": (as_csv, spelled),
    "TSV, compressed": (as_gzip, spelled),
}


def check_untyped(kind: str, n: int, folder: Path) -> None:
    """All together, and some alone."""
    make, possible = UNTYPED[kind]
    rows = [possible(row) for row in records(n)]
    found = integers(make(rows, folder))
    np.testing.assert_array_equal(found, expected(rows))
    for place in range(0, n, n // ALONE):
        alone = integers(make(rows[place : place + 1], folder))
        np.testing.assert_array_equal(alone[0], found[place])


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


def check_batches(kind: str, n: int, folder: Path) -> None:
    """Forty batches together, and one record of each alone."""
    make, left_out = WHOLE[kind]
    made = batches(40, n // 40, left_out)
    found = integers(make(made, folder))
    rows = [row for batch in made for row in rows_of(batch)]
    np.testing.assert_array_equal(found, expected(rows))
    for index, batch in enumerate(made):
        place = index * 7 % len(batch)
        (folder / str(index)).mkdir()
        alone = integers(make([batch.slice(place, 1)], folder / str(index)))
        np.testing.assert_array_equal(alone[0], found[index * len(batch) + place])


def check_tables(kind: str, n: int) -> None:
    """Twenty tables, each of other types, and three records of each alone."""
    make, left_out = EACH[kind]
    for batch in batches(20, n // 20, left_out):
        found = integers(make(batch))
        np.testing.assert_array_equal(found, expected(rows_of(batch)))
        for place in (0, len(batch) // 3, len(batch) - 1):
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


def as_torch(part: np.ndarray, device: str = "cpu") -> Any:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("There is no card.")
    known = part if part.dtype.char not in "gL" else part.astype(np.float64)
    return torch.asarray(known, device=device)


MATRICES: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda part: part,
    "xarray": lambda part: pytest.importorskip("xarray").DataArray(part),
    "array API": as_strict,
    "torch": as_torch,
    "torch on a card": lambda part: as_torch(part, "cuda"),
    "scipy": lambda part: scipy.sparse.csr_array(part.astype(np.float64)),
}


def of_matrix(source: Any) -> np.ndarray:
    limits = {"x0": (-1000.0, 5000.0), "x1": (-3.0, 8.0), "x2": (-1e6, 1e7)}
    table = opened(source, norm=None, limits=limits)
    return table.measure(lambda block: block.dense, 3).T


def check_arrays(kind: str, n: int) -> None:
    """Arrays of each type alone, all types as batches of one table, and three rows alone."""
    rng, make = np.random.default_rng(2), MATRICES[kind]
    parts = [array(rng, dtype, n // len(DTYPES)) for dtype in DTYPES]
    for part in parts:
        found = of_matrix(make(part))
        doubles = np.array([[float(x) for x in row] for row in part.tolist()])
        if kind != "scipy":  # rounds before it centres
            np.testing.assert_array_equal(found, of_matrix(doubles))
        for place in (0, 1, len(part) - 1):
            np.testing.assert_array_equal(of_matrix(make(part[place : place + 1]))[0], found[place])
    if kind in ("numpy", "array API", "scipy"):  # others are one array
        together = of_matrix([make(part) for part in parts])
        each = np.vstack([of_matrix(make(part)) for part in parts])
        np.testing.assert_array_equal(together, each)


# --- clusters, which add up and measure nothing: each record is added to a place of its own -------


def check_places(source: Any, rows: Sequence[Row]) -> None:
    """The records of a source of any engine, found by their ids."""
    n, limits = len(rows), {"id": (0.0, float(len(rows))), **LIMITS}
    bounds: Any = {"norm": None, "levels": LEVELS, "limits": limits}
    columns = ["id", *COLUMNS]
    numbered = pa.table({"id": pa.array(range(n), pa.float64()), **doubles_of(rows)})
    alone = opened(numbered, columns, norm=None, levels=PLACES, limits=limits)
    d = len(alone.rows.features.names)
    truth = alone.measure(lambda block: block.features, d).T
    keys = truth[:, 0]

    def place(block: Any) -> dict[str, Any]:
        each = np.zeros((n, d))
        each[np.searchsorted(keys, block.features[0])] = block.features.T
        return {"each": each}

    found = opened(source, columns, **bounds).sum(place)["each"]
    np.testing.assert_array_equal(found.value, truth)


def check_dask(n: int, folder: Path) -> None:
    """Objects without types in a dozen partitions."""
    dataframe = pytest.importorskip("dask.dataframe")
    import dask

    rows = [{"id": float(index), **row} for index, row in enumerate(records(n))]
    with dask.config.set({"dataframe.convert-string": False}):
        check_places(dataframe.from_pandas(as_objects(rows, folder), npartitions=12), rows)


def check_spark_text(session: Any, n: int, folder: Path) -> None:
    """Lines of text, of which Spark would infer types."""
    rows = [{"id": float(index), **spelled(row)} for index, row in enumerate(records(n))]
    (folder / "t.csv").write_text(lines(rows))
    check_places(open_text(session, str(folder / "t.csv"), header=True), rows)


# What Spark does not read from Parquet files, or has no type for.
NOT_IN_SPARK = (
    *(pa.uint64(), pa.float16(), pa.decimal256(70, 40), pa.string_view()),
    *(pa.timestamp("ns", zone) for zone in (None, "Asia/Tokyo")),
)


def check_spark_files(session: Any, n: int, folder: Path, n_types: int = 20) -> None:
    """Parquet files, each of other types."""
    for index, batch in enumerate(batches(n_types, n // n_types, NOT_IN_SPARK)):
        numbered = batch.append_column("id", pa.array(range(len(batch)), pa.float64()))
        pa.parquet.write_table(pa.Table.from_batches([numbered]), folder / f"{index}.parquet")
        frame = session.read.parquet(str(folder / f"{index}.parquet")).repartition(3)
        check_places(frame, rows_of(batch))
