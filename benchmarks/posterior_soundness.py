"""Do the posteriors keep their promise? Random data sets, all removals, exact delta.

``--calibrate FILE`` writes the noise that `ndis` promises for a grid of settings; ``--run FILE``
reads it, on any machine, and uses all its cores. Without options both are done.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))
from posterior_pairs import (
    linear_regression,
    linear_removals,
    logistic_removals,
    process_removals,
    worst_log_delta,
)

SETTINGS = 40
SETS = 250  # a setting: 10,000 of each model
ROWS = (20, 200)
CLIMBS, STEPS = 4, 500


def settings() -> list[dict]:
    """Forty settings of each model, with the noise that they promise to suffice."""
    from sklearn.gaussian_process.kernels import RBF

    from ndis import PrivateGaussianProcess, PrivateLogisticRegression

    rng, found = np.random.default_rng(0), []
    for i in range(SETTINGS):
        common = {
            "epsilon": float(rng.choice([0.1, 0.5, 1.0, 3.0, 10.0])),
            "delta": float(rng.choice([1e-2, 1e-4, 1e-6])),
        }
        n_draws = int(rng.choice([1, 1, 3]))
        lam, s2 = float(10 ** rng.uniform(-2, 1.5)), float(10 ** rng.uniform(-2, 1.5))
        d, scale = int(rng.integers(1, 6)), float(rng.choice([0.1, 0.3, 1.0]))
        points = rng.uniform(size=(int(rng.integers(1, 9)), 1)).tolist()
        models = {
            "logistic": PrivateLogisticRegression(
                **common, data_norm=1.0, prior_precision=lam, n_draws=n_draws, classes=[-1, 1],
                method="posterior", max_rows=ROWS[1] if i % 2 else None,
            ),
            "linear": linear_regression(
                **common, data_norm=1.0, label_bound=1.0, lam=lam, noise_variance=s2,
                max_rows=ROWS[1], n_draws=n_draws, n_features=d,
            ),
            "process": PrivateGaussianProcess(
                **common, limits=[(0.0, 1.0)], label_limits=(-1.0, 1.0), method="posterior",
                max_rows=ROWS[1], kernel=RBF(scale), noise_variance=s2, query_points=points,
                n_draws=n_draws,
            ),
        }  # fmt: skip
        found += [
            common
            | {
                "model": name,
                "noise": model.calibrate(1 if name == "process" else d),
                "n_draws": n_draws,
                "lam": lam,
            }
            | {"noise_variance": s2, "d": d, "scale": scale, "points": points, "seed": i}
            for name, model in models.items()
        ]
    return found


class Neighbourhood:
    """Data sets of one setting, and the worst of their removals."""

    def __init__(self, setting: dict) -> None:
        from sklearn.gaussian_process.kernels import RBF

        self.setting = setting
        self.rng = np.random.default_rng([setting["seed"], 17])
        self.kernel, self.points = RBF(setting["scale"]), np.asarray(setting["points"])

    def draw(self):
        """Inputs and labels in [-1, 1], from harmless to adversarial."""
        rng, s = self.rng, self.setting
        n = int(rng.integers(ROWS[0], ROWS[1] + 1))
        if s["model"] == "process":
            X = rng.uniform(size=(n, 1)) * rng.choice([0.05, 0.5, 1.0])
            weights = np.linalg.solve(
                self.kernel(X) + s["noise_variance"] * np.eye(n), self.kernel(X, X[:1])
            )[:, 0]
            hostile = np.where(weights >= 0, 1.0, -1.0)
        else:
            X = rng.standard_normal((n, s["d"])) * rng.choice([0.1, 1.0, 10.0])
            X /= np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
            if s["d"] > 1 and rng.uniform() < 0.3:  # a crowd that leans against the first record
                lean = 10 ** rng.uniform(-2, 0)
                X = np.zeros_like(X)
                X[:, 0], X[:, 1] = lean, np.sqrt(1 - lean**2) * (-1.0) ** np.arange(n)
                X[0] = np.eye(s["d"])[0]
            hostile = np.where(X @ X[0] >= 0, 1.0, -1.0)
        hostile[0] = -1.0
        return X, hostile if rng.uniform() < 0.5 else rng.choice([-1.0, 1.0], n)

    def worst(self, X, y) -> float:
        s = self.setting
        if s["model"] == "logistic":
            losses = logistic_removals(
                np.column_stack([np.ones(len(X)), X]), y, s["lam"], s["noise"]
            )
        elif s["model"] == "linear":
            losses = linear_removals(X, y, s["lam"], s["noise_variance"], s["noise"])
        else:
            losses = process_removals(
                X, y, self.points, self.kernel, s["noise_variance"], s["noise"]
            )
        return worst_log_delta(losses, s["epsilon"], s["n_draws"]) - math.log(s["delta"])

    def climb(self) -> float:
        """Change one record at a time, keep what is worse."""
        rng = self.rng
        X, y = self.draw()
        height = self.worst(X, y)
        for _ in range(STEPS):
            other, labels, i = X.copy(), y.copy(), int(rng.integers(len(X)) * rng.integers(2))
            if rng.uniform() < 0.3:
                labels[i] = -labels[i]
            else:
                other[i] += rng.standard_normal(X.shape[1]) * 10 ** rng.uniform(-2, 0)
                if self.setting["model"] != "process":
                    other[i] /= max(1.0, float(np.linalg.norm(other[i])))
            found = self.worst(other, labels)
            if found >= height:
                X, y, height = other, labels, found
        return height


def study(setting: dict) -> dict:
    here = Neighbourhood(setting)
    random = [here.worst(*here.draw()) for _ in range(setting.get("sets", SETS))]
    climbed = [here.climb() for _ in range(setting.get("climbs", CLIMBS))]
    return {"model": setting["model"], "random": max(random), "climbed": max(climbed)}


def run(found: list[dict]) -> None:
    results = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for result in pool.map(study, found):
            results[result["model"]].append(result)
    print("exact delta of the release over the promised one: the largest")
    for name, rows in results.items():
        random, climbed = (math.exp(max(row[key] for row in rows)) for key in ("random", "climbed"))
        sets = len(rows) * SETS
        print(
            f"  {name:9} {sets:,} random data sets of {ROWS[0]} to {ROWS[1]} rows, all removals: "
            f"{random:.3g}; {len(rows) * CLIMBS} searches of {STEPS} steps: {climbed:.3g}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrate", type=Path)
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args()
    if arguments.run is not None:
        run(json.loads(arguments.run.read_text()))
    elif arguments.calibrate is not None:
        arguments.calibrate.write_text(json.dumps(settings()))
    else:
        run(settings())
