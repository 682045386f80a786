"""How the records of a table become rows of numbers, the same way everywhere.

A record passes four gates, each fixed by public parameters alone: categories become indicator
columns through a public list of levels, declared columns are clipped, an intercept is put in
front, and a row that is too long is scaled down to the public bound. Every row costs the same
work whatever it holds, so that the time taken does not tell how many rows were too long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ndis._validate import count, positive

if TYPE_CHECKING:
    import pyarrow as pa

    Batch: TypeAlias = pa.RecordBatch | NDArray[Any]

FloatArray = NDArray[np.float64]

INTERCEPT = "intercept"
# Most rows of a block. It bounds the rounding error of a block's Gram matrix (see gram.py).
BLOCK_ROWS = 4096
# Most entries of a block, so that it stays near the processor's cache.
BLOCK_ENTRIES = 1 << 20
UNIT_ROUNDOFF = 2.0**-53
# Between these, squares of norms neither overflow nor lose digits to underflow.
ROW_NORM_RANGE = (1e-140, 1e140)


@dataclass(frozen=True)
class Rows:
    """The recipe that turns a table's records into rows of numbers.

    Parameters
    ----------
    columns : sequence of str
        Columns of the table, in the order in which they enter the row.
    levels : mapping of str to sequence, optional
        For each categorical column its public list of levels. The column becomes one indicator
        column a level, named ``column=level``; any other value gives zeros in all of them.
    clip : mapping of str to float, optional
        For each column named, the bound on its absolute value.
    intercept : bool, default False
        Whether a column of ones, named ``intercept``, comes first.
    row_norm : float, optional
        Public bound on the Euclidean norm of a row, intercept included. Longer rows are scaled
        down to it. (A row longer than 1e154, whose square overflows, counts as zero.)

    Attributes
    ----------
    names : tuple of str
        Names of the numbers in a row, in order.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows(["height", "weight"], row_norm=5.0)
    >>> next(rows.blocks(np.array([[3.0, 4.0], [6.0, 8.0]]))).round(6)
    array([[3., 4.],
           [3., 4.]])
    """

    columns: Sequence[str]
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    clip: Mapping[str, float] = field(default_factory=dict)
    intercept: bool = False
    row_norm: float | None = None
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        levels = {name: tuple(known) for name, known in (self.levels or {}).items()}
        _check_levels(levels, columns)
        clip = {name: positive(f"clip[{name!r}]", top) for name, top in (self.clip or {}).items()}
        for name in clip:
            if name not in columns or name in levels:
                raise ValueError(
                    f"Expected clip to name numeric columns of the table, got {name!r}; "
                    "clip columns that are read as numbers."
                )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "clip", clip)
        if self.row_norm is not None:
            object.__setattr__(self, "row_norm", _usable_norm(self.row_norm))
        object.__setattr__(self, "names", _row_names(columns, levels, self.intercept))

    def blocks(self, batch: Batch, *, reuse: bool = False) -> Iterator[FloatArray]:
        """Yield the rows of a batch, finite and within bounds, in blocks of a few thousand.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or ndarray of shape (n_rows, n_columns)
            Records; an array has the columns in the order of `columns`.
        reuse : bool, default False
            Whether blocks may share memory: then each is gone when the next is drawn.

        Yields
        ------
        block : ndarray of shape (at most 4096, len(names))
            Rows of numbers, free to be overwritten.
        """
        fill, n_rows, order = self._filler(batch)
        width = len(self.names)
        step = max(256, min(BLOCK_ROWS, BLOCK_ENTRIES // width))
        block = np.empty((0, width))
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            if not reuse or len(block) != stop - start:
                block = np.empty((stop - start, width), order=order)
            if self.intercept:
                block[:, 0] = 1.0
            fill(block[:, int(self.intercept) :], start, stop)
            self._require_finite(block)
            for name, top in self.clip.items():
                column = block[:, self.names.index(name)]
                np.clip(column, -top, top, out=column)
            if self.row_norm is not None:
                scale_rows(block, self.row_norm)
            yield block

    def _filler(self, batch: Batch) -> tuple[Callable[[FloatArray, int, int], None], int, Any]:
        """Return a function that writes the rows start..stop of a batch, and their layout."""
        if isinstance(batch, np.ndarray):
            _check_array(batch, len(self.columns), bool(self.levels))

            def copy(target: FloatArray, start: int, stop: int) -> None:
                target[...] = batch[start:stop]

            by_column = batch.flags.f_contiguous and not batch.flags.c_contiguous
            return copy, len(batch), "F" if by_column else "C"

        columns = [self._numbers(name, batch) for name in self.columns]

        def gather(target: FloatArray, start: int, stop: int) -> None:
            position = 0
            for values, n_levels in columns:
                if n_levels:
                    # Every row is compared with every level: the work does not depend on them.
                    target[:, position : position + n_levels] = values[
                        start:stop, np.newaxis
                    ] == np.arange(n_levels)
                else:
                    target[:, position] = values[start:stop]
                position += n_levels or 1

        return gather, batch.num_rows, "F"

    def _numbers(self, name: str, batch: pa.RecordBatch) -> tuple[NDArray[Any], int]:
        """Return a column as numbers and 0, or as level positions and the number of levels."""
        if batch.schema.names.count(name) != 1:
            raise ValueError(
                f"Expected the table to have one column {name!r}, got columns "
                f"{', '.join(map(repr, batch.schema.names))}; name the columns to read."
            )
        array = batch.column(batch.schema.names.index(name))
        if array.null_count:
            raise missing_values(name)
        if name in self.levels:
            return _level_positions(name, array, self.levels[name]), len(self.levels[name])
        return _as_numbers(name, array), 0

    def _require_finite(self, block: FloatArray) -> None:
        """Raise if a value is NaN or infinite; a sum of squares tells at no cost."""
        flat = block.ravel("K")
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(np.dot(flat, flat)):
                return
        finite = np.isfinite(block).all(axis=0)
        if not finite.all():
            raise missing_values(self.names[int(np.argmin(finite))])


def scale_rows(block: FloatArray, row_norm: float) -> None:
    """Scale every row longer than `row_norm` down to it, in place.

    No row is longer than `row_norm` afterwards, rounding included. With u = 2^-53 and d columns,
    the computed norm is at least (1-u)^(d/2+1) times the true one (d roundings in the sum of
    squares in any order of summation, one in the root), the quotient and each product round up by
    at most a factor 1+u. So aiming at ``target <= row_norm (1-u)^(d/2+3)`` suffices, and
    ``1 - (d+8) u``, itself rounded twice, is below that. A row whose computed norm is at most
    `target` is multiplied by exactly one.
    """
    target = row_norm * (1.0 - (block.shape[1] + 8) * UNIT_ROUNDOFF)
    with np.errstate(over="ignore"):
        scale = np.einsum("ij,ij->i", block, block)
    np.sqrt(scale, out=scale)
    np.maximum(scale, target, out=scale)
    np.divide(target, scale, out=scale)
    block *= scale[:, np.newaxis]


def norm_from_limits(
    limits: Mapping[str, tuple[float, float]], *, n_categorical: int = 0, intercept: bool = False
) -> float:
    """Bound the norm of a row by what is known about its columns beforehand.

    Parameters
    ----------
    limits : mapping of str to (low, high)
        For each numeric column the least and largest value it can have in its domain.
    n_categorical : int, default 0
        Number of categorical columns: each adds one indicator that may be 1.
    intercept : bool, default False
        Whether the row has an intercept.

    Returns
    -------
    row_norm : float
        A norm that no row within the limits exceeds.

    Examples
    --------
    >>> round(norm_from_limits({"height": (0, 3), "change": (-4, 2)}), 6)
    5.0
    """
    largest = [max(abs(float(low)), abs(float(high))) for low, high in limits.values()]
    ones = [1.0] * (n_categorical + int(intercept))
    # hypot is accurate to within one unit in the last place: two steps up are an upper bound.
    return math.nextafter(math.nextafter(math.hypot(*largest, *ones), math.inf), math.inf)


def default_names(n_columns: int) -> tuple[str, ...]:
    """Return the names ``x0, x1, ...`` of columns that have none."""
    return tuple(f"x{index}" for index in range(count("n_columns", n_columns)))


def missing_values(name: str) -> ValueError:
    """Return the error for a column that is not complete."""
    return ValueError(
        f"Column {name!r} has missing or infinite values; fill them or drop those rows first."
    )


def _row_names(
    columns: tuple[str, ...], levels: Mapping[str, tuple[Any, ...]], intercept: bool
) -> tuple[str, ...]:
    expanded = (
        [f"{name}={level}" for level in levels[name]] if name in levels else [name]
        for name in columns
    )
    first = [INTERCEPT] if intercept else []
    names = (*first, *(name for group in expanded for name in group))
    if not columns:
        raise ValueError("Expected at least one column, got none; name the columns to read.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(
            f"Expected distinct columns, got {twice!r} more than once; rename it or leave it out."
        )
    return names


def _check_levels(levels: Mapping[str, tuple[Any, ...]], columns: tuple[str, ...]) -> None:
    for name, known in levels.items():
        if name not in columns:
            raise ValueError(
                f"Expected levels for columns of the table, got levels for {name!r}; "
                "name it in columns too."
            )
        if not known or len(set(known)) < len(known):
            raise ValueError(
                f"Expected distinct levels of column {name!r}, got {list(known)!r}; "
                "list each level once."
            )


def _usable_norm(value: Any) -> float:
    row_norm = positive("row_norm", value)
    low, high = ROW_NORM_RANGE
    if not low <= row_norm <= high:
        raise ValueError(
            f"Expected {low:g} <= row_norm <= {high:g}, got row_norm={row_norm}; "
            "measure the columns in other units."
        )
    return row_norm


def _check_array(array: NDArray[Any], n_columns: int, categorical: bool) -> None:
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(
            f"Expected an array of shape (n_rows, {n_columns}), got shape {array.shape}; "
            "name as many columns as it has."
        )
    if array.dtype.kind not in "buif":
        raise ValueError(
            f"Expected an array of numbers, got dtype {array.dtype}; "
            "hand over categories as a data frame and list their levels."
        )
    if categorical:
        raise ValueError(
            "An array of numbers has no categorical columns; hand over a data frame to use levels."
        )


def _as_numbers(name: str, array: pa.Array) -> NDArray[Any]:
    """Return an Arrow column without nulls as numbers, without a copy where there is one."""
    import pyarrow.types as types

    kind = array.type
    if types.is_dictionary(kind):
        return _as_numbers(name, array.dictionary_decode())
    if types.is_decimal(kind):
        array = array.cast("float64")
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise ValueError(
            f"Column {name!r} holds {kind}, not numbers; leave it out or list its levels."
        )
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _level_positions(name: str, array: pa.Array, known: Sequence[Any]) -> NDArray[Any]:
    """Return for each value its position in the public list, or -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or array.type == pa.string_view():
        array = array.cast(pa.string())
    try:
        value_set = pa.array(known, type=array.type)
    except (pa.ArrowException, TypeError):
        raise ValueError(
            f"Expected levels of column {name!r} to be of its type {array.type}, "
            f"got {list(known)!r}; list them as they are written in the table."
        ) from None
    positions = pc.index_in(array, value_set=value_set)
    values: NDArray[Any] = pc.fill_null(positions, -1).to_numpy(zero_copy_only=False)
    return values
