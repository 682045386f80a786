"""How much each record counts: all records of one person together at most as much as one.

A record of somebody with m records counts 1/max(K, m): everybody counts once where K is 1, and
records count alike up to K of them. Every sum of the library adds up what its records give, so
that a person's records move it at most as far as one record may. Weights are whole numbers of
2^-26, rounded down: a person's add up to at most 2^26, in integers, and sums stay exact.

How many records a person has is counted in a pass of its own (`ndis.tables.ids`), after records
with gaps are left out, so that a weight depends on that person's records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import count, one_of, positive
from ndis.tables.exact import ONE
from ndis.tables.ids import NOBODY, Ids, Lookup, PersonCounts, ids
from ndis.tables.values import NUMBER, TEXT, Kind, missing_values, numbers, plain

if TYPE_CHECKING:
    pass

# Records are added up weight by weight, and few weights make few sums: the number of records is
# exact up to 2^6 and then rounded up to seven binary digits, weights of samples are rounded down to
# seven.
_DIGITS = 7
# What becomes of a record that does not say whose it is.
REFUSE, OWN = "refuse", "own"
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Weighting:
    """What the weight of a record depends on; all of it is public but the counts.

    Parameters
    ----------
    person : str, optional
        The column that says whose record it is. Without one each record is a person's.
    rows_per_person : int, default 1
        K: records of one person count alike up to so many.
    sample_weight : str, optional
        A column of weights, which multiply.
    max_weight : float, optional
        Their public bound: larger ones are cut to it, and all are divided by it.
    counts : Lookup, optional
        How many records everybody has, once they have been counted.
    level : str, optional
        A column by which the records of each person are counted apart (see `count`).
    missing_person : {"refuse", "own"}
        What becomes of records that do not say whose they are: each may be a person's who has no
        other. Missing is what is null, and of a text file what is empty.

    Examples
    --------
    >>> import pyarrow as pa
    >>> stays = pa.record_batch({"patient": ["a", "b", "a", "c"]})
    >>> weighting = Weighting("patient")
    >>> counts = PersonCounts().plus([weighting.count(stays)])
    >>> (weighting.counted(counts).of(stays) / 2**26).tolist()
    [0.5, 1.0, 0.5, 1.0]
    """

    person: str | None = None
    rows_per_person: int = 1
    sample_weight: str | None = None
    max_weight: float | None = None
    counts: Lookup | None = field(default=None, repr=False, compare=False)
    level: str | None = None
    missing_person: str = REFUSE

    def __post_init__(self) -> None:
        count("rows_per_person", self.rows_per_person)
        one_of("missing_person", self.missing_person, [REFUSE, OWN])
        if self.alone and self.person is None:
            raise ValueError(
                f"Expected missing_person={OWN!r} only together with person; name the column that "
                "says whose row it is."
            )
        if (self.sample_weight is None) != (self.max_weight is None):
            raise ValueError(
                f"Expected sample_weight together with max_weight, got sample_weight="
                f"{self.sample_weight!r} and max_weight={self.max_weight!r}; pass the column and "
                "the largest weight that a row can have."
            )
        if self.max_weight is not None:
            positive("max_weight", self.max_weight)

    @property
    def alone(self) -> bool:
        """Whether a record that does not say whose it is counts as a person's."""
        return self.missing_person == OWN

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read for it."""
        named = (self.person, self.sample_weight, self.level)
        return tuple(name for name in named if name is not None)

    @property
    def gapless(self) -> tuple[str, ...]:
        """Those without which a record counts for nobody."""
        return tuple(n for n in self.columns if not (self.alone and n == self.person))

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """What these hold: ids are compared as they are written."""
        kinds = {self.person: TEXT, self.sample_weight: NUMBER, self.level: TEXT}
        return {name: kind for name, kind in kinds.items() if name is not None}

    def counted(self, counts: PersonCounts) -> Weighting:
        """The same, where it is known how many records everybody has."""
        return replace(self, counts=counts.lookup())

    def count(self, batch: Any) -> Any:
        """Whose the records of a batch are; how many of each level, where there is one."""
        import pyarrow as pa

        assert self.person is not None
        own = ids(self.person, batch.column(self.person), gaps=self.alone)
        if self.level is not None:
            pairs = pa.table({"id": own, "level": ids(self.level, batch.column(self.level))})
            counted = pairs.group_by(["id", "level"]).aggregate([([], "count_all")])
            return counted.rename_columns(["id", "level", "n"])
        return PersonCounts.of(own)

    def of(self, batch: Any) -> Integers:
        """The weight of each record of a batch, in units of 2^-26."""
        return self.read(batch)[0]

    def read(self, batch: Any) -> tuple[Integers, Integers | None, Integers | None]:
        """The weight of each record of a batch; its own, and the mark of its person, if any."""
        n_rows = int(batch.num_rows)
        weights, own_weights = np.full(n_rows, ONE, dtype=np.int64), None
        if self.sample_weight is not None:
            weights = own_weights = self._sampled(batch.column(self.sample_weight))
        marks = None
        if self.person is not None:
            if self.counts is None:
                raise RuntimeError(
                    "Expected people to have been counted, got none; please report this fault."
                )
            own = ids(self.person, batch.column(self.person), gaps=self.alone)
            marks, n = self._of_people(own, self.counts)
            weights = weights // rounded_up(np.maximum(n, self.rows_per_person))
        return weights if own_weights is None else rounded_down(weights), own_weights, marks

    def _of_people(self, own: Any, counts: Lookup) -> tuple[Integers, Integers]:
        """The mark of each record's person, and how many records they have."""
        if not own.null_count:
            found = Ids.of(own)
            return found.mixed.view(np.int64), counts.of(found)
        marks, n = np.full(len(own), NOBODY), np.ones(len(own), np.int64)
        known = plain(own.is_valid())
        if known.any():
            found = Ids.of(own.drop_null())
            marks[known], n[known] = found.mixed.view(np.int64), counts.of(found)
        return marks, n

    def _sampled(self, column: Any) -> Integers:
        """w / max_weight on the grid, rounded down; a larger one is one."""
        assert self.sample_weight is not None
        assert self.max_weight is not None
        w = np.asarray(numbers(self.sample_weight, column, None, NUMBER), dtype=np.float64)
        if not np.all(np.isfinite(w)):
            raise missing_values(self.sample_weight)
        if np.any(w < 0):
            raise ValueError(
                f"Column {self.sample_weight!r} has negative weights; leave those rows out, or "
                "correct them."
            )
        # A quotient of at most one stays at most one when it is rounded.
        share = np.minimum(w, self.max_weight) / self.max_weight
        return np.asarray(np.floor(share * ONE), dtype=np.int64)


def rounded_up(integers: Integers) -> Integers:
    """Positive integers with at most seven binary digits that are not zero, rounded up.

    Examples
    --------
    >>> import numpy as np
    >>> rounded_up(np.array([1, 100, 129, 1_000_000])).tolist()
    [1, 100, 130, 1007616]
    """
    if np.max(integers, initial=0) < 2**_DIGITS:
        return integers
    step = _steps(integers)
    return -(-integers // step) * step


def rounded_down(integers: Integers) -> Integers:
    """Integers of at least zero with at most seven binary digits, rounded down."""
    step = _steps(integers)
    return integers // step * step


def _steps(integers: Integers) -> Integers:
    # Below 2^53 the exponent of a double tells the number of digits.
    digits = np.frexp(integers.astype(np.float64))[1].astype(np.int64)
    return np.int64(1) << np.maximum(digits - _DIGITS, 0)
