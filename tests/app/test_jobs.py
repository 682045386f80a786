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


def test_progress_is_seen_and_is_no_word_of_the_release(folder: Path) -> None:
    found = job(folder)
    found.process.wait(60)
    lines = '\x1e["Reading", 0.25]\n\x1e["Rea'  # the last line is not whole yet
    found.said.write_text(lines)
    found.process = subprocess.Popen(["sleep", "60"])
    try:
        assert (found.outcome().said, found.outcome().share) == ("Reading", 0.25)
    finally:
        found.process.kill()
        found.process.wait()


@pytest.mark.parametrize("ledger", ["budget", ""])
def test_what_was_written_before_a_kill_is_found(folder: Path, ledger: str) -> None:
    note = "why [k1]" if ledger else ""
    call = ReleaseCall(KINDS["summary"], "t.csv", VALUES, "o.npz", ledger, note)
    found = Job(call, folder, folder, "k1")
    while not (folder / "o.npz").exists():
        assert found.process.poll() is None
    found.process.kill()
    found.process.wait()
    assert (found.outcome().state, found.outcome().file) == ("done", "o.npz")
    assert paid(folder) == bool(ledger)


def test_the_file_of_another_release_is_not_taken_for_ones_own(folder: Path) -> None:
    (folder / "o.npz").write_text("another")
    found = job(folder)
    found.process.kill()
    found.process.wait()
    assert found.outcome().state == "failed"


def test_settings_are_written_over_nothing_and_go_with_a_release_that_failed(folder: Path) -> None:
    values = {**VALUES, "levels": {"a": ["0,5"]}, "limits": {}}
    call = ReleaseCall(KINDS["summary"], "t.csv", values, "o.npz", "budget", "[k1]")
    found = Job(call, folder, folder, "k1")
    assert (folder / call.config).exists()
    found.process.kill()
    found.process.wait()
    assert found.outcome().state == "failed"
    assert not (folder / call.config).exists()
    (folder / call.config).write_text("mine")
    with pytest.raises(FileExistsError):
        Job(call, folder, folder, "k1")
    assert (folder / call.config).read_text() == "mine"
