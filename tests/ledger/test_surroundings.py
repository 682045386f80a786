"""What can happen to the file of a ledger: links, mounts, full disks, copies, edits."""

import grp
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from ledger_places import BUDGET, RELEASE
from ledger_workers import killed_in_mid_payment
from ndis import Guarantee, Ledger, Profile, QuadraticLoss
from ndis.ledger import surroundings
from requires import require_bindfs, require_mounts

STRANGER = 65534


def in_namespace(script: str, *words: object) -> None:
    """Run a shell script where it may mount; `ledger` in it runs Python with a few names."""
    require_mounts()
    prelude = (
        "import os, sys; from pathlib import Path; from ndis import *; "
        "from test_surroundings import *; "
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
        mount -t tmpfs -o size=200k,mode=700 none "$1"; cd "$1"
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


@pytest.mark.parametrize(
    "kind",
    ["nfs4", "cifs", "lustre", "ceph", "9p", "fuse.sshfs", "fuse", "virtiofs", "new", "unknown"],
)
def test_file_systems_that_are_not_known_to_be_local_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    killed_in_mid_payment(path)
    before = path.read_bytes()
    monkeypatch.setattr(surroundings, "mounted", lambda _: (1, kind))
    with pytest.raises(OSError, match="half a payment that must be undone on a local disk"):
        Ledger(path)
    assert path.read_bytes() == before  # which others may be in the midst of
    monkeypatch.undo()
    Ledger(path).close()
    monkeypatch.setattr(surroundings, "mounted", lambda _: (1, kind))
    with pytest.raises(OSError, match=f"type {kind} .*postgresql://.*accept=\\['network'\\]"):
        Ledger(path)
    other = path.with_name("other")
    with pytest.raises(OSError, match="processes may not see each other's locks"):
        Ledger.create(other, *BUDGET)
    assert not other.exists()
    with Ledger.create(other, *BUDGET, accept=["network"]) as ledger:
        ledger.spend(RELEASE, "toy")
    with Ledger(other) as ledger:
        assert ledger.accept == ("network",)
        assert ledger.spend(RELEASE, "toy").number == 2


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "fuseblk"])
def test_local_file_systems_are_not(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(surroundings, "mounted", lambda _: (1, kind))
    assert Ledger(path).verify() == 3


def test_the_type_of_a_file_system_is_read_from_what_the_system_says(tmp_path: Path) -> None:
    linux = (
        "29 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "63 29 0:39 / /tmp/a\\040b rw,nosuid,nodev shared:1 - fuse /tmp/bt/a rw,user_id=0\n"
        "64 63 0:40 / /tmp/a\\040b/c rw - fuse.sshfs me@host:/ rw\n"
    )
    kinds = [surroundings.mount_kind(linux, number) for number in (29, 63, 64, 6)]
    assert kinds == ["ext4", "fuse", "fuse.sshfs", "unknown"]
    macos = (
        "map auto_home on /nowhere/home (autofs, automounted, nobrowse)\n"
        f"/dev/disk3s5 on {tmp_path} (apfs, local, journaled, nobrowse)\n"
    )
    device = tmp_path.stat().st_dev
    assert surroundings.listed_kind(macos, device) == "apfs"
    assert surroundings.listed_kind(macos, device + 1) == "unknown"


@pytest.mark.slow
def test_the_type_of_a_real_mount_is_seen(tmp_path: Path) -> None:
    """Also of one that hides another."""
    in_namespace(
        """
        cd "$1"; mkdir "a b"; mount -t tmpfs none "a b"; mkdir "a b/c"
        mount -t ramfs none "a b/c"; touch "a b/x" "a b/c/y"
        mkdir d; mount -t tmpfs none d; mkdir d/e; mount -t ramfs none d/e
        mount --bind . d; mkdir d/e; touch d/e/z
        ledger 'from ndis.ledger.surroundings import mounted; \
            kinds = [mounted(Path(name))[1] for name in ("a b/x", "a b/c/y", "d/e/z")]; \
            assert kinds == ["tmpfs", "ramfs", mounted(Path("."))[1]], kinds'
        """,
        tmp_path,
    )


@pytest.mark.slow
def test_a_folder_that_is_mounted_again_by_fuse_is_refused(path: Path) -> None:
    """Its locks are not those of the folder: 1.6 of 1.0 could be spent."""
    require_bindfs()
    in_namespace(
        """
        cd "$1"; mkdir -m 700 "$2"; bindfs --no-allow-other . "$2"
        ledger 'refused(Path(sys.argv[1]) / "ledger", "of type fuse")' "$2"
        ledger 'pytest.raises(OSError, Ledger.create, sys.argv[1] + "/new", *BUDGET)' "$2"
        umount "$2"
        """,
        path.parent,
        path.parent.with_name(f"{path.parent.name}-again"),
    )
    assert os.listdir(path.parent) == ["ledger"]
    assert Ledger(path).verify() == 3


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


@contextmanager
def owned_by_another(*paths: Path) -> Iterator[None]:
    """Only root can give files away; others take part of the tests as if they were root."""
    if os.geteuid() != 0:
        pytest.skip("Only root can give a file to another user.")
    for path in paths:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    yield


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o772])
def test_a_folder_that_others_can_write_is_refused(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    refused(path, "which others can write: a spent budget could be put back")
    with pytest.raises(OSError, match="others can write"):
        Ledger.create(path.with_name("new"), *BUDGET)
    assert os.listdir(path.parent) == ["ledger"]
    path.parent.chmod(0o755)
    assert Ledger(path).verify() == 3


def test_a_planted_journal_brings_no_budget_back(path: Path) -> None:
    """The attack: whoever can write the folder leaves the way back to a fresh ledger in it."""
    fresh, plant = path.with_name("fresh"), path.with_name("ledger-journal")
    with Ledger.create(fresh, 100.0, 1e-6, "add-remove"):
        pass
    killed_in_mid_payment(fresh)
    shutil.move(fresh.with_name("fresh-journal"), plant)
    path.parent.chmod(0o1777)
    before = path.read_bytes()
    refused(path, "others can write")
    path.parent.chmod(0o700)
    with owned_by_another(plant):
        refused(path, f"ledger-journal, which belongs to user {STRANGER}")
    assert path.read_bytes() == before


def test_a_folder_on_the_way_that_others_can_write_is_refused(path: Path) -> None:
    """They could put another in its place; not so under a sticky bit."""
    inner = path.parent / "on" / "the" / "way"
    inner.mkdir(parents=True)
    Ledger.create(inner / "ledger", *BUDGET).close()
    (path.parent / "on").chmod(0o777)
    refused(inner / "ledger", "/on on the way to it, which others can write")
    (path.parent / "on").chmod(0o1777)
    assert Ledger(inner / "ledger").verify() == 0
    link = path.parent / "link"
    link.symlink_to(inner)
    (path.parent / "on").chmod(0o777)
    refused(link / "ledger", "others can write")


def test_a_folder_or_link_of_another_user_is_refused(path: Path) -> None:
    folder = path.parent / "theirs"
    folder.mkdir()
    (folder / "link").symlink_to(path)
    with owned_by_another(folder / "link"):
        refused(folder / "link", f"link on the way to it, which belongs to user {STRANGER}")
    with owned_by_another(folder), pytest.raises(OSError, match=f"belongs to user {STRANGER}"):
        Ledger.create(folder / "new", *BUDGET)


def test_root_may_use_a_users_ledger(path: Path) -> None:
    with owned_by_another(path, path.parent):
        assert Ledger(path).spend(RELEASE, "toy").number == 4
    killed_in_mid_payment(path)
    assert path.with_name("ledger-journal").stat().st_uid == STRANGER
    assert Ledger(path).verify() == 4


def test_a_file_that_others_can_write_is_refused(path: Path) -> None:
    path.chmod(0o666)
    refused(path, "ledger on the way to it, which others can write")


def test_a_group_of_ones_own_may_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems where each user has a group, and everything is made for it."""
    path.parent.chmod(0o775)
    own = grp.struct_group(("me", "x", path.parent.stat().st_gid, []))
    user = pwd.getpwuid(os.geteuid())
    me = pwd.struct_passwd((user.pw_name, "x", user.pw_uid, own.gr_gid, "", "/", "/bin/sh"))
    other = pwd.struct_passwd(("other", "x", STRANGER, own.gr_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: own)
    monkeypatch.setattr(pwd, "getpwall", lambda: [me])
    assert Ledger(path).verify() == 3
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, other])
    refused(path, "others can write")
    monkeypatch.setattr(pwd, "getpwall", lambda: [me])
    own = grp.struct_group((*own[:3], ["other"]))
    refused(path, "others can write")
    own = grp.struct_group((*own[:3], []))
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", f"u:{STRANGER}:rwx", path.parent], check=True)
        refused(path, "others can write")


# -- what lies beside it ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_a_log_beside_it_is_refused(path: Path, ending: str) -> None:
    """SQLite reads what such a file says in the place of the ledger."""
    path.with_name(f"ledger{ending}").touch()
    refused(path, f"got .*ledger{ending}, which no ledger has")
    path.chmod(0o400)
    refused(path, f"got .*ledger{ending}, which no ledger has")
    path.unlink()
    with pytest.raises(OSError, match=f"got .*ledger{ending}, which no ledger has"):
        Ledger.create(path, *BUDGET)


def test_a_journal_is_a_file_of_its_own(path: Path) -> None:
    killed_in_mid_payment(path)
    journal, kept = path.with_name("ledger-journal"), path.with_name("kept")
    os.link(journal, kept)
    refused(path, "ledger-journal, which is no file of its own")
    journal.unlink()
    journal.symlink_to(kept)
    refused(path, "ledger-journal, which is no file of its own")
    journal.unlink()
    kept.rename(journal)
    assert Ledger(path).verify() == 3


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_ledger_is_not_called_as_sqlite_calls_parts_of_another(path: Path, ending: str) -> None:
    """Opening `study` would delete `study-journal`."""
    other = path.with_name(f"study{ending}")
    for use in (lambda: Ledger.create(other, *BUDGET), lambda: Ledger(path.rename(other))):
        with pytest.raises(OSError, match=r"another name .* parts of 'study'; rename it"):
            use()
    link = path.with_name("link")
    link.symlink_to(other)
    with pytest.raises(OSError, match="another name"):
        Ledger(link)


def test_a_ledger_in_the_place_of_a_journal_is_kept(path: Path) -> None:
    other = path.with_name("ledger-journal")
    shutil.copy(path, other)
    refused(path, "ledger-journal, which is no journal")
    assert other.exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, stranger: None) -> None:
    for folder in (Path("/"), tmp_path / "missing"):
        with pytest.raises(OSError, match=r"Cannot create the ledger at .*; choose another folder"):
            Ledger.create(folder / "ledger.ndis", *BUDGET)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="found none"):
        Ledger(tmp_path)
