"""The owner's file of a series."""

import multiprocessing
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis.mechanisms.continual_state import KeptPeriod, SeriesFile
from ndis.tables import ExactSum

SUMS = ExactSum(np.array([2**40, -3]), np.array([5, 6]), np.array([7, 8]))


def write(path: Path, period: int) -> None:
    with SeriesFile(path, first=period == 1) as book:
        book.keep(period, {"a": 1}, 4, KeptPeriod({"x": SUMS}, {"y": np.array([float(period)])}))


def test_what_is_kept_is_there_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, 1)
    write(path, 2)
    with SeriesFile(path, first=False) as book:
        (first,), second = book.before(2)
        assert first.sums["x"] == SUMS
        assert second is not None
        assert (first.drawn["y"], second.drawn["y"]) == (1.0, 2.0)
        assert (book.told, book.number, book.n_out) == ({"a": 1}, 4, 2)


def test_a_key_is_of_one_file_one_period_and_one_set_of_sums(tmp_path: Path) -> None:
    write(tmp_path / "one", 1)
    write(tmp_path / "other", 1)
    shutil.copy(tmp_path / "one", tmp_path / "copy")
    keys = {}
    more = ExactSum(SUMS.high, SUMS.low, np.array([7, 9]))
    for name in ("one", "other", "copy"):
        with SeriesFile(tmp_path / name, first=False) as book:
            for period, told, sums in (
                (2, {"a": 1}, {"x": SUMS}),
                (3, {"a": 1}, {"x": SUMS}),
                (2, {"a": 2}, {"x": SUMS}),
                (2, {"a": 1}, {"y": SUMS}),
                (2, {"a": 1}, {"x": more}),
            ):
                asked = period, str(told), *sums, *map(id, sums.values())
                keys[name, asked] = book.key_of(period, told, sums)
                assert len(keys[name, asked]) == 32
    assert len(set(keys.values())) == 10
    assert all(keys["copy", asked] == key for (name, asked), key in keys.items() if name == "one")


def test_nothing_is_left_of_what_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SeriesFile(tmp_path / "s", first=True):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "s", 1)
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(RuntimeError), SeriesFile(tmp_path / "s", first=False):
        raise RuntimeError
    assert (tmp_path / "s").read_bytes() == before


def test_an_empty_file_is_a_series_that_was_not_begun(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(ValueError, match="something else"):
        SeriesFile(tmp_path / "s", first=False).__enter__()
    write(tmp_path / "s", 1)


def _draw(path: Path, queue: Any) -> None:
    with SeriesFile(path, first=True) as book:
        _, again = book.before(1)
        if again is None:
            value = np.random.default_rng().normal(size=1)
            book.keep(1, {}, None, KeptPeriod({"x": SUMS}, {"y": value}))
            queue.put(("drawn", float(value[0])))
        else:
            queue.put(("again", float(again.drawn["y"][0])))


def test_two_programs_draw_a_period_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_draw, args=(tmp_path / "s", queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(kind for kind, _ in found) == ["again", "again", "again", "drawn"]
    assert len({value for _, value in found}) == 1
