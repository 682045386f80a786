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

from ndis.tables import batches, read_gram

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


def as_parts(folder: Path) -> Path:
    """Three Parquet files and a CSV file, with the columns in different orders."""
    pa.parquet.write_table(TABLE[:100], folder / "part-0.parquet")
    pa.parquet.write_table(TABLE[100:101].select(TABLE.schema.names[::-1]), folder / "part-1.pq")
    pa.parquet.write_table(TABLE[101:700], folder / "part-2.parquet")
    pa.csv.write_csv(plain(TABLE[700:]), folder / "part-3.csv")
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
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays(kind: str, tmp_path: Path) -> None:
    gram = read_gram(ARRAYS[kind](tmp_path))
    np.testing.assert_array_equal(gram.matrix, EXPECTED)
    assert gram.n_rows == N_ROWS
    assert gram.columns == tuple(f"x{i}" for i in range(len(NAMES)))


@pytest.mark.parametrize("kind", TABLES)
def test_tables(kind: str, tmp_path: Path) -> None:
    gram = read_gram(TABLES[kind](tmp_path), levels=LEVELS)
    np.testing.assert_array_equal(gram.matrix, EXPECTED)
    assert gram.n_rows == N_ROWS
    assert gram.columns == NAMES


@pytest.mark.parametrize("kind", TABLES)
def test_columns_by_name_in_the_order_asked(kind: str, tmp_path: Path) -> None:
    gram = read_gram(TABLES[kind](tmp_path), columns=["stops", "speed"])
    chosen = DENSE[:, [2, 0]]
    np.testing.assert_array_equal(gram.matrix, chosen.T @ chosen)


@pytest.mark.parametrize("kind", sorted(TABLES.keys() - {"pyarrow reader"}))
def test_a_table_can_be_read_again_in_the_same_order(kind: str, tmp_path: Path) -> None:
    table = batches(TABLES[kind](tmp_path), ["speed"], batch_rows=64)
    for _ in range(2):
        parts = [batch.column(0).to_numpy() for batch in table]
        assert max(map(len, parts)) <= 64
        np.testing.assert_array_equal(np.concatenate(parts), DENSE[:, 0])


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_are_cut_into_batches(kind: str, tmp_path: Path) -> None:
    parts = list(batches(ARRAYS[kind](tmp_path), batch_rows=64))
    assert max(map(len, parts)) <= 64
    np.testing.assert_array_equal(np.concatenate(parts), DENSE)


def test_names_are_given_to_the_columns_of_an_array() -> None:
    assert read_gram(DENSE[:, :2], columns=["a", "b"]).columns == ("a", "b")


def test_integers_as_levels() -> None:
    table = pa.table({"month": [1, 2, 12, 2]})
    gram = read_gram(table, levels={"month": [2, 12]})
    assert gram.columns == ("month=2", "month=12")
    assert gram.matrix.tolist() == [[2.0, 0.0], [0.0, 1.0]]


def test_levels_of_a_csv_file_keep_their_type(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("month,text\n1,NA\n2,7\n2,x\n")
    gram = read_gram(tmp_path / "t.csv", levels={"month": [1, 2], "text": ["NA", "7"]})
    assert np.diag(gram.matrix).tolist() == [1.0, 2.0, 1.0, 1.0]


def test_integers_that_turn_into_fractions_late_in_a_csv_file(tmp_path: Path) -> None:
    lines = ["x", *["1"] * 400_000, "0.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert read_gram(tmp_path / "t.csv").matrix.tolist() == [[400_000.25]]


def test_compressed_csv(tmp_path: Path) -> None:
    import gzip

    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("x,y\n1,2\n3,4\n")
    assert read_gram(tmp_path / "t.csv.gz").matrix.tolist() == [[10.0, 14.0], [14.0, 20.0]]


def test_odd_names(tmp_path: Path) -> None:
    """Names that are keywords, quotes or numbers somewhere."""
    names = ['say "when"', "select", "a.b", "`tick`", "0"]
    table = pa.table({name: [float(i)] for i, name in enumerate(names, start=1)})
    sources = [table, table.to_pandas().rename(columns={"0": 0})]
    sources.append(pytest.importorskip("polars").from_arrow(table).lazy())
    sources.append(pytest.importorskip("duckdb").from_arrow(table))
    for source in sources:
        gram = read_gram(source, columns=names[::-1])
        assert np.diag(gram.matrix).tolist() == [25.0, 16.0, 9.0, 4.0, 1.0]


def test_only_the_package_of_the_source_is_imported() -> None:
    program = (
        "import sys, numpy as np; from ndis.tables import read_gram, row_leverages;"
        "table = np.eye(3); row_leverages(table, read_gram(table, 1.0));"
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
        read_gram(TABLES[kind](tmp_path))
    assert "levels" in sentence(error)


@pytest.mark.parametrize("kind", TABLES)
def test_an_unknown_column_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'altitude'") as error:
        read_gram(TABLES[kind](tmp_path), columns=["speed", "altitude"])
    sentence(error)


def test_a_table_that_failed_can_be_read_again(tmp_path: Path) -> None:
    """The failed reading is closed: DuckDB allows one at a time."""
    relation = as_duckdb(tmp_path)
    with pytest.raises(ValueError, match="Column 'carrier'"):
        read_gram(relation)
    assert read_gram(relation, columns=["speed"]).n_rows == N_ROWS


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
        read_gram(missing_in(kind, tmp_path), row_norm=1.0)
    sentence(error)


def test_missing_category() -> None:
    table = pa.table({"carrier": pa.array(["AA", None])})
    with pytest.raises(ValueError, match="Column 'carrier' has missing"):
        read_gram(table, levels={"carrier": ["AA"]})


def test_missing_values_in_an_array_name_the_column() -> None:
    table = np.ones((5000, 3))
    table[4500, 1] = np.nan
    for layout in (table, np.asfortranarray(table), scipy.sparse.csr_array(table)):
        with pytest.raises(ValueError, match="Column 'x1'"):
            read_gram(layout)


def test_masked_array() -> None:
    with pytest.raises(ValueError, match="masked"):
        read_gram(np.ma.masked_equal(np.eye(2), 0.0))


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
    with pytest.raises(ValueError, match="no rows") as error:
        read_gram(EMPTY[kind](tmp_path))
    sentence(error)


def test_a_reader_gives_its_rows_once() -> None:
    reader = TABLE.select(["speed"]).to_reader()
    read_gram(reader)
    with pytest.raises(ValueError, match="read only once"):
        read_gram(reader)


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
        read_gram(column())
    sentence(error)


def test_one_column_is_a_table() -> None:
    assert read_gram(np.array([[3.0], [4.0]])).matrix.tolist() == [[25.0]]


@pytest.mark.parametrize("source", [3, None, [[1.0, 2.0]], {"speed": [1.0]}])
def test_not_a_table(source: Any) -> None:
    with pytest.raises(TypeError, match="Expected a table, got") as error:
        read_gram(source)
    sentence(error)


def test_no_files() -> None:
    with pytest.raises(ValueError, match="empty list"):
        read_gram([])


def test_array_of_text() -> None:
    with pytest.raises(ValueError, match="array of numbers, got dtype <U1"):
        read_gram(np.array([["a", "b"]]))


def test_array_with_levels() -> None:
    with pytest.raises(ValueError, match="no categorical columns"):
        read_gram(np.eye(2), levels={"x0": [0.0, 1.0]})


def test_too_few_names_for_an_array() -> None:
    with pytest.raises(ValueError, match="Expected 2 names"):
        read_gram(np.eye(2), columns=["a"])


def test_column_of_mixed_types() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"speed": [1.0, "fast"]}, dtype=object)
    with pytest.raises(ValueError, match="Column 'speed' mixes"):
        read_gram(frame)


def test_a_name_that_is_there_twice() -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    with pytest.raises(ValueError, match="one column 'x'"):
        read_gram(table)


def test_levels_of_another_type() -> None:
    with pytest.raises(ValueError, match="levels of column 'month' to be of its type int64"):
        read_gram(pa.table({"month": [1, 2]}), levels={"month": ["January"]})


def test_text_late_in_a_csv_file(tmp_path: Path) -> None:
    lines = ["x,y", *["1,2"] * 400_000, "1,two"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"Column 'y' of .* holds values that are not numbers"):
        read_gram(tmp_path / "t.csv")
    assert read_gram(tmp_path / "t.csv", columns=["x"]).n_rows == 400_001


@pytest.mark.parametrize("name", ["nowhere.parquet", "nowhere.csv", "nowhere-*.csv"])
def test_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as error:
        read_gram(tmp_path / name)
    sentence(error)


def test_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "table.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"named \.parquet or \.csv"):
        read_gram(tmp_path / "table.xlsx")


@pytest.mark.parametrize("name", ["empty.parquet", "empty.csv", "torn.parquet"])
def test_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    content = as_parquet(tmp_path).read_bytes()
    (tmp_path / name).write_bytes(content[:-500] if name.startswith("torn") else b"")
    with pytest.raises(OSError, match="could not be read to its end") as error:
        read_gram(tmp_path / name)
    sentence(error)


def test_file_that_vanishes_half_way(tmp_path: Path) -> None:
    as_parts(tmp_path)
    reading = iter(batches(tmp_path, ["speed"]))
    next(reading)
    (tmp_path / "part-2.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part-2\.parquet.* is not there") as error:
        list(reading)
    sentence(error)


def test_file_that_is_cut_off_half_way(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    noise = np.random.default_rng(0).standard_normal(200_000)
    pa.parquet.write_table(pa.table({"x": noise}), file, row_group_size=50_000)
    reading = iter(batches(file, batch_rows=1000))
    next(reading)
    with file.open("r+b") as opened:
        opened.truncate(500_000)
    with pytest.raises(OSError, match="could not be read to its end") as error:
        list(reading)
    sentence(error)
