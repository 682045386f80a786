"""What every kind of privacy loss must do, a check for each sentence of the contract.

`check(loss, folder, members)`: `members` are exact losses that `loss` dominates, such as the pairs
of a family. They are the truth against which compositions and trade-offs are compared; `folder`
is an empty one.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ndis import Guarantee, Ledger, NeighbourRelation, Profile, QuadraticLoss, TabulatedLoss
from ndis._validate import FloatArray
from ndis.auditing import audit_loss
from ndis.loss import PrivacyLoss, from_dict

EPSILONS = np.array([-2.0, -0.3, 0.0, 0.05, 0.4, 1.0, 2.5, 7.0])
LARGE = np.array([20.0, 100.0, 500.0, 3000.0])
DELTAS = np.array([0.4, 1e-2, 1e-5, 1e-9])
ALPHAS = np.array([0.0, 1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.8, 0.99, 1.0])
# Values of exact losses are good to this; so are comparisons of what has been rounded twice.
LITTLE = 1e-9

Check = Callable[..., None]
LOSS_CHECKS: dict[str, Check] = {}


def contract(check: Check) -> Check:
    """Make a function a check, named as it reads."""
    LOSS_CHECKS[check.__name__.replace("_", " ")] = check
    return check


def bounds(loss: PrivacyLoss, epsilon: Any) -> tuple[FloatArray, FloatArray]:
    """Proven bounds on ln delta, computed once."""
    return _bounds(loss, tuple(np.ravel(epsilon).tolist()), np.ndim(epsilon))


@functools.lru_cache(maxsize=4096)  # several checks ask the same, and families take seconds
def _bounds(
    loss: PrivacyLoss, epsilons: tuple[float, ...], ndim: int
) -> tuple[FloatArray, FloatArray]:
    low, high = loss.log_delta_bounds(np.array(epsilons) if ndim else epsilons[0])
    return np.asarray(low), np.asarray(high)


def no_less(upper: Any, lower: Any) -> bool:
    """Whether logarithms of deltas are in order, up to the digits that they have."""
    upper, lower = np.asarray(upper), np.asarray(lower)
    room = np.where(np.isfinite(lower), LITTLE * np.maximum(1.0, np.abs(lower)), 0.0)
    return bool(np.all((upper >= lower - room) | (lower == -np.inf)))


@contract
def says_how_exact_it_is(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """It says whether it is exact, whether it is quick, and by what it is dominated."""
    assert loss.exactness in ("exact", "upper bound")
    assert isinstance(loss.quick, bool)
    assert isinstance(loss.dominating(), TabulatedLoss)


@contract
def bounds_enclose_and_fall(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """Proven bounds are in order, no lower than those of equal laws, and fall."""
    low, high = bounds(loss, EPSILONS)
    assert low.shape == high.shape == EPSILONS.shape
    assert np.all(low <= high)
    assert np.all(high <= 0.0)
    # No pair of laws is below two equal ones, whose delta is 1 - e^epsilon.
    trivial = np.log(-np.expm1(np.minimum(EPSILONS, -1e-300)))
    assert no_less(high[EPSILONS < 0], trivial[EPSILONS < 0])
    assert no_less(high[:-1], low[1:])
    one_low, one_high = loss.log_delta_bounds(0.4)
    assert np.ndim(one_low) == np.ndim(one_high) == 0
    for member in members:
        assert no_less(high, bounds(member, EPSILONS)[0])


@contract
def delta_is_the_value_or_the_upper_bound(
    loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()
) -> None:
    """Delta is the value of an exact loss, and the upper bound of another."""
    low, high = bounds(loss, EPSILONS)
    value = np.asarray(loss.log_delta(EPSILONS))
    assert no_less(high, value)
    assert no_less(value, low if loss.exactness == "exact" else high)
    np.testing.assert_allclose(loss.delta(EPSILONS), np.exp(value), rtol=1e-12)


@contract
def log_delta_is_minus_infinity_only_where_delta_is_0(
    loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()
) -> None:
    """An ln delta of -inf means a delta of 0."""
    epsilons = np.concatenate([EPSILONS, LARGE])
    zero = np.asarray(loss.log_delta(epsilons)) == -np.inf
    assert np.all(bounds(loss, epsilons[zero])[1] == -np.inf)
    assert np.all(epsilons[zero] >= float(loss.supremum()) * (1 - 1e-9))
    # Whatever is zero is seen so by the losses that it dominates.
    for member in members:
        assert np.all(np.asarray(member.log_delta(epsilons[zero])) == -np.inf)


@contract
def epsilon_is_safe(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """At the epsilon of a delta, that delta is proven."""
    many = np.geomspace(1e-7, 0.5, 17)
    for deltas in (DELTAS, many) if loss.quick else (DELTAS,):
        epsilons = np.asarray(loss.epsilon(deltas))
        rising = epsilons if deltas is DELTAS else epsilons[::-1]
        assert np.all(rising[:-1] <= rising[1:])
        finite = np.isfinite(epsilons)
        few = np.flatnonzero(finite)[:: max(1, finite.sum() // 4)]
        for i in few:
            high = float(loss.log_delta_bounds(epsilons[i])[1])
            assert high <= math.log(deltas[i]) + 1e-13 * abs(math.log(deltas[i]))
    at_zero = float(loss.epsilon(0.0))
    assert at_zero == math.inf or float(loss.log_delta_bounds(at_zero * (1 + 1e-9))[1]) == -math.inf
    assert np.shape(loss.epsilon(1e-3)) == ()


@contract
def epsilon_is_tight(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """A hundredth less would not do."""
    for delta in DELTAS:
        epsilon = float(loss.epsilon(delta))
        if 1e-6 < epsilon < math.inf:
            assert float(loss.log_delta(0.99 * epsilon)) > math.log(delta) - 1e-9


@contract
def tradeoff_is_below_the_truth_and_convex(
    loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()
) -> None:
    """The trade-off curve falls, is convex, and promises no more than is true."""
    curve = np.asarray(loss.tradeoff(ALPHAS))
    assert np.all(curve >= 0.0)
    assert np.all(curve <= 1.0 - ALPHAS)
    assert np.all(np.diff(curve) <= 0.0)
    slopes = np.diff(curve) / np.diff(ALPHAS)
    assert np.all(np.diff(slopes) >= -1e-6 * np.abs(slopes[1:]))
    assert np.shape(loss.tradeoff(0.1)) == ()
    for truth in (loss, *members[:2]):
        # delta falls: on [a, b] no line is above 1 - delta(b) - e^a alpha.
        ends = np.linspace(-6.0, 6.0, 33 if truth.quick else 13)
        below = np.exp(bounds(truth, ends)[0])
        lines = 1.0 - np.append(below[1:], 0.0) - np.exp(ends) * ALPHAS[:, None]
        most = np.maximum(lines.max(axis=1), (1.0 - below[0]))
        assert np.all(curve <= most + 1e-12)


@contract
def reversed_twice_is_itself(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """The other direction's other direction is itself, and both fit together."""
    back = loss.reversed()
    assert back.reversed() == loss
    # delta(-eps) = 1 - e^-eps + e^-eps delta_reversed(eps), at least in the proven bounds
    eps = np.array([0.0, 0.3, 1.0])
    below, above = (np.exp(bound) for bound in bounds(back, eps))
    low, high = (np.exp(bound) for bound in bounds(loss, -eps))
    assert np.all(-np.expm1(-eps) + np.exp(-eps) * below <= high * (1 + LITTLE))
    assert np.all(-np.expm1(-eps) + np.exp(-eps) * above >= low * (1 - LITTLE))


@contract
def dominating_dominates(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """The dominating table is nowhere below, with its Gaussian part or without."""
    for way, truths in (
        (loss, (loss, *members)),
        (loss.reversed(), (loss.reversed(), *(member.reversed() for member in members))),
    ):
        table = way.dominating()
        above = bounds(table, EPSILONS)[1]
        for truth in truths:
            assert no_less(above, bounds(truth, EPSILONS)[0])
        alone = table.without_gaussian()
        assert alone.exact is None
        assert no_less(bounds(alone, EPSILONS)[1], bounds(way, EPSILONS)[0])


@contract
def composition_is_never_below_the_truth(
    loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()
) -> None:
    """Sums and multiples are no less than each part, nor than compositions of members."""
    shift = QuadraticLoss.from_shift(0.3)
    table = TabulatedLoss(0.25, -1, [0.3, 0.2, 0.499], 0.001, 0.03)
    epsilons = np.array([0.0, 0.4, 1.0, 2.5])
    totals = [(loss + shift, shift), (shift + loss, shift), (loss + table, table)]
    for total, other in totals:
        assert isinstance(total, PrivacyLoss)
        above = bounds(total, epsilons)[1]
        assert no_less(above, bounds(loss, epsilons)[0])
        assert no_less(above, other.log_delta(epsilons))
    for member in members:
        for total, truth in (
            (loss + shift, member + shift),
            (2 * loss, 2 * member),
            (loss + loss, 2 * member),
            (loss * 3, 3 * member),
        ):
            assert no_less(bounds(total, epsilons)[1], bounds(truth, epsilons)[0])
    assert 1 * loss == loss


@contract
def renyi_divergences_bound_delta(
    loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()
) -> None:
    """Divergences rise with their order, and bound delta."""
    orders = np.array([1.05, 1.5, 3.0, 8.0])
    divergences = np.asarray(loss.renyi(orders))
    assert np.all(divergences >= -1e-12)
    assert np.all(np.diff(divergences[np.isfinite(divergences)]) >= -1e-9)
    s = orders - 1.0
    for truth in (loss, *members):
        low = bounds(truth, np.array([0.4, 1.0]))[0]
        for epsilon, below in zip((0.4, 1.0), low, strict=True):
            above = s * (divergences - epsilon) - s * np.log1p(1 / s) - np.log1p(s)
            assert np.all(below <= above + LITTLE)


@contract
def round_trip(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """What is stored is read back: a kind that has a name as itself, another as its table."""
    again = from_dict(json.loads(json.dumps(loss.to_dict())))
    stored = loss if type(again) is type(loss) else loss.dominating()
    assert again == stored
    assert hash(again) == hash(stored)
    assert np.array_equal(again.log_delta(EPSILONS), stored.log_delta(EPSILONS))
    assert no_less(bounds(again, EPSILONS)[1], bounds(loss, EPSILONS)[0])


@contract
def spendable_in_both_modes(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """A ledger takes it, in either mode."""
    delta = 1e-5
    epsilon = max(float(Profile([*loss.directions()]).epsilon(delta)), 1e-3)
    if not math.isfinite(epsilon):
        return  # nothing is promised, so that nothing can be paid
    promise = Guarantee(epsilon, delta, NeighbourRelation.ADD_REMOVE, "proven", loss)
    budget = 8.0 * epsilon
    with Ledger.create(folder / "adaptive", budget, 4 * delta, "add-remove") as ledger:
        before = ledger.remaining().epsilon
        ledger.spend(promise, "once")
        ledger.spend(promise, "twice")
        assert ledger.remaining().epsilon <= before
        assert ledger.verify() == 2
    with Ledger.create(folder / "plan", budget, 4 * delta, "add-remove", mode="plan") as ledger:
        ledger.plan([promise, promise])
        ledger.spend(promise, "once")
        ledger.spend(promise, "twice")
        assert ledger.verify() == 2


@contract
def no_true_claim_is_refuted(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """An auditor finds nothing against a claim that it makes."""
    delta = float(np.max([np.exp(bounds(way, 0.7)[1]) for way in loss.directions()]))
    claim = (0.7, min(delta * (1 + 1e-12), 1.0))
    try:
        assert not audit_loss(loss, claim).refuted
    except ValueError as error:
        assert loss.exactness == "upper bound"
        assert "cannot refute" in str(error)  # noqa: PT017


@contract
def export_is_never_below(loss: PrivacyLoss, folder: Path, members: Sequence[Any] = ()) -> None:
    """In the accounting library it is no less."""
    if find_spec("dp_accounting") is None:
        return  # nothing to export to
    from ndis.interop.dp_accounting import to_pld

    present, absent = loss.directions() if len(loss.directions()) == 2 else (loss, loss.reversed())
    pld = to_pld(Profile([present, absent]), step=2.0**-7)
    # Members are about the pair; about the other direction only where that is the reversed pair.
    both = members if absent == present.reversed() else []
    turned = [member.reversed() for member in both]
    for pmf, way, truths in ((pld._pmf_remove, present, both), (pld._pmf_add, absent, turned)):
        for epsilon in (0.0, 0.0123, 0.4, 1.0, 3.0):
            exported = pmf.get_delta_for_epsilon(epsilon)
            for truth in (way, *truths):
                assert exported >= float(truth.delta_bounds(epsilon)[0])
            if way.exactness == "exact":
                assert exported >= float(way.delta(epsilon)) * (1 - LITTLE)
