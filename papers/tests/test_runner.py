"""Experiments are listed, run once, and written as tables that others can read."""

import csv
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ndis.cli import main
from ndis.cli.console import ExitCode
from ndis_papers.reproduce import (
    EXPERIMENTS,
    data,
    location_counts,
    ndis_2024,
    ndis_2024_monotone,
    private_pca,
    reproduce,
    write_csv,
)
from ndis_papers.reproduce.data import (
    OfficialFile,
    file_hash,
    read_cancer,
    read_flights,
    read_year_prediction,
)
from ndis_papers.reproduce.items import ITEMS
from ndis_papers.reproduce.ndis_2024_regression import printed_consistency


def test_an_experiment_is_done_once(tmp_path: Path) -> None:
    (first,) = reproduce(["ndis-2026"], tmp_path, quick=True)
    (second,) = reproduce(["ndis-2026"], tmp_path, quick=True)
    assert (first.before, second.before) == (False, True)
    assert set(second.files) == {"figure_2.csv", "figure_2.json", "figure_2.png"}
    marker = tmp_path / "ndis-2026" / "done.json"
    stored = json.loads(marker.read_text())
    marker.write_text(
        json.dumps(stored | {"settings": {"quick": False, "full": False, "files": {}}})
    )
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
        module = __import__(f"ndis_papers.reproduce.{experiment.module}", fromlist=["run"])
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


def test_every_table_and_figure_is_listed_with_its_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", "--list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    places = {(item["paper"], item["place"]) for item in listed}
    assert len(places) == len(listed) == len(ITEMS)
    assert places == NUMBERED
    for item in listed:
        experiment = EXPERIMENTS[item["experiment"]]
        assert set(item["files"]) <= set(experiment.files)
        assert ("needs" in item["state"]) == bool(item["files"])
        assert item["minutes"] == experiment.minutes > 0


def test_the_list_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["reproduce", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    words = " ".join(lines).split()
    for item in ITEMS:
        # Nothing is cut or broken in the middle of a word.
        assert {*item.place.split(), *item.shows.split(), item.experiment} <= set(words)


@pytest.mark.parametrize("name", ["ndis-2024-monotone", "rank-one-constants", "jl-transform"])
def test_what_is_listed_is_written(name: str, tmp_path: Path) -> None:
    (outcome,) = reproduce([name], tmp_path, quick=True)
    assert {item.writes for item in ITEMS if item.experiment == name} <= set(outcome.files)


def test_quick_and_full_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected quick or full, got both"):
        reproduce(["ndis-2026"], tmp_path, quick=True, full=True)


@pytest.mark.slow
def test_figure_15_rises_and_what_is_assumed_falls(tmp_path: Path) -> None:
    rows = ndis_2024_monotone.run(tmp_path, quick=True)
    assert all((row["falls"] > 0) == (row["held"] == "q") for row in rows)


def test_rows_become_csv(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"a": 1, "b": [1, 2]}, {"a": None, "c": "x,y"}]))
    with write_csv(path).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["a", "b", "c"], ["1", "[1, 2]", ""], ["", "", "x,y"]]


@pytest.mark.slow
def test_tables_of_the_flights_are_near_the_published_ones(tmp_path: Path) -> None:
    results = ndis_2024.run(tmp_path, quick=True)
    made = [row for row in results["tables_2_and_4"] if row["data"] != "flight"]
    assert {row["source"] for row in made} == {"made up"}
    assert all("not to be compared" in row["remark"] for row in made)
    for name in ("tables_1_and_3", "tables_2_and_4"):
        results[name] = [row for row in results[name] if row["data"] == "flight"]
    for row in results["tables_1_and_3"]:
        assert row["distance_ratio"] == pytest.approx(row["published_distance_ratio"], rel=0.04)
        published = row["published_correlation"]
        assert row["correlation_as_published"] == pytest.approx(published, rel=0.03)
        assert row["correlation"] <= 1.0
    regression = {
        (row["table"], row["method"], row["calibration"]): row for row in results["tables_2_and_4"]
    }
    assert [row["table"] for row in results["tables_2_and_4"]].count(2) == 7
    assert [row["table"] for row in results["tables_2_and_4"]].count(4) == 8
    for row in results["tables_2_and_4"]:
        published = row["published_relative_error"]
        if published is not None and row["published_noise"]:
            assert row["relative_error"] == pytest.approx(published, rel=0.08)
            assert row["noise"] == pytest.approx(row["published_noise"], rel=0.03)
        if row["published_noise"] == 0:  # table 4: nothing is added, and nothing is needed
            assert row["noise"] == 0
            assert row["delta"] <= row["published_delta"]
            assert row["relative_error"] == pytest.approx(published, abs=0.006)
    exact = regression[2, "als", "exact"]["relative_error"]
    assert exact < 0.8 * regression[2, "sketch", "as published"]["relative_error"]
    assert "contradicts" in regression[4, "mutual-information", "as published"]["remark"]
    assert results["figures_6_and_10"][0]["log10_delta_at_1"] < -16


def test_printed_noise_that_contradicts_the_papers_own_formulas() -> None:
    verdicts = {row["quantity"]: row["verdict"] for row in printed_consistency()}
    wrong = {quantity for quantity, verdict in verdicts.items() if verdict == "contradicts"}
    assert wrong == {
        "songs: limit law over sketch",
        "songs: LSV over sketch",
        "songs: mutual information",
        "songs: rows of the table",
        "flight: mutual information",
        "flight: rows of the table",
    }
    # Of every table: three ratios or more, and its number of rows.
    for name in ("cancer", "songs", "flight"):
        kinds = {quantity.partition(": ")[2] for quantity in verdicts if quantity.startswith(name)}
        needed = {"limit law over sketch", "LSV over sketch", "mutual information"}
        assert needed | {"rows of the table"} <= kinds
    assert verdicts["flight: LSV at 1e-16 over LSV"] == "fits"


@pytest.mark.slow
def test_estimated_curves_match_the_exact_ones(tmp_path: Path) -> None:
    (outcome,) = reproduce(["ndis-2024-black-box"], tmp_path, quick=True)
    assert {"figure_5.png", "figure_9.png", "figures_5_and_9.csv"} <= set(outcome.files)
    rows = json.loads((tmp_path / "ndis-2024-black-box" / "figures_5_and_9.json").read_text())
    assert {row["data"].split(";")[0] for row in rows if row["figure"] == "figure_5"} == {
        "diabetes, in place of Cancer",
        "Flight, the first 20,000 rows",
    }
    assert all(row["here"] == "matches" for row in rows)
    seen = [row for row in rows if row["epsilon"] == 0]
    assert all(row["worst_sets_lower"] > 0.2 * row["exact"] for row in seen[:1] + seen[2:3])
    assert all(abs(row["exact"] / row["limit"] - 1) < 0.05 for row in seen[:2])


def test_flights_are_all_there() -> None:
    table = read_flights()
    assert (table.num_rows, table.num_columns) == (327_346, 3)
    assert abs(float(np.max(table["distance"].to_numpy())) - 4.983) < 1e-12


# The tables and figures with numbers of the five papers.
NUMBERED = {
    ("ndis-2024", place)
    for place in ("Table 1", "Table 2", "Table 3", "Table 4", "Figure 5", "Figure 6", "Figure 7")
}
NUMBERED |= {("ndis-2024", f"Figure {number}") for number in (9, 10, 15)}
NUMBERED |= {("ndis-2026", "Figure 2")}
NUMBERED |= {("rank-one-gaussian", f"Figure {number}") for number in range(4, 10)}
NUMBERED |= {("rank-one-gaussian", "Table 1")}
NUMBERED |= {("jl-transform", "Table I"), ("jl-transform", "Table II")}
NUMBERED |= {("multi-party", place) for place in ("Figure 2", "Figure 3", "Table 1")}

SONGS = "2001,49.94,21.47\n1999,-3.5,0.25\n"


def small(path: Path, official: OfficialFile, rows: int, columns: int) -> OfficialFile:
    """The official file, so many rows and columns of it."""
    return replace(official, rows=rows, columns=columns).pinned(file_hash(path))


@pytest.mark.parametrize("zipped", [False, True])
def test_songs_are_read_as_published(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "YearPredictionMSD.txt"
    path.write_text(SONGS)
    if zipped:
        with zipfile.ZipFile(tmp_path / "songs.zip", "w") as archive:
            archive.write(path, path.name)
        path = tmp_path / "songs.zip"
    features, year = read_year_prediction(path, small(path, data.YEAR_PREDICTION, 2, 3))
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
    features, rate, names = read_cancer(path, small(path, data.CANCER, 2, 6))
    assert names == ("avgAnnCount", "MedianAge")  # no text, no gaps
    assert features.tolist() == [[1397, 39.3], [173, 33.0]]
    assert rate.tolist() == [164.9, 161.3]


UBER = (
    '"Date/Time","Lat","Lon","Base"\n"4/1/2014 0:11:00",40.769,-73.9549,"B02512"\n'
    '"4/3/2014 23:57:00",40.7267,-74.0345,"B02512"\n"4/13/2014 1:00:00",40.7,-74.0,"B02512"\n'
)


def test_pickups_are_read_as_published(tmp_path: Path) -> None:
    path = tmp_path / "uber-raw-data-apr14.csv"
    path.write_text(UBER)
    points = location_counts.read_uber(path, small(path, location_counts.UBER, 3, 4))
    assert points.tolist() == [[40.769, -73.9549], [40.7267, -74.0345]]
    assert location_counts.count(points, location_counts.NEW_YORK).sum() == 2


SWARM = "x1,y1,xVel1,Class \n1,10,5,0\n3,20,5,1\n2,15,5,1\n"


def test_swarms_are_read_as_published(tmp_path: Path) -> None:
    path = tmp_path / "Flocking.csv"
    path.write_text(SWARM)
    features, labels = private_pca.read_swarm(path, small(path, private_pca.SWARM, 3, 4))
    assert features.tolist() == [[-1, -1, 0], [1, 1, 0], [0, 0, 0]]
    assert labels.tolist() == [0, 1, 1]
    path.write_text(SWARM.replace("2,15,5", "140>7.1,15,5"))
    with pytest.raises(ValueError, match=r"got '140>7.1' in row 3 of column x1; correct"):
        private_pca.read_swarm(path, small(path, private_pca.SWARM, 3, 4))


@dataclass(frozen=True)
class Case:
    """A reader, what its file is, and a small file of that shape."""

    read: Callable[..., object]
    official: OfficialFile
    content: str
    shape: tuple[int, int]


READERS = {
    "songs": Case(read_year_prediction, data.YEAR_PREDICTION, SONGS, (2, 3)),
    "cancer": Case(read_cancer, data.CANCER, CANCER, (2, 6)),
    "uber": Case(location_counts.read_uber, location_counts.UBER, UBER, (3, 4)),
    "swarm": Case(private_pca.read_swarm, private_pca.SWARM, SWARM, (3, 4)),
}


@pytest.mark.parametrize("name", READERS)
def test_another_file_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    case = READERS[name]
    path = tmp_path / case.official.name
    path.write_bytes(case.content.encode("latin-1"))
    rows, columns = case.shape
    right = small(path, case.official, rows, columns)
    case.read(path, right)
    expected = {
        case.official: f"{case.official.columns} columns, got {rows} and {columns} in ",
        replace(right, rows=rows + 1): f"with {rows + 1} rows and {columns} columns, got {rows}",
        replace(right, columns=9): f"9 columns, got {rows} and {columns}",
        replace(right, needed=("Moon",)): "a column Moon, got none",
        right.pinned("0" * 64): f"SHA-256 {'0' * 64}, got {right.sha256}",
    }
    for wrong, sentence in expected.items():
        with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
            case.read(path, wrong)
        assert "\n" not in str(refusal.value)
    path.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match="not such a table"):
        case.read(path, case.official)


def test_a_zip_file_must_have_the_official_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "songs.zip", "w") as archive:
        archive.writestr("other.txt", SONGS)
    with pytest.raises(ValueError, match=r"Expected YearPredictionMSD.txt in .*, got none"):
        read_year_prediction(tmp_path / "songs.zip")


@pytest.mark.slow
def test_hashes_are_reported_and_can_be_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "uber-raw-data-apr14.csv"
    path.write_text(UBER)
    digest = file_hash(path)
    call = ["reproduce", "rank-one-counts", "--quick", "--out", str(tmp_path / "out"), "--json"]
    given = [*call, "--file", f"uber={path}"]
    for words, sentence in (
        ([*given, "--sha256", f"uber={'0' * 64}"], f"got {digest}; download"),
        ([*given, "--sha256", "swarm=00"], "got one for swarm; give that file"),
        ([*given, "--sha256", "uber"], "Expected NAME=HASH, got 'uber'; correct --sha256"),
        (given, "with 564516 rows and 4 columns, got 3 and 4"),
        ([*call, "--file", "uber=nowhere.csv"], "nowhere.csv"),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(words)
        assert leaving.value.code == ExitCode.WRONG_CALL
        message = capsys.readouterr().err
        assert sentence in message
        assert message.count("\n") == 1
    assert not (tmp_path / "out" / "rank-one-counts" / "done.json").exists()
    # A file of the official shape, with the same three pickups again and again.
    heading, *lines = UBER.splitlines(keepends=True)
    path.write_text(heading + "".join(lines) * (location_counts.UBER.rows // 3))
    digest = file_hash(path)
    with pytest.raises(SystemExit) as leaving:
        main([*given, "--sha256", f"uber={digest.upper()}"])
    assert not leaving.value.code
    assert json.loads(capsys.readouterr().out)["rank-one-counts"]["inputs"] == {"uber": digest}
    rows = json.loads((tmp_path / "out/rank-one-counts/figures_4_and_5.json").read_text())
    assert max(row["largest_count_released"] for row in rows) > location_counts.UBER.rows / 3 - 1e4
