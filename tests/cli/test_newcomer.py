"""A newcomer's own CSV becomes a published regression by the README alone, in three commands."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
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


def write_ugly_file(path: Path, n_rows: int = 30_000) -> None:
    """Semicolons, Latin-1, decimal commas, thousands, units, two kinds of dates, gaps, an index."""
    rng = np.random.default_rng(38)
    age, days = rng.integers(18, 80, n_rows), rng.integers(0, 3600, n_rows)
    born = np.datetime64("2024-06-30") - (365.25 * age).astype(int)
    hired = np.datetime64("2015-01-01") + days
    private, share = rng.random(n_rows) < 0.5, rng.uniform(20, 100, n_rows)
    pay = 1500 + 25 * age + 400 * private + 10 * share + rng.normal(0, 500, n_rows)
    gaps = rng.random((n_rows, 2)) < [0.02, 0.01]

    def written(value: float, decimals: int) -> str:
        return f"{value:,.{decimals}f}".translate(str.maketrans(",.", ".,"))

    lines = [";Alter;geboren;eingestellt;Sektor;Umfang;Gehalt"]
    for i in range(n_rows):
        sector = ["", "NA", " "][i % 3] if gaps[i, 1] else "privat" if private[i] else "öffentlich"
        cells = [
            str(i),
            "" if gaps[i, 0] else str(age[i]),
            str(born[i]).replace("-", "/"),
            hired[i].item().strftime("%d.%m.%Y"),
            sector,
            f"{written(share[i], 1)} %",
            f"{written(pay[i], 2)} EUR",
        ]
        lines.append(";".join(cells))
    path.write_bytes("\r\n".join(lines).encode("latin-1"))


@pytest.mark.slow
def test_an_ugly_file_leads_to_a_regression_and_a_summary_in_six_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only options that are typed here are those that a message has named."""
    monkeypatch.chdir(tmp_path)
    write_ugly_file(Path("people.csv"))
    calls, said = 0, []
    while "Next: " not in (said[-1] if said else ""):
        options = [
            word
            for message in said
            for advised in re.findall(r"(?:pass|such as) (--[^\n]*?)\.?$", message, re.MULTILINE)
            for word in shlex.split(advised)
        ]
        calls += 1
        said.append(call(capsys, "check", "people.csv", *options)[2])
        assert calls <= 4, "\n".join(said)
    columns = ["--limits", "Alter=18:80", "--limits", "Umfang=0:100", "--limits", "Gehalt=0:8000"]
    public = [*columns, "--levels", "Sektor=privat", "--drop-missing"]
    promise = ["--epsilon", "1", "--delta", "1e-6", "--out"]
    for example in ("--limits Alter=LOW:HIGH", "--levels Sektor=A,B,...", "--drop-missing"):
        assert example in said[-1]

    regression = ["regression", "people.csv", *options, "--label", "Gehalt", *public]
    code, out, err = call(capsys, "release", *regression, *promise, "pay.npz", "--json")
    assert code == ExitCode.DONE, err
    coefficients = json.loads(out)["values"]["coef"]
    for found, truth, most in zip(coefficients, (25, 10, 400), (3, 3, 120), strict=True):
        assert abs(found - truth) < most

    by = ["--by", "Sektor", "--levels", "Sektor=privat,öffentlich", *columns[-2:], "--drop-missing"]
    summary = ["summary", "people.csv", *options, *by, *promise, "sectors.npz", "--json"]
    code, out, err = call(capsys, "release", *summary)
    assert code == ExitCode.DONE, err
    means = json.loads(out)["values"]["mean of Gehalt"]
    assert 300 < means["privat"]["estimate"] - means["öffentlich"]["estimate"] < 500
    assert calls + 2 <= 6
