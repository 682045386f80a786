import math

import numpy as np
import pytest

from attacks import reached, survives
from laws import output_law
from ndis import Gaussian, GaussianOutput, Ledger, QuadraticLoss, Release, privacy_loss
from ndis.calibration import meets
from ndis.loss import Profile
from ndis.loss.posteriors import Envelope
from ndis.mechanisms import Target
from ndis.mechanisms.posterior import MOST, SMALLEST, Draws
from ndis.randomness import least_ridge
from posterior_pairs import linear_regression, linear_removals, worst_log_delta
from samplers import LEVEL, accepts_gaussian


def simple(**changes):
    """A mean of numbers in [-1, 1] with a fixed posterior variance."""

    def mean(data):
        return Gaussian([np.sum(data) / 100.0], [[0.01]])

    parameters = {
        "algorithm": mean,
        "epsilon": 1.0,
        "delta": 1e-6,
        "dimension": 1,
        "max_spread": 0.1,
        "mean_shift": lambda variance: 0.01 / math.sqrt(variance + 0.01),
        "rank": 1,
        "random_state": 7,
    }
    return GaussianOutput(**(parameters | changes))


# --- worst cases ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "n_draws"), [(0.0, 1), (0.5, 3), (1.0, 1), (8.0, 2)])
@pytest.mark.parametrize("kind", [{"rank": 1}, {"rank": 3}, {"eta": 0.5}])
def test_noise_is_private_and_the_least_for_its_pair(epsilon, n_draws, kind) -> None:
    def envelope(variance: float) -> Envelope:
        eta = kind.get("eta", math.inf) / variance
        return Envelope(variance**-0.5, 0.3 / variance, eta, kind.get("rank"))

    noise, found = Draws(Target(epsilon, 1e-6), n_draws).least_of(envelope)
    assert meets(found, epsilon, 1e-6)
    less = envelope((0.99 * noise) ** 2)
    loss = less.bound if less.rank is None else less.dominating
    for split in np.linspace(0.005, 0.995, 199):
        assert Profile.both(n_draws * loss(split)).log_delta(epsilon) > math.log(1e-6)


def test_without_a_mean_shift_the_pair_is_attained() -> None:
    noise, _ = Draws(Target(1.0, 1e-6)).least_of(lambda v: Envelope(0.0, 1.0 / v, rank=2))
    attained = QuadraticLoss.from_log_ratios([1.0 / noise**2] * 2)
    assert attained.log_delta(1.0) == pytest.approx(math.log(1e-6), abs=1e-6)


@pytest.mark.slow
def test_split_costs_little_against_the_worst_pair_of_the_envelope() -> None:
    """The mean along the variance that changes is the worst; the pair is 5% above it."""

    def envelope(variance: float) -> Envelope:
        return Envelope(variance**-0.5, math.log1p(0.2 / (variance + 0.8)), rank=1)

    noise, _ = Draws(Target(1.0, 1e-5)).least_of(envelope)
    at = envelope((noise / 1.05) ** 2)
    worst = QuadraticLoss(-math.expm1(at.kappa), at.mean_shift**2, 1.0)
    assert Profile.both(worst).delta(1.0) > 1e-5


# --- the wrapper ---------------------------------------------------------------------------------


def test_draws_follow_the_law() -> None:
    wrapper = simple(n_draws=4000)
    data = np.full(50, 0.5)
    draws = wrapper.fit(data).draws_
    law = output_law(wrapper, data)
    assert accepts_gaussian(draws, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(draws, law.mean, 1.3 * law.cov, LEVEL)


def test_several_draws_are_one_guarantee() -> None:
    one, many = simple(), simple(n_draws=9)
    assert many.calibrate() > one.calibrate()
    assert meets(many.guarantee().loss, 1.0, 1e-6)
    exact = 9 * QuadraticLoss.from_shift(0.01 / math.sqrt(many.calibrate() ** 2 + 0.01))
    assert float(exact.log_delta(1.0)) == pytest.approx(math.log(1e-6), abs=1e-6)


def test_a_law_that_is_private_as_it_is_gets_the_least_noise() -> None:
    assert simple(mean_shift=1e-6).calibrate() == pytest.approx(0.1 * 2**-10)


def test_the_wider_side_is_remembered() -> None:
    sides = [simple(kappa=0.01, wider=side).guarantee().loss for side in ("absent", "present")]
    assert sides[0] == sides[1].reversed()


def test_release_is_accounted_and_saved(tmp_path) -> None:
    ledger = Ledger.create(
        tmp_path / "book.jsonl", epsilon=2.0, delta=1e-5, relation="add-remove", accept=["declared"]
    )
    wrapper = simple(ledger=ledger, random_state=None).fit(np.zeros(3))
    assert wrapper.guarantee_.private
    loaded = Release.load(wrapper.release_.save(tmp_path / "release.npz"))
    assert loaded.guarantee == wrapper.guarantee_


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": None}, "eta or rank"),
        ({"kappa": -1.0}, "kappa"),
        ({"mean_shift": math.nan}, "mean_shift"),
        ({"n_draws": 0}, "n_draws"),
        ({"wider": "both"}, "wider"),
        ({"kappa": 1.0, "mean_shift": 0.1}, "cannot give that guarantee"),  # whatever the noise
        ({"epsilon": -1.0}, "epsilon"),
        ({"max_spread": 0.0}, "max_spread"),
        ({"max_spread": None}, "max_spread"),
        ({"dimension": None}, "dimension"),
        ({"dimension": MOST + 1}, "dimension"),
        ({"epsilon": None, "noise_scale": 1e-6}, "noise_scale"),
    ],
)
def test_bad_parameters_are_named(changes, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        simple(**changes).calibrate()


def test_a_wide_law_gives_nothing_away() -> None:
    """The law of issue A4, of standard deviation 15500: no value shows which neighbour it is."""

    def draw(neighbour, n):
        private = simple(
            algorithm=lambda data: Gaussian([float(np.sum(data))], [[15_500.0**2]]),
            max_spread=15_500.0,
            mean_shift=1.0 / 15_500.0,
            n_draws=n,
            epsilon=1.0,
            random_state=neighbour,
        )
        return private.fit(np.array([float(neighbour)])).draws_[:, 0]

    assert survives(draw, epsilon=1.0, delta=1e-4, looks=[reached(k, 15_500.0) for k in (0.0, 1.0)])


def test_a_law_beyond_its_spread_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(ValueError, match=r"at most max_spread=0\.01, got a wider one"):
        simple(max_spread=0.01).fit(np.ones(3))
    assert least_ridge(MOST * (1.0 + 2.0**-20), MOST) <= SMALLEST**2


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (([0.0, 0.0], np.eye(2) * 1e-4), "dimension=1, got another"),
        (([0.0], [[-1e-3]]), "semi-definite, got another"),
    ],
)
def test_a_law_that_was_not_declared_is_refused_without_a_figure(law, message) -> None:
    model = simple(algorithm=lambda _: law)
    with pytest.raises(ValueError, match=message):
        model.fit(np.ones(3))
    assert not hasattr(model, "release_")


def test_rounding_of_a_covariance_does_not_matter() -> None:
    """A variance of -1e-17, as subtraction leaves it, is as good as none."""
    assert simple(algorithm=lambda _: ([0.0], [[-1e-17]])).fit(np.ones(3)).draws_.shape == (1, 1)


# --- Bayesian linear regression ------------------------------------------------------------------


def linear(**changes):
    parameters = {
        "epsilon": 1.0, "delta": 1e-4, "data_norm": 1.0, "label_bound": 1.0, "max_rows": 40,
        "lam": 1.0, "noise_variance": 0.5, "n_features": 3,
    }  # fmt: skip
    return linear_regression(**(parameters | changes))


def within(rng, n: int, d: int):
    X = rng.standard_normal((n, d))
    return X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]


@pytest.mark.slow
def test_removals_in_closed_form_are_the_laws_themselves() -> None:
    rng = np.random.default_rng(3)
    X, y = within(rng, 12, 3), rng.uniform(-1, 1, 12)
    private, table = linear(), np.column_stack([X, y])
    losses = linear_removals(X, y, 1.0, 0.5, private.calibrate())
    full = output_law(private, table)
    for i in range(12):
        explicit = privacy_loss(full, output_law(private, np.delete(table, i, axis=0)))
        for e in (0.2, 1.0):
            assert losses[i].delta(e) == pytest.approx(explicit.delta(e), rel=1e-6, abs=1e-300)
            backward = explicit.reversed().delta(e)
            assert losses[i].reversed().delta(e) == pytest.approx(backward, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_linear_regression_keeps_its_promise(seed) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 41)), int(rng.integers(1, 5))
    noise_variance, lam = 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-1, 1)
    private = linear(noise_variance=noise_variance, lam=lam, n_features=d)
    X = within(rng, n, d)
    y = np.sign(X @ rng.standard_normal(d))
    y[0] = -y[0]
    losses = linear_removals(X, y, lam, noise_variance, private.calibrate())
    assert worst_log_delta(losses, 1.0) <= math.log(1e-4)


def test_linear_regression_enforces_its_bounds() -> None:
    private, rng = linear(n_features=2), np.random.default_rng(0)
    X, y = within(rng, 30, 2), rng.uniform(-1, 1, 30)
    law = output_law(private, np.column_stack([X, np.where(y > 0.5, 7.0, y)]))
    same = output_law(private, np.column_stack([X, np.where(y > 0.5, 1.0, y)]))
    assert np.array_equal(law.mean, same.mean)
    with pytest.raises(ValueError, match="at most max_rows=40 rows"):
        private.fit(np.zeros((41, 3)))
