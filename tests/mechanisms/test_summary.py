"""Summaries by group: what a record moves, what is released, what is said of it."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from ndis import PrivateSummary, Release
from ndis.auditing.transcript import Difference, Recorder
from ndis.mechanisms import summary
from ndis.mechanisms.summary_answers import FIELDS, FIXED, MOST_OF_WHOLE, whole_numbers
from ndis.tables import Table

LEVELS = {"ward": ["A", "B", "C"], "sex": ["f", "m"]}


def stays(n: int = 3000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    ward = rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1])
    cost = np.where(ward == "A", 800.0, 1500.0) * rng.lognormal(0, 0.4, n)
    sex, age = rng.choice(["f", "m"], n), rng.normal(50, 15, n)
    return pa.table({"ward": ward, "sex": sex, "cost": cost, "age": age})


def made(**more: Any) -> PrivateSummary:
    known: dict[str, Any] = {
        "by": ["ward"],
        "levels": {"ward": LEVELS["ward"]},
        "limits": {"cost": (0, 50_000)},
        "epsilon": 1.0,
        "delta": 1e-6,
        "random_state": 0,
    }
    return PrivateSummary(**{**known, **more})


EVERYTHING: dict[str, Any] = {
    "levels": LEVELS,
    "limits": {"cost": (0, 10_000), "age": (0, 100)},
    "quantiles": (0.25, 0.5, 0.75),
}


# -- what a record moves ---------------------------------------------------------------------------


def shift(model: PrivateSummary, here: pa.Table, there: pa.Table) -> tuple[float, float]:
    """The largest loss under Laplace noise, and the squared shift under normal noise."""
    recorder = Recorder(model)
    first = recorder.run((here,))
    found = Difference.between(first, recorder.run((there,), like=first))
    return found.largest, found.square


@pytest.mark.parametrize("method", ["discrete laplace", "laplace", "gaussian"])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "more", [{}, {**EVERYTHING, "refine": True}, {"refine": True}], ids=["", "all", "refined"]
)
def test_a_hostile_record_moves_no_more_than_is_claimed(method, relation, more) -> None:
    model = made(method=method, relation=relation, **more)
    plan, largest = model.plan(), 0.0
    claimed = float(plan.loss.supremum())
    if method == "gaussian":
        claimed = sum((part.sensitivity / part.noise) ** 2 for part in plan.parts)
    rng = np.random.default_rng(1)
    for _ in range(12):
        table = stays(int(rng.integers(1, 40)), int(rng.integers(1 << 30)))
        values = [0.0, 50_000.0, 25_000.0, -1e300, 1e300, 12.5]
        rows = [
            {
                "ward": rng.choice(["A", "B", "C", "none"]),
                "sex": rng.choice(["f", "m", "none"]),
                "cost": rng.choice(values),
                "age": rng.choice(values),
            }
            for _ in range(2)
        ]
        one, other = (
            pa.concat_tables([table, pa.Table.from_pylist([row], table.schema)]) for row in rows
        )
        pure, square = shift(model, one, other if relation == "replace" else table)
        largest = max(largest, pure, square)
        assert max(pure, square) <= claimed * (1 + 1e-9)
    assert largest > 0.5 * claimed  # and not much less, or the noise would be too large


@pytest.mark.parametrize("method", ["laplace", "gaussian"])
def test_a_person_in_many_groups_moves_no_more_than_a_row(method: str) -> None:
    model = made(method=method, person="who", **{**EVERYTHING, "refine": True})
    plan = model.plan()
    assert str(plan.guarantee.relation) == "person:who"
    claimed = float(plan.loss.supremum())
    if method == "gaussian":
        claimed = sum((part.sensitivity / part.noise) ** 2 for part in plan.parts)
    for n in (1, 3, 7, 40):
        table = stays(30, n)
        table = table.append_column("who", [[f"p{k % 9}" for k in range(30)]])
        own = stays(n, n + 1).append_column("who", [["hostile"] * n])
        pure, square = shift(model, pa.concat_tables([table, own]), table)
        assert 0.1 * claimed < max(pure, square) <= claimed * (1 + 1e-9)


def test_the_rows_of_a_person_are_bought_with_either_law() -> None:
    for method in ("laplace", "gaussian"):
        plan = made(person="who", rows_per_person="private", method=method).plan()
        assert "rows_per_person" in plan.noise_scale
        assert plan.loss.delta(plan.guarantee.epsilon) <= plan.guarantee.delta


def test_groups_cost_nothing() -> None:
    few = made(levels={"ward": ["A"]}).calibrate()
    many = made(levels={"ward": [f"w{k}" for k in range(200)]}).calibrate()
    assert few == many


def test_the_law_is_chosen_and_told() -> None:
    one = made().plan()
    assert one.method == "discrete laplace"
    assert "gaussian" in one.reason
    # People and weights are shares of a row.
    assert made(person="who").plan().method == "laplace"
    assert made(sample_weight="w", max_weight=1.0).plan().method == "laplace"
    assert made(by=[["ward"], ["sex"]], levels=LEVELS).plan().method == "laplace"
    many = made(limits={f"x{k}": (0, 1) for k in range(20)}).plan()
    assert many.method == "gaussian"
    assert made().calibrate()["means"] == pytest.approx(math.sqrt(2.0), rel=1e-5)


# -- what is said ----------------------------------------------------------------------------------


def of(frame: Any, statistic: str, column: str = "", **group: str) -> Any:
    chosen = (frame["statistic"] == statistic) & (frame["column"] == column)
    for name in ("ward", "sex"):
        if name in frame:
            chosen &= frame[name] == group.get(name, "")
    (row,) = frame[chosen].to_dict("records")
    return row


def test_answers_are_near_the_truth() -> None:
    table = stays(40_000)
    frame = made(**EVERYTHING).fit(table).to_frame(of="table", level=0.9999)
    pandas = table.to_pandas()
    pandas["age"] = pandas["age"].clip(0, 100)
    for ward in ("A", "B", "C", ""):
        own = pandas[pandas["ward"] == ward] if ward else pandas
        truths = {("count", ""): len(own)}
        for name in ("cost", "age"):
            truths |= {("mean", name): own[name].mean(), ("sd", name): own[name].std()}
            truths |= {(f"q{q}", name): own[name].quantile(q) for q in (0.25, 0.5, 0.75)}
        for (statistic, column), truth in truths.items():
            row = of(frame, statistic, column, ward=ward)
            assert row["lower"] - 1e-9 <= truth <= row["upper"] + 1e-9
            assert row["upper"] - row["lower"] < 2 * truth
        share = frame[(frame["ward"] == ward) & (frame["level"] == "f")].iloc[0]
        assert abs(share["estimate"] - (own["sex"] == "f").mean()) < 5 * share["standard_error"]


def test_noise_follows_the_spread_and_not_the_limits() -> None:
    table = stays(2000)
    wide = {"cost": (0, 1_000_000)}
    errors = [
        of(
            made(limits=wide, refine=refine).fit(table).to_frame(of="table"),
            "mean",
            "cost",
            ward="A",
        )
        for refine in (False, True)
    ]
    assert errors[1]["standard_error"] < 0.25 * errors[0]["standard_error"]


def test_counts_add_up_over_all_margins() -> None:
    frame = made(by=["ward", "sex"], levels=LEVELS, unlisted="other").fit(stays(60)).to_frame()
    counts = frame[frame["statistic"] == "count"]
    assert (counts["estimate"] >= 0).all()
    assert len(counts) == 4 * 3 + 4 + 3 + 1
    total = of(frame, "count")["estimate"]
    for ward, sex in ((True, True), (True, False), (False, True)):
        margin = counts[((counts["ward"] != "") == ward) & ((counts["sex"] != "") == sex)]
        assert margin["estimate"].sum() == pytest.approx(total)


@pytest.mark.parametrize("asked", [{"limits": None}, {}, {"method": "gaussian", "epsilon": 90.0}])
def test_counts_with_little_noise_are_whole_numbers_with_right_intervals(asked) -> None:
    """The error is smaller, sums are those of the groups, and intervals hold the truth as often."""
    table = stays(300)
    truth = [table["ward"].to_pylist().count(ward) for ward in "ABC"]
    truths = np.array([*truth, 0, 0, 300])
    more, told = {"levels": {"ward": ["A", "B", "C", "nobody"]}, "unlisted": "other"}, []
    for seed in range(300):
        model = made(**{"epsilon": 10.0, "random_state": seed, **more, **asked})
        columns = model.fit(table).to_columns(level=0.9)
        counts = [k for k, name in enumerate(columns["statistic"]) if name == "count"]
        told.append([[columns[name][k] for k in counts] for name in FIELDS])
    estimate, error, low, high = np.moveaxis(np.array(told), 1, 0)
    np.testing.assert_array_equal(estimate, np.rint(estimate))
    np.testing.assert_array_equal(estimate[:, -1], estimate[:, :-1].sum(axis=1))
    assert ((low <= estimate) & (estimate <= high) & (estimate >= 0)).all()
    square = ((estimate - truths) ** 2)[:, :3].mean()
    chance = 4.0 * error[0, 0] / math.sqrt(900)  # an error of one is rare, and its square is one
    assert square < error[0, 0] ** 2 + chance
    assert error[0, 0] < MOST_OF_WHOLE
    held = ((low <= truths) & (truths <= high)).mean(axis=0)
    assert (held > 0.9 - 3.0 * math.sqrt(0.09 / 300)).all()


def test_intervals_of_counts_are_right_beside_many_groups_without_rows() -> None:
    """What is made consistent lies further off than noise there; intervals are of the noise."""
    names = ["A", "B", "C", *(f"nobody {k}" for k in range(200))]
    table, told = stays(300), []
    truths = np.array([table["ward"].to_pylist().count(ward) for ward in "ABC"])
    for seed in range(200):
        model = made(limits=None, levels={"ward": names}, random_state=seed).fit(table)
        columns = model.to_columns()
        told.append([columns[name][:3] for name in FIELDS])
    estimate, _, low, high = np.moveaxis(np.array(told), 1, 0)
    assert ((low <= estimate) & (estimate <= high)).all()
    held = ((low <= truths) & (truths <= high)).mean(axis=0)
    assert (held > 0.95 - 3.0 * math.sqrt(0.05 * 0.95 / 200)).all()


def test_whole_numbers_of_many_empty_groups_do_not_add_up_to_rows() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([40.0, 7.0, *[0.0] * 1000])
    found = np.array([whole_numbers(truth + rng.normal(0, 0.24, 1002)) for _ in range(300)])
    assert np.mean((found.sum(axis=1) - 47) ** 2) < 1002 * 0.24**2
    assert abs(found.sum(axis=1).mean() - 47) < 0.5 * 0.24 * math.sqrt(1002)
    assert np.mean((found[:, :2] - truth[:2]) ** 2) < 0.24**2


def test_counts_are_whole_numbers_only_where_that_lowers_their_error() -> None:
    """By the noise alone, of either law; never of people or weights, which are shares of rows."""
    for spread, less in ((MOST_OF_WHOLE, True), (0.3, False)):
        steps = np.arange(0.5, 20.0)
        for tail in (stats.norm(scale=spread).sf, stats.laplace(scale=spread / math.sqrt(2.0)).sf):
            square = float(np.sum(2.0 * steps * 2.0 * tail(steps)))
            assert (square < spread**2) is less
    table = stays(300).append_column("who", [[k % 150 for k in range(300)]])
    table = table.append_column("w", [[0.3] * 300])
    rows = {"epsilon": 1.0, "method": "laplace"}
    for more in ({"person": "who"}, {"sample_weight": "w", "max_weight": 1.0}, rows):
        model = made(**{"epsilon": 50.0, "limits": None, **more}).fit(table)
        counts = np.array(model.to_columns()["estimate"])
        assert not (counts == np.rint(counts)).any()


def many_wards(n: int) -> tuple[pa.Table, dict[str, Any]]:
    """A table whose groups stand for as many runs."""
    names = [f"w{k:04d}" for k in range(n)]
    ward = np.repeat(names, 40)
    cost = np.random.default_rng(0).uniform(0, 50_000, len(ward))
    return pa.table({"ward": ward, "cost": cost}), {"levels": {"ward": names}}


@pytest.mark.parametrize("limits", [None, {"cost": (0, 50_000)}])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 5.0, 10.0, 1e5])
def test_counts_of_rows_are_whole_with_right_errors_and_intervals(limits, epsilon) -> None:
    """Noise that keeps them whole: what is told of its size and law is what it has."""
    n = 1500
    table, known = many_wards(n)
    model = made(limits=limits, epsilon=epsilon, **known).fit(table)
    columns = model.to_columns(level=0.9)
    estimate, error, low, high = (np.array(columns[name][:n]) for name in FIELDS)
    few = made(limits=limits, epsilon=epsilon, unlisted="other", levels={"ward": ["A", "B"]})
    few_counts = few.fit(stays(60).slice(0, 3)).to_columns()
    for whole in (estimate, low, high, few_counts["estimate"][:3]):  # some were below 0
        np.testing.assert_array_equal(whole, np.rint(whole))
    square, stated = ((estimate - 40.0) ** 2).mean(), error[0] ** 2
    # Of a mean of squares, with the fourth moment of Laplace noise or of errors of one.
    assert abs(square - stated) < 4.0 * math.sqrt((5.0 * stated**2 + stated) / n) + 1e-12
    held = ((low <= 40.0) & (high >= 40.0)).mean()
    assert held > 0.9 - 4.0 * math.sqrt(0.09 / n)


def test_means_have_less_noise_where_counts_are_whole() -> None:
    n, errors = 1000, {}
    table, known = many_wards(n)
    truths = np.asarray(table["cost"]).reshape(n, 40).mean(axis=1)
    for method in ("discrete laplace", "laplace"):
        model = made(epsilon=20.0, method=method, **known).fit(table)
        columns = model.to_columns(of="table")
        place = columns["statistic"].index("mean")
        told = (np.array(columns[name][place : place + n]) for name in FIELDS)
        estimate, error, low, high = told
        errors[method] = float(np.sqrt(((estimate - truths) ** 2).mean()))
        assert errors[method] == pytest.approx(float(error.mean()), rel=0.15)
        assert 0.93 < ((low <= truths) & (truths <= high)).mean() < 0.98
    assert errors["discrete laplace"] < 0.85 * errors["laplace"]


def test_rows_that_are_not_listed_are_in_the_total_or_a_group() -> None:
    table, few = stays(20_000), {"ward": ["A"]}
    total = made(levels=few).fit(table).to_frame()
    assert set(total["ward"]) == {"", "A"}
    assert abs(of(total, "count")["estimate"] - 20_000) < 30
    other = made(levels=few, unlisted="other").fit(table).to_frame()
    assert set(other["ward"]) == {"", "A", "other"}
    assert abs(of(other, "count", ward="other")["estimate"] - 8000) < 300


def test_too_little_is_said_to_be_too_little() -> None:
    model = made(epsilon=0.01).fit(stays(30))
    assert math.isnan(of(model.to_frame(), "mean", "cost", ward="C")["estimate"])
    assert "no information at this budget" in model.summary()


def test_the_public_reads_the_same_from_the_file(tmp_path) -> None:
    model = made(**EVERYTHING).fit(stays())
    model.release_.save(tmp_path / "stays.npz")
    again = PrivateSummary.from_release(Release.load(tmp_path / "stays.npz"))
    assert again.summary() == model.summary()
    pd.testing.assert_frame_equal(again.to_frame(), model.to_frame(), rtol=1e-12)


def test_a_summary_is_text_and_a_picture() -> None:
    model = made(**EVERYTHING).fit(stays())
    said = model.summary(level=0.9)
    assert "mean of cost" in said
    assert "90% interval" in said
    assert said.endswith("Counts are not negative and add up; means lie within the limits.")
    assert len(model.plot().axes[0].patches) == 3
    assert model.plot(statistic="count").axes[0].get_xlabel().startswith("count")
    with pytest.raises(ValueError, match="released"):
        model.plot("cost", "q0.9")


@pytest.mark.parametrize("name", [*FIXED, "period", "by_level"])
def test_a_column_of_groups_may_be_called_like_one_of_the_answers(name: str) -> None:
    """It was a release that was paid, and whose answers could not be read."""
    second = "sex" if name == "level" else name
    table = stays().rename_columns(["level", second, "cost", "age"])
    levels = {"level": LEVELS["ward"], second: LEVELS["sex"]}
    model = made(by=[*levels], levels=levels).fit(table)
    told = model.to_columns()
    assert len({len(column) for column in told.values()}) == 1
    assert list(told)[-len(FIXED) :] == list(FIXED)
    groups = [*told][: -len(FIXED)]
    assert len(set(groups)) == len(levels)
    for heading, known in zip(groups, levels.values(), strict=True):
        assert set(told[heading]) == {*known, ""}
    assert all(len(answer.rows) == len(answer.keys) for answer in model.answers())
    assert "level=A" in model.summary()
    assert "mean of cost" in [answer.title for answer in model.answers()]


def test_groups_that_look_alike_have_names_of_their_own() -> None:
    """Levels called total, other or nothing at all; the levels of two columns alike."""
    table = stays().set_column(0, "ward", pa.array(["", "other", "total", "rest"] * 750))
    names = ["", "other", "total"]
    model = made(levels={"ward": names}, unlisted="other").fit(table)
    told = model.to_columns()
    shown = ["(empty)", "other", "total", "other (not listed)"]
    assert told["ward"][:4] == shown
    assert all(abs(count - 750) < 50 for count in told["estimate"][:4])
    rows = [name for name, _ in model.answers()[0].rows]
    assert rows == [*(f"ward={name}" for name in shown), "total"]
    alike = table.set_column(1, "sex", table["ward"])
    wide = made(by=["ward", "sex"], levels={"ward": names, "sex": names}).fit(alike)
    rows = [name for name, _ in wide.answers()[0].rows]
    assert len(set(rows)) == len(rows) == 16
    model = made(levels={"ward": ["", "(empty)"]}).fit(table)
    assert model.to_columns()["ward"][:2] == ["((empty))", "(empty)"]


def test_an_array_has_no_groups_and_a_total() -> None:
    array = np.random.default_rng(0).uniform(0, 1, (5000, 2))
    model = PrivateSummary(limits=(0, 1), epsilon=1.0, delta=1e-6, random_state=0).fit(array)
    frame = model.to_frame()
    assert abs(of(frame, "mean", "x1")["estimate"] - 0.5) < 0.05


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"by": "ward"}, "list of columns"),
        ({"by": ["ward", "ward"]}, "distinct"),
        ({"by": ["sex"]}, "levels of 'sex'"),
        ({"quantiles": (0.5, 1.5)}, "quantiles"),
        ({"quantiles": [0.5] * 1001}, "at most 1000 quantiles"),
        ({"unlisted": "none"}, "unlisted"),
        ({"method": "cauchy"}, "method"),
        ({"relation": "edge"}, "relation"),
        ({"refine": "yes"}, "refine"),
        ({"levels": {"ward": ["A"], "cost": ["1"]}}, "limits"),
        ({"columns": ["ward", "cost", "age"]}, "age"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(more: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says) as told:
        made(**more).plan()
    assert "\n" not in str(told.value)


def test_a_table_that_is_read_once_cannot_be_refined() -> None:
    reader = pa.RecordBatchReader.from_batches(stays().schema, stays().to_batches())
    with pytest.raises(ValueError, match="refine=False"):
        made(refine=True).fit(reader)
    reader = pa.RecordBatchReader.from_batches(stays().schema, stays().to_batches())
    assert made().fit(reader).release_.arrays["means"].shape == (4, 1, 3)


def test_a_thousand_quantiles_are_told_and_no_more_of_any_file() -> None:
    release = made(by=[], levels={}, quantiles=[0.5] * 1000).fit(stays(50)).release_
    assert len(PrivateSummary.from_release(release).to_columns()["estimate"]) == 1003
    release.parameters["quantiles"].append(0.5)
    with pytest.raises(ValueError, match="at most 1000 quantiles"):
        PrivateSummary.from_release(release).to_columns()


def test_quantiles_say_where_values_lie_too() -> None:
    assert "places" not in made(refine=True, quantiles=[0.5]).calibrate()
    assert made(refine=True).plan().shapes["places"][-1] == summary._N_PLACES


# -- everything, knowing nothing -----------------------------------------------------------------


def test_all_columns_are_summarised_by_their_types_alone() -> None:
    table = stays(8000)
    model = PrivateSummary.of_all(table, by=["ward"], epsilon=5.0, delta=1e-6, random_state=0)
    assert model.levels == {"ward": "private", "sex": "private"}
    assert model.limits == {"cost": "private", "age": "private"}
    told = model.fit(table).to_frame()
    assert set(told.statistic) == {"count", "mean", "sd", "q0.25", "q0.5", "q0.75", "share"}
    assert set(told.ward) == {"", "A", "B", "C"}
    median = told[(told.column == "cost") & (told.statistic == "q0.5") & (told.ward == "A")]
    truth = table.to_pandas().query("ward == 'A'").cost.median()
    assert median.lower.item() <= truth <= median.upper.item()
    own = PrivateSummary.from_release(model.release_).to_frame()
    pd.testing.assert_frame_equal(own, told)
    # What is known is kept, and who is protected is no column.
    known = PrivateSummary.of_all(
        table, limits={"cost": (0, 9000)}, person="age", levels={"sex": ["f", "m"]}, epsilon=1.0
    )
    assert known.limits == {"cost": (0, 9000)}
    assert known.levels == {"sex": ["f", "m"], "ward": "private"}


@pytest.mark.parametrize("kind", ["parquet", "pandas", "polars", "csv"])
def test_types_come_from_a_schema_and_never_from_values(kind: str, tmp_path: Any) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    table = stays(50)
    found: Any = table.to_pandas() if kind == "pandas" else str(tmp_path / f"stays.{kind}")
    if kind == "polars":
        found = pytest.importorskip("polars").from_arrow(table)
    elif kind != "pandas":
        {"parquet": pyarrow.parquet.write_table, "csv": pyarrow.csv.write_csv}[kind](table, found)
    promise = {"epsilon": 1.0, "delta": 1e-6}
    if kind in ("csv", "pandas"):  # one row could make text of a column of numbers
        found = Table.open(found, header=True) if kind == "csv" else found
        everything = PrivateSummary.of_all(found, **promise)
        assert everything.limits == dict.fromkeys(table.column_names, "private")
        with pytest.raises(ValueError, match=r"Column 'ward' holds .*not numbers.*levels"):
            everything.fit(found)
        named = PrivateSummary.of_all(found, levels=dict.fromkeys(("ward", "sex"), "private"))
        assert list(named.limits) == ["cost", "age"]
        return
    model = PrivateSummary.of_all(found, **promise)
    assert sorted(model.levels) == ["sex", "ward"]
    assert sorted(model.limits) == ["age", "cost"]


@pytest.mark.parametrize("value", [None, "unknown", 1.5, pd.NA])
def test_no_row_of_a_data_frame_decides_what_its_columns_are_taken_for(value: Any) -> None:
    """Pandas makes floats or objects of integers, where one is missing or is text."""
    frame = stays(50).to_pandas()
    row = frame.iloc[:1].astype({"age": object})
    row.loc[row.index[0], "age"] = value
    here, there = (
        PrivateSummary.of_all(each, by=["ward"], levels={"sex": "private"}).get_params()
        for each in (frame, pd.concat([frame, row], ignore_index=True))
    )
    assert here == there


def test_histograms_follow_from_quantiles() -> None:
    model = made(quantiles=[0.5]).fit(stays(8000))
    edges, counts = model.histogram("cost", n_bins=10)
    assert edges[[0, -1]].tolist() == [0, 50_000]
    assert counts.min() >= 0
    truth = np.histogram(stays(8000)["cost"].to_numpy(), edges)[0]
    np.testing.assert_allclose(counts, truth, atol=100)
    assert made().fit(stays(50)).histogram("cost") is None
    with pytest.raises(ValueError, match="numeric column"):
        model.histogram("age")


@pytest.mark.parametrize("person", [None, "who"])
def test_a_table_that_changes_is_noticed_where_its_only_column_has_private_levels(
    person: str | None,
) -> None:
    here = pa.table({"ward": ["A", "B"] * 200, "who": np.arange(400)})
    there = here.set_column(0, "ward", pa.array(["A", "A", "A", "B"] * 100))
    known = {"by": ["ward"], "levels": {"ward": "private"}, "limits": None, "person": person}

    def reads(last: int) -> int:
        """How often a table is read that is another one after so many times."""
        times = itertools.count(1)

        def batches() -> Any:
            yield from (here if next(times) <= last else there).to_batches()

        made(**known).fit(Table.open(batches))
        return next(times) - 1

    n = reads(10**9)
    assert n >= 3  # it is opened, levels are counted, sums are made
    reads(1)  # changed before it is first counted
    for last in range(2, n):
        with pytest.raises(ValueError, match="changed between two passes"):
            reads(last)


# -- several groupings -----------------------------------------------------------------------------

SEVERAL = [["ward"], ["sex"], ["ward", "sex"]]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("levels", [LEVELS, {"ward": "private", "sex": ["f", "m"]}])
def test_several_groupings_are_consistent_and_near_the_truth(law: str, levels: Any) -> None:
    table = stays(4000)
    known = {"levels": levels, "method": law, "quantiles": [0.5], "epsilon": 5.0}
    model = made(by=SEVERAL, **known, max_levels=9, unlisted="other")
    told = model.fit(table).to_frame(of="table")
    pd.testing.assert_frame_equal(
        PrivateSummary.from_release(model.release_).to_frame(of="table"), told
    )
    frame = table.to_pandas()
    for names in SEVERAL:
        for key, rows in frame.groupby(names):
            own = told
            for name in ("ward", "sex"):
                wanted = key[names.index(name)] if name in names else ""
                own = own[own[name] == wanted]
            own = own.set_index(["column", "statistic"])
            count, mean = own.loc[("", "count")], own.loc[("cost", "mean")]
            assert abs(count.estimate - len(rows)) < 6 * count.standard_error
            assert abs(mean.estimate - rows.cost.mean()) < 6 * mean.standard_error
    counts = told[told.statistic == "count"]
    whole = counts[(counts.ward == "") & (counts.sex == "")].estimate.item()
    for chosen in (
        (counts.ward != "") & (counts.sex == ""),
        (counts.ward == "") & (counts.sex != ""),
    ):
        assert counts[chosen].estimate.sum() == pytest.approx(whole, abs=1.0)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_each_of_several_groupings_is_paid_for(law: str) -> None:
    """A record is in one cell of each; the shift is that of all of them together."""
    model = made(by=SEVERAL, **EVERYTHING, method=law, random_state=None)
    table, recorder = stays(40), Recorder(made(by=SEVERAL, **EVERYTHING, method=law))
    here = recorder.run((table,))
    there = recorder.run((table.slice(1),), like=here)
    found, parts = Difference.between(here, there), model.plan().parts
    squares = [(part.sensitivity**2, part.noise) for part in parts]  # blocks, for either law
    claimed = math.fsum(blocks / noise**2 for blocks, noise in squares)
    if law == "laplace":
        claimed = math.fsum(math.sqrt(2.0) * blocks / noise for blocks, noise in squares)
    moved = math.fsum(found.pure) if law == "laplace" else found.square
    assert 0.5 * claimed < moved <= claimed * (1 + 1e-12)
    alone = made(by=["ward", "sex"], **EVERYTHING, method=law).plan()
    assert len(parts) == 3 * len(alone.parts)
    assert model.plan().guarantee.epsilon == 1.0


@pytest.mark.parametrize("n", [2, 10, 12])
def test_as_many_groupings_as_there_may_be(n: int) -> None:
    """Names of one do not end in those of another."""
    names = [f"c{k}" for k in range(n)]
    table = pa.table({name: ["a"] * (k + 1) + ["b"] * (20 - k) for k, name in enumerate(names)})
    asked = {"levels": {name: ["a", "b"] for name in names}, "limits": None, "epsilon": 1e6}
    model = made(by=[[name] for name in names], **asked).fit(table)
    told = model.to_frame(of="table")
    for k, name in enumerate(names):
        assert told[told[name] == "a"].estimate.item() == pytest.approx(k + 1, abs=0.1)
    assert len(model.forecast(n_rows=21).errors) == 2 * n


def test_forecasts_and_plans_tell_what_groupings_cost_each_other() -> None:
    asked = {**EVERYTHING, "method": "gaussian"}
    errors = made(by=SEVERAL, **asked).forecast(n_rows=5000).errors
    alone = made(by=["ward"], **{**asked, "levels": {"ward": LEVELS["ward"], "sex": LEVELS["sex"]}})
    beside, own = (
        errors[f"standard error of a count by ward{more}"][0]
        for more in ("", ", were nothing else grouped")
    )
    assert beside > own
    # As a summary by wards alone has it, but for the shares of sexes that it counts.
    plan = made(by=[["ward"], ["sex"]], **asked).plan()
    assert "Groupings share the budget (by ward 0." in plan.reason
    assert alone.plan().noise_scale["means"] > 0
    margins = made(by=["ward", "sex"], **asked).forecast(n_rows=5000)
    assert "standard error of a count" in margins.errors


def test_groupings_that_are_not_crossed_have_less_noise_than_margins_of_all_cells() -> None:
    levels = {name: [f"{k}" for k in range(30)] for name in "abc"}
    own = made(by=[["a"], ["b"], ["c"]], levels=levels, method="gaussian", limits=None)
    all_cells = made(by=["a", "b", "c"], levels=levels, method="gaussian", limits=None)
    cell = all_cells.plan().noise_scale["count"]
    beside = own.forecast(n_rows=10_000).errors["standard error of a count by a"][0]
    assert beside < 0.06 * cell * 31  # of 31 x 31 cells that a margin adds up


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ([["ward"], ["ward"]], "distinct groupings"),
        ([["ward", "sex"], ["sex", "ward"]], "distinct groupings"),
        ([["ward"], []], "distinct groupings"),
        ([["ward", "ward"], ["sex"]], "distinct columns"),
        ([[f"c{k}"] for k in range(13)], "at most 12 groupings"),
    ],
)
def test_groupings_that_say_nothing_are_refused(by: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(by=by, levels=LEVELS).plan()
    with pytest.raises(ValueError, match="refine=False"):
        made(by=SEVERAL, levels=LEVELS, refine=True).plan()
