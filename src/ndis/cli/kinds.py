"""The estimators that the command line knows, and the options that follow from their signatures.

`KINDS` has the names that people type: ours, and those of other packages, which name them in an
entry point (`ndis.mechanisms.plugins`). Everything else is read from the class: what has to be said
beyond epsilon and delta, parameters, which become options (`settings.as_option`), and docstrings,
which become help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from typing import Any

from ndis.cli.mistakes import Commands
from ndis.cli.settings import (
    NUMBER,
    SWITCH,
    WORD,
    WORDS,
    Option,
    Settings,
    as_command,
    as_option,
    described,
    flag_name,
    group,
)
from ndis.cli.tables import COLUMNS, OPTIONS, numbers

# Parameters that have an option of their own on the command line, or none.
ELSEWHERE = {"random_state": "--seed", "ledger": "--ledger", "noise_scale": None}
PRIVATE_LEVELS = WORDS("Columns whose levels nobody knows; a part of the budget finds them.")
ALL = SWITCH(
    "All columns, of which nothing is known but their types: limits and levels are found, and "
    "quartiles told. Writes a page (-summary.html) and a table (-summary.csv) beside the release."
)
LABEL = WORD("The column to explain.")
EPSILON = {
    "epsilon": NUMBER("Epsilon of the promise. One of --epsilon and --target is needed."),
    "delta": NUMBER("Delta of the promise."),
}


@dataclass(frozen=True)
class Kind:
    """A mechanism of the command line.

    Attributes
    ----------
    name : str
        What is typed after `release`, `forecast` or `calibrate`.
    home : str
        The public name of the estimator.
    place : EntryPoint, optional
        Where it is, if it is in another package.
    """

    name: str
    home: str
    place: EntryPoint | None = None

    @cached_property
    def estimator(self) -> Any:
        """The class."""
        import ndis

        return getattr(ndis, self.home) if self.place is None else self.place.load()

    @property
    def needs(self) -> tuple[str, ...]:
        """What has to be said, beyond epsilon and delta; ``a|b`` means that one is enough."""
        return tuple(self.estimator.needs)

    @property
    def asks(self) -> tuple[str, ...]:
        """What has to be said before a release, too."""
        return tuple(self.estimator.asks)

    @property
    def label(self) -> bool:
        """Whether a column of the table is explained."""
        return bool(self.estimator.labelled)

    @property
    def source(self) -> str:
        """What is read: a ``table`` of people, ``answers`` to be perturbed, or ``edges``."""
        return str(self.estimator.reads)

    @property
    def summary(self) -> str:
        """Its docstring's first line."""
        return str(inspect.cleandoc(self.estimator.__doc__)).partition("\n")[0]

    @cached_property
    def parameters(self) -> dict[str, Option]:
        """Options for the parameters of the estimator."""
        label = {"label": LABEL} if self.label else {}
        known = _options(self.estimator, {*ELSEWHERE, *EPSILON})
        if (
            "max_levels" in known and "levels" in known
        ):  # --levels ward=private names a level called private
            known |= {"private_levels": PRIVATE_LEVELS, "all": ALL}
        for either in (need.split("|") for need in self.needs if "|" in need):
            *most, last = map(flag_name, either)
            said = f"One of {', '.join(most)} and {last} is needed."
            known |= {n: replace(known[n], help=f"{known[n].help} {said}") for n in either}
        return EPSILON | label | known

    @cached_property
    def expectations(self) -> dict[str, Option]:
        """Options for what `forecast` assumes about the data."""
        return _options(self.estimator.forecast, {"self", "label", *self.sizes})

    @cached_property
    def sizes(self) -> dict[str, Option]:
        """Options for the size of the data, where parameters do not say it."""
        return _options(self.estimator.plan, {"self", "label"})

    def size(self, settings: Settings) -> Any:
        """The number of features or nodes, or the shape of the answers, where it is said."""
        return next((settings[name] for name in self.sizes if name in settings), None)

    @property
    def planned(self) -> dict[str, Option]:
        """Options of what needs no data."""
        return self.parameters | self.sizes | self.expectations

    def make(self, settings: Settings, table: Any = None, **more: Any) -> Any:
        """The estimator, not fitted; of all columns of a table, if that is asked for."""
        given = {name: settings[name] for name in self.parameters if name in settings}
        given.pop("label", None)
        everything = given.pop("all", False)
        if private := given.pop("private_levels", None):
            given["levels"] = {**given.get("levels", {}), **dict.fromkeys(private, "private")}
        if everything:
            if table is None:
                raise ValueError(
                    "Expected a table with --all, whose columns it reads; to plan without one, "
                    "name them by --limits and --levels, or --private-levels."
                )
            return self.estimator.of_all(table, **given, **more)
        return self.estimator(**given, **more)

    def plan(self, settings: Settings, **other: Any) -> Any:
        """What a release will do; other settings, such as another epsilon, win."""
        model, label = self.planner(Settings({**settings, **other}))
        return model.plan(self.size(settings), **label)

    def forecast(self, settings: Settings, **other: Any) -> Any:
        """What a release will be good for."""
        expected = {name: settings[name] for name in self.expectations if name in settings}
        rest = Settings({k: v for k, v in settings.items() if k not in expected} | other)
        model, label = self.planner(rest)
        return model.forecast(self.size(settings), **expected, **label)

    def planner(self, settings: Settings) -> tuple[Any, dict[str, str]]:
        """The estimator for a plan and, where the plan wants to know it, the label."""
        label = settings.get("label")
        told = "label" in inspect.signature(self.estimator.plan).parameters
        formula = (
            "formula" in settings
        )  # which names the label, or else is refused where it is read
        if told and label is None and not formula and isinstance(settings.get("limits"), Mapping):
            raise ValueError("Expected --label, got none; name the column to explain.")
        if label is None or told:
            return self.make(settings), {} if label is None else {"label": label}
        known = Settings(settings)
        if "columns" in known:
            known["columns"] = [name for name in known["columns"] if name != label]
        if isinstance(known.get("limits"), Mapping) and label in known["limits"]:
            known["limits"] = {k: v for k, v in known["limits"].items() if k != label}
            known.setdefault("label_limits", settings["limits"][label])
        return self.make(known), {}

    def arguments(self, table: Any, settings: Settings) -> tuple[Any, ...]:
        """What `fit` is given."""
        if self.source == "answers":
            return (_answers(table, self.size(settings)),)
        return (table, settings.get("label")) if self.label else (table,)

    @cached_property
    def reading(self) -> dict[str, Option]:
        """Options of what reads data: parameters, and how the data are written."""
        options = self.parameters | ({} if self.source == "edges" else OPTIONS)
        if self.source == "answers":
            options |= self.sizes | ({} if "columns" in options else COLUMNS)
        return options

    def needed(self, *more: str, data: bool = False) -> tuple[str, ...]:
        """All that has to be said, before data are read if they are to be."""
        label = (
            ("label|formula" if "formula" in self.parameters else "label",) if self.label else ()
        )
        asked = (*self.asks, *label) if data else ()
        return (*more, "epsilon|target", "delta", *self.needs, *asked)


def _options(documented: Any, left_out: Container[str]) -> dict[str, Option]:
    """Options for the parameters of a class or function, as far as they can be written."""
    about, names = described(documented), inspect.signature(documented).parameters
    found = {n: as_option(n, *about.get(n, ("", ""))) for n in names if n not in left_out}
    return {name: option for name, option in found.items() if option is not None}


class Kinds(Mapping[str, Kind]):
    """Ours in the order in which one meets them, then those of other packages.

    Others are looked for when a name is none of ours, or all are listed.
    """

    def __init__(self, **ours: str) -> None:
        self.ours = {name: Kind(name, home) for name, home in ours.items()}

    @property
    def _others(self) -> dict[str, Kind]:
        from ndis.mechanisms.plugins import estimators

        found = estimators()
        return {n: Kind(n, each.attr, each) for n, each in found.items() if n not in self.ours}

    def __getitem__(self, name: str) -> Kind:
        return self.ours[name] if name in self.ours else self._others[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.ours, *self._others])

    def __len__(self) -> int:
        return len(self.ours) + len(self._others)


KINDS = Kinds(
    summary="PrivateSummary",
    regression="PrivateLeastSquares",
    logistic="PrivateLogisticRegression",
    poisson="PrivatePoissonRegression",
    process="PrivateGaussianProcess",
    covariance="PrivateCovariance",
    pca="PrivatePCA",
    projection="PrivateProjection",
    limits="PrivateLimits",
    levels="PrivateLevels",
    graph="PrivateGraph",
    gaussian="GaussianMechanism",
    noise="NoiseMechanism",
    matrix="MatrixGaussianMechanism",
)


def _answers(table: Any, shape: Any) -> Any:
    """The answers in a table, of the shape that was declared."""
    found = numbers(table)
    declared = (shape, 1) if isinstance(shape, int) else tuple(shape)
    if found.shape != declared:
        raise ValueError(
            f"Expected a table of {declared[0]} rows and {declared[-1]} columns of answers, as "
            "declared, got another shape; every row is published with noise, so a table of people "
            "does not belong here: correct --shape."
        )
    return found


def by_kind(
    command: Callable[..., Any],
    options: Callable[[Kind], dict[str, Option]],
    needed: Callable[[Kind], tuple[str, ...]],
) -> Commands:
    """A group with a command for each kind, which is the function's first argument."""
    name, said = command.__name__, str(command.__doc__).partition("\n")[0]

    def make(kind: Kind) -> Any:
        own = partial(command, kind)
        return as_command(own, f"{name} {kind.name}", options(kind), kind.summary, needed(kind))

    made = group(name, said)
    made.children, made.make = KINDS, make
    return made
