"""What all commands share: exit codes, the ``--json`` option, tables, errors as sentences."""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any

import typer


class ExitCode(IntEnum):
    """What a script may rely on."""

    DONE = 0
    CHECK_FAILED = 1
    WRONG_CALL = 2
    FAULT = 3


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_FORESEEN = (ValueError, TypeError, OSError, ImportError, LookupError)


def complain(error: Exception) -> ExitCode:
    """Print an error as one line on standard error and return the exit code it deserves."""
    foreseen = isinstance(error, _FORESEEN)
    sentence = " ".join(str(error).split()) or type(error).__name__
    hint = "" if foreseen else f" ({type(error).__name__}; run again with --debug for its origin)"
    typer.echo(f"ndis: {sentence}{hint}", err=True)
    return ExitCode.WRONG_CALL if foreseen else ExitCode.FAULT


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print a document as JSON; infinities and NaN, which JSON lacks, are refused."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, wrap: bool = False
) -> None:
    """Print a table of strings: numbers aligned to the right, or sentences that wrap."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="left" if wrap else "right", no_wrap=not wrap)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
