"""Validators with one voice.

Every check returns the validated value, so that it can be used in an assignment, and
raises one sentence that says what was expected, what came, and what to do. Messages show
parameters, which are public; they never show a figure computed from the data. An error carries
the parameters that its sentence names (`naming`), so that a command line can write them as its
options and a form can point at its fields.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Told = TypeVar("Told", bound=BaseException)
Value = TypeVar("Value")
Rest = ParamSpec("Rest")


# Why something takes no column of people, after its name.
NOT_OF_PEOPLE = (
    "which adds up no rows of people, so that no weights could protect them; make one row of each "
    "person first (the mean of their rows), and a promise for that row is one for the person."
)


def naming(error: Told, *parameters: str) -> Told:
    """The error, carrying the parameters that its sentence names, as `error.parameters`.

    Where one of these words stands in the sentence, alone or as ``name=value``, it must mean the
    parameter: the command line writes an option there (`ndis.cli.console.complain`).
    """
    vars(error)["parameters"] = parameters
    return error


def wrong(*parameters: str, kind: type[Told] = ValueError) -> Callable[[str], Told]:  # type: ignore[assignment]
    """What makes a sentence an error that carries these parameters.

    Examples
    --------
    >>> from ndis._validate import wrong
    >>> wrong("header")("Expected a header, got none; pass header=False.").parameters
    ('header',)
    """
    return lambda sentence: naming(kind(sentence), *parameters)


def parameters_of(error: BaseException) -> tuple[str, ...]:
    """The parameters that an error names; none if it does not say."""
    return tuple(getattr(error, "parameters", ()))


def _naming_it(
    check: Callable[Concatenate[str, Rest], Value],
) -> Callable[Concatenate[str, Rest], Value]:
    """The check, whose errors carry what was checked; of ``limits of 'age'`` that is limits."""

    @wraps(check)
    def checked(name: str, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Value:
        try:
            return check(name, *args, **kwargs)
        except (TypeError, ValueError) as error:
            naming(error, *re.findall(r"^\w+", name))
            raise

    return checked


@_naming_it
def real(name: str, value: Any) -> float:
    """Return `value` as a finite float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected {name} to be a real number, got {name}={value!r}; pass a float.")
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(
            f"Expected {name} to be finite, got {name}={result}; pass a finite number."
        )
    return result


@_naming_it
def positive(name: str, value: Any) -> float:
    """Return `value` as a float > 0."""
    result = real(name, value)
    if result <= 0:
        raise ValueError(f"Expected {name} > 0, got {name}={result}; pass a positive number.")
    return result


@_naming_it
def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float >= 0."""
    result = real(name, value)
    if result < 0:
        raise ValueError(f"Expected {name} >= 0, got {name}={result}; pass a non-negative number.")
    return result


@_naming_it
def probability(name: str, value: Any) -> float:
    """Return `value` as a float in the open interval (0, 1)."""
    result = real(name, value)
    if not 0 < result < 1:
        raise ValueError(
            f"Expected 0 < {name} < 1, got {name}={result}; pass a number strictly between 0 and 1."
        )
    return result


@_naming_it
def count(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int >= `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"Expected {name} to be an integer, got {name}={value!r}; pass an int.")
    result = int(value)
    if result < least:
        raise ValueError(
            f"Expected {name} >= {least}, got {name}={result}; pass an integer of at least {least}."
        )
    return result


@_naming_it
def one_of(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`."""
    known = list(options)
    if value not in known:
        listed = ", ".join(repr(option) for option in known)
        raise ValueError(f"Expected {name} to be one of {listed}, got {name}={value!r}.")
    return str(value)


@_naming_it
def floats(name: str, value: ArrayLike, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Return `value` as a float64 array of finite numbers, of this shape if given; None is any."""
    try:
        result = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"Expected {name} to hold real numbers, got {type(value).__name__}; "
            "pass numbers or an array of numbers."
        ) from None
    known = [a if b is None else b for a, b in zip(result.shape, shape or (), strict=False)]
    if shape is not None and (result.ndim != len(shape) or known != [*result.shape]):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"Expected {name} of shape ({wanted}), got shape {result.shape}; reshape it."
        )
    if not np.all(np.isfinite(result)):
        raise ValueError(
            f"Expected {name} to be finite, got a NaN or infinite entry; remove or replace it."
        )
    return result


@_naming_it
def floats_within(
    name: str, value: ArrayLike, low: float, high: float, *, closed: bool = True
) -> FloatArray:
    """Return `value` as a float64 array with every entry in [low, high] (or inside it)."""
    result = floats(name, value)
    inside = (result >= low) & (result <= high) if closed else (result > low) & (result < high)
    if not np.all(inside):
        offender = float(result[~inside].flat[0])
        sign = "<=" if closed else "<"
        bounds = (
            f"{low:g} {sign} {name} {sign} {high:g}"
            if high < math.inf
            else (f"{name} {'>=' if closed else '>'} {low:g}")
        )
        raise ValueError(f"Expected {bounds}, got {name}={offender}; pass values in that range.")
    return result


def epsilons(value: ArrayLike) -> FloatArray:
    """Return epsilons as a float64 array; any finite real number is an epsilon."""
    return floats("epsilon", value)


def deltas(value: ArrayLike) -> FloatArray:
    """Return deltas as a float64 array in [0, 1]."""
    return floats_within("delta", value, 0.0, 1.0)


def not_installed(what: str, how: str) -> ImportError:
    """The error where a package is missing: what it is for, and how pip gets it."""
    return ImportError(f"Expected {what}, but it is not installed; run: pip install {how}.")


@contextmanager
def installed(what: str, how: str) -> Iterator[None]:
    """Imports that may fail, told by `not_installed`."""
    try:
        yield
    except ImportError:
        raise not_installed(what, how) from None


def require_folder(path: Path, what: str) -> None:
    """Refuse a file for something in a folder that is not there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"Expected a folder for the {what}, got {path.parent}, which is not there; make it."
        )


# What is read whole, such as an agreement, may have so many bytes: parsed it takes up to forty
# times as many.
MOST_TEXT = 2**22


def read_text(path: str | Path, most: int = MOST_TEXT) -> str:
    """The text of a file that is to be read whole; a long one is refused before it is read."""
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"Expected at most {most} bytes in {path}, got more; check the file.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(
            f"Expected text in {path}, got something else; unpack or convert it."
        ) from None


def printable(text: str) -> str:
    """Text in which nothing can move a cursor, change a colour or turn the reading direction."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# Whoever is named before the host of an address, and the values in its query.
_USER = re.compile(r"://(?:[^\s'\"]*:[^\s'\"]*|[^\s'\"/]*)@")
_QUERY = re.compile(r"([?&;][\w.-]+=)[^&#\s'\"]*")


def without_secrets(text: str) -> str:
    """Text in which no address shows a user, a password or a key.

    Examples
    --------
    >>> from ndis._validate import without_secrets
    >>> without_secrets("no such host: postgresql://me:p@ss/word@host/db?sslpassword=x#ndis")
    'no such host: postgresql://...@host/db?sslpassword=...#ndis'
    """
    return _QUERY.sub(r"\1...", _USER.sub("://...@", text))


class Address(str):
    """An address that opens what it names and shows no secret, whoever prints or formats it.

    Examples
    --------
    >>> from ndis._validate import Address
    >>> address = Address("postgresql://me:secret@host/db")
    >>> print(address, [address], address == "postgresql://me:secret@host/db")
    postgresql://...@host/db ['postgresql://...@host/db'] True
    """

    __slots__ = ()

    def __new__(cls, address: str) -> Self:
        return super().__new__(cls, "".join(address))  # where str() would take what is shown

    def __str__(self) -> str:
        """What may be printed, logged or published."""
        return without_secrets("".join(self))

    def __repr__(self) -> str:
        """The same, quoted."""
        return repr(str(self))
