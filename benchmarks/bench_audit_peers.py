"""Pairs of outputs until a false claim is refuted at 99 % confidence, by us and by others.

Run: python benchmarks/bench_audit_peers.py                   (ours, on the list of 30)
     python benchmarks/bench_audit_peers.py --sound 1000      (sound twins: how often refuted?)
     python benchmarks/bench_audit_peers.py --peers FOLDER    (others too; see below)

FOLDER holds, for dp-auditorium and DP-Sniper, an environment (`dpaud`, `snip`) and a checkout of
their code under `src`. They run as their authors wrote them, with their authors' defaults, on
outputs that we draw; `peers/auditors.py` makes the calls. The packages from 2022 that
Delta-Siege wants were not set up, and so its witness for one claim is our implementation.

Ours stops by itself. A test of fixed size is given the least number of pairs, of 200, 400, ...,
25,600, at which it refutes: nobody would know that number beforehand, so this favours the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from broken_mechanisms import CASES, Case
from peers.auditors import RISK, least
from scipy.stats import beta, binom
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ndis.auditing import audit_one_run, sampled_curve
from ndis.auditing.sequential import SequentialTest

HERE = Path(__file__).parent
MOST = 25_600
SOURCES = {
    "hockey_stick": ("dpaud", "google+differential-privacy/python/dp_auditorium"),
    "histogram": ("dpaud", "google+differential-privacy/python/dp_auditorium"),
    "sniper": ("snip", "eth-sri+dp-sniper"),
}


def sequential(case: Case, seed: int, sound: bool = False, most: int = MOST) -> int:
    """Pairs until our sequential test refutes; 0 if it does not."""
    first, second = case.draws(sound, most, np.random.default_rng(seed))
    test = SequentialTest(case.epsilon, case.delta, RISK)
    test.run(first, second)
    return test.n_pairs if test.refuted else 0


def fixed_size(case: Case) -> Callable[[int], bool]:
    """Our test of a fixed size."""
    first, second = case.draws(False, MOST, np.random.default_rng(0))

    def refutes(n: int) -> bool:
        curve = sampled_curve(first[:n], second[:n], case.epsilon, confidence=1.0 - RISK)
        return bool(curve.lower[0] > case.delta)

    return refutes


def one_run(case: Case) -> Callable[[int], bool]:
    """Canaries: a coin shows one output of each pair; a score learned from half of them."""
    rng = np.random.default_rng(0)
    outputs = np.stack(case.draws(False, MOST, rng))
    coins = rng.random(MOST) < 0.5
    shown = np.where(coins[:, None], outputs[0], outputs[1])

    def refutes(n: int) -> bool:
        half = n // 2
        model = make_pipeline(StandardScaler(), LogisticRegression())
        seen = np.concatenate([outputs[0, :half], outputs[1, :half]])
        model.fit(seen, np.repeat([1, 0], half))
        scores = model.decision_function(shown[half:n])
        claim = (case.epsilon, case.delta)
        return audit_one_run(scores, coins[half:n], claim, confidence=1.0 - RISK).refuted

    return refutes


def siege(case: Case) -> Callable[[int], bool]:
    """Our implementation of Delta-Siege's witness for one claim.

    A logistic regression learns from a quarter of the pairs; a quarter chooses the threshold with
    the best confident difference, in each direction; a quarter compares the two, and a quarter
    measures the better one (Clopper and Pearson). Other (epsilon, delta) of the same mechanism,
    among which Delta-Siege looks for the best, are not claimed here.
    """
    first, second = case.draws(False, MOST, np.random.default_rng(0))
    factor = np.exp(case.epsilon)

    def gap(p: float, q: float, n: int, risk: float) -> float:
        low = beta.ppf(risk / 2, p, n - p + 1) if p else 0.0
        high = beta.isf(risk / 2, q + 1, n - q) if q < n else 1.0
        return float(low - factor * high)

    def refutes(n: int) -> bool:
        n //= 4
        parts = [[law[k * n : (k + 1) * n] for law in (first, second)] for k in range(4)]
        model = make_pipeline(StandardScaler(), LogisticRegression())
        model.fit(np.concatenate(parts[0]), np.repeat([1, 0], n))
        scores = [[model.decision_function(law) for law in part] for part in parts]
        witnesses = []
        for sign, order in ((1.0, (0, 1)), (-1.0, (1, 0))):
            counts = [[sign * part[k] for k in order] for part in scores]
            levels = np.quantile(np.concatenate(counts[1]), np.linspace(0.0, 0.999, 100))
            hits = [[[int((law >= level).sum()) for law in part] for level in levels]
                    for part in counts[1:]]  # fmt: skip
            best = max(range(100), key=lambda k, hits=hits: gap(*hits[0][k], n, 0.1))
            witnesses.append((gap(*hits[1][best], n, 0.1), gap(*hits[2][best], n, RISK)))
        return max(witnesses)[1] > case.delta

    return refutes


OWN = {"fixed size": fixed_size, "one run": one_run, "Delta-Siege": siege}


def others(folder: Path) -> dict[str, list[int]]:
    """What each outside auditor needs, in its own environment."""
    found = {}
    with TemporaryDirectory() as samples:
        for number, case in enumerate(CASES):
            first, second = case.draws(False, MOST, np.random.default_rng(0))
            facts = {"epsilon": case.epsilon, "delta": case.delta, "low_bits": case.low_bits}
            np.savez(Path(samples) / f"{number:02d}.npz", first=first, second=second, **facts)
        for name, (environment, source) in SOURCES.items():
            command = [str(folder / environment / "bin" / "python"),
                       str(HERE / "peers" / "auditors.py"),
                       name, str(folder / "src" / source), samples]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            found[name] = [row["pairs"] for row in rows]
            print(name, found[name], file=sys.stderr, flush=True)
    return found


def show(needed: dict[str, list[int]]) -> None:
    names = list(needed)
    print("| | mechanism | " + " | ".join(names) + " |")
    print("| --- | --- | " + " | ".join("---:" for _ in names) + " |")
    for number, case in enumerate(CASES):
        cells = [f"{needed[name][number]:,}" if needed[name][number] else "-" for name in names]
        half = "held out" if number % 2 else "open"
        print(f"| {half} | {case.name} | " + " | ".join(cells) + " |")
    halves = {"open": slice(0, None, 2), "held out": slice(1, None, 2), "all": slice(None)}
    for half, part in halves.items():
        medians = [np.median([n or np.inf for n in needed[name][part]]) for name in names]
        cells = [f"{value:,.0f}" if np.isfinite(value) else "-" for value in medians]
        print(f"| | median, {half} | " + " | ".join(cells) + " |")


def twins(runs: int, most: int) -> None:
    """Sound twins, one after the other: how many of the runs refute the true claim."""
    refuted = [bool(sequential(CASES[k % 30], 10_000 + k, sound=True, most=most))
               for k in range(runs)]  # fmt: skip
    allowed = int(binom.ppf(0.999, runs, RISK))
    print(f"sound twins: {sum(refuted)} of {runs} runs of up to {most} pairs refuted; "
          f"allowed {allowed} (99.9 % quantile at {RISK:g})")  # fmt: skip
    assert sum(refuted) <= allowed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--sound", type=int)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{date.today()}, {' '.join(sys.argv[1:])}")
    if chosen.sound:
        twins(chosen.sound, 100)
        return
    needed = {}
    needed["sequential"] = [
        int(np.median([sequential(case, seed) or 10**9 for seed in range(chosen.seeds)]))
        for case in CASES
    ]
    needed["sequential"] = [n if n < 10**9 else 0 for n in needed["sequential"]]
    for name, test in OWN.items():
        needed[name] = [least(test(case), MOST) for case in CASES]
    if chosen.peers:
        needed |= others(chosen.peers)
    show(needed)


if __name__ == "__main__":
    main()
