import json
import sqlite3
from pathlib import Path

import pytest

from ndis import Guarantee, Ledger, Profile, QuadraticLoss
from ndis.cli import main
from ndis.cli.console import ExitCode


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the program as a user would and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger with two releases, one of them completed."""
    loss = Profile.both(QuadraticLoss.from_shift(0.1))
    with Ledger.create(tmp_path / "ledger", 1.0, 1e-6, "replace") as ledger:
        ledger.complete(ledger.spend(Guarantee(0.5, 1e-6, "replace", "proven", loss), "one"), "ab")
        ledger.spend(Guarantee(0.01, 0.0, "replace", "proven"), "two")
    return str(ledger.path)


def test_init_starts_a_ledger_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("ledger", "init", str(tmp_path / "new"), "--epsilon", "2", "--delta", "1e-5")
    words += ("--relation", "edge", "--mode", "plan", "--accept", "relative")
    code, out, _ = call(capsys, *words)
    assert (code, out.split("(")[0]) == (ExitCode.DONE, "Ledger")
    ledger = Ledger(tmp_path / "new")
    assert (ledger.epsilon, ledger.delta, ledger.relation) == (2.0, 1e-5, "edge")
    assert (ledger.mode, ledger.accept) == ("plan", ("relative",))
    code, _, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert "which exists" in err


def test_show_tells_what_is_left(capsys: pytest.CaptureFixture[str], path: str) -> None:
    code, out, _ = call(capsys, "ledger", "show", path, "--json")
    answer = json.loads(out)
    assert code == ExitCode.DONE
    assert (answer["releases"], answer["completed"], answer["mode"]) == (2, 1, "adaptive")
    assert answer["remaining_epsilon"] == Ledger(path).remaining().epsilon
    _, out, _ = call(capsys, "ledger", "show", path)
    assert "2, 1 with an output" in out
    assert ": (1, 1e-06)-differentially private" in out


def test_show_draws(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "burn-down.png"
    assert call(capsys, "ledger", "show", path, "--plot", str(picture))[0] == ExitCode.DONE
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_history_lists_releases(capsys: pytest.CaptureFixture[str], path: str) -> None:
    _, out, _ = call(capsys, "ledger", "history", path, "--json")
    releases = json.loads(out)["releases"]
    assert [(r["number"], r["mechanism"], r["digest"]) for r in releases] == [
        (1, "one", "ab"),
        (2, "two", None),
    ]
    assert [Guarantee.from_dict(r["guarantee"]) for r in releases] == [
        entry.guarantee for entry in Ledger(path).history()
    ]
    _, out, _ = call(capsys, "ledger", "history", path)
    assert [row.split()[-1] for row in out.splitlines() if row.strip()][-2:] == ["ab", "none"]


def test_verify_fails_on_an_edited_file(capsys: pytest.CaptureFixture[str], path: str) -> None:
    code, out, _ = call(capsys, "ledger", "verify", path)
    assert (code, out) == (ExitCode.DONE, "2 releases, all in order and within the budget.\n")
    _, out, _ = call(capsys, "ledger", "verify", path, "--json")
    assert json.loads(out) == {"verified": True, "releases": 2}
    with sqlite3.connect(path) as db:
        db.execute("UPDATE events SET body = replace(body, 'two', 'ten')")
    db.close()
    code, out, err = call(capsys, "ledger", "verify", path)
    assert (code, out) == (ExitCode.CHECK_FAILED, "")
    assert err.startswith("ndis: Expected a ledger as ndis wrote it")
    assert err.count("\n") == 1
    code, out, err = call(capsys, "ledger", "verify", path, "--json")
    assert (code, err, json.loads(out)["verified"]) == (ExitCode.CHECK_FAILED, "", False)


def test_a_missing_ledger_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "ledger", "show", "nowhere")
    assert code == ExitCode.WRONG_CALL
    assert "start one with: ndis ledger init" in err
    assert not Path("nowhere").exists()
