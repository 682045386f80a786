"""Levels that nobody knows: what is published of one record's, exactly and by draws."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from ndis import PrivateSummary, Release
from ndis.auditing import audit
from ndis.auditing.transcript import Difference, Recorder
from ndis.mechanisms import laws, levels
from ndis.mechanisms.levels import LevelCounts, decoded, draw_levels, exceeds, threshold
from ndis.randomness import generator, grid_spacing


def stays(n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(0)
    ward = rng.choice(["heart", "lung", "skin"], n, p=[0.6, 0.35, 0.05]).astype(object)
    code = rng.integers(0, 3, n)
    return pa.table({"ward": ward, "code": code, "cost": rng.uniform(0, 100, n)})


def made(**more: Any) -> PrivateSummary:
    known: dict[str, Any] = {
        "by": ["ward"],
        "levels": {"ward": "private"},
        "limits": {"cost": (0, 100)},
        "max_levels": 5,
        "epsilon": 1.0,
        "delta": 1e-6,
        "random_state": 0,
    }
    return PrivateSummary(**{**known, **more})


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("failure", [1e-2, 1e-7, 1e-12])
def test_the_threshold_has_its_failure_probability(law: str, failure: float) -> None:
    above = threshold(law, 5.0, failure)
    scale = 5.0 / math.sqrt(2.0)
    exact = 0.5 * math.exp(-(above - 1.0) / scale) if law == "laplace" else norm.sf((above - 1) / 5)
    assert exceeds(law, 1.0, 5.0, above) == pytest.approx(exact)
    assert 0.97 * failure < exact < failure  # the grid of the noise is paid for


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_level_of_one_record_is_published_as_rarely_as_is_said(law: str) -> None:
    """200,000 draws at a failure probability of .01; the benchmark has ten million."""
    n, failure = 200_000, 0.01
    above = threshold(law, 5.0, failure)
    names = tuple(f"{k:06d}".encode() for k in range(n))
    found = decoded(
        draw_levels(LevelCounts(names, np.ones(n, np.int64)), law, 5.0, above, n, generator(1))
    )
    assert abs(len(found) - failure * n) < 5 * math.sqrt(failure * n)


def test_levels_are_sorted_and_capped() -> None:
    names = tuple(f"w{k}".encode() for k in range(9))
    counts = LevelCounts(names, np.array([5, 900, 0, 800, 1000, 700, 3, 950, 600]))
    matrix = draw_levels(counts, "gaussian", 1.0, 50.0, 4, generator(0))
    assert decoded(matrix) == ("w1", "w3", "w4", "w7")
    assert matrix.shape == (4, levels.MOST_BYTES)
    assert (
        decoded(draw_levels(LevelCounts((), np.array([])), "laplace", 1.0, 5.0, 4, generator()))
        == ()
    )


def test_levels_that_many_have_are_found_and_others_are_not() -> None:
    table = stays()
    hidden = table.slice(0, 1).set_column(0, "ward", pa.array(["only me"]))
    long = table.slice(0, 500).set_column(0, "ward", pa.array(["x" * 65] * 500))
    model = made().fit(pa.concat_tables([table, hidden, long]))
    frame = model.to_frame()
    assert set(frame["ward"]) == {"", "heart", "lung", "skin"}
    total = frame[(frame["ward"] == "") & (frame["statistic"] == "count")]["estimate"].iloc[0]
    assert abs(total - 3501) < 60
    assert "only me" not in str(model.release_.certificate())


def test_whole_numbers_are_levels_too_and_the_file_says_the_same(tmp_path) -> None:
    model = made(levels={"ward": "private", "code": "private"}).fit(stays(20_000))
    model.release_.save(tmp_path / "stays.npz")
    again = PrivateSummary.from_release(Release.load(tmp_path / "stays.npz"))
    assert again.to_columns() == model.to_columns()
    frame = model.to_frame()
    assert set(frame[frame["column"] == "code"]["level"]) == {"0", "1", "2"}


def test_levels_and_limits_that_nobody_knows_are_found_together() -> None:
    """Records kept while limits were found had no level, and every group came out empty."""
    frame = made(limits={"cost": "private"}).fit(stays(20_000)).to_frame()
    counts = frame[frame["statistic"] == "count"].set_index("ward")["estimate"]
    assert abs(counts["heart"] - 12_000) < 400
    assert abs(counts["lung"] - 7_000) < 400


def test_nothing_found_is_no_group() -> None:
    frame = made(epsilon=0.01).fit(stays(50)).to_frame()
    assert set(frame["ward"]) == {""}


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("noise", [1e-3, 3.0, 1e9])
def test_thresholds_leave_room_for_the_grid_of_the_noise(law: str, noise: float) -> None:
    scale = laws.scale_of(law, noise, 1)
    exact = (
        1.0 - math.log(2e-7) * scale if law == "laplace" else 1.0 - float(norm.ppf(1e-7)) * scale
    )
    room = threshold(law, noise, 1e-7) - exact
    assert 0.9 * grid_spacing(scale) <= room <= 1.1 * grid_spacing(scale) + 1e-10 * scale


@pytest.mark.parametrize("kind", ["int8", "uint64", "decimal128(3, 0)", "dictionary"])
def test_nothing_found_of_whole_numbers_is_no_error_after_payment(kind: str) -> None:
    kinds = {"decimal128(3, 0)": pa.decimal128(3, 0), "dictionary": pa.int16()}
    code = pa.array([1] * 30 + [2] * 20, kinds.get(kind) or pa.type_for_alias(kind))
    code = code.dictionary_encode() if kind == "dictionary" else code
    known: dict[str, Any] = {"by": ["code"], "levels": {"code": "private"}, "limits": None}
    for n_rows in (50, 0):
        told = made(epsilon=0.01, **known).fit(pa.table({"code": code}).slice(0, n_rows))
        assert set(told.to_frame()["code"]) == {""}


def test_delta_pays_for_the_failure() -> None:
    for method in ("laplace", "gaussian"):
        plan = made(method=method).plan()
        assert plan.loss.exactness == "upper bound"
        assert 0.0 < plan.loss.delta(1.0) <= 1e-6
        if method == "laplace":  # all else needs no delta
            assert plan.loss.delta(1.0) >= levels.FAILURE * 1e-6


@pytest.mark.parametrize("method", ["laplace", "gaussian"])
def test_a_level_of_ones_own_moves_nothing_but_its_failure(method: str) -> None:
    model, table = made(method=method), stays(200)
    hidden = table.slice(0, 1).set_column(0, "ward", pa.array(["only me"]))
    recorder = Recorder(model)
    here = recorder.run((table,))
    there = recorder.run((pa.concat_tables([table, hidden]),), like=here)
    found = Difference.between(here, there)
    (pair,) = found.bits
    assert pair[0] <= levels.FAILURE * 1e-6
    assert max(math.fsum(found.pure), found.square) <= 1.0 + 1e-5
    assert audit(model, (table,)).outcome == "consistent"


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("noise", [0.3, 5.0])
@pytest.mark.parametrize("most", [2, 30])
def test_all_levels_of_a_person_fail_together_as_rarely_as_is_said(
    law: str, noise: float, most: int
) -> None:
    failure = 1e-7
    above = threshold(law, noise, failure, most)

    def chance(weights: Any) -> float:
        return math.fsum(exceeds(law, float(w), noise, above) for w in weights)

    worst = chance([1.0, *[0.0] * (most - 1)])
    assert 0.97 * failure < worst < failure
    rng = np.random.default_rng(0)
    assert all(chance(rng.dirichlet(np.full(most, 0.1))) <= worst for _ in range(10))
    assert chance(np.full(most, 1.0 / most)) <= worst


def people(rng: np.random.Generator, n_people: int, most: int) -> pa.Table:
    """Everybody's rows, few or many, of levels that they share, own, or that nobody publishes."""
    who, ward = [], []
    for person in range(n_people):
        m = int(rng.choice([1, 2, 7, 300]))
        own = [f"p{person}l{k}" for k in range(2 * most)]
        names = [*"abc", "x" * 65, "nul\0", *own]
        who += [person] * m
        ward += rng.choice(names, m).tolist()
    order = rng.permutation(len(who))
    cost = rng.uniform(0, 100, len(who))
    return pa.table({"who": np.array(who)[order], "ward": np.array(ward)[order], "cost": cost})


@pytest.mark.parametrize("rows_per_person", [1, 5])
def test_a_person_moves_counts_of_levels_by_one_and_adds_few(rows_per_person: int) -> None:
    rng, most = np.random.default_rng(0), 3
    model = made(person="who", rows_per_person=rows_per_person, levels_per_person=most)
    for _ in range(15):
        table = people(rng, 4, most)
        last = [who == 3 for who in table["who"].to_pylist()]
        counts = []
        for each in (table, table.filter(pa.array([not own for own in last]))):
            run = model.prepare(each)
            found = run.study()["ward"]
            limbs = zip(found.counts.low.tolist(), found.counts.part.tolist(), strict=True)
            units = [low * 2**26 + part for low, part in limbs]
            counts.append(dict(zip(found.names, units, strict=True)))
        with_them, without = counts
        assert set(without) <= set(with_them)
        assert len(set(with_them) - set(without)) <= most
        moved = [with_them[name] - without.get(name, 0) for name in with_them]
        assert min(moved) >= 0
        assert sum(moved) <= 2**26
        assert sum(move > 0 for move in moved) <= most


@pytest.mark.parametrize("rows_per_person", [1, 5])
@pytest.mark.parametrize("all_of_them", [False, True])
def test_rows_without_a_person_count_levels_as_people_of_their_own(
    rows_per_person: int, all_of_them: bool
) -> None:
    table = people(np.random.default_rng(5), 30, 2)
    alone = np.random.default_rng(6).random(len(table)) < (2.0 if all_of_them else 0.5)
    who = [None if own else each for own, each in zip(alone, table["who"].to_pylist(), strict=True)]
    named = [1000 + k if each is None else each for k, each in enumerate(who)]
    found = []
    for ids, declared in ((named, "refuse"), (who, "own")):
        ids = pa.nulls(len(ids)) if all_of_them and declared == "own" else pa.array(ids, pa.int64())
        asked = {"person": "who", "rows_per_person": rows_per_person, "missing_person": declared}
        parts = table.set_column(0, "who", ids).to_batches(max_chunksize=20)
        found.append(made(**asked).prepare(parts).study()["ward"])
    assert found[0].names == found[1].names
    assert found[0].counts == found[1].counts


def test_levels_of_people_are_found_and_audited() -> None:
    table = people(np.random.default_rng(1), 2000, 2)
    model = made(person="who").fit(table)
    assert set(model.to_frame()["ward"]) >= {"", "a", "b", "c"}
    assert "p3l1" not in str(model.to_columns())
    found = made(person="who", rows_per_person="private").fit(table)
    assert found.rows_per_person_ >= 1
    small = people(np.random.default_rng(2), 20, 2)
    for method in ("laplace", "gaussian"):
        assert audit(made(person="who", method=method), (small,)).outcome == "consistent"


@pytest.mark.parametrize(
    "more", [{"levels_per_person": 0}, {"relation": "replace"}, {"max_levels": 0}], ids=str
)
def test_what_is_not_proven_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="levels"):
        made(**more).plan()


def test_columns_of_other_kinds_are_refused_before_anything_is_paid() -> None:
    with pytest.raises(ValueError, match="text or whole numbers"):
        made(by=["cost"], levels={"cost": "private"}, limits=None).fit(stays())
    gaps = pa.table({"ward": ["a", None], "cost": [1.0, 2.0]})
    with pytest.raises(ValueError, match="ward"):
        made().fit(gaps)


def test_gaps_beside_levels_that_nobody_knows_are_left_out(tmp_path: Path) -> None:
    """Rows with a gap are not among those counted, whichever column it is in: no change of it."""
    path = tmp_path / "t.csv"
    lines = [f"{'AB'[k % 2]},{'fm'[k // 2 % 2] if k % 7 else ''},{k % 50}" for k in range(400)]
    path.write_text("\n".join(["ward,sex,cost", *lines]))
    for hidden in (["sex"], ["ward", "sex"]):
        known = {"ward": ["A", "B"], "sex": ["f", "m"]} | dict.fromkeys(hidden, "private")
        model = PrivateSummary(
            by=["ward", "sex"],
            levels=known,
            limits={"cost": (0, 100)},
            drop_missing=True,
            epsilon=50.0,
            delta=1e-6,
            random_state=0,
        ).fit(path)
        told = model.to_columns()
        assert set(told["sex"]) == {"f", "m", ""}
        places = [k for k, name in enumerate(told["statistic"]) if name == "count"]
        assert 300 < told["estimate"][places[-1]] < 360  # one row in seven is left out
