"""One batch a thread: reading, scaling and multiplying overlap, and results stay in order."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each thread holds a batch in memory.
MOST_THREADS = 8


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int | None = None
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item in order, working on several at once.

    Items are drawn in the calling thread, a few ahead. If not told otherwise there are as many
    threads as the linear algebra library is allowed, and it gets one inside each: its own threads
    would only share out the multiplication, and wait for each other.

    Examples
    --------
    >>> list(map_in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if n_threads is None:
        n_threads = min(MOST_THREADS, _allowed())
    if n_threads == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    with (
        _libraries().limit(limits=1, user_api="blas"),
        ThreadPoolExecutor(n_threads) as pool,
    ):
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                del item
                if len(pending) > n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def few_threads(n_columns: int) -> AbstractContextManager[object]:
    """One thread for the algebra of a matrix of few columns, four if there are some hundreds.

    More would wait for each other, above all where other programs run beside them.
    """
    if n_columns > 1024:
        return nullcontext()
    few = min(4 if n_columns >= 256 else 1, _allowed())
    limited: AbstractContextManager[object] = _libraries().limit(limits=few, user_api="blas")
    return limited


def _allowed() -> int:
    """How many threads the linear algebra libraries may have."""
    pools = [pool for pool in _libraries().info() if pool["user_api"] == "blas"]
    return max((int(pool["num_threads"]) for pool in pools), default=1)


@functools.cache
def _libraries() -> ThreadpoolController:
    """The linear algebra libraries of this process; looking for them takes milliseconds."""
    return ThreadpoolController()
