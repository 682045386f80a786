"""Guarantees, their conversions and their sentences."""

import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndis import Guarantee, NeighbourRelation, Profile, QuadraticLoss
from ndis.calibration import least_noise
from ndis.guarantee import _divided
from ndis.risk import belief, true_positive
from pairs import losses

SHIFT = Profile.both(QuadraticLoss.from_shift(1.0))


def guarantee(**changes: object) -> Guarantee:
    settings = {"epsilon": 1.0, "delta": 0.127, "relation": "replace", "basis": "proven"}
    return Guarantee(**{**settings, "loss": SHIFT, **changes})


def test_the_sentence_is_plain_and_complete() -> None:
    assert guarantee().sentences() == [
        "Suppose someone knows everything except which of two records is yours. With this release "
        "they can guess that correctly at most 70 times in 100; by tossing a coin, 50.",
        "Changing any one row makes no result more than 2.72 times as likely, apart from a "
        "probability of 0.127: (1, 0.127)-differentially private. This is proven for "
        "every possible table.",
    ]
    for relation in NeighbourRelation:
        plain, promise = guarantee(relation=relation).sentences()
        assert promise.lower().startswith(relation.change)
        assert plain.startswith("Suppose someone knows everything")
        assert str(guarantee(relation=relation)) == f"{plain} {promise}"
    meanings = {guarantee(relation=relation).sentences()[0] for relation in NeighbourRelation}
    assert len(meanings) == len(NeighbourRelation)


def test_a_person_is_named_by_their_column() -> None:
    patient, doctor = map(NeighbourRelation.of_person, ("patient", "doctor"))
    assert patient != doctor
    assert patient == NeighbourRelation("person:patient") == "person:patient"
    assert (patient.person, NeighbourRelation.REPLACE.person) == ("patient", None)
    assert patient.oriented
    assert pickle.loads(pickle.dumps(patient)) == patient
    promised = guarantee(relation=patient)
    assert promised.sentences()[1].startswith(
        "Adding or removing any one patient, with all their rows, makes no result more than 2.72"
    )
    assert "This is proven for every possible table." in str(promised)
    assert promised.relation.unit == "One patient, with all their rows"
    assert Guarantee.from_dict(json.loads(json.dumps(promised.to_dict()))) == promised
    assert promised != guarantee(relation=doctor)


@pytest.mark.parametrize("wrong", ["person", "person:", "person:a\nb", "persons:patient", 7])
def test_a_relation_of_nobody_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="'person:COLUMN'"):
        NeighbourRelation(wrong)


def cases(promised: Guarantee) -> int:
    return int(re.search(r"at most (\d+) times in 100", str(promised))[1])


@given(st.floats(0, 20), st.floats(0, 1))
def test_cases_are_rounded_up_without_a_loss(eps: float, delta: float) -> None:
    # Of two laws at most e^eps apart but for delta, by hand.
    truth = 50 + 50 * (math.expm1(eps) + 2 * delta) / (math.exp(eps) + 1)
    assert truth - 1e-9 <= cases(guarantee(epsilon=eps, delta=delta, loss=None)) < truth + 1 + 1e-6


@given(st.floats(0.001, 8))
def test_cases_are_rounded_up_with_a_loss(mu: float) -> None:
    truth = 50 + 50 * math.erf(mu / math.sqrt(8))
    shift = Profile.both(QuadraticLoss.from_shift(mu))
    assert truth - 1e-9 <= cases(guarantee(loss=shift)) < truth + 1 + 1e-6


def test_risk_is_asked_of_a_guarantee() -> None:
    assert guarantee().risk() == pytest.approx(math.erf(1 / math.sqrt(8)), rel=1e-9)
    assert guarantee().risk(false_positive=0.1) == true_positive(SHIFT, 0.1)
    assert guarantee().risk(candidates=10) == true_positive(SHIFT, 0.1)
    assert guarantee().risk(prior=0.5, beta=0.1) == belief(SHIFT, 0.5, 0.1)
    # Randomised response, with the truth told in a tenth of all cases.
    alone = guarantee(loss=None, epsilon=1.0, delta=0.1)
    assert alone.risk(false_positive=0.01) == pytest.approx(0.1 + 0.01 * math.e, rel=1e-6)
    with pytest.raises(ValueError, match="one risk at a time"):
        guarantee().risk(prior=0.5)
    for broken in ({"basis": "refuted"}, {"private": False}):
        with pytest.raises(ValueError, match="does not"):
            guarantee(**broken).risk()


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        (0.0, 0.0, "no result more likely: (0, 0)-"),
        (0.0, 1e-9, "no result more likely, apart from a probability of 1e-09: (0, 1e-09)-"),
        (1e-300, 0.0, "no result more than 1.01 times as likely: (1e-300, 0)-"),
        (1000.0, 0.5, "more than e^1000 times as likely, apart from a probability of 0.5: "),
        (1e300, 1.0, "more than e^1e+300 times as likely"),
        # Printed figures are rounded up: a promise is never read as more than it is.
        (1.0000001, 1.00000001e-6, "more than 2.72 times"),
        (1.0000001, 1.00000001e-6, "(1.00001, 1.00001e-06)-"),
    ],
)
def test_figures_are_written_on_the_safe_side(epsilon: float, delta: float, words: str) -> None:
    assert words in str(guarantee(epsilon=epsilon, delta=delta))


@given(st.floats(0, 19), st.floats(0, 1))
def test_no_figure_in_the_sentence_is_below_the_promise(eps: float, delta: float) -> None:
    numbers = re.findall(r"\(([\d.e+-]+), ([\d.e+-]+)\)-", str(guarantee(epsilon=eps, delta=delta)))
    (shown_eps, shown_delta), *others = numbers
    assert not others
    assert eps <= float(shown_eps) <= eps * (1 + 1e-5)
    assert delta <= float(shown_delta) <= max(delta * (1 + 1e-5), 1e-318)


def test_each_basis_says_what_it_stands_on() -> None:
    assert str(guarantee(basis="relative")).endswith(
        "This is proven for data in the declared set only."
    )
    assert "in 100, if the data are in the declared set;" in str(guarantee(basis="relative"))
    assert "in 100, if what was declared is true;" in str(guarantee(basis="declared"))
    kernel = guarantee(basis="declared", note="The kernel was declared positive semi-definite.")
    assert str(kernel).endswith(
        "proven if what was declared is true. The kernel was declared positive semi-definite."
    )


def test_what_is_no_promise_does_not_start_like_one() -> None:
    refuted = guarantee(basis="refuted", delta=1e-5)
    assert str(refuted) == "REFUTED: published as (1, 1e-05); the true delta is at least 0.126."
    assert SHIFT.delta_bounds(1.0)[0] >= 0.126
    unknown = guarantee(basis="refuted", loss=None, private=False, note="A note.")
    assert str(unknown) == (
        "REFUTED: published as (1, 0.127); our own computation contradicts it. A note. "
        "NOT PRIVATE: the noise came from a known seed."
    )
    for broken in (refuted, unknown, guarantee(private=False)):
        assert "can guess" not in str(broken)
    # Never a lower bound below what was claimed: it would read as a confirmation.
    assert "contradicts" in str(guarantee(basis="refuted", delta=0.5))
    seeded = str(guarantee(private=False, note="A note."))
    assert seeded.startswith("NOT PRIVATE: the noise came from a known seed; if it were secret: ")
    assert seeded.endswith(", proven for every possible table. A note.")


def test_a_notebook_shows_the_sentence() -> None:
    shown = guarantee(note="1 < 2 & more.")._repr_html_()
    assert shown.startswith("<p>Suppose someone knows everything except")
    assert "</p><p>Changing any one row" in shown
    assert shown.endswith("<p>1 &lt; 2 &amp; more.</p>")


@given(losses(), st.floats(0, 5), st.floats(1e-9, 0.5), st.booleans())
def test_a_guarantee_survives_json(
    loss: QuadraticLoss, eps: float, delta: float, private: bool
) -> None:
    promised = Guarantee(eps, delta, "edge", "relative", Profile.both(loss), private, "A note.")
    assert Guarantee.from_dict(json.loads(json.dumps(promised.to_dict()))) == promised


def test_a_guarantee_with_a_hole_gets_one_sentence() -> None:
    for name in guarantee().to_dict().keys() - {"sentence"}:
        stored = guarantee().to_dict()
        del stored[name]
        with pytest.raises(ValueError, match=f"got none of {name};"):
            Guarantee.from_dict(stored)


@given(st.floats(0.01, 1.0), st.integers(2, 4), st.floats(0.05, 0.5))
def test_a_group_is_covered(eps: float, size: int, distance: float) -> None:
    one = QuadraticLoss.from_shift(distance)
    promised = Guarantee(eps, float(one.delta(eps)) * (1 + 1e-12), "add-remove", "proven")
    group = promised.for_group(size)
    assert group.epsilon == pytest.approx(size * eps)
    # A group of `size` rows moves the mean by at most `size` times as much.
    assert QuadraticLoss.from_shift(size * distance).delta(group.epsilon) <= group.delta


def test_a_group_of_shifts_is_a_larger_shift_and_keeps_its_loss() -> None:
    """Ten people at (1, 1e-6): (10, .00048), where (1, 1e-6) alone gives (10, .0128)."""
    noise = least_noise(lambda scale: QuadraticLoss.from_shift(1 / scale), 1.0, 1e-6)
    loss = Profile.both(QuadraticLoss.from_shift(1 / noise))
    group = guarantee(loss=loss, delta=1e-6).for_group(10)
    exact = float(QuadraticLoss.from_shift(10 / noise).delta(10.0))
    assert (
        exact <= group.delta == pytest.approx(exact, rel=1e-9) == pytest.approx(4.772e-4, rel=1e-3)
    )
    assert group.loss.delta(10.0) == pytest.approx(exact, rel=1e-9)
    bare = guarantee(loss=None, delta=1e-6).for_group(10)
    by_hand = 1e-6 * math.fsum(math.exp(i) for i in range(10))
    assert by_hand <= bare.delta == pytest.approx(by_hand, rel=1e-9)
    # The other route, which knows nothing of shifts.
    divided = math.exp(_divided(loss, 10, 10.0))
    assert exact <= divided < 1.01 * exact


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_group_in_a_sketch_is_covered(size: int) -> None:
    """Steps along one direction multiply its variance; the bound covers that, and hardly more."""
    leverage, columns = 0.05, 10
    loss = Profile.both(QuadraticLoss.from_leverage(leverage, columns))
    one = guarantee(loss=loss, epsilon=float(loss.epsilon(1e-6)), delta=1e-6)
    together = -math.expm1(size * math.log1p(-leverage))
    least = Profile.both(QuadraticLoss.from_leverage(together, columns)).delta(size * one.epsilon)
    group = one.for_group(size)
    assert least <= group.delta < 1.02 * least
    assert group.delta < replace(one, loss=None).for_group(size).delta


def test_a_group_is_found_also_where_numbers_overflow() -> None:
    for loss in (None, SHIFT):
        with pytest.raises(ValueError, match="size=400: delta would not be below 1"):
            guarantee(epsilon=3.0, delta=1e-6, loss=loss).for_group(400)
    tiny = guarantee(epsilon=1.0, delta=1e-300, loss=None).for_group(500)
    assert math.log(tiny.delta) == pytest.approx(
        -300 * math.log(10) + 499 - math.log(-math.expm1(-1.0)), rel=1e-12
    )
    assert guarantee(epsilon=3.0, delta=0.0, loss=None).for_group(400).delta == 0.0


def test_a_group_may_leave_a_declared_set() -> None:
    with pytest.raises(ValueError, match="got a relative one; it says nothing about the data sets"):
        guarantee(basis="relative").for_group(2)


def test_conversions_say_what_they_are() -> None:
    promised = guarantee(relation="add-remove", epsilon=0.5, delta=0.3)
    replaced = promised.to_replace()
    assert replaced.relation is NeighbourRelation.REPLACE
    assert replaced.delta == pytest.approx(
        float(QuadraticLoss.from_shift(2.0).delta(1.0)), rel=1e-9
    )
    assert "removal followed by an addition" in str(replaced)
    assert str(promised.for_group(2)).endswith("It holds for 2 such changes at once.")
    assert promised.for_group(1) is promised
    with pytest.raises(ValueError, match="add-remove"):
        replaced.to_replace()
    with pytest.raises(ValueError, match="size=50"):
        guarantee(delta=0.1).for_group(50)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": math.inf}, "finite"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"delta": math.nan}, "finite"),
        ({"relation": "cousins"}, "'cousins'"),
        ({"basis": "hearsay"}, "'hearsay'"),
        ({"basis": "asymptotic"}, "'asymptotic'"),
        ({"private": "no"}, "'no'"),
        ({"private": 1}, "private=1"),
        ({"note": "\x1b[2J"}, "one line of text"),
        ({"note": None}, "one line of text"),
    ],
)
def test_bad_guarantees_get_one_sentence(changes: dict, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match="Expected") as caught:
        guarantee(**changes)
    assert words in str(caught.value)


def test_a_guarantee_cannot_be_edited() -> None:
    with pytest.raises(FrozenInstanceError):
        guarantee().epsilon = 0.1
