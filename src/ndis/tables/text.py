"""How text files are written, and what their text stands for: each value read by itself.

Numbers are written 1.5 or 1e3, dates 2024-12-31, moments 2024-12-31 12:30:00, with a time zone or
in UTC; true and false are one and zero. Other ways (a decimal comma, marks between thousands, units
beside numbers, other dates) are declared once, and are then the only ones: what is written in none
of the declared ways is refused and never guessed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import naming, parameters_of, wrong
from ndis.tables.values import (
    EITHER,
    NUMBER,
    TEXT,
    Kind,
    dates_among_numbers,
    days_of,
    level_type,
    not_numbers,
    other_levels,
    plain,
)

if TYPE_CHECKING:
    import pyarrow as pa

# How text files say that a value is missing.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
_MOMENT = r"^\d{4}-\d{2}-\d{2}"
# Integers up to this are doubles.
_EXACT = 2**53


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written.

    Parameters
    ----------
    delimiter : str, optional
        What separates two values; a comma, or a tab in files named .tsv.
    encoding : str, default "utf8"
    header : bool, optional
        True: the first line holds the names of the columns, whatever they look like. False: it is
        a record. None: it holds names, which have not been confirmed.
    names : sequence of str, optional
        Names of the columns of a file without a header.
    decimal : {".", ","}
        What stands before the decimals of a number.
    thousands : str, default ""
        What stands between groups of three digits, if anything does.
    units : sequence of str
        What may stand before or after a number and is left out, such as EUR or %.
    dates : mapping of str to str
        Columns with dates that are not written 2024-12-31, and their formats, as Python's
        ``strptime`` has them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ndis.tables.text import TextFormat, parsed
    >>> written = TextFormat(decimal=",", thousands=".", units=["EUR"], dates={"day": "%d.%m.%Y"})
    >>> text = {"cost": ["6.171,34 EUR", "12,5"], "day": ["31.12.2024", "NA"]}
    >>> kinds = {"cost": "number", "day": "number or date"}
    >>> read = parsed(pa.RecordBatch.from_pydict(text), kinds, written)
    >>> read["cost"].to_pylist(), read["day"].to_pylist()
    ([6171.34, 12.5], [20088.0, None])
    """

    delimiter: str | None = None
    encoding: str = "utf8"
    header: bool | None = None
    names: Sequence[str] | None = None
    decimal: str = "."
    thousands: str = ""
    units: Sequence[str] = ()
    dates: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.names is not None) != (self.header is False):
            raise wrong("header", "names")(
                "Expected names exactly if there is no header line, got "
                f"header={self.header} and names={self.names}; pass both or neither."
            )
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(
                f"Expected encoding to be one that Python knows, got {self.encoding!r}; pass for "
                "instance 'latin-1'."
            ) from None
        if self.delimiter == "":
            raise ValueError(
                "Expected delimiter to be one sign, got nothing; pass for instance ';', or leave "
                "it out."
            )
        if self.decimal not in (".", ","):
            raise wrong("decimal")(
                f"Expected decimal to be a point or a comma, got {self.decimal!r}; pass one of "
                "the two."
            )
        if self.thousands and (len(self.thousands) > 1 or self.thousands in f"{self.decimal}+-e"):
            raise wrong("thousands")(
                f"Expected thousands to be one mark other than the decimal one, got "
                f"{self.thousands!r}; pass for instance '.' or a space."
            )
        if isinstance(self.units, str) or any(re.search(r"\d|^$", unit) for unit in self.units):
            raise wrong("units")(
                f"Expected units to be a list of words without digits, got {self.units!r}; pass "
                "for instance ['EUR', '%']."
            )
        for name, form in self.dates.items():
            if re.search(r"%Y.*%m.*%d|%Y.*%d.*%m|%d.*%m.*%[Yy]|%m.*%d.*%[Yy]", form) is None:
                raise ValueError(
                    f"Expected the format of dates in {name!r} to have a day, a month and a year, "
                    f"got {form!r}; write for instance %d.%m.%Y."
                )

    def separator(self, file: str) -> str:
        """What separates two values in a file of this name."""
        tabs = re.search(r"\.(tsv|tab)(\.|$)", file.lower()) is not None
        return self.delimiter or ("\t" if tabs else ",")

    @property
    def plain(self) -> bool:
        """Whether numbers are written as computers write them."""
        return self.decimal == "." and not self.thousands and not self.units

    def pointed(self, text: pa.Array) -> pa.Array:
        """Numbers as computers write them; null where a value is written in no declared way."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.units:
            names = "|".join(re.escape(unit) for unit in sorted(self.units, key=len, reverse=True))
            beside = rf"^(?:{names})\s*([+-]?[\d.,].*)$|^(.*[\d.,])\s*(?:{names})$"
            text = pc.replace_substring_regex(text, beside, r"\1\2")
        mark, point = re.escape(self.thousands), re.escape(self.decimal)
        digits = rf"(\d+|\d{{1,3}}({mark}\d{{3}})+)" if mark else r"\d+"
        number = rf"^[+-]?({digits}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?$"
        written = pc.match_substring_regex(text, number)
        if mark:
            text = pc.replace_substring(text, self.thousands, "")
        text = pc.replace_substring(text, self.decimal, ".")
        return pc.if_else(written, text, pa.scalar(None, text.type))


PLAIN = TextFormat()


class NotNumbers(ValueError):
    """The error for a column in which text stands where numbers are expected."""

    def __init__(self, name: str, first: str) -> None:
        told = not_numbers(name, "text", first)
        super().__init__(str(told))
        naming(self, *parameters_of(told))
        self.name = name


def parsed(
    batch: pa.RecordBatch, kinds: Mapping[str, Kind], written: TextFormat = PLAIN
) -> pa.RecordBatch:
    """Columns of text as what public parameters say that they are, each value read by itself."""
    import pyarrow as pa

    columns = (
        _parsed(name, column, kinds[name], written) if name in kinds else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )
    return pa.RecordBatch.from_arrays([*columns], names=batch.schema.names)


def _parsed(name: str, text: pa.Array, kind: Kind, written: TextFormat) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == TEXT:
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
    if isinstance(kind, str):
        if name in written.dates and kind == NUMBER:
            raise dates_among_numbers(name)
        try:
            if name in written.dates:
                return _dates(text, written.dates[name])
            return parsed_numbers(text, written, kind)
        except _Dated:
            raise dates_among_numbers(name) from None
        except pa.ArrowInvalid:
            raise NotNumbers(name, str(text[0])) from None
    wanted = level_type(name, kind)
    if pa.types.is_string(wanted):
        return _without_gaps(text, kind)
    small = pa.types.is_integer(wanted) and all(abs(level) < _EXACT for level in kind)
    try:
        if small or pa.types.is_floating(wanted):
            return parsed_numbers(text, written).cast(pa.float64() if small else wanted)
        return _trimmed(text).cast(wanted)
    except pa.ArrowInvalid:
        raise other_levels(name, "text", kind) from None


def as_read(name: str, column: Any, written: TextFormat, levels: Mapping[str, Any]) -> Any:
    """A whole column as a release would read it, for its owner to look at; text stays text."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return column
    if name in levels:
        return _without_gaps(column, levels[name])
    try:
        return _parsed(name, column, EITHER, written)
    except NotNumbers:
        return _without_gaps(column)


def _trimmed(text: pa.Array) -> pa.Array:
    """Text without spaces around it; what says that a value is missing becomes null."""
    import pyarrow.compute as pc

    return _without_gaps(pc.utf8_trim_whitespace(text))


def _without_gaps(text: pa.Array, known: Sequence[Any] = ()) -> pa.Array:
    """Text in which what says that a value is missing is null, unless it is a declared level."""
    import pyarrow as pa
    import pyarrow.compute as pc

    gaps = pa.array([word for word in _MISSING if word not in known], text.type)
    missing = pc.is_in(pc.utf8_trim_whitespace(text), value_set=gaps)
    return pc.if_else(missing, pa.scalar(None, text.type), text)


class _Dated(ValueError):
    """Dates stand where numbers are expected."""


def parsed_numbers(
    text: pa.Array, written: TextFormat = PLAIN, kind: Kind | None = None
) -> pa.Array:
    """Text as numbers, each value read by itself; Arrow's error where one is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if written.plain:
        try:  # almost always; what is read here is read alike below
            return text.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
    text = _trimmed(text)
    doubles = np.full(len(text), np.nan)
    left = plain(text.is_valid())
    for pattern, read in _READERS:
        matches = pc.fill_null(pc.match_substring_regex(text, pattern), False)
        where = left & plain(matches)
        if where.any():
            if kind == NUMBER and read in _MOMENTS:
                raise _Dated
            doubles[where] = read(text.take(np.flatnonzero(where)), written)
        left = left & ~where
    return pa.array(doubles)


def _moments(text: pa.Array, zone: str | None = None) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    microseconds = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    return days_of(microseconds.cast(pa.timestamp("us", zone)))


def _dates(text: pa.Array, form: str) -> pa.Array:
    """Dates written in a declared format, in days; Arrow's error where one is written otherwise."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _trimmed(text)
    found = pc.strptime(text, format=form, unit="us", error_is_null=True)
    # Arrow takes 31 February for a day in March, and 24 for a year of antiquity.
    there = _without_zeros(pc.strftime(found, format=form))
    same = pc.and_(pc.equal(_without_zeros(text), there), pc.greater_equal(pc.year(found), 1000))
    if found.null_count > text.null_count or not pc.all(same, min_count=0).as_py():
        raise pa.ArrowInvalid("not in the format")
    doubles, valid = np.full(len(text), np.nan), plain(found.is_valid())
    doubles[valid] = days_of(found.drop_null())
    return pa.array(doubles, mask=~valid)


def _without_zeros(text: pa.Array) -> pa.Array:
    """Text without zeros at the beginning of its numbers."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(text, r"(^|\D)0+(\d)", r"\1\2")


def _numbers(text: pa.Array, written: TextFormat) -> NDArray[Any]:
    import pyarrow as pa

    if not written.plain:
        text = written.pointed(text)
        if text.null_count:
            raise pa.ArrowInvalid("not written as declared")
    return plain(text.cast("float64"))


_Reader = Callable[[Any, TextFormat], Any]
_MOMENTS: tuple[_Reader, _Reader] = (
    lambda text, _: _moments(text, "UTC"),
    lambda text, _: _moments(text),
)
# How text is read, by what it looks like; the first that fits.
_READERS: tuple[tuple[str, _Reader], ...] = (
    (rf"{_MOMENT}[ T].*(Z|[+-]\d{{2}}(:?\d{{2}})?)$", _MOMENTS[0]),
    (_MOMENT, _MOMENTS[1]),
    ("^(?i:true)$", lambda text, _: 1.0),
    ("^(?i:false)$", lambda text, _: 0.0),
    ("", _numbers),
)
