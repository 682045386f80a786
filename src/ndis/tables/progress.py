"""A progress bar: after two seconds, and only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 2.0


def track(
    iterable: Iterable[T],
    description: str,
    total: int | None = None,
    size: Callable[[T], int] = lambda item: 1,
) -> Generator[T]:
    """Yield from `iterable`, with a progress bar on standard error once it takes over two seconds.

    Nothing is shown, ever, where standard error is not a terminal.

    Parameters
    ----------
    iterable : iterable
        What to work through.
    description : str
        What is being done.
    total : int, optional
        Sum of the sizes of all items, where it is known.
    size : callable, optional
        Size of an item; one if not given.

    Examples
    --------
    >>> sum(track(range(5), "Adding", total=5))
    10
    """
    if not sys.stderr.isatty():
        yield from iterable
        return
    started, done, bar = time.monotonic(), 0, None
    try:
        for item in iterable:
            yield item
            done += size(item)
            if bar is None and time.monotonic() - started > PATIENCE_SECONDS:
                from rich.console import Console
                from rich.markup import escape
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                task = bar.add_task(escape(description), total=total)
                bar.start()
            if bar is not None:
                bar.update(task, completed=done)
    finally:
        if bar is not None:
            bar.stop()
