"""Damaged and forged ledgers: one sentence each, an exit code of the list, and no belief."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ledger_fuzz


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "seed"), [(150, 1), pytest.param(10_000, 2, marks=pytest.mark.evidence)]
)
def test_no_mutant_is_believed(tmp_path: Path, count: int, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, ledger_fuzz.__file__, tmp_path, str(count), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["peak"] < 500
    for kind in ("change_bytes", "change_tables", "forge"):
        codes = {name.split()[1]: times for name, times in found["codes"].items() if kind in name}
        assert set(codes) <= {"0", "1", "2", "5"}
        assert codes["1"] > 0.2 * sum(codes.values())
    assert sum(found["codes"].values()) == count


@pytest.mark.slow
def test_the_fuzzer_notices_belief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a chain that is not checked, some mutants are taken for ledgers."""
    monkeypatch.setattr("ndis.ledger.chain._seal", lambda *_: "0" * 64)
    monkeypatch.setattr(ledger_fuzz, "SECONDS", 0)
    found = ledger_fuzz.main(tmp_path, 60, 3)
    assert any("believed" in what for *_, what in found["wrong"])
