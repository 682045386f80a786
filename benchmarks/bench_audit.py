"""All neighbours of a large table by removal, against one bare Gram matrix; and outside subjects.

Run: python benchmarks/bench_audit.py [rows]          (515,345 x 91 by default, as in the papers)
     python benchmarks/bench_audit.py --peers         (diffprivlib and autodp, own environments)
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from ndis import PrivateLeastSquares, PrivateProjection, QuadraticLoss, audit_samples
from ndis.auditing import audit_loss
from ndis.auditing.neighbours import _log_delta_bound
from ndis.calibration import noise_multiplier

HERE = Path(__file__).parent
BENCH = HERE.parent / ".bench"
LIMIT = 60.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def neighbours(n_rows: int, n_columns: int = 91) -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((n_rows, n_columns))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    bare = min(seconds(lambda: table.T @ table) for _ in range(3))
    print(f"{n_rows} x {n_columns}: one bare Gram matrix {bare:.2f} s")
    claim = {"epsilon": 1.0, "delta": 1 / n_rows, "data_norm": 1.0, "n_components": 1315}
    projection = PrivateProjection(**claim)
    regression = PrivateLeastSquares(method="gaussian-limit", fit_intercept=False, **claim)
    projection.calibrate(), regression.calibrate(n_columns - 1)

    def rank(losses: Any) -> None:
        worst = max(_log_delta_bound(way, 1.0).max() for way in (losses, losses.reversed()))
        print(f"   worst bound on ln delta {worst:.2f}", flush=True)

    for name, work in {
        "projection, removals": lambda: rank(1315 * projection.removal_losses(table)),
        "least squares, removals": lambda: rank(
            regression.removal_losses(table[:, :-1], table[:, -1])
        ),
    }.items():
        took = seconds(work)
        verdict = "within" if took <= LIMIT * bare else "BEYOND"
        print(f"{name}: {took:.1f} s, {took / bare:.1f} Gram matrices ({verdict} {LIMIT:.0f})",
              flush=True)  # fmt: skip


def peer(name: str, subject: str) -> dict[str, Any]:
    """What peers/subjects.py says in a peer's own environment, made from pinned requirements."""
    folder = BENCH / name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", "-r"]
        subprocess.run([*pip, str(HERE / "peers" / f"{name}.txt")], check=True)
    command = [str(python), str(HERE / "peers" / "subjects.py"), subject]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def judged(shift: float, epsilon: float, claimed: float) -> str:
    """A claim for a mean shift, judged by its proven delta."""
    verdict = audit_loss(QuadraticLoss.from_shift(shift), (epsilon, claimed))
    excess = math.expm1(verdict.log_lower_bound - math.log(claimed))
    bound = f"delta >= 10^{verdict.log_lower_bound / math.log(10):.3f}"
    if not verdict.refuted:
        return f"{bound}: consistent"
    return f"{bound}: REFUTED, proven, by a factor of 1 + {excess:.1g}"


def analytic_gaussian() -> None:
    print("diffprivlib, analytic Gaussian, sensitivity 1, epsilon 1: its scale, ours, true delta")
    for claimed, scale in peer("diffprivlib", "analytic_gaussian").items():
        needed = noise_multiplier(1.0, float(claimed))
        if isinstance(scale, str):
            print(f"   {claimed}: {scale}; ours {needed:.4f}")
            continue
        print(f"   {claimed}: {scale:.4f}, {needed:.4f}, {judged(1 / scale, 1.0, float(claimed))}")


def linear_regression() -> None:
    print("diffprivlib, linear regression, epsilon 1 claimed: one of ten rows replaced, by samples")
    for options, tables in peer("diffprivlib", "linear_regression").items():
        outputs = {name: iter(rows) for name, rows in tables.items()}
        verdict = audit_samples(
            lambda name, _, outputs=outputs: next(outputs[name]), "first", "second", (1.0, 0.0),
            n_samples=len(tables["first"]), confidence=0.999,
            classifier=HistGradientBoostingClassifier(random_state=0),
        )  # fmt: skip
        print(f"   {options}: {verdict.outcome}, delta >= {verdict.lower_bound:.3f} "
              f"(estimate {verdict.delta:.3f})", flush=True)  # fmt: skip


def fourier_accountant() -> None:
    exact = QuadraticLoss.from_shift(1.0)
    for environment in ("autodp", "autodp-scipy-1.9"):
        found = peer(environment, "fourier_accountant")
        print(f"autodp, one Gaussian with sigma 1 by phi functions, scipy {found['scipy']}")
        for claimed, epsilon in found["epsilon"].items():
            true = float(exact.epsilon(float(claimed)))
            if isinstance(epsilon, str) or epsilon < 0:
                print(f"   get_approxDP({claimed}) = {epsilon}; exact {true:.6f}")
                continue
            verdict = judged(1.0, epsilon, float(claimed))
            print(f"   get_approxDP({claimed}) = {epsilon:.6f}; exact {true:.6f}; {verdict}")
        for epsilon, delta in found["delta"].items():
            true = float(exact.delta(float(epsilon)))
            error = f"{delta - true:+.1e}" if isinstance(delta, float) else ""
            print(f"   approx_delta({epsilon}) = {delta}; exact {true:.6g} {error}")


if __name__ == "__main__":
    if "--peers" in sys.argv:
        analytic_gaussian()
        linear_regression()
        fourier_accountant()
    else:
        neighbours(int(sys.argv[1]) if len(sys.argv) > 1 else 515_345)
