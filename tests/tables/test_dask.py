"""Partitions of Dask are summed where they are."""

import pytest

from processes import in_fresh_process


@pytest.mark.slow
def test_partitions_of_dask_are_summed_with_one_thread_each() -> None:
    pytest.importorskip("dask.array")
    program = """
from threadpoolctl import threadpool_info
import dask.array
import numpy as np
from ndis.tables import Columns, Rows, Table
def blas_threads():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
array = dask.array.ones((40, 2), chunks=(10, 2))
table = Table.open(array).with_rows(Rows(Columns(["a", "b"], norm=2.0)))
sums = table.sum(lambda block: {"threads": np.array(float(blas_threads())), "blocks": np.ones(1)})
print(int(sums["threads"].value), int(sums["blocks"].value[0]), blas_threads())
"""
    assert in_fresh_process(program, 2) == "4 4 2\n"
