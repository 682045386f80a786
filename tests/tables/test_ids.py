"""Ids as whole numbers: equal only if all their words are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis.tables import ids
from ndis.tables.ids import Counting, Ids, PersonCounts

TEXTS = st.text("ab\0\u00e5\u0301", max_size=20)
# By which all mixtures are alike.
MIX: Any = (ids, "_MIX", np.uint64(0))


@given(st.lists(TEXTS, max_size=40), st.integers(1, 9), st.booleans())
@settings(max_examples=60, deadline=None)
def test_text_is_compared_byte_by_byte_whatever_its_mixture(
    who: list[str], step: int, alike: bool
) -> None:
    """Also where all ids have the same mixture, so that it tells nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            patch.setattr(*MIX)
        total, column = Counting(), pa.array(who, pa.large_string())
        for start in range(0, len(who), step):
            total.add(Ids.of(column.slice(start, step)))
            total.total()  # those so far are known from here on
        counts = total.total()
        assert counts.n_people == len(set(who))
        lookup = counts.lookup()
        assert lookup.of(Ids.of(column)).tolist() == [who.count(each) for each in who]
        if not alike or len(set(who)) > 1:  # else a mixture tells who was counted: see `lookup`
            assert lookup.of(Ids.of(pa.array(["c" * 30, "ab\0\0\0"], pa.large_string())))[0] == 1
        table = counts.table
        if table is not None:
            pairs = zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True)
            assert dict(pairs) == {each: who.count(each) for each in who}


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
@settings(max_examples=40, deadline=None)
def test_integers_stay_apart_to_the_last_bit(who: list[int]) -> None:
    who += [each ^ 1 for each in who[:5]]
    counts = PersonCounts().plus([Ids.of(pa.array(who, pa.int64()))])
    assert counts.n_people == len(set(who))
    assert counts.lookup().of(Ids.of(pa.array(who, pa.int64()))).tolist() == list(
        map(who.count, who)
    )


@pytest.mark.parametrize("least", [0, 1, 7, 8, 9, 16, 17])
def test_text_of_every_length_becomes_its_bytes(least: int) -> None:
    who = ["\u00e5\0xyz"[: k % 5] + "q" * k for k in range(least, 40)]
    column = pa.array(["before", *who], pa.large_string())[1:]
    words = Ids.of(column).words
    for place, text in enumerate(who):
        content = text.encode()
        expected = content.ljust(8 * (len(words) - 1), b"\0")
        assert words[0, place] == len(content)
        assert words[1:, place].astype("<u8").tobytes() == expected


@pytest.mark.parametrize("alike", [False, True])
def test_what_travels_are_mixtures_where_they_tell_everybody_apart(
    monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    if alike:
        monkeypatch.setattr(*MIX)
    column = pa.array(["long name a", "long name b", "long name a", "c"], pa.large_string())
    lookup = PersonCounts().plus([Ids.of(column)]).lookup()
    assert lookup.ids is not None
    assert len(lookup.ids.words) == (3 if alike else 0)
    assert lookup.of(Ids.of(column)).tolist() == [2, 1, 2, 1]
