"""Private least squares beside its published competitors: test error over OLS.

Protocol of the HessianMix suite: 80/20 split, features standardised, rows scaled to largest norm 1
and labels to largest absolute value 1 (on the training part), no intercept, delta = 1/n^2,
epsilon = logspace(-1, 1, 6), mean test error over repetitions of the mechanism.

    python benchmarks/bench_regression.py DIRECTORY [--repetitions 4] [--results DIRECTORY]

The first directory holds CSV files (also gzipped), the last column being the label. Competitors are
those of peers/least_squares.py. Others, with their own code or packages, can be run elsewhere: an
array of test errors of shape (6, repetitions) in RESULTS/NAME/SET.npy is compared too. They do not
change with our code: `--beside RECORD` takes the best of them from an earlier output.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares
from ndis.calibration import noise_multiplier

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from least_squares import CONTENDERS

EPSILONS = np.logspace(-1, 1, 6)
# A smaller share of the OLS error is no difference.
TIE = 5e-4


@dataclass(frozen=True)
class Split:
    """Training and test rows, scaled; and what OLS makes of them."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, name: str, table: np.ndarray) -> Split:
        rows = table[np.random.default_rng(0).permutation(len(table))]
        n = int(0.8 * len(rows))
        X, y = rows[:, :-1], rows[:, -1]
        spread = X[:n].std(axis=0)
        X = (X - X[:n].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        X = X / np.linalg.norm(X[:n], axis=1).max()
        y = y / np.abs(y[:n]).max()
        return cls(name, X[:n], y[:n], X[n:], y[n:])

    def errors(self, coefs: np.ndarray) -> np.ndarray:
        return np.mean((self.y_test - np.atleast_2d(coefs) @ self.X_test.T) ** 2, axis=1)

    def ols(self) -> float:
        # Collinear columns (elevators) would make its test error a matter of rounding.
        return float(self.errors(np.linalg.lstsq(self.X, self.y, rcond=1e-5)[0])[0])

    def ours(self, epsilon: float, n: int) -> np.ndarray:
        model = PrivateLeastSquares(
            epsilon=epsilon,
            delta=1.0 / len(self.X) ** 2,
            data_norm=1.0,
            label_bound=1.0,
            fit_intercept=False,
        )
        seeds = (model.set_params(random_state=seed) for seed in range(n))
        return self.errors(np.array([seeded.fit(self.X, self.y).coef_ for seeded in seeds]))

    def theirs(self, name: str, epsilon: float, n: int) -> np.ndarray:
        delta = 1.0 / len(self.X) ** 2
        mu, rng = 1.0 / noise_multiplier(epsilon, delta), np.random.default_rng(1)
        return self.errors(CONTENDERS[name](self.X, self.y, mu, delta, rng, n))


def data_sets(directory: Path) -> Iterator[Split]:
    for path in sorted([*directory.glob("*.csv"), *directory.glob("*.csv.gz")]):
        table = pd.read_csv(path).select_dtypes("number").dropna().to_numpy(float)
        yield Split.of(path.name.partition(".")[0], table)


def competitors(split: Split, results: Path | None, n: int) -> dict[str, np.ndarray]:
    """Test errors by competitor, one row for each epsilon; what aborts has lost."""
    if results is None:
        return {
            name: np.array([split.theirs(name, float(epsilon), n) for epsilon in EPSILONS])
            for name in CONTENDERS
        }
    paths = sorted(results.glob(f"*/{split.name}.npy"))
    return {path.parent.name: np.load(path) for path in paths}


def recorded(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """By set and name, what an earlier output says of the best competitor at each epsilon.

    Its spread over runs is not told, so that only ours counts where means are compared.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[6].endswith("%"):
            name, epsilon, best = cells[0], float(cells[3]), cells[7]
            errors = found.setdefault(name, {}).setdefault(
                best, np.full((len(EPSILONS), 1), np.nan)
            )
            k = int(np.argmin(np.abs(EPSILONS - epsilon)))
            errors[k] = 1.0 + float(cells[6].rstrip("%")) / 100
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--results", type=Path, help="test errors of competitors, run elsewhere")
    parser.add_argument("--beside", type=Path, help="an earlier output, for its best competitors")
    options = parser.parse_args()
    n, record = options.repetitions, recorded(options.beside) if options.beside else None
    cells = close = reached = public = 0
    behind: list[str] = []
    print("| set | n | d | epsilon | OLS | ours | best competitor | its name |")
    print("| --- " * 8 + "|")
    for split in data_sets(options.directory):
        ols = split.ols()
        if record is None:
            rivals = competitors(split, options.results, max(n, 20))
        else:
            rivals = {name: ols * each for name, each in record[split.name].items()}
        for k, epsilon in enumerate(EPSILONS):
            ours = split.ours(float(epsilon), n)
            mean, error = float(ours.mean()), float(ours.std()) / math.sqrt(max(n - 1, 1))
            found = {
                name: (float(e[k].mean()), float(e[k].std()) / math.sqrt(e.shape[1]))
                for name, e in rivals.items()
                if np.all(np.isfinite(e[k]))
            }
            best = min(found, key=lambda name: found[name][0])
            lost = [
                (mean - other) / ols
                for other, spread in found.values()
                if mean - other > max(2.0 * math.hypot(error, spread), TIE * ols)
            ]
            cells += 1
            # Who is better than OLS itself is better by luck of the test rows, or by a fit of less.
            reached += not any(
                mean - max(other, ols) > max(2.0 * math.hypot(error, spread), TIE * ols)
                for other, spread in found.values()
            )
            close += mean - found[best][0] <= 0.05 * ols
            public += not any(
                ols - other > max(2.0 * spread, TIE * ols) for other, spread in found.values()
            )
            if lost:
                behind.append(f"{split.name} at {epsilon:.2f} ({max(lost):.1%})")
            excess = (f"{100 * (value / ols - 1):.2f}%" for value in (mean, found[best][0]))
            where = [split.name, *split.X.shape, f"{epsilon:.2f}", f"{ols:.3g}", *excess, best]
            print(f"| {' | '.join(map(str, where))} |", flush=True)
    print(
        f"\nOf {cells} cells, ours is at most every competitor (within two standard errors or "
        f"{TIE:.2%} of the OLS error, {n} runs) in {cells - len(behind)} "
        f"({1 - len(behind) / cells:.0%}), and at most 5% of the OLS error above the best of "
        f"them in {close}. At most every competitor or OLS itself, whichever is larger, in "
        f"{reached} ({reached / cells:.0%}). Least squares without privacy would be at most every "
        f"competitor in {public} ({public / cells:.0%})."
    )
    if behind:
        print(f"Behind, by so much of the OLS error: {'; '.join(behind)}.")


if __name__ == "__main__":
    main()
