"""``ndis release``: from a table to a file that may be published."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, Sign, debugging, echo, open_ledger, picture, print_json
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.mistakes import Commands
from ndis.cli.settings import Config, read_settings, with_options

if TYPE_CHECKING:
    from ndis.release import Release

Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help="Parquet or CSV file, folder or pattern.", show_default=False
    ),
]
Out = Annotated[Path, typer.Option(help="File to write, which must not exist yet (.npz).")]
Book = Annotated[
    str | None, typer.Option(help="Ledger to spend from; `ndis ledger init` starts one.")
]
Note = Annotated[str, typer.Option(help="Why the release is made, for the ledger.")]
Cluster = Annotated[
    str | None,
    typer.Option(help="Read INPUT through Spark at this master, such as spark://HOST:7077."),
]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise, hence NOT private.")]
Picture = Annotated[Path | None, picture("Write the privacy curve")]

_MASTERS = ("local", "spark://", "yarn", "k8s://")


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
        note: Note = "",
        spark: Cluster = None,
        seed: Seed = None,
        sign: Sign = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        from ndis.release import writing_to

        settings = read_settings(flags, options, config)
        if note and ledger is None:
            raise ValueError("Expected --ledger with --note, got none; name the ledger.")
        with (
            writing_to(out, key=sign) as file,
            _opened(source, spark) as table,
            _ledger(ledger, note) as book,
        ):
            made = kind.release(settings, table, random_state=seed, ledger=book)
        if plot is not None:
            _draw(made, plot)
        _tell(made, file.written or out, ledger, as_json)

    return release


def _ledger(path: str | None, note: str) -> Any:
    return nullcontext() if path is None else open_ledger(path, note)


@contextmanager
def _opened(source: str, spark: str | None) -> Iterator[Any]:
    """The table, or its path; a Spark session lasts as long as the release."""
    if spark is None:
        yield source
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Spark's, of other packages' versions
        session = _session(spark)
        try:
            yield _read(session, source)
        finally:
            session.stop()


def _session(master: str) -> Any:
    """A session at this master; what Spark has to say while it starts is for `--debug`."""
    if not master.startswith(_MASTERS):
        raise ValueError(
            f"Expected --spark with an address such as spark://HOST:7077, yarn or local[2], got "
            f"{master}; correct it."
        )
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ImportError(
            "Expected PySpark to read through Spark, but it is not installed; "
            "run: pip install 'ndis[spark]'."
        ) from None
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise FileNotFoundError("Expected Java for Spark, but found none; install it.")
    if master.startswith("local"):  # workers on this machine run the Python that runs here
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet: dict[str, Any] = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master(master).appName("ndis").config(map=quiet)
    with nullcontext() if debugging() else _silent_children():
        try:
            return builder.getOrCreate()
        except Exception as error:  # Java, the network, the address: whatever Spark says
            raise ConnectionError(
                f"Expected Spark at {master}, but it did not start ({_first_line(error)}); check "
                "the address, or see more with --debug."
            ) from error


@contextmanager
def _silent_children() -> Iterator[None]:
    """Processes that are started here say nothing on standard error, for all their life."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _read(session: Any, source: str) -> Any:
    try:
        if source.lower().endswith((".csv", ".csv.gz")):
            return session.read.csv(source, header=True, inferSchema=True)
        return session.read.parquet(source)
    except Exception as error:  # Spark has a class of error for each cause
        raise FileNotFoundError(
            f"Expected a table that Spark can read at {source}, got none ({_first_line(error)}); "
            "check the path as the cluster sees it."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")[:200]


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


def _tell(release: "Release", out: Path, ledger: str | None, as_json: bool) -> None:
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
                "guarantee": release.guarantee.to_dict() | {"loss": None},
                "arrays": {name: list(array.shape) for name, array in release.arrays.items()},
                "remaining_epsilon": None if left is None else left.epsilon,
            }
        )
        return
    echo(f"{release!r}\nWritten to {out}, SHA-256 {release.digest}")
    if left is not None:
        echo(f"Left of the budget: {left}")
