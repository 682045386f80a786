"""``ndis check``: what a table holds and what limits do to it, for its owner alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._validate import one_of
from ndis.answer import as_date
from ndis.cli import tables
from ndis.cli.console import open_ledger, print_table, tell
from ndis.cli.guesses import advice
from ndis.cli.kinds import EPSILON, KINDS, LABEL
from ndis.cli.settings import LEVELS, LIMITS, NUMBER, RANGE, WORD, Settings, read_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis.tables import Columns, PersonCounts, Table
    from ndis.tables.text import TextFormat

OPTIONS = {
    **tables.COLUMNS,
    "limits": LIMITS("Public limits of a column, as for a release."),
    "levels": LEVELS("Public levels of a categorical column, as for a release."),
    "data_norm": NUMBER("The largest length a row can have, as for a release."),
    "label": LABEL,
    "label_limits": RANGE("Public limits of the label, as for a release."),
    "person": WORD("The column that says whose row it is."),
    "missing_person": WORD("What a row without a person is: own, a person of its own."),
    **EPSILON,
    **tables.OPTIONS,
}
# More levels than this are counted, not listed.
_MOST_LEVELS = 6
# A column may name people if it has so many values, and so many for each row.
_SEVERAL, _OFTEN = 20, 0.01
# More columns than this nobody reads, and a terminal takes minutes to print them.
_MOST_COLUMNS = 2000
# Limits are wide if they are more than this many times as wide as most of the values.
_WIDE = 10
# A table is looked at in memory, of which it may take up one part in so many.
_SHARE = 4


def check(
    flags: Mapping[str, Any],
    source: str | None = None,
    *,
    mechanism: str | None = None,
    ledger: str | None = None,
    config: Path | None = None,
) -> None:
    """Look at a table before a release: types, gaps, values beyond the limits, forecasts.

    Only for the owner of the data, and printed to standard error: nothing here is private.

    Parameters
    ----------
    mechanism : str
        Forecast a release as well: a kind of `ndis release`.
    ledger : str
        Say what such a release would leave of it.
    """
    options = dict(OPTIONS)
    if mechanism is not None:  # whose settings a file may hold
        options = KINDS[one_of("mechanism", mechanism, [*KINDS])].parameters | options
    settings = tables.name_columns(read_settings(flags, options, config))
    assert source is not None
    with tables.opened(source, tables.with_header(source, settings)) as table:
        if len(table.columns) > _MOST_COLUMNS:
            raise ValueError(
                f"Expected at most {_MOST_COLUMNS} columns to show, got {len(table.columns)}; name "
                "those that a release will read with --columns."
            )
        if "label" in settings:
            _require_label(table, settings["label"])
        n_rows, seen = _tell_columns(table, settings)
        _tell_rows(table, settings)
        written = _tell_writing(seen, settings)
        n_people, people = _tell_people(table, settings, written)
    if mechanism is not None:
        _tell_release(mechanism, settings, n_people or n_rows, ledger)  # everybody counts once
    elif not written:
        _tell_next(source, [each for each in seen if each.name not in people], settings)


def _require_label(table: Table, label: str) -> None:
    if label not in table.columns:
        near = get_close_matches(label, table.columns, 1)
        advice = f"did you mean {near[0]!r}?" if near else "name one of its columns."
        raise ValueError(f"Expected --label to be a column of the table, got {label!r}; {advice}")


@dataclass(frozen=True)
class SeenColumn:
    """A column as a release would read it, for its owner alone.

    Attributes
    ----------
    name : str
    values : pyarrow.Array
        Those that are not missing.
    missing : int
    changed : int, optional
        How many values the declared limits clip, or the declared levels do not know.
    doubts : tuple of str
        What the owner may not have meant, a sentence each.
    """

    name: str
    values: Any
    missing: int
    changed: int | None
    doubts: tuple[str, ...]

    @property
    def levels(self) -> list[str] | None:
        """The distinct values of a column of text, in order; None of other columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.values.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return sorted(pc.unique(self.values).to_pylist()) if text else None

    @property
    def ends(self) -> tuple[str, str]:
        """The least and the largest value, as they are shown; of no values nothing."""
        import pyarrow.compute as pc

        from ndis.tables.values import list_width

        listed = list_width(self.values.type)
        numbers = self.values.flatten() if listed else self.values
        if not len(numbers) or (listed is None and _is_nested(self.values.type)):
            return "", ""
        found = pc.min_max(numbers).as_py()
        return _short(found["min"]), _short(found["max"])


def look(table: Table, settings: Settings) -> tuple[int, int, list[SeenColumn]]:
    """How many rows there are, how many without gaps, and each column as it would be read."""
    import numpy as np

    from ndis.tables.kept import memory
    from ndis.tables.text import TextFormat, as_read

    records = held(
        table,
        memory() // _SHARE,
        f"Expected a table that takes up at most one part in {_SHARE} of the memory to look at, "
        "got a larger one; look at a part of its rows. A release needs no such memory.",
    )
    written = TextFormat(**tables.written(settings))
    seen = []
    present = np.ones(records.num_rows, dtype=bool)
    for name in table.columns:
        column = as_read(name, records[name].combine_chunks(), written, settings.get("levels", {}))
        present &= column.is_valid().to_numpy(zero_copy_only=False)
        whole = column.drop_null()
        changed, doubts = _changed(name, whole, settings), tuple(_doubts(name, whole, settings))
        seen.append(SeenColumn(name, whole, column.null_count, changed, doubts))
    return records.num_rows, int(present.sum()), seen


def held(table: Table, most: int, said: str) -> pa.Table:
    """The records in memory; an error that says so if they take up more bytes, packed or not."""
    import pyarrow as pa

    batches, size = [], 0
    for batch in table.records():
        size += batch.nbytes
        if size > most:
            raise ValueError(said)
        batches.append(batch)
    return pa.Table.from_batches(batches)


def _tell_columns(table: Table, settings: Settings) -> tuple[int, list[SeenColumn]]:
    """Each column with its type, gaps, values, and how much of it limits or levels change."""
    n_rows, complete, seen = look(table, settings)
    rows = []
    for each in seen:
        known, (least, largest) = each.levels, ("", "")
        if known is None and each.name in settings.get("dates", {}):
            least, largest = (as_date(float(end)) if end else "" for end in each.ends)
        elif known is None:
            least, largest = each.ends
        else:
            least = ", ".join(known) if len(known) <= _MOST_LEVELS else f"{len(known)} kinds"
        share = _share(each.changed, len(each.values))
        kind = "date" if each.name in settings.get("dates", {}) else str(each.values.type)
        rows.append([each.name, kind, str(each.missing), least, largest, share])
    print_table(
        f"{n_rows} rows, {complete} of them without gaps",
        ["column", "type", "missing", "least", "largest", "beyond limits or levels"],
        rows,
        wrap=True,
        err=True,
    )
    for doubt in (doubt for each in seen for doubt in each.doubts):
        tell(doubt, err=True)
    return n_rows, seen


def _tell_writing(seen: list[SeenColumn], settings: Settings) -> list[str]:
    """Say how text that may be numbers or dates is declared; the names of such columns."""
    from ndis.tables.text import TextFormat

    known = {*settings.get("levels", {}), settings.get("person")}
    text = {each.name: each.values for each in seen if each.levels and each.name not in known}
    told = list(advice(text, TextFormat(**tables.written(settings))))
    for _, sentence in told:
        tell(sentence, err=True)
    return [name for names, _ in told for name in names]


def _tell_next(source: str, seen: list[SeenColumn], settings: Settings) -> None:
    """Say what a release has to know about these columns: an example of each kind."""
    limits, levels = settings.get("limits", {}), settings.get("levels", {})
    wanted = {
        "levels" if each.levels else "limits": each.name
        for each in reversed(seen)
        if each.name not in {*levels, settings.get("person")} and each.name not in limits
    }
    if limits == "private" or "data_norm" in settings:
        wanted.pop("limits", None)
    shown = {"limits": "LOW:HIGH", "levels": "A,B,..."}
    asked = [f"--{what} {name}={shown[what]}" for what, name in sorted(wanted.items())[::-1]]
    if any(each.missing for each in seen) and not settings.get("drop_missing"):
        asked.append("--drop-missing to leave out rows with gaps")
    public = "; of the columns that you use name what is public, as in "
    tell(
        f"Next: ndis release summary {source} --by NAME, or ndis release regression {source} "
        f"--label NAME, with the same options{public if asked else ''}{', '.join(asked)}.",
        err=True,
    )


def _is_nested(kind: Any) -> bool:
    """Whether a value is several: of such columns only lists of one size are read."""
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def _doubts(name: str, whole: Any, settings: Settings) -> Iterator[str]:
    """What the owner may not have meant."""
    import numpy as np

    from ndis.tables.values import level_positions, list_width, numbers

    if _is_nested(whole.type) and list_width(whole.type) is None:
        yield (
            f"{name} holds {whole.type}, which no release reads: make lists of one fixed size of "
            "it, or a column of each number."
        )
        return

    known = settings.get("levels", {}).get(name)
    if known is not None and len(whole):
        found = level_positions(name, whole, known)
        absent = [repr(str(level)) for k, level in enumerate(known) if k not in found]
        if absent:
            yield (
                f"No row has {name} = {' or '.join(absent)}: levels are compared letter by letter, "
                "capitals count."
            )
        elif not (found < 0).any() and settings.get("label") not in (None, name):
            yield (
                f"Every row has one of the levels listed for {name}; beside an intercept leave one "
                "out, the baseline that the others are compared with."
            )
    limits = settings.get("limits")
    pair = limits.get(name) if isinstance(limits, Mapping) else None
    if pair is not None and pair != "private" and len(whole):
        low, high = _recipe([name], {"limits": {name: pair}}).limits[name]  # type: ignore[index]
        least, largest = np.quantile(numbers(name, whole), [0.005, 0.995])
        if high - low > _WIDE * (largest - least):
            yield (
                f"The limits of {name} are more than {_WIDE} times as wide as 99% of its values: "
                "wide limits cost precision; take narrower ones if everybody may know them."
            )


def _changed(name: str, values: Any, settings: Settings) -> int | None:
    """How many values the declared limits clip, or the declared levels do not know."""
    from ndis.tables.values import level_positions, numbers

    levels, limits = settings.get("levels", {}), settings.get("limits")
    pair = limits.get(name) if isinstance(limits, Mapping) else None
    if name == settings.get("label"):
        pair = settings.get("label_limits", pair)
    if name in levels:
        return int((level_positions(name, values, levels[name]) < 0).sum())
    if pair is None or pair == "private":
        return None
    low, high = _recipe([name], {"limits": {name: pair}}).limits[name]  # type: ignore[index]
    found = numbers(name, values)
    return int(((found < low) | (found > high)).sum())


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _share(part: int | None, whole: int) -> str:
    return "" if part is None else f"{part} ({part / max(whole, 1):.2%})"


def _recipe(names: list[str], settings: Mapping[str, Any]) -> Columns:
    from ndis.tables import Columns

    limits = settings.get("limits")
    return Columns(
        names,
        {k: v for k, v in settings.get("levels", {}).items() if k in names},
        {k: v for k, v in limits.items() if k in names} if isinstance(limits, Mapping) else None,
        settings.get("data_norm"),
    )


def _tell_rows(table: Table, settings: Settings) -> None:
    """How many rows a bound on the norm scales down."""
    import numpy as np

    from ndis.tables import GRID_NORM, Rows

    if "data_norm" not in settings:
        return
    recipe = _recipe([n for n in table.columns if n != settings.get("label")], settings)
    scaled = total = 0
    for block in table.with_rows(Rows(recipe)).blocks(raw=True):
        clipped = np.clip(block.features, recipe.low[:, None], recipe.high[:, None])
        grid = (clipped - recipe.middle[:, None]) * recipe.scale[:, None]
        scaled += int((np.linalg.norm(grid, axis=0) > GRID_NORM).sum())
        total += block.n_rows
    tell(f"Scaled down to data_norm: {_share(scaled, total)} of the rows.", err=True)


def _tell_people(
    table: Table, settings: Settings, others: list[str]
) -> tuple[int | None, dict[str, str]]:
    """Say what `look_for_people` says, but of some columns, and return it."""
    n_people, told = look_for_people(table, settings)
    for name, sentence in told.items():
        if name not in others:
            tell(sentence, err=True)
    return n_people, told


def look_for_people(table: Table, settings: Settings) -> tuple[int | None, dict[str, str]]:
    """Which columns may say whose row it is, and how many rows the busiest person has.

    How many people there are, where their column is known, and a sentence for each such column.
    """
    from ndis.tables.text import TextFormat

    person, limits = settings.get("person"), settings.get("limits")
    used = {settings.get("label"), settings.get("sample_weight"), *settings.get("levels", {})}
    used |= set(limits) if isinstance(limits, Mapping) else set()
    used |= set(settings.get("dates", {}))
    if table.nameless:
        return None, {}
    if person is not None:
        own = settings.get("missing_person", "refuse")
        ((total, _),) = _people(table, [person], strict=True, missing=own).values()
        told = f"{person}: {total.n_people} people, the busiest with {total.most} rows."
        if total.alone:
            told += f" {total.alone} of them are rows without a {person}, each counted as another."
        return total.n_people, {person: told}
    names = [name for name in table.names if name not in used]
    written = TextFormat(**tables.written(settings))
    return None, {
        name: f"{name} has {total.n_people} different values in {n_rows} rows, one of them in "
        f"{total.most}: if {name} says whose row it is, pass --person {name}, since a promise for "
        f"one row says little about somebody with {total.most}."
        for name, (total, n_rows) in _people(table, names, written=written).items()
        if total.most > 1 and total.n_people >= max(_SEVERAL, _OFTEN * n_rows)
    }


def _has_decimals(name: str, column: Any, written: TextFormat) -> bool:
    """Whether values are read as numbers that are not whole, which name nobody."""
    import numpy as np
    import pyarrow as pa

    from ndis.tables.text import as_read

    read = as_read(name, column, written, {})
    numbers = pa.types.is_floating(read.type)
    if not numbers:
        return False
    values = read.drop_null().to_numpy()
    return bool(np.any(np.mod(values[np.isfinite(values)], 1.0) != 0.0))


def _people(
    table: Table,
    names: list[str],
    strict: bool = False,
    written: TextFormat | None = None,
    missing: str = "refuse",
) -> dict[str, tuple[PersonCounts, int]]:
    """The values of columns that could name people, counted, and how many rows have one.

    Others are left out, or an error.
    """
    import pyarrow as pa

    from ndis.tables import Table, Weighting
    from ndis.tables.ids import Counting

    counted, n_rows = {name: Counting() for name in names}, dict.fromkeys(names, 0)
    as_text = names if strict else ()
    for batch in Table.open(table, names).records(*as_text) if names else ():
        for name in [*counted]:
            column = batch.column(name)
            own = pa.record_batch({name: column.drop_null() if missing == "refuse" else column})
            if written is not None and _has_decimals(name, own.column(0), written):
                del counted[name]
                continue
            n_rows[name] += own.num_rows
            try:
                counted[name].add(Weighting(name, missing_person=missing).count(own))
            except ValueError:  # numbers with decimals and the like name nobody
                if strict:
                    raise
                del counted[name]
    return {name: (each.total(), n_rows[name]) for name, each in counted.items()}


def _tell_release(name: str, settings: Settings, n_rows: int, ledger: str | None) -> None:
    """What a release with these settings would be good for, and what it would cost."""
    kind = KINDS[name]
    settings.need("ndis check", *kind.needed())
    expected = kind.forecast(Settings({**settings, "n_rows": n_rows}))
    promise = kind.plan(settings).guarantee
    tell(f"{expected}\n{promise}", err=True)
    if ledger is not None:
        with open_ledger(ledger) as book:
            tell(f"It would leave {book.preview(promise)}.", err=True)
