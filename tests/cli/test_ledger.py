import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from ndis import GaussianMechanism, Guarantee, Ledger, Profile, QuadraticLoss
from ndis.cli import main
from ndis.cli.console import ExitCode
from ndis.ledger import BudgetExceeded
from postgresql_server import Server


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
    assert "2 releases, 1 with an output" in " ".join(out.split())
    assert "(1, 1e-06)-differentially private" in " ".join(out.split())
    assert f"epsilon {answer['remaining_epsilon']:.4g} at delta 1e-06" in out


def test_an_untouched_budget_says_why_less_is_left(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "new")
    Ledger.create(path, 2.0, 1e-6, "replace").close()
    _, out, _ = call(capsys, "ledger", "show", path)
    told = " ".join(out.split())
    assert "epsilon 1.927 at delta 1e-06 (nothing is spent; deciding release by release" in told
    _, out, _ = call(capsys, "ledger", "show", path, "--json")
    assert "costs 3.7% of 2" in json.loads(out)["remaining_reason"]


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


def test_history_is_legible_at_80_columns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    loss = Profile.both(QuadraticLoss.from_shift(0.0123456))
    release = Guarantee(0.0123456789, 1.23456e-07, "replace", "proven", loss)
    note = "survey of winter 2024, third wave, for the ministry"
    with Ledger.create(tmp_path / "ledger", 1.0, 1e-6, "replace") as ledger:
        for number in range(12):
            entry = ledger.spend(release, "PrivateLogisticRegression", note)
            ledger.complete(entry, f"{number:064x}"[::-1])
    code, out, _ = call(capsys, "ledger", "history", str(ledger.path))
    assert code == ExitCode.DONE
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    (row,) = [line for line in out.splitlines() if line.startswith("  12   2")]
    assert row.split()[2:] == ["PrivateLogisticRegression", "0.01235", "1.2e-07", "b0000000"]
    assert " ".join(out.split()).count(note) == 12


@pytest.mark.slow
def test_a_plan_is_filled_from_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.csv").write_text("count\n10\n")
    promise = ("--epsilon", "0.5", "--delta", "1e-7", "--sensitivity", "1")
    relation = ("--relation", "replace")
    budget = ("--epsilon", "2", "--delta", "1e-6", *relation, "--mode", "plan")
    budget += ("--accept", "declared")
    assert call(capsys, "ledger", "init", "budget", *budget)[0] == ExitCode.DONE
    release = (
        "release",
        "gaussian",
        "answers.csv",
        *promise,
        *relation,
        "--shape",
        "1",
        "--header",
    )
    code, _, err = call(capsys, *release, "--out", "early.npz", "--ledger", "budget")
    assert (code, Path("early.npz").exists()) == (ExitCode.WRONG_CALL, False)
    assert "fill it with `ndis ledger plan`" in err
    _, printed, _ = call(capsys, "calibrate", "gaussian", *promise, *relation, "--json")
    Path("promise.json").write_text(printed)
    call(capsys, *release, "--out", "rehearsal.npz", "--seed", "1")
    code, out, err = call(capsys, "ledger", "plan", "budget", "promise.json:2", "rehearsal.npz")
    assert (code, err) == (ExitCode.DONE, "")
    assert out.startswith("3 releases are planned: epsilon 0.")
    for number in range(3):
        words = ("--out", f"{number}.npz", "--ledger", "budget", "--note", "count of the week")
        code, out, err = call(capsys, *release, *words)
        assert (code, err) == (ExitCode.DONE, "ndis: columns read: count\n")
        left = Ledger("budget").remaining()
        assert f"Left of the budget: {left}" in out
    assert call(capsys, *release, "--out", "4.npz", "--ledger", "budget")[0] == ExitCode.NO_BUDGET
    assert {entry.note for entry in Ledger("budget").history()} == {"count of the week"}
    code, _, err = call(capsys, "ledger", "plan", "budget", "answers.csv")
    assert code == ExitCode.WRONG_CALL
    assert "got answers.csv without a guarantee" in err
    with Path("promise.json").open("wb") as file:
        file.truncate(2**33)
    code, _, err = call(capsys, "ledger", "plan", "budget", "promise.json")
    assert (code, "at most 4194304 bytes in promise.json" in err) == (ExitCode.WRONG_CALL, True)


@pytest.mark.parametrize(
    ("budget", "words", "remedy"),
    [
        ({}, ("--seed", "1"), "leave out --seed, or use a ledger made with --accept seeded"),
        ({}, ("--relation", "add-remove"), "pass another --relation, or use another ledger"),
        ({"mode": "plan"}, (), "fill it with `ndis ledger plan`"),
    ],
)
def test_errors_name_options(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: dict,
    words: tuple,
    remedy: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.csv").write_text("count\n10\n")
    Ledger.create("budget", 2.0, 1e-6, "replace", accept=["declared"], **budget).close()
    release = ("release", "gaussian", "answers.csv", "--epsilon", "0.5", "--delta", "1e-7")
    release += ("--sensitivity", "1", "--out", "r.npz", "--ledger", "budget")
    release += ("--shape", "1", "--header")
    relation = () if "--relation" in words else ("--relation", "replace")
    code, _, err = call(capsys, *release, *relation, *words)
    assert code == ExitCode.WRONG_CALL
    assert remedy in err
    assert err.removeprefix("ndis: columns read: count\n").count("\n") == 1
    assert "=" not in err


def test_a_folder_that_cannot_be_written_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--epsilon", "1", "--delta", "1e-6", "--relation", "replace")
    code, _, err = call(capsys, "ledger", "init", str(tmp_path / "no" / "ledger"), *words)
    assert code == ExitCode.WRONG_CALL
    assert err.startswith("ndis: Cannot create the ledger at ")
    assert "release" not in err


@pytest.mark.slow
def test_a_ledger_on_a_server(capsys: pytest.CaptureFixture[str], server: Server) -> None:
    address = f"{server.url}#by_command_line"
    words = ("--epsilon", "1", "--delta", "1e-6", "--relation", "replace")
    code, out, _ = call(capsys, "ledger", "init", address, *words)
    assert (code, out.split(",")[0]) == (ExitCode.DONE, "Ledger('postgres#by_command_line'")
    assert call(capsys, "ledger", "verify", address)[:2] == (
        ExitCode.DONE,
        "0 releases, all in order and within the budget.\n",
    )
    code, _, err = call(capsys, "ledger", "show", "postgresql:///nothing?host=/nowhere")
    assert code == ExitCode.WRONG_CALL
    assert "got no connection" in err
    code, _, err = call(capsys, "ledger", "init", address, *words)
    assert code == ExitCode.WRONG_CALL
    assert err.endswith("which exists; choose another.\n")


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


def test_a_hash_is_shown_and_found_again(
    capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    shutil.copy(path, backup)
    with Ledger(path) as ledger:
        ledger.spend(Guarantee(0.01, 0.0, "replace", "proven"), "three")
    _, out, _ = call(capsys, "ledger", "show", path, "--json")
    noted = json.loads(out)["latest_hash"]
    _, out, _ = call(capsys, "ledger", "show", path)
    assert noted in out.replace("\n", "").replace(" ", "")
    code, out, _ = call(capsys, "ledger", "verify", path, "--expect", noted)
    assert (code, out.endswith("The expected hash is in the chain.\n")) == (ExitCode.DONE, True)
    shutil.copy(backup, path)  # what was spent since is forgotten
    assert call(capsys, "ledger", "verify", path)[0] == ExitCode.DONE
    code, _, err = call(capsys, "ledger", "verify", path, "--expect", noted)
    assert (code, f"no event has the hash {noted}" in err) == (ExitCode.CHECK_FAILED, True)
    code, _, err = call(capsys, "ledger", "verify", path, "--expect", "abc")
    assert (code, "64 hexadecimal digits" in err) == (ExitCode.WRONG_CALL, True)


def test_another_version_is_not_checkable(capsys: pytest.CaptureFixture[str], path: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    code, out, err = call(capsys, "ledger", "verify", path)
    assert (code, out) == (ExitCode.NOT_CHECKABLE, "")
    assert "use the version of ndis that wrote it" in err


def test_a_missing_ledger_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "ledger", "show", "nowhere")
    assert code == ExitCode.WRONG_CALL
    assert "make one with `ndis ledger init`" in err
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("mode", ["adaptive", "plan"])
def test_a_number_is_a_plan_of_equal_releases(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, mode: str
) -> None:
    """As many as were asked for fit, and no further one."""
    place = str(tmp_path / "budget")
    with Ledger.create(place, 2.0, 1e-5, "replace", mode=mode, accept=["declared"]) as ledger:
        code, out, _ = call(capsys, "ledger", "plan", place, "12", "--json")
        assert code == ExitCode.DONE
        epsilon = json.loads(out)["each"][1]["epsilon"]
        said = {"delta": 1e-6, "sensitivity": 1, "relation": "replace"}
        each = GaussianMechanism(epsilon=epsilon * (1 - 1e-6), **said).plan(1).guarantee
        if mode == "plan":
            ledger.plan([each] * 12)
        for _ in range(12):
            ledger.spend(each, "a month")
        with pytest.raises(BudgetExceeded):
            ledger.spend(each, "one more")
    code, out, _ = call(capsys, "ledger", "plan", place, "12")
    assert "Nothing is fixed by this." in out


def test_the_ledger_in_plain_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """1 + 0.5 + 1 from 3 leaves more than 0.5, and it says why; what is promised is the budget."""
    place = str(tmp_path / "budget")
    with Ledger.create(place, 3.0, 1e-5, "replace", accept=["declared"]) as ledger:
        assert ledger.summary()["spent so far"] == "nothing yet"
        for epsilon in (1.0, 0.5, 1.0):
            said = {"delta": 1e-6, "sensitivity": 1, "relation": "replace"}
            ledger.spend(GaussianMechanism(epsilon=epsilon, **said).plan(1).guarantee, "one")
        spent, left = ledger.total().epsilon(1e-5), ledger.remaining().epsilon
    code, out, _ = call(capsys, "ledger", "show", place)
    words = " ".join(out.split())
    assert code == ExitCode.DONE
    assert "spent so far 3 releases" in words
    found = re.search(r"would come to epsilon (\S+) at delta 1e-05", words)
    assert found is not None
    assert spent <= float(found[1]) < spent + 2e-4
    assert f"left epsilon {left:.4g} at delta 1e-05" in words
    assert "their squares that add up, so that 1 + 0.5 + 1 comes to about 1.5" in words
    assert "when all is spent Suppose" in words
