"""``ndis show``: what a release says."""

from pathlib import Path

import typer

from ndis.cli.answers import answers_of, describe, print_answers, print_csv, values
from ndis.cli.console import echo, print_json
from ndis.cli.settings import as_command


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    as_command(show, "show")(app)


def show(path: Path, *, as_csv: bool = False, as_json: bool = False) -> None:
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
