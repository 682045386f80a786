"""Where a ledger is kept: what its chain asks of a database, and patience with other processes."""

from __future__ import annotations

import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

# The version of the format, in every kind of storage.
VERSION = 2
# Understood by SQLite and PostgreSQL alike. Both keep the text as it stands here.
TABLES = (
    "CREATE TABLE events (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
    "release INTEGER NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, hash TEXT NOT NULL, "
    "UNIQUE (release, kind))",
    "CREATE TABLE state (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), body TEXT NOT NULL)",
)
_QUIET, _PATIENCE = 2.0, 120.0  # seconds of waiting before a word, and before giving up


class DamagedLedger(ValueError):
    """The ledger is not what the library wrote: edited, emptied, truncated or corrupted."""


class OtherVersion(ValueError):
    """The ledger was written by another version of the library, which can read it."""


class Interrupted(Exception):
    """A transaction ended for no fault of its own, maybe after its commit; look, and try again."""


class Storage(ABC):
    """Transactions on the two tables of one ledger.

    Attributes
    ----------
    path : Path or str
        The place, for opening it again.
    name : str
        The place, for messages; never a password.
    network : str or None
        The type of the file system, unless it is known to be local: processes might not see each
        other's locks.
    allowed : bool
        Whether the ledger may be there all the same.
    shared : bool
        Whether somebody can write the tables who may not rewrite them: what is stored of the
        running totals is then compared with the releases.
    """

    path: Path | str
    name: str
    network: str | None = None
    allowed = False
    shared = False
    _db: Any = None

    @abstractmethod
    def creation(self, accept: Collection[str]) -> AbstractContextManager[None]:
        """A transaction in a new place with empty tables; leaves nothing behind if it fails."""

    @abstractmethod
    def transaction(self, *, write: bool) -> AbstractContextManager[None]:
        """A transaction that sees no half of another's; a writing one excludes other writers."""

    @abstractmethod
    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement, `?` standing for values; only inside a transaction."""

    @abstractmethod
    def check(self) -> None:
        """Check what lies below the tables; only inside a transaction."""

    def allow(self, accept: Collection[str]) -> None:
        """Refuse a file system that is not known to be local, unless the ledger accepts it."""
        if self.network is None:
            return
        if "network" not in accept:
            raise OSError(
                f"Expected a local disk, got a file system of type {self.network} for "
                f"{self.name}, where processes may not see each other's locks and overspend "
                "together; keep the ledger on a PostgreSQL server (postgresql://...), or, if one "
                "machine alone uses it, by one path, create it with accept=['network']."
            )
        self.allowed = True
        self.close()  # opened only to be looked at

    def close(self) -> None:
        """Let go of the place; the next transaction opens it again."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def __del__(self) -> None:
        self.close()

    def damaged(self, why: str) -> DamagedLedger:
        """The error for a ledger that is not as it was written."""
        return DamagedLedger(
            f"Expected a ledger as ndis wrote it, got {self.name}: {why}; restore it, or count "
            "its budget as spent."
        )

    def foreign(self) -> DamagedLedger:
        """The error for what was never a ledger, as far as can be seen."""
        return DamagedLedger(
            f"Expected a ledger, got {self.name}, which is not a ledger; name the right one, or, "
            "if it was one, restore it or count its budget as spent."
        )

    def other_version(self, found: Any) -> OtherVersion:
        """The error for a ledger of another format."""
        return OtherVersion(
            f"Expected a ledger of format {VERSION}, got format {found} in {self.name}; use the "
            "version of ndis that wrote it."
        )

    def missing(self) -> FileNotFoundError:
        """The error where there is no ledger."""
        return FileNotFoundError(
            f"Expected a ledger at {self.name}, found none; make one with `ndis ledger init` or "
            "`Ledger.create`."
        )

    def taken(self) -> FileExistsError:
        """The error where a new ledger cannot be, since something is there."""
        return FileExistsError(
            f"Expected a new place for the ledger, got {self.name}, which exists; choose another."
        )

    def failed(self, why: Any) -> OSError:
        """The error for a place that cannot be used as it should."""
        return OSError(f"Expected to use {self.name}, got {why}; do not make the release.")


class Waiting:
    """Short pauses: others are told of them after two seconds, and they end after two minutes."""

    def __init__(self, name: str) -> None:
        self._name, self._start, self._told = name, time.monotonic(), False

    def pause(self) -> None:
        """Sleep for some milliseconds, or give up."""
        waited = time.monotonic() - self._start
        if waited > _PATIENCE:
            raise TimeoutError(
                f"Waited {_PATIENCE:g} s for {self._name}, which others hold or which is gone; do "
                "not make the release, and try again later."
            )
        if waited > _QUIET and not self._told:
            print(f"ndis: waiting for {self._name}, which others hold ...", file=sys.stderr)
            self._told = True
        time.sleep(random.uniform(0.001, 0.01))
