"""The oracle against itself: every number by two routes that share nothing but the law."""

from collections.abc import Callable

import pytest
from mpmath import mp, mpf

from oracles import (
    ChiSquareLaw,
    Delta,
    ReferenceCase,
    Term,
    chi_square_cdf,
    chi_square_sf,
    convolution,
    delta_reference,
    equal_covariance_delta,
    inversion,
    load_cases,
    monte_carlo,
    projection_delta,
    ruben,
)
from oracles.chi_square import BallExponent

POSITIVE = ChiSquareLaw.of([1, 2, mpf("2.5")], [1, 2, 1], [0, mpf("0.5"), 3])
INDEFINITE = ChiSquareLaw.of([1, -1, mpf("1.5")], [1, 2, 1], [0, 0, 1])


def agree(one: mpf, two: mpf, digits: int) -> bool:
    with mp.workdps(2 * digits):
        return abs(one - two) <= mpf(10) ** -digits * abs(two)


def both_agree(one: tuple[mpf, mpf], two: tuple[mpf, mpf], digits: int) -> bool:
    return all(agree(a, b, digits) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("t", ["0.01", "5", "40", "1500"])
def test_series_and_inversion_agree_on_positive_weights(t: str) -> None:
    assert both_agree(ruben(POSITIVE, mpf(t)), inversion(POSITIVE, mpf(t)), 50)


def test_the_series_reaches_three_hundred_decades() -> None:
    above = ruben(POSITIVE, mpf(3900)).above
    assert mpf("1e-330") < above < mpf("1e-290")
    assert agree(above, inversion(POSITIVE, mpf(3900)).above, 50)


@pytest.mark.slow
@pytest.mark.parametrize("t", ["-20", "0", "5", "1500"])
def test_inversion_does_not_depend_on_the_ray_or_on_the_arithmetic(t: str) -> None:
    value = inversion(INDEFINITE, mpf(t), 40)
    other = inversion(INDEFINITE, mpf(t), 40, bend=0.5, exponent_type=BallExponent)
    assert both_agree(value, other, 40)


@pytest.mark.slow
@pytest.mark.parametrize("t", ["-3", "5"])
def test_inversion_agrees_with_the_convolution(t: str) -> None:
    assert agree(convolution(INDEFINITE, mpf(t)), inversion(INDEFINITE, mpf(t)).above, 12)


def test_a_gaussian_part_alone_is_the_normal_law() -> None:
    above = chi_square_sf([], [], [], 2, 7, shift=1)
    below = chi_square_cdf([], [], [], 2, 7, shift=1)
    with mp.workdps(60):
        assert agree(above, mp.erfc(3 / mp.sqrt(2)) / 2, 50)
        assert agree(below, 1 - above, 50)


def test_a_bounded_law_ends_where_its_support_ends() -> None:
    assert chi_square_sf([-1, -2], [1, 3], [0, 0], 0, mpf(0)) == 0
    assert 0 < chi_square_sf([-1, -2], [1, 3], [0, 0], 0, mpf("-1e-30")) < mpf("1e-50")


@pytest.mark.parametrize(
    ("distance", "eps"), [(1e-4, 0.0), (1e-4, 0.05), (1.0, 1.0), (20.0, 2000.0), (20.0, 0.0)]
)
def test_general_route_gives_the_closed_form_of_a_mean_shift(distance: float, eps: float) -> None:
    general = delta_reference([Term.from_ratio(1.0, distance)], eps)
    assert both_agree(general, equal_covariance_delta(distance, eps), 50)


@pytest.mark.parametrize(
    ("leverage", "components", "eps"),
    [
        (0.5, 1, 0.0),
        (0.01, 100, 0.1),
        (1e-9, 1_000_000, 1e-5),
        (1 - 1e-9, 3, 5.0),
        (0.3, 1300, 100.0),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_general_route_gives_the_closed_form_of_a_projection(
    leverage: float, components: int, eps: float, reverse: bool
) -> None:
    term = Term.from_leverage(leverage, components)
    general = delta_reference([term.reversed() if reverse else term], eps, tails=inversion)
    assert both_agree(general, projection_delta(leverage, components, eps, reverse), 50)


def test_the_ways_to_give_a_ratio_agree() -> None:
    with mp.workdps(80):
        terms: list[Callable[[], Delta]] = [
            lambda: delta_reference([Term.from_ratio(1.5, 0.5, 2)], 0.75),
            lambda: delta_reference([Term.from_excess(0.5, 2 * 1.5 * 0.25, 2)], 0.75),
            lambda: delta_reference([Term.from_ratio(1.5, 0.5).repeated(2)], 0.75),
            lambda: delta_reference([Term.from_ratio(1.5, 0.5, 2).reversed().reversed()], 0.75),
        ]
        first, *others = [make() for make in terms]
        assert all(both_agree(other, first, 48) for other in others)
    log_ratio = delta_reference([Term.from_log_ratio(0.25, 0.5)], 0.75)
    with mp.workdps(80):
        ratio = Term(lambda: mp.exp(mpf("0.25")), lambda: mpf("0.25") * mp.exp(mpf("-0.25")))
    assert both_agree(delta_reference([ratio], 0.75), log_ratio, 48)


@pytest.mark.slow
def test_reversing_is_the_identity_of_the_two_profiles() -> None:
    """delta(-eps) = 1 - e^-eps + e^-eps delta_rev(eps)."""
    terms = [Term.from_ratio(1.75, 0.25), Term.from_ratio(0.5)]
    backward = delta_reference([term.reversed() for term in terms], 0.75).value
    with mp.workdps(70):
        expected = 1 - mp.exp(mpf("-0.75")) * (1 - backward)
        assert agree(delta_reference(terms, -0.75).value, expected, 48)


@pytest.mark.parametrize("eps", [0.0, 0.5, 2.0])
def test_monte_carlo_agrees_within_its_error(eps: float) -> None:
    terms = [Term.from_ratio(2.0, 0.5), Term.from_ratio(0.5, 0.25), Term.from_ratio(1.0, 0.5)]
    estimate, error = monte_carlo(terms, eps, samples=200_000)
    exact = float(delta_reference(terms, eps, 20).value)
    assert 0 < error < 0.01 * max(exact, 0.05)
    assert abs(estimate - exact) < 4.5 * error


CASES = load_cases()
SMALL = [case for case in CASES if len(case.loss.values) <= 3]


@pytest.mark.parametrize("case", SMALL[:: len(SMALL) // 8], ids=lambda case: case.name)
def test_the_table_is_what_the_oracle_says_today(case: ReferenceCase) -> None:
    live = delta_reference(case.loss.terms(), case.eps, 25)
    if live.value == 0:
        assert case.log_delta == -mp.inf
    else:
        assert agree(live.value, case.delta, 22)
        assert agree(live.complement, case.complement, 22)


def test_the_table_covers_the_promised_grid() -> None:
    finite = [case for case in CASES if case.log_delta > -mp.inf]
    assert len(CASES) > 1000
    assert min(case.log_delta for case in finite) < -90_000
    assert min(case.complement for case in finite) < mpf("1e-11")
    assert {0.0, 2000.0} <= {case.eps for case in CASES}
    assert {case.loss.fold for case in CASES} >= {1, 10, 1000, 1_000_000}
    assert {len(case.loss.values) for case in CASES} >= {1, 2, 3, 5, 10, 20, 50, 100, 200, 500}
    assert {case.loss.form for case in CASES} == {
        "shift", "leverage", "excess", "log_ratio", "ratio",
    }  # fmt: skip
    assert len(CASES) > len(finite)  # some deltas are exactly zero
