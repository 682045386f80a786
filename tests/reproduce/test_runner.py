"""Experiments are listed, run once, and written as tables that others can read."""

import csv
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ndis.cli import main
from ndis.cli.console import ExitCode
from ndis.reproduce import EXPERIMENTS, ndis_2024, reproduce, write_csv
from ndis.reproduce.data import (
    OfficialFile,
    file_hash,
    read_cancer,
    read_flights,
    read_year_prediction,
)


def test_an_experiment_is_done_once(tmp_path: Path) -> None:
    (first,) = reproduce(["ndis-2026"], tmp_path, quick=True)
    (second,) = reproduce(["ndis-2026"], tmp_path, quick=True)
    assert (first.before, second.before) == (False, True)
    assert set(second.files) == {"figure_2.csv", "figure_2.json", "figure_2.png"}
    marker = tmp_path / "ndis-2026" / "done.json"
    stored = json.loads(marker.read_text())
    marker.write_text(json.dumps(stored | {"settings": {"quick": False, "files": {}}}))
    (third,) = reproduce(["ndis-2026"], tmp_path, quick=True)
    assert not third.before  # other settings are another experiment
    with (tmp_path / "ndis-2026" / "figure_2.csv").open(newline="") as file:
        assert all(float(row["ratio"]) > 1 for row in csv.DictReader(file))


def test_unknown_names_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got nothing-known"):
        list(reproduce(["ndis-2026", "nothing-known"], tmp_path))
    with pytest.raises(ValueError, match=r"Expected files for .*got moon"):
        list(reproduce(["ndis-2026"], tmp_path, files={"moon": "moon.csv"}))
    assert not list(tmp_path.iterdir())


def test_every_experiment_has_its_module() -> None:
    for experiment in EXPERIMENTS.values():
        module = __import__(f"ndis.reproduce.{experiment.module}", fromlist=["run"])
        assert callable(module.run)


def test_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--json"])
    assert json.loads(capsys.readouterr().out).keys() == EXPERIMENTS.keys()
    for words in (["wrong"], ["ndis-2026", "--file", "songs"]):
        with pytest.raises(SystemExit) as leaving:
            main(["reproduce", *words, "--json"])
        assert leaving.value.code == ExitCode.WRONG_CALL
        assert capsys.readouterr().err.count("\n") == 1


def test_rows_become_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"a": 1, "b": [1, 2]}, {"a": None, "c": "x,y"}]))
    with write_csv(path).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["a", "b", "c"], ["1", "[1, 2]", ""], ["", "", "x,y"]]


@pytest.mark.slow
def test_tables_of_the_flights_are_near_the_published_ones(tmp_path: Path) -> None:
    results = ndis_2024.run(tmp_path, quick=True)
    for row in results["projection"]:
        assert row["distance_ratio"] == pytest.approx(row["published_distance_ratio"], rel=0.03)
        published = row["published_correlation"]
        assert row["correlation_as_published"] == pytest.approx(published, rel=0.03)
        assert row["correlation"] <= 1.0
    for row in results["regression"][:3]:
        published = row["published_relative_error"]
        assert row["relative_error"] == pytest.approx(published, rel=0.08)
        assert row["noise"] == pytest.approx(row["published_noise"], rel=0.02)
    assert results["inherent"][0]["log10_delta_at_1"] < -16


def test_flights_are_all_there() -> None:
    table = read_flights()
    assert (table.num_rows, table.num_columns) == (327_346, 3)
    assert abs(float(np.max(table["distance"].to_numpy())) - 4.983) < 1e-12


SONGS = "2001,49.94,21.47\n1999,-3.5,0.25\n"


def small(path: Path, rows: int, columns: int) -> OfficialFile:
    return OfficialFile(path.name, rows, columns, file_hash(path))


@pytest.mark.parametrize("zipped", [False, True])
def test_songs_are_read_as_published(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "YearPredictionMSD.txt"
    path.write_text(SONGS)
    if zipped:
        with zipfile.ZipFile(tmp_path / "songs.zip", "w") as archive:
            archive.write(path, path.name)
        path = tmp_path / "songs.zip"
    features, year = read_year_prediction(path, small(path, 2, 3))
    assert year.tolist() == [2001, 1999]
    assert features.tolist() == [[49.94, 21.47], [-3.5, 0.25]]


CANCER = (
    "avgAnnCount,TARGET_deathRate,binnedInc,Geography,PctSomeCol18_24,MedianAge\n"
    '1397,164.9,"(61494.5, 125635]","Kitsap County, Washington",42.1,39.3\n'
    '173,161.3,"(48021.6, 51046.4]","Doña Ana County, New Mexico",,33.0\n'
)


def test_counties_are_read_as_published(tmp_path: Path) -> None:
    path = tmp_path / "cancer_reg.csv"
    path.write_bytes(CANCER.encode("latin-1"))
    features, rate, names = read_cancer(path, small(path, 2, 6))
    assert names == ("avgAnnCount", "MedianAge")  # no text, no gaps
    assert features.tolist() == [[1397, 39.3], [173, 33.0]]
    assert rate.tolist() == [164.9, 161.3]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "YearPredictionMSD.txt"
    path.write_text(SONGS)
    with pytest.raises(ValueError, match="515345 rows and 91 columns, got 2 and 3"):
        read_year_prediction(path)
    with pytest.raises(ValueError, match="another SHA-256"):
        read_year_prediction(path, OfficialFile(path.name, 2, 3, "0" * 64))
    path.write_bytes(CANCER.replace("TARGET_deathRate", "other").encode("latin-1"))
    with pytest.raises(ValueError, match="column TARGET_deathRate"):
        read_cancer(path, small(path, 2, 6))
