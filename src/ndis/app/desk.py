"""What one run of the app holds: a folder, drafts, and the owner's table as it is read."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndis.app.drafts import Draft
from ndis.app.guess import guess
from ndis.cli import tables
from ndis.cli.check import SeenColumn, look, look_for_people
from ndis.cli.settings import Settings, read_settings

_BINS = 24
_FILES = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".parquet", ".pq", ".arrow", ".xlsx")
# Values of a column of text that are shown to its owner.
_MOST_LEVELS = 50


class Picture(NamedTuple):
    """A column as its owner sees it: bars, their ends in words, and what to think about."""

    name: str
    type: str
    missing: int
    least: str
    largest: str
    bars: list[float]
    levels: list[str]
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
        self.first = source
        self.token = secrets.token_urlsafe(32)
        self.scratch = Path(tempfile.mkdtemp(prefix="ndis-app-"))  # for its owner alone
        self.drafts: dict[str, Draft] = {}
        self._read: tuple[Any, Any] = (None, None)

    def close(self) -> None:
        """Stop what is not paid yet, and remove uploads."""
        for draft in self.drafts.values():
            if draft.job is not None and draft.job.process.poll() is None:
                draft.job.stop()
                draft.job.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)

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
            if file.name.lower().endswith(_FILES) and file.is_file()
        ]
        return sorted(name for name in names if not name.startswith("."))[:500]

    def choose(self, draft: Draft, words: str, name: str = "") -> None:
        """Take a table of the folder, or one that was uploaded, and guess how it is written."""
        path = Path(words) if name else self.inside(words)
        if not path.is_file():
            raise FileNotFoundError(f"No file {words!r} is in the folder; check its name.")
        source = str(path) if name else str(path.relative_to(self.folder))
        text = path.name.lower().split(".")[1:2] in (["csv"], ["tsv"], ["tab"])
        written = guess(str(path)) if text else {}
        draft.source, draft.name, draft.written = source, name or path.name, written
        draft.columns, draft.public, draft.person, draft.by, draft.label = [], {}, "", [], ""
        draft.out = ""

    async def upload(self, draft: Draft, name: str, content: Any) -> None:
        """Write what is sent into the scratch folder, readable for its owner alone."""
        safe = Path(name.replace("\\", "/")).name or "table.csv"
        place = self.scratch / secrets.token_hex(8)
        place.mkdir(mode=0o700)
        opened = os.open(place / safe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(opened, "wb") as file:
            async for part in content:
                file.write(part)
        self.choose(draft, str(place / safe), safe)

    def free_name(self, draft: Draft) -> str:
        """A name for the release that is not taken."""
        stem = f"{Path(draft.name).name.split('.')[0]}-{draft.kind}"
        names = (f"{stem}{'' if n == 1 else f'-{n}'}.npz" for n in range(1, 10_000))
        return next(name for name in names if not os.path.lexists(self.folder / name))

    # -- the owner's table ---------------------------------------------------------------------

    def table(self, draft: Draft) -> Any:
        """The records as they are in the file, read once as long as neither it nor that changes."""
        import pyarrow as pa

        from ndis.tables import Table

        path = self.folder / draft.source
        status = path.stat()
        settings = read_settings(draft.written, tables.OPTIONS, None)
        written = tables.written(settings)
        state = (str(path), status.st_mtime_ns, status.st_size, repr(written))
        if self._read[0] != state:
            opened = Table.open(str(path), **written)
            self._read = state, pa.Table.from_batches(list(opened.records()))
        return Table.open(self._read[1])

    def n_rows(self, draft: Draft) -> int:
        """How many rows the file has; for its owner."""
        self.table(draft)
        return int(self._read[1].num_rows)

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
        return look_for_people(self.table(draft), settings)


def _picture(seen: SeenColumn, declared: bool) -> Picture:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ndis.tables.values import list_width, numbers

    kind, levels, whole = seen.values.type, seen.levels, seen.values
    dated = declared or pa.types.is_temporal(kind)
    least, largest, bars = "", "", list[float]()
    if levels is not None:
        counts = pc.value_counts(whole).to_pylist()
        often = sorted((each["counts"] for each in counts), reverse=True)[:_BINS]
        bars = [count / max(often, default=1) for count in often]
        told = f"text, {len(levels)} different values"
    elif len(whole) and not list_width(kind):
        found = np.asarray(numbers(seen.name, whole), dtype=np.float64)
        finite = found[np.isfinite(found)]
        heights = np.histogram(finite, _BINS)[0] if finite.size else np.zeros(1)
        bars = [float(height) for height in heights / max(heights.max(), 1)]
        least, largest = _day(finite, dated) if finite.size else ("", "")
        told = "date" if dated else "number"
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
        dated,
        seen.changed,
        [*seen.doubts],
        len(whole),
    )


def _day(found: Any, dated: bool) -> tuple[str, str]:
    ends = float(found.min()), float(found.max())
    if not dated:
        return f"{ends[0]:.6g}", f"{ends[1]:.6g}"
    first, last = (str(date(1970, 1, 1) + timedelta(days=end)) for end in ends)
    return first, last
