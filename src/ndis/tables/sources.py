"""Every kind of table, opened once and handed on as batches of records.

A source knows the names of its columns before it is read, and reads a few of them at a time.
Packages are recognised by the name of the object's module, so none is imported that the caller does
not already use; a subclass is opened like its parent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndis.tables.arrays import free_memory
from ndis.tables.batches import Batch, require_numbers, rows_between, stored_once
from ndis.tables.columns import default_names
from ndis.tables.exact import BLOCK_ROWS
from ndis.tables.values import Kind, Records, list_width

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis.tables.exact import Accumulator
    from ndis.tables.ids import PersonCounts
    from ndis.tables.table import Pass

# Most rows and most entries of a batch: whole blocks of short rows, and 32 MB of doubles.
BATCH_ROWS = 8 * (BLOCK_ROWS - 8)
BATCH_ENTRIES = 1 << 22
# A batch of longer rows has a multiple of so many.
_SOME = 4096
# Entries of a batch that is moved to a graphics card: two gigabytes of doubles.
DEVICE_ENTRIES = 1 << 28
# Of what is on a card already a batch takes so much of its free memory: few are started sooner.
_SHARE = 8


@dataclass(frozen=True)
class Request:
    """What is asked of a source: which columns, and of which kind public parameters say they are.

    A source that knows types hands them on; one that does not, such as text, reads each value as
    its column's kind. Columns without a kind are only looked at, by the owner of the data.
    """

    columns: tuple[str, ...]
    kinds: Mapping[str, Kind]
    n_numbers: int  # in a row: an embedding is one column of many numbers

    @property
    def batch_rows(self) -> int:
        """How many rows make a comfortable batch."""
        return min(BATCH_ROWS, self._rows_of(BATCH_ENTRIES))

    def device_rows(self, free: int = 0) -> int:
        """How many rows make a batch for a graphics card, where so many bytes are free."""
        return self._rows_of(free // (8 * _SHARE) or DEVICE_ENTRIES)

    def _rows_of(self, entries: int) -> int:
        wanted = entries // max(1, self.n_numbers)
        return max(_SOME, wanted - wanted % _SOME)


class KeptThere(Protocol):
    """Rows that a cluster keeps between passes, each of which tells the marks of their records."""

    def reduce(self, work: Pass, what: str) -> Accumulator:
        """The sums of these rows, in a pass that does this."""

    def keep(self, work: Pass) -> KeptThere | None:
        """Keep the rows that a pass makes of these."""

    def forget(self) -> None:
        """Keep them no longer."""


# Sums a pass where the rows are: of a request, by what is done with each batch, and what for.
Reduce = Callable[[Request, "Pass", str], "Accumulator"]


@dataclass(frozen=True)
class Source:
    """A table about to be read.

    Attributes
    ----------
    names : tuple of str
        Names of its columns.
    read : callable
        Maps a `Request` to batches of records.
    n_rows : int or None
        How many, where that is known without reading.
    once : bool
        Whether it can be read only once.
    nameless : bool
        Whether columns have no names of their own, as in arrays.
    header : bool
        Whether the names were found in the first line of a file, which may be somebody's record.
    device : bool
        Whether batches are arrays of another library, perhaps on a graphics card.
    widths : mapping of str to int
        Columns that hold fixed-size lists of numbers.
    texts : tuple of str or None
        Columns of text, by types that no row can change; None where there are none, as in text
        files, and in data frames whose columns take the type of what is in them.
    reduce : callable or None
        Sums a pass where the rows are (Spark, Dask). None for sources that are read here.
    count : callable or None
        Counts everybody's rows there, likewise.
    keep : callable or None
        Keeps there the rows that a pass makes of a request, or says with None that it cannot.
    """

    names: tuple[str, ...]
    read: Callable[[Request], Iterator[Any]]
    n_rows: int | None = None
    once: bool = False
    nameless: bool = False
    header: bool = False
    device: bool = False
    widths: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[str, ...] | None = None
    reduce: Reduce | None = None
    count: Callable[[Request, Any], PersonCounts] | None = None
    keep: Callable[[Request, Pass], KeptThere | None] | None = None


def open_source(source: Any, **options: Any) -> Source:
    """Return the reader for anything that is a table, chosen by where its type comes from.

    `options` say how text files are written (see `ndis.tables.files`).
    """
    from ndis.tables import files

    if isinstance(source, Source):
        return source
    if isinstance(source, str | os.PathLike):
        return files.open_files([source], **options)
    if isinstance(source, list | tuple):
        if source and all(isinstance(part, str | os.PathLike) for part in source):
            return files.open_files(source, **options)
        if all(_is_batch(part) for part in source):
            return _open_batches(lambda: iter(source))
    if options:
        raise ValueError(
            f"Expected {', '.join(options)} for text files only, got {type(source).__name__}; "
            "leave them out."
        )
    for cls in type(source).__mro__:
        opener = _OPENERS.get(package_of(cls))
        if opener is not None:
            return opener(source)
    if hasattr(source, "__dlpack__"):
        return _open_array(source)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_stream(source)
    if hasattr(source, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return _open_arrow(from_dataframe(source))
    if callable(source):
        return _open_batches(source)
    if isinstance(source, Iterator):
        return _open_batches(lambda: source, once=True)
    raise TypeError(
        f"Expected a table, got {type(source).__name__}; hand over an array, a data frame, "
        "an Arrow table, or the path of a Parquet or CSV file."
    )


def package_of(cls: type) -> str:
    """Return the top-level package that a class comes from."""
    return cls.__module__.partition(".")[0]


# --- arrays -----------------------------------------------------------------------------------


def _open_array(array: Any, labels: Any = None) -> Source:
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise ValueError("The array has masked values; fill them or drop those rows first.")
    if not hasattr(array, "ndim") or not hasattr(array, "shape"):
        raise _not_a_table(array)
    if array.ndim != 2:
        raise ValueError(
            f"Expected an array with rows and columns, got shape {tuple(array.shape)}; "
            "reshape a single column with array.reshape(-1, 1)."
        )
    require_numbers(array)

    def read(request: Request) -> Iterator[Any]:
        values = array if device else np.asarray(array)
        step = request.device_rows(free_memory(values)) if device else request.batch_rows
        for start in range(0, max(values.shape[0], 1), step):
            yield rows_between(values, start, start + step)

    device = not isinstance(array, np.ndarray)
    n_rows, n_columns = array.shape
    return Source(default_names(n_columns), read, int(n_rows), nameless=True, device=device)


def _open_scipy(matrix: Any) -> Source:
    if not hasattr(matrix, "tocsr"):
        raise _not_a_table(matrix)
    by_row = stored_once(matrix)

    def read(request: Request) -> Iterator[Any]:
        for start in range(0, max(by_row.shape[0], 1), BATCH_ROWS):
            yield by_row[start : start + BATCH_ROWS]

    return Source(default_names(by_row.shape[1]), read, int(by_row.shape[0]), nameless=True)


def with_labels(source: Source, labels: Mapping[str, Any]) -> Source:
    """A source whose columns have names, and columns of labels beside it."""
    if source.n_rows is None or source.reduce is not None or source.once:
        raise TypeError(
            "Expected the name of the label's column for a table that is not in memory, got "
            "values; pass the name of one of its columns."
        )
    for column in labels.values():
        require_as_many(len(column), source.n_rows)

    def read(request: Request) -> Iterator[Records]:
        own = tuple(name for name in request.columns if name not in labels)
        start = 0
        for batch in source.read(replace(request, columns=own)):
            stop = start + batch.num_rows
            parts = {name: labels[name][start:stop] for name in request.columns if name in labels}
            yield Records({**{name: batch.column(name) for name in own}, **parts})
            start = stop

    return replace(source, names=(*source.names, *labels), read=read)


def label_columns(labels: Any, names: Iterable[str]) -> dict[str, Any]:
    """Labels, of any kind that scikit-learn takes, as columns of records by name."""
    import pyarrow as pa

    def column(name: str, values: Any) -> Any:
        if hasattr(values, "iloc"):
            return _column(name, values)
        array = np.asarray(values)
        if array.dtype.kind in "biufM":
            return pa.array(array)
        objects = array.astype(object)
        objects[[each is None or each != each for each in objects]] = None
        return objects

    if not hasattr(labels, "iloc"):
        labels = np.asarray(labels)
    if labels.ndim == 1:
        return {name: column(name, labels) for name in names}
    each = labels.iloc if hasattr(labels, "iloc") else labels
    return {name: column(name, each[:, index]) for index, name in enumerate(names)}


def require_as_many(n_labels: int, n_rows: int) -> None:
    """Refuse labels that are not one for each row."""
    if n_labels != n_rows:
        raise ValueError(
            f"Expected one label for each row, got {n_labels} labels; hand over both from the same "
            "table. Found input variables with inconsistent numbers of samples."
        )


def with_label_arrays(source: Source, labels: Any, name: str) -> Source:
    """A source without names, and an array of labels beside it."""

    def read(request: Request) -> Iterator[Batch]:
        start = 0
        for batch in source.read(request):
            stop = start + batch.shape[0]
            yield Batch(batch, rows_between(labels, start, stop))
            start = stop

    n_labels = 1 if labels.ndim == 1 else labels.shape[1]
    beside = [name] if n_labels == 1 else [f"{name}{index}" for index in range(n_labels)]
    names = (*source.names, *beside)
    return Source(names, read, source.n_rows, nameless=True, device=source.device)


# --- data frames ------------------------------------------------------------------------------


def _open_pandas(frame: Any) -> Source:
    if not hasattr(frame, "columns"):
        raise _not_a_table(frame)
    names = tuple(map(str, frame.columns))

    def read(request: Request) -> Iterator[Any]:
        place = {name: index for index, name in enumerate(names)}
        chosen = frame.iloc[:, [place[name] for name in request.columns]]
        for start in range(0, max(len(chosen), 1), request.batch_rows):
            part = chosen.iloc[start : start + request.batch_rows]
            yield Records(
                {name: _column(name, part.iloc[:, i]) for i, name in enumerate(request.columns)}
            )

    return Source(names, read, len(frame))


def _column(name: str, series: Any) -> Any:
    """A column of pandas with its own type as Arrow; one that has none as its objects."""
    import pyarrow as pa

    if object in (series.dtype, getattr(getattr(series.dtype, "categories", None), "dtype", None)):
        objects = series.astype(object).to_numpy(copy=True)
        objects[series.isna().to_numpy()] = None
        return objects
    try:
        array = pa.array(series, from_pandas=True)
    except pa.ArrowException:
        raise ValueError(
            f"Column {name!r} holds {series.dtype}, not numbers; leave it out or convert it."
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _open_polars(frame: Any) -> Source:
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        schema = frame.collect_schema()
    elif isinstance(frame, pl.DataFrame):
        schema = frame.schema
    else:
        raise _not_a_table(frame)

    def read(request: Request) -> Iterator[Any]:
        chosen = frame.select(request.columns)
        if isinstance(frame, pl.LazyFrame):
            parts = chosen.collect_batches(chunk_size=request.batch_rows, maintain_order=True)
        else:  # the export of a whole frame is one batch, converted at once: slice first
            parts = chosen.iter_slices(request.batch_rows)
        yield from at_least_one(
            (batch for part in parts for batch in part.to_arrow().to_batches()),
            lambda: (
                pl.DataFrame(schema={name: schema[name] for name in request.columns})
                .to_arrow()
                .schema
            ),
        )

    widths = {name: kind.size for name, kind in schema.items() if isinstance(kind, pl.Array)}
    n_rows = frame.height if isinstance(frame, pl.DataFrame) else None
    kinds = (pl.String, pl.Categorical, pl.Enum)
    texts = tuple(name for name, kind in schema.items() if kind in kinds)
    return Source(tuple(schema), read, n_rows, widths=widths, texts=texts)


def _open_duckdb(relation: Any) -> Source:
    if not hasattr(relation, "project"):
        raise _not_a_table(relation)

    def read(request: Request) -> Iterator[Any]:
        quoted = (name.replace('"', '""') for name in request.columns)
        chosen = relation.project(", ".join(f'"{name}"' for name in quoted))
        # The second name is the one of older releases.
        export = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
        with export(request.batch_rows) as reader:
            yield from at_least_one(reader, lambda: reader.schema)

    return Source(tuple(relation.columns), read)


def _open_dask(frame: Any) -> Source:
    from ndis.tables import dask

    return dask.open_frame(frame, _open_pandas, _open_array, _not_a_table)


def _open_spark(frame: Any) -> Source:
    from ndis.tables import spark

    if not hasattr(frame, "mapInArrow"):
        raise _not_a_table(frame)
    return spark.open_frame(frame)


def _open_xarray(array: Any) -> Source:
    if getattr(array, "ndim", 0) != 2:
        raise _not_a_table(array)
    return _open_array(array.to_numpy())


def _open_datasets(dataset: Any) -> Source:
    """Hugging Face: a Dataset is Arrow underneath, with the rows that its indices choose."""
    if not hasattr(dataset, "with_format") or isinstance(dataset.column_names, dict):
        raise _not_a_table(dataset)  # several tables, such as train and test

    def read(request: Request) -> Iterator[Any]:
        chosen = dataset.select_columns(list(request.columns)).with_format("arrow")
        parts = chosen.iter(batch_size=request.batch_rows)
        batches = (batch for part in parts for batch in part.to_batches())
        yield from at_least_one(batches, lambda: _chosen(dataset.features.arrow_schema, request))

    return Source(tuple(dataset.column_names), read, getattr(dataset, "num_rows", None))


# --- Arrow ------------------------------------------------------------------------------------


def _open_arrow(source: Any) -> Source:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return arrow_source(
            source.schema,
            lambda request: iter(
                source.select(list(request.columns)).to_batches(max_chunksize=request.batch_rows)
            ),
            n_rows=source.num_rows,
        )
    if isinstance(source, pa.RecordBatchReader):
        return arrow_source(source.schema, lambda request: iter(source), once=True)
    if hasattr(source, "iter_batches"):
        return open_parquet(source)
    if hasattr(source, "scanner"):
        return arrow_source(source.schema, partial(_read_dataset, source))
    raise _not_a_table(source)


def _open_delta(table: Any) -> Source:
    return _open_arrow(table.to_pyarrow_dataset())


def _open_iceberg(table: Any) -> Source:
    scan = table.scan() if hasattr(table, "scan") else table
    return _open_batches(scan.to_arrow_batch_reader)


def _read_dataset(dataset: Any, request: Request) -> Iterator[Any]:
    # Reading ahead by default sixteen batches and four files takes a gigabyte.
    yield from dataset.to_batches(
        columns=list(request.columns),
        batch_size=request.batch_rows,
        batch_readahead=1,
        fragment_readahead=1,
    )


def open_parquet(parquet: Any) -> Source:
    """A `pyarrow.parquet.ParquetFile`."""
    metadata = parquet.metadata

    def read(request: Request) -> Iterator[Any]:
        columns = list(request.columns)
        group_rows = metadata.num_rows / max(1, metadata.num_row_groups)
        # A whole row group takes less time and memory than its batches, unless it is huge.
        if request.batch_rows <= group_rows <= 2 * BATCH_ENTRIES / request.n_numbers:
            for group in range(metadata.num_row_groups):
                yield from parquet.read_row_group(group, columns=columns).to_batches()
        else:
            yield from parquet.iter_batches(request.batch_rows, columns=columns)

    return arrow_source(parquet.schema_arrow, read, n_rows=metadata.num_rows)


def _open_stream(source: Any) -> Source:
    import pyarrow as pa

    def stream() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(source)

    return arrow_source(stream().schema, lambda request: iter(stream()))


def _open_batches(make: Callable[[], Iterable[Any]], *, once: bool = False) -> Source:
    """Batches in a list, from a function that starts them again, or from an iterator."""
    made = make()
    started = iter(made)
    first = next(started, None)
    if first is None and hasattr(made, "schema"):
        return arrow_source(made.schema, lambda request: iter(()), once=once)
    if first is None:
        return Source((), _read_nothing, once=once)
    if not _is_batch(first):
        raise TypeError(
            f"Expected batches that are arrays or Arrow record batches, got "
            f"{type(first).__name__}; hand over a list of them or a function that yields them."
        )

    def read(request: Request) -> Iterator[Any]:
        if once:
            yield first
            yield from started
        else:
            yield from make()

    if hasattr(first, "schema"):
        return arrow_source(first.schema, read, once=once)
    return Source(default_names(first.shape[1]), read, once=once, nameless=True)


def _read_nothing(request: Request) -> Iterator[Records]:
    """What there is of batches where there are none: their columns, which must be named."""
    yield Records({name: np.empty(0, dtype=object) for name in request.columns})


def _is_batch(part: Any) -> bool:
    return hasattr(part, "num_rows") or getattr(part, "ndim", 0) == 2


def arrow_source(
    schema: pa.Schema, read: Callable[[Request], Iterator[Any]], **facts: Any
) -> Source:
    """A source with the names and list widths of an Arrow schema."""
    widths = {f.name: width for f in schema if (width := list_width(f.type)) is not None}
    texts = tuple(f.name for f in schema if _is_text(f.type))

    def reading(request: Request) -> Iterator[Any]:
        yield from at_least_one(read(request), lambda: _chosen(schema, request))

    return Source(tuple(schema.names), reading, widths=widths, texts=texts, **facts)


def _chosen(schema: pa.Schema, request: Request) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in request.columns])


def at_least_one(batches: Iterable[Any], schema: Callable[[], pa.Schema]) -> Iterator[Any]:
    """The batches; one without rows where there are none, which is read as any other.

    Somebody may be the only one in a table: without them it must say the same of its columns.
    """
    import pyarrow as pa

    none = True
    for batch in batches:
        none = False
        yield batch
    if none:
        yield pa.RecordBatch.from_pylist([], schema=schema())


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(is_kind(kind) for is_kind in kinds)


def _not_a_table(source: Any) -> TypeError:
    return TypeError(
        f"Expected a table with rows and columns, got {type(source).__module__}."
        f"{type(source).__qualname__}; hand over the whole table (of one column: .to_frame())."
    )


_OPENERS: dict[str, Callable[[Any], Source]] = {
    "numpy": _open_array,
    "torch": _open_array,
    "cupy": _open_array,
    "scipy": _open_scipy,
    "pandas": _open_pandas,
    "polars": _open_polars,
    "pyarrow": _open_arrow,
    "duckdb": _open_duckdb,
    "_duckdb": _open_duckdb,
    "dask": _open_dask,
    "dask_expr": _open_dask,
    "pyspark": _open_spark,
    "xarray": _open_xarray,
    "datasets": _open_datasets,
    "deltalake": _open_delta,
    "pyiceberg": _open_iceberg,
}
