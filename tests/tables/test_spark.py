"""Spark in one process; test_spark_cluster.py has a cluster."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.base import clone

from hostile_records import check_spark_files, check_spark_text
from ndis import PrivateLeastSquares, PrivateLogisticRegression
from ndis.tables import Columns, Rows, Table, Weighting, moments
from ndis.tables.exact import Accumulator
from ndis.tables.spark import (
    _assembled,
    _merged,
    _pieces,
    open_parquet,
    open_text,
    pickled_by_value,
)
from ndis.tables.sums import Pull, PullSum
from reading import gram_of, opened
from spark_sessions import QUIET, spark_session

pytestmark = [pytest.mark.spark, *QUIET]
pytest.importorskip("pyspark")

N_ROWS = 2000


def make_frame(n_rows: int = N_ROWS) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "speed": rng.standard_normal(n_rows),
            "stops": rng.integers(0, 5, n_rows),
            "a.b`c": rng.standard_normal(n_rows).astype(np.float32),
            "carrier": rng.choice(["AA", "UA", "B6"], n_rows),
            "late": rng.random(n_rows) < 0.5,
        }
    )


LEVELS = {"carrier": ["AA", "UA"]}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session("local[2]", tmp_path_factory.mktemp("executors")) as started:
        yield started


@pytest.fixture(scope="module")
def frame(session: Any) -> Any:
    return session.createDataFrame(make_frame()).repartition(4).cache()


@pytest.fixture(autouse=True)
def only_sums_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever brings rows to the driver fails."""
    from pyspark.sql.classic.dataframe import DataFrame

    collect = DataFrame.collect

    def sums(frame: Any) -> Any:
        summed = {"piece", "content"} <= set(frame.columns)
        assert summed or frame.columns == ["width"], "rows were collected"
        return collect(frame)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows were brought to the driver")

    to_arrow = DataFrame.toArrow

    def counts(frame: Any) -> Any:
        return to_arrow(frame) if frame.columns == ["id", "problem", "sum(n)"] else refuse()

    monkeypatch.setattr(DataFrame, "collect", sums)
    monkeypatch.setattr(DataFrame, "toArrow", counts)
    for way in ("toLocalIterator", "toPandas", "take", "head", "tail"):
        monkeypatch.setattr(DataFrame, way, refuse)


RECIPE = {"levels": LEVELS, "limits": {"speed": (-1, 1), "stops": (0, 4)}, "norm": None}


@pytest.mark.slow
@pytest.mark.parametrize("n_partitions", [1, 7, 100])
def test_the_same_bits_as_in_memory(frame: Any, n_partitions: int) -> None:
    columns = ["speed", "carrier", "stops"]
    ours = opened(frame.repartition(n_partitions), columns, **RECIPE)
    expected = opened(make_frame(), columns, **RECIPE)
    assert ours.moments["gram"] == expected.moments["gram"]
    assert ours.n_rows == N_ROWS


def test_gradients_are_summed_by_the_executors(frame: Any) -> None:
    rows = Rows(Columns(["speed", "a.b`c"], norm=3.0), Columns(["stops"], limits={"stops": (0, 4)}))
    vectors = np.array([[3.0, 1.0, 2.0], [-5.0, 0.0, 7.0]]) * 2.0**20
    pull = Pull(vectors, 2.0**-42, np.full(2, 2.0**-42), np.array([0.2, 0.3]), 2.0, 0.1, 0.0)
    gradient = PullSum(pull, (0.2, 0.1), 2.0**19)
    ours, expected = (
        Table.open(source, ["speed", "a.b`c", "stops"]).with_rows(rows).sum(gradient)["gradient"]
        for source in (frame, make_frame())
    )
    assert ours == expected


def test_sums_larger_than_a_piece(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndis.tables.spark.PIECE_BYTES", 16)
    columns = ["speed", "stops", "a.b`c"]
    assert gram_of(frame, columns).matrix.tolist() == gram_of(make_frame(), columns).matrix.tolist()


@pytest.mark.slow
def test_arrays_and_vectors_are_many_numbers(session: Any) -> None:
    pytest.importorskip("pyspark.ml")
    from pyspark.ml.functions import array_to_vector

    values = np.arange(12.0).reshape(4, 3)
    frame = session.createDataFrame([(row.tolist(),) for row in values], "v array<double>")
    for source in (frame, frame.select(array_to_vector("v").alias("v"))):
        gram = gram_of(source)
        assert gram.columns == ("v[0]", "v[1]", "v[2]")
        np.testing.assert_array_equal(gram.matrix, values.T @ values)


def test_a_subclass_of_a_frame_is_a_frame(frame: Any) -> None:
    class Frame(type(frame)):  # type: ignore[misc]
        """Somebody's own kind."""

    own = Frame(frame._jdf, frame.sparkSession)
    assert gram_of(own, ["speed"]).n_rows == N_ROWS


@pytest.mark.slow
def test_empty_partitions_and_empty_table(frame: Any) -> None:
    one = frame.limit(1).repartition(5).select("speed")
    assert gram_of(one).n_rows == 1
    none = gram_of(frame.filter("speed > 1e9").select("speed"))
    assert none.n_rows == 0
    assert none.matrix.tolist() == [[0.0]]


def test_rows_are_not_measured_one_by_one(frame: Any) -> None:
    with pytest.raises(TypeError, match="write it to Parquet"):
        opened(frame, ["speed"]).measure(lambda block: block.features, 1)


@pytest.mark.slow
def test_what_is_wrong_with_the_data_comes_back_as_one_sentence(frame: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^Column 'carrier' holds string, not numbers; leave it out[^\n]*$"
    ):
        gram_of(frame)
    missing = frame.selectExpr("if(stops = 3, null, speed) as speed")
    with pytest.raises(ValueError, match=r"^Column 'speed' has missing or infinite values;[^\n]*$"):
        gram_of(missing)
    with pytest.raises(ValueError, match="'altitude'"):
        gram_of(frame, ["altitude"])


@pytest.mark.slow
def test_executors_do_not_need_this_library(session: Any, frame: Any) -> None:
    """They run interpreters that cannot import it (see the fixture), and the tests above pass."""

    def importable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib

        for _ in batches:
            try:
                importlib.import_module("ndis")
                answer = "found"
            except ImportError:
                answer = "not found"
            yield pa.RecordBatch.from_pydict({"answer": [answer]})

    answers = session.range(1).mapInArrow(importable, "answer string")
    assert answers.filter("answer = 'not found'").count() == answers.count() == 1
    assert gram_of(frame, ["speed"]).n_rows == N_ROWS


@pytest.mark.slow
def test_text_is_read_as_the_library_reads_it(session: Any, tmp_path: Path) -> None:
    """Value by value, whatever the others are: Spark would infer a type for all of them."""
    lines = ["day,x,code,word", "2020-01-01,1,1,a", '2020-01-02,2.5,1.0,"b ""c"""']
    hostile = ["2020-06-01 18:00:00,true,2,NA", "2020-06-01T18:00:00.5+02:00,1e3,7,a", "9,9,1,1"]
    (tmp_path / "all.csv").write_text("\n".join([*lines, *hostile]))
    recipe: Any = {
        "levels": {"word": ["a", 'b "c"', "NA"], "code": [1, 2]},
        "limits": {"day": ("2010-01-01", "2030-01-01"), "x": (0, 10)},
        "norm": None,
    }
    columns = ["day", "x", "code", "word"]
    source = open_text(session, str(tmp_path / "all.csv"), header=True)
    ours = opened(source, columns, header=True, **recipe).moments["gram"]
    here = opened(tmp_path / "all.csv", columns, **recipe)
    assert ours == here.moments["gram"]
    alone = []
    for line in (*lines[1:], *hostile):
        (tmp_path / "one.csv").write_text(f"{lines[0]}\n{line}\n")
        alone.append(opened(tmp_path / "one.csv", columns, **recipe).moments["gram"].value)
    assert here.moments["gram"].value.tolist() == sum(alone).tolist()


@pytest.mark.slow
def test_hostile_records(session: Any, tmp_path: Path) -> None:
    """A share; `benchmarks/check_reading.py` reads 10,000 of each."""
    check_spark_text(session, 400, tmp_path)
    check_spark_files(session, 400, tmp_path, n_types=4)


@pytest.mark.slow
def test_files_that_spark_would_read_wrongly(session: Any, tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    with pytest.raises(ValueError, match="all have the columns of the first"):
        opened(open_text(session, str(tmp_path / "*.csv")), ["x", "y"]).sum(lambda block: {})
    (tmp_path / "b.csv").unlink()
    (tmp_path / "c.csv").write_text("x,y\none,2\n")
    with pytest.raises(ValueError, match="Column 'x' holds text, not numbers"):
        opened(open_text(session, str(tmp_path / "c.csv")), ["x", "y"]).sum(lambda block: {})
    (tmp_path / "c.csv").unlink()
    with pytest.raises(ValueError, match="pass header=True"):
        Table.open(open_text(session, str(tmp_path / "a.csv")))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n"))
    with pytest.raises(ValueError, match="Expected each file once"):
        open_text(session, str(tmp_path))
    folder = tmp_path / "parquet"
    folder.mkdir()
    pa.parquet.write_table(pa.table({"x": [1.0]}), folder / "a.parquet")
    assert opened(open_parquet(session, str(folder))).moments["count"].value == 1
    (folder / "link.parquet").symlink_to(folder / "a.parquet")
    with pytest.raises(ValueError, match="with links to files"):
        open_parquet(session, str(folder))


PEOPLE = Weighting("carrier", 3, "w", 2.0)


def people(n_rows: int = N_ROWS) -> pa.Table:
    """Whose rows are in all partitions, of both kinds."""
    rng = np.random.default_rng(8)
    table = make_frame(n_rows).append_column("w", [rng.uniform(0, 3, n_rows)])
    names = [f"n{each}" for each in rng.geometric(0.02, n_rows)]
    return table.set_column(3, "carrier", [names]).append_column(
        "number", [rng.integers(0, 400, n_rows)]
    )


@pytest.mark.parametrize("person", ["carrier", "number"])
def test_people_weigh_the_same_on_a_cluster(session: Any, person: str) -> None:
    table = people()
    cluster = session.createDataFrame(table).repartition(5)
    rows = Rows(Columns(["speed"], limits={"speed": (-1, 1)}))
    weighting = replace(PEOPLE, person=person)
    ours, expected = (
        Table.open(source, ["speed"]).weighed(weighting).with_rows(rows).moments
        for source in (cluster, table)
    )
    assert all(ours[name] == expected[name] for name in expected)
    assert ours["gram"].part is not None


@pytest.mark.parametrize("person", ["carrier", "number"])
def test_rows_without_a_person_are_people_on_a_cluster(session: Any, person: str) -> None:
    table = people(600)
    place, weighting = table.column_names.index(person), replace(PEOPLE, person=person)
    given = table[person].to_pylist()
    gone = [None if k % 3 == 0 or k < 200 else each for k, each in enumerate(given)]
    new = [f"m{k}" if person == "carrier" else 10_000 + k for k in range(len(gone))]
    named = [new[k] if each is None else each for k, each in enumerate(gone)]
    kind = table.schema.field(place)
    gaps, wanted = (table.set_column(place, kind, pa.array(w, kind.type)) for w in (gone, named))
    rows = Rows(Columns(["speed"], limits={"speed": (-1, 1)}))
    own = replace(weighting, missing_person="own")
    ours = Table.open(session.createDataFrame(gaps).repartition(5), ["speed"]).weighed(own)
    expected = Table.open(wanted, ["speed"]).weighed(weighting).with_rows(rows).moments
    found = ours.with_rows(rows)
    assert all(found.moments[name] == expected[name] for name in expected)
    assert found.count_people().alone == gone.count(None)


def test_a_cluster_refuses_rows_of_nobody_and_ids_that_are_none(session: Any) -> None:
    table = people(20)
    gaps = table.set_column(3, "carrier", [[None, *table["carrier"].to_pylist()[1:]]])
    rows = Rows(Columns(["stops"], limits={"stops": (0, 4)}))
    for source, person, message in (
        (gaps, "carrier", "does not say for every row"),
        (table, "speed", "write ids as text"),
    ):
        frame = session.createDataFrame(source)
        opened = Table.open(frame, ["stops"]).weighed(Weighting(person)).with_rows(rows)
        with pytest.raises(ValueError, match=message):
            opened.sum(moments)


def test_a_formula_has_the_same_bits(session: Any) -> None:
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(7)
    age, sector = rng.uniform(20, 60, 400), rng.choice(["a", "b"], 400)
    rows = {"age": age, "sector": sector, "pay": 10 + 0.2 * age + 3.0 * (sector == "b")}
    listed = zip(*(each.tolist() for each in rows.values()), strict=True)
    far = session.createDataFrame(list(listed), list(rows))
    fits = [
        PrivateLeastSquares(
            epsilon=10.0, delta=1e-6, random_state=0, formula="pay ~ age * C(sector)",
            limits={"age": (20, 60), "pay": (0, 40)}, levels={"sector": ["a", "b"]},
        ).fit(each)
        for each in (pa.table(rows), far)
    ]  # fmt: skip
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


# -- rows that are kept ------------------------------------------------------------------------

LOGISTIC = PrivateLogisticRegression(
    epsilon=5.0, delta=1e-6, random_state=0, limits={"speed": (-1, 1), "stops": (0, 4)},
    levels={"carrier": ["AA", "UA"]}, classes=[False, True],
    columns=["speed", "stops", "carrier", "late"],
)  # fmt: skip
FOUND = PrivateLeastSquares(
    epsilon=50.0,
    delta=1e-6,
    random_state=0,
    limits="private",
    columns=["speed", "stops"],
    n_rounds=3,
)
WEIGHED = PrivateLeastSquares(
    epsilon=5.0, delta=1e-6, random_state=0, limits={"speed": (-1, 1)}, label_limits=(0, 4),
    columns=["speed", "stops"], person="carrier", sample_weight="w", max_weight=2.0,
    drop_missing=True, n_rounds=3,
)  # fmt: skip


SHORT = PrivateLeastSquares(
    epsilon=5.0, delta=1e-6, random_state=0, limits={"speed": (-1, 1)}, label_limits=(0, 4),
    columns=["speed", "stops"], n_rounds=3,
)  # fmt: skip


def kept_rows(session: Any) -> int:
    """How many tables executors keep."""
    return int(session.sparkContext._jsc.getPersistentRDDs().size())


def reading(session: Any, table: pa.Table, log: Path) -> Any:
    """A frame of a table that writes down each time that it is read."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with log.open("a") as file:
            file.write("x")
        for _ in batches:
            pass
        yield from table.to_batches()

    schema = session.createDataFrame(table.slice(0, 1)).schema
    return session.range(1, numPartitions=1).mapInArrow(read, schema)


@pytest.mark.parametrize(
    ("model", "label", "reads"),
    [(LOGISTIC, "late", 1), (FOUND, "stops", 1), (WEIGHED, "stops", 2)],
    ids=["logistic", "private limits", "people"],
)
def test_a_fit_reads_a_table_once_and_leaves_nothing(
    model: Any, label: str, reads: int, session: Any, tmp_path: Path, caplog: Any
) -> None:
    before, tracker = kept_rows(session), session.sparkContext.statusTracker()
    table = people() if label == "stops" else make_frame()
    far = reading(session, table, tmp_path / "reads")
    jobs, sums = len(tracker.getJobIdsForGroup(None)), []
    check = Table._check
    with pytest.MonkeyPatch.context() as patched, caplog.at_level("INFO", "ndis"):
        patched.setattr(Table, "_check", lambda *args: sums.append(check(*args)))
        ours = clone(model).fit(far, label).release_.arrays
    n_jobs = len(tracker.getJobIdsForGroup(None)) - jobs
    expected = clone(model).fit(table, label).release_.arrays
    assert all(np.array_equal(ours[name], expected[name]) for name in expected)
    assert len((tmp_path / "reads").read_text()) == reads
    assert kept_rows(session) == before
    # A pass is a job; counting people is a shuffle.
    assert len(sums) > 4
    assert n_jobs == len(sums) if model.person is None else n_jobs <= len(sums) + 3
    told = [record.message for record in caplog.records]
    assert len(told) == len(sums) + (model.person is not None)
    assert all(" on Spark: " in message for message in told)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_kept_after_a_failure(
    error: type[BaseException], session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, check, found = kept_rows(session), Table._check, []

    def failing(table: Table, sums: Any) -> None:
        check(table, sums)
        found.append(kept_rows(session))
        if len(found) == 3:
            raise error("in the middle")

    monkeypatch.setattr(Table, "_check", failing)
    with pytest.raises(error):
        clone(SHORT).fit(session.createDataFrame(make_frame()), "stops")
    assert max(found) == before + 1
    assert kept_rows(session) == before


def test_a_table_is_read_again_where_nothing_is_kept(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on clusters without servers of their own, which refuse to."""
    from pyspark.sql.classic.dataframe import DataFrame

    def refuse(*_: Any) -> Any:
        raise RuntimeError("PERSIST TABLE is not supported on serverless compute.")

    far = reading(session, make_frame(), tmp_path / "reads")
    monkeypatch.setattr(DataFrame, "persist", refuse)
    ours = clone(SHORT).fit(far, "stops").coef_
    assert len((tmp_path / "reads").read_text()) > 4
    np.testing.assert_array_equal(ours, clone(SHORT).fit(make_frame(), "stops").coef_)


@pytest.mark.parametrize("scratch", ["", "none"])
def test_rows_are_kept_on_disks_only_where_that_is_allowed(
    scratch: str, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NDIS_SCRATCH", scratch)
    check, levels = Table._check, set()

    def looking(table: Table, sums: Any) -> None:
        check(table, sums)
        assert table._kept is not None
        levels.add(table._kept.frame.storageLevel.useDisk)  # type: ignore[union-attr]

    monkeypatch.setattr(Table, "_check", looking)
    clone(SHORT).fit(session.createDataFrame(make_frame()), "stops")
    assert levels == {scratch != "none"}


# -- several at once, and what is done again -------------------------------------------------------


def pieces(*values: float) -> list[dict[str, Any]]:
    """What a task hands on: the sums of some rows, in pieces."""
    total = Accumulator()
    total.add({"gram": np.array([values] * 40_000)})
    total.add({"_rows": np.array(1.0), "_mark": np.array(values)})
    return [record for batch in _pieces(total, None) for record in batch.to_pylist()]


def test_pieces_of_two_readings_are_no_sum() -> None:
    """A shuffle may hand on parts of a task's first result, and of its second where it was lost."""
    one, other, changed = pieces(1.0, 2.0), pieces(3.0, 4.0), pieces(3.0, 5.0)
    assert len(one) > 2
    assert _assembled(_merged([*one, *other])).sums()["gram"].value[0].tolist() == [4.0, 6.0]
    with pytest.raises(ValueError, match="changed"):
        _assembled(_merged([*one, *other[:1], *changed[1:]]))
    with pytest.raises(ValueError, match="changed"):
        _assembled(_merged([*one, *other[1:]]))


def test_a_task_without_rows_is_none_of_the_sums() -> None:
    marks = Accumulator()
    marks.add({"_mark": np.array([1.0, 2.0])})
    alone = [record for batch in _pieces(marks, None) for record in batch.to_pylist()]
    found = _assembled(_merged([*pieces(3.0, 4.0), *alone])).sums()
    assert found["_mark"].value.tolist() == [4.0, 6.0]


def test_jobs_that_overlap_travel_by_value_until_the_last_has_started() -> None:
    from pyspark.cloudpickle import cloudpickle

    first, second = pickled_by_value(moments), pickled_by_value(moments)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert "ndis.tables.exact" in cloudpickle.list_registry_pickle_by_value()
    second.__exit__(None, None, None)
    assert "ndis.tables.exact" not in cloudpickle.list_registry_pickle_by_value()


def test_two_fits_of_one_frame_at_once(session: Any) -> None:
    far = session.createDataFrame(make_frame())
    before, found = kept_rows(session), list[Any]()

    def fit() -> None:
        found.append(clone(SHORT).fit(far, "stops").coef_)

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = clone(SHORT).fit(make_frame(), "stops").coef_
    assert len(found) == 2
    assert all(np.array_equal(each, expected) for each in found)
    assert kept_rows(session) == before


def test_a_fit_within_another_of_one_frame_keeps_its_own_rows(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark keeps two frames once that are made alike, and forgets them when either is let go."""
    far = reading(session, make_frame(), tmp_path / "reads")
    before, check, kept, coefs = kept_rows(session), Table._check, list[int](), list[Any]()

    def fit_within(table: Table, sums: Any) -> None:
        check(table, sums)
        kept.append(kept_rows(session) - before)
        if len(kept) == 1:
            coefs.append(clone(SHORT).fit(far, "stops").coef_)

    monkeypatch.setattr(Table, "_check", fit_within)
    coefs.append(clone(SHORT).fit(far, "stops").coef_)
    n_passes = len(kept) // 2
    assert kept == [1] + n_passes * [2] + (n_passes - 1) * [1]
    assert len((tmp_path / "reads").read_text()) == 2
    np.testing.assert_array_equal(*coefs)
    assert kept_rows(session) == before
