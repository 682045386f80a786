"""People with many rows, in hostile tables of every source: nobody shows, and bits are equal.

A table is drawn: which estimator, how many rows the new person has, how ids are written, which rows
have gaps, in which sources it lies and how it is cut there. The estimator runs on the table in
memory; then in another source, where it must ask for the very same numbers; then, in that source,
without the person, with the same answers (`attacks.replay`).
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from attacks import replay, tables
from attacks.cases import OF_TABLES, make
from estimators import Case
from ndis import PrivateLevels, PrivateSummary
from ndis.tables import Table

# Summaries say themselves why people are not protected by these.
OTHERWISE = ("summary, replace",)
TAKING = [case for case in OF_TABLES if case.make()._takes_weights() and case.name not in OTHERWISE]
REFUSING = [case for case in OF_TABLES if not case.make()._takes_weights()]

Parts = list[pa.Table]


def _files(parts: Parts, folder: Path, write: Callable[[pa.Table, str], Any], end: str) -> str:
    for index, part in enumerate(parts):
        write(part, str(folder / f"{index:03}.{end}"))
    return str(folder / f"*.{end}")


def _parquet(parts: Parts, folder: Path) -> str:
    return _files(parts, folder, partial(pa.parquet.write_table, row_group_size=64), "parquet")


def _dictionaries(parts: Parts, folder: Path) -> list[pa.RecordBatch]:
    """Batches whose dictionaries of ids differ."""
    coded = [p.set_column(0, "who", p["who"].combine_chunks().dictionary_encode()) for p in parts]
    return [batch for part in coded for batch in part.combine_chunks().to_batches()]


def _polars(parts: Parts, folder: Path) -> Any:
    import polars

    return polars.concat([polars.from_arrow(part) for part in parts], rechunk=False)


def _duckdb(parts: Parts, folder: Path) -> Any:
    import duckdb

    return duckdb.from_arrow(pa.concat_tables(parts))


def _dask(parts: Parts, folder: Path) -> Any:
    import dask.dataframe

    frame = _pandas(parts, folder)
    return dask.dataframe.from_pandas(frame, npartitions=len(parts), sort=False)


def _pandas(parts: Parts, folder: Path) -> Any:
    return pa.concat_tables(parts).to_pandas(integer_object_nulls=True)


def _objects(parts: Parts, folder: Path) -> Any:
    frame = _pandas(parts, folder)
    return frame.assign(who=frame.who.astype(object))


def _spark(parts: Parts, folder: Path, session: Any) -> Any:
    return session.read.parquet(str(Path(_parquet(parts, folder)).parent)).repartition(len(parts))


SOURCES: dict[str, Callable[[Parts, Path], Any]] = {
    "Arrow table": lambda parts, folder: pa.concat_tables(parts),
    "Arrow batches": lambda parts, folder: [b for part in parts for b in part.to_batches()],
    "dictionaries of ids": _dictionaries,
    "pandas": _pandas,
    "pandas, objects": _objects,
    "polars": _polars,
    "polars, lazy": lambda parts, folder: _polars(parts, folder).lazy(),
    "DuckDB": _duckdb,
    "Parquet files": _parquet,
    "Arrow files": lambda parts, folder: _files(parts, folder, pa.feather.write_feather, "arrow"),
    "CSV files": lambda parts, folder: _files(parts, folder, pa.csv.write_csv, "csv"),
    "Dask": _dask,
}

# How ids are written: also such that casting, trimming or a double would merge two people.
IDS: dict[str, Callable[[int], Any]] = {
    "text": lambda n: f"p{n}",
    "digits": lambda n: "0" * (n % 3) + str(n // 3),
    "alike": lambda n: "aA\u00e5\u0251"[n % 4] + "\u0301" * (n // 4 % 3) + "x" * (n // 12),
    "zeros behind": lambda n: "a" * (n // 3 % 2) + "\0" * (n % 3) + "b" * (n // 6),
    "like numbers": lambda n: "-" * (n % 2) + str(n // 8) + ("", ".0", ".00", "e0")[n // 2 % 4],
    "integers": lambda n: n - 5,
    "large integers": lambda n: 2**53 + n,
    "largest integers": lambda n: n // 2 - 2**63 if n % 2 else 2**63 - 1 - n // 2,
    "dates": lambda n: dt.date(1970, 1, 1) + dt.timedelta(days=n - 20),
    "bytes": lambda n: b"\0" * (n % 3) + bytes([n // 3 % 256, n // 768]),
    "decimals": lambda n: Decimal(2**53 + n),
}
# A text file holds no bytes, and pandas makes objects of decimals, which may be fractions.
NOT_THERE = {
    ("bytes", "CSV files"),
    ("zeros behind", "CSV files"),
    *(("decimals", source) for source in ("pandas", "pandas, objects", "Dask")),
}
# What estimators say that do not read the tables of a cluster, whatever is in them.
NOT_THERE_AT_ALL = "TypeError: Expected a table that is read here"


@dataclass(frozen=True)
class Drawn:
    """What was drawn for a table, and what became of it."""

    case: str
    source: str
    ids: str
    m: int
    rows_per_person: Any
    weighed: bool
    delta: float
    error: str
    n_parts: int  # files, partitions or batches that have rows of the new person


def check(seed: int, source: str, folder: Path, case: Case | None = None, **more: Any) -> Drawn:
    """One table in one source; raises `replay.Leak` if a person shows, or bits differ."""
    rng = np.random.default_rng([33, seed])
    case = TAKING[seed % len(TAKING)] if case is None else case
    m = int(np.rint(np.exp(rng.uniform(0.0, np.log(1000.0)))))
    written = str(rng.choice([*IDS]))
    if (written, source) in NOT_THERE:
        written = "text"
    numbers = [1, 1, 2, 7, 1000, "private"]
    of_summary = isinstance(case.make(), PrivateSummary)  # which names its columns
    asked = {"person": "who", "rows_per_person": numbers[rng.integers(6)]}
    (whole, *label), new = drawn(case, rng, m, IDS[written])
    if rng.random() < 0.05:  # nobody else is there
        whole = whole.filter(_is(whole, new))
    if rng.random() < 0.5:
        whole = alike(whole, new)
    weighed = rng.random() < 0.3 and not isinstance(case.make(), PrivateLevels)
    if weighed:  # some beyond the bound, some nothing
        w = rng.choice([0.0, 1e-300, 0.3, 1.0, 2.0, 1e300], len(whole))
        whole = whole.append_column("w", [w])
        asked |= {"sample_weight": "w", "max_weight": 2.0}
    if rng.random() < 0.3:
        whole, asked = with_gaps(whole, rng), {**asked, "drop_missing": True}
    if not of_summary:
        asked["columns"] = [name for name in whole.column_names if name not in ("who", "w")]
    own = np.array(_is(whole, new))
    if seed % 3 == 2:
        whole, own = without_ids(whole, own, np.random.default_rng([34, seed]))
        asked |= {"missing_person": "own"}
        m = int(own.sum())
    build = partial(make, case, **asked)
    makers = SOURCES if not more else {**SOURCES, "Spark": partial(_spark, **more)}

    spread = list[int]()

    def placed(name: str, table: pa.Table) -> tuple[Any, ...]:
        ends = np.sort(rng.integers(0, len(table) + 1, rng.integers(0, 7)))
        parts = [
            table.slice(a, b - a) for a, b in zip([0, *ends], [*ends, len(table)], strict=True)
        ]
        spread.append(sum(pa.compute.any(_is(part, new)).as_py() is True for part in parts))
        own = Path(tempfile.mkdtemp(dir=folder))
        return makers[name]([part for part in parts if len(part)] or parts[:1], own), *label

    first = replay.run(build(), (whole, *label))
    there = replay.run(build(), placed(source, whole), first.questions)
    if not there.error.startswith(NOT_THERE_AT_ALL):  # and without the person neither
        require_equal(first, there)
    others = whole.filter(pa.array(~own))
    replayed = replay.compare(build, placed(source, whole), placed(source, others))
    return Drawn(
        case.name,
        source,
        written,
        m,
        asked["rows_per_person"],
        weighed,
        replayed.delta,
        replayed.error,
        spread[0],
    )


def _is(table: pa.Table, person: Any) -> Any:
    """Which rows are those of a person."""
    return pa.compute.equal(table["who"], pa.scalar(person, table["who"].type))


def require_equal(first: replay.Run, there: replay.Run) -> None:
    """Refuse a source whose exact sums differ from those of the table in memory."""
    if first.error != there.error:
        raise replay.Leak(f"one source was refused: {first.error!r}, {there.error!r}")
    if len(first.questions) != len(there.questions):
        raise replay.Leak(f"{len(first.questions)} and {len(there.questions)} questions")
    for one, other in zip(first.questions, there.questions, strict=True):
        if not np.array_equal(one.values, other.values):
            raise replay.Leak(f"other exact values for {one.function}")


def drawn(
    case: Case, rng: np.random.Generator, m: int, write: Callable[[int], Any]
) -> tuple[tuple[Any, ...], Any]:
    """Arguments of `fit` with a person of m rows among others, and who that is."""
    table, *more = case.data()
    if isinstance(table, Table):
        table = pa.Table.from_batches(list(table.records()))
    names = case.make().columns if isinstance(table, np.ndarray) else None
    (whole, *label), _ = tables.hostile_people((table, *more), rng, m, names)
    who = whole["who"].to_pylist()
    numbers = {name: n for n, name in enumerate(rng.permutation(sorted(set(who))).tolist())}
    ids = pa.array([write(numbers[name]) for name in who])
    whole = whole.drop_columns("who").add_column(0, "who", ids)
    return (whole, *label), write(numbers["new"])


def without_ids(table: pa.Table, own: Any, rng: np.random.Generator) -> tuple[pa.Table, Any]:
    """Some rows say no longer whose they are, each a person of its own; perhaps the new one too."""
    gone = ~own & (rng.random(len(table)) < rng.choice([0.1, 1.0]))
    kept = np.ones(len(table), bool)
    if own.any() and rng.random() < 0.5:  # who has but one row then
        first = int(np.argmax(own))
        gone[first] = True
        kept = ~own | (np.arange(len(table)) == first)
    ids = pa.compute.if_else(pa.array(gone), None, table["who"])
    table = table.set_column(table.column_names.index("who"), "who", ids)
    return table.filter(pa.array(kept)), own[kept]


def alike(table: pa.Table, person: Any) -> pa.Table:
    """All rows of a person are as their first: together they move a sum as far as they can."""
    places = np.arange(len(table))
    own = np.array([who == person for who in table["who"].to_pylist()])
    return table.take(np.where(own, places[own][0], places))


def with_gaps(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Some numbers are missing, or nearly all."""
    share = rng.choice([0.1, 0.1, 0.9])
    for place, name in enumerate(table.column_names):
        if pa.types.is_floating(table.schema.field(name).type):
            gone = rng.random(len(table)) < share
            values = pa.array(table[name].to_numpy(), mask=gone)
            table = table.set_column(place, name, values)
    return table
