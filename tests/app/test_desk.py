from pathlib import Path

import pytest

from app_pages import write_ugly
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
