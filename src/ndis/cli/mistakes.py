"""A wrong call in one sentence: what was expected, what was given, and the nearest right word."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ndis._validate import NOT_OF_PEOPLE
from ndis.cli.help import help_of_group

# Commands that publish something about a table, or say what that would be.
_OF_PEOPLE = frozenset(("release", "party", "forecast", "calibrate", "audit"))
# What people call a command that has another name here.
OTHER_NAMES = {
    "least-squares": "regression",
    "linear-regression": "regression",
    "ols": "regression",
    "logistic-regression": "logistic",
    "poisson-regression": "poisson",
    "gamma": "poisson",
    "classification": "logistic",
    "gaussian-process": "process",
    "principal-components": "pca",
    "sketch": "projection",
    "norm": "limits",
    **dict.fromkeys(("mean", "average", "count", "counts", "sum", "describe"), "summary"),
    **dict.fromkeys(("histogram", "median", "quantile", "quantiles", "group-by"), "summary"),
    **dict.fromkeys(("glm", "rates", "gamma", "poisson-regression"), "poisson"),
}
# typer brought its own copy of click at some version, so that this has two addresses.
ClickException: Any = typer.BadParameter.__mro__[2]


class Commands(TyperGroup):
    """A group of commands that knows its own words; `make` turns a child of it into a command."""

    children: Mapping[str, Any]
    make: Callable[[Any], Any]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """What `--help` shows, as plain text."""
        formatter.write(help_of_group(self, ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of its children, in their order."""
        return [*self.children]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, made when it is asked for: estimators load slowly."""
        child = self.children.get(cmd_name)
        made = child is None or isinstance(child, TyperCommand | TyperGroup)
        return child if made else self.make(child)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, or a sentence."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise ValueError(
                f"Expected a command of {ctx.command_path}, got {args[0]!r}; "
                f"{self._meant(ctx, args[0])}"
            )
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: Any, word: str) -> str:
        """What somebody may have meant: a near word, a command of a group, a file."""
        known = self.list_commands(ctx)
        if Path(word).suffix and "regression" in known:
            return f"say what to do with it, as in {ctx.command_path} regression {word}."
        advice = _advice(word, known, ctx)
        if advice.startswith("see") and isinstance(group := self.children.get("release"), Commands):
            inner = _advice(word, group.list_commands(ctx), ctx)
            if not inner.startswith("see"):
                return inner.replace("did you mean ", f"did you mean {ctx.command_path} release ")
        return advice

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Refuse an option of a command before its name, with an example."""
        first = next((word for word in args if word.startswith("--")), None)
        own = {flag for parameter in self.get_params(ctx) for flag in _flags(parameter)}
        early = args[:1] == [first] and first not in {*own, "--help"}
        if early and "regression" in self.list_commands(ctx):
            raise ValueError(
                f"Expected a command of {ctx.command_path} before {first}, got none; name what it "
                f"is about first, as in {ctx.command_path} regression {first}."
            )
        return super().parse_args(ctx, args)


def sentence(error: Any) -> str:
    """What a usage error says, as one sentence."""
    kind, context = type(error).__name__, error.ctx
    call = "ndis" if context is None else context.command_path
    if kind == "NoSuchOption":
        if error.option_name == "--person" and not _OF_PEOPLE.isdisjoint(call.split()):
            return f"Expected no --person for {call}, {NOT_OF_PEOPLE}"
        known = [flag for parameter in context.command.params for flag in _flags(parameter)]
        advice = _advice(error.option_name, [*known, "--help"], context)
        return f"Expected an option of {call}, got {error.option_name}; {advice}"
    if kind == "BadOptionUsage":
        return f"Expected a value after {error.option_name}, got none; write one."
    text = error.format_message()
    if beyond := re.match(r"Got unexpected extra argument\w*(?:\(s\))? \((.*)\)", text):
        return _beyond(beyond[1], context, call)
    return f"{' '.join(text.split()).rstrip('.')}; {_see(call)}"


def _beyond(words: str, context: Any, call: str) -> str:
    """What somebody is told who wrote a word too many, such as a file where none is read."""
    takes = [str(p.metavar) for p in context.command.params if p.param_type_name == "argument"]
    if takes:
        return (
            f"Expected {' and '.join(takes)} after {call} and nothing more, got {words!r} as well; "
            "leave it out, and put names with spaces in quotation marks."
        )
    return f"Expected options only after {call}, which reads no file, got {words!r}; leave it out."


def missing(names: Sequence[str], call: str) -> str:
    """What is missing in a call, all of it at once.

    Examples
    --------
    >>> from ndis.cli.mistakes import missing
    >>> missing(["--epsilon", "--delta", "--label"], "ndis release regression")
    'Expected --epsilon, --delta and --label, got none of them; see ndis release regression --help.'
    """
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    none = "none" if len(names) == 1 else "neither" if len(names) == 2 else "none of them"
    return f"Expected {listed}, got {none}; {_see(call)}"


def _flags(parameter: Any) -> list[str]:
    if parameter.param_type_name != "option":
        return []
    return [flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag[:2] == "--"]


def _advice(word: str, known: Iterable[str], context: Any) -> str:
    bare = {name.lstrip("-"): name for name in known}  # dashes are no likeness
    plain = word.lstrip("-").replace("_", "-")
    near = [OTHER_NAMES[plain]] if OTHER_NAMES.get(plain) in bare else []
    near = near or get_close_matches(plain, bare, 1)
    return f"did you mean {bare[near[0]]}?" if near else _see(context.command_path)


def _see(call: str) -> str:
    return f"see {call} --help."
