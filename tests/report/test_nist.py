"""Answers to evaluators: from the certificate, and honest about what it cannot know."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from commands import call
from ndis import GaussianMechanism, PrivateCovariance, PrivateProjection, PrivateSummary
from ndis.auditing.certificates import verify
from ndis.cli.console import ExitCode
from ndis.release import Release
from ndis.report.nist import responses

ROWS = np.random.default_rng(0).uniform(0, 1, (100, 2))


def asked(release: Release) -> dict[str, tuple[str, str]]:
    return {each.question: (each.response, each.by) for each in responses(release, verify(release))}


def test_questions_are_answered_by_whom_they_can_be() -> None:
    model = PrivateCovariance(epsilon=1.0, delta=1e-6, limits=(0, 1)).fit(ROWS)
    found = asked(model.release_)
    assert found["Which epsilon and delta?"][0] == "1 and 1e-06."
    assert "at most 55 times in 100" in found["What does that mean for one person?"][0]
    assert "adding or removing any one row" in found["What is the unit of privacy?"][0]
    assert found["Is that unit a person?"][1] == "the owner"
    assert found["What does the promise rest on?"][0] == "It is proven for every possible table."
    assert found["Is its noise enough?"][0] == "The verdict of `ndis verify` is: checked."
    assert found["How are values bounded?"][0] == "Declared as public: limits."
    assert found["Is the randomness secret?"][0] == "No fixed seed was used."


def test_what_weakens_a_promise_is_said() -> None:
    seeded = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1, random_state=0).release(1.0)
    found = asked(seeded)
    assert found["What does that mean for one person?"][0].startswith("Nothing: ")
    assert "NOT private" in found["Is the randomness secret?"][0]
    assert "if what the owner declared is true" in found["What does the promise rest on?"][0]
    bought = PrivateCovariance(epsilon=1.0, delta=1e-6, limits="private").fit(ROWS)
    assert "a part of the budget found them" in asked(bought.release_)["How are values bounded?"][0]


def test_levels_that_were_found_were_not_declared() -> None:
    known = {"limits": {"age": (0, 100)}, "levels": {"ward": "private", "sex": ["f", "m"]}}
    model = PrivateSummary(epsilon=1.0, delta=1e-6, **known)
    table = pa.table({"age": [30.0] * 50, "ward": ["A"] * 50, "sex": ["f"] * 50})
    bounds = asked(model.fit(table).release_)["How are values bounded?"][0]
    assert bounds == (
        "Declared as public: limits, levels. Private, a part of the budget found them: levels."
    )


def test_a_relative_promise_is_for_a_declared_set() -> None:
    known = {"limits": (0, 1), "leverage": 0.5, "n_components": 2}
    model = PrivateProjection(epsilon=1.0, delta=1e-6, **known).fit(ROWS)
    said = asked(model.release_)["What does the promise rest on?"][0]
    assert "declared set" in said
    assert "no row has a leverage above 0.5" in said


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "g.npz")
    release = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1).release([1.0])
    release.save(file)
    code, out, _ = call(capsys, "verify", file, "--nist")
    assert code == ExitCode.DONE
    assert "NIST SP 800-226" in out
    assert "the owner" in out
    code, out, _ = call(capsys, "verify", file, "--nist", "--json")
    document = json.loads(out)
    assert document["release"] == release.digest
    assert {each["by"] for each in document["answers"]} >= {"the certificate", "the owner"}
