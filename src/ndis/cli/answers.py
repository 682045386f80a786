"""The answers of a release in print: tables for people, CSV and JSON for programs.

What the answers are is the estimators' own (`ndis.answer`); here they are only written.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.answer import Answer
from ndis.cli.console import Reply, Shown, echo

if TYPE_CHECKING:
    from ndis.release import Release

# Wider and longer tables do not fit onto a screen.
_MOST_COLUMNS, _MOST_ROWS = 8, 60
# Of which some spreadsheets take the wide forms, too.
_FORMULA = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?")


def shown(answers: Sequence[Answer]) -> Iterator[str | Shown]:
    """Answers as tables, as far as they fit onto a screen."""
    for each in answers:
        title, headings, rows, note, *_ = each
        if len(headings) > _MOST_COLUMNS or len(rows) > _MOST_ROWS:
            yield f"{title}: {len(rows)} x {len(headings)} numbers, see --csv or --json"
        else:
            yield Shown(title, ["", *headings], [[name, *cells] for name, cells in each.cells()])
            hidden = ", ".join(name for name, row in rows if any(map(math.isnan, row)))
            yield from [note] if note else []
            yield from [f"No information at this budget: {hidden}."] if hidden else []


def as_document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers by title, name and heading, for JSON."""

    def known(row: Sequence[float]) -> list[float | None]:
        return [value if math.isfinite(value) else None for value in row]

    return {
        title: {name: dict(zip(headings, known(row), strict=False)) for name, row in rows}
        for title, headings, rows, *_ in answers
    }


class Answers(Reply):
    """A reply that can be had as CSV, too: the answers in it; and as Markdown and HTML."""

    forms = ("as_csv", "as_json", "as_markdown", "as_html")

    def __init__(
        self, document: Mapping[str, Any], *parts: str | Shown, answers: Sequence[Answer]
    ) -> None:
        super().__init__(document, *parts)
        self.answers = answers

    @classmethod
    def of(cls, *answers: Answer) -> Answers:
        """Nothing but these answers."""
        return cls(as_document(answers), *shown(answers), answers=answers)

    def tell(
        self,
        as_json: bool,
        as_csv: bool = False,
        as_markdown: bool = False,
        as_html: bool = False,
    ) -> None:
        """Print it in the form that was asked for."""
        if (as_markdown or as_html) and not as_json:
            written = as_html_part if as_html else as_markdown_part
            echo("\n\n".join(map(written, self.parts)))
            return
        if as_json or not as_csv:
            super().tell(as_json)
            return
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        before: Sequence[str] = ()
        for title, headings, rows, _, keys, long, _ in self.answers:
            first = long or [title, *headings]
            if not long or first != before:
                lines.writerow(map(harmless, first))
            before = first
            for (_, row), key in zip(rows, keys or [[name] for name, _ in rows], strict=True):
                numbers = ("" if math.isnan(value) else repr(value) for value in row)
                lines.writerow([*(harmless(str(word)) for word in key), *numbers])
        echo(text.getvalue().rstrip("\n"))


def as_markdown_part(part: str | Shown) -> str:
    r"""A sentence or a table in Markdown; what is in a cell stays there.

    Examples
    --------
    >>> from ndis.cli.answers import Shown, as_markdown_part
    >>> print(as_markdown_part(Shown("pay", ["", "estimate"], [["a|b", "1"]])))
    **pay**
    <BLANKLINE>
    |  | estimate |
    | --- | ---: |
    | a\|b | 1 |
    """
    if isinstance(part, str):
        return _unmarked(part)

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(map(_unmarked, cells))} |"

    width = len(part.headings)
    rows = (line([*row, *[""] * (width - len(row))]) for row in part.rows)
    rule = f"| --- |{' ---: |' * (width - 1)}"
    return "\n".join([f"**{_unmarked(part.title)}**", "", line(part.headings), rule, *rows])


def _unmarked(text: str) -> str:
    """Text that Markdown and HTML leave alone."""
    return re.sub(r"([|\\`*_<\[])", r"\\\1", " ".join(text.split()))


def as_html_part(part: str | Shown) -> str:
    """A sentence or a table in HTML."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in part.headings)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in part.rows
    )
    title = escape(part.title)
    return f"<table><caption>{title}</caption><tr>{heads}</tr>{rows}</table>"


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers.

    Examples
    --------
    >>> from ndis.cli.answers import harmless
    >>> harmless("=1+1"), harmless("-1.5"), harmless("age")
    ("'=1+1", '-1.5', 'age')
    """
    return cell if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) else f"'{cell}"


# -- releases -----------------------------------------------------------------------------------


def describe(release: Release) -> str:
    """The mechanism and the arrays, in a line."""
    arrays = (
        f"{name} {' x '.join(map(str, array.shape))}".rstrip()
        for name, array in release.arrays.items()
    )
    return f"{release.mechanism}: {', '.join(arrays)}"


def draw_curve(release: Release, plot: Path) -> None:
    """Write the privacy curve of a release as a picture."""
    import numpy as np

    from ndis import plots

    if release.guarantee.loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without, which is as it "
            "was; leave out --plot."
        )
    grid = np.linspace(0.0, 2.0 * release.guarantee.epsilon + 0.5, 201)
    plots.curve(release.guarantee.loss, grid, title=release.mechanism).savefig(plot)


def answers_of(release: Release, estimates: Sequence[Answer]) -> Sequence[Answer]:
    """What the estimator makes of its release, or the arrays themselves."""
    return estimates or [
        Answer.of(name, [name] if n == 1 else map(str, range(n)), range(len(matrix)), matrix)
        for name, array in release.arrays.items()
        if array.ndim <= 2
        for matrix in [array if array.ndim == 2 else array.reshape(-1, 1)]
        for n in [matrix.shape[1]]
    ]


def values(release: Release, estimates: Sequence[Answer]) -> dict[str, Any]:
    """The released arrays and what follows from them by name, for JSON."""
    arrays: Mapping[str, Any] = {name: array.tolist() for name, array in release.arrays.items()}
    return {**arrays, **as_document(estimates)}


def estimates_of(release: Release, model: Any = None) -> list[Answer]:
    """The answers of the fitted estimator, or of one that the release restores."""
    try:
        found: list[Answer] = (restored(release) if model is None else model).answers()
        return found
    except Exception:  # whatever a stranger's parameters do to it: the arrays are there
        return []


def restored(release: Release) -> Any:
    """The fitted estimator that a release restores; None if none is to be had."""
    from ndis.mechanisms.plugins import estimator_named

    try:
        return estimator_named(release.mechanism).from_release(release)
    except Exception:  # a stranger wrote it: what cannot be restored is shown as arrays
        return None
