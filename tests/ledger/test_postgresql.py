"""What can happen to a ledger on a server: kills, restarts, lost answers, roles, other settings."""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ledger_workers
from ledger_places import BUDGET, RELEASE, Database
from ndis import Ledger
from ndis.ledger import DamagedLedger, OtherVersion
from ndis.ledger import storage as waiting
from ndis.ledger.modes import Planned
from ndis.ledger.postgresql import PostgreSQLSchema
from postgresql_server import Server

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def database(server: Server) -> Database:
    return Database(server)


@pytest.fixture
def ledger(database: Database) -> Iterator[Ledger]:
    with Ledger.create(database.new(), *BUDGET) as opened:
        yield opened


@pytest.fixture
def own_server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


# -- kills and restarts ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "restarts"), [(40, 1), pytest.param(200, 4, marks=pytest.mark.evidence)]
)
def test_nothing_is_overspent_or_lost(
    own_server: Server, tmp_path: Path, kills: int, restarts: int
) -> None:
    """Eight processes behind two pools are killed, and the server is cut off under load."""
    pools = [own_server.pool() for _ in range(2)]
    with Ledger.create(own_server.url, *BUDGET) as ledger, ThreadPoolExecutor() as pool:
        work = pool.submit(ledger_workers.run, tmp_path, kills, *pools)
        for restart in range(restarts):
            while (
                ledger_workers.noted(tmp_path).count("spent") < 60 * (restart + 1)
                and not work.done()
            ):
                time.sleep(0.01)
            own_server.stop(signal.SIGQUIT)
            own_server.start()
        work.result()
        ledger_workers.check(tmp_path, ledger, kills)


def cutting(when: str, cut: Callable[[PostgreSQLSchema, Callable[[], list]], bool]) -> Any:
    """Queries, of which `cut` may break the connection of those in a payment that start so."""
    query = PostgreSQLSchema.query
    paying = set()

    def broken(self: PostgreSQLSchema, statement: str, values: tuple = ()) -> list:
        if statement.startswith("BEGIN"):
            (paying.add if "LOCK" in statement else paying.discard)(self)
        matches = self in paying and statement.startswith(when)
        if matches and cut(self, lambda: query(self, statement, values)):
            self._db.close()
        return query(self, statement, values)

    return broken


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("when", ["BEGIN", "SELECT", "INSERT INTO state", "COMMIT"])
def test_a_lost_answer_is_looked_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, when: str, sent: bool
) -> None:
    ledger.spend(RELEASE, "before")
    losses = iter(range(3))

    def lose(_: PostgreSQLSchema, send: Callable[[], list]) -> bool:
        """Three times, before or after the server has heard of it."""
        lost = next(losses, None) is not None
        if lost and sent:
            send()
        return lost

    monkeypatch.setattr(PostgreSQLSchema, "query", cutting(when, lose))
    entry = ledger.spend(RELEASE, "under fire")
    assert next(losses, None) is None
    ledger.complete(entry, "abc")
    monkeypatch.undo()
    assert [each.digest for each in ledger.history()] == [None, "abc"]
    assert ledger.verify() == entry.number == 2


def test_a_twin_of_another_process_is_not_taken_for_ones_own(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two equal payments at one moment, of which one never reached the server."""
    monkeypatch.setattr("ndis.ledger.book._timestamp", lambda: "now")
    with Ledger(ledger.path) as twin:

        def lose(storage: PostgreSQLSchema, _: Callable[[], list]) -> bool:
            lost = storage is ledger._chain.storage and not twin.history()
            if lost:
                storage._db.close()
                twin.spend(RELEASE, "same")
            return lost

        monkeypatch.setattr(PostgreSQLSchema, "query", cutting("COMMIT", lose))
        assert ledger.spend(RELEASE, "same").number == 2
    assert ledger.verify() == 2


@pytest.mark.slow
def test_a_server_that_was_there_is_waited_for(
    ledger: Ledger, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(waiting, "_QUIET", 0.0)
    server.stop(signal.SIGQUIT)
    starting = threading.Timer(0.3, server.start)
    starting.start()
    assert ledger.spend(RELEASE, "toy").number == 1
    starting.join()
    assert capsys.readouterr().err.startswith("ndis: waiting for postgresql:///postgres#ledger_")


def test_a_held_ledger_is_waited_for(
    ledger: Ledger, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(waiting, "_QUIET", 0.0)
    monkeypatch.setattr(
        "ndis.ledger.postgresql._LOCK",
        "SET LOCAL lock_timeout = 20; LOCK TABLE state IN EXCLUSIVE MODE",
    )
    schema = os.fspath(ledger.path).partition("#")[2]
    with psycopg.connect(server.url) as other:
        other.execute(f"LOCK TABLE {schema}.state IN EXCLUSIVE MODE")
        assert ledger.history() == []  # a look waits for nobody
        with ThreadPoolExecutor() as pool:
            paying = pool.submit(ledger.spend, RELEASE, "toy")
            while "waiting" not in capsys.readouterr().err:
                time.sleep(0.01)
            assert not paying.done()
            other.rollback()
            assert paying.result().number == 1


# -- addresses and roles ---------------------------------------------------------------------------


def test_a_password_is_never_shown(ledger: Ledger, database: Database) -> None:
    assert "secret" in os.fspath(ledger.path)
    with pytest.raises(FileExistsError) as taken:
        Ledger.create(ledger.path, *BUDGET)
    with pytest.raises(FileNotFoundError) as missing:
        Ledger(database.new())
    path = (str(ledger.path), f"{ledger.path}", f"{[ledger.path]}")
    assert pickle.loads(pickle.dumps(ledger)).path == ledger.path  # all the same it opens
    for shown in (*path, repr(ledger), ledger._repr_html_(), str(taken.value), str(missing.value)):
        assert "secret" not in shown
    assert repr(ledger).startswith("Ledger('postgres#ledger_")


def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"for postgresql:///db#ndis, got no connection \("):
        Ledger(f"postgresql://user:secret@/db?host={tmp_path}")


def test_a_schema_has_a_plain_name(server: Server) -> None:
    with pytest.raises(ValueError, match="digits and _ after #, got something else"):
        Ledger(f"{server.url}#x y")


def test_psycopg_is_asked_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'ndis\[postgresql\]'"):
        Ledger(server.url)


def test_other_schemas_are_neither_opened_nor_adopted(server: Server) -> None:
    with pytest.raises(DamagedLedger, match="not a ledger"):
        Ledger(f"{server.url}#public")
    with pytest.raises(FileExistsError, match="which exists"):
        Ledger.create(f"{server.url}#public", *BUDGET)


def test_another_version_is_named(ledger: Ledger, database: Database) -> None:
    schema = os.fspath(ledger.path).partition("#")[2]
    database.edit(ledger.path, f"COMMENT ON SCHEMA {schema} IS 'ndis-ledger/3'")
    with pytest.raises(OtherVersion, match=r"format 2, got format 3 in .* that wrote it"):
        Ledger(ledger.path)


def as_role(ledger: Ledger, role: str) -> str:
    return os.fspath(ledger.path).replace("ndis:secret", role)


@pytest.fixture
def roles(ledger: Ledger, database: Database) -> str:
    """A clerk and an auditor with the rights that the documentation gives them; the schema."""
    schema = os.fspath(ledger.path).partition("#")[2]
    create = "DO $$ BEGIN CREATE ROLE {0} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    database.edit(
        ledger.path,
        *(create.format(role) for role in ("clerk", "auditor", "guest")),
        f"GRANT USAGE ON SCHEMA {schema} TO clerk, auditor",
        "GRANT SELECT ON events, state TO clerk, auditor",
        "GRANT INSERT ON events, state TO clerk",
        "GRANT UPDATE ON state TO clerk",
    )
    return schema


def test_roles_pay_or_look_as_they_may(ledger: Ledger, roles: str) -> None:
    with pytest.raises(OSError, match="no permission"):
        Ledger(as_role(ledger, "guest"))
    with Ledger(as_role(ledger, "auditor")) as audited:
        assert audited.verify() == 0
        with pytest.raises(OSError, match=r"no permission.*do not make the release"):
            audited.spend(RELEASE, "toy")
    with Ledger(as_role(ledger, "clerk")) as paid:
        assert paid.spend(RELEASE, "toy").number == 1
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        psycopg.connect(as_role(ledger, "clerk").partition("#")[0]) as db,
    ):
        db.execute(f"DELETE FROM {roles}.events")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"releases": 0},
        {"releases": 4},
        {"private": False},
        {"basis": "declared"},
    ],
)
def test_a_clerk_cannot_reset_the_totals(ledger: Ledger, roles: str, change: dict) -> None:
    """With a chain that fits, by an event of no kind and by the rights that a clerk needs."""
    for _ in range(3):
        ledger.spend(RELEASE, "toy")
    clerk = Ledger(as_role(ledger, "clerk"))
    fresh = {} if change else {"mode": clerk._rules().start()}

    def forge(state: dict) -> None:
        clerk._chain.append("note", 99, {}, state | fresh | change)

    clerk._chain.run(forge, write=True)
    for address in (ledger.path, as_role(ledger, "auditor"), as_role(ledger, "clerk")):
        with pytest.raises(DamagedLedger, match=r"not the sum|missing|promises more"):
            Ledger(address)
    for use in (ledger.remaining, lambda: ledger.spend(RELEASE, "toy"), clerk.remaining):
        with pytest.raises(DamagedLedger, match=r"not the sum|missing|promises more"):
            use()


def test_a_clerk_cannot_plan_beyond_the_budget(database: Database) -> None:
    with Ledger.create(database.new(), *BUDGET, mode="plan") as planned:
        large = Planned.of(9.0, 1e-6, [RELEASE] * 400)

        def forge(state: dict) -> None:
            body = {"time": "", "plan": large.to_list()}
            planned._chain.append("plan", 0, body, state | {"mode": large.start()})

        planned._chain.run(forge, write=True)
        for use in (planned.remaining, lambda: Ledger(planned.path)):
            with pytest.raises(DamagedLedger, match="its plan is more than its budget"):
                use()


def test_a_server_for_reading_only_is_said(ledger: Ledger) -> None:
    address, _, schema = os.fspath(ledger.path).partition("#")
    only = f"{address}&options=-cdefault_transaction_read_only%3Don#{schema}"
    with Ledger(only) as reading:
        assert reading.verify() == 0
        with pytest.raises(OSError, match="follows another"):
            reading.spend(RELEASE, "toy")


@pytest.mark.slow
def test_a_server_that_does_not_force_writes_is_refused(own_server: Server) -> None:
    own_server.stop()
    own_server.start("fsync=off")
    with pytest.raises(OSError, match="fsync = off"):
        Ledger.create(own_server.url, *BUDGET)
    own_server.stop()
    own_server.start()
    with pytest.raises(FileNotFoundError):
        Ledger(own_server.url)
