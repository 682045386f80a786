import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_places import BUDGET, DELTA, EPSILON, RELEASE, Address, Place, shift
from ndis import Ledger


@pytest.fixture
def address(place: Place) -> Address:
    return place.new()


@pytest.fixture
def ledger(address: Address) -> Iterator[Ledger]:
    with Ledger.create(address, EPSILON, DELTA, "add-remove") as opened:
        yield opened


@pytest.fixture
def planned(address: Address) -> Iterator[Ledger]:
    with Ledger.create(address, EPSILON, DELTA, "add-remove", mode="plan") as opened:
        yield opened


@pytest.fixture
def planned_beside(place: Place) -> Iterator[Ledger]:
    with Ledger.create(place.new(), EPSILON, DELTA, "add-remove", mode="plan") as opened:
        opened.plan([shift(0.1)])
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger with three releases."""
    path = tmp_path / "ledger"
    with Ledger.create(path, *BUDGET) as ledger:
        for _ in range(3):
            ledger.complete(ledger.spend(RELEASE, "toy"), "abc")
    return path


@pytest.fixture
def stranger() -> Iterator[None]:
    """Work as a user whom permissions hold back."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)
