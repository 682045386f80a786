"""What can happen to the file of a ledger: links, mounts, full disks, copies, edits."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ndis import Guarantee, Ledger, Profile, QuadraticLoss
from ndis.ledger import DamagedLedger, OtherVersion
from ndis.ledger import storage as waiting
from requires import require_mounts

BUDGET = (1.0, 1e-6, "add-remove")
RELEASE = Guarantee(1.0, 0.1, "add-remove", "proven", Profile.both(QuadraticLoss.from_shift(0.05)))


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


def in_namespace(script: str, *words: object) -> None:
    """Run a shell script where it may mount; `ledger` in it runs Python with a few names."""
    require_mounts()
    prelude = (
        "import os, sys; from pathlib import Path; from ndis import *; "
        "from test_ledger_files import *; "
    )
    shell = f"set -e; ledger() {{ {sys.executable} -c '{prelude}'\"$@\"; }}; {script}"
    command = ["unshare", "-rm", "sh", "-c", shell, "sh", *map(str, words)]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr


# -- one name ------------------------------------------------------------------------------------


def test_a_file_with_two_names_is_refused_under_both(path: Path) -> None:
    other = path.with_name("elsewhere")
    with Ledger(path) as ledger:
        os.link(path, other)
        for use in (lambda: Ledger(path), lambda: Ledger(other), ledger.remaining):
            with pytest.raises(OSError, match=r"one name, got .* 2 \(hard links\)"):
                use()
        other.unlink()
        assert ledger.verify() == 3


def test_a_symbolic_link_leads_to_the_same_journal(path: Path) -> None:
    other = path.with_name("folder")
    other.mkdir()
    (other / "ledger").symlink_to(path)
    killed_in_mid_payment(path)
    with Ledger(other / "ledger") as ledger:
        assert ledger.verify() == 3
    assert not path.with_name("ledger-journal").exists()


@pytest.mark.slow
def test_a_file_that_is_mounted_alone_is_refused(path: Path) -> None:
    in_namespace(
        """
        cd "$1"; mkdir container; touch container/budget; mount --bind ledger container/budget
        ledger 'refused(Path("container/budget"), "mounted by itself")'
        mkdir whole; mount --bind . whole
        ledger 'Ledger("whole/ledger").spend(RELEASE, "by its folder")'
        """,
        path.parent,
    )
    with Ledger(path) as ledger:
        assert ledger.verify() == 4


def refused(path: Path, why: str) -> None:
    with pytest.raises(OSError, match=why):
        Ledger(path)


# -- the disk ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_full_disk_refuses_payments_and_loses_none(tmp_path: Path) -> None:
    in_namespace(
        """
        mount -t tmpfs -o size=200k none "$1"; cd "$1"
        ledger 'fill_the_disk(Path("ledger"))'
        """,
        tmp_path,
    )


def pay_for_ever(ledger: Ledger, release: Guarantee) -> None:
    for number in count(len(ledger.history()) + 1):
        assert ledger.spend(release, "toy").number == number


def fill_the_disk(path: Path) -> None:
    """Pay until there is no room, make room, go on; also when there is none from the start."""
    large = Guarantee(
        1.0, 0.1, "add-remove", "proven", Profile([QuadraticLoss([0.0] * 600, [1e-9] * 600, 0.0)])
    )
    ballast = path.with_name("ballast")
    with Ledger.create(path, *BUDGET) as ledger:
        paid = 0
        for room in (60_000, 30_000, 0):
            ballast.write_bytes(bytes(room))
            with pytest.raises(OSError, match=r"full disk; do not make the release"):
                pay_for_ever(ledger, large)
            paid, before = len(ledger.history()), paid
            assert ledger.verify() == paid > before
            assert Ledger(path).verify() == paid
    with open(ballast, "ab") as file, pytest.raises(OSError, match="No space"):
        file.write(bytes(1 << 20))
    with pytest.raises(OSError, match=r"full disk|Cannot create the ledger"):
        Ledger.create(path.with_name("another"), *BUDGET)
    assert not path.with_name("another").exists()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "lustre", "ceph", "9p", "fuse.sshfs", "virtiofs"])
def test_network_file_systems_are_refused_by_their_type(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("ndis.ledger.sqlite._mounted", lambda _: (False, kind))
    with pytest.raises(OSError, match=f"type {kind} .*postgresql://.*accept=\\['network'\\]"):
        Ledger(path)
    other = path.with_name("other")
    with pytest.raises(OSError, match="two machines could overspend"):
        Ledger.create(other, *BUDGET)
    assert not other.exists()
    with Ledger.create(other, *BUDGET, accept=["network"]) as ledger:
        ledger.spend(RELEASE, "toy")
    assert Ledger(other).accept == ("network",)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk"])
def test_local_file_systems_are_not(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("ndis.ledger.sqlite._mounted", lambda _: (False, kind))
    assert Ledger(path).verify() == 3


@pytest.mark.slow
def test_the_type_of_a_real_mount_is_seen(tmp_path: Path) -> None:
    in_namespace(
        """
        cd "$1"; mkdir "a b" "a b/c"; mount -t tmpfs none "a b"; mkdir "a b/c"
        mount -t ramfs none "a b/c"; touch "a b/x" "a b/c/y"
        ledger 'from ndis.ledger.sqlite import _mounted; place = Path("a b").absolute(); \
            assert _mounted(place / "x") == (False, "tmpfs"), _mounted(place / "x"); \
            assert _mounted(place / "c/y") == (False, "ramfs"); \
            assert _mounted(place / "c") == (True, "ramfs")'
        """,
        tmp_path,
    )


# -- permissions -----------------------------------------------------------------------------------


def test_nobody_else_may_read_it(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    killed_in_mid_payment(path)
    assert stat.S_IMODE(path.with_name("ledger-journal").stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_ledger_on_read_only_media_can_be_verified(path: Path) -> None:
    in_namespace(
        """
        cd "$1"; mount --bind . .; mount -o remount,bind,ro .; cd .; cd "$1"
        ledger 'read_only(Path("ledger"))'
        """,
        path.parent,
    )


def read_only(path: Path) -> None:
    ledger = Ledger(path)
    assert ledger.verify() == len(ledger.history()) == 3
    assert ledger.would_allow(RELEASE)
    with pytest.raises(OSError, match="a file that cannot be written; do not make the release"):
        ledger.spend(RELEASE, "toy")
    with pytest.raises(OSError, match=r"Cannot create the ledger at .*: Read-only file system"):
        Ledger.create(path.with_name("another"), *BUDGET)


@pytest.mark.slow
def test_half_a_payment_on_read_only_media_is_said(path: Path) -> None:
    killed_in_mid_payment(path)
    in_namespace(
        """
        cd "$1"; mount --bind . .; mount -o remount,bind,ro .; cd .; cd "$1"
        ledger 'refused(Path("ledger"), "half a payment that must be undone")'
        """,
        path.parent,
    )
    assert Ledger(path).verify() == 3


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, stranger: None) -> None:
    for folder in (Path("/"), tmp_path / "missing"):
        with pytest.raises(OSError, match=r"Cannot create the ledger at .*; choose another folder"):
            Ledger.create(folder / "ledger.ndis", *BUDGET)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="found none"):
        Ledger(tmp_path)


# -- copies and crashes ----------------------------------------------------------------------------


def killed_in_mid_payment(path: Path) -> None:
    """Leave a file half written, with the journal that undoes it."""
    program = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA cache_size = 1'); db.execute('PRAGMA cache_spill = 1')\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "db.execute('DELETE FROM events')\n"
        "for number in range(500):\n"
        "    db.execute('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)',"
        " (number, 'x', number, 'y' * 9999, '', ''))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path])
    assert done.returncode == -signal.SIGKILL
    assert path.with_name(f"{path.name}-journal").stat().st_size > 1000


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
    with pytest.raises(DamagedLedger, match=r"empty|corrupt|not a ledger"):
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


# -- other versions, other tables, flipped bits ----------------------------------------------------


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
        Ledger(path)
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


# -- waiting -------------------------------------------------------------------------------------


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
