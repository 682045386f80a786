"""Eight processes spend from one ledger and are killed at random moments.

A program of its own, as it forks and so must have one thread: `ledger_workers.py FOLDER KILLS
LEDGER...`, where the last are addresses of one ledger, such as of two connection pools.
Each worker opens the ledger, then spends, draws, completes and notes what it completed, until the
budget is used up. The parent kills one with SIGKILL after a random pause and starts another in its
place; after so many kills it waits for the end. The test compares the notes, which outlive their
writers, with the ledger.
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
from ndis.ledger.modes import Adaptive, written

RELEASE = Guarantee(
    0.1, 1e-9, "add-remove", "proven", Profile.both(QuadraticLoss.from_leverage(4e-3, 10))
)
EPSILON, DELTA = 1.0, 1e-6


def work(folder: Path, name: int, address: str) -> None:
    """Release until killed or refused; after each step note it in a file of this worker's own."""
    notes = os.open(folder / f"notes-{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = opened(address)
    os.write(notes, b"opened 0 -\n")
    for turn in range(10**9):
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


def start(folder: Path, name: int, addresses: list[str]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(folder, name, addresses[name % len(addresses)])
        except BaseException as error:
            (folder / f"fault-{name}").write_text(repr(error))
        finally:
            os._exit(1)
    return child


def main(folder: Path, kills: int, addresses: list[str]) -> None:
    chance = random.Random(8)
    workers = {start(folder, name, addresses): name for name in range(8)}
    for name in range(8, 8 + kills):
        time.sleep(chance.expovariate(1 / 0.005))
        victim = chance.choice(list(workers))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        del workers[victim]
        workers[start(folder, name, addresses)] = name
    for child in workers:
        os.waitpid(child, 0)


def run(folder: Path, kills: int, *addresses: object) -> None:
    """The program, in a process of its own."""
    command = [sys.executable, __file__, folder, str(kills), *map(str, addresses)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
