"""A ledger in one SQLite file on a local disk.

The journal is a rollback journal that is removed at each commit, with synchronous=EXTRA, which
also forces that removal to the disk. So between payments the file is whole and lies alone: it can
be copied, moved and put on read-only media. (A write-ahead log forces one write instead of four,
but keeps recent payments beside the file for days.)

SQLite finds the journal by the path of the file, and a process that was killed may leave one that
the next must roll back. A process that reaches the file by another path would miss it. So a file
with several hard links, or mounted alone into a container, is refused; `surroundings` says what
else is.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ndis.ledger import surroundings
from ndis.ledger.storage import TABLES, VERSION, Storage, Waiting

_APPLICATION = int.from_bytes(b"ndis", "big")
_MARKS = (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}")
# The largest event that is read: the loss of a release may be a table of 1e6 numbers.
_LARGEST = 1 << 26
_EFFECTIVE = os.access in os.supports_effective_ids


class SQLiteFile(Storage):
    """The file of a ledger."""

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.name = str(self.path)
        self._file: tuple[int, int] | None = None

    @contextmanager
    def creation(self, accept: Collection[str]) -> Iterator[None]:
        """Make the file, which nobody else may read."""
        try:
            self._prepare(accept)
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise self.taken() from None
        except OSError as error:
            if error.errno is None:  # a sentence of ours
                raise
            raise type(error)(
                f"Cannot create the ledger at {self.name}: {error.strerror}; choose another folder."
            ) from None
        try:
            with self._as_sentences():
                self._connect(new=True)
                with self._committed(write=True):
                    for statement in (*TABLES, *_MARKS):
                        self.query(statement)
                    yield
        except BaseException:
            self.close()
            for leftover in (self.path, self._journal()):
                leftover.unlink(missing_ok=True)
            raise

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """A look at the file, or a change of it."""
        with self._as_sentences():
            self._connect()
            with self._committed(write=write):
                self._check_tables()
                yield

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        rows: list[tuple[Any, ...]] = self._db.execute(statement, values).fetchall()
        return rows

    def check(self) -> None:
        """Check every page of the file."""
        if self.query("PRAGMA integrity_check") != [("ok",)]:
            raise self.damaged("the database is corrupt")

    # -- inside ------------------------------------------------------------------------------

    @property
    def _real(self) -> Path:
        """Beside which SQLite keeps the journal."""
        return self.path.resolve()

    def _journal(self) -> Path:
        return surroundings.journal_of(self.path)

    def _prepare(self, accept: Collection[str]) -> None:
        """Refuse a place for a new file."""
        surroundings.check_name(self._real)
        surroundings.check_folders(self.path)
        self._note_network(self._real.parent)
        self.allow(accept)
        if os.path.lexists(self._journal()):
            raise FileExistsError
        surroundings.check_companions(self._real)

    def _connect(self, *, new: bool = False) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise self.missing() if self._db is None else self._replaced() from None
        if not stat.S_ISREG(found.st_mode):
            raise self.missing()
        if self._db is not None and (found.st_dev, found.st_ino) != self._file:
            raise self._replaced()
        if found.st_size == 0 and not new and self._db is None:
            raise self.damaged("it is empty")
        writable = os.access(self.path, os.W_OK, effective_ids=_EFFECTIVE)
        if found.st_nlink > 1 and writable:
            raise OSError(
                f"Expected a file with one name, got {self.name}, which has {found.st_nlink} (hard "
                "links): a crash under one name is not seen under the other; remove the others."
            )
        if self._db is not None:
            return
        self._look_around(writable)
        # Neither makes a file. What may have to be refused is looked at without undoing payments.
        mode = "rw" if self.network is None or self.allowed else "ro"
        self._db = sqlite3.connect(
            f"{self._real.as_uri()}?mode={mode}",
            uri=True,
            timeout=0.0,
            isolation_level=None,
            check_same_thread=False,
        )
        self._file = found.st_dev, found.st_ino
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
            for setting in ("synchronous = EXTRA", "trusted_schema = OFF", "cell_size_check = ON"):
                self._patiently(f"PRAGMA {setting}")
            if self._patiently("PRAGMA journal_mode") != [("delete",)]:
                raise self.damaged("its journal is of another kind")
        except BaseException:
            self.close()
            raise

    def _look_around(self, writable: bool) -> None:
        """Refuse what others could have put here, and a file that is mounted by itself."""
        surroundings.check_name(self._real)
        surroundings.check_companions(self._real, write=writable)
        if not writable:
            return
        surroundings.check_folders(self.path)
        if surroundings.mounted(self._real)[0] != self._note_network(self._real.parent):
            raise OSError(
                f"Expected a ledger in a folder, got {self.name}, which is mounted by itself: what "
                "a crash leaves beside it is not seen elsewhere; mount its folder."
            )

    def _note_network(self, folder: Path) -> int:
        """Note a file system that is not known to be local; the number of the folder's mount."""
        mount, kind = surroundings.mounted(folder)
        self.network = None if kind in surroundings.LOCAL else kind
        return mount

    @contextmanager
    def _committed(self, *, write: bool) -> Iterator[None]:
        self._patiently("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            yield
            self._patiently("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # the first error says more
                self.query("ROLLBACK")
            raise

    def _patiently(self, statement: str) -> list[tuple[Any, ...]]:
        """A query that may have to wait for a lock."""
        waiting = Waiting(self.name)
        while True:
            try:
                return self.query(statement)
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
            waiting.pause()

    def _check_tables(self) -> None:
        """Refuse a file with other tables, columns, views or triggers than ours."""
        found = self._patiently("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        tables = sorted(str(sql) for (sql,) in found)
        if self.query("PRAGMA application_id") != [(_APPLICATION,)]:
            raise self.foreign()
        if (version := self.query("PRAGMA user_version")[0][0]) != VERSION:
            raise self.other_version(version)
        if tables != sorted(TABLES):
            raise self.damaged("its tables were changed")

    def _read_only(self) -> str:
        if not self._journal().exists():
            return "a file that cannot be written"
        where = "where the file can be written" if self.network is None else "on a local disk"
        return f"half a payment that must be undone {where}"

    def _replaced(self) -> Exception:
        return self.damaged("the file was replaced while it was in use")

    @contextmanager
    def _as_sentences(self) -> Iterator[None]:
        """Say in one sentence what SQLite says, and nothing of what the file holds."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = _code(error)
            if code == sqlite3.SQLITE_FULL:
                raise self.failed("a full disk") from None
            if code == sqlite3.SQLITE_READONLY:
                raise self.failed(self._read_only()) from None
            if code == sqlite3.SQLITE_NOTADB:
                raise self.foreign() from None
            if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
                raise self.failed(f"{error}; its folder must be writable too") from None
            raise self.damaged("the database is corrupt") from None


def _code(error: sqlite3.Error) -> int | None:
    """The kind of an error; None for those of Python's own, such as of text that is no text."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
