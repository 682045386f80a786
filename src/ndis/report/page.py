"""A self-contained HTML page: no script, no request to anywhere, readable on a phone."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

_PICTURE, _DOTS = (4.8, 3.2), 200


def section(title: str, *parts: str) -> str:
    """A heading and what is below it, which is HTML already."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False) -> str:
    """A table of plain text: numbers to the right, or words that wrap."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    kind = ' class="words"' if words else ""
    return f'<div class="wide"><table{kind}>{content}</table></div>'


def picture(figure: Any, alternative: str) -> str:
    """A matplotlib figure, inside the page."""
    content = io.BytesIO()
    # Small, with many dots: its letters stay readable at the width of a phone.
    figure.set_size_inches(*_PICTURE)
    figure.savefig(content, format="png", dpi=_DOTS)
    data = base64.b64encode(content.getvalue()).decode()
    return f'<img alt="{escape(alternative)}" src="data:image/png;base64,{data}">'


def new_page(path: Path) -> Path:
    """The path of a page for the owner of the data alone; refuses what is there already."""
    if path.suffix.lower() != ".html":
        raise ValueError(f"Expected an owner's page that ends in .html, got {path}; rename it.")
    if os.path.lexists(path):
        raise FileExistsError(f"Expected a new file, got {path}, which exists; choose another.")
    return path


def write_page(path: Path, title: str, sections: Iterable[str], *, owner: bool = False) -> Path:
    """Write the page and return its path; an owner's is new, and nobody else can read it."""
    style = resources.files("ndis.report").joinpath("page.css").read_text()
    if owner:
        os.close(os.open(new_page(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(sections)}</body></html>\n"
    )
    return path
