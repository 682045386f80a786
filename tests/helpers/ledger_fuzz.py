"""Damaged and forged ledgers, and what `ndis ledger verify` says of them.

A program of its own, so that its memory can be measured: `ledger_fuzz.py FOLDER COUNT SEED` prints
how often each exit code came, the largest memory in MB, and what went wrong. Three kinds of
mutants: bytes of the file are changed; its tables are edited; its JSON is changed and the chain
computed anew, as somebody would who knows the format.
"""

import contextlib
import functools
import io
import json
import random
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from memory import peak_memory
from ndis import Guarantee, Ledger, Profile, QuadraticLoss, TabulatedLoss
from ndis.calibration import meets
from ndis.cli import main as program
from ndis.ledger.chain import _NOTHING, _digest, _seal, _text

# The program is the same for every file; typer would make it anew for each.
typer.main.get_command = functools.cache(typer.main.get_command)

SECONDS = 60  # for one file; verifying an honest one takes a few milliseconds
EXTREMES = [None, True, -1, 0, 0.5, 1, 10**6, 10**30, 1e300, "", "x", "0x1p+9999", [], {}, [[]]]
COLUMNS = ("number", "kind", "release", "body", "state", "hash")


def originals(folder: Path) -> list[Path]:
    """Ledgers of both modes with every kind of loss."""
    shift = Guarantee(
        0.2, 1e-7, "add-remove", "proven", Profile.both(QuadraticLoss.from_shift(0.05))
    )
    sketch = replace(shift, loss=Profile.both(QuadraticLoss.from_leverage(1e-3, 10)))
    table = TabulatedLoss(0.01, -2, [0.2, 0.2, 0.2, 0.2, 0.2], 1e-9, 1e-9)
    releases = [shift, sketch, replace(shift, loss=table), replace(shift, epsilon=0.01, loss=None)]
    made = []
    for mode in ("adaptive", "plan"):
        made.append(folder / mode)
        with Ledger.create(made[-1], 1.0, 1e-6, "add-remove", mode=mode) as ledger:
            if mode == "plan":
                ledger.plan([replace(each, delta=1e-9) for each in releases] * 2)
            for release in releases:
                entry = ledger.spend(replace(release, delta=1e-9), mode, "a note")
                ledger.complete(entry, "0" * 64)
    return made


def change_bytes(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    size = min(chance.choice([1, 1, 2, 16, 300, 4096]), len(data) - place)
    kind = chance.randrange(6)
    if kind == 0:
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[place : place + size] = chance.randbytes(size)
    elif kind == 2:
        data[place : place + size] = bytes(size)
    elif kind == 3:
        del data[place:]
    elif kind == 4:
        data[place:place] = data[place : place + size]
    else:
        pages = [data[start : start + 4096] for start in range(0, len(data), 4096)]
        chance.shuffle(pages)
        data = bytearray(b"".join(pages))
    path.write_bytes(data)


def change_tables(path: Path, chance: random.Random) -> None:
    db = sqlite3.connect(path)
    (last,) = db.execute("SELECT max(number) FROM events").fetchone()
    number, column = chance.randint(1, last), chance.choice(COLUMNS)
    value = chance.choice([None, 7, -1, 2.5, "x", b"\xff", 2**62, "9" * 1000])
    with contextlib.suppress(sqlite3.Error), db:
        kind = chance.randrange(4)
        if kind == 0:
            db.execute(f"UPDATE events SET {column} = ? WHERE number = ?", (value, number))
        elif kind == 1:
            db.execute("DELETE FROM events WHERE number >= ?", (number,))
        elif kind == 2:
            db.execute("UPDATE state SET body = ?", (value,))
        else:
            db.execute(
                f"UPDATE events SET {column} = (SELECT {column} FROM events ORDER BY random() "
                "LIMIT 1) WHERE number = ?",
                (number,),
            )
    db.close()


def forge(path: Path, chance: random.Random) -> None:
    """Change one value anywhere, and seal the chain again."""
    db = sqlite3.connect(path)
    rows = [list(row) for row in db.execute("SELECT * FROM events ORDER BY number")]
    ((state,),) = db.execute("SELECT body FROM state").fetchall()
    documents = [json.loads(row[3]) for row in rows] + [json.loads(state)]
    _change(chance.choice(documents), chance)
    if chance.random() < 0.1:
        del rows[chance.randrange(1, len(rows))]
    if chance.random() < 0.1:
        chance.choice(rows)[2] = chance.choice([0, -1, 2, 99])
    before, sealed = _NOTHING, ""
    with contextlib.suppress(sqlite3.Error, ValueError), db:
        db.execute("DELETE FROM events")
        texts = [_text(document) for document in documents]
        for number, (row, text) in enumerate(zip(rows, texts, strict=False), 1):
            after = _digest(texts[-1]) if number == len(rows) else row[4]
            sealed = _seal(before, number, row[1], row[2], text, after)
            values = (number, row[1], row[2], text, after, sealed)
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", values)
            before = sealed
        db.execute("UPDATE state SET body = ?", (texts[-1],))
    db.close()


def _change(node: Any, chance: random.Random) -> None:
    """Replace, scale or remove one value somewhere below."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(node[key], dict | list) and node[key] and chance.random() < 0.8:
        _change(node[key], chance)
    elif isinstance(node[key], int | float) and chance.random() < 0.5:
        node[key] = node[key] * chance.choice([-1, 0, 2, 1.001, 10**6, 10**12])
    elif chance.random() < 0.1:
        del node[key]
    else:
        node[key] = chance.choice(EXTREMES)


def content(path: Path) -> Any:
    """All that a ledger says."""
    with Ledger(path) as ledger:
        budget = (ledger.epsilon, ledger.delta, ledger.relation, ledger.mode, ledger.accept)
        return ledger.history(), ledger._current()[1], budget


def holds(path: Path) -> bool:
    """Whether what was accepted is within its own budget, by exact addition."""
    with Ledger(path) as ledger:
        releases = [entry.guarantee for entry in ledger.history()]
        return not releases or bool(meets(ledger.total(), ledger.epsilon, ledger.delta))


class TooSlow(BaseException):
    """One file took a minute."""


def give_up(*_: object) -> None:
    raise TooSlow


def verify(path: Path) -> tuple[int, str]:
    """The exit code and what was printed."""
    printed = io.StringIO()
    signal.alarm(SECONDS)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            program(["ledger", "verify", str(path)])
        except SystemExit as end:
            return int(end.code or 0), printed.getvalue()
        finally:
            signal.alarm(0)
    raise AssertionError("the program did not end")


def main(folder: Path, count: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    signal.signal(signal.SIGALRM, give_up)
    codes: Counter[str] = Counter()
    wrong = []
    honest = {path: content(path) for path in originals(folder)}
    for number in range(count):
        original = chance.choice(list(honest))
        change = chance.choice([change_bytes, change_tables, forge])
        mutant = folder / "mutant"
        for old in folder.glob("mutant*"):
            old.unlink()
        shutil.copy(original, mutant)
        change(mutant, chance)
        try:
            code, printed = verify(mutant)
            # An accepted file says what the honest one says, or at least keeps its own promise.
            good = code != 0 or (
                holds(mutant) if change is forge else content(mutant) == honest[original]
            )
        except (Exception, TooSlow) as error:
            code, printed, good = -1, repr(error), False
        codes[f"{change.__name__} {code}"] += 1
        if (
            code not in (0, 1, 2, 5)
            or not good
            or printed.count("\n") != 1
            or "Traceback" in printed
        ):
            kept = folder / f"wrong-{number}"
            shutil.copy(mutant, kept)
            told = printed[:300] if good else f"believed: {printed[:300]}"
            wrong.append([str(kept), change.__name__, code, told])
    return {"codes": dict(sorted(codes.items())), "peak": peak_memory(), "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), indent=1))
