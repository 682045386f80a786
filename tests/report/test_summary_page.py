"""The page of a summary: from the release alone, everything in it, and nothing from elsewhere."""

import csv
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import call
from ndis import PrivateSummary, Release
from ndis.report.summary_page import write_summary


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    ward = rng.choice(["A<b>", "B", "rare"], 5000, p=[0.6, 0.399, 0.001])
    return pa.table({"ward": ward, "cost": rng.lognormal(7, 0.5, 5000)})


def test_a_file_of_which_nothing_is_known_becomes_a_page_and_a_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "stays.parquet")
    words = "release summary stays.parquet --all --by ward --epsilon 3 --delta 1e-6 --out out.npz"
    assert call(capsys, *words.split())[0] == 0
    page = Path("out-summary.html").read_text()
    assert "times in 100" in page  # the sentence on risk
    assert "A&lt;b&gt;" in page
    assert "<b>" not in page
    assert "rare" not in page
    assert not re.search(r"<script|https?://", page)
    pictures = re.findall(r"<svg.*?</svg>", page)
    for picture in pictures:
        assert "nan" not in picture
        ElementTree.fromstring(picture)
    assert len(pictures) == 7  # counts, mean, sd, three quartiles, and a histogram
    with Path("out-summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    model = PrivateSummary.from_release(Release.load("out.npz"))
    told = [float(line["estimate"]) for line in lines]
    assert told == pytest.approx(model.to_frame().estimate.tolist(), rel=1e-12)
    again = write_summary(model, tmp_path / "again.html", "out")
    assert again.read_text() == page
    # Nothing is drawn where the page would replace something.
    Path("new-summary.html").touch()
    code, _, said = call(capsys, *words.replace("out.npz", "new.npz").split())
    assert code != 0
    assert "new-summary.html, which exists" in said
    assert not Path("new.npz").exists()


def test_groups_called_level_are_on_the_page_in_the_table_and_in_what_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table().rename_columns(["level", "estimate"]), "t.parquet")
    words = "release summary t.parquet --all --by level --epsilon 3 --delta 1e-6 --out out.npz"
    assert call(capsys, *words.split())[0] == 0
    assert "mean of estimate" in Path("out-summary.html").read_text()
    with Path("out-summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["by_level"] for line in lines} == {"A<b>", "B", ""}
    assert {line["column"] for line in lines} == {"", "estimate"}
    code, shown, _ = call(capsys, "show", "out.npz", "--csv")
    assert code == 0
    again = list(csv.DictReader(shown.splitlines()))
    assert {tuple(line) for line in again} == {tuple(line) for line in lines}
    assert sorted(line["by_level"] for line in again) == sorted(line["by_level"] for line in lines)
    code, shown, _ = call(capsys, "show", "out.npz")
    assert code == 0
    assert "mean of estimate" in shown
