"""Eight processes spend from one ledger and are killed at random moments.

A program of its own, as it forks and so must have one thread: `ledger_workers.py FOLDER KILLS`.
Each worker opens the ledger, then spends, draws, completes and notes what it completed, for ever.
The parent kills one with SIGKILL after a random pause and starts another in its place. The test
compares the notes, which outlive their writers, with the ledger.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from ndis import BudgetExceeded, Guarantee, Ledger, Profile, QuadraticLoss
from ndis.ledger.modes import Adaptive, written

RELEASE = Guarantee(
    0.1, 1e-9, "add-remove", "proven", Profile.both(QuadraticLoss.from_leverage(7e-3, 10))
)
EPSILON, DELTA = 1.0, 1e-6


def work(folder: Path, name: int) -> None:
    """Release until killed; after each step note it in a file of this worker's own."""
    notes = os.open(folder / f"notes-{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = Ledger(folder / "ledger", EPSILON, DELTA, "add-remove")
    os.write(notes, b"opened 0 -\n")
    for turn in range(10**9):
        try:
            entry = ledger.spend(RELEASE, f"worker {name}")
        except BudgetExceeded:
            os.write(notes, b"refused 0 -\n")
            continue
        os.write(notes, f"spent {entry.number} -\n".encode())
        digest = f"{name}-{turn}-{np.random.default_rng().integers(2**62)}"
        ledger.complete(entry, digest)
        os.write(notes, f"completed {entry.number} {digest}\n".encode())


def fill(ledger: Ledger, release: Guarantee, times: int) -> None:
    """Put many equal releases into a ledger in one transaction, which spending cannot do."""
    rules = ledger._rules()
    assert isinstance(rules, Adaptive)
    cost, body = rules.filter.cost(release), {"time": "", "mechanism": "filled"}
    body["guarantee"] = release.to_dict()
    totals = np.zeros_like(cost)
    with ledger._chain.transaction(write=True) as state:
        assert state is not None
        for number in range(1, times + 1):
            totals = totals + cost
            state |= {"releases": number, "mode": {"totals": written(totals)}}
            ledger._chain.append("spend", number, body, state)


def start(folder: Path, name: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(folder, name)
        except BaseException as error:
            (folder / f"fault-{name}").write_text(repr(error))
        finally:
            os._exit(1)
    return child


def main(folder: Path, kills: int) -> None:
    chance = random.Random(8)
    workers = {start(folder, name): name for name in range(8)}
    for name in range(8, 8 + kills):
        time.sleep(chance.expovariate(1 / 0.02))
        victim = chance.choice(list(workers))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        del workers[victim]
        workers[start(folder, name)] = name
    for child in workers:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
