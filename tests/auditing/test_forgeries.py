"""No field of a certificate can be set to another value and still be called checked.

Either the verifier refuses the file, or what the file promises is what its parameters imply. One
other value for each field here; `benchmarks/check_forgeries.py` tries several and counts them.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimators import Case, all_cases, fitted, parameters
from forging import ROWS, judged, parties, places, put
from memory import forget_peak, peak_memory
from ndis import GaussianMechanism, Guarantee, Ledger, Release
from ndis.auditing.certificates import verify
from ndis.cli.answers import answers_of, estimates_of

CASES = parameters(all_cases())
# Every forgery of it is judged by a search of half a minute; `make evidence` does it, and another
# searched loss is forged here.
SEARCHED = "least squares, als"


def made(case: Case) -> Release:
    return fitted(case).release_


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(*one.values, id=one.id, marks=[pytest.mark.evidence] * (one.id == SEARCHED))
        for one in CASES
    ],
)
def test_every_forgery_is_refused_or_implied(case: Case) -> None:
    honest = made(case)
    checkable = honest.mechanism != "GaussianOutput"  # whose functions are in no file
    assert verify(honest).outcome == ("checked" if checkable else "not checkable")
    found = judged(honest, few=True)
    assert found["refuted"] + found["not checkable"] > 30


@pytest.mark.parametrize("kind", ["part", "whole"])
def test_forgeries_of_parties(kind: str) -> None:
    honest = parties()[kind]
    assert verify(honest).outcome == "checked"
    found = judged(honest, few=True)
    assert found["refuted"] > 30


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
    told = verify(
        GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).release([1.0])
    ).not_checked
    assert "that no fixed seed was used: the publisher says so" in told
    assert any("compare" in each for each in verify(parties()["whole"]).not_checked)


def test_a_ledger_that_was_charged_for_less_does_not_know_the_release(tmp_path: Path) -> None:
    release = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0).release(ROWS)
    little = GaussianMechanism(epsilon=0.01, delta=1e-6, sensitivity=2.0).guarantee()
    with Ledger.create(tmp_path / "budget", 5.0, 1e-3, "add-remove", accept=["declared"]) as ledger:
        ledger.complete(ledger.spend(little, release.mechanism), release.digest)
        found = {each.what: each for each in verify(release, ledger=ledger).checks}
    assert found["the ledger knows the release"].outcome == "failed"
    assert found["the ledger knows the release"].why == "another promise was paid for"


def test_arrays_that_no_mechanism_makes() -> None:
    honest = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0).release(ROWS)
    for arrays in (ROWS.astype(np.float32), np.where(ROWS < 0.5, np.nan, ROWS), ROWS[1:]):
        forgery = Release(arrays, honest.guarantee, honest.mechanism, honest.parameters)
        assert verify(forgery).outcome == "refuted"


@pytest.mark.parametrize("epsilon", [1e6, 1e300])
def test_a_large_epsilon_takes_no_time(epsilon: float) -> None:
    """1e300 took minutes; now no such file is read."""
    honest = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0).release(ROWS)
    promise = Guarantee.from_dict({**honest.guarantee.to_dict(), "epsilon": epsilon})
    forgery = Release(honest.arrays, promise, honest.mechanism, honest.parameters)
    start = time.process_time()
    if epsilon > 1e6:
        with pytest.raises(ValueError, match="epsilon must be smaller than or equal to 1000000"):
            forgery.measure()
    else:
        forgery.measure()
        verify(forgery)
    assert time.process_time() - start < 5.0


# -- numbers that ask for work --------------------------------------------------------------------

# In seconds of processor time, many times what any of them takes, and in MB.
SOON, LITTLE = 20.0, 150.0
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
def test_extreme_parameters_ask_for_little(case: Case) -> None:
    """And cost no memory, to verify or to show: a billion of rows, nodes or components took GBs."""
    honest = made(case)
    known = honest.parameters
    tried = [put(known, at, other) for at, v in places(known) if at for other in extremes(v)]
    tried += [{k: v for k, v in known.items() if k != "columns"} | {"shape": 10**9}]
    for changed in tried:
        forget_peak()
        before = peak_memory()
        forgery = Release(honest.arrays, honest.guarantee, honest.mechanism, changed)
        with soon(str(changed)[:300]):
            verify(forgery)
            answers_of(forgery, estimates_of(forgery))
        assert peak_memory() - before < LITTLE, str(changed)[:300]
