import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from ndis import PrivateSummary
from ndis.answer import ESTIMATE, Answer
from ndis.app import steps
from ndis.app.desk import Desk
from ndis.app.drafts import Draft


def test_steps_can_be_shown_and_saved() -> None:
    assert steps.SHOW.keys() == steps.SAVE.keys() == steps.STEPS.keys()


def test_bars_lie_within_the_picture_and_what_is_hidden_has_none() -> None:
    rows = [("a", [1.0, 0.5, 0.0, 2.0]), ("b", [math.nan] * 4)]
    drawn = steps._drawn(Answer("t", [*ESTIMATE, "from", "to"], rows))
    assert drawn["bars"]
    (_, _, ends), (_, cells, none) = drawn["rows"]
    assert ends == [0.0, 50.0, 100.0]
    assert none is None
    assert cells == ["unknown"] * 4


@pytest.mark.parametrize("name", ["../o.npz", "o.csv", "a/o.npz", ""])
def test_a_release_has_a_new_name_in_the_folder(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path)
    try:
        with pytest.raises(ValueError, match="Expected"):
            steps.save_publish(desk, Draft(tmp_path), {"out": [name]})
    finally:
        desk.close()


def test_a_summary_comes_with_histograms_and_its_dates_are_dates() -> None:
    """Nothing that a content policy forbids stands in the pictures; names are escaped."""
    rng = np.random.default_rng(0)
    first = np.datetime64("2021-01-01")
    table = pa.table(
        {
            "day<b>": first + rng.integers(0, 365, 4000),
            "cost": rng.normal(50.0, 10.0, 4000).clip(0.0, 100.0),
        }
    )
    limits = {"day<b>": ("2021-01-01", "2021-12-31"), "cost": (0, 100)}
    asked = {"limits": limits, "epsilon": 5.0, "delta": 1e-6, "random_state": 0}
    release = PrivateSummary(**asked, quantiles=[0.5]).fit(table).release_
    found = steps.published(release)
    assert len(found["histograms"]) == 2
    for part in found["histograms"]:
        ElementTree.fromstring(part)
        assert "style" not in part
        assert "A bar says how many" in part
    assert ">2021-12-31</text>" in found["histograms"][0]
    cells = {each["title"]: each["rows"][0][1] for each in found["answers"]}
    for title in ("mean of day<b>", "q0.5 of day<b>"):
        value, error, *ends = map(str, cells[title])
        assert re.fullmatch(r"2021-0[67]-\d\d", value)
        assert re.fullmatch(r"[\d.]+ days", error)
        assert ends == sorted(ends)
        assert ends[0] < value < ends[1]
    assert all(cell.endswith(" days") for cell in cells["sd of day<b>"])
    assert 49 < float(cells["mean of cost"][0]) < 51
    page = steps.page(release, "days.npz")
    assert page.count('class="picture"') == 2
    assert "<b>" not in page
    # No quantiles, no pictures.
    assert steps.published(PrivateSummary(**asked).fit(table).release_)["histograms"] == []
