"""What a fitted estimator says, by name: tables of numbers that anybody may read.

Every estimator lists its answers in `PrivateEstimator.answers`; the command line, pages and the app
print them and know nothing else about estimators. All numbers follow from the release.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

ESTIMATE = ("estimate", "standard error")
P_VALUE = "p"
# What numbers of a row may be: days since 1970, with a standard error in days; days.
DATE, DAYS = "date", "days"
# Smaller p-values are shown as less than this.
_TINY = 1e-4
_FIRST = date(1970, 1, 1).toordinal()


def headings(level: float = 0.95) -> tuple[str, ...]:
    """What stands above estimates with standard errors and intervals."""
    return (*ESTIMATE, f"{100 * level:.4g}% interval from", "to")


def as_words(value: float, heading: str, unit: str = "") -> str:
    """A number as people read it below a heading."""
    if math.isnan(value):
        return "unknown"
    if heading == P_VALUE:
        return f"<{_TINY:g}" if value < _TINY else f"{value:.3g}"
    if unit == DATE and heading != ESTIMATE[1]:
        return as_date(value)
    return f"{value:.5g} days" if unit else f"{value:.5g}"


def as_date(days: float) -> str:
    """The date so many days after 1970-01-01; the number itself where no calendar has a date.

    Examples
    --------
    >>> from ndis.answer import as_date
    >>> as_date(0.0), as_date(-0.5), as_date(1e9)
    ('1970-01-01', '1969-12-31', '1e+09 days since 1970')
    """
    if 1 - _FIRST <= days < date.max.toordinal() + 1 - _FIRST:
        return str(date.fromordinal(_FIRST + math.floor(days)))
    return f"{days:.5g} days since 1970"


class Answer(NamedTuple):
    """A table of answers: a title, the headings, and rows of a name and numbers.

    A row may be shorter than the headings, where no more is known; numbers that the noise hides are
    NaN. A note below says what the numbers are. Answers with `keys`, the words that name each row,
    are one long table in CSV, whose first line is `long`. `units` names the rows whose numbers are
    a DATE, which people read as one, or DAYS; programs get numbers.

    Examples
    --------
    >>> from ndis.answer import Answer
    >>> Answer.of("cuts", ["estimate"], ["a", "b"], [[1.0], [2.0]]).rows
    [('a', [1.0]), ('b', [2.0])]
    >>> Answer("mean", ["estimate"], [("day", [19161.4])], units={"day": "date"}).cells()
    [('day', ['2022-06-18'])]
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    note: str = ""
    keys: Sequence[Sequence[Any]] = ()
    long: Sequence[str] = ()
    units: Mapping[str, str] = {}

    def cells(self) -> list[tuple[str, list[str]]]:
        """Names and numbers of all rows as people read them."""
        return [
            (
                name,
                [
                    as_words(value, heading, self.units.get(name, ""))
                    for value, heading in zip(row, self.headings, strict=False)
                ],
            )
            for name, row in self.rows
        ]

    @classmethod
    def of(
        cls,
        title: str,
        headings: Iterable[str],
        names: Iterable[Any],
        matrix: Iterable[Any],
        note: str = "",
    ) -> Answer:
        """An answer from the rows of a matrix."""
        rows = [(str(name), list(map(float, row))) for name, row in zip(names, matrix, strict=True)]
        return cls(title, list(headings), rows, note)

    @classmethod
    def of_estimate(cls, title: str, names: Iterable[Any], estimate: tuple[Any, Any]) -> Answer:
        """Estimates and their standard errors, side by side."""
        return cls.of(title, ESTIMATE, names, zip(*estimate, strict=True))

    @classmethod
    def of_matrix(
        cls, title: str, columns: Iterable[str], rows: Iterable[Any], estimate: tuple[Any, Any]
    ) -> list[Answer]:
        """A matrix, and below it the standard errors of its entries."""
        columns, rows = list(columns), list(rows)
        errors = f"{title}, standard errors"
        return [
            cls.of(name, columns, rows, part)
            for name, part in zip((title, errors), estimate, strict=True)
        ]
