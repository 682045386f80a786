"""Columns of an Arrow record batch as numbers, or as positions in a public list of levels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS_OF_A_DAY = 86_400e6
_REMEDIES = {
    r"[+-]?[0-9.]+,[0-9]+$": "write its numbers with decimal points, 1.5 instead of 1,5",
    r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]": "write its dates as 2024-12-31; they count in days",
}


def missing_values(name: str) -> ValueError:
    """Return the error for a column that is not complete."""
    return ValueError(
        f"Column {name!r} has missing or infinite values; drop those rows (drop_missing=True), or "
        "fill them with a public constant: a mean of the data is not private."
    )


def list_width(kind: pa.DataType) -> int | None:
    """The length of the lists in a column of fixed-size lists; None for other columns."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):  # tensors are lists with a shape
        kind = kind.storage_type
    return int(kind.list_size) if pa.types.is_fixed_size_list(kind) else None


def numbers(name: str, array: pa.Array, width: int | None = None) -> NDArray[Any]:
    """An Arrow column as numbers, without a copy where there is one; dates count in days.

    A column of lists of `width` numbers becomes a matrix with one row for each record.
    """
    import pyarrow.types as types

    if array.null_count:
        raise missing_values(name)
    kind = array.type
    if types.is_dictionary(kind):
        return numbers(name, array.dictionary_decode())
    if width is not None:
        storage = array.storage if hasattr(array, "storage") else array
        flat = numbers(name, storage.flatten())
        if len(flat) != len(array) * width:
            raise _ragged(name)
        return flat.reshape(len(array), width)
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = array.cast("timestamp[us]").cast("int64")
        days: NDArray[Any] = moments.to_numpy(zero_copy_only=False) / _MICROSECONDS_OF_A_DAY
        return days
    if types.is_decimal(kind):
        array = array.cast("float64")
    elif types.is_list(kind) or types.is_large_list(kind):
        raise _ragged(name)
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise ValueError(f"Column {name!r} holds {kind}, not numbers; {_remedy(array)}.")
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _remedy(array: pa.Array) -> str:
    """What to do with a column of text, by what its first value looks like."""
    first = str(array[0]) if len(array) else ""
    looks = (remedy for pattern, remedy in _REMEDIES.items() if re.match(pattern, first))
    return next(looks, "leave it out or list its levels")


def _ragged(name: str) -> ValueError:
    return ValueError(
        f"Column {name!r} holds lists of any length; convert it to lists of one fixed size."
    )


def level_positions(name: str, array: pa.Array, known: Sequence[Any]) -> NDArray[Any]:
    """For each value its position in the public list, or -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.null_count:
        raise missing_values(name)
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
    values: NDArray[Any] = np.asarray(pc.fill_null(positions, -1).to_numpy(zero_copy_only=False))
    return values
