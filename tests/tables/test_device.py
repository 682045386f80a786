"""Tables that are read here and summed on a device."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from ndis.tables import (
    Below,
    Columns,
    Rows,
    Table,
    moments,
)
from ndis.tables.sums import (
    CutGram,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_table_that_is_read_here_is_summed_on_a_device(tmp_path, kind, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("ndis.tables.sources.DEVICE_ENTRIES", 5000 * 5)
    rng = np.random.default_rng(4)
    frame = pa.table(
        {
            "a": rng.normal(size=30_000).astype(kind),
            "b": rng.normal(size=30_000).astype(kind),
            "c": rng.choice(["x", "y", "z"], 30_000),
            "y": rng.uniform(-1, 1, 30_000).astype(kind),
        }
    )
    pq.write_table(frame, tmp_path / "t.parquet", row_group_size=7000)
    features = Columns(["a", "b", "c"], {"c": ["x", "z"]}, {"a": (-2, 2), "b": (-2, 3)}, None, True)
    rows = Rows(features, Columns(["y"], limits={"y": (-1, 1)}))
    here, there = (
        Table.open(tmp_path / "t.parquet", device=device).with_rows(rows)
        for device in (None, "cpu")
    )
    for function in (moments, CutGram(3)):
        expected, ours = here.sum(function), there.sum(function)
        assert all(ours[name] == expected[name] for name in expected)
    below = Below(np.linspace(-2, 2, 9), ((0, 1), (1, 0)))
    assert here.sum(below, raw=True)["below"] == there.sum(below, raw=True)["below"]
    here, there = (
        Table.open(frame.select(["a", "b"]).to_pandas().to_numpy(), device=device)
        for device in (None, "cpu")
    )
    rows = Rows(Columns(["x0", "x1"], norm=2.0))
    assert here.with_rows(rows).moments["gram"] == there.with_rows(rows).moments["gram"]


def test_what_cannot_be_moved_to_a_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="leave device out"):
        Table.open(strict.ones((3, 2)), device="cuda")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(ImportError, match="pip install torch"):
            Table.open(np.ones((3, 2)), device="cuda")


def test_what_torch_cannot_hold_says_so() -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="one of torch's on this machine, got 'gpu'"):
        Table.open(np.ones((3, 2)), device="gpu")
    rows = Rows(Columns(["x0", "x1"], norm=2.0))
    with pytest.raises(TypeError, match="leave device out"):
        Table.open(sparse.eye_array(2).tocsr(), device="cpu").with_rows(rows).sum(moments)
