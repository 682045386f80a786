"""Tables that change between two readings: is what is released that of one table?

A table and an estimator are drawn, with or without people, gaps and limits to be found, and a way
to change the table. From some reading on the source hands out the changed one. Whatever is released
must be, under a fixed seed, what one of both tables gives; or there is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from attacks import people
from attacks.cases import OF_TABLES, make, unknown_limits
from ndis import PrivateLevels, PrivateSummary

WAYS = ("a column in another order", "two values swapped", "a value", "a row", "one more", "less")
# What becomes of a table that changes: an error, or a release of the earlier or the later table.
ERROR, EARLIER, LATER, MIXED = "error", "earlier", "later", "mixed"
_AT_ONCE, _ALWAYS = 200, 10**9


@dataclass(frozen=True)
class Changed:
    """What was drawn for a table, and what became of it when it changed after each reading."""

    case: str
    people: str
    way: str
    outcomes: tuple[str, ...]
    error: str = ""


def check(seed: int) -> Changed:
    """One table; MIXED is among the outcomes if both tables are in a release."""
    rng = np.random.default_rng([99, seed])
    case = OF_TABLES[seed % len(OF_TABLES)]
    (table, *label), asked, whose = _drawn(case, rng)
    way = str(rng.choice(WAYS))
    other = _changed(table, rng, way)
    readings = list[int]()

    def released(last: int) -> Any:
        """The released arrays if readings after this one find the changed table; or an error."""
        readings.clear()

        def read() -> Iterator[pa.RecordBatch]:
            readings.append(len(readings))
            yield from (table if len(readings) <= last else other).to_batches(_AT_ONCE)

        try:
            return make(case, **asked).fit(read, *label).release_.arrays
        except ValueError as error:
            return str(error)

    earlier = released(_ALWAYS)
    if isinstance(earlier, str):  # by its parameters
        return Changed(case.name, whose, way, (), earlier)
    n, later, outcomes = len(readings), released(1), []  # the first reading only opens it
    for last in range(2, n):
        found = released(last)
        if isinstance(found, str):
            if "changed" not in found and not isinstance(later, str):
                raise AssertionError(f"Another error: {found}")
            outcomes.append(ERROR)
        elif _same(found, earlier):
            outcomes.append(EARLIER)
        else:
            outcomes.append(LATER if _same(found, later) else MIXED)
    return Changed(case.name, whose, way, tuple(outcomes))


def _drawn(case: Any, rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any], str]:
    """Arguments of `fit`, parameters, and who is protected."""
    (table, *label), _ = people.drawn(case, rng, 5, people.IDS["text"])
    if len(table) < 20:
        table = pa.concat_tables([table] * 5)
    whose = str(rng.choice(["rows", "people", "people, rows bought"]))
    asked: dict[str, Any] = {"person": "who"}
    if case not in people.TAKING or whose == "rows":
        whose, asked, table = "rows", {}, table.drop_columns("who")
    elif whose != "people":
        asked["rows_per_person"] = "private"
    if asked and rng.random() < 0.3 and not isinstance(case.make(), PrivateLevels):
        table = table.append_column("w", [rng.choice([0.3, 1.0, 2.0], len(table))])
        asked |= {"sample_weight": "w", "max_weight": 2.0}
    if rng.random() < 0.4:
        table, asked["drop_missing"] = people.with_gaps(table, rng), True
    if not isinstance(case.make(), PrivateSummary):  # which names its columns
        asked["columns"] = [name for name in table.column_names if name not in ("who", "w")]
    if rng.random() < 0.3:
        asked |= unknown_limits(make(case))
    return (table, *label), asked, whose


def _changed(table: pa.Table, rng: np.random.Generator, way: str) -> pa.Table:
    n, name = len(table), str(rng.choice(table.column_names))
    (one, other), order = rng.integers(n, size=2), np.arange(n)
    if way == "one more":
        return pa.concat_tables([table, table.slice(one, 1)])
    if way == "less":
        return table.take(np.delete(order, one))
    if way == "two values swapped":
        order[[one, other]] = other, one
    elif way == "a column in another order":
        order = rng.permutation(n)
    else:
        order[one] = other
    if way == "a row":
        return table.take(order)
    place = table.column_names.index(name)
    return table.set_column(place, name, table[name].combine_chunks().take(pa.array(order)))


def _same(found: Any, other: Any) -> bool:
    return (
        not isinstance(other, str)
        and found.keys() == other.keys()
        and all(np.array_equal(found[name], other[name], equal_nan=True) for name in found)
    )
