import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ndis.tables import read_gram, row_leverages
from ndis.tables.threads import map_in_order


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_results_come_in_order_from_several_threads() -> None:
    def slow(item: int) -> tuple[int, str]:
        time.sleep(0.02 if item % 3 == 0 else 0.0)
        return item, threading.current_thread().name

    with threadpool_limits(3, user_api="blas"):
        results = list(map_in_order(slow, range(30)))
    assert [item for item, _ in results] == list(range(30))
    assert len({name for _, name in results}) > 1


def test_items_are_drawn_in_the_calling_thread_and_not_far_ahead() -> None:
    drawn: list[threading.Thread] = []

    def items() -> object:
        for item in range(100):
            drawn.append(threading.current_thread())
            yield item

    with threadpool_limits(3, user_api="blas"):
        results = map_in_order(abs, items())  # type: ignore[arg-type]
        next(results)
        assert len(drawn) <= 5
        list(results)
    assert set(drawn) == {threading.current_thread()}


def test_linear_algebra_has_one_thread_in_each_and_all_back_afterwards() -> None:
    with threadpool_limits(2, user_api="blas"):
        assert list(map_in_order(lambda item: blas_threads(), range(4))) == [1] * 4
        assert blas_threads() == 2


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_stops_the_work(n_threads: int) -> None:
    started = []

    def fail(item: int) -> int:
        started.append(item)
        if item == 2:
            raise ValueError("two")
        return item

    with threadpool_limits(n_threads, user_api="blas"):
        with pytest.raises(ValueError, match="two"):
            list(map_in_order(fail, range(1000)))
        assert len(started) < 20
        assert blas_threads() == n_threads


def test_several_threads_give_the_same_figures() -> None:
    table = np.random.default_rng(0).standard_normal((300_000, 5))
    results = []
    for n_threads in (1, 4):
        with threadpool_limits(n_threads, user_api="blas"):
            gram = read_gram(table, 2.0)
            results.append((gram.matrix, row_leverages(table, gram, 1.0)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
