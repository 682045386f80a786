"""``ndis release``: from a table to a file that may be published."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.answer import ESTIMATE, Answer
from ndis.cli import tables
from ndis.cli.answers import answers_of, describe, draw_curve, estimates_of, harmless, shown, values
from ndis.cli.console import Reply, after_payment, open_ledger, say, warn_paid
from ndis.cli.kinds import Kind
from ndis.cli.settings import Settings

if TYPE_CHECKING:
    from ndis.release import NewFile

_SLOWLY = "(releases with Gaussian noise add up more slowly than their epsilons)"


def release(
    kind: Kind,
    settings: Settings,
    source: str | None = None,
    *,
    out: Path | None = None,
    ledger: str | None = None,
    note: str = "",
    spark: str | None = None,
    seed: int | None = None,
    sign: Path | None = None,
    plot: Path | None = None,
    verbose: bool = False,
) -> Reply:
    """Publish a private release of a table.

    Parameters
    ----------
    out : FILE
        File to write, which must not exist yet (.npz).
    ledger : str
        Ledger to spend from; `ndis ledger init` starts one.
    note : str
        Why the release is made, for the ledger.
    spark : str
        Read INPUT through Spark at this master, such as spark://HOST:7077.
    seed : int
        Repeatable noise, hence NOT private.
    plot : path
        Write the privacy curve as a picture (PNG, SVG or PDF).
    """
    from ndis.release import NewFile

    assert source is not None
    assert out is not None
    if note and ledger is None:
        raise ValueError("Expected --ledger with --note, got none; name the ledger.")
    settings = tables.name_columns(settings)
    ends = ("-summary.html", "-summary.csv") if settings.get("all") else ()
    beside = [out.with_name(out.stem + end) for end in ends]
    for path in beside:
        if os.path.lexists(path):
            raise FileExistsError(
                f"Expected a new file beside the release, got {path}, which exists; name another "
                "release."
            )
    made = left = None
    estimates: Any = []
    try:
        with (
            NewFile(out, key=sign) as file,
            tables.opened(source, settings, spark, edges=kind.source == "edges") as table,
            nullcontext() if ledger is None else open_ledger(ledger, note) as book,
        ):
            if "person" in kind.parameters:
                tables.mention_people(table, settings)
            model = kind.make(settings, table, random_state=seed)
            run = model.prepare(*kind.arguments(table, settings))
            made = run.release(file=file, ledger=book)
            with after_payment(_written(file)):
                left = None if book is None else book.remaining()
                fitted = model.finish(run, made)
                estimates = estimates_of(made, fitted)
                if beside:
                    _write_beside(beside, fitted, out.stem)
    except Exception as error:  # of a ledger, or of Spark, that could not be closed
        if made is None or file.written is None:
            raise
        warn_paid(error, _written(file))
    answers = answers_of(made, estimates)
    with after_payment(_written(file)):
        _tell_unknown(answers, source, settings)
        if plot is not None:
            draw_curve(made, plot)
    document: dict[str, Any] = {
        "file": str(file.written),
        "digest": made.digest,
        "mechanism": made.mechanism,
        "guarantee": made.guarantee.to_dict(),
        "values": values(made, estimates),
        "remaining_epsilon": None if left is None else left.epsilon,
        "remaining_reason": None if left is None else left.reason,
    }
    return Reply(
        document,
        *([describe(made)] if verbose else []),
        *shown(answers),
        *(f"Written to {path}" for path in beside),
        f"{made.guarantee}\nWritten to {file.written}, SHA-256 {made.digest}",
        *([] if left is None else [f"Left of the budget: {left} {_SLOWLY}"]),
        paid=_written(file),
    )


def _tell_unknown(answers: Sequence[Answer], source: str, settings: Settings) -> None:
    """Name levels of which the release says nothing, with what may be wrong and how to find out."""
    low, high = _label_limits(settings)
    levels = tuple(f"{column}=" for column in settings.get("levels", {}))
    unknown = [
        name
        for _, headings, rows, *_ in answers
        if ESTIMATE[1] in headings
        for name, row in rows
        if name.startswith(levels) and not row[headings.index(ESTIMATE[1])] <= high - low
    ]
    if unknown and levels:
        say(
            f"the release says next to nothing of {', '.join(dict.fromkeys(unknown))}: no row has "
            "these levels, or all levels of a column are listed beside an intercept, or rows are "
            f"few; `ndis check {shlex.quote(source)}` with the same options shows you which."
        )


def _label_limits(settings: Settings) -> tuple[float, float]:
    """The declared limits of a label that is a number."""
    limits, label = settings.get("limits"), settings.get("label")
    own = limits.get(label) if isinstance(limits, Mapping) else None
    pair = settings.get("label_limits", own)
    if not isinstance(pair, Sequence) or any(isinstance(end, str) for end in pair):
        return -math.inf, math.inf
    return float(pair[0]), float(pair[1])


def _write_beside(paths: Sequence[Path], fitted: Any, title: str) -> None:
    """A page and a table of everything, from what was released."""
    import csv

    from ndis.report.summary_page import write_summary

    page, sheet = paths
    write_summary(fitted, page, title)
    told = fitted.to_columns()
    with sheet.open("x", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(map(harmless, told))
        for line in zip(*told.values(), strict=True):
            cells = ("" if value != value else value for value in line)  # not told
            lines.writerow(harmless(each) if isinstance(each, str) else each for each in cells)


def _written(file: NewFile) -> str:
    return f"the release is written to {file.written}"
