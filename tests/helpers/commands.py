"""The command line as the tests call it, and the tables that they release."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from ndis.cli import main

PROMISE = ("--epsilon", "1", "--delta", "1e-6")
LIMITS = ("--limits", "a=-1:1", "--limits", "b=-1:1")
ANSWERS = ("--sensitivity", "1", "--relation", "add-remove", "--shape", "3", "--header")
# A release of every kind, from the tables of `write_tables`.
RELEASES = {
    "mean": ("people.csv", *LIMITS),
    "regression": ("people.csv", "--label", "y", *LIMITS, "--limits", "y=-2:2"),
    "logistic": ("people.csv", "--label", "sick", "--classes", "0,1", *LIMITS),
    "process": ("people.csv", "--label", "y", *LIMITS, "--limits", "y=-2:2"),
    "covariance": ("people.csv", *LIMITS),
    "pca": ("people.csv", *LIMITS),
    "projection": ("people.csv", *LIMITS, "--limits", "y=-2:2", "--n-components", "50"),
    "limits": ("people.csv", "--columns", "a,b"),
    "levels": ("people.csv", "--columns", "sick"),
    "poisson": ("people.csv", "--label", "sick", *LIMITS, "--limits", "sick=0:3"),
    "summary": ("people.csv", "--by", "sick", "--levels", "sick=0,1", "--limits", "a=-1:1"),
    "graph": ("edges.csv", "--nodes", "5"),
    "gaussian": ("answers.csv", *ANSWERS),
    "noise": ("answers.csv", *ANSWERS),
    "matrix": ("answers.csv", *ANSWERS),
}
GAUSSIAN = ("gaussian", "answers.csv", *ANSWERS, *PROMISE)
MEAN = ("mean", "people.csv", *LIMITS, *PROMISE)
SECRET = "hunter2"
# What else calibrate and forecast are told, instead of a table.
PLANS = {
    "mean": LIMITS,
    "regression": (*LIMITS, "--limits", "y=-2:2", "--label", "y"),
    "logistic": ("--classes", "0,1", *LIMITS),
    "poisson": (*LIMITS, "--limits", "y=0:3", "--label", "y"),
    "summary": ("--by", "a", "--levels", "a=0,1", "--limits", "b=-1:1"),
    "process": (*LIMITS, "--label-limits", "-2:2"),
    "covariance": LIMITS,
    "pca": LIMITS,
    "projection": (*LIMITS, "--n-components", "50"),
    "limits": ("--columns", "a,b"),
    "levels": ("--columns", "a"),
    "graph": ("--nodes", "5"),
    "gaussian": ("--sensitivity", "1", "--shape", "3"),
    "noise": ("--sensitivity", "1", "--shape", "3"),
    "matrix": ("--sensitivity", "1", "--shape", "3,1"),
}


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the program as a user would and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


def people(n_rows: int = 4000) -> pa.Table:
    """Numbers in [-1, 1], a class, and a label that depends on one of the numbers."""
    rows = np.random.default_rng(0).uniform(-1, 1, (n_rows, 3))
    label = rows[:, 2] + rows[:, 0]
    sick = (label + 0.3 * rows[:, 1] > 0).astype(int)
    return pa.table({"a": rows[:, 0], "b": rows[:, 1], "y": label, "sick": sick})


def write_tables(folder: Path) -> None:
    """People in one file and in parts, the edges of a graph, and answers."""
    everybody = people()
    csv.write_csv(everybody, folder / "people.csv")
    pq.write_table(everybody.slice(0, 1500), folder / "part-1.parquet")
    pq.write_table(everybody.slice(1500), folder / "part-2.parquet")
    csv.write_csv(pa.table({"source": [0, 1], "target": [1, 2]}), folder / "edges.csv")
    csv.write_csv(pa.table({"count": [10, 20, 30]}), folder / "answers.csv")


PAGE = Path(__file__).parents[2] / "docs/how-to-add-a-mechanism.md"


def block(kind: str, page: Path = PAGE) -> str:
    """The first block of a page that is written in this language."""
    found = re.search(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def example_estimator() -> Any:
    """The estimator that docs/how-to-add-a-mechanism.md writes."""
    scope: dict[str, Any] = {"__name__": "example"}
    exec(block("python"), scope)
    return scope["PrivateMean"]


def install_example(place: Path) -> None:
    """Put that estimator into a package, with the metadata that an installation writes."""
    (place / "private_mean.py").write_text(block("python"))
    declared = tomllib.loads(block("toml"))["project"]
    metadata = place / f"private_mean-{declared['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {declared['name']}\nVersion: 1.0\n")
    ((group, entries),) = declared["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def shell(*words: str, stdout: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, its answer going where the shell sends it."""
    command = f'"$0" -m ndis "$@" {stdout}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command, sys.executable, *words],
        stderr=subprocess.PIPE,
        text=True,
    )
