"""Tables never fall below what they stand for, alone or composed, in either direction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis import QuadraticLoss, TabulatedLoss
from ndis.loss import from_dict
from pairs import losses

POINTS = np.array([-2.0, -0.5, 0.0, 0.013, 0.5, 1.0, 2.5, 6.0])


def table_of(loss: QuadraticLoss, step: float = 0.02, high: float = 12.0) -> TabulatedLoss:
    return TabulatedLoss.from_profile(loss.delta, loss.reversed().delta, step=step, high=high)


@settings(max_examples=15)
@given(losses(largest=3.0))
def test_a_table_is_never_below_its_profile(loss: QuadraticLoss) -> None:
    table = table_of(loss)
    assert np.all(table.delta(POINTS) >= loss.delta(POINTS))
    assert np.all(table.reversed().delta(POINTS) >= loss.reversed().delta(POINTS))
    assert np.all(np.diff(table.delta(POINTS)) <= 1e-12)


@pytest.mark.slow
def test_compositions_of_both_kinds_are_never_optimistic_and_nearly_exact() -> None:
    shift = QuadraticLoss.from_shift(0.3)
    sketch = QuadraticLoss.from_leverage(0.05, 20)
    eps = np.array([-1.0, 0.0, 0.5, 1.0, 3.0])
    for step in (0.05, 0.01):
        one, two = table_of(shift, step), table_of(sketch, step)
        for table, exact in (
            (one + two, shift + sketch),
            (one + sketch, shift + sketch),
            (sketch + one, shift + sketch),
            (5 * two, 5 * sketch),
            (3 * (one + sketch), 3 * (shift + sketch)),
            ((one + sketch) + (two + shift), 2 * (shift + sketch)),
        ):
            for direction in (lambda x: x, lambda x: x.reversed()):
                upper, truth = direction(table).delta(eps), direction(exact).delta(eps)
                assert np.all(upper >= truth)
                assert np.all(upper <= truth * (1 + 100 * step**2 + 1e-6) + 1e-14)
                low, high = direction(table).delta_bounds(eps)
                assert np.all(low <= upper * (1 + 1e-12))
                assert np.all(upper <= high)


def test_large_convolutions_stay_above_too() -> None:
    shift = QuadraticLoss.from_shift(0.2)
    table = 8 * table_of(shift, step=0.001, high=8.0)
    eps = np.array([0.0, 1.0, 3.0])
    truth = (8 * shift).delta(eps)
    assert np.all(table.delta(eps) >= truth)
    assert np.all(table.delta(eps) <= 1.001 * truth)


def test_tables_of_unequal_steps_compose() -> None:
    shift = QuadraticLoss.from_shift(0.4)
    total = table_of(shift, 0.02) + table_of(shift, 0.05)
    truth = (2 * shift).delta([0.0, 1.0, 2.0])
    assert np.all(total.delta([0.0, 1.0, 2.0]) >= truth)
    assert np.all(total.delta([0.0, 1.0, 2.0]) <= 1.1 * truth)


@pytest.mark.slow
@given(st.floats(1e-9, 0.5))
def test_epsilon_of_a_table_is_safe(delta: float) -> None:
    loss = QuadraticLoss.from_shift(0.7)
    table = table_of(loss, step=0.05)
    eps = float(table.epsilon(delta))
    assert loss.delta(eps) <= delta
    assert table.delta(eps) <= delta


def test_round_trip_and_equality() -> None:
    table = table_of(QuadraticLoss.from_leverage(0.1, 3), step=0.1) + QuadraticLoss.from_shift(0.1)
    again = from_dict(table.to_dict())
    assert again == table
    assert hash(again) == hash(table)
    assert again.delta(0.7) == table.delta(0.7)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TabulatedLoss(0.0, 0, [1.0]), "step=0.0"),
        (lambda: TabulatedLoss(0.1, 0, [-1.0]), "mass=-1.0"),
        (lambda: TabulatedLoss(0.1, 0, [1.0], -0.5), "infinite=-0.5"),
        (lambda: TabulatedLoss.from_profile(lambda e: 2.0 + 0 * e, lambda e: 0 * e, step=1, high=2),
         "delta=2.0"),
        (lambda: TabulatedLoss.from_profile(lambda e: 0.1, lambda e: 0.1, step=1, high=2),
         "vectorise"),
        (lambda: TabulatedLoss(0.1, 0, [1.0]) * 0, "times=0"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert words in str(caught.value)
    assert str(caught.value).startswith("Expected")


def test_losses_that_no_pair_has_overflow_nowhere() -> None:
    """A stranger's table may say that a loss is below -700; the other law has at most 1 there."""
    table = TabulatedLoss(500.0, -2, [0.25, 0.25, 0.25, 0.0, 0.25])
    turned = table.reversed()
    assert turned.mass.tolist()[-2:] == [1.0, 1.0]
    assert turned.log_delta(990.0) == pytest.approx(np.log(-np.expm1(-10.0)))
    low = TabulatedLoss(500.0, -3, [0.0, 0.0, 1.0])
    assert low.reversed().mass.tolist() == [1.0, 0.0, 0.0]
    far = TabulatedLoss.from_profile(np.zeros_like, np.zeros_like, step=800.0, high=1600.0)
    assert far.delta(1.0) == 0.0


@pytest.mark.parametrize("distance", [10.0, 30.0, 40.0])
def test_losses_beyond_the_range_of_exp_are_never_understated(distance: float) -> None:
    gauss = QuadraticLoss.from_shift(distance)
    middle = distance**2 / 2
    table = TabulatedLoss.from_profile(
        gauss.delta, gauss.delta, step=0.5, high=middle + 20 * distance
    )
    eps = np.linspace(0.0, middle + 6 * distance, 60)
    for way in (table, table.reversed(), table.reversed().reversed()):
        assert np.all(way.log_delta(eps) >= gauss.log_delta(eps) - 1e-15)
    assert np.all(table.log_delta(eps) <= gauss.log_delta(eps) + 0.1)


def test_directions_that_are_not_equally_close_cost_no_more_than_the_worse() -> None:
    """Both deltas at 0 bound one distance; the larger used to bend the whole table."""
    shift = QuadraticLoss.from_shift(0.3)
    for worse in (1e-5, 1e-3):
        table = TabulatedLoss.from_profile(
            shift.delta, lambda eps, w=worse: shift.delta(eps) * (1.0 + w), step=2.0**-9, high=6.0
        )
        exact = float((64 * shift).epsilon(1e-6))
        for way in (table, table.reversed()):
            assert exact <= (64 * way).epsilon(1e-6) <= exact * (1.0 + 2e-5 + worse)
