"""Files and folders of them: which are read, how text is written, and what can be wrong with one.

A file is opened once and stays open; every pass starts at its beginning, so that a file which is
renamed or deleted between two passes does no harm, and one that changes is noticed.
"""

from __future__ import annotations

import csv as text
import glob
import io
import os
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._validate import installed
from ndis.tables.sources import Request, Source, arrow_source, open_parquet

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = {
    r"\.(parquet|pq)$": "parquet",
    r"\.(arrow|feather|ipc)$": "arrow",
    r"\.(csv|tsv|tab)(\.gz|\.bz2|\.zst)?$": "text",
    r"\.xlsx$": "xlsx",
}
# More files than this are opened when they are read, not all at once.
_MOST_OPEN = 64


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written.

    Parameters
    ----------
    delimiter : str, optional
        What separates two values; a comma, or a tab in files named .tsv.
    encoding : str, default "utf8"
    header : bool, optional
        True: the first line holds the names of the columns, whatever they look like. False: it is
        a record. None: it holds names, which have not been confirmed.
    names : sequence of str, optional
        Names of the columns of a file without a header.
    """

    delimiter: str | None = None
    encoding: str = "utf8"
    header: bool | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if (self.names is not None) != (self.header is False):
            raise ValueError(
                "Expected names exactly if there is no header line, got "
                f"header={self.header} and names={self.names}; pass both or neither."
            )


def open_files(paths: Sequence[str | os.PathLike[str]], **options: Any) -> Source:
    """Open files, folders and patterns as one table.

    What Spark and others leave in a folder (names that begin with ``_`` or ``.``) is skipped, a
    file that is reached in two ways is read once, and formats are not mixed: nobody is counted
    twice.
    """
    written = TextFormat(**options)
    files = _distinct([file for path in paths for file in _matching(path)])
    formats = {_format_of(file) for file in files}
    if None in formats:
        odd = next(file for file in files if _format_of(file) is None)
        raise ValueError(
            f"Expected a file named .parquet, .arrow, .csv, .tsv or .xlsx, got {str(odd)!r}; "
            "rename or convert it."
        )
    if len(formats) > 1:
        raise ValueError(
            f"Expected files of one format, got {' and '.join(sorted(map(str, formats)))} in "
            f"{str(paths[0])!r}: the same people may be in both; name the files to read."
        )
    kind = formats.pop()
    if options and kind != "text":
        raise ValueError(
            f"Expected {', '.join(options)} for text files only, got a file of format {kind}; "
            "leave them out."
        )
    openers: dict[str, Callable[[Any], Source]] = {
        "parquet": _open_parquet,
        "arrow": _open_arrow_file,
        "text": partial(_open_text, written=written),
        "xlsx": _open_xlsx,
    }
    opener = openers[str(kind)]
    sources = [_opened(file, opener) for file in files[:_MOST_OPEN]]

    def read(request: Request) -> Iterator[Any]:
        for index, file in enumerate(files):
            source = sources[index] if index < _MOST_OPEN else _opened(file, opener)
            missing = set(request.columns) - set(source.names)
            if missing:
                raise ValueError(
                    f"Expected every file to have the same columns, got {str(file)!r} without "
                    f"{', '.join(map(repr, sorted(missing)))}; name the files to read."
                )
            with _reading(file):
                yield from source.read(request)

    counts = [source.n_rows for source in sources if source.n_rows is not None]
    return replace(sources[0], read=read, n_rows=sum(counts) if len(counts) == len(files) else None)


# --- which files ------------------------------------------------------------------------------


def _matching(path: str | os.PathLike[str]) -> list[Any]:
    """The files that a path, folder, pattern or address stands for, in order."""
    if "://" in str(path):
        return _remote(str(path))
    place = Path(path)
    if place.is_dir():
        _refuse_table_formats(place)
        inside = (file for file in place.rglob("*") if file.is_file())
        found = sorted(
            file
            for file in inside
            if not any(part.startswith(("_", ".")) for part in file.relative_to(place).parts)
            and _format_of(file) is not None
        )
    elif place.exists() or not glob.has_magic(str(path)):
        found = [place]
    else:
        found = sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise FileNotFoundError(f"No file matches {str(path)!r}; check the path.")
    return found


def _refuse_table_formats(folder: Path) -> None:
    """A folder of Delta or Iceberg also holds deleted rows: its log says which files count."""
    for kind, log, table in (
        ("a Delta", "_delta_log", "deltalake.DeltaTable(path)"),
        ("an Iceberg", "metadata/*.metadata.json", "pyiceberg's table"),
    ):
        if any(folder.glob(log)):
            raise ValueError(
                f"Folder {str(folder)!r} is {kind} table, which also holds deleted rows; hand over "
                f"{table}, or read it through Spark."
            )


def _distinct(files: Sequence[Any]) -> list[Any]:
    """Each file once, however it was reached."""
    seen: dict[Any, Any] = {}
    for file in files:
        if isinstance(file, Path):
            try:
                status = file.stat()
                key: Any = (status.st_dev, status.st_ino)
            except OSError:
                key = file.absolute()
        else:
            key = file.path
        seen.setdefault(key, file)
    return list(seen.values())


@dataclass(frozen=True)
class Remote:
    """A file behind an address, opened by fsspec."""

    path: str
    open: Callable[[], Any]

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return self.path


def _remote(address: str) -> list[Remote]:
    with installed(f"fsspec to read {address}", "'ndis[remote]'"):
        import fsspec
    try:
        found = fsspec.open_files(address, mode="rb")
        if not found:
            raise FileNotFoundError(address)
        scheme = address.partition("://")[0]
        return [Remote(f"{scheme}://{f.path.partition('://')[2] or f.path}", f.open) for f in found]
    except (ImportError, ValueError) as error:
        raise ValueError(f"Address {address!r} cannot be read ({error}); check it.") from None
    except OSError:
        raise FileNotFoundError(f"No file matches {address!r}; check the address.") from None


def _format_of(file: Any) -> str | None:
    for pattern, name in _FORMATS.items():
        if re.search(pattern, file.name.lower()):
            return name
    return None


# --- opening ----------------------------------------------------------------------------------


class _Handle:
    """An open file that can be read again from its beginning, and notices when it changes."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self._local = isinstance(file, Path)
        if self._local:
            descriptor = os.open(file, os.O_RDONLY)
            weakref.finalize(self, os.close, descriptor)
            self._stream: Any = os.fdopen(descriptor, "rb", closefd=False)
        else:
            self._stream = file.open()
        self._seen = self._status()

    def start(self) -> Any:
        """The file at its beginning."""
        self.check()
        self._stream.seek(0)
        return self._stream

    def native(self) -> Any:
        """The open file by a name under which Arrow reads it without Python in between."""
        self.check()
        name = f"/dev/fd/{self._stream.fileno()}" if self._local else ""
        return name if os.path.exists(name) else self.start()

    def check(self) -> None:
        """Raise if it is no longer what it was when it was opened."""
        if self._status() != self._seen:
            raise ValueError(
                f"File {str(self.file)!r} changed while it was being read; start again with a "
                "file that nobody writes to."
            )

    def _status(self) -> Any:
        if not self._local:
            return None
        status = os.fstat(self._stream.fileno())
        return status.st_size, status.st_mtime_ns


def _opened(file: Any, opener: Callable[[Any], Source]) -> Source:
    with _reading(file):
        handle = _Handle(file)
        source = opener(handle)

    def read(request: Request) -> Iterator[Any]:
        handle.check()
        yield from source.read(request)
        handle.check()

    return replace(source, read=read)


@contextmanager
def _reading(file: Any) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence."""
    import pyarrow as pa

    name = repr(str(file))
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"File {name} is not there; check the path.") from None
    except PermissionError:
        raise PermissionError(f"File {name} may not be read; change its permissions.") from None
    except IsADirectoryError:
        raise OSError(f"Expected a file, got the folder {name}; check the path.") from None
    except UnicodeError:
        raise ValueError(
            f"File {name} is not written in the encoding expected; pass its encoding, such as "
            "encoding='latin-1', or check that it is a text file."
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise OSError(
            f"File {name} is not complete, or not of the format its name says; check it."
        ) from error


def _open_parquet(handle: _Handle) -> Source:
    import pyarrow.parquet as pq

    # Buffering ahead would keep the whole file in memory.
    return open_parquet(pq.ParquetFile(handle.native(), pre_buffer=False))


def _open_arrow_file(handle: _Handle) -> Source:
    import pyarrow as pa

    reader = pa.ipc.open_file(handle.start())

    def read(request: Request) -> Iterator[Any]:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index).select(list(request.columns))

    return arrow_source(reader.schema, read)


def _open_xlsx(handle: _Handle) -> Source:
    with installed("openpyxl to read .xlsx files", "'ndis[xlsx]'"):
        import openpyxl
    import pyarrow as pa

    sheet = openpyxl.load_workbook(handle.start(), read_only=True, data_only=True).active
    lines = list(sheet.iter_rows(values_only=True))
    if not lines:
        raise ValueError(f"File {str(handle.file)!r} has no rows; check it.")
    names = [str(cell) for cell in lines[0]]
    columns = [pa.array([line[i] for line in lines[1:]]) for i in range(len(names))]
    whole = pa.Table.from_arrays(columns, names=names)
    return arrow_source(
        whole.schema,
        lambda request: iter(whole.select(list(request.columns)).to_batches()),
        n_rows=whole.num_rows,
        header=True,
    )


# --- text -------------------------------------------------------------------------------------


def _open_text(handle: _Handle, written: TextFormat) -> Source:
    import pyarrow as pa
    from pyarrow import csv

    file = handle.file.name.lower()
    tabs = re.search(r"\.(tsv|tab)(\.|$)", file) is not None
    delimiter = written.delimiter or ("\t" if tabs else ",")
    parse = csv.ParseOptions(delimiter=delimiter)
    given = None if written.names is None else list(written.names)
    options = csv.ReadOptions(encoding=written.encoding, column_names=given)

    def stream() -> Any:
        packed = re.search(r"\.(gz|bz2|zst)$", file)
        opened = pa.PythonFile(_Lasting(handle.start()), mode="r")
        kinds = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
        return pa.CompressedInputStream(opened, kinds[packed[1]]) if packed else opened

    def explained(error: Exception) -> Exception:
        return _explain(handle, stream, error, delimiter, written)

    if b"\0" in stream().read(1 << 16) and not written.encoding.startswith(("utf-16", "utf-32")):
        raise ValueError(
            f"File {str(handle.file)!r} holds binary data, not text; check that it is a CSV file."
        )

    try:
        with csv.open_csv(stream(), read_options=options, parse_options=parse) as reader:
            inferred = reader.schema
            names = inferred.names  # decodes them
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise explained(error) from None
    if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
        raise ValueError(
            f"File {str(handle.file)!r} has one column, whose name holds {other[0]!r}; "
            f"if that separates its columns, pass delimiter={other[0]!r}."
        )

    def read(request: Request) -> Iterator[Any]:
        # Types are inferred from the file's beginning, where a column of measurements may well
        # show integers only: read numbers as double, and levels as they were declared.
        types = {
            column: pa.array(request.levels[column]).type
            if column in request.levels
            else _csv_type(inferred.field(column).type)
            for column in request.columns
        }
        convert = csv.ConvertOptions(include_columns=list(request.columns), column_types=types)
        try:
            with csv.open_csv(
                stream(), read_options=options, parse_options=parse, convert_options=convert
            ) as reader:
                yield from reader
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise explained(error) from None

    unconfirmed = written.header is None
    return arrow_source(inferred, read, header=unconfirmed)


class _Lasting(io.RawIOBase):
    """A view of an open file that leaves it open when it is closed itself."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        return self._stream.read(size)


def _csv_type(inferred: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    keep = pa.types.is_boolean(inferred) or not (
        pa.types.is_integer(inferred) or pa.types.is_null(inferred)
    )
    return inferred if keep else pa.float64()


def _explain(
    handle: _Handle,
    stream: Callable[[], Any],
    error: Exception,
    delimiter: str,
    written: TextFormat,
) -> Exception:
    """One sentence about what is wrong with a text file, and where. For its owner."""
    name, said = repr(str(handle.file)), str(error)
    if "Empty CSV" in said:
        return ValueError(f"File {name} is empty; check it.")
    if isinstance(error, UnicodeError) or "UTF8" in said:
        return ValueError(
            f"File {name} is not written in {written.encoding}; pass its encoding, such as "
            "encoding='latin-1'."
        )
    lines = text.reader(
        io.TextIOWrapper(stream(), encoding=written.encoding, errors="replace", newline=""),
        delimiter=delimiter,
    )
    width = None
    column = re.search(r"In CSV column #(\d+)", said)
    for line in lines:
        if not line:
            continue
        width = len(line) if width is None else width
        if column is None and len(line) != width:
            return ValueError(
                f"Line {lines.line_num} of {name} has {len(line)} values where the first has "
                f"{width}; mend that line, or pass the delimiter that separates values."
            )
        if column is not None and lines.line_num > 1 and not _is_number(line[int(column[1])]):
            return ValueError(
                f"Line {lines.line_num} of {name} holds text in column number "
                f"{int(column[1]) + 1} where earlier lines hold numbers; mend it, leave the "
                "column out, or list its levels in levels."
            )
    return ValueError(f"File {name} cannot be read as a table ({said.splitlines()[0]}); check it.")


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def looks_like_a_value(name: str) -> bool:
    """Whether a column's name could be a value of a record: a number or a date.

    Examples
    --------
    >>> from ndis.tables.files import looks_like_a_value
    >>> looks_like_a_value("age"), looks_like_a_value("54.0"), looks_like_a_value("2024-05-01")
    (False, True, True)
    """
    stripped = name.strip()
    if not stripped:
        return False
    dated = re.fullmatch(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?", stripped)
    return dated is not None or _is_number(stripped.replace(",", "."))
