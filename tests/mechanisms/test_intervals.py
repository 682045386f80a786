"""Intervals of estimates: what they hold, how they are shown."""

from __future__ import annotations

import numpy as np
import pytest

from ndis.mechanisms import Intervals


def test_the_ends_are_those_of_a_normal_law() -> None:
    found = Intervals.of_normal(("a",), np.array([[2.0]]), np.array([[0.5]]), level=0.9)
    np.testing.assert_allclose([found.lower, found.upper], [[1.17757], [2.82243]], rtol=1e-5)


def test_what_is_unknown_has_no_number_and_says_so() -> None:
    values, errors = np.ones((2, 2)), np.ones((2, 2))
    found = Intervals.of_normal(("a", "b"), values, errors, [True, False], labels=("y", "z"))
    frame = found.to_frame()
    assert frame.loc[("z", "b")].isna().all()
    assert frame.loc[("z", "a")].notna().all()
    assert str(found).count("no information at this budget") == 2


@pytest.mark.parametrize("wrong", [{"level": 2.0}, {"of": "sample"}])
def test_sentences(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Intervals.of_normal(("a",), np.ones((1, 1)), np.ones((1, 1)), **wrong)
