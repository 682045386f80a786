"""The three tables of the paper of 2024, as it prepares them, and its setting.

The Flight table comes with the package. Song (YearPredictionMSD) and Cancer (county cancer rates)
are used where their official files are given; else made-up tables stand in, and say so. Of the
3,047 counties of the official file the paper used 2,809 (its printed noise fits no other number
of rows far from that) and does not say which. As in the paper every column is divided by its own
norm and the bound on a row is the largest norm found, which is for comparison and not private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ndis_papers._validate import FloatArray
from ndis_papers.reproduce.data import read_cancer, read_flights, read_year_prediction

EPSILON = 1.0
# Rows of the tables, and rows that the paper's own tables print: it swaps two of them.
ROWS = {"cancer": 2_809, "songs": 515_345, "flight": 327_346}
NAMES = {"cancer": "Cancer", "songs": "Song", "flight": "Flight"}
# Features and label, as far as the paper tells.
COLUMNS = {"cancer": 21, "songs": 91}
PRINTED_ROWS = {"cancer": 2_809, "songs": 327_346, "flight": 515_345}


def flight_rows() -> FloatArray:
    """Departure delay, a constant and arrival delay, columns of norm one."""
    table = read_flights()
    departure, arrival = (table[name].to_numpy() for name in ("dep_delay", "arr_delay"))
    return normalised(np.column_stack([departure, np.ones(len(departure)), arrival]))


def song_rows(path: str | Path) -> FloatArray:
    """Ninety features and the year, columns of norm one."""
    features, year = read_year_prediction(path)
    return normalised(np.column_stack([features, year]))


def cancer_rows(path: str | Path) -> FloatArray:
    """Numeric features and the death rate, columns of norm one; the paper used 2,809 counties."""
    features, rate, _ = read_cancer(path)
    return normalised(np.column_stack([features, rate]))


READERS: dict[str, Callable[[str | Path], FloatArray]] = {
    "songs": song_rows,
    "cancer": cancer_rows,
}


def made_up(name: str, most: int = 20_000) -> FloatArray:
    """A made-up table with the columns of an official one, and at most so many of its rows.

    Positive features with heavy tails, as counts and incomes have, a label that they explain in
    part, columns of norm one.
    """
    n, columns = min(ROWS[name], most), COLUMNS[name]
    rng = np.random.default_rng(columns)
    features = np.exp(0.5 * rng.standard_normal((n, columns - 1)))
    label = features @ rng.uniform(size=columns - 1) / columns + 0.2 * rng.uniform(size=n)
    return normalised(np.column_stack([features, label]))


def tables(files: Mapping[str, str | Path] | None) -> dict[str, FloatArray]:
    """The Flight table, and the others: from their files where given, else made up."""
    given = files or {}
    others = {
        name: read(given[name]) if name in given else made_up(name)
        for name, read in READERS.items()
    }
    return {"flight": flight_rows(), **others}


def source(name: str, files: Mapping[str, str | Path] | None) -> str:
    """Where a table of `tables` comes from."""
    return "official" if name == "flight" or name in (files or {}) else "made up"


def normalised(rows: FloatArray) -> FloatArray:
    """The same columns, each divided by its norm."""
    return np.asarray(rows / np.linalg.norm(rows, axis=0))


def longest(rows: FloatArray) -> float:
    """The largest norm of a row."""
    return float(np.linalg.norm(rows, axis=1).max())


def components(name: str, n_rows: int) -> int:
    """The paper's r: 300 for Cancer, log(n)/0.1^2 rounded down for the others."""
    return 300 if name == "cancer" else int(math.log(n_rows) / 0.1**2)


def mean_and_half_width(values: FloatArray) -> tuple[float, float]:
    """Mean and half the width of its 95% confidence interval."""
    return float(values.mean()), float(1.96 * values.std(ddof=1) / math.sqrt(values.size))
