import math
from pathlib import Path

import pytest

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
