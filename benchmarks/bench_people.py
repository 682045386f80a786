"""People with several rows: errors and coverage of a regression, beside what others do.

Simulated stays: a person has m rows, m geometric with mean 5; what the columns do not explain is
alike within a person (correlation 0.5), and so are the columns (correlation 0.5). The promise is
for a person with all their rows, by

    person      everybody counts once (`person=`)
    mean        one row for each person, the mean of theirs, and then a table of rows
    cap k       at most k rows of each person, chosen by chance, with k times the noise
    largest     all rows, with the noise times the most rows that anybody may have (declared: 60)

Printed is the root mean square error of the coefficients in units of their true size, and how often
intervals of 95% for the population cover them, as far as any are told.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares

COEF = np.array([1.0, -0.5, 0.25])
NAMES = ["a", "b", "c"]
LIMITS = dict.fromkeys(NAMES, (-3.0, 3.0)) | {"y": (-6.0, 6.0)}
MOST = 60
DELTA = 1e-6


def alike(rng: np.random.Generator, who: np.ndarray, size: int) -> np.ndarray:
    """Standard normal numbers, half of whose variance belongs to the person."""
    own = rng.standard_normal((who.max() + 1, size))[who]
    return np.sqrt(0.5) * (own + rng.standard_normal((len(who), size)))


def stays(rng: np.random.Generator, n_people: int) -> pd.DataFrame:
    m = np.minimum(rng.geometric(0.2, n_people), MOST)
    who = np.repeat(np.arange(n_people), m)
    X = alike(rng, who, len(COEF))
    return pd.DataFrame(X, columns=NAMES).assign(y=X @ COEF + alike(rng, who, 1)[:, 0], who=who)


def fitted(table: pd.DataFrame, epsilon: float, times: int = 1, **more: Any) -> Any:
    """A fit; with noise so many times that of a promise for one row, it is one for as many."""
    asked: dict[str, Any] = {"limits": LIMITS, "columns": [*NAMES, "y"], "delta": DELTA, **more}
    if times == 1:
        return PrivateLeastSquares(epsilon=epsilon, **asked).fit(table, "y")
    noise = PrivateLeastSquares(epsilon=epsilon, **asked).plan(label="y").noise_scale
    raised = {name: times * scale for name, scale in noise.items()}
    return PrivateLeastSquares(noise_scale=raised, **asked).fit(table, "y")


def capped(rng: np.random.Generator, table: pd.DataFrame, k: int) -> pd.DataFrame:
    mixed = table.iloc[rng.permutation(len(table))]
    return mixed[mixed.groupby("who").cumcount() < k]


def ways(rng: np.random.Generator, table: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    means = table.groupby("who").mean()
    return {
        "person": fitted(table, epsilon, person="who"),
        "mean": fitted(means, epsilon),
        "cap 1": fitted(capped(rng, table, 1), epsilon),
        "cap 5": fitted(capped(rng, table, 5), epsilon, 5),
        "largest": fitted(table, epsilon, MOST),
    }


def tied(own: list[float], other: list[float]) -> bool:
    """Whether squared errors of the same runs are not larger by more than two standard errors."""
    apart = np.subtract(own, other)
    return bool(apart.mean() <= 2.0 * apart.std() / np.sqrt(len(apart)))


def main(n_runs: int = 10, sizes: tuple[int, ...] = (1000, 5000, 20_000)) -> None:
    """Print a table."""
    print(f"{n_runs} runs each; error / coverage")
    best = cells = 0
    for n_people in sizes:
        for epsilon in (0.3, 1.0, 3.0):
            errors: dict[str, list[float]] = {}
            covers: dict[str, list[float]] = {}
            for run in range(n_runs):
                rng = np.random.default_rng([n_people, int(10 * epsilon), run])
                for name, model in ways(rng, stays(rng, n_people), epsilon).items():
                    away = float(np.mean((model.coef_ - COEF) ** 2 / np.mean(COEF**2)))
                    errors.setdefault(name, []).append(away)
                    found = model.intervals(0.95)
                    low, high = (np.ravel(end)[1:] for end in (found.lower, found.upper))
                    told = ~np.isnan(low)  # nothing is said of what noise hides
                    held = (low <= COEF) & (high >= COEF)
                    covers.setdefault(name, []).extend(held[told].tolist())
            rms = {name: np.sqrt(np.mean(each)) for name, each in errors.items()}
            cells += 1
            best += all(tied(errors["person"], each) for each in errors.values())
            shown = "  ".join(
                f"{name} {rms[name]:.3f} / {np.mean(covers[name]):.2f}" for name in rms
            )
            print(f"{n_people:6} people, epsilon {epsilon:3}: {shown}", flush=True)
    print(f"person= is best, or not worse by two standard errors, in {best} of {cells} cells")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:2]))
