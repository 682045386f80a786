"""A durable, append-only list of events in one SQLite file, each sealed with the one before.

The journal is a write-ahead log with synchronous=FULL: a commit is one forced write, it survives
a crash of the machine, and a process that is killed leaves either all of a transaction or nothing.
(Rollback journals force three writes for each commit.) The log lies beside the file as `-wal`
and `-shm` until the last process closes the ledger; whoever copies a ledger copies them too.

The hash of an event covers the event before it and the state after it (the running totals), so
that neither can be edited alone. There is no key: whoever can write the file and knows the
format can write a new chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_APPLICATION = int.from_bytes(b"ndis", "big")
_SCHEMA = 1
_PATIENCE = 120.0  # seconds to wait for other processes
_NOTHING = "0" * 64

_TABLES = f"""
CREATE TABLE events (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, release INTEGER NOT NULL, body TEXT NOT NULL,
    state TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (release, kind));
CREATE TABLE state (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), body TEXT NOT NULL);
CREATE VIEW releases AS
    SELECT spent.release AS number, json_extract(spent.body, '$.time') AS time,
        json_extract(spent.body, '$.mechanism') AS mechanism,
        json_extract(spent.body, '$.guarantee.relation') AS relation,
        json_extract(spent.body, '$.guarantee') AS guarantee,
        json_extract(completed.body, '$.digest') AS digest
    FROM events AS spent LEFT JOIN events AS completed
        ON completed.release = spent.release AND completed.kind = 'complete'
    WHERE spent.kind = 'spend' ORDER BY spent.release;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_SCHEMA};
"""


class DamagedLedger(ValueError):
    """The file is not what the library wrote: edited, truncated or corrupted."""


@dataclass(frozen=True)
class Event:
    """One link of the chain; `release` is 0 for events that are about the ledger itself."""

    number: int
    kind: str
    release: int
    body: str
    state: str
    hash: str

    def content(self) -> dict[str, Any]:
        """The body, read as JSON."""
        return dict(json.loads(self.body))


class Chain:
    """The file: transactions, appending, and checking what was appended before."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._seen, self._seen_hash = 0, _NOTHING
        _OPEN.add(self)

    # -- transactions ------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[dict[str, Any] | None]:
        """One look at the file, checked as far as it is new; yields the state, None if empty.

        A writing transaction waits for others to end, and is undone if anything raises.
        """
        with self._lock, self._as_sentences():
            db = self._connect()
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            known = self._seen, self._seen_hash
            try:
                state = self._catch_up()
                known = self._seen, self._seen_hash
                yield state
                db.execute("COMMIT")
            except BaseException:
                self._seen, self._seen_hash = known
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def append(self, kind: str, release: int, body: dict[str, Any], state: dict[str, Any]) -> None:
        """Add an event and the state after it; only inside a writing transaction."""
        db, number = self._connect(), self._seen + 1
        # The state names its event, so that it does not fit a chain that was cut short.
        body_text, state_text = _text(body), _text(state | {"event": number})
        sealed = _seal(self._seen_hash, number, kind, release, body_text, _digest(state_text))
        db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
            (number, kind, release, body_text, _digest(state_text), sealed),
        )
        db.execute("INSERT OR REPLACE INTO state VALUES (1, ?)", (state_text,))
        self._seen, self._seen_hash = number, sealed

    def create_tables(self) -> None:
        """Lay out an empty file; only inside a writing transaction."""
        for statement in _TABLES.split(";"):
            self._connect().execute(statement)

    def events(self, kind: str | None = None, release: int | None = None) -> Iterator[Event]:
        """Events in order, all or of one kind or release."""
        rows = self._connect().execute(
            "SELECT * FROM events WHERE kind = coalesce(?, kind) "
            "AND release = coalesce(?, release) ORDER BY number",
            (kind, release),
        )
        return (Event(*row) for row in rows)

    def find(self, kind: str, release: int) -> Event | None:
        """The event of one kind about one release."""
        row = (
            self._connect()
            .execute("SELECT * FROM events WHERE release = ? AND kind = ?", (release, kind))
            .fetchone()
        )
        return None if row is None else Event(*row)

    def check(self) -> None:
        """Check every page of the file and every link of the chain."""
        with self.transaction():
            complaints = self._connect().execute("PRAGMA integrity_check").fetchall()
            if complaints != [("ok",)]:
                raise self._damaged("the database is corrupt")
            self._seen, self._seen_hash = 0, _NOTHING
            self._catch_up()

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # -- inside ------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            db = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._configure(db)
            except BaseException:
                db.close()
                raise
            self._connection, self._file = db, _identity(self.path)
        elif _identity(self.path) != self._file:
            raise self._damaged("the file was replaced while it was in use")
        return self._connection

    def _configure(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA synchronous = FULL")
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError:
                # Another process is making the file; SQLite itself does not wait here.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode != ("wal",):
            raise OSError(
                f"Expected a file system that can share memory, got that of {self.path}; "
                "keep the ledger on a local disk."
            )

    def _catch_up(self) -> dict[str, Any] | None:
        """Check the events since the last one seen, and the state after the last."""
        db = self._connect()
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if not tables and self._seen == 0:
            return None
        ours = db.execute("PRAGMA application_id").fetchone() == (_APPLICATION,)
        if not ours or not {"events", "state"} <= tables:
            raise self._damaged("it is not a ledger")
        if (version := db.execute("PRAGMA user_version").fetchone()[0]) != _SCHEMA:
            raise self._damaged(f"its schema is {version}, not {_SCHEMA}")
        events = db.execute("SELECT * FROM events WHERE number >= ? ORDER BY number", (self._seen,))
        if self._seen:
            last = events.fetchone()
            if last is None or last[-1] != self._seen_hash:
                raise self._damaged("events that this process has seen are gone")
        state_digest = None if not self._seen else last[-2]
        for number, kind, release, body, state_digest, sealed in events:
            expected = _seal(self._seen_hash, self._seen + 1, kind, release, body, state_digest)
            if number != self._seen + 1 or sealed != expected:
                raise self._damaged(f"event {number} does not fit the chain")
            self._seen, self._seen_hash = number, sealed
        state = db.execute("SELECT body FROM state").fetchall()
        if self._seen == 0 or len(state) != 1 or _digest(state[0][0]) != state_digest:
            raise self._damaged("its running totals do not fit the chain")
        return dict(json.loads(state[0][0]))

    def _damaged(self, why: str) -> DamagedLedger:
        return DamagedLedger(
            f"Expected a ledger as ndis wrote it, got {self.path}: {why}; restore the file, or "
            "count its budget as spent."
        )

    @contextmanager
    def _as_sentences(self) -> Iterator[None]:
        """Say what SQLite says in one sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise TimeoutError(
                    f"Waited {_PATIENCE:g} s for other processes to let go of {self.path}; "
                    "nothing was spent, try again."
                ) from None
            raise OSError(
                f"Expected to read and write {self.path}, got {error}; do not make the release."
            ) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: Any) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _seal(before: str, *parts: Any) -> str:
    return _digest(json.dumps([before, *parts]))


# SQLite's locks belong to a process, and its connections must not be carried across a fork.
_OPEN: weakref.WeakSet[Chain] = weakref.WeakSet()
_held: list[Chain] = []


def _before_fork() -> None:
    for chain in list(_OPEN):
        chain._lock.acquire()
        _held.append(chain)
        chain.close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
