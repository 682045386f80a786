"""One ledger in many hands: threads, copies, forks, processes that are killed."""

import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ledger_workers
from ledger_places import DELTA, EPSILON, Address, shift, sketch
from ndis import Guarantee, Ledger
from ndis.ledger.storage import Storage


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda _: ledger.spend(shift(0.01), "toy"), range(20)))
    assert sorted(entry.number for entry in entries) == list(range(1, 21))
    assert ledger.verify() == 20


def test_copies_are_the_same_ledger(ledger: Ledger) -> None:
    for other in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        other.spend(shift(0.01), "toy")
    assert ledger.verify() == 2


def test_a_fork_opens_the_ledger_anew(ledger: Ledger) -> None:
    ledger.spend(shift(0.01), "before")
    program = (
        "import os, sys, ndis\n"
        f"ledger = ndis.Ledger({''.join(os.fspath(ledger.path))!r})\n"
        "given = ledger.history()[0].guarantee\n"
        "child = os.fork()\n"
        "for _ in range(5): ledger.spend(given, 'either')\n"
        "os._exit(0) if child == 0 else sys.exit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert ledger.verify() == 11


def test_verifying_holds_up_nobody(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.spend(shift(0.01), "toy")
    with Ledger(ledger.path) as other:
        read = Guarantee.from_dict

        def slow(stored: dict) -> Guarantee:
            other.spend(shift(0.01), "meanwhile")  # would wait for ever if the ledger were held
            return read(stored)

        monkeypatch.setattr("ndis.ledger.storage._PATIENCE", 5.0)
        monkeypatch.setattr(Guarantee, "from_dict", slow)
        assert ledger.verify() == 1
        monkeypatch.undo()
        assert other.verify() == 2


@pytest.mark.slow
def test_killed_processes_never_overspend_lose_or_double(tmp_path: Path) -> None:
    kills, address = 200, tmp_path / "ledger"
    with Ledger.create(address, EPSILON, DELTA, "add-remove") as ledger:
        ledger_workers.run(tmp_path, kills, address)
        ledger_workers.check(tmp_path, ledger, kills)


@pytest.mark.slow
def test_a_payment_reads_the_end_of_a_long_ledger_only(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = 2_000
    release = sketch(1e-5, 10)
    rows = []

    def counted(storage: Storage, statement: str, values: tuple = ()) -> list:
        found = query(storage, statement, values)
        rows.append(len(found))
        return found

    with Ledger.create(address, EPSILON, DELTA, "add-remove") as ledger:
        query = type(ledger._chain.storage).query
        ledger_workers.fill(ledger, release, releases)
        ledger.counts()  # which adds up, on a server, what was filled in behind the ledger's back
        monkeypatch.setattr(type(ledger._chain.storage), "query", counted)
        entry = ledger.spend(release, "toy")
        assert entry.number == releases + 1
        assert sum(rows) < 20
        rows.clear()
        with Ledger(address) as again:
            # Whoever can write a file can rewrite it; on a server all releases are added up.
            assert sum(rows) < 20 or releases < sum(rows) < 2 * releases + 20
            assert isinstance(address, str) == (sum(rows) > 20)
            monkeypatch.undo()
            assert again.verify() == releases + 1
