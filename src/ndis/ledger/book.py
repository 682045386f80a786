"""The ledger itself: what was promised in all, what was spent, what is left.

`Ledger` is what users see. It knows sentences and guarantees; `modes` knows how they add up,
`chain` keeps the state and the history whole, and `sqlite` and `postgresql` store them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ndis import _validate
from ndis._validate import wrong
from ndis.guarantee import BASES, Guarantee, NeighbourRelation
from ndis.ledger.chain import Chain, Event
from ndis.ledger.filter import Filter
from ndis.ledger.modes import Adaptive, Mode, Planned, Refused, Remaining, State
from ndis.ledger.postgresql import PREFIXES, PostgreSQLSchema
from ndis.ledger.sqlite import SQLiteFile
from ndis.ledger.storage import VERSION, DamagedLedger, OtherVersion, Storage
from ndis.loss import Profile

Result = TypeVar("Result")

# A ledger counts these, or puts up with them, only if told so at its creation.
_ACCEPTABLE = ("relative", "declared", "seeded", "network", "rows")
_MODES = ("adaptive", "plan")
_ONE_ROW = "Declared: nobody has more than one row where a promise is for one row."
_AFTER_GUARANTEE = ',"mechanism":'
_NOT_OURS = "it holds what this version of ndis does not write"
# Reading raises these where a ledger holds something else than the library writes.
_MISREAD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Entry:
    """One release in the ledger; `digest` is None until its output is known.

    Of a series `periods` has the same for each period after the first that is out.
    """

    number: int
    time: str
    mechanism: str
    guarantee: Guarantee
    note: str = ""
    digest: str | None = None
    periods: tuple[str | None, ...] = ()


class Ledger:
    """A privacy budget that several processes may spend from at once.

    Opening and creating are two calls: `Ledger(path)` opens what is there and makes nothing,
    `Ledger.create` makes a new ledger and adopts nothing.

    Parameters
    ----------
    path : str or path
        An SQLite file on a local disk; or, for several machines, a schema of a PostgreSQL database
        as `postgresql://user@host/database#schema` (extra `postgresql`).
    note : str
        Why releases are made, such as the name of a study; stored with each of them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ndis import Guarantee, Ledger, Profile, QuadraticLoss
    >>> loss = Profile.both(QuadraticLoss.from_shift(0.1))
    >>> release = Guarantee(0.5, 1e-6, "add-remove", "proven", loss)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "budget.ndis"
    ...     with Ledger.create(path, 1.0, 1e-6, "add-remove") as ledger:
    ...         before = ledger.remaining().epsilon
    ...         entry = ledger.spend(release, "example")
    ...         print(entry.number, f"{before:.3f} {ledger.remaining().epsilon:.3f}")
    1 0.960 0.856
    """

    def __init__(self, path: str | os.PathLike[str], *, note: str = "") -> None:
        self._chain = Chain(_storage(path))
        self._note = str(note)
        self._mode: Mode | None = None
        self._counted = 0, _Tally()
        with self._believing():
            self._chain.run(self._read_opening)
        self._chain.storage.allow(self.accept)
        if self._chain.storage.shared:
            self._current()  # which compares the totals with the releases

    def _read_opening(self, _: State) -> None:
        opening = self._chain.find("open", 0)
        stored = {} if opening is None else opening.content()
        if stored.get("version") != VERSION:
            raise self._chain.storage.other_version(stored.get("version"))
        self.epsilon = _validate.positive("epsilon", stored["epsilon"])
        self.delta = _validate.probability("delta", stored["delta"])
        self.relation = NeighbourRelation(stored["relation"])
        self.mode: str = _validate.one_of("mode", stored["mode"], _MODES)
        self.accept: tuple[str, ...] = tuple(map(str, stored["accept"]))
        if (stored["filter"] is None) != (self.mode == "plan"):
            raise self._chain.storage.damaged(_NOT_OURS)
        if self.mode == "adaptive":
            self._mode = Adaptive(self.epsilon, self.delta, Filter.from_dict(stored["filter"]))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: float,
        delta: float,
        relation: NeighbourRelation | str,
        *,
        mode: str = "adaptive",
        accept: Iterable[str] = (),
        note: str = "",
    ) -> Ledger:
        """Make a new ledger; nothing may be there yet.

        Parameters
        ----------
        path, note
            As for opening it. A file is readable for its owner only.
        epsilon, delta, relation : float, float, NeighbourRelation or str
            The budget and what counts as neighbours.
        mode : {"adaptive", "plan"}
            "adaptive": later releases may depend on earlier outputs, and each passes a privacy
            filter. "plan": all releases are fixed beforehand with `plan`, and add up exactly.
        accept : iterable of {"relative", "declared", "seeded", "network", "rows"}
            Guarantees that are not unconditional and are to be counted all the same (refuted
            claims are never counted); "network": keep the file on a file system that is not known
            to be local, where the caller knows that one machine alone uses it, by one path;
            "rows": count promises for one row in a ledger for people, where the caller knows that
            nobody has more than one row in the tables that these are about.

        Raises
        ------
        FileExistsError
            If anything is there, even an empty file.
        """
        budget: dict[str, Any] = {
            "epsilon": _validate.positive("epsilon", epsilon),
            "delta": _validate.probability("delta", delta),
            "relation": str(NeighbourRelation(relation)),
            "mode": _validate.one_of("mode", mode, _MODES),
            "accept": sorted({_validate.one_of("accept", each, _ACCEPTABLE) for each in accept}),
        }
        rules: Mode = Planned(budget["epsilon"], budget["delta"])
        if mode == "adaptive":
            limits = Filter.design(rules.epsilon, rules.delta)
            rules = Adaptive(rules.epsilon, rules.delta, limits)
            budget["filter"] = limits.to_dict()
        body = {"version": VERSION, "time": _timestamp(), "filter": None} | budget
        start = {"releases": 0, "basis": "proven", "private": True, "mode": rules.start()}
        storage = _storage(path)
        chain = Chain(storage)
        with storage.creation(budget["accept"]):
            chain.append("open", 0, body, start)
        storage.close()
        return cls(path, note=note)

    @property
    def path(self) -> Path | str:
        """Where the ledger is, for opening it again; printed, it shows no password."""
        return self._chain.storage.path

    @contextmanager
    def _believing(self) -> Iterator[None]:
        """Use what the ledger holds; where that fails, the library did not write it."""
        try:
            yield
        except (DamagedLedger, OtherVersion, Refused):
            raise
        except _MISREAD:
            raise self._chain.storage.damaged(_NOT_OURS) from None

    def _run(self, work: Callable[[State], Result], *, write: bool = False) -> Result:
        """`work` in a transaction."""

        def after_counting(state: State) -> Result:
            if self._chain.storage.shared:
                self._count(state)
            return work(state)

        with self._believing():
            return self._chain.run(after_counting, write=write)

    def _count(self, state: State) -> None:
        """Compare the running totals with the releases themselves; inside a transaction."""
        rules, (number, tally) = self._rules(), self._counted
        events = list(self._chain.unchecked("spend", number))
        tally = tally.plus(rules, [entry.guarantee for entry in _entries(events)])
        if (why := tally.fault(rules, state)) is not None:
            raise self._chain.storage.damaged(why)
        self._counted = self._chain.seen[0], tally

    def _rules(self) -> Mode:
        """The mode, which no event changes any more once it is known; inside a transaction."""
        if self._mode is not None:
            return self._mode
        plan = self._chain.find("plan", 0)
        if plan is None:
            return Planned(self.epsilon, self.delta)
        planned = Planned.from_list(self.epsilon, self.delta, plan.content()["plan"])
        if self._chain.storage.shared and (why := planned.excess()) is not None:
            raise self._chain.storage.damaged(why)
        self._mode = planned
        return planned

    def _current(self) -> tuple[Mode, State]:
        """The rules and the state."""
        return self._run(lambda state: (self._rules(), state))

    # -- spending ----------------------------------------------------------------------------

    def spend(self, guarantee: Guarantee, mechanism: str, note: str | None = None) -> Entry:
        """Take a release out of the budget, before its noise is drawn.

        Atomic and durable: when this returns, the release is paid for, whatever happens next.

        Parameters
        ----------
        guarantee : Guarantee
            What the release promises; its loss counts if it has one, else its (epsilon, delta).
        mechanism : str
            The name of what makes the release.
        note : str, optional
            Why it is made; the ledger's own note if not given.

        Returns
        -------
        Entry
            To be passed to `complete` with the digest of the output.

        Raises
        ------
        BudgetExceeded
            If the budget, or the plan, has no room for it. Nothing is spent.
        """
        self._check(guarantee)
        body: dict[str, Any] = {"time": _timestamp(), "mechanism": str(mechanism)}
        body["note"] = self._note if note is None else str(note)
        content = body | {"guarantee": guarantee.to_dict()}
        json.dumps(content)  # what cannot be written is the caller's fault, not the ledger's
        cost = self._current()[0].cost(guarantee)  # may take long, and others need not wait for it

        def pay(state: State) -> tuple[Mode, State, State | None]:
            rules = self._rules()
            after = _after(rules, state, guarantee, cost)
            if after is not None:
                self._chain.append("spend", after["releases"], content, after)
            return rules, state, after

        rules, state, after = self._run(pay, write=True)
        if after is None:
            raise rules.refusal(state["mode"], guarantee)
        return Entry(after["releases"], guarantee=guarantee, **body)

    def complete(self, entry: Entry | int, digest: str, *, period: int = 1) -> None:
        """Record the digest of what a paid release put out; each release completes once.

        Parameters
        ----------
        entry : Entry or int
            The release, or its number.
        digest : str
            Of the output.
        period : int
            Of a series, which period it is; one that was put out again stays as it was recorded.
        """
        number = entry.number if isinstance(entry, Entry) else _validate.count("entry", entry)
        body = {"time": _timestamp(), "digest": str(digest)}
        kind = "complete" if period == 1 else f"complete {period}"

        def record(state: State) -> None:
            if self._chain.find("spend", number) is None:
                raise Refused(
                    f"Expected a release that was paid for, got number {number}; spend first."
                )
            if self._chain.find(kind, number) is not None:
                if self._chain.find(f"period {period}", number) is not None:
                    return
                raise Refused(
                    f"Expected a release that is not complete, got number {number}; "
                    "every output needs its own spend."
                )
            self._chain.append(kind, number, body, state)

        self._run(record, write=True)

    def note_period(self, number: int, series: str, period: int, drawn: str = "") -> None:
        """Note that a period of a series is out, before it is; the release has paid for all.

        Parameters
        ----------
        number : int
            The release that paid.
        series : str
            The name of the series.
        period : int
            From 1, one after the other; one that is noted already stays as it is.
        drawn : str
            The digest of what was drawn of it. Another draw of the same period is refused.
        """
        body = {"time": _timestamp(), "series": str(series), "drawn": str(drawn)}

        def note(state: State) -> None:
            if self._chain.find("spend", number) is None or not (
                period == 1 or self._noted(number, series, period - 1) is not None
            ):
                raise Refused(
                    "Expected the ledger that paid for this series, got another; pass that one."
                )
            known = self._noted(number, series, period)
            if known is None:
                self._chain.append(f"period {period}", number, body, state)
            elif drawn and known.get("drawn") and known["drawn"] != drawn:
                raise Refused(
                    f"Expected period {period} of this series as the ledger knows it, got another "
                    "draw of it, from a copy of the file of the series; nobody paid for a second "
                    "one: throw that copy away, and go on with the file that the first came from."
                )

        self._run(note, write=True)

    def _noted(self, number: int, series: str, period: int) -> Mapping[str, Any] | None:
        """What is known of a period of a series that is out; inside a transaction."""
        event = self._chain.find(f"period {period}", number)
        content = None if event is None else event.content()
        if content is not None and content.get("series") != series:
            raise Refused(
                "Expected the ledger that paid for this series, got another; pass that one."
            )
        return content

    def periods(self, number: int, series: str) -> int:
        """How many periods of a series are out, as the ledger knows it.

        Parameters
        ----------
        number : int
            The release that paid.
        series : str
            The name of the series.
        """

        def count(_: State) -> int:
            period = 0
            while self._noted(number, series, period + 1) is not None:
                period += 1
            return period

        return self._run(count)

    def plan(self, guarantees: Sequence[Guarantee]) -> None:
        """Fix all releases of a "plan" ledger beforehand; their exact total must be in the budget.

        Afterwards `spend` takes exactly these guarantees, each as often as it was listed, in any
        order. A guarantee is recognised by its relation and its loss.
        """
        if self.mode != "plan":
            raise ValueError(
                f"Expected a ledger of mode 'plan', got {self.mode!r}; "
                "an adaptive ledger needs no plan."
            )
        for guarantee in guarantees:
            self._check(guarantee)
        plan = Planned.of(self.epsilon, self.delta, guarantees)
        body = {"time": _timestamp(), "plan": plan.to_list()}

        def fix(state: State) -> None:
            if self._chain.find("plan", 0) is not None:
                raise Refused(
                    f"Expected a ledger without a plan, got {self._chain.storage.name}, which has "
                    "one; a plan cannot be changed, start another ledger."
                )
            self._chain.append("plan", 0, body, state | {"mode": plan.start()})

        self._run(fix, write=True)

    def _check(self, guarantee: Guarantee) -> None:
        """Refuse what cannot be added to this ledger at all."""
        if not isinstance(guarantee, Guarantee):
            raise TypeError(
                f"Expected a Guarantee, got {type(guarantee).__name__}; pass `release.guarantee`."
            )
        if self.relation.person is not None and guarantee.relation.person is None:
            self._check_rows(guarantee)
        elif guarantee.relation != self.relation:
            pair = guarantee.relation, self.relation
            convertible = pair == (NeighbourRelation.ADD_REMOVE, NeighbourRelation.REPLACE)
            or_convert = ", or convert it by `guarantee.to_replace()`" if convertible else ""
            raise wrong("relation")(
                f"Expected a guarantee for {self.relation}, as this ledger counts, got one for "
                f"{guarantee.relation}; pass another relation, or use another ledger{or_convert}."
            )
        if guarantee.basis == "refuted":
            raise ValueError(
                "Expected a guarantee that holds, got a refuted claim; a ledger never counts one."
            )
        if guarantee.basis != "proven" and guarantee.basis not in self.accept:
            raise wrong("accept")(
                f"Expected a proven guarantee, got a {guarantee.basis} one; use a ledger made "
                f"with accept=[{guarantee.basis!r}] to count it all the same."
            )
        if not guarantee.private and "seeded" not in self.accept:
            raise wrong("random_state", "accept")(
                "Expected noise that nobody can repeat, got some from a seed; leave out "
                "random_state, or use a ledger made with accept=['seeded']."
            )

    def _check_rows(self, guarantee: Guarantee) -> None:
        """In a ledger for people: refuse what is promised for rows, unless rows are people."""
        person = self.relation.person
        if guarantee.relation is not NeighbourRelation.ADD_REMOVE:
            wanted = "it cannot be added to one for people; use another ledger"
        elif "rows" not in self.accept:
            wanted = (
                f"pass person={person!r}, or use a ledger made with accept=['rows'] if nobody has "
                "more than one row"
            )
        else:
            return
        raise wrong("person", "accept")(
            f"Expected a guarantee for any one {person}, with all their rows, as this ledger "
            f"counts, got one for {guarantee.relation}; {wanted}."
        )

    # -- reading -----------------------------------------------------------------------------

    def remaining(self) -> Remaining:
        """What may still be spent.

        In adaptive mode, the largest Gaussian release that would be admitted; in plan mode,
        what the rest of the plan amounts to.
        """
        rules, state = self._current()
        return rules.left(state["mode"])

    def would_allow(self, guarantee: Guarantee) -> bool:
        """Whether `spend` would admit a release now, so that callers ask before they read data.

        Another process may be quicker; only `spend` decides. A guarantee that this ledger never
        counts raises, as it would there.
        """
        return self._look_ahead(guarantee)[2] is not None

    def preview(self, guarantee: Guarantee) -> Remaining:
        """What would be left after a release; raises as `spend` would, and spends nothing."""
        rules, state, after = self._look_ahead(guarantee)
        if after is None:
            raise rules.refusal(state["mode"], guarantee)
        return rules.left(after["mode"])

    def _look_ahead(self, guarantee: Guarantee) -> tuple[Mode, State, State | None]:
        self._check(guarantee)
        rules, state = self._current()
        return rules, state, _after(rules, state, guarantee, rules.cost(guarantee))

    def history(self) -> list[Entry]:
        """All releases in the order of spending, those without an output included."""
        return self._all()[2]

    def burn_down(self, points: int = 200) -> tuple[list[int], list[float]]:
        """Numbers of releases, at most `points` of them, and the epsilon that then remained."""
        rules, _, entries = self._all()
        moments = np.linspace(0, len(entries), min(points, len(entries) + 1)).astype(int).tolist()
        return moments, rules.burn_down([entry.guarantee for entry in entries], moments)

    def verify(self, expect: str | None = None) -> int:
        """Check the whole ledger, totals computed afresh, and return the number of releases.

        Parameters
        ----------
        expect : str, optional
            A hash that was noted earlier (`latest_hash`): it must be in the chain. It is not if
            an older copy was put back, or the ledger was written anew.

        Raises
        ------
        DamagedLedger
            If anything is not as the library wrote it.
        """
        rules, state, entries = self._all(verify=True)
        if expect is not None:
            self._find(expect)
        with self._believing():
            why = self._fault(rules, state, entries)
        if why is not None:
            raise self._chain.storage.damaged(why)
        return len(entries)

    def _find(self, noted: str) -> None:
        if not re.fullmatch("[0-9a-f]{64}", noted := str(noted).strip().lower()):
            raise ValueError(
                f"Expected a hash of 64 hexadecimal digits, got {noted!r}; pass one that `ndis "
                "ledger show` printed."
            )
        if not self._run(lambda _: self._chain.holds(noted)):
            raise self._chain.storage.damaged(
                f"no event has the hash {noted}, so what was noted then has been undone"
            )

    def _fault(self, rules: Mode, state: State, entries: Sequence[Entry]) -> str | None:
        """A fault of a ledger whose chain is whole; None if there is none."""
        guarantees = [entry.guarantee for entry in entries]
        if [each.number for each in entries] != list(range(1, len(entries) + 1)):
            return "releases are missing"
        for guarantee in {id(each): each for each in guarantees}.values():
            self._check(guarantee)
        tally = _Tally().plus(rules, guarantees)
        return tally.fault(rules, state) or rules.fault(state["mode"], guarantees)

    def guarantee(self) -> Guarantee:
        """The promise about all releases together, past and future.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from ndis import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Ledger.create(pathlib.Path(folder) / "budget", 1.0, 1e-6, "replace") as ledger:
        ...         ledger.guarantee().epsilon
        1.0
        """
        _, state = self._current()
        rows = self.relation.person is not None and "rows" in self.accept
        return Guarantee(
            self.epsilon,
            self.delta,
            self.relation,
            max(state["basis"], "declared", key=BASES.index) if rows else state["basis"],
            private=state["private"],
            note=_ONE_ROW if rows else "",
        )

    def summary(self) -> dict[str, str]:
        """The budget, what was spent and what is left, in words."""
        (releases, made), left = self.counts(), self.remaining()
        so_far = "nothing yet"
        if releases:
            spent = float(self.total().epsilon(self.delta))
            so_far = f"{releases} release{'s' * (releases > 1)}, {made} with an output"
            if math.isfinite(spent):
                so_far += (
                    "; had all been planned beforehand, they would come to epsilon "
                    f"{math.ceil(1e4 * spent) / 1e4:g} at delta {self.delta:g}"
                )
        return {
            "budget": f"epsilon {self.epsilon:g} at delta {self.delta:g}, for all releases",
            "neighbours": str(self.relation),
            "mode": self.mode,
            "accepts": ", ".join(self.accept) or "proven promises only",
            "spent so far": so_far,
            "left": f"{left}: the largest release with Gaussian noise that is still admitted",
            "how it adds up": (
                "to less than the sum of the epsilons: with Gaussian noise it is nearly their "
                "squares that add up, so that 1 + 0.5 + 1 comes to about 1.5"
            ),
            "when all is spent": str(self.guarantee()),
            "latest hash": self.latest_hash(),
        }

    def counts(self) -> tuple[int, int]:
        """How many releases were paid for, and how many of them have an output."""
        return self._run(lambda state: (int(state["releases"]), self._chain.count("complete")))

    def latest_hash(self) -> str:
        """The hash of the last event, to be noted elsewhere: `verify` then finds it again."""
        return self._run(lambda _: self._chain.seen[1])

    def total(self) -> Profile:
        """The loss of all releases made so far, added up as if they had been planned.

        It dominates what was published, one direction after the other. It is no promise about
        releases that were chosen by earlier outputs, for which only the whole budget stands:
        see `guarantee`.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from ndis import Guarantee, Ledger, Profile, QuadraticLoss
        >>> loss = Profile.both(QuadraticLoss.from_shift(0.3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "budget"
        ...     with Ledger.create(path, 4.0, 1e-6, "add-remove") as ledger:
        ...         for _ in range(4):
        ...             _ = ledger.spend(Guarantee(1.3, 1e-6, "add-remove", "proven", loss), "toy")
        ...         f"{ledger.total().delta(1.0):.6f}"
        '0.018966'
        """
        rules, _, entries = self._all()
        return rules.total([entry.guarantee for entry in entries])

    def risk(self, *, as_planned: bool = False, **question: Any) -> float:
        """How well somebody can attack one person's privacy with all releases together, rounded up.

        In plan mode from the exact total of the plan; in adaptive mode from the whole budget, which
        is all that is promised there, or, `as_planned`, from what was released so far, added up
        as if it had been fixed in advance.

        Parameters
        ----------
        as_planned : bool
            Read the releases made so far as a plan.
        **question
            As in `Guarantee.risk`.
        """
        loss = self.total() if as_planned else self._current()[0].promised()
        return replace(self.guarantee(), loss=loss).risk(**question)

    def _all(self, *, verify: bool = False) -> tuple[Mode, State, list[Entry]]:
        """Rules, state and releases of one moment; read while others may go on paying."""

        def read(state: State) -> tuple[Mode, State, list[Event]]:
            if verify:
                self._chain.storage.check()
            return self._rules(), state, list(self._chain.events())

        with self._believing():
            rules, state, events = self._chain.run(read)
            return rules, state, _entries(events)

    # -- holding -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file; a later call opens it again."""
        self._chain.close()

    def __enter__(self) -> Ledger:
        """The ledger itself; leaving the block closes the file."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is the same ledger opened again."""
        return partial(type(self), self.path, note=self._note), ()

    def __repr__(self) -> str:
        """The budget and where it is kept."""
        return (
            f"Ledger({os.path.basename(self._chain.storage.name)!r}, epsilon={self.epsilon:g}, "
            f"delta={self.delta:g}, relation={str(self.relation)!r}, mode={self.mode!r})"
        )

    def _repr_html_(self) -> str:
        """The budget and what is left of it, for notebooks."""
        cells = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self.summary().items()
        )
        return f"<table>{cells}</table>"


@dataclass(frozen=True)
class _Tally:
    """Releases added up afresh."""

    releases: int = 0
    basis: str = "proven"
    private: bool = True
    mode: Any = None

    def plus(self, rules: Mode, guarantees: Sequence[Guarantee]) -> _Tally:
        """With further releases."""
        added: Any = rules.added_up(guarantees)
        distinct = {id(each): each for each in guarantees}.values()
        return _Tally(
            self.releases + len(guarantees),
            max((self.basis, *(each.basis for each in distinct)), key=BASES.index),
            self.private and all(each.private for each in distinct),
            added if self.mode is None else self.mode + added,
        )

    def fault(self, rules: Mode, state: State) -> str | None:
        """How a state differs from what its history implies."""
        if self.releases != state["releases"]:
            return "releases are missing"
        if (self.basis, self.private) != (state["basis"], state["private"]):
            return "it promises more than its releases"
        return rules.off(state["mode"], self.mode)


def _entries(events: Sequence[Event]) -> list[Entry]:
    """The releases among events; a guarantee that comes again is read once."""
    digests, periods = {}, dict[int, dict[int, str | None]]()
    for event in events:
        kind, _, period = event.kind.partition(" ")
        if kind == "complete" and not period:
            digests[event.release] = event.content()["digest"]
        elif kind in ("period", "complete") and period != "1":
            digest = event.content().get("digest")
            periods.setdefault(event.release, {})[int(period)] = digest
    known: dict[str, Guarantee] = {}
    entries = []
    for event in events:
        if event.kind != "spend":
            continue
        # Keys are sorted: the guarantee comes first. As two objects both halves are small to
        # read, and together they say what the whole says.
        promise, key, rest = event.body.rpartition(_AFTER_GUARANTEE)
        if promise not in known:
            known[promise] = Guarantee.from_dict(json.loads(promise + "}")["guarantee"])
        body = json.loads("{" + key[1:] + rest)
        time, mechanism, why = (str(body[name]) for name in ("time", "mechanism", "note"))
        digest = digests.get(event.release)
        later = tuple(periods.get(event.release, {}).values())
        entries.append(Entry(event.release, time, mechanism, known[promise], why, digest, later))
    return entries


def _storage(path: str | os.PathLike[str]) -> Storage:
    address = os.fspath(path)
    return PostgreSQLSchema(address) if address.startswith(PREFIXES) else SQLiteFile(path)


def _after(rules: Mode, state: State, guarantee: Guarantee, cost: Any) -> State | None:
    """The whole state after a release, None if there is no room for it."""
    mode = rules.after(state["mode"], guarantee, cost, first=state["releases"] == 0)
    if mode is None:
        return None
    return {
        "releases": state["releases"] + 1,
        # All releases together are as good as the weakest of them.
        "basis": max(state["basis"], guarantee.basis, key=BASES.index),
        "private": state["private"] and guarantee.private,
        "mode": mode,
    }


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
