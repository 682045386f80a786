"""A hook of mkdocs: one page for each public name that docs/api.md lists, and a list of them."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_LISTED = re.compile(r"^(## .+|::: \S+)$", re.MULTILINE)
INDEX = Path(__file__).parent.parent / "api.md"


def sections() -> dict[str, list[str]]:
    """The names that docs/api.md lists, by the headings above them."""
    found: dict[str, list[str]] = {}
    for line in _LISTED.findall(INDEX.read_text()):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = []
        else:
            found[heading].append(line.removeprefix("::: "))
    return found


def resolve(name: str) -> Any:
    """The object of a dotted name."""
    try:
        return import_module(name)
    except ImportError:
        home, _, last = name.rpartition(".")
        return getattr(resolve(home), last)


def page(name: str) -> str:
    """Where the page of a name is; `profile` and `Profile` are two files on every disk."""
    last = name.rpartition(".")[2]
    return f"api/{last}{'-function' if inspect.isfunction(resolve(name)) else ''}.md"


def summary(name: str) -> str:
    """The first sentence of what the name's own documentation says."""
    text = inspect.cleandoc(resolve(name).__doc__ or "").split("\n\n")[0]
    return " ".join(text.replace("``", "`").split())


def on_config(config: Any) -> Any:
    """Put the pages into the navigation, under the headings of the list."""
    pages = [
        {heading: [{name.rpartition(".")[2]: page(name)} for name in names]}
        for heading, names in sections().items()
    ]
    for entry in config.nav:
        for part in entry.get("Reference", ()):
            if part.get("API") == "api.md":
                part["API"] = ["api.md", *pages]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Make the pages."""
    for names in sections().values():
        for name in names:
            files.append(File.generated(config, page(name), content=f"::: {name}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the list of names into a list of links."""
    if page.file.src_uri != "api.md":
        return markdown
    return re.sub(r"^::: (\S+)\n\n?", _link, f"{markdown}\n", flags=re.MULTILINE)


def _link(found: re.Match[str]) -> str:
    name = found[1]
    return f"- [`{name.rpartition('.')[2]}`]({page(name)}): {summary(name)}\n"
