"""All neighbours of a large table by removal, against one bare Gram matrix; and outside subjects.

Run: python benchmarks/bench_audit.py [rows]          (515,345 x 91 by default, as in the papers)
     python benchmarks/bench_audit.py --peers         (diffprivlib and autodp, own environments)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BENCH = HERE.parent / ".bench"
LIMIT = 60.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def neighbours(n_rows: int, n_columns: int = 91) -> None:
    from ndis import PrivateLeastSquares, PrivateProjection
    from ndis.auditing.verdict import Claim
    from ndis.auditing.whitebox import _Search

    rng = np.random.default_rng(0)
    table = rng.standard_normal((n_rows, n_columns))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    bare = min(seconds(lambda: table.T @ table) for _ in range(3))
    print(f"{n_rows} x {n_columns}: one bare Gram matrix {bare:.2f} s")
    claim = {"epsilon": 1.0, "delta": 1 / n_rows, "data_norm": 1.0, "n_components": 1315}
    projection = PrivateProjection(**claim)
    regression = PrivateLeastSquares(method="gaussian-limit", fit_intercept=False, **claim)
    projection.calibrate(), regression.calibrate(n_columns - 1)

    def weigh(losses: object, copies: int) -> None:
        search = _Search(Claim(1.0, 1 / n_rows), copies)
        search.consider_losses(copies * losses)  # type: ignore[operator]
        print(f"   worst ln delta {search.log_delta:.2f}", flush=True)

    for name, work in {
        "projection": lambda: weigh(projection.removal_losses(table), 1315),
        "least squares": lambda: weigh(regression.removal_losses(table[:, :-1], table[:, -1]), 1),
    }.items():
        took = seconds(work)
        verdict = "within" if took <= LIMIT * bare else "BEYOND"
        print(f"{name}: all {n_rows} removals {took:.1f} s, {took / bare:.1f} Gram matrices "
              f"({verdict} {LIMIT:.0f})", flush=True)  # fmt: skip


def peer(name: str, script: str) -> dict[str, float | str]:
    """Run a script in a peer's own environment, made from its pinned requirements."""
    folder = BENCH / name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", "-r"]
        subprocess.run([*pip, str(HERE / "peers" / f"{name}.txt")], check=True)
    done = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


DIFFPRIVLIB = """
import json, warnings
warnings.simplefilter("ignore")
from diffprivlib.mechanisms import GaussianAnalytic
result = {}
for exponent in (5, 10, 15, 16, 17, 20):
    delta = float(f"1e-{exponent}")
    try:
        mechanism = GaussianAnalytic(epsilon=1.0, delta=delta, sensitivity=1.0)
        result[f"1e-{exponent}"] = float(mechanism._scale)
    except Exception as error:
        result[f"1e-{exponent}"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
"""

REGRESSION = """
import json, warnings
warnings.simplefilter("ignore")
import numpy as np
from diffprivlib.models import LinearRegression
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (2000, 2)); y = X @ [1.0, -0.5]
def fit(X, y, seed):
    model = LinearRegression(epsilon=1.0, bounds_X=(-1, 1), bounds_y=(-2, 2), random_state=seed)
    return model.fit(X, y).coef_
draws = [fit(X, y, seed) for seed in range(200)]
print(json.dumps({"spread": float(np.std([d[0] for d in draws])), "epsilon": 1.0}))
"""

AUTODP = """
import json, warnings
warnings.simplefilter("ignore")
from autodp.mechanism_zoo import GaussianMechanism
from autodp.transformer_zoo import ComposeAFA
result = {}
for delta in (1e-5, 1e-8, 1e-10, 1e-12):
    mechanism = GaussianMechanism(1.0, phi_off=False)
    try:
        result[f"{delta:g}"] = float(ComposeAFA()([mechanism], [1]).get_approxDP(delta))
    except Exception as error:
        result[f"{delta:g}"] = f"{type(error).__name__}: {error}"
print(json.dumps(result))
"""


def peers() -> None:
    from ndis import QuadraticLoss
    from ndis.mechanisms.additive import noise_multiplier

    print("diffprivlib, analytic Gaussian, sensitivity 1, epsilon 1: its scale, ours, true delta")
    for claimed, scale in peer("diffprivlib", DIFFPRIVLIB).items():
        needed = noise_multiplier(1.0, float(claimed))
        if isinstance(scale, str):
            print(f"   {claimed}: {scale}; ours {needed:.4f}")
            continue
        true = QuadraticLoss.from_shift(1.0 / scale).log_delta_bounds(1.0)[0] / np.log(10)
        refuted = "REFUTED, proven" if true > np.log10(float(claimed)) + 1e-9 else "consistent"
        print(f"   {claimed}: {scale:.4f}, {needed:.4f}, delta >= 10^{true:.3f}: {refuted}")
    print("diffprivlib, linear regression:", peer("diffprivlib", REGRESSION))
    print("autodp, Gaussian sigma = 1 by phi functions: its epsilon, true delta there")
    for claimed, epsilon in peer("autodp", AUTODP).items():
        if isinstance(epsilon, str) or epsilon <= 0:
            print(f"   {claimed}: {epsilon}; no usable epsilon, no verdict")
            continue
        true = QuadraticLoss.from_shift(1.0).log_delta_bounds(epsilon)[0] / np.log(10)
        refuted = "REFUTED, proven" if true > np.log10(float(claimed)) + 1e-9 else "consistent"
        print(f"   {claimed}: {epsilon:.6f}, delta >= 10^{true:.4f}: {refuted}")


if __name__ == "__main__":
    if "--peers" in sys.argv:
        peers()
    else:
        neighbours(int(sys.argv[1]) if len(sys.argv) > 1 else 515_345)
