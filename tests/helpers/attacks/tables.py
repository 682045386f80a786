"""Tables that somebody made to break a mechanism, and their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Data = tuple[Any, ...]


def hostile(rng: np.random.Generator, n_rows: int, n_columns: int) -> np.ndarray:
    """Numbers of any scale: duplicates, constants, denormals, giants, signed zeros."""
    scale = 10.0 ** rng.uniform(-150, 150)
    kinds = [
        lambda: rng.standard_normal((n_rows, n_columns)),
        lambda: scale * rng.standard_normal((n_rows, n_columns)),
        lambda: (
            rng.standard_normal((n_rows, n_columns)) * 10.0 ** rng.uniform(-150, 150, n_columns)
        ),
        lambda: np.repeat(scale * rng.standard_normal((1, n_columns)), n_rows, axis=0),
        lambda: np.full((n_rows, n_columns), rng.choice([0.0, -0.0, 1.0, 1e9, 5e-324, 1e300])),
        lambda: rng.choice([-1.0, 1.0], (n_rows, n_columns)) * 2.0 ** rng.integers(-1074, 1023),
        lambda: np.repeat(rng.standard_normal((n_rows, 1)), n_columns, axis=1),
        lambda: rng.standard_cauchy((n_rows, n_columns)),
    ]
    table = kinds[rng.integers(len(kinds))]()
    if rng.random() < 0.4:
        table[rng.integers(n_rows)] = rng.choice([1e-310, 1e12, 1e150, 1.7e308]) * rng.choice(
            [-1.0, 1.0], n_columns
        )
    if rng.random() < 0.2:
        table[:, rng.integers(n_columns)] = rng.choice([0.0, 7.0, -1e-200])
    return np.nan_to_num(table, posinf=1.7e308, neginf=-1.7e308)


def hostile_scales(rng: np.random.Generator, n_columns: int) -> np.ndarray:
    return 10.0 ** rng.uniform(-150, 150, n_columns)


def hostile_like(data: Data, rng: np.random.Generator, moved: bool = False) -> tuple[Data, Data]:
    """Arguments of `fit` of the same kind, and those without one row, or with a row moved by 1."""
    table, *more = data
    n_rows = int(rng.integers(2, 40))
    left_out = int(rng.integers(n_rows))
    kept = np.arange(n_rows) != left_out
    if isinstance(table, pa.Table):
        named = {name: table[name].to_numpy() for name in table.column_names}
        columns = {name: _labels(values, rng, n_rows) for name, values in named.items()}
        others = {name: values[kept] for name, values in columns.items()}
        return (pa.table(columns), *more), (pa.table(others), *more)
    rows = hostile(rng, n_rows, table.shape[1])
    if moved:
        there = rows.copy()
        step = rng.standard_normal(table.shape[1])
        there[left_out] += 0.999 * step / np.linalg.norm(step)
        return (rows, *more), (there, *more)
    labels = [_labels(np.asarray(y), rng, n_rows) for y in more if y is not None]
    return (rows, *labels), (rows[kept], *(y[kept] for y in labels))


def hostile_people(
    data: Data, rng: np.random.Generator, m: int, names: Any = None
) -> tuple[Data, Data]:
    """A table of people with one to five rows each, and that without a person of m rows."""
    (others, *more), _ = hostile_like(data, rng)
    parts = [_named(others, more, names)]
    while sum(map(len, parts[1:])) < m:
        table, *labels = hostile_like(data, rng)[0]
        parts.append(_named(table, labels, names))
    own = pa.concat_tables(parts[1:]).slice(0, m)
    who = rng.permutation(np.repeat(np.arange(len(parts[0])), 5))[: len(parts[0])]
    rest = parts[0].append_column("who", [[f"p{each}" for each in who]])
    whole = pa.concat_tables([rest, own.append_column("who", [["new"] * m])])
    whole = whole.take(rng.permutation(len(whole)))
    label = more[:1] if more and isinstance(more[0], str) else ["y"] if more else []
    return (whole, *label), (rest, *label)


def _named(table: Any, labels: Any, names: Any) -> pa.Table:
    """An array and labels beside it as a table with named columns."""
    if isinstance(table, pa.Table):
        return table
    names = names or [f"x{index}" for index in range(table.shape[1])]
    columns = dict(zip(names, table.T, strict=True))
    return pa.table(columns | dict(zip(["y"], labels, strict=False)))


def _labels(values: np.ndarray, rng: np.random.Generator, n_rows: int) -> np.ndarray:
    if values.dtype.kind == "f" and len(np.unique(values)) > 5:
        columns = hostile(rng, n_rows, 1 if values.ndim == 1 else values.shape[1])
        return columns[:, 0] if values.ndim == 1 else columns
    return values[rng.integers(len(values), size=n_rows)]
