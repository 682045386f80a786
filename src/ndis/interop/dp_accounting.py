"""Google's dp-accounting: our losses as its distributions and events, and its as our losses.

A loss goes out as a pessimistic table (connect the dots: a polygon through points on or above the
curve lies on or above it), both directions. A distribution comes in as its own masses, raised by
what its double precision may have lost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss, SphericalLoss, TabulatedLoss

with _validate.installed("dp-accounting", "'ndis[interop]'"):
    import attr
    import dp_accounting as google
    from dp_accounting.pld import privacy_loss_distribution as distributions
    from dp_accounting.pld.pld_pmf import DensePLDPmf

__all__ = ["LossAccountant", "LossDpEvent", "event_of", "from_opacus", "from_pld", "to_pld"]

# Where the exported curve promises its relative accuracy.
_SMALLEST_DELTA = 1e-12
_MOST_POINTS = 1 << 21
# What dp-accounting's sums over some 10^5 doubles may lose, relatively, and its differences of
# deltas, absolutely.
_MARGIN = 1e-8
_LOST = 1e-14

_RELATIONS = {
    NeighbourRelation.ADD_REMOVE: google.NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighbourRelation.REPLACE: google.NeighboringRelation.REPLACE_ONE,
}


# -- out -----------------------------------------------------------------------------------------


def to_pld(
    loss: PrivacyLoss, *, accuracy: float = 1e-6, step: float | None = None
) -> distributions.PrivacyLossDistribution:
    """A loss as a pessimistic `PrivacyLossDistribution`.

    Parameters
    ----------
    loss : PrivacyLoss
        A profile of two directions, record present first, or a loss that stands for itself and
        its reverse.
    accuracy : float, default 1e-6
        Relative excess over the exact curve that is allowed where delta >= 1e-12.
    step : float, optional
        Discretisation, if it must agree with that of other distributions; chosen to meet
        `accuracy` if not given, a power of two. dp-accounting finds epsilons by adding steps up,
        which is exact for a power of two alone.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        Never below the curve, at any epsilon >= 0: an upper bound on delta is computed at every
        point of the grid, chords of a curve that is convex in e^epsilon lie above it, and what
        double precision may lose is added (proof: docs/proofs/pld.md). A loss that is not quick
        goes out as the table that dominates it. About 10 us per point. That is a promise about the
        distribution as it is returned: compositions made inside dp-accounting were found below the
        exact curve by up to 2e-6, relatively. Compose losses first, and export their sum.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.interop.dp_accounting import to_pld
    >>> sketch = QuadraticLoss.from_leverage(0.01, n_components=100)
    >>> ratio = to_pld(sketch).get_delta_for_epsilon(0.3) / sketch.delta(0.3)
    >>> bool(1.0 <= ratio <= 1.0 + 1e-6)
    True
    """
    share = _validate.probability("accuracy", accuracy)
    present, absent = directions = _directions(loss)
    readable = [way if way.quick else way.dominating().without_gaussian() for way in directions]
    chosen = _fine_step(readable, share) if step is None else _validate.positive("step", step)
    first, second = _tables(readable[0], share, chosen)
    if absent != present.reversed():
        second, _ = _tables(readable[1], share, chosen)
    return distributions.PrivacyLossDistribution(_mass_function(first), _mass_function(second))


def _directions(loss: PrivacyLoss) -> tuple[PrivacyLoss, PrivacyLoss]:
    ways = loss.directions()
    if len(ways) != 2:
        raise ValueError(
            f"Expected a profile of two directions, got {len(ways)}; "
            "export the directions of one pair of neighbours at a time."
        )
    return ways[0], ways[1]


def _fine_step(losses: list[PrivacyLoss], accuracy: float) -> float:
    """A power of two at which no chord exceeds the worse curve by more than the accuracy.

    Over a step h the chord of D(x), x = e^eps, exceeds D by at most (h x)^2 D''/8, and
    x^2 D'' = D'' - D' in eps: relative to D about s^2 + s with s the slope of -ln D.
    """
    last = max(_end(loss, _SMALLEST_DELTA) for loss in losses)
    steepest = 1.0
    if last > 0:
        grid = np.linspace(0.0, last, 129)
        heights = np.max([loss.upper_log_delta(grid) for loss in losses], axis=0)
        steepest = max(steepest, float(np.max(-np.diff(heights) / np.diff(grid))))
    h = math.sqrt(4.0 * accuracy / (steepest**2 + steepest))
    return float(2.0 ** math.floor(math.log2(h)))


def _tables(loss: PrivacyLoss, accuracy: float, step: float) -> tuple[TabulatedLoss, TabulatedLoss]:
    """The table of a loss, and of its reverse from the same deltas.

    Reversing the first would give up what lies beyond a loss of 600.
    """
    pair = loss, loss.reversed()
    negligible = _SMALLEST_DELTA * accuracy * 1e-3
    ends = [_end(direction, negligible) for direction in pair]
    high = max(*ends, step)
    if high / step > _MOST_POINTS:
        raise ValueError(
            f"Expected a table of at most {_MOST_POINTS} points a direction, got epsilons up to "
            f"{high:.3g} in steps of {step:.3g}; pass a larger step, or a larger accuracy."
        )
    epsilons: FloatArray = step * np.arange(math.ceil(high / step) + 1, dtype=np.float64)
    margin = 1.0 + _rounding(step, 2.0 * epsilons.size)
    present, absent = (
        np.minimum(_deltas(direction, epsilons, end) * margin, 1.0)  # delta <= 1 is a theorem
        for direction, end in zip(pair, ends, strict=True)
    )

    def table(after: FloatArray, before: FloatArray) -> TabulatedLoss:
        return TabulatedLoss.from_profile(
            lambda points: after[: points.size],
            lambda points: before[: points.size],
            step=step,
            high=high,
        )

    return table(present, absent), table(absent, present)


def _deltas(loss: PrivacyLoss, epsilons: FloatArray, end: float) -> FloatArray:
    """The curve up to the end; the last value, hence above the curve, beyond it."""
    points, place = np.unique(np.minimum(epsilons, end), return_inverse=True)
    result: FloatArray = np.exp(loss.upper_log_delta(points))[place]
    return result


def _end(loss: PrivacyLoss, delta: float) -> float:
    """Where delta has fallen this far, or where only what is infinite is left."""
    found = float(loss.epsilon(delta))
    return found if math.isfinite(found) else loss.dominating().end()


def _rounding(step: float, points: float) -> float:
    """A relative bound on what double precision loses between our deltas and dp-accounting's.

    docs/proofs/pld.md: 16 (1 + 1/h) roundings in the masses, which are second differences of the
    curve over a step h, and one for each point in the sum that reads them; doubled.
    """
    unit = 0.5 * float(np.finfo(np.float64).eps)
    return 2.0 * unit * (16.0 * (1.0 + 1.0 / step) + points + 8.0)


def _mass_function(table: TabulatedLoss) -> Any:
    return DensePLDPmf(table.step, table.start, table.mass, table.infinite, True)


# -- in ------------------------------------------------------------------------------------------


def from_pld(pld: distributions.PrivacyLossDistribution) -> Profile:
    """A distribution of dp-accounting as a loss that the ledger can count.

    Parameters
    ----------
    pld : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic one, of one mechanism or of several composed; an optimistic one is refused.

    Returns
    -------
    Profile
        Both directions, removal first: the distribution's own masses, raised by 1e-8 of each, and
        1e-14 that is counted as infinite, for what its arithmetic may have lost.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution
    >>> from ndis.interop.dp_accounting import from_pld
    >>> laplace = privacy_loss_distribution.from_laplace_mechanism(2.0)
    >>> f"{from_pld(laplace).delta(0.25):.6f}"
    '0.117503'
    """
    return Profile([_table_of(pld._pmf_remove), _table_of(pld._pmf_add)])


def _table_of(pmf: Any) -> TabulatedLoss:
    if not getattr(pmf, "_pessimistic_estimate", False):
        raise ValueError(
            "Expected a pessimistic distribution, got one that may understate its delta; make it "
            "with pessimistic_estimate=True."
        )
    dense = pmf.to_dense_pmf()
    step, start = float(dense._discretization), int(dense._lower_loss)
    # Negative masses are rounding error of a transform; what is lost by dropping them is added.
    mass = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0) * (1.0 + _MARGIN)
    losses = step * (start + np.arange(mass.size))
    under_q = float(np.sum(mass * np.exp(-losses)))
    infinite = float(dense._infinity_mass) * (1.0 + _MARGIN) + _LOST
    return TabulatedLoss(step, start, mass, infinite, max(1.0 - under_q, 0.0) + _LOST)


# -- events and an accountant ----------------------------------------------------------------------


@attr.s(frozen=True, slots=True, auto_attribs=True)  # as all events of dp-accounting are
class LossDpEvent(google.DpEvent):  # type: ignore[misc]  # dp-accounting has no types
    """A release with a known privacy loss, as an event of dp-accounting.

    Attributes
    ----------
    loss : PrivacyLoss
        The worst case, both directions.
    relation : NeighbourRelation
        Whom it protects.
    """

    loss: PrivacyLoss
    relation: NeighbourRelation


def event_of(guarantee: Guarantee) -> LossDpEvent:
    """The event of a release that carries its loss.

    Examples
    --------
    >>> from ndis import GaussianMechanism
    >>> from ndis.interop.dp_accounting import LossAccountant, event_of
    >>> event = event_of(GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).guarantee())
    >>> f"{LossAccountant().compose(event).get_epsilon(1e-6):.6f}"
    '1.000000'
    """
    if guarantee.loss is None:
        raise ValueError(
            "Expected a guarantee that carries its loss, got one without; "
            "only (epsilon, delta) is known of it."
        )
    guarantee.must_hold()
    return LossDpEvent(guarantee.loss, guarantee.relation)


class LossAccountant(google.PrivacyAccountant):  # type: ignore[misc]
    """An accountant of dp-accounting that adds losses instead of tables, where it can.

    Gaussian and Laplace events and `LossDpEvent` are exact; Poisson-sampled ones are our own
    tables (`PrivacyLoss.subsampled`). Composed, self-composed and no-op events are taken apart.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        ADD_OR_REMOVE_ONE (default) or REPLACE_ONE.

    Examples
    --------
    >>> import dp_accounting
    >>> from ndis.interop.dp_accounting import LossAccountant
    >>> event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(100.0), 1000)
    >>> f"{LossAccountant().compose(event).get_delta(2.0):.4e}"
    '1.6291e-11'
    """

    def __init__(
        self,
        neighboring_relation: google.NeighboringRelation = (
            google.NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
    ) -> None:
        if neighboring_relation not in _RELATIONS.values():
            raise ValueError(
                f"Expected ADD_OR_REMOVE_ONE or REPLACE_ONE, got {neighboring_relation}; "
                "use dp-accounting's own accountant."
            )
        super().__init__(neighboring_relation)
        self._loss: Profile = Profile.both(QuadraticLoss(0.0, 0.0, 0.0))
        self._public = False

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if isinstance(event, google.NoOpDpEvent):
            return None
        if isinstance(event, google.SelfComposedDpEvent):
            return self._maybe_compose(event.event, event.count * count, do_compose)
        if isinstance(event, google.ComposedDpEvent):
            errors = (self._maybe_compose(part, count, do_compose) for part in event.events)
            return next((error for error in errors if error is not None), None)
        if isinstance(event, google.NonPrivateDpEvent):
            self._public = self._public or do_compose
            return None
        why = self._refusal(event)
        if why is not None:
            return self.CompositionErrorDetails(event, why)
        if do_compose:
            self._loss = self._loss + count * self._loss_of(event)
        return None

    def _refusal(self, event: Any) -> str | None:
        """Why an event cannot be counted, if it cannot."""
        if isinstance(event, LossDpEvent):
            known = _RELATIONS.get(event.relation)
            return None if known == self.neighboring_relation else f"it is for {event.relation}"
        sampled = isinstance(event, google.PoissonSampledDpEvent)
        inner = event.event if sampled else event
        if not isinstance(inner, google.GaussianDpEvent | google.LaplaceDpEvent):
            return "its privacy loss is not known here"
        if inner.noise_multiplier <= 0:
            return "it has no noise"
        replaces = self.neighboring_relation == google.NeighboringRelation.REPLACE_ONE
        if replaces and isinstance(inner, google.LaplaceDpEvent):
            return "it is for adding or removing a record"
        return None

    def _loss_of(self, event: Any) -> Profile:
        if isinstance(event, LossDpEvent):
            present, absent = _directions(event.loss)
            return Profile([present, absent])
        sampled = isinstance(event, google.PoissonSampledDpEvent)
        inner, rate = (event.event, event.sampling_probability) if sampled else (event, 1.0)
        kind = (
            SphericalLoss if isinstance(inner, google.LaplaceDpEvent) else QuadraticLoss.from_shift
        )
        # Replacing a record is removing one and adding another: twice the way.
        once, twice = (Profile.both(kind(way / inner.noise_multiplier)) for way in (1.0, 2.0))
        replaces = self.neighboring_relation == google.NeighboringRelation.REPLACE_ONE
        loss = once.subsampled(rate, twice if replaces else None)
        return Profile(loss.directions())

    def get_epsilon(self, target_delta: float) -> float:
        """The least epsilon at this delta, of all that was composed."""
        return math.inf if self._public else float(self._loss.epsilon(target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Delta at this epsilon, of all that was composed."""
        return 1.0 if self._public else float(self._loss.delta(target_epsilon))


def from_opacus(accountant: Any) -> Profile:
    """The loss of all that an accountant of Opacus has seen, adding or removing one record.

    Parameters
    ----------
    accountant : opacus.accountants.IAccountant
        Any of them: what counts is its history of (noise multiplier, sample rate, steps). Every
        step is a Gaussian of a Poisson sample, as Opacus draws them by default.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from ndis.interop.dp_accounting import from_opacus
    >>> seen = SimpleNamespace(history=[(2.0, 1.0, 3), (4.0, 1.0, 4)])
    >>> f"{from_opacus(seen).delta(1.0):.6f}"
    '0.126937'
    """
    if not hasattr(accountant, "history"):
        raise TypeError(
            f"Expected an accountant of Opacus, got {type(accountant).__name__}; pass the "
            "accountant itself, such as privacy_engine.accountant."
        )
    book = LossAccountant()
    for noise, rate, steps in accountant.history:
        event: Any = google.GaussianDpEvent(_validate.positive("noise multiplier", noise))
        if rate < 1.0:
            event = google.PoissonSampledDpEvent(_validate.probability("sample rate", rate), event)
        book.compose(event, _validate.count("steps", steps))
    return book._loss
