"""Gram matrices of tables that are handed over in any way, for tests."""

from typing import Any, NamedTuple

import numpy as np

from ndis.tables import Columns, Rows, Table


class Gram(NamedTuple):
    """A Gram matrix in the table's own units."""

    matrix: np.ndarray
    n_rows: int
    columns: tuple[str, ...]


def opened(
    source: Any,
    columns: Any = None,
    *,
    norm: float | None = 2.0**10,
    levels: Any = None,
    limits: Any = None,
    intercept: bool = False,
    drop_missing: bool = False,
    **written: Any,
) -> Table:
    """A table with a recipe; multiples of 2^-10 within the norm lie on its grid."""
    typed = [*(levels or {}), *(limits or {})]
    table = Table.open(source, columns, drop_missing=drop_missing, typed=typed, **written)
    recipe = Columns(table.columns, levels or {}, limits, norm, intercept, widths=table.widths)
    return table.with_rows(Rows(recipe))


def gram_of(source: Any, columns: Any = None, **recipe: Any) -> Gram:
    table = opened(source, columns, **recipe)
    matrix = table.moments["gram"].value
    features = table.rows.features
    return Gram(matrix / np.outer(features.scale, features.scale), table.n_rows, features.names)
