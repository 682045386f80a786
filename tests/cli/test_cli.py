import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

import pytest
import typer

import ndis
from commands import ANSWERS, PROMISE, call
from ndis.cli import main
from ndis.cli.console import ExitCode, complain, print_json
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


def test_curve_of_a_mean_shift(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "curve", "--shift", "2", "--epsilon", "1", "--json")
    answer = json.loads(out)
    upper, lower = (0.5 * math.erfc(-t / math.sqrt(2)) for t in (2 / 2 - 1 / 2, -2 / 2 - 1 / 2))
    assert code == ExitCode.DONE
    assert answer["epsilon"] == [1.0]
    assert answer["delta"] == pytest.approx([upper - math.e * lower], rel=1e-12)
    assert answer["log_delta"] == pytest.approx([math.log(upper - math.e * lower)], rel=1e-12)


def test_curve_composes_what_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    composed = call(capsys, "curve", "--shift", "0.6", "--shift", "0.8", "--times", "4", "--json")
    single = call(capsys, "curve", "--shift", "2", "--json")
    assert json.loads(composed[1])["delta"] == pytest.approx(json.loads(single[1])["delta"], 1e-12)


def test_curve_takes_the_hard_direction_of_a_sketch(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(
        capsys, "curve", "--leverage", "0.1", "--n-components", "2", "--epsilon", "1", "--json"
    )
    # With two components the chi-square survival function is exp(-x/2).
    x = (2 - 2 * math.log1p(-0.1)) / 0.1
    expected = math.exp(-0.9 * x / 2) - math.e * math.exp(-x / 2)
    assert json.loads(out)["delta"] == pytest.approx([expected], rel=1e-12)


def test_curve_prints_a_row_for_each_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "curve", "--shift", "1", "--epsilon", "0.5", "--epsilon", "7")
    assert (code, err) == (ExitCode.DONE, "")
    assert [row.split()[0] for row in out.splitlines()[-3:] if row.split()] == ["0.5", "7"]


def test_curve_draws_a_curve_with_marks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single epsilon gave an empty plot: a line through one point."""
    from ndis import plots

    drawn = []
    curve = plots.curve
    monkeypatch.setattr(plots, "curve", lambda *a, **k: drawn.append(curve(*a, **k)) or drawn[-1])
    picture = tmp_path / "curve.png"
    words = ("--shift", "1", "--epsilon", "1", "--plot", str(picture))
    assert call(capsys, "curve", *words)[0] == ExitCode.DONE
    assert picture.read_bytes().startswith(b"\x89PNG")
    line, mark = drawn[0].axes[0].get_lines()
    assert len(line.get_xdata()) > 100
    assert list(mark.get_xdata()) == [1.0]


def test_curve_of_two_laws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    law = {"mean": [0.0], "cov": [[1.0]]}
    path = tmp_path / "pair.json"
    path.write_text(json.dumps({"P": law, "Q": {"mean": [2.0], "cov": [[1.0]]}}))
    _, shift, _ = call(capsys, "curve", "--shift", "2", "--json")
    code, pair, _ = call(capsys, "curve", "--pair", str(path), "--json")
    assert code == ExitCode.DONE
    assert json.loads(pair)["delta"] == pytest.approx(json.loads(shift)["delta"], rel=1e-9)
    path.write_text("{}")
    code, _, err = call(capsys, "curve", "--pair", str(path))
    assert (code, err.count("\n")) == (ExitCode.WRONG_CALL, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("curve",),
        ("curve", "--shift", "-1"),
        ("curve", "--shift", "nan"),
        ("curve", "--leverage", "1.5"),
        ("curve", "--leverage", "0.5", "--n-components", "0"),
        ("curve", "--shift", "1", "--times", "0"),
        ("curve", "--shift", "1", "--plot", "no/such/folder/curve.png"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_one_sentence(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    {
        "curves": "Expected a command of ndis, got 'curves'; did you mean curve?",
        "moon": "Expected a command of ndis, got 'moon'; see ndis --help.",
        "release gausian": "Expected a command of ndis release, got 'gausian'; did you mean "
        "gaussian?",
        "release classification": "Expected a command of ndis release, got 'classification'; did "
        "you mean logistic?",
        "--wrong": "Expected an option of ndis, got --wrong; see ndis --help.",
        "--versoin": "Expected an option of ndis, got --versoin; did you mean --version?",
        "curve --shft 1": "Expected an option of ndis curve, got --shft; did you mean --shift?",
        "calibrate gaussian --sensitivty 1": "Expected an option of ndis calibrate gaussian, got "
        "--sensitivty; did you mean --sensitivity?",
        "audit pca x.csv --data_norm 2": "Expected an option of ndis audit pca, got --data_norm; "
        "did you mean --data-norm?",
        "curve --shift": "Expected a value after --shift, got none; write one.",
        "verify": "Expected RELEASE, got none; see ndis verify --help.",
        "ledger init b --delta 1e-6": "Expected --epsilon and --relation, got neither; see ndis "
        "ledger init --help.",
        "audit pair laws.json --delta 0.1": "Expected --epsilon, got none; see ndis audit pair "
        "--help.",
        "curve --shift one": "Expected a number for --shift, got 'one'; correct it.",
        "curve --n-components=2.5": "Expected a whole number for --n-components, got '2.5'; "
        "correct it.",
        "calibrate gaussian --epsilon one": "Expected a number for --epsilon, got 'one'; correct "
        "it.",
    }.items(),
)
def test_a_misspelt_call_is_one_sentence_with_the_nearest_word(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, *words.split()) == (ExitCode.WRONG_CALL, "", f"ndis: {told}\n")


def test_too_many_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "curve", "more")
    assert (code, out, err.count("\n")) == (ExitCode.WRONG_CALL, "", 1)
    assert err.startswith("ndis: Got unexpected extra argument")
    assert err.endswith("; see ndis curve --help.\n")


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


@pytest.mark.parametrize("words", [(), ("release",), ("ledger",)], ids=len)
def test_without_a_command_there_is_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert "Commands" in out + err


def test_commands_are_listed_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "--help")
    places = [out.index(f"│ {name} ") for name in MAIN]
    assert places == sorted(places)


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
    # One is for the owner's eyes, the other writes a page.
    assert ("--json" in out) == (words[0] not in ("check", "explore"))


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
        "run: pip install ndis-papers.\n",
    )
    assert command not in call(capsys, "--help")[1]


@pytest.mark.parametrize("name", ["x.xyz", "nowhere/x.png"])
def test_a_picture_that_cannot_be_drawn_costs_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "o.npz"
    table.write_text("a\n1\n")
    words = ("gaussian", str(table), *PROMISE, *ANSWERS, "--out", str(out))
    code, _, err = call(capsys, "release", *words, "--plot", str(tmp_path / name))
    assert (code, err.count("\n")) == (ExitCode.WRONG_CALL, 1)
    assert not out.exists()


def test_json_has_no_infinities() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_json({"value": math.inf})
