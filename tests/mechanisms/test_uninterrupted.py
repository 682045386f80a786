"""Signals wait until what was paid for is written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ndis import (
    Ledger,
    Release,
)

STOPPED = """
import os, signal, sys, time
from ndis import Guarantee, Ledger
from ndis.mechanisms.publish import publish
from ndis.release import NewFile
for each in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(each, signal.SIG_DFL)  # who started this may ignore them
signal.signal(signal.SIGINT, signal.default_int_handler)
def draw(rng):
    for name in ("SIGHUP", "SIGTERM", "SIGINT"):
        os.kill(os.getpid(), getattr(signal, name))
    time.sleep(0.1)
    return [1.5]
with Ledger(sys.argv[2]) as ledger, NewFile(sys.argv[1]) as file:
    promise = Guarantee(1.0, 0.2, "edge", "proven")
    publish(draw, promise, "example", {}, {"value": (1,)}, ledger=ledger, file=file)
print("still here")
"""


@pytest.mark.slow
def test_signals_wait_until_what_was_paid_for_is_written(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "budget", 5.0, 0.5, "edge").close()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path / "r.npz"), str(tmp_path / "budget")],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == -signal.SIGHUP  # which came first
    assert "still here" not in done.stdout
    assert done.stderr.startswith("ndis: the release is paid; what ends this program waits")
    assert f"the release is written to {tmp_path / 'r.npz'}" in done.stderr
    with Ledger(tmp_path / "budget") as ledger:
        assert Release.load(tmp_path / "r.npz").digest == ledger.history()[0].digest
