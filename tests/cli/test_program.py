import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints
from typing import Any

import pytest
import typer

import ndis
from commands import call
from ndis.cli.console import ExitCode
from ndis.cli.program import COMMANDS as MAIN
from ndis.cli.program import app


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert call(capsys, flag) == (ExitCode.DONE, f"ndis {ndis.__version__}\n", "")


@pytest.mark.slow
def test_the_module_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ndis", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ndis {ndis.__version__}\n"


@pytest.mark.parametrize("words", [(), ("release",), ("ledger",)], ids=len)
def test_without_a_command_there_is_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert "Commands" in out + err


def test_commands_are_listed_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "--help")
    places = [out.index(f"\n  {name} ") for name in MAIN]
    assert places == sorted(places)


def all_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, those of groups included."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(all_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_speaks_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, *words, "--help")
    assert code == ExitCode.DONE
    # One is for the owner's eyes, the others write pages.
    assert ("--json" in out) == (words[0] not in ("check", "explore", "app"))


def complete(words: str, **more: str) -> list[str]:
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


@pytest.mark.slow
def test_the_shell_completes_commands_options_and_names() -> None:
    assert complete("ndis cur") == ["curve"]
    assert complete("ndis release gau") == ["gaussian"]
    assert complete("ndis curve --le") == ["--leverage"]


@pytest.mark.parametrize("command", ["claims", "reproduce"])
def test_a_command_of_another_package_says_what_to_install(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndis.cli.program.entry_points", lambda **_: EntryPoints())
    assert call(capsys, command, "--json") == (
        ExitCode.WRONG_CALL,
        "",
        f"ndis: Expected the package ndis-papers for `ndis {command}`, but it is not installed; "
        "run: pip install ./papers in a clone of ndis.\n",
    )
    assert command not in call(capsys, "--help")[1]
