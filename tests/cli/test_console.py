"""What is printed and how the program ends."""

import errno
import json
import math

import pytest

from commands import call
from ndis.cli import main
from ndis.cli.console import ExitCode, complain, print_json


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.json"),
            "No such file or directory: a.json; check the path.",
        ),
        (
            json.JSONDecodeError("Expecting value", "{", 1),
            "Expected JSON, got something else (Expecting value: line 1 column 2 (char 1)); "
            "correct the file.",
        ),
        (KeyError("no column 'a'"), "no column 'a'"),
        (ValueError("two\n lines"), "two lines"),
        (OSError(), "OSError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pythons_own_errors_become_sentences(
    error: Exception, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complain(error) == ExitCode.WRONG_CALL
    assert capsys.readouterr().err == f"ndis: {told}\n"


def test_interruption_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ndis.cli.curve._worst_case", stop)
    code, out, err = call(capsys, "curve", "--shift", "1")
    assert (code, out.strip(), err.strip()) == (
        ExitCode.INTERRUPTED,
        "",
        "ndis: interrupted; nothing was paid.",
    )


@pytest.mark.parametrize("words", [("--debug", "curve"), ("curve", "--debug")])
def test_debug_shows_where_an_error_came_from(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least one loss"):
        main(words)


def test_a_fault_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("ndis.cli.curve._worst_case", fail)
    code, _, err = call(capsys, "curve", "--shift", "1")
    assert code == ExitCode.FAULT
    assert "division by zero (ZeroDivisionError; run again with --debug" in err


def test_json_has_no_infinities() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_json({"value": math.inf})
