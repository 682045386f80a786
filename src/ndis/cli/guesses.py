"""What text in a table may be meant for, told to its owner: how to declare it, never declared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.tables.text import TextFormat

# How people write dates; where two formats fit, only they know which one it is.
_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d"),
    *("%Y%m%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y"),
)
# Decimal and thousands marks, in the order in which they are tried.
_MARKS = (".", ""), (",", ""), (".", ","), (",", "."), (".", "'"), (",", " "), (".", " ")
# More signs beside numbers than this are words; so is what is longer, or what a name begins with.
_MOST_UNITS = 4
_BESIDE = re.compile(
    r"^([^\W\d_]{1,3}\s+|[^\w.,+-]*)[+-]?[\d.,].*?(\s*[^\w.,]+|\s*[^\W\d_][^\s\d.,]+|\s+[^\W\d_]|)$",
    re.DOTALL,
)


def date_formats(values: Any) -> list[str]:
    """The formats in which every value is a date.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ndis.cli.guesses import date_formats
    >>> date_formats(pa.array(["31.12.2024", "1.2.2025"]))
    ['%d.%m.%Y']
    """
    import pyarrow as pa

    from ndis.tables.text import NotNumbers, TextFormat, parsed
    from ndis.tables.values import EITHER

    def fits(form: str) -> bool:
        batch, written = pa.record_batch({"": values}), TextFormat(dates={"": form})
        try:
            return bool(parsed(batch, {"": EITHER}, written))
        except NotNumbers:
            return False

    return [form for form in _DATES if len(values) and fits(form)]


def units_of(values: Any) -> list[str] | None:
    """What stands beside numbers, at most four different signs; None where there is no number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ndis.cli.guesses import units_of
    >>> units_of(pa.array(["6.171,34 EUR", "12 EUR"])), units_of(pa.array(["p12", "p13"]))
    (['EUR'], None)
    """
    found: set[str] = set()
    for text in values.unique().to_pylist():
        beside = _BESIDE.match(text.strip())
        if beside is None or beside[1][-1:].isalpha():  # as in p12, which is a name
            return None
        found |= {word.strip() for word in beside.groups() if word.strip()}
        if len(found) > _MOST_UNITS:
            return None
    return sorted(found)


def number_format(columns: Iterable[Any], written: TextFormat) -> dict[str, Any] | None:
    """How the numbers of all these columns are written, where one way fits all of them.

    What has been declared stays as it is.
    """
    import pyarrow as pa

    from ndis.tables.text import TextFormat, parsed_numbers
    from ndis.tables.values import NUMBER

    columns = list(columns)
    units = sorted({unit for each in columns for unit in units_of(each) or ()} | {*written.units})
    declared = (written.decimal, written.thousands)
    # 1,234 is a thousand in a file with commas between values; elsewhere it may be 1.234.
    marks = (
        _MARKS
        if written.delimiter not in (None, ",")
        else (_MARKS[0], _MARKS[2], _MARKS[1], *_MARKS[3:])
    )
    for decimal, thousands in marks if declared == (".", "") else (declared,):
        try:
            tried = TextFormat(decimal=decimal, thousands=thousands, units=units)
            for each in columns:
                parsed_numbers(each, tried, NUMBER)
        except (ValueError, pa.ArrowInvalid):
            continue
        return {"decimal": decimal, "thousands": thousands, "units": units}
    return None


def advice(columns: Mapping[str, Any], written: TextFormat) -> Iterator[tuple[list[str], str]]:
    """Columns of text that may be dates or numbers, and a sentence about how to declare them."""
    left = dict(columns)
    for name, values in columns.items():
        forms = date_formats(values)
        if forms:
            del left[name]
            told = " or ".join(f"--dates {shlex.quote(f'{name}={form}')}" for form in forms)
            yield [name], f"{name} is read as text and looks like dates: pass {told}."
    numbers = {name: each for name, each in left.items() if units_of(each) is not None}
    form = number_format(numbers.values(), written) if numbers else None
    if form is not None:
        said = {name: form[name] for name in form if form[name] != getattr(written, name)}
        flags = [
            f"--{name} {shlex.quote(','.join(value) if isinstance(value, list) else value)}"
            for name, value in said.items()
            if value
        ]
        are = (
            "is read as text and looks like a number"
            if len(numbers) == 1
            else ("are read as text and look like numbers")
        )
        if flags:
            yield [*numbers], f"{' and '.join(numbers)} {are}: pass {' '.join(flags)}."
