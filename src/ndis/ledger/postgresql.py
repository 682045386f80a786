"""A ledger in one schema of a PostgreSQL database, for several machines.

Payments are serialisable transactions. Each takes a lock on the running totals before it looks at
anything, so that they come one after the other instead of undoing each other. Nothing is kept
between transactions: no session state, no prepared statements. So connection pools may sit in
between, also those that lend a connection for one transaction only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ndis._validate import Address, installed
from ndis.ledger.storage import TABLES, VERSION, Interrupted, Storage

PREFIXES = ("postgresql://", "postgres://")

_BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"
# A commit is on the server's disk when it returns, whatever the server's default is. A process
# that is stopped in mid-payment holds up the others for a minute, and then loses its transaction.
_DURABLE = (
    "SET LOCAL synchronous_commit = on; SET LOCAL idle_in_transaction_session_timeout = 60000"
)
# The lock comes before the first query, so that the transaction sees all payments before it.
_LOCK = "SET LOCAL lock_timeout = 2000; LOCK TABLE state IN EXCLUSIVE MODE"
_LAYOUT = (
    "SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
    "WHERE relnamespace = to_regnamespace(?) AND relkind <> 'i' AND attnum > 0 ORDER BY 1"
)
_FORBIDDEN = "no permission, which its owner may grant"
_COLUMNS = ("number", "kind", "release", "body", "state", "hash")
_EXPECTED = sorted([*(f"events.{name}" for name in _COLUMNS), "state.body", "state.only_row"])


class PostgreSQLSchema(Storage):
    """The schema of a ledger: `postgresql://user@host/database#schema`, "ndis" if none is named."""

    path: Address
    shared = True

    def __init__(self, url: str) -> None:
        with installed("psycopg for a ledger on PostgreSQL", "'ndis[postgresql]'"):
            import psycopg
        self.path = Address(url)
        self._address, _, schema = url.partition("#")
        self._schema = schema or "ndis"
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", self._schema):
            raise ValueError(
                "Expected a schema of small letters, digits and _ after #, got something else; "
                "choose another, and write %23 for a # in a password."
            )
        self.name = f"{_named(self._address)}#{self._schema}"
        self._psycopg = psycopg
        self._known = False

    @contextmanager
    def creation(self, accept: Collection[str]) -> Iterator[None]:
        """Make the schema, which nobody else may use."""
        with self._committed(f"{_BEGIN}; {_DURABLE}"):
            try:
                self.query(f"CREATE SCHEMA {self._schema}")
            except self._psycopg.errors.DuplicateSchema:
                raise self.taken() from None
            self.query(f"COMMENT ON SCHEMA {self._schema} IS 'ndis-ledger/{VERSION}'")
            self.query(f"SET LOCAL search_path = {self._schema}")
            for statement in TABLES:
                self.query(statement)
            yield

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """A look at the tables, or a change of them."""
        space = f"SET LOCAL search_path = {self._schema}"
        kind = f"; {_DURABLE}; {space}; {_LOCK}" if write else f" READ ONLY; {space}"
        with self._committed(_BEGIN + kind):
            if not self._known:
                self.check()
                self._known = True
            yield

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        cursor = self._db.execute(statement.replace("?", "%s"), values or None)
        return list(cursor.fetchall()) if cursor.description else []

    def check(self) -> None:
        """Refuse other tables or columns than ours."""
        ((allowed, mark),) = self.query(
            "SELECT has_schema_privilege(schema, 'USAGE'), obj_description(schema, 'pg_namespace') "
            "FROM CAST(to_regnamespace(?) AS oid) AS schema",
            (self._schema,),
        )
        if allowed is None:
            raise self.missing()
        if not allowed:
            raise self.failed(_FORBIDDEN)
        kind, _, version = (mark or "").partition("/")
        if kind != "ndis-ledger":
            raise self.foreign()
        if version != str(VERSION):
            raise self.other_version(version)
        if [name for (name,) in self.query(_LAYOUT, (self._schema,))] != _EXPECTED:
            raise self.damaged("its tables were changed")

    # -- inside ------------------------------------------------------------------------------

    @contextmanager
    def _committed(self, begin: str) -> Iterator[None]:
        try:
            if self._db is None:
                self._connect()
            self.query(begin)
            yield
            self.query("COMMIT")
        except BaseException as error:
            lost = not self._undone()
            if isinstance(error, self._psycopg.Error):
                raise self._as_sentence(error, lost) from None
            raise

    def _connect(self) -> None:
        try:
            # Statements that were prepared elsewhere are of no use to the connections of a pool.
            self._db = self._psycopg.connect(
                self._address, autocommit=True, prepare_threshold=None, connect_timeout=10
            )
        except self._psycopg.OperationalError as error:
            if self._known:  # it was there, and may come back
                raise
            # Of a password that is not encoded a part may pass for a host.
            why = re.sub(r"([\"']).*?\1", "...", str(error).strip().splitlines()[-1])
            raise ConnectionError(
                f"Expected a PostgreSQL server for {self.name}, got no connection ({why}); check "
                "the address."
            ) from None
        except self._psycopg.ProgrammingError:
            raise ValueError(
                f"Expected an address that PostgreSQL reads, got {self.name}; write it like "
                "postgresql://user@host/database#schema, %40 for an @ in a password."
            ) from None
        if self.query("SHOW fsync") != [("on",)]:
            raise self.failed("a server that does not force writes to its disk (fsync = off)")

    def _undone(self) -> bool:
        """End the transaction; False if the connection is lost, and it with the transaction."""
        try:
            if self._db is not None:
                self.query("ROLLBACK")
                return True
        except self._psycopg.Error:
            self.close()
        return False

    def _as_sentence(self, error: Any, lost: bool) -> Exception:
        """Say in one sentence what the server says, and nothing of what it holds."""
        errors = self._psycopg.errors
        if isinstance(error, errors.DiskFull):
            return self.failed("a full disk")
        if isinstance(error, errors.InsufficientPrivilege):
            return self.failed(_FORBIDDEN)
        if isinstance(error, errors.ReadOnlySqlTransaction | errors.NotSupportedError):
            return self.failed("a server that follows another, on which nothing can be paid")
        # Connections and servers come and go, and one of two transactions may have to yield.
        if lost or isinstance(error, errors.OperationalError):
            return Interrupted()
        return self.damaged("the database is corrupt")


def _named(address: str) -> str:
    """An address for messages: neither user nor password, nor what a query says of them."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
