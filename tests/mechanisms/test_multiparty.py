"""Several parties: exact worst cases, sums that are the same everywhere, files that fit or not."""

import hashlib
import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from laws import output_law, party_law
from ndis import (
    Gaussian,
    Ledger,
    MultiPartyRegression,
    NeighbourRelation,
    Release,
    audit,
    audit_pair,
    privacy_loss,
)
from ndis.calibration import noise_multiplier
from ndis.mechanisms.multiparty import Agreement, combine, release_party, train
from ndis.mechanisms.multiparty.releasing import mix
from ndis.mechanisms.multiparty.training import shrink
from ndis.randomness import signs
from samplers import LEVEL, accepts_scale

PARTIES = {"a": {"x0": (-1.0, 1.0), "x1": (0.0, 10.0)}, "b": {"y": (-5.0, 3.0)}}
CORNERS = np.array([[-1.0, 0.0, -5.0], [1.0, 10.0, 3.0]])


def agreement(n_rows: int = 50, **how: object) -> Agreement:
    given = {"parties": PARTIES, "epsilon": 1.0, "delta": 1e-5, "seed": 7} | how
    return Agreement(n_rows, **given)


def people(n_rows: int, seed: int = 0) -> np.ndarray:
    """Rows within the bounds of PARTIES: x0, x1 and y, which depends on both."""
    rng = np.random.default_rng(seed)
    x0, x1 = rng.uniform(-1, 1, n_rows), rng.uniform(0, 10, n_rows)
    return np.column_stack([x0, x1, -1.0 + 2.0 * x0 + 0.1 * x1 + rng.uniform(-1, 1, n_rows)])


def held(party: str, table: np.ndarray) -> np.ndarray:
    return table[:, :2] if party == "a" else table[:, 2:]


def parts(agreed: Agreement, table: np.ndarray, **how: object) -> list[Release]:
    return [release_party(agreed, party, held(party, table), **how) for party in PARTIES]


# --- the matrix of signs ----------------------------------------------------------------------


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


# --- guarantees -------------------------------------------------------------------------------


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


def test_the_joint_distance() -> None:
    sizes = (2, 2, 2, 2, 2, 1)
    names = iter(f"c{i}" for i in range(11))
    parties = {f"p{j}": {next(names): (-1, 1) for _ in range(d)} for j, d in enumerate(sizes)}
    ours = Agreement(1000, parties, 1.0, 1e-5)
    assert ours.joint_shift() == pytest.approx(math.sqrt(6) / noise_multiplier(1.0, 1e-5))
    whole = replace(ours, protects="person")
    assert (whole.joint_guarantee().epsilon, whole.guarantee("p5").epsilon < 0.5) == (1.0, True)


def test_audit_finds_nothing_and_finds_half_the_noise() -> None:
    X, y = people(12)[:, :2], people(12)[:, 2]
    model = MultiPartyRegression(
        epsilon=1.0,
        delta=1e-5,
        parties={"a": ["x0", "x1"], "b": ["y"]},
        limits=PARTIES["a"] | PARTIES["b"],
        protects="party",
        random_state=0,
    ).fit(X, y)
    table = np.column_stack([X, y])
    table[0] = CORNERS[0]
    known = {"relation": "replace", "universe": CORNERS}
    verdict = audit(partial(output_law, model), table, model.guarantees_["joint"], **known)
    assert verdict.outcome == "consistent"
    assert audit(partial(output_law, model), table, (1.0, 1e-5), **known).outcome == "refuted"

    def half(rows: np.ndarray) -> Gaussian:
        law = party_law(model.agreement_, "a", rows)
        return Gaussian.from_diagonal(law.mean, law.variances / 4)

    promised = model.guarantees_["a"]
    for law, outcome in (
        (lambda rows: party_law(model.agreement_, "a", rows), "consistent"),
        (half, "refuted"),
    ):
        found = audit(
            law, table[:, :2], claim=promised, relation="replace", universe=CORNERS[:, :2]
        )
        assert found.outcome == outcome


def test_noise_has_the_promised_scale() -> None:
    agreed, table = agreement(3000, n_components=1000), people(3000)
    made = release_party(agreed, "a", table[:, :2], random_state=1)
    mixed = mix(agreed, "a", table[:, :2])
    noise = made.arrays["rows"] - mixed.rows / mixed.units
    scale = agreed.noise_scale("a") * math.sqrt(1000)
    assert accepts_scale(noise, scale, LEVEL)
    assert not accepts_scale(noise, 1.1 * scale, LEVEL)
    assert not made.guarantee.private


def test_narrow_bounds_mean_little_noise_and_few_columns_too() -> None:
    wide = agreement(parties={"a": {"x": (-1.0, 1.0)}, "b": {"y": (0, 1)}})
    narrow = agreement(parties={"a": {"x": (-0.25, 0.25)}, "b": {"y": (0, 1)}})
    assert (narrow.half_widths * narrow.noise_scales)[0] == pytest.approx(
        (wide.half_widths * wide.noise_scales)[0] / 4
    )
    assert agreement().noise_scale("b") < agreement().noise_scale("a")


def test_the_number_of_mixed_rows_needs_no_data_and_balances() -> None:
    agreed = agreement(3_000_000)
    noise = np.mean(agreed.noise_scales**2)
    assert agreed.n_components == round(3_000_000 / 16 / noise)
    assert agreement(100).n_components == 8


# --- the agreement as a file ------------------------------------------------------------------


def test_an_agreement_survives_its_file(tmp_path: Path) -> None:
    agreed = agreement(key="id", seed=2**127 + 1)
    again = Agreement.load(agreed.save(tmp_path / "agreement.json"))
    assert (again, again.fingerprint) == (agreed, agreed.fingerprint)


def test_a_changed_agreement_is_refused(tmp_path: Path) -> None:
    path = agreement().save(tmp_path / "agreement.json")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"epsilon": 2.0}))
    with pytest.raises(ValueError, match="changed after it was agreed on"):
        Agreement.load(path)
    path.write_text(json.dumps(stored | {"more": 1, "fingerprint": "0"}))
    with pytest.raises(ValueError, match="one with a fault"):
        Agreement.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="written by `ndis party init`"):
        Agreement.load(path)


def test_every_public_parameter_is_in_the_fingerprint() -> None:
    base = agreement()
    others = [
        replace(base, n_rows=51),
        replace(base, parties={"b": PARTIES["b"], "a": PARTIES["a"]}),
        replace(base, parties=PARTIES | {"b": {"y": (-5.0, 4.0)}}),
        replace(base, epsilon=2.0),
        replace(base, delta=1e-6),
        replace(base, protects="person"),
        replace(base, n_components=20),
        replace(base, key="id"),
        replace(base, seed=8),
    ]
    assert len({each.fingerprint for each in [base, *others]}) == 1 + len(others)
    assert agreement(seed=7).fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"parties": {}}, "at least one party"),
        ({"parties": {"a": {}}}, "columns of party"),
        ({"parties": {"a": {"x": (1, 1)}}}, "low < high"),
        ({"parties": {"a": {"x": (0, 1)}, "b": {"x": (0, 1)}}}, "more than once"),
        ({"key": "y"}, "more than once"),
        ({"n_rows": 2**40}, "in parts"),
        ({"seed": 2**128}, "seed < "),
        ({"epsilon": 0.0}, "epsilon > 0"),
    ],
)
def test_bad_agreements_are_refused(how: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        agreement(**{"n_rows": 50} | how)


# --- parts that fit, or not -------------------------------------------------------------------


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


# --- keys -------------------------------------------------------------------------------------


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


# --- models -----------------------------------------------------------------------------------


def test_with_little_noise_the_model_is_least_squares() -> None:
    table = people(20_000)
    agreed = agreement(20_000, epsilon=3000.0, n_components=2000)
    whole = combine(agreed, parts(agreed, table, random_state=0))
    for label in (2, 0):
        features = [i for i in range(3) if i != label]
        design = np.column_stack([table[:, features], np.ones(len(table))])
        truth = np.linalg.lstsq(design, table[:, label], rcond=None)[0]
        model = train(whole, agreed.columns[label])
        assert model.features == tuple(agreed.columns[i] for i in features)
        np.testing.assert_allclose(model.coef, truth[:2], atol=0.08)
        assert model.intercept == pytest.approx(truth[2], abs=0.15)


def test_shrinking_divides_by_no_small_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.standard_normal((30, 7))
        noisy = rows.T @ rows / 30
        clean = noisy - np.eye(7)  # eigenvalues on both sides of zero
        assert np.linalg.eigvalsh(clean[:6, :6]).min() < 0
        assert np.linalg.norm(shrink(noisy, clean, 30)) < 2.0
    exact = np.eye(3) / 3
    exact[2, :2] = exact[:2, 2] = [0.1, -0.2]
    np.testing.assert_allclose(shrink(exact, exact, 10**9), [0.3, -0.6], atol=1e-3)
    pure = np.eye(4) + 1e-3 * np.ones((4, 4))
    assert np.linalg.norm(shrink(pure, pure - 0.9 * np.eye(4), 50)) < 0.05


def test_unknown_labels_and_features_are_refused() -> None:
    agreed = agreement(100)
    whole = combine(agreed, parts(agreed, people(100)))
    with pytest.raises(ValueError, match="label"):
        train(whole, "z")
    with pytest.raises(ValueError, match="features"):
        train(whole, "y", ["y"])
    with pytest.raises(ValueError, match="distinct features"):
        train(whole, "y", ["x0", "x0"])


# --- the estimator ----------------------------------------------------------------------------


def frame(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    table = people(n_rows)
    return pd.DataFrame({"height": table[:, 0], "weight": table[:, 1]}), table[:, 2]


def test_the_estimator_is_the_workflow_in_one_process() -> None:
    X, y = frame(50_000)
    limits = {"height": (-1, 1), "weight": (0, 10), "y": (-5, 3)}
    model = MultiPartyRegression(
        epsilon=4.0,
        delta=1e-6,
        parties={"b": ["y", "weight"], "a": ["height"]},
        limits=limits,
        protects="party",
        random_state=0,
    )
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    assert list(model.feature_names_in_) == ["height", "weight"]
    other = train(model.release_, "y")
    assert dict(zip(other.features, other.coef, strict=True)) == dict(
        zip(["height", "weight"], model.coef_, strict=True)
    )
    assert model.with_label("height").features == ("y", "weight")
    assert list(model.guarantees_) == ["b", "a", "joint"]
    assert model.guarantees_["a"].epsilon == 4.0
    assert model.guarantee_.epsilon > 4.0
    html = model._repr_html_()
    assert "at one party" in html
    assert "hanging any one row" in html


def test_the_estimator_obeys_scikit_learn() -> None:
    X, y = people(4000)[:, :2], people(4000)[:, 2]
    model = MultiPartyRegression(epsilon=50.0, delta=1e-6, limits=(-10, 10), random_state=0)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    with pytest.raises(ValueError, match="features"):
        model.fit(X, y).predict(X[:, :1])
    with pytest.raises(ValueError, match="at most 3 parties"):
        clone(model).set_params(parties=4).fit(X, y)
    with pytest.raises(ValueError, match="every column at one party"):
        clone(model).set_params(parties={"a": ["x0"], "b": ["y"]}).fit(X, y)
    with pytest.raises(ValueError, match="limits of every column, got none of 'y'"):
        clone(model).set_params(limits={"x0": (0, 1), "x1": (0, 1)}).fit(X, y)


def test_by_default_the_whole_record_is_protected() -> None:
    X, y = people(500)[:, :2], people(500)[:, 2]
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, random_state=0).fit(X, y)
    assert (model.guarantee_.epsilon, model.guarantee_.relation) == (1.0, "replace")
    assert model.guarantees_["party-1"].epsilon < 1.0


def test_calibration_needs_no_data() -> None:
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, parties=3, protects="party")
    noise = model.calibrate((10_000, 4))
    assert list(noise) == ["party-1", "party-2", "party-3"]
    assert noise["party-3"] == pytest.approx(2 * noise_multiplier(1.0, 1e-5))
    with pytest.raises(ValueError, match="pass \\(n_rows, n_features\\)"):
        model.plan()


def test_a_forecast_of_means_is_their_error() -> None:
    X, y = people(2000)[:, :2], people(2000)[:, 2]
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, limits=(-10, 10), n_components=40)
    low, high = model.forecast((2000, 2)).errors["standard error of a mean"]
    assert low == high  # one noise for all
    entries = np.column_stack([X, y]) / 10.0
    errors = [
        model.set_params(random_state=i).fit(X, y).release_.arrays["rows"][0] / 2000
        - entries.mean(axis=0)
        for i in range(50)
    ]
    assert accepts_scale(np.concatenate(errors), low, LEVEL)
