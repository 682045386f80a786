"""What is printed and how the program ends."""

import errno
import json
import math
import re

import pytest

from commands import call
from ndis._validate import positive, wrong
from ndis.cli import main
from ndis.cli.console import ExitCode, complain, known_as, print_json, print_table


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


FLAGS = {
    "header": "--header",
    "names": "--names",
    "data_norm": "--data-norm",
    "units": "--units",
    "dates": "--dates",
    "delimiter": "--delimiter",
}


@pytest.mark.parametrize(
    ("sentence", "parameters", "told"),
    [
        ("pass header=False and names.", ("header", "names"), "pass --no-header and --names."),
        ("pass header=True.", ("header",), "pass --header."),
        ("pass delimiter=';'.", ("delimiter",), "pass --delimiter ';'."),
        ("pass units=['EUR', '%'].", ("units",), "pass --units EUR,%."),
        ("as dates={'a': '%d.%m.%Y'}.", ("dates",), "as --dates a=%d.%m.%Y."),
        ("got data_norm=-1.5; raise it.", ("data_norm",), "got --data-norm -1.5; raise it."),
        ("got data_norm=None; pass it.", ("data_norm",), "got no --data-norm; pass it."),
        ("column 'names' is not there.", ("names",), "column 'names' is not there."),
        ("Expected names, got header=1.", (), "Expected names, got header=1."),
        ("got noise_scale=1.", ("noise_scale",), "got noise_scale=1."),
    ],
)
def test_parameters_that_an_error_names_are_told_as_options(
    sentence: str, parameters: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as raised, known_as(FLAGS):
        raise wrong(*parameters)(sentence)
    assert complain(raised.value) == ExitCode.WRONG_CALL
    assert capsys.readouterr().err == f"ndis: {told}\n"


def test_a_check_names_what_it_checked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="data_norm=-1") as raised, known_as(FLAGS):
        positive("data_norm", -1)
    complain(raised.value)
    assert "Expected --data-norm > 0, got --data-norm -1.0;" in capsys.readouterr().err


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


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_no_number_is_cut(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    numbers = [f"{number}.{'1234567890' * 2}" for number in range(6)]
    print_table("Numbers", ["a heading of some length"] * 6, [numbers])
    shown = capsys.readouterr().out
    assert all(number in shown for number in numbers)
    assert "…" not in shown
