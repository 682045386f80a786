"""``ndis release``: from a table to a file that may be published."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli import tables
from ndis.cli.answers import answers_of, describe, print_answers, values
from ndis.cli.console import AsJson, Sign, echo, open_ledger, picture, print_json
from ndis.cli.kinds import Kind, add_group
from ndis.cli.settings import Config, Settings, read_settings, with_options

if TYPE_CHECKING:
    from ndis.release import Release

Out = Annotated[
    Path | None,
    typer.Option("--out", help="File to write, which must not exist yet (.npz).", metavar="FILE"),
]
Book = Annotated[
    str | None, typer.Option(help="Ledger to spend from; `ndis ledger init` starts one.")
]
Note = Annotated[str, typer.Option(help="Why the release is made, for the ledger.")]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, hence NOT private.")]
Picture = Annotated[Path | None, picture("Write the privacy curve")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_group(app, "release", _command, "Publish a private release of a table.")


def _command(kind: Kind) -> Any:
    edges = kind.source == "edges"
    read = tables.opened_edges if edges else tables.opened
    options = kind.parameters | ({} if edges else tables.OPTIONS)
    if kind.source == "answers":
        options |= kind.sizes | ({} if "columns" in options else tables.COLUMNS)
    needed = (*kind.needed("INPUT", "out"), *kind.asks, *(("label",) if kind.label else ()))

    def release(
        flags: Mapping[str, Any],
        source: tables.Source = None,
        out: Out = None,
        config: Config = None,
        ledger: Book = None,
        note: Note = "",
        spark: tables.Cluster = None,
        seed: Seed = None,
        sign: Sign = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        from ndis.release import writing_to

        settings = read_settings(flags, options, config)
        places = {"INPUT": source, "out": out}
        given = Settings({**settings, **{k: v for k, v in places.items() if v is not None}})
        given.need(f"ndis release {kind.name}", *needed)
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
            made = kind.fit(model, table, settings)
        if plot is not None:
            _draw(made, plot)
        _tell(made, file.written or out, ledger, as_json)

    return with_options(release, options, kind.name, kind.summary, needed)


def _draw(release: Release, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    loss = release.guarantee.loss
    if loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without; the release was "
            "written, its curve cannot be drawn."
        )
    grid = np.linspace(0.0, 2.0 * release.guarantee.epsilon + 0.5, 201)
    plots.curve(loss, grid, title=release.mechanism).savefig(plot)


def _tell(release: Release, out: Path, ledger: str | None, as_json: bool) -> None:
    left = None
    if ledger is not None:
        with open_ledger(ledger) as book:
            left = book.remaining()
    if as_json:
        print_json(
            {
                "file": str(out),
                "digest": release.digest,
                "mechanism": release.mechanism,
                "guarantee": release.guarantee.to_dict(),
                "values": values(release),
                "remaining_epsilon": None if left is None else left.epsilon,
                "remaining_reason": None if left is None else left.reason,
            }
        )
        return
    echo(describe(release))
    print_answers(answers_of(release))
    echo(f"{release.guarantee}\nWritten to {out}, SHA-256 {release.digest}")
    if left is not None:
        echo(f"Left of the budget: {left}")
