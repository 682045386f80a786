"""Spark sessions on loopback, whose executors cannot import the library under test."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from requires import require_java

# PySpark's opinion of the installed pandas, which is not used here, and the sockets it leaves open.
QUIET = [
    pytest.mark.filterwarnings(f"ignore:{message}:{category}")
    for message, category in (
        ("PySpark does not yet fully support pandas", "FutureWarning"),
        ("unclosed <socket", "ResourceWarning"),
        ("Exception ignored in. <socket", "pytest.PytestUnraisableExceptionWarning"),
    )
]


@contextmanager
def spark_session(master: str, folder: Path, **more: str) -> Iterator[Any]:
    """Run a session; `folder` comes first on the executors' path and hides ndis from them."""
    require_java()
    from pyspark.sql import SparkSession

    (folder / "ndis.py").write_text("raise ImportError('executors have no ndis')\n")
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("SPARK_LOCAL_DIRS", str(folder))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(folder), *map(str, sys.path[1:])]),
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    builder = SparkSession.builder.master(master).appName("ndis tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        patch.undo()
