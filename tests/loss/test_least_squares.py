"""The worst case of private least squares: explicit matrices, non-monotonicity, certificates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ndis import Gaussian, Profile, QuadraticLoss, privacy_loss
from ndis.loss import from_dict
from ndis.loss.least_squares import LeastSquaresLoss, TriangleLoss, removal_loss
from ndis.loss.student import Pairs, SketchAndSolveLoss


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
def test_cells_are_bounded_from_above(kind: type[TriangleLoss], backwards: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(8):
        n = 40
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


@pytest.mark.parametrize(
    ("q", "p", "d", "r", "eps"),
    [(0.2, 0.1, 3, 10, 0.5), (0.2, 0.05, 1, 5, 0.3), (0.3, 0.3, 4, 4, 0.2), (0.1, 0.04, 2, 100, 1)],
)
def test_t_laws_against_monte_carlo(q: float, p: float, d: int, r: int, eps: float) -> None:
    """Draw the two multivariate t laws themselves and average (1 - e^(eps - L))_+."""
    rng = np.random.default_rng(5)
    n, dof = 400_000, r - d + 1
    scale = np.full(d, (1 - q) / (1 - p))
    scale[0] /= 1 - p
    mean = np.zeros(d)
    mean[0] = math.sqrt(p * (q - p)) / (1 - p)
    draws = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(dof, (n, 1)))

    def log_ratio(x: np.ndarray) -> np.ndarray:
        away = np.sum((x - mean) ** 2 / scale, axis=1)
        return 0.5 * np.log(scale).sum() + 0.5 * (r + 1) * (
            np.log1p(away) - np.log1p(np.sum(x**2, axis=1))
        )

    for backwards in (False, True):
        x = mean + np.sqrt(scale) * draws if backwards else draws
        loss = log_ratio(x) * (-1 if backwards else 1)
        values = np.maximum(-np.expm1(eps - loss), 0.0)
        ours = math.exp(SketchAndSolveLoss(1.0, d, r, backwards).log_delta_at(q, p, eps))
        assert abs(values.mean() - ours) <= 4.5 * values.std() / math.sqrt(n) + 1e-9


def t_pairs(rng: np.random.Generator, n: int, d: int, r: int) -> Pairs:
    """Random pairs of leverages up to near one, both ways round, at random epsilons."""
    q = 10 ** rng.uniform(-2.5, -0.05, n)
    p = q * rng.choice([0.0, 1e-3, 1.0, 1.0], n) * rng.uniform(0, 1, n)
    v, w, square = (1 - q) / (1 - p), (1 - q) / (1 - p) ** 2, p * (q - p) / (1 - p) ** 2
    turned = rng.uniform(size=n) < 0.5
    v, w = np.where(turned, 1 / v, v), np.where(turned, 1 / w, w)
    mu = np.sqrt(np.where(turned, square * w, square))
    return Pairs(v, w, mu, rng.choice([-0.3, 0.0, 0.2, 1.0], n), d, r)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_equal_scales_are_no_gap_in_the_bounds(d: int) -> None:
    """At v = w = 1 and epsilon = 0 the odds do not matter at all: a mean shift is still seen."""
    one = np.ones(1)
    at, near = (
        Pairs(v * one, one, 0.5 * one, 0.0 * one, d, 30).log_bounds(lower=True)
        for v in (1.0, 1.0 - 1e-12)
    )
    np.testing.assert_allclose(at, near, rtol=1e-9)
    assert at[0][0] > -0.3


def slow_delta(pairs: Pairs, i: int) -> float:
    """Delta by mpmath: over y and over the squared norm of the others, of (f - e^eps g)_+."""
    import mpmath as mp

    d, r = pairs.n_features, pairs.n_components
    v, w, mu, eps = (mp.mpf(float(a[i])) for a in (pairs.v, pairs.w, pairs.mu, pairs.epsilon))
    k = mp.mpf(r + 1) / 2
    c = (mp.exp(2 * eps) / (w * v ** (d - 1))) ** (1 / (2 * k))
    a, slope = mp.mpf(d - 1) / 2, 1 / v - c

    def tail(y2: mp.mpf, u: mp.mpf) -> mp.mpf:  # integral of u^(a-1) (y2 + u)^-k from u on
        return y2 ** (a - k) * mp.betainc(k - a, a, 0, y2 / (y2 + u))

    def sliced(y: mp.mpf) -> mp.mpf:
        z2, y2 = 1 + (y - mu) ** 2 / w, 1 + y * y
        start = (c * y2 - z2) / slope
        scale = mp.exp(eps) * v**a / mp.sqrt(w * v ** (d - 1))
        beyond = max(start, mp.mpf(0))
        value = tail(y2, beyond) - scale * tail(z2, beyond / v)
        if slope < 0:
            value = tail(y2, mp.mpf(0)) - scale * tail(z2, mp.mpf(0)) - value
        return value if (start > 0 or slope > 0) else mp.mpf(0)

    g = [1 / w - c, -2 * mu / w, 1 + mu**2 / w - c]
    under = g[1] ** 2 - 4 * g[0] * g[2]
    roots = [(-g[1] + sign * mp.sqrt(under)) / (2 * g[0]) for sign in (-1, 1)] if under > 0 else []
    scale = 1 / mp.sqrt(r)
    points = sorted([*roots, *(j * scale for j in range(-12, 13, 3))])
    norm = mp.beta(mp.mpf(1) / 2, (mp.mpf(r - d + 1)) / 2) * mp.beta(a, k - a)
    return float(mp.quad(sliced, [-mp.inf, *points, mp.inf]) / norm)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "r"), [(2, 2), (2, 30), (3, 30), (6, 200)])
def test_proven_sums_enclose_an_independent_quadrature(d: int, r: int) -> None:
    pairs = t_pairs(np.random.default_rng(d + r), 6, d, r)
    low, high = (np.exp(bound) for bound in pairs.log_bounds(lower=True))
    for i in range(low.size):
        expected = slow_delta(pairs, i)
        assert low[i] - 1e-9 <= expected <= high[i] + 1e-9
        assert high[i] <= 1.03 * low[i] + 1e-12


def test_proven_sums_are_closed_forms_for_one_feature() -> None:
    """d = 1: the set {f > e^eps g} is bounded by two roots, its mass by Student's distribution."""
    from scipy.stats import t as student

    r = 12
    pairs = t_pairs(np.random.default_rng(3), 200, 1, r)
    low, high = (np.exp(bound) for bound in pairs.log_bounds(lower=True))
    for i in range(200):
        w, mu, eps = (float(a[i]) for a in (pairs.w, pairs.mu, pairs.epsilon))
        c = math.exp((2 * eps - math.log(w)) / (r + 1))
        roots = np.roots([1 / w - c, -2 * mu / w, 1 + mu**2 / w - c])
        edges = np.array([-np.inf, *sorted(roots.real[abs(roots.imag) < 1e-12]), np.inf])
        first = np.diff(student.cdf(edges * math.sqrt(r), r))
        second = np.diff(student.cdf((edges - mu) / math.sqrt(w) * math.sqrt(r), r))
        expected = np.maximum(first - math.exp(eps) * second, 0).sum()
        assert low[i] - 1e-9 <= expected <= high[i] + 1e-9


def test_incomplete_beta_functions_are_as_accurate_as_the_margins_say() -> None:
    import flint
    from flint import arb
    from scipy.special import betainc, betaincinv

    from ndis.loss import student

    rng = np.random.default_rng(0)

    def error(a: float, b: float) -> float:
        x = float(betaincinv(a, b, 10 ** rng.uniform(-30, -1e-4)))
        exact = arb(x).beta_lower(arb(a), arb(b), regularized=True)
        return abs(float((float(betainc(a, b, x)) - exact) / exact))

    with flint.ctx.workprec(200):
        for _ in range(200):
            many, few = (0.5 * np.ceil(10 ** rng.uniform(0, top)) for top in (5, 2.5))
            assert max(error(many, few), error(few, many)) < student._ERROR / 3
            assert error(many, 0.5) < student._TAIL_ERROR / 3


def test_t_laws_are_those_of_sketch_and_solve() -> None:
    """Solve 4,000 sketched problems: the standardised error has the t law's quantiles."""
    from scipy.stats import kstest

    rng = np.random.default_rng(2)
    B, b, r, d = rng.standard_normal((40, 3)), rng.standard_normal(40), 7, 3
    x_opt = np.linalg.lstsq(B, b, rcond=None)[0]
    residual = np.sum((b - B @ x_opt) ** 2)
    sketches = rng.standard_normal((4000, r, 40))
    solved = np.array([np.linalg.lstsq(S @ B, S @ b, rcond=None)[0] for S in sketches])
    scale = np.sqrt(residual * np.diag(np.linalg.inv(B.T @ B)) / (r - d + 1))
    for j in range(d):
        assert kstest((solved[:, j] - x_opt[j]) / scale[j], "t", (r - d + 1,)).pvalue > 1e-3


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


def test_certified_finite_sketch() -> None:
    for backwards in (False, True):
        loss = SketchAndSolveLoss(6.0**-2, 5, 300, backwards)
        low, high = loss.log_delta_bounds(1.0)
        assert low <= high <= low + 1.1 * loss.tolerance


def test_fewer_components_than_features_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="at least as many components as features"):
        SketchAndSolveLoss(1.0, 5, 4)
    with pytest.raises(ValueError, match="excess >= 1e-100"):
        LeastSquaresLoss(5e-324, 4, 300)


# -- a bound on the leverage among the features ----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("d", "r"), [(1, 30), (3, 200), (8, 12)])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
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


@pytest.mark.slow
def test_sketch_and_solve_in_a_region():
    s, t = 0.05, 0.01
    whole = SketchAndSolveLoss(s / (1 - s), 1, 20)
    some = SketchAndSolveLoss(s / (1 - s), 1, 20, False, t / (1 - t))
    low, high = some.log_delta_bounds(0.5)
    assert low <= high < low + 0.1
    assert high <= whole.log_delta_bounds(0.5)[1]
    rng = np.random.default_rng(0)
    q = s * rng.uniform(0, 1, 60) ** 0.3
    p = np.minimum(q, t) * rng.uniform(0, 1, 60) ** 0.3
    assert np.max(some.attained_at(q, p, 0.5)) <= high
    table = some.dominating()
    assert table.delta(0.5) >= math.exp(low)
    assert table.delta(0.5) <= whole.dominating().delta(0.5)
