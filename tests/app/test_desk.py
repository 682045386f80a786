import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import pytest

from app_pages import write_ugly
from commands import call
from ndis import Ledger
from ndis.app import steps
from ndis.app.desk import Desk


def test_the_owner_sees_columns_as_they_will_be_read(tmp_path: Path) -> None:
    write_ugly(tmp_path / "visits.csv", 300)
    desk = Desk(tmp_path, "visits.csv")
    try:
        assert desk.files() == ["visits.csv"]
        draft = desk.new()
        n_rows, complete, columns = desk.pictures(draft)
        assert n_rows == 300
        assert complete < 300
        types = {each.name: each.type.partition(",")[0] for each in columns}
        assert types == {
            "Patient": "text",
            "Station": "text",
            "Alter": "number",
            "Kosten": "number",
            "Aufnahme": "date",
        }
        assert list(desk.people(draft)[1]) == ["Patient"]
        draft.columns, draft.public = ["Alter", "Station"], {"Alter": ("30", "60")}
        assert desk.pictures(draft, public=True)[2][2].changed > 0
        assert desk.free_name(draft) == "visits-summary.npz"
    finally:
        desk.close()
    assert not desk.scratch.exists()


@pytest.mark.parametrize("path", ["..", "", "/etc/passwd", "a/../../b", "a\0b"])
def test_paths_stay_inside(tmp_path: Path, path: str) -> None:
    desk = Desk(tmp_path)
    try:
        with pytest.raises(ValueError, match=r"within the folder|null"):
            desk.inside(path)
    finally:
        desk.close()


@pytest.mark.parametrize("ending", ["csv", "2024.csv", "parquet", "xlsx"])
def test_files_of_all_kinds_are_read(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"age": [30, 41, 52], "day": pd.to_datetime(["2024-01-31"] * 3)})
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "xlsx":
        frame.to_excel(path, index=False)
    else:
        path.write_text("age;day\n30;31.1.2024\n41;31.1.2024\n52;31.1.2024\n")
    desk = Desk(tmp_path, path.name)
    try:
        n_rows, _, columns = desk.pictures(desk.new())
        assert n_rows == 3
        assert [each.type for each in columns] == ["number", "date"]
        assert columns[1].least == "2024-01-31"
    finally:
        desk.close()


def test_ids_and_free_text_are_not_ticked(tmp_path: Path) -> None:
    lines = [f"{k + 1000},a text about case {k},{k % 5}" for k in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["number,story,grade", *lines]))
    desk = Desk(tmp_path, "t.csv")
    try:
        shown = steps.show_table(desk, draft := desk.new())
        assert shown["chosen"] == ["grade"]
        doubts = {each.name: each.doubts for each in desk.pictures(draft)[2]}
        assert "id" in doubts["number"][0]
        assert "free text" in doubts["story"][0]
    finally:
        desk.close()


def test_what_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.setattr("ndis.app.desk.MOST_BYTES", 3)
    desk = Desk(tmp_path)
    try:
        draft = desk.new()
        with pytest.raises(ValueError, match="at most 2 GiB"):
            desk.choose(draft, "t.csv")

        async def parts() -> Any:
            for part in (b"a\n1", b"\n2"):
                yield part

        with pytest.raises(ValueError, match="at most"):
            asyncio.run(desk.upload(draft, "t.csv", parts()))
        assert not any(desk.scratch.iterdir())
    finally:
        desk.close()


def test_a_small_file_that_unpacks_to_a_large_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("a,b\n" + "1.5,2.5\n" * 200_000)
    assert (tmp_path / "t.csv.gz").stat().st_size < 50_000
    monkeypatch.setattr("ndis.app.desk.MOST_BYTES", 100_000)
    desk = Desk(tmp_path)
    try:
        draft = desk.new()
        desk.choose(draft, "t.csv.gz")
        with pytest.raises(ValueError, match="2 GiB, also unpacked"):
            desk.table(draft)
    finally:
        desk.close()
    monkeypatch.setattr("ndis.tables.kept.memory", lambda: 400_000)
    monkeypatch.chdir(tmp_path)
    code, out, said = call(capsys, "check", "t.csv.gz")
    assert code != 0
    assert "one part in 4 of the memory" in said
    assert "Traceback" not in out + said


def test_two_tabs_with_two_tables_each_see_their_own(tmp_path: Path) -> None:
    for name, n in (("a.csv", 10), ("b.csv", 20)):
        (tmp_path / name).write_text("x\n" + "1\n" * n)
    desk = Desk(tmp_path)
    try:
        drafts = [desk.new(), desk.new()]
        for draft, name in zip(drafts, ("a.csv", "b.csv"), strict=True):
            desk.choose(draft, name)
        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(desk.n_rows, drafts * 40)] == [10, 20] * 40
    finally:
        desk.close()


def test_a_name_is_given_once_and_no_file_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "t-summary.settings.json").write_text("mine")
    desk = Desk(tmp_path, "t.csv")
    try:
        one, two = desk.new(), desk.new()
        one.out = desk.free_name(one)
        assert one.out == "t-summary-2.npz"
        assert desk.free_name(two) == "t-summary-3.npz"
    finally:
        desk.close()


def test_the_browser_is_led_by_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    try:
        path = Path(urlsplit(desk.door("http://127.0.0.1:1/secret/")).path)
        assert "secret" not in str(path)
        assert "secret" in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600
        desk.forget_door()
        assert not path.exists()
    finally:
        desk.close()


def test_a_ledger_is_found_from_where_the_app_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(tmp_path / "b.ndis", 1.0, 1e-6, "add-remove").close()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path / "data", ledger="b.ndis")
    try:
        draft = desk.new()
        assert desk.ledger_place(draft.ledger) == str(tmp_path / "b.ndis")
    finally:
        desk.close()
