"""The command ``ndis``: one module a group of commands, one place where errors become sentences.

A new group is a module here with ``register(app)``, named once in `GROUPS`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from ndis.cli.console import ExitCode, complain, debugging
from ndis.cli.mistakes import Commands

GROUPS = (
    "demo",
    "curve",
    "calibrate",
    "forecast",
    "release",
    "verify",
    "ledger",
    "party",
    "audit",
    "claims",
    "reproduce",
)


class Program(Commands):
    """All commands, in the order in which one meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As in `GROUPS`."""
        return sorted(super().list_commands(ctx), key=GROUPS.index)


app = typer.Typer(
    name="ndis",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import ndis

        typer.echo(f"ndis {ndis.__version__}")
        raise typer.Exit(ExitCode.DONE)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; accepted anywhere.")
    ] = False,
) -> None:
    """Exact differential privacy of Gaussian-output algorithms.

    Start with: ndis demo

    Exit codes: 0 done, 1 the check that was asked for failed, 2 a wrong call, 3 a fault of ndis,
    130 interrupted.
    """


for _group in GROUPS:
    import_module(f"ndis.cli.{_group}").register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the program name; those of the process by default.

    Examples
    --------
    >>> import contextlib
    >>> from ndis.cli import main
    >>> with contextlib.suppress(SystemExit):
    ...     main(["--version"])
    ndis ...
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = debugging("--debug" in words)
    call = [word for word in words if word != "--debug"]
    try:
        code = app(call, prog_name="ndis", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except Exception as error:  # told in a sentence; --debug shows it whole
        if debug:
            raise
        raise SystemExit(complain(error, call)) from None
    raise SystemExit(code or ExitCode.DONE)
