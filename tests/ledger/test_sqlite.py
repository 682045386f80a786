"""A ledger in a file: copies, crashes, other files in its place, and waiting for others."""

import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from ledger_places import BUDGET, RELEASE
from ledger_workers import killed_in_mid_payment
from ndis import Ledger
from ndis.ledger import DamagedLedger, OtherVersion
from ndis.ledger import storage as waiting


def test_a_crash_in_mid_payment_is_undone(path: Path) -> None:
    before = path.read_bytes()
    killed_in_mid_payment(path)
    assert path.read_bytes() != before
    with Ledger(path) as ledger:
        assert ledger.verify() == 3
        assert ledger.spend(RELEASE, "toy").number == 4


def test_a_file_without_its_journal_is_not_believed(path: Path) -> None:
    killed_in_mid_payment(path)
    alone = path.with_name("alone")
    shutil.copy(path, alone)
    with pytest.raises(DamagedLedger):
        Ledger(alone)


def test_a_journal_that_was_left_behind_is_not_adopted(path: Path) -> None:
    killed_in_mid_payment(path)
    path.rename(path.with_name("away"))
    with pytest.raises(FileExistsError, match="which exists"):
        Ledger.create(path, *BUDGET)


def test_the_file_is_whole_after_each_payment(path: Path) -> None:
    with Ledger(path) as ledger:
        for number in range(4, 20):
            ledger.spend(RELEASE, "toy")
            assert os.listdir(path.parent) == ["ledger"]
            copied = path.with_name("copy")
            shutil.copy(path, copied)
            assert Ledger(copied).verify() == number
            copied.unlink()


@pytest.mark.parametrize("content", [b"", b"My budget is 3.", bytes(5000), b"SQLite format 3\0"])
def test_what_is_no_ledger_is_neither_opened_nor_adopted(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DamagedLedger, match=r"empty|not a ledger; name the right one"):
        Ledger(path)
    with pytest.raises(FileExistsError):
        Ledger.create(path, *BUDGET)
    assert path.read_bytes() == content


def test_an_emptied_ledger_is_noticed_by_a_process_at_work(path: Path) -> None:
    with Ledger(path) as ledger:
        os.truncate(path, 0)
        with pytest.raises(DamagedLedger):
            ledger.spend(RELEASE, "toy")
    assert path.stat().st_size == 0


def test_a_file_put_back_is_noticed_by_a_process_at_work(path: Path) -> None:
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    with Ledger(path) as ledger:
        ledger.spend(RELEASE, "toy")
        ledger.close()
        shutil.copy(backup, path)
        with pytest.raises(DamagedLedger, match="gone"):
            ledger.spend(RELEASE, "toy")


@pytest.mark.parametrize("again", [False, True])
def test_a_replaced_file_is_noticed_by_a_process_at_work(path: Path, again: bool) -> None:
    with Ledger(path) as ledger:
        ledger.remaining()
        content = path.read_bytes()
        path.rename(path.with_name("away"))
        if again:
            path.write_bytes(content)
        with pytest.raises(DamagedLedger, match="replaced"):
            ledger.spend(RELEASE, "toy")


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def test_another_version_is_named(path: Path) -> None:
    edit(path, "PRAGMA user_version = 1")
    with pytest.raises(OtherVersion, match=r"format 2, got format 1 in .* that wrote it"):
        Ledger(path)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("PRAGMA application_id = 7", "not a ledger"),
        ("PRAGMA journal_mode = WAL", "journal is of another kind"),
        ("ALTER TABLE events ADD COLUMN remark TEXT", "tables were changed"),
        ("CREATE VIEW more AS SELECT 1", "tables were changed"),
        ("CREATE TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END", "tables were changed"),
        ("UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE number = 2", "corrupt"),
        ("UPDATE events SET body = x'ff' WHERE number = 2", "not one that ndis writes"),
        ("UPDATE events SET release = 1.5 WHERE number = 2", "not one that ndis writes"),
    ],
)
def test_each_change_has_its_own_sentence(path: Path, statement: str, why: str) -> None:
    edit(path, statement)
    with pytest.raises(DamagedLedger, match=why) as damage:
        Ledger(path).verify()
    assert "guarantee" not in str(damage.value)


def test_a_view_in_the_place_of_a_table_is_not_read(path: Path) -> None:
    edit(
        path,
        "ALTER TABLE events RENAME TO kept",
        "CREATE VIEW events AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS number, '' AS kind, 0 AS release, '' AS body, '' AS state, '' AS hash FROM n",
    )
    with pytest.raises(DamagedLedger, match="tables were changed"):
        Ledger(path)


def test_a_corrupt_file_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(200, len(content), 97):
        content[place] ^= 0x5A
    path.write_bytes(content)
    with pytest.raises(DamagedLedger):
        Ledger(path).verify()


@pytest.mark.parametrize("write", [True, False])
def test_a_held_ledger_is_waited_for_aloud(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    monkeypatch.setattr(waiting, "_QUIET", 0.05)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    told = threading.Event()

    def let_go() -> None:
        told.wait(30)
        other.execute("ROLLBACK")

    def pause(self: waiting.Waiting, real=waiting.Waiting.pause) -> None:
        real(self)
        if self._told:
            told.set()

    monkeypatch.setattr(waiting.Waiting, "pause", pause)
    holder = threading.Thread(target=let_go)
    holder.start()
    with Ledger(path) as ledger:
        assert (ledger.spend(RELEASE, "toy").number if write else ledger.verify()) in (3, 4)
    holder.join()
    other.close()
    assert capsys.readouterr().err == f"ndis: waiting for {path}, which others hold ...\n"


def test_waiting_has_an_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TimeoutError, match=r"Waited 0.05 s for .*; do not make the release"):
        Ledger(path)
    other.execute("ROLLBACK")
    other.close()
    assert Ledger(path).verify() == 3
