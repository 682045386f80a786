"""``ndis claims`` and ``ndis reproduce`` appear in the library's command line."""

import os
import subprocess
import sys

import pytest

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
