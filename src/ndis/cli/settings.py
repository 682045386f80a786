"""How values are written on the command line or in a file of settings, each kind once.

Options are the parameters of an estimator under their own names: what they mean is said in its
docstring, and how a value is written follows from the parameter's name or from its type there.
Flags win over the file.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from ndis._validate import installed, read_text
from ndis.cli.console import deliver, drawable, known_as
from ndis.cli.help import Helped
from ndis.cli.mistakes import Commands, missing

Values = Mapping[str, Any]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
# Of a file of settings, in bytes; YAML takes the longest, about 15 s at this length.
_MOST_SETTINGS = 2**20


@dataclass(frozen=True)
class Option:
    """A thing that can be said about a mechanism: how it is written, and what it means.

    A type for typer, how a value is read, what `--help` shows, what a mistake expected.
    """

    flag: Any
    read: Callable[[Any], Any]
    shown: str | None
    expected: str
    help: str = ""

    def __call__(self, said: str) -> Option:
        """The same for a thing that means this."""
        return replace(self, help=said)


class Mistake(ValueError):
    """What an option expects, what it got, and what to do."""


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _whole(value: Any) -> int:
    with suppress(ValueError):
        if isinstance(value, str):
            return int(value)
    number = _number(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _whole_or_word(value: Any) -> Any:
    return value if isinstance(value, str) and value.isalpha() else _whole(value)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",")]
    return [str(word) for word in value]


def _groups(value: Any) -> list[Any]:
    """Columns, or several lists of columns."""
    if isinstance(value, str):
        found = [_words(each) for each in value.split(";")]
        return found[0] if len(found) == 1 else found
    return [str(each) if isinstance(each, str) else _words(each) for each in value]


def _items(value: Any) -> list[Any]:
    return list(_words(value) if isinstance(value, str) else value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _pairs(value: Any) -> dict[str, Any]:
    """NAME=VALUE of each flag, or a mapping of a file as it is."""
    if isinstance(value, Mapping):
        return {str(name): content for name, content in value.items()}
    pairs = [str(word).partition("=") for word in ([value] if isinstance(value, str) else value)]
    if any(not name or not sign for name, sign, _ in pairs):
        raise ValueError
    _require_once([name for name, *_ in pairs])
    return {name: content for name, _, content in pairs}


def _require_once(names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Mistake(f"each column once, got {twice!r} twice; leave one of the two out.")


def _range(value: Any) -> Any:
    """LOW:HIGH, or a pair of a file; numbers, or dates written YYYY-MM-DD."""
    if value == "private":
        return value
    low, high = value.split(":") if isinstance(value, str) else value
    return _bound(low), _bound(high)


def _bound(word: Any) -> Any:
    text = str(word).strip()
    if re.fullmatch(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", text):
        raise Mistake(f"dates such as 2015-01-31, got {text!r}; write it like that.")
    return text if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else float(text)


def _limits(value: Any) -> Any:
    """Limits of each column; the last sign of equality stands before them, whatever the name."""
    if value in ("private", ["private"]):
        return "private"
    if isinstance(value, Mapping):
        pairs = {str(name): pair for name, pair in value.items()}
    else:
        words = [value] if isinstance(value, str) else value
        pairs = dict(str(word).rpartition("=")[::2] for word in words)
        for word in words:
            if re.search(r"=[^=]*:[^=]*,[^=]*=", str(word)):
                raise Mistake(f"one column at a time, got {word!r}; repeat the option.")
        _require_once([str(word).rpartition("=")[0] for word in words if "=" in str(word)])
    found = {}
    for name, pair in pairs.items():
        try:
            found[name] = _range(pair)
        except Mistake:
            raise
        except (TypeError, ValueError):
            shown = f"{name}={pair}" if name else pair
            raise Mistake(f"NAME=LOW:HIGH or NAME=private, got {shown!r}; correct it.") from None
    return found


def _noise(value: Any) -> Any:
    """A number, or NAME=NUMBER of each part."""
    words = value if isinstance(value, list | tuple) else [value]
    if not isinstance(value, Mapping) and len(words) == 1 and "=" not in str(words[0]):
        return _number(words[0])
    return {name: _number(content) for name, content in _pairs(value).items()}


def _values(value: Any) -> list[Any]:
    """Values of a column, comma-separated: whole numbers if they all are, else words."""
    words = [value] if isinstance(value, int) else _words(value)
    try:
        return [int(word) for word in words]
    except ValueError:
        return words


def _shape(value: Any) -> Any:
    """A number, or the numbers of rows and columns."""
    sizes = [_whole(word) for word in (_words(value) if isinstance(value, str) else [value])]
    return sizes[0] if len(sizes) == 1 else tuple(sizes)


def _matrix(value: Any) -> Any:
    """A matrix, from a text file with a line for each row."""
    import numpy as np

    return np.loadtxt(value, delimiter=",", ndmin=2) if isinstance(value, str) else value


def _risk(value: Any) -> Any:
    from ndis.risk import Risk

    return Risk(**value) if isinstance(value, Mapping) else Risk.parse(value)


def _nodes(value: Any) -> int | list[Any]:
    return int(value) if str(value).isdigit() else _values(value)


NUMBER = Option(str, _number, "NUMBER", "a number")
COUNT = Option(str, _whole, "COUNT", "a whole number")
WORD = Option(str, str, "WORD", "a word")
COUNT_OR_WORD = Option(str, _whole_or_word, "COUNT", "a whole number or a word such as auto")
PATH = Option(str, Path, "PATH", "a path")
WORDS = Option(str, _words, "A,B,...", "words separated by commas")
GROUPS = Option(
    str, _groups, "A,B,...", "words separated by commas; several lists of them by semicolons"
)
VALUES = Option(str, _values, "A,B,...", "values separated by commas")
NUMBERS = Option(
    str, lambda value: [_number(word) for word in _items(value)], "A,B,...", "numbers with commas"
)
SWITCH = Option(bool, _switch, None, "true or false")
LEVELS = Option(
    list[str],
    lambda value: {name: _words(known) for name, known in _pairs(value).items()},
    "NAME=A,B,...",
    "a column and its levels, NAME=A,B,...",
)
FORMATS = Option(
    list[str], _pairs, "NAME=%d.%m.%Y", "a column and the format of its dates, NAME=%d.%m.%Y"
)
RANGE = Option(str, _range, "LOW:HIGH", "two numbers or dates, LOW:HIGH")
LIMITS = Option(
    list[str],
    _limits,
    "NAME=LOW:HIGH",
    "a column and two numbers or dates, NAME=LOW:HIGH, or private",
)
NOISE = Option(list[str], _noise, "NUMBER or NAME=NUMBER", "a number, or NAME=NUMBER for each part")
SHAPE = Option(str, _shape, "N or ROWS,COLUMNS", "a whole number, or two with a comma")
MATRIX = Option(str, _matrix, "FILE", "a text file with the rows of a matrix, comma-separated")
SETS = Option(
    list[str], lambda value: [_values(each) for each in value], "A,B,...", "nodes with commas"
)
RISK = Option(
    str,
    _risk,
    "NAME=VALUE,...",
    "a risk such as advantage=0.1, or true_positive=0.1 with false_positive=0.01 after a comma,",
)
NODES = Option(str, _nodes, "N or A,B,...", "a number of nodes, or their names with commas")

# Parameters of commands, by their types.
_OF_TYPES = {str: WORD, int: COUNT, float: NUMBER, bool: SWITCH, Path: PATH}
# Parameters whose type alone does not say how they are written.
BY_NAME = {
    "columns": WORDS,
    "by": GROUPS,
    "quantiles": NUMBERS,
    "names": WORDS,
    "levels": LEVELS,
    "limits": LIMITS,
    "label_limits": RANGE,
    "classes": VALUES,
    "target": RISK,
    "nodes": NODES,
    "sets": SETS,
}
# The others, by the first words of their type in the docstring.
BY_TYPE = (
    ("array_like", MATRIX),
    ("bool", SWITCH),
    ("int or tuple", SHAPE),
    ("int or", COUNT_OR_WORD),
    ("int", COUNT),
    ("float", NUMBER),
    ("(float", RANGE),
    ("str", WORD),
    ("{", WORD),
    ("NeighbourRelation", WORD),
)

# Parameters of many commands, and what is checked before any work.
SHARED = {
    "as_json": ("bool", "Print JSON instead of a table."),
    "as_csv": ("bool", "Print CSV instead of a table."),
    "as_markdown": ("bool", "Print Markdown."),
    "as_html": ("bool", "Print HTML, to be put into a page."),
    "verbose": ("bool", "Name the mechanism and the released arrays as well."),
    "config": ("path", "YAML, TOML or JSON file with any of these options."),
    "path": ("RELEASE", "The release file."),
    "place": ("LEDGER", "A file, or postgresql://user@host/database#schema."),
    "sign": ("path", "Sign it with this Ed25519 key (PEM)."),
    "report": ("path", "Write an HTML page to share: the mechanism, nothing about the table."),
    "owner_report": ("path", "Write an HTML page for the owner only: what was found on the table."),
    "show_rows": ("bool", "Show the data of the worst rows in the owner's page."),
    "source": ("INPUT", "Parquet, Arrow, CSV, TSV or xlsx file, folder, pattern or address."),
}
CHECKS = {"plot": drawable}
# Parameters that errors name, and options that are called otherwise or belong to `ndis ledger`.
_ELSEWHERE = {"random_state": "--seed", "accept": "--accept"}


def described(documented: Any) -> dict[str, tuple[str, str]]:
    """Type and meaning of each parameter in a numpydoc docstring; a class has its bases' too.

    Examples
    --------
    >>> from ndis.cli.settings import described
    >>> from ndis.mechanisms.tabular import TableEstimator
    >>> described(TableEstimator)["epsilon"]
    ('float', 'What is to be promised; always asked for.')
    """
    found: dict[str, tuple[str, str]] = {}
    family = reversed(documented.__mro__) if inspect.isclass(documented) else [documented]
    for each in family:
        text = inspect.cleandoc(each.__doc__ or "")
        section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, re.M | re.S)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else []:
            head, _, body = entry.partition("\n")
            names, _, kind = head.partition(" : ")
            meaning = " ".join(body.split()).replace("`", "")
            if kind:  # "As for ..." repeats what a base has said
                found |= {name.strip(): (kind.strip(), meaning) for name in names.split(",")}
    return found


def as_option(name: str, kind: str, meaning: str) -> Option | None:
    """The option for a parameter; None if it cannot be written on a command line."""
    by_type = next((known for prefix, known in BY_TYPE if kind.startswith(prefix)), None)
    written = by_type if by_type is MATRIX else BY_NAME.get(name, by_type)
    return None if written is None else written(_first_sentence(meaning))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", text + " ", maxsplit=1)[0].rstrip(";.").strip() + "."


class Settings(dict[str, Any]):
    """Values by name, from flags and file."""

    def need(self, call: str, *names: str) -> None:
        """Refuse the call unless all are there; a name may be several, of which one is enough."""
        absent = [name for name in names if self.keys().isdisjoint(name.split("|"))]
        if absent:
            raise ValueError(missing([_either(name) for name in absent], call))


def _either(name: str) -> str:
    return " or ".join(map(flag_name, name.split("|")))


def flag_name(name: str) -> str:
    """How an option is written; words in capitals are arguments."""
    return name if name.isupper() else "--" + name.replace("_", "-")


def read_settings(flags: Values, options: Mapping[str, Option], path: Path | None) -> Settings:
    """Put file and flags together, each value read as what it is."""
    stored = {} if path is None else read_file(path)
    for name in stored:
        if name not in options:
            near = get_close_matches(name, options, 1)
            advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(options)}."
            raise ValueError(f"Expected settings of this command in {path}, got {name!r}; {advice}")
    given = {name: flags[name] for name in options if flags.get(name) is not None}
    settings = Settings()
    for name, value in (stored | given).items():
        option = options[name]
        try:
            settings[name] = option.read(value)
        except Mistake as mistake:
            where = flag_name(name) if name in given else f"{name} in {path}"
            raise ValueError(f"Expected {where} with {mistake}") from None
        except (TypeError, ValueError, OverflowError):
            where = flag_name(name) if name in given else f"{name} in {path}"
            shown = ", ".join(value) if isinstance(value, list | tuple) else value
            raise ValueError(
                f"Expected {option.expected} for {where}, got {shown!r}; correct it."
            ) from None
    return settings


def read_file(path: Path) -> dict[str, Any]:
    """Names and values in a YAML, TOML or JSON file."""
    if not path.is_file():
        raise FileNotFoundError(f"File {str(path)!r} is not there; check --config.")
    readers: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix not in readers:
        with installed("PyYAML to read a YAML file", "pyyaml, or write TOML or JSON"):
            import yaml

        class Loader(yaml.SafeLoader):  # type: ignore[misc]
            """Without aliases, by which a short file stands for a very long one."""

            def compose_node(self, parent: Any, index: Any) -> Any:
                if self.check_event(yaml.AliasEvent):
                    raise ValueError("it has an alias; write the value again")
                return super().compose_node(parent, index)

        readers[path.suffix] = partial(yaml.load, Loader=Loader)
    try:
        content = readers[path.suffix](read_text(path, _MOST_SETTINGS))
    except Exception as error:  # each of the three formats has its own
        raise ValueError(
            f"Expected a file of settings, got {path}, which cannot be read ({error}); correct it."
        ) from None
    if not isinstance(content, Mapping):
        raise ValueError(f"Expected names and values in {path}, got something else; correct it.")
    return {str(name).replace("-", "_"): value for name, value in content.items()}


def as_command(
    command: Callable[..., Any],
    call: str = "",
    options: Mapping[str, Option] | None = None,
    summary: str = "",
    needed: Sequence[str] = (),
) -> Any:
    """A function as a command; `call` is what is typed after `ndis`, by default its name.

    Its parameters become arguments and, after the ``*``, options, written as their types tell;
    their meaning is read from its docstring, or from `SHARED`. Where it says that it returns a
    `Reply`, that is printed in the form that is asked for. Further `options`, a flag each or a line
    of the file ``--config``, come together as its first argument: as `settings`, or as `flags`,
    just as they were typed. Its help names what is needed first.
    """
    documented = getattr(command, "func", command)
    name, text = call or documented.__name__, inspect.cleandoc(documented.__doc__ or "")
    signature, about = inspect.signature(command, eval_str=True), SHARED | described(documented)
    own = list(signature.parameters.values())
    first, further = own.pop(0).name if options is not None else "", options or {}
    forms = getattr(signature.return_annotation, "forms", ())
    own += [inspect.Parameter(form, _KEYWORD, default=False, annotation=bool) for form in forms]
    if first == "settings":
        own.append(inspect.Parameter("config", _KEYWORD, default=None, annotation=Path | None))
    mine = {each.name: _option_of(each, *about[each.name]) for each in own}
    arguments = {each.name: str(mine[each.name].shown) for each in own if each.kind is not _KEYWORD}
    asked = [arguments.get(each.name, each.name) for each in own if each.default is each.empty]
    starred = (*needed, *asked)

    flags = _ELSEWHERE | {each: _form_flag(each) for each in (*mine, *further)}

    def run(**typed: Any) -> None:
        with known_as(flags):
            answer(**typed)

    def answer(**typed: Any) -> None:
        given = read_settings(typed, mine, None)
        for which in CHECKS.keys() & given:
            CHECKS[which](given[which])
        told: Values = {option: typed[option] for option in further}
        if first == "settings":
            told = read_settings(told, further, given.pop("config", None))
        here = {shown: True for each, shown in arguments.items() if each in given}
        Settings({**told, **given, **here}).need(f"ndis {name}", *starred)
        wanted = {form: given.pop(form, False) for form in forms}
        if sum(wanted.values()) > 1:
            asked = " and ".join(_form_flag(form) for form in forms if wanted[form])
            raise ValueError(f"Expected one form of the answer, got {asked}; choose one.")
        reply = command(**given, **({first: told} if first else {}))
        if forms:
            deliver(reply, **wanted)
            if reply.code:
                raise typer.Exit(reply.code)

    shown = [_parameter(each.name, mine[each.name], each) for each in own]
    shown += [_parameter(each, option) for each, option in further.items()]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in shown}
    run.__doc__ = summary or text.partition("\nParameters\n-")[0].strip()
    made = alone(run, name.rpartition(" ")[2], cls=Helped)
    made.needed = starred
    return made


def _option_of(parameter: inspect.Parameter, kind: str, meaning: str) -> Option:
    """How a parameter of a command is written; a type in capitals is shown as it is."""
    type_ = (get_args(parameter.annotation) or [parameter.annotation])[0]
    several = list in (get_origin(type_), get_origin(parameter.annotation))
    each = _OF_TYPES[get_args(type_)[0] if get_args(type_) else type_]
    default = parameter.default
    if not (default in (None, "", parameter.empty) or isinstance(default, bool)):
        meaning = f"{meaning} By default {default}."
    option = replace(each, shown=kind if kind[:1].isupper() else each.shown, help=meaning)
    if not several:
        return option
    return replace(option, flag=list[str], read=lambda values: [each.read(v) for v in values])


def _form_flag(name: str) -> str:
    """How an option is written; one for a form of the reply without what tells it from a module."""
    return flag_name(re.sub("^as_(?=json|csv|markdown|html)", "", name))


def _parameter(
    name: str, option: Option, own: inspect.Parameter | None = None
) -> inspect.Parameter:
    """A parameter as typer wants it; what is missing is told later."""
    how: Any = {"help": option.help, "metavar": option.shown, "show_default": False}
    flag = _form_flag(name)
    if option.flag is bool and (own is None or own.default is not False):
        flag += f"/--no-{flag[2:]}"
    is_option = own is None or own.kind is _KEYWORD
    info = typer.Option(flag, **how) if is_option else typer.Argument(**how)
    return inspect.Parameter(
        name, _KEYWORD, default=None, annotation=Annotated[option.flag | None, info]
    )


def alone(run: Callable[..., Any], name: str, **how: Any) -> Any:
    """A function as typer takes it, as a command."""
    single = typer.Typer(add_completion=False)
    single.command(name, **how)(run)
    return typer.main.get_command(single)


def group(name: str, summary: str, *commands: Callable[..., Any]) -> Commands:
    """A group of commands, each called as its function."""
    made = Commands(name=name, help=summary, no_args_is_help=True)
    made.children = {command.__name__: command for command in commands}
    made.make = lambda command: as_command(command, f"{name} {command.__name__}")
    return made
