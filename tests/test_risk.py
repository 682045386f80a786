"""Risk against brute force: never below the truth of the dominating loss, and close to it.

The truth comes from somewhere else: the most powerful tests of two normal laws and of two
chi-square laws have closed forms, a composed loss is an integral over one of its parts, and the
worst case over both orders of two neighbours is the concave hull of two such curves.
"""

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from ndis import LeastSquaresLoss, Profile, QuadraticLoss, Risk
from ndis.loss.derived import with_failure
from ndis.risk import advantage, belief, gaussian_mu, guess, true_positive

CLOSE = 1e-6
LEVELS = (1e-4, 0.01, 0.1, 0.5, 0.9)
CASES = 200

Deltas = Callable[[np.ndarray], np.ndarray]


# -- deltas by another route ------------------------------------------------------------------


def of_shift(mu: float) -> Deltas:
    """Delta of N(mu, 1) against N(0, 1), also for negative epsilons."""
    return lambda e: ndtr(mu / 2 - e / mu) - np.exp(e) * ndtr(-mu / 2 - e / mu)


def of_sketch(excess: float, r: int, present: bool) -> Deltas:
    """Of N(0, I) against N(0, I/(1 + excess)), or of the reverse: the norm decides."""

    def deltas(e: np.ndarray) -> np.ndarray:
        # With z = |x|^2: ln p - ln q = (excess z - r ln(1 + excess)) / 2.
        sign = 1.0 if present else -1.0
        z = np.maximum((2.0 * sign * e + r * math.log1p(excess)) / excess, 0.0)
        p, q = (chi2(r, scale=s) for s in (1.0, 1.0 / (1.0 + excess)))
        if present:
            return p.sf(z) - np.exp(e) * q.sf(z)
        return q.cdf(z) - np.exp(e) * p.cdf(z)

    return deltas


def of_both(mu: float, excess: float, r: int, present: bool) -> Deltas:
    """Of the two together: the first's delta, averaged over the second's loss."""
    # The trapezoidal rule over the normal law, of which the chi-square law is a smooth image.
    y = np.linspace(-9.0, 9.0, 1201)
    weights = np.exp(-0.5 * y * y) * (y[1] - y[0]) / math.sqrt(2.0 * math.pi)
    z = np.where(y < 0, chi2(r).ppf(ndtr(y)), chi2(r).isf(ndtr(-y)))
    z = z / (1.0 if present else 1.0 + excess)
    losses = (1.0 if present else -1.0) * 0.5 * (excess * z - r * math.log1p(excess))
    shift = of_shift(mu)

    def deltas(e: np.ndarray) -> np.ndarray:
        return np.asarray(shift(e[:, None] - losses) @ weights)

    return deltas


def of_the_worst(one: Deltas, two: Deltas) -> Deltas:
    return lambda e: np.maximum(one(e), two(e))


# -- risks by brute force ---------------------------------------------------------------------


def brute_true_positive(deltas: Deltas, level: float, reach: float) -> float:
    """The least line over a dense grid of epsilons, which the delta of both orders is given at."""

    def lines(e: np.ndarray) -> np.ndarray:
        d = deltas(np.abs(e))
        return np.where(e >= 0, d + np.exp(e) * level, 1 - np.exp(e) * (1 - level - d))

    e = np.linspace(-reach, reach, 401)
    for _ in range(6):
        best = int(np.argmin(lines(e)))
        e = np.linspace(e[max(best - 2, 0)], e[min(best + 2, e.size - 1)], 41)
    return float(lines(e).min())


def draws(seed: int = 0) -> Any:
    """Random losses, each with its deltas by the other route and how far they reach."""
    rng = np.random.default_rng(seed)
    while True:
        mu = float(np.exp(rng.uniform(np.log(0.02), np.log(4.0))))
        excess = float(np.exp(rng.uniform(np.log(0.01), np.log(1.0))))
        r = int(rng.integers(1, 40))
        shift, sketch = QuadraticLoss.from_shift(mu), QuadraticLoss(excess, 0.0, r)
        yield "gaussian", shift, of_shift(mu), 6 * mu + mu * mu
        sides = [of_sketch(excess, r, present) for present in (True, False)]
        reach = 2.0 + 8 * excess * math.sqrt(r) + 8 * excess
        yield "sketch", Profile.both(sketch), of_the_worst(*sides), reach
        mu = max(mu, 0.3)  # narrower, and the integral needs more points
        shift = QuadraticLoss.from_shift(mu)
        sides = [of_both(mu, excess, r, present) for present in (True, False)]
        yield "composed", Profile.both(shift + sketch), of_the_worst(*sides), reach + 6 * mu + mu**2


def check(case: tuple[Any, ...]) -> None:
    kind, loss, deltas, reach = case
    tolerance = 1e-11  # of the other route
    found = advantage(loss)
    assert -tolerance <= found - float(deltas(np.zeros(1))[0]) <= CLOSE
    for level in LEVELS:
        truth = brute_true_positive(deltas, level, reach)
        assert -tolerance <= true_positive(loss, level) - truth <= CLOSE, (kind, level)


@pytest.mark.parametrize("case", list(islice(draws(), 9)), ids=lambda case: case[0])
def test_never_below_the_truth_and_close(case: tuple[Any, ...]) -> None:
    check(case)


@pytest.mark.evidence
def test_all_random_losses() -> None:
    for case in islice(draws(1), CASES):
        check(case)


@pytest.mark.slow
def test_gaussian_in_closed_form() -> None:
    for mu in (1e-4, 0.3, 2.0, 8.0):
        loss = QuadraticLoss.from_shift(mu)
        assert advantage(loss) == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-9)
        for level in LEVELS:
            assert true_positive(loss, level) == pytest.approx(ndtr(ndtri(level) + mu), rel=1e-8)
        for k in (2, 10, 1000):
            assert guess(loss, k) == pytest.approx(ndtr(ndtri(1 / k) + mu), rel=1e-8)
        for beta in (1e-3, 0.05, 0.6):
            ratio = beta / ndtr(ndtri(beta) - mu)
            wanted = 0.2 * ratio / (0.2 * ratio + 0.8)
            assert belief(loss, 0.2, beta) == pytest.approx(wanted, rel=1e-7)
        for beta in (1e-6, 1e-9, 1e-12):  # what cancels must not lower it
            wanted = 1.0 / (1.0 + 4.0 * ndtr(ndtri(beta) - mu) / beta)
            assert belief(loss, 0.2, beta) >= wanted * (1.0 - 1e-13)


def test_belief_holds_for_every_pair_that_is_dominated() -> None:
    # N(0, 1) against N(mu, 1), with and without a coin that tells nothing: its loss exceeds the
    # bound's logarithm with probability at most beta, whichever is true.
    mu, prior = 0.7, 0.3
    for beta in (0.01, 0.2):
        after = belief(QuadraticLoss.from_shift(mu), prior, beta)
        step = math.log(after / (1 - after) * (1 - prior) / prior)
        for mean in (mu * mu / 2, -mu * mu / 2):  # the loss is normal with variance mu^2
            assert ndtr((mean - step) / mu) <= beta


def test_a_guess_among_candidates_is_not_better_than_said() -> None:
    # k means at distance mu from a common one, as far apart as can be: the best guess is the
    # largest coordinate.
    rng, mu, k = np.random.default_rng(0), 1.2, 4
    noise = rng.standard_normal((200_000, k))
    noise[:, 0] += mu
    right = float(np.mean(np.argmax(noise, axis=1) == 0))
    assert right <= guess(QuadraticLoss.from_shift(mu), k)


def test_where_there_is_no_curve_to_follow() -> None:
    nothing = QuadraticLoss.from_shift(1e-9)
    assert advantage(nothing) < 1e-9
    assert true_positive(nothing, 0.1) == pytest.approx(0.1, abs=1e-9)
    assert belief(nothing, 0.1, 0.5) == pytest.approx(0.1, abs=1e-8)
    assert true_positive(QuadraticLoss.from_shift(1.0), 1.0) == 1.0
    assert true_positive(QuadraticLoss.from_shift(1.0), 0.0) < 1e-10
    assert belief(QuadraticLoss.from_shift(50.0), 0.1, 0.5) == 1.0
    with pytest.raises(ValueError, match="single loss"):
        true_positive(QuadraticLoss.from_shift([1.0, 2.0]), 0.1)


@pytest.mark.slow
def test_tables_and_searched_losses() -> None:
    sketch = QuadraticLoss.from_leverage(0.05, n_components=20)
    table = with_failure(sketch, 1e-7, 0.5, 1e-6)
    for loss in (table, sketch + table):
        table = Profile(loss.directions()).dominating().without_gaussian()
        for level in (0.01, 0.3):
            lines = 1.0 - float(table.tradeoff(level))
            assert lines * (1 - 2e-4) <= true_positive(loss, level) <= lines * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.evidence) for k in range(1, 12))]
)
def test_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss = Profile.both(
        LeastSquaresLoss(float(rng.uniform(0.002, 0.2)), int(rng.integers(1, 8)), 300)
    )
    table = loss.dominating().without_gaussian()
    for level in (0.01, 0.3):
        reach = float(table.epsilon(1e-6))
        truth = brute_true_positive(lambda e: table.delta(e), level, reach)
        # A table's curve has corners, which a grid comes close to.
        assert -1e-8 <= true_positive(table, level) - truth <= CLOSE
    found = true_positive(loss, level)
    # Bounds are a tolerance apart; a table is finer at epsilon 0, where it begins.
    assert found <= truth * (1 + LeastSquaresLoss.tolerance)
    knots = np.linspace(0.0, reach, 41)
    # Some pair of neighbours attains the lower ends, and is never worse than what is said.
    low = np.exp(loss.log_delta_bounds(knots)[0])
    lines = np.minimum(low + np.exp(knots) * level, 1 - np.exp(-knots) * (1 - level - low))
    assert found >= lines.min() * (1 - 1e-4)


@pytest.mark.slow
def test_mu_covers_every_test_above_a_rate_and_none_covers_a_sketch() -> None:
    sketch = Profile.both(QuadraticLoss.from_leverage(0.1, n_components=10))
    worst = of_the_worst(*(of_sketch(1 / 9, 10, present) for present in (True, False)))
    found = []
    for rate in (0.05, 1e-6):
        mu, regret = gaussian_mu(sketch, rate)
        levels = np.geomspace(rate, 0.4, 7)
        truth = np.array([brute_true_positive(worst, level, 6.0) for level in levels])
        needed = ndtri(truth) - ndtri(levels)
        assert needed.max() - 1e-9 <= mu <= needed.max() * (1 + 1e-4)
        assert 0 < regret < 0.2
        found.append(mu)
    # Further out there is always more: no mu holds at all rates.
    assert found[1] > 1.2 * found[0]
    assert gaussian_mu(QuadraticLoss.from_shift(0.7), 0.01) == (pytest.approx(0.7, rel=1e-12), 0.0)


@pytest.mark.parametrize(
    "target",
    [
        Risk(advantage=0.1),
        Risk(true_positive=0.1, false_positive=0.01),
        Risk(true_positive=0.9, false_positive=0.6),
        Risk(belief=0.5, prior=0.1, beta=0.05),
        Risk(guess=0.2, candidates=10),
    ],
    ids=str,
)
def test_a_pair_keeps_to_the_risk_and_wastes_nothing(target: Risk) -> None:
    from ndis.calibration import least_noise

    def family(noise: float) -> Profile:
        return Profile.both(QuadraticLoss.from_shift(1.0 / noise))

    noise = least_noise(family, *target.pair())
    found = target.of(family(noise))
    assert target.limit * (1 - 1e-4) <= found <= target.limit
    assert Risk.parse(str(target)) == target


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"advantage": 0.1, "guess": 0.2, "candidates": 3},
        {"true_positive": 0.1},
        {"true_positive": 0.1, "false_positive": 0.2},
        {"guess": 0.2, "candidates": 4},
        {"advantage": 1.5},
        {"belief": 0.5, "prior": 0.5, "beta": 0.1},
    ],
)
def test_one_risk_and_one_that_can_be_met(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Risk(**given)


@pytest.mark.parametrize("text", ["", "advantage", "advantage=x", "risk=1", "candidates=1.5"])
def test_text_that_is_no_risk(text: str) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Risk.parse(text)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_worse_order_of_a_pair_counts(backwards: bool) -> None:
    sketch = QuadraticLoss.from_leverage(0.5, n_components=3)
    loss = sketch.reversed() if backwards else sketch
    for level in LEVELS:
        worse = min(float(way.tradeoff(level)) for way in (sketch, sketch.reversed()))
        assert true_positive(loss, level) >= (1.0 - worse) * (1.0 - 1e-9)
