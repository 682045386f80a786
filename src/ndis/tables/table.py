"""A table that was opened once: what is public about it, and the sums of its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray, wrong
from ndis.tables.arrays import on_host
from ndis.tables.batches import Batch, complete
from ndis.tables.blocks import Block, Stack
from ndis.tables.device import moved, require_device
from ndis.tables.exact import MOST_ROWS, Accumulator, ExactSum
from ndis.tables.files import Changed, looks_like_a_value
from ndis.tables.ids import Counting, PersonCounts, of_pairs
from ndis.tables.kept import Kept, Packed, Packing, leave_room
from ndis.tables.marks import mark, summed
from ndis.tables.progress import track
from ndis.tables.rows import Rows
from ndis.tables.sources import (
    KeptThere,
    Reduce,
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
from ndis.tables.weights import Weighting

# What is done with blocks before they are summed.
Passing = Callable[[Iterable[Block]], Iterator[Block]]
if TYPE_CHECKING:
    from ndis.tables.formulas import Design

# What a function makes of a block: doubles that hold integers of at most 2^53, by name.
Terms = Mapping[str, Any]
# So many columns are listed where one is not there.
_MOST_NAMED = 30
# Ids are counted in batches as of rows of so many numbers, which stay in the processor's cache.
_NEAR = 16
# What the marks of a column's levels are called, before the column's name.
_LEVELS = "_levels of "
# Columns that data frames write for their index, when they are saved.
_INDEX_COLUMNS = ("", "Unnamed: 0", "__index_level_0__", "level_0")


@dataclass(frozen=True)
class Pass:
    """What is done with every batch of a pass; it travels to executors by value."""

    rows: Rows
    function: Callable[[Any], Terms]
    raw: bool = False
    marked: bool = True

    def __call__(self, batch: Any) -> Accumulator:
        """The sums of one batch, and the mark of its records."""
        return self.sum(batch)

    def sum(self, batch: Any, passing: Passing | None = None) -> Accumulator:
        """The same; blocks go through `passing` on their way."""
        total = Accumulator()
        blocks = self.blocks(batch, total)
        for weight, alike in groupby(
            blocks if passing is None else passing(blocks), lambda block: block.weight
        ):
            own, n_rows = total if self.rows.weighting is None else Accumulator(), 0
            for block in alike:
                own.add(self.function(block))
                n_rows += block.n_rows
                if isinstance(block, Stack):
                    total.add({"_odd": block.total(block.odd)})
            total.add({"_rows": np.array(float(n_rows))})
            if own is not total:
                total.merge(own.weighted(weight))
        return total

    def nothing(self) -> dict[str, ExactSum]:
        """The sums of no rows at all: zeros, in the shapes of those of one row that counts nothing.

        Somebody may be the only one in a table, which without them is answered as any other.
        """
        total = Accumulator()
        total.add(self._of_zeros())
        sums = total.weighted(0).sums()
        if self.rows.weighting is None:
            sums = {name: ExactSum(zeros.high, zeros.low) for name, zeros in sums.items()}
        return sums

    def n_numbers(self) -> int:
        """How many numbers the sums are, whatever the table."""
        return sum(math.prod(term.shape) for term in self._of_zeros().values())

    def _of_zeros(self) -> Terms:
        """What the function makes of a row of zeros."""
        return self.function(Block(*(np.zeros((len(g.names), 1)) for g in self.rows.groups)))

    def blocks(self, batch: Any, total: Accumulator) -> Iterator[Block]:
        """The blocks of a batch, whose mark is added to the sums; or rows that were kept."""
        if isinstance(batch, tuple):
            for packed in batch:
                block = packed.block()
                yield block if self.raw or packed.ready else self.rows.on_grid(block)
            return
        records = Batch.of(batch, self.rows)
        if self.marked:
            total.add({"_mark": mark(records)})
        if records.people is not None:
            total.add({"_people": summed(records.people)})
        for name, own in records.sought.items():
            total.add({f"{_LEVELS}{name}": summed(of_pairs(own, records.people))})
        if self.raw:
            yield from self.rows.raw_blocks(records)
        else:
            yield from self.rows.blocks(records, checked=False)

    def of_kept(self) -> Pass:
        """The same for rows that were kept, whose weights are known: it travels without these."""
        weighting = self.rows.weighting
        if weighting is None or weighting.counts is None:
            return self
        return replace(self, rows=replace(self.rows, weighting=replace(weighting, counts=None)))


@dataclass(frozen=True)
class PeoplePass:
    """What is done with every batch to count everybody's rows; it travels by value too."""

    rows: Rows
    weighting: Weighting

    def __call__(self, batch: Any) -> Any:
        """Who has how many rows of one batch."""
        return self.weighting.count(complete(batch, self.rows))


@dataclass
class Past:
    """What the passes of one run have seen, whatever their recipes.

    Attributes
    ----------
    seen : dict
        The number of rows, and the marks of the columns that were read.
    people : dict
        How many rows everybody had, where they were counted.
    records : Kept or None
        The numbers as they are in the table, where its limits had to be found first.
    there : list of KeptThere
        What others keep for this run, until they are told that it is over.
    """

    seen: dict[Any, Any] = field(default_factory=dict)
    people: dict[Any, PersonCounts] = field(default_factory=dict)
    records: Kept | KeptThere | None = None
    there: list[KeptThere] = field(default_factory=list)


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
    formula : (Table, Design) or None
        Of a design matrix, the table with the columns of the formula, and what it makes of them.

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
        self.formula: tuple[Table, Design] | None = None
        self._kept: Kept | KeptThere | None = None
        self._past = Past()

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
        if not opened.names:  # batches of which there are none
            if columns is None:
                raise wrong("columns")(
                    "Expected the names of the columns of batches that may be none, got no batch; "
                    "list them in columns, or hand over a batch without rows."
                )
            opened = replace(opened, names=tuple(dict.fromkeys([*columns, *typed])))
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
    def names(self) -> tuple[str, ...]:
        """All columns of the source, whether or not they are read."""
        return self._source.names

    @property
    def texts(self) -> tuple[str, ...] | None:
        """Columns of text among those that are read, by types that no row can change, or None."""
        known = self._source.texts
        return None if known is None else tuple(name for name in self.columns if name in known)

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
    def here(self) -> bool:
        """Whether rows are summed here or on a card, where a further pass costs little."""
        return self._source.reduce is None

    @property
    def on_card(self) -> bool:
        """Whether rows are summed on a device."""
        return self._source.device or self.device is not None

    def with_rows(self, rows: Rows, *, drop_missing: bool | None = None) -> Table:
        """A view of the same table: its records become integers by this recipe."""
        view = self._view(self.columns, drop_missing)
        view._rows = replace(rows, drop_missing=view.drop_missing, weighting=self.weighting)
        # What was seen with one recipe holds for all others that read the same records.
        if self._rows is not None and self._rows.drop_missing == view.drop_missing:
            view._past = self._past
            # Records that were kept hold the places of levels in lists that are no longer these.
            if self._rows.levels != rows.levels:
                view._past = replace(self._past, records=None)
        return view

    def complete(self) -> Table:
        """A view that leaves out nothing: missing values are errors."""
        return self.with_rows(self.rows, drop_missing=False)

    def weighed(self, weighting: Weighting | None) -> Table:
        """A view of the same table, in which records count as much as this says.

        It starts anew: rows that were kept, and what was seen of them, have other weights.
        """
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

    def reweighed(self, rows_per_person: int) -> Table:
        """A view for the same run, in which so many rows of a person count alike."""
        assert self.weighting is not None
        weighting = replace(self.weighting, rows_per_person=rows_per_person)
        view = self.weighed(weighting).with_rows(self.rows)
        view._past = replace(self._past, records=None)
        return view

    def mapped(self, design: Design) -> Table:
        """A view of the design matrix of a formula, beside the columns that it does not name."""
        if self.nameless:
            raise ValueError(
                "Expected a table with named columns for a formula, got an array; hand over a data "
                "frame."
            )
        for name in design.columns:
            if name not in self.columns:
                raise ValueError(
                    f"Expected the columns of the formula in the table, got none named {name!r}; "
                    "correct the formula, or add it to columns."
                )
        others = (name for name in self.columns if name not in design.columns)
        view = Table(design.source(self._source), (*design.names, *others))
        view.drop_missing, view.device, view.formula = (
            self.drop_missing,
            self.device,
            (self, design),
        )
        return view

    def _select(self, columns: tuple[str, ...], drop_missing: bool) -> Table:
        return self._view(_chosen(self._source, columns, True, set(columns)), drop_missing)

    def _view(self, columns: tuple[str, ...], drop_missing: bool | None = None) -> Table:
        view = Table(self._source, columns)
        view.drop_missing = self.drop_missing if drop_missing is None else drop_missing
        view.device, view.weighting = self.device, self.weighting
        view.formula = self.formula
        return view

    # -- sums --------------------------------------------------------------------------------

    def sum(
        self,
        function: Callable[[Block], Terms],
        *,
        raw: bool = False,
        again: bool = False,
        alone: bool = False,
        what: str = "Reading",
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
        again : bool, default False
            Whether the rows will be summed again: they are kept for that (`ndis.tables.kept`).
        alone : bool, default False
            Whether no other pass has to see the same rows, so that none need be recognised.
        what : str
            What the progress bar says.
        """
        work = Pass(self._counted(), function, raw, not alone or bool(self._past.seen))
        if self._source.reduce is not None:
            total = self._sum_there(self._source.reduce, work, again, what)
        else:
            total = self._sum_here(work, again, what)
        sums = total.sums()
        if "_rows" not in sums:
            sums |= work.nothing()
        if "_odd" in sums and sums.pop("_odd").value > 0:
            self._refuse_missing()
        self._check(sums)
        return sums

    def _counted(self) -> Rows:
        """The recipe for rows; where they have weights, with everybody's number of rows."""
        weighting = self.rows.weighting
        if weighting is not None and weighting.person is not None and weighting.counts is None:
            counts = self.count_people()
            self._rows = replace(self.rows, weighting=weighting.counted(counts))
        return self.rows

    def count_people(self) -> PersonCounts:
        """How many rows everybody has, in a pass of its own that is made once.

        Rows that are left out do not count. It belongs to the owner of the data.
        """
        assert self.rows.weighting is not None
        return self._counts("people", self.rows.weighting)

    def count_levels(self, name: str) -> PersonCounts:
        """How many rows each level of a column that is `sought` has, or everybody of each level."""
        weighting, given = Weighting(name), self.weighting
        if given is not None and given.person is not None:
            weighting = replace(given, sample_weight=None, max_weight=None, level=name)
        return self._counts(f"{_LEVELS}{name}", weighting)

    def _counts(self, which: str, weighting: Weighting) -> PersonCounts:
        """Rows that are counted, whose marks later passes must see again."""
        named, key = tuple(filter(None, (weighting.person, weighting.level))), self._of_rows(which)
        if key not in self._past.people:
            if self.once:
                raise ValueError(
                    f"Expected a table that can be read twice to count the rows of every "
                    f"{weighting.person}, got one that can be read only once; write it to a file "
                    "first."
                )
            request = self._request()  # rows are left out for gaps in any column
            if not self.drop_missing:  # whatever the other columns are
                request = Request(named, dict.fromkeys(named, TEXT), _NEAR)
            counts = self._count_rows(request, PeoplePass(self.rows, weighting))
            self._past.people[key], self._past.seen[key] = counts, counts.mark
        return self._past.people[key]

    def _count_rows(self, request: Request, work: PeoplePass) -> PersonCounts:
        if self._source.count is not None and work.weighting.level is None:
            return self._source.count(request, work)
        total = Counting()
        reading = self._source.read(request)
        with closing(track(reading, "Counting rows", self._source.n_rows, size=_length)) as batches:
            for part in map_in_order(work, batches, self._n_threads()):
                total.add(part)
        return total.total()

    def _sum_here(self, work: Pass, again: bool, what: str) -> Accumulator:
        """The sums of a table that is read here, or of its rows where they were kept."""
        known: Any = self._past.records if work.raw else self._kept
        keep: Kept | None = None
        # Of an array in memory numbers need not be kept as they are; on a card room is no question.
        if known is None and (not self._source.nameless if work.raw else again or self.on_card):
            keep = Kept() if again or not work.raw else None
        packing = Packing(self.rows, work.raw)

        def summed(batch: Any) -> tuple[Accumulator, list[Packed]]:
            packed = list[Packed]()

            def passing(blocks: Iterable[Block]) -> Iterator[Block]:
                for block in blocks:
                    if keep is not None and keep.whole:
                        packed.append(packing(block))
                    yield block

            return work.sum(batch, passing), packed

        total, known = Accumulator(), known or self._past.records
        with closing(self._batches(what) if known is None else known.blocks()) as batches:
            for part, blocks in map_in_order(summed, batches, self._n_threads()):
                total.merge(part)
                del part  # matrices, while the next are made
                if keep is not None:
                    keep.extend(blocks)
        leave_room()
        if keep is not None and keep.whole:
            keep.join(self.rows.step)
            if work.raw:
                self._past.records = keep
            else:
                self._kept = keep
        return total

    def _sum_there(self, reduce: Reduce, work: Pass, again: bool, what: str) -> Accumulator:
        """The sums of a table that is elsewhere, or of its rows where they are kept there."""
        records: Any = self._past.records
        known: Any = records if work.raw else self._kept
        if known is None and again and self._source.keep is not None:
            known = records.keep(work) if records else self._source.keep(self._request(), work)
            if known is not None:
                self._past.there.append(known)
            if work.raw:
                self._past.records = known
            else:
                self._kept = known
        rows: KeptThere | None = known or records
        if rows is not None:
            return rows.reduce(work.of_kept(), what)
        return reduce(self._request(), work, what)

    def forget(self) -> None:
        """Free what was kept for this run, rows wherever they are, and sums: it is over."""
        self._kept, self._past.records = None, None
        self.__dict__.pop("moments", None)
        while self._past.there:
            self._past.there.pop().forget()

    def _batches(self, what: str) -> Generator[Any]:
        """The records, moved to the device that was asked for."""
        request, n_rows = self._request(), self._source.n_rows
        with closing(track(self._source.read(request), what, n_rows, size=_length)) as batches:
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
        seen = self._past.seen
        rows = [n for name, n in seen.items() if name[0] == "rows"]
        return int(seen.get(self._of_rows("rows"), rows[-1]))

    def _of_rows(self, what: str) -> Any:
        """Which rows are left out depends on the columns that are read."""
        read = (self.rows.columns, tuple(self.rows.levels)) if self.drop_missing else ()
        return what, read

    def measure(self, function: Callable[[Block], FloatArray], n_measures: int) -> FloatArray:
        """What a function makes of every row, in the table's order: shape (n_measures, n_rows).

        For the owner of the data, who may look at single rows; a Spark table is not collected.
        """
        self.require_here("measure")
        if self.weighting is not None:
            raise ValueError(
                "Expected rows that count alike to measure them one by one, got weights; leave "
                "person and sample_weight out."
            )

        def measured(batch: Any) -> tuple[FloatArray, Accumulator]:
            records, seen = Batch.of(batch, self.rows), Accumulator()
            parts = [on_host(function(block)) for block in self.rows.blocks(records)]
            measures = np.hstack([np.empty((n_measures, 0)), *parts])
            seen.add({"_mark": mark(records), "_rows": np.array(float(measures.shape[1]))})
            return measures, seen

        measures, total = [np.empty((n_measures, 0))], Accumulator()
        with closing(self._batches("Measuring rows")) as batches:
            for measures_of, seen in map_in_order(measured, batches, self._n_threads()):
                measures.append(measures_of)
                total.merge(seen)
        self._check(total.sums())
        return np.hstack(measures)

    def sampled_gram(self, chosen: Callable[[int], Any]) -> ExactSum:
        """The Gram matrix of some rows, in a pass that is made in the table's order.

        Parameters
        ----------
        chosen : callable
            Maps a number n to indices of those of the next n rows that count.
        """
        self.require_here("sample")
        total = Accumulator()
        with closing(self._batches("Sampling rows")) as batches:
            for batch in batches:
                records = Batch.of(batch, self.rows)
                total.add({"_mark": mark(records)})
                for block in self.rows.blocks(records):
                    some = block.taken(block.beside(np.asarray(chosen(block.n_rows), np.int64)))
                    n_rows = np.array(float(block.n_rows))
                    total.add({"gram": some.whole_gram(), "_rows": n_rows})
        d = len(self.rows.features.names)
        sums = {"gram": ExactSum.of(np.zeros((d, d)))} | total.sums()
        self._check(sums)
        return sums["gram"]

    def require_here(self, verb: str) -> None:
        """Refuse a table of a cluster where rows are looked at one by one."""
        if self._source.reduce is not None:
            raise TypeError(
                f"Expected a table that is read here to {verb} its rows, got one of a cluster; "
                "write it to Parquet files and hand over their folder."
            )

    def blocks(self, *, raw: bool = False) -> Iterator[Block]:
        """The blocks of rows, in the table's order, in this process; by weight within a batch."""
        self._counted()
        for batch in self.batches():
            yield from self.rows.raw_blocks(batch) if raw else self.rows.blocks(batch)

    def records(self, *as_text: str) -> Iterator[Any]:
        """Batches of records as the source gives them, for the owner of the data.

        Some columns of a file of text may be read as they are written.
        """
        kinds = dict.fromkeys(as_text, TEXT)
        for batch in self._source.read(Request(self.columns, kinds, len(self.columns))):
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

    def _check(self, sums: dict[str, ExactSum]) -> None:
        """A pass must see what the passes before it saw; takes what tells that from its sums."""
        n_rows, seen, people = (sums.pop(name, None) for name in ("_rows", "_mark", "_people"))
        levels = {name: sums.pop(f"{_LEVELS}{name}", None) for name in self.rows.sought}
        n = 0 if n_rows is None else int(n_rows.value)
        if n > MOST_ROWS:
            raise ValueError(f"Expected at most {MOST_ROWS} rows, got more; split the table.")
        now: dict[Any, Any] = {self._of_rows("rows"): n}
        if seen is not None:  # something was read
            known = {name: v for name, v in self.rows.levels.items() if name not in levels}
            now[self.rows.columns, tuple(known.items())] = seen
        if people is not None:  # whose records were counted before
            now[self._of_rows("people")] = people
        now |= {self._of_rows(_LEVELS + name): m for name, m in levels.items() if m is not None}
        for name, value in now.items():
            if self._past.seen.setdefault(name, value) != value:
                raise changed()

    @cached_property
    def moments(self) -> dict[str, ExactSum]:
        """Second moments of features and labels, from one pass that is made once."""
        from ndis.tables.sums import read_moments

        return read_moments(self)


def changed() -> ValueError:
    """The error for a table of which a later pass saw something else."""
    return Changed(
        "The table changed between two passes over it; hand over one that nobody writes to and "
        "that gives the same rows each time it is read."
    )


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
            raise wrong("header", "names")(
                "Expected the first line to name the columns, got something that looks like a "
                "record; pass header=False and names if it is one, or else header=True."
            )
        require_names(source.names, typed)
    if columns is None:
        wanted = tuple(name for name in source.names if name not in _INDEX_COLUMNS)
        if source.header and not confirmed and not typed.issuperset(wanted):
            raise wrong("header", "columns", "limits")(
                "Expected to know that the first line holds names, since they become part of the "
                "release; pass header=True, or list what is read in columns or limits."
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
        advice = f"did you mean {alike[near[0]]!r}?" if near else "name one of these."
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
        raise wrong("columns", "limits")(
            "Expected the name of each column, got something that looks like a record; if it is "
            "one, read the file again without a header line and name what it holds, or else list "
            "these names in columns or limits."
        )


def _checked_labels(labels: Any, source: Source) -> Any:
    values = labels if hasattr(labels, "__dlpack__") else np.asarray(labels)
    if source.n_rows is not None:
        require_as_many(values.shape[0], source.n_rows)
    return values
