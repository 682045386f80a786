"""Tables for tests, and Gram matrices of those that are handed over in any way."""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ndis.tables import Columns, ExactSum, Rows, Table


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


def integers(total: ExactSum) -> list[int]:
    pairs = zip(total.high.ravel().tolist(), total.low.ravel().tolist(), strict=True)
    return [(high << 26) + low for high, low in pairs]


def fractions(total: ExactSum) -> list[Fraction]:
    """Sums of weighted rows, exactly."""
    part = 0 * total.high if total.part is None else total.part
    return [
        whole + Fraction(behind, 2**26)
        for whole, behind in zip(integers(total), part.ravel().tolist(), strict=True)
    ]


def random_table(seed: int, n_rows: int = 10_000, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.standard_t(2, (n_rows, 6)) * scale
    table[:, 3] = table[:, 2]  # columns may be equal, or constant
    table[:, 4] = 7.0 * scale
    table[0] = 1e9 * scale  # and one row may be a giant
    return table
