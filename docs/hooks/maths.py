r"""A hook of mkdocs that sets formulas: no script is fetched or run to show them.

Pages keep plain notation, which reads well as Markdown and in a terminal. In running text `e^{-x}`
and `x_j` become superscripts and subscripts, and TeX between `\(` and `\)` is drawn; an indented
block of formulas is read as TeX and drawn. Drawings are SVG in the colour of the text, made by
matplotlib. Code is left alone.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from html import escape, unescape
from typing import Any

import matplotlib
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath

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
_INLINE = re.compile(r"\\\((.+?)\\\)", re.DOTALL)
_BLOCK = re.compile(
    r'<div class="(?:language-text )?highlight"><pre><span></span><code>(.*?)</code></pre></div>',
    re.DOTALL,
)
_FORMULA = re.compile(r"[=≤≥<>∫Σ−ᵀ‖]|N\(")
_NO_FORMULA = re.compile(r"""[│─▶▼"`$#\\@]|>>>|->|_{2}|--|\.py|\b(def|import|assert)\b""")


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


# -- drawings ------------------------------------------------------------------------------------

_SIZE = 100.0  # units of one em in a drawing
_TEX = {r"\\le\b": r"\\leq", r"\\ge\b": r"\\geq", r"\\[bB]igg?[lr]?(?![a-z])": ""}
_TEX |= {r"\\sqrt ([a-z])": r"\\sqrt{\1}", r"\\ ": r"\\;"}


@cache
def draw(tex: str, words: str, font: str = "stix") -> str:
    """A formula as SVG, as large and as high on its line as the text around it.

    Parameters
    ----------
    tex : str
        What matplotlib understands of TeX.
    words : str
        The formula for those who do not see it.
    """
    for pattern, meant in _TEX.items():
        tex = re.sub(pattern, meant, tex)
    tex = f"${' '.join(tex.split())}$"
    with matplotlib.rc_context({"mathtext.fontset": font}):
        size = FontProperties(size=_SIZE)
        width, height, depth, *_ = MathTextParser("path").parse(tex, 72, size)
        outline = TextPath((0.0, 0.0), tex, size=_SIZE)
    steps = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}
    drawn = "".join(
        "Z"
        if code == Path.CLOSEPOLY
        else steps[code] + " ".join(f"{x:.0f},{-y:.0f}" for x, y in points.reshape(-1, 2))
        for points, code in outline.iter_segments(simplify=False, curves=True)
    )
    low, high = depth + 4.0, height - depth + 4.0
    return (
        f'<svg class="formula" role="img" aria-label="{escape(words)}" '
        f'viewBox="0 {-high:.0f} {width:.0f} {low + high:.0f}" '
        f'style="width:{width / _SIZE:.3f}em;vertical-align:{-low / _SIZE:.3f}em">'
        f'<path d="{drawn}"/></svg>'
    )


# -- plain notation --------------------------------------------------------------------------------

_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀ", "0123456789-+T", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊ᵢⱼ", "0123456789+ij", strict=True))
_SIGNS = {
    "½": r"\frac{1}{2}", "Σ": r"\sum", "Π": r"\prod", "∫": r"\int", "∞": r"\infty",
    "≤": r"\leq", "≥": r"\geq", "<=": r"\leq", ">=": r"\geq", "−": "-", "∓": r"\mp",
    "‖": r"\Vert", "∩": r"\cap", "·": r"\cdot", "*": r"\cdot", "...": r"\ldots", "′": "'",
    "∈": r"\in", "→": r"\rightarrow", "×": r"\times", "≈": r"\approx", "%": r"\%",
    "{": r"\{", "}": r"\}", "±": r"\pm",
}  # fmt: skip
_GREEK = {"eps": "varepsilon", "epsilon": "varepsilon", "ε": "varepsilon", "φ": "varphi"}
# Other letters by their names, and by what Unicode calls them: GREEK SMALL LETTER TAU.
_GREEK |= {name: name for name in ("delta", "Lambda", "sigma", "gamma", "phi", "mu", "nu", "tau")}
for _letter in "αβγδζηθκλμνξπρστχψωΓΔΘΛΞΦΨΩ":
    _name = unicodedata.name(_letter).split()[-1].replace("LAMDA", "LAMBDA")
    _GREEK[_letter] = _name.title() if _letter.isupper() else _name.lower()
_SHORT_WORDS = {"in", "of", "if", "is", "to", "so", "on", "at", "or", "ln", "Re", "Im", "Pr"}
_OPEN = {"(": ")", "{": "}"}


def to_tex(plain: str) -> str:
    """Plain notation as TeX.

    Examples
    --------
    >>> to_tex("Λ(s) = ln E_P[e^(sL)]")
    '\\\\Lambda (s)=\\\\;{\\\\mathrm{ln}}\\\\;E_{P}[e^{sL}]'
    """
    for signs, mark in ((_RAISED, "^"), (_LOWERED, "_")):
        run = re.compile(f"[{''.join(signs)}]+")
        plain = run.sub(
            lambda found, signs=signs, mark=mark: (
                mark + "{" + "".join(signs[each] for each in found[0]) + "}"
            ),
            plain,
        )
    parts, place = [], 0
    while place < len(plain):
        rest = plain[place:]
        sign = next((sign for sign in (rest[:3], rest[:2], rest[:1]) if sign in _SIGNS), "")
        script = re.match(r"\^|_|√|sqrt(?=\()", rest)
        word = None if sign else re.match(r"[^\W\d_ΣΠ½]+(?:\d[^\W_]*)?|\d[\d.]*", rest)
        if script:
            inside, length = _argument(rest[script.end() :])
            parts.append((script[0] if script[0] in "^_" else r"\sqrt") + f"{{{to_tex(inside)}}}")
            place += script.end() + length
        elif word:
            parts.append(_word(word[0]))
            place += word.end()
        else:
            parts.append(f"{_SIGNS[sign]} " if sign else rest[0].strip())
            place += max(len(sign), 1)
    return re.sub(r"(^|[([{|])\\;|(?:\\;)+(?=$|[()\[\]_^.,;:|]|\\;)", r"\1", "".join(parts))


def _argument(rest: str) -> tuple[str, int]:
    """What a raised, lowered or root sign applies to, and how many characters that takes."""
    if rest[:1] not in _OPEN:
        found = re.match(r"[−-]?(?:[^\W_]|\.(?=\d))+'?|[+*∞½]", rest)
        return (found[0], found.end()) if found else ("", 0)
    depth = 0
    for place, each in enumerate(rest):
        depth += (each == rest[0]) - (each == _OPEN[rest[0]])
        if not depth:
            return rest[1:place], place + 1
    raise ValueError(f"Expected {_OPEN[rest[0]]!r}, got {rest!r}; close what is open.")


def _word(word: str) -> str:
    """A name: a Greek letter, variables side by side, or a word."""
    if word == "sum":
        return r"\sum "
    if word in _GREEK:
        return rf"\{_GREEK[word]} "
    if word[:1] == "d" and word[1:] in _GREEK:
        return rf"d\{_GREEK[word[1:]]} "
    if (len(word) < 3 and word not in _SHORT_WORDS) or not word[0].isalpha():
        return "".join(rf"\{_GREEK[each]} " if each in _GREEK else each for each in word)
    return r"\;{\mathrm{" + word + r"}}\;"


def set_block(plain: str) -> str | None:
    """Lines of formulas, drawn; None where they are something else.

    What three spaces set apart may go on a new line of a narrow screen.
    """
    if not _FORMULA.search(plain) or _NO_FORMULA.search(plain):
        return None
    lines = [
        " ".join(draw(to_tex(part), part) for part in re.split(r" {3,}", line.strip()))
        for line in plain.strip("\n").split("\n")
    ]
    return f'<div class="formula">{"<br>".join(lines)}</div>'


def _block(found: re.Match[str]) -> str:
    try:
        return set_block(unescape(found[1])) or found[0]
    except ValueError:  # no formula after all
        return found[0]


# -- mkdocs ----------------------------------------------------------------------------------------


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Markdown with a change made outside of fenced and inline code."""
    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def on_page_markdown(markdown: str, **_: Any) -> str:
    r"""What mkdocs calls before a page is made: draw `\(...\)`."""
    return outside_code(
        markdown, lambda text: _INLINE.sub(lambda found: draw(found[1], found[1]), text)
    )


def on_page_content(html: str, **_: Any) -> str:
    """What mkdocs calls for each page."""
    return set_formulas(_BLOCK.sub(_block, html))
