"""``ndis risk``: what a release, or a whole ledger, means for one person."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ndis.cli.console import Reply, Shown, open_ledger

if TYPE_CHECKING:
    from ndis.guarantee import Guarantee

_RATES, _CANDIDATES = (0.001, 0.01, 0.1), (10, 1000)


def risk(
    file: str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    false_positive: list[float] | None = None,
    prior: float = 0.5,
    beta: float = 0.05,
    candidates: list[int] | None = None,
    as_planned: bool = False,
) -> Reply:
    """Show how well somebody can attack one person's privacy, at most.

    Somebody who knows everything else tells two neighbouring data sets apart by the release.

    Parameters
    ----------
    file : FILE
        A release file, or a ledger.
    epsilon : float
        Of any mechanism with this epsilon, in place of a file.
    delta : float
        And this delta.
    false_positive : list of float
        False-positive rate of an attack; repeat for several.
    prior : float
        Belief before the release.
    beta : float
        Probability with which the belief may be exceeded.
    candidates : list of int
        Number of records to guess among; repeat for several.
    as_planned : bool
        Of a ledger: the releases so far, read as a plan.
    """
    from ndis.release import Release

    if (file is None) == (epsilon is None) or (epsilon is None) != (delta is None):
        raise ValueError(
            "Expected a release or a ledger, or --epsilon and --delta, got neither or more; see "
            "ndis risk --help."
        )
    alone = file is None or file.endswith(".npz")
    with nullcontext() if alone else open_ledger(str(file)) as book:
        if book is None:
            promise = _promised(epsilon, delta) if file is None else Release.load(file).guarantee
            ask: Callable[..., float] = promise.risk
        else:
            promise, ask = book.guarantee(), partial(book.risk, as_planned=as_planned)
        found = [("advantage", "of the best membership attack", ask())]
        found += [
            (
                "true-positive rate",
                f"at a false-positive rate of {rate:g}",
                ask(false_positive=rate),
            )
            for rate in false_positive or _RATES
        ]
        told = f"{prior:.0%} before, stays below this in {1.0 - beta:.0%} of cases"
        found.append(("belief", told, ask(prior=prior, beta=beta)))
        found += [
            ("right guess", f"of a record among {k} candidates", ask(candidates=k))
            for k in candidates or _CANDIDATES
        ]
    risks = [{"risk": name, "of": of, "at_most": value} for name, of, value in found]
    rows = [[f"{name} {of}", f"{math.ceil(1e6 * value) / 1e6:g}"] for name, of, value in found]
    shown = Shown("Risk for one person", ["risk", "at most"], rows, wrap=True)
    return Reply({"sentence": str(promise), "risks": risks}, str(promise), shown)


def _promised(epsilon: float | None, delta: float | None) -> Guarantee:
    """What (epsilon, delta) means if nothing else is known of a mechanism: the worst of all."""
    from ndis.guarantee import Guarantee, NeighbourRelation

    assert epsilon is not None
    assert delta is not None
    return Guarantee(epsilon, delta, NeighbourRelation.ADD_REMOVE, "declared")
