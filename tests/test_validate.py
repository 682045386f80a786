"""Every check returns what it was given, or says in one sentence what is wrong."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis import _validate as check

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a word": (lambda: check.real("x", "1"), TypeError, "x='1'; pass a float"),
    "a truth value": (lambda: check.real("x", True), TypeError, "x=True; pass a float"),
    "not a number": (lambda: check.real("x", math.nan), ValueError, "x=nan; pass a finite"),
    "zero": (lambda: check.positive("x", 0), ValueError, "x > 0, got x=0.0"),
    "below zero": (lambda: check.non_negative("x", -1), ValueError, "x >= 0, got x=-1.0"),
    "certainty": (lambda: check.probability("x", 1.0), ValueError, "0 < x < 1, got x=1.0"),
    "half of one": (lambda: check.count("x", 0.5), TypeError, "x=0.5; pass an int"),
    "too few": (lambda: check.count("x", 1, 2), ValueError, "x >= 2, got x=1"),
    "another word": (lambda: check.one_of("x", "c", "ab"), ValueError, "'a', 'b', got x='c'"),
    "words": (lambda: check.floats("x", ["a"]), TypeError, "got list; pass numbers"),
    "a shape": (lambda: check.floats("x", [1, 2], (3,)), ValueError, "(3), got shape (2,)"),
    "an infinite entry": (lambda: check.floats("x", [math.inf]), ValueError, "infinite entry"),
    "outside": (lambda: check.deltas([0.1, 1.5]), ValueError, "0 <= delta <= 1, got delta=1.5"),
    "an end": (
        lambda: check.floats_within("x", 0.0, 0.0, math.inf, closed=False),
        ValueError,
        "x > 0, got x=0.0",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_sentence(wrong: str) -> None:
    call, kind, words = WRONG[wrong]
    with pytest.raises(kind, match=re.escape(words)) as told:
        call()
    assert str(told.value).startswith("Expected ")
    assert str(told.value).endswith(".")


def test_what_is_right_comes_back() -> None:
    assert check.real("x", np.float32(0.5)) == 0.5
    assert type(check.count("x", np.int64(3))) is int
    assert check.floats("x", [[1, 2]], (None, 2)).dtype == np.float64
    assert check.epsilons([-3, 7]).tolist() == [-3.0, 7.0]


def test_a_missing_package_and_a_missing_folder_say_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(ImportError, match="pip install this"),
        check.installed("that", "this"),
    ):
        import ndis.nothing_of_this_name  # noqa: F401
    with pytest.raises(FileNotFoundError, match="make it"):
        check.require_folder(tmp_path / "missing" / "file", "picture")


def test_nothing_printed_moves_a_cursor() -> None:
    assert check.printable("a\x1b[2J\u202eb") == r"a\x1b[2J\u202eb"
