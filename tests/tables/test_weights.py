"""How much rows count: everybody once, however many rows they have, wherever these are."""

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks import people
from ndis.tables import Columns, ExactSum, Rows, Table, Weighting, moments
from ndis.tables.exact import GRID_NORM, ONE
from ndis.tables.ids import NOBODY, Counting, Ids, PersonCounts, ids
from ndis.tables.weights import rounded_down, rounded_up
from reading import fractions

NAMES = ["a", "b"]
LIMITS = {"a": (-1.0, 1.0), "b": (0.0, 4.0)}


def stays(seed: int, n_people: int = 300, text: bool = True) -> pa.Table:
    """People with one to many rows each, in no order."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), rng.geometric(0.2, n_people))
    who = rng.permutation(np.append(who, np.full(1000, n_people)))
    return pa.table(
        {
            "who": [f"id {each}" for each in who] if text else who,
            "a": rng.uniform(-2, 2, len(who)),
            "b": rng.uniform(0, 4, len(who)),
            "w": rng.choice([0.0, 0.3, 1.0, 2.5, 7.0], len(who)),
        }
    )


def summed(source: Any, weighting: Weighting | None, **more: Any) -> dict[str, ExactSum]:
    table = Table.open(source, NAMES, **more).weighed(weighting)
    return table.with_rows(Rows(Columns(NAMES, limits=LIMITS))).sum(moments)


def same(one: dict[str, ExactSum], other: dict[str, ExactSum]) -> bool:
    return one.keys() == other.keys() and all(one[name] == other[name] for name in one)


WHO = Weighting("who")
BOTH = Weighting("who", 3, "w", 5.0)


# -- the weights themselves --------------------------------------------------------------------


@given(st.integers(1, 2**40))
def test_numbers_are_rounded_to_the_safe_side_and_by_little(n: int) -> None:
    up, down = (int(rounding(np.array([n]))[0]) for rounding in (rounded_up, rounded_down))
    assert down <= n <= up
    assert up - n <= n / 64
    assert n - down <= n / 64
    if n <= 128:
        assert down == n == up


@pytest.mark.parametrize("m", [1, 2, 3, 7, 64, 129, 1000, 65_535, 1_000_000])
@pytest.mark.parametrize("most", [1, 5, 2000])
def test_the_rows_of_one_person_weigh_at_most_one(m: int, most: int) -> None:
    batch = pa.record_batch({"who": np.full(m, 7)})
    weighting = Weighting("who", most)
    counts = PersonCounts().plus([weighting.count(batch)])
    total = int(weighting.counted(counts).of(batch).sum())
    share = min(Fraction(m, most), Fraction(1))
    assert total <= share * ONE
    assert total >= share * ONE * Fraction(31, 32)


def test_weights_of_samples_are_cut_to_their_bound_and_rounded_down() -> None:
    w = np.array([0.0, 1e-300, 0.1, 1.0, 2.0, np.nextafter(2.0, 3.0), 1e300])
    found = Weighting(None, 1, "w", 2.0).of(pa.record_batch({"w": w}))
    exact = [min(Fraction(float(x)), 2) / 2 for x in w]
    assert all(a <= x * ONE for a, x in zip(found.tolist(), exact, strict=True))
    assert found[[0, 1]].tolist() == [0, 0]
    assert found[[3, 4, 5, 6]].tolist() == [ONE // 2, ONE, ONE, ONE]
    assert found[2] >= 0.05 * ONE * 63 / 64


def test_person_and_sample_weights_multiply() -> None:
    batch = pa.record_batch({"who": ["x", "x", "y"], "w": [1.0, 2.0, 4.0]})
    weighting = Weighting("who", 1, "w", 4.0)
    counts = PersonCounts().plus([weighting.count(batch)])
    assert weighting.counted(counts).of(batch).tolist() == [ONE // 8, ONE // 4, ONE]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 1, "w", None), "together with max_weight"),
        ((None, 1, None, 2.0), "together with max_weight"),
        (("who", 0), "rows_per_person >= 1"),
        (("who", 1, None, None, None, None, "each"), "missing_person to be one of"),
        ((None, 1, None, None, None, None, "own"), "only together with person"),
        ((None, 1, "w", -1.0), "max_weight > 0"),
    ],
)
def test_what_is_declared_must_make_sense(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Weighting(*arguments)


@pytest.mark.parametrize(
    ("w", "message"),
    [([1.0, -1e-9], "negative"), ([1.0, np.nan], "missing"), ([1.0, None], "missing")],
)
def test_weights_that_are_none_are_refused(w: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        summed(pa.table({"a": [0.0, 0.0], "b": [1.0, 1.0], "w": w}), Weighting(None, 1, "w", 2.0))


# -- whose row ---------------------------------------------------------------------------------


def n_people(column: Any) -> int:
    return PersonCounts().plus([WHO.count(pa.record_batch({"who": column}))]).n_people


@pytest.mark.parametrize(
    ("column", "n"),
    [
        (pa.array(["7", "007", "7 ", "7"]), 3),
        (pa.array(["a", "A", "\u0061\u0301", "\u00e1", "a\0"]), 5),
        (pa.array([7, -7, 2**53, 2**53 + 1]), 4),
        (pa.array([7, 7], pa.int8()), 1),
        (pa.array([7, 8], pa.uint64()), 2),
        (pa.array(["x", "y", "x"]).dictionary_encode(), 2),
        (pa.array([b"\0", b"", b"\0\0"], pa.binary()), 3),
        (pa.array([0, 1, 1], pa.date32()), 2),
        (pa.array(["x", "x"], pa.large_string()), 1),
    ],
)
def test_ids_are_compared_exactly_by_their_type(column: pa.Array, n: int) -> None:
    assert n_people(column) == n


# Such that trimming, a number, a date, a truth value, upper case, a normal form or a cut would make
# two of them one.
ALIKE = ["7", "007", "7 ", " 7", "+7", "7.0", "1e3", "1000", "true", "True", "NaN", "null", "None"]
ALIKE += ["a", "A", "\u0061\u0301", "\u00e1", "\u00c5", "\u212b", "\u00df", "ss", "\ufb01", "fi"]
ALIKE += ["2020-01-01", "2020-1-1", "7\u200b", "\uff17", "x" * 99_999, "x" * 99_999 + "y"]


@pytest.mark.parametrize("source", people.SOURCES)
def test_ids_that_look_alike_are_people_of_their_own(source: str, tmp_path: Path) -> None:
    table = pa.table({"who": ALIKE * 2, "a": np.zeros(2 * len(ALIKE))})
    parts = [table.slice(0, 9), table.slice(9)]
    opened = Table.open(people.SOURCES[source](parts, tmp_path), ["a"], typed=["who"])
    counts = opened.weighed(WHO).with_rows(Rows(Columns(["a"], limits={"a": (-1, 1)})))
    assert counts.count_people().n.tolist() == [2] * len(ALIKE)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, 2.0]), "write ids as text"),
        (pa.array([True, False]), "write ids as text"),
        (pa.array([2**63], pa.uint64()), "beyond 64 bits"),
        (pa.array(["x", None]), "does not say for every row"),
        (pa.array([[1], [2]]), "write ids as text"),
        (np.array(["x", 7], dtype=object), "of several"),
        (np.array([True, 1], dtype=object), "of several"),
        (np.array([2**70], dtype=object), "beyond 64 bits"),
        (np.array(["x", None], dtype=object), "does not say for every row"),
        (np.array([1.0, 2.0], dtype=object), "write ids as text"),
    ],
)
def test_what_tells_nobody_apart_is_refused(column: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        ids("who", column)
    assert "7" not in str(refused.value)  # no value of the column is told


@given(st.lists(st.integers(-3, 12), max_size=60), st.integers(1, 7))
@settings(max_examples=50, deadline=None)
def test_counts_do_not_depend_on_how_rows_are_cut(who: list[int], step: int) -> None:
    total = Counting()
    for start in range(0, len(who), step):
        total.add(WHO.count(pa.record_batch({"who": pa.array(who[start : start + step])})))
    counts = total.total()
    lookup = counts.lookup()
    assert counts.n_people == len(set(who))
    assert counts.most == max(map(who.count, who), default=0)
    assert counts.octaves(8).sum() == len(set(who))
    assert lookup.of(Ids.of(pa.array(who, pa.int64()))).tolist() == [
        who.count(each) for each in who
    ]


def test_octaves_end_at_powers_of_two() -> None:
    who = [name for name, n in enumerate([1, 2, 3, 4, 5, 8, 9, 100]) for _ in range(n)]
    counts = PersonCounts().plus([WHO.count(pa.record_batch({"who": who}))])
    assert counts.octaves(6).tolist() == [1, 1, 2, 2, 1, 1]


def test_ids_of_two_types_are_refused() -> None:
    parts = [WHO.count(pa.record_batch({"who": who})) for who in ([1, 2], ["1", "2"])]
    with pytest.raises(ValueError, match="one type in the whole table"):
        PersonCounts().plus(parts)
    with pytest.raises(ValueError, match="one type in the whole table"):
        PersonCounts().plus(parts[:1]).lookup().of(Ids.of(pa.array(["1"], pa.large_string())))


# -- sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", [WHO, BOTH])
@pytest.mark.parametrize("text", [True, False])
def test_sums_are_those_of_integers_times_integer_weights(weighting: Weighting, text: bool) -> None:
    table = stays(0, 60, text)
    sums = summed(table, weighting)
    counts = PersonCounts().plus([weighting.count(b) for b in table.to_batches()])
    (batch,) = table.to_batches()
    weights = weighting.counted(counts).of(batch)
    opened = Table.open(table, NAMES).with_rows(Rows(Columns(NAMES, limits=LIMITS)))
    rows = np.hstack([block.features for block in opened.blocks()]).astype(int).astype(object)
    gram = (rows * weights.astype(object)) @ rows.T
    assert fractions(sums["gram"]) == [Fraction(int(x), ONE) for x in gram.ravel()]
    assert fractions(sums["count"]) == [Fraction(int(weights.sum()), ONE)]


def test_tables_of_every_kind_have_the_same_sums(tmp_path: Path) -> None:
    """Rows of one person lie in several batches, files and partitions."""
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    table = stays(1)
    parts = [table.slice(start, 300) for start in range(0, len(table), 300)]
    for index, part in enumerate(parts):
        pa.parquet.write_table(part, tmp_path / f"{index:03}.parquet")
    frame = table.to_pandas()
    frame.to_csv(tmp_path / "all.csv", index=False)
    objects = frame.assign(who=frame.who.astype(object))
    wanted = summed(table, BOTH)
    assert wanted["gram"].part is not None
    for source in (
        frame,
        objects,
        pa.concat_tables(parts[::-1]),
        polars.from_arrow(table),
        duckdb.from_arrow(table),
        str(tmp_path / "*.parquet"),
        str(tmp_path / "all.csv"),
        table.set_column(0, "who", table["who"].combine_chunks().dictionary_encode()),
    ):
        assert same(summed(source, BOTH), wanted)


def test_partitions_of_dask_have_the_same_sums() -> None:
    frames = pytest.importorskip("dask.dataframe")
    table = stays(2, 100, text=False)
    frame = frames.from_pandas(table.to_pandas(), npartitions=5)
    assert same(summed(frame, BOTH), summed(table, BOTH))


def test_rows_of_other_array_libraries_have_the_same_sums() -> None:
    """What is moved to a device brings its weights along."""
    xp = pytest.importorskip("array_api_strict")
    from ndis.tables.batches import Batch
    from ndis.tables.table import Pass

    table = stays(3, 100)
    view = Table.open(table, NAMES).weighed(BOTH).with_rows(Rows(Columns(NAMES, limits=LIMITS)))
    wanted = view.sum(moments)
    (batch,) = table.to_batches()
    rows = view.rows
    numbers = xp.asarray(np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()]))
    moved = Batch(numbers, ready=True, weights=rows.weighting.of(batch))
    found = Pass(rows, moments)(moved).sums()
    assert all(found[name] == wanted[name] for name in wanted)


def test_rows_that_are_left_out_count_for_nobody() -> None:
    table = stays(4, 50)
    gaps = np.random.default_rng(0).integers(0, 6, len(table))
    values = {name: table[name].to_pylist() for name in table.column_names}
    for row, gap in enumerate(gaps):
        if gap < 3:
            values[["who", "a", "w"][gap]][row] = None
        elif gap == 3:
            values["b"][row] = np.inf
    with_gaps = pa.table(values, schema=table.schema)
    kept = table.take(np.flatnonzero(gaps > 3))
    wanted = summed(kept, BOTH)
    assert same(summed(with_gaps, BOTH, drop_missing=True), wanted)
    assert same(summed(with_gaps.to_pandas(), BOTH, drop_missing=True), wanted)
    with pytest.raises(ValueError, match="does not say for every row whose it is"):
        summed(with_gaps, BOTH)


def test_batches_of_which_nothing_is_left_are_read() -> None:
    """Whether a batch has a row without a gap must not decide whether a table is refused."""
    whole = pa.table({"who": ["x", "y"], "a": [0.5, None], "b": [1.0, 2.0], "w": [1.0, 1.0]})
    cut = whole.slice(1).to_batches() + whole.slice(0, 1).to_batches()
    assert same(summed(cut, BOTH, drop_missing=True), summed(whole[:1], BOTH))


@pytest.mark.parametrize("m", [1, 2, 3, 7, 1000])
def test_a_person_moves_sums_by_at_most_one_row(m: int) -> None:
    """Rows of any scale, in any place of the table, and all of one person's at the ends."""
    rng = np.random.default_rng(m)
    table = stays(5, 40)
    own = {
        "who": ["new"] * m,
        "a": rng.choice([-1e300, 1e300, 5e-324, 1.0], m) if m % 2 else np.full(m, 1.0),
        "b": rng.choice([-1e300, 4.0, 1e300], m) if m % 2 else np.full(m, 4.0),
        "w": np.full(m, 1e9),
    }
    more = pa.concat_tables([table, pa.table(own)])
    more = more.take(rng.permutation(len(more)))
    for weighting in (WHO, BOTH):
        before, after = (summed(each, weighting) for each in (table, more))
        moved = {name: fractions(after[name] - before[name]) for name in before}
        share = Fraction(min(m, weighting.rows_per_person), weighting.rows_per_person)
        assert 0 < moved["count"][0] <= share
        assert sum(moved["gram"][:: len(NAMES) + 1]) <= share * GRID_NORM**2  # the trace
        assert sum(x * x for x in moved["sums"]) <= share**2 * GRID_NORM**2


def test_a_person_with_a_million_rows_costs_nobody_anything() -> None:
    table = stays(6, 40, text=False)
    m = 1_000_000
    giant = {"who": np.full(m, -1), "a": np.ones(m), "b": np.zeros(m), "w": np.ones(m)}
    more = pa.concat_tables([table, pa.table(giant).cast(table.schema)])
    before, after = (summed(each, WHO) for each in (table, more))
    moved = fractions(after["count"] - before["count"])[0]
    assert Fraction(31, 32) <= moved <= 1
    # Exactly their own sums, and nobody else's weight has changed.
    alone = summed(pa.table(giant), WHO)
    assert all(after[name] - before[name] == alone[name] for name in before)


# -- rows that do not say whose they are -------------------------------------------------------

ALONE = Weighting("who", missing_person="own")
BOTH_ALONE = Weighting("who", 3, "w", 5.0, missing_person="own")
# How people are called, among whom those that stand for something inside.
CALLED: dict[str, list[Any]] = {
    "text": ["", "\0", "own", "None", "null", "nan", "-1", "p0"],
    "integers": [0, -1, 1, int(NOBODY), 2**63 - 1, -(2**63)],
    "bytes": [b"", b"\0", b"None"],
    "dates": [dt.date(1970, 1, 1), dt.date(1969, 12, 31)],
}


def without_ids(names: list[Any], n: int = 240) -> tuple[pa.Table, pa.Table]:
    """Two rows in three without an id; and the same with one for each. The first 80 all without."""
    rng = np.random.default_rng(len(names))
    who = [names[k] if k < len(names) else None for k in rng.integers(0, 3 * len(names), n)]
    who[:80] = [None] * 80
    kind = pa.array(names).type
    others = {
        "large_string": lambda k: f"nobody {k}",
        "string": lambda k: f"nobody {k}",
        "int64": lambda k: 1000 + k,
        "binary": lambda k: b"nobody %d" % k,
        "date32[day]": lambda k: dt.date(2000, 1, 1) + dt.timedelta(days=k),
    }[str(kind)]
    more = {
        "a": rng.uniform(-2, 2, n),
        "b": rng.uniform(0, 4, n),
        "w": rng.choice([0.0, 0.3, 7.0], n),
    }
    named = [others(k) if each is None else each for k, each in enumerate(who)]
    return pa.table({"who": pa.array(who, kind), **more}), pa.table({"who": named, **more})


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("source", people.SOURCES)
def test_rows_without_a_person_count_as_people_of_their_own(
    called: str, source: str, tmp_path: Path
) -> None:
    if (called, source) in people.NOT_THERE:
        return
    names = CALLED[called]
    if (called, source) == ("text", "CSV files"):  # which holds no such text
        names = names[2:]
    given, named = without_ids(names)
    parts = [given.slice(start, 80) for start in range(0, len(given), 80)]
    made = people.SOURCES[source](parts, tmp_path)
    for weighting in (ALONE, BOTH_ALONE):
        wanted = summed(named, replace(weighting, missing_person="refuse"))
        assert same(summed(made, weighting), wanted)
        assert same(summed(made, weighting, drop_missing=True), wanted)
    with pytest.raises(ValueError, match="does not say for every row whose it is"):
        summed(made, WHO)


@pytest.mark.parametrize("called", CALLED)
def test_a_row_without_a_person_moves_nobody_elses(called: str) -> None:
    """It adds what it would add alone, wherever it is and whatever others are called."""
    given, _ = without_ids(CALLED[called])
    row = pa.table({"who": [None], "a": [2.0], "b": [4.0], "w": [9.0]}).cast(given.schema)
    for weighting in (ALONE, BOTH_ALONE):
        share = 1.0 / weighting.rows_per_person
        for place in (0, 100, len(given)):
            more = pa.concat_tables([given.slice(0, place), row, given.slice(place)])
            before, after, own = (summed(each, weighting) for each in (given, more, row))
            assert all(after[name] - before[name] == own[name] for name in before)
            assert share * 63 / 64 < own["count"].value <= share


@given(st.lists(st.one_of(st.none(), st.integers(-3, 4)), max_size=40), st.integers(1, 7))
@settings(max_examples=50, deadline=None)
def test_they_are_counted_however_rows_are_cut(who: list[int | None], step: int) -> None:
    parts = [
        ALONE.count(pa.record_batch({"who": pa.array(who[start : start + step])}))
        for start in range(0, len(who), step)
    ]
    counts = PersonCounts().plus(parts)
    again = PersonCounts().plus([PersonCounts().plus(parts[::2]), PersonCounts().plus(parts[1::2])])
    known = {each: who.count(each) for each in who if each is not None}
    octaves = np.bincount([0] * who.count(None), minlength=8)
    octaves += np.bincount(np.frexp(np.array([*known.values()]) - 1.0)[1], minlength=8)
    for each in (counts, again):
        assert (each.alone, each.n_people) == (who.count(None), len(known) + who.count(None))
        assert each.most == max([*known.values(), *[1] * who.count(None)], default=0)
        assert each.octaves(8).tolist() == octaves.tolist()
        assert each.mark == counts.mark
        found = {} if each.table is None else each.table.to_pydict()
        pairs = dict(zip(found.get("id", []), found.get("n", []), strict=True))
        assert pairs == known | ({None: who.count(None)} if None in who else {})


def test_rows_that_lose_their_person_between_two_passes_are_noticed() -> None:
    """Also where nobody's weight changes by that, and somebody is called 0."""
    passes: list[int] = []

    def batches() -> Any:
        passes.append(1)
        who = [0, 1] if len(passes) < 4 else [None, 1]
        yield pa.record_batch({"who": who, "a": [0.1, 0.2], "b": [1.0, 2.0]})

    rows = Rows(Columns(NAMES, limits=LIMITS))
    opened = Table.open(batches, NAMES).weighed(ALONE).with_rows(rows)
    opened.sum(moments)
    with pytest.raises(ValueError, match="changed between two passes"):
        opened.sum(moments)


def test_what_is_declared_of_them_holds_for_one_fit_of_a_table() -> None:
    opened = Table.open(without_ids(CALLED["text"])[0], NAMES)
    rows = Rows(Columns(NAMES, limits=LIMITS))
    opened.weighed(ALONE).with_rows(rows).sum(moments)
    with pytest.raises(ValueError, match="does not say for every row"):
        opened.weighed(WHO).with_rows(rows).sum(moments)


# -- what is refused ---------------------------------------------------------------------------


def test_arrays_have_no_column_of_people() -> None:
    with pytest.raises(ValueError, match="whose columns have names"):
        Table.open(np.zeros((3, 2))).weighed(WHO)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="one column 'who'"):
        Table.open(pd.DataFrame({"a": [1.0]})).weighed(WHO)


def test_a_table_that_is_read_once_is_refused() -> None:
    table = stays(7)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with pytest.raises(ValueError, match="read twice to count the rows of every who"):
        summed(reader, WHO)


def test_rows_that_change_hands_between_two_passes_are_noticed() -> None:
    """Everybody has as many rows as before, but others."""
    table, passes = stays(8, 50), []

    def batches() -> Any:
        passes.append(1)
        who = table["who"] if len(passes) < 4 else table["who"].take(np.arange(len(table))[::-1])
        yield from table.set_column(0, "who", who).to_batches()

    rows = Rows(Columns(NAMES, limits=LIMITS))
    opened = Table.open(batches, NAMES).weighed(WHO).with_rows(rows)
    opened.sum(moments)
    with pytest.raises(ValueError, match="changed between two passes"):
        opened.sum(moments)


def test_weighted_rows_are_not_measured_one_by_one() -> None:
    table = Table.open(stays(9), NAMES).weighed(WHO).with_rows(Rows(Columns(NAMES, limits=LIMITS)))
    with pytest.raises(ValueError, match="count alike"):
        table.measure(lambda block: block.squares()[None], 1)


def test_a_table_is_read_with_and_without_weights_of_a_sample() -> None:
    """Rows without one are left out of the first only, and count for people in the second."""
    own = {"who": ["x", "x", "y"], "a": [1.0, 1.0, 0.5], "b": [1.0, 2.0, 3.0]}
    opened = Table.open(pa.table({**own, "w": [1.0, None, 1.0]}), NAMES, drop_missing=True)
    rows = Rows(Columns(NAMES, limits=LIMITS))
    for weighting, total in ((BOTH, 2.0 / 15.0), (WHO, 2.0), (BOTH, 2.0 / 15.0)):
        sums = opened.weighed(weighting).with_rows(rows).sum(moments)
        assert sums["count"].value == pytest.approx(total, rel=0.02)
