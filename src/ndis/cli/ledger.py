"""``ndis ledger``: start a privacy budget, plan, see what is left of it, check it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, echo, open_ledger, picture, print_json, print_table
from ndis.cli.mistakes import Commands

if TYPE_CHECKING:
    from ndis.guarantee import Guarantee
    from ndis.ledger import Ledger

Picture = Annotated[Path | None, picture("Write the burn-down")]
Where = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER",
        help="A file, or postgresql://user@host/database#schema.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Start, show and check a privacy budget."
    )
    for command in (init, plan, show, history, verify):
        group.command()(command)
    app.add_typer(group, name="ledger")


def init(
    path: Where,
    epsilon: Annotated[float, typer.Option(help="The budget's epsilon.")],
    delta: Annotated[float, typer.Option(help="The budget's delta.")],
    relation: Annotated[str, typer.Option(help="Neighbours, such as add-remove or replace.")],
    mode: Annotated[
        str, typer.Option(help="adaptive: releases as they come; plan: fixed beforehand.")
    ] = "adaptive",
    accept: Annotated[
        list[str] | None,
        typer.Option(
            help="Count relative, declared or seeded releases too, or use a network disk; "
            "repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a ledger in a new place."""
    from ndis.ledger import Ledger

    with Ledger.create(path, epsilon, delta, relation, mode=mode, accept=accept or []) as ledger:
        if as_json:
            print_json(_budget(ledger))
        else:
            echo(f"{ledger!r} is ready.")


def plan(
    path: Where,
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:TIMES]...",
            help="What `ndis calibrate ... --json` printed, or a release with the same settings "
            "(of a made-up table, say); and how often it will be made.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Fix all releases of a ledger of mode plan, in one call; it cannot be changed later."""
    planned = [guarantee for words in releases for guarantee in _planned(words)]
    with open_ledger(path) as ledger:
        ledger.plan(planned)
        left = ledger.remaining()
    if as_json:
        print_json({"releases": len(planned), "epsilon": left.epsilon, "delta": left.delta})
    else:
        echo(f"{len(planned)} releases are planned: {left} in all.")


def _planned(words: str) -> "list[Guarantee]":
    """The guarantee in a file, as often as it is to be released."""
    from ndis.guarantee import Guarantee
    from ndis.release import Release

    file, colon, times = words.rpartition(":")
    if not colon or not times.isdigit():
        file, times = words, "1"
    if file.endswith(".npz"):
        return [replace(Release.load(file).guarantee, private=True)] * int(times)
    try:
        promise = Guarantee.from_dict(json.loads(Path(file).read_text())["guarantee"])
    except (LookupError, TypeError, ValueError):
        raise ValueError(
            f"Expected what `ndis calibrate ... --json` printed, got {file} without a guarantee; "
            "use a release of a made-up table with the same settings."
        ) from None
    return [promise] * int(times)


def show(
    path: Where,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Show the budget and what is left of it."""
    with open_ledger(path) as ledger:
        if plot is not None:
            from ndis import plots

            plots.burn_down(ledger).savefig(plot)
        if not as_json:
            rows = [[name, text] for name, text in ledger.summary().items()]
            print_table("Ledger", ["", ""], rows, wrap=True)
            return
        entries, left = ledger.history(), ledger.remaining()
        print_json(
            _budget(ledger)
            | {
                "releases": len(entries),
                "completed": sum(entry.digest is not None for entry in entries),
                "remaining_epsilon": left.epsilon,
                "remaining_shift": left.shift,
                "remaining_reason": left.reason,
                "guarantee": str(ledger.guarantee()),
            }
        )


def _budget(ledger: "Ledger") -> dict[str, Any]:
    return {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "relation": str(ledger.relation),
        "mode": ledger.mode,
        "accept": list(ledger.accept),
    }


def history(path: Where, as_json: AsJson = False) -> None:
    """List all releases, those without an output included."""
    with open_ledger(path) as ledger:
        entries = ledger.history()
    if as_json:
        print_json(
            {
                "releases": [
                    {
                        "number": entry.number,
                        "time": entry.time,
                        "mechanism": entry.mechanism,
                        "note": entry.note,
                        "guarantee": entry.guarantee.to_dict(),
                        "digest": entry.digest,
                    }
                    for entry in entries
                ]
            }
        )
        return
    print_table(
        f"{len(entries)} releases",
        ["", "paid", "what and why", "epsilon", "delta", "output"],
        [
            [
                str(entry.number),
                entry.time[:10],
                "\n".join(filter(None, (entry.mechanism, entry.note))),
                f"{entry.guarantee.epsilon:.4g}",
                f"{entry.guarantee.delta:.2g}",
                "none" if entry.digest is None else entry.digest[:8],
            ]
            for entry in entries
        ],
        wrap=True,
    )


def verify(path: Where, as_json: AsJson = False) -> None:
    """Check every row, the hash chain and the totals.

    Exit code 1 if anything is wrong, 2 if the ledger cannot be read, 5 if it is of another version.
    """
    from ndis.ledger import DamagedLedger, OtherVersion

    try:
        with open_ledger(path) as ledger:
            releases = ledger.verify()
    except (DamagedLedger, OtherVersion) as damage:
        if as_json:
            print_json({"verified": False, "damage": str(damage)})
        else:
            echo(f"ndis: {damage}", err=True)
        known = isinstance(damage, DamagedLedger)
        raise typer.Exit(ExitCode.CHECK_FAILED if known else ExitCode.NOT_CHECKABLE) from None
    if as_json:
        print_json({"verified": True, "releases": releases})
        return
    echo(f"{releases} releases, all in order and within the budget.")
