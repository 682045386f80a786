"""How a text file seems to be written, from its first lines; its owner confirms it."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

_SAMPLE = 2**18
_DELIMITERS = ",;\t|"
_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y")
_GAPS = {"", "na", "n/a", "nan", "null", "#n/a"}
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
# A letter that touches digits is no unit but a part of a name: P0012.
_UNIT = re.compile(
    r"(?:([^\W\d]{1,4}(?=\s)|[€$£])\s?)?[+-]?\d[\d.,]*(?:\s?([^\W\d]{2,4}|(?<=\s)[^\W\d]|[€$£%]))?"
)


def guess(path: str) -> dict[str, Any]:
    r"""Settings of a text file: delimiter, encoding, decimal, thousands, units and dates.

    Parameters
    ----------
    path : str
        A file that is named as a text file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ndis.app.guess import guess
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "stays.csv"
    ...     _ = file.write_text("ward;cost;day\nA;12,5;31.12.2024\nB;;01.02.2024\n")
    ...     guess(str(file))
    {'header': True, 'delimiter': ';', 'decimal': ',', 'dates': {'day': '%d.%m.%Y'}}
    """
    import pyarrow as pa

    with pa.input_stream(path) as stream:  # which unpacks .gz and the like
        raw = stream.read(_SAMPLE)
    encoding = "utf8"
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(raw)
    except UnicodeDecodeError:
        encoding, text = "latin-1", raw.decode("latin-1")
    lines = text.splitlines()[:1000]
    if len(raw) == _SAMPLE:
        lines = lines[:-1]  # which may be cut
    delimiter = max(_DELIMITERS, key=lambda mark: _fields(lines, mark))
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    names, rest = (rows[0], rows[1:]) if rows else ([], [])
    columns = [[row[k].strip() for row in rest if k < len(row)] for k in range(len(names))]
    filled = [[cell for cell in each if cell.lower() not in _GAPS] for each in columns]
    comma = delimiter != "," and any(_mostly(_COMMA.fullmatch, each) for each in filled)
    decimal = "," if comma else "."
    mark = "." if comma else ","
    grouped = re.compile(rf"[+-]?\d{{1,3}}(\{mark}\d{{3}})+(\{decimal}\d+)?")
    dates = {name: form for name, each in zip(names, filled, strict=True) if (form := _date(each))}
    found: dict[str, Any] = {"header": True}
    if delimiter != ",":
        found["delimiter"] = delimiter
    if encoding != "utf8":
        found["encoding"] = encoding
    if comma:
        found["decimal"] = decimal
    if any(grouped.fullmatch(cell) for each in filled if not _date(each) for cell in each):
        found["thousands"] = mark
    if units := sorted({unit for each in filled for unit in _units(each)}):
        found["units"] = units
    if dates:
        found["dates"] = dates
    return found


def _fields(lines: Sequence[str], mark: str) -> float:
    """How many fields a line has, as far as lines agree on it."""
    counts = Counter(len(row) for row in csv.reader(lines[:50], delimiter=mark))
    ((most, often),) = counts.most_common(1) or [(0, 0)]
    return (most - 1) * often / max(len(lines[:50]), 1)


def _mostly(fits: Any, cells: Iterable[str]) -> bool:
    found = [bool(fits(cell)) for cell in cells]
    return bool(found) and sum(found) >= 0.5 * len(found)


def _date(cells: Sequence[str]) -> str | None:
    """The first format in which all cells are dates; None of ISO dates, which need none."""
    from datetime import datetime

    if not cells or not re.fullmatch(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}", cells[0]):
        return None
    for form in _DATES:
        try:
            for cell in cells:
                datetime.strptime(cell, form)
        except ValueError:
            continue
        return form
    return None


def _units(cells: Sequence[str]) -> set[str]:
    """What stands beside most numbers of a column."""
    found = [match for cell in cells if (match := _UNIT.fullmatch(cell))]
    beside = [m[1] or m[2] for m in found if bool(m[1]) != bool(m[2])]
    return set(beside) if 0 < len(cells) == len(found) and len(set(beside)) == 1 else set()
