"""How an auditor stands between a mechanism and the functions that draw.

Every number that a release holds went through one of a few functions, which are given exact values
and a public noise. Inside `listening` each such question goes to a listener, which may write it
down, and answer it as it was answered before. A mechanism is then a function of its data, and can
be compared with itself on a neighbour; nothing of it has to be written a second time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol

from ndis._validate import FloatArray

_Arguments = ParamSpec("_Arguments")


class Listener(Protocol):
    """Who answers in place of a function: it is given the function and its arguments."""

    def __call__(self, draw: Callable[..., FloatArray], *args: Any, **named: Any) -> FloatArray:
        """The answer."""


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener answer every question of this thread inside the block.

    Examples
    --------
    >>> from ndis.randomness import add_noise, generator
    >>> from ndis.randomness.listening import listening
    >>> with listening(lambda draw, values, *others: values):
    ...     add_noise([1.0, 2.0], 5.0, generator())
    [1.0, 2.0]
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def audible(draw: Callable[_Arguments, FloatArray]) -> Callable[_Arguments, FloatArray]:
    """A function that draws, whose questions can be listened to."""

    @functools.wraps(draw)
    def asked(*args: _Arguments.args, **named: _Arguments.kwargs) -> FloatArray:
        listener = _LISTENER.get()
        return draw(*args, **named) if listener is None else listener(draw, *args, **named)

    return asked
