"""``ndis calibrate`` and ``forecast``: what the plan says."""

import json
from pathlib import Path

import pytest

from commands import PLANS, PROMISE, call
from ndis.cli.console import ExitCode
from ndis.cli.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_calibrate_says_what_the_plan_says(capsys, folder: Path, kind: str) -> None:
    code, out, err = call(capsys, "calibrate", kind, *PROMISE, *PLANS[kind], "--json")
    assert (code, err) == (ExitCode.DONE, "")
    answer = json.loads(out)
    assert answer["guarantee"]["epsilon"] == 1.0
    code, out, _ = call(capsys, "calibrate", kind, *PROMISE, *PLANS[kind])
    assert code == ExitCode.DONE
    noise = answer["noise_scale"]
    for scale in noise.values() if isinstance(noise, dict) else [noise]:
        assert f"{scale:.6g}" in out
    assert answer["reason"] in " ".join(out.split())


@pytest.mark.parametrize("kind", KINDS)
def test_forecast_gives_ranges_and_what_they_assume(capsys, folder: Path, kind: str) -> None:
    words = (kind, *PROMISE, *PLANS[kind])
    words += ("--n-rows", "4000") if KINDS[kind].source == "table" else ()
    code, out, err = call(capsys, "forecast", *words, "--json")
    assert (code, err) == (ExitCode.DONE, "")
    answer = json.loads(out)
    assert all(0 <= low <= high for low, high in answer["errors"].values())
    code, out, _ = call(capsys, "forecast", *words)
    assert code == ExitCode.DONE
    assert all(f"- assuming {each}" in out for each in answer["assumptions"])
