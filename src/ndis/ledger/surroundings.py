"""What lies around the file of a ledger, looked at before anything is opened.

SQLite believes what it finds beside a file: it plays a journal back into it, and reads a
write-ahead log in its place. So whoever can write the folder, or swap a folder on the way to it,
can put back a spent budget. As ssh does with its keys, a ledger is refused where others than its
owner and root can do that.

SQLite's locks hold among the processes that reach a file through one file system of one machine. So
file systems are used that are known to be such, and all others only by those who accept the risk.
FUSE is among the others, even on one machine: it shows a file under a second path, past its locks.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Local file systems whose locks every process of the machine sees, as Linux and macOS call them.
# "fuseblk" is FUSE that holds a disk for itself, such as ntfs-3g.
LOCAL = {
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "nilfs2", "reiserfs"),
    *("bcachefs", "overlay", "tmpfs", "ramfs", "vfat", "exfat", "ntfs3", "fuseblk", "apfs", "hfs"),
}
JOURNAL, _LOGS = "-journal", ("-wal", "-shm")
# How a journal begins: with these bytes, or zeros until it is complete.
_MAGIC = bytes.fromhex("d9d505f920a163d7")


def check_name(path: Path) -> None:
    """Refuse a name that SQLite uses for what belongs to another file."""
    for ending in (JOURNAL, *_LOGS):
        if path.name.lower().endswith(ending):
            raise OSError(
                f"Expected another name for a ledger, got {path}: SQLite deletes such files, as "
                f"parts of {path.name[: -len(ending)]!r}; rename it."
            )


def check_folders(path: Path) -> None:
    """Refuse a file, there or not, that others than its owner and root could change or replace."""
    if not hasattr(os, "geteuid"):  # Windows, whose permissions are not in the mode
        return
    trusted, home = _trusted(), path.resolve().parent.stat()
    if path.exists():
        trusted.add(path.stat().st_uid)
    for entry in dict.fromkeys(_way(path)):
        try:
            found = entry.lstat()
        except FileNotFoundError:
            continue
        if found.st_uid not in trusted:
            raise _unsafe(entry, f"belongs to user {found.st_uid}")
        shared = not stat.S_ISLNK(found.st_mode) and _shared(entry, found)
        # Where the sticky bit is set others can add files, but not replace ours.
        sticky = found.st_mode & stat.S_ISVTX and not os.path.samestat(found, home)
        if shared and not sticky:
            raise _unsafe(entry, "others can write")


def check_companions(path: Path, *, write: bool = True) -> None:
    """Refuse what lies beside a file and is no journal of its owner's.

    A file that cannot be written has no use for a journal, and SQLite says so itself.
    """
    for ending in _LOGS:
        if os.path.lexists(log := _beside(path, ending)):
            raise _planted(log, "no ledger has")
    journal = _beside(path, JOURNAL)
    try:
        found = journal.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise _planted(journal, "is no file of its own")
    if write and hasattr(os, "geteuid"):
        if found.st_uid not in _trusted() | {path.stat().st_uid}:
            raise _planted(journal, f"belongs to user {found.st_uid}")
        if not _is_journal(journal):
            raise _planted(journal, "is no journal")


def journal_of(path: Path) -> Path:
    """Where SQLite keeps the journal of a file."""
    return _beside(path.resolve(), JOURNAL)


def mounted(path: Path) -> tuple[int, str]:
    """A number that tells mounts apart, and the type of the file system of a path.

    The type is "unknown" where the system does not say it.
    """
    if not sys.platform.startswith("linux"):
        device = path.stat().st_dev
        listed = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False).stdout
        return device, listed_kind(listed, device)
    descriptor = os.open(path, os.O_PATH)  # so that closing it ends no lock of SQLite's
    try:
        told = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return 0, "unknown"
    finally:
        os.close(descriptor)
    number = re.search(r"^mnt_id:\s*(\d+)$", told, re.MULTILINE)
    return (int(number[1]), mount_kind(mounts, int(number[1]))) if number else (0, "unknown")


def mount_kind(mounts: str, number: int) -> str:
    """The type of the file system of a mount, in the mountinfo of Linux."""
    found = re.search(rf"^{number} .* - (\S+)", mounts, re.MULTILINE)
    return found[1] if found else "unknown"


def listed_kind(listed: str, device: int) -> str:
    """The type of the file system on a device, in what the `mount` of macOS prints."""
    for point, kind in re.findall(r"^.+? on (.+) \((\w+)", listed, re.MULTILINE):
        if os.path.exists(point) and os.stat(point).st_dev == device:
            return str(kind)
    return "unknown"


# -- inside ----------------------------------------------------------------------------------


def _way(path: Path) -> Iterator[Path]:
    """Every folder and symbolic link on the way to a file, and the file."""
    passed = Path(path.anchor)
    yield passed
    for part in path.parts[1:]:
        passed /= part
        yield passed
        if passed.is_symlink():
            yield from _way(passed.parent / os.readlink(passed))
            passed = passed.resolve()


def _trusted() -> set[int]:
    """Ourselves and root, who may be nobody inside a user namespace."""
    trusted = {0, os.geteuid()}
    try:
        ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if all(int(outside) > 0 for _, outside, _ in ranges):
            trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    except OSError:  # not Linux
        pass
    return trusted


def _shared(entry: Path, found: os.stat_result) -> bool:
    """Whether others than its owner and root can write it."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _alone_in_group(entry, found)


def _alone_in_group(entry: Path, found: os.stat_result) -> bool:
    """Whether nobody else is in its group, such as in the groups that systems give each user."""
    import grp
    import pwd

    try:
        os.getxattr(entry, "system.posix_acl_access")
        return False  # the group's rights stand for those of whoever is listed there
    except (OSError, AttributeError):
        pass
    try:
        members = set(grp.getgrgid(found.st_gid).gr_mem)
    except KeyError:
        return True  # nobody's group, as containers have for their volumes
    users = pwd.getpwall()
    members |= {user.pw_name for user in users if user.pw_gid == found.st_gid}
    ours = {user.pw_name for user in users if user.pw_uid in (0, os.geteuid(), found.st_uid)}
    return bool(members) and members <= ours


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def _is_journal(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:  # a payment was completed meanwhile
        return True
    return _MAGIC.startswith(head) or not any(head)


def _unsafe(entry: Path, why: str) -> OSError:
    return OSError(
        f"Expected a ledger that only you and root can replace, got {entry} on the way to it, "
        f"which {why}: a spent budget could be put back; keep the ledger in a folder of your own "
        "(chmod go-w), or on a PostgreSQL server."
    )


def _planted(companion: Path, why: str) -> OSError:
    return OSError(
        f"Expected no more than a journal of its owner's beside a ledger, got {companion}, which "
        f"{why}: SQLite would believe it; find out who put it there, and move it away."
    )
