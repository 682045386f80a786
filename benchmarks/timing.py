"""How benchmarks take times."""

import time
from collections.abc import Callable


def best_times(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best processor time of each rival over rounds in which they take turns."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, job in rivals.items():
            began = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - began)
    return best
