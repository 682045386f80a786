"""Limits bought from the data: what one row can change, and what is found."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attacks.cases import unknown_limits
from estimators import Case, all_cases
from ndis import (
    Ledger,
    PrivateLimits,
    QuadraticLoss,
)
from ndis.mechanisms import Part, Plan, TableEstimator
from ndis.randomness import add_noise
from ndis.tables import GRID_NORM, PRIVATE, Columns, Rows, Table

N_ROWS = 20_000


@dataclass(kw_only=True, eq=False, repr=False)
class Means(TableEstimator):
    """Means and labels' means: the smallest estimator that has everything."""

    label_limits: Any = None
    fit_intercept: bool = False

    def _rows(self, table, labels):
        features = self._features(table, labels)
        return Rows(features, Columns(labels, limits=self._label_limits(labels)))

    def _plan(self, rows):
        return Plan.buying(
            [Part("cross", GRID_NORM**2, 0.9), Part("count", 1.0, 0.1)],
            self._target(rows),
            self.noise_scale,
            method="cross",
            shapes={"cross": (len(rows.features.names), len(rows.labels.names)), "count": ()},
            reason="It is a test.",
        )

    def _study(self, table, plan):
        return table.moments

    def _draw(self, sums, plan, table, rng):
        return {
            name: add_noise(sums[name], plan.noise_scale[name], rng) for name in ("cross", "count")
        }

    def _finish(self, rows):
        self.rows_ = rows


def means(**changes: Any) -> Means:
    return Means(
        **{"epsilon": 1.0, "delta": 1e-6, "limits": "private", "random_state": 3} | changes
    )


def limits(table: Any, **changes: Any) -> dict[str, tuple[float, float]]:
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0} | changes
    return PrivateLimits(**given).fit(table).limits_


@contextmanager
def counted_passes() -> Iterator[list[bool]]:
    passes: list[bool] = []
    original = Table.sum

    def counting(self: Table, function: Any, *, raw: bool = False, **more: Any) -> Any:
        passes.append(raw)
        return original(self, function, raw=raw, **more)

    Table.sum = counting  # type: ignore[method-assign]
    try:
        yield passes
    finally:
        Table.sum = original  # type: ignore[method-assign]


# -- the promise -------------------------------------------------------------------------------


def test_the_noise_pays_for_both_histograms():
    plan = PrivateLimits(epsilon=1.0, delta=1e-6).plan(5)
    noise = plan.noise_scale["limits"]
    # Second route: ten counts of ten histograms move by one each, one after the other.
    each = QuadraticLoss.from_shift(1.0 / noise)
    together = 10 * each
    assert together.delta(1.0) == pytest.approx(1e-6, rel=1e-6)
    assert together.delta(1.0) <= 1e-6
    assert plan.loss.delta(1.0) >= together.delta(1.0) * (1 - 1e-9)


def test_a_tenth_of_the_squared_budget_and_one_guarantee():
    model = means(columns=["a", "b", "y"])
    frame = pa.table({name: np.random.default_rng(0).uniform(0, 9, 500) for name in "aby"})
    plan = model.prepare(frame, "y").plan
    parts = {part.name: part.sensitivity for part in plan.parts}
    assert parts == {"cross": GRID_NORM**2, "count": 1.0, "limits": math.sqrt(6)}
    squares = {name: (moved / plan.noise_scale[name]) ** 2 for name, moved in parts.items()}
    assert squares["limits"] / sum(squares.values()) == pytest.approx(0.1)
    assert QuadraticLoss.from_shift(math.sqrt(sum(squares.values()))).delta(1.0) <= 1e-6
    assert plan.loss.delta(1.0) == pytest.approx(1e-6, rel=1e-6)
    assert set(plan.shapes) == {"cross", "count", "limit_octaves", "limit_bins"}
    fitted = model.fit(frame, "y")
    assert fitted.guarantee_.loss == plan.loss


def test_an_estimator_that_does_not_pay_for_limits_cannot_have_them():
    class Forgetful(Means):
        def _target(self, rows=None, relation="add-remove"):
            return super()._target()

    frame = pa.table({name: np.arange(9.0) for name in "ay"})
    with pytest.raises(ValueError, match="public"):
        Forgetful(epsilon=1.0, delta=1e-6, limits="private", columns=["a", "y"]).fit(frame, "y")
    with pytest.raises(RuntimeError, match="report"):
        Columns(["a"], limits={"a": PRIVATE}).to_grid(np.ones((1, 3)))


def test_neighbours_differ_in_released_numbers_only():
    """An outlier, a lone value of another sign, the only row that is not zero."""
    rng = np.random.default_rng(4)
    quiet = np.column_stack([rng.uniform(0, 1, 900), np.zeros(900), np.full(900, 7.0)])
    label = quiet[:, 0]
    for odd in ([1e300, 0, 7.0], [-1e-300, 0, 7.0], [0.5, 5e-324, 7.0], [0.5, 0, -1e150]):
        loud = np.vstack([quiet, odd])
        here = means(fit_intercept=True).fit(quiet, label)
        there = means(fit_intercept=True).fit(loud, [*label, 1e200])
        certificates = [model.release_.certificate() for model in (here, there)]
        for certificate in certificates:
            for array in certificate["arrays"].values():
                array.pop("sha256")
        assert certificates[0] == certificates[1]
        counts = [model.release_.arrays["limit_octaves"] for model in (here, there)]
        assert np.all(np.abs(counts[0] - counts[1]).sum(axis=1) == 1)  # the same noise, one row
        assert here.rows_.features.limits == there.rows_.features.limits


# -- what is found -----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", 10.0 ** np.array([-16, -9, -3, 0, 3, 9, 16]))
@pytest.mark.parametrize("center", [0.0, 3.0, -30.0])
def test_finds_limits_at_any_scale(scale, center):
    values = scale * (center + np.random.default_rng(0).uniform(-1, 1, (N_ROWS, 1)))
    low, high = limits(values)["x0"]
    inside = np.mean((values >= low) & (values <= high))
    assert inside > 0.97
    assert high - low < (2.5 + abs(center) / 20) * scale


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_scales_beyond_the_grid_are_clipped_and_never_fail(scale):
    values = scale * np.random.default_rng(0).uniform(-1, 1, (N_ROWS, 2))
    low, high = limits(values)["x0"]
    assert (low, high) == (-(2.0**60), 2.0**60) if scale > 1 else high - low <= 2.0
    model = means().fit(values, values[:, 0])
    assert np.all(np.isfinite(model.release_.arrays["cross"]))


def test_outliers_do_not_widen_limits():
    rng = np.random.default_rng(0)
    values = rng.uniform(18, 90, (N_ROWS, 1))
    few = np.vstack([values, np.full((5, 1), 1e12), np.full((5, 1), -1e-12)])
    low, high = limits(few)["x0"]
    assert 16 <= low <= 20
    assert 88 <= high <= 92


def test_constant_columns():
    table = np.column_stack([np.zeros(N_ROWS), np.full(N_ROWS, 5.0), np.full(N_ROWS, -1e-9)])
    for (low, high), value in zip(limits(table).values(), [0.0, 5.0, -1e-9], strict=True):
        assert low <= value <= high
        assert low < high


def test_thin_tails_are_seen_together():
    """Rows that no bin holds enough of, but eight of them do."""
    rng = np.random.default_rng(0)
    body, tail = rng.uniform(64, 70, N_ROWS), rng.uniform(96, 128, 2000)
    noise = {"limits": 40.0}
    (pair,) = limits(
        np.concatenate([body, tail])[:, None], epsilon=None, noise_scale=noise
    ).values()
    assert pair[1] > 120


def test_few_rows_give_something_usable():
    low, high = limits(np.random.default_rng(0).uniform(100, 200, (5, 1)))["x0"]
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert low < high


def test_lists_of_numbers_share_their_limits():
    vectors = np.random.default_rng(0).uniform(-1, 1, (N_ROWS, 3)) * [1.0, 2.0, 4.0]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 3)
    frame = pa.table({"vector": column, "size": vectors[:, 0]})
    model = PrivateLimits(epsilon=1.0, delta=1e-6, random_state=0).fit(frame)
    assert model.release_.arrays["limit_bins"].shape == (4, 64)
    low, high = model.limits_["vector"]
    assert low <= -3.75
    assert high >= 3.75
    assert model.limits_["size"][1] < 1.5


def test_labels_have_limits_too():
    rng = np.random.default_rng(0)
    table = rng.uniform(0, 1, (N_ROWS, 2))
    one = PrivateLimits(epsilon=1.0, delta=1e-6, random_state=0).fit(table, 50 * table[:, 0])
    assert one.label_limits_ == pytest.approx((0, 50), abs=2)
    two = PrivateLimits(epsilon=1.0, delta=1e-6, random_state=0).fit(table, table * [1, 300])
    assert two.label_limits_[1] == pytest.approx((0, 300), abs=9)


# -- in an estimator ---------------------------------------------------------------------------


def frame(n_rows: int = N_ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(20, 30, n_rows), rng.uniform(-5, 5, n_rows)
    kind = rng.choice(["u", "v"], n_rows)
    return pa.table({"a": a, "b": b, "kind": kind, "y": 100 * a})


def test_one_pass_more_and_the_schema_is_read_once():
    public = {"a": (20, 30), "b": (-5, 5), "y": (0, 3000)}
    columns = ["a", "b", "y"]
    with counted_passes() as passes:
        means(limits=public, columns=columns).fit(frame(), "y")
        assert passes == [False]
    with counted_passes() as passes:
        means(columns=columns).fit(frame(), "y")
        assert passes == [True, False]
    with counted_passes() as passes:
        PrivateLimits(epsilon=1.0, delta=1e-6, random_state=0, columns=columns).fit(frame(), "y")
        assert passes == [True]


def test_some_limits_known_some_not():
    model = means(
        limits={"a": (20, 30), "b": "private", "y": "private"},
        columns=["a", "b", "kind", "y"],
        levels={"kind": ["u", "v"]},
        fit_intercept=True,
    ).fit(frame(), "y")
    assert model.release_.arrays["limit_bins"].shape == (2, 64)
    assert model.rows_.features.limits["a"] == (20, 30)
    assert model.rows_.features.limits["b"] == pytest.approx((-5, 5), abs=0.6)
    assert model.rows_.labels.limits["y"] == pytest.approx((2000, 3000), abs=100)


def test_limits_of_the_label_alone():
    table = np.random.default_rng(0).uniform(0, 1, (N_ROWS, 2))
    model = means(limits=[(0, 1), (0, 1)], label_limits="private").fit(table, 50 * table[:, 0])
    assert model.rows_.labels.limits["y"] == pytest.approx((0, 50), abs=2)
    with pytest.raises(ValueError, match="each of 2 labels"):
        means(label_limits=[(0, 1)]).fit(table, table)


def test_columns_are_scaled_and_not_centred_without_an_intercept():
    table = np.random.default_rng(0).uniform(20, 30, (N_ROWS, 1))
    uncentered = means().fit(table, table[:, 0]).rows_.features
    assert uncentered.middle.tolist() == [0.0]
    low, high = uncentered.limits["x0"]
    assert uncentered.scale[0] == uncentered.units / max(abs(low), abs(high))
    assert means(fit_intercept=True).fit(table, table[:, 0]).rows_.features.middle[1] > 20


def test_the_labels_unit_does_not_matter():
    table = np.random.default_rng(0).uniform(0, 1, (N_ROWS, 2))
    cents, millions = (
        means().fit(table, 2.0**power * table[:, 0]).release_.arrays for power in (7, -20)
    )
    np.testing.assert_array_equal(cents["cross"], millions["cross"])


def test_missing_values_are_refused_before_anything_is_paid():
    table = np.ones((50, 2))
    table[7, 1] = np.nan
    frame = pa.table({"a": table[:, 0], "b": table[:, 1], "y": table[:, 0]})
    for model in (means(columns=["a", "b", "y"]), PrivateLimits(epsilon=1.0, delta=1e-6)):
        with pytest.raises(ValueError, match="'b' has missing or infinite values"):
            model.fit(frame, "y")


def test_a_declared_number_of_rows_is_checked_before_anything_is_paid():
    model = means(n_rows=8)
    model._study = lambda *_: pytest.fail("this is after the payment")  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="n_rows"):
        model.fit(np.ones((9, 1)), np.ones(9))


def test_a_table_that_can_be_read_once_is_refused_before_anything_is_paid():
    reader = frame().to_reader()
    with pytest.raises(ValueError, match="only once"):
        means(columns=["a", "b", "y"]).fit(reader, "y")
    model = PrivateLimits(epsilon=1.0, delta=1e-6, columns=["a", "b"], random_state=0)
    assert set(model.fit(frame().to_reader()).limits_) == {"a", "b"}


def test_a_table_that_changes_between_the_passes_is_refused(monkeypatch):
    monkeypatch.setattr("ndis.tables.kept.memory", lambda: 0)  # or it would be read once
    monkeypatch.setenv("NDIS_SCRATCH", "none")
    values = [1.0]

    def growing() -> Iterator[pa.RecordBatch]:
        values.append(1.0)
        yield pa.record_batch({"a": values, "y": values})

    with pytest.raises(ValueError, match="changed between two passes"):
        means(columns=["a", "y"]).fit(growing, "y")


OF_TABLES = [  # that have numbers: levels are found where there are none
    case
    for case in all_cases()
    if isinstance(case.make(), TableEstimator) and "limits" in case.make().get_params()
]


def unknown(case: Case, **more: Any) -> Any:
    asked = unknown_limits(case.make())
    return case.make(**{"epsilon": 1.0, "delta": 1e-6, "random_state": 1, **asked, **more})


@pytest.mark.slow
def test_every_estimator_of_tables_takes_private_limits(tmp_path):
    """By one of its methods at least; the others say before they read anything that they do not."""
    taken = {type(case.make()): False for case in OF_TABLES}
    limited = [
        case
        for case in OF_TABLES
        if unknown_limits(case.make()).get("limits", "") is not None
        and case.name != "summary, replace"  # which another ledger counts
    ]
    for index, case in enumerate(limited):
        with Ledger.create(
            tmp_path / f"{index}.ndis", 3.0, 1e-5, "add-remove", accept=["seeded"]
        ) as ledger:
            with counted_passes() as passes:
                try:
                    model = unknown(case, ledger=ledger).fit(*case.data())
                except ValueError as error:
                    assert re.search("public|private limits", str(error))  # noqa: PT017
                    assert not passes
                    continue
            assert len(ledger.history()) == 1
        taken[type(model)] = True
        assert passes.index(True) <= 1  # a summary looks at its other columns first
        assert passes.count(True) == 1
        assert model.noise_scale_["limits"] > 0
        assert {"limit_octaves", "limit_bins"} <= set(model.release_.arrays)
    assert all(taken.values()), taken


def test_other_words_for_limits_are_refused():
    with pytest.raises(ValueError, match="pair"):
        means(limits={"x0": "unknown"}, columns=["x0", "y"]).fit(
            pa.table({"x0": [1.0], "y": [1.0]}), "y"
        )
