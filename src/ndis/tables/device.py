"""Tables that are read here and summed in a graphics card's memory.

Records are gathered in page-locked memory by threads, from which the card fetches them while the
next are being read. Rows that are on the grid stay on the card for further passes, where there is
room for them: a file is then read once.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ndis._validate import not_installed
from ndis.tables.batches import Batch
from ndis.tables.columns import Columns
from ndis.tables.rows import Rows
from ndis.tables.threads import map_in_order


def require_device(device: str) -> None:
    """Fail, before anything is read or paid, where rows could not be put on a device."""
    try:
        import_module("torch").empty(0, device=device)
    except ImportError:
        what = f"torch to sum on device {device!r}"
        raise not_installed(what, "torch, or leave device out") from None
    except Exception as error:  # torch has a kind of its own for every way to fail here
        raise ValueError(
            f"Expected device to be one of torch's on this machine, got {device!r}; pass "
            "one that is there, or leave device out."
        ) from error


def moved(
    batches: Iterable[Any], rows: Rows, device: str, device_rows: int
) -> Generator[Batch, None, None]:
    """The records on a device, in batches of so many rows."""
    torch, waiting, n_rows = import_module("torch"), list[list[Any]](), 0
    beside = list[tuple[Any, Any]]()

    def together() -> Batch:
        weights, people = (
            None if own[0] is None else np.concatenate(own) for own in zip(*beside, strict=True)
        )
        parts = (torch.concat(parts) for parts in zip(*waiting, strict=True))
        return Batch(*parts, ready=True, weights=weights, people=people)

    for pieces, own in map_in_order(functools.partial(_gathered, rows, device), batches):
        waiting.append([piece.to(device, non_blocking=True) for piece in pieces])
        beside.append(own)
        n_rows += len(pieces[0])
        if n_rows >= device_rows:
            yield together()
            waiting, beside, n_rows = [], [], 0
    if waiting:
        yield together()


def _gathered(rows: Rows, device: str, batch: Any) -> tuple[list[Any], tuple[Any, Any]]:
    """Features and labels of a batch, as matrices in memory that the card can fetch from.

    With them, weights and marks of people, which stay here.
    """
    records = Batch.of(batch, rows)
    if records.sparse or records.elsewhere:
        raise TypeError(
            "Expected records that are dense and in the processor's memory for another device, got "
            "others; leave device out."
        )
    parts = zip(rows.groups, (records.data, records.labels), strict=False)
    moving = [_locked(group, values, device) for group, values in parts]
    return moving, (records.weights, records.people)


def _locked(group: Columns, values: Any, device: str) -> Any:
    """One matrix of numbers, a row for each record; what is in single precision stays so."""
    torch, columns = import_module("torch"), isinstance(values, Mapping)
    of = [values[name] for name in group.columns] if columns else [values]
    single = all(column.dtype == np.float32 for column in of)
    n_numbers, n_rows = len(group.names) - group.intercept, len(of[0])
    shape = (n_numbers, n_rows) if columns else (n_rows, n_numbers)
    dtype = torch.float32 if single else torch.float64
    locked = torch.empty(shape, dtype=dtype, pin_memory=device.startswith("cuda"))
    if not columns:
        locked.numpy()[...] = values.reshape(shape)
        return locked
    group.fill(locked.numpy(), values)
    return locked.T
