"""What a fitted estimator says, by name: tables of numbers that anybody may read.

Every estimator lists its answers in `PrivateEstimator.answers`; the command line, pages and the app
print them and know nothing else about estimators. All numbers follow from the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

ESTIMATE = ("estimate", "standard error")
P_VALUE = "p"


def headings(level: float = 0.95) -> tuple[str, ...]:
    """What stands above estimates with standard errors and intervals."""
    return (*ESTIMATE, f"{100 * level:.4g}% interval from", "to")


class Answer(NamedTuple):
    """A table of answers: a title, the headings, and rows of a name and numbers.

    A row may be shorter than the headings, where no more is known; numbers that the noise hides are
    NaN. A note below says what the numbers are. Answers with `keys`, the words that name each row,
    are one long table in CSV, whose first line is `long`.

    Examples
    --------
    >>> from ndis.answer import Answer
    >>> Answer.of("cuts", ["estimate"], ["a", "b"], [[1.0], [2.0]]).rows
    [('a', [1.0]), ('b', [2.0])]
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    note: str = ""
    keys: Sequence[Sequence[Any]] = ()
    long: Sequence[str] = ()

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
