"""``ndis show``: what a release says."""

from pathlib import Path
from typing import Annotated

import typer

from ndis.cli.answers import answers_of, describe, print_answers, print_csv, values
from ndis.cli.console import AsJson, echo, print_json

File = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="The release file.", show_default=False)
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("show")(show)


def show(path: File, as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """Show what a release says: its answers by name, and what is promised.

    The file is checked against its certificate; `ndis verify` checks the promise itself.
    """
    from ndis.release import Release

    release = Release.load(path)
    if as_json:
        print_json({"values": values(release), "certificate": release.certificate()})
    elif as_csv:
        print_csv(answers_of(release))
    else:
        echo(describe(release))
        print_answers(answers_of(release))
        echo(str(release.guarantee))
