"""Laws of sketch-and-solve: t laws, their sums proven, and their region."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ndis.loss.student import Pairs, SketchAndSolveLoss


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


def test_certified_finite_sketch() -> None:
    for backwards in (False, True):
        loss = SketchAndSolveLoss(6.0**-2, 5, 300, backwards)
        low, high = loss.log_delta_bounds(1.0)
        assert low <= high <= low + 1.1 * loss.tolerance


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
