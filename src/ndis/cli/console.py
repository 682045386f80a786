"""What all commands share: exit codes, the ``--json`` option, tables, errors as sentences."""

import ast
import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ndis._validate import not_installed, parameters_of, printable, require_folder, without_secrets
from ndis.cli.help import help_of_group, width
from ndis.cli.mistakes import ClickException, sentence

if TYPE_CHECKING:
    from ndis.ledger import Ledger


# What commands of other packages may use.
__all__ = ["AsJson", "ExitCode", "echo", "print_json", "print_table"]


class ExitCode(IntEnum):
    """What a script may rely on."""

    DONE = 0
    CHECK_FAILED = 1
    WRONG_CALL = 2
    FAULT = 3
    NO_BUDGET = 4
    NOT_CHECKABLE = 5
    INTERRUPTED = 130


class CtrlC(Exception):
    """The user pressed Ctrl-C; says what was paid and written by then."""


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_FORESEEN = (ValueError, TypeError, OSError, ImportError, LookupError)
# A value of a parameter, as errors write it.
_VALUE = r"""\[[^]]*\]|\{[^}]*\}|'[^']*'|"[^"]*"|-?\w[\w.+-]*(?<![.+-])"""
_SHOWN = {"debug": False}
_PICTURES = (".png", ".svg", ".pdf")
# Names of rows are folded to no less than this.
_NAME = 12


def debugging(wanted: bool | None = None) -> bool:
    """Whether ``--debug`` was given; `main` says so once."""
    if wanted is not None:
        _SHOWN["debug"] = wanted
    return _SHOWN["debug"]


def drawable(path: Path) -> None:
    """Refuse a file for a picture that cannot be written, before any work."""
    if path.suffix.lower() not in _PICTURES:
        raise ValueError(
            f"Expected --plot with a name in {', '.join(_PICTURES)}, got {path}; rename it."
        )
    require_folder(path, "picture")
    if find_spec("matplotlib") is None:
        raise not_installed("matplotlib for --plot", "'ndis[plots]'")


def complain(error: Exception) -> ExitCode:
    """Print the error of a call as one line on standard error; the exit code it deserves."""
    from ndis.ledger import BudgetExceeded

    if isinstance(error, CtrlC):
        return _say(f"interrupted; {error}.", ExitCode.INTERRUPTED)
    if type(error).__name__ == "NoArgsIsHelpError":
        echo(help_of_group(error.ctx.command, error.ctx), err=True)  # type: ignore[attr-defined]
        return ExitCode.WRONG_CALL
    if isinstance(error, ClickException):
        return _say(sentence(error), ExitCode.WRONG_CALL)
    if isinstance(error, BudgetExceeded):
        return _say(in_words(error), ExitCode.NO_BUDGET)
    if isinstance(error, _FORESEEN):
        return _say(in_words(error), ExitCode.WRONG_CALL)
    hint = f"({type(error).__name__}; run again with --debug for its origin)"
    return _say(f"{in_words(error)} {hint}", ExitCode.FAULT)


def in_words(error: Exception) -> str:
    """What an error says, in one line; Python's own are turned into sentences."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}; check the path."
    if isinstance(error, json.JSONDecodeError):
        return f"Expected JSON, got something else ({error}); correct the file."
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    flags = getattr(error, "flags", {})
    for name in flags.keys() & {*parameters_of(error)}:
        # Not where it is quoted: a column may have this name, too.
        meant = rf"(?<![\w'\"`.-]){name}\b(?:=({_VALUE}))?(?!['\"])"
        text = re.sub(meant, partial(_in_options, flags[name]), text)
    notes = getattr(error, "__notes__", [])
    return " ".join(" ".join([text, *notes]).split()) or type(error).__name__


def _in_options(flag: str, found: re.Match[str]) -> str:
    """A parameter of a sentence as it is typed; ``header=False`` is ``--no-header``."""
    try:
        value = ast.literal_eval(found[1] or "True")
    except (ValueError, SyntaxError):  # a word
        return f"{flag} {found[1]}"
    if value is None:
        return f"no {flag}"
    if isinstance(value, bool):
        return flag if value else f"--no-{flag[2:]}"
    if isinstance(value, dict):
        value = [f"{name}={each}" for name, each in value.items()]
    words = map(str, value if isinstance(value, list) else [value])
    return f"{flag} {shlex.quote(','.join(words))}"


@contextmanager
def known_as(flags: Mapping[str, str]) -> Iterator[None]:
    """Parameters that an error inside names are options of these names."""
    try:
        yield
    except Exception as error:
        vars(error).setdefault("flags", flags)
        raise


def _say(words: str, code: ExitCode) -> ExitCode:
    if words:
        say(words)
    return code


def say(words: str) -> None:
    """One line for the owner, on standard error."""
    echo(f"ndis: {without_secrets(words)}", err=True)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines of text, whatever a file or a table has put into them, as they are."""
    typer.echo(_lines(text), err=err)


def tell(text: str, *, err: bool = False) -> None:
    """Print sentences, wrapped where the width of a screen is known; as they are in a pipe."""
    screen = sys.stderr if err else sys.stdout
    if "COLUMNS" in os.environ or screen.isatty():
        lines = (
            textwrap.wrap(line, width(), break_long_words=False, break_on_hyphens=False) or [""]
            for line in text.split("\n")
        )
        text = "\n".join(part for line in lines for part in line)
    echo(text, err=err)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def open_ledger(path: str, note: str = "") -> "Ledger":
    """The ledger, which must be there."""
    from ndis.ledger import Ledger

    return Ledger(path, note=note)


class Shown(NamedTuple):
    """A table as `print_table` prints it."""

    title: str
    headings: Sequence[str]
    rows: Iterable[Sequence[str]]
    wrap: bool = False


class Reply:
    """What a command has to say: a document, or the same in sentences and tables.

    An `aside` goes to standard error; `code` is the exit code. Where something was `paid` for, that
    says what has become of it, and no later fault is one of the call.
    """

    forms: tuple[str, ...] = ("as_json",)

    def __init__(
        self,
        document: Mapping[str, Any],
        *parts: str | Shown,
        code: int = 0,
        aside: bool = False,
        paid: str = "",
    ) -> None:
        self.document, self.parts, self.code, self.aside = document, parts, code, aside
        self.paid = paid

    def tell(self, as_json: bool) -> None:
        """Print it in the form that was asked for."""
        if as_json:
            print_json(self.document)
            return
        for part in self.parts:
            if isinstance(part, Shown):
                print_table(*part[:3], wrap=part.wrap)
            else:
                (say if self.aside else tell)(part)


def deliver(reply: Reply, **form: bool) -> None:
    """Print a reply. A reader who has left wants no more; what was paid for is told elsewhere."""
    try:
        reply.tell(**form)
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # the rest goes nowhere, when the program ends too
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError) and not reply.paid:
            return
        if not reply.paid:
            raise OSError(
                f"Expected to print the answer, but could not ({error.strerror}); make room for it."
            ) from None
        warn_paid(error, reply.paid)


@contextmanager
def after_payment(paid: str) -> Iterator[None]:
    """Whatever fails inside is a warning: the release is made; an interrupt says so, too."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(paid) from None
    except Exception as error:  # what was paid for is made; nothing later may look like a refusal
        if debugging():
            raise
        warn_paid(error, paid)


def warn_paid(error: Exception, paid: str) -> None:
    """Tell a fault that came after the payment, where anybody can still hear it."""
    with suppress(OSError):
        say(f"{paid}; after that: {in_words(error)}")


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print a document as JSON; infinities and NaN, which JSON lacks, are refused."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    wrap: bool = False,
    err: bool = False,
) -> None:
    """Print a table of strings: numbers aligned to the right, or sentences that wrap."""
    console = _console(stderr=err)
    rows = [[*map(_lines, row)] for row in rows]
    echo(title, err=err)
    if wrap:
        table = _table(headings, rows, wrap=True)
    else:
        table = _narrow(headings, rows, console.width)
        # A line that is too long is read more easily than a number that is cut.
        console.width = max(console.width, _wide(table))
    with console.capture() as captured:  # its own printing would end the program at a closed pipe
        console.print(table)
    typer.echo(_without_spaces(captured.get()), err=err, nl=False)


def _table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: bool = False,
    tight: bool = False,
    first: int | None = None,
) -> Any:
    """A table as rich has them; `first` is the most that its first column may take."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, show_header=any(headings), padding=(0, 0) if tight else (0, 1)
    )
    for place, heading in enumerate(headings):
        folds = wrap or (place == 0 and first is not None)
        table.add_column(
            heading,
            justify="left" if wrap else "right",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
            max_width=first if place == 0 else None,
        )
    for row in rows:
        table.add_row(*row)
    return table


def _console(**settings: Any) -> Any:
    """A screen on which names are shown as they are: square brackets are no markup."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, **settings)


def _wide(table: Any) -> int:
    return int(_console(width=10_000).measure(table).maximum)


def _narrow(headings: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> Any:
    """A table of numbers as wide as the screen, if it can be: no number is cut."""
    wide = [
        max([*map(len, heading.split()), *(len(row[i]) for row in rows if i < len(row)), 1])
        for i, heading in enumerate(headings)
    ]
    folded = [
        "\n".join(textwrap.wrap(heading, most))
        for heading, most in zip(headings, wide, strict=True)
    ]
    tries = [_table(headings, rows), _table(folded, rows), _table(folded, rows, tight=True)]
    if [*headings[:1]] == [""]:  # names of rows, no numbers
        left = wide[0] - (_wide(tries[-1]) - room)
        tries.append(_table(folded, rows, tight=True, first=max(left, _NAME)))
    return next((table for table in tries if _wide(table) <= room), tries[-1])


def _without_spaces(text: str) -> str:
    """Lines without spaces at their ends, of which a pipe has no use."""
    return "\n".join(line.rstrip() for line in text.split("\n"))
