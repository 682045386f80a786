"""The worst case of private least squares: explicit matrices, non-monotonicity, certificates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ndis import Gaussian, Profile, QuadraticLoss, privacy_loss
from ndis.loss import from_dict
from ndis.loss.least_squares import LeastSquaresLoss, TriangleLoss, removal_loss
from ndis.loss.student import SketchAndSolveLoss


def limit_law(B: np.ndarray, b: np.ndarray, r: int) -> Gaussian:
    x = np.linalg.lstsq(B, b, rcond=None)[0]
    return Gaussian(x, np.sum((b - B @ x) ** 2) * np.linalg.inv(B.T @ B) / r)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("r", [3, 400])
def test_family_agrees_with_explicit_matrices(d: int, r: int) -> None:
    rng = np.random.default_rng(d + r)
    B, b = rng.standard_normal((30, d)), rng.standard_normal(30)
    B[0] *= 3.0
    leverages = np.einsum("ij,ij->i", B @ np.linalg.inv(B.T @ B), B)
    both = np.column_stack([B, b])
    leverages_both = np.einsum("ij,ij->i", both @ np.linalg.inv(both.T @ both), both)
    full = limit_law(B, b, r)
    for row in (0, 1, 2):
        removed = limit_law(np.delete(B, row, 0), np.delete(b, row), r)
        ours = removal_loss(leverages_both[row], leverages[row], d, r)
        for eps in (-0.5, 0.0, 1.0):
            expected = privacy_loss(full, removed)
            assert ours.log_delta(eps) == pytest.approx(expected.log_delta(eps), rel=1e-9)
            backwards = expected.reversed().log_delta(eps)
            assert ours.reversed().log_delta(eps) == pytest.approx(backwards, rel=1e-9)


def worst(q: float, p: float, d: int, r: int, eps: float) -> float:
    return float(Profile.both(removal_loss(q, p, d, r)).log_delta(eps))


def test_not_monotone_in_p_at_fixed_q() -> None:
    tenth, half, nearly = (worst(0.02, share * 0.02, 5, 1000, 1.0) for share in (0.1, 0.5, 0.999))
    assert tenth / math.log(10) == pytest.approx(-6.3, abs=0.05)
    assert half / math.log(10) == pytest.approx(-3.90, abs=0.01)
    assert nearly / math.log(10) == pytest.approx(-20.6, abs=0.05)


def test_not_monotone_in_q_at_fixed_p() -> None:
    p = 0.00273  # printed with three digits
    assert worst(p * (1 + 1e-9), p, 53, 10, 0.491) == pytest.approx(-189.1, abs=1.0)
    assert worst(0.00347, p, 53, 10, 0.491) == pytest.approx(-211.0, abs=1.0)


def test_without_leverage_in_the_features_it_is_a_projection_with_d_components() -> None:
    loss = removal_loss(0.1, 0.0, 7, 50)
    assert loss.delta(1.0) == pytest.approx(QuadraticLoss.from_leverage(0.1, 7).delta(1.0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LeastSquaresLoss, SketchAndSolveLoss])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("n_losses", "n"), [(2, 12), pytest.param(8, 40, marks=pytest.mark.evidence)]
)
def test_cells_are_bounded_from_above(
    kind: type[TriangleLoss], backwards: bool, n_losses: int, n: int
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(n_losses):
        s = rng.choice([1e-3, 0.01, 0.1, 0.5, 0.9])
        d = int(rng.choice([1, 2, 5]))
        r = int(rng.choice([5, 50, 1000]))
        width = s * 10 ** rng.uniform(-4, -0.3, n)
        q1 = rng.uniform(0, 1, n) * s
        q0 = np.maximum(q1 - width, 0)
        p0 = rng.uniform(0, 1, n) * q1
        p1 = p0 + width
        loss = kind(1.0, d, r, backwards)
        eps = float(rng.choice([0.0, 0.3, 1.0]))
        bound = loss.cell_bounds(np.array([p0, p1, q0, q1]), eps, -12.0)
        corners = [(q1, p0), (q1, np.minimum(p1, q1)), (np.maximum(q0, p0), p0)]
        q = rng.uniform(np.maximum(q0, p0), q1)
        corners.append((q, np.minimum(rng.uniform(p0, p1), q)))
        for q, p in corners:
            assert np.all(loss.attained_at(q, p, eps) <= bound)


def both(kind: type[TriangleLoss], ratio: float, d: int, r: int) -> Profile:
    return Profile.both(kind(ratio**-2, d, r))


def test_certified_noise() -> None:
    _, high = both(LeastSquaresLoss, 8.44, 2, 1269).delta_bounds(1.0)
    assert high <= 1 / 327_346
    low, _ = both(LeastSquaresLoss, 8.42, 2, 1269).delta_bounds(1.0)
    assert low > 1 / 327_346  # and not much less would do


@pytest.mark.parametrize(
    ("ratio", "d", "r", "eps"),
    [(3.0, 100, 20, 1.0), (2.0, 1, 1, 0.1), (1.0, 3, 5, 2.0), (20.0, 10, 10_000, 0.1)],
)
def test_supremum_dominates_a_random_search(ratio: float, d: int, r: int, eps: float) -> None:
    rng = np.random.default_rng(1)
    for backwards in (False, True):
        loss = LeastSquaresLoss(ratio**-2, d, r, backwards)
        low, high = loss.log_delta_bounds(eps)
        assert low <= high <= low + 1.1 * loss.tolerance
        q = loss.leverage * rng.uniform(0, 1, 400)
        q[:200] = loss.leverage
        assert np.max(loss.log_delta_at(q, q * rng.uniform(0, 1, 400), eps)) <= high


def test_the_published_rule_is_unsafe_for_small_sketches() -> None:
    """d=1, r=1: the rule of ndis-2024 (figure 4) claims 1e-6; a single row (0, l) shows 7e-5."""
    from scipy.optimize import brentq

    eps, claimed = 0.1, 1e-6

    def gap(log_ratio: float) -> float:
        p = math.exp(-2 * log_ratio)
        return worst(2 * p, p, 1, 1, eps) - math.log(claimed)

    ratio = math.exp(brentq(gap, math.log(1.5), math.log(1e4)))
    true = both(LeastSquaresLoss, ratio, 1, 1).delta_bounds(eps)[0]
    assert true == pytest.approx(6.97e-5, rel=0.01)


def test_negative_epsilon_and_json() -> None:
    loss = LeastSquaresLoss(0.01, 3, 50)
    low, high = loss.delta_bounds(-0.3)
    backwards = float(loss.reversed().delta(0.3))
    assert low <= 1 - math.exp(-0.3) + math.exp(-0.3) * backwards <= high
    assert from_dict(loss.to_dict()) == loss
    assert from_dict(loss.reversed().to_dict()) != loss
    student = SketchAndSolveLoss(0.01, 3, 50)
    assert from_dict(student.to_dict()) == student != loss


def worst_pair(loss: LeastSquaresLoss, epsilon: float) -> tuple[float, float]:
    """The (q, p) at which the largest delta is attained."""
    _, place = loss._worst_on_border(np.array([epsilon]), loss.log_delta_at)
    q, p = loss._border(place)
    return float(q[0]), float(p[0])


@pytest.mark.slow
def test_composition_by_table_is_an_upper_bound() -> None:
    loss = LeastSquaresLoss(0.05, 2, 100)
    q, p = worst_pair(loss, 1.0)
    twice = (loss + QuadraticLoss.from_shift(0.2)).delta(1.0)
    member = (removal_loss(q, p, 2, 100) + QuadraticLoss.from_shift(0.2)).delta(1.0)
    assert member <= twice <= 1.2 * member


# -- sketch-and-solve at finite r --------------------------------------------------------------


@pytest.mark.slow
def test_finite_sketch_is_a_post_processing_of_the_projection() -> None:
    for ratio, d, r, eps in [(4.0, 2, 30, 0.3), (6.0, 5, 300, 1.0), (2.0, 3, 4, 0.5)]:
        projection = float(Profile.both(QuadraticLoss(ratio**-2, 0.0, r)).delta(eps))
        assert both(SketchAndSolveLoss, ratio, d, r).delta(eps) <= projection


def test_finite_sketch_approaches_its_limit() -> None:
    d, eps, distances = 3, 0.5, []
    for r in (30, 300, 3000, 30_000):
        ratio = 2.0 * r**0.25
        limit, finite = (
            max(float(way.attained(eps)) for way in both(kind, ratio, d, r).losses)
            for kind in (LeastSquaresLoss, SketchAndSolveLoss)
        )
        distances.append(abs(finite - limit))
    assert distances[0] > 10 * distances[2]
    assert distances[-1] < 0.01


def test_fewer_components_than_features_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="at least as many components as features"):
        SketchAndSolveLoss(1.0, 5, 4)
    with pytest.raises(ValueError, match="excess >= 1e-100"):
        LeastSquaresLoss(5e-324, 4, 300)


# -- a bound on the leverage among the features ----------------------------------------------------


# Each size and each share once; `make evidence` runs the others.
REGIONS = [
    pytest.param(*size, share, marks=[pytest.mark.evidence] * (place != other))
    for place, size in enumerate([(1, 30), (3, 200), (8, 12)])
    for other, share in enumerate([0.05, 0.5, 0.8])
]


@pytest.mark.slow
@pytest.mark.parametrize(("d", "r", "share"), REGIONS)
def test_no_pair_of_the_region_exceeds_the_certified_border(d, r, share):
    """Rows with p <= t and q <= s, in both directions."""
    s = 0.05
    t = share * s
    rng = np.random.default_rng(d)
    q = s * rng.uniform(0, 1, 200) ** 0.3
    p = np.minimum(q, t) * rng.uniform(0, 1, 200) ** 0.3
    for backwards in (False, True):
        loss = LeastSquaresLoss(s / (1 - s), d, r, backwards, t / (1 - t))
        for epsilon in (0.1, 0.6):
            low, high = loss.log_delta_bounds(epsilon)
            assert low <= high < low + 0.02
            assert np.max(loss.log_delta_at(q, p, epsilon)) <= high
            where = worst_pair(loss, epsilon)
            assert where[0] <= s * (1 + 1e-12)
            assert where[1] <= t * (1 + 1e-12)
            assert float(loss.log_delta_at(*where, epsilon)) == pytest.approx(low, abs=1e-6)
        whole = LeastSquaresLoss(s / (1 - s), d, r, backwards)
        assert loss.log_delta(0.6) <= whole.log_delta(0.6) + 1e-9
        order = np.array([0.5, 3.0])
        assert np.all(loss.finite_cumulant(order) <= whole.finite_cumulant(order) * (1 + 2e-3))


def test_a_small_feature_leverage_costs_less():
    """With d << r the worst p is s/2: less is known to be harmless."""
    whole = LeastSquaresLoss(0.02, 3, 1000)
    some = LeastSquaresLoss(0.02, 3, 1000, feature_excess=0.002)
    assert some.log_delta(1.0) < whole.log_delta(1.0) - 1.0
    assert LeastSquaresLoss.from_dict(some.to_dict()) == some != whole
    assert some.reversed().reversed() == some
