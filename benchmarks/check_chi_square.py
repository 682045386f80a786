"""Ask GeneralizedChiSquare 10,000 random questions, edges included: answers, errors and times.

    python benchmarks/check_chi_square.py --n 10000

Every answer must be a number. Quantiles are put back into the tails; every 40th tail is compared
with the tests' oracle. Of each verb the slowest call may take 20 times the median; a slow
call is timed again, since other programs run too.
"""

import argparse
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import numpy as np

from chi_square_laws import VERBS, question, wrong_quantile, wrong_tail

COMPARED = 40
ALLOWED = 20.0


def timed(number: int) -> tuple[Any, float]:
    """The answer, and the processor time it took."""
    law, verb, x = question(number)
    started = time.process_time()
    answer = getattr(law, verb)(x)
    return answer, time.process_time() - started


def wrong(number: int, answer: float) -> bool:
    law, verb, x = question(number)
    if math.isnan(answer) or (verb not in ("ppf", "isf") and answer < 0):
        return True
    if verb in ("ppf", "isf"):
        return wrong_quantile(law, verb, x, answer)
    compare = number // len(VERBS) % COMPARED == 0 and math.isfinite(x)
    return verb != "pdf" and compare and wrong_tail(law, verb, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000)
    n = parser.parse_args().n
    times = np.zeros(n)
    failed = []
    for number in range(n):
        try:
            answer, times[number] = timed(number)
            if wrong(number, float(answer)):
                failed.append(number)
                print(number, *question(number), answer, flush=True)
        except ArithmeticError as fault:
            failed.append(number)
            print(number, *question(number), fault, flush=True)
    ratios = []
    for place, verb in enumerate(VERBS):
        mine = np.arange(place, n, len(VERBS))
        median = float(np.median(times[mine]))
        for number in mine[times[mine] > 8.0 * median]:
            times[number] = min(times[number], *(timed(int(number))[1] for _ in range(3)))
        ratios.append(float(times[mine].max()) / median)
        print(f"{verb:4s} median {1e3 * median:.2f} ms, slowest {ratios[-1]:.1f} times that")
    print(f"{n} questions, {len(failed)} without a right answer")
    if failed or max(ratios) > ALLOWED:
        sys.exit(1)


if __name__ == "__main__":
    main()
