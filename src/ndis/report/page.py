"""A self-contained HTML page: no script, no request to anywhere, readable on a phone."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

_CSS = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { overflow-wrap: normal; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
table.words th, table.words td { text-align: left; vertical-align: top; white-space: nowrap;
  padding: .3rem .8rem .3rem 0; }
table.words td:last-child { white-space: normal; width: 100%; }
img { width: 100%; max-width: 40rem; height: auto; }
@media (prefers-color-scheme: dark) {
  section { background: Canvas; }
  img { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
@media (max-width: 30rem) { td, th { padding: .3rem .3rem; font-size: .85rem; } }
pre { white-space: pre-wrap; font-size: .8rem; }
.refuted, .consistent { border-left: .4rem solid; padding: .2rem 0 .2rem .8rem; }
.refuted { border-color: #c0392b; } .consistent { border-color: #2e7d55; }
"""

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


def write_page(path: Path, title: str, sections: Iterable[str]) -> Path:
    """Write the page and return its path."""
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(sections)}</body></html>\n"
    )
    return path
