"""A wrong call in one sentence: what was expected, what was given, and the nearest right word."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# What people call a command that has another name here.
OTHER_NAMES = {
    "least-squares": "regression",
    "linear-regression": "regression",
    "ols": "regression",
    "logistic-regression": "logistic",
    "classification": "logistic",
    "gaussian-process": "process",
    "principal-components": "pca",
    "sketch": "projection",
    "noise": "gaussian",
    "norm": "limits",
}
# What a value must be, by a word in what the framework says, which differs from version to version.
_TYPES = {"integer": "a whole number", "float": "a number", "number": "a number"}
# typer brought its own copy of click at some version, so that these have two addresses.
_, UsageError, ClickException, *_others = typer.BadParameter.__mro__


class Commands(TyperGroup):
    """A group of commands that knows its own words; `make` turns a child of it into a command."""

    children: Mapping[str, Any]
    make: Callable[[Any], Any]

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
                f"{_advice(args[0], self.list_commands(ctx), ctx)}"
            )
        return super().resolve_command(ctx, args)


def sentence(error: Any, words: Sequence[str]) -> str:
    """What a usage error says, as one sentence; empty where its help was printed already.

    Parameters
    ----------
    error : UsageError
    words : sequence of str
        The call, without the program's name: an error does not know what value it is about.
    """
    kind, context = type(error).__name__, error.ctx
    if kind == "NoArgsIsHelpError":
        return ""
    call = "ndis" if context is None else context.command_path
    if kind == "NoSuchOption":
        known = [flag for parameter in context.command.params for flag in _flags(parameter)]
        advice = _advice(error.option_name, [*known, "--help"], context)
        return f"Expected an option of {call}, got {error.option_name}; {advice}"
    if kind == "BadOptionUsage":
        return f"Expected a value after {error.option_name}, got none; write one."
    if kind == "MissingParameter" and error.param is not None:
        absent = [
            _name(parameter)
            for parameter in context.command.params
            if parameter is error.param or (parameter.required and not _is_given(parameter, words))
        ]
        return missing(absent, call)
    if kind == "BadParameter" and error.param is not None:
        name = _name(error.param)
        said = str(error.message)
        expected = next((_TYPES[word] for word in _TYPES if word in said), "a proper value")
        return f"Expected {expected} for {name}, got {_given(name, words)}; correct it."
    return f"{_one_line(error.format_message()).rstrip('.')}; {_see(call)}"


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


def _is_given(parameter: Any, words: Sequence[str]) -> bool:
    flags = [*parameter.opts, *parameter.secondary_opts]
    return parameter.param_type_name != "option" or any(
        word.partition("=")[0] in flags for word in words
    )


def _given(flag: str, words: Sequence[str]) -> str:
    """All values that follow a flag."""
    after = [value for word, value in pairwise(words) if word == flag]
    joined = [word.removeprefix(f"{flag}=") for word in words if word.startswith(f"{flag}=")]
    return ", ".join(after + joined) or "another"


def _flags(parameter: Any) -> list[str]:
    if parameter.param_type_name != "option":
        return []
    return [flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag[:2] == "--"]


def _name(parameter: Any) -> str:
    flags = _flags(parameter)
    return flags[0] if flags else str(parameter.metavar or parameter.name).upper()


def _advice(word: str, known: Iterable[str], context: Any) -> str:
    bare = {name.lstrip("-"): name for name in known}  # dashes are no likeness
    plain = word.lstrip("-").replace("_", "-")
    near = [OTHER_NAMES[plain]] if OTHER_NAMES.get(plain) in bare else []
    near = near or get_close_matches(plain, bare, 1)
    return f"did you mean {bare[near[0]]}?" if near else _see(context.command_path)


def _see(call: str) -> str:
    return f"see {call} --help."


def _one_line(text: str) -> str:
    return " ".join(text.split())
