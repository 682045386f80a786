"""The law with the least noise: its choice, its enforcement, its audit; and what is no answer."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ndis import BudgetExceeded, GaussianMechanism, Ledger, NoiseMechanism, SphericalLoss, audit
from ndis.auditing.certificates import verify
from ndis.calibration import meets
from ndis.mechanisms.laws import (
    LAWS,
    apart,
    candidates,
    deviation_of,
    loss_of,
    of_group,
    pure_loss,
    reach_of,
    scale_of,
)
from ndis.mechanisms.target import Target
from ndis.randomness.listening import listening
from ndis.randomness.noise import parts_of
from samplers import LEVEL, accepts_law

EPSILON, DELTA = 1.0, 1e-6


def ratio(n_numbers: int, n_releases: int, epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """Mean square of spherical noise over that of normal noise."""
    found = candidates(Target(epsilon, delta), 1.0, None, n_numbers, n_releases)
    return (found["spherical"].deviation / found["gaussian"].deviation) ** 2


@pytest.mark.parametrize(
    ("n_numbers", "n_releases", "least"),
    [(1, 1, 0.112), (2, 1, 0.168), (5, 1, 0.327), (30, 1, 0.787), (3, 5, 0.856), (10, 2, 0.748)],
)
def test_variances_are_those_of_the_table(n_numbers: int, n_releases: int, least: float) -> None:
    assert ratio(n_numbers, n_releases) == pytest.approx(least, abs=6e-4)


@pytest.mark.slow
def test_many_releases_belong_to_the_gaussian() -> None:
    assert ratio(2, 7) < 1.0 < ratio(2, 10)
    assert ratio(10, 7) < 1.0 < ratio(10, 10)
    assert ratio(1, 100) == pytest.approx(1.93, abs=0.01)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_releases", [1, 3])
def test_all_planned_releases_together_meet_the_promise(law: str, n_releases: int) -> None:
    for n_numbers in (1, 4):
        target = Target(0.7, 1e-5)
        noise = candidates(target, 2.0, 3.0, n_numbers, n_releases, [law], True)[law]
        assert meets(n_releases * noise.loss, 0.7, 1e-5)
        moved = 3.0 if "laplace" in law else 2.0
        more = loss_of(law, 1.001 * moved / noise.scale, n_numbers, 3)
        assert not meets(n_releases * more, 0.7, 1e-5)


def test_the_worst_of_bounded_losses_dominates_laplace_noise() -> None:
    """Split over two numbers in any way, and at every epsilon."""
    epsilons = np.linspace(-0.95, 0.95, 20)
    worst = np.asarray(pure_loss(1.0).delta(epsilons))
    for share in (0.0, 0.2, 0.5):
        split = SphericalLoss(1.0 - share) + SphericalLoss(share) if share else SphericalLoss(1.0)
        # A table is above the truth by little.
        assert np.all(np.asarray(split.delta(epsilons)) <= worst + 1e-4)


def test_the_plan_says_which_law_and_why() -> None:
    plan = NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0).plan((2, 2))
    assert plan.method == "spherical"
    assert plan.reason.startswith("Least variance for 4 numbers and 1 release: spherical ")
    assert "gaussian" in plan.reason
    assert plan.guarantee.basis == "declared"
    counts = NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0, sum_sensitivity=1.0).plan(8)
    assert counts.method == "laplace"
    assert counts.noise_scale == pytest.approx(math.sqrt(2.0), rel=1e-5)


def test_a_law_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="sum_sensitivity, which Laplace noise needs"):
        NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0, law="laplace").plan(4)
    with pytest.raises(ValueError, match="Expected law to be one of"):
        NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0, law="cauchy").plan(4)
    given = NoiseMechanism(delta=1e-6, sensitivity=1.0, noise_scale=2.4).plan(4)
    assert given.method == "spherical"
    assert given.guarantee.epsilon < 1.0
    assert NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).plan().method == "laplace"


def test_whole_numbers_stay_whole_with_less_noise() -> None:
    counts = NoiseMechanism(
        epsilon=3.0, delta=1e-6, sensitivity=1.0, sum_sensitivity=1.0, integers=True
    )
    plan = counts.plan(5)
    assert plan.method == "discrete laplace"
    q = math.exp(-3.0)
    assert plan.noise_scale**2 == pytest.approx(2.0 * q / (1.0 - q) ** 2, rel=1e-4)
    assert plan.noise_scale**2 < 0.55 * counts_with_laplace_noise(3.0)
    released = counts.release([3, 2**60 + 1, 0, 5, 7])
    assert np.all(np.mod(released.value, 1) == 0)
    assert released.guarantee.loss is not None
    assert released.guarantee.loss.exactness == "exact"
    with pytest.raises(ValueError, match="Expected whole numbers"):
        counts.release([0.5, 1.0])
    assert (
        NoiseMechanism(epsilon=3.0, delta=1e-6, sensitivity=1.0, sum_sensitivity=1.0).plan(5).method
        == "laplace"
    )


def counts_with_laplace_noise(epsilon: float) -> float:
    return 2.0 / epsilon**2


@pytest.mark.parametrize("law", LAWS)
def test_scales_and_deviations_are_inverse(law: str) -> None:
    for scale in (0.05, 0.7, 3.0, 1e6):
        spread = deviation_of(law, scale, 4)
        assert scale_of(law, spread, 4) == pytest.approx(scale, rel=1e-14)


def planned(folder: Path, **more: Any) -> Ledger:
    return Ledger.create(
        folder / "planned", EPSILON, DELTA, "add-remove", mode="plan", accept=["declared"], **more
    )


def test_a_ledger_of_mode_plan_refuses_one_more(tmp_path: Path) -> None:
    with planned(tmp_path) as ledger:
        mechanism = NoiseMechanism(
            epsilon=EPSILON, delta=DELTA, sensitivity=1.0, n_releases=3, ledger=ledger
        )
        ledger.plan(3 * [mechanism.guarantee(4)])
        for _ in range(3):
            mechanism.release([1.0, 2.0, 3.0, 4.0])
        with pytest.raises(BudgetExceeded, match="releases left in the plan"):
            mechanism.release([1.0, 2.0, 3.0, 4.0])
        assert ledger.verify() == 3
        wider = NoiseMechanism(
            epsilon=EPSILON, delta=DELTA, sensitivity=1.0, n_releases=2, ledger=ledger
        )
        with pytest.raises(BudgetExceeded):
            wider.release([1.0, 2.0, 3.0, 4.0])


def test_a_plan_of_one_more_does_not_fit(tmp_path: Path) -> None:
    with planned(tmp_path) as ledger:
        mechanism = NoiseMechanism(
            epsilon=EPSILON, delta=DELTA, sensitivity=1.0, n_releases=3, ledger=ledger
        )
        with pytest.raises(BudgetExceeded, match="plan within"):
            ledger.plan(4 * [mechanism.guarantee(4)])


def test_several_releases_need_somebody_who_counts_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode 'plan' for n_releases=3"):
        NoiseMechanism(epsilon=EPSILON, delta=DELTA, sensitivity=1.0, n_releases=3).plan(4)
    with Ledger.create(
        tmp_path / "adaptive", EPSILON, DELTA, "add-remove", accept=["declared"]
    ) as ledger:
        with pytest.raises(ValueError, match="mode 'plan' for n_releases=3"):
            NoiseMechanism(
                epsilon=EPSILON, delta=DELTA, sensitivity=1.0, n_releases=3, ledger=ledger
            ).plan(4)
        assert (
            NoiseMechanism(epsilon=0.3, delta=1e-7, sensitivity=1.0, ledger=ledger).plan(4).method
            == "gaussian"
        )
        named = NoiseMechanism(
            epsilon=0.3, delta=1e-7, sensitivity=1.0, law="spherical", ledger=ledger
        )
        named.release([1.0, 2.0])
        assert ledger.verify() == 1


@pytest.mark.parametrize("law", LAWS)
def test_certificates_are_recomputed(law: str) -> None:
    whole = law == "discrete laplace"
    mechanism = NoiseMechanism(
        epsilon=0.8, delta=1e-6, sensitivity=1.0, sum_sensitivity=1.5, law=law, integers=whole
    )
    release = mechanism.release([[1.0, 2.0], [3.0, 4.0]])
    assert verify(release).outcome == "checked"
    assert release.parameters["law"] == law


@pytest.mark.slow
def test_the_auditor_finds_right_noise_consistent_and_less_refuted() -> None:
    rng = np.random.default_rng(3)
    for n_numbers in (1, 2, 5, 30):
        for law in LAWS:
            whole = law == "discrete laplace"
            epsilon = float(np.exp(rng.uniform(-2.0, 1.5)))
            delta = float(10 ** rng.uniform(-9, -3))
            answer = np.zeros(n_numbers)
            mechanism = NoiseMechanism(
                epsilon=epsilon,
                delta=delta,
                sensitivity=1.0,
                sum_sensitivity=1.0,
                law=law,
                integers=whole,
            )
            assert audit(mechanism, answer).outcome == "consistent"
            less = NoiseMechanism(
                delta=delta,
                sensitivity=1.0,
                sum_sensitivity=1.0,
                law=law,
                integers=whole,
                noise_scale=0.9 * mechanism.calibrate(n_numbers),
            )
            assert audit(less, answer, claim=(epsilon, delta)).outcome == "refuted"


@pytest.mark.slow
def test_what_is_released_has_the_planned_law() -> None:
    rng = np.random.default_rng(8)
    mechanism = NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0, random_state=rng)
    noise = np.array([mechanism.release(np.zeros(2)).value for _ in range(1500)])
    scale = mechanism.calibrate(2) / math.sqrt(3.0)
    radius = np.linalg.norm(noise, axis=1)
    assert accepts_law(radius, stats.gamma(2, scale=scale).cdf, LEVEL)
    assert not accepts_law(radius, stats.gamma(2, scale=1.15 * scale).cdf, LEVEL)


# -- groups ---------------------------------------------------------------------------------------


def test_counts_and_means_by_ward_have_an_eighth_of_the_variance() -> None:
    found = of_group("count and mean", 0.5, DELTA)
    assert found.noise.law == "laplace"
    share = found.covariance.diagonal() / found.others["gaussian"]
    assert np.all(share <= 0.25)
    # With a coarse step that is as good as a tenth of the Gaussian's squared budget.
    coarse = found.others["gaussian"][0] / 0.1
    left = 0.5 - math.sqrt(4.0 / coarse)
    fine = of_group("count and mean", left, DELTA)
    assert np.all(fine.covariance.diagonal() <= 0.4 * found.others["gaussian"] / 0.9)


@pytest.mark.parametrize("asked", ["count", "count and mean", "count, mean and deviation"])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_coordinates_keep_every_record_within_the_sensitivity(asked: str, epsilon: float) -> None:
    t = np.linspace(-1.0, 1.0, 2001)
    rows = np.array([np.ones_like(t), t, t * t])[: {"count": 1, "count and mean": 2}.get(asked, 3)]
    for n_releases in (1, 40):
        found = of_group(asked, epsilon, DELTA, n_releases=n_releases)
        moved = found.coordinates @ rows
        size = (
            np.abs(moved).sum(axis=0)
            if found.noise.law == "laplace"
            else np.linalg.norm(moved, axis=0)
        )
        assert np.all(size <= 1.0 + 1e-15 * (found.noise.law == "laplace"))  # of this sum
        assert size.max() > 1.0 - 1e-11
        back = np.linalg.inv(found.coordinates)
        spread = found.noise.deviation**2 * back @ back.T
        np.testing.assert_allclose(found.covariance, spread, rtol=1e-9)


def test_figures_of_coordinates() -> None:
    both = of_group("count and mean", 1.0, DELTA)
    np.testing.assert_allclose(both.covariance.diagonal(), [4.0, 4.0], rtol=1e-4)
    np.testing.assert_allclose(both.others["gaussian"], 35.7, rtol=1e-3)
    np.testing.assert_allclose(both.others["spherical"], 6.0, rtol=2e-3)
    three = of_group("count, mean and deviation", 1.0, DELTA)
    np.testing.assert_allclose(three.covariance.diagonal(), [6.0, 4.0, 6.0], rtol=1e-4)
    np.testing.assert_allclose(three.others["spherical"], [12.0, 8.0, 8.0], rtol=5e-3)
    np.testing.assert_allclose(three.others["gaussian"], [53.5, 35.7, 35.7], rtol=1e-3)


def test_replacing_a_record_is_two_releases() -> None:
    once = of_group("count", 1.0, DELTA)
    replaced = of_group("count", 1.0, DELTA, relation="replace")
    twice = of_group("count", 1.0, DELTA, n_releases=2)
    assert replaced.covariance == twice.covariance
    assert replaced.covariance > once.covariance
    with pytest.raises(ValueError, match="relation"):
        of_group("count", 1.0, DELTA, relation="edge")


@pytest.mark.parametrize("asked", ["count", "count and mean", "count, mean and deviation"])
def test_a_record_that_is_replaced_within_its_group_is_covered(asked: str) -> None:
    p = {"count": 1, "count and mean": 2}.get(asked, 3)
    rng = np.random.default_rng(5)
    grid = np.linspace(-1.0, 1.0, 801)
    t, s = (np.concatenate([g.ravel(), rng.uniform(-1, 1, 10**5)]) for g in np.meshgrid(grid, grid))
    steps = np.array([0.0 * t, t - s, t * t - s * s])[:p]
    # The squares of the normal coordinates, from the ellipsoid alone.
    ellipsoid = np.array([[3.0, 0.0, 2.0], [0.0, 2.0, 0.0], [2.0, 0.0, 2.0]])
    inverse = np.linalg.inv({1: np.eye(1), 2: 2 * np.eye(2), 3: ellipsoid}[p])
    farthest = math.sqrt(np.einsum("ik,ij,jk->k", steps, inverse, steps).max())
    assert farthest <= apart(p) <= farthest * 1.0001
    once = candidates(Target(1.0, DELTA), max(math.sqrt(2.0), farthest), None, p, 1)
    found = of_group(asked, 1.0, DELTA, relation="replace")
    share = float(p)  # of a count's variance, in units of a coordinate's
    assert found.others["gaussian"][0] >= share * once["gaussian"].deviation ** 2
    if p > 1:
        assert found.others["spherical"][0] >= share * once["spherical"].deviation ** 2


# -- what is no answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [GaussianMechanism, NoiseMechanism])
def test_tables_and_text_are_no_answers(mechanism: Any) -> None:
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"pay": [1.0, 2.0], "age": [30, 40]})
    model = mechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    for table in (frame, arrow.Table.from_pandas(frame)):
        with pytest.raises(TypeError, match="Expected an answer, got a table"):
            model.release(table)
    for wrong in ("5", b"5", ["5"], [[1.0, "x"]], 1j, [None], np.array(["1"]), {"a": 1}):
        with pytest.raises(TypeError, match=r"Expected (an answer|numbers)"):
            model.release(wrong)
    with pytest.raises(TypeError, match="whose hidden entries would be published"):
        model.release(np.ma.masked_array([1.0, 2.0], [False, True]))
    assert model.release(frame["pay"]).value.shape == (2,)


@pytest.mark.parametrize("mechanism", [GaussianMechanism, NoiseMechanism])
def test_integers_are_exact_or_refused(mechanism: Any) -> None:
    heard = []

    def listener(draw: Any, values: Any, *others: Any, **named: Any) -> Any:
        heard.append(sum(Fraction(float(part.reshape(-1)[0])) for part in parts_of(values)))
        return draw(values, *others, **named)

    model = mechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    for value in (2**60 + 1, -(2**62) - 3, 2**80 + 7, np.uint64(2**64 - 1), 2**53 + 1):
        with listening(listener):
            model.release([value])
        assert heard[-1] == int(value)
    for wrong in ([2**60 + 1, 0.5], Fraction(1, 3), [Decimal("0.1")]):
        with pytest.raises(TypeError, match="doubles hold exactly"):
            model.release(wrong)
    with pytest.raises(ValueError, match="below 2\\^89"):
        model.release(2**100)
    assert model.release([Fraction(1, 4), Decimal("0.5"), 3]).value.shape == (3,)


# -- how far one number's noise goes ---------------------------------------------------------------


@pytest.mark.parametrize("level", [0.1, 0.5, 0.95, 1.0 - 1e-9])
def test_noise_reaches_as_far_as_closed_forms_say(level: float) -> None:
    # One number of spherical noise is Laplace noise; one of three has tail (1 + t/2) e^-t.
    laplace = reach_of("laplace", level, 1.0, 1)
    assert reach_of("spherical", level, 1.0, 1) == pytest.approx(laplace, rel=1e-8)
    far = 2.0 * reach_of("spherical", level, 1.0, 3)
    assert (1.0 + far / 2.0) * math.exp(-far) == pytest.approx(1.0 - level, rel=1e-6)
    normal = reach_of("gaussian", level, 1.0, 1)
    assert reach_of("spherical", level, 1.0, 9_999) == pytest.approx(normal, rel=2e-3)


@pytest.mark.parametrize("deviation", [0.3, 2.0, 50.0])
def test_whole_numbers_reach_as_far_as_their_sum_says(deviation: float) -> None:
    ratio = math.exp(-1.0 / scale_of("discrete laplace", deviation, 1))
    steps = round(reach_of("discrete laplace", 0.9, deviation, 1) * deviation)
    weights = [ratio ** abs(k) for k in range(-5_000, 5_001)]
    within = [sum(weights[5_000 - n : 5_001 + n]) / sum(weights) for n in (steps - 1, steps)]
    assert within[1] >= 0.9
    assert steps == 0 or within[0] < 0.9
