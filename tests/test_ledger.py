import copy
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ledger_workers
from ndis import BudgetExceeded, Guarantee, Ledger, Profile, QuadraticLoss, TabulatedLoss
from ndis.calibration import least_noise, meets
from ndis.ledger import DamagedLedger
from ndis.ledger.composition import compose
from ndis.loss.least_squares import LeastSquaresLoss
from ndis.mechanisms.publish import publish
from ndis.randomness import add_noise

EPSILON, DELTA = 1.0, 1e-6


def shift(size: float, relation: str = "add-remove") -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_shift(size))
    return Guarantee(1.0, 0.1, relation, "proven", loss)


def sketch(leverage: float, columns: int) -> Guarantee:
    loss = Profile.both(QuadraticLoss.from_leverage(leverage, columns))
    return Guarantee(1.0, 0.1, "add-remove", "proven", loss)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path, EPSILON, DELTA, "add-remove") as opened:
        yield opened


@pytest.fixture
def planned(path: Path) -> Iterator[Ledger]:
    with Ledger(path, EPSILON, DELTA, "add-remove", mode="plan") as opened:
        yield opened


# -- opening -----------------------------------------------------------------------------------


def test_an_existing_file_needs_no_parameters(ledger: Ledger) -> None:
    ledger.spend(shift(0.1), "first")
    again = Ledger(ledger.path)
    assert repr(again) == repr(ledger)
    assert again.history() == ledger.history()
    assert Ledger(ledger.path, 1, 1e-6, "add-remove", mode="adaptive", accept=[]).epsilon == 1.0


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 2.0},
        {"delta": 1e-5},
        {"relation": "replace"},
        {"mode": "plan"},
        {"accept": ["relative"]},
    ],
)
def test_other_parameters_are_refused(ledger: Ledger, other: dict) -> None:
    (name,) = other
    with pytest.raises(ValueError, match=f"Expected {name}="):
        Ledger(ledger.path, **other)


def test_a_missing_file_needs_a_budget(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="pass delta, relation too"):
        Ledger(path, 1.0)
    assert not path.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        (0.0, 1e-6, "replace"),
        (1.0, 0.0, "replace"),
        (1.0, 1e-6, "sideways"),
        (float("nan"), 1e-6, "replace"),
    ],
)
def test_a_senseless_budget_is_refused(path: Path, wrong: tuple) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Ledger(path, *wrong)
    assert not path.exists()


def test_a_file_left_empty_by_a_crash_is_started_again(path: Path) -> None:
    path.touch()
    with pytest.raises(FileNotFoundError):
        Ledger(path)
    assert Ledger(path, EPSILON, DELTA, "replace").history() == []


# -- spending ----------------------------------------------------------------------------------


def test_spend_and_complete_make_one_row_a_release(ledger: Ledger) -> None:
    first = ledger.spend(shift(0.1), "first")
    second = ledger.spend(sketch(0.001, 5), "second")
    ledger.complete(second, "abc")
    assert [first.number, second.number] == [1, 2]
    assert ledger.history() == [first, replace(second, digest="abc")]
    with sqlite3.connect(ledger.path) as db:
        rows = db.execute("SELECT number, mechanism, relation, digest FROM releases").fetchall()
    assert rows == [(1, "first", "add-remove", None), (2, "second", "add-remove", "abc")]


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
    assert str(refused.value).count(".") > 0
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

    class Fitted:
        guarantee_ = shift(0.05)

    class Mechanism:
        def guarantee(self) -> Guarantee:
            return shift(0.05)

    assert ledger.preview(Fitted()) == ledger.preview(Mechanism()) == ledger.preview(shift(0.05))
    assert ledger.preview(entry).epsilon < after.epsilon
    with pytest.raises(TypeError, match="something that has one, got float"):
        ledger.preview(0.5)


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


def test_relations_are_not_mixed(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="for add-remove, got one for replace"):
        ledger.spend(shift(0.1, "replace"), "other")
    add_remove = Guarantee(0.1, 1e-9, "add-remove", "proven")
    with Ledger(tmp_path / "other", EPSILON, DELTA, "replace") as other:
        with pytest.raises(ValueError, match="to_replace"):
            other.spend(add_remove, "as it is")
        assert other.spend(add_remove.to_replace(), "converted").number == 1


def test_refuted_claims_are_never_counted(tmp_path: Path) -> None:
    every = ["relative", "declared", "seeded"]
    ledger = Ledger(tmp_path / "every", EPSILON, DELTA, "add-remove", accept=every)
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
    ledger: Ledger, tmp_path: Path, word: str, change: dict
) -> None:
    conditional = replace(shift(0.1), **change)
    with pytest.raises(ValueError, match=f"accept=\\['{word}'\\]"):
        ledger.spend(conditional, "conditional")
    with Ledger(tmp_path / "open", EPSILON, DELTA, "add-remove", accept=[word]) as lenient:
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


def test_a_plan_without_orientation_counts_the_worse_direction_each_time(tmp_path: Path) -> None:
    loss = QuadraticLoss.from_leverage(0.005, 10)
    release = Guarantee(1.0, 0.1, "replace", "proven", Profile.both(loss))
    with Ledger(tmp_path / "replace", EPSILON, DELTA, "replace", mode="plan") as ledger:
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
    release = publish(noisy(np.zeros(3)), shift(0.1), "toy", {}, ledger=ledger)
    (entry,) = ledger.history()
    assert (entry.mechanism, entry.digest) == ("toy", release.digest)


def test_a_crash_while_drawing_wastes_budget_and_no_more(ledger: Ledger) -> None:
    def crash(rng: np.random.Generator) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(crash, shift(0.1), "toy", {}, ledger=ledger)
    again = Ledger(ledger.path)
    (entry,) = again.history()
    assert entry.digest is None
    assert again.remaining().epsilon < 0.9
    assert again.verify() == 1


def test_nothing_is_drawn_that_cannot_be_paid(ledger: Ledger) -> None:
    drawn = []
    with pytest.raises(BudgetExceeded):
        publish(drawn.append, shift(1.0), "toy", {}, ledger=ledger)
    with pytest.raises(ValueError, match="random_state"):
        publish(drawn.append, shift(0.1), "toy", {}, random_state=1, ledger=ledger)
    assert drawn == []


# -- damage ------------------------------------------------------------------------------------


def filled(path: Path) -> None:
    with Ledger(path, EPSILON, DELTA, "add-remove") as ledger:
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
    "PRAGMA application_id = 7",
    "PRAGMA user_version = 2",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_noticed(path: Path, edit: str) -> None:
    filled(path)
    with sqlite3.connect(path) as db:
        db.execute(edit)
    db.close()
    with pytest.raises(DamagedLedger, match="restore the file"):
        Ledger(path)


@pytest.mark.parametrize("edit", EDITS[2:])
def test_an_edit_is_noticed_by_a_process_at_work(path: Path, edit: str) -> None:
    with Ledger(path, EPSILON, DELTA, "add-remove") as ledger:
        for _ in range(3):
            ledger.complete(ledger.spend(shift(0.05), "toy"), "abc")
        with sqlite3.connect(path) as db:
            db.execute(edit)
        db.close()
        with pytest.raises(DamagedLedger):
            ledger.verify()


def test_a_corrupt_file_is_refused(path: Path) -> None:
    filled(path)
    content = bytearray(path.read_bytes())
    assert not path.with_name("ledger-wal").exists()  # closing left one whole file
    for place in range(200, len(content), 97):
        content[place] ^= 0x5A
    path.write_bytes(content)
    with pytest.raises(DamagedLedger):
        Ledger(path).verify()


def test_a_file_of_another_kind_is_refused(path: Path) -> None:
    path.write_text("My budget is 3.")
    with pytest.raises(DamagedLedger):
        Ledger(path)
    with sqlite3.connect(path.with_name("foreign")) as db:
        db.execute("CREATE TABLE things (name TEXT)")
    db.close()
    with pytest.raises(DamagedLedger, match="not a ledger"):
        Ledger(path.with_name("foreign"), EPSILON, DELTA, "replace")


def test_totals_that_were_rewritten_with_their_chain_are_found_by_verify(path: Path) -> None:
    with Ledger(path, EPSILON, DELTA, "add-remove") as ledger:
        ledger.spend(shift(0.05), "toy")
        with ledger._chain.transaction(write=True) as state:
            body = {"time": "", "mechanism": "toy", "guarantee": shift(0.05).to_dict()}
            ledger._chain.append("spend", 2, body, state | {"releases": 2})
        with pytest.raises(DamagedLedger, match="not the sum of its releases"):
            ledger.verify()


def test_a_file_put_back_is_noticed_by_a_process_at_work(path: Path, ledger: Ledger) -> None:
    ledger.close()
    shutil.copy(path, path.with_name("backup"))
    ledger.spend(shift(0.05), "toy")
    ledger.close()
    shutil.copy(path.with_name("backup"), path)
    with pytest.raises(DamagedLedger, match="gone"):
        ledger.spend(shift(0.05), "toy")


def test_a_replaced_file_is_noticed_by_a_process_at_work(path: Path, ledger: Ledger) -> None:
    ledger.spend(shift(0.05), "toy")
    path.unlink()
    with pytest.raises(DamagedLedger, match="replaced"):
        ledger.spend(shift(0.05), "toy")


# -- several at once ---------------------------------------------------------------------------


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda _: ledger.spend(shift(0.01), "toy"), range(20)))
    assert sorted(entry.number for entry in entries) == list(range(1, 21))
    assert ledger.verify() == 20


def test_copies_are_the_same_file(ledger: Ledger) -> None:
    for other in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        other.spend(shift(0.01), "toy")
    assert ledger.verify() == 2


def test_a_fork_opens_the_file_anew(ledger: Ledger) -> None:
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


def test_killed_processes_never_overspend_lose_or_double(tmp_path: Path) -> None:
    kills = 200
    script = Path(ledger_workers.__file__)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, script, tmp_path, str(kills)], check=True, env=environment)
    assert [fault.read_text() for fault in tmp_path.glob("fault-*")] == []
    notes = [
        line.split() for file in tmp_path.glob("notes-*") for line in file.read_text().splitlines()
    ]
    kinds = [kind for kind, *_ in notes]
    assert kinds.count("refused") > 0  # the budget was used up under fire
    assert kinds.count("opened") > kills / 4
    ledger = Ledger(tmp_path / "ledger")
    history = ledger.history()
    assert ledger.verify() == len(history)
    total = compose([(ledger_workers.RELEASE, len(history))], EPSILON / 1000)
    assert meets(total, ledger.epsilon, ledger.delta)
    with pytest.raises(BudgetExceeded):
        ledger.spend(ledger_workers.RELEASE, "one more")
    spent = [int(number) for kind, number, _ in notes if kind == "spent"]
    assert len(set(spent)) == len(spent)
    assert set(spent) <= {entry.number for entry in history}
    recorded = {entry.number: entry.digest for entry in history if entry.digest is not None}
    completed = [(int(number), digest) for kind, number, digest in notes if kind == "completed"]
    assert len({number for number, _ in completed}) == len(completed) > 50
    assert set(completed) <= set(recorded.items())
    assert len(set(recorded.values())) == len(recorded)
    assert len(recorded) - len(completed) <= kills + 8  # killed between completing and noting


def test_spending_stays_cheap_on_a_long_ledger(path: Path) -> None:
    releases = 10_000
    release = sketch(1e-5, 10)
    with Ledger(path, EPSILON, DELTA, "add-remove") as ledger:
        ledger_workers.fill(ledger, release, releases)
        times = []
        for _ in range(40):
            before = time.process_time()
            entry = ledger.spend(release, "toy")
            times.append(time.process_time() - before)
        assert entry.number == releases + 40
        assert np.median(times) < 0.005
    before = time.process_time()
    again = Ledger(path)
    assert time.process_time() - before < 1.0
    assert again.verify() == releases + 40
