import json
import re
import shlex
import socket
import subprocess
from importlib.metadata import PackageNotFoundError
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from commands import call
from ndis import Ledger, Release
from ndis.cli import demo, main
from ndis.cli.console import ExitCode


@pytest.mark.slow
def test_demo_writes_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "demo", "--out", str(tmp_path), "--json")
    assert code == ExitCode.DONE
    answer = json.loads(out)
    with Ledger(tmp_path / "budget.ndis") as ledger:
        digests = [entry.digest for entry in ledger.history()]
        assert ledger.verify() == 2
        assert answer["remaining_epsilon"] == ledger.remaining().epsilon < 2
    assert digests == list(answer["digests"].values())
    for name, digest in answer["digests"].items():
        release = Release.load(tmp_path / f"{name}.npz")
        assert release.digest == digest
        assert release.guarantee.private
        stored = json.loads((tmp_path / f"{name}.certificate.json").read_text())
        assert stored == release.certificate()
    assert answer["coefficients"].keys() == {"from the sketch", "private regression"}
    exact = np.array(answer["owner_only"]["exact_coefficients"])
    for name, estimate in answer["coefficients"].items():  # eight: the draws are secret
        assert np.all(np.abs(estimate - exact) < 8 * np.array(answer["standard_errors"][name]))
    page = (tmp_path / "report.html").read_text()
    assert all(sentence in page for sentence in answer["guarantees"].values())
    assert "http" not in page.replace("http-equiv", "")  # asks nobody for anything
    # What is computed from the data without noise stands in none of the files.
    for value in exact:
        digits = repr(abs(float(value)))[:10].encode()
        assert not any(digits in path.read_bytes() for path in tmp_path.iterdir())


def test_the_demo_needs_nothing_but_the_library(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(demo, "distribution", missing)
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--out", str(tmp_path), "--json"])
    assert not leaving.value.code
    answer = json.loads(capsys.readouterr().out)
    assert answer["owner_only"]["rows"] == 7985
    exact = np.array(answer["owner_only"]["exact_coefficients"])
    errors = np.array(answer["standard_errors"]["private regression"])
    found = np.array(answer["coefficients"]["private regression"])
    assert np.all(np.abs(found - exact) < 8 * errors)


def test_the_table_that_ships_is_part_of_the_whole() -> None:
    whole = demo.read_flights().to_pandas().to_numpy()
    content = files("ndis.cli") / "table" / "flights.csv"
    assert len(content.read_bytes()) <= 100_000
    shipped = np.loadtxt(str(content), delimiter=",", skiprows=1)
    np.testing.assert_array_equal(shipped, whole[::41])


@pytest.mark.slow
def test_a_second_demonstration_leaves_the_first_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = json.loads(call(capsys, "demo", "--json")[1])
    second = json.loads(call(capsys, "demo", "--json")[1])
    assert Path(first["report"]).parent.name == "ndis-demo"
    assert Path(second["report"]).parent.name == "ndis-demo-2"
    code, _, err = call(capsys, "demo", "--out", "ndis-demo")
    assert code == ExitCode.WRONG_CALL
    assert err == (
        "ndis: Expected a folder without budget.ndis, got ndis-demo; choose another with --out.\n"
    )
    with Ledger("ndis-demo/budget.ndis") as ledger:
        assert ledger.verify() == 2


@pytest.mark.slow
def test_the_command_that_is_printed_works(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, out, _ = call(capsys, "demo", "--out", str(tmp_path / "my demo"))
    (command,) = re.findall(r"^Check one with: (.*)$", out, re.MULTILINE)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True)
    assert done.returncode == ExitCode.DONE, done.stderr


@pytest.mark.slow
def test_the_demo_needs_no_network(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("somebody was called")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--out", str(tmp_path)])
    assert not leaving.value.code


@pytest.mark.slow
def test_the_owners_numbers_are_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--out", str(tmp_path)])
    table, marked = capsys.readouterr().out.split("For the owner of the data only")
    assert "exact" not in table
    assert "never to be published" in marked
