"""What must be true of any delta, whatever computes it; and what a loss does with bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ndis import Profile, QuadraticLoss
from ndis.loss import from_dict, quadratic
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


def test_gdp_and_trivial_losses() -> None:
    nothing = QuadraticLoss(0.0, 0.0, 1.0)
    assert nothing.delta([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert nothing.delta(-1.0) == pytest.approx(1 - math.exp(-1))
    assert nothing.epsilon(0.0) == 0.0
    disjoint = QuadraticLoss(math.inf, 0.0, 1.0)
    assert disjoint.delta(1000.0) == 1.0
    assert disjoint.epsilon(0.5) == math.inf
    assert disjoint.delta_bounds(3.0) == (1.0, 1.0)


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
        (lambda: QuadraticLoss.from_shift(1e200), "distance=1e+200"),
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


def test_dead_terms_of_a_batch_change_nothing() -> None:
    """A direction of count 0 once ended the strip of convergence: delta was e^629 too large."""
    for dead in (50.0, -50.0, 1e-6, math.inf):
        batch = QuadraticLoss([[0.0, dead], [0.01, dead]], [[1.0, 0.0]] * 2, [[0.0, 0.0]] * 2, 1e-9)
        for row, alone in enumerate([QuadraticLoss(0.0, 1.0, 0.0), QuadraticLoss(0.01, 1.0, 0.0)]):
            assert batch.log_delta(30.0)[row] == pytest.approx(
                float(alone.log_delta(30.0)), rel=1e-12
            )
            upper = float(batch.upper_log_delta(np.full(2, 30.0))[row])
            assert upper == pytest.approx(float(alone.log_delta(30.0)), rel=1e-6)
    assert np.all(batch.supremum() == math.inf)


def test_a_sum_of_many_losses_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding up took time that grew with the square of their number."""
    parts = [QuadraticLoss(0.1 / k, 1e-3, 2.0) for k in range(1, 400)]
    joins: list[int] = []
    merged = quadratic._merged

    def counted(x: np.ndarray, *rest: np.ndarray) -> list[np.ndarray]:
        joins.append(x.size)
        return merged(x, *rest)

    monkeypatch.setattr(quadratic, "_merged", counted)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert not joins
    assert total.batch_shape == ()
    assert total.shift.sum() == pytest.approx(0.399)
    assert joins == [399]
    columns = zip(*(part.parts() for part in parts), strict=True)
    again = QuadraticLoss(*map(np.concatenate, columns))
    assert total == again
    assert (total + parts[0]).delta(0.5) > total.delta(0.5)
    with pytest.raises(AttributeError, match="spread"):
        _ = total.spread
    batch = QuadraticLoss.from_leverage([0.1, 0.2], 3) + parts[0]
    assert batch.batch_shape == (2,)
    assert batch[1] == QuadraticLoss.from_leverage(0.2, 3) + parts[0]


def test_nothing_beside_a_loss_is_that_loss() -> None:
    """A sum that begins with nothing stays quick; what moves little is not nothing."""
    nothing, sampled = QuadraticLoss(0.0, 0.0, 0.0), QuadraticLoss.from_shift(1.0).subsampled(0.1)
    assert nothing + sampled is sampled
    assert sampled + nothing is sampled
    assert QuadraticLoss.from_shift(1e-9) + sampled is not sampled
    assert QuadraticLoss(0.0, 0.0, 1.0, shift_error=1e-9) + sampled is not sampled
