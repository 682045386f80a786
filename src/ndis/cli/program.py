"""All commands of ``ndis`` in one program.

A new group is a module here with ``register(app)``, named once in `GROUPS`. Other packages add
commands as entry points of the group ``ndis.commands``: functions as typer takes them.
"""

import functools
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from ndis.cli.console import ExitCode, Interrupted, echo
from ndis.cli.mistakes import Commands
from ndis.cli.settings import alone

GROUPS = (
    "demo",
    "curve",
    "calibrate",
    "forecast",
    "explore",
    "check",
    "release",
    "show",
    "sketch",
    "graph",
    "covariance",
    "risk",
    "verify",
    "ledger",
    "party",
    "audit",
)
# Commands that share a module; every other one has its own.
MODULES = dict.fromkeys(("sketch", "graph", "covariance"), "questions")
PLUGINS = "ndis.commands"
# Commands that other packages of ours add, and what to install for them.
ELSEWHERE = {"claims": "ndis-papers", "reproduce": "ndis-papers"}


class Program(Commands):
    """All commands, in the order in which one meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As in `GROUPS`, then those of other packages."""
        return [*GROUPS, *sorted(entry_points(group=PLUGINS).names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of ours, or one of another package, which is loaded when it is asked for."""
        found = entry_points(group=PLUGINS, name=cmd_name)
        if cmd_name in GROUPS or not found:
            return super().get_command(ctx, cmd_name)
        return alone(lambda app: app.command(cmd_name)(next(iter(found)).load()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, or what to install for it."""
        if args and args[0] in ELSEWHERE and self.get_command(ctx, args[0]) is None:
            package = ELSEWHERE[args[0]]
            raise ImportError(
                f"Expected the package {package} for `ndis {args[0]}`, but it is not installed; "
                f"run: pip install {package}."
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer would end silently at an interrupt."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(str(interrupt) or "nothing was paid") from interrupt


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

        echo(f"ndis {ndis.__version__}")
        raise typer.Exit(ExitCode.DONE)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; accepted anywhere.")
    ] = False,
) -> None:
    """Exact differential privacy of Gaussian-output algorithms.

    Start with: ndis demo

    Exit codes: 0 done, 1 the check that was asked for failed, 2 a wrong call or an unreadable file,
    3 a fault of ndis, 4 no budget left, 5 not checkable, 130 interrupted.
    """


for _module in dict.fromkeys(MODULES.get(group, group) for group in GROUPS):
    import_module(f"ndis.cli.{_module}").register(app)


@functools.cache
def command() -> Any:
    """The program, put together once for all calls in a process."""
    return typer.main.get_command(app)
