import threading
import time
from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_info

from ndis.tables.threads import map_in_order
from processes import in_fresh_process


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_results_come_in_order_from_several_threads() -> None:
    def slow(item: int) -> tuple[int, str]:
        time.sleep(0.02 if item % 3 == 0 else 0.0)
        return item, threading.current_thread().name

    results = list(map_in_order(slow, range(30), n_threads=3))
    assert [item for item, _ in results] == list(range(30))
    assert len({name for _, name in results}) > 1


def test_items_are_drawn_in_the_calling_thread_and_not_far_ahead() -> None:
    drawn: list[threading.Thread] = []

    def items() -> Iterator[int]:
        for item in range(100):
            drawn.append(threading.current_thread())
            yield item

    results = map_in_order(abs, items(), n_threads=3)
    next(results)
    assert len(drawn) <= 5
    list(results)
    assert set(drawn) == {threading.current_thread()}


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_stops_the_work(n_threads: int) -> None:
    started = []

    def fail(item: int) -> int:
        started.append(item)
        if item == 2:
            raise ValueError("two")
        return item

    before = blas_threads()
    with pytest.raises(ValueError, match="two"):
        list(map_in_order(fail, range(1000), n_threads))
    assert len(started) < 20
    assert blas_threads() == before


@pytest.mark.slow
def test_linear_algebra_has_one_thread_in_each_and_all_back_afterwards() -> None:
    program = """
from threadpoolctl import threadpool_info
from ndis.tables.threads import map_in_order
import threading
def blas_threads():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
def look(item):
    return blas_threads(), threading.current_thread() is threading.main_thread()
print(list(map_in_order(look, range(2))), blas_threads())
"""
    assert in_fresh_process(program, 2) == "[(1, False), (1, False)] 2\n"
    assert in_fresh_process(program, 1) == "[(1, True), (1, True)] 1\n"


@pytest.mark.slow
def test_several_threads_give_the_same_figures() -> None:
    program = """
import hashlib
import numpy as np
from ndis.tables import Columns, Rows, Table
table = np.random.default_rng(0).standard_normal((300_000, 5))
recipe = Rows(Columns(list("abcde"), norm=2.0))
gram = Table.open(table).with_rows(recipe).moments["gram"]
print(hashlib.sha256(gram.high.tobytes() + gram.low.tobytes()).hexdigest())
"""
    assert in_fresh_process(program, 1) == in_fresh_process(program, 2)
