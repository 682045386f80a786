"""A page of a summary that can be published: bars with error bars, histograms, what is promised."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ndis.report.page import section, table, write_page

if TYPE_CHECKING:
    from ndis.answer import Answer
    from ndis.mechanisms.summary import PrivateSummary

# Of a picture, in its own units: its width, what names and numbers take, the height of a bar.
_WIDE, _NAMES, _NUMBERS, _BAR = 640, 200, 90, 24
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
    >>> model = PrivateSummary(limits={"age": (0, 100)}, epsilon=1.0, delta=1e-6, random_state=0)
    >>> _ = model.fit(pa.table({"age": [30.0, 40.0] * 500}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_summary(model, pathlib.Path(folder) / "ages.html")
    ...     "What is promised" in page.read_text()
    True
    """
    parts = [section("What is promised", f"<p>{escape(str(model.guarantee_))}</p>")]
    for answer in model.answers():
        parts.append(section(answer.title, _bars(answer), *_told(answer)))
    for column in model.limits_:
        parts += _histogram(model, column)
    said = (
        "Lines are 95% intervals: for the population that the rows were drawn from, those of "
        "counts for the table. Counts were made not negative and add up, means lie within the "
        "limits, quantiles do not decrease."
    )
    parts.append(section("How to read it", f"<p>{said}</p>"))
    return write_page(path, title, parts)


def _told(answer: Answer) -> Iterator[str]:
    """The numbers themselves; what noise hides by name."""
    known = [(name, row) for name, row in answer.rows if not any(map(math.isnan, row))]
    hidden = [name for name, row in answer.rows if any(map(math.isnan, row))]
    if known:
        yield table(
            ["", *answer.headings], [[n, *(f"{value:.5g}" for value in row)] for n, row in known]
        )
    if hidden:
        yield f"<p>No information at this budget: {escape(', '.join(hidden))}.</p>"


def _bars(answer: Answer) -> str:
    """A bar for each group, with its interval."""
    rows = [(name, row) for name, row in answer.rows if all(map(math.isfinite, row[:4]))]
    if not rows or len(rows) > _MOST_BARS:
        return ""
    low = min(0.0, *(row[2] for _, row in rows))
    high = max(0.0, *(row[3] for _, row in rows)) or 1.0
    scale = (_WIDE - _NAMES - _NUMBERS) / (high - low)

    def x(value: float) -> float:
        return round(_NAMES + (value - low) * scale, 1)

    drawn = []
    for place, (name, (value, _, start, end, *_)) in enumerate(rows):
        y = place * _BAR
        left, right = sorted((x(0.0), x(value)))
        drawn.append(
            f'<text x="{_NAMES - 8}" y="{y + 16}" text-anchor="end">{escape(_short(name))}</text>'
            f'<rect x="{left}" y="{y + 5}" width="{round(right - left, 1)}" height="14"/>'
            f'<path d="M{x(start)} {y + 12}H{x(end)}M{x(start)} {y + 8}v8M{x(end)} {y + 8}v8"/>'
            f'<text x="{x(high) + 8}" y="{y + 16}">{value:.5g}</text>'
        )
    return _picture("".join(drawn), len(rows) * _BAR, answer.title)


def _histogram(model: PrivateSummary, column: str) -> Iterator[str]:
    """Rows between the limits of a column, in all groups together."""
    found = model.histogram(column)
    if found is None:
        return
    edges, counts = found
    most, step = max(counts.max(), 1.0), _WIDE / len(counts)
    drawn = "".join(
        f'<rect x="{round(k * step, 1)}" y="{round(_TALL * (1.0 - count / most), 1)}" '
        f'width="{round(step - 2.0, 1)}" height="{round(_TALL * count / most, 1)}"/>'
        for k, count in enumerate(counts)
    )
    ends = f'<text x="0" y="{_TALL + 18}">{edges[0]:.5g}</text>'
    ends += f'<text x="{_WIDE}" y="{_TALL + 18}" text-anchor="end">{edges[-1]:.5g}</text>'
    title = f"Histogram of {column}"
    rows = [
        [f"{a:.5g} to {b:.5g}", f"{n:.0f}"]
        for a, b, n in zip(edges, edges[1:], counts, strict=False)
    ]
    details = f"<details><summary>Numbers</summary>{table(['', 'count'], rows)}</details>"
    yield section(title, _picture(drawn + ends, _TALL + 24, title), details)


def _picture(drawn: str, height: int, title: str) -> str:
    style = "font:13px system-ui,sans-serif;width:100%;max-width:40rem;height:auto"
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {_WIDE} {height}" '
        f'style="{style}" fill="currentColor"><style>rect{{fill:#7fa8d1}}path{{stroke:currentColor;'
        f"stroke-width:1.5;fill:none}}</style>{drawn}</svg>"
    )


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"
