import subprocess
from pathlib import Path

import pytest

from ndis import Ledger
from ndis.app.copies import ReleaseCall
from ndis.app.jobs import Job
from ndis.cli.kinds import KINDS

pytestmark = pytest.mark.slow
VALUES = {"header": True, "limits": {"a": ("0", "9")}, "epsilon": "1", "delta": "1e-6"}


def job(folder: Path, key: str = "k1") -> Job:
    call = ReleaseCall(KINDS["summary"], "t.csv", VALUES, "o.npz", "budget", f"why [{key}]")
    return Job(call, folder, folder, key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(str(k % 10) for k in range(1000)))
    Ledger.create(tmp_path / "budget", 3.0, 1e-5, "add-remove").close()
    return tmp_path


def paid(folder: Path) -> int:
    with Ledger(folder / "budget") as book:
        return len(book.history())


def test_a_job_is_done_once_it_is_paid_and_written(folder: Path) -> None:
    found = job(folder)
    assert found.outcome().state == "running"
    found.process.wait(60)
    assert found.outcome().state == "done"
    assert (folder / found.outcome().file).exists()
    assert paid(folder) == 1
    again = job(folder, "k2")  # whose file is there already
    again.process.wait(60)
    assert again.outcome().state == "failed"
    assert "exists" in again.outcome().said
    assert paid(folder) == 1


@pytest.mark.parametrize("after", [0.2, 1.0, 1.4, 1.8])
def test_nothing_is_released_unpaid_when_it_is_killed(folder: Path, after: float) -> None:
    found = job(folder)
    try:
        found.process.wait(after)
    except subprocess.TimeoutExpired:
        found.process.kill()
    found.process.wait(60)
    state, made = found.outcome().state, (folder / "o.npz").exists()
    assert paid(folder) == (state in ("done", "paid"))
    assert not made or paid(folder) == 1
