"""A real Spark cluster, a master and two workers on loopback, loses a worker during the job."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from ndis import PrivateLeastSquares
from ndis.tables import Table
from reading import gram_of
from requires import require_java
from spark_sessions import QUIET, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, *QUIET]
pytest.importorskip("pyspark")

N_ROWS, N_PARTITIONS = 40_000, 12


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Any, seconds: float = 300.0) -> None:
    """Wait for what comes sooner or later; the limit is for a machine that is very busy."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError("The cluster did not get there in time.")
        time.sleep(0.05)


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a Spark daemon as the head of its own process group, and end the group."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    with (folder / f"{arguments[0].rpartition('.')[2]}-{time.monotonic_ns()}.log").open(
        "wb"
    ) as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a daemon with everything it started, without a chance to say goodbye."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", *place, "--cores", "1", "--memory", "1g"]

    def work(name: str) -> list[str]:
        return [*worker, "--work-dir", str(folder / name), address]

    def is_up() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with daemon(folder, f"{deploy}.master.Master", *place, "--port", str(port)):
        wait_until(is_up)
        with daemon(folder, *work("one")) as one, daemon(folder, *work("two")) as two:
            yield address, [one, two]


def slow_frame(session: Any, marks: Path) -> Any:
    """A table behind a shuffle, each of whose partitions takes a while and leaves a mark."""

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        name = f"{context.partitionId()}-{context.taskAttemptId()}"
        # Executors run in the folder of their worker.
        (marks / name).write_text(os.getcwd())
        for batch in batches:
            time.sleep(0.6)
            yield batch
        (marks / f"{name}-done").touch()

    ids = session.range(N_ROWS, numPartitions=4).repartition(N_PARTITIONS, "id")
    table = ids.selectExpr("sin(id) as x", "cast(id % 17 as double) as y")
    return table.mapInArrow(slowly, table.schema)


def expected_table() -> np.ndarray:
    ids = np.arange(N_ROWS)
    return np.column_stack([np.sin(ids), ids % 17])


def test_a_worker_is_lost_and_nothing_else(tmp_path: Path) -> None:
    require_java()
    marks, executors = tmp_path / "marks", tmp_path / "executors"
    marks.mkdir()
    executors.mkdir()
    lost_after: list[set[str]] = []

    with (
        cluster(tmp_path) as (address, workers),
        spark_session(
            address,
            executors,
            **{"spark.executor.memory": "512m", "spark.sql.adaptive.enabled": "false"},
        ) as session,
    ):
        # The job starts with both workers.
        wait_until(lambda: session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3)

        def busy_half_way() -> bool:
            done = {mark.name.removesuffix("-done") for mark in marks.glob("*-done")}
            running = [mark for mark in marks.iterdir() if mark.name not in done]
            on_one = any(mark.read_text().startswith(str(tmp_path / "one")) for mark in running)
            return len(done) >= 1 and on_one

        def lose_a_worker() -> None:
            wait_until(busy_half_way)
            end(workers[0])
            lost_after.append({mark.name for mark in marks.iterdir()})

        killer = threading.Thread(target=lose_a_worker)
        killer.start()
        gram = gram_of(slow_frame(session, marks), norm=17.0)
        killer.join()
        assert workers[0].poll() is not None
        assert workers[1].poll() is None

    started = [mark.name for mark in marks.iterdir() if not mark.name.endswith("-done")]
    partitions = [name.partition("-")[0] for name in started]
    # The worker was lost during the job, with a task that had to be run again.
    assert len(lost_after) == 1
    assert len(lost_after[0] & set(started)) < len(started)
    # Partitions are read in as many tasks as there is work for, at least one a worker.
    assert 2 <= len(set(partitions)) <= N_PARTITIONS
    assert len(partitions) > len(set(partitions))
    expected = gram_of(expected_table(), norm=17.0)
    assert gram.n_rows == N_ROWS
    assert gram.columns == ("x", "y")
    np.testing.assert_allclose(gram.matrix, expected.matrix, rtol=1e-12, atol=1e-9)


# -- a fit of several passes -----------------------------------------------------------------------

MODEL = PrivateLeastSquares(
    epsilon=5.0, delta=1e-6, random_state=0, limits={"x": (0, 1)}, label_limits=(0, 1), n_rounds=3
)


def executors_of(daemon: subprocess.Popen[bytes]) -> list[int]:
    """The Java processes of executors that a worker has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = path.with_name("cmdline").read_bytes()
            if parent == daemon.pid and b"CoarseGrainedExecutorBackend" in command:
                found.append(int(path.parent.name))
    return found


def test_an_executor_is_killed_during_a_fit_and_every_bit_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With speculation, which runs tasks twice; rows that were kept are lost and made again."""
    require_java()
    executors, reads = tmp_path / "executors", tmp_path / "reads"
    executors.mkdir()
    reads.mkdir()
    settings = {
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "10ms",
    }

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        (reads / f"{context.partitionId()}-{context.taskAttemptId()}").touch()
        for batch in batches:
            # One partition in four is slow, so that it is run twice.
            time.sleep(0.0 if context.attemptNumber() or context.partitionId() % 4 else 3.0)
            yield batch

    check, killed, sums = Table._check, list[int](), []
    with (
        cluster(tmp_path) as (address, workers),
        spark_session(address, executors, **settings) as session,
    ):
        status = session.sparkContext._jsc.sc()
        wait_until(lambda: status.getExecutorMemoryStatus().size() == 3)

        def checked(table: Table, found: Any) -> None:
            check(table, found)
            sums.append(found)
            if len(sums) == 3:
                kill_executor_of(workers[1])

        def kill_executor_of(worker: subprocess.Popen[bytes]) -> None:
            for victim in executors_of(worker):
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        def kill_one_that_reads() -> None:
            wait_until(lambda: len(list(reads.iterdir())) > 2)
            kill_executor_of(workers[0])

        ids = session.range(4000, numPartitions=8)
        frame = ids.selectExpr("id * 7919 % 1000 / 1000d as x", "id * 104729 % 997 / 997d as y")
        frame = frame.mapInArrow(read, frame.schema)
        monkeypatch.setattr(Table, "_check", checked)
        killer = threading.Thread(target=kill_one_that_reads)
        killer.start()
        far = clone(MODEL).fit(frame, "y").release_.arrays
        killer.join()
        monkeypatch.setattr(Table, "_check", check)
    assert len(set(killed)) > 1
    assert len(sums) > 4
    partitions = [mark.name.partition("-")[0] for mark in reads.iterdir()]
    assert len(partitions) > len(set(partitions))  # some were read twice
    ids = np.arange(4000)
    here = {"x": ids * 7919 % 1000 / 1000.0, "y": ids * 104729 % 997 / 997.0}
    expected = clone(MODEL).fit(pa.table(here), "y").release_.arrays
    assert all(np.array_equal(far[name], expected[name]) for name in expected)
