"""The certificate of a release: JSON of a public schema, checked whenever it is written or read."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

SCHEMA = "ndis-release/2"

# A reader needs about 10 s to prove a delta of a loss of this size in ball arithmetic.
MOST_TERMS = 6000


def parse(text: bytes) -> dict[str, Any]:
    """A certificate from its text, checked against the schema; raises half a sentence."""
    try:
        found = json.loads(text.decode("ascii"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError("its certificate is not JSON") from None
    if isinstance(found, dict) and found.get("schema") != SCHEMA:
        raise ValueError(f"its certificate is of schema {found.get('schema')!r}, not {SCHEMA!r}")
    try:
        check(found)
    except ValueError as error:
        raise ValueError(f"its {error}") from None
    return dict(found)


def check(certificate: Any) -> None:
    """Refuse what the schema does not allow, by half a sentence."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator()(certificate)
    except JsonSchemaValueException as error:
        raise ValueError(error.message.replace("data", "certificate", 1)) from None
    if _terms(certificate["guarantee"]["loss"]) > MOST_TERMS:
        raise ValueError(f"certificate.guarantee.loss has more than {MOST_TERMS} terms")


def _terms(loss: Any) -> int:
    """How many numbers a reader must work with; a table of masses is cheap at any length."""
    if isinstance(loss, dict):
        return sum(_terms(value) for name, value in loss.items() if name != "mass")
    return len(loss) + sum(map(_terms, loss)) if isinstance(loss, list) else 0


def most_epsilon() -> float:
    """The largest epsilon that a certificate may state, by its schema."""
    promise = _schema()["properties"]["guarantee"]["properties"]
    return float(promise["epsilon"]["maximum"])


@functools.cache
def _schema() -> dict[str, Any]:
    return dict(json.loads(resources.files("ndis.release").joinpath("schema.json").read_text()))


@functools.cache
def _validator() -> Any:
    import fastjsonschema

    return fastjsonschema.compile(_schema())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def as_text(certificate: Mapping[str, Any]) -> bytes:
    """The one text of a certificate."""
    return json.dumps(certificate, indent=1, sort_keys=True, allow_nan=False).encode("ascii")


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back; numpy's numbers become Python's."""
    found = {}
    for name, value in parameters.items():
        try:
            found[name] = json.loads(json.dumps(value, default=_unwrapped, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"Expected parameters that JSON can hold, got {name} with something else ({error});"
                " pass numbers, text, lists or mappings."
            ) from None
    return found


def _unwrapped(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not serialisable")
