"""No field of a certificate can be set to another value and still be called checked.

Either the verifier refuses the file, or what the file promises is what its parameters imply, found
here by another route: deltas over all epsilons.
"""

import copy
import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimators import Case, all_cases, fitted, parameters
from ndis import GaussianMechanism, Guarantee, Ledger, Release
from ndis.auditing.certificates import verify
from ndis.calibration import meets
from ndis.mechanisms.multiparty import Agreement, combine, release_party
from ndis.mechanisms.recompute import implied
from ndis.mechanisms.tabular import EARLIER

ROWS = np.random.default_rng(0).random((60, 3))
CASES = parameters(all_cases())


def made(case: Case) -> Release:
    return fitted(case).release_


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
    "size",
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


def forgeries(honest: Release, *, few: bool = False) -> Iterator[tuple[str, Release]]:
    """Files with one field changed that a reader takes; it refuses the others."""
    document = honest.certificate()
    for path, value in edits(document, few=few):
        changed = put(document, path, value)
        if changed == document:
            continue
        try:
            promise = Guarantee.from_dict(changed["guarantee"])
            made = Release(honest.arrays, promise, changed["mechanism"], changed["parameters"])
            made.measure()
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
            continue
        yield f"{'.'.join(map(str, path))} = {str(value)[:40]}", made


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work out once what forgeries share."""
    monkeypatch.setattr("ndis.auditing.certificates.implied", remembered)
    monkeypatch.setattr("ndis.auditing.certificates.meets", meets_once)


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


def judge(honest: Release, *, few: bool = False) -> None:
    tried = 0
    HONEST.add(stored(honest.guarantee.loss))
    for what, forgery in forgeries(honest, few=few):
        tried += 1
        if verify(forgery).outcome == "checked":
            assert is_implied(forgery), what
    assert tried > 30


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_forgery_is_refused_or_implied(case: Case, quick: None) -> None:
    honest = made(case)
    checkable = honest.mechanism != "GaussianOutput"  # whose functions are in no file
    assert verify(honest).outcome == ("checked" if checkable else "not checkable")
    judge(honest, few=True)


@pytest.mark.evidence
@pytest.mark.parametrize("case", CASES)
def test_more_forgeries(case: Case, quick: None) -> None:
    """Several other values for each field, not one."""
    judge(made(case))


@pytest.mark.parametrize("kind", ["part", "whole"])
def test_forgeries_of_parties(kind: str, quick: None) -> None:
    honest = parties()[kind]
    assert verify(honest).outcome == "checked"
    judge(honest, few=True)


def test_a_few_that_passed(tmp_path: Path) -> None:
    """Each was called checked once; through a file, as a stranger would send it."""
    honest = made(next(case for case in all_cases() if case.name == "projection leverage"))
    assert honest.guarantee.basis == "relative"
    better: dict[str, dict[str, Any]] = {
        "basis": {"basis": "proven"},
        "note": {"note": "Audited by the authority."},
        "no note": {"note": ""},
    }
    for name, change in better.items():
        promise = Guarantee.from_dict({**honest.guarantee.to_dict(), **change})
        forgery = Release(honest.arrays, promise, honest.mechanism, honest.parameters)
        again = Release.load(forgery.save(tmp_path / f"{name}.npz"))
        assert verify(again).outcome == "refuted", name


def test_what_no_file_can_show_is_the_publishers_word() -> None:
    told = verify(GaussianMechanism(1.0, 1e-6, sensitivity=1.0).release([1.0])).not_checked
    assert "that no fixed seed was used: the publisher says so" in told
    assert any("compare" in each for each in verify(parties()["whole"]).not_checked)


def test_a_ledger_that_was_charged_for_less_does_not_know_the_release(tmp_path: Path) -> None:
    release = GaussianMechanism(1.0, 1e-6, sensitivity=2.0).release(ROWS)
    little = GaussianMechanism(0.01, 1e-6, sensitivity=2.0).guarantee()
    with Ledger.create(tmp_path / "budget", 5.0, 1e-3, "add-remove", accept=["declared"]) as ledger:
        ledger.complete(ledger.spend(little, release.mechanism), release.digest)
        found = {each.what: each for each in verify(release, ledger=ledger).checks}
    assert found["the ledger knows the release"].outcome == "failed"
    assert found["the ledger knows the release"].why == "another promise was paid for"


def test_arrays_that_no_mechanism_makes() -> None:
    honest = GaussianMechanism(1.0, 1e-6, sensitivity=2.0).release(ROWS)
    for arrays in (ROWS.astype(np.float32), np.where(ROWS < 0.5, np.nan, ROWS), ROWS[1:]):
        forgery = Release(arrays, honest.guarantee, honest.mechanism, honest.parameters)
        assert verify(forgery).outcome == "refuted"


@pytest.mark.parametrize("epsilon", [1e4, 1e300])
def test_a_large_epsilon_takes_no_time(epsilon: float) -> None:
    """1e300 took minutes; now no such file is read."""
    honest = GaussianMechanism(1.0, 1e-6, sensitivity=2.0).release(ROWS)
    promise = Guarantee.from_dict({**honest.guarantee.to_dict(), "epsilon": epsilon})
    forgery = Release(honest.arrays, promise, honest.mechanism, honest.parameters)
    start = time.process_time()
    if epsilon > 1e4:
        with pytest.raises(ValueError, match="epsilon must be smaller than or equal to 10000"):
            forgery.measure()
    else:
        forgery.measure()
        verify(forgery)
    assert time.process_time() - start < 5.0


# -- numbers that ask for work --------------------------------------------------------------------

# In seconds of processor time, many times what any of them takes.
SOON = 20.0
EXTREMES, MANY = (1e-300, 10**9), 3000


class Late(BaseException):
    """Past every handler of exceptions on the way."""


@contextmanager
def soon(what: str) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Late(what)

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SOON)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def extremes(value: Any) -> tuple[Any, ...]:
    if isinstance(value, list):
        texts = bool(value) and isinstance(value[0], str)
        return ([f"{each}{i}" if texts else each for i in range(MANY) for each in value],)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return EXTREMES if number else ()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_extreme_parameters_are_answered_soon(case: Case) -> None:
    """Nor is a number of columns taken instead of their names, which made a billion of them."""
    honest = made(case)
    known = honest.parameters
    tried = [put(known, at, other) for at, v in places(known) if at for other in extremes(v)]
    tried += [{k: v for k, v in known.items() if k != "columns"} | {"size": 10**9}]
    for changed in tried:
        with soon(str(changed)[:300]):
            verify(Release(honest.arrays, honest.guarantee, honest.mechanism, changed))
