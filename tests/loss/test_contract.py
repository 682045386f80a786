"""One suite over every kind of loss and over losses composed of several kinds."""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis import (
    DiscreteLaplaceLoss,
    LeastSquaresLoss,
    Profile,
    QuadraticLoss,
    SphericalLoss,
    TabulatedLoss,
)
from ndis.loss import PrivacyLoss, from_dict
from ndis.loss.cumulant_bound import CumulantBound
from ndis.loss.derived import with_failure
from ndis.loss.least_squares import removal_loss
from ndis.loss.student import SketchAndSolveLoss
from ndis.loss.tabulated import table_of
from ndis.testing import LOSS_CHECKS

SHIFT = QuadraticLoss.from_shift(0.7)
SKETCH = QuadraticLoss.from_leverage(0.05, 20)
MIXED = QuadraticLoss([0.2, -0.1, 0.0], [0.05, 0.1, 0.2], [3, 4, 0])
# P has mass 0.3 where Q has none, and Q a third of its own where P has none.
HOLE = TabulatedLoss(
    0.5, -1, [0.2, 0.1, 0.4], 0.3, 1.0 - 0.2 * math.exp(0.5) - 0.1 - 0.4 * math.exp(-0.5)
)
SQUARES = LeastSquaresLoss(0.05, 3, 100)
SOLVED = SketchAndSolveLoss(0.1, 1, 50)


def members(loss: LeastSquaresLoss, shares: tuple[float, ...] = (0.0, 0.3, 0.5, 1.0)) -> list[Any]:
    """Some pairs of the family, on its edge and inside."""
    s = loss.leverage
    pairs = [removal_loss(s, share * s, loss.n_features, loss.n_components) for share in shares]
    pairs.append(removal_loss(0.6 * s, 0.2 * s, loss.n_features, loss.n_components))
    return [pair.reversed() for pair in pairs] if loss.backwards else pairs


# A loss, and exact ones that it dominates.
LOSSES: dict[str, Callable[[], tuple[PrivacyLoss, list[Any]]]] = {
    "shift": lambda: (SHIFT, []),
    "sketch": lambda: (SKETCH, [QuadraticLoss.from_leverage(0.04, 20)]),
    "sketch, absent first": lambda: (SKETCH.reversed(), []),
    "indefinite": lambda: (MIXED, []),
    "nothing": lambda: (QuadraticLoss(0.0, 0.0, 0.0), []),
    "disjoint": lambda: (QuadraticLoss(math.inf, 0.0, 1.0), []),
    "least squares": lambda: (SQUARES, members(SQUARES)),
    "least squares, absent first": lambda: (SQUARES.reversed(), members(SQUARES.reversed())),
    "sketch-and-solve": lambda: (SOLVED, []),
    "sketch-and-solve, absent first": lambda: (SOLVED.reversed(), []),
    "table": lambda: (table_of(SHIFT, 1e-20), [SHIFT]),
    "table with a hole": lambda: (HOLE, []),
    "table beside a Gaussian": lambda: (table_of(SKETCH, 1e-20) + SHIFT, [SKETCH + SHIFT]),
    "cumulant bound": lambda: (CumulantBound(MIXED), [MIXED]),
    "bounded cumulant bound": lambda: (CumulantBound(SKETCH.reversed()), [SKETCH.reversed()]),
    "Laplace": lambda: (SphericalLoss(0.6), []),
    "spherical": lambda: (SphericalLoss(1.1, 3), [SphericalLoss(0.9, 3)]),
    "discrete Laplace": lambda: (DiscreteLaplaceLoss(0.6, 3), []),
    "discrete Laplace, seven times": lambda: (7 * DiscreteLaplaceLoss(0.4), []),
    "discrete Laplace of two kinds": lambda: (
        DiscreteLaplaceLoss(0.4, 2) + DiscreteLaplaceLoss(0.3),
        [],
    ),
    "discrete Laplace and sketch": lambda: (DiscreteLaplaceLoss(0.5, 2) + SKETCH, []),
    "subsampled": lambda: (SHIFT.subsampled(0.2), []),
    "subsampled, absent first": lambda: (SHIFT.subsampled(0.2).reversed(), []),
    "subsampled sketch": lambda: (SKETCH.subsampled(0.3), []),
    "subsampled, twenty times": lambda: (20 * SHIFT.subsampled(0.05), []),
    "subsampled and shift": lambda: (SHIFT.subsampled(0.2) + SHIFT, []),
    "subsampled, replacing": lambda: (
        SHIFT.subsampled(0.2, replaced=QuadraticLoss.from_shift(1.4)),
        [SHIFT.subsampled(0.2)],
    ),
    "Laplace, thrice": lambda: (3 * SphericalLoss(0.4), []),
    "spherical, twice": lambda: (2 * SphericalLoss(0.5, 2), []),
    "spherical, five times": lambda: (5 * SphericalLoss(0.6, 10), []),
    "spherical and sketch": lambda: (
        SphericalLoss(0.5, 2) + SKETCH,
        [SphericalLoss(0.4, 2) + SKETCH],
    ),
    "spherical of two kinds": lambda: (SphericalLoss(0.3, 2) + SphericalLoss(0.3), []),
    "may fail": lambda: (with_failure(SHIFT, 1e-7, 1.0, 1e-6), [SHIFT]),
    "both directions": lambda: (Profile.both(SKETCH), [SKETCH]),
    "both directions of a family": lambda: (Profile.both(SQUARES), members(SQUARES)),
    "two kinds": lambda: (Profile([SHIFT, SQUARES]), [SHIFT, *members(SQUARES)]),
    "family and shift": lambda: (SQUARES + SHIFT, [member + SHIFT for member in members(SQUARES)]),
    "two families": lambda: (SQUARES + SOLVED, members(SQUARES)),
    "thrice solved": lambda: (3 * SOLVED, []),
    "bound and sketch": lambda: (CumulantBound(MIXED) + SKETCH, [MIXED + SKETCH]),
    "bound and family": lambda: (CumulantBound(MIXED) + SQUARES, [MIXED + members(SQUARES)[2]]),
    "thrice both": lambda: (3 * Profile.both(SKETCH + SHIFT), [3 * (SKETCH + SHIFT)]),
    "failed and solved": lambda: (
        with_failure(SKETCH, 1e-7, 0.5, 1e-6) + Profile.both(SOLVED),
        [SKETCH],
    ),
}


@functools.cache
def made(name: str) -> tuple[PrivacyLoss, list[Any]]:
    """A loss of the list, made when it is asked for: some take seconds."""
    return LOSSES[name]()


# A check of a family, or of what is composed with one, takes seconds. The slow tests run all checks
# of one family, those that a promise rests on for others and for some compositions, and one for the
# rest; `make evidence` runs all, and what composes two or more of these.
FEW = {
    "epsilon is safe",
    "dominating dominates",
    "round trip",
    "spendable in both modes",
    "export is never below",
}
ONE = {"dominating dominates"}
NONE: frozenset[str] = frozenset()
SHARE = {
    "least squares": set(LOSS_CHECKS),
    **dict.fromkeys(["sketch-and-solve", "table beside a Gaussian", "family and shift"], FEW),
    **dict.fromkeys(["spherical, twice", "Laplace, thrice", "spherical of two kinds"], FEW),
    **dict.fromkeys(["spherical, five times"], ONE),
    **dict.fromkeys(["bound and sketch", "thrice both"], FEW),
    **dict.fromkeys(["least squares, absent first", "two kinds"], ONE),
    **dict.fromkeys(["spherical and sketch", "sketch-and-solve, absent first"], NONE),
    **dict.fromkeys(["both directions of a family", "two families"], NONE),
    **dict.fromkeys(
        ["thrice solved", "bound and family", "failed and solved", "sampled and solved"], ONE
    ),
}
PAIRS = [
    pytest.param(
        name,
        check,
        # One worker for each loss, which remembers what it has computed.
        marks=[
            pytest.mark.xdist_group(name),
            *[pytest.mark.slow] * (name in SHARE),
            *[pytest.mark.evidence] * (check not in SHARE.get(name, LOSS_CHECKS)),
        ],
    )
    for name in LOSSES
    for check in LOSS_CHECKS
]


@pytest.mark.parametrize(("name", "check"), PAIRS)
def test_contract(name: str, check: str, tmp_path: Path) -> None:
    loss, truths = made(name)
    LOSS_CHECKS[check](loss, tmp_path, truths)


@pytest.mark.slow
def test_a_kind_needs_three_things_and_inherits_the_rest(tmp_path: Path) -> None:
    class Shifted(PrivacyLoss):
        """Equal covariances, written by somebody who knows nothing but bounds and a table."""

        exactness = "exact"

        def log_delta_bounds(self, epsilon: Any) -> tuple[Any, Any]:
            return SHIFT.log_delta_bounds(epsilon)

        def dominating(self) -> TabulatedLoss:
            return table_of(SHIFT, 1e-20)

    loss = Shifted()
    for name, check in LOSS_CHECKS.items():
        if name != "round trip":  # what is stored is the table
            (tmp_path / name).mkdir()
            check(loss, tmp_path / name, [SHIFT])
    stored = from_dict(loss.to_dict())
    assert stored == loss.dominating()


# -- brute force -----------------------------------------------------------------------------------


def brute_force(masses: list[tuple[float, float]], epsilon: float) -> float:
    """delta of independent copies of discrete pairs [(p, q), ...], by enumeration."""
    return sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in masses)


def product(
    a: list[tuple[float, float]], b: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    return [(p1 * p2, q1 * q2) for p1, q1 in a for p2, q2 in b]


def pair_of(table: TabulatedLoss) -> list[tuple[float, float]]:
    finite = [
        (float(p), float(p * math.exp(-x))) for p, x in zip(table.mass, table.grid, strict=True)
    ]
    return [*finite, (table.infinite, 0.0), (0.0, table.absent)]


def test_discrete_losses_compose_as_by_enumeration() -> None:
    mass = np.array([0.1, 0.0, 0.2, 0.3, 0.399])
    absent = 1.0 - float(mass @ np.exp(-0.25 * np.arange(-2, 3)))
    other = TabulatedLoss(0.25, -2, mass, 0.001, absent)
    total, pair = (
        HOLE + other + HOLE,
        product(product(pair_of(HOLE), pair_of(other)), pair_of(HOLE)),
    )
    for epsilon in (-1.0, 0.0, 0.1, 0.5, 1.0, 1.4, 3.0):
        truth = brute_force(pair, epsilon)
        assert truth * (1 - 1e-12) <= total.delta(epsilon) <= truth * (1 + 1e-9)
        back = brute_force([(q, p) for p, q in pair], epsilon)
        assert back * (1 - 1e-12) <= total.reversed().delta(epsilon) <= back * (1 + 1e-9)


def test_tradeoff_of_discrete_laws_is_that_of_neyman_and_pearson() -> None:
    # The best tests reject where p/q is large; between them they are mixed.
    pair = sorted(pair_of(HOLE), key=lambda m: -(m[0] / m[1] if m[1] else math.inf))
    level = np.concatenate([[0.0], np.cumsum([q for _, q in pair])])
    error = 1.0 - np.concatenate([[0.0], np.cumsum([p for p, _ in pair])])
    curve = HOLE.tradeoff(np.linspace(0.0, 1.0, 41))
    assert curve == pytest.approx(
        np.interp(np.linspace(0.0, 1.0, 41), level[1:], error[1:]), abs=1e-9
    )
    assert HOLE.tradeoff(0.0) == pytest.approx(0.7, abs=1e-9)  # not 1: P has mass that Q lacks
    assert HOLE.tradeoff(0.0) <= 0.7


@pytest.mark.parametrize("distance", [1e-3, 0.3, 1.0, 4.0, 12.0])
def test_tradeoff_of_a_shift_is_closed_form(distance: float) -> None:
    from scipy.stats import norm

    alpha = np.concatenate([[0.0, 1.0], np.geomspace(1e-15, 0.999, 500)])
    truth = norm.cdf(norm.isf(alpha) - distance)
    curve = QuadraticLoss.from_shift(distance).tradeoff(alpha)
    assert np.all(curve <= truth * (1 + 1e-13))
    assert np.all(curve >= truth - 1e-10)


@pytest.mark.slow
def test_profiles_with_kinks_have_exact_tradeoffs() -> None:
    """Where the largest of two curves changes, the best line is at the kink."""
    profile = Profile([QuadraticLoss.from_shift(1.0), QuadraticLoss.from_leverage(0.6, 1)])
    grid = np.linspace(-8.0, 30.0, 400_001)
    heights = np.asarray(profile.delta(grid))
    for alpha in (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 0.7):
        truth = float(np.max(1.0 - heights - np.exp(grid) * alpha))
        assert profile.tradeoff(alpha) == pytest.approx(truth, abs=1e-8)


# -- defects of the first edition ------------------------------------------------------------------


def test_epsilon_of_least_squares_covers_every_member() -> None:
    loss = LeastSquaresLoss(0.05, 3, 100)
    epsilon = float(loss.epsilon(1e-6))
    place = np.linspace(0.0, loss.leverage, 2001)
    deltas = removal_loss(loss.leverage, place, 3, 100).log_delta(epsilon)
    assert np.max(deltas) <= math.log(1e-6)
    worst = removal_loss(loss.leverage, place[np.argmax(deltas)], 3, 100)
    assert float(worst.log_delta_bounds(epsilon)[1]) <= math.log(1e-6)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_worst_member_of_least_squares_lies_on_the_edge(backwards: bool) -> None:
    """Every (q, p) is dominated by a pair (s, p'): docs/proofs/least-squares.md has the formula."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        s, r, d = 10 ** rng.uniform(-3, -0.2), int(10 ** rng.uniform(0, 3)), int(rng.integers(1, 9))
        q = s * rng.uniform(0.05, 1.0)
        p = q * rng.uniform(0.01, 0.99)
        ratio = 1 / p - (1 - p) / (q - p)
        low, high = p, s
        for _ in range(200):
            middle = 0.5 * (low + high)
            above = 1 / middle - (1 - middle) / (s - middle) > ratio
            low, high = (middle, high) if above else (low, middle)
        inner, edge = removal_loss(q, p, d, r), removal_loss(s, low, d, r)
        if backwards:
            inner, edge = inner.reversed(), edge.reversed()
        epsilons = np.array([-1.0, 0.0, 0.2, 1.0, 3.0])
        assert np.all(inner.log_delta(epsilons) <= np.asarray(edge.log_delta(epsilons)) + 1e-9)


@pytest.mark.slow
def test_many_epsilons_and_levels_at_once_agree_with_one_by_one() -> None:
    deltas = np.geomspace(1e-14, 0.3, 13)
    for loss in (SHIFT, SKETCH, MIXED, Profile.both(SKETCH)):
        each = np.array([float(loss.epsilon(delta)) for delta in deltas])
        np.testing.assert_allclose(loss.epsilon(deltas), each, rtol=1e-9)
        curve = np.array([float(loss.tradeoff(alpha)) for alpha in (0.01, 0.2, 0.7)])
        np.testing.assert_allclose(loss.tradeoff([0.01, 0.2, 0.7]), curve, rtol=1e-10)


@pytest.mark.slow
def test_many_epsilons_of_a_family_are_safe() -> None:
    deltas = np.geomspace(1e-7, 0.5, 17)
    epsilons = SQUARES.epsilon(deltas)
    assert np.all(np.diff(epsilons) <= 0.0)
    few = slice(0, 17, 5)
    assert np.all(SQUARES.log_delta_bounds(epsilons[few])[1] <= np.log(deltas[few]))
    np.testing.assert_allclose(epsilons[few], SQUARES.epsilon(deltas[few]), rtol=1e-9)


def test_a_batch_of_losses_has_a_batch_of_epsilons() -> None:
    batch = QuadraticLoss.from_shift([[0.1, 1.0], [3.0, 0.0]])
    epsilons = batch.epsilon(np.array([1e-6, 1e-2]))
    for i, j in np.ndindex(2, 2):
        assert epsilons[i, j] == pytest.approx(float(batch[i, j].epsilon([1e-6, 1e-2][j])))
    with pytest.raises(ValueError, match="index it first"):
        batch.tradeoff(0.1)


# -- the mixture that stands in for sketch-and-solve in compositions -------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True])
def test_the_mixture_is_that_of_its_gaussian_pairs(backwards: bool) -> None:
    from scipy.stats import chi2

    rng = np.random.default_rng(8)
    for _ in range(6):
        d, r = int(rng.integers(1, 6)), int(rng.integers(20, 400))
        loss = SketchAndSolveLoss(0.05, d, r, backwards)
        p, s = loss.leverage * rng.uniform(0.05, 0.95), loss.leverage
        pair = loss.reference(
            *(
                np.array([value])
                for value in (
                    (1 - s) / (1 - p) ** 2,
                    p * (s - p) / (1 - p) ** 2,
                    (s - p) / (1 - s),
                )
            )
        )
        # Gauss-Legendre in the quantile of the chi-square variable, between far tails.
        nodes, weights = np.polynomial.legendre.leggauss(200)
        low, high = chi2.ppf(1e-14, r - d + 1), chi2.isf(1e-14, r - d + 1)
        g = 0.5 * (high - low) * (nodes + 1) + low
        density = 0.5 * (high - low) * weights * chi2.pdf(g, r - d + 1)
        each = removal_loss(s, np.full(g.shape, p), d, g)
        each = each.reversed() if backwards else each
        for epsilon in (0.0, 0.4, 0.9):
            truth = float(density @ each.delta(epsilon))
            ours = math.exp(float(loss._log_deltas(pair, np.array([epsilon]))[0]))
            assert ours == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("backwards", [False, True])
def test_cumulants_of_families_are_suprema(backwards: bool) -> None:
    rng = np.random.default_rng(4)
    s = np.array([0.5, 3.0, 9.0])
    loss = LeastSquaresLoss(0.05, 4, 60, backwards)
    largest = np.asarray(loss.finite_cumulant(s))
    q = loss.leverage * rng.uniform(0, 1, 300) ** 0.3
    batch = removal_loss(q, q * rng.uniform(0, 1, 300), 4, 60)
    batch = batch.reversed() if backwards else batch
    for order, most in zip(s, largest, strict=True):
        assert np.max(batch.cumulant(order)) <= most
    edge = removal_loss(loss.leverage, loss.leverage * np.linspace(0, 1, 400), 4, 60)
    edge = edge.reversed() if backwards else edge
    attained = [float(np.max(edge.cumulant(order))) for order in s]
    assert np.all(largest <= np.array(attained) * 1.002)
