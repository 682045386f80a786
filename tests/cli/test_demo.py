import json
import socket
from importlib.metadata import PackageNotFoundError
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from ndis import Ledger, Release
from ndis.cli import demo, main
from ndis.report.page import section, table, write_page


def test_demo_writes_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for _ in range(2):  # a second demonstration starts afresh
        with pytest.raises(SystemExit) as leaving:
            main(["demo", "--out", str(tmp_path), "--json"])
        assert not leaving.value.code
        answer = json.loads(capsys.readouterr().out)
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
    assert np.abs(np.array(answer["coefficients"]["private regression"]) - exact).max() < 0.02
    assert np.abs(np.array(answer["coefficients"]["from the sketch"]) - exact).max() < 0.15
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
    assert np.abs(np.array(answer["coefficients"]["private regression"]) - exact).max() < 0.3


def test_the_table_that_ships_is_part_of_the_whole() -> None:
    whole = demo.read_flights().to_pandas().to_numpy()
    content = files("ndis.cli") / "table" / "flights.csv"
    assert len(content.read_bytes()) <= 100_000
    shipped = np.loadtxt(str(content), delimiter=",", skiprows=1)
    np.testing.assert_allclose(shipped / list(demo.UNITS.values()), whole[::41], rtol=1e-15)


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


def test_the_owners_numbers_are_marked_as_his(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--out", str(tmp_path)])
    table, marked = capsys.readouterr().out.split("For the owner of the data alone")
    assert "exact" not in table
    assert "never to be published" in marked


def test_a_page_escapes_what_it_shows(tmp_path: Path) -> None:
    path = write_page(tmp_path / "p.html", "<a>", [section("<b>", table(["<c>"], [["<d>"]]))])
    text = path.read_text()
    assert all(f"&lt;{letter}&gt;" in text for letter in "abcd")
