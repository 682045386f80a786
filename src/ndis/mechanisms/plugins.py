"""Estimators and methods of other packages, found by their entry points.

A package that has an estimator, or another way to answer the question of one of ours, says so in
its ``pyproject.toml``:

    [project.entry-points."ndis.estimators"]
    mean = "my_package:PrivateMean"

    [project.entry-points."ndis.methods"]
    "PrivateLeastSquares.als" = "my_package:SketchAndSolve"

The first is then a command (`ndis release mean`), the second a value of `method`; releases of both
are verified and audited like ours wherever the package is installed. A certificate names it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

ESTIMATORS, METHODS = "ndis.estimators", "ndis.methods"
# Methods of the papers, which are in a package beside this one.
_PAPERS = "ndis-papers"
_OF_PAPERS = {
    "PrivateCovariance": ("sketch",),
    "PrivateGaussianProcess": ("posterior",),
    "PrivateLeastSquares": ("als", "gaussian-limit", "sketch"),
    "PrivateLogisticRegression": ("posterior",),
    "PrivateProjection": ("ptr",),
}


class NotInstalled(ValueError):
    """What was asked for is in a package that is not here."""


@functools.cache
def estimators() -> dict[str, EntryPoint]:
    """Estimators of other packages, by their names on the command line; none is loaded."""
    return {each.name: each for each in sorted(entry_points(group=ESTIMATORS), key=_by_name)}


@functools.cache
def _methods() -> dict[str, EntryPoint]:
    return {each.name: each for each in sorted(entry_points(group=METHODS), key=_by_name)}


def forget() -> None:
    """Look for packages again: one was installed while the process runs."""
    estimators.cache_clear()
    _methods.cache_clear()


def _by_name(entry: EntryPoint) -> str:
    return entry.name


def estimator_named(mechanism: str) -> Any:
    """The estimator of this name, ours or that of another package; None if there is none."""
    library = import_module("ndis")
    if mechanism in library.__all__:
        found = getattr(library, mechanism)
        return found if hasattr(found, "from_public") else None
    for entry in estimators().values():
        if entry.attr == mechanism:
            return entry.load()
    return None


def methods_of(estimator: type) -> dict[str, EntryPoint]:
    """Methods that other packages add to an estimator, or to one that it is made from."""
    known = _methods()
    return {
        name.partition(".")[2]: known[name]
        for each in reversed(estimator.__mro__)
        for name in known
        if name.partition(".")[0] == each.__name__
    }


def method_named(estimator: type, name: str, own: Iterable[str]) -> type:
    """The class of a method of another package; raises a sentence if there is none.

    Parameters
    ----------
    estimator : type
    name : str
    own : iterable of str
        The estimator's own methods, to be listed.
    """
    known = methods_of(estimator)
    if name in known:
        found: type = known[name].load()
        return found
    if any(name in _OF_PAPERS.get(each.__name__, ()) for each in estimator.__mro__):
        raise NotInstalled(missing(f"method={name!r} of {estimator.__name__}", _PAPERS))
    listed = ", ".join(map(repr, dict.fromkeys([*own, *known])))
    raise ValueError(f"Expected method to be one of {listed}, got {name!r}; correct it.")


def missing(what: str, package: str) -> str:
    """The sentence for what another package has."""
    return f"Expected the package {package} for {what}, got none; install it, then try again."


def package_of(model: Any, method: Any) -> str | None:
    """The package that a run needs beside this one, if that is known."""
    for kind, known in ((type(method), _methods()), (type(model), estimators())):
        for entry in known.values():
            if (entry.module, entry.attr) == (kind.__module__, kind.__name__) and entry.dist:
                return str(entry.dist.name)
    return None
