"""Where the tests keep ledgers: every kind of storage passes the same ones."""

import sqlite3
from abc import ABC, abstractmethod
from itertools import count
from pathlib import Path

import pytest

Address = Path | str


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


@pytest.fixture(params=["sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Folder(tmp_path)
