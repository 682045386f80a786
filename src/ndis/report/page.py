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
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; height: auto; background: white; }
pre { overflow-x: auto; font-size: .8rem; }
"""


def section(title: str, *parts: str) -> str:
    """A heading and what is below it, which is HTML already."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{content}</table></div>'


def picture(figure: Any, alternative: str) -> str:
    """A matplotlib figure, inside the page."""
    content = io.BytesIO()
    figure.savefig(content, format="png")
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
