"""A durable, append-only list of events, each sealed with the one before.

The hash of an event covers the event before it and the state after it (the running totals), so
that neither can be edited alone. There is no key: anybody who can write the ledger and knows the
format can write a new chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from ndis.ledger.storage import Interrupted, Storage, Waiting

State = dict[str, Any]
Result = TypeVar("Result")

_NOTHING = "0" * 64
_AT_ONCE = 100  # rows, as a loss may be large
_TYPES = (int, str, int, str, str, str)


class Event(NamedTuple):
    """One link of the chain; `release` is 0 for events that are about the ledger itself."""

    number: int
    kind: str
    release: int
    body: str
    state: str
    hash: str

    def content(self) -> dict[str, Any]:
        """The body, read as JSON."""
        return dict(json.loads(self.body))


class Chain:
    """Transactions on a storage, appending, and checking what was appended before."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = threading.RLock()
        self._seen, self._seen_hash = 0, _NOTHING
        _OPEN.add(self)

    # -- transactions ------------------------------------------------------------------------

    def run(self, work: Callable[[State], Result], *, write: bool = False) -> Result:
        """Run `work` on the state in one transaction, undone if anything raises; return its result.

        It may be called again, where another machine was quicker or a connection was lost. If
        that was during a commit, nobody knows whether it took place: the next transaction looks.
        """
        waiting = Waiting(self.storage.name)
        sent: tuple[int, str, Result] | None = None
        while True:
            try:
                with self._lock, self._remembered(), self.storage.transaction(write=write):
                    state, before = self._catch_up(), self._seen
                    if sent is not None and self._holds(*sent[:2]):
                        return sent[2]
                    result = work(state)
                    sent = None
                    if self._seen != before:
                        sent = self._seen, self._seen_hash, result
                return result
            except Interrupted:
                waiting.pause()

    def append(self, kind: str, release: int, body: dict[str, Any], state: State) -> None:
        """Add an event and the state after it; only inside a writing transaction."""
        number = self._seen + 1
        # The nonce tells an event from its twin by another process; the state names its event,
        # so that it does not fit a chain that was cut short.
        body_text = _text(body | {"nonce": secrets.token_hex(8)})
        state_text = _text(state | {"event": number})
        sealed = _seal(self._seen_hash, number, kind, release, body_text, _digest(state_text))
        self.storage.query(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
            (number, kind, release, body_text, _digest(state_text), sealed),
        )
        self.storage.query(
            "INSERT INTO state VALUES (1, ?) "
            "ON CONFLICT (only_row) DO UPDATE SET body = excluded.body",
            (state_text,),
        )
        self._seen, self._seen_hash = number, sealed

    def events(self) -> Iterator[Event]:
        """All events in order, each checked against the one before."""
        number, sealed = 0, _NOTHING
        for event in self._after(0):
            self._check(event, number, sealed)
            number, sealed = event.number, event.hash
            yield event
        if (number, sealed) != (self._seen, self._seen_hash):
            raise self.storage.damaged("its end does not fit the chain")

    def unchecked(self, kind: str, number: int) -> Iterator[Event]:
        """Events of one kind after a number that `run` has checked."""
        return self._after(number, "AND kind = ?", kind)

    def find(self, kind: str, release: int) -> Event | None:
        """The event of one kind about one release."""
        event = next(self._after(0, "AND release = ? AND kind = ?", release, kind), None)
        if event is not None:
            self._check(event, event.number - 1, self._hash_of(event.number - 1))
        return event

    def count(self, kind: str) -> int:
        """How many events there are of one kind."""
        ((found,),) = self.storage.query("SELECT count(*) FROM events WHERE kind = ?", (kind,))
        return int(found)

    def holds(self, sealed: str) -> bool:
        """Whether an event has this hash."""
        return bool(self.storage.query("SELECT 1 FROM events WHERE hash = ?", (sealed,)))

    @property
    def seen(self) -> tuple[int, str]:
        """Number and hash of the last event; inside a transaction."""
        return self._seen, self._seen_hash

    def close(self) -> None:
        """Let go of the place; the next use opens it again."""
        with self._lock:
            self.storage.close()

    # -- inside ------------------------------------------------------------------------------

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """If a transaction fails, forget what was read in it."""
        known = self._seen, self._seen_hash
        try:
            yield
        except BaseException:
            self._seen, self._seen_hash = known
            raise

    def _after(self, number: int, condition: str = "", *values: Any) -> Iterator[Event]:
        while True:
            rows = self.storage.query(
                "SELECT number, kind, release, body, state, hash FROM events "
                f"WHERE number > ? {condition} ORDER BY number LIMIT {_AT_ONCE}",
                (number, *values),
            )
            for row in rows:
                if tuple(map(type, row)) != _TYPES:
                    raise self.storage.damaged("an event is not one that ndis writes")
                yield Event(*row)
            if len(rows) < _AT_ONCE:
                return
            number = rows[-1][0]

    def _holds(self, number: int, sealed: str) -> bool:
        event = next(self._after(number - 1), None)
        return event is not None and (event.number, event.hash) == (number, sealed)

    def _catch_up(self) -> State:
        """Check the events since the last one seen, and the state after the last."""
        if not self._seen and not self.storage.shared:
            self._seen, self._seen_hash = self._end()
        last = None
        for event in self._after(max(0, self._seen - 1)):
            if last is None and self._seen:
                if (event.number, event.hash) != (self._seen, self._seen_hash):
                    break
            else:
                self._check(event, self._seen, self._seen_hash)
                self._seen, self._seen_hash = event.number, event.hash
            last = event
        if last is None and self._seen:
            raise self.storage.damaged("events that this process has seen are gone")
        stored = self.storage.query("SELECT body FROM state")
        if last is None or len(stored) != 1 or _digest(stored[0][0]) != last.state:
            raise self.storage.damaged("its running totals do not fit the chain")
        return dict(json.loads(stored[0][0]))

    def _end(self) -> tuple[int, str]:
        """The last event, checked; those before it are when they are read.

        All that a payment depends on is sealed by it (the totals), or checked by itself as it is
        read (the budget, the plan).
        """
        ((number, count),) = self.storage.query("SELECT max(number), count(*) FROM events")
        if number != count or not number:
            raise self.storage.damaged("events are missing")
        last = next(self._after(number - 1))
        self._check(last, number - 1, self._hash_of(number - 1))
        return last.number, last.hash

    def _hash_of(self, number: int) -> str:
        if number == 0:
            return _NOTHING
        found = self.storage.query("SELECT hash FROM events WHERE number = ?", (number,))
        return str(found[0][0]) if found else ""

    def _check(self, event: Event, number: int, sealed: str) -> None:
        """Whether an event follows the one with this number and hash."""
        parts = (event.kind, event.release, event.body, event.state)
        if event.number != number + 1 or event.hash != _seal(sealed, number + 1, *parts):
            raise self.storage.damaged(f"event {event.number} does not fit the chain")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: Any) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def _seal(before: str, *parts: Any) -> str:
    return _digest(json.dumps([before, *parts]))


# Locks and connections belong to a process, and must not be carried across a fork.
_OPEN: weakref.WeakSet[Chain] = weakref.WeakSet()
_held: list[Chain] = []


def _before_fork() -> None:
    for chain in list(_OPEN):
        chain._lock.acquire()
        _held.append(chain)
        chain.close()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
