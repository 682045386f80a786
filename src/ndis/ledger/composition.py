"""What a guarantee contributes to a total, direction by direction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

import numpy as np

from ndis.calibration import meets
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss, TabulatedLoss

# Relations that tell which of two neighbours comes first in every release: the one with the
# record, the one with the heavier edge. Elsewhere either may.
_ORIENTED = {NeighbourRelation.ADD_REMOVE, NeighbourRelation.EDGE}

Directions = tuple[tuple[PrivacyLoss, ...], tuple[PrivacyLoss, ...]]


def worst_pair(epsilon: float, delta: float, step: float = math.inf) -> TabulatedLoss:
    """The pair that dominates every (epsilon, delta)-private release.

    With probability delta it tells the truth; otherwise it is randomised response. Its losses
    are +-epsilon, on a grid that is no coarser than `step`.
    """
    if epsilon == 0.0:
        return TabulatedLoss(min(step, 1.0), 0, [1.0 - delta], delta, delta)
    cells = max(1, math.ceil(epsilon / step))
    mass = np.zeros(2 * cells + 1)
    mass[-1] = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    mass[0] = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return TabulatedLoss(epsilon / cells, -cells, mass, delta, delta)


def directions(guarantee: Guarantee, step: float = math.inf) -> Directions:
    """The losses of `named`, those that are neither Gaussian nor a table as tables."""
    first, second = named(guarantee, step)
    return tuple(map(_addable, first)), tuple(map(_addable, second))


def _addable(loss: PrivacyLoss) -> PrivacyLoss:
    return loss if isinstance(loss, QuadraticLoss | TabulatedLoss) else _tabulated(loss)


@lru_cache(maxsize=256)
def _tabulated(loss: PrivacyLoss) -> PrivacyLoss:
    """A worst case over many pairs becomes a table when something is added to it: here nothing."""
    table: PrivacyLoss = loss + QuadraticLoss(0.0, 0.0, 0.0)
    return table


def named(guarantee: Guarantee, step: float = math.inf) -> Directions:
    """The losses that a guarantee names for each order of two neighbours.

    Whatever the release does to a pair in that order, its privacy profile is at or below the
    largest of those losses' profiles. A loss that is not a profile stands for one order, and its
    reverse for the other.
    """
    loss = guarantee.loss
    if loss is None:
        pair = (worst_pair(guarantee.epsilon, guarantee.delta, step),)
        return pair, pair
    parts = loss.losses if isinstance(loss, Profile) else (loss,)
    if guarantee.relation in _ORIENTED and len(parts) == 2:
        return _distinct(_leaves(parts[0])), _distinct(_leaves(parts[1]))
    leaves = [leaf for part in parts for leaf in _leaves(part)]
    turned = [leaf.reversed() for leaf in leaves]
    if guarantee.relation in _ORIENTED and len(parts) == 1:
        return _distinct(leaves), _distinct(turned)
    either = _distinct([*leaves, *turned])
    return either, either


def _leaves(loss: PrivacyLoss) -> list[PrivacyLoss]:
    if isinstance(loss, Profile):
        return [leaf for part in loss.losses for leaf in _leaves(part)]
    return [loss]


def _distinct(losses: Iterable[PrivacyLoss]) -> tuple[PrivacyLoss, ...]:
    different: list[PrivacyLoss] = []
    for loss in losses:
        if loss not in different:
            different.append(loss)
    return tuple(different)


def meets_alone(guarantee: Guarantee, epsilon: float, delta: float) -> bool:
    """Whether it is proven that one release stays within (epsilon, delta)."""
    if guarantee.loss is None:
        return guarantee.epsilon <= epsilon and guarantee.delta <= delta
    first, second = named(guarantee)
    return meets(Profile([*first, *second]), epsilon, delta)


def compose(parts: Sequence[tuple[Guarantee, int]], step: float) -> Profile:
    """The exact total of releases that were fixed in advance, each made so many times."""
    totals = []
    for way in (0, 1):
        losses = [times * _one(directions(given, step)[way], step) for given, times in parts]
        # Gaussian losses first: one exact part is then carried through all the tables.
        losses.sort(key=lambda loss: isinstance(loss, TabulatedLoss))
        totals.append(reduce(lambda a, b: a + b, losses))
    return Profile(totals)


def _one(losses: tuple[PrivacyLoss, ...], step: float) -> PrivacyLoss:
    """One loss that dominates the largest of several: that loss itself, or a table of them."""
    if len(losses) == 1:
        return losses[0]
    worst, turned = Profile(losses), Profile([loss.reversed() for loss in losses])
    # Beyond this epsilon the table counts what is left as a certain loss.
    high = max(float(profile.epsilon(1e-30)) for profile in (worst, turned))
    if math.isinf(high):
        high = max(float(profile.epsilon(0.5)) for profile in (worst, turned))
    return TabulatedLoss.from_profile(worst.delta, turned.delta, step=step, high=max(high, step))


def is_mean_shift(loss: PrivacyLoss) -> bool:
    """Whether a loss is that of two Gaussians with one covariance."""
    return isinstance(loss, QuadraticLoss) and bool(np.all(loss.excess == 0.0))
