"""``ndis sketch``: questions to a released sketch; they cost nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndis.cli.answers import ESTIMATE, matrix_with_errors, table, tell
from ndis.cli.console import AsJson
from ndis.cli.mistakes import Commands
from ndis.cli.show import AsCsv, File

if TYPE_CHECKING:
    from ndis.mechanisms.sketch import Sketch


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Ask a released sketch; it costs no privacy."
    )
    for command in (regress, gram, distances, components):
        group.command()(command)
    app.add_typer(group, name="sketch")


def _load(path: Path) -> Sketch:
    from ndis.mechanisms.sketch import Sketch

    return Sketch.load(path)


def regress(
    path: File,
    target: Annotated[str, typer.Option(help="The column to explain by all others.")],
    debias: Annotated[
        bool, typer.Option(help="Take the noise out before solving; --no-debias for a ridge.")
    ] = True,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Regress one column of the table on all others."""
    sketch = _load(path)
    found = sketch.least_squares(target, debias=debias)
    others = [name for name in sketch.columns if name != target]
    tell(
        [table(f"{target} explained", ESTIMATE, others, zip(*found, strict=True))], as_csv, as_json
    )


def gram(path: File, as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """Estimate the inner products of all pairs of columns."""
    sketch = _load(path)
    tell([*matrix_with_errors("Gram matrix", sketch.columns, sketch.gram())], as_csv, as_json)


def distances(path: File, as_csv: AsCsv = False, as_json: AsJson = False) -> None:
    """Estimate the squared distances between columns."""
    sketch = _load(path)
    found = matrix_with_errors("squared distances", sketch.columns, sketch.distances())
    tell([*found], as_csv, as_json)


def components(
    path: File,
    k: Annotated[int, typer.Option("--k", help="How many principal components.")] = 2,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the directions of the largest second moments."""
    sketch = _load(path)
    found = sketch.principal_components(k)
    names = [f"component {index + 1}" for index in range(k)]
    tell(
        [
            table("second moments", ESTIMATE, names, zip(*found.moments, strict=True)),
            table("directions", sketch.columns, names, found.components.value),
            table(
                "directions, standard errors",
                sketch.columns,
                names,
                found.components.standard_error,
            ),
        ],
        as_csv,
        as_json,
    )
