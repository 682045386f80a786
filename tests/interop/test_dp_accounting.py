"""To dp-accounting and back: never below the truth, and close to it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

google = pytest.importorskip("dp_accounting")

from dp_accounting.pld import privacy_loss_distribution as distributions  # noqa: E402

from ndis import Guarantee, Ledger, Profile, QuadraticLoss  # noqa: E402
from ndis.interop.dp_accounting import (  # noqa: E402
    LossAccountant,
    LossDpEvent,
    event_of,
    from_opacus,
    from_pld,
    to_pld,
)

REPLACE = google.NeighboringRelation.REPLACE_ONE

LOSSES = {
    "shift": QuadraticLoss.from_shift(0.5),
    "sketch": QuadraticLoss.from_leverage(0.01, 100),
    "both signs": QuadraticLoss([0.2, -0.1], [0.05, 0.1], [3, 4]),
    "bounded one way": QuadraticLoss.from_leverage(0.3, 2),
    "tiny": QuadraticLoss.from_shift(1e-4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_exported_curve_is_never_below_and_within_a_millionth(name: str) -> None:
    loss = LOSSES[name]
    worst, pld = Profile.both(loss), to_pld(loss)
    last = float(worst.epsilon(1e-12))
    # Points that have nothing to do with the grid, and beyond the promise of accuracy.
    epsilons = np.random.default_rng(0).uniform(0.0, last, 60)
    for epsilon in (0.0, *epsilons, last):
        ratio = pld.get_delta_for_epsilon(float(epsilon)) / float(worst.delta_bounds(epsilon)[1])
        assert 1.0 <= ratio <= 1.0 + 1e-6
    for epsilon in (1.1 * last, 1.5 * last):
        assert pld.get_delta_for_epsilon(epsilon) >= worst.delta_bounds(epsilon)[1]


def test_both_directions_are_exported() -> None:
    loss = LOSSES["sketch"]
    pld = to_pld(Profile.both(loss), step=2.0**-12)
    for pmf, direction in ((pld._pmf_remove, loss), (pld._pmf_add, loss.reversed())):
        for epsilon in (0.1, 0.3):
            ratio = pmf.get_delta_for_epsilon(epsilon) / direction.delta(epsilon)
            assert 1.0 <= ratio < 1.01


def random_loss(rng: np.random.Generator) -> QuadraticLoss:
    """Weights of both signs, shifts, several copies; or a sketch; or a plain shift."""
    kind = rng.integers(3)
    if kind == 0:
        return QuadraticLoss.from_shift(float(10 ** rng.uniform(-1.5, 0.5)))
    if kind == 1:
        leverage = float(10 ** rng.uniform(-3, -0.3))
        return QuadraticLoss.from_leverage(leverage, int(10 ** rng.uniform(0, 2)))
    k = int(rng.integers(1, 4))
    return QuadraticLoss(rng.uniform(-0.4, 0.4, k), rng.uniform(0.0, 0.3, k), rng.integers(1, 6, k))


@pytest.mark.slow
# A table of step 1e-4 takes 17 s: `make evidence` looks at these.
@pytest.mark.parametrize(
    ("seed", "step"),
    [
        *((seed, step) for seed in range(6) for step in (1e-2, 2.0**-8, 1e-3)),
        *(pytest.param(seed, 1e-4, marks=pytest.mark.evidence) for seed in range(6)),
    ],
)
def test_no_step_puts_the_table_below_the_curve(step: float, seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    loss = random_loss(rng)
    pld = to_pld(loss, step=step)
    for pmf, direction in ((pld._pmf_remove, loss), (pld._pmf_add, loss.reversed())):
        last = float(direction.epsilon(1e-15))
        inside = rng.uniform(0.0, last, 3)
        on_grid = step * np.floor(inside / step)
        # On the grid, between its points, hard beside them, and beyond the smallest delta.
        epsilons = np.sort([0.0, *inside, *on_grid, *np.nextafter(on_grid, 99.0), 1.2 * last])
        exact = np.array([float(direction.delta_bounds(e)[1]) for e in epsilons])
        singly = np.array([pmf.get_delta_for_epsilon(float(e)) for e in epsilons])
        assert (singly >= exact).all()
        assert (np.asarray(pmf.get_delta_for_epsilon(epsilons)) >= exact).all()
        near = on_grid[np.asarray(direction.delta(on_grid)) >= 1e-12]
        for epsilon in near:  # at the points themselves nothing is lost but the margin
            ratio = pmf.get_delta_for_epsilon(float(epsilon)) / float(direction.delta(epsilon))
            assert ratio < 1.0 + 1e-6


def test_losses_beyond_the_range_of_exp_are_exported() -> None:
    loss = QuadraticLoss.from_shift(30.0)
    pld = to_pld(loss, step=0.0625)
    for epsilon in (650.0, 690.0, 705.0, 725.0):  # e^-725 underflows
        exact = float(loss.delta_bounds(epsilon)[1])
        for pmf in (pld._pmf_remove, pld._pmf_add):
            assert exact <= pmf.get_delta_for_epsilon(epsilon) < 1.001 * exact


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_compositions_of_tables_are_not_below_either(seed: int) -> None:
    rng = np.random.default_rng([seed, 13])
    first, second = random_loss(rng), random_loss(rng)
    together = to_pld(first, step=1e-3).compose(to_pld(second, step=1e-3))
    exact = Profile([first + second, first.reversed() + second.reversed()])
    for epsilon in rng.uniform(0.0, float(exact.epsilon(1e-8)), 5):
        assert together.get_delta_for_epsilon(float(epsilon)) >= exact.delta_bounds(epsilon)[1]


def test_exported_losses_compose_with_those_of_dp_accounting() -> None:
    loss, step = QuadraticLoss.from_shift(0.5), 2.0**-12
    gaussian = distributions.from_gaussian_mechanism(2.0, value_discretization_interval=step)
    together = to_pld(loss, step=step).compose(gaussian)
    exact = (2 * loss).delta(1.0)
    assert exact <= together.get_delta_for_epsilon(1.0) < exact * (1.0 + 1e-4)


def test_what_cannot_be_tabulated_is_refused() -> None:
    with pytest.raises(ValueError, match="two directions, got 3"):
        to_pld(Profile([QuadraticLoss.from_shift(1.0)] * 3))
    with pytest.raises(ValueError, match="pass a larger step"):
        to_pld(QuadraticLoss.from_shift(1.0), step=1e-9)
    with pytest.raises(ValueError, match="step"):
        to_pld(QuadraticLoss.from_shift(1.0), step=0.0)


def test_a_laplace_mechanism_comes_in_on_or_above_its_exact_curve() -> None:
    scale, step = 2.0, 1e-3
    pld = distributions.from_laplace_mechanism(scale, value_discretization_interval=step)
    loss = from_pld(pld)
    for epsilon in np.linspace(0.0, 0.49, 23):
        exact = -math.expm1(0.5 * (epsilon - 1 / scale))
        assert exact <= loss.delta(epsilon) < exact * (1.0 + 1e-4)
    assert loss.delta(0.6) < 1e-13


@pytest.mark.slow
def test_a_sampled_gaussian_comes_in_on_or_above_dp_accountings_curve(tmp_path) -> None:
    pld = distributions.from_gaussian_mechanism(
        1.0, sampling_prob=0.1, value_discretization_interval=1e-3
    )
    loss = from_pld(pld)
    for epsilon in (0.0, 0.1234, 0.5, 1.0, 2.0):
        assert 1.0 <= loss.delta(epsilon) / pld.get_delta_for_epsilon(epsilon) < 1.0 + 1e-3
    exact = (10 * loss).delta(1.0) / pld.self_compose(10).get_delta_for_epsilon(1.0)
    assert exact == pytest.approx(1.0, abs=1e-3)
    with Ledger.create(tmp_path / "ledger", 3.0, 1e-5, "add-remove") as ledger:
        before = ledger.remaining().epsilon
        epsilon = float(loss.epsilon(1e-6))
        ledger.spend(Guarantee(epsilon, 1e-6, "add-remove", "proven", loss), "DP-SGD")
        assert 0 < ledger.remaining().epsilon < before
        assert ledger.verify() == 1


def test_an_optimistic_distribution_is_refused() -> None:
    pld = distributions.from_gaussian_mechanism(1.0, pessimistic_estimate=False)
    with pytest.raises(ValueError, match="pessimistic_estimate=True"):
        from_pld(pld)


def test_accountant_is_exact_for_gaussians_and_sketches() -> None:
    sketch = Profile.both(QuadraticLoss.from_leverage(1e-3, 10))
    event = google.SelfComposedDpEvent(LossDpEvent(sketch, "add-remove"), 1000)
    both = google.ComposedDpEvent([event, google.GaussianDpEvent(2.0), google.NoOpDpEvent()])
    exact = 1000 * sketch + Profile.both(QuadraticLoss.from_shift(0.5))
    accountant = LossAccountant().compose(both)
    assert accountant.get_delta(1.5) == pytest.approx(float(exact.delta(1.5)), rel=1e-12)
    assert accountant.get_epsilon(1e-6) == pytest.approx(float(exact.epsilon(1e-6)), rel=1e-12)


def test_accountant_counts_replacing_a_record_twice() -> None:
    accountant = LossAccountant(REPLACE).compose(google.GaussianDpEvent(2.0))
    assert accountant.get_delta(1.0) == pytest.approx(QuadraticLoss.from_shift(1.0).delta(1.0))


@pytest.mark.slow
def test_accountant_agrees_with_dp_accounting_on_what_comes_from_there() -> None:
    sampled = google.PoissonSampledDpEvent(0.1, google.GaussianDpEvent(1.0))
    events = google.ComposedDpEvent(
        [google.LaplaceDpEvent(4.0), google.SelfComposedDpEvent(sampled, 8)]
    )
    theirs = google.pld.PLDAccountant(value_discretization_interval=1e-3).compose(events)
    ours = LossAccountant().compose(events)
    assert ours.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=2e-3)
    ours.compose(google.NonPrivateDpEvent())
    assert (ours.get_epsilon(1e-6), ours.get_delta(1.0)) == (math.inf, 1.0)


def test_accountant_refuses_what_it_does_not_know() -> None:
    loss = Profile.both(QuadraticLoss.from_shift(0.5))
    refused = [
        google.UnsupportedDpEvent(),
        google.GaussianDpEvent(0.0),
        LossDpEvent(loss, "edge"),
        LossDpEvent(loss, "replace"),
        google.PoissonSampledDpEvent(0.1, google.LaplaceDpEvent(0.0)),
        google.ComposedDpEvent([google.NoOpDpEvent(), google.UnsupportedDpEvent()]),
    ]
    for event in refused:
        assert not LossAccountant().supports(event)
    assert not LossAccountant(REPLACE).supports(google.LaplaceDpEvent(1.0))
    assert LossAccountant(REPLACE).supports(LossDpEvent(loss, "replace"))
    with pytest.raises(ValueError, match="ADD_OR_REMOVE_ONE or REPLACE_ONE"):
        LossAccountant(google.NeighboringRelation.REPLACE_SPECIAL)


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(1.0, 1e-6, "replace", "proven"),
        Guarantee(1.0, 1e-6, "replace", "refuted", QuadraticLoss.from_shift(1.0)),
        Guarantee(1.0, 1e-6, "replace", "proven", QuadraticLoss.from_shift(1.0), private=False),
    ],
)
def test_no_event_without_a_promise(guarantee: Guarantee) -> None:
    with pytest.raises(ValueError, match="Expected a guarantee that"):
        event_of(guarantee)


def test_riskcal_tells_the_risk_of_an_attack_on_a_sketch() -> None:
    analysis = pytest.importorskip("riskcal.analysis")
    loss = QuadraticLoss.from_leverage(0.01, 100)
    pld = to_pld(loss, step=2.0**-12)
    # The advantage of the best attack is the total variation distance, delta(0).
    assert analysis.get_advantage_from_pld(pld) == pytest.approx(loss.delta(0.0), rel=1e-5)
    beta = float(np.asarray(analysis.get_beta_from_pld(pld, 0.05)).item())
    worst = min(float(loss.tradeoff(0.05)), float(loss.reversed().tradeoff(0.05)))
    assert beta == pytest.approx(worst, abs=2e-3)
    assert beta <= worst + 1e-9


@pytest.mark.slow
def test_what_opacus_has_seen() -> None:
    history = [(1.5, 0.01, 200), (3.0, 1.0, 2)]
    loss = from_opacus(SimpleNamespace(history=history))
    sampled = distributions.from_gaussian_mechanism(
        1.5, sampling_prob=0.01, value_discretization_interval=1e-4
    ).self_compose(200)
    whole = distributions.from_gaussian_mechanism(3.0, value_discretization_interval=1e-4)
    known = sampled.compose(whole.self_compose(2))
    for epsilon in (0.5, 2.0):
        ratio = float(loss.delta(epsilon)) / known.get_delta_for_epsilon(epsilon)
        assert 1 - 1e-4 <= ratio <= 1 + 1e-4
    with pytest.raises(ValueError, match="sample rate"):
        from_opacus(SimpleNamespace(history=[(1.0, 0.0, 1)]))
    with pytest.raises(TypeError, match=r"Expected an accountant of Opacus, got list; pass the"):
        from_opacus([(1.0, 0.1, 1)])
