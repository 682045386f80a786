"""How much each record counts: all records of one person together at most as much as one.

A record of somebody with m records counts 1/max(K, m): everybody counts once where K is 1, and
records count alike up to K of them. Every sum of the library adds up what its records give, so
that a person's records move it at most as far as one record may. Weights are whole numbers of
2^-26, rounded down: a person's add up to at most 2^26, in integers, and sums stay exact.

Who a record belongs to is compared exactly, by the type of the column: text as it is written,
integers as integers. How many records a person has is counted in a pass of its own, after records
with gaps are left out, so that a weight depends on that person's records alone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import count, positive, wrong
from ndis.tables.exact import ONE, Accumulator, ExactSum
from ndis.tables.marks import summed
from ndis.tables.values import NUMBER, TEXT, Kind, missing_values, numbers

if TYPE_CHECKING:
    import pyarrow as pa

# Records are added up weight by weight, and few weights make few sums: the number of records is
# exact up to 2^6 and then rounded up to seven binary digits, weights of samples are rounded down to
# seven.
_DIGITS = 7
# So many rows of partial counts are held before they are added up.
_PENDING = 2**20

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

    def __post_init__(self) -> None:
        count("rows_per_person", self.rows_per_person)
        if (self.sample_weight is None) != (self.max_weight is None):
            raise ValueError(
                f"Expected sample_weight together with max_weight, got sample_weight="
                f"{self.sample_weight!r} and max_weight={self.max_weight!r}; pass the column and "
                "the largest weight that a row can have."
            )
        if self.max_weight is not None:
            positive("max_weight", self.max_weight)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read for it."""
        named = (self.person, self.sample_weight, self.level)
        return tuple(name for name in named if name is not None)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """What these hold: ids are compared as they are written."""
        kinds = {self.person: TEXT, self.sample_weight: NUMBER, self.level: TEXT}
        return {name: kind for name, kind in kinds.items() if name is not None}

    def counted(self, counts: PersonCounts) -> Weighting:
        """The same, where it is known how many records everybody has."""
        return replace(self, counts=counts.lookup())

    def count(self, batch: Any) -> pa.Table:
        """How many records of a batch each of its people has, of each level where there is one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self.person is not None
        own = ids(self.person, batch.column(self.person))
        if self.level is not None:
            pairs = pa.table({"id": own, "level": ids(self.level, batch.column(self.level))})
            counted = pairs.group_by(["id", "level"]).aggregate([([], "count_all")])
            return counted.rename_columns(["id", "level", "n"])
        found = pc.value_counts(own)
        return pa.table({"id": found.field("values"), "n": found.field("counts")})

    def of(self, batch: Any) -> Integers:
        """The weight of each record of a batch, in units of 2^-26."""
        n_rows = int(batch.num_rows)
        weights = np.full(n_rows, ONE, dtype=np.int64)
        if self.sample_weight is not None:
            weights = self._sampled(batch.column(self.sample_weight))
        if self.person is not None:
            if self.counts is None:
                raise RuntimeError(
                    "Expected people to have been counted, got none; please report this fault."
                )
            known = self.counts.of(ids(self.person, batch.column(self.person)))
            weights //= rounded_up(np.maximum(known, self.rows_per_person))
        return weights if self.sample_weight is None else rounded_down(weights)

    def marks(self, batch: Any) -> Integers | None:
        """The mark of the person of each record of a batch (see `ndis.tables.marks`)."""
        if self.person is None:
            return None
        return _marks(ids(self.person, batch.column(self.person)))

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


# --- whose record -----------------------------------------------------------------------------


def ids(name: str, column: Any) -> pa.Array:
    """A column that says whose record it is: 64-bit integers, text or bytes, compared exactly."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        column = _typed(name, column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise _nobody(name)
    kind = _kind(column.type)
    if kind is None:
        raise no_ids(name, str(column.type))
    try:
        return column.cast(kind)
    except pa.ArrowException:
        raise no_ids(name, f"{column.type} beyond 64 bits") from None


def _kind(given: pa.DataType) -> pa.DataType | None:
    """The type by which ids are compared."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_integer(given) or (types.is_decimal(given) and given.scale == 0):
        return pa.int64()
    if types.is_string(given) or types.is_large_string(given) or given == pa.string_view():
        return pa.large_string()
    if types.is_date32(given):
        return given
    binary = types.is_binary(given) or types.is_large_binary(given)
    return pa.large_binary() if binary or types.is_fixed_size_binary(given) else None


def _typed(name: str, objects: NDArray[Any]) -> pa.Array:
    """Objects that are all text, all bytes, all integers or all dates."""
    import pyarrow as pa

    kinds: dict[type, Any] = {str: pa.large_string(), bytes: pa.large_binary(), int: pa.int64()}
    kinds[dt.date] = pa.date32()
    given = set(map(type, objects))
    found = {next((k for k in kinds if issubclass(t, k)), t) for t in given}
    found = {int if issubclass(t, np.integer) else t for t in found}
    if type(None) in found:
        raise _nobody(name)
    if not len(objects):
        return pa.array([], pa.large_string())
    moments = any(issubclass(t, dt.datetime) for t in given)  # which are dates, to Python
    if len(found) > 1 or not found <= set(kinds) or bool in given or moments:
        raise no_ids(name, "values of another type or of several")
    try:
        return pa.array(objects.tolist(), kinds[found.pop()])
    except (pa.ArrowException, OverflowError):
        raise no_ids(name, "integers beyond 64 bits") from None


def _nobody(name: str) -> ValueError:
    return wrong("drop_missing")(
        f"Column {name!r} does not say for every row whose it is; leave those rows out "
        "(drop_missing=True), or give each an id of its own if each is another person."
    )


def no_ids(name: str, kind: str) -> ValueError:
    """The error for a column by which people cannot be told apart."""
    return ValueError(
        f"Expected column {name!r} to hold text or integers, by which people are told apart, got "
        f"{kind}; write ids as text."
    )


@dataclass(frozen=True, eq=False)
class PersonCounts:
    """How many records everybody has. It belongs to the owner of the data, and is not shown.

    Parameters
    ----------
    table : pyarrow.Table, optional
        Everybody's "id", and "n"; with a "level" between them one line for each of theirs.
    """

    table: pa.Table | None = field(default=None, repr=False)

    def plus(self, parts: Sequence[pa.Table]) -> PersonCounts:
        """With further records, of the same people or of others."""
        import pyarrow as pa

        tables = [*([] if self.table is None else [self.table]), *parts]
        tables = [each for each in tables if each.num_rows]
        if not tables:
            return self
        keys = [name for name in tables[0].column_names if name != "n"]
        if len({tuple(each.schema.field(key).type for key in keys) for each in tables}) > 1:
            raise ValueError(
                "Expected ids of one type in the whole table, got several; write them as text, or "
                "all of them as integers."
            )
        summed = pa.concat_tables(tables).group_by(keys).aggregate([("n", "sum")])
        return PersonCounts(summed.select([*keys, "n_sum"]).rename_columns([*keys, "n"]))

    def lookup(self) -> Lookup:
        """Those who have more than one record, to be found quickly."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.table is None:
            return Lookup(None, {}, None)
        several = self.table.filter(pc.greater(self.table["n"], 1))
        key = pa.concat_arrays(several["id"].chunks) if len(several) else several["id"][:0]
        kind, counts = self.table.schema.field("id").type, several["n"].to_numpy()
        if pa.types.is_integer(kind) or pa.types.is_date32(kind):
            keys = _whole(key)
            order = np.argsort(keys)
            return Lookup(str(kind), keys[order], counts[order].astype(np.int64))
        return Lookup(str(kind), dict(zip(key.to_pylist(), counts.tolist(), strict=True)), None)

    @property
    def mark(self) -> ExactSum:
        """The sum of the marks of the people of all records that were counted."""
        total = Accumulator()
        for batch in [] if self.table is None else self.table.to_batches(max_chunksize=_PENDING):
            times = batch.column("n").to_numpy().astype(np.int64)
            total.add({"people": summed(_marks(batch.column("id")), times)})
        return total.sums().get("people", ExactSum.of(np.zeros(2)))

    @property
    def n_people(self) -> int:
        """How many people there are."""
        return 0 if self.table is None else int(self.table.num_rows)

    @property
    def most(self) -> int:
        """The records of the busiest person."""
        return 0 if self.table is None else int(np.max(self.table["n"].to_numpy(), initial=0))

    def octaves(self, n_bins: int) -> Integers:
        """How many people have 1, 2, 3 to 4, 5 to 8, ... records; the last bin has all the rest."""
        if self.table is None:
            return np.zeros(n_bins, dtype=np.int64)
        n = self.table["n"].to_numpy().astype(np.float64)
        place = np.minimum(np.frexp(n - 1.0)[1], n_bins - 1)
        return np.bincount(place, minlength=n_bins).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Lookup:
    """How many records people have who have more than one: sorted integers, or a dict of text.

    It travels to where the records are.
    """

    kind: str | None
    keys: Any = field(repr=False)
    counts: Any = field(repr=False)

    def of(self, found: pa.Array) -> Integers:
        """How many records the person of each id has; one, of those who are not known."""
        if self.kind is not None and len(found) and str(found.type) != self.kind:
            raise ValueError(
                "Expected ids of one type in the whole table, got several; write them as text, or "
                "all of them as integers."
            )
        if not len(self.keys) or not len(found):
            return np.ones(len(found), dtype=np.int64)
        if isinstance(self.keys, dict):
            coded, get = found.dictionary_encode(), self.keys.get
            each = np.fromiter((get(key, 1) for key in coded.dictionary.to_pylist()), np.int64)
            return np.asarray(each[coded.indices.to_numpy()])
        wanted = _whole(found)
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[place] == wanted, self.counts[place], 1)


def _marks(found: Any) -> Integers:
    """A mark of each id: the same in every process."""
    import pyarrow as pa

    if pa.types.is_integer(found.type) or pa.types.is_date32(found.type):
        return _whole(found).astype(np.int64)
    coded = found.dictionary_encode()
    texts = (key.encode() if isinstance(key, str) else key for key in coded.dictionary.to_pylist())
    hashed = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    each = np.frombuffer(hashed, np.dtype("<i8")).astype(np.int64)
    return np.asarray(each[coded.indices.to_numpy()])


def _whole(found: Any) -> Integers:
    import pyarrow as pa

    days = pa.types.is_date32(found.type)
    integers = found.cast(pa.int32()).cast(pa.int64()) if days else found
    return np.asarray(integers.to_numpy())


class Counting:
    """Adds up what batches count, so many people at a time that memory is that of all people."""

    def __init__(self) -> None:
        self._total, self._pending, self._n_pending = PersonCounts(), list[Any](), 0

    def add(self, part: pa.Table) -> None:
        """What one batch has counted."""
        self._pending.append(part)
        self._n_pending += part.num_rows
        if self._n_pending >= max(_PENDING, self._total.n_people):
            self.total()

    def total(self) -> PersonCounts:
        """All so far."""
        self._total = self._total.plus(self._pending)
        self._pending, self._n_pending = [], 0
        return self._total
