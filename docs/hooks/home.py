"""A hook of mkdocs: a section of README.md where a page asks for it, so that it is written once."""

import re
from pathlib import Path
from typing import Any

_README = Path(__file__).parent.parent.parent / "README.md"
_WANTED = re.compile(r"^<!-- README: (.+) -->$", re.MULTILINE)


def section(title: str) -> str:
    """A section of README.md with its heading."""
    found = re.search(
        rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", _README.read_text(), re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise ValueError(f"Expected a section of README.md, got {title!r}; correct the page.")
    return found[0].rstrip()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for each page."""
    return _WANTED.sub(lambda wanted: section(wanted[1]), markdown)
