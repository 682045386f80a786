"""``ndis show``: what a release says."""

from pathlib import Path

import typer

from ndis.cli.answers import answers_of, describe, print_csv, shown, values
from ndis.cli.console import answer
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
    if as_csv and not as_json:
        print_csv(answers_of(release))
        return
    document = {"values": values(release), "certificate": release.certificate()}
    parts = shown(answers_of(release))
    answer(as_json, document, describe(release), *parts, str(release.guarantee))
