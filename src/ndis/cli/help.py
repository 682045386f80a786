"""``--help``: a first screen with what everybody needs, and everything with ``--help-all``."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

# Options that many people use; others are shown by `--help-all`, where a command has many.
_OFTEN = (
    *("epsilon", "delta", "limits", "levels", "label", "by", "quantiles", "classes", "columns"),
    *("person", "drop_missing", "n_rows", "out", "ledger", "note", "json", "config", "csv"),
)
_MANY = 16
# Longer names of options stand on a line of their own.
_LONGEST, _WIDEST = 28, 100


def width() -> int:
    """How wide a screen is: what COLUMNS says, or the terminal, or 80."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


class Helped(TyperCommand):
    """A command whose help is plain text, with what is needed first."""

    needed: Collection[str] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Show everything if that is asked for."""
        if "--help-all" in args:
            typer.echo("\n".join(self._help(ctx, everything=True)))
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """What `--help` shows."""
        formatter.write("\n".join(self._help(ctx)) + "\n")

    def _help(self, ctx: Any, everything: bool = False) -> Iterator[str]:
        shown = [each for each in self.params if not getattr(each, "hidden", False)]
        arguments = [each for each in shown if each.param_type_name != "option"]
        options = [each for each in shown if each.param_type_name == "option"]
        needed = [each for each in options if self._is_needed(each)]
        others = [each for each in options if each not in needed]
        if everything or len(options) <= _MANY:
            first, rest = others, 0
        else:
            first = [each for each in others if _flag(each)[2:].replace("-", "_") in _OFTEN]
            rest = len(others) - len(first)
        names = "".join(f" {_name(each)}" for each in arguments)
        yield from _wrapped(f"Usage: {ctx.command_path}{names} [OPTIONS]")
        for part in (self.help or "").replace("\b", "").split("\n\n"):
            yield ""
            yield from _wrapped(" ".join(part.split()))
        yield from _section("", arguments)
        yield from _section("Needed", needed)
        yield from _section("Options", first)
        if rest:
            yield ""
            call = f"{ctx.command_path} --help-all"
            yield from _wrapped(f"{rest} more options, for files written otherwise too: {call}")

    def _is_needed(self, parameter: Any) -> bool:
        said = {parameter.name, parameter.metavar}
        return any(said & {*each.split("|")} for each in self.needed)


def help_of_group(group: Any, ctx: Any) -> str:
    """The commands of a group, a line for each, and its options."""
    found = ((name, group.get_command(ctx, name)) for name in group.list_commands(ctx))
    said = ((name, " ".join((each.help or "").split()).partition(". ")[0]) for name, each in found)
    rows = [(name, f"{text.rstrip('.')}.") for name, text in said]
    options = [each for each in group.get_params(ctx) if not getattr(each, "hidden", False)]
    lines = _wrapped(f"Usage: {ctx.command_path} COMMAND [OPTIONS]")
    for part in (group.help or "").replace("\b", "").split("\n\n"):
        lines += ["", *_wrapped(" ".join(part.split()))]
    lines += ["", "Commands", *in_columns(rows), *_section("Options", options)]
    return "\n".join(lines) + "\n"


def _section(title: str, parameters: Sequence[Any]) -> Iterator[str]:
    if parameters:
        yield ""
        yield from [title] if title else []
        yield from in_columns((_name(each), getattr(each, "help", "") or "") for each in parameters)


def _flag(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


def _name(parameter: Any) -> str:
    """How a parameter is written."""
    if parameter.param_type_name != "option":
        return str(parameter.metavar or parameter.name).upper()
    name = _flag(parameter)
    if parameter.secondary_opts:
        name = f"--[no-]{name[2:]}"
    switch = parameter.is_flag or not parameter.metavar
    return name if switch else f"{name} {parameter.metavar}"


def in_columns(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names on the left, their meaning beside them."""
    rows = list(rows)
    short = [len(name) for name, _ in rows if len(name) <= _LONGEST]
    indent = max(short, default=_LONGEST) + 4
    for name, meaning in rows:
        lines = textwrap.wrap(meaning, max(width() - indent, 20)) or [""]
        if len(name) > indent - 4:
            yield f"  {name}"
        else:
            yield f"  {name:{indent - 2}}{lines.pop(0)}".rstrip()
        yield from (f"{'':{indent}}{line}" for line in lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width(), break_long_words=False, break_on_hyphens=False)
