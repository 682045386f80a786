"""The ledger itself: what was promised in all, what was spent, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ndis import _validate
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.ledger.chain import Chain, DamagedLedger
from ndis.ledger.filter import Filter
from ndis.ledger.modes import Adaptive, Mode, Planned, Remaining, State

SCHEMA = "ndis-ledger/1"
# What a ledger counts only if told so at its creation.
_ACCEPTABLE = ("relative", "declared", "seeded")
# The strongest promise first; all releases together are as good as the weakest of them.
_BASES = ("proven", "relative", "declared")


@dataclass(frozen=True)
class Entry:
    """One release in the ledger; `digest` is None until its output is known."""

    number: int
    time: str
    mechanism: str
    guarantee: Guarantee
    digest: str | None = None


class Ledger:
    """A privacy budget in a file that several processes may spend from at once.

    Parameters
    ----------
    path : path-like
        An SQLite file on a local disk; made if it is not there.
    epsilon, delta, relation : float, float, NeighbourRelation or str
        The budget and what counts as neighbours. May be left out for an existing file; if given
        they must agree with it.
    mode : {"adaptive", "plan"}
        "adaptive" (default): later releases may depend on earlier outputs, and each passes a
        privacy filter. "plan": all releases are fixed beforehand with `plan`, and add up exactly.
    accept : iterable of {"relative", "declared", "seeded"}
        Guarantees that are not unconditional and are to be counted all the same. Refuted
        claims are never counted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ndis import Guarantee, Ledger, Profile, QuadraticLoss
    >>> loss = Profile.both(QuadraticLoss.from_shift(0.1))
    >>> release = Guarantee(0.5, 1e-6, "add-remove", "proven", loss)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "budget.ndis"
    ...     with Ledger(path, 1.0, 1e-6, "add-remove") as ledger:
    ...         before = ledger.remaining().epsilon
    ...         entry = ledger.spend(release, "example")
    ...         print(entry.number, f"{before:.3f} {ledger.remaining().epsilon:.3f}")
    1 0.960 0.856
    """

    def __init__(
        self,
        path: str | Path,
        epsilon: float | None = None,
        delta: float | None = None,
        relation: NeighbourRelation | str | None = None,
        *,
        mode: str | None = None,
        accept: Iterable[str] | None = None,
    ) -> None:
        asked = _asked(epsilon, delta, relation, mode, accept)
        self._chain = Chain(path)
        self.path = self._chain.path
        if not self.path.exists() or self._is_empty():
            self._create(asked)
        with self._chain.transaction():
            opening = self._chain.find("open", 0)
        stored = {} if opening is None else opening.content()
        if stored.get("schema") != SCHEMA:
            raise DamagedLedger(
                f"Expected a ledger of schema {SCHEMA}, got {self.path}; "
                "use the version of ndis that wrote it."
            )
        for name, value in asked.items():
            if value is not None and value != stored[name]:
                self.close()
                raise ValueError(
                    f"Expected {name}={stored[name]!r} as {self.path} was made with, got {value!r};"
                    " leave it out, or start another ledger."
                )
        self.epsilon: float = stored["epsilon"]
        self.delta: float = stored["delta"]
        self.relation = NeighbourRelation(stored["relation"])
        self.mode: str = stored["mode"]
        self.accept: tuple[str, ...] = tuple(stored["accept"])
        self._mode: Mode | None = None
        if stored["filter"] is not None:
            self._mode = Adaptive(self.epsilon, self.delta, Filter.from_dict(stored["filter"]))

    def _is_empty(self) -> bool:
        with self._chain.transaction() as state:
            return state is None

    def _create(self, asked: dict[str, Any]) -> None:
        missing = [name for name in ("epsilon", "delta", "relation") if asked[name] is None]
        if missing:
            raise FileNotFoundError(
                f"Expected a ledger at {self.path}, found none; "
                f"to make one, pass {', '.join(missing)} too."
            )
        given = {"mode": asked["mode"] or "adaptive", "accept": asked["accept"] or []}
        budget = {name: asked[name] for name in ("epsilon", "delta", "relation")} | given
        limits = None
        rules: Mode = Planned(budget["epsilon"], budget["delta"])
        if budget["mode"] == "adaptive":
            limits = Filter.design(budget["epsilon"], budget["delta"])
            rules = Adaptive(budget["epsilon"], budget["delta"], limits)
        stored = None if limits is None else limits.to_dict()
        start = {"releases": 0, "basis": "proven", "private": True, "mode": rules.start()}
        with self._chain.transaction(write=True) as state:
            if state is None:  # no other process was quicker
                self._chain.create_tables()
                body = {"schema": SCHEMA, "time": _now(), "filter": stored} | budget
                self._chain.append("open", 0, body, start)

    def _rules(self) -> Mode:
        """The mode, which no event changes any more once it is known; inside a transaction."""
        if self._mode is not None:
            return self._mode
        plan = self._chain.find("plan", 0)
        if plan is None:
            return Planned(self.epsilon, self.delta)
        self._mode = Planned.from_list(self.epsilon, self.delta, plan.content()["plan"])
        return self._mode

    # -- spending ----------------------------------------------------------------------------

    def spend(self, guarantee: Guarantee, mechanism: str) -> Entry:
        """Take a release out of the budget, before its noise is drawn.

        Atomic and durable: when this returns, the release is paid for, whatever happens next.

        Parameters
        ----------
        guarantee : Guarantee
            What the release promises; its loss counts if it has one, else its (epsilon, delta).
        mechanism : str
            The name of what makes the release.

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
        time, name = _now(), str(mechanism)
        body = {"time": time, "mechanism": name, "guarantee": guarantee.to_dict()}
        with self._chain.transaction():
            rules = self._rules()
        cost = rules.cost(guarantee)
        with self._chain.transaction(write=True) as state:
            rules, now = self._rules(), _there(state)
            after = _after(rules, now, guarantee, cost)
            if after is not None:
                self._chain.append("spend", after["releases"], body, after)
        if after is None:
            raise rules.refusal(now["mode"], guarantee)
        return Entry(after["releases"], time, name, guarantee)

    def complete(self, entry: Entry | int, digest: str) -> None:
        """Record the digest of what a paid release put out; each release completes once."""
        number = entry.number if isinstance(entry, Entry) else _validate.count("entry", entry)
        with self._chain.transaction(write=True) as state:
            if self._chain.find("spend", number) is None:
                raise ValueError(
                    f"Expected a release that was paid for, got number {number}; spend first."
                )
            if self._chain.find("complete", number) is not None:
                raise ValueError(
                    f"Expected a release that is not complete, got number {number}; "
                    "every output needs its own spend."
                )
            body = {"time": _now(), "digest": str(digest)}
            self._chain.append("complete", number, body, _there(state))

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
        with self._chain.transaction(write=True) as state:
            if self._chain.find("plan", 0) is not None:
                raise ValueError(
                    f"Expected a ledger without a plan, got {self.path}, which has one; "
                    "a plan cannot be changed, start another ledger."
                )
            body = {"time": _now(), "plan": plan.to_list()}
            self._chain.append("plan", 0, body, _there(state) | {"mode": plan.start()})

    def _check(self, guarantee: Guarantee) -> None:
        """Refuse what cannot be added to this ledger at all."""
        if not isinstance(guarantee, Guarantee):
            raise TypeError(
                f"Expected a Guarantee, got {type(guarantee).__name__}; pass `release.guarantee`."
            )
        if guarantee.relation != self.relation:
            raise ValueError(
                f"Expected a guarantee for {self.relation}, got one for {guarantee.relation}; "
                "convert it (such as with `to_replace`) or use another ledger."
            )
        if guarantee.basis == "refuted":
            raise ValueError(
                "Expected a guarantee that holds, got a refuted claim; a ledger never counts one."
            )
        if guarantee.basis != "proven" and guarantee.basis not in self.accept:
            raise ValueError(
                f"Expected a proven guarantee, got a {guarantee.basis} one; use a ledger made "
                f"with accept=[{guarantee.basis!r}] to count it all the same."
            )
        if not guarantee.private and "seeded" not in self.accept:
            raise ValueError(
                "Expected noise that nobody can repeat, got private=False; leave random_state "
                "unset, or use a ledger made with accept=['seeded']."
            )

    # -- reading -----------------------------------------------------------------------------

    def remaining(self) -> Remaining:
        """What may still be spent.

        In adaptive mode, the largest Gaussian release that would be admitted; in plan mode,
        what the rest of the plan amounts to.
        """
        with self._chain.transaction() as state:
            rules, now = self._rules(), _there(state)
        return rules.left(now["mode"])

    def preview(self, mechanism: Any) -> Remaining:
        """What would be left after a release; raises as `spend` would, and spends nothing.

        Parameters
        ----------
        mechanism : Guarantee, Release, or anything with a guarantee
            A fitted estimator, or an object whose `guarantee_` or `guarantee` is one (or returns
            one when it is called).
        """
        guarantee = _guarantee_of(mechanism)
        self._check(guarantee)
        with self._chain.transaction() as state:
            rules, now = self._rules(), _there(state)
        after = _after(rules, now, guarantee, rules.cost(guarantee))
        if after is None:
            raise rules.refusal(now["mode"], guarantee)
        return rules.left(after["mode"])

    def history(self) -> list[Entry]:
        """All releases in the order of spending, those without an output included."""
        with self._chain.transaction():
            return self._entries()

    def burn_down(self, points: int = 200) -> tuple[list[int], list[float]]:
        """Numbers of releases, at most `points` of them, and the epsilon that then remained."""
        with self._chain.transaction():
            rules, entries = self._rules(), self._entries()
        moments = np.linspace(0, len(entries), min(points, len(entries) + 1)).astype(int).tolist()
        return moments, rules.burn_down([entry.guarantee for entry in entries], moments)

    def verify(self) -> int:
        """Check the whole file, totals computed afresh, and return the number of releases.

        Raises
        ------
        DamagedLedger
            If anything is not as the library wrote it.
        """
        self._chain.check()
        with self._chain.transaction() as state:
            rules, now, entries = self._rules(), _there(state), self._entries()
        whole = [entry.number for entry in entries] == list(range(1, now["releases"] + 1))
        guarantees = [entry.guarantee for entry in entries]
        why = rules.fault(now["mode"], guarantees) if whole else "releases are missing"
        if why is not None:
            raise DamagedLedger(
                f"Expected a ledger that adds up, got {self.path}: {why}; restore the file, or "
                "count its budget as spent."
            )
        return len(entries)

    def guarantee(self) -> Guarantee:
        """What is promised about all releases together, past and future.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from ndis import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Ledger(pathlib.Path(folder) / "budget", 1.0, 1e-6, "replace") as ledger:
        ...         ledger.guarantee().epsilon
        1.0
        """
        with self._chain.transaction() as state:
            now = _there(state)
        return Guarantee(
            self.epsilon, self.delta, self.relation, now["basis"], private=now["private"]
        )

    def _entries(self) -> list[Entry]:
        """The releases; inside a transaction."""
        outputs = {event.release: event.content() for event in self._chain.events("complete")}
        entries = []
        for event in self._chain.events("spend"):
            body, output = event.content(), outputs.get(event.release, {})
            guarantee = Guarantee.from_dict(body["guarantee"])
            entries.append(
                Entry(
                    event.release, body["time"], body["mechanism"], guarantee, output.get("digest")
                )
            )
        return entries

    # -- holding -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file; a later call opens it again."""
        self._chain.close()

    def __enter__(self) -> Ledger:
        """The ledger itself; leaving the block closes the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, is the same file opened again."""
        return type(self), (self.path,)

    def __repr__(self) -> str:
        """The budget and where it is kept."""
        return (
            f"Ledger({self.path.name!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"relation={str(self.relation)!r}, mode={self.mode!r})"
        )


def _after(rules: Mode, state: State, guarantee: Guarantee, cost: Any) -> State | None:
    """The whole state after a release, None if there is no room for it."""
    mode = rules.after(state["mode"], guarantee, cost, first=state["releases"] == 0)
    if mode is None:
        return None
    return {
        "releases": state["releases"] + 1,
        "basis": max(state["basis"], guarantee.basis, key=_BASES.index),
        "private": state["private"] and guarantee.private,
        "mode": mode,
    }


def _asked(
    epsilon: float | None,
    delta: float | None,
    relation: NeighbourRelation | str | None,
    mode: str | None,
    accept: Iterable[str] | None,
) -> dict[str, Any]:
    """The parameters that were given, validated, as they stand in the file; None if not given."""
    given: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "relation", "mode", "accept"))
    if epsilon is not None:
        given["epsilon"] = _validate.positive("epsilon", epsilon)
    if delta is not None:
        given["delta"] = _validate.probability("delta", delta)
    if relation is not None:
        known = [str(each) for each in NeighbourRelation]
        given["relation"] = _validate.one_of("relation", str(relation), known)
    if mode is not None:
        given["mode"] = _validate.one_of("mode", mode, ("adaptive", "plan"))
    if accept is not None:
        given["accept"] = sorted({_validate.one_of("accept", each, _ACCEPTABLE) for each in accept})
    return given


def _there(state: State | None) -> State:
    """The state of a ledger that was opened before, and so is not empty."""
    if state is None:
        raise DamagedLedger("Expected a ledger, got an empty file; it was emptied while in use.")
    return state


def _guarantee_of(mechanism: Any) -> Guarantee:
    if isinstance(mechanism, Guarantee):
        return mechanism
    for name in ("guarantee_", "guarantee"):
        found = getattr(mechanism, name, None)
        if found is not None:
            return _guarantee_of(found() if callable(found) else found)
    raise TypeError(
        f"Expected a guarantee or something that has one, got {type(mechanism).__name__}; "
        "pass a Guarantee."
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
