from pathlib import Path

import pytest

from ndis.app.drafts import QUESTIONS, Draft
from ndis.cli.kinds import KINDS


def test_every_question_is_a_kind_of_release() -> None:
    assert QUESTIONS.keys() <= KINDS.keys()


def test_the_first_level_of_a_regression_is_its_baseline() -> None:
    draft = Draft(Path(), columns=["pay", "sector"], kind="regression", label="pay")
    draft.public = {"pay": ("0", "9"), "sector": ["public", "private"]}
    assert draft.settings()["levels"] == {"sector": ["private"]}
    assert draft.settings()["limits"] == {"pay": (0.0, 9.0)}


@pytest.mark.parametrize("risk", ["50", "100", "many", "-1"])
def test_a_risk_that_is_none_is_refused(risk: str) -> None:
    with pytest.raises(ValueError, match="between 50 and 100"):
        Draft(Path(), risk=risk).target()


def test_a_copy_can_be_published() -> None:
    draft = Draft(Path(), out="a.npz", public={"a": "private"})
    other = draft.copy()
    assert (other.key, other.out, other.job) != (draft.key, draft.out, draft.job)
    other.public["a"] = ("0", "1")
    assert draft.public == {"a": "private"}
