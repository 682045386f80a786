"""A release as what can be repeated: the words of the command line, and a Python script."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndis.cli import tables
from ndis.cli.kinds import Kind
from ndis.cli.settings import flag_name, read_settings


@dataclass(frozen=True)
class ReleaseCall:
    """A call of ``ndis release``.

    Attributes
    ----------
    kind : Kind
    source : str
        The table.
    values : mapping
        Settings as a file of settings would hold them.
    out, ledger, note : str
    seed : int, optional
    """

    kind: Kind
    source: str
    values: Mapping[str, Any]
    out: str
    ledger: str = ""
    note: str = ""
    seed: int | None = None

    def flags(self) -> tuple[list[str], dict[str, Any]]:
        """Settings as flags, and those that flags cannot say: a level with a comma, say."""
        words, rest = list[str](), dict[str, Any]()
        for name, value in self.values.items():
            typed = _typed(value)
            options = {name: self.kind.reading[name]}
            try:
                same = read_settings({name: typed}, options, None) == read_settings(
                    {name: value}, options, None
                )
            except ValueError:
                same = False
            if not same:
                rest[name] = value
            elif isinstance(typed, bool):
                words.append(flag_name(name) if typed else f"--no-{flag_name(name)[2:]}")
            else:
                each = typed if isinstance(typed, list) else [typed]
                words += [word for one in each for word in (flag_name(name), one)]
        return words, rest

    def rest(self) -> str:
        """What flags cannot say, as the content of a file of settings; nothing if they say all."""
        rest = self.flags()[1]
        return json.dumps(rest, ensure_ascii=False) if rest else ""

    @property
    def config(self) -> str:
        """The name of the file for settings that flags cannot say."""
        return f"{Path(self.out).stem}.settings.json"

    def words(self) -> list[str]:
        """What is typed after ``ndis``."""
        flags, rest = self.flags()
        source = f"./{self.source}" if self.source.startswith("-") else self.source
        words = ["release", self.kind.name, source, *flags]
        words += ["--config", self.config] if rest else []
        words += ["--ledger", self.ledger] if self.ledger else []
        words += ["--note", self.note] if self.note else []
        words += [] if self.seed is None else ["--seed", str(self.seed)]
        return [*words, "--out", self.out]

    def command(self) -> str:
        """The same for a shell."""
        text, file = self.rest(), shlex.quote(self.config)
        first = f"printf %s {shlex.quote(text)} > {file}\n" if text else ""
        return f"{first}{shlex.join(['ndis', *self.words()])}\n"

    def script(self) -> str:
        """The same in Python."""
        settings = tables.name_columns(read_settings(self.values, self.kind.reading, None))
        model = self.kind.make(settings, random_state=self.seed)
        defaults = inspect.signature(type(model)).parameters
        given = {
            name: value
            for name, value in model.get_params(deep=False).items()
            if value is not None and value != defaults[name].default
        }
        reading: dict[str, Any] = {"columns": settings.get("columns")}
        reading["drop_missing"] = bool(settings.get("drop_missing", False))
        reading["typed"] = [*settings.get("levels", {}), *filter(None, [settings.get("label")])]
        reading |= tables.written(settings)
        names = [type(model).__name__, *(["Ledger"] if self.ledger else [])]
        names += ["Risk"] if "target" in given else []
        label = f", {settings['label']!r}" if self.kind.label else ""
        noted = f", note={self.note!r}" if self.note else ""
        ledger = f"Ledger({self.ledger!r}{noted}) as ledger, " if self.ledger else ""
        paid = ", ledger=ledger" if self.ledger else ""
        return (
            f"from ndis import {', '.join(sorted(names))}\n"
            "from ndis.release import NewFile\n"
            "from ndis.tables import Table\n\n"
            f"table = Table.open(\n    {self.source!r},\n{_arguments(reading)})\n"
            f"model = {type(model).__name__}(\n{_arguments(given)})\n"
            f"with {ledger}NewFile({self.out!r}) as file:\n"
            f"    run = model.prepare(table{label})\n"
            f"    model.finish(run, run.release(file=file{paid}))\n"
            "print(model.release_.guarantee)\n"
        )

    def notebook(self) -> str:
        """The script as a Jupyter notebook, which has not been run."""
        cells: list[dict[str, Any]] = [
            {"cell_type": "markdown", "source": [f"# {self.out}\n", "Each run is paid again."]},
            {"cell_type": "code", "source": self.script().splitlines(True)},
            {"cell_type": "code", "source": ["model.answers()"]},
        ]
        for number, cell in enumerate(cells):
            cell |= {"id": f"cell-{number}", "metadata": {}}
            if cell["cell_type"] == "code":
                cell |= {"execution_count": None, "outputs": []}
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _typed(value: Any) -> Any:
    """A value as it is typed: a word, a switch, or a word for each entry."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return [f"{name}={_word(content)}" for name, content in value.items()]
    return _word(value)


def _word(value: Any) -> str:
    if isinstance(value, tuple):  # limits
        return ":".join(map(str, value))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _arguments(given: Mapping[str, Any]) -> str:
    return "".join(f"    {name}={_python(value)},\n" for name, value in given.items())


def _python(value: Any) -> str:
    from ndis.risk import Risk

    if isinstance(value, Risk):
        said = {name: each for name, each in vars(value).items() if each is not None}
        return f"Risk({', '.join(f'{name}={each!r}' for name, each in said.items())})"
    return repr(value)
