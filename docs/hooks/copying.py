"""A hook of mkdocs: the copy button copies what can be pasted, neither prompts nor output."""

import re
from html import escape, unescape
from typing import Any

_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
_CODE = re.compile(
    r'<div class="language-(pycon|console) highlight">(?=<pre>.*?<code>(.*?)</code></pre></div>)',
    re.DOTALL,
)
_PROMPTS = {"pycon": re.compile(r"^(?:>>>|\.\.\.)(?: |$)"), "console": re.compile(r"^\$ ")}


def to_paste(kind: str, text: str) -> str:
    """The lines that somebody typed.

    Examples
    --------
    >>> to_paste("console", "$ ndis demo\\nWritten.")
    'ndis demo'
    """
    prompt = _PROMPTS[kind]
    return "\n".join(prompt.sub("", line) for line in text.splitlines() if prompt.match(line))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Call a session a session."""
    return _SESSION.sub("```pycon\n", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """What mkdocs calls for each page."""

    def marked(found: re.Match[str]) -> str:
        kind, code = found.groups()
        text = to_paste(kind, unescape(re.sub(r"<[^>]+>", "", code)))
        return f'<div class="language-{kind} highlight" data-copy="{escape(text)}">'

    return _CODE.sub(marked, html)
