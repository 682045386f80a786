"""Nothing of a table that changes between two passes is released: it is noticed, or not read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

from attacks import changes
from ndis import (
    PrivateCovariance,
    PrivateLeastSquares,
    PrivateLevels,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivatePoissonRegression,
    PrivateProjection,
    PrivateSummary,
)
from ndis.release import NewFile
from ndis.tables import Columns, Rows, Table, Weighting, files, marks
from ndis.tables.batches import Batch
from ndis.tables.marks import mark
from ndis.tables.sums import totals
from spark_sessions import QUIET, spark_session

pytestmark = QUIET

N = 300
NAMES = ["a", "b", "y"]


def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    features, labels = rng.uniform(0, 1, (N, 2)), rng.integers(0, 2, N) * 1.0
    more = {"who": np.arange(N) // 2, "ward": np.array(["north", "south"])[np.arange(N) % 2]}
    weights = np.arange(N) % 4 / 4 + 0.25
    gaps = np.where(np.arange(N) % 10 == 6, np.nan, features[:, 0])
    numbers = {"a": features[:, 0], "b": features[:, 1], "y": labels, "w": weights, "g": gaps}
    return pd.DataFrame(numbers | more)


# Each way of changing a table, in place; a row's place does not matter, but labels beside it do.
def change_value(frame: pd.DataFrame) -> None:
    frame.loc[3, "b"] = 0.5


def change_label(frame: pd.DataFrame) -> None:
    frame.loc[3, "y"] = 1.0 - frame.loc[3, "y"]


def swap_labels(frame: pd.DataFrame) -> None:
    frame["y"] = frame["y"].to_numpy()[::-1].copy()


def add_row(frame: pd.DataFrame) -> None:
    frame.loc[len(frame)] = [0.25, 0.5, 1.0, 0.5, 0.75, 7, "north"]


def swap_rows(frame: pd.DataFrame) -> None:
    """One row less and another twice: as many rows as before."""
    frame.loc[3] = frame.loc[4]


def swap_wards(frame: pd.DataFrame) -> None:
    """As many rows of each ward as before."""
    frame["ward"] = frame["ward"].to_numpy()[::-1].copy()


def turn_round(frame: pd.DataFrame) -> None:
    """The same rows in another order, which may be noticed and must not matter."""
    for name in frame.columns:
        frame[name] = frame[name].to_numpy()[::-1].copy()


WAYS = [change_value, change_label, swap_labels, add_row, swap_rows, swap_wards, turn_round]


class Source:
    """A table in one of many forms, and a way to change it where it is."""

    def __init__(
        self, kind: str, folder: Any, session: Any = None, *, lost: bool = True, before: Any = None
    ) -> None:
        self.frame, self.kind, self.session, self.lost = people(), kind, session, lost
        if before is not None:
            before(self.frame)
        self.folder, self.path = folder, folder / "people.npy"
        self.table = getattr(self, kind)()

    def change(self, way: Callable[[pd.DataFrame], None]) -> None:
        way(self.frame)
        if self.kind == "duckdb":
            frame = self.frame  # noqa: F841  # by its name in the query
            self.connection.execute("delete from people")
            self.connection.execute("insert into people select * from frame")
        elif self.kind == "spark":
            np.save(self.path, self.frame[NAMES].to_numpy())
            if self.lost:
                lose_rows(self.session)
        elif self.kind == "polars":
            import polars as pl

            for name in self.frame.columns:
                values = pl.Series(name, self.frame[name].to_numpy()[:N])
                self.table.replace_column(self.table.columns.index(name), values)
            self.table.extend(pl.from_pandas(self.frame[N:]).cast(self.table.schema))
        elif self.kind in ("numpy", "memmap", "arrow"):
            self.numbers[:] = self.frame[NAMES].to_numpy()[: len(self.numbers)]
        elif self.kind in FILES:
            self.write()

    def pandas(self) -> Any:
        return self.frame

    def polars(self) -> Any:
        return pytest.importorskip("polars").from_pandas(self.frame)

    def numpy(self) -> Any:
        self.numbers = self.frame[NAMES].to_numpy(copy=True)
        return self.numbers

    def memmap(self) -> Any:
        np.save(self.path, self.frame[NAMES].to_numpy())
        self.numbers = np.load(self.path, mmap_mode="r+")
        return np.load(self.path, mmap_mode="r")

    def arrow(self) -> Any:
        """One that somebody holds the memory of."""
        self.numbers = np.array(self.frame[NAMES], order="F")
        return pa.table({name: self.numbers[:, index] for index, name in enumerate(NAMES)})

    def write(self) -> None:
        """All rows in one file, or a few in each of more files than are kept open."""
        n_files = files._MOST_OPEN + 6 if self.kind == "many" else 1
        ends = np.linspace(0, len(self.frame), n_files + 1).astype(int)
        for index, (start, stop) in enumerate(itertools.pairwise(ends)):
            part, path = self.frame.iloc[start:stop], self.folder / f"{index:02}.{self.kind}"
            if self.kind == "parquet":
                part.to_parquet(path)
            else:
                part.to_csv(path.with_suffix(".csv"), index=False)
            # Clocks may be too coarse for a test.
            self.clock += 1
            os.utime(path if self.kind == "parquet" else path.with_suffix(".csv"), (0, self.clock))

    clock = 0

    def parquet(self) -> Any:
        self.write()
        return Table.open(self.folder, [*self.frame.columns])

    def csv(self) -> Any:
        self.write()
        return Table.open(self.folder, [*self.frame.columns], header=True)

    def many(self) -> Any:
        return self.csv()

    def function(self) -> Any:
        return lambda: pa.Table.from_pandas(self.frame).to_batches()

    def duckdb(self) -> Any:
        frame = self.frame  # noqa: F841
        self.connection = pytest.importorskip("duckdb").connect()
        self.connection.execute("create table people as select * from frame")
        return self.connection.table("people")

    def dask(self) -> Any:
        frames = pytest.importorskip("dask.dataframe")
        from dask.delayed import delayed

        parts = [delayed(lambda: self.frame, pure=False)()]
        return frames.from_delayed(parts, meta=self.frame.iloc[:0], verify_meta=False)

    def spark(self) -> Any:
        np.save(self.path, self.frame[NAMES].to_numpy())
        path = str(self.path)

        def read(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for _ in batches:
                yield pd.DataFrame(np.load(path), columns=["a", "b", "y"])

        one = self.session.range(1, numPartitions=1)
        return one.mapInPandas(read, "a double, b double, y double")


LIMITS = {"a": (0, 1), "b": (0, 1)}
FOUND = {"epsilon": 20.0, "delta": 1e-6, "random_state": 0}
BOXED = {"limits": LIMITS, "label_limits": (0, 1), "columns": NAMES, **FOUND}
METHODS: dict[str, tuple[Any, str | None]] = {
    "least squares": (PrivateLeastSquares(**BOXED), "y"),
    "least squares, private limits": (
        PrivateLeastSquares(limits="private", columns=NAMES, **FOUND),
        "y",
    ),
    "logistic": (
        PrivateLogisticRegression(limits=LIMITS, classes=[0, 1], columns=NAMES, **FOUND),
        "y",
    ),
    "covariance, private limits": (
        PrivateCovariance(limits="private", columns=NAMES, **FOUND),
        None,
    ),
    "counts": (PrivatePoissonRegression(**BOXED), "y"),
    "components": (
        PrivatePCA(limits=LIMITS | {"y": (0, 1)}, n_components=2, columns=NAMES, **FOUND),
        None,
    ),
    "summary": (
        PrivateSummary(limits=LIMITS | {"y": (0, 1)}, columns=NAMES, refine=True, **FOUND),
        None,
    ),
}
# These have columns that are no numbers, or others than features and labels.
NAMED: dict[str, tuple[Any, str | None]] = {
    "people": (PrivateLeastSquares(person="who", **BOXED), "y"),
    "weights": (PrivateLeastSquares(sample_weight="w", max_weight=1.0, **BOXED), "y"),
    "formula": (
        PrivateLeastSquares(
            formula="y ~ a * C(ward)", limits={"a": (0, 1), "y": (0, 1)},
            levels={"ward": ["north", "south"]}, **FOUND,
        ),
        None,
    ),
    "private levels": (
        PrivateSummary(
            by=["ward"], levels={"ward": "private"}, limits=LIMITS, columns=["a", "b", "ward"],
            **FOUND,
        ),
        None,
    ),
    "private levels and limits": (
        PrivateSummary(
            by=["who"], levels={"who": "private"}, limits="private", columns=["a", "b", "who"],
            **FOUND,
        ),
        None,
    ),
    "private levels of people": (
        PrivateSummary(
            by=["ward"], levels={"ward": "private"}, limits={"a": (0, 1)}, person="who",
            columns=["a", "ward", "who"], **FOUND,
        ),
        None,
    ),
    "private levels, gaps": (
        PrivateSummary(
            by=["ward", "who"], levels={"ward": "private", "who": "private"}, sample_weight="w",
            max_weight=1.0, limits={"g": (0, 1)}, columns=["g", "ward", "who", "w"],
            drop_missing=True, **FOUND,
        ),
        None,
    ),
    "levels": (PrivateLevels(columns=["ward", "who"], drop_missing=True, **FOUND), None),
    "private rows of people": (
        PrivateLeastSquares(person="who", rows_per_person="private", **BOXED), "y",
    ),
    "people, gaps": (
        PrivateLeastSquares(
            limits={"a": (0, 1), "g": (0, 1)}, label_limits=(0, 1), columns=["a", "g", "y"],
            person="who", drop_missing=True, **FOUND,
        ),
        "y",
    ),
}  # fmt: skip
# Passes that only count people or levels, which come first: of a table that changes between these
# and others in what they do not read, they say what they would have said of the later one.
N_COUNTS = {
    "people": 1,
    "private levels": 1,
    "private levels of people": 2,
    "private levels, gaps": 2,
    "levels": 1,
    "private rows of people": 1,
    "people, gaps": 1,
}
FILES = ("csv", "parquet", "many")
KINDS = ("pandas", "function", "duckdb", "dask", "polars", *FILES)
ARRAYS = ("numpy", "memmap", "arrow")


def outcome(
    method: str, source: Source, way: Any, monkeypatch: pytest.MonkeyPatch, after: int = 1
) -> Any:
    """The released arrays if the table is changed after so many passes, or None for an error."""
    check, count, passes = Table._check, Table._count_rows, []

    def passed() -> None:
        passes.append(source)
        if len(passes) == after and way is not None:
            source.change(way)

    def checked(table: Table, sums: Any) -> None:
        check(table, sums)
        passed()

    def counted(table: Table, *arguments: Any) -> Any:
        counts = count(table, *arguments)
        passed()
        return counts

    model, label = (METHODS | NAMED)[method]
    path = source.folder.parent / f"{source.folder.name}.npz"
    with monkeypatch.context() as patched:
        patched.setattr(Table, "_check", checked)
        patched.setattr(Table, "_count_rows", counted)
        try:
            if source.kind in ("numpy", "memmap"):
                n_features = 3 if label is None else 2
                given = (source.table[:, :n_features], *([source.table[:, 2]] if label else []))
                box = model.limits if isinstance(model.limits, str) else [(0, 1)] * n_features
                run = clone(model).set_params(columns=None, limits=box).prepare(*given)
            else:
                run = model.prepare(source.table, *([label] if label else []))
            with NewFile(path) as file:
                release = run.release(file=file)
        except (ValueError, OSError) as error:
            if "changed" not in str(error):
                raise
            release = None
    assert len(passes) > after or release is None
    assert path.exists() == (release is not None)
    path.unlink(missing_ok=True)
    return None if release is None else release.arrays


def cases() -> Iterator[Any]:
    """Every form of a table with every method; few of them quickly."""
    for kind in (*KINDS, *ARRAYS):
        for method in METHODS if kind in ARRAYS else METHODS | NAMED:
            slow = kind != "function" and method != "logistic"
            yield pytest.param(kind, method, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("kind", "method"), cases())
def test_nothing_of_a_table_that_changed_is_released(
    kind: str, method: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = map(tmp_path.joinpath, map(str, itertools.count()))

    def released(way: Any, after: int = 1, before: Any = None) -> Any:
        folder = next(folders)
        folder.mkdir()
        return outcome(method, Source(kind, folder, before=before), way, monkeypatch, after)

    as_it_was, n_counts = released(None), N_COUNTS.get(method, 0)
    assert as_it_was is not None
    for way, after in itertools.product(WAYS, range(1, n_counts + 2)):
        if kind in ARRAYS and way in (add_row, swap_wards):
            continue
        found = released(way, after)
        if kind == "dask" and method in METHODS and way not in (swap_wards, turn_round):
            assert found is None
        elif found is not None:  # all that was read was read before, or later
            wanted = [as_it_was] if after > n_counts else [as_it_was, released(None, before=way)]
            assert any(same(found, each) for each in wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 96, 99, 109, *range(300, 312)])
def test_no_release_is_of_two_tables(seed: int) -> None:
    """Any estimator, changed after any reading; `benchmarks/check_changed.py` tries more."""
    assert changes.MIXED not in changes.check(seed).outcomes


def same(found: Any, other: Any) -> bool:
    return found.keys() == other.keys() and all(
        np.array_equal(found[name], other[name]) for name in found
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session("local[1]", tmp_path_factory.mktemp("spark")) as running:
        yield running


def lose_rows(session: Any) -> None:
    """Executors lose all rows that they keep, as when one of them is killed or runs out of room."""
    for kept in session.sparkContext._jsc.getPersistentRDDs().values():
        kept.unpersist(True)


@pytest.mark.spark
@pytest.mark.parametrize("method", ["least squares, private limits", "logistic", "components"])
def test_a_table_of_spark_that_changed_is_noticed_or_not_read(
    method: str, session: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(method, Source("spark", tmp_path, session), None, monkeypatch)
    ways = WAYS if method == "logistic" else [swap_rows]
    for way in ways:
        found = outcome(method, Source("spark", tmp_path, session), way, monkeypatch)
        # Sums of the same rows are the same, and so is all that is released. Wards are not read.
        if way in (turn_round, swap_wards):
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in expected)
        else:
            assert found is None
    kept = Source("spark", tmp_path, session, lost=False)
    found = outcome(method, kept, change_value, monkeypatch)
    if method == "components":  # whose second pass reads the table
        assert found is None
    else:  # what is read was read before, and is what was kept
        assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_leverages_are_those_of_the_table_that_was_summed() -> None:
    table = people()[NAMES].to_numpy(copy=True)
    model = PrivateProjection(n_components=8, data_norm=2.0, leverage=0.5, **FOUND)
    run = model.prepare(table)
    assert run.data.moments
    table[3, 1] = 0.5
    with pytest.raises(ValueError, match="changed between two passes"):
        run.study()


def test_two_fits_of_one_opened_table_are_two_runs() -> None:
    frame = people()
    opened = Table.open(frame[["a", "b"]], typed=NAMES)
    model = PrivateCovariance(limits=LIMITS, **FOUND)
    first = model.fit(opened).release_.arrays["matrix"]
    change_value(frame)
    opened = Table.open(frame[["a", "b"]], typed=NAMES)
    assert not np.array_equal(model.fit(opened).release_.arrays["matrix"], first)


# --- marks by themselves --------------------------------------------------------------------------


def as_list(marks: Any) -> list[int]:
    return [int(part) for part in np.asarray(marks)]


def test_a_mark_depends_on_records_alone() -> None:
    rng = np.random.default_rng(1)
    values, labels = rng.normal(size=(9000, 3)), rng.normal(size=9000)
    whole = as_list(mark(Batch(values, labels)))
    parts = [
        as_list(mark(Batch(values[part], labels[part])))
        for part in (slice(0, 10), slice(10, 5000), slice(5000, None))
    ]
    assert [sum(halves) for halves in zip(*parts, strict=True)] == whole
    order = rng.permutation(9000)
    assert as_list(mark(Batch(values[order], labels[order]))) == whole
    assert as_list(mark(Batch(np.asfortranarray(values), labels))) == whole
    columns = {f"x{j}": values[:, j] for j in range(3)} | {"y": labels}
    assert as_list(mark(Batch(columns, columns))) == whole
    assert as_list(mark(Batch(values, labels[order]))) != whole


def test_sparse_records_have_the_marks_of_dense_ones() -> None:
    dense = np.zeros((50, 4))
    dense[::3, 1], dense[5, 2] = 2.0, -0.5
    assert as_list(mark(Batch(sparse.csr_array(dense)))) == as_list(mark(Batch(dense)))


def test_other_array_libraries_have_the_same_marks() -> None:
    strict = pytest.importorskip("array_api_strict")
    values = np.random.default_rng(2).normal(size=(100, 3))
    there = mark(Batch(strict.asarray(values), strict.asarray(values[:, 0])))
    assert as_list(there) == as_list(mark(Batch(values, values[:, 0])))


def test_small_changes_of_round_numbers_change_the_mark() -> None:
    """Numbers that people write down have few bits: two changes at once must not cancel."""
    rng, seen = np.random.default_rng(3), set()
    for _ in range(4_000):
        row = 2.0 ** rng.integers(-3, 4, 6)
        seen.add((tuple(row), tuple(as_list(mark(Batch(row[None]))))))
    assert len({marks for _, marks in seen}) == len({row for row, _ in seen}) > 3_500


@pytest.mark.parametrize("written", [str, int])
def test_a_person_with_more_rows_than_were_counted_is_noticed(written: Any) -> None:
    """Weights are those of an earlier pass: rows that came later would count on top of them."""
    frame = people().assign(who=list(map(written, range(N))))
    table = Table.open(frame, NAMES).weighed(Weighting("who"))
    table = table.with_rows(Rows(Columns(["a", "b"], norm=2.0)))
    table.count_people()
    frame.loc[1, "who"] = frame.loc[0, "who"]
    with pytest.raises(ValueError, match="changed between two passes"):
        table.sum(totals)


def test_marks_of_sparse_records_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows at once as have few entries, not as would have if none were zero."""
    matrix = sparse.random_array(
        (5000, 4000), density=1e-3, random_state=np.random.default_rng(4)
    ).tocsr()
    steps, sliced = list[int](), marks.rows_between

    def counted(*arguments: Any) -> Any:
        steps.append(1)
        return sliced(*arguments)

    monkeypatch.setattr(marks, "rows_between", counted)
    mark(Batch(matrix))
    assert len(steps) == 1
