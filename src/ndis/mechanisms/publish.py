"""The one way from a calibrated mechanism to a release: account, draw, certify."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.guarantee import Guarantee
from ndis.randomness import RandomState, generator, is_secure
from ndis.release import Release

if TYPE_CHECKING:
    from ndis.ledger import Ledger


def publish(
    draw: Callable[[np.random.Generator], Any],
    guarantee: Guarantee,
    mechanism: str,
    parameters: Mapping[str, Any],
    *,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
    acknowledge_refuted: bool = False,
) -> Release:
    """Spend the budget, then draw the noise, then record what came out.

    The order is the point: a crash between the first step and the last wastes budget, it
    never overspends it. `draw` receives the generator and returns the released arrays,
    already rounded to the grid of their noise. A claim that our own computation contradicts is
    published only if the caller says so in as many words.
    """
    if guarantee.basis == "refuted" and not acknowledge_refuted:
        raise ValueError(
            f"Expected a mechanism that keeps its promise, got {mechanism} with a published claim "
            "that our own computation contradicts; use another, or pass acknowledge_refuted=True."
        )
    honest = replace(guarantee, private=is_secure(random_state))
    entry = None if ledger is None else ledger.spend(honest, mechanism)
    release = Release(draw(generator(random_state)), honest, mechanism, parameters)
    if ledger is not None and entry is not None:
        ledger.complete(entry, release.digest)
    return release
