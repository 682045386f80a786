"""A page of a summary that can be published: bars with error bars, histograms, what is promised."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ndis._validate import FloatArray
from ndis.answer import DATE, as_words
from ndis.report.page import section, table, write_page

if TYPE_CHECKING:
    from ndis.answer import Answer
    from ndis.mechanisms.summary import PrivateSummary

# Of a picture, in its own units: its width, what names and numbers take, the height of a bar.
_WIDE, _NAMES, _NUMBERS, _BAR = 640, 190, 110, 24
_TALL = 160
# More bars than this are left to the table.
_MOST_BARS = 60


def write_summary(model: PrivateSummary, path: Path, title: str = "Summary") -> Path:
    """Write the page, from what was released alone, and return its path.

    Parameters
    ----------
    model : PrivateSummary
        Fitted, or from a release.
    path : Path
    title : str

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa
    >>> from ndis import PrivateSummary
    >>> from ndis.report.summary_page import write_summary
    >>> model = PrivateSummary(
    ...     limits={"age": (0, 100)}, quantiles=[0.5], epsilon=1.0, delta=1e-6, random_state=0
    ... )
    >>> _ = model.fit(pa.table({"age": [30.0, 40.0] * 500}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_summary(model, pathlib.Path(folder) / "ages.html")
    ...     "Histogram of age" in page.read_text()
    True
    """
    parts = [section("What is promised", f"<p>{escape(str(model.guarantee_))}</p>")]
    for answer in model.answers():
        parts.append(section(answer.title, _bars(answer), *_told(answer)))
    parts += histograms(model)
    said = (
        "Lines are 95% intervals: for the population that the rows were drawn from, those of "
        "counts for the table. Counts were made not negative and add up, means lie within the "
        "limits, quantiles do not decrease."
    )
    parts.append(section("How to read it", f"<p>{said}</p>"))
    return write_page(path, title, parts)


def _told(answer: Answer) -> Iterator[str]:
    """The numbers themselves; what noise hides by name."""
    lines = zip(answer.cells(), answer.rows, strict=True)
    known = [[name, *cells] for (name, cells), (_, row) in lines if not any(map(math.isnan, row))]
    hidden = [name for name, row in answer.rows if any(map(math.isnan, row))]
    if known:
        yield table(["", *answer.headings], known)
    if answer.note:
        yield f"<p>{escape(answer.note)}</p>"
    if hidden:
        yield f"<p>No information at this budget: {escape(', '.join(hidden))}.</p>"


def _bars(answer: Answer) -> str:
    """A bar for each group, with its interval."""
    lines = zip(answer.cells(), answer.rows, strict=True)
    rows = [
        (n, row, cells[0]) for (n, cells), (_, row) in lines if all(map(math.isfinite, row[:4]))
    ]
    if not rows or len(rows) > _MOST_BARS:
        return ""
    dated = DATE in answer.units.values()  # where zero means nothing
    low = min(row[2] for _, row, _ in rows)
    high = max(row[3] for _, row, _ in rows)
    if not dated:
        low, high = min(low, 0.0), max(high, 0.0)
    scale = (_WIDE - _NAMES - _NUMBERS) / ((high - low) or 1.0)

    def x(value: float) -> float:
        return round(_NAMES + (value - low) * scale, 1)

    drawn = []
    for place, (name, (value, _, start, end, *_), cell) in enumerate(rows):
        y = place * _BAR
        left, right = sorted((x(value) - 2.0 if dated else x(0.0), x(value) + 2.0 * dated))
        drawn.append(
            f'<text x="{_NAMES - 8}" y="{y + 16}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect x="{left}" y="{y + 5}" width="{round(right - left, 1)}" height="14"/>'
            f'<path d="M{x(start)} {y + 12}H{x(end)}M{x(start)} {y + 8}v8M{x(end)} {y + 8}v8"/>'
            f'<text x="{x(high) + 8}" y="{y + 16}">{cell}</text>'
        )
    return _picture("".join(drawn), len(rows) * _BAR, answer.title)


def histograms(model: object) -> Iterator[str]:
    """A section for each numeric column of a summary with quantiles: a picture and its numbers."""
    from ndis.mechanisms.summary import PrivateSummary

    if not isinstance(model, PrivateSummary):
        return
    for column in model.limits_:
        found = model.histogram(column)
        if found is not None:
            yield _histogram(column, *found, DATE if column in model.dates_ else "")


def _histogram(column: str, edges: FloatArray, counts: FloatArray, unit: str) -> str:
    """Rows between the limits of a column, in all groups together."""
    most, step = max(counts.max(), 1.0), _WIDE / len(counts)
    drawn = "".join(
        f'<rect x="{round(k * step, 1)}" y="{round(_TALL * (1.0 - count / most), 1)}" '
        f'width="{round(step - 2.0, 1)}" height="{round(_TALL * count / most, 1)}"/>'
        for k, count in enumerate(counts)
    )
    places = [as_words(edge, "", unit) for edge in edges]
    ends = f'<text x="0" y="{_TALL + 20}">{places[0]}</text>'
    ends += f'<text x="{_WIDE}" y="{_TALL + 20}" text-anchor="end">{places[-1]}</text>'
    title = f"Histogram of {column}"
    rows = [
        [f"{a} to {b}", f"{n:.0f}"] for a, b, n in zip(places, places[1:], counts, strict=False)
    ]
    said = (
        f"A bar says how many there are between its ends, in all groups together, with noise; the "
        f"highest, {most:.5g}. Values beyond the limits count at the ends."
    )
    details = f"<details><summary>Numbers</summary>{table(['', 'count'], rows)}</details>"
    return section(title, _picture(drawn + ends, _TALL + 26, title), f"<p>{said}</p>", details)


def _picture(drawn: str, height: int, title: str) -> str:
    return (  # without a style of its own, which the app's pages forbid
        f'<svg class="picture" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {_WIDE} {height}">{drawn}</svg>'
    )


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"
