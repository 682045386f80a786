"""What one run of the app holds: a folder, drafts, and the owner's table as it is read."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndis.answer import as_date
from ndis.app.drafts import Draft
from ndis.app.guess import guess
from ndis.cli import tables
from ndis.cli.check import SeenColumn, held, look, look_for_people
from ndis.cli.settings import Settings, read_settings

_BINS = 24
_TEXT = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz")
_FILES = (*_TEXT, ".parquet", ".pq", ".arrow", ".xlsx")
# Values of a column of text that are shown to its owner, and those with a bar of their own.
_MOST_LEVELS, _MOST_BARS = 50, 8
# A larger file is not held in memory to be looked at.
MOST_BYTES = 2**31
_TOO_LARGE = (
    f"Expected a file of at most {MOST_BYTES >> 30} GiB, also unpacked, to look at, got a larger "
    "one; publish it with `ndis release`, which reads it in parts."
)


class Picture(NamedTuple):
    """A column as its owner sees it: bars, their ends in words, and what to think about."""

    name: str
    type: str
    missing: int
    least: str
    largest: str
    bars: list[tuple[str, float]]
    levels: list[str]
    n_levels: int
    dated: bool
    changed: int | None
    doubts: list[str]
    n_values: int


class Desk:
    """The state of the app while it runs.

    Parameters
    ----------
    folder : Path
        The only folder in which it reads and writes, beside its own scratch folder.
    source : str
        The table to begin with, if any.
    ledger : str
        The ledger to begin with, if any.
    seed : int, optional
        Repeatable noise, for tests: NOT private.
    """

    def __init__(
        self, folder: Path, source: str = "", ledger: str = "", seed: int | None = None
    ) -> None:
        self.folder, self.ledger, self.seed = folder.resolve(), ledger, seed
        if ledger and "://" not in ledger:
            path = Path(ledger).resolve()
            within = path.is_relative_to(self.folder)
            self.ledger = str(path.relative_to(self.folder) if within else path)
        self.first = source
        self.token = secrets.token_urlsafe(32)
        self.scratch = Path(tempfile.mkdtemp(prefix="ndis-app-"))  # for its owner alone
        self.drafts: dict[str, Draft] = {}
        self._read: tuple[Any, Any] = (None, None)
        self._door: Path | None = None
        self._reading = threading.Lock()

    def close(self) -> None:
        """Stop what is not paid yet, and remove uploads."""
        for draft in self.drafts.values():
            if draft.job is not None and draft.job.process.poll() is None:
                draft.job.stop()
                draft.job.process.wait()
        self.forget_door()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def door(self, address: str) -> str:
        """A file that leads a browser to the address, which no list of processes shows then."""
        if self._door is None:
            self._door = self.folder / f"ndis-app-{secrets.token_hex(8)}.html"
            opened = os.open(self._door, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(opened, "w", encoding="utf8") as file:
                file.write(f'<meta http-equiv="refresh" content="0;url={address}">\n')
        return self._door.as_uri()

    def forget_door(self) -> None:
        """Remove that file, once it has led somebody here."""
        if self._door is not None:
            self._door.unlink(missing_ok=True)

    def new(self) -> Draft:
        """An empty draft."""
        draft = self.keep(Draft(self.folder, self.seed, ledger=self.ledger))
        if self.first:
            self.choose(draft, self.first)
        return draft

    def keep(self, draft: Draft) -> Draft:
        """Know a draft by its key."""
        self.drafts[draft.key] = draft
        return draft

    # -- files ---------------------------------------------------------------------------------

    def inside(self, words: str) -> Path:
        """A path within the folder; others are refused, whatever they are called."""
        path = self.folder.parent if "\0" in words else (self.folder / words).resolve()
        if path == self.folder or not path.is_relative_to(self.folder):
            raise ValueError(
                "Expected a path within the folder of the app, got another; start "
                "`ndis app --folder` where the file is."
            )
        return path

    def files(self) -> list[str]:
        """Tables in the folder and directly below it."""
        found = [*self.folder.glob("*"), *self.folder.glob("*/*")]
        names = [
            str(file.relative_to(self.folder))
            for file in found
            if file.name.lower().endswith(_FILES)
            and file.is_file()
            and file.resolve().is_relative_to(self.folder)
        ]
        return sorted(name for name in names if not name.startswith("."))[:500]

    def choose(self, draft: Draft, words: str, name: str = "") -> None:
        """Take a table of the folder, or one that was uploaded, and guess how it is written."""
        path = Path(words) if name else self.inside(words)
        if not path.is_file():
            raise FileNotFoundError(f"No file {words!r} is in the folder; check its name.")
        _require_small(path.stat().st_size)
        source = str(path) if name else str(path.relative_to(self.folder))
        written = guess(str(path)) if path.name.lower().endswith(_TEXT) else {}
        draft.source, draft.name, draft.written = source, name or path.name, written
        draft.columns, draft.unused, draft.by, draft.public = [], [], [], {}
        draft.person = draft.label = draft.out = ""

    async def upload(self, draft: Draft, name: str, content: Any) -> None:
        """Write what is sent into the scratch folder, readable for its owner alone."""
        safe = Path(name.replace("\\", "/")).name or "table.csv"
        place = self.scratch / secrets.token_hex(8)
        place.mkdir(mode=0o700)
        try:
            opened = os.open(place / safe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(opened, "wb") as file:
                async for part in content:
                    file.write(part)
                    _require_small(file.tell())
            self.choose(draft, str(place / safe), safe)
        except BaseException:  # what is not whole is not kept
            shutil.rmtree(place, ignore_errors=True)
            raise

    def free_name(self, draft: Draft) -> str:
        """A name for the release that is not taken."""
        stem = f"{Path(draft.name).name.split('.')[0]}-{draft.kind}"
        names = (f"{stem}{'' if n == 1 else f'-{n}'}.npz" for n in range(1, 10_000))
        return next(name for name in names if self.is_free(name, draft))

    def ledger_place(self, ledger: str) -> str:
        """Where a ledger is."""
        return ledger if "://" in ledger else str(self.folder / ledger)

    def is_free(self, name: str, draft: Draft) -> bool:
        """Whether a release may have this name: no file has it, and no other draft."""
        call = replace(draft, out=name).call()
        paths = (self.folder / name, self.folder / call.config)
        return not any(map(os.path.lexists, paths)) and all(
            other is draft or other.out != name for other in [*self.drafts.values()]
        )

    # -- the owner's table ---------------------------------------------------------------------

    def table(self, draft: Draft) -> Any:
        """The records as they are in the file, read once as long as neither it nor that changes."""
        from ndis.tables import Table
        from ndis.tables.sources import open_source

        path = self.folder / draft.source
        settings = read_settings(draft.written, tables.OPTIONS, None)
        written = tables.written(settings)
        with self._reading:  # two tabs may look at two tables
            status = path.stat()
            _require_small(status.st_size)
            state = (str(path), status.st_mtime_ns, status.st_size, repr(written))
            if self._read[0] != state:
                # A sheet's first line holds names, which its owner sees and chooses from.
                names = [*open_source(str(path)).names] if path.suffix == ".xlsx" else None
                opened = Table.open(str(path), names, **written)
                self._read = state, held(opened, MOST_BYTES, _TOO_LARGE)
            return Table.open(self._read[1])

    def n_rows(self, draft: Draft) -> int:
        """How many rows the file has; for its owner."""
        return sum(batch.num_rows for batch in self.table(draft).records())

    def pictures(self, draft: Draft, public: bool = False) -> tuple[int, int, list[Picture]]:
        """How many rows there are, how many without gaps, and each column in a picture."""
        settings = Settings(read_settings(draft.written, tables.OPTIONS, None))
        if public:
            said = {name: draft.public.get(name) for name in draft.columns}
            settings["limits"] = {n: v for n, v in said.items() if isinstance(v, tuple)}
            settings["levels"] = {n: v for n, v in said.items() if isinstance(v, list)}
            limits = {"limits": settings["limits"]}
            settings |= read_settings(limits, draft.question.parameters, None)
        n_rows, complete, seen = look(self.table(draft), settings)
        dates = settings.get("dates", {})
        return n_rows, complete, [_picture(each, each.name in dates) for each in seen]

    def people(self, draft: Draft) -> tuple[int | None, dict[str, str]]:
        """How many people there are, and which columns may say whose row it is."""
        settings = Settings(read_settings(draft.written, tables.OPTIONS, None))
        if draft.person:
            settings["person"] = draft.person
        n_people, told = look_for_people(self.table(draft), settings)
        return n_people, {
            name: said.replace(f"pass --person {name}", "choose it here")
            for name, said in told.items()
        }


def _picture(seen: SeenColumn, declared: bool) -> Picture:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ndis.tables.values import list_width, numbers

    kind, levels, whole = seen.values.type, seen.levels, seen.values
    dated = declared or pa.types.is_temporal(kind)
    least, largest, bars, doubts = "", "", list[tuple[str, float]](), [*seen.doubts]
    if levels is not None:
        counts = {each["values"]: each["counts"] for each in pc.value_counts(whole).to_pylist()}
        often = sorted(counts, key=counts.__getitem__, reverse=True)[:_MOST_BARS]
        bars = [
            (level, counts[level] / counts[often[0]])
            for level in often
            if len(counts) <= _MOST_LEVELS
        ]
        told = f"text, {len(levels)} different values"
        if len(levels) > _MOST_LEVELS:
            doubts.append(
                f"{seen.name} has {len(levels)} different values. Names, ids and free text cannot "
                "be published, not even as levels: leave such a column out."
            )
    elif len(whole) and not list_width(kind):
        found = np.asarray(numbers(seen.name, whole), dtype=np.float64)
        finite = found[np.isfinite(found)]
        heights = np.histogram(finite, _BINS)[0] if finite.size else np.zeros(1)
        bars = [("", float(height)) for height in heights / max(heights.max(), 1)]
        least, largest = _day(finite, dated) if finite.size else ("", "")
        told = "date" if dated else "number"
        whole_numbers = finite.size > _MOST_LEVELS and not np.any(np.mod(finite, 1.0))
        if whole_numbers and not dated and np.unique(finite).size == finite.size:
            doubts.append(
                f"Every value of {seen.name} is another whole number: if it is an id, leave it out."
            )
    else:
        told = str(kind)
    return Picture(
        seen.name,
        told,
        seen.missing,
        least,
        largest,
        bars,
        (levels or [])[:_MOST_LEVELS],
        len(levels or []),
        dated,
        seen.changed,
        doubts,
        len(whole),
    )


def _require_small(size: int) -> None:
    """Refuse what would fill the memory, before it is read."""
    if size > MOST_BYTES:
        raise ValueError(_TOO_LARGE)


def _day(found: Any, dated: bool) -> tuple[str, str]:
    ends = float(found.min()), float(found.max())
    if not dated:
        return f"{ends[0]:.6g}", f"{ends[1]:.6g}"
    return as_date(ends[0]), as_date(ends[1])
