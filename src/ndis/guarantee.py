"""What is promised, to whom, on what basis.

A guarantee is compared as a whole: (epsilon, delta), relation, basis, note, loss and whether the
randomness was secret. Nothing here computes noise; mechanisms promise, ledgers and readers compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss, TabulatedLoss, from_dict
from ndis.risk import advantage, measure

# What the relation of a person is called before the column that names people.
_PERSON = "person:"


class NeighbourRelation(StrEnum):
    """Which two data sets must be hard to tell apart.

    Beside those that are listed there is one for each column that names people:
    ``NeighbourRelation("person:patient")`` is for a patient with all their rows, and another than
    that for a doctor.

    Examples
    --------
    >>> from ndis import NeighbourRelation
    >>> NeighbourRelation("person:patient").change
    'adding or removing any one patient, with all their rows'
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    ROW_SHIFT = "row-shift"
    EDGE = "edge"
    PARTY = "party"

    @classmethod
    def _missing_(cls, value: object) -> NeighbourRelation:
        column = value.removeprefix(_PERSON) if isinstance(value, str) else ""
        if not (column and column != value and column.isprintable()):
            _validate.one_of("relation", value, [*map(str, cls), f"{_PERSON}COLUMN"])
        made = str.__new__(cls, value)
        made._name_, made._value_ = "PERSON", str(value)
        return made

    @classmethod
    def of_person(cls, column: str) -> NeighbourRelation:
        """That of a person with all their rows, who is named in a column."""
        return cls(f"{_PERSON}{column}")

    @property
    def person(self) -> str | None:
        """The column that names people; None where rows, edges or parties are protected."""
        return self.value.removeprefix(_PERSON) if self.value.startswith(_PERSON) else None

    @property
    def unit(self) -> str:
        """Whose data change."""
        return self._words[0]

    @property
    def change(self) -> str:
        """What makes a neighbour, in words."""
        return self._words[1]

    @property
    def oriented(self) -> bool:
        """Whether it is known which of two neighbours comes first in every release.

        The one with the record or the person, the one with the heavier edge; elsewhere either may.
        """
        return self.person is not None or self in (self.ADD_REMOVE, self.EDGE)

    @property
    def _words(self) -> tuple[str, str, str, str]:
        if self.person is None:
            return _CHANGES[self]
        return (
            f"One {self.person}, with all their rows",
            f"adding or removing any one {self.person}, with all their rows",
            "table",
            _CHANGES[self.ADD_REMOVE][3],
        )


# Whose data change, what is done to a data set, what a data set is called, and what somebody who
# knows all else must guess.
_CHANGES = {
    NeighbourRelation.ADD_REMOVE: (
        "One row",
        "adding or removing any one row",
        "table",
        "everything about you except whether you are in this table",
    ),
    NeighbourRelation.REPLACE: (
        "One row",
        "changing any one row",
        "table",
        "everything except which of two records is yours",
    ),
    NeighbourRelation.ROW_SHIFT: (
        "One row, moved by at most 1",
        "moving any one row by a vector of norm at most 1",
        "table",
        "everything except which of two rows, at most 1 apart, is yours",
    ),
    NeighbourRelation.EDGE: (
        "One edge",
        "changing the weight of any one edge",
        "graph",
        "everything except which of two weights one edge has",
    ),
    NeighbourRelation.PARTY: (
        "One person's attributes at one party",
        "changing any one person's attributes at one party",
        "table",
        "everything except which of two sets of attributes is yours at one party",
    ),
}

# The strongest first.
_BASES = {
    "proven": ("for every possible {data}", ""),
    "relative": ("for data in the declared set only", ", if the data are in the declared set"),
    "declared": ("if what was declared is true", ", if what was declared is true"),
    "refuted": ("", ""),
}
BASES = tuple(_BASES)
# An advantage is raised by this share before it is rounded up to whole cases of a hundred, so that
# another machine's last digit makes no other sentence.
_RAISED = 1.0 + 2.0**-30
# How finely the epsilon of a group is divided among its members; and what makes up for rounding.
_GRID, _UP = 512, 1e-11
# Beyond this epsilon nothing is promised that a number could tell.
_TOLD = 700.0
# e^epsilon is written out below this; above it nobody reads the figure.
_PLAIN = 20.0


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy guarantee and the basis on which it stands.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee; `str(guarantee)` is the sentence.
    relation : NeighbourRelation or str
        Which data sets count as neighbours.
    basis : {"proven", "relative", "declared", "refuted"}
        What stands behind it: a proof for all data sets; a proof for the data sets in a declared
        set; a proof that rests on something the caller declared, which `note` names; or nothing,
        since our own computation contradicts it.
    loss : PrivacyLoss, optional
        The worst-case privacy loss, from which every other (epsilon, delta) follows. None where
        it depends on the data and is not published.
    private : bool
        False if the noise came from a seed that somebody knows.
    note : str
        One more sentence, such as what was declared.

    Examples
    --------
    >>> from ndis import Guarantee
    >>> for sentence in Guarantee(1.0, 1e-6, "add-remove", "proven").sentences():
    ...     print(sentence)
    Suppose someone knows everything about you except whether you are in this table. With this release they can guess that correctly at most 74 times in 100; by tossing a coin, 50.
    Adding or removing any one row makes no result more than 2.72 times as likely, apart from a probability of 1e-06: (1, 1e-06)-differentially private. This is proven for every possible table.
    """  # noqa: E501 - a sentence is one line

    epsilon: float
    delta: float
    relation: NeighbourRelation
    basis: str
    loss: PrivacyLoss | None = field(default=None, repr=False)
    private: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "epsilon", _validate.non_negative("epsilon", self.epsilon))
        delta = _validate.floats_within("delta", self.delta, 0.0, 1.0)
        set_(self, "delta", float(delta))
        set_(self, "relation", NeighbourRelation(self.relation))
        _validate.one_of("basis", self.basis, BASES)
        if not isinstance(self.private, bool | np.bool_):
            raise TypeError(
                f"Expected private to be true or false, got private={self.private!r}; pass a bool."
            )
        set_(self, "private", bool(self.private))
        if not (isinstance(self.note, str) and self.note.isprintable()):
            raise ValueError(
                f"Expected note to be one line of text, got {self.note!r}; rewrite it."
            )

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences())

    def sentences(self) -> list[str]:
        """The promise in words: what it means for you, what is promised exactly, what else to know.

        Where nothing can be relied on, since a claim is refuted or its noise can be repeated,
        there is no first sentence.
        """
        seeded = "NOT PRIVATE: the noise came from a known seed"
        notes = [self.note] if self.note else []
        if self.basis == "refuted":
            return [self._refutation(), *notes, *([] if self.private else [f"{seeded}."])]
        claim = f"({_at_most(self.epsilon)}, {_at_most(self.delta)})-differentially private"
        basis = _BASES[self.basis][0].format(data=self.relation._words[2])
        promise = f"{self._in_plain_words()}: {claim}"
        if not self.private:  # one sentence, so that no part of it reads like a promise
            told = f"{promise[0].lower()}{promise[1:]}, proven {basis}."
            return [f"{seeded}; if it were secret: {told}", *notes]
        return [self._meaning, f"{promise}. This is proven {basis}.", *notes]

    @cached_property
    def _meaning(self) -> str:
        """How well somebody who thinks two cases equally likely can tell them apart."""
        unknown, provided = self.relation._words[3], _BASES[self.basis][1]
        cases = math.ceil(50.0 + 50.0 * min(advantage(self._worst()) * _RAISED, 1.0))
        return (
            f"Suppose someone knows {unknown}. With this release they can guess that correctly at "
            f"most {cases} times in 100{provided}; by tossing a coin, 50."
        )

    def _worst(self) -> PrivacyLoss:
        return worst_pair(self.epsilon, self.delta) if self.loss is None else self.loss

    def _in_plain_words(self) -> str:
        """P(S) <= e^epsilon Q(S) + delta, for somebody who does not know what epsilon is."""
        change = self.relation.change
        if self.epsilon < _PLAIN:
            factor = _at_most(math.nextafter(math.exp(self.epsilon), math.inf), 3)
        else:
            factor = f"e^{_at_most(self.epsilon)}"
        times = f"more than {factor} times as likely" if self.epsilon else "more likely"
        but = f", apart from a probability of {_at_most(self.delta)}" if self.delta else ""
        ends = "," if "," in change else ""  # what follows is about all of it
        return f"{change[0].upper()}{change[1:]}{ends} makes no result {times}{but}"

    def _refutation(self) -> str:
        published = f"REFUTED: published as ({self.epsilon:.6g}, {self.delta:.6g})"
        low = 0.0 if self.loss is None else float(self.loss.delta_bounds(self.epsilon)[0])
        if low <= self.delta:
            return f"{published}; our own computation contradicts it."
        return f"{published}; the true delta is at least {_at_least(low)}."

    # -- in other words ----------------------------------------------------------------------

    def risk(self, **question: Any) -> float:
        """How well somebody can attack one person's privacy, rounded up.

        Parameters
        ----------
        **question
            ``false_positive=`` for the true-positive rate of the best membership attack at that
            rate, ``prior=`` and ``beta=`` for the belief that is exceeded with probability at most
            beta, ``candidates=`` for the probability of guessing a record among so many; nothing
            for the attack's advantage. See `ndis.risk`.

        Examples
        --------
        >>> from ndis import Guarantee, Profile, QuadraticLoss
        >>> loss = Profile.both(QuadraticLoss.from_shift(0.25))
        >>> promised = Guarantee(1.0, 1e-6, "add-remove", "proven", loss)
        >>> f"{promised.risk():.4f} {promised.risk(false_positive=0.01):.4f}"
        '0.0995 0.0189'
        """
        self.must_hold()
        return measure(self._worst(), **question)

    def must_hold(self) -> None:
        """Refuse what nobody may rely on: a refuted claim, or noise from a known seed."""
        if self.basis == "refuted" or not self.private:
            raise ValueError(
                f"Expected a guarantee that holds, got one that does not: {self.sentences()[0]}"
            )

    def for_group(self, size: int) -> Guarantee:
        """The guarantee for `size` such changes at once.

        A mean shift of a group is `size` times as large, and its loss is kept. Of other losses
        the bound is the least of P(S) <= delta(a) + e^a Q(S) over ways to divide `size` epsilon
        among the changes; without a loss, what follows from (epsilon, delta) alone.

        Examples
        --------
        >>> from ndis import Guarantee, Profile, QuadraticLoss
        >>> group = Guarantee(1.0, 1e-6, "add-remove", "proven").for_group(2)
        >>> group.epsilon, round(group.delta * 1e6, 6)
        (2.0, 3.718282)
        >>> loss = Profile.both(QuadraticLoss.from_shift(0.23))
        >>> f"{Guarantee(1.0, 1e-6, 'add-remove', 'proven', loss).for_group(2).delta:.2g}"
        '1.8e-06'
        """
        k = _validate.count("size", size)
        if k == 1:
            return self
        if self.basis not in ("proven", "declared"):
            raise ValueError(
                f"Expected a guarantee for all data sets, got a {self.basis} one; it says nothing "
                "about the data sets between a group's two."
            )
        epsilon, loss = k * self.epsilon, None
        logs = [_triangle(self.epsilon, self.delta, k)]
        if self.loss is not None:
            worst, loss = _either_way(self.loss), _group_shift(self.loss, k)
            logs.append(
                _divided(worst, k, epsilon)
                if loss is None
                else float(loss.log_delta_bounds(epsilon)[1])
            )
        log_delta = min(logs) + _UP
        if log_delta >= 0.0:
            raise ValueError(
                f"Expected a group for which something can be promised, got size={k}: delta would "
                "not be below 1; use a smaller group or a smaller epsilon."
            )
        note = f"It holds for {k} such changes at once. {self.note}".rstrip()
        return replace(self, epsilon=epsilon, delta=math.exp(log_delta), loss=loss, note=note)

    def to_replace(self) -> Guarantee:
        """From add/remove to replacing a row, which is one removal and one addition."""
        if self.relation is not NeighbourRelation.ADD_REMOVE:
            raise ValueError(
                f"Expected an add-remove guarantee, got {self.relation}; "
                "no other relation converts to replacing a row."
            )
        note = "Converted from add-remove as a removal followed by an addition."
        return replace(self.for_group(2), relation=NeighbourRelation.REPLACE, note=note)

    # -- as JSON -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        loss = None if self.loss is None else self.loss.to_dict()
        return own | {"relation": str(self.relation), "loss": loss, "sentence": str(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote."""
        names = [each.name for each in fields(cls)]
        if missing := [name for name in names if name not in stored]:
            raise ValueError(
                f"Expected a guarantee with {', '.join(names)}, got none of {', '.join(missing)}; "
                "ask for it again."
            )
        given = {name: stored[name] for name in names}
        return cls(**given | {"loss": None if given["loss"] is None else from_dict(given["loss"])})


def worst_pair(epsilon: float, delta: float, step: float = math.inf) -> TabulatedLoss:
    """The pair that dominates every (epsilon, delta)-private release.

    With probability delta it tells the truth; otherwise it is randomised response. Its losses
    are +-epsilon, on a grid that is no coarser than `step`.
    """
    if epsilon > _TOLD:
        epsilon, delta = 0.0, 1.0
    if epsilon == 0.0:
        return TabulatedLoss(min(step, 1.0), 0, [1.0 - delta], delta, delta)
    cells = max(1, math.ceil(epsilon / step))
    mass = np.zeros(2 * cells + 1)
    mass[-1] = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    mass[0] = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return TabulatedLoss(epsilon / cells, -cells, mass, delta, delta)


def _triangle(epsilon: float, delta: float, k: int) -> float:
    """Ln of delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), which may be large."""
    if delta == 0.0:
        return -math.inf
    if epsilon == 0.0:
        return math.log(delta) + math.log(k)
    ratio = math.log(-math.expm1(-k * epsilon)) - math.log(-math.expm1(-epsilon))
    return math.log(delta) + (k - 1) * epsilon + ratio


def _either_way(loss: PrivacyLoss) -> PrivacyLoss:
    """The worst of a loss for both orders of two neighbours, quick to evaluate."""
    parts = [part for way in loss.directions() for part in way.alternatives()]
    worst = Profile(dict.fromkeys([*parts, *(part.reversed() for part in parts)]))
    return worst if worst.quick else worst.dominating()


def _group_shift(loss: PrivacyLoss, k: int) -> Profile | None:
    """The loss of k changes where each is a mean shift, which add up at most; None elsewhere."""
    squares = [part.squared_shift for way in loss.directions() for part in way.alternatives()]
    if not math.isfinite(max(squares)):
        return None
    return Profile.both(QuadraticLoss.from_shift(k * math.sqrt(max(squares)) * (1.0 + 1e-15)))


def _divided(loss: PrivacyLoss, k: int, epsilon: float) -> float:
    """Ln of a delta at which k changes are epsilon-private, each of them with this loss.

    If P and Q are (a, D(a))- and Q and R (b, E(b))-close for all a and b, then P and R are
    (a + b, D(a) + e^a E(b))-close: the least over a + b = epsilon holds, and so does that over
    any grid. k changes are put together as the binary digits of k say.
    """
    at = np.linspace(0.0, epsilon, _GRID + 1)
    power = np.asarray(loss.upper_log_delta(at), dtype=np.float64)
    total: FloatArray | None = None
    for digit in reversed(f"{k:b}"):
        if digit == "1":
            total = power if total is None else _joined(total, power, at)
        power = _joined(power, power, at)
    assert total is not None  # k is at least 1
    return float(total[-1])


def _joined(first: FloatArray, second: FloatArray, at: FloatArray) -> FloatArray:
    """Ln of the least D(a) + e^a E(b) over a + b = epsilon, for each epsilon of a grid."""
    return np.array(
        [np.min(np.logaddexp(first[: n + 1], at[: n + 1] + second[n::-1])) for n in range(len(at))]
    )


def _at_most(value: float, digits: int = 6) -> str:
    """A number in so many digits, never below it."""
    return f"{float(Context(digits, ROUND_CEILING).plus(Decimal(repr(value)))):.6g}"


def _at_least(value: float) -> str:
    """A number in three digits, never above it."""
    return f"{float(Context(3, ROUND_FLOOR).plus(Decimal(repr(value)))):.6g}"
