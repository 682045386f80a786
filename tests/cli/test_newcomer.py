"""A newcomer's own CSV becomes a published regression by the README alone, in three commands."""

import json
import re
import shlex
from pathlib import Path

import pytest

from commands import call
from ndis.cli.console import ExitCode

README = (Path(__file__).parent.parent.parent / "README.md").read_text()
SECTION = README.partition("## Your own table in three commands")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^\$ ndis (.*)$", SECTION, re.MULTILINE)


def test_text_dates_gaps_and_an_index_in_three_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    made = re.search(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert made is not None
    exec(made[1], {})
    header, *rows = Path("people.csv").read_text().splitlines()
    assert header.startswith(",")  # an index
    assert any(",," in row for row in rows)  # gaps
    assert re.search(r"\d{4}-\d\d-\d\d,(public|private),", rows[0])  # dates and text

    assert [words.split()[0] for words in COMMANDS] == ["ledger", "release", "show"]
    for words in COMMANDS:
        code, out, err = call(capsys, *shlex.split(words))
        assert code == ExitCode.DONE, err
    assert all(name in out for name in ("intercept", "age", "hired", "sector=private"))

    code, out, _ = call(capsys, *shlex.split(COMMANDS[-1]), "--json")
    age, _, private = json.loads(out)["values"]["coef"]
    assert abs(age - 25) < 8  # seven standard errors; the noise is secret
    assert abs(private - 400) < 280
    assert call(capsys, "verify", "pay.npz", "--ledger", "budget")[0] == ExitCode.DONE
