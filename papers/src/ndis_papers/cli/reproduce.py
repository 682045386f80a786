"""``ndis reproduce``: the papers' tables and figures, run again."""

from pathlib import Path
from typing import Annotated

import typer

from ndis.cli.console import AsJson, echo, print_json, print_table


def _experiments(incomplete: str) -> list[str]:
    from ndis_papers.reproduce import EXPERIMENTS

    return [name for name in (*EXPERIMENTS, "all") if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experiments, or 'all'; without any, the list.",
            show_default=False,
            autocompletion=_experiments,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="Folder for tables (CSV) and figures (PNG).")
    ] = Path("results"),
    listed: Annotated[
        bool,
        typer.Option("--list", help="List every table and figure with numbers, and its state."),
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points and repetitions.")] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="As many repetitions as the paper has, where we have fewer."),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Also what is done already.")] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="An official file, such as songs=YearPredictionMSD.txt; repeatable.",
        ),
    ] = None,
    sha256: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=HASH", help="The SHA-256 that such a file must have; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat tables and figures of the papers, published values beside ours.

    What is done is not done again: stop it whenever you like and call it once more.
    """
    from ndis_papers import reproduce as room

    if listed:
        _list_items(as_json)
        return
    if not names:
        _list(as_json)
        return
    chosen = list(room.EXPERIMENTS) if names == ["all"] else names
    runs = room.reproduce(
        chosen,
        out,
        quick=quick,
        full=full,
        again=again,
        files=_pairs(file, "--file", "PATH"),
        hashes=_pairs(sha256, "--sha256", "HASH"),
    )
    asked = [room.EXPERIMENTS[name] for name in chosen]
    minutes = sum(e.time(quick, full) for e in asked)
    if not as_json:
        echo(f"About {minutes:.2g} min of processor time, less what is done.", err=True)
    outcomes = []
    for number, outcome in enumerate(runs, 1):
        outcomes.append(outcome)
        if not as_json:
            did = "was done before" if outcome.before else f"took {outcome.seconds:.0f} s"
            echo(f"{number} of {len(chosen)}: {outcome.name} {did}: {out / outcome.name}")
            for name, digest in outcome.inputs.items():
                echo(f"  from {name}, SHA-256 {digest}")
    if as_json:
        print_json(
            {
                o.name: {
                    "seconds": o.seconds,
                    "before": o.before,
                    "files": list(o.files),
                    "inputs": dict(o.inputs),
                }
                for o in outcomes
            }
        )


def _pairs(words: list[str] | None, flag: str, what: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in words or []]
    wrong = [name for name, _, content in pairs if not name or not content]
    if wrong:
        raise ValueError(f"Expected NAME={what}, got {wrong[0]!r}; correct {flag}.")
    return {name: content for name, _, content in pairs}


def _list_items(as_json: bool) -> None:
    from ndis_papers.reproduce.items import ITEMS

    if as_json:
        print_json([item.to_dict() for item in ITEMS])
        return
    for paper in dict.fromkeys(item.paper for item in ITEMS):
        print_table(
            paper,
            ["place", "shows", "experiment", "files"],
            [
                [i.place, i.shows, i.experiment, ", ".join(i.files) or "-"]
                for i in ITEMS
                if i.paper == paper
            ],
            wrap=True,
        )
    echo("Without its files (--file NAME=PATH) an experiment runs on other data;")
    echo("--list --json says on which.")


def _list(as_json: bool) -> None:
    from ndis_papers.reproduce import EXPERIMENTS

    if as_json:
        print_json(
            {
                name: {"summary": e.summary, "minutes": e.minutes, "files": list(e.files)}
                for name, e in EXPERIMENTS.items()
            }
        )
        return
    print_table(
        "Experiments",
        ["name", "minutes", "takes files", "repeats"],
        [
            [name, f"{e.minutes:g}", ", ".join(e.files) or "-", e.summary]
            for name, e in EXPERIMENTS.items()
        ],
        wrap=True,
    )
