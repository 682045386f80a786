"""``ndis release``: from a table to a file that may be published."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from ndis.cli import tables
from ndis.cli.answers import answers_of, describe, draw_curve, shown, values
from ndis.cli.console import Reply, open_ledger
from ndis.cli.kinds import Kind
from ndis.cli.settings import Settings


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
    from ndis.release import writing_to

    assert source is not None
    assert out is not None
    if note and ledger is None:
        raise ValueError("Expected --ledger with --note, got none; name the ledger.")
    settings = tables.name_columns(settings)
    with (
        writing_to(out, key=sign) as file,
        tables.opened(source, settings, spark, edges=kind.source == "edges") as table,
        nullcontext() if ledger is None else open_ledger(ledger, note) as book,
    ):
        model = kind.make(settings, random_state=seed, ledger=book)
        made = model.fit(*kind.arguments(table, settings)).release_
        left = None if book is None else book.remaining()
    if plot is not None:
        draw_curve(made, plot)
    document = {
        "file": str(file.written),
        "digest": made.digest,
        "mechanism": made.mechanism,
        "guarantee": made.guarantee.to_dict(),
        "values": values(made),
        "remaining_epsilon": None if left is None else left.epsilon,
        "remaining_reason": None if left is None else left.reason,
    }
    return Reply(
        document,
        describe(made),
        *shown(answers_of(made)),
        f"{made.guarantee}\nWritten to {file.written}, SHA-256 {made.digest}",
        *([] if left is None else [f"Left of the budget: {left}"]),
    )
