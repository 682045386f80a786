"""Certificates with one field set to another value, and whether what they say is implied.

The files go through the reader and the verifier. A forgery that is called checked has to promise
what its parameters imply, found here by another route: deltas over all epsilons.
"""

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from ndis import Guarantee, Release
from ndis.auditing.certificates import verify
from ndis.calibration import meets
from ndis.mechanisms.multiparty import Agreement, combine, release_party
from ndis.mechanisms.recompute import implied
from ndis.mechanisms.tabular import EARLIER

ROWS = np.random.default_rng(0).random((60, 3))


def parties() -> dict[str, Release]:
    import pandas as pd

    names = ("a", "b", "c")
    agreement = Agreement(
        60,
        {"north": {"a": (0, 1), "b": (0, 1)}, "south": {"c": (0, 1)}},
        epsilon=1.0,
        delta=1e-6,
        key="who",
        seed=7,
    )
    people = pd.DataFrame(ROWS, columns=names).assign(who=range(60))
    north = release_party(agreement, "north", people[["a", "b", "who"]])
    south = release_party(agreement, "south", people[["c", "who"]])
    return {"part": north, "whole": combine(agreement, [north, south])}


# -- forging ------------------------------------------------------------------------------------

# Each field of a promise, set to every other value it can have, or to some that boast.
EDITS: dict[str, list[Any]] = {
    "basis": ["proven", "relative", "declared", "refuted"],
    "relation": ["add-remove", "replace", "row-shift", "edge", "party"],
    "note": ["", EARLIER, "Audited by the authority."],
    "epsilon": [0.0, 0.1, 0.999, 1.001, 5.0],
    "delta": [0.0, 1e-9, 0.99e-6, 1.01e-6, 1e-3, 1.0],
    "private": [False],
    "loss": [None],
}
MECHANISMS = ("GaussianMechanism", "PrivateLimits", "PrivateCovariance", "MultiPartyPart", "Better")
ADDED = (
    "better",
    "label",
    "shape",
    "method",
    "share",
    "leverage",
    "parts",
    "per_party",
    "key_order",
)

Place = tuple[Any, ...]


def places(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Where something stands in a nested document, and what; of long lists a few places."""
    yield path, value
    if isinstance(value, Mapping):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index in sorted({0, len(value) // 2, len(value) - 1}) if value else ():
            yield from places(value[index], (*path, index))


def others(value: Any) -> list[Any]:
    """Better values, worse ones, and ones of another kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [1.001 * value, 0.999 * value, 0, -value, 1e3 * value, "better"]
    if isinstance(value, str):
        try:
            number = float.fromhex(value)
        except ValueError:
            return [f"{value} Audited.", "better", ""]
        return [(0.999 * number).hex(), (1e-3 * number).hex(), "better"]
    if isinstance(value, list):
        return [value[:-1], [*value, *value[-1:]], []]
    return [{}] if value else ["0" * 64]


def put(document: Any, path: Place, value: Any) -> Any:
    """The same document with something else in one place."""
    changed = copy.deepcopy(document)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return changed


def edits(document: Mapping[str, Any], *, few: bool) -> Iterator[tuple[Place, Any]]:
    """Every field with every other value that is tried for it."""
    for name, values in EDITS.items():
        yield from ((("guarantee", name), value) for value in values)
    yield from ((("mechanism",), name) for name in MECHANISMS)
    yield from ((("parameters", name), "better") for name in ADDED)
    for start, inside in (
        (("guarantee", "loss"), document["guarantee"]["loss"]),
        (("parameters",), document["parameters"]),
    ):
        for path, value in places(inside):
            chosen = others(value)[: 1 if few else None]
            yield from (((*start, *path), other) for other in chosen)


def forgeries(honest: Release, *, few: bool = False) -> Iterator[tuple[str, Release | None]]:
    """Files with one field changed; None in place of those that no reader takes."""
    document = honest.certificate()
    for path, value in edits(document, few=few):
        changed = put(document, path, value)
        if changed == document:
            continue
        what = f"{'.'.join(map(str, path))} = {str(value)[:40]}"
        try:
            promise = Guarantee.from_dict(changed["guarantee"])
            made = Release(honest.arrays, promise, changed["mechanism"], changed["parameters"])
            made.measure()
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
            yield what, None
        else:
            yield what, made


# -- judging ------------------------------------------------------------------------------------

GRID = np.array([-8.0, -1.0, 0.0, 0.3, 0.9, 1.5, 3.0, 8.0, 20.0, 60.0])


CURVES: dict[str, Any] = {}


def log_deltas(loss: Any) -> Any:
    text = stored(loss)
    if text not in CURVES:
        CURVES[text] = np.maximum(np.asarray(loss.log_delta(GRID), dtype=np.float64), -600.0)
    return CURVES[text]


def is_implied(stated: Release) -> bool:
    """Whether the parameters of a release imply all that its promise says."""
    found = remembered(stated.mechanism, stated.parameters, stated.guarantee.delta)
    assert found is not None
    promise, own = stated.guarantee, found.guarantee
    notes = (own.note, f"{own.note} {EARLIER}".strip())
    words = (promise.relation, promise.basis) == (own.relation, own.basis) and promise.note in notes
    kept = float(found.loss.log_delta(promise.epsilon)) <= np.log(promise.delta) + 1e-7
    return (
        words and kept and np.allclose(log_deltas(promise.loss), log_deltas(found.loss), rtol=1e-6)
    )


PLANS: dict[Any, Any] = {}


def remembered(mechanism: str, parameters: Mapping[str, Any], delta: float, _: float = 0.0) -> Any:
    """The plan, but for its epsilon, which nobody compares."""
    key = (mechanism, json.dumps(parameters), delta)
    if key not in PLANS:
        try:
            PLANS[key] = implied(mechanism, parameters, delta, 1.0)
        except Exception as error:
            PLANS[key] = error
    if isinstance(PLANS[key], Exception):
        raise PLANS[key]
    return PLANS[key]


HONEST: set[str] = set()
KEPT: dict[Any, bool] = {}


def meets_once(loss: Any, epsilon: float, delta: float) -> bool:
    """Of a loss that was forged believe everything: whoever compares it must refuse it."""
    key = (stored(loss), epsilon, delta)
    if key not in KEPT:
        KEPT[key] = key[0] not in HONEST or meets(loss, epsilon, delta)
    return KEPT[key]


def stored(loss: Any) -> str:
    return json.dumps(loss.to_dict())


def judged(honest: Release, *, few: bool = False) -> Counter[str]:
    """What became of the forgeries of a release; what is wrong is named in an AssertionError."""
    found: Counter[str] = Counter()
    HONEST.add(stored(honest.guarantee.loss))
    with (  # works out once what forgeries share
        mock.patch("ndis.auditing.certificates.implied", remembered),
        mock.patch("ndis.auditing.certificates.meets", meets_once),
    ):
        for what, forgery in forgeries(honest, few=few):
            outcome = "not read" if forgery is None else verify(forgery).outcome
            if forgery is not None and outcome == "checked":
                assert is_implied(forgery), what
                outcome = "implied"
            found[outcome] += 1
    return found
