"""Files that are written or read by the program: nothing paid in vain, nothing printed raw."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from disks import full_beyond
from ndis import Ledger, Release
from ndis.cli import main
from ndis.cli.console import ExitCode

WORDS = (
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
    "--data-norm",
    "2",
    "--n-components",
    "50",
    "--header",
)
COLUMNS = ("--column", "A:age:0:120", "--column", "B:income:0:1e5")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = np.random.default_rng(0).uniform(0, 1, (100, 2))
    csv.write_csv(pa.table({"age": 100 * rows[:, 0], "dose": rows[:, 1]}), tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    return tmp_path


READ = "ndis: columns read: age, dose\n"


def released(capsys, out: str, *more: str) -> tuple[int, str, str]:
    words = ("projection", "t.csv", *WORDS, "--ledger", "budget", "--out", out, *more)
    return call(capsys, "release", *words)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("r.csv", "ends in .npz"),
        ("r", "ends in .npz"),
        ("nowhere/r.npz", "folder for the release"),
        ("/proc/r.npz", "/proc/r.npz"),
        ("t.csv", "ends in .npz"),
    ],
)
def test_a_wrong_place_costs_nothing(capsys, folder: Path, out: str, words: str) -> None:
    code, printed, error = released(capsys, out)
    assert (code, printed) == (ExitCode.WRONG_CALL, "")
    assert words in error
    assert error.count("\n") == 1
    assert Ledger("budget").history() == []


def test_a_full_disk_costs_nothing(capsys, folder: Path) -> None:
    with full_beyond(2**16):  # the ledger has its room, the release has not
        code, _, error = released(capsys, "r.npz", "--n-components", "5000")
    assert code == ExitCode.WRONG_CALL
    assert error == f"{READ}ndis: File too large: r.npz; check the path.\n"
    assert Ledger("budget").history() == []
    assert sorted(path.name for path in folder.iterdir() if "npz" in path.name) == []


def test_a_party_keeps_its_only_release(capsys, folder: Path) -> None:
    call(capsys, "party", "init", "--rows", "100", *COLUMNS, "--epsilon", "1", "--delta", "1e-6")
    Ledger.create("part", 1.0, 1e-6, "party").close()
    words = ("party", "release", "t.csv", "--party", "A", "--ledger", "part", "--out")
    for out in ("nowhere/A.npz", "A.csv"):
        assert call(capsys, *words, out)[0] == ExitCode.WRONG_CALL
    code, printed, _ = call(capsys, *words, "A.npz")
    assert code == ExitCode.DONE
    assert Release.load("A.npz").digest in printed


def test_an_interrupt_after_the_payment(capsys, folder: Path, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndis.mechanisms.publish._filled", interrupt)
    code, printed, error = released(capsys, "r.npz")
    assert (code, printed) == (ExitCode.INTERRUPTED, "")
    assert error == f"{READ}ndis: interrupted; release 1 is paid, nothing was written.\n"
    monkeypatch.setattr("ndis.mechanisms.projection.PrivateProjection._study", interrupt)
    code, _, error = released(capsys, "r.npz")
    assert (code, error) == (
        ExitCode.INTERRUPTED,
        f"{READ}ndis: interrupted; nothing was paid.\n",
    )


def test_an_interrupt_after_the_release(capsys, folder: Path, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndis.mechanisms.projection.PrivateProjection._finish", interrupt)
    code, _, error = released(capsys, "r.npz")
    assert code == ExitCode.INTERRUPTED
    assert error == f"{READ}ndis: interrupted; the release is written to r.npz.\n"


EARLY = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from ndis.cli import main
main(["demo"])
"""


def test_an_interrupt_while_the_program_starts() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stderr == "ndis: interrupted; nothing was paid.\n"


def test_a_warning_is_a_line(capsys, folder: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ndis.ledger.Ledger.complete", fail)
    code, printed, error = released(capsys, "r.npz")
    assert code == ExitCode.DONE
    assert Release.load("r.npz").digest in printed
    told = error.removeprefix(READ)
    assert told.startswith("ndis: Release 1 is paid and made, but the ledger could not record")
    assert told.count("\n") == 1


@pytest.mark.parametrize("name", ["dose [mg]", "dose [/mg]", "[bold]", ":smile:", "a\x1b[31mb"])
def test_names_are_printed_as_they_are(capsys, folder: Path, name: str) -> None:
    """In square brackets rich would see markup: the unit is swallowed, or the program ends."""
    rows = np.random.default_rng(0).uniform(0, 1, (100, 2))
    csv.write_csv(pa.table({"age": rows[:, 0], name: rows[:, 1]}), "named.csv")
    columns = ("--column", f"A:{name}:0:1", "--column", "B:age:0:1")
    budget = ("--epsilon", "9", "--delta", "1e-3")
    code, printed, _ = call(capsys, "party", "init", "--rows", "100", *columns, *budget)
    assert code == ExitCode.DONE
    shown = name.replace("\x1b", "\\x1b")
    assert shown in printed
    for party in "AB":
        Ledger.create(f"{party}.ledger", 9.0, 1e-3, "party").close()
        words = ("--party", party, "--ledger", f"{party}.ledger")
        call(capsys, "party", "release", "named.csv", *words)
    call(capsys, "party", "combine", "A.npz", "B.npz")
    code, printed, _ = call(capsys, "party", "train", "--label", "age")
    assert code == ExitCode.DONE
    assert shown in printed
    assert "\x1b" not in printed
    code, _, error = call(capsys, "party", "train", "--label", "\x1b[2J")
    assert code == ExitCode.WRONG_CALL
    assert "\x1b" not in error
