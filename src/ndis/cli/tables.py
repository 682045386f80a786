"""Tables on the command line: how a file is written, which columns are read, through what."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ndis._validate import installed
from ndis.cli.console import debugging, say
from ndis.cli.settings import FORMATS, SWITCH, WORD, WORDS, Settings

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.tables import Table

# How text files are written: what `ndis.tables.Table.open` takes.
_TEXT = ("delimiter", "encoding", "header", "names", "decimal", "thousands", "units", "dates")
OPTIONS = {
    "delimiter": WORD("What separates values in a text file; a comma by default."),
    "encoding": WORD("Encoding of a text file, such as latin-1; utf8 by default."),
    "header": SWITCH("Whether the first line holds names, which become part of the release."),
    "names": WORDS("Names of the columns of a file without a header line."),
    "decimal": WORD(
        "What stands before the decimals of a number: a point (the default) or a comma."
    ),
    "thousands": WORD("What stands between groups of three digits, such as a point or a space."),
    "units": WORDS("What may stand beside a number and is left out, such as EUR or %."),
    "dates": FORMATS("A column whose dates are not written 2024-12-31, and their format."),
    "drop_missing": SWITCH("Leave out rows with missing or infinite values."),
}
COLUMNS = {"columns": WORDS("Columns to read; all by default.")}
# Of more columns than this the first are named.
_MOST_NAMED = 60
_MASTERS = ("local", "spark://", "yarn", "k8s://")


def with_header(source: str, settings: Settings) -> Settings:
    """Settings to look at a table with, of which nothing is published: a text file has a header."""
    unknown = _is_text(source) and "names" not in settings
    return Settings({"header": True, **settings}) if unknown else settings


def _is_text(source: str) -> bool:
    return re.search(r"\.(csv|tsv|tab)\b", source.lower()) is not None


def name_columns(settings: Settings) -> Settings:
    """The columns to read are those that were named, wherever that was."""
    limits, label, by = settings.get("limits"), settings.get("label"), settings.get("by", [])
    if isinstance(limits, Mapping):
        for name in settings.get("levels", {}):
            if name in limits:
                raise ValueError(
                    f"Expected limits or levels of {name!r}, got both; numbers and dates have "
                    "limits, text has levels."
                )
    known = isinstance(limits, Mapping) or (limits is None and bool(by))
    if "columns" in settings or settings.get("all") or not known:
        return settings
    levels = (*settings.get("levels", {}), *settings.get("private_levels", []))
    listed = dict.fromkeys([*by, *(limits or {}), *levels])
    named = [name for name in listed if name != label]
    return Settings({**settings, "columns": [*named, *([] if label is None else [label])]})


# What columns are called that say whose row it is.
_WHOSE = re.compile(
    r"(?i)(^|[^a-z])(id|uuid|patient|person|customer|client|user|member|subject|pupil|student"
    r"|employee|household)([^a-z]*(id|no|nr|number|key))?$"
)


def mention_people(table: Table, settings: Settings) -> None:
    """Tell the owner what a promise for rows covers, where a column's name says whose row it is."""
    read = {*table.columns, *settings.get("limits", ())}
    named = [name for name in table.names if _WHOSE.search(name) and name not in read]
    if named and not table.nameless and "person" not in settings:
        say(
            f"the promise will be for one row; if {named[0]} says whose row it is and somebody may "
            f"have several, pass --person {named[0]}"
        )


def written(settings: Settings) -> dict[str, Any]:
    """How a text file is written, as far as that was said."""
    said = {name: settings[name] for name in _TEXT if name in settings}
    return {"header": False, **said} if "names" in said else said


@contextmanager
def opened(
    source: str, settings: Settings, spark: str | None = None, *, edges: bool = False
) -> Iterator[Any]:
    """The table, whose owner is told what is read; a Spark session lasts as long as the block.

    The edges of a graph have columns with fixed names, none of which is published.
    """
    from ndis.tables import Table

    form = written(settings)
    columns = settings.get("columns")
    if not isinstance(columns, list):  # of a matrix it is the noise along them
        columns = None
    reading = nullcontext(source) if spark is None else _on_spark(source, spark, settings, form)
    with reading as data:
        if edges:
            names = ["source", "target", *filter(None, [settings.get("weight")])]
        else:
            data = Table.open(
                data,
                columns,
                drop_missing=bool(settings.get("drop_missing", False)),
                typed=[*settings.get("levels", {}), *filter(None, [settings.get("label")])],
                **form,
            )
            names = [*data.columns]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        say(f"columns read: {', '.join(names[:_MOST_NAMED])}{more}")
        yield data


def numbers(table: Table) -> FloatArray:
    """All numbers of a table as they are, rows by columns."""
    import numpy as np

    from ndis.tables import Columns, Rows

    rows = Rows(Columns(table.columns, norm=1.0, widths=table.widths))
    blocks = [block.features.T.copy() for block in table.with_rows(rows).blocks(raw=True)]
    if not sum(map(len, blocks)):
        raise ValueError("The table has no rows; hand over at least one.")
    return np.vstack(blocks)


# -- Spark -----------------------------------------------------------------------------------


@contextmanager
def _on_spark(
    source: str, master: str, settings: Settings, written: Mapping[str, Any]
) -> Iterator[Any]:
    text = _is_text(source)
    if text and not settings.keys() & {"header", "names", "columns", "nodes"}:
        raise ValueError(
            "Expected to know that the first line holds names, since they become part of the "
            "release; pass --header, or name the columns to read with --columns or --limits."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Spark's, of other packages' versions
        session = _session(master)
        try:
            yield _read(session, source, written if text else None)
        finally:
            session.stop()


def _session(master: str) -> Any:
    """A session at this master; what Spark has to say while it starts is for `--debug`."""
    if not master.startswith(_MASTERS):
        raise ValueError(
            f"Expected --spark with an address such as spark://HOST:7077, yarn or local[2], got "
            f"{master}; correct it."
        )
    with installed("PySpark to read through Spark", "'ndis[spark]'"):
        from pyspark.sql import SparkSession
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise FileNotFoundError("Expected Java for Spark, but found none; install it.")
    if master.startswith("local"):  # workers on this machine run the Python that runs here
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    config: dict[str, Any] = {
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(master).appName("ndis").config(map=config)
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


def _read(session: Any, source: str, written: Mapping[str, Any] | None) -> Any:
    """A table that Spark reads; of text files, which have no types, as text."""
    from ndis.tables import spark

    try:
        if written is None:
            return spark.open_parquet(session, source)
        return spark.open_text(session, source, **written)
    except ValueError:
        raise
    except Exception as error:  # Spark has a class of error for each cause
        raise FileNotFoundError(
            f"Expected a table that Spark can read at {source}, got none ({_first_line(error)}); "
            "check the path as the cluster sees it."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")[:200]
