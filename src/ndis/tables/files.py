"""Files and folders of them: which are read, how text is written, and what can be wrong with one.

A file is opened once and stays open; every pass starts at its beginning, so that a file which is
renamed or deleted between two passes does no harm, and one that changes is noticed. Of many files
the last are opened again for every pass: one that is no longer the file it was is noticed, too.
"""

from __future__ import annotations

import csv as text
import glob
import io
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zipfile import BadZipFile

import numpy as np

from ndis._validate import installed, without_secrets, wrong
from ndis.tables.sources import Request, Source, arrow_source, at_least_one, open_parquet
from ndis.tables.text import NotNumbers, TextFormat, parsed, parsed_numbers
from ndis.tables.values import Records

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = {
    r"\.(parquet|pq)$": "parquet",
    r"\.(arrow|feather|ipc)$": "arrow",
    r"\.(csv|tsv|tab)(\.gz|\.bz2|\.zst)?$": "text",
    r"\.xlsx$": "xlsx",
}
# How some programs tell a file's compression before its ending.
_CODEC = r"(\.(snappy|gz|gzip|zstd|zst|lz4|brotli|br))"
# More files than this are opened when they are read, not all at once.
_MOST_OPEN = 64
# Bytes in which the names of a text file without records end.
_ONE_LINE = 2**20


def open_files(paths: Sequence[str | os.PathLike[str]], **options: Any) -> Source:
    """Open files, folders and patterns as one table.

    What Spark and others leave in a folder (names that begin with ``_`` or ``.``) is skipped, a
    file that is reached in two ways is read once, and neither formats are mixed nor two ways of
    writing one file, such as a.csv and a.csv.gz: nobody is counted twice.
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
    require_different(files)
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
    seen = [_status(file) for file in files]
    sources = [_opened(*each, opener) for each in zip(files[:_MOST_OPEN], seen, strict=False)]

    def read(request: Request) -> Iterator[Any]:
        for index, (file, status) in enumerate(zip(files, seen, strict=True)):
            source = sources[index] if index < _MOST_OPEN else _opened(file, status, opener)
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
    scheme, _, local = str(path).rpartition("://")
    if scheme not in ("", "file", "local"):
        return _remote(str(path))
    place = Path(local if scheme else path)
    if place.is_dir():
        _refuse_table_formats(place)
        inside = (file for file in place.rglob("*") if file.is_file())
        found = sorted(
            file
            for file in inside
            if not any(part.startswith(("_", ".")) for part in file.relative_to(place).parts)
            and _format_of(file) is not None
        )
    elif place.exists() or not glob.has_magic(str(place)):
        found = [place]
    else:
        found = sorted(map(Path, glob.glob(str(place), recursive=True)))
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
            key = file.key
        seen.setdefault(key, file)
    return list(seen.values())


def require_different(files: Sequence[Any]) -> None:
    """Refuse files that may be one, written twice: that differ in ending or scheme alone."""
    seen: dict[str, Any] = {}
    for file in files:
        place = str(file.parent.resolve() / file.name if isinstance(file, Path) else file)
        for ending in _FORMATS:
            place = re.sub(f"{_CODEC}?{ending}", "", place, flags=re.IGNORECASE)
        other = seen.setdefault(re.sub(r"^.*://+", "/", place), file)
        if other is not file:
            raise ValueError(
                f"Expected each file once, got {str(other)!r} and {str(file)!r}: the same people "
                "may be in both; name the files to read."
            )


def require_once(addresses: Sequence[str]) -> None:
    """Refuse files that another program is about to read, if one of them is reached twice."""
    files = [
        Path(unquote(address.partition(":")[2])) if address.startswith("file:/") else address
        for address in addresses
    ]
    local = [file for file in files if isinstance(file, Path)]
    if len(_distinct(local)) < len(local):
        raise ValueError(
            f"Expected each file once, got {str(local[0].parent)!r} with links to files that are "
            "there, too; name the files to read."
        )
    require_different(files)


@dataclass(frozen=True)
class Remote:
    """A file behind an address, opened by fsspec."""

    path: str
    open: Callable[[], Any]
    status: Callable[[], Any]  # changes when the file does, as far as its system tells
    key: Any  # equal for two addresses of one file

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return without_secrets(self.path)

    def __repr__(self) -> str:
        return f"Remote({str(self)!r})"


def _remote(address: str) -> list[Remote]:
    shown = without_secrets(address)
    with installed(f"fsspec to read {shown}", "'ndis[remote]'"):
        import fsspec
    try:
        found = fsspec.open_files(address, mode="rb")
        if not found:
            raise FileNotFoundError(address)
        scheme = address.partition("://")[0]
        return [
            Remote(
                f"{scheme}://{f.path.partition('://')[2] or f.path}",
                f.open,
                partial(_remote_status, f.fs, f.path),
                (f.fs, f.path),
            )
            for f in found
        ]
    except (ImportError, ValueError) as error:
        why = without_secrets(str(error))
        raise ValueError(f"Address {shown!r} cannot be read ({why}); check it.") from None
    except OSError:
        raise FileNotFoundError(f"No file matches {shown!r}; check the address.") from None


def _remote_status(system: Any, path: str) -> Any:
    """What a file system tells of a file: as a rule its size and time."""
    system.invalidate_cache()
    return system.ukey(path)


def _format_of(file: Any) -> str | None:
    for pattern, name in _FORMATS.items():
        if re.search(pattern, file.name.lower()):
            return name
    return None


# --- opening ----------------------------------------------------------------------------------


class Changed(ValueError):
    """A table is no longer what it was when it was first read."""


class _Handle:
    """An open file that can be read again from its beginning, and notices when it changes.

    Parameters
    ----------
    file : Path or Remote
    seen : object
        Its `_status` when it was first looked at.
    """

    def __init__(self, file: Any, seen: Any) -> None:
        self.file, self._seen = file, seen
        self._local = isinstance(file, Path)
        if self._local:
            descriptor = os.open(file, os.O_RDONLY)
            weakref.finalize(self, os.close, descriptor)
            self._stream: Any = os.fdopen(descriptor, "rb", closefd=False)
        else:
            self._stream = file.open()
        self._lock = threading.Lock()
        self.check()

    def start(self) -> io.RawIOBase:
        """The file at its beginning, with a place of its own in it."""
        self.check()
        return _View(self._stream, self._lock)

    def native(self) -> Any:
        """The open file by a name under which Arrow reads it without Python in between."""
        self.check()
        name = f"/dev/fd/{self._stream.fileno()}" if self._local else ""
        return name if os.path.exists(name) else self.start()

    def check(self) -> None:
        """Raise if it is no longer what it was when it was first looked at."""
        if _status(self.file, self._stream if self._local else None) != self._seen:
            raise Changed(
                f"File {str(self.file)!r} changed while it was being read; start again with a "
                "file that nobody writes to."
            )


class _View(io.RawIOBase):
    """A view of an open file that leaves it open, and stays where it is when others move.

    Arrow reads ahead in threads, and may still do so after its reader was closed.
    """

    def __init__(self, stream: Any, lock: threading.Lock) -> None:
        self._stream, self._lock, self._place = stream, lock, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._lock:
            self._stream.seek(self._place)
            self._place = int(self._stream.seek(offset, whence))
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> Any:
        with self._lock:
            self._stream.seek(self._place)
            found = self._stream.read(size)
            self._place += len(found)
        return found


def _status(file: Any, stream: Any = None) -> Any:
    """Which file this is, its size and the time of its last change; of an open one where it is."""
    with _reading(file):
        if not isinstance(file, Path):
            return file.status()
        status = os.stat(file) if stream is None else os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _opened(file: Any, seen: Any, opener: Callable[[Any], Source]) -> Source:
    with _reading(file):
        handle = _Handle(file, seen)
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
        raise wrong("encoding")(
            f"File {name} is not written in the alphabet expected; pass the right one, such "
            "as encoding='latin-1', or check that it is a text file."
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
        from openpyxl.utils.exceptions import InvalidFileException

    try:
        sheet = openpyxl.load_workbook(handle.start(), read_only=True, data_only=True).active
        lines = list(sheet.iter_rows(values_only=True))
    except (BadZipFile, InvalidFileException, KeyError) as error:
        raise OSError(str(error)) from error
    if not lines:
        raise ValueError(f"File {str(handle.file)!r} has no rows; check it.")
    names = [str(cell) for cell in lines[0]]
    cells = np.full((len(lines) - 1, len(names)), None, dtype=object)
    for row, line in zip(cells, lines[1:], strict=True):
        row[: len(line)] = line[: len(names)]

    def read(request: Request) -> Iterator[Any]:
        yield Records({name: cells[:, names.index(name)] for name in request.columns})

    return Source(tuple(names), read, len(cells), header=True)


# --- text -------------------------------------------------------------------------------------


def _open_text(handle: _Handle, written: TextFormat) -> Source:
    import pyarrow as pa
    from pyarrow import csv

    file = handle.file.name.lower()
    delimiter = written.separator(file)
    parse = csv.ParseOptions(delimiter=delimiter)
    given = None if written.names is None else list(written.names)
    options = csv.ReadOptions(encoding=written.encoding, column_names=given)

    def stream() -> Any:
        packed = re.search(r"\.(gz|bz2|zst)$", file)
        opened = pa.PythonFile(handle.start(), mode="r")
        kinds = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
        return pa.CompressedInputStream(opened, kinds[packed[1]]) if packed else opened

    def explained(error: Exception) -> Exception:
        return _explain(handle, stream, error, delimiter, written)

    if b"\0" in stream().read(1 << 16) and not written.encoding.startswith(("utf-16", "utf-32")):
        raise ValueError(
            f"File {str(handle.file)!r} holds binary data, not text; check that it is a CSV file."
        )

    def started(convert: Any = None) -> Any:
        how = {"read_options": options, "parse_options": parse, "convert_options": convert}
        try:
            return csv.open_csv(stream(), **how)
        except pa.ArrowInvalid as error:
            line = stream().read(_ONE_LINE).decode(written.encoding)
            if "Empty CSV" not in str(error) or not (line.strip() or given) or "\n" in line:
                raise
        # The names alone, or none where they were passed: a table without rows.
        return csv.open_csv(pa.py_buffer(f"{line}\n".encode(written.encoding)), **how)

    try:
        with started() as reader:
            inferred = reader.schema
            names = inferred.names  # decodes them
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise explained(error) from None
    if len(names) == 1 and (other := re.search(r"[;\t|]", names[0])):
        raise _one_column(handle, other[0])

    def read(request: Request) -> Iterator[Any]:
        # Where types are inferred, one line decides for all: what has a kind is read as text, and
        # every value by itself. Only the owner is shown columns of types that Arrow found.
        types = {
            column: pa.string() if column in request.kinds else _shown_type(inferred.field(column))
            for column in request.columns
        }
        convert = csv.ConvertOptions(include_columns=list(request.columns), column_types=types)
        try:
            with started(convert) as reader:
                for index, batch in enumerate(at_least_one(reader, lambda: reader.schema)):
                    try:
                        records = parsed(batch, request.kinds, written)
                    except NotNumbers as error:
                        if index == 0 and not _reads(str(batch.column(error.name)[0]), written):
                            raise
                        place = names.index(error.name)  # text after numbers: in which line?
                        raise pa.ArrowInvalid(f"In CSV column #{place}") from None
                    yield records
        except (pa.ArrowInvalid, UnicodeError) as error:
            raise explained(error) from None

    unconfirmed = written.header is None
    # Types that were found in the values say nothing that all neighbours would.
    return replace(arrow_source(inferred, read, header=unconfirmed), texts=None)


def _shown_type(field: pa.Field) -> pa.DataType:
    """The type that a file's beginning shows; there measurements may well be integers only."""
    import pyarrow as pa

    if pa.types.is_binary(field.type):  # written in another encoding, which an error will say
        return pa.string()
    widened = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
    return pa.float64() if widened else field.type


def _explain(
    handle: _Handle,
    stream: Callable[[], Any],
    error: Exception,
    delimiter: str,
    written: TextFormat,
) -> Exception:
    """One sentence about what is wrong with a text file, and where. For its owner."""
    name, said = repr(str(handle.file)), str(error)
    if "Empty CSV" in said and not stream().read(1):
        return ValueError(f"File {name} is empty; check it.")
    if "Empty CSV" in said or "straddling" in said:
        return ValueError(
            f"File {name} has a line of more than a million letters; check that it is a text file "
            "with a line for each record, and that every quotation mark is closed."
        )
    if isinstance(error, UnicodeError) or "UTF8" in said:
        return wrong("encoding")(
            f"File {name} is not written in {written.encoding}; pass what it is written in, "
            "such as encoding='latin-1'."
        )
    lines = text.reader(
        io.TextIOWrapper(stream(), encoding=written.encoding, errors="replace", newline=""),
        delimiter=delimiter,
    )
    width, first, read = None, "", 0
    column = re.search(r"In CSV column #(\d+)", said)
    for line in lines:
        read, began = lines.line_num, read + 1
        if not line:
            continue
        if width is None:
            width, first = len(line), line[0]
        if column is None and len(line) != width:
            if width == 1 and (other := re.search(r"[;\t|]", first)):
                return _one_column(handle, other[0])
            if began < lines.line_num:  # which only a quotation mark can make of several lines
                return ValueError(
                    f"Line {began} of {name} opens a quotation mark that is not closed there; "
                    "close it, or leave it out."
                )
            return wrong("delimiter")(
                f"Line {lines.line_num} of {name} has {len(line)} values where the first has "
                f"{width}; mend that line, or pass the delimiter that separates values."
            )
        if column is not None and lines.line_num > 1 and not _reads(line[int(column[1])], written):
            return wrong("levels")(
                f"Line {lines.line_num} of {name} holds text in column number "
                f"{int(column[1]) + 1} where earlier lines hold numbers; mend it, leave the "
                "column out, or pass its levels."
            )
    return ValueError(f"File {name} cannot be read as a table ({said.splitlines()[0]}); check it.")


def _one_column(handle: _Handle, mark: str) -> Exception:
    """The error for a file of which nothing but another mark makes several columns."""
    return wrong("delimiter")(
        f"File {str(handle.file)!r} has one column, whose name holds {mark!r}; if that separates "
        f"its columns, pass delimiter={mark!r}."
    )


def _reads(cell: str, written: TextFormat) -> bool:
    """Whether a cell is read as a number, or as missing."""
    import pyarrow as pa

    if written.plain and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell):
        return True
    try:
        parsed_numbers(pa.array([cell]), written)
    except pa.ArrowInvalid:
        return False
    return True


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
