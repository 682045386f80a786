"""``ndis release``: from a table to a file that may be published."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.cli import tables
from ndis.cli.answers import answers_of, describe, draw_curve, estimates_of, shown, values
from ndis.cli.console import Reply, after_payment, open_ledger, warn_paid
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
            model = kind.make(settings, random_state=seed)
            run = model.prepare(*kind.arguments(table, settings))
            made = run.release(file=file, ledger=book)
            with after_payment(_written(file)):
                left = None if book is None else book.remaining()
                estimates = estimates_of(made, model.finish(run, made))
    except Exception as error:  # of a ledger, or of Spark, that could not be closed
        if made is None or file.written is None:
            raise
        warn_paid(error, _written(file))
    if plot is not None:
        with after_payment(_written(file)):
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
        *shown(answers_of(made, estimates)),
        f"{made.guarantee}\nWritten to {file.written}, SHA-256 {made.digest}",
        *([] if left is None else [f"Left of the budget: {left} {_SLOWLY}"]),
        paid=_written(file),
    )


def _written(file: NewFile) -> str:
    return f"the release is written to {file.written}"
