"""``ndis sketch``, ``graph``, ``covariance``: questions to a release. They cost no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.answers import ESTIMATE, matrix_with_errors, table, tell
from ndis.cli.console import AsJson
from ndis.cli.mistakes import Commands
from ndis.cli.settings import VALUES
from ndis.cli.show import AsCsv, File

if TYPE_CHECKING:
    from ndis.mechanisms.sketch import Sketch


def register(app: typer.Typer) -> None:
    """Add the groups to the program."""
    groups = {
        "sketch": (regress, gram, distances, components),
        "graph": (cut, resistance, spectrum),
        "covariance": (variance,),
    }
    for name, commands in groups.items():
        group = typer.Typer(
            cls=Commands, no_args_is_help=True, help=f"Ask a released {name}; it costs no privacy."
        )
        for command in commands:
            group.command()(command)
        app.add_typer(group, name=name)


# -- sketches -----------------------------------------------------------------------------------


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


# -- graphs -------------------------------------------------------------------------------------


def _graph(path: Path) -> Any:
    from ndis.mechanisms.graph import PrivateGraph
    from ndis.release import Release

    return PrivateGraph.from_release(Release.load(path))


def _nodes(words: str) -> list[Any]:
    return list(VALUES.read(words))


def cut(
    path: File,
    inside: Annotated[list[str], typer.Option(help="The nodes of a set, A,B,...; repeatable.")],
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the weight of the edges between a set of nodes and all others."""
    found = _graph(path).cuts([_nodes(each) for each in inside])
    tell([table("cuts", ESTIMATE, inside, zip(*found, strict=True))], as_csv, as_json)


def resistance(
    path: File,
    between: Annotated[str, typer.Option(help="Two nodes, A,B.")],
    debias: Annotated[
        bool, typer.Option(help="Take the noise out before solving; --no-debias leaves it in.")
    ] = True,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the effective resistance between two nodes."""
    pair = _nodes(between)
    if len(pair) != 2:
        raise ValueError(f"Expected two nodes for --between, got {between!r}; write A,B.")
    found = _graph(path).effective_resistance(*pair, debias=debias)
    tell([table("effective resistance", ESTIMATE, [between], [found])], as_csv, as_json)


def spectrum(
    path: File,
    k: Annotated[int, typer.Option("--k", help="How many eigenvalues.")] = 3,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the largest eigenvalues of the Laplacian, with bounds that hold with 95%."""
    found = _graph(path).spectrum(k)
    names = [f"eigenvalue {index + 1}" for index in range(k)]
    rows = zip(*found, strict=True)
    tell([table("spectrum", ("estimate", "95% from", "to"), names, rows)], as_csv, as_json)


# -- covariances --------------------------------------------------------------------------------


def variance(
    path: File,
    along: Annotated[
        list[str], typer.Option(help="A combination of columns, such as a=1,b=-1; repeatable.")
    ],
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the variance of a combination of columns, without bias."""
    from ndis.mechanisms.moments import PrivateCovariance
    from ndis.release import Release

    model = PrivateCovariance.from_release(Release.load(path))
    names = model.release_.parameters["columns"]
    found = model.variance([_direction(words, names) for words in along])
    tell([table("variance", ESTIMATE, along, zip(*found, strict=True))], as_csv, as_json)


def _direction(words: str, names: Sequence[str]) -> list[float]:
    parts = dict(part.partition("=")[::2] for part in words.split(","))
    for name in parts:
        if name not in names:
            raise ValueError(
                f"Expected columns of the release in --along, got {name!r}; "
                f"choose from {', '.join(names)}."
            )
    try:
        return [float(parts.get(name, 0.0)) for name in names]
    except ValueError:
        raise ValueError(
            f"Expected a number for each column in --along, got {words!r}; write NAME=NUMBER,..."
        ) from None
