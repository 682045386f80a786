"""Commands are made from estimators, one line each."""

import inspect
import json
from pathlib import Path

import pytest

import ndis
from commands import MEAN, call
from ndis import Release
from ndis.cli.console import ExitCode
from ndis.cli.kinds import ELSEWHERE, KINDS
from ndis.cli.settings import as_option, described
from ndis.mechanisms import PrivateEstimator

# Parameters that cannot be written on a command line, and why.
PYTHON_ONLY = {"kernel": "a scikit-learn object"}


# Estimators that are no mechanism for a table.
NOT_HERE = {
    "GaussianOutput": "wraps a function of the caller's",
    "MultiPartyRegression": "is `ndis party`",
}


def test_every_estimator_is_here() -> None:
    public = {
        name
        for name in ndis.__all__
        if name not in NOT_HERE
        and inspect.isclass(getattr(ndis, name))
        and issubclass(getattr(ndis, name), PrivateEstimator)
    }
    assert public == {kind.home for kind in KINDS.values()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_an_option_or_known_not_to_be(kind: str) -> None:
    estimator = KINDS[kind].estimator
    about = described(estimator)
    for name in inspect.signature(estimator).parameters:
        if name not in ELSEWHERE and name not in PYTHON_ONLY:
            assert name in about, f"{name} is not documented"
            assert as_option(name, *about[name]) is not None, name


@pytest.mark.parametrize("command", ["calibrate", "forecast", "release"])
@pytest.mark.parametrize("kind", KINDS)
def test_help_begins_with_what_is_needed(capsys, command, kind) -> None:
    code, out, _ = call(capsys, command, kind, "--help")
    assert code == ExitCode.DONE
    needed = out.partition("\nNeeded\n")[2].partition("\nOptions\n")[0]
    assert "  --delta NUMBER " in needed
    assert "One of --epsilon and --target" in " ".join(needed.split())
    assert ("  --out FILE " in needed) == (command == "release")
    assert "--json" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["calibrate", "forecast", "release"])
def test_all_that_is_missing_is_told_at_once(capsys, command: str, kind: str) -> None:
    code, out, err = call(capsys, command, kind)
    assert (code, out, err.count("\n")) == (ExitCode.WRONG_CALL, "", 1)
    expected = ["--epsilon", "--delta", *KINDS[kind].needs]
    expected += ["INPUT", "--out", *KINDS[kind].asks] if command == "release" else []
    for option in expected:
        for one in option.split("|"):
            assert one.lstrip("-").replace("_", "-") in err
    assert err.endswith(f"see ndis {command} {kind} --help.\n")


def test_a_new_estimator_is_one_line(capsys, folder: Path, mean: None) -> None:
    code, out, err = call(capsys, "release", *MEAN, "--out", "m.npz")
    assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, b\n")
    assert "sums" in out
    assert "differentially private" in out
    assert Release.load("m.npz").parameters["columns"] == ["a", "b"]
    code, out, _ = call(capsys, "calibrate", *MEAN[:1], *MEAN[2:], "--json")
    assert json.loads(out)["noise_scale"].keys() == {"sums", "count"}
