"""Totals are what was spent, whatever kinds of losses were."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ledger_places import DELTA, EPSILON, Place, shift, sketch
from ndis import Guarantee, Ledger, Profile, QuadraticLoss, TabulatedLoss
from ndis.calibration import meets
from ndis.ledger.composition import compose
from ndis.loss.least_squares import LeastSquaresLoss
from ndis.risk import advantage


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


def test_relations_are_not_mixed(ledger: Ledger, place: Place) -> None:
    with pytest.raises(ValueError, match="for add-remove, as this ledger counts, got one for"):
        ledger.spend(shift(0.1, "replace"), "other")
    add_remove = Guarantee(0.1, 1e-9, "add-remove", "proven")
    with Ledger.create(place.new(), EPSILON, DELTA, "replace") as other:
        with pytest.raises(ValueError, match="to_replace"):
            other.spend(add_remove, "as it is")
        assert other.spend(add_remove.to_replace(), "converted").number == 1
