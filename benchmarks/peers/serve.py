"""``python serve.py PEER < cells.json``: the value of each cell and its best processor time.

Runs in the peer's environment and answers in JSON; whatever the peer prints goes to stderr.
"""

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from adapters import PEERS, Cell, NotApplicable


def measure(delta: Callable[[Cell], float], cell: Cell, budget: float = 0.25) -> dict[str, Any]:
    """The answer, and the best of two or more repetitions, as many as fit into the budget."""
    try:
        value, best, spent, runs = None, float("inf"), 0.0, 0
        while spent < budget or runs < 2:  # the first one also pays for the peer's imports
            began = time.process_time()
            value = delta(cell)
            took = time.process_time() - began
            best, spent, runs = min(best, took), spent + took, runs + 1
        return {"value": value, "seconds": best}
    except NotApplicable:
        return {}
    except Exception as error:  # a peer's failure is a result of the benchmark
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    cells = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        results = {name: measure(PEERS[sys.argv[1]], cell) for name, cell in cells.items()}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
