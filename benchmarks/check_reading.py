"""Read records with values of any type from every source: each becomes what it becomes alone.

    python benchmarks/check_reading.py --n 10000

What each record becomes is computed by itself, in rational arithmetic (tests/helpers/
hostile_records.py), and compared with its integers beside all others. Sources whose library is not
installed here are named.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import pytest

import hostile_records as check
from spark_sessions import spark_session


def tell(name: str, run: Callable[[], None]) -> None:
    started = time.monotonic()
    try:
        run()
    except pytest.skip.Exception as reason:
        print(f"{name:24s} not read: {reason}", flush=True)
    else:
        print(f"{name:24s} the same integers, {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="records of each source")
    parser.add_argument("--only", help="sources whose name has this in it")
    wanted = parser.parse_args()
    n = wanted.n

    def kinds(session: Callable[[], object], folder: Path) -> dict[str, Callable[[], None]]:
        return {
            **{kind: partial(check.check_untyped, kind, n, folder) for kind in check.UNTYPED},
            **{kind: partial(check.check_batches, kind, n, folder) for kind in check.WHOLE},
            **{kind: partial(check.check_tables, kind, n) for kind in check.EACH},
            **{kind: partial(check.check_arrays, kind, n) for kind in check.MATRICES},
            "Dask": partial(check.check_dask, n, folder),
            "Spark, CSV": lambda: check.check_spark_text(session(), n, folder),
            "Spark, Parquet": lambda: check.check_spark_files(session(), n, folder),
        }

    print(f"{n:,} records of each source")
    for name in kinds(object, Path()):
        if wanted.only and wanted.only not in name:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "data"
            folder.mkdir()
            if not name.startswith("Spark"):
                tell(name, kinds(object, folder)[name])
                continue
            (Path(place) / "executors").mkdir()
            with spark_session("local[2]", Path(place) / "executors") as session:
                tell(name, kinds(lambda session=session: session, folder)[name])


if __name__ == "__main__":
    main()
