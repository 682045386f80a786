"""``ndis release``: from a table to a file that may be published."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, open_ledger, picture, print_json
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.mistakes import Commands
from ndis.cli.settings import Config, read_settings, with_options

if TYPE_CHECKING:
    from ndis.guarantee import Release

Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help="Parquet or CSV file, folder or pattern.", show_default=False
    ),
]
Out = Annotated[Path, typer.Option(help="File to write, which must not exist yet (.npz).")]
Book = Annotated[
    Path | None, typer.Option(help="Ledger to spend from; `ndis ledger init` starts one.")
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Read INPUT through Spark at this master, such as spark://HOST:7077."),
]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, hence NOT private.")]
Picture = Annotated[Path | None, picture("Write the privacy curve")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Publish a private release of a table."
    )
    for name, kind in KINDS.items():
        needed = [size for size in kind.sizes if size == "nodes"]
        label = ["label"] if name == "regression" else []
        options = [*kind.parameters, *needed, *label]
        group.command(name)(with_options(_command(kind, options), options, name, kind.summary))
    app.add_typer(group, name="release")


def _command(kind: Kind, options: list[str]) -> Any:
    def release(
        flags: Mapping[str, Any],
        source: Source,
        out: Out,
        config: Config = None,
        ledger: Book = None,
        spark: Cluster = None,
        seed: Seed = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        settings = read_settings(flags, options, config)
        _check_target(out)
        with _opened(source, spark) as table, _ledger(ledger) as book:
            made = kind.release(settings, table, random_state=seed, ledger=book)
        made.save(out)
        if plot is not None:
            _draw(made, plot)
        _tell(made, out, as_json)

    return release


def _check_target(out: Path) -> None:
    """Before anything is spent."""
    if out.exists():
        raise FileExistsError(f"Expected a new file, got {out}, which exists; choose another.")
    if not out.parent.is_dir():
        raise FileNotFoundError(
            f"Expected a folder for the release, got {out.parent}, which is not there; make it."
        )


def _ledger(path: Path | None) -> Any:
    return nullcontext() if path is None else open_ledger(path)


@contextmanager
def _opened(source: str, spark: str | None) -> Iterator[Any]:
    """The table, or its path; a Spark session lasts as long as the release."""
    if spark is None:
        yield source
        return
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ImportError(
            "Expected PySpark to read through Spark, but it is not installed; "
            "run: pip install 'ndis[spark]'."
        ) from None
    if spark.startswith("local"):  # workers on this machine run the Python that runs here
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet: dict[str, Any] = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    session = SparkSession.builder.master(spark).appName("ndis").config(map=quiet).getOrCreate()
    try:
        if source.lower().endswith((".csv", ".csv.gz")):
            yield session.read.csv(source, header=True, inferSchema=True)
        else:
            yield session.read.parquet(source)
    finally:
        session.stop()


def _draw(release: "Release", plot: Path) -> None:
    import numpy as np

    from ndis import plots

    loss = release.guarantee.loss
    if loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without; the release was "
            "written, its curve cannot be drawn."
        )
    plots.curve(loss, np.linspace(0.0, 2.0 * release.guarantee.epsilon + 0.5, 81)).savefig(plot)


def _tell(release: "Release", out: Path, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "file": str(out),
                "digest": release.digest,
                "mechanism": release.mechanism,
                "guarantee": release.guarantee.to_dict() | {"loss": None},
                "arrays": {name: list(array.shape) for name, array in release.arrays.items()},
            }
        )
        return
    typer.echo(f"{release!r}\nWritten to {out}, SHA-256 {release.digest}")
