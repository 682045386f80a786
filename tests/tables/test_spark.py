"""Spark in one process; test_spark_cluster.py has a cluster."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import batches, leverages_and_residuals, read_gram, row_leverages
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


def test_same_gram_as_in_memory(frame: Any) -> None:
    ours = {"levels": LEVELS, "clip": {"speed": 1.0}, "intercept": True}
    gram = read_gram(frame, 2.0, **ours)
    expected = read_gram(make_frame(), 2.0, **ours)
    assert gram.n_rows == N_ROWS
    assert gram.rows == expected.rows
    np.testing.assert_allclose(gram.matrix, expected.matrix, rtol=1e-12, atol=1e-12)


def test_empty_partitions_and_empty_table(frame: Any) -> None:
    one = frame.limit(1).repartition(5).select("speed")
    assert read_gram(one).n_rows == 1
    with pytest.raises(ValueError, match="no rows"):
        read_gram(frame.filter("speed > 1e9").select("speed"))


def test_leverages_follow_the_partitions(frame: Any) -> None:
    columns = ["speed", "stops", "a.b`c"]
    gram = read_gram(frame, columns=columns)
    streamed = np.concatenate(
        [
            np.column_stack([c.to_numpy() for c in batch.columns])
            for batch in batches(frame, columns)
        ]
    )
    expected = row_leverages(streamed, read_gram(streamed))
    np.testing.assert_allclose(row_leverages(frame, gram), expected, rtol=1e-9)
    p, q = leverages_and_residuals(frame, gram, "stops")
    np.testing.assert_allclose(q, expected, rtol=1e-9)
    assert (p < q).all()


def test_what_is_wrong_with_the_data_comes_back_as_one_sentence(frame: Any) -> None:
    with pytest.raises(ValueError, match=r"^Column 'carrier' holds string, not numbers;[^\n]*$"):
        read_gram(frame)
    missing = frame.selectExpr("if(stops = 3, null, speed) as speed")
    with pytest.raises(ValueError, match=r"^Column 'speed' has missing or infinite values;[^\n]*$"):
        read_gram(missing)
    with pytest.raises(ValueError, match="'altitude'"):
        read_gram(frame, columns=["altitude"])


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

    answers = session.range(1).mapInArrow(importable, "answer string").collect()
    assert [row.answer for row in answers] == ["not found"]
    assert read_gram(frame, columns=["speed"]).n_rows == N_ROWS
