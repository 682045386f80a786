"""``ndis show``: what a release says."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from ndis.cli.answers import csv_lines, print_answers, values
from ndis.cli.console import AsJson, echo, print_json

File = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="The release file.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("show")(show)


def show(
    path: File,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the answers as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a release says: its answers by name, and what is promised.

    The file is checked against its certificate; `ndis verify` checks the promise itself.
    """
    from ndis.release import Release

    release = Release.load(path)
    if as_json:
        print_json({"values": values(release), "certificate": release.certificate()})
    elif as_csv:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(csv_lines(release))
        echo(text.getvalue().rstrip("\n"))
    else:
        print_answers(release)
        echo(str(release.guarantee))
