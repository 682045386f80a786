"""What every command prints at 60, 80 and 120 columns and in a pipe: kept, and no number cut."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from commands import call
from ndis import GaussianMechanism, Ledger, PrivateCovariance, PrivateLeastSquares, PrivateSummary
from ndis.cli.console import ExitCode

KEPT = Path(__file__).parent.parent / "data/widths.json"
WIDTHS = ("60", "80", "120", "")  # the last is a pipe
PLAN = "--limits age=18:80 --limits pay=0:8000 --epsilon 1 --delta 1e-6"
# Repeatable: no noise of its own, and no time.
COMMANDS = {
    "help": "--help",
    "help of regression": "release regression --help",
    "all help of regression": "release regression --help-all",
    "curve": "curve --shift 1",
    "calibrate": f"calibrate regression --label pay {PLAN}",
    "forecast": f"forecast regression --label pay {PLAN} --n-rows 10000",
    "check": "check people.csv --limits age=18:80 --limits pay=0:8000 --levels sector=a,b",
    "show regression": "show regression.npz",
    "show covariance": "show covariance.npz",
    "show summary": "show summary.npz",
    "show gaussian": "show gaussian.npz --verbose",
    "risk": "risk --epsilon 1 --delta 1e-6",
    "verify": "verify covariance.npz",
    "answers for evaluators": "verify covariance.npz --nist",
    "ledger": "ledger show budget",
    "history": "ledger history budget",
    "plan": "ledger plan budget 12",
    "variance": "covariance variance covariance.npz --along age=1,pay=-1",
    "audit of a pair": "audit pair laws.json --claim 1,0.2",
}
# What differs from run to run.
_CHANGING = re.compile(r"\b[0-9a-f]{8,64}\b|\d{4}-\d\d-\d\d")
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pd = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("widths")
    rng = np.random.default_rng(0)
    age, n = rng.integers(18, 80, 3000), 3000
    people = pd.DataFrame({"age": age, "sector": rng.choice(["a", "b"], n)})
    people["a column with a very long name, longer than a screen of sixty"] = rng.random(n)
    people["pay"] = (1500 + 25 * age + rng.normal(0, 500, n)).round(2)
    people.to_csv(folder / "people.csv", index=False)
    known = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    limits = {"age": (18, 80), people.columns[2]: (0, 1), "pay": (0, 8000)}
    regression = PrivateLeastSquares(limits=limits, **known)
    regression.fit(people[[*limits]], "pay").release_.save(folder / "regression.npz")
    covariance = PrivateCovariance(limits=limits, **known).fit(people[[*limits]])
    covariance.release_.save(folder / "covariance.npz")
    levels = {"sector": ["a", "b"]}
    summary = PrivateSummary(by=["sector"], levels=levels, limits={"pay": (0, 8000)}, **known)
    summary.fit(people).release_.save(folder / "summary.npz")
    gaussian = GaussianMechanism(sensitivity=1, **known)
    gaussian.release([1.0, 2e9]).save(folder / "gaussian.npz")
    with Ledger.create(folder / "budget", 3.0, 1e-5, "replace", accept=["declared"]) as ledger:
        for epsilon in (1.0, 0.5):
            mechanism = GaussianMechanism(
                epsilon=epsilon, delta=1e-6, sensitivity=1, relation="replace"
            )
            ledger.complete(ledger.spend(mechanism.plan(1).guarantee, "a count"), "ab" * 32)
    law = {"mean": [0.0], "cov": [[1.0]]}
    laws = {"P": law, "Q": {"mean": [1.0], "cov": [[1.0]]}}
    (folder / "laws.json").write_text(json.dumps(laws))
    return folder


def printed(
    words: str, width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", width)
    if not width:
        monkeypatch.delenv("COLUMNS")
    code, out, err = call(capsys, *shlex.split(words))
    assert code in (ExitCode.DONE, ExitCode.NOT_CHECKABLE, ExitCode.CHECK_FAILED), err
    return _CHANGING.sub(lambda found: "x" * len(found[0]), out + err)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_is_cut_and_what_is_printed_is_kept(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renew what is kept with NDIS_RENEW=1, and look at it."""
    monkeypatch.chdir(place)
    found = {w: printed(COMMANDS[name], w, capsys, monkeypatch) for w in WIDTHS}
    widest = sorted(NUMBER.findall(found["120"]))
    for width, text in found.items():
        assert "\x1b" not in text
        assert "…" not in text
        assert (
            "..." not in re.sub(r"A,B,\.\.\.|PLAN\.\.\.|VALUE,\.\.\.", "", text) or "help" in name
        )
        assert sorted(NUMBER.findall(text)) == widest, width
        if width and "help" in name:
            assert max(map(len, text.splitlines())) <= int(width)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if os.environ.get("NDIS_RENEW"):
        kept[name] = {width: text.splitlines() for width, text in found.items()}
        KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    assert {w: re.sub(NUMBER, "0", text) for w, text in found.items()} == {
        w: re.sub(NUMBER, "0", "\n".join([*lines, ""])) for w, lines in kept[name].items()
    }
