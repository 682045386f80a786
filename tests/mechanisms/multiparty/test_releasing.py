"""What one party releases: mixed rows with noise, in the order that was agreed."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from laws import party_law
from ndis import (
    Ledger,
    NeighbourRelation,
    Release,
    audit_pair,
    privacy_loss,
)
from ndis.mechanisms.multiparty import Agreement, combine, release_party, train
from ndis.mechanisms.multiparty.releasing import mix
from ndis.randomness import signs
from parties import CORNERS, PARTIES, agreement, held, parts, people
from samplers import LEVEL, accepts_scale


def test_the_signs_of_an_agreement_are_pinned() -> None:
    matrix = signs(7, 0, 500, 40)
    digest = hashlib.sha256(matrix.tobytes()).hexdigest()
    assert digest == "cd5ea16bd045549d343acd68476a55fd66cbae9926636d59cfcf7c6be88b101a"
    agreed = agreement(500, n_components=41)
    mixed = mix(agreed, "b", people(500)[:, 2:])
    assert np.array_equal(mixed.ones, [500, *matrix.sum(axis=0)])


def test_mixed_rows_are_exact_whatever_the_batches() -> None:
    agreed, table = agreement(10_000, n_components=30), people(10_000)[:, :2]
    mixed = mix(agreed, "a", table)
    matrix = np.concatenate([np.ones((1, 10_000)), signs(7, 0, 10_000, 29).T])
    units = math.isqrt(2**40 // 2) - 1
    entries = np.rint((table - [0.0, 5.0]) * (units / np.array([1.0, 5.0]))).astype(np.int64)
    assert mixed.units == units
    assert np.array_equal(mixed.rows, matrix.astype(np.int64) @ entries)
    pieces = pa.Table.from_batches(
        [
            pa.RecordBatch.from_arrays([pa.array(c) for c in part.T], names=["x0", "x1"])
            for part in np.split(table, [1, 700, 701, 6000])
        ]
    )
    assert np.array_equal(mix(agreed, "a", pieces).rows, mixed.rows)


def test_every_column_of_the_mixing_matrix_has_length_one() -> None:
    agreed, table = agreement(40, n_components=9), people(40)[:, 2:]
    moved = table.copy()
    moved[17] = -5.0 if table[17, 0] > -1.0 else 3.0
    before, after = (mix(agreed, "b", each) for each in (table, moved))
    change = (after.rows - before.rows) / after.units
    distance = abs(moved[17, 0] - table[17, 0]) / 4.0
    assert np.linalg.norm(change) / 3.0 == pytest.approx(distance, rel=1e-5)


@pytest.mark.parametrize("protects", ["party", "person"])
def test_worst_neighbours_move_by_exactly_what_is_promised(protects: str) -> None:
    agreed = agreement(20, protects=protects)
    table = people(20)
    table[3] = CORNERS[0]
    moved = table.copy()
    moved[3] = CORNERS[1]
    total = 0.0
    for party in PARTIES:
        P, Q = (party_law(agreed, party, held(party, each)) for each in (table, moved))
        loss = privacy_loss(P, Q)
        assert math.sqrt(loss.shift[0]) == pytest.approx(agreed.party_shift(party), rel=1e-12)
        promised = agreed.guarantee(party)
        assert promised.relation is NeighbourRelation.PARTY
        true = float(loss.delta(promised.epsilon))
        assert true == pytest.approx(float(promised.loss.delta(promised.epsilon)), rel=1e-10)
        assert true <= promised.delta
        assert audit_pair(P, Q, promised).outcome == "consistent"
        total += float(loss.shift[0])
    joint = agreed.joint_guarantee()
    assert joint.relation is NeighbourRelation.REPLACE
    assert math.sqrt(total) == pytest.approx(agreed.joint_shift(), rel=1e-12)
    assert float(joint.loss.delta(joint.epsilon)) == pytest.approx(joint.delta, rel=1e-7)


def test_noise_has_the_promised_scale() -> None:
    agreed, table = agreement(3000, n_components=1000), people(3000)
    made = release_party(agreed, "a", table[:, :2], random_state=1)
    mixed = mix(agreed, "a", table[:, :2])
    noise = made.arrays["rows"] - mixed.rows / mixed.units
    scale = agreed.noise_scale("a") * math.sqrt(1000)
    assert accepts_scale(noise, scale, LEVEL)
    assert not accepts_scale(noise, 1.1 * scale, LEVEL)
    assert not made.guarantee.private


def test_parts_make_a_whole_with_the_joint_guarantee(tmp_path: Path) -> None:
    agreed, table = agreement(300), people(300)
    a, b = parts(agreed, table, random_state=3)
    whole = combine(agreed, [b, a])
    assert whole.guarantee == replace(agreed.joint_guarantee(), private=False)
    expected = np.concatenate([a.arrays["rows"], b.arrays["rows"]], axis=1)
    assert np.array_equal(whole.arrays["rows"], expected)
    assert whole.parameters["parts"] == {"a": a.digest, "b": b.digest}
    again = Release.load(whole.save(tmp_path / "whole.npz"))
    assert train(again, "y").to_dict() == train(whole, "y").to_dict()


def test_parts_that_do_not_fit_are_refused() -> None:
    agreed, table = agreement(100), people(100)
    a, b = parts(agreed, table, random_state=3)
    with pytest.raises(ValueError, match="got none of 'b'"):
        combine(agreed, [a])
    with pytest.raises(ValueError, match="got two of 'a'"):
        combine(agreed, [a, a, b])
    with pytest.raises(ValueError, match="one agreement"):
        combine(replace(agreed, seed=8), [a, b])
    with pytest.raises(ValueError, match="written by `ndis party release`"):
        combine(agreed, [combine(agreed, [a, b])])
    louder = replace(b.guarantee, epsilon=0.5)
    with pytest.raises(ValueError, match="guarantee that was agreed on"):
        combine(agreed, [a, Release(b.arrays, louder, b.mechanism, b.parameters)])
    last_bit = replace(b.guarantee, epsilon=math.nextafter(1.0, 2.0))  # another machine's
    combine(agreed, [a, Release(b.arrays, last_bit, b.mechanism, b.parameters)])
    short = {"rows": b.arrays["rows"][1:], "ones": b.arrays["ones"][1:]}
    with pytest.raises(ValueError, match="ask that party for its file again"):
        combine(agreed, [a, Release(short, b.guarantee, b.mechanism, b.parameters)])
    other = {"rows": b.arrays["rows"], "ones": -b.arrays["ones"]}
    with pytest.raises(ValueError, match="one matrix of signs"):
        combine(agreed, [a, Release(other, b.guarantee, b.mechanism, b.parameters)])
    with pytest.raises(ValueError, match="combined release"):
        train(a, "y")


@pytest.mark.parametrize("n_rows", [99, 101, 5000])
def test_another_number_of_rows_is_refused_and_costs_nothing(n_rows: int, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "ledger", 2.0, 1e-4, "party") as ledger:
        with pytest.raises(ValueError, match="Expected 100 rows as agreed, got another number"):
            release_party(agreement(100), "a", people(n_rows)[:, :2], ledger=ledger)
        assert ledger.history() == []


def test_missing_values_and_unknown_parties_are_refused() -> None:
    table = people(100)
    table[5, 1] = math.nan
    with pytest.raises(ValueError, match="'x1' has missing"):
        release_party(agreement(100), "a", table[:, :2])
    with pytest.raises(ValueError, match="party"):
        release_party(agreement(100), "c", table[:, :2])


def test_values_outside_the_bounds_are_clipped() -> None:
    table = people(100)
    table[4] = [50.0, -3.0, 3.5]
    inside = table.copy()
    inside[4] = [1.0, 0.0, 3.0]
    for party in PARTIES:
        first, second = (mix(agreement(100), party, held(party, t)).rows for t in (table, inside))
        assert np.array_equal(first, second)


def keyed(keys: object, table: np.ndarray) -> pa.Table:
    return pa.table({"id": keys, "x0": table[:, 0], "x1": table[:, 1], "y": table[:, 2]})


def test_rows_in_another_order_are_refused() -> None:
    agreed, table = agreement(60, key="id"), people(60)
    keys = np.arange(60)
    a = release_party(agreed, "a", keyed(keys, table))
    swapped = keys.copy()
    swapped[[3, 4]] = 4, 3
    b = release_party(agreed, "b", keyed(swapped, table))
    with pytest.raises(ValueError, match="one order of keys, got different ones from 'a' and 'b'"):
        combine(agreed, [a, b])
    combine(agreed, [a, release_party(agreed, "b", keyed(keys, table))])


def test_the_hash_of_keys_depends_on_agreement_and_secret_but_not_on_types() -> None:
    agreed, table = agreement(60, key="id"), people(60)

    def order(keys: object, of: Agreement = agreed, secret: str | None = None) -> str | None:
        return mix(of, "a", keyed(keys, table), secret).key_order

    numbers = np.arange(60)
    same = {
        order(numbers),
        order(numbers.astype(np.int8)),
        order(numbers.astype(float)),
        order([str(i) for i in numbers]),
        order([f"{i}.0" for i in numbers]),  # as a file of floats has them
        order(pa.array([str(i) for i in numbers]).dictionary_encode()),
    }
    assert len(same) == 1
    others = {order(numbers, secret="k"), order(numbers, replace(agreed, seed=8)), order(-numbers)}
    assert len(same | others) == 4
    joined = ["1", "23", *map(str, range(100, 158))], ["12", "3", *map(str, range(100, 158))]
    assert order(joined[0]) != order(joined[1])
    assert mix(agreement(60), "a", keyed(numbers, table)).key_order is None


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([0, *range(59)], "one row for each person"),
        (np.arange(60) + 0.5, "integers or text"),
        ([None, *range(59)], "missing values"),
    ],
)
def test_bad_keys_are_refused(keys: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        release_party(agreement(60, key="id"), "a", keyed(keys, people(60)))
