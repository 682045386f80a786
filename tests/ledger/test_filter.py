"""The filter against exact composition: for fixed paths, and for a whole adaptive strategy."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ndis import Guarantee, Profile, QuadraticLoss, TabulatedLoss
from ndis.ledger.composition import compose, directions, worst_pair
from ndis.ledger.filter import Filter

FloatArray = NDArray[np.float64]

BUDGETS = [(1.0, 1e-6), (0.3, 1e-8), (4.0, 1e-5), (1.0, 0.05)]


def proven(
    loss: Profile | QuadraticLoss | TabulatedLoss, relation: str = "add-remove"
) -> Guarantee:
    return Guarantee(1.0, 0.1, relation, "proven", loss)


def batch_cost(
    limits: Filter, excess: FloatArray, shift: FloatArray, count: FloatArray
) -> FloatArray:
    """Costs of many one-term releases at once, shape (n, 2, width)."""
    orders = np.asarray(limits.orders)[:, None]
    rows = []
    for sign in (1.0, -1.0):
        loss = QuadraticLoss(sign * excess[:, None], shift[:, None], count[:, None])
        cumulants = np.asarray(loss.cumulant(orders)).T
        squared = np.where(excess == 0, shift, np.inf)
        rows.append(np.column_stack([cumulants, squared, np.zeros(excess.size)]))
    return np.stack(rows, axis=1)


# -- the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_delta_is_split_and_weights_add_up(epsilon: float, delta: float) -> None:
    limits = Filter.design(epsilon, delta)
    parts = limits.delta_gaussian + limits.delta_renyi + limits.delta_infinite
    assert delta * (1 - 1e-12) < parts <= delta * (1 + 1e-15)
    assert 1 - 1e-9 < math.fsum(limits.weights) < 1
    whole_shift = QuadraticLoss.from_shift(math.sqrt(limits.squared_shift))
    assert 0.999 < whole_shift.delta(epsilon) / limits.delta_gaussian <= 1
    assert Filter.from_dict(limits.to_dict()) == limits


def test_one_order_gives_the_generic_bound() -> None:
    s, eps, value = 7.3, 1.2, 2.5
    one = Filter(eps, 0.1, 0.1, 0.1, 0.0, (s,), (1.0,))
    expected = value - s * eps + s * math.log(s) - (1 + s) * math.log1p(s)
    assert one.log_delta(np.array([[value]]))[0] == pytest.approx(expected, abs=1e-9)


def test_log_delta_is_the_maximum_over_the_loss() -> None:
    limits = Filter.design(1.0, 1e-6)
    loss = QuadraticLoss.from_leverage(0.02, 12)
    cumulants = np.asarray(loss.cumulant(np.asarray(limits.orders)))
    x = np.geomspace(1e-4, 5.0, 200_001)
    terms = np.log(limits.weights) + np.asarray(limits.orders) * (1.0 + x[:, None]) - cumulants
    top = terms.max(axis=1)
    height = np.log(-np.expm1(-x)) - top - np.log(np.exp(terms - top[:, None]).sum(axis=1))
    needed = limits.log_delta(cumulants[None])[0]
    assert height.max() <= needed < height.max() + 1e-6
    assert float(loss.log_delta(1.0)) <= needed


def test_without_a_finite_cumulant_nothing_is_admitted() -> None:
    limits = Filter.design(1.0, 1e-6)
    for singular in (
        QuadraticLoss.from_leverage(1.0),
        TabulatedLoss(0.1, 0, [1.0], exact=QuadraticLoss.from_leverage(1.0)),
    ):
        assert not limits.admits(limits.cost(proven(singular)))


def test_costs_are_those_of_the_loss() -> None:
    limits = Filter.design(1.0, 1e-6)
    orders = np.asarray(limits.orders)
    sketch = QuadraticLoss.from_leverage(0.001, 10)
    present, absent = limits.cost(proven(Profile.both(sketch)))
    np.testing.assert_allclose(present[:-2], sketch.cumulant(orders), rtol=1e-10)
    np.testing.assert_allclose(absent[:-2], sketch.reversed().cumulant(orders), rtol=1e-10)
    assert np.isinf([present[-2], absent[-2]]).all()
    np.testing.assert_array_equal(limits.cost(proven(sketch)), [present, absent])
    shift = limits.cost(proven(Profile.both(QuadraticLoss.from_shift(0.3))))
    np.testing.assert_allclose(shift, limits.shift_cost(0.09), rtol=1e-10)
    batch = batch_cost(limits, np.array([1 / 999.0]), np.zeros(1), np.array([10.0]))
    np.testing.assert_allclose(batch[0], [present, absent], rtol=1e-9)


def test_a_guarantee_without_a_loss_counts_as_the_worst_pair() -> None:
    limits = Filter.design(1.0, 1e-6)
    epsilon, delta = 0.2, 1e-9
    cost = limits.cost(Guarantee(epsilon, delta, "replace", "proven"))
    s = np.asarray(limits.orders)
    moment = np.logaddexp((s + 1) * epsilon, -s * epsilon) - math.log1p(math.exp(epsilon))
    np.testing.assert_allclose(cost[:, :-2], [moment, moment], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(cost[:, -1], delta, rtol=1e-10)
    pair = worst_pair(epsilon, delta)
    assert pair.delta(epsilon) == pytest.approx(delta, rel=1e-9)
    assert pair.delta(0.0) == pytest.approx(delta + (1 - delta) * math.tanh(epsilon / 2), rel=1e-10)
    assert worst_pair(0.0, delta).delta(0.0) == pytest.approx(delta, rel=1e-12)


def test_relations_without_an_orientation_count_both_directions_in_both() -> None:
    hard = QuadraticLoss.from_leverage(0.01, 10)
    with_order, without = (directions(proven(Profile.both(hard), r)) for r in ("edge", "replace"))
    assert with_order == ((hard,), (hard.reversed(),))
    assert without[0] == without[1] == (hard, hard.reversed())
    limits = Filter.design(1.0, 1e-6)
    both = limits.cost(proven(Profile.both(hard), "replace"))
    orders = np.asarray(limits.orders)
    moments = np.exp([hard.cumulant(orders), hard.reversed().cumulant(orders)])
    finite = np.isfinite(moments).all(axis=0)
    np.testing.assert_allclose(
        np.exp(both[0][:-2][finite]), 1 + (moments - 1).sum(axis=0)[finite], rtol=1e-8
    )
    # A symmetric loss is counted once.
    assert directions(proven(QuadraticLoss.from_shift(1.0), "replace"))[0] == (
        QuadraticLoss.from_shift(1.0),
    )


def test_the_largest_shift_is_on_the_border() -> None:
    limits = Filter.design(1.0, 1e-6)
    totals = limits.cost(proven(Profile.both(QuadraticLoss.from_leverage(0.003, 10))))
    largest = limits.largest_shift(totals[None])[0]
    assert 0 < largest < limits.squared_shift
    assert limits.admits(totals + limits.shift_cost(largest))
    assert not limits.admits(totals + limits.shift_cost(largest * 1.0001))


# -- fixed paths: 10,000 sequences whose choices look at simulated outputs ----------------------


def simulated_loss(
    rng: np.random.Generator, excess: FloatArray, shift: FloatArray, count: FloatArray
) -> FloatArray:
    """One draw of each release's loss under P (record present)."""
    normal = np.sqrt(shift) * rng.standard_normal(shift.size) + 0.5 * shift
    chi = rng.chisquare(np.maximum(count, 1.0))
    sketch = 0.5 * (excess * chi - count * np.log1p(excess))
    return np.where(excess > 0, sketch, normal)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_admitted_sequence_exceeds_the_budget(epsilon: float, delta: float) -> None:
    sequences, steps = 2500, 20
    rng = np.random.default_rng(4)
    limits = Filter.design(epsilon, delta)
    best = limits.orders[int(np.argmax(limits.weights))]
    totals = np.zeros((sequences, 2, limits.width))
    history = np.zeros((3, sequences, steps))
    seen = np.zeros(sequences)
    size = np.full(sequences, 0.5)
    only_shifts = rng.random(sequences) < 0.2
    for step in range(steps):
        # The analyst goes on with sketches of large leverage where the outputs give away
        # much, with small shifts elsewhere, and cuts his wish after each refusal.
        eager = seen > 0.3 * epsilon * rng.random(sequences)
        sketch = ~only_shifts & (eager ^ (rng.random(sequences) < 0.3))
        excess = np.where(sketch, 10.0 ** rng.uniform(-3.5, -0.2, sequences) / best, 0.0)
        squared = size * limits.squared_shift
        count = np.where(
            sketch, np.maximum(1.0, np.round(2 * squared / np.maximum(excess, 1e-9) ** 2)), 0.0
        )
        shift = np.where(sketch, 0.0, squared)
        cost = batch_cost(limits, excess, shift, count)
        admitted = limits.admits(totals + cost)
        totals = np.where(admitted[:, None, None], totals + cost, totals)
        chosen = np.array([excess, shift, count])
        history[:, :, step] = np.where(admitted, chosen, 0.0)
        seen += np.where(admitted, simulated_loss(rng, excess, shift, count), 0.0)
        size = np.where(admitted, size * rng.uniform(0.5, 1.0, sequences), size * 0.4)
    excess, shift, count = history
    log_deltas = [
        QuadraticLoss(sign * excess, shift, count).log_delta(epsilon) for sign in (1.0, -1.0)
    ]
    worst = np.max(log_deltas, axis=0)
    assert worst.max() <= math.log(delta)
    # The test would notice a filter that is loose: it is used nearly to its own border.
    assert np.quantile(worst, 0.9) > math.log(delta) - 5.0
    assert worst[only_shifts].max() > math.log(limits.delta_gaussian) - 0.5


@pytest.mark.slow
def test_tables_and_bare_guarantees_are_safe_too() -> None:
    epsilon, delta = 1.0, 1e-5
    limits = Filter.design(epsilon, delta)
    rng = np.random.default_rng(5)
    gauss = QuadraticLoss.from_shift(0.1)
    table = TabulatedLoss.from_profile(gauss.delta, gauss.delta, step=0.005, high=1.5)
    wishes = [
        Guarantee(0.05, 1e-8, "add-remove", "proven"),
        Guarantee(0.02, 0.0, "add-remove", "proven"),
        proven(Profile([table, table.reversed()])),
        proven(Profile.both(QuadraticLoss.from_leverage(0.002, 30))),
        proven(Profile.both(QuadraticLoss.from_shift(0.05))),
    ]
    costs = [limits.cost(wish) for wish in wishes]
    for _ in range(6):
        times = np.zeros(len(wishes), dtype=int)
        totals = np.zeros((2, limits.width))
        for pick in rng.choice(len(wishes), size=200, p=rng.dirichlet(np.ones(len(wishes)))):
            if limits.admits(totals + costs[pick]):
                totals = totals + costs[pick]
                times[pick] += 1
        used = [(wish, int(k)) for wish, k in zip(wishes, times, strict=True) if k]
        composed = compose(used, step=epsilon / 1024)
        assert delta * 1e-4 < float(composed.delta(epsilon)) <= delta


# -- a whole strategy: what an analyst who knows the loss so far can reach -----------------------


def strategy_delta(epsilon: float, first: QuadraticLoss, menu: list[QuadraticLoss]) -> float:
    """E[max over the menu of delta(epsilon - L)], L the loss of a mean shift: the true delta."""
    squared = float(first.shift[0])
    z, step = np.linspace(-12.0, 14.0, 4001, retstep=True)
    loss = 0.5 * squared + math.sqrt(squared) * z
    best = np.max([item.log_delta(epsilon - loss) for item in menu], axis=0)
    return float(np.exp(best - 0.5 * z * z).sum() * step / math.sqrt(2 * math.pi))


def largest_menu(fits: Callable[[QuadraticLoss], bool], top: float) -> list[QuadraticLoss]:
    """For several kinds of release, the largest one that still fits."""
    kinds: list[Callable[[float], QuadraticLoss]] = [lambda v: QuadraticLoss(0.0, v, 0.0)]
    for x in (0.003, 0.01, 0.03, 0.06):
        kinds.append(lambda v, x=x: QuadraticLoss(x, 0.0, 2 * v / x**2))
        kinds.append(lambda v, x=x: QuadraticLoss(-x, 0.0, 2 * v / x**2))
    menu = [QuadraticLoss(0.0, 0.0, 0.0)]
    for kind in kinds:
        low, high = 0.0, top
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if fits(kind(middle)) else (low, middle)
        menu.append(kind(low))
    return menu


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_a_strategy_that_knows_the_loss_stays_within_the_budget(share: float) -> None:
    epsilon, delta = 1.0, 1e-6
    limits = Filter.design(epsilon, delta)
    first = QuadraticLoss(0.0, share * limits.squared_shift, 0.0)
    spent = limits.cost(proven(first))

    def admitted(loss: QuadraticLoss) -> bool:
        return bool(limits.admits(spent + limits.cost(proven(loss))))

    menu = largest_menu(admitted, 2 * limits.squared_shift)
    reached = strategy_delta(epsilon, first, menu)
    assert 0.2 * delta < reached <= delta


@pytest.mark.slow
def test_adding_up_exactly_is_not_enough_for_a_strategy() -> None:
    """Why a plan must not be changed: every path has delta at most 1e-6, the strategy has more."""
    epsilon, delta = 1.0, 1e-6
    first = QuadraticLoss.from_shift(0.2)

    def composed(loss: QuadraticLoss) -> bool:
        return bool((first + loss).log_delta(epsilon) <= math.log(delta))

    menu = largest_menu(composed, 0.2)
    assert strategy_delta(epsilon, first, menu) > 1.6 * delta
    assert strategy_delta(epsilon, first, menu[:2]) <= delta * (1 + 1e-9)  # shifts alone are safe
