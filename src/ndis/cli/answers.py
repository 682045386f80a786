"""What a release says, by name: tables for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ndis.cli.console import Reply, Shown, echo

if TYPE_CHECKING:
    from ndis.release import Release

# Wider and longer tables do not fit onto a screen.
_MOST_COLUMNS, _MOST_ROWS = 8, 60
# Of which some spreadsheets take the wide forms, too.
_FORMULA = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?")
ESTIMATE = ("estimate", "standard error")
_INTERVAL = (*ESTIMATE, "95% interval from", "to")
# The heading of p-values, and those that are shown as less than this.
_P, _TINY = "p", 1e-4


class Answer(NamedTuple):
    """A table of answers: a title, the headings, and rows of a name and numbers.

    A row may be shorter than the headings, where no more is known; numbers that the noise hides are
    NaN. A note below says what the numbers are. Answers with `keys`, the words that name each row,
    are one long table in CSV, whose first line is `long`.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    note: str = ""
    keys: Sequence[Sequence[Any]] = ()
    long: Sequence[str] = ()


def table(title: str, headings: Iterable[str], names: Iterable[Any], matrix: Any) -> Answer:
    """An answer from the rows of a matrix."""
    rows = [(str(name), list(map(float, row))) for name, row in zip(names, matrix, strict=True)]
    return Answer(title, list(headings), rows)


def shown(answers: Sequence[Answer]) -> Iterator[str | Shown]:
    """Answers as tables, as far as they fit onto a screen."""
    for title, headings, rows, note, *_ in answers:
        if len(headings) > _MOST_COLUMNS or len(rows) > _MOST_ROWS:
            yield f"{title}: {len(rows)} x {len(headings)} numbers, see --csv or --json"
        else:
            numbers = [
                [name, *(_number(*each) for each in zip(row, headings, strict=False))]
                for name, row in rows
            ]
            yield Shown(title, ["", *headings], numbers)
            hidden = ", ".join(name for name, row in rows if any(map(math.isnan, row)))
            yield from [note] if note else []
            yield from [f"No information at this budget: {hidden}."] if hidden else []


def _number(value: float, heading: str) -> str:
    if heading == _P and value < _TINY:
        return f"<{_TINY:g}"
    return "unknown" if math.isnan(value) else f"{value:{'.3g' if heading == _P else '.5g'}}"


def as_document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers by title, name and heading, for JSON."""

    def known(row: Sequence[float]) -> list[float | None]:
        return [value if math.isfinite(value) else None for value in row]

    return {
        title: {name: dict(zip(headings, known(row), strict=False)) for name, row in rows}
        for title, headings, rows, *_ in answers
    }


class Answers(Reply):
    """A reply that can be had as CSV, too: the answers in it; and as Markdown and HTML."""

    forms = ("as_csv", "as_json", "as_markdown", "as_html")

    def __init__(
        self, document: Mapping[str, Any], *parts: str | Shown, answers: Sequence[Answer]
    ) -> None:
        super().__init__(document, *parts)
        self.answers = answers

    @classmethod
    def of(cls, *answers: Answer) -> Answers:
        """Nothing but these answers."""
        return cls(as_document(answers), *shown(answers), answers=answers)

    def tell(
        self,
        as_json: bool,
        as_csv: bool = False,
        as_markdown: bool = False,
        as_html: bool = False,
    ) -> None:
        """Print it in the form that was asked for."""
        if (as_markdown or as_html) and not as_json:
            written = as_html_part if as_html else as_markdown_part
            echo("\n\n".join(map(written, self.parts)))
            return
        if as_json or not as_csv:
            super().tell(as_json)
            return
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        before: Sequence[str] = ()
        for title, headings, rows, _, keys, long in self.answers:
            first = long or [title, *headings]
            if not long or first != before:
                lines.writerow(map(harmless, first))
            before = first
            for (_, row), key in zip(rows, keys or [[name] for name, _ in rows], strict=True):
                numbers = ("" if math.isnan(value) else repr(value) for value in row)
                lines.writerow([*(harmless(str(word)) for word in key), *numbers])
        echo(text.getvalue().rstrip("\n"))


def as_markdown_part(part: str | Shown) -> str:
    r"""A sentence or a table in Markdown; what is in a cell stays there.

    Examples
    --------
    >>> from ndis.cli.answers import Shown, as_markdown_part
    >>> print(as_markdown_part(Shown("pay", ["", "estimate"], [["a|b", "1"]])))
    **pay**
    <BLANKLINE>
    |  | estimate |
    | --- | ---: |
    | a\|b | 1 |
    """
    if isinstance(part, str):
        return _unmarked(part)

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(map(_unmarked, cells))} |"

    width = len(part.headings)
    rows = (line([*row, *[""] * (width - len(row))]) for row in part.rows)
    rule = f"| --- |{' ---: |' * (width - 1)}"
    return "\n".join([f"**{_unmarked(part.title)}**", "", line(part.headings), rule, *rows])


def _unmarked(text: str) -> str:
    """Text that Markdown and HTML leave alone."""
    return re.sub(r"([|\\`*_<\[])", r"\\\1", " ".join(text.split()))


def as_html_part(part: str | Shown) -> str:
    """A sentence or a table in HTML."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in part.headings)
    rows = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in part.rows
    )
    title = escape(part.title)
    return f"<table><caption>{title}</caption><tr>{heads}</tr>{rows}</table>"


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; numbers stay numbers.

    Examples
    --------
    >>> from ndis.cli.answers import harmless
    >>> harmless("=1+1"), harmless("-1.5"), harmless("age")
    ("'=1+1", '-1.5', 'age')
    """
    return cell if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) else f"'{cell}"


# -- releases -----------------------------------------------------------------------------------


def describe(release: Release) -> str:
    """The mechanism and the arrays, in a line."""
    arrays = (
        f"{name} {' x '.join(map(str, array.shape))}".rstrip()
        for name, array in release.arrays.items()
    )
    return f"{release.mechanism}: {', '.join(arrays)}"


def draw_curve(release: Release, plot: Path) -> None:
    """Write the privacy curve of a release as a picture."""
    import numpy as np

    from ndis import plots

    if release.guarantee.loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without, which is as it "
            "was; leave out --plot."
        )
    grid = np.linspace(0.0, 2.0 * release.guarantee.epsilon + 0.5, 201)
    plots.curve(release.guarantee.loss, grid, title=release.mechanism).savefig(plot)


def answers_of(release: Release, estimates: Sequence[Answer]) -> Sequence[Answer]:
    """What the estimator makes of its release, or the arrays themselves."""
    return estimates or [
        table(name, [name] if width == 1 else map(str, range(width)), range(len(matrix)), matrix)
        for name, array in release.arrays.items()
        if array.ndim <= 2
        for matrix in [array if array.ndim == 2 else array.reshape(-1, 1)]
        for width in [matrix.shape[1]]
    ]


def values(release: Release, estimates: Sequence[Answer]) -> dict[str, Any]:
    """The released arrays and what follows from them by name, for JSON."""
    arrays: Mapping[str, Any] = {name: array.tolist() for name, array in release.arrays.items()}
    return {**arrays, **as_document(estimates)}


def estimates_of(release: Release, model: Any = None) -> list[Answer]:
    """The answers by name, from the fitted estimator, or from one that the release restores."""
    from ndis.mechanisms.plugins import estimator_named

    try:
        if model is None:
            model = estimator_named(release.mechanism).from_release(release)
        return next((list(say(model)) for name, say in _SAY.items() if hasattr(model, name)), [])
    except Exception:  # whatever a stranger's parameters do to it: the arrays are there
        return []


def _limits(model: Any) -> Iterator[Answer]:
    yield table("limits", ["low", "high"], model.limits_, model.limits_.values())


def _intervals(model: Any) -> Iterator[Answer]:
    """Coefficients with intervals, a table for each label or class."""
    import numpy as np

    from ndis.mechanisms.intervals import COVERED

    found = model.intervals()
    if hasattr(model, "summary") and len(found.labels) == 1:
        yield from _regression(model.summary())
        return
    n = len(found.names)
    parts = (found.estimate, found.standard_error, found.lower, found.upper)
    each = np.stack([np.reshape(part, (-1, n)) for part in parts], axis=-1)
    note = f"The intervals cover {COVERED[found.of]}."
    if hasattr(model, "classes_"):
        chosen = model.classes_[1:] if len(each) == 1 else model.classes_
        titles = [f"log-odds of {name}" for name in chosen]
        constants = [[("intercept", [float(value)])] for value in model.intercept_]
    else:
        what = "Regression of the logarithm" if hasattr(model, "family") else "Linear regression"
        titles = [f"{what} of {name}" for name in found.labels]
        constants = [[] for _ in titles]
    for title, constant, rows in zip(titles, constants, each, strict=True):
        told = table(title, _INTERVAL, found.names, rows)
        yield told._replace(rows=[*constant, *told.rows], note=note)


def _regression(told: Any) -> Iterator[Answer]:
    """Coefficients with intervals and tests, and how well they fit."""
    from ndis.mechanisms.intervals import COVERED

    found = told.coefficients
    columns = (found.estimate, found.standard_error, found.lower, found.upper, told.p_values)
    coefficients = table(
        f"Linear regression of {told.label}",
        (*_INTERVAL, _P),
        found.names,
        zip(*columns, strict=True),
    )
    yield coefficients._replace(note=f"Intervals and tests count {COVERED[found.of]}.")
    figures = {
        "R^2": told.r_squared,
        "adjusted R^2": told.adjusted_r_squared,
        "residual standard deviation": told.residual_sd,
        "rows (noisy)": told.n_rows,
    }
    rows = [(each.value, each.lower, each.upper) for each in figures.values()]
    fit = table(f"Fit of {told.label}", ("estimate", *_INTERVAL[2:]), figures, rows)
    tests = [("F", [told.f_test.statistic]), ("p of F", [told.f_test.p_value])]
    yield fit._replace(rows=[*fit.rows, *tests])


def _summary(model: Any) -> Iterator[Answer]:
    """A table for each column and statistic, with a row for each group."""
    told = model.to_columns()
    by = [name for name in told if name == "period" or name in model.by]
    words = [*by, "column", "statistic", "level"]
    numbers = [name for name in told if name not in words]
    found: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(zip(*(told[name] for name in words[-3:]), strict=True)):
        found.setdefault(key, []).append(place)
    for (column, statistic, level), places in found.items():
        title = " ".join(filter(None, [statistic, column and f"of {column}", level]))
        groups = [[str(told[name][place]) for name in by] for place in places]
        names = [
            ", ".join(
                f"period {word}" if by[i] == "period" else word
                for i, word in enumerate(group)
                if word
            )
            for group in groups
        ]
        yield Answer(
            title,
            _INTERVAL,
            [
                (name or "total", [told[n][place] for n in numbers])
                for name, place in zip(names, places, strict=True)
            ],
            keys=[[*group, column, statistic, level] for group in groups],
            long=[*words, *numbers],
        )


def _sketch(model: Any) -> Iterator[Answer]:
    sketch = model.sketch_
    yield from matrix_with_errors("Gram matrix", sketch.columns, sketch.gram())


def _covariance(model: Any) -> Iterator[Answer]:
    names = model.feature_names_
    if model.center:
        yield _with_interval("mean", names, model.intervals())
    yield table("covariance", names, names, model.covariance_)
    units = [[float(i == j) for j in range(len(names))] for i in range(len(names))]
    found = model.variance(units)
    yield table("variance", ESTIMATE, names, zip(*found, strict=True))


def _components(model: Any) -> Iterator[Answer]:
    names = model.release_.parameters["columns"]
    which = [f"component {index + 1}" for index in range(len(model.components_))]
    explained = (
        model.explained_variance_,
        model.explained_variance_error_,
        model.explained_variance_ratio_,
    )
    yield table("variance", (*ESTIMATE, "share"), which, zip(*explained, strict=True))
    yield table("components", names, which, model.components_)
    yield table("components, standard errors", names, which, model.components_error_)


def _process(model: Any) -> Iterator[Answer]:
    """The process with every feature in turn between its limits, the others in the middle."""
    import numpy as np

    features = model._fitted.features
    for index, name in enumerate(features.names):
        low, high = features.low[index], features.high[index]
        points = np.tile(features.middle, (5, 1))
        points[:, index] = np.linspace(low, high, 5)
        shown = [f"{value:.6g}" for value in points[:, index]]
        yield _with_interval(f"by {name}", shown, model.intervals(points))


def _with_interval(title: str, names: Iterable[str], found: Any) -> Answer:
    """Estimates with intervals, and what these cover."""
    from ndis.mechanisms.intervals import COVERED

    parts = (found.estimate, found.standard_error, found.lower, found.upper)
    told = table(title, _INTERVAL, names, zip(*parts, strict=True))
    return told._replace(note=f"The intervals cover {COVERED[found.of]}.")


def _cuts(model: Any) -> Iterator[Answer]:
    """The cuts that were asked for, or those of single nodes."""
    nodes = model.nodes if not isinstance(model.nodes, int) else range(model.nodes)
    sets = model.sets or [[node] for node in nodes]
    names = [",".join(map(str, inside)) for inside in sets]
    yield table("cuts", ESTIMATE, names, zip(*model.cuts(sets), strict=True))


def matrix_with_errors(title: str, names: Sequence[str], estimate: Any) -> Iterator[Answer]:
    """A matrix between columns, and its standard errors."""
    yield table(title, names, names, estimate.value)
    yield table(f"{title}, standard errors", names, names, estimate.standard_error)


# By the first of these that a fitted estimator has.
_SAY = {
    "to_columns": _summary,
    "limits_": _limits,
    "noise_variance_": _process,
    "covariance_": _covariance,
    "intervals": _intervals,
    "cuts": _cuts,
    "components_": _components,
    "sketch_": _sketch,
}
