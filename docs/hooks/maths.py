"""A hook of mkdocs: e^{-x} and x_j in running text become superscripts and subscripts.

Pages keep the plain notation, which reads well as Markdown; no script is fetched or run to show
formulas. Code is left alone.
"""

import re
from typing import Any

_TAG = re.compile(r"(<[^>]+>)")
_LEFT_ALONE = re.compile(r"<(/?)(pre|code|svg|style|script)\b")
_RULES = (
    (re.compile(r"\\([\^~])"), r"\1"),  # Markdown does not know these escapes
    (re.compile(r"\^\{([^{}]+)\}|\^\(([^()]+)\)"), r"<sup>\1\2</sup>"),
    (re.compile(r"\^([−-]?(?:\w|\.(?=\d))+)"), r"<sup>\1</sup>"),
    (re.compile(r"_\{([^{}]+)\}"), r"<sub>\1</sub>"),
    (
        re.compile(
            r"(?<![A-Za-z_])([^\W\d_]|sup|inf|min|max)_([A-Za-z0-9]{1,3}|∞|\+)(?![A-Za-z0-9_])"
        ),
        r"\1<sub>\2</sub>",
    ),
    (re.compile(r"\)_\+"), r")<sub>+</sub>"),
)


def set_formulas(html: str) -> str:
    """Raise and lower what `^` and `_` mark in text, outside of code."""
    depth, parts = 0, []
    for part in _TAG.split(html):
        tag = _LEFT_ALONE.match(part)
        if tag:
            depth += -1 if tag[1] else 1
        elif not depth and not part.startswith("<"):
            for pattern, shown in _RULES:
                part = pattern.sub(shown, part)
        parts.append(part)
    return "".join(parts)


def on_page_content(html: str, **_: Any) -> str:
    """What mkdocs calls for each page."""
    return set_formulas(html)
