"""What the owner keeps between the periods of a series: exact sums, and what was drawn.

One SQLite file, readable for its owner alone: a transaction holds it from the look at what is there
until the new period is in it, so that two programs cannot draw one period, and a program that is
killed leaves it as it was. Noise follows from a key in the file and the exact sums: if an older
copy of the file draws a period again, it draws the same. Without the file a series cannot go on.
With it, and with what was published, exact sums are known: it is as sensitive as the tables.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ndis import _validate
from ndis.tables import ExactSum

_MARK = "ndis-series/1"
_TABLES = """
CREATE TABLE series (
    mark TEXT NOT NULL, name TEXT NOT NULL, key BLOB NOT NULL, number INTEGER, told TEXT NOT NULL
);
CREATE TABLE periods (period INTEGER PRIMARY KEY, sums BLOB NOT NULL, drawn BLOB NOT NULL);
"""
_WAIT = 60.0  # seconds, for another program that draws a period


@dataclass(frozen=True)
class KeptPeriod:
    """One period: its exact sums, and what was drawn of it."""

    sums: Mapping[str, ExactSum]
    drawn: Mapping[str, Any]


class SeriesFile:
    """The file of a series, held while a period is drawn.

    Parameters
    ----------
    path : Path
    first : bool
        Whether it may be made, as in a first period.

    Attributes
    ----------
    name : str
        Of the series, random; the ledger knows it.
    number : int
        The release of the ledger that paid; 0 where none did.
    told : dict or None
        What must stay the same; None before the first period.
    """

    def __init__(self, path: Path, *, first: bool) -> None:
        self.path, self.first = path, first
        self.name, self.number = secrets.token_hex(16), 0
        self._key = secrets.token_bytes(32)
        self.told: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        self._made = self._new()
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _new(self) -> bool:
        """Whether the file was made just now."""
        if self.path.exists():
            return False
        if not self.first:
            raise FileNotFoundError(
                f"Expected the file of the series, got {self.path}, which is not there; a series "
                "cannot go on without it: bring it back, or begin a new series with period 1."
            )
        _validate.require_folder(self.path, "file of the series")
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True

    def _open(self) -> None:
        here = self.path.stat().st_ino
        self._link = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
        try:
            self._link.execute("PRAGMA synchronous = FULL")
            self._link.execute("BEGIN IMMEDIATE")
            empty = not self._link.execute("SELECT 1 FROM sqlite_master").fetchall()
            asked = "SELECT mark, name, key, number, told FROM series"
            rows = [] if empty else self._link.execute(asked).fetchall()
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise self._in_use() from None
            raise self._not_ours() from None
        if not self.path.exists() or self.path.stat().st_ino != here:
            raise self._in_use()  # somebody who failed to begin the series has removed it
        if empty and self.first:
            return
        if len(rows) != 1 or rows[0][0] != _MARK:
            raise self._not_ours()
        _, self.name, self._key, self.number, told = rows[0]
        self.told = json.loads(told)

    def _in_use(self) -> ValueError:
        return ValueError(
            f"Expected the file of a series that no other program draws from, got {self.path}; "
            "wait for the other."
        )

    def _not_ours(self) -> ValueError:
        return ValueError(
            f"Expected the file of a series, got {self.path}, which holds something else; name "
            "another."
        )

    @property
    def n_out(self) -> int:
        """How many periods were drawn."""
        if self.told is None:
            return 0
        return int(self._link.execute("SELECT count(*) FROM periods").fetchone()[0])

    def before(self, period: int) -> tuple[tuple[KeptPeriod, ...], KeptPeriod | None]:
        """All periods before one, and itself where it was drawn already."""
        rows = []
        if self.told is not None:
            rows = self._link.execute(
                "SELECT sums, drawn FROM periods ORDER BY period LIMIT ?", (period,)
            ).fetchall()
        if len(rows) < period - 1:
            raise ValueError(
                f"Expected period {len(rows) + 1} of the series next, got period={period}; release "
                "periods in order."
            )
        kept = tuple(KeptPeriod(_sums(sums), _arrays(drawn)) for sums, drawn in rows)
        return kept[: period - 1], kept[period - 1] if len(kept) == period else None

    def key_of(self, period: int, told: Any, sums: Mapping[str, ExactSum]) -> bytes:
        """A key for the noise of a period with these sums, and for nothing else."""
        asked = json.dumps([period, told], sort_keys=True).encode()
        own = digest_of(_limbs_of(sums)).encode()
        return hmac.digest(self._key, own + asked, "sha256")

    def keep(self, period: int, told: Any, number: int | None, kept: KeptPeriod) -> None:
        """Write a period, so that it stays if the power goes; what is published comes after."""
        if self.told is None:
            for statement in _TABLES.split(";"):
                self._link.execute(statement)
            self.number = number or 0
            words = json.dumps(told)
            self._link.execute(
                "INSERT INTO series VALUES (?, ?, ?, ?, ?)",
                (_MARK, self.name, self._key, self.number, words),
            )
        self._link.execute(
            "INSERT INTO periods VALUES (?, ?, ?)",
            (period, _bytes(_limbs_of(kept.sums)), _bytes(kept.drawn)),
        )
        self._link.execute("COMMIT")
        self._made = False

    def _close(self) -> None:
        if hasattr(self, "_link"):
            self._link.close()  # undoes what was not written
        if self._made:  # and nothing was kept in it
            self.path.unlink(missing_ok=True)

    def __exit__(self, *error: object) -> None:
        self._close()


def digest_of(arrays: Mapping[str, Any]) -> str:
    """A digest of arrays and their names, the same on every machine."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        head = json.dumps([name, array.dtype.str, array.shape]).encode()
        found.update(hashlib.sha256(head).digest() + hashlib.sha256(array.tobytes()).digest())
    return found.hexdigest()


def _limbs_of(sums: Mapping[str, ExactSum]) -> dict[str, Any]:
    """All limbs of exact sums, by name."""
    kinds = ("high", "low", "part")
    limbs = {f"{n}.{kind}": getattr(each, kind) for n, each in sums.items() for kind in kinds}
    return {name: limb for name, limb in limbs.items() if limb is not None}


def _sums(blob: bytes) -> dict[str, ExactSum]:
    found: dict[str, dict[str, Any]] = {}
    for key, limb in _arrays(blob).items():
        name, _, kind = key.rpartition(".")
        found.setdefault(name, {})[kind] = limb
    return {name: ExactSum(**limbs) for name, limbs in found.items()}


def _bytes(arrays: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _arrays(blob: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(blob), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
