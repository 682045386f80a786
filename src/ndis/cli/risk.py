"""``ndis risk``: what a release, or a whole ledger, means for one person."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from ndis.cli.console import AsJson, echo, open_ledger, print_json, print_table

_RATES, _CANDIDATES = (0.001, 0.01, 0.1), (10, 1000)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("risk")(risk)


def risk(
    file: Annotated[str, typer.Argument(help="A release file, or a ledger.", show_default=False)],
    false_positive: Annotated[
        list[float] | None,
        typer.Option(help="False-positive rate of an attack; repeat for several."),
    ] = None,
    prior: Annotated[float, typer.Option(help="Belief before the release.")] = 0.5,
    beta: Annotated[
        float, typer.Option(help="Probability with which the belief may be exceeded.")
    ] = 0.05,
    candidates: Annotated[
        list[int] | None,
        typer.Option(help="Number of records to guess among; repeat for several."),
    ] = None,
    as_planned: Annotated[
        bool,
        typer.Option("--as-planned", help="Of a ledger: the releases so far, read as a plan."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how well somebody can attack one person's privacy, at most.

    Somebody who knows everything else tells two neighbouring data sets apart by the release.
    """
    from ndis.release import Release

    with nullcontext() if file.endswith(".npz") else open_ledger(file) as book:
        if book is None:
            promise = Release.load(file).guarantee
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
        told = f"from {prior:g}, exceeded with probability at most {beta:g}"
        found.append(("belief", told, ask(prior=prior, beta=beta)))
        found += [
            ("right guess", f"of a record among {k} candidates", ask(candidates=k))
            for k in candidates or _CANDIDATES
        ]
    if as_json:
        risks = [{"risk": name, "of": of, "at_most": value} for name, of, value in found]
        print_json({"sentence": str(promise), "risks": risks})
        return
    echo(str(promise))
    rows = [[f"{name} {of}", f"{math.ceil(1e6 * value) / 1e6:g}"] for name, of, value in found]
    print_table("Risk for one person", ["risk", "at most"], rows, wrap=True)
