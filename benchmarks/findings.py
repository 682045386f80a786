"""What we found in public code: each number of docs/findings.md, computed anew.

Run: python benchmarks/findings.py [NAME ...] [--source FOLDER]

Without a source the numbers follow from the constants that the code is quoted with. FOLDER holds
checkouts (`boostedadassp`, `google-research`): then their code is run, as it is, on two neighbours,
and audited by samples. Nothing of theirs is kept here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import math
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import laplace, norm

from ndis import QuadraticLoss, audit_samples
from ndis.auditing import audit_loss
from ndis.calibration import noise_multiplier

EPSILON, DELTA = 1.0, 1e-6


def boosted_adassp(source: Path | None) -> None:
    """amazon-science/boostedadassp: the noise is mu where it should be sqrt(T + 2)/mu."""
    rounds = 100
    mu = 1.0 / noise_multiplier(EPSILON, DELTA)
    needed = math.sqrt(rounds + 2.0) / mu
    composed = QuadraticLoss.from_shift(math.sqrt(rounds + 2.0) / mu)
    print(f"boostedadassp: noise {mu:.3f} per unit of sensitivity, needed {needed:.1f} for "
          f"({EPSILON:g}, {DELTA:g}) with T = {rounds}")  # fmt: skip
    print(f"   of its {rounds + 2} releases together delta(1) = {composed.delta(EPSILON):.6f}, "
          f"epsilon({DELTA:g}) = {composed.epsilon(DELTA):.0f}")  # fmt: skip
    if source is None:
        return
    module = _load(source / "boostedadassp", "BoostedAdaSSP")
    rows, labels = np.ones((20, 1)), np.r_[-1.0, np.ones(19)]

    def coefficient(kept: slice, rng: np.random.Generator) -> float:
        state = np.random.RandomState(rng.integers(2**31))
        model = module.BoostedAdaSSP(num_iterations=rounds, random_state=state)
        return float(model.fit(rows[kept], labels[kept]).ensemble_theta[0])

    verdict = audit_samples(coefficient, slice(0, 20), slice(1, 20), (EPSILON, DELTA))
    print(f"   run as it is on 20 rows, and without one: {verdict}")
    print(f"   {verdict.searched[0]}")


def kendall_boosted_adassp(source: Path | None) -> None:
    """google-research private_kendall: the first mu whose delta exceeds the claim."""
    mu = EPSILON**2 / (2.0 * math.log(1.25 / DELTA))
    while _gaussian_delta(mu) <= DELTA:
        mu *= 2.0
    first = next(m for m in np.linspace(mu / 2.0, mu, 1000) if _gaussian_delta(m) > DELTA)
    verdict = audit_loss(QuadraticLoss.from_shift(float(first)), (EPSILON, DELTA))
    print(f"private_kendall/boosted_adassp.py: mu = {first:.6f} where at most "
          f"{1.0 / noise_multiplier(EPSILON, DELTA):.6f} will do; {verdict}")  # fmt: skip
    if source is not None:
        module = _load(source / "google-research", "private_kendall.boosted_adassp")
        print(f"   their function returns {module.dp_to_gdp(EPSILON, DELTA):.6f}")


def _gaussian_delta(mu: float) -> float:
    left, right = norm.cdf(-EPSILON / mu + mu / 2), norm.cdf(-EPSILON / mu - mu / 2)
    return float(left - math.exp(EPSILON) * right)


def tukey(source: Path | None) -> None:
    """google-research dp_regression and private_kendall: Laplace scale epsilon/2 for 2/epsilon."""
    for epsilon in (0.5, 1.0, math.log(3.0), 2.0, 4.0):
        half = epsilon / 2.0
        threshold = math.log(1.0 / (2.0 * DELTA)) / half
        # Whether the check passes, on two neighbours whose distances are k and k + 1.
        passes = laplace.sf(threshold - np.arange(math.ceil(threshold) + 40), scale=half)
        factor = math.exp(epsilon)
        up = np.max(passes[1:] - factor * passes[:-1])
        down = np.max((1 - passes[:-1]) - factor * (1 - passes[1:]))
        print(f"tukey.py, epsilon {epsilon:.3f}: scale {half:.3f} for {1 / half:.3f}; the check "
              f"alone is {1 / half:.2f}-private (allowed {half:.2f}), its delta at epsilon "
              f"{max(up, down, 0.0):.2g}; passes at distance 0 with {passes[0]:.2g} "
              f"(allowed {DELTA:g})")  # fmt: skip
    if source is None:
        return
    tables = {k: np.r_[np.zeros(k), np.ones(400 - k)][:, None] for k in range(150, 200)}
    for package, run, check in (
        ("dp_regression", "dp_tukey", "distance_to_unsafety"),
        ("private_kendall", "tukey", "new_distance_to_unsafety"),
    ):
        module = _load(source / "google-research", f"{package}.tukey")
        distances = {}
        for left, models in tables.items():
            sorted_models = module.perturb_and_sort_matrix(models.T)
            volumes = module.log_measure_geq_all_depths(sorted_models)
            distances[left] = getattr(module, check)(volumes, EPSILON / 2, DELTA, 100, -1, 99)
        left = next(k for k in distances if distances[k] == 26 and distances[k + 1] == 27)
        verdict = audit_samples(
            partial(_passed, getattr(module, run)), tables[left], tables[left + 1],
            (EPSILON, DELTA),
        )  # fmt: skip
        print(f"   {package} run as it is on 400 models, {left} or {left + 1} of them 0 and the "
              f"others 1 (distances 26 and 27): {verdict}")  # fmt: skip
        print(f"   {verdict.searched[0]}")


def _passed(run: Any, models: Any, rng: np.random.Generator) -> float:
    """Whether the check of their mechanism passed."""
    np.random.seed(rng.integers(2**31))  # noqa: NPY002
    with contextlib.redirect_stdout(io.StringIO()):
        answer = run(models, EPSILON, DELTA)
    return float(not isinstance(answer, str) and bool(np.any(answer)))


def gradient_descent(source: Path | None) -> None:
    """gavinrbrown1/DPGD-for-regression: variance T log(1/delta)/epsilon^2 per unit of clipping."""
    shift = EPSILON / math.sqrt(math.log(1.0 / DELTA))
    for relation, factor in (("add or remove one row", 1.0), ("replace one row", 2.0)):
        loss = QuadraticLoss.from_shift(factor * shift)
        print(f"DPGD-for-regression, {relation}: delta(1) = {loss.delta(EPSILON):.3g}, "
              f"epsilon({DELTA:g}) = {loss.epsilon(DELTA):.3f} for {EPSILON:g}")  # fmt: skip


def diffprivlib(source: Path | None) -> None:
    """diffprivlib 0.6.6, issue 104: budgets, by what each step of the code spends."""
    for features in (1, 2, 5, 10):
        spent = 1.0 + 1.0 / (features + 1.0)
        print(f"diffprivlib LinearRegression with an intercept, {features} features: spends "
              f"{spent:.3f} epsilon (two means for the price of one)")  # fmt: skip
    for columns in (1, 2, 4, 5, 10, 100):
        count = (4.0 * columns * 0.225**2) ** (1.0 / 3.0)
        spent = (1.0 + columns * count) / (columns + count)
        print(f"diffprivlib KMeans, {columns} columns: spends {spent:.3f} epsilon "
              "(the parts of counts and sums are exchanged)")  # fmt: skip


def _load(folder: Path, name: str) -> Any:
    sys.path.insert(0, str(folder))
    return importlib.import_module(name)


FINDINGS = (boosted_adassp, kendall_boosted_adassp, tukey, gradient_descent, diffprivlib)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--source", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for finding in FINDINGS:
        if not chosen.names or finding.__name__ in chosen.names:
            finding(chosen.source)


if __name__ == "__main__":
    main()
