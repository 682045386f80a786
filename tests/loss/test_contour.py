"""Every cell of the committed table of reference values, which an independent route computed."""

import math
from collections import defaultdict

import numpy as np
import pytest
from mpmath import mp, mpf

from ndis import QuadraticLoss
from ndis.loss.quadratic import _rounded
from oracles import ReferenceCase, ReferenceLoss, load_cases

CASES = load_cases()
SMALLEST = -690.7755  # ln 1e-300
# These forms are the engine's own numbers or their square roots: nothing is rounded on the way in.
EXACT_FORMS = ("excess", "shift")


def from_ratios(ratios: np.ndarray, shifts: np.ndarray, counts: np.ndarray) -> QuadraticLoss:
    """Directions by their ratios of variances, which are rounded as in `from_log_ratios`."""
    return _rounded(np.where(ratios >= 1, ratios - 1, (ratios - 1) / ratios), shifts, counts)


def engine_loss(loss: ReferenceLoss) -> QuadraticLoss:
    """The loss as a user would write it."""
    values, shifts, counts = map(np.array, (loss.values, loss.shifts, loss.counts))
    made = {
        "shift": lambda: QuadraticLoss.from_shift(values[0]),
        "leverage": lambda: QuadraticLoss.from_leverage(values[0], counts[0]),
        "excess": lambda: QuadraticLoss(values, shifts, counts),
        "log_ratio": lambda: QuadraticLoss.from_log_ratios(values, shifts, counts),
        "ratio": lambda: from_ratios(values, shifts * np.sqrt(np.maximum(values, 1.0)), counts),
    }[loss.form]()
    composed = loss.fold * made
    return composed.reversed() if loss.reversed else composed


def relative_error(case: ReferenceCase, log_delta: float) -> float:
    """Of delta down to 1e-300, of ln delta (in units of 1e-2) below."""
    with mp.workdps(50):
        if case.log_delta < SMALLEST:
            return float(abs(mpf(log_delta) / case.log_delta - 1) / 100)
        if case.complement_text is not None:
            return float(abs(mp.exp(mpf(log_delta)) / case.delta - 1))
        return float(abs(mp.expm1(mpf(log_delta) - case.log_delta)))


def allowance(case: ReferenceCase) -> float:
    """1e-12, and what the factory's own rounding of its argument does to an ill-posed delta."""
    # A leverage is stored rounded up by four units and may lose another two on the way.
    units = {"leverage": 12.0}.get(case.loss.form, 4.0)
    rounding = 0.0 if case.loss.form in EXACT_FORMS else units * 2.0**-53 * case.condition
    return 1e-12 + rounding


def by_form() -> dict[str, list[ReferenceCase]]:
    groups = defaultdict(list)
    for case in CASES:
        groups[case.loss.form].append(case)
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shift", "leverage", "excess", "log_ratio", "ratio"])
def test_every_cell_of_the_table(form: str) -> None:
    cases = by_form()[form]
    assert len(cases) > 20
    failures = []
    for case in cases:
        value = float(engine_loss(case.loss).log_delta(case.eps))
        allowed = allowance(case)
        if allowed > 1e-3:
            continue  # the argument's last bit decides whether delta is 0
        zero = case.log_delta == -mp.inf
        error = (0.0 if value == -math.inf else math.inf) if zero else relative_error(case, value)
        if not error <= allowed:
            failures.append((case.name, float(case.log_delta), value, error))
    assert not failures


@pytest.mark.slow
def test_no_delta_of_a_leverage_is_below_the_truth() -> None:
    for case in by_form()["leverage"]:
        value = float(engine_loss(case.loss).log_delta(case.eps))
        room = 1e-12 if case.log_delta > SMALLEST else 1e-10 * float(abs(case.log_delta))
        assert case.log_delta == -mp.inf or value >= float(case.log_delta) - room, case.name


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shift", "leverage", "excess", "log_ratio", "ratio"])
def test_proven_bounds_enclose_the_table(form: str) -> None:
    """The truth of the arguments as given: what a factory rounds is inside."""
    cases = [case for case in by_form()[form] if len(case.loss.values) <= 10][::7]
    assert len(cases) > 5
    for case in cases:
        low, high = engine_loss(case.loss).log_delta_bounds(case.eps)
        assert low <= case.log_delta <= high, case.name
        if case.log_delta > SMALLEST:
            # The step of `nearness` is in proportion to the error and to ln delta.
            step = 100.0 * (50.0 + abs(high)) * 2.0**-53
            width = 1e-12 + 1e-14 * abs(high) + step * case.condition
            # Wider than that, the argument's last bit decides whether delta is 0.
            assert width > 1.0 or high - low <= width, case.name


def test_a_path_that_leaves_the_valley_is_not_believed() -> None:
    # Found by search: a steep path converged here to ln delta = 86.
    loss = QuadraticLoss(
        [-4.206101718811726, -5.034551435357305, 85.55011754997886, 39.37015256884253, 16.7001],
        [0.0, 0.0, 8.35606587476338e-06, 0.41078883414614764, 7.512155313049157],
        [1000.0, 10.0, 2.0, 10.0, 10.0],
    )
    low, high = loss.log_delta_bounds(778.375544984509)
    assert low - 1e-12 <= loss.log_delta(778.375544984509) <= high + 1e-12
    assert high < 0


@pytest.mark.parametrize(
    ("excess", "shift", "count", "eps"),
    [
        (
            ["0x1.276d798d1e81bp+0", "0x1.1a79ddaf34150p+2", "0x1.b7e2db5085ea9p+2",
             "0x1.32be193d4afdcp+4"],
            ["0x0.0p+0", "0x0.0p+0", "0x1.f33aa5d2a45d9p-17", "0x1.e397724e4f917p-6"],
            [1.0, 1000.0, 10.0, 1.0],
            "0x1.1856662c963bbp+11",
        ),
    ],
)  # fmt: skip
def test_nodes_that_do_not_see_an_oscillation_are_not_trusted(
    excess: list[str], shift: list[str], count: list[float], eps: str
) -> None:
    x, h = ([float.fromhex(v) for v in values] for values in (excess, shift))
    loss, at = QuadraticLoss(x, h, count), float.fromhex(eps)
    low, high = loss.log_delta_bounds(at)
    assert low - 1e-12 <= float(loss.log_delta(at)) <= high + 1e-12
