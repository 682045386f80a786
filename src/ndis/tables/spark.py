"""Tables held by a Spark cluster: the work goes to the rows, and partial sums come back.

Functions travel by value, so the executors need numpy and pyarrow but not this library. A task
returns its partition's partial sums only when it has read all of it; Spark runs a task again when
its executor is lost and hands on one result a partition, so nothing is lost or counted twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndis.tables.gram import GramAccumulator
from ndis.tables.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

DRIVER_BYTES = 1 << 29

BatchFunction = Callable[["Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


def accumulate(frame: Any, rows: Rows) -> GramAccumulator:
    """Return the accumulator of a Spark DataFrame's rows, summed where the partitions are.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The table.
    rows : Rows
        How its rows are made.
    """
    whole = GramAccumulator(rows)
    n_bytes = len(whole.state()[1])
    # All partial sums reach the driver together, whose limit is a gigabyte unless changed.
    chosen = _select(frame, rows.columns).coalesce(max(1, DRIVER_BYTES // n_bytes))
    schema = "partition int, n_rows long, sums binary, problem string"
    with _pickled_by_value():
        partials = chosen.mapInArrow(_summing(rows), schema).collect()
    partials.sort(key=lambda partial: partial.partition)
    merged: set[int] = set()
    for partial in partials:
        if partial.problem is not None:
            raise ValueError(partial.problem)
        if partial.partition in merged:
            raise RuntimeError(
                f"Spark returned partition {partial.partition} twice; run the job again."
            )
        merged.add(partial.partition)
        state = (partial.n_rows, bytes(partial.sums))
        whole.merge(GramAccumulator.from_state(rows, state))
    return whole


def record_batches(frame: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Spark DataFrame to the driver, one partition in memory at a time."""
    import pyarrow as pa

    with _pickled_by_value():
        packed = _select(frame, columns).mapInArrow(_packing(), "stream binary")
    for row in packed.toLocalIterator():
        with pa.ipc.open_stream(pa.py_buffer(bytes(row.stream))) as reader:
            for batch in reader:
                yield batch.rename_columns(list(columns))


def _summing(rows: Rows) -> BatchFunction:
    """Return the task that sums one partition; an error in the data comes back as a sentence."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        accumulator, problem = GramAccumulator(rows), None
        try:
            for batch in batches:
                accumulator.update(batch.rename_columns(list(rows.columns)))
        except ValueError as error:
            problem = str(error)
            # Spark ends a Python process that leaves part of its input unread.
            for _ in batches:
                pass
        n_rows, sums = accumulator.state()
        context: Any = TaskContext.get()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([context.partitionId()], pa.int32()),
                pa.array([n_rows], pa.int64()),
                pa.array([sums], pa.binary()),
                pa.array([problem], pa.string()),
            ],
            names=["partition", "n_rows", "sums", "problem"],
        )

    return task


def _packing() -> BatchFunction:
    """Return the task that packs each record batch into one value."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            packed = pa.array([sink.getvalue().to_pybytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([packed], names=["stream"])

    return task


def _select(frame: Any, columns: Sequence[str]) -> Any:
    """Return the columns as c0, c1, ...: mapInArrow trips over dots and backticks in names."""
    quoted = (name.replace("`", "``") for name in columns)
    return frame.selectExpr(*(f"`{name}` as c{index}" for index, name in enumerate(quoted)))


@contextmanager
def _pickled_by_value() -> Iterator[None]:
    """Let what a task needs of this library travel with it."""
    cloudpickle: Any = import_module("pyspark.cloudpickle")
    names = ("ndis._validate", "ndis.tables.rows", "ndis.tables.gram", __name__)
    modules = [sys.modules[name] for name in names]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
