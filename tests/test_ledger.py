import copy
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ledger_workers
from ledger_places import Address, Place
from ndis import BudgetExceeded, Guarantee, Ledger, Profile, QuadraticLoss, TabulatedLoss
from ndis.calibration import least_noise, meets
from ndis.ledger import DamagedLedger
from ndis.ledger.composition import compose
from ndis.ledger.filter import Filter
from ndis.ledger.storage import Storage
from ndis.loss.least_squares import LeastSquaresLoss
from ndis.mechanisms.publish import publish
from ndis.randomness import add_noise
from ndis.risk import advantage

EPSILON, DELTA = 1.0, 1e-6


def shift(size: float, relation: str = "add-remove") -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_shift(size))
    return Guarantee(1.0, 0.1, relation, "proven", loss)


def sketch(leverage: float, columns: int) -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_leverage(leverage, columns))
    return Guarantee(1.0, 0.1, "add-remove", "proven", loss)


@pytest.fixture
def path(place: Place) -> Address:
    return place.new()


@pytest.fixture
def ledger(path: Address) -> Iterator[Ledger]:
    with Ledger.create(path, EPSILON, DELTA, "add-remove") as opened:
        yield opened


@pytest.fixture
def planned(path: Address) -> Iterator[Ledger]:
    with Ledger.create(path, EPSILON, DELTA, "add-remove", mode="plan") as opened:
        yield opened


@pytest.fixture
def planned_beside(place: Place) -> Iterator[Ledger]:
    with Ledger.create(place.new(), EPSILON, DELTA, "add-remove", mode="plan") as opened:
        opened.plan([shift(0.1)])
        yield opened


# -- opening -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_opening_needs_no_parameters(ledger: Ledger) -> None:
    ledger.spend(shift(0.1), "first")
    with Ledger(ledger.path) as again:
        assert repr(again) == repr(ledger)
        assert again.history() == ledger.history()


def test_opening_makes_nothing(path: Address) -> None:
    with pytest.raises(FileNotFoundError, match=r"found none; make one with `Ledger\.create`"):
        Ledger(path)
    with Ledger.create(path, EPSILON, DELTA, "replace") as ledger:
        assert ledger.history() == []


def test_creating_adopts_nothing(ledger: Ledger) -> None:
    ledger.spend(shift(0.1), "first")
    with pytest.raises(FileExistsError, match="which exists; open it with `Ledger`"):
        Ledger.create(ledger.path, EPSILON, DELTA, "add-remove")
    assert ledger.verify() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        (0.0, 1e-6, "replace"),
        (1.0, 0.0, "replace"),
        (1.0, 1e-6, "sideways"),
        (float("nan"), 1e-6, "replace"),
    ],
)
def test_a_senseless_budget_is_refused(path: Address, wrong: tuple) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Ledger.create(path, *wrong)
    with pytest.raises(FileNotFoundError):
        Ledger(path)


# -- spending ----------------------------------------------------------------------------------


def test_spend_and_complete_make_one_row_a_release(ledger: Ledger) -> None:
    first = ledger.spend(shift(0.1), "first")
    second = ledger.spend(sketch(0.001, 5), "second", "for a survey")
    ledger.complete(second, "abc")
    assert [first.number, second.number] == [1, 2]
    assert ledger.history() == [first, replace(second, digest="abc")]
    assert [entry.note for entry in ledger.history()] == ["", "for a survey"]


def test_a_note_of_the_ledger_goes_to_each_release(ledger: Ledger) -> None:
    with Ledger(ledger.path, note="thesis") as noted:
        copied = pickle.loads(pickle.dumps(noted))
        copied.spend(shift(0.1), "first")
        noted.spend(shift(0.1), "second", note="")
    assert [entry.note for entry in ledger.history()] == ["thesis", ""]


def test_a_release_completes_once_and_only_if_paid(ledger: Ledger) -> None:
    entry = ledger.spend(shift(0.1), "first")
    ledger.complete(entry, "abc")
    with pytest.raises(ValueError, match="not complete, got number 1"):
        ledger.complete(entry, "other")
    with pytest.raises(ValueError, match="paid for, got number 2"):
        ledger.complete(2, "abc")
    assert [entry.digest for entry in ledger.history()] == ["abc"]


def test_budget_exceeded_carries_asked_and_left(ledger: Ledger) -> None:
    ledger.spend(shift(0.15), "first")
    left = ledger.remaining()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.spend(shift(0.2), "second")
    assert refused.value.asked == pytest.approx(
        float(QuadraticLoss.from_shift(0.2).epsilon(DELTA)), rel=1e-9
    )
    assert refused.value.left == left.epsilon < refused.value.asked
    assert str(refused.value) == (
        f"Expected a release within the budget, got epsilon={refused.value.asked:.6g} where "
        f"{left.epsilon:.6g} is left, both at delta=1e-06; ask for less."
    )
    assert len(ledger.history()) == 1
    copied = pickle.loads(pickle.dumps(refused.value))
    assert (copied.asked, copied.left) == (refused.value.asked, refused.value.left)
    # What is left can be spent, and then nothing more.
    ledger.spend(shift(left.shift * (1 - 1e-9)), "rest")
    assert ledger.remaining().epsilon < 1e-3
    with pytest.raises(BudgetExceeded):
        ledger.spend(shift(0.01), "more")


def test_preview_tells_what_would_be_left_and_spends_nothing(ledger: Ledger) -> None:
    after = ledger.preview(shift(0.1))
    assert ledger.history() == []
    entry = ledger.spend(shift(0.1), "first")
    assert ledger.remaining() == after
    with pytest.raises(BudgetExceeded):
        ledger.preview(shift(0.3))
    assert ledger.preview(entry.guarantee).epsilon < after.epsilon
    with pytest.raises(TypeError, match="Expected a Guarantee, got float"):
        ledger.preview(0.5)


def test_callers_can_ask_before_they_read_data(ledger: Ledger, planned_beside: Ledger) -> None:
    assert ledger.would_allow(shift(0.1))
    assert not ledger.would_allow(shift(0.3))
    with pytest.raises(ValueError, match="for add-remove, as this ledger counts"):
        ledger.would_allow(shift(0.1, "replace"))
    ledger.spend(shift(0.2), "most of it")
    assert not ledger.would_allow(shift(0.15))
    assert planned_beside.would_allow(shift(0.1))
    assert not planned_beside.would_allow(shift(0.05))
    assert (ledger.verify(), planned_beside.verify()) == (1, 0)


def test_the_cost_of_a_release_is_found_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = sketch(0.00123, 7)
    assert ledger.would_allow(release)
    monkeypatch.setattr(Filter, "cost", None)
    ledger.spend(release, "known")


def test_an_untouched_budget_says_why_less_is_left(ledger: Ledger) -> None:
    left = ledger.remaining()
    price = 1 - left.epsilon / EPSILON
    assert str(left) == (
        f"epsilon {left.epsilon:.4g} at delta 1e-06 (nothing is spent; deciding release by "
        f"release costs {price:.1%} of 1, a single release may use it all)"
    )
    ledger.spend(shift(0.1), "first")
    assert ledger.remaining().reason == ""


def test_the_total_is_what_was_spent(ledger: Ledger) -> None:
    assert ledger.total().delta(0.0) == 0.0
    made = [sketch(0.001, 5), shift(0.1), Guarantee(0.01, 1e-9, "add-remove", "proven")]
    for release in (*made, made[0]):
        ledger.spend(release, "toy")
    expected = compose([(made[0], 2), (made[1], 1), (made[2], 1)], EPSILON / 2048)
    grid = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(ledger.total().delta(grid), expected.delta(grid), rtol=1e-9)
    exact = 2 * made[0].loss.losses[0] + made[1].loss.losses[0]
    assert np.all(ledger.total().delta(grid) >= exact.delta(grid))


def test_risk_of_all_releases_together(ledger: Ledger, planned_beside: Ledger) -> None:
    promised = ledger.guarantee()
    assert ledger.risk() == promised.risk()
    for _ in range(2):
        ledger.spend(shift(0.1), "toy")
    # A budget promises no more for what was chosen on the way than for what was not.
    assert ledger.risk(false_positive=0.1) == promised.risk(false_positive=0.1)
    together = QuadraticLoss.from_shift(0.1 * math.sqrt(2.0))
    assert ledger.risk(as_planned=True) == pytest.approx(advantage(together), rel=1e-9)
    alone = QuadraticLoss.from_shift(0.1)
    assert planned_beside.risk() == pytest.approx(advantage(alone), rel=1e-9)


def test_a_notebook_shows_the_budget(ledger: Ledger) -> None:
    ledger.complete(ledger.spend(shift(0.1), "first"), "abc")
    page = ledger._repr_html_()
    assert "<th>budget</th><td>epsilon 1 at delta 1e-06</td>" in page
    assert "<td>1, 1 with an output</td>" in page
    assert f"<td>{ledger.remaining()}</td>" in page


def test_the_first_release_may_take_the_whole_budget_and_ends_it(ledger: Ledger) -> None:
    noise = least_noise(lambda s: QuadraticLoss.from_shift(1 / s), EPSILON, DELTA)
    ledger.spend(shift(1 / noise), "all")
    assert ledger.remaining().epsilon == 0
    assert ledger.verify() == 1
    with pytest.raises(BudgetExceeded):
        ledger.spend(shift(1e-9), "more")
    with pytest.raises(BudgetExceeded):
        ledger.spend(Guarantee(0.0, 1e-9, "add-remove", "proven"), "no more either")


def test_the_second_release_may_not(ledger: Ledger) -> None:
    ledger.spend(shift(1e-6), "next to nothing")
    noise = least_noise(lambda s: QuadraticLoss.from_shift(1 / s), EPSILON, DELTA)
    with pytest.raises(BudgetExceeded):
        ledger.spend(shift(1 / noise), "all")


def test_a_bare_guarantee_of_the_whole_budget_is_a_first_release(ledger: Ledger) -> None:
    ledger.spend(Guarantee(EPSILON, DELTA, "add-remove", "proven"), "all")
    assert ledger.verify() == 1


def test_all_kinds_of_losses_together(ledger: Ledger) -> None:
    gauss = QuadraticLoss.from_shift(0.05)
    table = TabulatedLoss.from_profile(gauss.delta, gauss.delta, step=0.01, high=1.0)
    ledger.spend(shift(0.05), "shift")
    ledger.spend(sketch(0.001, 10), "sketch")
    ledger.spend(replace(shift(0.05), loss=Profile([table, table])), "table")
    ledger.spend(Guarantee(0.01, 1e-8, "add-remove", "proven"), "bare")
    assert ledger.verify() == 4
    made = [(entry.guarantee, 1) for entry in ledger.history()]
    assert meets(compose(made, EPSILON / 1000), EPSILON, DELTA)


@pytest.mark.slow
def test_a_worst_case_over_many_pairs_counts_as_a_table(ledger: Ledger) -> None:
    loss = Profile.both(LeastSquaresLoss(2e-4, 3, 50))
    release = replace(shift(0.05), loss=loss)
    ledger.spend(release, "regression")
    ledger.spend(shift(0.05), "shift")
    assert ledger.verify() == 2
    assert 0 < ledger.remaining().epsilon < 0.96


# -- what is not counted -----------------------------------------------------------------------


def test_relations_are_not_mixed(ledger: Ledger, place: Place) -> None:
    with pytest.raises(ValueError, match="for add-remove, as this ledger counts, got one for"):
        ledger.spend(shift(0.1, "replace"), "other")
    add_remove = Guarantee(0.1, 1e-9, "add-remove", "proven")
    with Ledger.create(place.new(), EPSILON, DELTA, "replace") as other:
        with pytest.raises(ValueError, match="to_replace"):
            other.spend(add_remove, "as it is")
        assert other.spend(add_remove.to_replace(), "converted").number == 1


def test_refuted_claims_are_never_counted(place: Place) -> None:
    every = ["relative", "declared", "seeded"]
    ledger = Ledger.create(place.new(), EPSILON, DELTA, "add-remove", accept=every)
    with pytest.raises(ValueError, match="refuted"):
        ledger.spend(Guarantee(0.1, 1e-9, "add-remove", "refuted"), "broken")


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("relative", {"basis": "relative"}),
        ("declared", {"basis": "declared"}),
        ("seeded", {"private": False}),
    ],
)
def test_conditional_guarantees_need_to_be_accepted(
    ledger: Ledger, place: Place, word: str, change: dict
) -> None:
    conditional = replace(shift(0.1), **change)
    with pytest.raises(ValueError, match=f"accept=\\['{word}'\\]"):
        ledger.spend(conditional, "conditional")
    with Ledger.create(place.new(), EPSILON, DELTA, "add-remove", accept=[word]) as lenient:
        assert lenient.guarantee().basis == "proven"
        lenient.spend(conditional, "conditional")
        lenient.spend(shift(0.1), "unconditional")
        whole = lenient.guarantee()
        assert (whole.basis, whole.private) == (conditional.basis, conditional.private)


# -- plans -------------------------------------------------------------------------------------


def test_a_plan_adds_up_exactly_and_is_kept(planned: Ledger) -> None:
    noise = least_noise(lambda s: QuadraticLoss.from_shift(1 / s), EPSILON, DELTA)
    size = 1 / noise
    releases = [shift(0.6 * size), shift(0.8 * (1 - 1e-12) * size)]
    with pytest.raises(ValueError, match="call `plan`"):
        planned.spend(releases[0], "too early")
    planned.plan(releases)
    assert planned.remaining().epsilon == pytest.approx(EPSILON, rel=1e-6)
    planned.spend(releases[1], "second first")
    with pytest.raises(BudgetExceeded, match="1 releases left in the plan"):
        planned.spend(releases[1], "twice")
    assert planned.verify() == 1
    planned.spend(releases[0], "first")
    assert planned.remaining().epsilon == planned.remaining().shift == 0
    assert Ledger(planned.path).verify() == 2
    with pytest.raises(ValueError, match="cannot be changed"):
        planned.plan(releases)


def test_a_plan_beyond_the_budget_is_refused(planned: Ledger) -> None:
    with pytest.raises(BudgetExceeded) as refused:
        planned.plan([shift(0.2), shift(0.2)])
    exact = Profile.both(QuadraticLoss.from_shift(np.sqrt(0.08))).epsilon(DELTA)
    assert refused.value.asked == pytest.approx(float(exact), rel=1e-9)
    assert refused.value.left == EPSILON
    planned.plan([shift(0.1), shift(0.1)])


def test_a_plan_composes_every_kind(planned: Ledger) -> None:
    planned.plan([shift(0.1), sketch(0.002, 10), Guarantee(0.02, 1e-9, "add-remove", "proven")])
    assert 0.3 < planned.remaining().epsilon < EPSILON
    moments, left = planned.burn_down()
    assert moments == [0]
    assert left == [planned.remaining().epsilon]


@pytest.mark.slow
def test_a_plan_without_orientation_counts_the_worse_direction_each_time(place: Place) -> None:
    loss = QuadraticLoss.from_leverage(0.005, 10)
    release = Guarantee(1.0, 0.1, "replace", "proven", Profile.both(loss))
    with Ledger.create(place.new(), EPSILON, DELTA, "replace", mode="plan") as ledger:
        ledger.plan([release, release])
        mixed = max(
            float((a + b).epsilon(DELTA))
            for a in (loss, loss.reversed())
            for b in (loss, loss.reversed())
        )
        assert mixed <= ledger.remaining().epsilon < 1.01 * mixed


def test_only_a_plan_ledger_plans(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="mode 'plan', got 'adaptive'"):
        ledger.plan([shift(0.1)])


def test_an_empty_plan_is_refused(planned: Ledger) -> None:
    with pytest.raises(ValueError, match="at least one release"):
        planned.plan([])
    assert planned.remaining().epsilon == EPSILON
    assert planned.verify() == 0


# -- a release in its order --------------------------------------------------------------------


def noisy(values: np.ndarray) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: add_noise(values, 10.0, rng)


def test_publish_pays_draws_and_records(ledger: Ledger) -> None:
    release = publish(noisy(np.zeros(3)), shift(0.1), "toy", {}, {"value": (3,)}, ledger=ledger)
    (entry,) = ledger.history()
    assert (entry.mechanism, entry.digest) == ("toy", release.digest)


def test_a_crash_while_drawing_wastes_budget_and_no_more(ledger: Ledger) -> None:
    def crash(rng: np.random.Generator) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(crash, shift(0.1), "toy", {}, {"value": (3,)}, ledger=ledger)
    again = Ledger(ledger.path)
    (entry,) = again.history()
    assert entry.digest is None
    assert again.remaining().epsilon < 0.9
    assert again.verify() == 1


def test_nothing_is_drawn_that_cannot_be_paid(ledger: Ledger) -> None:
    drawn = []
    with pytest.raises(BudgetExceeded):
        publish(drawn.append, shift(1.0), "toy", {}, {"value": (3,)}, ledger=ledger)
    with pytest.raises(ValueError, match="random_state"):
        publish(drawn.append, shift(0.1), "toy", {}, {"value": (3,)}, random_state=1, ledger=ledger)
    assert drawn == []


# -- damage ------------------------------------------------------------------------------------


def filled(path: Address) -> None:
    with Ledger.create(path, EPSILON, DELTA, "add-remove") as ledger:
        for _ in range(3):
            ledger.complete(ledger.spend(shift(0.05), "toy"), "abc")


EDITS = [
    "UPDATE events SET body = replace(body, 'toy', 'boy') WHERE number = 2",
    "UPDATE events SET hash = (SELECT hash FROM events WHERE number = 2) WHERE number = 4",
    "UPDATE events SET kind = 'noted' WHERE number = 3",
    "DELETE FROM events WHERE number = 4",
    "DELETE FROM events WHERE number = 7",
    "DELETE FROM events",
    "DELETE FROM state",
    "UPDATE state SET body = replace(body, '0x1.', '0x0.')",
    "DROP TABLE state",
    "ALTER TABLE events ADD COLUMN remark TEXT",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_noticed(place: Place, path: Address, edit: str) -> None:
    filled(path)
    place.edit(path, edit)
    with pytest.raises(DamagedLedger, match="restore it, or count its budget as spent"):
        Ledger(path)


@pytest.mark.parametrize("edit", EDITS[2:])
def test_an_edit_is_noticed_by_a_process_at_work(place: Place, ledger: Ledger, edit: str) -> None:
    for _ in range(3):
        ledger.complete(ledger.spend(shift(0.05), "toy"), "abc")
    place.edit(ledger.path, edit)
    with pytest.raises(DamagedLedger):
        ledger.verify()


def forged(ledger: Ledger, number: int, release: Guarantee, **change: object) -> None:
    """Append a release with a chain that fits, as somebody could who knows the format."""

    def append(state: dict) -> None:
        body = {"time": "", "mechanism": "toy", "note": "", "guarantee": release.to_dict()}
        ledger._chain.append("spend", number, body, state | {"releases": number} | change)

    ledger._chain.run(append, write=True)


@pytest.mark.parametrize(
    ("number", "release", "change", "why"),
    [
        (2, shift(0.05), {}, "not the sum of its releases"),
        (3, shift(0.05), {}, "releases are missing"),
        (2, shift(0.05), {"private": False}, "promises more"),
        (2, shift(0.05, "replace"), {}, "does not write"),
        (2, replace(shift(0.05), basis="refuted"), {"basis": "refuted"}, "does not write"),
        (2, replace(shift(0.05), basis="relative"), {"basis": "relative"}, "does not write"),
        (2, shift(0.05), {"mode": {"totals": [["x"]]}}, "does not write"),
        (2, shift(0.05), {"mode": {}}, "does not write"),
    ],
)
def test_what_was_rewritten_with_its_chain_is_found_by_verify(
    ledger: Ledger, number: int, release: Guarantee, change: dict, why: str
) -> None:
    ledger.spend(shift(0.05), "toy")
    forged(ledger, number, release, **change)
    with pytest.raises(DamagedLedger, match=why):
        ledger.verify()


def test_a_filter_of_a_larger_budget_is_found_by_verify(
    path: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Filter.design(EPSILON, DELTA)
    for other in (
        replace(honest, squared_shift=2 * honest.squared_shift),
        replace(honest, delta_renyi=0.6 * DELTA),
        replace(honest, weights=tuple(2 * weight for weight in honest.weights)),
    ):
        assert not other.keeps(EPSILON, DELTA)
    assert honest.keeps(EPSILON, DELTA)
    monkeypatch.setattr(Filter, "design", lambda *_: Filter(**(vars(honest) | {"epsilon": 2.0})))
    with (
        Ledger.create(path, EPSILON, DELTA, "add-remove") as ledger,
        pytest.raises(DamagedLedger, match="does not keep its budget"),
    ):
        ledger.verify()


# -- several at once ---------------------------------------------------------------------------


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda _: ledger.spend(shift(0.01), "toy"), range(20)))
    assert sorted(entry.number for entry in entries) == list(range(1, 21))
    assert ledger.verify() == 20


def test_copies_are_the_same_ledger(ledger: Ledger) -> None:
    for other in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        other.spend(shift(0.01), "toy")
    assert ledger.verify() == 2


def test_a_fork_opens_the_ledger_anew(ledger: Ledger) -> None:
    ledger.spend(shift(0.01), "before")
    program = (
        "import os, sys, ndis\n"
        f"ledger = ndis.Ledger({str(ledger.path)!r})\n"
        "given = ledger.history()[0].guarantee\n"
        "child = os.fork()\n"
        "for _ in range(5): ledger.spend(given, 'either')\n"
        "os._exit(0) if child == 0 else sys.exit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert ledger.verify() == 11


def test_verifying_holds_up_nobody(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.spend(shift(0.01), "toy")
    with Ledger(ledger.path) as other:
        read = Guarantee.from_dict

        def slow(stored: dict) -> Guarantee:
            other.spend(shift(0.01), "meanwhile")  # would wait for ever if the ledger were held
            return read(stored)

        monkeypatch.setattr("ndis.ledger.storage._PATIENCE", 5.0)
        monkeypatch.setattr(Guarantee, "from_dict", slow)
        assert ledger.verify() == 1
        monkeypatch.undo()
        assert other.verify() == 2


@pytest.mark.slow
def test_killed_processes_never_overspend_lose_or_double(tmp_path: Path) -> None:
    kills, path = 200, tmp_path / "ledger"
    with Ledger.create(path, EPSILON, DELTA, "add-remove") as ledger:
        ledger_workers.run(tmp_path, kills, path)
        ledger_workers.check(tmp_path, ledger, kills)


@pytest.mark.slow
def test_a_payment_reads_the_end_of_a_long_ledger_only(
    path: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = 2_000
    release = sketch(1e-5, 10)
    rows = []

    def counted(storage: Storage, statement: str, values: tuple = ()) -> list:
        found = query(storage, statement, values)
        rows.append(len(found))
        return found

    with Ledger.create(path, EPSILON, DELTA, "add-remove") as ledger:
        query = type(ledger._chain.storage).query
        ledger_workers.fill(ledger, release, releases)
        monkeypatch.setattr(type(ledger._chain.storage), "query", counted)
        entry = ledger.spend(release, "toy")
        assert entry.number == releases + 1
        assert sum(rows) < 20
        rows.clear()
        with Ledger(path) as again:
            assert releases < sum(rows) < releases + 20
            monkeypatch.undo()
            assert again.verify() == releases + 1
