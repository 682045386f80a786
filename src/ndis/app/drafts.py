"""One publication in the making: what its owner has said so far, as settings of the command line.

A draft is published at most once; whoever wants to publish again makes a copy of it. So a reload,
a second tab, a step back or a second click find the release that was made, and pay nothing.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ndis.app.copies import ReleaseCall
from ndis.app.jobs import Job
from ndis.cli import tables
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.settings import Settings, read_settings

# The questions of the page, in the words of somebody who has one.
QUESTIONS = {
    "summary": "How many, how much? Counts, means and quantiles, in all or by group",
    "regression": "How does a number depend on other columns? A linear regression",
    "logistic": "Which of several classes does somebody belong to? A classification",
    "poisson": "How often does something happen? A regression of counts",
    "pca": "Which columns go together? Principal components",
    "process": "Which curve does a number follow? A Gaussian process",
    "projection": "Something that others can analyse later: a sketch",
}
# What the pages ask for in places of their own.
_PLACED = {
    *("epsilon", "delta", "target", "limits", "levels", "private_levels", "columns", "label", "by"),
    *("classes", "person", "drop_missing", "label_limits", *tables.OPTIONS),
}
# Of these, what is asked beside the question and not further down.
FIRST = {"summary": "quantiles", "pca": "n_components", "projection": "n_components"}


@dataclass
class Draft:
    """What was said so far.

    Attributes
    ----------
    folder : Path
        Where files are read and written.
    source : str
        The table, as the command line is given it, relative to the folder.
    name : str
        What the owner calls it, which is its name where it was uploaded.
    written : dict
        How a text file is written.
    columns : list of str
        Those that matter.
    unused : list of str
        Of these, those that the question leaves out.
    public : dict of str to object
        What everybody may know of each: a pair, a list of levels, or "private".
    more : dict of str to str
        Further settings of the question, as they would be typed.
    """

    folder: Path
    seed: int | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(6))
    source: str = ""
    name: str = ""
    written: dict[str, Any] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    drop_missing: bool = True
    person: str = ""
    public: dict[str, Any] = field(default_factory=dict)
    kind: str = "summary"
    label: str = ""
    by: list[str] = field(default_factory=list)
    classes: str = ""
    more: dict[str, str] = field(default_factory=dict)
    epsilon: str = "1"
    risk: str = ""
    delta: str = "1e-6"
    ledger: str = ""
    note: str = ""
    out: str = ""
    job: Job | None = None
    lock: Any = field(default_factory=threading.RLock, repr=False)

    def copy(self) -> Draft:
        """Another draft with the same answers, which can be published."""
        key, lock = secrets.token_hex(6), threading.RLock()
        return replace(self, key=key, lock=lock, job=None, out="", public=dict(self.public))

    @property
    def question(self) -> Kind:
        """The kind of release."""
        return KINDS[self.kind]

    @property
    def options(self) -> dict[str, Any]:
        """Further options of the question, by name."""
        return {n: o for n, o in self.question.parameters.items() if n not in _PLACED}

    def values(self) -> dict[str, Any]:
        """All settings of the release, as a file of settings would hold them."""
        kind, known = self.question, self.question.parameters
        limits: dict[str, Any] = {}
        levels: dict[str, list[str]] = {}
        unknown, values = list[str](), dict[str, Any](self.written)
        for name in self.used:
            said = self.public.get(name)
            if name == self.label and "classes" in known:
                continue
            if isinstance(said, list):
                levels[name] = said
            elif said == "private levels":
                unknown.append(name)
            elif said is not None:
                limits[name] = said
        if kind.label:  # beside an intercept the first level is what others are compared with
            values["label"] = self.label
            levels = {name: known_levels[1:] for name, known_levels in levels.items()}
            if "classes" in known:
                said = self.public.get(self.label)
                listed = [word.strip() for word in self.classes.split(",") if word.strip()]
                values |= {"classes": said if isinstance(said, list) else listed or None}
        values |= {"limits": limits} if limits else {}
        values |= {"levels": levels} if levels else {}
        values |= {"private_levels": unknown} if unknown else {}
        values |= {"by": self.by} if self.by and "by" in known else {}
        values |= {"person": self.person} if self.person else {}
        values |= {"drop_missing": True} if self.drop_missing else {}
        values |= {name: text for name, text in self.more.items() if name in self.options and text}
        values |= {"epsilon": self.epsilon} if not self.risk else {"target": self.target()}
        return values | {"delta": self.delta}

    @property
    def used(self) -> list[str]:
        """The columns of the question."""
        unused = {*self.unused, self.person} - {self.label}
        return [name for name in self.columns if name not in unused]

    def target(self) -> str:
        """The risk that was asked for, so many right guesses of 100, as an advantage."""
        try:
            right = float(self.risk)
        except ValueError:
            right = 0.0
        if not 50.0 < right < 100.0:
            raise ValueError(
                f"Expected between 50 and 100 right guesses in 100, got {self.risk}; correct it."
            )
        return f"advantage={round(right / 50.0 - 1.0, 12):g}"

    def settings(self) -> Settings:
        """The same, read as the command line reads it."""
        values, kind = self.values(), self.question
        for name, what in (("levels", "levels"), ("private_levels", "unknown levels")):
            if name in values and name not in kind.parameters:
                raise ValueError(
                    f"Expected a question that takes columns with {what}, got another; leave out "
                    f"{' and '.join(values[name])} in the third step, or ask another question."
                )
        settings = read_settings(values, kind.reading, None)
        for either in kind.needed(data=True):
            names = [name for name in either.split("|") if name in kind.reading]
            if settings.keys().isdisjoint(names):
                raise ValueError(f"Expected --{names[0].replace('_', '-')}, got none; fill it in.")
        return tables.name_columns(settings)

    def call(self) -> ReleaseCall:
        """The call of the command line that publishes this draft."""
        note = f"{self.note} [{self.key}]".strip() if self.ledger else ""
        return ReleaseCall(
            self.question,
            self.source,
            self.values(),
            out=self.out,
            ledger=self.ledger,
            note=note,
            seed=self.seed,
        )
