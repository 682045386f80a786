"""How benchmarks take times and memory."""

import re
import time
from collections.abc import Callable
from pathlib import Path


def best_times(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best processor time of each rival over rounds in which they take turns."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, job in rivals.items():
            began = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - began)
    return best


def peak_memory(process: int | str = "self") -> float:
    """The most that a process has held, in MB.

    `ru_maxrss` will not do: a child starts with its parent's peak.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
