"""The generalized chi-square law against mpmath, scipy and itself, far into both tails."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from chi_square_laws import question, wrong_quantile, wrong_tail
from ndis import GeneralizedChiSquare
from oracles.chi_square import BallExponent, ChiSquareLaw, inversion, ruben

LAWS = {
    "indefinite": GeneralizedChiSquare([1.0, -0.5, 2.0], [3, 2, 1], [0.0, 1.0, 0.5]),
    "with a normal": GeneralizedChiSquare([5.0, -3.0], [1, 1], [0.0, 2.0], sigma=0.3, shift=1.5),
    "small normal, large weights": GeneralizedChiSquare(
        [51.9, 0.0054, -2.66], [1, 0.5, 2], sigma=0.3
    ),
    "positive": GeneralizedChiSquare([0.1, 1.0, 7.0], [10, 2, 1], [0.3, 0.0, 4.0], shift=-2.0),
    "negative": GeneralizedChiSquare([-0.7, -0.2], [3, 2], [0.0, 0.8]),
    "many": GeneralizedChiSquare([1.0, -1.0], [500, 300]),
    "one": GeneralizedChiSquare([2.0], [1.0]),
}


def relative_error(log_value: float, reference: mpf) -> float:
    """Of the value down to 1e-300, of its logarithm below."""
    with mp.workdps(40):
        log_reference = mp.log(reference)
        if log_reference < -690:
            return float(abs(mpf(log_value) / log_reference - 1))
        return float(abs(mp.expm1(mpf(log_value) - log_reference)))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_both_tails_to_1e_300_and_beyond(name: str) -> None:
    law = LAWS[name]
    reference = ChiSquareLaw.of(
        law.weights.tolist(), law.dofs.tolist(), law.noncentralities.tolist(), law.sigma, law.shift
    )
    low, high = law.support()
    deepest = 0.0
    for z in (-1e4, -200, -20, -3, -1, -0.3, 0.0, 0.5, 2, 10, 60, 400, 1e5):
        x = law.mean() + z * law.std()
        if x <= low:
            x = low + (law.mean() - low) * 10 ** (z / 20)
        if x >= high:
            x = high - (high - law.mean()) * 10 ** (-z / 20)
        if not low < x < high:
            continue
        below, above = inversion(reference, mpf(x), 20, exponent_type=BallExponent)
        assert relative_error(float(law.logcdf(x)), below) < 1e-10, x
        assert relative_error(float(law.logsf(x)), above) < 1e-10, x
        deepest = min(deepest, float(law.logsf(x)), float(law.logcdf(x)))
    assert deepest < -690


def test_the_familiar_members_of_the_family() -> None:
    x = np.array([0.01, 0.5, 3.0, 20.0, 300.0])
    for dof in (1, 2, 2.5, 7):
        law, known = GeneralizedChiSquare([1.0], dof), stats.chi2(dof)
        for verb in ("cdf", "sf", "pdf"):
            assert getattr(law, verb)(x) == pytest.approx(getattr(known, verb)(x), rel=1e-11)
    shifted, known = GeneralizedChiSquare([1.0], 3, 2.0), stats.ncx2(3, 2.0)
    assert shifted.cdf(x[:4]) == pytest.approx(known.cdf(x[:4]), rel=1e-9)
    assert shifted.pdf(x[:4]) == pytest.approx(known.pdf(x[:4]), rel=1e-9)
    normal = GeneralizedChiSquare([0.0], sigma=2.0, shift=1.0)
    for verb in ("logcdf", "logsf", "logpdf"):
        expected = getattr(stats.norm(1.0, 2.0), verb)([-30.0, 0.0, 1.0, 50.0])
        assert getattr(normal, verb)([-30.0, 0.0, 1.0, 50.0]) == pytest.approx(expected, rel=1e-11)
    laplace = GeneralizedChiSquare([0.5, -0.5], 2)  # a difference of two exponentials
    points = np.array([-40.0, -1.0, 0.25, 700.0])
    assert laplace.logpdf(points) == pytest.approx(stats.laplace.logpdf(points), rel=1e-12)
    assert laplace.logcdf(points) == pytest.approx(stats.laplace.logcdf(points), rel=1e-12)
    assert laplace.pdf(0.0) == pytest.approx(0.5, rel=1e-9)


def test_density_against_the_slope_of_rubens_series() -> None:
    law = GeneralizedChiSquare([1.0, 2.0], [3, 2], [0.5, 0.0])
    reference = ChiSquareLaw.of([1.0, 2.0], [3, 2], [0.5, 0.0])
    with mp.workdps(60):
        for x in (0.001, 0.5, 5.0, 30.0):
            h = mpf(x) * mpf(10) ** -12
            rise = ruben(reference, x + h, 40).below - ruben(reference, x - h, 40).below
            assert law.pdf(x) == pytest.approx(float(rise / (2 * h)), rel=1e-11)


@pytest.mark.parametrize("name", LAWS)
def test_density_integrates_to_the_probability(name: str) -> None:
    law = LAWS[name]
    grid = np.linspace(law.mean(), law.mean() + 2 * law.std(), 4001)
    total = np.trapezoid(law.pdf(grid), grid)
    expected = law.cdf(grid[-1]) - law.cdf(grid[0])
    if name == "negative":  # its support ends inside the interval
        expected = law.sf(grid[0])
    assert total == pytest.approx(expected, rel=1e-5)


def test_the_edges_of_the_support() -> None:
    for dof, density in ((1.0, math.inf), (2.0, 0.25), (3.0, 0.0)):
        law = GeneralizedChiSquare([2.0], dof, shift=1.0)
        assert law.pdf(1.0) == pytest.approx(density)
        assert (law.pdf(0.999), law.cdf(1.0), law.sf(1.0)) == (0.0, 0.0, 1.0)
        assert law.support() == (1.0, math.inf)
        assert law.ppf([0.0, 1.0]).tolist() == [1.0, math.inf]
    cusp = GeneralizedChiSquare([1.0, -1.0])
    assert cusp.pdf(0.0) == math.inf
    assert cusp.cdf(0.0) == pytest.approx(0.5, rel=1e-12)
    # c x^(1/2) with c = 1/(2^(1/2) Gamma(3/2)) next to the end of the support of chi2(1).
    tiny = GeneralizedChiSquare([1.0]).logcdf(1e-300)
    assert tiny == pytest.approx(-345.38776394910684 - math.log(math.sqrt(math.pi / 2)), rel=1e-13)


def test_densities_at_the_constant_of_an_indefinite_law() -> None:
    """There the integrand falls as a power only. The difference of two laws at 0 is an integral."""
    for first, second, dofs in ((1.0, 2.0, (1.0, 2.0)), (3.0, 0.5, (2.0, 0.5)), (1, 1, (3.0, 4.0))):
        law = GeneralizedChiSquare([first, -second], dofs)
        with mp.workdps(30):
            a, b = (mpf(n) / 2 for n in dofs)
            # Two gamma densities multiplied: int x^(a+b-2) e^(-x (1/2w1 + 1/2w2)) dx.
            rate = 1 / (2 * mpf(first)) + 1 / (2 * mpf(second))
            truth = mp.gamma(a + b - 1) / rate ** (a + b - 1) / (mp.gamma(a) * mp.gamma(b))
            truth /= (2 * mpf(first)) ** a * (2 * mpf(second)) ** b
        assert law.pdf(0.0) == pytest.approx(float(truth), rel=1e-11)
        assert law.pdf([0.0, 1.0, -1e-20])[0] == law.pdf(0.0)  # nothing kills an array
    assert GeneralizedChiSquare([1.0, -1.0, 2.0]).pdf(0.0) == pytest.approx(0.26829550178734)
    small = GeneralizedChiSquare([1.0, -1.0], [0.5, 0.5])
    assert small.cdf(0.0) == pytest.approx(0.5, rel=1e-12)
    assert GeneralizedChiSquare([1.0, -1.0], [0.02, 0.02]).cdf(0.0) == pytest.approx(0.5, rel=1e-9)


def test_infinite_points_and_extreme_units() -> None:
    law = LAWS["indefinite"]
    assert law.cdf([-math.inf, math.inf]).tolist() == [0.0, 1.0]
    assert law.sf([-math.inf, math.inf]).tolist() == [1.0, 0.0]
    assert law.pdf([-math.inf, math.inf]).tolist() == [0.0, 0.0]
    unit = GeneralizedChiSquare([1.0, -1.0])
    for scale in (1e-170, 1e-300, 1e150):
        scaled = GeneralizedChiSquare([scale, -scale])
        assert scaled.ppf(0.7) / scale == pytest.approx(unit.ppf(0.7), rel=1e-12)
        assert scaled.std() / scale == pytest.approx(2.0)


def test_quantiles_near_a_finite_end() -> None:
    law = GeneralizedChiSquare([1.0, 2.0, 3.0])
    assert law.logcdf(law.ppf([1e-200, 1e-16])) == pytest.approx(np.log([1e-200, 1e-16]), rel=1e-12)
    assert law.ppf(1e-200) > 0
    moved = GeneralizedChiSquare([1.0, 2.0, 3.0], shift=1.0)
    assert moved.ppf([1e-200, 1e-9])[0] == 1.0
    assert moved.ppf(1e-9) - 1.0 == pytest.approx(law.ppf(1e-9), rel=1e-8)
    assert GeneralizedChiSquare([1.0], 0.01).ppf(1e-10) == 0.0  # the truth is 1e-2000


@pytest.mark.slow
def test_random_questions_at_and_off_the_edges_are_answered() -> None:
    """A share of benchmarks/check_chi_square.py, which asks ten thousand and takes the time."""
    for number in range(600):
        law, verb, x = question(number)
        answer = getattr(law, verb)(x)
        assert not np.isnan(answer), number
        if verb in ("ppf", "isf"):
            assert not wrong_quantile(law, verb, x, float(answer)), number
        elif verb != "pdf" and number % 60 in (1, 2) and math.isfinite(x):
            assert not wrong_tail(law, verb, x), number


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(sorted(LAWS)), st.floats(1e-12, 1 - 1e-12))
def test_quantiles_invert(name: str, q: float) -> None:
    law = LAWS[name]
    assert law.cdf(law.ppf(q)) == pytest.approx(q, rel=1e-9)
    assert law.sf(law.isf(q)) == pytest.approx(q, rel=1e-9)


def test_extreme_quantiles() -> None:
    law = LAWS["indefinite"]
    for q in (1e-300, 1e-100, 1e-20):
        assert law.logsf(law.isf(q)) == pytest.approx(math.log(q), rel=1e-12)
        assert law.logcdf(law.ppf(q)) == pytest.approx(math.log(q), rel=1e-12)
    positive = LAWS["positive"]
    assert positive.logcdf(positive.ppf(1e-40)) == pytest.approx(math.log(1e-40), rel=1e-9)


@settings(max_examples=30)
@given(
    st.lists(st.floats(-3, 3, width=32).filter(lambda w: abs(w) > 1e-3), min_size=1, max_size=4),
    st.floats(0, 2, width=32),
    st.floats(-30, 30, width=32),
)
def test_tails_add_up_and_scale(weights: list, sigma: float, x: float) -> None:
    law = GeneralizedChiSquare(weights, 1.0, 0.5, sigma)
    assert law.cdf(x) + law.sf(x) == pytest.approx(1.0, rel=1e-12)
    scaled = GeneralizedChiSquare(1024.0 * np.array(weights), 1.0, 0.5, 1024.0 * sigma)
    assert scaled.logsf(1024.0 * x) == pytest.approx(law.logsf(x), rel=1e-10, abs=1e-12)
    assert law.cdf(x) <= law.cdf(x + 0.5) * (1 + 1e-11)


def test_moments_and_draws() -> None:
    law = LAWS["with a normal"]
    draws = law.rvs(400_000, random_state=0)
    assert draws.mean() == pytest.approx(law.mean(), abs=5 * law.std() / 630)
    assert draws.var() == pytest.approx(law.var(), rel=0.03)
    assert np.mean(draws <= 2.0) == pytest.approx(law.cdf(2.0), abs=0.005)
    assert law.rvs((2, 3), random_state=1).shape == (2, 3)


def test_arrays_keep_their_shape() -> None:
    law = LAWS["indefinite"]
    points = np.linspace(-5, 5, 6).reshape(2, 3)
    assert law.cdf(points).shape == (2, 3)
    assert law.cdf(points)[1, 2] == law.cdf(points[1, 2])
    assert np.ndim(law.cdf(0.0)) == 0
    assert law.cdf([]).shape == (0,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GeneralizedChiSquare([0.0]), "neither"),
        (lambda: GeneralizedChiSquare([]), "neither"),
        (lambda: GeneralizedChiSquare([1.0], 0.0), "dofs=0.0"),
        (lambda: GeneralizedChiSquare([1.0], 1.0, -1.0), "noncentralities=-1.0"),
        (lambda: GeneralizedChiSquare([1.0], sigma=-1.0), "sigma=-1.0"),
        (lambda: GeneralizedChiSquare([1.0, 2.0], [1, 2, 3]), "(3,)"),
        (lambda: GeneralizedChiSquare([[1.0]]), "(1, 1)"),
        (lambda: GeneralizedChiSquare("weights"), "real numbers"),
        (lambda: GeneralizedChiSquare([math.nan]), "finite"),
        (lambda: LAWS["one"].cdf(math.nan), "finite"),
        (lambda: LAWS["one"].cdf("here"), "real numbers"),
        (lambda: LAWS["one"].ppf(1.5), "q=1.5"),
    ],
)
def test_bad_input_gets_one_sentence(make: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert words in str(caught.value)
    assert str(caught.value).startswith("Expected")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_tail_without_digits_is_not_made_up_from_the_other(sign: float) -> None:
    """A law that is nearly a constant: 1 less the common tail was rounding alone, or nothing."""
    weights, centers = [3.19625711e-4, 3.02435486e-15], [2.20742496e6, 3.85071436e13]
    law = GeneralizedChiSquare(sign * np.array(weights), [1.0, 1.0], centers)
    far = law.mean() + 10.0 * law.std() * np.array([-1.0, 1.0])
    for rare in (law.logcdf(far[0]), law.logsf(far[1])):
        # Ten deviations away: between the normal law's -53 and what its skewness makes of it.
        assert math.isnan(rare) or -60.0 < rare < -45.0


@pytest.mark.slow
@pytest.mark.parametrize("dofs", [1e7, 1e12])
def test_millions_of_degrees_of_freedom(dofs: float) -> None:
    """Quantiles were off by a third of a deviation, and probabilities NaN."""
    law = GeneralizedChiSquare([1.0], [dofs])
    points = law.mean() + law.std() * np.array([-3.0, 0.0, 2.0])
    assert law.cdf(points) == pytest.approx(stats.chi2.cdf(points, dofs), rel=1e-10)
    levels = np.array([1e-6, 0.3, 0.9])
    unit = 1e-11 + 1e-15 * dofs / law.std()  # of a deviation: that of a double
    assert np.all(np.abs(law.cdf(law.ppf(levels)) / levels - 1.0) < 60.0 * unit)
    assert np.all(np.abs(law.sf(law.isf(levels)) / levels - 1.0) < 60.0 * unit)
    mixed = GeneralizedChiSquare([1.0, -0.5], [dofs, 10 * dofs], [10.0, dofs], sigma=3.0)
    assert mixed.cdf(mixed.ppf(levels)) == pytest.approx(levels, rel=60.0 * unit)
    assert np.all(np.isfinite(mixed.logpdf(mixed.ppf(levels))))


@pytest.mark.parametrize("sigma", [1e-40, 1e-80, 1e-200, 1e-308])
def test_a_normal_part_that_is_next_to_nothing(sigma: float) -> None:
    """At the end of an exponential law it is seen: cdf(y sigma) = sigma/2 E[(y + Z)_+]."""
    law = GeneralizedChiSquare([1.0], [2.0], sigma=sigma)
    y = np.array([-3.0, -1.0, 0.0, 0.5, 3.0, 20.0])
    mean = y * stats.norm.cdf(y) + stats.norm.pdf(y)
    log_sigma = math.log(sigma)
    assert law.logcdf(sigma * y) - log_sigma == pytest.approx(np.log(mean / 2), abs=1e-9)
    assert law.logpdf(sigma * y) == pytest.approx(stats.norm.logcdf(y) - math.log(2.0), abs=1e-9)
    back = GeneralizedChiSquare([-1.0], [2.0], sigma=sigma)
    assert back.logsf(-sigma * y) == pytest.approx(law.logcdf(sigma * y), rel=1e-12)
    assert law.cdf([-1.0, 1.0, 50.0]) == pytest.approx(stats.chi2.cdf([-1.0, 1.0, 50.0], 2))
    assert law.logsf(1400.0) == pytest.approx(-700.0)
    levels = np.exp(log_sigma) * np.array([1e-3, 0.2, 5.0]) if sigma > 1e-300 else np.array([0.5])
    assert law.cdf(law.ppf(levels)) == pytest.approx(levels, rel=1e-9)


def test_a_normal_part_next_to_which_all_else_is_nothing() -> None:
    for weights in ([1.0], [1.0, -1.0], [1e-200]):
        law = GeneralizedChiSquare(weights, 3.0, sigma=1e308)
        levels = np.array([0.1, 0.3, 0.7, 0.9])
        assert law.ppf(levels) == pytest.approx(1e308 * stats.norm.ppf(levels), rel=1e-12)
        assert law.cdf(1e308) == pytest.approx(stats.norm.cdf(1.0), rel=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 1e-200, 1e-100, 1e-10, 1.0])
@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_far_out_a_tail_is_nothing_or_all(weight: float, sigma: float) -> None:
    law = GeneralizedChiSquare([weight], 3.0, sigma=sigma)
    far = np.array([1e100, 1e200, 1e300, 1e308])
    np.testing.assert_array_equal(law.cdf(far), 1.0)
    np.testing.assert_array_equal(law.sf(far), 0.0)
    np.testing.assert_array_equal(law.cdf(-far), 0.0)
    np.testing.assert_array_equal(law.sf(-far), 1.0)
    np.testing.assert_array_equal(law.logcdf(far), 0.0)
    np.testing.assert_array_equal(law.logsf(-far), 0.0)


def test_what_is_called_nothing_is_below_the_least_double() -> None:
    for t in (1500.0, 2000.0, 3000.0, 4000.0, 6000.0):
        for law in (*LAWS.values(), GeneralizedChiSquare([], sigma=1.0)):
            x = law.mean() + t * law.std()
            if law.sf(x) == 0.0:
                assert law.logsf(x) < -740.0


def test_quantiles_beyond_the_largest_double_are_infinite() -> None:
    law = GeneralizedChiSquare([1.0], 3.0, sigma=1e308)
    assert law.ppf(0.01) == -math.inf
    assert law.ppf(0.99) == math.inf
    assert law.ppf(0.9) == pytest.approx(1e308 * stats.norm.ppf(0.9), rel=1e-12)
