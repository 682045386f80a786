"""Private least squares beside FastMix (arXiv 2605.30600), by its authors' own script.

    git clone https://github.com/omrilev1/FastMix
    python benchmarks/bench_fastmix.py FASTMIX TABLES [--repetitions 20] [--runs 20] [--workers 4]

FastMix is the clone, which needs matplotlib and tqdm; TABLES is the folder of `bench_regression`,
whose protocol the first table below follows, with its errors in parts of the OLS error. The second
table has the simulated designs of `bench_inference`: the error of coefficients over that of OLS, in
the population's metric, at epsilon 1 and delta 1e-6. There ours has the designs' public limits, and
FastMix rows and labels in units of the largest of the table itself, as in its authors' script: it
pays nothing for that.

Its script is a program around a few data sets, not a function. It is run as it is, line by line,
but for the values of its settings, the table, and the end: there it would plot. Its Walsh-Hadamard
transform is compiled for Windows only, so that the same transform by numpy stands in for it; the
script's other transform, the cosine, needs nothing. FastMix has a cell's best of all settings, two
transforms and six sizes of its inner sketch, by the errors shown, which favours it. It has no
intervals.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_inference import simulated
from bench_regression import EPSILONS, TIE, Split, data_sets

from ndis import PrivateLeastSquares

SCRIPT = "Private_Fast_Mixing_OLS.py"
# Methods of the script, and the coefficients that they leave.
METHODS = {"FastHessianMix": "theta_fast_IHM_T_iter", "FastLinearMix": "theta_fast_LinMix"}
TRANSFORMS, INNER = ("hadamard", "dct"), (None, 4.0, 100.0, 200.0, 400.0, 800.0)
LOST = (ValueError, np.linalg.LinAlgError)  # sketches longer than the table, singular systems


class _Done(Exception):
    """All coefficients are there."""


class Fits(NamedTuple):
    """What is fitted how often."""

    X: np.ndarray
    y: np.ndarray
    epsilon: float
    delta: float
    repetitions: int


def walsh_hadamard(x: Any) -> np.ndarray:
    """The orthonormal transform of columns, whose length is a power of two."""
    values = np.array(x, float)
    n, half = len(values), 1
    while half < n:
        parts = values.reshape(n // (2 * half), 2, half, -1)
        first, second = parts[:, 0].copy(), parts[:, 1].copy()
        parts[:, 0], parts[:, 1] = first + second, first - second
        half *= 2
    return np.asarray(values / np.sqrt(n))


class Settings(ast.NodeTransformer):
    """The script with other values where it assigns its settings."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        (target, *_) = node.targets
        if isinstance(target, ast.Name) and target.id in self.names:
            node.value = ast.parse(f"given[{target.id!r}]", mode="eval").body
        return ast.fix_missing_locations(node)


def coefficients(source: Path, fits: Fits, method: str, transform: str, inner: Any) -> np.ndarray:
    """One row for each repetition; empty where the script cannot do it."""
    import utils_fast_mixing

    given = {
        "datasets_run_list": ["given"],
        "methods_to_plot": [method],
        "epsilon_values": np.array([fits.epsilon]),
        "delta_DP": fits.delta,
        "iters": fits.repetitions,
        "transform": transform,
        "percentage_k_FastIHM_inner": [inner],
        "experiment_rng": np.random.default_rng(0),
    }
    found: list[np.ndarray] = []

    def table(_: str) -> tuple[Any, ...]:
        # Smallest and largest eigenvalues are overwritten by the script.
        return 1.0, fits.X, fits.y, 0.0, 0.0, 0.0, 0.0, *fits.X.shape, "given"

    def watched(repeated: Any) -> Iterator[Any]:
        for each in repeated:
            yield each
            if isinstance(repeated, range):  # of repetitions
                found.append(space[METHODS[method]].copy())
        raise _Done

    for name, value in (("GetDataset", table), ("tqdm", watched)):
        setattr(utils_fast_mixing, name, value)
    space: dict[str, Any] = {"__name__": "fastmix", "given": given}
    tree = Settings(given).visit(ast.parse((source / SCRIPT).read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder, chdir(folder), open(os.devnull, "w") as nothing:
        try:
            with redirect_stdout(nothing):
                exec(builtins.compile(tree, SCRIPT, "exec"), space)
        except _Done:
            return np.array(found)
        except LOST:
            return np.zeros((0, fits.X.shape[1]))
    raise RuntimeError("The script ended before its repetitions did.")


def settings() -> Iterator[tuple[str, str, Any]]:
    for transform in TRANSFORMS:
        yield from (("FastHessianMix", transform, inner) for inner in INNER)
        yield "FastLinearMix", transform, None


def best(source: Path, fits: Fits, error: Any) -> tuple[np.ndarray, str]:
    """The errors of the setting with the least mean."""
    least, name = np.full(1, np.inf), "none"
    for method, transform, inner in settings():
        found = coefficients(source, fits, method, transform, inner)
        errors = error(found) if len(found) else least
        if np.mean(errors) < np.mean(least):
            least, name = errors, f"{method}, {transform}, {inner or 'outer'}"
    return least, name


def prepare(source: Path) -> None:
    sys.path.insert(0, str(source))
    import utils_fast_mixing
    from utils.fastwht import hadamard

    hadamard.orthonormal_hadamard = walsh_hadamard
    utils_fast_mixing.orthonormal_hadamard = walsh_hadamard


def cell(source: Path, split: Split, epsilon: float, repetitions: int) -> tuple[float, ...]:
    """Errors over that of OLS: ours, FastMix's, and whether ours is no worse."""
    fits = Fits(split.X, split.y, epsilon, 1.0 / len(split.X) ** 2, repetitions)
    theirs, name = best(source, fits, split.errors)
    own, ols = split.ours(epsilon, repetitions), split.ols()
    spread = np.hypot(*(each.std() / np.sqrt(max(len(each) - 1, 1)) for each in (own, theirs)))
    no_worse = own.mean() - theirs.mean() <= max(2.0 * spread, TIE * ols)
    return own.mean() / ols, theirs.mean() / ols, no_worse, name


def design(source: Path, name: str, n: int, runs: int) -> tuple[float, ...]:
    """Errors of coefficients over those of OLS: ours, and FastMix's at its best setting."""
    _, draw, truth, metric, limits, labels = {each[0]: each for each in simulated()}[name]
    ols, own, rivals = 0.0, 0.0, dict.fromkeys(settings(), 0.0)
    for run in range(runs):
        X, y = draw(n, np.random.default_rng([run, n]))
        longest, largest = np.linalg.norm(X, axis=1).max(), np.abs(y).max()
        model = PrivateLeastSquares(
            epsilon=1.0, delta=1e-6, limits=limits, label_limits=labels, random_state=run
        ).fit(X, y)
        fits = Fits(X / longest, y / largest, 1.0, 1e-6, 1)
        away = [np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=None)[0], model.coef_]
        for each in rivals:
            found = coefficients(source, fits, *each)
            away.append(found[0] * largest / longest if len(found) else np.full(4, np.inf))
        errors = [(coef - truth) @ metric @ (coef - truth) for coef in away]
        ols, own = ols + errors[0], own + errors[1]
        rivals = {key: rivals[key] + e for key, e in zip(rivals, errors[2:], strict=True)}
    chosen = min(rivals, key=lambda key: rivals[key])
    label = f"{chosen[0]}, {chosen[1]}, {chosen[2] or 'outer'}"
    return np.sqrt(own / ols), np.sqrt(rivals[chosen] / ols), label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fastmix", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--runs", type=int, default=20, help="of the simulated designs")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    source = options.fastmix.resolve()
    prepare(source)
    with ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        designs = {
            (name, n): pool.submit(design, source, name, n, options.runs)
            for n in options.rows
            for name, *_ in simulated()
        }
        cells = {
            (split.name, *split.X.shape, epsilon): pool.submit(
                cell, source, split, float(epsilon), options.repetitions
            )
            for split in data_sets(options.tables)
            for epsilon in EPSILONS
        }
        print("| design | rows | ours | FastMix | its setting |")
        print("| --- " * 5 + "|")
        for (name, n), job in designs.items():
            own, theirs, setting = job.result()
            print(f"| {name} | {n:,} | {own:.2f} | {theirs:.2f} | {setting} |", flush=True)
        print("\n| set | n | d | epsilon | ours | FastMix | its setting |")
        print("| --- " * 7 + "|")
        ahead, behind = 0, []
        for (name, n, d, epsilon), job in cells.items():
            own, theirs, no_worse, setting = job.result()
            ahead += no_worse
            if not no_worse:
                behind.append(f"{name} at {epsilon:.2f} ({own - theirs:.1%})")
            figures = f"{own:.4f} | {theirs:.4f}"
            print(f"| {name} | {n} | {d} | {epsilon:.2f} | {figures} | {setting} |", flush=True)
    print(
        f"\nOf {len(cells)} cells, ours is at most FastMix in {ahead}, within two standard errors"
    )
    print(
        f"or {TIE:.2%} of the OLS error. Behind, by so much of it: {'; '.join(behind) or 'none'}."
    )


if __name__ == "__main__":
    main()
