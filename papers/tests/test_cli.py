"""``ndis claims`` and ``ndis reproduce`` appear in the library's command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import csv

from commands import call, people
from ndis import Release
from ndis.cli import main


def complete(words: str) -> list[str]:
    """What bash would offer after these words."""
    typed = {"_NDIS_COMPLETE": "complete_bash", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-m", "ndis"],
        env=os.environ | typed | {"COMP_CWORD": str(len(words.split(" ")) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


def test_the_commands_are_listed_behind_those_of_the_library(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert out.index("audit") < out.index("claims") < out.index("reproduce")


@pytest.mark.parametrize("command", ["claims", "reproduce"])
def test_every_command_explains_itself_and_speaks_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    assert not leaving.value.code
    assert "--json" in capsys.readouterr().out


@pytest.mark.slow
def test_the_shell_completes_commands_and_names() -> None:
    assert complete("ndis repr") == ["reproduce"]
    assert complete("ndis reproduce rank-one-p") == ["rank-one-pca"]
    assert complete("ndis claims --paper jl") == ["jl-transform"]


# -- the papers' methods of the library's estimators --------------------------------------------

PROMISE = ("--epsilon", "1", "--delta", "1e-6")
NUMBERS = ("--limits", "a=-1:1", "--limits", "b=-1:1")
LABEL = ("--label", "y", "--limits", "y=-2:2")
CLASSES = ("--label", "sick", "--classes", "0,1")
METHODS = {
    "regression sketch": (*NUMBERS, *LABEL, "--n-components", "40"),
    "regression als": (*NUMBERS, *LABEL, "--n-components", "40"),
    "regression gaussian-limit": (*NUMBERS, *LABEL, "--n-components", "40"),
    "logistic posterior": (*NUMBERS, *CLASSES),
    "process posterior": (*NUMBERS, *LABEL, "--max-rows", "1000"),
    "projection ptr": (*NUMBERS, "--n-components", "50"),
    "covariance sketch": NUMBERS,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_papers_methods_are_released_shown_verified_and_audited(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, method = name.split()
    monkeypatch.chdir(tmp_path)
    csv.write_csv(people(300), "people.csv")
    words = (*PROMISE, *METHODS[name], "--method", method)
    assert call(capsys, "release", kind, "people.csv", *words, "--out", "r.npz")[0] == 0
    assert Release.load("r.npz").parameters["package"] == "ndis-papers"
    assert call(capsys, "show", "r.npz")[0] == 0
    code, out, _ = call(capsys, "verify", "r.npz")
    assert (code, "checked" in out.lower()) == (0, True)
    code, out, _ = call(capsys, "audit", "r.npz", "people.csv")
    assert (code, "consistent" in out.lower()) == (0, True)
