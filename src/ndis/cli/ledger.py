"""``ndis ledger``: start a privacy budget, see what is left of it, check its file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, open_ledger, picture, print_json, print_table
from ndis.cli.mistakes import Commands

if TYPE_CHECKING:
    from ndis.ledger import Ledger

Picture = Annotated[Path | None, picture("Write the burn-down")]
Where = Annotated[Path, typer.Argument(help="The file of the ledger.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Start, show and check a privacy budget."
    )
    for command in (init, show, history, verify):
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
            help="Count relative, declared or seeded releases too, or use a network disk."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a ledger in a new file."""
    from ndis.ledger import Ledger

    with Ledger.create(path, epsilon, delta, relation, mode=mode, accept=accept or []) as ledger:
        if as_json:
            print_json(_budget(ledger))
        else:
            typer.echo(f"{ledger!r} is ready.")


def show(
    path: Where,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Show the budget and what is left of it."""
    with open_ledger(path) as ledger:
        entries, left, promise = ledger.history(), ledger.remaining(), ledger.guarantee()
        if plot is not None:
            from ndis import plots

            plots.burn_down(ledger).savefig(plot)
    document = _budget(ledger) | {
        "releases": len(entries),
        "completed": sum(entry.digest is not None for entry in entries),
        "remaining_epsilon": left.epsilon,
        "remaining_shift": left.shift,
        "guarantee": str(promise),
    }
    if as_json:
        print_json(document)
        return
    counted = f"{document['releases']}, {document['completed']} with an output"
    rows = [
        ["budget", f"epsilon {ledger.epsilon:g} at delta {ledger.delta:g}"],
        ["relation", str(ledger.relation)],
        ["mode", ledger.mode],
        ["also counted", ", ".join(ledger.accept) or "nothing"],
        ["releases", counted],
        ["left", f"epsilon {left.epsilon:.6g} at delta {ledger.delta:g}"],
    ]
    print_table("Ledger", ["", ""], rows)
    typer.echo(f"All releases together: {promise}")


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
        ["number", "time", "mechanism", "epsilon", "delta", "output"],
        [
            [
                str(entry.number),
                entry.time[:19],
                entry.mechanism,
                f"{entry.guarantee.epsilon:.6g}",
                f"{entry.guarantee.delta:.3g}",
                "none" if entry.digest is None else entry.digest[:12],
            ]
            for entry in entries
        ],
    )


def verify(path: Where, as_json: AsJson = False) -> None:
    """Check every row, the hash chain and the totals; exit code 1 if anything is wrong."""
    from ndis.ledger import DamagedLedger

    try:
        with open_ledger(path) as ledger:
            releases = ledger.verify()
    except DamagedLedger as damage:
        if as_json:
            print_json({"verified": False, "damage": str(damage)})
        else:
            typer.echo(f"ndis: {damage}", err=True)
        raise typer.Exit(ExitCode.CHECK_FAILED) from None
    if as_json:
        print_json({"verified": True, "releases": releases})
        return
    typer.echo(f"{releases} releases, all in order and within the budget.")
