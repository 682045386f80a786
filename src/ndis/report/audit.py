"""The report of an audit: what was claimed, what was found, what was not looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import _validate
from ndis.auditing.verdict import show_delta
from ndis.report.page import picture, section, table, write_page

if TYPE_CHECKING:
    from ndis.auditing import Verdict

_POINTS = 60


def write_audit(
    verdict: Verdict,
    path: str | Path,
    *,
    subject: str,
    command: str = "",
    columns: Sequence[str] = (),
    rows: Any = None,
    audience: str = "anybody",
) -> Path:
    """Write an audit as one self-contained HTML page.

    What was found on a real table, its deltas, its size, even the verdict, tells something about
    the people in it: such a page is for the owner of the data. A page to share is one about a loss
    or a pair of laws, which no table has made.

    Parameters
    ----------
    verdict : Verdict
    path : str or Path
    subject : str
        What was audited.
    command : str, optional
        How to repeat the audit.
    columns : sequence of str, optional
        Names of the columns that were read.
    rows : ndarray, optional
        The data, only to show the worst rows, on an owner's page.
    audience : {"anybody", "owner"}
        Who may read the page; it says so on top. A verdict on a table is refused for anybody.

    Returns
    -------
    Path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ndis import Gaussian, audit_pair
    >>> from ndis.report import write_audit
    >>> verdict = audit_pair(Gaussian([0.0], [[1.0]]), Gaussian([1.0], [[1.0]]), (1.0, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_audit(verdict, pathlib.Path(folder) / "audit.html", subject="a pair")
    ...     "REFUTED" in page.read_text()
    True
    """
    _validate.one_of("audience", audience, ("anybody", "owner"))
    if audience == "anybody" and (rows is not None or verdict.of_table):
        raise ValueError(
            'Expected audience="owner" for what was found on a table, got "anybody"; share a page '
            "about the mechanism's worst case."
        )
    note = (
        "For the owner of the data only: this page tells what was found on a real table."
        if audience == "owner"
        else "This page may be shared: no table has made any of its numbers. If a table was "
        "audited too, its owner holds the findings."
    )
    parts = [
        _sentence(note),
        f'<p class="verdict {verdict.outcome}"><strong>{escape(str(verdict))}</strong></p>',
        section("Subject", _sentence(subject), _columns(columns)),
        section("The privacy curve of the worst pair", *_curve(verdict)),
        section("What was searched", _list(verdict.searched)),
        section(
            "What was not searched", _list(verdict.not_searched or ["nothing else was considered"])
        ),
        section("The worst neighbours", _worst(verdict, columns, rows)),
        section(
            "What the bound rests on", _sentence(f"The lower bound on delta is {verdict.basis}.")
        ),
    ]
    if command:
        again = f"<pre>{escape(command)}</pre>"
        parts.append(section("How to reproduce", again, _sentence(f"ndis {version('ndis')}")))
    return write_page(Path(path), "Privacy audit", parts, owner=audience == "owner")


def _sentence(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _list(entries: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in entries) + "</ul>"


def _columns(columns: Sequence[str]) -> str:
    return _sentence(f"Columns: {', '.join(columns)}.") if columns else ""


def _curve(verdict: Verdict) -> list[str]:
    """The curve with the claim marked; nothing where only samples are known."""
    if verdict.loss is None:
        return [_sentence("The law is not known, only samples of it.")]
    from ndis import plots

    claim = verdict.claim
    grid = np.linspace(0.0, max(2.0 * claim.epsilon, 1e-3), _POINTS)
    with plots.style():
        figure = plots.curve({"worst pair found": verdict.loss}, grid)
        axes = figure.axes[0]
        if claim.delta > 0:
            height = math.log10(claim.delta)
            axes.plot([claim.epsilon], [height], "X", color="black", markersize=9)
            axes.set_ylim(bottom=min(axes.get_ylim()[0], height - 1.0))
            axes.annotate("claim", (claim.epsilon, height), (6, 6), textcoords="offset points")
    alternative = "delta against epsilon for the worst pair found, with the claim marked"
    return [
        picture(figure, alternative),
        _sentence(
            "A claim below the curve is false; one above it is not contradicted by this pair."
        ),
    ]


def _worst(verdict: Verdict, columns: Sequence[str], rows: Any) -> str:
    if not verdict.worst:
        return _sentence("None was ranked.")
    shown = []
    for rank, neighbour in enumerate(verdict.worst, start=1):
        what = neighbour.kind
        if rows is not None and neighbour.row is not None:
            what += f"; row {neighbour.row}: {_data(rows[neighbour.row], columns)}"
        shown.append([str(rank), show_delta(neighbour.log_delta), what])
    notes = [f"Delta is that at the claimed epsilon, {verdict.claim.epsilon:g}."]
    if rows is not None:
        notes.append("The data are shown because it was asked for.")
    elif any(neighbour.row is not None for neighbour in verdict.worst):
        notes.append("Who they are is left out; the owner of the data can ask for it.")
    return table(["rank", "delta", "what it is"], shown, words=True) + _sentence(" ".join(notes))


def _data(row: Any, columns: Sequence[str]) -> str:
    names = columns or [f"x{i}" for i in range(len(row))]
    told = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in row)
    return ", ".join(f"{name}={value}" for name, value in zip(names, told, strict=True))
