"""A hook of mkdocs: each page that somebody wrote says when it was last changed."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent.parent


@cache
def dates() -> dict[str, str]:
    """The day of the last commit of each file below docs; nothing outside a clone."""
    call = ["git", "log", "--format=:%cs", "--name-only", "--", "docs"]
    try:
        done = subprocess.run(call, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {}
    found: dict[str, str] = {}
    day = ""
    for line in done.stdout.splitlines():
        if line.startswith(":"):
            day = line[1:]
        elif line:
            found.setdefault(line.removeprefix("docs/"), day)
    return found


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """What mkdocs calls for each page."""
    day = dates().get(page.file.src_uri) if page else None
    return f"{markdown}\n\n<small>Last changed on {day}.</small>\n" if day else markdown
