"""Questions to a release from the shell: Python's answers, or one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import PROMISE, RELEASES, call
from ndis import PrivateCovariance, PrivateGraph, Release
from ndis.cli.console import ExitCode
from ndis.mechanisms.sketch import Sketch


def sketch() -> Sketch:
    return Sketch.load("projection.npz")


def graph() -> PrivateGraph:
    return PrivateGraph.from_release(Release.load("graph.npz"))


def covariance() -> PrivateCovariance:
    return PrivateCovariance.from_release(Release.load("covariance.npz"))


# What is asked, where the answer stands, and what Python says: an estimate with its error.
QUESTIONS: dict[str, tuple[str, tuple[str, str], Callable[[], Any]]] = {
    "sketch regress projection.npz --target y": (
        "projection",
        ("Linear regression of y", "a"),
        lambda: [part[0] for part in sketch().least_squares("y")],
    ),
    "sketch components projection.npz --k 2": (
        "projection",
        ("second moments", "component 2"),
        lambda: [part[1] for part in sketch().principal_components(2).moments],
    ),
    "graph cut graph.npz --inside 2 --inside 0,1": (
        "graph",
        ("cuts", "0,1"),
        lambda: [part[0] for part in graph().cuts([[0, 1]])],
    ),
    "covariance variance covariance.npz --along a=1,b=-1": (
        "covariance",
        ("variance", "a=1,b=-1"),
        lambda: [part[0] for part in covariance().variance([[1.0, -1.0]])],
    ),
}


def release(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    words = (kind, *RELEASES[kind], *PROMISE, "--out", f"{kind}.npz")
    assert call(capsys, "release", *words)[0] == ExitCode.DONE


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_that_of_python(capsys, folder: Path, question: str) -> None:
    kind, (title, row), asked = QUESTIONS[question]
    release(capsys, kind)
    code, out, _ = call(capsys, *question.split(), "--json")
    assert code == ExitCode.DONE
    estimate, error = asked()
    assert json.loads(out)[title][row] == {"estimate": estimate, "standard error": error}


def test_matrices_have_all_pairs_of_columns(capsys, folder: Path) -> None:
    release(capsys, "projection")
    for command, found in (("gram", sketch().gram()), ("distances", sketch().distances())):
        answers = json.loads(call(capsys, "sketch", command, "projection.npz", "--json")[1])
        estimates, errors = answers.values()
        assert estimates["a"]["y"] == found.value[0, 2]
        assert errors["b"]["y"] == found.standard_error[1, 2]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("graph resistance graph.npz --between 0", "two nodes for --between, got '0'; write A,B"),
        ("covariance variance covariance.npz --along z=1", "got 'z'; choose from a, b"),
        ("covariance variance covariance.npz --along a=x", "got 'a=x'; write NAME=NUMBER,..."),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    capsys, folder: Path, question: str, sentence: str
) -> None:
    release(capsys, question.split()[0])
    code, out, err = call(capsys, *question.split())
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert sentence in err
