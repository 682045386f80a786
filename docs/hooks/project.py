"""A hook of mkdocs: CHANGELOG.md, CONTRIBUTING.md and SECURITY.md are pages of the site, too."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_ADDRESSES = PAGES | {"README.md": "index.md"}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)]+)\)")


def page(name: str) -> str:
    """A file of the repository's root as a page: its links lead to pages, or are plain text."""
    text = _LINK.sub(_link, (_ROOT / name).read_text())
    # The changelog has every word, and answers no question.
    return f"---\nsearch:\n  boost: 0.1\n---\n\n{text}" if name == "CHANGELOG.md" else text


def _link(found: re.Match[str]) -> str:
    text, address = found.groups()
    if address.startswith("docs/"):
        return f"[{text}]({address.removeprefix('docs/')})"
    return f"[{text}]({_ADDRESSES[address]})" if address in _ADDRESSES else text


def on_files(files: Any, config: Any) -> Any:
    """Make the pages."""
    for name, address in PAGES.items():
        files.append(File.generated(config, address, content=page(name)))
    return files
