"""Every kind of table, handed on as batches of records.

A reader knows the names of a table's columns before it reads, and reads a few at a time. Packages
are recognised by the name of the object's module, so none is imported that the caller does not
already use.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import count
from ndis.tables.rows import BLOCK_ROWS, default_names

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis.tables.rows import Batch

# Most rows and most entries of a batch: 32 MB of doubles.
BATCH_ROWS = 1 << 16
BATCH_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Request:
    """What is asked of a reader: which columns, their public levels, how many rows at a time."""

    columns: tuple[str, ...]
    levels: Mapping[str, Sequence[Any]]
    batch_rows: int


@dataclass(frozen=True)
class Table:
    """A table about to be read: its columns, its length where known, and how to read it."""

    names: tuple[str, ...]
    read: Callable[[Request], Iterator[Batch]]
    n_rows: int | None = None
    # Arrays have no names of their own: the caller's names are given to their columns in order.
    named: bool = True


@dataclass(frozen=True)
class Batches:
    """The batches of a table; iterating again reads it again.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns read.
    n_rows : int or None
        Number of rows, where it is known without reading them.
    """

    columns: tuple[str, ...]
    n_rows: int | None
    _table: Table
    _request: Request

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._table.read(self._request):
            for start in range(0, len(batch), self._request.batch_rows):
                yield batch[start : start + self._request.batch_rows]


def batches(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    levels: Mapping[str, Sequence[Any]] | None = None,
    batch_rows: int | None = None,
) -> Batches:
    """Read any kind of table a batch at a time.

    Parameters
    ----------
    source : table
        A numpy array (also memory-mapped), scipy sparse matrix, pandas, polars, Dask or Spark
        DataFrame, polars LazyFrame, pyarrow Table, RecordBatch, RecordBatchReader, dataset or
        ParquetFile, DuckDB relation, any object with ``__arrow_c_stream__``, the path of a Parquet
        or CSV file, a glob pattern or directory of such files, or a list of paths.
    columns : sequence of str, optional
        The columns to read, in order; all if not given. For an array, the names of its columns.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns, as in `Rows`.
    batch_rows : int, optional
        Most rows in a batch; about 32 MB worth of them if not given.

    Returns
    -------
    batches : Batches
        An iterable of arrays (from arrays) or of Arrow record batches (from all else).

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"height": [1.7, 1.8], "name": ["Ada", "Alan"]})
    >>> [batch.num_rows for batch in batches(table, ["height"])]
    [2]
    """
    table = open_table(source)
    wanted = table.names if columns is None else tuple(columns)
    if table.named:
        for name in wanted:
            if table.names.count(name) != 1:
                raise ValueError(
                    f"Expected the table to have one column {name!r}, got columns "
                    f"{', '.join(map(repr, table.names))}; name the columns to read."
                )
    elif len(wanted) != len(table.names):
        raise ValueError(
            f"Expected {len(table.names)} names for the columns of an array, got {len(wanted)}; "
            "name every column in order."
        )
    if batch_rows is None:
        batch_rows = _comfortable_rows(len(wanted))
    request = Request(wanted, levels or {}, count("batch_rows", batch_rows))
    return Batches(wanted, table.n_rows, table, request)


def _comfortable_rows(n_columns: int) -> int:
    """Return how many rows make a batch of about 32 MB: whole blocks where it holds any."""
    n_rows = min(BATCH_ROWS, max(256, BATCH_ENTRIES // max(1, n_columns)))
    return n_rows - n_rows % BLOCK_ROWS if n_rows > BLOCK_ROWS else n_rows


def open_table(source: Any) -> Table:
    """Return the reader for a source, chosen by where its type comes from."""
    if isinstance(source, str | os.PathLike):
        return _open_files(_matching_files(source))
    if isinstance(source, list | tuple) and all(isinstance(x, str | os.PathLike) for x in source):
        return _open_files([file for path in source for file in _matching_files(path)])
    for cls in type(source).__mro__:
        opener = _OPENERS.get(package_of(cls))
        if opener is not None:
            return opener(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_stream(source)
    raise TypeError(
        f"Expected a table, got {type(source).__name__}; hand over an array, a data frame, "
        "an Arrow table, or the path of a Parquet or CSV file."
    )


def package_of(cls: type) -> str:
    """Return the top-level package that a class comes from."""
    return cls.__module__.partition(".")[0]


# --- arrays -----------------------------------------------------------------------------------


def _open_numpy(array: Any) -> Table:
    if not isinstance(array, np.ndarray):
        raise _not_a_table(array)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError("The array has masked values; fill them or drop those rows first.")
    if array.ndim != 2:
        raise ValueError(
            f"Expected an array with rows and columns, got shape {array.shape}; "
            "reshape a single column with array.reshape(-1, 1)."
        )

    def read(request: Request) -> Iterator[Batch]:
        values = np.asarray(array)
        for start in range(0, len(values), request.batch_rows):
            yield values[start : start + request.batch_rows]

    return Table(default_names(array.shape[1]), read, len(array), named=False)


def _open_scipy(matrix: Any) -> Table:
    def read(request: Request) -> Iterator[Batch]:
        by_row = matrix.tocsr()
        for start in range(0, matrix.shape[0], request.batch_rows):
            yield by_row[start : start + request.batch_rows].toarray()

    return Table(default_names(matrix.shape[1]), read, matrix.shape[0], named=False)


# --- data frames ------------------------------------------------------------------------------


def _open_pandas(frame: Any) -> Table:
    if not hasattr(frame, "columns"):
        raise _not_a_table(frame)
    names = tuple(map(str, frame.columns))

    def read(request: Request) -> Iterator[Batch]:
        import pyarrow as pa

        for start in range(0, len(frame), request.batch_rows):
            part = frame.iloc[start : start + request.batch_rows]
            arrays = [
                _series_to_arrow(name, part.iloc[:, names.index(name)]) for name in request.columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(request.columns))

    return Table(names, read, len(frame))


def _series_to_arrow(name: str, series: Any) -> pa.Array:
    import pyarrow as pa

    try:
        array = pa.array(series, from_pandas=True)
    except pa.ArrowException:
        raise ValueError(
            f"Column {name!r} mixes values of several types; make them all numbers or all text."
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _open_polars(frame: Any) -> Table:
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return Table(tuple(frame.collect_schema().names()), _read_lazy_polars(frame))
    if not isinstance(frame, pl.DataFrame):
        raise _not_a_table(frame)

    def read(request: Request) -> Iterator[Batch]:
        # The export of a whole frame is one batch, converted at once: slice first.
        for part in frame.select(request.columns).iter_slices(request.batch_rows):
            yield from part.to_arrow().to_batches()

    return Table(tuple(frame.columns), read, frame.height)


def _read_lazy_polars(frame: Any) -> Callable[[Request], Iterator[Batch]]:
    def read(request: Request) -> Iterator[Batch]:
        chosen = frame.select(request.columns)
        for part in chosen.collect_batches(chunk_size=request.batch_rows, maintain_order=True):
            yield from part.to_arrow().to_batches()

    return read


def _open_duckdb(relation: Any) -> Table:
    def read(request: Request) -> Iterator[Batch]:
        quoted = (name.replace('"', '""') for name in request.columns)
        chosen = relation.project(", ".join(f'"{name}"' for name in quoted))
        # The second name is the one of older releases.
        export = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
        with export(request.batch_rows) as reader:
            yield from reader

    return Table(tuple(relation.columns), read)


def _open_dask(frame: Any) -> Table:
    if not hasattr(frame, "npartitions") or getattr(frame, "ndim", 2) != 2:
        raise _not_a_table(frame)

    def read(request: Request) -> Iterator[Batch]:
        for index in range(frame.npartitions):
            yield from _open_pandas(frame.partitions[index].compute()).read(request)

    return Table(tuple(map(str, frame.columns)), read)


def _open_spark(frame: Any) -> Table:
    from ndis.tables.spark import record_batches

    return Table(tuple(frame.columns), lambda request: record_batches(frame, request.columns))


# --- Arrow ------------------------------------------------------------------------------------


def _open_arrow(source: Any) -> Table:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return Table(
            tuple(source.schema.names),
            lambda request: iter(source.select(list(request.columns)).to_batches()),
            source.num_rows,
        )
    if isinstance(source, pa.RecordBatchReader):
        return Table(tuple(source.schema.names), lambda request: iter(source))
    if hasattr(source, "iter_batches"):
        return _open_parquet(source)
    if hasattr(source, "scanner"):
        return Table(tuple(source.schema.names), _read_dataset(source))
    raise _not_a_table(source)


def _read_dataset(dataset: Any) -> Callable[[Request], Iterator[Batch]]:
    def read(request: Request) -> Iterator[Batch]:
        # Reading ahead by default sixteen batches and four files takes a gigabyte.
        yield from dataset.to_batches(
            columns=list(request.columns),
            batch_size=request.batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
        )

    return read


def _open_stream(source: Any) -> Table:
    import pyarrow as pa

    def stream() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(source)

    return Table(tuple(stream().schema.names), lambda request: iter(stream()))


# --- files ------------------------------------------------------------------------------------


def _matching_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a path, directory or glob pattern stands for, in order."""
    place = Path(path)
    if place.is_dir():
        found = sorted(file for file in place.rglob("*") if _format_of(file) is not None)
    elif place.exists() or not glob.has_magic(str(path)):
        found = [place]
    else:
        found = sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise FileNotFoundError(f"No file matches {str(path)!r}; check the path.")
    return found


def _format_of(file: Path) -> str | None:
    name = file.name.lower()
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    return "csv" if re.search(r"\.csv(\.gz|\.bz2|\.zst)?$", name) else None


def _open_files(files: Sequence[Path]) -> Table:
    if not files:
        raise ValueError("Expected at least one file, got an empty list; name the files to read.")
    openers = {"parquet": _open_parquet_file, "csv": _open_csv}
    for file in files:
        if _format_of(file) is None:
            raise ValueError(
                f"Expected a file named .parquet or .csv, got {str(file)!r}; rename or convert it."
            )
    # Only the first is opened now: there may be thousands.
    first = openers[str(_format_of(files[0]))](files[0])

    def read(request: Request) -> Iterator[Batch]:
        for file in files:
            with _reading(file):
                yield from openers[str(_format_of(file))](file).read(request)

    return Table(first.names, read, first.n_rows if len(files) == 1 else None)


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"File {str(file)!r} is not there; check the path.") from error
    except (OSError, pa.ArrowException) as error:
        raise OSError(
            f"File {str(file)!r} could not be read to its end; check that it is complete and stays "
            "in place, and start again."
        ) from error


def _open_parquet_file(file: Path) -> Table:
    import pyarrow.parquet as pq

    with _reading(file):
        # Buffering ahead would keep the whole file in memory.
        return _open_parquet(pq.ParquetFile(file, pre_buffer=False))


def _open_parquet(parquet: Any) -> Table:
    metadata = parquet.metadata

    def read(request: Request) -> Iterator[Batch]:
        columns = list(request.columns)
        group_rows = metadata.num_rows / max(1, metadata.num_row_groups)
        # A whole row group takes less time and memory than its batches, unless it is huge.
        if request.batch_rows <= group_rows <= 2 * BATCH_ENTRIES / len(columns):
            for group in range(metadata.num_row_groups):
                yield from parquet.read_row_group(group, columns=columns).to_batches()
        else:
            yield from parquet.iter_batches(request.batch_rows, columns=columns)

    return Table(tuple(parquet.schema_arrow.names), read, metadata.num_rows)


def _open_csv(file: Path) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    with _reading(file), csv.open_csv(file) as reader:
        inferred = reader.schema

    def read(request: Request) -> Iterator[Batch]:
        # Types are inferred from the file's beginning, where a column of measurements may well
        # show integers only: read numbers as double, and levels as they were declared.
        types = {
            name: pa.array(request.levels[name]).type
            if name in request.levels
            else _csv_type(inferred.field(name).type)
            for name in request.columns
        }
        options = csv.ConvertOptions(include_columns=list(request.columns), column_types=types)
        try:
            with csv.open_csv(file, convert_options=options) as reader:
                yield from reader
        except pa.ArrowInvalid as error:
            column = re.search(r"In CSV column #(\d+)", str(error))
            if column is None:
                raise
            raise ValueError(
                f"Column {inferred.names[int(column[1])]!r} of {str(file)!r} holds values that are "
                "not numbers; leave it out, or list its levels in levels."
            ) from None

    return Table(tuple(inferred.names), read)


def _csv_type(inferred: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    keep = pa.types.is_boolean(inferred) or not (
        pa.types.is_integer(inferred) or pa.types.is_null(inferred)
    )
    return inferred if keep else pa.float64()


def _not_a_table(source: Any) -> TypeError:
    return TypeError(
        f"Expected a table with named columns, got {type(source).__module__}."
        f"{type(source).__qualname__}; hand over the whole table (of one column: .to_frame())."
    )


_OPENERS: dict[str, Callable[[Any], Table]] = {
    "numpy": _open_numpy,
    "scipy": _open_scipy,
    "pandas": _open_pandas,
    "polars": _open_polars,
    "pyarrow": _open_arrow,
    "duckdb": _open_duckdb,
    "_duckdb": _open_duckdb,
    "dask": _open_dask,
    "dask_expr": _open_dask,
    "pyspark": _open_spark,
}
