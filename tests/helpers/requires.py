"""What some tests need from the machine: skipped where it is missing, but never in CI."""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest


def require_java() -> None:
    """Go on only where Spark can start."""
    java = shutil.which("java")
    if java is None or subprocess.run([java, "-version"], capture_output=True).returncode != 0:
        _missing("Java", "install a Java runtime, for instance default-jre-headless")


def require_chromium() -> str:
    """Go on only where there is a browser, and return its path."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    _missing("Chromium", "install the package chromium")


def require_chromedriver() -> str:
    """Go on only where a browser can be driven, and return the driver's path."""
    if path := shutil.which("chromedriver"):
        return path
    _missing("chromedriver", "install the package chromium-driver")


def require_postgresql() -> Path:
    """Go on only where there is a PostgreSQL server, and return the folder of its programs."""
    debian = ":".join(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    if found := shutil.which("initdb", path=f"{os.environ.get('PATH', '')}:{debian}"):
        return Path(found).resolve().parent
    _missing("PostgreSQL", "install the package postgresql")


def require_pgbouncer() -> Path:
    """Go on only where there is PgBouncer, and return its path."""
    if found := shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        return Path(found)
    _missing("PgBouncer", "install the package pgbouncer")


def require_mounts() -> None:
    """Go on only where this user may mount inside a namespace of its own (Linux)."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        _missing("a mount namespace", "run as root, or allow user namespaces")


def require_bindfs() -> None:
    """Go on only where a folder can be mounted a second time by FUSE.

    A kernel without FUSE, as some containers have, is no fault of whoever set up the machine.
    """
    if shutil.which("bindfs") is None:
        _missing("bindfs", "install the package bindfs")
    require_mounts()
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"This machine lends no /dev/fuse ({error.strerror}).")


def _missing(what: str, remedy: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this test, but {what} is missing; {remedy}.")
    pytest.skip(f"{what} is missing; {remedy}.")


def what_is_missing(reasons: Iterable[str]) -> list[str]:
    """A line for each thing that tests were skipped for, most tests first."""
    found = Counter(
        told[1] for reason in reasons if (told := re.search(r"([^:]* is missing; .*)\.$", reason))
    )
    return [f"{n} skipped: {told.strip()}" for told, n in found.most_common()]
