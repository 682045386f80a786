"""How a text file seems to be written, from its first lines; its owner confirms it."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ndis.cli.guesses import date_formats, number_format, units_of

_SAMPLE = 2**18
_DELIMITERS = ",;\t|"
_GAPS = {"", "na", "n/a", "nan", "null", "#n/a"}


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

    from ndis.tables.text import TextFormat

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
    columns = {
        name: [row[k].strip() for row in rest if k < len(row)] for k, name in enumerate(names)
    }
    filled = {
        name: pa.array([cell for cell in cells if cell.lower() not in _GAPS], pa.string())
        for name, cells in columns.items()
    }
    dates = {name: form for name, cells in filled.items() for form in date_formats(cells)[:1]}
    found: dict[str, Any] = {"header": True}
    if delimiter != ",":
        found["delimiter"] = delimiter
    if encoding != "utf8":
        found["encoding"] = encoding
    numbers = [
        cells
        for name, cells in filled.items()
        if name not in dates and len(cells) and units_of(cells) is not None
    ]
    how = number_format(numbers, TextFormat(delimiter=delimiter)) or {}
    plain = TextFormat()
    found |= {name: said for name, said in how.items() if said and said != getattr(plain, name)}
    return found | ({"dates": dates} if dates else {})


def _fields(lines: Sequence[str], mark: str) -> float:
    """How many fields a line has, as far as lines agree on it."""
    counts = Counter(len(row) for row in csv.reader(lines[:50], delimiter=mark))
    ((most, often),) = counts.most_common(1) or [(0, 0)]
    return (most - 1) * often / max(len(lines[:50]), 1)
