"""Tables of Dask: partitions are summed where they are, and eight sums are merged at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ndis.tables.columns import default_names
from ndis.tables.exact import Accumulator
from ndis.tables.ids import Counting, PersonCounts
from ndis.tables.sources import Request, Source
from ndis.tables.threads import few_threads


def open_frame(
    frame: Any,
    open_pandas: Callable[[Any], Source],
    open_array: Callable[[Any], Source],
    refuse: Any,
) -> Source:
    """A Dask DataFrame or Array."""
    if getattr(frame, "ndim", 2) != 2 or not hasattr(frame, "to_delayed"):
        raise refuse(frame)
    array = not hasattr(frame, "columns")
    if array and len(frame.chunks[1]) > 1:
        frame = frame.rechunk({1: -1})
    opener = open_array if array else open_pandas

    def read(request: Request) -> Iterator[Any]:
        for part in _partitions(frame):
            yield from opener(part.compute()).read(request)

    def reduce(request: Request, work: Any, what: str) -> Accumulator:
        from dask.delayed import delayed

        def summed(partition: Any) -> Accumulator:
            total = Accumulator()
            for batch in opener(partition).read(request):
                total.merge(work(batch))
            return total

        parts = [delayed(summed)(partition) for partition in _partitions(frame)]
        while len(parts) > 1:
            parts = [delayed(_merged)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
        with few_threads(1):  # partitions are shared out already
            result: Accumulator = parts[0].compute()
        return result

    def count(request: Request, work: Any) -> PersonCounts:
        from dask.delayed import delayed

        def counted(partition: Any) -> PersonCounts:
            total = Counting()
            for batch in opener(partition).read(request):
                total.add(work(batch))
            return total.total()

        parts = [delayed(counted)(partition) for partition in _partitions(frame)]
        while len(parts) > 1:
            parts = [delayed(_together)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
        result: PersonCounts = parts[0].compute()
        return result

    names = default_names(frame.shape[1]) if array else tuple(map(str, frame.columns))
    return Source(names, read, nameless=array, reduce=reduce, count=count)


def _partitions(frame: Any) -> list[Any]:
    delayed = frame.to_delayed()
    return list(delayed.reshape(-1)) if hasattr(delayed, "reshape") else list(delayed)


def _together(parts: Sequence[PersonCounts]) -> PersonCounts:
    return parts[0].plus(parts[1:])


def _merged(parts: Sequence[Accumulator]) -> Accumulator:
    total = Accumulator()
    for part in parts:
        total.merge(part)
    return total
