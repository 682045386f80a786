"""All commands of ``ndis`` in one program.

A new command is a function of a module here, named once in `COMMANDS`. Other packages add commands
as entry points of the group ``ndis.commands``: functions as typer takes them.
"""

import functools
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from ndis._validate import not_installed
from ndis.cli import audit, ledger, party, planning, questions
from ndis.cli.check import OPTIONS, check
from ndis.cli.console import CtrlC, ExitCode, echo
from ndis.cli.curve import curve
from ndis.cli.demo import demo
from ndis.cli.help import Helped
from ndis.cli.kinds import by_kind
from ndis.cli.mistakes import Commands
from ndis.cli.release import release
from ndis.cli.risk import risk
from ndis.cli.settings import alone, as_command, group
from ndis.cli.show import show
from ndis.cli.verify import verify

PLUGINS = "ndis.commands"
# Commands that other packages of ours add, and what to install for them.
ELSEWHERE = {"claims": "ndis-papers", "reproduce": "ndis-papers"}


def _ask(name: str, *commands: Any) -> Commands:
    return group(name, f"Ask a released {name}; it costs no privacy.", *commands)


COMMANDS: dict[str, Any] = {
    "demo": demo,
    "curve": curve,
    "calibrate": by_kind(
        planning.calibrate, lambda kind: kind.parameters | kind.sizes, lambda kind: kind.needed()
    ),
    "forecast": by_kind(
        planning.forecast,
        lambda kind: kind.planned,
        lambda kind: kind.needed(*(("n_rows",) if kind.source == "table" else ())),
    ),
    "explore": by_kind(
        planning.explore,
        lambda kind: kind.planned,
        lambda kind: (*kind.needs, *(("label",) if kind.label else ())),
    ),
    "check": as_command(check, "check", OPTIONS, needed=["INPUT"]),
    "release": by_kind(
        release, lambda kind: kind.reading, lambda kind: kind.needed("INPUT", "out", data=True)
    ),
    "show": show,
    "sketch": _ask(
        "sketch", questions.regress, questions.gram, questions.distances, questions.components
    ),
    "graph": _ask("graph", questions.cut, questions.resistance, questions.spectrum),
    "covariance": _ask("covariance", questions.variance),
    "risk": risk,
    "verify": verify,
    "ledger": group(
        "ledger",
        "Start, show and check a privacy budget.",
        *(ledger.init, ledger.plan, ledger.show, ledger.history, ledger.verify),
    ),
    "party": group(
        "party",
        "Release columns of several parties together.",
        *(party.init, party.show, party.release, party.combine, party.train),
    ),
    "audit": audit.AUDITS,
}


class Program(Commands):
    """All commands, in the order in which one meets them."""

    children = COMMANDS
    make = staticmethod(as_command)

    def list_commands(self, ctx: Any) -> list[str]:
        """As in `COMMANDS`, then those of other packages."""
        return [*super().list_commands(ctx), *sorted(entry_points(group=PLUGINS).names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of ours, or one of another package, which is loaded when it is asked for."""
        found = entry_points(group=PLUGINS, name=cmd_name)
        if cmd_name in COMMANDS or not found:
            return super().get_command(ctx, cmd_name)
        return alone(next(iter(found)).load(), cmd_name, cls=Helped)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, or what to install for it."""
        if args and args[0] in ELSEWHERE and self.get_command(ctx, args[0]) is None:
            package = ELSEWHERE[args[0]]
            how = "./papers in a clone of ndis"
            raise not_installed(f"the package {package} for `ndis {args[0]}`", how)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer would end silently at an interrupt."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise CtrlC(str(interrupt) or "nothing was paid") from interrupt


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


@functools.cache
def command() -> Any:
    """The program, put together once for all calls in a process."""
    return typer.main.get_command(app)
