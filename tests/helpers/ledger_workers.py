"""Processes, eight as a rule, spend from one ledger and are killed at random moments.

A program of its own, as it forks and so must have one thread: `ledger_workers.py FOLDER KILLS
PROCESSES LEDGER...`, where the last are addresses of one ledger, such as of two connection pools.
Each worker opens the ledger; for each turn it is given it spends, draws, completes and notes what
it completed. The parent gives turns to two at a time, kills one of them with SIGKILL in the midst,
and starts another in its place; after so many kills all run freely to the end of the budget. The
test compares the notes, which outlive their writers, with the ledger.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ndis import BudgetExceeded, Guarantee, Ledger, Profile, QuadraticLoss
from ndis.calibration import meets
from ndis.ledger.composition import compose
from ndis.ledger.modes import Adaptive, written

RELEASE = Guarantee(
    0.1, 1e-9, "add-remove", "proven", Profile.both(QuadraticLoss.from_leverage(4e-3, 10))
)
EPSILON, DELTA = 1.0, 1e-6
FREELY = b"f"


def work(folder: Path, name: int, address: str, turns: int) -> None:
    """Release until killed or refused; after each step note it in a file of this worker's own."""
    notes = os.open(folder / f"notes-{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = opened(address)
    os.write(notes, b"opened 0 -\n")
    freely = False
    for turn in range(10**9):
        freely = freely or os.read(turns, 1) == FREELY
        try:
            entry = ledger.spend(RELEASE, f"worker {name}")
        except BudgetExceeded:
            os.write(notes, b"refused 0 -\n")
            return
        os.write(notes, f"spent {entry.number} -\n".encode())
        digest = f"{name}-{turn}-{np.random.default_rng().integers(2**62)}"
        ledger.complete(entry, digest)
        os.write(notes, f"completed {entry.number} {digest}\n".encode())


def opened(address: str) -> Ledger:
    """The ledger; a server that is just being started again is waited for."""
    while True:
        try:
            return Ledger(address)
        except ConnectionError:
            time.sleep(0.02)


def fill(ledger: Ledger, release: Guarantee, times: int) -> None:
    """Put many equal releases into a ledger in one transaction, which spending cannot do."""
    rules = ledger._rules()
    assert isinstance(rules, Adaptive)
    cost, body = rules.filter.cost(release), {"time": "", "mechanism": "filled", "note": ""}
    body["guarantee"] = release.to_dict()

    def all_at_once(state: dict) -> None:
        totals = np.zeros_like(cost)
        for number in range(1, times + 1):
            totals = totals + cost
            state |= {"releases": number, "mode": {"totals": written(totals)}}
            ledger._chain.append("spend", number, body, state)

    ledger._chain.run(all_at_once, write=True)


class Worker:
    """A process that pays once for each turn it is given."""

    def __init__(self, folder: Path, name: int, address: str) -> None:
        self.notes = folder / f"notes-{name}"
        self._turns, self._given = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                work(folder, name, address, self._turns)
            except BaseException as error:
                (folder / f"fault-{name}").write_text(repr(error))
            finally:
                os._exit(1)

    def is_open(self) -> bool:
        return self.notes.exists() and self.notes.stat().st_size > 0

    def give(self, turn: bytes = b".") -> None:
        os.write(self._given, turn)

    def end(self, how: signal.Signals | None = None) -> None:
        if how is not None:
            os.kill(self.process, how)
        os.waitpid(self.process, 0)
        os.close(self._turns)
        os.close(self._given)


def main(folder: Path, kills: int, processes: int, addresses: list[str]) -> None:
    chance = random.Random(8)
    for address in addresses:
        Ledger(address).close()  # imports, before the forks, what children need
    workers = [Worker(folder, i, addresses[i % len(addresses)]) for i in range(processes)]
    for name in range(processes, processes + kills):
        while len(ready := [worker for worker in workers if worker.is_open()]) < 2:
            time.sleep(0.001)
        # Two pay at the same time, and one of them is killed meanwhile.
        victim, other = chance.sample(ready, 2)
        victim.give()
        other.give()
        time.sleep(chance.uniform(0.0, 0.02))
        victim.end(signal.SIGKILL)
        workers.remove(victim)
        workers.append(Worker(folder, name, addresses[name % len(addresses)]))
    for worker in workers:
        worker.give(FREELY)
    for worker in workers:
        worker.end()


def noted(folder: Path) -> list[str]:
    """The first words of all notes so far."""
    files = (file.read_text() for file in folder.glob("notes-*"))
    return [line.partition(" ")[0] for text in files for line in text.splitlines()]


def run(folder: Path, kills: int, *addresses: object, processes: int = 8) -> None:
    """The program, in a process of its own."""
    command = [sys.executable, __file__, folder, str(kills), str(processes), *map(str, addresses)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def check(folder: Path, ledger: Ledger, kills: int, processes: int = 8) -> None:
    """Compare what workers noted down with what the ledger says."""
    assert [fault.read_text() for fault in folder.glob("fault-*")] == []
    notes = [
        line.split() for file in folder.glob("notes-*") for line in file.read_text().splitlines()
    ]
    kinds = [kind for kind, *_ in notes]
    assert kinds.count("refused") == processes  # all who were left came to the end of the budget
    assert kinds.count("opened") > kills / 2
    history = ledger.history()
    assert ledger.verify() == len(history)
    total = compose([(RELEASE, len(history))], EPSILON / 1000)
    assert meets(total, ledger.epsilon, ledger.delta)
    assert not ledger.would_allow(RELEASE)
    spent = [int(number) for kind, number, _ in notes if kind == "spent"]
    assert len(set(spent)) == len(spent) > 100
    assert set(spent) <= {entry.number for entry in history}
    recorded = {entry.number: entry.digest for entry in history if entry.digest is not None}
    completed = [(int(number), digest) for kind, number, digest in notes if kind == "completed"]
    assert len({number for number, _ in completed}) == len(completed) > 100
    assert set(completed) <= set(recorded.items())
    assert len(set(recorded.values())) == len(recorded)
    # Killed between paying and noting, or between completing and noting.
    assert len(history) - len(spent) <= kills
    assert len(recorded) - len(completed) <= kills


def killed_in_mid_payment(path: Path) -> None:
    """Leave a file half written, with the journal that undoes it."""
    program = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA cache_size = 1'); db.execute('PRAGMA cache_spill = 1')\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "db.execute('DELETE FROM events')\n"
        "for number in range(500):\n"
        "    db.execute('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)',"
        " (number, 'x', number, 'y' * 9999, '', ''))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path])
    assert done.returncode == -signal.SIGKILL
    assert path.with_name(f"{path.name}-journal").stat().st_size > 1000


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
