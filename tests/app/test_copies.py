import shlex

import pytest

from ndis.app.copies import ReleaseCall
from ndis.cli.kinds import KINDS

VALUES = {
    "header": True,
    "limits": {"age": ("0", "120"), "cost": "private"},
    "epsilon": "1",
    "delta": "1e-6",
}


def test_settings_become_flags() -> None:
    call = ReleaseCall(
        KINDS["summary"], "t.csv", VALUES, out="o.npz", ledger="b", note="why", seed=1
    )
    words = shlex.split(call.command())
    assert words[:4] == ["ndis", "release", "summary", "t.csv"]
    assert "age=0:120" in words
    assert "cost=private" in words
    assert words[-2:] == ["--out", "o.npz"]


@pytest.mark.parametrize("level", ["Agree, strongly", " x"])
def test_what_flags_cannot_say_goes_into_a_file(level: str) -> None:
    levels = {"levels": {"answer": ["no", level]}, "by": ["answer"]}
    call = ReleaseCall(KINDS["summary"], "-t.csv", {**VALUES, **levels}, out="o.npz")
    assert call.flags()[1] == {"levels": {"answer": ["no", level]}}
    assert "--config o.settings.json" in call.command()
    assert "./-t.csv" in call.words()


def test_the_script_is_python() -> None:
    risky = {k: v for k, v in VALUES.items() if k != "epsilon"} | {"target": "advantage=0.1"}
    script = ReleaseCall(KINDS["summary"], "t.csv", risky, out="o.npz").script()
    compile(script, "script", "exec")
    assert "Risk(advantage=0.1)" in script
