"""Settings in files, and flags that win."""

import json
from pathlib import Path

import pytest

from commands import PROMISE, call
from ndis import Ledger, Release
from ndis.cli.console import ExitCode


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "epsilon: 1\ndelta: 1e-6\nlimits: {a: [-1, 1], b: '-1:1'}\n"),
        ("s.toml", "epsilon = 1\ndelta = 1e-6\n[limits]\na = [-1, 1]\nb = [-1, 1]\n"),
        ("s.json", '{"epsilon": 1, "delta": 1e-6, "limits": {"a": [-1, 1], "b": [-1, 1]}}'),
    ],
)
def test_settings_in_a_file_and_flags_that_win(capsys, folder: Path, mean: None, name, text):
    Path(name).write_text(text)
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    words = ("--config", name, "--ledger", "budget", "--note", "for the yearbook")
    code, out, _ = call(
        capsys, "release", "mean", "part-*.parquet", *words, "--epsilon", "0.5", "--out", "m.npz"
    )
    assert code == ExitCode.DONE
    assert "Left of the budget: epsilon" in out
    assert Release.load("m.npz").guarantee.epsilon == 0.5
    with Ledger("budget") as ledger:
        assert ledger.history()[0].note == "for the yearbook"
    code, out, _ = call(capsys, "verify", "m.npz", "--ledger", "budget", "--json")
    assert {"what": "the ledger knows the release", "outcome": "held", "why": ""} in json.loads(
        out
    )["checks"]


@pytest.mark.parametrize(
    "text",
    [
        *("epsilon: [", "- 1", "epsilon: one", "epsilom: 1", "limits: {a: 1}"),
        *("drop-missing: maybe", "limits: &a {a: [0, 1]}\nlevels: *a", "[" * 5000),
    ],
)
def test_a_wrong_file_of_settings_is_one_sentence(capsys, folder, mean: None, text: str) -> None:
    Path("settings.yaml").write_text(text)
    words = ("mean", "people.csv", "--config", "settings.yaml", *PROMISE[2:])
    code, _, err = call(capsys, "release", *words, "--out", "s.npz")
    assert code == ExitCode.WRONG_CALL
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["s.yaml", "s.toml", "s.json"])
def test_a_long_file_of_settings_is_refused_unread(capsys, folder, mean: None, name: str) -> None:
    with Path(name).open("wb") as file:
        file.truncate(2**33)
    words = ("mean", "people.csv", "--config", name, *PROMISE)
    code, _, err = call(capsys, "release", *words, "--out", "s.npz")
    assert (code, err.count("\n")) == (ExitCode.WRONG_CALL, 1)
    assert f"Expected at most 1048576 bytes in {name}, got more" in err
