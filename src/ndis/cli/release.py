"""``ndis release``: from a table to a file that may be published."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ndis.cli import tables
from ndis.cli.answers import answers_of, describe, draw_curve, shown, values
from ndis.cli.console import answer, open_ledger
from ndis.cli.kinds import Kind, add_kinds
from ndis.cli.settings import Settings, as_command

if TYPE_CHECKING:
    from ndis.release import Release


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_kinds(app, "release", _command, "Publish a private release of a table.")


def _command(kind: Kind) -> Any:
    options, needed = kind.reading, kind.needed("INPUT", "out", data=True)
    read = tables.opened_edges if kind.source == "edges" else tables.opened

    def release(
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
        as_json: bool = False,
    ) -> None:
        """Release.

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
            read(source, settings, spark) as table,
            nullcontext() if ledger is None else open_ledger(ledger, note) as book,
        ):
            model = kind.make(settings, random_state=seed, ledger=book)
            made = model.fit(*kind.arguments(table, settings)).release_
        if plot is not None:
            draw_curve(made, plot)
        _tell(made, file.written or out, ledger, as_json)

    return as_command(release, f"release {kind.name}", options, kind.summary, needed)


def _tell(release: Release, out: Path, ledger: str | None, as_json: bool) -> None:
    left = None
    if ledger is not None:
        with open_ledger(ledger) as book:
            left = book.remaining()
    document = {
        "file": str(out),
        "digest": release.digest,
        "mechanism": release.mechanism,
        "guarantee": release.guarantee.to_dict(),
        "values": values(release),
        "remaining_epsilon": None if left is None else left.epsilon,
        "remaining_reason": None if left is None else left.reason,
    }
    answer(
        as_json,
        document,
        describe(release),
        *shown(answers_of(release)),
        f"{release.guarantee}\nWritten to {out}, SHA-256 {release.digest}",
        *([] if left is None else [f"Left of the budget: {left}"]),
    )
