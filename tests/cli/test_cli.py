import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import ndis
from ndis.cli import app, main
from ndis.cli.console import ExitCode, print_json


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the program as a user would and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version") == (ExitCode.DONE, f"ndis {ndis.__version__}\n", "")


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
        capsys, "curve", "--leverage", "0.1", "--components", "2", "--epsilon", "1", "--json"
    )
    # With two components the chi-square survival function is exp(-x/2).
    x = (2 - 2 * math.log1p(-0.1)) / 0.1
    expected = math.exp(-0.9 * x / 2) - math.e * math.exp(-x / 2)
    assert json.loads(out)["delta"] == pytest.approx([expected], rel=1e-12)


def test_curve_prints_a_row_for_each_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "curve", "--shift", "1", "--epsilon", "0.5", "--epsilon", "7")
    assert (code, err) == (ExitCode.DONE, "")
    assert [row.split()[0] for row in out.splitlines()[-3:] if row.split()] == ["0.5", "7"]


def test_curve_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curve.png"
    code, *_ = call(capsys, "curve", "--shift", "1", "--plot", str(picture))
    assert code == ExitCode.DONE
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ("curve",),
        ("curve", "--shift", "-1"),
        ("curve", "--shift", "nan"),
        ("curve", "--leverage", "1.5"),
        ("curve", "--leverage", "0.5", "--components", "0"),
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


@pytest.mark.parametrize("words", [("curve", "--shift", "one"), ("curves",), ("--wrong",)])
def test_a_misspelt_call_shows_the_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert "Usage" in err
    assert "Traceback" not in err


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


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for command in app.registered_commands:
        code, out, _ = call(capsys, command.name, "--help")
        assert code == ExitCode.DONE
        assert "--json" in out


def test_json_has_no_infinities() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_json({"value": math.inf})
