"""A table that was opened once: what is public about it, and the sums of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.tables.arrays import free_memory, on_host
from ndis.tables.batches import complete
from ndis.tables.blocks import Block, Stack
from ndis.tables.device import moved, require_device
from ndis.tables.exact import MOST_ROWS, Accumulator, ExactSum
from ndis.tables.files import looks_like_a_value
from ndis.tables.grid import mark_weights, residue
from ndis.tables.progress import track
from ndis.tables.rows import Rows
from ndis.tables.sources import (
    Request,
    Source,
    label_columns,
    open_source,
    require_as_many,
    with_label_arrays,
    with_labels,
)
from ndis.tables.threads import map_in_order
from ndis.tables.values import TEXT, Records
from ndis.tables.weights import Counting, PersonCounts, Weighting

# What a function makes of a block: doubles that hold integers of at most 2^53, by name.
Terms = Mapping[str, Any]
# So many columns are listed where one is not there.
_MOST_NAMED = 30
# Columns that data frames write for their index, when they are saved.
_INDEX_COLUMNS = ("", "Unnamed: 0", "__index_level_0__", "level_0")


@dataclass(frozen=True)
class Pass:
    """What is done with every batch of a pass; it travels to executors by value."""

    rows: Rows
    function: Callable[[Any], Terms]
    raw: bool = False

    def __call__(self, batch: Any) -> Accumulator:
        """The sums of one batch."""
        total = Accumulator()
        rows = self.rows
        if isinstance(batch, Block):
            blocks: Any = [batch]
        else:
            blocks = rows.raw_blocks(batch) if self.raw else rows.blocks(batch, checked=False)
        for weight, alike in groupby(blocks, lambda block: block.weight):
            own = total if rows.weighting is None else Accumulator()
            for block in alike:
                own.add(self.function(block))
                total.add({"_rows": np.array(float(block.n_rows))})
                if not self.raw:
                    own.add(fingerprint(block))
                if isinstance(block, Stack):
                    total.add({"_odd": block.total(block.odd)})
            if own is not total:
                total.merge(own.weighted(weight))
        return total


@dataclass(frozen=True)
class PeoplePass:
    """What is done with every batch to count everybody's rows; it travels by value too."""

    rows: Rows

    def __call__(self, batch: Any) -> Any:
        """Who has how many rows of one batch."""
        assert self.rows.weighting is not None
        return self.rows.weighting.count(complete(batch, self.rows))


def fingerprint(block: Block) -> dict[str, Any]:
    """A number that changes when a row of the block changes: the sum of (w k mod prime)^2."""
    xp = block.xp
    if isinstance(block, Stack):
        return {"_mark": block.total(block.marks * block.marks)}
    marks = residue(xp, block.times(mark_weights(block.features.shape[0])))
    return {"_mark": xp.sum(marks * marks)}


class Table:
    """A table of any kind and size; `Table.open` makes one.

    Attributes
    ----------
    columns : tuple of str
        The columns that are read, in order, the labels among them.
    rows : Rows
        How records become rows of integers, once that is known (see `with_rows`).
    once : bool
        Whether the source can be read only once.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables import Columns, Rows, Table
    >>> table = Table.open(np.array([[3.0, 4.0], [6.0, 8.0]]))
    >>> table = table.with_rows(Rows(Columns(table.columns, norm=10.0)))
    >>> scale = table.rows.features.scale
    >>> (table.sum(lambda block: {"gram": block.gram()})["gram"].value / scale**2).round(2)
    array([[45., 60.],
           [60., 80.]])
    """

    def __init__(self, source: Source, columns: tuple[str, ...], rows: Rows | None = None) -> None:
        self._source = source
        self.columns = columns
        self._rows = rows
        self.drop_missing = False
        self.device: str | None = None
        self.weighting: Weighting | None = None
        self._people: dict[Any, PersonCounts] = {}
        self._kept: list[Block] = []
        self._seen: dict[str, Any] = {}

    @classmethod
    def open(
        cls,
        source: Any,
        columns: Sequence[str] | None = None,
        *,
        labels: Any = None,
        label: str | Sequence[str] = "y",
        drop_missing: bool = False,
        device: str | None = None,
        typed: Sequence[str] = (),
        **written: Any,
    ) -> Table:
        """Open any kind of table; its schema is looked at here and never again.

        Parameters
        ----------
        source : table
            A numpy array (also memory-mapped), torch tensor, CuPy array or anything with DLPack, a
            scipy sparse matrix, a pandas, polars, Dask or Spark DataFrame, a polars LazyFrame, a
            pyarrow Table, RecordBatch, RecordBatchReader, dataset or ParquetFile, a DuckDB
            relation, a Hugging Face dataset, any object with ``__arrow_c_stream__``, a list of
            arrays or record batches or a function that yields them, the path or address of a
            Parquet, Arrow, CSV, TSV or xlsx file, a pattern or folder of such files, or a list of
            paths. A `Table` is taken as it is.
        columns : sequence of str, optional
            The columns to read, in order; all if not given. For an array, the names of its columns.
        labels : array_like of shape (n_rows,) or (n_rows, n_labels), optional
            Labels of the rows of an array or a data frame.
        label : str or sequence of str
            Their name; beside a data frame, that of each.
        drop_missing : bool, default False
            Whether records with missing or infinite values are left out; otherwise they are an
            error.
        device : str, optional
            A device of torch, such as ``"cuda"``, on which a table that is read here is summed. One
            that is on a device is summed there anyway.
        typed : sequence of str
            Names that the caller has typed elsewhere, as limits or levels: they are no secret.
        **written
            How a text file is written: delimiter, encoding, header, names (see
            `ndis.tables.text.TextFormat`).
        """
        if isinstance(source, Table):
            dropping = source.drop_missing or drop_missing
            if columns is None and dropping == source.drop_missing:
                return source
            return source._select(source.columns if columns is None else tuple(columns), dropping)
        if isinstance(columns, str):
            raise TypeError(
                f"Expected columns to be a list of names, got the string {columns!r}; "
                f"pass [{columns!r}]."
            )
        opened = open_source(source, **written)
        if labels is not None and opened.nameless:
            opened = with_label_arrays(opened, _checked_labels(labels, opened), str(label))
        elif labels is not None:
            names = [label] if isinstance(label, str) else label
            opened = with_labels(opened, label_columns(labels, names))
        confirmed = bool(written.get("header")) or written.get("names") is not None
        table = cls(opened, _chosen(opened, columns, confirmed, {*typed, *(columns or ())}))
        table.drop_missing = drop_missing
        if device is not None:
            if opened.device or opened.reduce is not None:
                raise ValueError(
                    f"Expected a table that is read here to sum it on {device!r}, got one that is "
                    "elsewhere; leave device out."
                )
            require_device(device)
        table.device = device
        return table

    # -- public ------------------------------------------------------------------------------

    @property
    def once(self) -> bool:
        """Whether the source can be read only once."""
        return self._source.once

    @property
    def nameless(self) -> bool:
        """Whether the columns have no names of their own, as in arrays."""
        return self._source.nameless

    @property
    def rows(self) -> Rows:
        """How records become rows of integers."""
        if self._rows is None:
            raise ValueError("Expected a table with a recipe for its rows; call with_rows first.")
        return self._rows

    @property
    def widths(self) -> Mapping[str, int]:
        """Columns that hold fixed-size lists of numbers."""
        return {k: v for k, v in self._source.widths.items() if k in self.columns}

    @property
    def on_card(self) -> bool:
        """Whether rows are summed on a device, where a pass costs little."""
        return self._source.device or self.device is not None

    def with_rows(self, rows: Rows, *, drop_missing: bool | None = None) -> Table:
        """A view of the same table: its records become integers by this recipe."""
        view = self._view(self.columns, drop_missing)
        view._rows = replace(rows, drop_missing=view.drop_missing, weighting=self.weighting)
        view._seen.update({name: seen for name, seen in self._seen.items() if name == "rows"})
        return view

    def complete(self) -> Table:
        """A view that leaves out nothing: missing values are errors."""
        return self.with_rows(self.rows, drop_missing=False)

    def weighed(self, weighting: Weighting | None) -> Table:
        """A view of the same table, in which records count as much as this says."""
        view = self._view(self.columns)
        view.weighting = weighting
        for name in () if weighting is None else weighting.columns:
            if self.nameless:
                raise ValueError(
                    f"Expected a table whose columns have names, to find {name!r} in, got an "
                    "array; hand over a data frame."
                )
            _require_one(self._source, name)
        return view

    def _select(self, columns: tuple[str, ...], drop_missing: bool) -> Table:
        return self._view(_chosen(self._source, columns, True, set(columns)), drop_missing)

    def _view(self, columns: tuple[str, ...], drop_missing: bool | None = None) -> Table:
        view = Table(self._source, columns)
        view.drop_missing = self.drop_missing if drop_missing is None else drop_missing
        view.device, view.weighting, view._people = self.device, self.weighting, self._people
        return view

    # -- sums --------------------------------------------------------------------------------

    def sum(
        self, function: Callable[[Block], Terms], *, raw: bool = False, what: str = "Reading"
    ) -> dict[str, ExactSum]:
        """Add up what a function makes of every block of rows, where the rows are.

        One pass: on threads, on Spark executors or Dask workers, or on a graphics card. Nothing but
        the sums travels. They are exact, so neither order nor hardware shows in them.

        Parameters
        ----------
        function : callable
            Maps a `Block` to arrays by name: doubles that hold integers of at most 2^53.
        raw : bool, default False
            Whether blocks hold the numbers as they are in the table, not clipped, scaled or
            rounded. The function must still return integers, such as counts.
        what : str
            What the progress bar says.
        """
        work = Pass(self._counted(), function, raw)
        request = self._request()
        if self._source.reduce is not None:
            total = self._source.reduce(request, work)
        else:
            total = Accumulator()
            with closing(self._work(request, raw, what)) as parts:
                for part in map_in_order(work, parts, self._n_threads()):
                    total.merge(part)
        sums = total.sums()
        if "_odd" in sums and sums.pop("_odd").value > 0:
            self._refuse_missing()
        self._check(sums.pop("_rows", None), sums.pop("_mark", None))
        return sums

    def _counted(self) -> Rows:
        """The recipe for rows; where they have weights, with everybody's number of rows."""
        weighting = self.rows.weighting
        if weighting is not None and weighting.person is not None and weighting.counts is None:
            counted = weighting.counted(self.count_people())
            self._rows = replace(self.rows, weighting=counted)
        return self.rows

    def count_people(self) -> PersonCounts:
        """How many rows everybody has, in a pass of its own that is made once.

        Rows that are left out do not count. It belongs to the owner of the data.
        """
        rows, weighting = self.rows, self.rows.weighting
        assert weighting is not None
        assert weighting.person is not None
        key = weighting.person, rows.columns if self.drop_missing else ()
        if key not in self._people:
            if self.once:
                raise ValueError(
                    f"Expected a table that can be read twice to count the rows of every "
                    f"{weighting.person}, got one that can be read only once; write it to a file "
                    "first."
                )
            request = self._request()
            if not self.drop_missing:  # whatever the other columns are
                request = Request((weighting.person,), {weighting.person: TEXT}, 1)
            self._people[key] = self._count_rows(request, PeoplePass(rows))
        return self._people[key]

    def _count_rows(self, request: Request, work: PeoplePass) -> PersonCounts:
        if self._source.count is not None:
            return self._source.count(request, work)
        total = Counting()
        reading = self._source.read(request)
        with closing(track(reading, "Counting rows", self._source.n_rows, size=_length)) as batches:
            for part in map_in_order(work, batches, self._n_threads()):
                total.add(part)
        return total.total()

    def _work(self, request: Request, raw: bool, what: str) -> Generator[Any]:
        """What a pass works through: batches, or rows that stay on a card from pass to pass."""
        if raw or not self.on_card:
            yield from self._batches(request, what)
        elif self._kept:
            yield from self._kept
        else:
            kept, keeps = list[Block](), None
            n_bytes = 8 * (5 + sum(len(group.names) for group in self.rows.groups))
            for batch in self._batches(request, what):
                for block in self.rows.blocks(batch, checked=False):
                    if keeps is None:
                        n_rows = self._source.n_rows or MOST_ROWS
                        keeps = n_rows * n_bytes <= free_memory(block.features) // 2
                    if keeps:
                        kept.append(block)
                    yield block
            self._kept = kept

    def _batches(self, request: Request, what: str) -> Generator[Any]:
        """The records, moved to the device that was asked for."""
        reading = track(self._source.read(request), what, self._source.n_rows, size=_length)
        with closing(reading) as batches:
            if self.device is None:
                yield from batches
            else:
                yield from moved(batches, self.rows, self.device, request.device_rows())

    def _refuse_missing(self) -> None:
        """Name the first column with values that are missing or infinite."""
        if self._source.reduce is None:
            for _ in self.blocks(raw=True):
                pass
        raise ValueError("The table has missing or infinite values; drop those rows.")

    @property
    def n_rows(self) -> int:
        """Number of rows of the last pass. It belongs to the owner of the data."""
        return int(self._seen["rows"])

    def measure(self, function: Callable[[Block], FloatArray], n_measures: int) -> FloatArray:
        """What a function makes of every row, in the table's order: shape (n_measures, n_rows).

        For the owner of the data, who may look at single rows; a Spark table is not collected.
        """
        if self._source.reduce is not None:
            raise TypeError(
                "Expected a table that is read here to measure its rows, got one of a cluster; "
                "write it to Parquet files and hand over their folder."
            )
        if self.weighting is not None:
            raise ValueError(
                "Expected rows that count alike to measure them one by one, got weights; leave "
                "person and sample_weight out."
            )

        def measured(batch: Any) -> FloatArray:
            parts = [on_host(function(block)) for block in self.rows.blocks(batch)]
            return np.hstack([np.empty((n_measures, 0)), *parts])

        with closing(self._batches(self._request(), "Measuring rows")) as batches:
            parts = list(map_in_order(measured, batches, self._n_threads()))
        return np.hstack([np.empty((n_measures, 0)), *parts])

    def blocks(self, *, raw: bool = False) -> Iterator[Block]:
        """The blocks of rows, in the table's order, in this process; by weight within a batch."""
        self._counted()
        for batch in self.batches():
            yield from self.rows.raw_blocks(batch) if raw else self.rows.blocks(batch)

    def records(self) -> Iterator[Any]:
        """Batches of records as the source gives them, for the owner of the data."""
        for batch in self._source.read(Request(self.columns, {}, len(self.columns))):
            yield batch.to_arrow() if isinstance(batch, Records) else batch

    def batches(self, *more: str, what: str = "Reading") -> Iterator[Any]:
        """The records as they are read, in the table's order; with further columns, such as keys.

        `Rows.blocks` makes blocks of them.
        """
        reading = self._source.read(self._request(more))
        yield from track(reading, what, self._source.n_rows, size=_length)

    def _request(self, more: tuple[str, ...] = ()) -> Request:
        n_numbers = len(self.rows.features.names)
        weights = {} if self.weighting is None else self.weighting.kinds
        kinds = {**dict.fromkeys(more, TEXT), **self.rows.kinds, **weights}
        return Request((*self.rows.columns, *weights, *more), kinds, n_numbers)

    def _n_threads(self) -> int | None:
        """One thread where something else has threads: the product of wide rows, and a card."""
        wide = len(self.rows.features.names) > 1024
        return 1 if wide or self.on_card else None

    def _check(self, n_rows: ExactSum | None, mark: ExactSum | None) -> None:
        """A pass must see what the passes before it saw."""
        if n_rows is None or not n_rows.value > 0:
            raise ValueError("The table has no rows; hand over at least one.")
        if n_rows.value > MOST_ROWS:
            raise ValueError(f"Expected at most {MOST_ROWS} rows, got more; split the table.")
        now = {"rows": int(n_rows.value)} | ({} if mark is None else {"mark": mark})
        for name, value in now.items():
            if self._seen.setdefault(name, value) != value:
                raise ValueError(
                    "The table changed between two passes over it; hand over one that nobody "
                    "writes to and that gives the same rows each time it is read."
                )

    @cached_property
    def moments(self) -> dict[str, ExactSum]:
        """Second moments of features and labels, from one pass that is made once."""
        from ndis.tables.sums import read_moments

        return read_moments(self)


def _length(batch: Any) -> int:
    data = getattr(batch, "data", batch)
    return int(data.num_rows if hasattr(data, "num_rows") else data.shape[0])


def _chosen(
    source: Source, columns: Sequence[str] | None, confirmed: bool, typed: set[str]
) -> tuple[str, ...]:
    """The columns to read; names that may be somebody's values must have been typed."""
    if source.nameless:
        wanted = source.names if columns is None else tuple(columns)
        if len(wanted) != len(source.names):
            raise ValueError(
                f"Expected {len(source.names)} names for the columns of an array, got "
                f"{len(wanted)}; name every column in order."
            )
        return wanted
    if not confirmed:
        if source.header and any(map(looks_like_a_value, source.names)):
            raise ValueError(
                "Expected names of columns in the first line, got something that looks like a "
                "record; pass header=False and names if it is one, or header=True if these are "
                "names."
            )
        require_names(source.names, typed)
    if columns is None:
        wanted = tuple(name for name in source.names if name not in _INDEX_COLUMNS)
        if source.header and not confirmed and not typed.issuperset(wanted):
            raise ValueError(
                "Expected to know that the first line holds names, since they become part of the "
                "release; pass header=True, or name the columns to read in columns or limits."
            )
    else:
        wanted = tuple(columns)
    known = Counter(source.names)
    for name in wanted:
        if known[name] != 1:
            _require_one(source, name)
    return wanted


def _require_one(source: Source, name: str) -> None:
    """Refuse a source that has not one column of this name."""
    if source.names.count(name) != 1:
        listed = ", ".join(map(repr, source.names[:_MOST_NAMED]))
        more = ", ..." if len(source.names) > _MOST_NAMED else ""
        alike = {other.casefold(): other for other in source.names if other != name}
        near = get_close_matches(name.casefold(), alike, 1)
        advice = f"did you mean {alike[near[0]]!r}?" if near else "name the columns to read."
        raise ValueError(
            f"Expected the table to have one column {name!r}, got columns {listed}{more}; {advice}"
        )


def require_names(names: Iterable[str], typed: Collection[str] = (), labels: Any = None) -> None:
    """Refuse names that may be somebody's values, unless they have been typed.

    They become part of the release. A data frame that was read from a file without a header line
    has the first record for names; `labels` that were taken from it have their part of it.
    """
    beside = getattr(labels, "columns", [getattr(labels, "name", None)])
    found = [*names, *(name for name in beside if isinstance(name, str))]
    if any(looks_like_a_value(name) and name not in typed for name in found):
        raise ValueError(
            "Expected names of columns, got something that looks like a record; if it is one, read "
            "the file again without a header line and name its columns, or else list these names "
            "in columns or limits."
        )


def _checked_labels(labels: Any, source: Source) -> Any:
    values = labels if hasattr(labels, "__dlpack__") else np.asarray(labels)
    if source.n_rows is not None:
        require_as_many(values.shape[0], source.n_rows)
    return values
