"""What can be said about a mechanism on the command line or in a file, each thing once.

Commands are made from the options that a mechanism names, so that ``--help`` lists those and no
others. Flags win over the file.
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a value is written: its type for typer, and how to read it."""

    flag: Any
    read: Callable[[Any], Any]


def _whole(value: Any) -> int:
    number = float(value)
    if number != int(number):
        raise ValueError(f"{value!r} is not a whole number")
    return int(number)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    return [str(word) for word in value]


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _pairs(value: Any) -> dict[str, Any]:
    """NAME=VALUE of each flag, or a mapping of a file as it is."""
    if isinstance(value, Mapping):
        return {str(name): content for name, content in value.items()}
    pairs = [str(word).partition("=") for word in value]
    if any(not name or not sign for name, sign, _ in pairs):
        raise ValueError(f"{', '.join(value)!r} is not NAME=VALUE")
    return {name: content for name, _, content in pairs}


def _nodes(value: Any) -> int | list[str]:
    return int(value) if str(value).isdigit() else _words(value)


NUMBER = Kind(float, float)
COUNT = Kind(int, _whole)
WORD = Kind(str, str)
WORDS = Kind(str, _words)
SWITCH = Kind(bool, _switch)
LEVELS = Kind(list[str], lambda value: {k: _words(v) for k, v in _pairs(value).items()})
LIMITS = Kind(list[str], lambda value: {k: float(v) for k, v in _pairs(value).items()})
NODES = Kind(str, _nodes)

OPTIONS: dict[str, tuple[Kind, str]] = {
    "epsilon": (NUMBER, "Epsilon of the guarantee."),
    "delta": (NUMBER, "Delta of the guarantee."),
    "data_norm": (NUMBER, "Public bound on the Euclidean norm of a row."),
    "label": (WORD, "Column to explain."),
    "label_bound": (NUMBER, "Public bound on the label's absolute value."),
    "sensitivity": (NUMBER, "Largest distance between answers on neighbouring data sets."),
    "components": (COUNT, "Columns of the sketch."),
    "method": (WORD, "How it is done; the API page lists the methods."),
    "relation": (WORD, "Who counts as a neighbour, such as add-remove."),
    "rate": (NUMBER, "Sampling rate of the method 'subsample'."),
    "rounds": (COUNT, "Gradients of the method 'newton'."),
    "mean": (SWITCH, "Release the mean, too."),
    "nodes": (NODES, "Public nodes: their number, or their names, comma-separated."),
    "weight": (WORD, "Column with the weights of edges."),
    "columns": (WORDS, "Columns to read, comma-separated; all by default."),
    "levels": (LEVELS, "Public levels of a categorical column, NAME=A,B,...; repeatable."),
    "clip": (LIMITS, "Public bound on a column's absolute value, NAME=BOUND; repeatable."),
    "intercept": (SWITCH, "Add a column of ones."),
    "public_rows": (COUNT, "The number of rows, only where it is public."),
    "rows": (COUNT, "Rows of the table that is imagined."),
    "width": (COUNT, "Columns of the table that is imagined."),
    "features": (COUNT, "Number of features, without the intercept."),
    "explained": (
        NUMBER,
        "Share of the label that its features explain, as expected; 0.5 if not given.",
    ),
    "set_size": (COUNT, "Nodes of the set whose cut is asked for."),
    "cut": (NUMBER, "Weight of that cut, as expected."),
    "scatter": (NUMBER, "Sum of squares in a direction, as expected."),
    "entries": (COUNT, "Numbers in the answer."),
}

Config = Annotated[
    Path | None,
    typer.Option("--config", help="YAML, TOML or JSON file with any of these options."),
]


class Settings(dict[str, Any]):
    """Values by name, from flags and file; a missing one is a sentence."""

    def need(self, name: str) -> Any:
        """The value, or an error that says how to give it."""
        if name not in self:
            flag = flag_name(name)
            raise ValueError(f"Expected a value for {name}, got none; pass {flag} or a --config.")
        return self[name]

    def named(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The values that are there, under other names."""
        return {theirs: self[ours] for ours, theirs in names.items() if ours in self}


def flag_name(name: str) -> str:
    """How an option is written."""
    return "--" + name.replace("_", "-")


def read_settings(flags: Values, names: Iterable[str], path: Path | None) -> Settings:
    """Put file and flags together, each value read as what it is."""
    allowed = list(names)
    stored = {} if path is None else _read_file(path)
    for name in stored:
        if name not in allowed:
            near = get_close_matches(name, allowed, 1)
            advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(allowed)}."
            raise ValueError(f"Expected settings of this command in {path}, got {name!r}; {advice}")
    given = {name: flags[name] for name in allowed if flags.get(name) is not None}
    settings = Settings()
    for name, value in (stored | given).items():
        try:
            settings[name] = OPTIONS[name][0].read(value)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Expected a proper value for {name}, got {value!r} ({error}); correct it."
            ) from None
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"File {str(path)!r} is not there; check --config.")
    text = path.read_text()
    try:
        if path.suffix == ".toml":
            content: Any = tomllib.loads(text)
        elif path.suffix == ".json":
            content = json.loads(text)
        else:
            import yaml

            content = yaml.safe_load(text)
    except ImportError:
        raise ImportError(
            "Expected PyYAML to read a YAML file, but it is not installed; "
            "run: pip install pyyaml, or write TOML or JSON."
        ) from None
    except Exception as error:  # each of the three formats has its own
        raise ValueError(
            f"Expected a file of settings, got {path}, which cannot be read ({error}); correct it."
        ) from None
    if not isinstance(content, Mapping):
        raise ValueError(f"Expected names and values in {path}, got something else; correct it.")
    return {str(name).replace("-", "_"): value for name, value in content.items()}


def with_options(
    command: Callable[..., None], names: Sequence[str], name: str, summary: str
) -> Callable[..., None]:
    """A command with its own parameters, and an optional flag for each of the names.

    `command` takes the flags together as its first argument.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    flags = [
        inspect.Parameter(
            option,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                OPTIONS[option][0].flag | None,
                typer.Option(flag_name(option), help=OPTIONS[option][1], show_default=False),
            ],
        )
        for option in names
    ]

    def run(**arguments: Any) -> None:
        chosen = {option: arguments.pop(option) for option in names}
        command(chosen, **arguments)

    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = inspect.Signature([*keyword_only, *flags])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *flags)}
    run.__name__, run.__doc__ = name, summary
    return run
