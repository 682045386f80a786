"""A progress bar: after two seconds, and only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 2.0
# Who wants to be told, and how often at most.
_LISTENERS: list[Callable[[str, float | None], None]] = []
_OFTEN_SECONDS = 0.2


def listen(listener: Callable[[str, float | None], None]) -> None:
    """Tell somebody else how far work is, in place of a terminal: what, and the share done."""
    _LISTENERS.append(listener)


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
    if _LISTENERS:
        yield from _told(iterable, description, total, size)
        return
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


def _told(
    iterable: Iterable[T], description: str, total: int | None, size: Callable[[T], int]
) -> Generator[T]:
    last, done = -_OFTEN_SECONDS, 0
    for item in iterable:
        if time.monotonic() - last > _OFTEN_SECONDS:
            last = time.monotonic()
            for listener in _LISTENERS:
                listener(description, min(done / total, 1.0) if total else None)
        yield item
        done += size(item)
