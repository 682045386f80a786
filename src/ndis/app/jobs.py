"""A release at work: the command line in a process of its own, which can be stopped.

The process does what the shown command does. Until the ledger has paid, an interrupt ends it and
nothing is paid; afterwards the interrupt waits until the release is written (`publish`). It does
not end with the page, nor with the server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ndis.app.copies import ReleaseCall

_MARK = "\x1e"


@dataclass
class JobState:
    """How far a job is: "running", "done", "failed" or "paid", which is failed after payment."""

    state: str
    said: str = ""
    share: float | None = None
    file: str = ""


class Job:
    """A call of the command line, running.

    Parameters
    ----------
    call : ReleaseCall
    folder : Path
        Where it runs.
    scratch : Path
        A folder of the owner's alone, for what it says.
    key : str
        What its note in the ledger ends with.
    """

    def __init__(self, call: ReleaseCall, folder: Path, scratch: Path, key: str) -> None:
        self.call, self.folder, self.key, self.stopped = call, folder, key, False
        self._fresh = not os.path.lexists(folder / call.out)
        self._left: tuple[str, str] | None = None
        if text := call.rest():
            with open(folder / call.config, "x", encoding="utf8") as config:
                config.write(text)
        self.said = scratch / f"{key}.err"
        self.told = scratch / f"{key}.out"
        with self.said.open("wb") as said, self.told.open("wb") as told:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ndis.app.jobs", *call.words(), "--json"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=said,
                env=os.environ | {"PYTHONSAFEPATH": "1"},
                start_new_session=True,
            )

    def stop(self) -> None:
        """Interrupt it: before the payment it ends, afterwards it finishes first."""
        if self.process.poll() is None:
            self.stopped = True
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)

    def outcome(self) -> JobState:
        """How far it is."""
        lines = self.said.read_text(encoding="utf8", errors="replace").split("\n")
        steps = [line[1:] for line in lines[:-1] if line.startswith(_MARK)]  # the last may be cut
        words = [line for line in lines if line and not line.startswith(_MARK)]
        if self.process.poll() is None:
            what, share = json.loads(steps[-1]) if steps else ("Starting", None)
            return JobState("running", what, share)
        if self.process.returncode == 0:
            document = json.loads(self.told.read_text(encoding="utf8"))
            return JobState("done", file=str(document["file"]))
        if self._left is None:
            self._left = self._made()
            if self._left[0] == "failed":
                self._forget()
        state, file = self._left
        if self.stopped and state != "done":
            return JobState(state, "You stopped it.")
        last = words[-1].removeprefix("ndis: ") if words else "The release ended without a word."
        return JobState(state, last, file=file)

    def _made(self) -> tuple[str, str]:
        """What a release that did not end well has left: a file, a payment, or nothing."""
        from ndis.ledger import Ledger

        if ledger := self.call.ledger:
            with Ledger(ledger if "://" in ledger else self.folder / ledger) as book:
                paid = any(entry.note.endswith(f"[{self.key}]") for entry in book.history())
            if not paid:
                return "failed", ""
        if self._fresh and (self.folder / self.call.out).exists():  # whole, as `NewFile` writes it
            return "done", self.call.out
        return ("paid" if ledger else "failed"), ""

    def _forget(self) -> None:
        """Remove what was written for a release that was not made."""
        if self.call.rest():
            (self.folder / self.call.config).unlink(missing_ok=True)


def main() -> None:
    """Run the command line, and write how far it is beside what it says."""
    from ndis.cli import main as run
    from ndis.tables.progress import listen

    def report(what: str, share: float | None) -> None:
        with suppress(OSError):
            print(f"{_MARK}{json.dumps([what, share])}", file=sys.stderr, flush=True)

    listen(report)
    run()


if __name__ == "__main__":
    main()
