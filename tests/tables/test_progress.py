import os
import pty
import subprocess
import sys

from ndis.tables import track

SLOW = (
    "import time; from ndis.tables import track, progress; progress.PATIENCE_SECONDS = {patience};"
    "[time.sleep(0.05) for item in track(range(8), 'Counting sheep', total=8)]; print('asleep')"
)


def run_in_terminal(program: str) -> bytes:
    """Return what a terminal shows of standard error."""
    watching, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=terminal, env=environment
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            shown += os.read(watching, 4096)
        except OSError:
            break
    os.close(watching)
    assert process.communicate()[0] == b"asleep\n"
    return shown


def test_bar_in_a_terminal() -> None:
    assert b"Counting sheep" in run_in_terminal(SLOW.format(patience=0.1))


def test_no_bar_for_short_work() -> None:
    assert run_in_terminal(SLOW.format(patience=60)) == b""


def test_no_bar_where_nobody_looks() -> None:
    program = SLOW.format(patience=0.1)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"asleep\n", b"")


def test_items_pass_through() -> None:
    assert list(track(iter("abc"), "Reading", size=len)) == ["a", "b", "c"]
