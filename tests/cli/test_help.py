"""The help of a command: what everybody needs on a first screen, everything on demand."""

import pytest

from commands import call
from ndis.cli.console import ExitCode


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits_the_screen(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = call(capsys, "release", "regression", "--help")
    lines = out.splitlines()
    assert code == ExitCode.DONE
    assert max(map(len, lines)) <= columns
    assert columns == 60 or len(lines) <= 40
    for option in ("--label", "--limits", "--levels", "--epsilon", "--ledger", "--drop-missing"):
        assert option.removeprefix("--") in out
    assert "ndis release regression --help-all" in " ".join(out.split())
    assert "--thousands" not in out


def test_everything_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "release", "regression", "--help-all")
    assert code == ExitCode.DONE
    assert "  --thousands WORD" in out
    assert "  --[no-]fit-intercept" in out
    assert "more options" not in out


def test_few_options_are_shown_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "show", "--help")
    assert "--help-all" not in out
    assert "  --markdown" in out
