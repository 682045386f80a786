"""Tables held by a Spark cluster: the work goes to the rows, and sums come back.

A pass is one job, in which each task adds up the partitions it is given. Large sums are cut into
pieces, and the executors add up piece by piece, so that the driver receives every number of the
result once, however many rows, partitions and tasks there are; small ones it adds up itself.
Functions travel by value: executors need numpy and pyarrow, not this library. Spark runs a task
again when its executor is lost and hands on one result for each, so nothing is lost or counted
twice.

Rows that are summed again are made once and kept by the executors (`KeptRows`), with the marks of
the records that they were made of. Rows that an executor has lost are made again, of whatever the
table holds then, and with its marks: every pass adds these up, and a table that changed is noticed.
"""

from __future__ import annotations

import codecs
import hashlib
import itertools
import logging
import os
import re
import secrets
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import without_secrets
from ndis.tables.cells import RowCells, packed, problem_cell, seen_cell, unpacked
from ndis.tables.exact import Accumulator
from ndis.tables.files import require_once
from ndis.tables.ids import Counting, PersonCounts, ids, no_ids
from ndis.tables.kept import Packing
from ndis.tables.sources import Request, Source
from ndis.tables.text import TextFormat, parsed

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis.tables.table import Pass

_LOG = logging.getLogger("ndis")
# Bytes of a piece of a sum, small enough for many to fit an Arrow batch.
PIECE_BYTES = 1 << 18
# Bytes of a number of a sum; and so many the driver adds up itself, which saves a shuffle.
_NUMBER_BYTES, _DRIVER_BYTES = 24, 1 << 24
# Tasks of a pass for each core of the cluster; more partitions than that share a task.
_TASKS_OF_A_CORE = 2

BatchFunction = Callable[["Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]
Reading = Callable[[], AbstractContextManager[None]]


def open_frame(frame: Any, *, written: TextFormat | None = None, path: str | None = None) -> Source:
    """A Spark DataFrame. Its rows stay on the cluster: it is summed there, never read here.

    One of text, `written` somehow at a path, has no types: executors read each value as its
    column's kind.
    """

    def read(request: Request) -> Iterator[Any]:
        raise TypeError(
            "Expected a table that is read here, got one of a Spark cluster; write it to Parquet "
            "files and hand over their folder."
        )

    frame, widths = _lists(frame)
    rows = Cluster(frame, written, path)
    return Source(
        tuple(frame.columns),
        read,
        widths=widths,
        reduce=rows.reduce,
        count=rows.count,
        keep=rows.keep,
    )


def open_parquet(session: Any, path: str) -> Source:
    """Parquet files, read through Spark."""
    frame = session.read.parquet(path)
    require_once(frame.inputFiles())
    return open_frame(frame)


def open_text(session: Any, path: str, **written: Any) -> Source:
    """Text files, read through Spark as text: it would infer types from all lines.

    `written` says how (see `ndis.tables.text.TextFormat`).
    """
    form = TextFormat(**written)
    frame = session.read.csv(
        path,
        sep=form.separator(path),
        encoding=codecs.lookup(form.encoding).name.replace("iso8859", "iso-8859"),
        header=form.header is not False,
        inferSchema=False,
        enforceSchema=False,  # every file has the names of the first
        escape='"',
    )
    require_once(frame.inputFiles())
    if form.names is not None:
        frame = frame.toDF(*form.names)
    source = open_frame(frame, written=form, path=path)
    return replace(source, header=form.header is None)


@dataclass(frozen=True)
class Cluster:
    """The records of a frame, and how they are written where they are text."""

    frame: Any
    written: TextFormat | None = None
    path: str | None = None

    def reduce(self, request: Request, work: Pass, what: str) -> Accumulator:
        """The sums of all rows, added up on the executors."""
        with self._reading():
            return _summed(self._chosen(request), work, _summing(request, self.written, work), what)

    def keep(self, request: Request, work: Pass) -> KeptRows | None:
        """Rows that are made in the next pass and kept, unless the cluster keeps nothing."""
        cells = RowCells(Packing(work.rows, work.raw), secrets.token_hex(8))
        with pickled_by_value(work):
            task = _making(request, self.written, work, cells)
            return _kept(self._chosen(request).mapInArrow(task, _CELLS), cells, self._reading)

    def count(self, request: Request, work: Any) -> PersonCounts:
        """How many rows everybody has: tasks count theirs, Spark adds up those of one person."""
        person = work.weighting.person
        given = dict(self.frame.dtypes)[person]
        whole = re.fullmatch(r"decimal\(\d+,0\)", given) is not None
        stored = "bigint" if whole else _ID_TYPES.get(given)
        if stored is None:
            raise no_ids(person, given)
        schema = f"id {stored}, n bigint, problem string"
        with pickled_by_value(work), telling(self.frame, "Counting rows"):
            task = _counting(request, self.written, work, stored)
            parts = self._chosen(request).mapInArrow(task, schema)
            found = parts.groupBy("id", "problem").sum("n").toArrow()
        problem = next(filter(None, found["problem"].to_pylist()), None)
        if problem is not None:
            raise unpacked(problem)
        total = Counting()
        for batch in found.to_batches():
            n = batch.column("sum(n)").to_numpy().astype(np.int64)
            total.add(PersonCounts.of(ids(person, batch.column("id"), gaps=True), n))
        return total.total()

    def _chosen(self, request: Request) -> Any:
        return _select(self.frame, request.columns).coalesce(_n_tasks(self.frame))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say of files of text what Java says of them."""
        try:
            yield
        except Exception as error:  # Java's
            if self.path is None or "FAILED_READ_FILE" not in str(error):
                raise
            raise ValueError(
                f"Expected files at {without_secrets(self.path)!r} that all have the columns of "
                "the first, got one that cannot be read like that; name the files to read."
            ) from None


class KeptRows:
    """Rows that executors keep, in their memory and on their disks, until they are told not to."""

    def __init__(self, frame: Any, cells: RowCells, reading: Reading) -> None:
        self.frame, self.cells, self._reading = frame, cells, reading
        self._end = weakref.finalize(self, _let_go, frame)

    def reduce(self, work: Pass, what: str) -> Accumulator:
        """The sums of these rows; whoever has lost some makes them again."""
        with self._reading():
            return _summed(self.frame, work, _summing_cells(work, self.cells), what)

    def keep(self, work: Pass) -> KeptRows | None:
        """Others that are made of these."""
        cells = RowCells(Packing(work.rows, work.raw), secrets.token_hex(8))
        with pickled_by_value(work):
            task = _making_again(work.of_kept(), self.cells, cells)
            return _kept(self.frame.mapInArrow(task, _CELLS), cells, self._reading)

    def forget(self) -> None:
        """Let executors free their memory."""
        self._end()


def _kept(frame: Any, cells: RowCells, reading: Reading) -> KeptRows | None:
    from pyspark import StorageLevel

    on_disk = os.environ.get("NDIS_SCRATCH") != "none"
    level = StorageLevel.MEMORY_AND_DISK if on_disk else StorageLevel.MEMORY_ONLY
    try:
        return KeptRows(frame.persist(level), cells, reading)
    except Exception:  # Databricks without servers keeps nothing: each pass reads the table
        return None


def _let_go(frame: Any) -> None:
    # A session that has ended keeps nothing.
    with suppress(Exception):
        frame.unpersist()


def _summed(chosen: Any, work: Pass, task: BatchFunction, what: str) -> Accumulator:
    """The sums that tasks make of a frame."""
    n_tasks = _n_tasks(chosen)
    with pickled_by_value(work), telling(chosen, what):
        parts = chosen.mapInArrow(task, _SCHEMA)
        if n_tasks * _NUMBER_BYTES * work.n_numbers() > _DRIVER_BYTES:
            parts = parts.repartition(n_tasks, "sum", "piece").mapInArrow(_merging(), _SCHEMA)
        pieces = parts.collect()
    pieces = _merged(piece.asDict() for piece in pieces)
    problem = next((piece["problem"] for piece in pieces if piece["problem"] is not None), None)
    if problem is not None:
        raise unpacked(problem)
    return _assembled(pieces)


@contextmanager
def telling(frame: Any, what: str) -> Iterator[None]:
    """Say in Spark's list of jobs what one is for, and in the log of ndis when it is done."""
    began, context, before = time.monotonic(), None, None
    with suppress(Exception):  # a session over Spark Connect has no context
        context = frame.sparkSession.sparkContext
        before = context.getLocalProperty("spark.job.description")
        context.setJobDescription(f"ndis: {what}")
    try:
        yield
        _LOG.info("%s on Spark: %.1f s", what, time.monotonic() - began)
    finally:
        if context is not None:
            context.setJobDescription(before)


# Types of Spark by which people are told apart, and how they are written.
_ID_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint"),
    **{name: name for name in ("string", "date", "binary")},
}


def _counting(
    request: Request, written: TextFormat | None, work: Any, stored: str
) -> BatchFunction:
    """Return the task that counts the rows of everybody in its partitions."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        narrow = {"string": pa.string(), "binary": pa.binary(), "bigint": pa.int64()}
        kind, total, problem = narrow.get(stored, pa.date32()), Counting(), None
        try:
            for batch in batches:
                total.add(work(_read(batch, request, written)))
            table = total.total().table
        except ValueError as error:
            table, problem = None, packed(error)
            for _ in batches:
                pass
        schema = pa.schema([("id", kind), ("n", pa.int64()), ("problem", pa.string())])
        if problem is not None:
            yield pa.RecordBatch.from_pylist([{"problem": problem}], schema=schema)
        elif table is not None:
            for batch in table.to_batches(max_chunksize=1 << 16):
                blank = pa.nulls(batch.num_rows, pa.string())
                own = [batch.column("id").cast(kind), batch.column("n").cast(pa.int64()), blank]
                yield pa.RecordBatch.from_arrays(own, schema=schema)

    return task


# A piece names the tasks that it was added up of, by the sum of their fingerprints: where a table
# changes while a lost executor's work is done again, pieces of one sum could come of two tables.
_SCHEMA = (
    "sum string, piece int, n_pieces int, shape array<int>, content binary, tasks bigint, "
    "problem string"
)
# Bytes of a fingerprint: sums of millions stay below 2^63.
_FINGERPRINT = 5


def _summing(request: Request, written: TextFormat | None, work: Pass) -> BatchFunction:
    """Return the task that sums its partitions; an error in the data comes back as a sentence."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total, problem = Accumulator(), None
        try:
            for batch in batches:
                total.merge(work(_read(batch, request, written)))
        except ValueError as error:
            problem = packed(error)
            # Spark ends a Python process that leaves part of its input unread.
            for _ in batches:
                pass
        yield from _pieces(total, problem)

    return task


def _read(batch: pa.RecordBatch, request: Request, written: TextFormat | None) -> pa.RecordBatch:
    """Records with the names of their columns; text is read as what each holds."""
    records = batch.rename_columns(list(request.columns))
    return records if written is None else parsed(records, request.kinds, written)


_CELLS = "content binary, weight bigint"


def _making(
    request: Request, written: TextFormat | None, work: Pass, cells: RowCells
) -> BatchFunction:
    """Return the task that makes rows of its partitions, as cells, with the records' marks."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                marks = Accumulator()
                for block in work.blocks(_read(batch, request, written), marks):
                    yield cells.of(block)
                yield seen_cell(marks)
        except ValueError as error:
            yield problem_cell(error)
            for _ in batches:
                pass

    return task


def _making_again(work: Pass, records: RowCells, cells: RowCells) -> BatchFunction:
    """Return the task that makes rows of records that were kept as they are in the table."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                marks = Accumulator()
                for rows in records.read(batch, marks):
                    for block in work.blocks((rows,), marks):
                        yield cells.of(block)
                yield seen_cell(marks)
        except ValueError as error:
            yield problem_cell(error)
            for _ in batches:
                pass

    return task


def _summing_cells(work: Pass, cells: RowCells) -> BatchFunction:
    """Return the task that sums rows that were kept."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total, problem = Accumulator(), None
        try:
            for batch in batches:
                for rows in cells.read(batch, total):
                    total.merge(work((rows,)))
        except ValueError as error:
            problem = packed(error)
            for _ in batches:
                pass
        yield from _pieces(total, problem)

    return task


def _merging() -> BatchFunction:
    """Return the task that adds up all that came for each of its pieces."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in _merged(row for batch in batches for row in batch.to_pylist()):
            yield _record(row)

    return task


def _merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the pieces of several tasks, one for each place; and what was wrong."""
    known: dict[tuple[str, int], tuple[dict[str, Any], Any]] = {}
    for row in rows:
        key = (row["sum"], row["piece"])
        content = np.frombuffer(row["content"] or b"", np.int64)
        if key not in known:
            known[key] = row, content.copy()
        else:
            first, total = known[key]
            first["problem"] = first["problem"] or row["problem"]
            first["tasks"] += row["tasks"]
            if content.size:
                total += content
    return [row | {"content": content.tobytes()} for row, content in known.values()]


def _pieces(total: Accumulator, problem: str | None) -> Iterator[pa.RecordBatch]:
    blank = {"sum": "", "piece": 0, "n_pieces": 1, "shape": [], "content": b"", "tasks": 0}
    blank["problem"] = problem
    if problem is not None:
        yield _record(blank)
        return
    sums = {name: sum_.limbs for name, sum_ in total.sums().items()}
    if "_rows" in sums:  # without rows there are marks alone
        fingerprint = hashlib.blake2b(digest_size=_FINGERPRINT)
        for limb in itertools.chain(*sums.values()):
            fingerprint.update(limb.tobytes())
        blank["tasks"] = int.from_bytes(fingerprint.digest())
    for name, parts in sums.items():
        # Whole: no engine knows what is in a sum, not even that a square one is its own mirror.
        shape, packed = parts[0].shape, np.stack(parts).tobytes()
        n_pieces = max(1, -(-len(packed) // PIECE_BYTES))
        for piece in range(n_pieces):
            content = packed[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES]
            yield _record(
                blank
                | {"sum": name, "piece": piece, "n_pieces": n_pieces, "content": content}
                | {"shape": list(shape)}
            )


def _assembled(pieces: Sequence[dict[str, Any]]) -> Accumulator:
    from ndis.tables.table import changed

    state: dict[str, Any] = {}
    if len({piece["tasks"] for piece in pieces}) > 1:
        raise changed()
    for name in {piece["sum"] for piece in pieces if piece["sum"]}:
        own = sorted((p for p in pieces if p["sum"] == name), key=lambda p: int(p["piece"]))
        if [p["piece"] for p in own] != list(range(own[0]["n_pieces"])):
            raise RuntimeError("Spark returned sums that are not complete; run the job again.")
        numbers = np.frombuffer(b"".join(bytes(p["content"]) for p in own), np.int64)
        state[name] = list(numbers.reshape(-1, *own[0]["shape"]).copy())
    return Accumulator.from_state(state)


def _record(row: dict[str, Any]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("sum", pa.string()),
            ("piece", pa.int32()),
            ("n_pieces", pa.int32()),
            ("shape", pa.list_(pa.int32())),
            ("content", pa.binary()),
            ("tasks", pa.int64()),
            ("problem", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist([row], schema=schema)


def _n_tasks(frame: Any) -> int:
    try:
        cores = int(frame.sparkSession.sparkContext.defaultParallelism)
    except Exception:  # a session over Spark Connect does not tell
        cores = 8
    return max(1, _TASKS_OF_A_CORE * cores)


def _select(frame: Any, columns: Sequence[str]) -> Any:
    """Return the columns as c0, c1, ...: mapInArrow trips over dots and backticks in names."""
    quoted = (name.replace("`", "``") for name in columns)
    return frame.selectExpr(*(f"`{name}` as c{index}" for index, name in enumerate(quoted)))


def _lists(frame: Any) -> tuple[Any, dict[str, int]]:
    """Vectors of Spark's ML as arrays, and the length of the arrays: that of the first row."""
    widths = {}
    for field in frame.schema.fields:
        kind = field.dataType.simpleString()
        if kind == "vector":
            from pyspark.ml.functions import vector_to_array

            frame = frame.withColumn(field.name, vector_to_array(frame[f"`{field.name}`"]))
        if kind == "vector" or kind.startswith("array<"):
            quoted = field.name.replace("`", "``")
            first = frame.selectExpr(f"size(`{quoted}`) as width").limit(1).collect()
            widths[field.name] = int(first[0].width) if first else 0
    return frame, widths


# How many jobs need a module to travel by value: several threads may start some at a time.
_TRAVELLING, _LOCK = Counter[str](), threading.Lock()


@contextmanager
def pickled_by_value(work: Any) -> Iterator[None]:
    """Let what a task needs of this library travel with it."""
    cloudpickle: Any = import_module("pyspark.cloudpickle")
    own = {name for name in sys.modules if name.startswith("ndis.tables.")} | {"ndis._validate"}
    own.add(getattr(work, "function", work).__module__)
    modules = [sys.modules[name] for name in sorted(own) if name.startswith("ndis.")]
    with _LOCK:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
            _TRAVELLING[module.__name__] += 1
    try:
        yield
    finally:
        with _LOCK:
            for module in modules:
                _TRAVELLING[module.__name__] -= 1
                if not _TRAVELLING[module.__name__]:
                    cloudpickle.unregister_pickle_by_value(module)
