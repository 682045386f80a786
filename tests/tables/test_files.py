"""Files and folders: nobody is counted twice, no record becomes a name, each fault its sentence."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

from ndis.tables import Table, files
from ndis.tables.files import looks_like_a_value
from ndis.tables.sums import totals
from reading import gram_of, opened

N = 1000
TABLE = pa.table({"x": np.arange(N, dtype=np.float64) % 17, "y": np.ones(N)})


def write(folder: Path, name: str = "part.parquet", table: pa.Table = TABLE) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    writer = pa.parquet.write_table if name.endswith(".parquet") else pa.csv.write_csv
    writer(table, folder / name)
    return folder / name


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


# --- people counted twice -----------------------------------------------------------------------


def test_leftovers_and_hidden_files_are_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("_temporary/0/part.parquet", ".part.parquet", ".snapshots/part.parquet"):
        write(tmp_path, name)
    assert gram_of(tmp_path).n_rows == N


def test_a_file_that_is_reached_twice_is_read_once(tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "link.parquet").symlink_to(file)
    os.link(file, tmp_path / "hard.parquet")
    assert gram_of(tmp_path).n_rows == N
    assert gram_of([file, str(file), tmp_path / "link.parquet"]).n_rows == N
    assert gram_of(str(tmp_path / "*.parquet")).n_rows == N


def test_two_formats_of_the_same_data_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "part.csv")
    with pytest.raises(ValueError, match="files of one format, got parquet and text") as error:
        gram_of(tmp_path)
    sentence(error)


def spellings(folder: Path, kind: str) -> tuple[Any, ...]:
    """Two files that may be one, and ways to hand them over."""
    first, second = {
        "compressed": ("a.csv", "a.csv.gz"),
        "tabs": ("a.csv", "a.tsv"),
        "two endings": ("a.parquet", "a.pq"),
        "capitals": ("a.parquet", "a.PARQUET"),
        "codec": ("a.parquet", "a.snappy.parquet"),
    }[kind]
    for name in (first, second):
        if name.endswith(".gz"):
            (folder / name).write_bytes(gzip.compress(b"x,y\n1,2\n"))
        elif "csv" in name or "tsv" in name:
            (folder / name).write_text("x,y\n1,2\n")
        else:
            pa.parquet.write_table(TABLE, folder / name)
    return folder, str(folder / "a.*"), [folder / first, folder / second]


@pytest.mark.parametrize("kind", ["compressed", "tabs", "two endings", "capitals", "codec"])
@pytest.mark.parametrize("way", [0, 1, 2], ids=["folder", "pattern", "list"])
def test_one_file_written_twice_is_refused(kind: str, way: int, tmp_path: Path) -> None:
    source = spellings(tmp_path, kind)[way]
    with pytest.raises(
        ValueError, match=r"Expected each file once, got '.*a\..* and '.*a\."
    ) as error:
        opened(source, ["x", "y"])
    assert "name the files to read" in sentence(error)


def test_a_file_and_its_compressed_self_in_other_spellings_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spellings(tmp_path, "compressed")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for other in ("a.csv.gz", "./a.csv.gz", "link/a.csv.gz", f"file://{tmp_path}/a.csv.gz"):
        with pytest.raises(ValueError, match="Expected each file once"):
            opened([tmp_path / "a.csv", other], ["x", "y"])


def test_an_address_of_a_local_file_is_that_file(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert gram_of([file, f"file://{file}", f"local://{file}"]).n_rows == N
    assert gram_of(f"file://{tmp_path}").n_rows == N
    assert gram_of(f"file://{tmp_path}/*.parquet").n_rows == N


def test_two_addresses_of_one_remote_file() -> None:
    fsspec = pytest.importorskip("fsspec")
    for name in ("a.csv", "a.csv.gz"):
        with fsspec.open(f"memory://ndis-twice/{name}", "wb") as file:
            file.write(b"x,y\n1,2\n" if name == "a.csv" else gzip.compress(b"x,y\n1,2\n"))
    same = ["memory://ndis-twice/a.csv", "memory:///ndis-twice/a.csv"]
    assert gram_of(same, ["x", "y"]).n_rows == 1
    with pytest.raises(ValueError, match="Expected each file once"):
        opened([same[0], f"{same[0]}.gz"], ["x", "y"])


def test_a_delta_table_is_not_read_as_a_folder(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ValueError, match="Delta table, which also holds deleted rows") as error:
        gram_of(tmp_path)
    sentence(error)


def test_an_iceberg_table_is_not_read_as_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "data/part.parquet")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_text("{}")
    with pytest.raises(ValueError, match="Iceberg table") as error:
        gram_of(tmp_path)
    sentence(error)


def test_tables_of_delta_iceberg_and_others_are_read_by_their_own_log(tmp_path: Path) -> None:
    """By what those packages hand out: they are not installed for the tests."""
    write(tmp_path)
    dataset = pyarrow.dataset.dataset(tmp_path)

    def made(module: str, **methods: Any) -> Any:
        return type("Made", (), {"__module__": module, **methods})()

    scan = made("pyiceberg.table", to_arrow_batch_reader=lambda _: dataset.scanner().to_reader())
    whole = dataset.to_table()
    tables = (
        made("deltalake.table", to_pyarrow_dataset=lambda _: dataset),
        made("pyiceberg.table", scan=lambda _: scan),
        scan,
        made("somewhere", __dataframe__=lambda _, *a, **k: whole.__dataframe__(*a, **k)),
    )
    for table in tables:
        opened = Table.open(table)
        assert opened.columns == tuple(whole.column_names)
        assert sum(batch.num_rows for batch in opened.records()) == whole.num_rows
    splits = made("datasets", with_format=None, column_names={"train": ["a"], "test": ["a"]})
    with pytest.raises(TypeError, match="hand over the whole table"):
        Table.open(splits)


def test_two_files_with_the_same_content_are_two_files(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet")
    write(tmp_path, "b.parquet")
    assert gram_of(tmp_path).n_rows == 2 * N


def test_a_file_with_other_columns(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet")
    write(tmp_path, "b.parquet", TABLE.rename_columns(["x", "z"]))
    with pytest.raises(ValueError, match=r"b\.parquet' without 'y'") as error:
        gram_of(tmp_path)
    sentence(error)


def test_more_files_than_stay_open(tmp_path: Path) -> None:
    for index in range(70):
        write(tmp_path, f"part-{index:03}.parquet", TABLE[:3])
    assert gram_of(tmp_path).n_rows == 210


def test_a_table_of_xarray_has_its_own_rows() -> None:
    xarray = pytest.importorskip("xarray")
    assert gram_of(xarray.DataArray(np.ones((30, 4)))).n_rows == 30
    with pytest.raises(TypeError, match="rows and columns"):
        gram_of(xarray.DataArray(np.ones((3, 4, 5))))


# --- names --------------------------------------------------------------------------------------


def csv(folder: Path, text: str, name: str = "t.csv", encoding: str = "utf8") -> Path:
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


@pytest.mark.parametrize("first", ["54.0,Smith,M", "1965-04-01,x,y", "7,8,9", "a,b,3"])
@pytest.mark.parametrize("named", [{}, {"columns": ["x", "y", "z"]}])
def test_a_record_in_the_first_line_is_no_header(first: str, named: Any, tmp_path: Path) -> None:
    file = csv(tmp_path, f"{first}\n1,2,3\n")
    with pytest.raises(ValueError, match="looks like a record; pass header=False") as error:
        opened(file, **named)
    assert "Smith" not in sentence(error)


def test_a_header_must_be_confirmed_or_typed(tmp_path: Path) -> None:
    file = csv(tmp_path, "age,dose\n1,2\n")
    with pytest.raises(ValueError, match="pass header=True") as error:
        opened(file)
    sentence(error)
    for ways in (
        {"header": True},
        {"columns": ["age", "dose"]},
        {"limits": {"age": (0, 120), "dose": (0, 5)}, "norm": None},
    ):
        assert opened(file, **ways).columns == ("age", "dose")


def test_a_file_without_a_header(tmp_path: Path) -> None:
    file = csv(tmp_path, "1,2\n3,4\n")
    gram = gram_of(file, header=False, names=["a", "b"])
    assert gram.columns == ("a", "b")
    assert gram.n_rows == 2
    with pytest.raises(ValueError, match="pass both or neither"):
        gram_of(file, header=False)


def test_names_of_other_sources_may_be_records_too(tmp_path: Path) -> None:
    """pandas.read_csv of a file without a header makes a frame with the first record as names."""
    frame = pa.table({"54.0": [1.0], "age": [2.0]}).to_pandas()
    with pytest.raises(ValueError, match="looks like a record"):
        opened(frame)
    assert opened(frame, ["54.0", "age"]).columns == ("54.0", "age")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_columns_that_were_an_index_are_left_out(name: str) -> None:
    table = pa.table({name: [0.0, 1.0], "x": [1.0, 2.0]})
    assert opened(table).columns == ("x",)
    assert opened(table, [name, "x"]).columns == (name, "x")


def test_what_looks_like_a_value() -> None:
    values = ["3", "-1e5", "0,5", "nan", "2024-05-01", "1/2/2020", "2020-01-01 10:00"]
    assert all(map(looks_like_a_value, values))
    assert not any(map(looks_like_a_value, ["age", "x1", "Q3 2020", "", "dose [mg]", "a-1"]))


# --- how text is written ------------------------------------------------------------------------


def test_other_ways_to_write_a_table(tmp_path: Path) -> None:
    expected = [[10.0, 14.0], [14.0, 20.0]]
    assert (
        gram_of(csv(tmp_path, "a;b\n1;2\n3;4\n"), ["a", "b"], delimiter=";")[0].tolist() == expected
    )
    assert gram_of(csv(tmp_path, "a\tb\n1\t2\n3\t4\n", "t.tsv"), ["a", "b"])[0].tolist() == expected
    latin = csv(tmp_path, "größe,b\n1,2\n3,4\n", "l.csv", "latin-1")
    assert gram_of(latin, ["größe", "b"], encoding="latin-1")[0].tolist() == expected
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("a,b\n1,2\n3,4\n")
    assert gram_of(tmp_path / "t.csv.gz", ["a", "b"])[0].tolist() == expected


def test_dates_count_in_days(tmp_path: Path) -> None:
    file = csv(tmp_path, "day\n1970-01-03\n1970-01-05\n")
    gram = gram_of(file, ["day"])
    assert gram.matrix.tolist() == [[4.0 + 16.0]]
    limits = {"day": ("1970-01-01", "1970-01-05")}
    features = opened(file, ["day"], norm=None, limits=limits).rows.features
    assert features.limits == {"day": (0.0, 4.0)}


def test_a_spreadsheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [3, 4]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert gram_of(tmp_path / "t.xlsx", ["a", "b"]).matrix.tolist() == [[10.0, 14.0], [14.0, 20.0]]


def test_embeddings_are_one_column_of_many_numbers() -> None:
    values = np.arange(12.0).reshape(4, 3)
    lists = pa.FixedSizeListArray.from_arrays(values.ravel(), 3)
    table = pa.table({"id": [1.0, 2.0, 3.0, 4.0], "vector": lists})
    gram = gram_of(table)
    assert gram.columns == ("id", "vector[0]", "vector[1]", "vector[2]")
    np.testing.assert_array_equal(gram.matrix[1:, 1:], values.T @ values)
    pl = pytest.importorskip("polars")
    assert gram_of(pl.from_arrow(table)).matrix.tolist() == gram.matrix.tolist()
    ragged = pa.table({"vector": [[1.0], [1.0, 2.0]]})
    with pytest.raises(ValueError, match="lists of any length"):
        gram_of(ragged)


# --- faults -------------------------------------------------------------------------------------

FAULTS = {
    "empty": (b"", "is empty"),
    "too many values": (b"a,b\n1,2\n3,4,5\n", "Line 3 of .* has 3 values where the first has 2"),
    "too few values": (b"a,b\n1,2\n3\n", "Line 3 of .* has 1 values where the first has 2"),
    "decimal comma": (b"a,b\n1,5,2\n", "Line 2 of .* has 3 values"),
    "binary": (b"\x00\x01\x02\xff\xfe\n\x00\n", "holds binary data, not text"),
    "latin-1 name": ("a,größe\n1,2\n".encode("latin-1"), "not written in utf8; pass what it is"),
    "semicolons": (b"a;b\n1;2\n", "if that separates its columns, pass delimiter=';'"),
    "tabs": (b"a\tb\n1\t2\n", r"pass delimiter='\\t'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_sentence(fault: str, tmp_path: Path) -> None:
    content, said = FAULTS[fault]
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises((ValueError, OSError), match=said) as error:
        gram_of(tmp_path / "t.csv", header=True)
    sentence(error)


def test_text_late_in_a_file(tmp_path: Path) -> None:
    lines = ["x,y", *["1,2"] * 400_000, "1,two"]
    file = csv(tmp_path, "\n".join(lines))
    with pytest.raises(ValueError, match=r"Line 400002 of .* holds text in column number 2"):
        gram_of(file, ["x", "y"])
    assert gram_of(file, ["x"]).n_rows == 400_001


def test_latin_1_values(tmp_path: Path) -> None:
    file = csv(tmp_path, "a,b\n1,café\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"Column 'b'|not written in utf8"):
        gram_of(file, ["a", "b"])


@pytest.mark.parametrize("name", ["nowhere.parquet", "nowhere.csv", "nowhere-*.csv"])
def test_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as error:
        gram_of(tmp_path / name)
    sentence(error)


def test_address_that_is_not_there() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(FileNotFoundError, match="check the"):
        gram_of("memory://ndis-tests/nothing.parquet")
    with pytest.raises(ValueError, match="cannot be read"):
        gram_of("nonsense://x/y.parquet")


def test_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "table.doc").write_bytes(b"?")
    with pytest.raises(ValueError, match=r"named \.parquet, \.arrow, \.csv"):
        gram_of(tmp_path / "table.doc")


@pytest.mark.parametrize("name", ["empty.parquet", "torn.parquet", "text.parquet"])
def test_parquet_that_is_none(name: str, tmp_path: Path) -> None:
    content = write(tmp_path).read_bytes()
    bad = {"empty": b"", "torn": content[:-500], "text": b"a,b\n1,2\n"}
    (tmp_path / name).write_bytes(bad[name.partition(".")[0]])
    with pytest.raises(OSError, match="not complete, or not of the format its name says") as error:
        gram_of(tmp_path / name)
    sentence(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.chmod(0)
    with pytest.raises(PermissionError, match="may not be read"):
        gram_of(file)


# --- between two passes -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_file_that_vanishes_or_is_replaced_does_no_harm(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, name)
    table = opened(file, ["x", "y"])
    first = table.moments["gram"]
    file.unlink()
    again = table.sum(lambda block: {"gram": block.gram()})["gram"]
    assert again == first
    write(tmp_path, name, TABLE[::-1].set_column(0, "x", pa.array(np.zeros(N))))
    assert table.sum(lambda block: {"gram": block.gram()})["gram"] == first


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_file_that_is_written_to_is_noticed(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, name)
    table = opened(file, ["x", "y"])
    table.sum(lambda block: {})
    content = bytearray(file.read_bytes())
    with file.open("r+b") as opened_again:
        opened_again.write(content[::-1])
    os.utime(file, ns=(0, 0))
    with pytest.raises((ValueError, OSError), match="changed while it was being read"):
        table.sum(lambda block: {})


def test_other_content_of_the_same_length_is_noticed() -> None:
    passes: list[np.ndarray] = [np.ones((100, 2)), np.ones((100, 2)), np.ones((100, 2))]
    passes[2][3, 1] = 0.5

    def batches() -> Any:
        return iter([passes.pop(0)])

    table = opened(batches)  # looks at the first batch
    table.sum(lambda block: {})
    with pytest.raises(ValueError, match="changed between two passes"):
        table.sum(lambda block: {})


def many_files(folder: Path) -> list[Path]:
    """More files than are kept open, of one row each."""
    folder.mkdir()
    n_files = files._MOST_OPEN + 2
    for index in range(n_files):
        (folder / f"{index:03}.csv").write_text(f"x,y\n{index / n_files},1\n")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("place", [0, -1], ids=["kept open", "opened again"])
@pytest.mark.parametrize("way", ["written to", "replaced", "touched"])
def test_each_of_many_files_is_looked_at_in_every_pass(
    place: int, way: str, tmp_path: Path
) -> None:
    file = many_files(tmp_path / "many")[place]
    table = opened(tmp_path / "many", ["x", "y"])
    first = table.sum(totals)["sums"]
    if way == "replaced":
        other = tmp_path / "other.csv"
        other.write_text("x,y\n0.25,0\n")
        other.rename(file)
        if place == 0:  # the file that was opened is still the one that is read
            assert table.sum(totals)["sums"] == first
            return
    elif way == "written to":
        file.write_text("x,y\n0.25,0\n")
        os.utime(file, ns=(0, 0))  # clocks may be too coarse for a test
    else:
        os.utime(file, ns=(0, 0))
    with pytest.raises(ValueError, match="changed while it was being read"):
        table.sum(totals)


def test_a_file_of_another_system_that_changes_is_noticed() -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe("/speed/t.csv", b"x,y\n0.5,1\n")
    table = opened("memory://speed/t.csv", ["x", "y"])
    table.sum(totals)
    system.pipe("/speed/t.csv", b"x,y\n0.25,1\n")
    with pytest.raises(ValueError, match="changed while it was being read"):
        table.sum(totals)


def test_readers_of_one_file_do_not_move_each_other(tmp_path: Path) -> None:
    """Arrow reads ahead in threads, also after a reader was closed."""
    path = tmp_path / "a.csv"
    path.write_bytes(bytes(range(100)))
    handle = files._Handle(path, files._status(path))
    first, second = handle.start(), handle.start()
    assert first.read(10) == bytes(range(10))
    assert second.read(50) == bytes(range(50))
    assert first.read(5) == bytes(range(10, 15))
    second.close()
    assert (first.seek(-2, 2), first.tell(), first.read()) == (98, 98, bytes([98, 99]))
