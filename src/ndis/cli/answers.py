"""What a release says, by name: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ndis.cli.console import echo, print_table

if TYPE_CHECKING:
    from ndis.release import Release

# Wider and longer arrays are told by their shape.
_MOST_COLUMNS, _MOST_ROWS = 8, 60


class Answer(NamedTuple):
    """A table of answers: a title, the headings, and rows of a name and numbers.

    A row may be shorter than the headings, where no more is known.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


def values(release: Release) -> dict[str, Any]:
    """The released arrays and what follows from them by name, for JSON."""
    named = {
        title: {name: dict(zip(headings, row, strict=False)) for name, row in rows}
        for title, headings, rows in _estimates(release)
    }
    return {name: array.tolist() for name, array in release.arrays.items()} | named


def print_answers(release: Release) -> None:
    """The answers of a release, where they fit onto a screen."""
    told = ", ".join(f"{n} {'x'.join(map(str, a.shape))}" for n, a in release.arrays.items())
    echo(f"{release.mechanism} ({told.replace(' ,', ',').strip()})")
    for answer in answers(release):
        if len(answer.headings) <= _MOST_COLUMNS and len(answer.rows) <= _MOST_ROWS:
            print_table(
                answer.title,
                ["", *answer.headings],
                [[name, *(f"{value:.6g}" for value in row)] for name, row in answer.rows],
            )


def csv_lines(release: Release) -> Iterator[list[str]]:
    """The same, whole, as lines of a CSV file."""
    for answer in answers(release):
        yield [answer.title, *answer.headings]
        for name, row in answer.rows:
            yield [name, *map(repr, row)]


def answers(release: Release) -> list[Answer]:
    """What the estimator makes of its release, or the arrays themselves."""
    return _estimates(release) or list(_arrays(release))


def _arrays(release: Release) -> Iterator[Answer]:
    for name, array in release.arrays.items():
        if array.ndim <= 2:
            matrix = array if array.ndim == 2 else array.reshape(-1, 1)
            headings = [name] if matrix.shape[1] == 1 else _numbered(matrix.shape[1])
            yield _table(name, headings, _numbered(len(matrix)), matrix)


def _numbered(n: int) -> list[str]:
    return [str(index) for index in range(n)]


def _table(title: str, headings: Sequence[str], names: Iterable[str], matrix: Any) -> Answer:
    rows = [
        (name, [float(value) for value in row]) for name, row in zip(names, matrix, strict=True)
    ]
    return Answer(title, list(headings), rows)


# -- what estimators make of their releases -----------------------------------------------------


def _estimates(release: Release) -> list[Answer]:
    """The answers by name, from the estimator that the release makes possible."""
    import ndis

    estimator = (
        getattr(ndis, release.mechanism, None) if release.mechanism in ndis.__all__ else None
    )
    if not hasattr(estimator, "from_release"):
        return []
    try:
        model = estimator.from_release(release)
        return next((list(say(model)) for name, say in _SAY.items() if hasattr(model, name)), [])
    except Exception:  # whatever a stranger's parameters do to it: the arrays are there
        return []


def _limits(model: Any) -> Iterator[Answer]:
    yield _table("limits", ["low", "high"], model.limits_, model.limits_.values())


def _classes(model: Any) -> Iterator[Answer]:
    low, high = model.intervals()
    chosen = model.classes_[1:] if len(model.coef_) == 1 else model.classes_
    for i, each in enumerate(chosen):
        rows = [[model.intercept_[i]], *zip(model.coef_[i], low[i], high[i], strict=True)]
        yield _table(f"log-odds of {each}", _ESTIMATE, ["intercept", *model.feature_names_], rows)


_ESTIMATE = ("estimate", "95% from", "to")
# By the first of these that a fitted estimator has.
_SAY = {"limits_": _limits, "intervals": _classes}
