"""Where the tests keep ledgers: every kind of storage passes the same ones."""

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from ndis import Guarantee, Profile, QuadraticLoss
from postgresql_server import Server

Address = Path | str

EPSILON, DELTA = 1.0, 1e-6
BUDGET = (EPSILON, DELTA, "add-remove")


def shift(size: float, relation: str = "add-remove") -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_shift(size))
    return Guarantee(1.0, 0.1, relation, "proven", loss)


def sketch(leverage: float, columns: int) -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_leverage(leverage, columns))
    return Guarantee(1.0, 0.1, "add-remove", "proven", loss)


RELEASE = shift(0.05)


class Place(ABC):
    """A kind of storage."""

    @abstractmethod
    def new(self) -> Address:
        """Where there is no ledger yet."""

    @abstractmethod
    def edit(self, address: Address, *statements: str) -> None:
        """Change the tables of a ledger behind its back."""


class Folder(Place):
    """SQLite files."""

    def __init__(self, folder: Path) -> None:
        self._names = (folder / f"ledger-{number}" for number in count())

    def new(self) -> Path:
        return next(self._names)

    def edit(self, address: Address, *statements: str) -> None:
        db = sqlite3.connect(address)
        with db:
            for statement in statements:
                db.execute(statement)
        db.close()


class Database(Place):
    """Schemas on a PostgreSQL server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def new(self) -> str:
        return f"{self._server.url}#ledger_{uuid4().hex}"

    def edit(self, address: Address, *statements: str) -> None:
        import psycopg

        url, _, schema = os.fspath(address).partition("#")
        with psycopg.connect(url) as db:
            db.execute(f"SET search_path = {schema}")
            for statement in statements:
                db.execute(statement)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    running = Server()
    yield running
    running.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Folder(tmp_path)
    return Database(request.getfixturevalue("server"))
