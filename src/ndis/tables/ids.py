"""Whose record it is, and how many records everybody has.

Ids are compared exactly, by the type of their column: text as it is written, integers as integers.
An id becomes whole numbers of 64 bits, its words: an integer is one, text is its length and its
bytes. Two ids are the same if all their words are; a mixture of the words only tells where to look.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndis._validate import wrong
from ndis.tables.exact import ONE, ExactSum
from ndis.tables.marks import summed
from ndis.tables.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

# So many ids of nobody known are held before they are sorted in: as many as are near the processor.
_PENDING = 2**16
# An odd number that mixes bits well; places are found by the upper bits of 64.
_MIX, _WORD = np.uint64(0x9E3779B97F4A7C15), 64
# The first bytes of eight.
_FIRST_BYTES = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)
# So many times a level's mark tells it from a person's.
_PAIRED = np.int64(0x165667B19E3779F9)
# Stands for a mixture where a record does not say whose it is.
NOBODY = np.int64(0x4CF5AD432745937F)
# Of so many ids marks add up to what 64 bits hold, taken as often as so many binary digits tell.
_DIGITS = 14

Integers = NDArray[np.int64]


# --- ids --------------------------------------------------------------------------------------


def ids(name: str, column: Any, *, gaps: bool = False) -> pa.Array:
    """A column that says whose record it is: 64-bit integers, text or bytes, compared exactly.

    With `gaps` it may say so of some records only, and is null for the others.
    """
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        column = _typed(name, column, gaps)
    if pa.types.is_null(column.type) and not len(column):  # which nobody has given a type
        column = pa.array([], pa.large_string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count and not gaps:
        raise _nobody(name)
    if pa.types.is_null(column.type):  # which says nothing of the type of others
        return column
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


def _typed(name: str, objects: NDArray[Any], gaps: bool) -> pa.Array:
    """Objects that are all text, all bytes, all integers or all dates, apart from gaps."""
    import pyarrow as pa

    kinds: dict[type, Any] = {str: pa.large_string(), bytes: pa.large_binary(), int: pa.int64()}
    kinds[dt.date] = pa.date32()
    given = set(map(type, objects))
    found = {next((k for k in kinds if issubclass(t, k)), t) for t in given}
    found = {int if issubclass(t, np.integer) else t for t in found}
    if type(None) in found and not gaps:
        raise _nobody(name)
    found.discard(type(None))
    if not found:
        return pa.nulls(len(objects), pa.null() if len(objects) else pa.large_string())
    moments = any(issubclass(t, dt.datetime) for t in given)  # which are dates, to Python
    if len(found) > 1 or not found <= set(kinds) or bool in given or moments:
        raise no_ids(name, "values of another type or of several")
    try:
        return pa.array(objects.tolist(), kinds[found.pop()])
    except (pa.ArrowException, OverflowError):
        raise no_ids(name, "integers beyond 64 bits") from None


def _nobody(name: str) -> ValueError:
    return wrong("drop_missing", "missing_person")(
        f"Column {name!r} does not say for every row whose it is; leave those rows out "
        "(drop_missing=True), or declare that each is another person's (missing_person='own')."
    )


def no_ids(name: str, kind: str) -> ValueError:
    """The error for a column by which people cannot be told apart."""
    return ValueError(
        f"Expected column {name!r} to hold text or integers, by which people are told apart, got "
        f"{kind}; write ids as text."
    )


class Ids(NamedTuple):
    """Ids as whole numbers.

    Attributes
    ----------
    kind : str
        The type by which they are compared.
    words : ndarray of uint64, of shape (n_words, n)
    mixed : ndarray of uint64, of shape (n,)
        A mixture of the words of each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ndis.tables.ids import Ids
    >>> Ids.of(pa.array(["a", "b", "a", "long enough"], pa.large_string())).words[0].tolist()
    [1, 1, 1, 11]
    """

    kind: str
    words: Any
    mixed: Any

    @classmethod
    def of(cls, column: pa.Array) -> Ids:
        """Those of a column that `ids` has read."""
        import pyarrow as pa

        if pa.types.is_integer(column.type):
            words = plain(column).view(np.uint64)[None]
        elif pa.types.is_date32(column.type):
            words = _words_of_days(column)
        else:
            words = _words_of_text(column)
        # A word of zeros adds nothing: how long other ids of a batch are does not matter. Of one
        # word no other has the mixture.
        mixed, factor = np.zeros(words.shape[1], np.uint64), _MIX
        with np.errstate(over="ignore"):
            for word in words:
                own = word >> np.uint64(32)
                own ^= word
                own *= factor
                mixed += own
                factor *= _MIX
        return cls(str(column.type), words, mixed)

    def column(self) -> pa.Array:
        """The ids as a column again."""
        import pyarrow as pa

        if self.kind == "int64":
            return pa.array(self.words[0].view(np.int64))
        if self.kind == "date32[day]":
            return pa.array(self.words[0].view(np.int64).astype(np.int32)).cast(pa.date32())
        lengths = self.words[0].astype(np.int64)
        content = np.ascontiguousarray(self.words[1:].T.astype("<u8")).view(np.uint8)
        content = content.reshape(len(lengths), 8 * (len(self.words) - 1))
        own = content[np.arange(content.shape[1]) < lengths[:, None]]
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        parts = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(own))]
        kind = pa.large_string() if self.kind == "large_string" else pa.large_binary()
        return pa.Array.from_buffers(kind, len(lengths), parts)

    def chosen(self, where: Any) -> Ids:
        """Some of them."""
        return Ids(self.kind, self.words[:, where], self.mixed[where])

    @property
    def n(self) -> int:
        """How many."""
        return len(self.mixed)


def _words_of_days(column: pa.Array) -> Any:
    import pyarrow as pa

    return plain(column.cast(pa.int32()).cast(pa.int64())).view(np.uint64)[None]


def _words_of_text(column: pa.Array) -> Any:
    """Lengths in bytes, and eight bytes at a time, zeros behind the last."""
    _, offsets, content = column.buffers()
    n = len(column)
    ends = np.frombuffer(offsets, np.int64, n + 1, 8 * column.offset) if n else np.zeros(1, int)
    first, last = int(ends[0]), int(ends[-1])
    own = np.zeros(last - first + 8, np.uint8)
    if last > first:
        own[:-8] = np.frombuffer(content, np.uint8, last - first, first)
    eight = np.ndarray((len(own) - 7,), "<u8", own, strides=(1,))  # those from each byte on
    starts, lengths = ends[:-1] - first, np.diff(ends)
    words = np.zeros((1 + -(-int(lengths.max(initial=0)) // 8), n), np.uint64)
    words[0] = lengths
    least = int(lengths.min()) if n else 0
    for place in range(1, len(words)):
        before = 8 * (place - 1)
        longer: Any = slice(None) if least > before else np.flatnonzero(lengths > before)
        own = eight[starts[longer] + before]
        if least < before + 8:  # what is behind the text goes
            own &= _FIRST_BYTES.take(np.minimum(lengths[longer] - before, 8))
        words[place, longer] = own
    return words


def marks_of(column: pa.Array) -> Integers:
    """The mark of each of a column that `ids` has read."""
    if not column.null_count:
        return np.asarray(Ids.of(column).mixed.view(np.int64))
    marks, known = np.full(len(column), NOBODY), plain(column.is_valid())
    if known.any():
        marks[known] = Ids.of(column.drop_null()).mixed.view(np.int64)
    return marks


def of_pairs(levels: Integers, people: Integers | None) -> Integers:
    """The mark of each level and whose it is."""
    return levels if people is None else levels * _PAIRED + people


def _padded(words: Any, n_words: int) -> Any:
    more = n_words - len(words)
    return np.pad(words, ((0, more), (0, 0))) if more else words


# --- how many records ---------------------------------------------------------------------------


class Lookup:
    """Ids in the order of their mixtures, where each is found in a few steps; and their counts.

    Parameters
    ----------
    ids : Ids, optional
        Each once, in that order. Without words, where mixtures tell all of them apart.
    n : ndarray of int64
        How many records each has.
    """

    def __init__(self, ids: Ids | None, n: Integers) -> None:
        self.ids, self.n = ids, n
        if ids is None or not ids.n:
            return
        bits = ids.n.bit_length()
        self._shift = np.uint64(_WORD - bits)
        n_alike = np.bincount((ids.mixed >> self._shift).astype(np.int64), minlength=2**bits)
        starts: Any = np.cumsum(n_alike, dtype=np.int32 if bits < 31 else np.int64)
        starts -= n_alike.astype(starts.dtype)
        self._starts = np.minimum(starts, ids.n - 1, out=starts)
        self._words = np.ascontiguousarray(ids.words.T)  # those of one id beside each other

    def places(self, found: Ids) -> Integers:
        """The place of each id; -1 of those who are not here."""
        if self.ids is not None and found.n and found.kind != self.ids.kind:
            raise _several_types()
        if self.ids is None or not (self.ids.n and found.n):
            return np.full(found.n, -1, np.int64)
        mixed, last = self.ids.mixed, self.ids.n - 1
        place = self._starts[(found.mixed >> self._shift).astype(np.int64)].astype(np.int64)
        behind = np.flatnonzero(mixed[place] < found.mixed)
        while len(behind):
            behind = behind[place[behind] < last]
            place[behind] += 1
            behind = behind[mixed[place[behind]] < found.mixed[behind]]
        known = mixed[place] == found.mixed
        place[~known] = -1
        if not len(self.ids.words) or len(self.ids.words) == len(found.words) == 1:
            return np.asarray(place)
        left = np.flatnonzero(known)
        while len(left):  # other ids may have the same mixture
            at = place[left]
            other = ~self._same(at, found, left)
            left, at = left[other], at[other]
            more = (at < last) & (mixed[np.minimum(at + 1, last)] == found.mixed[left])
            place[left] = np.where(more, at + 1, -1)
            left = left[more]
        return np.asarray(place, np.int64)

    def of(self, found: Ids) -> Integers:
        """How many records the person of each id has; one, of those who are not known."""
        place = self.places(found)
        if not len(self.n):
            return np.ones(found.n, np.int64)
        return np.asarray(np.where(place < 0, 1, self.n[place]), np.int64)

    def _same(self, place: Integers, found: Ids, where: Integers) -> NDArray[np.bool_]:
        """Whether those in these places have all the words of those."""
        here, there = self._words.shape[1], len(found.words)
        same, own = np.ones(len(place), bool), np.take(self._words, place, axis=0)
        for index in range(max(here, there)):
            one = own[:, index] if index < here else np.uint64(0)
            same &= one == (found.words[index, where] if index < there else np.uint64(0))
        return same


@dataclass(frozen=True, eq=False)
class PersonCounts:
    """How many records everybody has. It belongs to the owner of the data, and is not shown.

    Parameters
    ----------
    ids : Ids, optional
        Everybody's, in the order of their mixtures.
    n : ndarray of int64
    pairs : pyarrow.Table, optional
        In place of these, where records are counted by level: "id", "level" and "n".
    alone : int
        Records that do not say whose they are: each a person's who has no other. In tables they
        are those of a null.
    """

    ids: Ids | None = field(default=None, repr=False)
    n: Integers = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    pairs: pa.Table | None = field(default=None, repr=False)
    alone: int = 0

    @classmethod
    def of(cls, column: pa.Array, n: Integers | None = None) -> PersonCounts:
        """Those of a column that `ids` has read, so many records each; of some, in any order."""
        n = np.ones(len(column), np.int64) if n is None else n
        if not column.null_count:
            return cls(Ids.of(column), n)
        known = plain(column.is_valid())
        own = None if known.sum() == 0 else Ids.of(column.drop_null())
        return cls(own, n[known], alone=int(n[~known].sum()))

    def plus(self, parts: Sequence[Any]) -> PersonCounts:
        """With further records, of the same people or of others (see `Counting.add`)."""
        total = Counting(self)
        for part in parts:
            total.add(part)
        return total.total()

    @property
    def table(self) -> pa.Table | None:
        """Everybody's "id", and "n"."""
        import pyarrow as pa

        if self.pairs is not None or (self.ids is None and not self.alone):
            return self.pairs
        known = pa.nulls(0) if self.ids is None else self.ids.column()
        if not self.alone:
            return pa.table({"id": known, "n": self.n})
        own = pa.concat_arrays([known, pa.nulls(1, known.type)])
        return pa.table({"id": own, "n": np.append(self.n, self.alone)})

    def lookup(self) -> Lookup:
        """Those who have more than one record; it travels to where records are.

        Of everybody who was counted a mixture that nobody else has tells who they are, and is all
        that has to be compared. Others are there only if the table changed, which marks tell.
        """
        several = np.flatnonzero(self.n > 1)
        if self.ids is None:
            return Lookup(None, self.n[several])
        ids, mixed = self.ids, self.ids.mixed
        if np.all(mixed[1:] != mixed[:-1]):
            ids = ids._replace(words=ids.words[:0])
        return Lookup(ids.chosen(several), self.n[several])

    @property
    def mark(self) -> ExactSum:
        """The sum of the marks of the people of all records that were counted, or of pairs."""
        marks, n = np.array([NOBODY]), np.array([self.alone])
        if self.pairs is not None:
            people, levels = (
                marks_of(self.pairs[name].combine_chunks()) for name in ("id", "level")
            )
            marks, n = of_pairs(levels, people), self.pairs["n"].to_numpy()
        elif self.ids is not None:
            marks, n = np.append(self.ids.mixed.view(np.int64), marks), np.append(self.n, n)
        halves = [0, 0]
        for start in range(0, len(n), _PENDING):
            part = slice(start, start + _PENDING)
            for shift in range(0, int(n[part].max()).bit_length(), _DIGITS):
                digits = n[part] >> shift & (1 << _DIGITS) - 1
                both = summed(marks[part], digits).tolist()
                halves = [half + (more << shift) for half, more in zip(halves, both, strict=True)]
        return ExactSum(*np.array([divmod(half, ONE) for half in halves], np.int64).T)

    @property
    def n_people(self) -> int:
        """How many people there are."""
        return len(self.n) + self.alone

    @property
    def most(self) -> int:
        """The records of the busiest person."""
        return int(np.max(self.n, initial=min(self.alone, 1)))

    def octaves(self, n_bins: int) -> Integers:
        """How many people have 1, 2, 3 to 4, 5 to 8, ... records; the last bin has all the rest."""
        place = np.minimum(np.frexp(self.n - 1.0)[1], n_bins - 1)
        counts = np.bincount(place, minlength=n_bins).astype(np.int64)
        counts[0] += self.alone
        return counts


class Counting:
    """Adds up records of people, in memory for so many people.

    Parameters
    ----------
    counts : PersonCounts
        Those that were counted before.
    """

    def __init__(self, counts: PersonCounts | None = None) -> None:
        before = PersonCounts() if counts is None else counts
        self._known = Lookup(before.ids, before.n.copy())
        self._new, self._n_new = list[tuple[Ids, Integers]](), 0
        self._pairs = [] if before.pairs is None else [before.pairs]
        self._nobody: Any = None  # of a table without rows the types
        self._alone = before.alone

    def add(self, part: Any) -> None:
        """Further records: ids, ids and how many records of each, `PersonCounts`, or pairs."""
        if isinstance(part, PersonCounts):
            self._alone += part.alone
            part = (part.ids, part.n) if part.pairs is None else part.pairs
        if hasattr(part, "group_by"):
            self._add_pairs(part)
            return
        found, n = (part, np.ones(part.n, np.int64)) if isinstance(part, Ids) else part
        if found is None or not found.n:
            self._nobody = found if self._nobody is None else self._nobody
            return
        for other, _ in self._new[:1]:
            if other.kind != found.kind:
                raise _several_types()
        place = self._known.places(found)
        there = place >= 0
        np.add.at(self._known.n, place[there], n[there])
        if len(new := np.flatnonzero(~there)):
            self._new.append((found.chosen(new), n[new]))
            self._n_new += len(new)
            if self._n_new >= max(_PENDING, len(self._known.n)):
                self._settle()

    def total(self) -> PersonCounts:
        """All so far."""
        if self._pairs:
            return PersonCounts(pairs=self._together())
        self._settle()
        if self._known.ids is None and hasattr(self._nobody, "group_by"):
            return PersonCounts(pairs=self._nobody)
        ids = self._nobody if self._known.ids is None else self._known.ids
        return PersonCounts(ids, self._known.n, alone=self._alone)

    def _settle(self) -> None:
        """Take those who are new among those who are known."""
        if not self._new:
            return
        new, counts = zip(*self._new, strict=True)
        found, n = _once(_beside(new), np.concatenate(counts))
        if self._known.ids is not None:
            found, n = _beside([self._known.ids, found]), np.append(self._known.n, n)
            order = np.argsort(found.mixed)
            found, n = found.chosen(order), n[order]
        self._known, self._new, self._n_new = Lookup(found, n), [], 0

    def _add_pairs(self, part: pa.Table) -> None:
        if not part.num_rows:
            self._nobody = part
            return
        self._pairs.append(part)
        if sum(each.num_rows for each in self._pairs[1:]) >= max(_PENDING, self._pairs[0].num_rows):
            self._pairs = [self._together()]

    def _together(self) -> pa.Table:
        import pyarrow as pa

        keys = ["id", "level"]
        for key in keys:
            kinds = {each.schema.field(key).type for each in self._pairs} - {pa.null()}
            if len(kinds) > 1:
                raise _several_types()
        whole = pa.concat_tables(self._pairs, promote_options="default")
        total = whole.group_by(keys).aggregate([("n", "sum")])
        return total.select([*keys, "n_sum"]).rename_columns([*keys, "n"])


def _beside(parts: Sequence[Ids]) -> Ids:
    """Ids of several batches."""
    if len({each.kind for each in parts}) > 1:
        raise _several_types()
    n_words = max(len(each.words) for each in parts)
    words = np.hstack([_padded(each.words, n_words) for each in parts])
    return Ids(parts[0].kind, words, np.concatenate([each.mixed for each in parts]))


def _once(found: Ids, n: Integers) -> tuple[Ids, Integers]:
    """Each id once, in the order of mixtures, and how many records it has in all."""
    order = np.argsort(found.mixed)
    for further in (False, True):
        own = found.chosen(order)
        alike = own.mixed[1:] == own.mixed[:-1]
        same = alike & np.all(own.words[:, 1:] == own.words[:, :-1], axis=0)
        if further or np.array_equal(alike, same):
            break
        order = np.lexsort((*found.words, found.mixed))  # other ids have the same mixture
    first = np.flatnonzero(np.append(True, ~same))
    return own.chosen(first), np.add.reduceat(n[order], first)


def _several_types() -> ValueError:
    return ValueError(
        "Expected ids of one type in the whole table, got several; write them as text, or all of "
        "them as integers."
    )
