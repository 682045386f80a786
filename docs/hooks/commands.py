"""A hook of mkdocs: a reference page for each command, made from the program itself."""

from collections.abc import Container, Iterator
from typing import Any

import typer
from mkdocs.structure.files import File

from ndis.cli.program import command


def commands(group: Any = None) -> Iterator[tuple[str, Any]]:
    """The commands of a group, of the whole program if none is given, by name."""
    group = group or command()
    context = typer.Context(group)
    for name in group.list_commands(context):
        yield name, group.get_command(context, name)


def reference(call: str, found: Any, level: int = 1) -> str:
    """A command, its options, and the commands below it, as Markdown."""
    text = "\n\n".join((found.help or "").replace("\b", "").split("\n\n"))
    parts = [f"{'#' * level} {call}", text]
    if hasattr(found, "list_commands"):
        parts += [reference(f"{call} {name}", each, level + 1) for name, each in commands(found)]
        return "\n\n".join(parts)
    shown = [each for each in found.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name != "option"]
    names = "".join(f" {_argument(each)}" for each in arguments)
    parts.append(f"```text\n{call}{names} [OPTIONS]\n```")
    parts.append("\n".join(_item(each, getattr(found, "needed", ())) for each in shown))
    return "\n\n".join(parts)


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper()


def _item(parameter: Any, needed: Container[str]) -> str:
    option = parameter.param_type_name == "option"
    flags = [*parameter.opts, *parameter.secondary_opts] if option else [_argument(parameter)]
    names = ", ".join(f"`{flag}`" for flag in flags)
    text = " ".join((getattr(parameter, "help", None) or "").split())
    given = parameter.default
    worth = given not in (None, "", True, False) and not callable(given)
    if parameter.required or parameter.name in needed or parameter.metavar in needed:
        return f"- {names}: {text} **Required.**"
    return f"- {names}: {text}" + (f" Default: `{given}`." if worth else "")


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, below the command line's own."""
    pages = [{name: f"commands/{name}.md"} for name, _ in commands()]
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"].insert(0, {"Commands": pages})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make the pages."""
    for name, each in commands():
        content = reference(f"ndis {name}", each) + "\n"
        files.append(File.generated(config, f"commands/{name}.md", content=content))
    return files
