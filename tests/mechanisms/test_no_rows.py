"""A table without rows is answered as one with a row: who is the only one must not be missed."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attacks import people, replay
from attacks.cases import OF_TABLES, make, private_limits
from estimators import Case
from ndis import PrivateCovariance, PrivateLeastSquares, PrivateLevels, PrivateSummary
from ndis.cli import main
from ndis.tables import Table
from spark_sessions import spark_session

# The number of rows is public, or tables of one row are outside the declared set.
PUBLIC = ("covariance, row-shift", "covariance, row-shift, sketch")
OUTSIDE = ("projection leverage", "least squares, gaussian-limit")


def first(n_rows: int, data: tuple[Any, ...]) -> tuple[Any, ...]:
    """So many of the rows of arguments of `fit`."""

    def cut(part: Any) -> Any:
        if isinstance(part, Table):
            part = pa.Table.from_batches(list(part.records()))
        if part is None or isinstance(part, str):
            return part
        return part.slice(0, n_rows) if isinstance(part, pa.Table) else part[:n_rows]

    return tuple(map(cut, data))


@pytest.mark.parametrize(
    "case", [c for c in OF_TABLES if c.name not in PUBLIC], ids=lambda c: c.name
)
def test_the_only_row_is_not_missed(case: Case) -> None:
    """Also where limits are to be found."""
    found = private_limits(case)
    for more in [{}, found] if found else [{}]:
        build = partial(make, case, **more)
        done = replay.compare(build, first(1, case.data()), first(0, case.data()))
        assert bool(done.error) == (case.name in OUTSIDE)


@pytest.mark.parametrize("name", PUBLIC)
def test_where_the_number_of_rows_is_public_none_are_refused(name: str) -> None:
    (case,) = (case for case in OF_TABLES if case.name == name)
    with pytest.raises(ValueError, match="no rows"):
        make(case).fit(*first(0, case.data()))


# -- every source --------------------------------------------------------------------------------

SUMS = ("covariance, matrix", "least squares, newton", "summary, everything", "poisson, exposure")
LEVELS = "levels, gaussian"


def alone(name: str, source: Callable[[list[pa.Table], Path], Any], folder: Path) -> None:
    """Compare a table of one person, with a row, and that without them, in a source."""
    rng = np.random.default_rng(3)
    (case,) = (case for case in OF_TABLES if case.name == name)
    for ids, number in (("text", 1), ("integers", "private")):
        (whole, *label), new = people.drawn(case, rng, 1, people.IDS[ids])
        one = whole.filter(pa.compute.equal(whole["who"], new))
        asked: dict[str, Any] = {"person": "who"}
        if name != LEVELS:
            asked["rows_per_person"] = number
        if not isinstance(case.make(), PrivateSummary):
            asked["columns"] = [name for name in one.column_names if name != "who"]
        data = []
        for n_rows in (1, 0):
            own = folder / f"{ids}{n_rows}"
            own.mkdir()
            data.append((source([one.slice(0, n_rows)], own), *label))
        done = replay.compare(partial(make, case, **asked), *data)
        assert not done.error
        assert (done.delta > 0) == (name != LEVELS)  # see test_private_levels.py
        assert done.delta <= 1e-6


@pytest.mark.parametrize("name", [*SUMS, LEVELS])
@pytest.mark.parametrize("source", people.SOURCES)
def test_the_only_person_is_not_missed(name: str, source: str, tmp_path: Path) -> None:
    alone(name, people.SOURCES[source], tmp_path)


PLACES = ("pandas", "Parquet files", "DuckDB")
# A level of one person stays secret, and the one that is drawn here is none of the series.
UNSEEN = ("levels, laplace", "levels, gaussian", "summary, levels", "summary, continual")


@pytest.mark.parametrize("source", PLACES)
@pytest.mark.parametrize("case", people.TAKING, ids=lambda case: case.name)
def test_who_alone_counts_is_not_missed(case: Case, source: str, tmp_path: Path) -> None:
    """Others have gaps in all their rows, or weigh nothing: without the person nobody counts.

    Each of these must be answered, and as if nobody were there at all.
    """
    rng = np.random.default_rng(4)
    (table, *label), new = people.drawn(case, rng, 1, people.IDS["text"])
    own = people._is(table, new)
    levels = isinstance(case.make(), PrivateLevels)
    nobody = {"gaps": gaps(table)} | ({} if levels else {"weights of zero": table})
    for kind, others in nobody.items():
        asked: dict[str, Any] = {"person": "who", "drop_missing": kind == "gaps"}
        if not isinstance(case.make(), PrivateSummary):
            asked["columns"] = [name for name in table.column_names if name != "who"]
        whole = pa.concat_tables([table.filter(own), others.filter(pa.compute.invert(own))])
        if kind == "weights of zero":
            asked |= {"sample_weight": "w", "max_weight": 1.0}
            whole = whole.append_column("w", [np.where(np.arange(len(whole)) == 0, 1.0, 0.0)])
        data = []
        for first, last in ((0, len(whole)), (1, len(whole)), (0, 0)):
            folder = tmp_path / f"{kind}{first}{last}"
            folder.mkdir()
            part = whole.slice(first, last - first)
            data.append((people.SOURCES[source]([part], folder), *label))
        build = partial(make, case, **asked)
        found = [replay.compare(build, data[0], other) for other in data[1:]]
        assert not any(done.error for done in found)
        assert found[0].delta == found[1].delta <= 1e-6
        assert found[0].delta > 0 or case.name in UNSEEN


def gaps(table: pa.Table) -> pa.Table:
    """The same rows, of which each lacks all but whose it is."""
    for place, name in enumerate(table.column_names[1:], 1):
        table = table.set_column(place, name, pa.nulls(len(table), table.schema.field(name).type))
    return table


@pytest.mark.slow
def test_nor_on_spark(tmp_path: Path) -> None:
    (tmp_path / "executors").mkdir()
    with spark_session("local[2]", tmp_path / "executors") as session:
        for name in SUMS[1:2]:
            (tmp_path / name).mkdir()
            alone(name, partial(people._spark, session=session), tmp_path / name)


ROW = {"who": ["p1"], "a": [0.5], "y": [1.0]}
LIMITS = {"a": (-1.0, 1.0), "y": (0.0, 2.0)}
ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "random_state": 1}


def chunks(arrays: list[Any]) -> Callable[[], Any]:
    return lambda: iter(arrays)


def written(name: str, text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return write


def parquet(frame: pd.DataFrame) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        frame.to_parquet(folder / "t.parquet")
        return folder / "t.parquet"

    return write


# A table of one row, and ways to have none, whose columns often have no types any more.
ONE = pa.table(ROW)
NOTHING: dict[str, Callable[[Path], Any]] = {
    "names alone": written("t.csv", "who,a,y\n"),
    "names without an end of line": written("t.csv", "who,a,y"),
    "names and blank lines": written("t.csv", "who,a,y\n\n\n"),
    "a frame of objects": lambda folder: pd.DataFrame(columns=["who", "a", "y"]),
    "a file of nulls": parquet(pd.DataFrame(columns=["who", "a", "y"])),
    "a list of no batches": lambda folder: [],
    "a function that yields none": lambda folder: chunks([]),
    "a reader": lambda folder: chunks(ONE.slice(0, 0).to_batches()),
    "batches without rows": lambda folder: [ONE.to_batches()[0].slice(0, 0)] * 2,
}


@pytest.mark.parametrize("kind", NOTHING)
def test_however_it_is_written(kind: str, tmp_path: Path) -> None:
    models = [
        partial(PrivateCovariance, limits=LIMITS, columns=["a", "y"]),
        partial(PrivateCovariance, limits=LIMITS, columns=["a", "y"], person="who"),
        partial(PrivateLeastSquares, limits=LIMITS, columns=["a", "y"], person="who"),
        partial(PrivateSummary, limits=LIMITS, levels={"who": "private"}),
        partial(
            PrivateSummary, limits={"a": (-1, 1)}, person="who", sample_weight="y", max_weight=2.0
        ),
    ]
    for model in models:
        label = ["y"] if model.func is PrivateLeastSquares else []
        others = (NOTHING[kind](tmp_path), *label)
        if kind.startswith(("a list", "a function")) and model.func is PrivateSummary:
            continue  # which names its columns, but not as a list
        done = replay.compare(partial(model, **ASKED), (ONE, *label), others)
        assert not done.error


def test_batches_that_are_none_need_names() -> None:
    with pytest.raises(ValueError, match="list them in columns, or hand over a batch"):
        PrivateCovariance(**ASKED, limits=LIMITS).fit(chunks([]))


NOBODY = {
    "weights of zero": (pa.table(ROW | {"w": [0.0]}), {"sample_weight": "w", "max_weight": 1.0}),
    "gaps": (pa.table(ROW | {"a": pa.array([None], pa.float64())}), {"drop_missing": True}),
    "no listed level": (ONE, {"levels": {"who": ["p2"]}}),
}


@pytest.mark.parametrize("kind", NOBODY)
def test_a_table_in_which_nobody_counts(kind: str) -> None:
    table, more = NOBODY[kind]
    columns = ["a", "y", *more.get("levels", ())]
    build = partial(PrivateCovariance, limits=LIMITS, columns=columns, **ASKED, **more)
    done = replay.compare(build, (table,), (table.slice(0, 0),))
    assert not done.error
    assert done.delta <= 1e-6


# -- the command line ----------------------------------------------------------------------------

COMMANDS = [
    "covariance FILE --columns a,y",
    "covariance FILE --columns a,y --person who",
    "regression FILE --columns a,y --label y",
    "summary FILE --by who --private-levels who",
    "logistic FILE --columns a,who --label who --classes p1,p2",
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_line_says_the_same(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for numbers, and how wide a table of them is: with the same noise they tell the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of the tests have it: lines would wrap
    told = []
    for text in ("who,a,y\np1,0.5,1\n", "who,a,y\n"):
        Path("t.csv").write_text(text)
        limits = "--limits a=-1:1" if "logistic" in line else "--limits a=-1:1 --limits y=0:2"
        file = line.replace("FILE", "t.csv")
        words = f"release {file} {limits} --epsilon 1 --delta 1e-6 --seed 1"
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), "--out", "out.npz"])
        assert ended.value.code == 0
        said = "".join(capsys.readouterr())
        said = re.sub(r"SHA-256 \w+", "", said)
        told.append({*re.sub(r"-?\d[\d.,]*(e[-+]?\d+)?|─+", "#", said).split()})
        for path in tmp_path.glob("out*"):
            path.unlink()
    assert told[0] == told[1]
