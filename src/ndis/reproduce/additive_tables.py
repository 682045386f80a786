"""Tables of the additive mechanisms: what each published calibration really gives, and its price.

`classic` is figure 7 of the paper of 2024, `matrix_variate` the noise of the published condition
against the exact one, `rank_one` the true delta of R1SMG's claims, `accuracy` theorems 4 and 7 to
9 of the rank-one paper.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ndis import plots
from ndis.mechanisms.additive import (
    AdditiveMechanism,
    GaussianMechanism,
    MatrixGaussianMechanism,
    noise_multiplier,
)
from ndis.mechanisms.rank_one import RankOneGaussianMechanism, true_spread
from ndis.reproduce._output import Row, save, write_rows
from ndis.tables import track

# Dimension, claimed (epsilon, delta) and sensitivity of the claims that are looked at.
CLAIMS = (
    (3, 0.33, 1e-5, 1.0),
    (4, 0.2475, 1e-5, 1.0),
    (10, 0.05, 1e-5, 1.0),
    (100, 1e-3, 1e-5, 1.0),
    (7921, 1e-5, 1e-7, math.sqrt(2.0)),
    (5_760_000, 1.6e-7, 1e-7, 0.14132),
)
SHAPES = ((10, 10), (30, 30), (89, 89), (300, 300), (1000, 1000), (2400, 2400))


def classic() -> list[Row]:
    """The classic mechanism's true delta, and how much noise it adds beyond the least."""
    rows: list[Row] = []
    for delta in (1e-5, 1e-6):
        for epsilon in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
            mechanism = GaussianMechanism(epsilon, delta, 1.0, calibration="classic")
            loss = mechanism.guarantee().loss
            assert loss is not None
            least = noise_multiplier(epsilon, delta)
            rows.append(
                {
                    "epsilon": epsilon,
                    "delta": delta,
                    "true_delta": float(loss.delta(epsilon)),
                    "sigma": mechanism.calibrate(),
                    "least_sigma": least,
                    "saved": 1.0 - least / mechanism.calibrate(),
                }
            )
    return rows


def matrix_variate() -> list[Row]:
    """Noise of the published conditions over the exact noise, by shape."""
    rows: list[Row] = []
    for shape in SHAPES:
        exact = MatrixGaussianMechanism(1.0, 1e-5, 1.0)
        published = MatrixGaussianMechanism(
            1.0, 1e-5, 1.0, calibration="published", norm_bound=float(max(shape))
        )
        sketched = MatrixGaussianMechanism(1.0, 1e-5, 1.0, calibration="appendix-c")
        least = exact.calibrate(shape)
        rows.append(
            {
                "shape": list(shape),
                "exact": least,
                "published": published.calibrate(shape),
                "published_over_exact": published.calibrate(shape) / least,
                "appendix_c_over_exact": sketched.calibrate(shape) / least,
            }
        )
    return rows


def rank_one(quick: bool = False) -> list[Row]:
    """The true delta of R1SMG's claims, and what the analytic mechanism loses at that delta."""
    rows: list[Row] = []
    for dimension, epsilon, delta, sensitivity in track(CLAIMS, "Refuting", len(CLAIMS)):
        mechanism = RankOneGaussianMechanism(epsilon, delta, sensitivity)
        low, high = mechanism.loss((dimension,)).delta_bounds(epsilon)
        honest = GaussianMechanism(epsilon, float(low), sensitivity)
        row: Row = {
            "dimension": dimension,
            "epsilon": epsilon,
            "claimed_delta": delta,
            "true_delta_low": float(low),
            "true_delta_high": float(high),
            "basis": mechanism.guarantee((dimension,)).basis,
            "expected_loss": mechanism.calibrate((dimension,)),
            "loss_over_analytic": mechanism.calibrate((dimension,))
            / honest.accuracy_loss((dimension,)).mean,
        }
        if not quick:
            row["true_spread_over_published"] = true_spread(dimension, epsilon, delta) / (
                mechanism.calibrate((dimension,)) / sensitivity**2
            )
        rows.append(row)
    return rows


def accuracy(n_draws: int = 2000) -> list[Row]:
    """Moments of the accuracy loss of every mechanism, in closed form and simulated."""
    shape = (30, 30)
    mechanisms: list[AdditiveMechanism] = [
        GaussianMechanism(0.5, 1e-7, 1.0, calibration="classic"),
        GaussianMechanism(0.5, 1e-7, 1.0),
        MatrixGaussianMechanism(0.5, 1e-7, 1.0, calibration="published", norm_bound=30.0),
        RankOneGaussianMechanism(0.99 / math.prod(shape), 1e-7, 1.0),
    ]
    rows: list[Row] = []
    for mechanism in track(mechanisms, "Simulating", len(mechanisms)):
        exact, losses = mechanism.accuracy_loss(shape), mechanism.simulate(shape, n_draws, 1)
        second, third, fourth = (float(np.mean((losses / exact.mean) ** k)) for k in (2, 3, 4))
        rows.append(
            {
                "mechanism": repr(mechanism),
                "mean": exact.mean,
                "simulated_mean": float(losses.mean()),
                "skewness": exact.skewness,
                "kurtosis": exact.kurtosis,
                "raw_skewness": exact.raw_skewness,
                "simulated_raw_skewness": third / second**1.5,
                "raw_kurtosis": exact.raw_kurtosis,
                "simulated_raw_kurtosis": fourth / second**2,
                "beyond_five_means": float(np.mean(losses > 5.0 * exact.mean)),
            }
        )
    return rows


def price(folder: str | Path, quick: bool = False) -> list[Row]:
    """What the rank-one mechanism costs once it keeps its promise, against the analytic one."""
    dimensions = (3, 10, 100, 1000) if quick else (3, 5, 10, 30, 100, 1000, 10_000, 100_000)
    epsilon, deltas = 1.0, (1e-1, 1e-3) if quick else (1e-1, 1e-2, 1e-3, 1e-5)
    cases = [(delta, dimension) for delta in deltas for dimension in dimensions]
    rows: list[Row] = [
        {
            "epsilon": epsilon,
            "delta": delta,
            "dimension": dimension,
            "rank_one_loss": true_spread(dimension, epsilon, delta),
            "analytic_loss": dimension * noise_multiplier(epsilon, delta) ** 2,
        }
        for delta, dimension in track(cases, "Calibrating", len(cases))
    ]
    with plots.style():
        figure, axes = plots.figure()
        for delta in deltas:
            some = [row for row in rows if row["delta"] == delta]
            ratio = [row["rank_one_loss"] / row["analytic_loss"] for row in some]
            axes.loglog([row["dimension"] for row in some], ratio, "o-", label=f"delta = {delta:g}")
        axes.set_xlabel("dimension M")
        axes.set_ylabel("expected loss, rank-one over analytic")
        axes.set_title(f"Both truly ({epsilon:g}, delta)-private")
        figure.legend(loc="outside lower center", ncols=4)
        save(figure, folder, "rank_one_price")
    return write_rows(folder, "rank_one_price", rows)


def run(folder: str | Path, quick: bool = False) -> dict[str, list[Row]]:
    """Write all tables and the figure of the price into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        Fewer points and draws.

    Returns
    -------
    dict of str to list of dict
        The rows of each table.
    """
    tables = {
        "classic": classic(),
        "matrix_variate": matrix_variate(),
        "rank_one": rank_one(quick),
        "accuracy": accuracy(200 if quick else 2000),
    }
    for name, rows in tables.items():
        write_rows(folder, name, rows)
    return {**tables, "rank_one_price": price(folder, quick)}
