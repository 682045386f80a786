"""Signals wait while something runs that must not be left half done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_HELD = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def uninterrupted(said: str) -> Iterator[list[int]]:
    """Hold back Ctrl-C, SIGTERM and SIGHUP inside the block; what came is delivered at its end.

    Only the main thread of a process can: Python gives signals to no other. In other threads
    nothing is held back, and SIGTERM ends the process as it would without this.

    Parameters
    ----------
    said : str
        Why the program goes on, written to standard error when the first signal comes.

    Yields
    ------
    list of int
        The signals that wait; one that is removed from it is not delivered.
    """
    waiting: list[int] = []

    def wait(number: int, _: Any) -> None:
        if not waiting:
            with suppress(OSError):
                os.write(2, f"ndis: {said}\n".encode())
        waiting.append(number)

    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _HELD:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, wait)
        yield waiting
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(waiting):
            signal.raise_signal(number)
