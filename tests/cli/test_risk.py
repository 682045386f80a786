"""``ndis risk``."""

import json
import math
from pathlib import Path

import pytest

from commands import GAUSSIAN, call
from ndis import Release
from ndis.cli.console import ExitCode


@pytest.mark.slow
def test_a_risk_in_epsilons_place_and_read_back(capsys, folder: Path) -> None:
    words = [*GAUSSIAN, "--target", "advantage=0.1", "--out", "out.npz"]
    code, _, err = call(capsys, "release", *words)
    assert (code, "epsilon or target" in err) == (ExitCode.WRONG_CALL, True)
    at = words.index("--epsilon")
    del words[at : at + 2]
    code, out, _ = call(capsys, "release", *words)
    assert code == ExitCode.DONE
    assert "at most 55 times in 100" in out
    code, out, _ = call(capsys, "risk", "out.npz", "--json", "--false-positive", "0.1")
    told = json.loads(out)
    assert told["sentence"] == str(Release.load("out.npz").guarantee)
    risks = {each["risk"]: each["at_most"] for each in told["risks"]}
    assert 0.0999 < risks["advantage"] <= 0.1
    assert risks["true-positive rate"] == Release.load("out.npz").guarantee.risk(false_positive=0.1)
    assert "0.1" in call(capsys, "risk", "out.npz")[1]
    assert call(capsys, "calibrate", "gaussian", "--sensitivity", "1", "--delta", "1e-6",
                "--target", "guess=0.2,candidates=10")[0] == ExitCode.DONE  # fmt: skip
    code, _, err = call(capsys, "release", *words, "--target", "luck=1")
    assert (code, "a risk such as advantage=0.1" in err) == (ExitCode.WRONG_CALL, True)


def test_the_risk_of_any_mechanism_with_this_promise(capsys) -> None:
    code, out, _ = call(capsys, "risk", "--epsilon", "1", "--delta", "0", "--json")
    assert code == 0
    found = json.loads(out)["risks"][0]["at_most"]
    # The worst of all tells the truth with odds e: (e - 1)/(e + 1).
    assert found == pytest.approx(math.tanh(0.5), rel=1e-9)
