"""Series: what somebody moves in all periods, what is drawn once, what a ledger knows."""

import math
import multiprocessing
import os
import shutil
import signal
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import toeplitz

from ndis import BudgetExceeded, Ledger, PrivateSummary, Release, verify
from ndis.mechanisms import continual, summary
from ndis.mechanisms.continual import WORKLOADS, Series, best_series

N = 6


def month(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ward": rng.choice(["A", "B"], n),
            "who": rng.integers(0, 9, n),
            "cost": rng.uniform(0, 100, n),
        }
    )


def made(**more: Any) -> PrivateSummary:
    known: dict[str, Any] = {
        "by": ["ward"],
        "levels": {"ward": ["A", "B"]},
        "limits": {"cost": (0, 100)},
        "quantiles": (0.5,),
        "epsilon": 1.0,
        "delta": 1e-6,
        "random_state": 0,
        "continual": N,
        "method": "gaussian",
    }
    return PrivateSummary(**{**known, **more})


def released(folder: Path, tables: list[pa.Table], **more: Any) -> PrivateSummary:
    """The last period of a series."""
    for period, table in enumerate(tables, start=1):
        model = made(period=period, state=folder / "series", **more).fit(table)
    return model


# -- the matrix ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5, 1.0])
def test_what_is_told_follows_from_what_is_published(exponent: float) -> None:
    series = Series(9, exponent)
    C = toeplitz(series.coefficients / continual.UNIT, np.zeros(9))
    A, x = np.tril(np.ones((9, 9))), np.random.default_rng(0).normal(size=9)
    for period in range(1, 10):
        told = [series.weights(period, to_date=date) @ (C @ x)[:period] for date in (False, True)]
        np.testing.assert_allclose(told, [x[period - 1], (A @ x)[period - 1]], atol=1e-10)
    back = np.linalg.inv(C)
    asked = {"periods": back, "totals": A @ back, "both": np.vstack([back, A @ back])}
    for workload, matrix in asked.items():
        rms = math.sqrt((matrix**2).sum() / len(matrix))
        assert series.spread(workload) == pytest.approx(rms, rel=1e-12)
    assert series.distance >= np.linalg.norm(C[:, 0])
    assert series.distance_everywhere >= np.linalg.norm(C @ np.ones(9))


def tree_noise(n: int, workload: str) -> float:
    """A binary tree over all periods, read by least squares: root mean square of its noise."""
    height = math.ceil(math.log2(n))
    nodes = [
        [float(start <= t < start + 2**level) for t in range(n)]
        for level in range(height + 1)
        for start in range(0, n, 2**level)
    ]
    C = np.array(nodes)
    A = np.tril(np.ones((n, n)))
    asked = {"periods": np.eye(n), "totals": A, "both": np.vstack([np.eye(n), A])}[workload]
    moved = np.linalg.norm(C, axis=0).max()
    return float(moved * math.sqrt(((asked @ np.linalg.pinv(C)) ** 2).sum() / len(asked)))


@pytest.mark.parametrize("n", [4, 12, 24, 100])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_choice_is_at_most_the_better_of_tree_and_independent_periods(n, workload) -> None:
    """For two and three periods a tree is better, by at most 1%."""
    best = best_series(n, workload, everywhere=False)
    noise = best.distance * best.spread(workload)
    alone = Series(n, 0.0)
    assert noise <= alone.distance * alone.spread(workload) * (1 + 1e-12)
    assert noise <= tree_noise(n, workload) * (1 + 1e-12)


def test_figures_of_the_literature() -> None:
    root = Series(24, 0.5)
    assert root.distance == pytest.approx(1.4403, abs=2e-4)
    assert root.distance * root.spread("totals") == pytest.approx(1.92, abs=0.01)
    assert Series(24, 0.0).spread("totals") == pytest.approx(3.54, abs=0.01)


# -- what somebody moves ---------------------------------------------------------------------------


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "add_noise", lambda sums, scale, rng: sums.value)


def moved(one: Release, other: Release) -> float:
    """Squared shift over noise, of all that was published."""
    noise, total = one.parameters["noise_scale"], 0.0
    for name, array in one.arrays.items():
        total += (
            float(((array - other.arrays[name]) ** 2).sum()) / noise[name.partition("_")[0]] ** 2
        )
    return total


@pytest.mark.slow
@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_hostile_row_of_any_period_moves_no_more_than_is_claimed(tmp_path, workload) -> None:
    tables = [month(20, seed) for seed in range(N)]
    here = released(_made(tmp_path / "0"), tables, workload=workload)
    plan = here.plan()
    claimed = sum((part.sensitivity / part.noise) ** 2 for part in plan.parts)
    found = []
    for place in range(N):
        row = pa.Table.from_pylist([{"ward": "A", "who": 1, "cost": 100.0}], tables[0].schema)
        more = [pa.concat_tables([t, row]) if i == place else t for i, t in enumerate(tables)]
        there = released(_made(tmp_path / f"{place + 1}"), more, workload=workload)
        found.append(moved(here.release_, there.release_))
    assert max(found) <= claimed * (1 + 1e-9)
    assert found[0] > 0.99 * claimed  # a value at the end of its limits, in the first period


@pytest.mark.slow
@pytest.mark.usefixtures("without_noise")
def test_a_person_in_all_periods_moves_no_more_than_is_claimed(tmp_path) -> None:
    tables = [month(20, seed) for seed in range(N)]
    here = released(_made(tmp_path / "0"), tables, person="who")
    claimed = sum((part.sensitivity / part.noise) ** 2 for part in here.plan().parts)
    rows = [{"ward": "B", "who": 77, "cost": 0.0}] * 50
    many = pa.Table.from_pylist(rows, tables[0].schema)
    there = released(
        _made(tmp_path / "1"), [pa.concat_tables([t, many]) for t in tables], person="who"
    )
    found = moved(here.release_, there.release_)
    assert 0.98 * claimed < found <= claimed * (1 + 1e-9)
    assert "who" in str(there.guarantee_.relation)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_intervals_of_periods_and_totals_hold_the_truth(tmp_path) -> None:
    tables = [month(300, seed) for seed in range(N)]
    truth = {f"{i + 1}": len(t) for i, t in enumerate(tables)}
    truth |= {f"1 to {i}": 300 * i for i in range(2, N + 1)}
    inside, z = [], []
    for seed in range(20):
        model = released(_made(tmp_path / f"{seed}"), tables, random_state=seed, quantiles=())
        frame = model.to_frame(of="table")
        frame = frame[(frame.statistic == "count") & (frame.ward == "")]
        known = frame.period.map(truth)
        inside += ((frame.lower <= known) & (known <= frame.upper)).tolist()
        z += ((frame.estimate - known) / frame.standard_error).tolist()
    assert 0.9 < np.mean(inside) < 0.99
    assert 0.9 < np.std(z) < 1.1


# -- once, in order, by one budget -----------------------------------------------------------------


def test_the_first_period_pays_and_the_ledger_knows_which_are_out(tmp_path) -> None:
    state = tmp_path / "series"
    with Ledger.create(tmp_path / "book", 2, 1e-5, "add-remove") as book:
        known: dict[str, Any] = {"state": state, "ledger": book, "random_state": None}
        first = made(period=1, **known).fit(month(50, 0))
        left = book.remaining().epsilon
        assert left < 2
        assert stat.S_IMODE(state.stat().st_mode) == 0o600
        old = shutil.copy(state, tmp_path / "old")
        second = made(period=2, **known).fit(month(50, 1))
        assert book.remaining().epsilon == left
        (entry,) = book.history()
        assert entry.digest == first.release_.digest
        assert entry.periods == (second.release_.digest,)
        assert book.verify() == 1
        for model in (first, second):
            checks = verify(model.release_, ledger=book).checks
            assert {check.outcome for check in checks} == {"held"}
        with pytest.warns(UserWarning, match="drawn before"):
            again = made(period=2, **known).fit(month(50, 9))
        assert again.release_.digest == second.release_.digest
        with pytest.raises(ValueError, match="older copy"):
            made(period=2, **{**known, "state": old}).fit(month(50, 1))
        with pytest.raises(ValueError, match="as it began"):
            made(period=3, **{**known, "ledger": None}).fit(month(50, 2))
        with Ledger.create(tmp_path / "other", 2, 1e-5, "add-remove") as other:
            other.spend(first.guarantee_, "else")
            with pytest.raises(ValueError, match="paid for this series"):
                made(period=3, **{**known, "ledger": other}).fit(month(50, 2))
        assert len(made(period=3, **known).fit(month(7, 2)).release_.arrays["means"]) == 3


def test_what_fails_before_it_is_published_is_published_again_as_it_was(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **named: Any) -> None:
        raise RuntimeError("killed")

    with Ledger.create(tmp_path / "book", 2, 1e-5, "add-remove") as book:
        known: dict[str, Any] = {"state": tmp_path / "s", "ledger": book, "random_state": None}
        made(period=1, **known).fit(month(50, 0))
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "note_period", fail)
            with pytest.raises(RuntimeError):
                made(period=2, **known).fit(month(50, 1))
        drawn = _kept(tmp_path / "s")
        with pytest.warns(UserWarning, match="drawn before"):
            model = made(period=2, **known).fit(month(50, 1))
        np.testing.assert_array_equal(model.release_.arrays["means"][1], drawn)
        assert len(book.history()[0].periods) == 1


def test_an_older_copy_draws_the_same_noise_for_the_same_sums_and_no_other(tmp_path) -> None:
    """Noise that two different sums share would tell their difference."""
    known: dict[str, Any] = {"random_state": None, "quantiles": ()}
    tables = [month(50, seed) for seed in range(3)]
    told: dict[str, Any] = {}
    for name, later in {
        "0": tables,
        "1": tables,
        "2": [tables[0], month(50, 9), tables[2]],
    }.items():
        if name != "0":
            shutil.copy(tmp_path / "old", tmp_path / "s")
        for period, table in enumerate(later, start=1):
            if period == 1 and name != "0":
                continue
            model = made(period=period, state=tmp_path / "s", **known).fit(table)
            if period == 1:
                shutil.copy(tmp_path / "s", tmp_path / "old")
        told[name] = model.release_.arrays["means"]
    np.testing.assert_array_equal(told["0"], told["1"])
    # Other rows in the second period: the third adds noise of its own to what it has of them.
    weight = Series(N, best_series(N, "totals", False).exponent).coefficients[1] / continual.UNIT
    one, other = (_blocks_of(table) for table in (tables[1], month(50, 9)))
    assert np.abs(told["0"][2] - told["2"][2] - weight * (one - other)).max() > 0.5


def test_series_and_periods_have_noise_of_their_own_also_without_rows(tmp_path) -> None:
    known: dict[str, Any] = {"random_state": None, "quantiles": (), "workload": "periods"}
    told = []
    for name in "ab":
        for period in (1, 2):
            asked = {"period": period, "state": tmp_path / name, **known}
            model = made(**asked).fit(month(0, 0))
        told += list(model.release_.arrays["means"])
    assert all((one != other).all() for k, one in enumerate(told) for other in told[:k])


def _blocks_of(table: pa.Table) -> Any:
    """What a period adds to each cell: the sums without noise."""
    model = made(quantiles=(), continual=None, epsilon=None, noise_scale={"means": 0.01})
    return model.fit(table).release_.arrays["means"]


def test_two_copies_that_draw_at_once_do_not_both_come_out(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.create(tmp_path / "book", 2, 1e-5, "add-remove") as book:
        known: dict[str, Any] = {"ledger": book, "random_state": None, "quantiles": ()}
        made(state=tmp_path / "s", **known).fit(month(50, 0))
        shutil.copy(tmp_path / "s", tmp_path / "copy")
        made(period=2, state=tmp_path / "s", **known).fit(month(50, 1))
        with monkeypatch.context() as patch:  # as if it had asked before the other was noted
            patch.setattr(continual, "_check_ledger", lambda *_: None)
            with pytest.raises(ValueError, match="another draw"):
                made(period=2, state=tmp_path / "copy", **known).fit(month(50, 2))
        with (
            pytest.warns(UserWarning, match="drawn before"),
            pytest.raises(ValueError, match="another draw"),
        ):
            made(period=2, state=tmp_path / "copy", **known).fit(month(50, 2))
        # A third period would publish the refused second one with it.
        with pytest.raises(ValueError, match="another draw"):
            made(period=3, state=tmp_path / "copy", **known).fit(month(50, 3))
        made(period=3, state=tmp_path / "s", **known).fit(month(50, 3))
        assert book.verify() == 1


def test_a_copy_does_not_publish_later_what_another_has_drawn_instead(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.create(tmp_path / "book", 2, 1e-5, "add-remove") as book:
        known: dict[str, Any] = {"ledger": book, "random_state": None, "quantiles": ()}
        made(state=tmp_path / "s", **known).fit(month(50, 0))
        shutil.copy(tmp_path / "s", tmp_path / "copy")
        with monkeypatch.context() as patch:  # killed between the file and the ledger

            def die(*_: Any, **named: Any) -> None:
                raise RuntimeError("killed")

            patch.setattr(continual._Payment, "record", die)
            with pytest.raises(RuntimeError, match="killed"):
                made(period=2, state=tmp_path / "s", **known).fit(month(50, 1))
        made(period=2, state=tmp_path / "copy", **known).fit(month(50, 2))
        with pytest.raises(ValueError, match="another draw"):
            made(period=3, state=tmp_path / "s", **known).fit(month(50, 3))
        made(period=3, state=tmp_path / "copy", **known).fit(month(50, 3))


def _killed(folder: Path, place: str) -> None:
    def die(*_: Any, **named: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    target = {"keep": continual.SeriesFile, "note_period": Ledger, "complete": Ledger}[place]
    setattr(target, place, die)
    with Ledger(folder / "book") as book:
        made(period=2, state=folder / "s", ledger=book, random_state=None).fit(month(50, 1))


@pytest.mark.parametrize("place", ["keep", "note_period", "complete"])
def test_a_program_that_is_killed_leaves_one_draw_at_most(tmp_path, place: str) -> None:
    Ledger.create(tmp_path / "book", 2, 1e-5, "add-remove").close()
    with Ledger(tmp_path / "book") as book:
        made(state=tmp_path / "s", ledger=book, random_state=None).fit(month(50, 0))
    worker = multiprocessing.get_context("fork").Process(target=_killed, args=(tmp_path, place))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    drawn = None if place == "keep" else _kept(tmp_path / "s")
    with Ledger(tmp_path / "book") as book:
        known: dict[str, Any] = {"period": 2, "state": tmp_path / "s", "random_state": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = made(ledger=book, **known).fit(month(50, 1))
        assert drawn is None or np.array_equal(model.release_.arrays["means"][1], drawn)
        assert len(book.history()) == 1


def _kept(path: Path) -> Any:
    with continual.SeriesFile(path, first=False) as book:
        return book.before(2)[1].drawn["means"]


def test_a_first_period_that_is_refused_leaves_no_file(tmp_path) -> None:
    with (
        Ledger.create(tmp_path / "book", 0.5, 1e-6, "add-remove") as book,
        pytest.raises(BudgetExceeded),
    ):
        made(state=tmp_path / "s", ledger=book, random_state=None).fit(month(9, 0))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"continual": 1}, "continual"),
        ({"continual": 10**6}, "periods"),
        ({"period": N + 1}, "period up to"),
        ({"workload": "years"}, "workload"),
        ({"refine": True}, "refine"),
        ({"relation": "replace"}, "come or go"),
        ({"levels": {"ward": "private"}}, "public levels"),
        ({"limits": {"cost": "private"}}, "public limits"),
        ({"limits": {"cost": "private"}, "person": "who"}, "public limits"),
    ],
)
def test_what_a_series_cannot_have_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(**more).plan()


def test_a_series_goes_on_as_it_began(tmp_path) -> None:
    state = tmp_path / "s"
    with pytest.raises(FileNotFoundError, match="period 1"):
        made(period=2, state=state).fit(month(9, 0))
    with pytest.raises(ValueError, match="state"):
        made().fit(month(9, 0))
    made(state=state).fit(month(9, 0))
    with pytest.raises(ValueError, match="period 2 of the series next"):
        made(period=3, state=state).fit(month(9, 0))
    for more in ({"limits": {"cost": (0, 50)}}, {"epsilon": 2.0}, {"random_state": None}):
        with pytest.raises(ValueError, match="first period"):
            made(**{"period": 2, "state": state, **more}).fit(month(9, 0))
    (tmp_path / "text").write_text("not a series, and long enough to be read as something")
    with pytest.raises(ValueError, match="holds something else"):
        made(state=tmp_path / "text").fit(month(9, 0))


def test_the_public_has_all_periods_from_the_last_file(tmp_path) -> None:
    model = released(tmp_path, [month(200, seed) for seed in range(3)])
    model.release_.save(tmp_path / "r.npz")
    again = PrivateSummary.from_release(Release.load(tmp_path / "r.npz"))
    told, known = again.to_columns(), model.to_columns()
    assert told.keys() == known.keys()
    np.testing.assert_allclose(told["estimate"], known["estimate"], rtol=1e-9)
    assert set(told["period"]) == {"1", "2", "3", "1 to 2", "1 to 3"}
    assert "period 1 to 3" in again.summary()
    assert "independent periods" in model.plan().reason


def test_a_few_numbers_take_the_law_with_the_least_noise() -> None:
    """A count has far less noise by Laplace, even where totals of independent periods add it up."""
    assert made(limits=None, quantiles=(), method="auto").plan().method == "laplace"
    assert made(method="auto", continual=200, quantiles=(0.5,)).plan().method == "gaussian"
