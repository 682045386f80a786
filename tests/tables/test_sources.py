"""One table, handed over in every way there is, has one Gram matrix."""

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
import scipy.sparse

from ndis.tables.sources import Request, open_source
from reading import gram_of, opened

N_ROWS = 1000
LEVELS = {"carrier": ["AA", "DL", "UA"]}
NAMES = (
    "speed",
    "load",
    "stops",
    "late",
    "fare",
    "code",
    *(f"carrier={x}" for x in LEVELS["carrier"]),
)


def make_table() -> pa.Table:
    """Values are small multiples of 1/8, so that every sum of products is exact."""
    rng = np.random.default_rng(5)
    eighths = rng.integers(-80, 80, size=(N_ROWS, 3)) / 8
    return pa.table(
        {
            "speed": pa.array(eighths[:, 0], pa.float64()),
            "load": pa.array(eighths[:, 1].astype(np.float32), pa.float32()),
            "stops": pa.array(rng.integers(-5, 90, N_ROWS), pa.int16()),
            "late": pa.array(rng.random(N_ROWS) < 0.3, pa.bool_()),
            "fare": pa.array([Decimal(f"{x:.3f}") for x in eighths[:, 2]], pa.decimal128(12, 3)),
            "code": pa.array(rng.choice([0.5, 2.0, 4.0], N_ROWS)).dictionary_encode(),
            # B6 is not a public level: it counts as none of them.
            "carrier": pa.array(rng.choice(["AA", "DL", "UA", "B6"], N_ROWS)),
        }
    )


TABLE = make_table()
DENSE = np.column_stack(
    [TABLE[name].cast("float64").to_numpy() for name in TABLE.schema.names[:-1]]
    + [TABLE["carrier"].to_numpy() == level for level in LEVELS["carrier"]]
).astype(np.float64)
EXPECTED = DENSE.T @ DENSE


def plain(table: pa.Table) -> pa.Table:
    """Without a dictionary of numbers, which most other formats do not have."""
    index = table.schema.names.index("code")
    return table.set_column(index, "code", table["code"].cast("float64"))


def as_memmap(folder: Path) -> Any:
    mapped = np.memmap(folder / "table.bin", dtype=np.float64, mode="w+", shape=DENSE.shape)
    mapped[:] = DENSE
    return mapped


def as_parquet(folder: Path) -> Path:
    pa.parquet.write_table(TABLE, folder / "table.parquet", row_group_size=300)
    return folder / "table.parquet"


def as_csv(folder: Path) -> Path:
    pa.csv.write_csv(plain(TABLE), folder / "table.csv")
    return folder / "table.csv"


def as_arrow(folder: Path) -> Path:
    with pa.ipc.new_file(folder / "table.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=77)
    return folder / "table.arrow"


def as_address(folder: Path) -> str:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://ndis-tests/table.parquet", "wb") as file:
        pa.parquet.write_table(TABLE, file)
    return "memory://ndis-tests/table.parquet"


def as_parts(folder: Path) -> Path:
    """Four Parquet files, with the columns in different orders."""
    pa.parquet.write_table(TABLE[:100], folder / "part-0.parquet")
    pa.parquet.write_table(TABLE[100:101].select(TABLE.schema.names[::-1]), folder / "part-1.pq")
    pa.parquet.write_table(TABLE[101:700], folder / "part-2.parquet")
    pa.parquet.write_table(TABLE[700:], folder / "part-3.parquet")
    (folder / "README.txt").write_text("not a table")
    return folder


def as_pandas(folder: Path) -> Any:
    pytest.importorskip("pandas")
    return TABLE.to_pandas()


def as_pandas_categories(folder: Path) -> Any:
    return as_pandas(folder).astype({"carrier": "category"})


def as_pandas_arrow(folder: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return plain(TABLE).to_pandas(types_mapper=pandas.ArrowDtype)


def as_polars(folder: Path) -> Any:
    return pytest.importorskip("polars").from_arrow(plain(TABLE))


def as_polars_categories(folder: Path) -> Any:
    polars = pytest.importorskip("polars")
    return as_polars(folder).with_columns(polars.col("carrier").cast(polars.Categorical))


def as_polars_scan(folder: Path) -> Any:
    polars = pytest.importorskip("polars")
    pa.parquet.write_table(plain(TABLE), folder / "plain.parquet")
    return polars.scan_parquet(folder / "plain.parquet")


def as_duckdb(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    arrow_table = plain(TABLE)  # noqa: F841 - DuckDB finds it by name
    return duckdb.sql("select * from arrow_table")


def as_dask(folder: Path) -> Any:
    dataframe = pytest.importorskip("dask.dataframe")
    return dataframe.from_pandas(as_pandas_arrow(folder), npartitions=20)


def as_dask_array(folder: Path) -> Any:
    return pytest.importorskip("dask.array").from_array(DENSE, chunks=(77, 2))


def as_subclass(folder: Path) -> Any:
    pandas = pytest.importorskip("pandas")

    class Frame(pandas.DataFrame):
        """Somebody's own kind of data frame."""

    return Frame(as_pandas(folder))


def as_strict(folder: Path) -> Any:
    return pytest.importorskip("array_api_strict").asarray(DENSE)


class Stream:
    """Anything that speaks Arrow's C interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


ARRAYS: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda folder: DENSE,
    "numpy, column order": lambda folder: np.asfortranarray(DENSE),
    "numpy, neither order": lambda folder: np.repeat(DENSE, 2, axis=1)[:, ::2],
    "numpy float32": lambda folder: DENSE.astype(np.float32),
    "numpy memory-mapped": as_memmap,
    "scipy csr": lambda folder: scipy.sparse.csr_array(DENSE),
    "scipy coo": lambda folder: scipy.sparse.coo_matrix(DENSE),
    "array API": as_strict,
    "Dask array": as_dask_array,
    "batches": lambda folder: [DENSE[:300], DENSE[300:]],
}
TABLES: dict[str, Callable[[Path], Any]] = {
    "pyarrow table": lambda folder: TABLE,
    "pyarrow record batch": lambda folder: TABLE.combine_chunks().to_batches()[0],
    "pyarrow reader": lambda folder: TABLE.to_reader(max_chunksize=77),
    "pyarrow dataset": lambda folder: pa.dataset.dataset(as_parquet(folder)),
    "pyarrow ParquetFile": lambda folder: pa.parquet.ParquetFile(as_parquet(folder)),
    "Arrow stream": lambda folder: Stream(),
    "Parquet": as_parquet,
    "Parquet, path as text": lambda folder: str(as_parquet(folder)),
    "CSV": as_csv,
    "Arrow file": as_arrow,
    "batches": lambda folder: plain(TABLE).to_batches(max_chunksize=77),
    "function of batches": lambda folder: lambda: iter(plain(TABLE).to_batches(max_chunksize=77)),
    "iterator of batches": lambda folder: iter(plain(TABLE).to_batches(max_chunksize=77)),
    "address": as_address,
    "directory": as_parts,
    "glob": lambda folder: str(as_parts(folder) / "part-*"),
    "list": lambda folder: sorted(as_parts(folder).glob("part-*")),
    "pandas": as_pandas,
    "pandas categories": as_pandas_categories,
    "pandas on Arrow": as_pandas_arrow,
    "polars": as_polars,
    "polars categories": as_polars_categories,
    "polars lazy": lambda folder: as_polars(folder).lazy(),
    "polars scan": as_polars_scan,
    "DuckDB": as_duckdb,
    "Dask": as_dask,
    "subclass of a data frame": as_subclass,
}
ONCE = {"pyarrow reader", "iterator of batches"}


def confirmed(kind: str) -> dict[str, bool]:
    """The names of a text file are confirmed, or typed."""
    return {"header": True} if kind == "CSV" else {}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays(kind: str, tmp_path: Path) -> None:
    gram = gram_of(ARRAYS[kind](tmp_path))
    np.testing.assert_array_equal(gram.matrix, EXPECTED)
    assert gram.n_rows == N_ROWS
    assert gram.columns == tuple(f"x{i}" for i in range(len(NAMES)))


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind: str, tmp_path: Path) -> None:
    gram = gram_of(TABLES[kind](tmp_path), levels=LEVELS, **confirmed(kind))
    np.testing.assert_array_equal(gram.matrix, EXPECTED)
    assert gram.n_rows == N_ROWS
    assert gram.columns == NAMES


@pytest.mark.parametrize("kind", TABLES)
def test_columns_by_name_in_the_order_asked(kind: str, tmp_path: Path) -> None:
    gram = gram_of(TABLES[kind](tmp_path), columns=["stops", "speed"])
    chosen = DENSE[:, [2, 0]]
    np.testing.assert_array_equal(gram.matrix, chosen.T @ chosen)


@pytest.mark.parametrize("kind", sorted(TABLES.keys() - ONCE - {"Dask"}))
def test_a_table_can_be_read_again_in_the_same_order(kind: str, tmp_path: Path) -> None:
    table = opened(TABLES[kind](tmp_path), ["speed"])
    for _ in range(2):
        parts = [block.features[0] for block in table.blocks()]
        np.testing.assert_array_equal(np.concatenate(parts), DENSE[:, 0] * 2**10)


@pytest.mark.parametrize("kind", sorted(ONCE))
def test_a_source_that_can_be_read_once_says_so(kind: str, tmp_path: Path) -> None:
    table = opened(TABLES[kind](tmp_path), ["speed"])
    assert table.once
    assert not opened(TABLE, ["speed"]).once


@pytest.mark.parametrize("kind", sorted(ARRAYS.keys() - {"batches", "Dask array"}))
def test_arrays_are_cut_into_batches(kind: str, tmp_path: Path) -> None:
    source = open_source(ARRAYS[kind](tmp_path))
    wide = Request(source.names, {}, 10**6)
    parts = list(source.read(wide))
    assert sum(part.shape[0] for part in parts) == N_ROWS


def test_levels_of_a_csv_file_keep_their_type(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("month,text\n1,NA\n2,7\n2,x\n")
    gram = gram_of(tmp_path / "t.csv", levels={"month": [1, 2], "text": ["NA", "7"]})
    assert np.diag(gram.matrix).tolist() == [1.0, 2.0, 1.0, 1.0]


def test_integers_that_turn_into_fractions_late_in_a_csv_file(tmp_path: Path) -> None:
    lines = ["x", *["1"] * 400_000, "0.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert gram_of(tmp_path / "t.csv", ["x"]).matrix.tolist() == [[400_000.25]]


def test_compressed_csv(tmp_path: Path) -> None:
    import gzip

    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("x,y\n1,2\n3,4\n")
    gram = gram_of(tmp_path / "t.csv.gz", ["x", "y"])
    assert gram.matrix.tolist() == [
        [10.0, 14.0],
        [14.0, 20.0],
    ]


def test_only_the_package_of_the_source_is_imported() -> None:
    program = (
        "import sys, numpy as np; from ndis.tables import Columns, Rows, Table, leverages;"
        "rows = Rows(Columns(['a', 'b', 'c'], norm=1.0));"
        "leverages(Table.open(np.eye(3)).with_rows(rows));"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pyarrow", "pandas", "polars", "duckdb", "dask", "pyspark", "sklearn", "rich"}
    assert heavy.isdisjoint(loaded)


# --- bad input: one sentence each ---------------------------------------------------------------


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


@pytest.mark.parametrize("kind", TABLES)
def test_text_without_levels_names_its_column(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Column 'carrier'") as error:
        gram_of(TABLES[kind](tmp_path), **confirmed(kind))
    assert "levels" in sentence(error)


@pytest.mark.parametrize("kind", TABLES)
def test_an_unknown_column_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'altitude'") as error:
        gram_of(TABLES[kind](tmp_path), columns=["speed", "altitude"])
    sentence(error)


def missing_in(kind: str, folder: Path) -> Any:
    table = pa.table({"speed": [1.0, 2.0, 3.0], "load": pa.array([1.0, None, 2.0])})
    if kind == "NaN":
        return table.set_column(1, "load", pa.array([1.0, np.nan, 2.0]))
    if kind == "infinite":
        return table.set_column(1, "load", pa.array([1.0, np.inf, 2.0]))
    if kind == "only nulls":
        return table.set_column(1, "load", pa.nulls(3))
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        return pytest.importorskip("polars").from_arrow(table)
    if kind == "DuckDB":
        return pytest.importorskip("duckdb").from_arrow(table)
    if kind == "Dask":
        frame = pytest.importorskip("dask.dataframe")
        return frame.from_pandas(table.to_pandas(), npartitions=2)
    if kind == "Parquet":
        pa.parquet.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"
    if kind == "CSV":
        (folder / "t.csv").write_text("speed,load\n1,1\n2,\n3,2\n")
        return folder / "t.csv"
    return table


@pytest.mark.parametrize(
    "kind",
    [
        "null",
        "NaN",
        "infinite",
        "only nulls",
        "pandas",
        "polars",
        "DuckDB",
        "Dask",
        "Parquet",
        "CSV",
    ],
)
def test_missing_values_name_their_column(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Column 'load' has missing or infinite values") as error:
        gram_of(missing_in(kind, tmp_path), ["speed", "load"], norm=1.0)
    sentence(error)


def test_missing_category() -> None:
    table = pa.table({"carrier": pa.array(["AA", None])})
    with pytest.raises(ValueError, match="Column 'carrier' has missing"):
        gram_of(table, levels={"carrier": ["AA"]})


def test_missing_values_in_an_array_name_the_column() -> None:
    table = np.ones((5000, 3))
    table[4500, 1] = np.nan
    for layout in (table, np.asfortranarray(table)):
        with pytest.raises(ValueError, match="Column 'x1'"):
            gram_of(layout)
    with pytest.raises(ValueError, match=r"sparse matrix .* missing"):
        gram_of(scipy.sparse.csr_array(table))


@pytest.mark.parametrize("kind", ["null", "NaN", "infinite", "pandas", "polars", "CSV"])
def test_rows_with_missing_values_can_be_dropped(kind: str, tmp_path: Path) -> None:
    gram = gram_of(missing_in(kind, tmp_path), ["speed", "load"], drop_missing=True)
    assert gram.n_rows == 2
    assert gram.matrix.tolist() == [[10.0, 7.0], [7.0, 5.0]]


def test_masked_array() -> None:
    with pytest.raises(ValueError, match="masked"):
        gram_of(np.ma.masked_equal(np.eye(2), 0.0))


EMPTY: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda folder: np.empty((0, 3)),
    "scipy": lambda folder: scipy.sparse.csr_array((0, 3)),
    "pyarrow": lambda folder: TABLE[:0].select(["speed"]),
    "pandas": lambda folder: as_pandas(folder)[:0][["speed"]],
    "polars": lambda folder: as_polars(folder)[:0].select("speed"),
    "polars lazy": lambda folder: as_polars(folder)[:0].select("speed").lazy(),
    "DuckDB": lambda folder: as_duckdb(folder).project("speed").limit(0),
    "CSV": lambda folder: [(folder / "t.csv").write_text("x,y\n"), folder / "t.csv"][1],
}


@pytest.mark.parametrize("kind", EMPTY)
def test_empty_table(kind: str, tmp_path: Path) -> None:
    """Somebody may be the only one: without them there are zeros, of all columns."""
    gram = gram_of(EMPTY[kind](tmp_path), **confirmed(kind))
    assert gram.n_rows == 0
    assert gram.columns
    np.testing.assert_array_equal(gram.matrix, np.zeros([len(gram.columns)] * 2))


@pytest.mark.parametrize(
    "column",
    [
        lambda: np.ones(3),
        lambda: as_pandas(Path())["speed"],
        lambda: as_polars(Path())["speed"],
        lambda: TABLE["speed"],
        lambda: as_dask(Path())["speed"],
    ],
)
def test_one_column_that_is_no_table(column: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=r"Expected an? (array|table) with") as error:
        gram_of(column())
    sentence(error)


def test_one_column_is_a_table() -> None:
    assert gram_of(np.array([[3.0], [4.0]])).matrix.tolist() == [[25.0]]


@pytest.mark.parametrize("source", [3, None, [[1.0, 2.0]], {"speed": [1.0]}])
def test_not_a_table(source: Any) -> None:
    with pytest.raises(TypeError, match="Expected a table, got") as error:
        gram_of(source)
    sentence(error)


def test_array_of_text() -> None:
    with pytest.raises(ValueError, match="array of numbers, got dtype <U1"):
        gram_of(np.array([["a", "b"]]))


def test_array_with_levels() -> None:
    with pytest.raises(ValueError, match="data frame"):
        gram_of(np.eye(2), levels={"x0": [0.0, 1.0]})


def test_too_few_names_for_an_array() -> None:
    with pytest.raises(ValueError, match="Expected 2 names"):
        gram_of(np.eye(2), columns=["a"])


def test_column_of_mixed_types() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"speed": [1.0, "fast"]}, dtype=object)
    with pytest.raises(ValueError, match="Column 'speed' mixes"):
        gram_of(frame)


def test_levels_of_another_type() -> None:
    with pytest.raises(ValueError, match="levels of column 'month' to be of its type int64"):
        gram_of(pa.table({"month": [1, 2]}), levels={"month": ["January"]})


def test_names_are_given_to_the_columns_of_an_array() -> None:
    assert gram_of(DENSE[:, :2], columns=["a", "b"]).columns == ("a", "b")


def test_a_table_that_failed_can_be_read_again(tmp_path: Path) -> None:
    """The failed reading is closed: DuckDB allows one at a time."""
    relation = as_duckdb(tmp_path)
    with pytest.raises(ValueError, match="Column 'carrier'"):
        gram_of(relation)
    assert gram_of(relation, columns=["speed"]).n_rows == N_ROWS
