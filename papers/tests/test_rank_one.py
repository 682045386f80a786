"""The rank-one mechanism: sampled as published, refuted by computation, repaired at a price."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis import GaussianMechanism, Guarantee, Ledger, QuadraticLoss, Release
from ndis_papers import RankOneGaussianMechanism, rank_one
from ndis_papers.additive import analytic, analytic_noise, simulate
from ndis_papers.radial import RadialLoss
from ndis_papers.rank_one import direction, published_spread, singular_spread, true_spread
from samplers import LEVEL, accepts_scale, accepts_sphere


@pytest.mark.parametrize(
    ("dimension", "epsilon", "delta", "sensitivity", "true_delta"),
    [
        (7921, 1e-5, 1e-7, math.sqrt(2.0), 0.217),
        (5_760_000, 1.6e-7, 1e-7, 0.14, 0.480),
        (100, 1e-3, 1e-5, 1.0, 0.212),
        (10, 0.05, 1e-5, 1.0, 0.106),
    ],
)
def test_published_claim_is_refuted_by_a_proven_lower_bound(
    dimension: int, epsilon: float, delta: float, sensitivity: float, true_delta: float
) -> None:
    mechanism = RankOneGaussianMechanism(epsilon, delta, sensitivity)
    low, high = mechanism.loss((dimension,)).delta_bounds(epsilon)
    assert high / low - 1 < 1e-10
    assert round(float(low), 3) == true_delta
    guarantee = mechanism.guarantee((dimension,))
    assert guarantee.basis == "refuted"
    assert str(guarantee).startswith("REFUTED: ")
    shown = float(str(guarantee).removesuffix(".").split("at least ")[1])
    assert 0.99 * low <= shown <= low


@pytest.mark.parametrize(("dimension", "holds"), [(3, True), (4, False), (6, False)])
def test_the_claim_holds_in_three_dimensions_only(dimension: int, holds: bool) -> None:
    guarantee = RankOneGaussianMechanism(0.99 / dimension, 1e-5, 1.0).guarantee((dimension,))
    assert guarantee.basis == ("proven" if holds else "refuted")


def test_refuses_to_release_unless_the_refutation_is_acknowledged() -> None:
    value = np.zeros((5, 5, 4))
    with pytest.raises(ValueError, match="acknowledge_refuted=True"):
        RankOneGaussianMechanism(1e-3, 1e-5, 1.0).release(value)
    release = RankOneGaussianMechanism(1e-3, 1e-5, 1.0, acknowledge_refuted=True).release(value)
    assert release.value.shape == value.shape
    assert release.guarantee.basis == "refuted"
    assert "the true delta is at least 0.211." in str(release.guarantee)


def test_a_refuted_release_survives_the_file(tmp_path: Path) -> None:
    release = RankOneGaussianMechanism(1e-3, 1e-5, 1.0, acknowledge_refuted=True).release(
        np.zeros(100)
    )
    again = Release.load(release.save(tmp_path / "release.npz"))
    assert again.guarantee == release.guarantee
    assert isinstance(again.guarantee, Guarantee)


def test_a_ledger_never_counts_the_refuted_claim(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "budget", 3.0, 0.2, "replace", accept=["declared"]) as ledger:
        common: dict[str, Any] = {"relation": "replace", "ledger": ledger}
        refuted = RankOneGaussianMechanism(1e-3, 1e-5, 1.0, acknowledge_refuted=True, **common)
        with pytest.raises(ValueError, match="refuted"):
            refuted.release(np.zeros(20))
        before = ledger.remaining().epsilon
        GaussianMechanism(epsilon=0.5, delta=1e-3, sensitivity=1.0, **common).release(np.zeros(20))
        assert ledger.remaining().epsilon < before


@pytest.mark.parametrize("value", [1.0, [1.0, 2.0]])
def test_needs_three_entries(value: object) -> None:
    with pytest.raises(ValueError, match="at least 3 entries"):
        RankOneGaussianMechanism(0.1, 1e-5, 1.0).release(value)  # type: ignore[arg-type]


def test_a_direction_of_no_length_is_drawn_again() -> None:
    class Stuck:
        def __init__(self) -> None:
            self.draws = iter([np.zeros(3), np.array([0.0, 3.0, 4.0])])

        def standard_normal(self, size: int) -> np.ndarray:
            return next(self.draws)

    assert direction(3, Stuck()).tolist() == [0.0, 0.6, 0.8]  # type: ignore[arg-type]


def test_noise_is_a_uniform_direction_times_a_normal_length() -> None:
    mechanism = RankOneGaussianMechanism(1e-2, 1e-3, 2.0)
    rng = np.random.default_rng(9)
    draws = np.array([mechanism.noise((2, 3), rng).reshape(-1) for _ in range(3000)])
    lengths = np.linalg.norm(draws, axis=1)
    scale = math.sqrt(mechanism.calibrate((2, 3)))
    assert accepts_scale(lengths, scale, LEVEL)
    assert not accepts_scale(lengths, 1.1 * scale, LEVEL)
    points, axes = draws / lengths[:, None], np.random.default_rng(1).standard_normal((4, 6))
    assert accepts_sphere(points, axes, LEVEL)
    assert not accepts_sphere(np.abs(points), axes, LEVEL)


def test_only_the_ratio_of_noise_and_sensitivity_matters() -> None:
    small, large = (RankOneGaussianMechanism(1e-3, 1e-5, s) for s in (1.0, 37.0))
    assert small.loss((100,)) == large.loss((100,))
    assert large.calibrate((100,)) == pytest.approx(37.0**2 * small.calibrate((100,)))


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "delta"), [(3, 1e-3), (10, 0.1), (1000, 0.01)])
def test_true_calibration_is_proven_and_least(dimension: int, delta: float) -> None:
    mechanism = RankOneGaussianMechanism(0.5, delta, 1.0, calibration="true")
    assert mechanism.guarantee((dimension,)).basis == "proven"
    spread = true_spread(dimension, 0.5, delta)
    assert RadialLoss(dimension, spread).delta_bounds(0.5)[1] <= delta
    assert RadialLoss(dimension, spread * (1 - 1e-8)).delta_bounds(0.5)[0] > delta
    assert mechanism.release(np.zeros(dimension)).guarantee.basis == "proven"


@pytest.mark.slow
def test_the_true_price_is_linear_in_the_dimension_and_above_the_analytic_mechanism() -> None:
    spreads = [true_spread(m, 0.5, 1e-2) for m in (100, 1000, 10_000)]
    assert spreads[1] / spreads[0] == pytest.approx(10.0, rel=0.1)
    assert spreads[2] / spreads[1] == pytest.approx(10.0, rel=0.01)
    honest = analytic(0.5, 1e-2, 1.0).accuracy_loss((1000,)).mean
    assert spreads[1] > 100 * honest


def test_at_its_own_true_privacy_the_analytic_mechanism_loses_less() -> None:
    mechanism = RankOneGaussianMechanism(1e-3, 1e-5, 1.0)
    honest = analytic(1e-3, mechanism.true_delta((100,)), 1.0)
    ratio = mechanism.accuracy_loss((100,)).mean / honest.accuracy_loss((100,)).mean
    assert ratio == pytest.approx(7.7, rel=0.02)


def test_kurtosis_and_skewness_are_those_of_theorems_8_and_9() -> None:
    mechanism = RankOneGaussianMechanism(1e-3, 1e-5, 1.0)
    loss = mechanism.accuracy_loss((100,))
    assert loss.mean == mechanism.calibrate((100,))
    assert loss.raw_kurtosis == pytest.approx(35 / 3)
    assert loss.raw_skewness == pytest.approx(5 / math.sqrt(3))
    assert loss.kurtosis == pytest.approx(15.0)
    losses = simulate(mechanism, (100,), 20_000, 6)
    assert losses.mean() == pytest.approx(loss.mean, rel=0.04)
    assert losses.var() == pytest.approx(loss.variance, rel=0.15)


def test_published_spread_matches_its_formula() -> None:
    psi = (1e-5 * math.gamma(4.5) / (math.sqrt(math.pi) * math.gamma(5.0))) ** 0.25
    assert published_spread(10, 0.05, 1e-5) == pytest.approx(2 / (0.05 * psi), rel=1e-13)


@pytest.mark.parametrize(
    ("dimension", "rank", "spread", "epsilon"), [(30, 5, 40.0, 0.3), (8, 7, 2.0, 1.0)]
)
def test_singular_noise_of_any_rank_agrees_with_a_simulation(
    dimension: int, rank: int, spread: float, epsilon: float
) -> None:
    rng, n = np.random.default_rng(0), 200_000
    square = spread * rng.chisquare(rank, n)
    g = rng.standard_normal(n)
    d = 1 - 2 * np.sqrt(square) * g / np.sqrt(g * g + rng.chisquare(dimension - 1, n))
    losses = 0.5 * (dimension - rank) * np.log1p(d / square) + d / (2 * spread)
    sample = -np.expm1(np.minimum(epsilon - losses, 0.0))
    found = rank_one.singular_delta(dimension, rank, spread, epsilon)
    assert abs(sample.mean() - found) < 4.5 * sample.std() / math.sqrt(n)


def test_singular_noise_of_rank_one_and_of_full_rank_is_known() -> None:
    one = rank_one.singular_delta(40, 1, 1e4, 0.3)
    assert one == pytest.approx(float(RadialLoss(40, 1e4).delta(0.3)), rel=1e-8)
    full = rank_one.singular_delta(40, 40, 4.0, 0.3)
    assert full == pytest.approx(float(QuadraticLoss.from_shift(0.5).delta(0.3)), rel=1e-9)
    with pytest.raises(ValueError, match="Expected rank <= 3, got 4"):
        rank_one.singular_delta(3, 4, 1.0, 0.1)


@pytest.mark.slow
def test_the_page_on_ranks_says_what_is_computed() -> None:
    page = Path(__file__).parents[2] / "docs" / "proofs" / "rank-one.md"
    table = page.read_text(encoding="utf-8").split("## Any rank")[1]
    found = 0
    for line in re.findall(r"^\| ([\d,]+) \| \((\S+), (\S+)\) \| (.*)$", table, re.MULTILINE):
        dimension, epsilon, delta = int(line[0].replace(",", "")), float(line[1]), float(line[2])
        full = dimension * analytic_noise(epsilon, delta) ** 2
        for value, rank in re.findall(r"([\d.,]+)\**? \(r = (\d+)\)", line[3]):
            spread = singular_spread(dimension, int(rank), epsilon, delta)
            written = float(value.replace(",", ""))
            assert int(rank) * spread / full == pytest.approx(written, rel=0.01)
            found += 1
    assert found == 22
