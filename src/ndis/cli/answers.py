"""What a release says, by name: tables for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ndis.cli.console import Reply, Shown, echo

if TYPE_CHECKING:
    from ndis.release import Release

# Wider and longer tables do not fit onto a screen.
_MOST_COLUMNS, _MOST_ROWS = 8, 60
_INTERVAL = ("estimate", "95% from", "to")
ESTIMATE = ("estimate", "standard error")


class Answer(NamedTuple):
    """A table of answers: a title, the headings, and rows of a name and numbers.

    A row may be shorter than the headings, where no more is known.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


def table(title: str, headings: Iterable[str], names: Iterable[Any], matrix: Any) -> Answer:
    """An answer from the rows of a matrix."""
    rows = [(str(name), list(map(float, row))) for name, row in zip(names, matrix, strict=True)]
    return Answer(title, list(headings), rows)


def shown(answers: Sequence[Answer]) -> Iterator[str | Shown]:
    """Answers as tables, as far as they fit onto a screen."""
    for title, headings, rows in answers:
        if len(headings) > _MOST_COLUMNS or len(rows) > _MOST_ROWS:
            yield f"{title}: {len(rows)} x {len(headings)} numbers, see --csv or --json"
        else:
            numbers = [[name, *(f"{value:.5g}" for value in row)] for name, row in rows]
            yield Shown(title, ["", *headings], numbers)


def as_document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Answers by title, name and heading, for JSON."""

    def known(row: Sequence[float]) -> list[float | None]:
        return [value if math.isfinite(value) else None for value in row]

    return {
        title: {name: dict(zip(headings, known(row), strict=False)) for name, row in rows}
        for title, headings, rows in answers
    }


class Answers(Reply):
    """A reply that can be had as CSV, too: the answers in it."""

    forms = ("as_csv", "as_json")

    def __init__(
        self, document: Mapping[str, Any], *parts: str | Shown, answers: Sequence[Answer]
    ) -> None:
        super().__init__(document, *parts)
        self.answers = answers

    @classmethod
    def of(cls, *answers: Answer) -> Answers:
        """Nothing but these answers."""
        return cls(as_document(answers), *shown(answers), answers=answers)

    def tell(self, as_json: bool, as_csv: bool = False) -> None:
        """Print it in the form that was asked for."""
        if as_json or not as_csv:
            super().tell(as_json)
            return
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        for title, headings, rows in self.answers:
            lines.writerow([title, *headings])
            lines.writerows([name, *map(repr, row)] for name, row in rows)
        echo(text.getvalue().rstrip("\n"))


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


def answers_of(release: Release) -> list[Answer]:
    """What the estimator makes of its release, or the arrays themselves."""
    return _estimates(release) or [
        table(name, [name] if width == 1 else map(str, range(width)), range(len(matrix)), matrix)
        for name, array in release.arrays.items()
        if array.ndim <= 2
        for matrix in [array if array.ndim == 2 else array.reshape(-1, 1)]
        for width in [matrix.shape[1]]
    ]


def values(release: Release) -> dict[str, Any]:
    """The released arrays and what follows from them by name, for JSON."""
    arrays: Mapping[str, Any] = {name: array.tolist() for name, array in release.arrays.items()}
    return {**arrays, **as_document(_estimates(release))}


def _estimates(release: Release) -> list[Answer]:
    """The answers by name, from the estimator that the release makes possible."""
    import ndis

    try:
        model = getattr(ndis, release.mechanism).from_release(release)
        return next((list(say(model)) for name, say in _SAY.items() if hasattr(model, name)), [])
    except Exception:  # whatever a stranger's parameters do to it: the arrays are there
        return []


def _limits(model: Any) -> Iterator[Answer]:
    yield table("limits", ["low", "high"], model.limits_, model.limits_.values())


def _classes(model: Any) -> Iterator[Answer]:
    low, high = model.intervals()
    chosen = model.classes_[1:] if len(model.coef_) == 1 else model.classes_
    for i, each in enumerate(chosen):
        rows = [[model.intercept_[i]], *zip(model.coef_[i], low[i], high[i], strict=True)]
        yield table(f"log-odds of {each}", _INTERVAL, ["intercept", *model.feature_names_], rows)


def _sketch(model: Any) -> Iterator[Answer]:
    sketch = model.sketch_
    yield from matrix_with_errors("Gram matrix", sketch.columns, sketch.gram())


def _covariance(model: Any) -> Iterator[Answer]:
    names = model.release_.parameters["columns"]
    yield table("mean", ESTIMATE, names, zip(model.mean_, model.mean_error_, strict=True))
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
    """Predictions with every feature in turn at its limits, the others in the middle."""
    import numpy as np

    features = model._fitted.features
    for index, name in enumerate(features.names):
        low, high = features.low[index], features.high[index]
        points = np.tile(features.middle, (5, 1))
        points[:, index] = np.linspace(low, high, 5)
        found = model.predict(points, return_std=True)
        shown = [f"{value:.6g}" for value in points[:, index]]
        yield table(f"by {name}", ("prediction", "spread"), shown, zip(*found, strict=True))


def _cuts(model: Any) -> Iterator[Answer]:
    """The cuts that were asked for, or those of single nodes."""
    nodes = model.nodes if not isinstance(model.nodes, int) else range(model.nodes)
    sets = model.sets or [[node] for node in nodes]
    names = [",".join(map(str, inside)) for inside in sets]
    yield table("cuts", ESTIMATE, names, zip(*model.cuts(sets), strict=True))


def _regression(model: Any) -> Iterator[Answer]:
    found = model.inference()
    labels = model.release_.parameters["label"]
    parts = (found.estimate, found.standard_error, found.lower, found.upper)
    for index, label in enumerate(labels):
        each = [part if len(labels) == 1 else part[index] for part in parts]
        headings = (*ESTIMATE, *_INTERVAL[1:])
        yield table(f"{label} explained", headings, found.names, zip(*each, strict=True))


def matrix_with_errors(title: str, names: Sequence[str], estimate: Any) -> Iterator[Answer]:
    """A matrix between columns, and its standard errors."""
    yield table(title, names, names, estimate.value)
    yield table(f"{title}, standard errors", names, names, estimate.standard_error)


# By the first of these that a fitted estimator has.
_SAY = {
    "limits_": _limits,
    "inference": _regression,
    "intervals": _classes,
    "noise_variance_": _process,
    "cuts": _cuts,
    "covariance_": _covariance,
    "components_": _components,
    "sketch_": _sketch,
}
