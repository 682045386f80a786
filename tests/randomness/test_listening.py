"""Listeners answer in place of what draws: in their block, in their thread, and nowhere else."""

import threading

import numpy as np

from ndis.randomness import add_noise
from ndis.randomness.listening import listening


def noisy() -> list[float]:
    return list(add_noise(np.zeros(2), 3.0, np.random.default_rng(0)))


def test_a_listener_is_asked_with_all_that_was_said_and_may_draw_itself() -> None:
    heard = []

    def listener(draw, *args, **named):
        heard.append((draw.__name__, args[1]))
        return 2.0 * draw(*args, **named)

    alone = noisy()
    with listening(listener):
        doubled = noisy()
    assert heard == [("add_noise", 3.0)]
    assert doubled == [2.0 * each for each in alone]
    assert noisy() == alone


def test_the_inner_listener_answers_and_the_outer_one_comes_back() -> None:
    with listening(lambda *args: "outer"):
        with listening(lambda *args: "inner"):
            assert add_noise([0.0], 1.0, None) == "inner"
        assert add_noise([0.0], 1.0, None) == "outer"


def test_other_threads_are_not_listened_to() -> None:
    drawn: list[list[float]] = []
    with listening(lambda *args: [0.0, 0.0]):
        other = threading.Thread(target=lambda: drawn.append(noisy()))
        other.start()
        other.join()
        assert noisy() == [0.0, 0.0]
    assert drawn == [noisy()]
