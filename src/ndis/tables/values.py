"""Columns as numbers, or as positions in a public list of levels: each value by itself.

What a value becomes depends on that value and on its column's kind, which public parameters fix. A
source that knows types, such as Arrow, is read by them. Where values have no type in common, as
the objects of a data frame or the cells of a spreadsheet, or are text, none is inferred from the
others: one record would change what becomes of them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import wrong

if TYPE_CHECKING:
    import pyarrow as pa

# The kind of a column: numbers; numbers or dates, which count in days, where limits are dates or
# not known; text; or the levels it may have.
NUMBER, EITHER, TEXT = "number", "number or date", "text"
Kind = str | tuple[Any, ...]

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECONDS_OF_A_DAY = 86_400 * 10**6
_PARTS_OF_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Integers up to this, and powers of ten up to 10^22, are doubles: their quotient is rounded once.
_EXACT, _EXACT_POWER = 2**53, 22
# What to do about text that is no number, by what a value looks like; of columns that have a type,
# where a text file's ways of writing do not help, none is looked at.
_REMEDIES = {
    r"[+-]?[0-9. ']+,[0-9]+$": "pass decimal=',' if 1,5 stands for one and a half",
    r"[+-]?[0-9][0-9.,' ]*(\s\D{1,4}|[%€$£])$|(\D{1,4}\s|[€$£])[0-9][0-9.,' ]*$": (
        "pass what stands beside its numbers, such as units=['EUR'], and decimal=',' if they have "
        "a comma there"
    ),
    r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]": (
        "pass the format of its days, such as dates={'NAME': '%d.%m.%Y'}, or write 2024-12-31"
    ),
}


def missing_values(name: str) -> ValueError:
    """Return the error for a column that is not complete."""
    return wrong("drop_missing")(
        f"Column {name!r} has missing or infinite values; drop those rows, for a fit with "
        "drop_missing=True, or fill them with a public constant: a mean of the data is not private."
    )


class Records:
    """Some records of a source that does not know the types of all its columns.

    Parameters
    ----------
    columns : mapping of str to pyarrow.Array or ndarray of object
        Columns by name. Objects that are missing are None.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = columns

    @property
    def num_rows(self) -> int:
        """How many records."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Any:
        """One column."""
        return self.columns[name]

    def select(self, names: Sequence[str]) -> Records:
        """Some of the columns."""
        return Records({name: self.columns[name] for name in names})

    def take(self, where: NDArray[Any]) -> Records:
        """Some of the records."""
        return Records({name: column.take(where) for name, column in self.columns.items()})

    def drop_null(self) -> Records:
        """The records of which no value is missing."""
        kept = np.ones(self.num_rows, dtype=bool)
        for column in self.columns.values():
            kept &= present(column)
        return self.take(np.flatnonzero(kept))

    def to_arrow(self) -> pa.RecordBatch:
        """The records with types that suit all of them, for the owner of the data to look at."""
        import pyarrow as pa

        return pa.RecordBatch.from_pydict(
            {name: _shown(column) for name, column in self.columns.items()}
        )


def present(column: Any) -> Any:
    """Where a column of records has values."""
    if isinstance(column, np.ndarray):
        return np.array([value is not None for value in column], dtype=bool)
    return plain(column.is_valid())


def _shown(column: Any) -> pa.Array:
    """Objects as an Arrow column: of one type as they are, else as numbers, else as text."""
    import pyarrow as pa

    if not isinstance(column, np.ndarray):
        return column
    kinds = set(map(type, column)) - {type(None)}
    readers: dict[type, Any] = {kind: _reader(kind) or str for kind in kinds}
    if len(kinds) > 1:
        common = str if str in readers.values() else float
        column = [each if each is None else common(readers[type(each)](each)) for each in column]
    try:
        return pa.array(column)
    except (pa.ArrowException, OverflowError):
        return pa.array([each if each is None else str(each) for each in column], pa.string())


# --- numbers ----------------------------------------------------------------------------------


def list_width(kind: pa.DataType) -> int | None:
    """The length of the lists in a column of fixed-size lists; None for other columns."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):  # tensors are lists with a shape
        kind = kind.storage_type
    return int(kind.list_size) if pa.types.is_fixed_size_list(kind) else None


def numbers(name: str, column: Any, width: int | None = None, kind: Kind = EITHER) -> NDArray[Any]:
    """A column as numbers, without a copy where there is one; dates count in days.

    A column of lists of `width` numbers becomes a matrix with one row for each record.
    """
    import pyarrow.types as types

    wanted = kind
    if isinstance(column, np.ndarray):
        return _numbers_of_objects(name, column, wanted)
    if column.null_count:
        raise missing_values(name)
    kind = column.type
    if not len(column) and (types.is_null(kind) or types.is_decimal(kind)):
        return np.empty(0)  # there may be no buffer, and nobody who gives a column its type
    if types.is_dictionary(kind):
        return numbers(name, column.dictionary_decode(), kind=wanted)
    if width is not None:
        storage = column.storage if hasattr(column, "storage") else column
        flat = numbers(name, storage.flatten())
        if len(flat) != len(column) * width:
            raise _ragged(name)
        return flat.reshape(len(column), width)
    if types.is_date(kind) or types.is_timestamp(kind):
        if wanted == NUMBER:
            raise dates_among_numbers(name)
        return days_of(column)
    if types.is_decimal(kind):
        return _nearest_doubles(column)
    if types.is_list(kind) or types.is_large_list(kind):
        raise _ragged(name)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise not_numbers(name, str(kind))
    return plain(column)


def plain(column: pa.Array) -> NDArray[Any]:
    """The numbers of a column without gaps, as they lie in memory where that is so.

    Arrow's own way imports pandas, which takes longer than to read many a file.
    """
    import pyarrow as pa

    if not len(column):  # there may be no buffer
        return np.empty(0, column.type.to_pandas_dtype())
    if pa.types.is_boolean(column.type):
        return plain(column.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(column)


def days_of(array: pa.Array) -> NDArray[Any]:
    """Days since 1970 of dates and moments, those with a time zone in UTC; never overflows."""
    import pyarrow as pa

    if pa.types.is_date32(array.type):
        return plain(array.cast(pa.int32())).astype(np.float64)
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    ticks = plain(array.cast(pa.int64()))
    whole, rest = np.divmod(ticks, 86_400 * _PARTS_OF_A_SECOND[unit])
    if unit == "ns":
        rest //= 1000
    else:
        rest *= 10**6 // _PARTS_OF_A_SECOND[unit]
    return np.asarray(whole + rest / _MICROSECONDS_OF_A_DAY)


def days(moment: Any) -> float:
    """Days since 1970 of one date or moment; one with a time zone in UTC.

    Examples
    --------
    >>> import datetime
    >>> from ndis.tables.values import days
    >>> days(datetime.date(1970, 1, 3)), days(datetime.datetime(1970, 1, 3, 12))
    (2.0, 2.5)
    """
    if isinstance(moment, np.datetime64):
        if np.isnat(moment):
            return math.nan
        ticks = int(moment.astype("datetime64[us]").astype(np.int64))
        whole, rest = divmod(ticks, _MICROSECONDS_OF_A_DAY)
    elif isinstance(moment, dt.datetime):
        since = moment - (_EPOCH if moment.tzinfo is None else _EPOCH.replace(tzinfo=dt.UTC))
        whole, rest = since.days, since.seconds * 10**6 + since.microseconds
    else:
        whole, rest = moment.toordinal() - _EPOCH.toordinal(), 0
    return whole + rest / _MICROSECONDS_OF_A_DAY


def _nearest_doubles(array: pa.Array) -> NDArray[Any]:
    """The doubles nearest to decimals, whatever the column's number of digits."""
    import pyarrow as pa

    scale = array.type.scale
    if not (pa.types.is_decimal128(array.type) and 0 <= scale <= _EXACT_POWER):
        return np.array([_double(value) for value in array.to_pylist()], dtype=np.float64)
    words = np.frombuffer(array.buffers()[1], np.dtype("<i8")).reshape(-1, 2)
    low, high = words[array.offset : array.offset + len(array)].T
    small = (high == low >> 63) & (low >= -_EXACT) & (low <= _EXACT)
    doubles = low / 10.0**scale
    for index in np.flatnonzero(~small):
        doubles[index] = _double(array[int(index)].as_py())
    return np.asarray(doubles)


def _double(value: Any) -> float:
    """The double nearest to a number."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a decimal that signals that it is not a number
        return math.nan


def _reader(kind: type) -> Callable[[Any], float] | None:
    """What makes a number of objects of a type; None if they are none."""
    if issubclass(kind, Real | Decimal | np.bool_):
        return _double
    return days if issubclass(kind, dt.date | np.datetime64) else None


def _numbers_of_objects(name: str, objects: NDArray[Any], wanted: Kind) -> NDArray[Any]:
    kinds = set(map(type, objects))
    if type(None) in kinds:
        raise missing_values(name)
    readers = {kind: _reader(kind) for kind in kinds}
    others = [kind for kind, reader in readers.items() if reader is None]
    if others and len(kinds) > 1:
        raise ValueError(
            f"Column {name!r} mixes values of several types; make them all numbers or all text."
        )
    if others:
        raise not_numbers(name, others[0].__name__)
    if wanted == NUMBER and days in readers.values():
        raise dates_among_numbers(name)
    doubles = [readers[type(value)](value) for value in objects]  # type: ignore[misc]
    return np.array(doubles, dtype=np.float64)


def not_numbers(name: str, kind: str, first: str = "") -> ValueError:
    """The error for a column of something else; what to do is told by what its first value is."""
    looks = (remedy for pattern, remedy in _REMEDIES.items() if re.match(pattern, first))
    remedy = next(looks, "leave it out, or pass its levels")
    return wrong("decimal", "units", "dates", "levels")(
        f"Column {name!r} holds {kind}, not numbers; {remedy}."
    )


def dates_among_numbers(name: str) -> ValueError:
    """The error for dates in a column whose limits are numbers."""
    return ValueError(
        f"Column {name!r} holds dates, and its limits are numbers; write them as dates, such as "
        "2015-01-01 and 2024-12-31."
    )


def _ragged(name: str) -> ValueError:
    return ValueError(
        f"Column {name!r} holds lists of any length; convert it to lists of one fixed size."
    )


# --- levels -----------------------------------------------------------------------------------


def level_positions(name: str, column: Any, known: Sequence[Any]) -> NDArray[Any]:
    """For each value its position in the public list, or -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, np.ndarray):
        return _positions_of_objects(name, column, known)
    if column.null_count:
        raise missing_values(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):  # that of no values at all
        return np.empty(0)
    if pa.types.is_large_string(column.type) or column.type == pa.string_view():
        column = column.cast(pa.string())
    try:
        value_set = pa.array(_within(column.type, known), type=column.type)
    except (pa.ArrowException, TypeError, OverflowError):
        raise other_levels(name, str(column.type), known) from None
    positions = pc.index_in(column, value_set=value_set)
    return plain(pc.fill_null(positions, -1))


def _within(kind: pa.DataType, known: Sequence[Any]) -> list[Any]:
    """Levels; None for whole numbers that are too large for any value of this type."""
    import pyarrow as pa

    if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)) or set(map(type, known)) != {
        int
    }:
        return list(known)

    def fits(level: Any) -> bool:
        try:
            pa.scalar(level, kind)
        except (pa.ArrowException, OverflowError):
            return False
        return True

    return [level if fits(level) else None for level in known]


def _positions_of_objects(name: str, objects: NDArray[Any], known: Sequence[Any]) -> NDArray[Any]:
    """Numbers are compared as numbers and dates as days, whatever the types of the others are."""
    kinds = set(map(type, objects))
    if type(None) in kinds:
        raise missing_values(name)
    families = [_family(type(level)) for level in known]
    lookups = {}
    for kind in kinds:
        alike = [place for place, family in enumerate(families) if family == _family(kind)]
        if not alike:
            raise other_levels(name, kind.__name__, known)
        key = _key(kind)
        # Of levels that are one number in single precision the first counts.
        lookups[kind] = key, {key(known[place]): place for place in reversed(alike)}
    found = np.empty(len(objects), dtype=np.int64)
    for index, value in enumerate(objects):
        key, places = lookups[type(value)]
        found[index] = places.get(key(value), -1)
    return found


def _family(kind: type) -> Any:
    """What values of a type can be compared with: numbers, dates, or others of the type."""
    reader = _reader(kind)
    return reader if reader is not None else str if issubclass(kind, str | bytes) else kind


def _key(kind: type) -> Callable[[Any], Any]:
    """What is equal for a level and for an object of this type that is that level."""
    if issubclass(kind, np.float16 | np.float32):
        return lambda value: float(kind(value))
    if _reader(kind) is days:
        return days
    return lambda value: value.decode(errors="replace") if isinstance(value, bytes) else value


def level_type(name: str, known: Sequence[Any]) -> pa.DataType:
    """The Arrow type by which text is compared with levels."""
    import pyarrow as pa

    try:
        return pa.array(known).type
    except (pa.ArrowException, OverflowError):
        raise ValueError(
            f"Expected levels of column {name!r} of one type, got {list(known)!r}; write all of "
            "them as text, or all as numbers."
        ) from None


def other_levels(name: str, kind: str, known: Sequence[Any]) -> ValueError:
    """The error for levels that are of another type than their column."""
    return ValueError(
        f"Expected levels of column {name!r} to be of its type {kind}, "
        f"got {list(known)!r}; list them as they are written in the table."
    )
