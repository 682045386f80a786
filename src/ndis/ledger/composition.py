"""The losses that a guarantee adds to a total, direction by direction.

A promise without a loss counts as the worst loss with its (epsilon, delta). Both modes of a
ledger add up what comes from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

from ndis.calibration import meets
from ndis.guarantee import Guarantee, worst_pair
from ndis.loss import PrivacyLoss, Profile

Directions = tuple[tuple[PrivacyLoss, ...], tuple[PrivacyLoss, ...]]


def directions(guarantee: Guarantee, step: float = math.inf) -> Directions:
    """The losses that a guarantee names for each order of two neighbours.

    Whatever the release does to a pair in that order, its privacy profile is at or below the
    largest of those losses' profiles. A loss that is not a profile stands for one order, and its
    reverse for the other.
    """
    loss = guarantee.loss
    if loss is None:
        pair = (worst_pair(guarantee.epsilon, guarantee.delta, step),)
        return pair, pair
    ways = loss.directions()
    if guarantee.relation.oriented and len(ways) == 2:
        return _distinct(ways[0].alternatives()), _distinct(ways[1].alternatives())
    parts = [part for way in ways for part in way.alternatives()]
    turned = [part.reversed() for part in parts]
    if guarantee.relation.oriented and len(ways) == 1:
        return _distinct(parts), _distinct(turned)
    either = _distinct([*parts, *turned])
    return either, either


def _distinct(losses: Iterable[PrivacyLoss]) -> tuple[PrivacyLoss, ...]:
    return tuple(dict.fromkeys(losses))


def meets_alone(guarantee: Guarantee, epsilon: float, delta: float) -> bool:
    """Whether it is proven that one release stays within (epsilon, delta)."""
    if guarantee.loss is None:
        return guarantee.epsilon <= epsilon and guarantee.delta <= delta
    first, second = directions(guarantee)
    return meets(Profile([*first, *second]), epsilon, delta)


def compose(parts: Sequence[tuple[Guarantee, int]], step: float) -> Profile:
    """The exact total of releases that were fixed in advance, each made so many times."""
    total: Profile = reduce(
        add, (times * Profile(map(_worst, directions(given, step))) for given, times in parts)
    )
    return total


def _worst(losses: tuple[PrivacyLoss, ...]) -> PrivacyLoss:
    return losses[0] if len(losses) == 1 else Profile(losses)
