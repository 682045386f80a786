"""``ndis sketch``, ``graph``, ``covariance``: questions to a release. They cost no privacy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.answer import ESTIMATE, Answer
from ndis.cli.answers import Answers
from ndis.cli.settings import VALUES

if TYPE_CHECKING:
    from ndis.mechanisms.sketch import Sketch


# -- sketches -----------------------------------------------------------------------------------


def _load(path: Path) -> Sketch:
    from ndis.mechanisms.sketch import Sketch

    return Sketch.load(path)


def regress(path: Path, *, target: str, debias: bool = True) -> Answers:
    """Regress one column of the table on all others.

    Parameters
    ----------
    target : str
        The column to explain by all others.
    debias : bool
        Take the noise out before solving; --no-debias for a ridge.
    """
    sketch = _load(path)
    found = sketch.least_squares(target, debias=debias)
    others = [name for name in sketch.columns if name != target]
    return Answers.of(Answer.of_estimate(f"Linear regression of {target}", others, found))


def gram(path: Path) -> Answers:
    """Estimate the inner products of all pairs of columns."""
    sketch = _load(path)
    names = sketch.columns
    return Answers.of(*Answer.of_matrix("Gram matrix", names, names, sketch.gram()))


def distances(path: Path) -> Answers:
    """Estimate the squared distances between columns."""
    sketch = _load(path)
    names = sketch.columns
    return Answers.of(*Answer.of_matrix("squared distances", names, names, sketch.distances()))


def components(path: Path, *, k: int = 2) -> Answers:
    """Estimate the directions of the largest second moments.

    Parameters
    ----------
    k : int
        How many principal components.
    """
    sketch = _load(path)
    found = sketch.principal_components(k)
    names = [f"component {index + 1}" for index in range(k)]
    return Answers.of(
        Answer.of_estimate("second moments", names, found.moments),
        *Answer.of_matrix("directions", sketch.columns, names, found.components),
    )


# -- graphs -------------------------------------------------------------------------------------


def _graph(path: Path) -> Any:
    from ndis.mechanisms.graph import PrivateGraph
    from ndis.release import Release

    return PrivateGraph.from_release(Release.load(path))


def cut(path: Path, *, inside: list[str]) -> Answers:
    """Estimate the weight of the edges between a set of nodes and all others.

    Parameters
    ----------
    inside : list of str
        The nodes of a set, A,B,...; repeatable.
    """
    found = _graph(path).cuts([VALUES.read(each) for each in inside])
    return Answers.of(Answer.of_estimate("cuts", inside, found))


def resistance(path: Path, *, between: str, debias: bool = True) -> Answers:
    """Estimate the effective resistance between two nodes.

    Parameters
    ----------
    between : str
        Two nodes, A,B.
    debias : bool
        Take the noise out before solving; --no-debias leaves it in.
    """
    pair = VALUES.read(between)
    if len(pair) != 2:
        raise ValueError(f"Expected two nodes for --between, got {between!r}; write A,B.")
    found = _graph(path).effective_resistance(*pair, debias=debias)
    return Answers.of(Answer.of("effective resistance", ESTIMATE, [between], [found]))


def spectrum(path: Path, *, k: int = 3) -> Answers:
    """Estimate the largest eigenvalues of the Laplacian, with bounds that hold with 95%.

    Parameters
    ----------
    k : int
        How many eigenvalues.
    """
    found = _graph(path).spectrum(k)
    names = [f"eigenvalue {index + 1}" for index in range(k)]
    rows = zip(*found, strict=True)
    above = ("estimate", "95% interval from", "to")
    return Answers.of(Answer.of("spectrum", above, names, rows))


# -- covariances --------------------------------------------------------------------------------


def variance(path: Path, *, along: list[str]) -> Answers:
    """Estimate the variance of a combination of columns, without bias.

    Parameters
    ----------
    along : list of str
        A combination of columns, such as a=1,b=-1; repeatable.
    """
    from ndis.mechanisms.moments import PrivateCovariance
    from ndis.release import Release

    model = PrivateCovariance.from_release(Release.load(path))
    names = model.release_.parameters["columns"]
    found = model.variance([_direction(words, names) for words in along])
    return Answers.of(Answer.of_estimate("variance", along, found))


def _direction(words: str, names: Sequence[str]) -> list[float]:
    parts = dict(part.partition("=")[::2] for part in words.split(","))
    for name in parts:
        if name not in names:
            raise ValueError(
                f"Expected columns of the release in --along, got {name!r}; "
                f"choose from {', '.join(names)}."
            )
    try:
        return [float(parts.get(name, 0.0)) for name in names]
    except ValueError:
        raise ValueError(
            f"Expected a number for each column in --along, got {words!r}; write NAME=NUMBER,..."
        ) from None
