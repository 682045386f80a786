"""Records become blocks: what the source keeps, and what labels do when a row is shortened."""

import numpy as np
import pytest

from ndis.tables import (
    Columns,
    Rows,
    Table,
)
from reading import opened


def test_the_source_is_not_written_to() -> None:
    table = np.full((3, 2), 7.0)
    list(opened(table, norm=1.0).blocks())
    list(opened(np.asfortranarray(table), norm=1.0).blocks())
    assert (table == 7.0).all()


def test_long_rows_take_their_label_along() -> None:
    """A linear relation between features and label survives the bound on the row."""
    X = np.array([[0.25], [4.0]])
    rows = Rows(Columns(["x0"], norm=0.5), Columns(["y"], norm=1.0))
    (block,) = Table.open(X, labels=X[:, 0] / 8).with_rows(rows).blocks()
    assert block.features[0] == pytest.approx([2.0**19, 2.0**20], abs=2)
    assert block.labels[0] == pytest.approx([2.0**15, 2.0**16], abs=2)
