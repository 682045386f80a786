"""Adding up: as releases come, and as they were planned."""

import numpy as np
import pytest

from ledger_places import DELTA, EPSILON, Place, shift, sketch
from ndis import BudgetExceeded, Guarantee, Ledger, Profile, QuadraticLoss
from ndis.calibration import least_noise


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


def test_an_untouched_budget_says_why_less_is_left(ledger: Ledger) -> None:
    left = ledger.remaining()
    price = 1 - left.epsilon / EPSILON
    assert str(left) == (
        f"epsilon {left.epsilon:.4g} at delta 1e-06 (nothing is spent; deciding release by "
        f"release costs {price:.1%} of 1, a single release may use it all)"
    )
    ledger.spend(shift(0.1), "first")
    assert ledger.remaining().reason == ""


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


def test_a_plan_adds_up_exactly_and_is_kept(planned: Ledger) -> None:
    noise = least_noise(lambda s: QuadraticLoss.from_shift(1 / s), EPSILON, DELTA)
    size = 1 / noise
    releases = [shift(0.6 * size), shift(0.8 * (1 - 1e-12) * size)]
    with pytest.raises(ValueError, match="fill it with `ndis ledger plan`"):
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
