"""What must be true of any delta, whatever computes it; and what a loss does with bad input."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from ndis import Profile, QuadraticLoss
from ndis.loss import from_dict
from pairs import epsilons, losses, random_epsilon, random_loss

LITTLE = 1e-11


@pytest.mark.slow
@given(losses(), st.lists(epsilons, min_size=3, max_size=3, unique=True))
def test_delta_falls_and_is_convex_in_exp_epsilon(loss: QuadraticLoss, points: list) -> None:
    a, b, c = sorted(points)
    at_a, at_b, at_c = loss.delta([a, b, c])
    assert at_a >= at_b * (1 - LITTLE)
    assert at_b >= at_c * (1 - LITTLE)
    x, y, z = map(math.exp, (a, b, c))
    chord = ((z - y) * at_a + (y - x) * at_c) / (z - x)
    assert at_b <= chord * (1 + LITTLE) + 1e-300


@given(losses())
def test_total_variation_is_symmetric(loss: QuadraticLoss) -> None:
    assert loss.delta(0.0) == pytest.approx(loss.reversed().delta(0.0), rel=1e-12)


@pytest.mark.slow
@given(losses(), epsilons)
def test_negative_epsilon_is_the_reversed_pair(loss: QuadraticLoss, eps: float) -> None:
    expected = -math.expm1(-eps) + math.exp(-eps) * loss.reversed().delta(eps)
    assert loss.delta(-eps) == pytest.approx(expected, rel=1e-11, abs=1e-13)


@pytest.mark.slow
@given(losses(), losses(), epsilons)
def test_dropping_coordinates_never_raises_delta(
    kept: QuadraticLoss, dropped: QuadraticLoss, eps: float
) -> None:
    assert kept.log_delta(eps) <= (kept + dropped).log_delta(eps) + LITTLE


@given(losses(), st.integers(2, 6), epsilons)
def test_composition_is_repeated_addition(loss: QuadraticLoss, k: int, eps: float) -> None:
    added = loss
    for _ in range(k - 1):
        added = added + loss
    assert (k * loss).log_delta(eps) == pytest.approx(added.log_delta(eps), rel=1e-12, abs=1e-12)


@pytest.mark.slow
@given(st.lists(st.floats(0, 3, width=32), min_size=1, max_size=4), st.floats(0, 8, width=32))
def test_wider_first_is_the_hard_direction(log_ratios: list, eps: float) -> None:
    loss = QuadraticLoss.from_log_ratios(log_ratios)
    assert loss.reversed().log_delta(eps) <= loss.log_delta(eps) + LITTLE


@pytest.mark.slow
@given(
    st.floats(1e-6, 0.999), st.floats(0.0, 1.0), st.integers(1, 3000), st.floats(-2, 20, width=32)
)
def test_smaller_leverage_is_dominated(p: float, part: float, r: int, eps: float) -> None:
    large = QuadraticLoss.from_leverage(p, r)
    small = QuadraticLoss.from_leverage(p * part, r)
    assert small.log_delta(eps) <= large.log_delta(eps) + LITTLE
    assert small.reversed().log_delta(eps) <= large.reversed().log_delta(eps) + LITTLE


@pytest.mark.slow
@given(losses(), st.floats(1e-12, 0.9))
def test_epsilon_is_on_the_safe_side_and_tight(loss: QuadraticLoss, delta: float) -> None:
    eps = float(loss.epsilon(delta))
    assert loss.log_delta(eps) <= math.log(delta)
    if eps > 0:
        assert loss.log_delta(eps * (1 - 1e-9) - 1e-12) >= math.log(delta) - 1e-9


@given(losses(), epsilons)
def test_log_delta_does_not_depend_on_the_company(loss: QuadraticLoss, eps: float) -> None:
    alone = loss.log_delta(eps)
    batch = loss.log_delta([eps, 0.0, 5.0, -1.0, eps])
    assert batch[0] == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert batch[0] == batch[4]


@given(losses())
def test_cumulant_vanishes_where_it_must(loss: QuadraticLoss) -> None:
    assert abs(loss.cumulant(0.0)) < 1e-12
    assert abs(loss.cumulant(-1.0)) < 1e-10
    low, high = loss.strip()
    s = 0.5 * min(float(high), 3.0)
    assert loss.reversed().cumulant(-1.0 - s) == pytest.approx(
        loss.cumulant(s), rel=1e-11, abs=1e-11
    )
    assert low < -1 < 0 < high


def test_closed_forms() -> None:
    eps = np.array([-1.0, 0.0, 0.3, 1.0, 3.0])
    for distance in (0.01, 1.0, 7.0):
        exact = stats.norm.cdf(distance / 2 - eps / distance) - np.exp(eps) * stats.norm.cdf(
            -distance / 2 - eps / distance
        )
        assert QuadraticLoss.from_shift(distance).delta(eps) == pytest.approx(exact, rel=1e-9)
    for p, r in ((0.1, 1), (0.3, 10), (0.9, 3)):
        x = (2 * eps[2:] - r * math.log1p(-p)) / p
        exact = stats.chi2.sf((1 - p) * x, r) - np.exp(eps[2:]) * stats.chi2.sf(x, r)
        assert QuadraticLoss.from_leverage(p, r).delta(eps[2:]) == pytest.approx(exact, rel=1e-9)


def test_renyi_mean_and_variance_of_a_shift() -> None:
    loss = QuadraticLoss.from_shift(2.0)
    assert loss.mean() == pytest.approx(2.0)
    assert loss.variance() == pytest.approx(4.0)
    assert loss.renyi([2.0, 10.0]) == pytest.approx([4.0, 20.0])
    sketch = QuadraticLoss.from_leverage(0.5)  # variance ratio 2: order 2 is the first infinite one
    assert math.isinf(sketch.renyi(2.0))
    assert math.isfinite(sketch.renyi(1.99))


@pytest.mark.parametrize("eps", [0.0, 0.5, 1.0, 2.0, 3.4657359, 3.465735902799726, 4.0])
def test_a_bounded_loss_ends_at_its_supremum(eps: float) -> None:
    loss = QuadraticLoss(-1.0, 0.0, 10.0)
    top = float(loss.supremum())
    assert top == pytest.approx(5 * math.log(2))
    low, high = loss.log_delta_bounds(eps)
    assert low - 1e-12 <= loss.log_delta(eps) <= high + 1e-12
    assert (loss.log_delta(eps) == -math.inf) == (eps >= 5 * math.log(2))


def test_extremes_stay_between_their_proven_bounds() -> None:
    cases = [
        (QuadraticLoss.from_leverage(1 - 1e-9, 1), [0.0, 1.0, 100.0, 2000.0]),
        (QuadraticLoss.from_leverage(1 - 1e-9, 1).reversed(), [0.0, 1.0, 10.361, 10.3616]),
        (QuadraticLoss.from_leverage(1e-3, 1_000_000), [0.0, 1.0, 10.0, 2000.0]),
        (QuadraticLoss.from_leverage(0.3, 1_000_000).reversed(), [0.0, 1.0, 2000.0]),
        (1_000_000 * QuadraticLoss.from_shift(1e-3), [0.0, 1.0, 50.0, 2000.0]),
        (QuadraticLoss.from_shift(1e-9), [0.0, 1e-10, 1e-8]),
        (1_000_000 * QuadraticLoss.from_log_ratios([1e-4, -1e-4], [0.0, 1e-3]), [0.0, 1.0, 2000.0]),
        (QuadraticLoss([0.0, 1e4, -1e4], [1e-4, 0.0, 1.0], [0, 1, 1]), [0.0, 1.0, 2000.0]),
    ]
    for loss, points in cases:
        for eps in points:
            value = float(loss.log_delta(eps))
            low, high = loss.log_delta_bounds(eps)
            slack = 1e-12 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
            assert low - slack <= value <= high + slack, (loss, eps)
            assert high - low <= 1e-11 * max(1.0, abs(high)) or value == -math.inf


def test_a_path_that_leaves_the_valley_is_not_believed() -> None:
    # Found by search: a steep path converged here to ln delta = 86.
    loss = QuadraticLoss(
        [-4.206101718811726, -5.034551435357305, 85.55011754997886, 39.37015256884253, 16.7001],
        [0.0, 0.0, 8.35606587476338e-06, 0.41078883414614764, 7.512155313049157],
        [1000.0, 10.0, 2.0, 10.0, 10.0],
    )
    low, high = loss.log_delta_bounds(778.375544984509)
    assert low - 1e-12 <= loss.log_delta(778.375544984509) <= high + 1e-12
    assert high < 0


@pytest.mark.slow
@settings(max_examples=20)
@given(losses(), st.sampled_from([0.01, 0.2, 0.5, 0.9]))
def test_tradeoff_is_below_every_line_of_the_profile(loss: QuadraticLoss, alpha: float) -> None:
    beta = float(loss.tradeoff(alpha))
    assert 0.0 <= beta <= 1.0 - alpha + 1e-12
    for eps in (-2.0, 0.0, 1.0, 5.0):
        assert beta >= -math.expm1(loss.log_delta(eps)) - math.exp(eps) * alpha - 1e-9


def test_gdp_and_trivial_losses() -> None:
    nothing = QuadraticLoss(0.0, 0.0, 1.0)
    assert nothing.delta([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert nothing.delta(-1.0) == pytest.approx(1 - math.exp(-1))
    assert nothing.epsilon(0.0) == 0.0
    disjoint = QuadraticLoss(math.inf, 0.0, 1.0)
    assert disjoint.delta(1000.0) == 1.0
    assert disjoint.epsilon(0.5) == math.inf
    assert disjoint.delta_bounds(3.0) == (1.0, 1.0)


@given(losses())
def test_a_loss_survives_its_dictionary(loss: QuadraticLoss) -> None:
    assert from_dict(loss.to_dict()) == loss
    both = Profile.both(loss)
    assert from_dict(both.to_dict()) == both
    assert hash(from_dict(loss.to_dict())) == hash(loss)


def test_batches_broadcast_and_index() -> None:
    p = np.array([0.01, 0.1, 0.5])
    batch = QuadraticLoss.from_leverage(p, [1, 10, 100])
    assert batch.batch_shape == (3,)
    grid = batch.log_delta(np.array([[0.5], [1.0]]))
    assert grid.shape == (2, 3)
    for i in range(3):
        assert grid[1, i] == pytest.approx(batch[i].log_delta(1.0), rel=1e-12)
    eps = batch.epsilon(1e-5)
    assert np.all(batch.log_delta(eps) <= math.log(1e-5))
    with pytest.raises(ValueError, match="index it first"):
        batch.to_dict()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: QuadraticLoss.from_shift(math.nan), "finite"),
        (lambda: QuadraticLoss.from_shift(-1.0), "distance=-1.0"),
        (lambda: QuadraticLoss.from_shift("one"), "real numbers"),
        (lambda: QuadraticLoss.from_leverage(1.5), "leverage=1.5"),
        (lambda: QuadraticLoss.from_leverage(0.5, 0), "n_components"),
        (lambda: QuadraticLoss([math.nan], 0, 1), "NaN"),
        (lambda: QuadraticLoss([1.0], -1.0, 1), "shift=-1.0"),
        (lambda: QuadraticLoss.from_shift(1.0).delta(math.inf), "finite"),
        (lambda: QuadraticLoss.from_shift(1.0).delta("zero"), "real numbers"),
        (lambda: QuadraticLoss.from_shift(1.0).epsilon(1.5), "delta=1.5"),
        (lambda: QuadraticLoss.from_shift(1.0).epsilon(-0.1), "delta=-0.1"),
        (lambda: 0 * QuadraticLoss.from_shift(1.0), "times=0"),
        (lambda: QuadraticLoss.from_shift(1.0)[0], "single one"),
        (lambda: QuadraticLoss.from_shift(1.0).renyi(1.0), "alpha=1.0"),
        (lambda: Profile([]), "at least one"),
        (lambda: Profile([1.0]), "float"),
        (lambda: Profile.both(QuadraticLoss.from_shift(1.0)) + Profile([QuadraticLoss(1, 0, 1)]),
         "equally many"),
        (lambda: from_dict({"kind": "cubic"}), "'cubic'"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    message = str(caught.value)
    assert words in message
    assert message.startswith("Expected")
    assert message.endswith((".", "?"))
    assert "\n" not in message


@pytest.mark.slow
def test_fast_values_lie_between_proven_bounds() -> None:
    rng = np.random.default_rng(20260117)
    for _ in range(300):
        loss = random_loss(rng)
        eps = random_epsilon(loss, rng)
        value = float(loss.log_delta(eps))
        low, high = loss.log_delta_bounds(eps)
        slack = 1e-12 if value > -700 else -1e-12 * value
        assert low - slack <= value <= high + slack, (loss.to_dict(), eps)
        assert high - low <= 1e-12 + 1e-15 * abs(high), (loss.to_dict(), eps)


@pytest.mark.slow
@given(losses(), losses(), epsilons)
def test_profiles_compose_direction_by_direction(
    one: QuadraticLoss, two: QuadraticLoss, eps: float
) -> None:
    total = Profile.both(one) + Profile.both(two)
    forwards, backwards = one + two, one.reversed() + two.reversed()
    expected = max(forwards.log_delta(eps), backwards.log_delta(eps))
    assert total.log_delta(eps) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assume(math.isfinite(expected))
    low, high = total.log_delta_bounds(eps)
    assert low - 1e-10 * max(1, abs(low)) <= expected <= high + 1e-10 * max(1, abs(high))


@pytest.mark.parametrize(
    ("excess", "shift", "count", "eps"),
    [
        (
            ["0x1.276d798d1e81bp+0", "0x1.1a79ddaf34150p+2", "0x1.b7e2db5085ea9p+2",
             "0x1.32be193d4afdcp+4"],
            ["0x0.0p+0", "0x0.0p+0", "0x1.f33aa5d2a45d9p-17", "0x1.e397724e4f917p-6"],
            [1.0, 1000.0, 10.0, 1.0],
            "0x1.1856662c963bbp+11",
        ),
    ],
)  # fmt: skip
def test_nodes_that_do_not_see_an_oscillation_are_not_trusted(
    excess: list[str], shift: list[str], count: list[float], eps: str
) -> None:
    x, h = ([float.fromhex(v) for v in values] for values in (excess, shift))
    loss, at = QuadraticLoss(x, h, count), float.fromhex(eps)
    low, high = loss.log_delta_bounds(at)
    assert low - 1e-12 <= float(loss.log_delta(at)) <= high + 1e-12


def test_upper_bounds_fall_up_to_the_end_of_a_bounded_loss() -> None:
    for loss in (QuadraticLoss.from_leverage(0.1).reversed(), QuadraticLoss(-0.5, 0.3, 2.0, 1e-9)):
        top = float(loss.supremum())
        highs = [float(loss.log_delta_bounds(top * (1 - 10.0**-k))[1]) for k in range(2, 16)]
        finite = np.array(highs)[np.isfinite(highs)]
        assert finite.size > 5
        assert np.all(np.diff(finite) < 1.5)  # it rose by 33


@pytest.mark.parametrize("excess", [5e-324, -2e-313])
def test_the_least_excess_has_a_cumulant(excess: float) -> None:
    """Its strip ends beyond all doubles, without a warning."""
    assert QuadraticLoss([excess], [0.0], [1.0]).cumulant(2.0) == pytest.approx(0.0, abs=1e-300)
