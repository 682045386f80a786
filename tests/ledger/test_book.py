import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ledger_places import DELTA, EPSILON, Address, Place, shift, sketch
from ndis import BudgetExceeded, Guarantee, Ledger, QuadraticLoss
from ndis.ledger.filter import Filter
from ndis.mechanisms.publish import publish
from ndis.randomness import add_noise

# -- opening -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_opening_needs_no_parameters(ledger: Ledger) -> None:
    ledger.spend(shift(0.1), "first")
    with Ledger(ledger.path) as again:
        assert repr(again) == repr(ledger)
        assert again.history() == ledger.history()


def test_opening_makes_nothing(address: Address) -> None:
    with pytest.raises(FileNotFoundError, match=r"found none; make one with `ndis ledger init`"):
        Ledger(address)
    with Ledger.create(address, EPSILON, DELTA, "replace") as ledger:
        assert ledger.history() == []


def test_creating_adopts_nothing(ledger: Ledger) -> None:
    ledger.spend(shift(0.1), "first")
    with pytest.raises(FileExistsError, match="which exists; choose another"):
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
def test_a_senseless_budget_is_refused(address: Address, wrong: tuple) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Ledger.create(address, *wrong)
    with pytest.raises(FileNotFoundError):
        Ledger(address)


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


def test_a_notebook_shows_the_budget(ledger: Ledger) -> None:
    ledger.complete(ledger.spend(shift(0.1), "first"), "abc")
    page = ledger._repr_html_()
    assert "<th>budget</th><td>epsilon 1 at delta 1e-06, for all releases</td>" in page
    assert "<td>1 release, 1 with an output; had all been planned beforehand" in page
    assert f"<td>{ledger.remaining()}: the largest release" in page


# -- what is not counted -----------------------------------------------------------------------


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


# -- people ------------------------------------------------------------------------------------


def test_losses_of_patients_do_not_add_up_with_those_of_others(place: Place) -> None:
    patient, doctor = (replace(shift(0.1), relation=f"person:{who}") for who in ("patient", "dr"))
    with Ledger.create(place.new(), EPSILON, DELTA, "person:patient") as ledger:
        ledger.spend(patient, "stays")
        for other in (doctor, replace(shift(0.1), relation="replace")):
            with pytest.raises(ValueError, match="Expected a guarantee for"):
                ledger.spend(other, "stays")
        with pytest.raises(ValueError, match=r"pass person='patient', or .* accept=\['rows'\]"):
            ledger.spend(shift(0.1), "rows")
        assert len(ledger.history()) == 1
        assert (ledger.guarantee().relation, ledger.guarantee().basis) == (
            "person:patient",
            "proven",
        )
    of_rows = Ledger.create(place.new(), EPSILON, DELTA, "add-remove")
    with of_rows, pytest.raises(ValueError, match="Expected a guarantee for add-remove"):
        of_rows.spend(patient, "stays")


def test_rows_are_people_where_the_owner_says_so(place: Place) -> None:
    address = place.new()
    with Ledger.create(address, EPSILON, DELTA, "person:patient", accept=["rows"]) as ledger:
        ledger.spend(shift(0.1), "rows")
        ledger.spend(replace(shift(0.1), relation="person:patient"), "stays")
        assert ledger.guarantee().basis == "declared"
        assert "nobody has more than one row" in ledger.guarantee().note
        left = ledger.remaining().epsilon
    with Ledger.create(place.new(), EPSILON, DELTA, "add-remove") as plain:
        for _ in range(2):
            plain.spend(shift(0.1), "rows")
        assert plain.remaining().epsilon == left


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
